//! Answers that nobody can use, through a daemon.

use super::*;

/// CLI-31, F16: an answer that does not say whose it is ends the only call there is, at once and with the same diagnosis as without a
/// daemon. The calls have no deadline here: whatever waited would wait for ever.
#[test]
fn an_answer_without_a_usable_id_is_told_as_it_would_be_without() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("warm-unsound");
    for (nth, (manner, rule, bytes)) in [
        ("no id", "reply-without-id", r#"{"jsonrpc": "2.0", "result""#),
        ("null id", "id-null", r#""id": null"#),
        ("other id", "unknown-reply", r#""id": 999"#),
        ("word as id", "unknown-reply", r#""id": "word""#),
        ("both and no id", "both-outcomes", r#""error":{"code":1"#),
        ("cut", "syntax", r#""content": [{"type""#),
        ("cut, no id", "syntax", r#"{"jsonrpc":"2.0","result":{"content":["#),
        ("bytes", "not-utf8", r"\xff\xfe"),
        ("both", "both-outcomes", r#""message": "both""#),
        ("pretty", "split", r#"{\n"#),
    ]
    .into_iter()
    .enumerate()
    {
        let log = scratch.file(&format!("log{nth}"));
        let config = odd(manner, &log).replace(&format!("[servers.{manner}]"), "[servers.odd]");
        let world = World::new(&format!("unsound{nth}"), &config);
        let run = |how| {
            let ran = world.run(&["call", "odd", "odd", "--timeout", "0", how]).exits(11);
            let ran = ran.tells(&[&format!(": {rule}"), "finding: frame ", "; rule: ", bytes, "next: "]);
            // A session that is kept has seen other frames before.
            ran.stderr
                .lines()
                .filter(|line| !line.trim_start().starts_with("finding: "))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let cold = run("--no-daemon");
        // When the first comes the server's lists may be on their way; when the next does, nothing else is.
        assert_eq!(run("--daemon"), cold, "{manner}");
        assert_eq!(run("--daemon"), cold, "{manner}");
        world.pid();
    }
}

/// CLI-31, F16: what a server printed that is no message explains a timeout, warm or cold.
#[test]
fn what_is_no_message_explains_a_timeout() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("warm-prose");
    let world = World::new("prose", &odd("prose", &scratch.file("log")));
    for how in ["--no-daemon", "--daemon"] {
        let ran = world.run(&["call", "prose", "odd", "--timeout", "2", how]).exits(12);
        ran.tells(&["finding: frame ", "noise", r"recent call last)\x07"]);
    }
    world.pid();
}

/// CLI-31: a server that does not start says why by itself, so that no more is said of the daemon.
#[test]
fn a_server_that_does_not_start_is_told_as_it_would_be_without() {
    let world = World::new("broken", "[servers.broken]\ncommand = \"false\"\n");
    let told = |how| world.run(&["call", "broken", "x", how]).exits(13).stderr;
    assert_eq!(told("--daemon"), told("--no-daemon"));
    assert_eq!(world.daemons().len(), 1, "it was asked");
}
