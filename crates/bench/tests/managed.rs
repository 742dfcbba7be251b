//! What upkeep costs a call, as counted by `cargo xtask bench core`, on the program as tests are built.

use std::process::Command;

/// A connection that is kept costs a call at most a tenth more than one that is not, by instructions.
#[test]
fn upkeep_costs_a_call_next_to_nothing() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed, so what upkeep costs is not counted");
        return;
    }
    let bench =
        Command::new(env!("CARGO_BIN_EXE_cardan-bench")).arg("managed").output().expect("the bench starts");
    let said = String::from_utf8_lossy(&bench.stdout);
    let errors = String::from_utf8_lossy(&bench.stderr);
    assert!(bench.status.success(), "{said}\n{errors}");
    assert!(said.contains("a managed call to a plain one"), "{said}");
}
