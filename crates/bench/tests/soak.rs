//! The soak, small.

use std::process::Command;

/// F11, F16, F28: a crowd over all four transports that breaks off at random: no reply is lost, doubled or foreign, and
/// nothing is left when everyone is gone. `cargo xtask soak` is the same with ten times as many.
#[test]
fn f28_a_small_crowd_leaves_nothing_behind() {
    let soak = Command::new(env!("CARGO_BIN_EXE_cardan-bench"))
        .args(["soak", "--sessions", "200", "--seconds", "2", "--calls", "4000"])
        .output()
        .expect("the soak starts");
    let said = String::from_utf8_lossy(&soak.stdout);
    let errors = String::from_utf8_lossy(&soak.stderr);
    assert!(soak.status.success(), "{said}\n{errors}");
    assert!(said.lines().last().is_some_and(|line| line.ends_with(" 0 violations")), "{said}");
}
