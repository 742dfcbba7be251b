//! What a configured server asks its user for.

use crate::common::pty::{CTRL_C, CTRL_D, Pty};
use crate::common::{CARDAN, Scratch};

/// CLI-37: what neither a variable nor a default answers is asked for, hidden where it is a secret; Ctrl-D leaves it open.
#[test]
fn cli_37_inputs_are_asked_for() {
    let scratch = Scratch::new("inputs");
    let config = scratch.file("cardan.toml");
    let script = format!(r#"test "$KEY of $WHO" = "hunter2 of Ada" && exec {CARDAN} demo"#);
    let env = "env = { KEY = '${input:key}', WHO = '${input:who}', MODE = '${input:mode}' }";
    let inputs = "[inputs.key]\ndescription = 'Key of the tracker'\npassword = true\n[inputs.mode]\ndefault = 'read'\n";
    let server = format!("[servers.s]\ncommand = 'sh'\nargs = ['-c', '{script}']\n{env}\n");
    std::fs::write(&config, format!("{inputs}{server}")).unwrap();
    let words = ["call", "s", "echo", "message=all is well", "--config", &config];
    let start = || Pty::new(200).start(&words);

    let mut seat = start();
    seat.sees("server s asks for 2 values").sees("key (text)").sees("| Key of the tracker").sees("key: ");
    assert!(!seat.modes().0, "a secret is hidden");
    seat.types("hunter2\r")
        .sees("who (text)")
        .sees("who: ")
        .types("\r")
        .sees("who: ")
        .types("Ada\r")
        .sees("all is well");
    let shown = seat.end().exits(0).written();
    assert!(!shown.contains("hunter2") && !shown.contains("mode"), "{shown}");

    let answered =
        Pty::new(200).env("CARDAN_INPUT_KEY", "hunter2").env("CARDAN_INPUT_WHO", "Ada").run(&words);
    assert!(!answered.exits(0).written().contains("asks for"), "nobody is asked for what is known");

    let mut seat = start();
    seat.sees("key: ").types("hunter2\r").sees("who: ").types(CTRL_D);
    seat.sees("the input `who` has no answer").sees("CARDAN_INPUT_WHO");
    seat.end().exits(1);
    let mut seat = start();
    seat.sees("key: ").types(CTRL_C);
    assert!(seat.end().exits(130).modes.0, "what is typed is shown again");
    let silent = Pty::new(200).run(&[&words[..], &["--no-input"]].concat()).exits(1).written();
    assert!(silent.contains("has no answer") && !silent.contains("asks for"), "{silent}");
}
