//! Answers that are none, or more than we know: 11, unless the call can go on without.

use super::*;

/// A malformed answer to a live call is diagnosed at once, with the rule it breaks.
#[test]
fn a_protocol_violation_is_11() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("violation");
    let log = scratch.file("log");
    odd("both", &log, &[]).exits(11).tells(&[
        "protocol violation",
        "both-outcomes",
        "finding: frame",
        "next: ",
    ]);
    let huge = odd("huge", &log, &[]).exits(11).tells(&["oversize", "next: ask the server for less"]);
    assert!(!huge.stderr.contains("limits.frame_bytes),"), "no option of that name is there: {huge:?}");
    odd("shape", &log, &[]).exits(11).tells(&[
        "shape of its method",
        "delivery: the server had it",
        "finding: ",
    ]);
}

/// An answer that nobody can use ends the call it was meant for at once, with frame, rule, clause and bytes, although it does not
/// say whose it is. The calls have no deadline here: whatever waited would wait for ever.
#[test]
fn answers_without_a_usable_id_end_the_call_at_once() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("unsound");
    // The advice goes by the rule: these cannot be mended.
    let beyond = ["list as id", "no outcome", "cut", "cut, no id", "bytes"];
    for (nth, (manner, rule, bytes)) in [
        ("no id", "reply-without-id", r#"{"jsonrpc": "2.0", "result""#),
        ("null id", "id-null", r#""id": null"#),
        ("other id", "unknown-reply", r#""id": 999"#),
        ("word as id", "unknown-reply", r#""id": "word""#),
        ("list as id", "id-type", r#""id": ["#),
        ("both and no id", "both-outcomes", r#""error":{"code":1"#),
        ("null error", "both-outcomes", r#""error": null"#),
        ("version 1", "version-wrong", r#""jsonrpc": "1.0""#),
        ("no version", "version-missing", r#"{"id": "#),
        ("no outcome", "no-outcome", r#"{"jsonrpc": "2.0", "id": "#),
        ("array", "batch-forbidden", r#"[{"jsonrpc": "2.0""#),
        ("array, no version", "version-missing", r#"[{"id": "#),
        ("array, no id", "reply-without-id", r#"[{"jsonrpc": "2.0", "result""#),
        ("array, word as id", "unknown-reply", r#""id": "word""#),
        ("array, id as text", "id-type-changed", r#"[{"jsonrpc": "2.0", "id": ""#),
        ("nul", "trailing", r"}\x00"),
        ("cut", "syntax", r#""content": [{"type""#),
        ("cut, no id", "syntax", r#"{"jsonrpc":"2.0","result":{"content":["#),
        ("bytes", "not-utf8", r"\xff\xfe"),
    ]
    .into_iter()
    .enumerate()
    {
        for strictness in ["--strict", "--quiet"] {
            let log = scratch.file(&format!("log{nth}{strictness}"));
            let ran = odd(manner, &log, &["--timeout", "0", strictness]).exits(11);
            let ran = ran.tells(&[&format!(": {rule}"), "finding: frame ", "; rule: ", bytes, "next: "]);
            assert_eq!(ran.stderr.contains("try --lenient"), !beyond.contains(&manner), "{manner}: {ran:?}");
        }
    }
}

/// CLI-24: what can be repaired without a doubt is, and that it was is told; what cannot, is not.
#[test]
fn lenience_repairs_and_tells() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("lenient");
    for (manner, rule) in [
        ("no id", "reply-without-id"),
        ("null id", "reply-without-id"),
        ("other id", "unknown-reply"),
        ("word as id", "unknown-reply"),
        ("null error", "both-outcomes"),
        ("version 1", "version-wrong"),
        ("no version", "version-missing"),
        ("array", "batch-forbidden"),
        ("array, no version", "version-missing"),
        ("array, no id", "reply-without-id"),
        ("array, id as text", "id-type-changed"),
        ("nul", "trailing"),
    ] {
        let log = scratch.file(&format!("log {manner}"));
        let ran = odd(manner, &log, &["--timeout", "0", "--lenient"]).exits(0).prints("mended\n");
        ran.tells(&["finding: frame ", rule, "; rule: "]);
    }
    for manner in ["both and no id", "no outcome", "cut", "cut, no id", "bytes"] {
        let log = scratch.file(&format!("log {manner}"));
        odd(manner, &log, &["--timeout", "0", "--lenient"]).exits(11);
    }
}

/// A server that answers notes too, or prints what is no message, does nobody's call any harm; what was printed explains
/// what went wrong otherwise, byte by byte.
#[test]
fn what_is_no_answer_ends_no_call() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("noise");
    odd("answers notes", &scratch.file("notes"), &["--timeout", "0"]).exits(0).prints("fine\n");
    odd("prose", &scratch.file("prose"), &["--timeout", "2"]).exits(12).tells(&[
        "finding: frame ",
        "noise",
        r"recent call last)\x07",
    ]);
    odd("prose", &scratch.file("strict"), &["--timeout", "0", "--strict"])
        .exits(11)
        .tells(&["noise", "or leave --strict away, or say --lenient in its place"]);
    odd("bad list", &scratch.file("list"), &["--strict"]).exits(11).tells(&["leave --strict away"]);
    odd("prose and die", &scratch.file("die"), &[]).exits(13).tells(&["noise: panic!", "exit status: 7"]);
    let chatty = "i=0; while [ $i -lt 40 ]; do echo junk $i; i=$((i+1)); done; exit 3";
    let ran = cardan(&["info", "--json", "--", "sh", "-c", chatty]).exits(13);
    let found = error(&ran)["findings"].as_array().unwrap().clone();
    assert_eq!(found.len(), 5, "{found:?}");
    let has = |nth: usize, text: &str| found[nth].as_str().unwrap().contains(text);
    assert!(has(0, "junk 0") && has(2, "junk 2"), "the first ones say how it began: {found:?}");
    assert!(has(3, "junk 38") && has(4, "junk 39"), "the last ones where it came to: {found:?}");
}

/// CLI-11: a list whose cursor goes round in circles is given up, and said to be.
#[test]
fn a_list_in_circles_is_11() {
    if has_python() {
        let scratch = Scratch::new("circles");
        let log = scratch.file("log");
        let words = [&["list", "tools"][..], &odd_server("circles", &log)].concat();
        cardan(&words).exits(11).tells(&["gave before"]);
        let pages = logged(&log).iter().filter(|message| message["method"] == "tools/list").count();
        assert_eq!(pages, 2, "the cursor came twice");
    }
}

/// CLI-48: what the server has answered was sent, whatever is wrong with the answer or missing for it.
#[test]
fn cli_48_what_was_answered_is_told_as_sent() {
    for era in ["legacy", "modern"] {
        for words in
            [&["ask", "question=who?"], &["visit", "url=https://example.com/x"], &["sample", "prompt=x"]]
        {
            let ran = demo(&[&["call"], &words[..], &["--json", "--era", era]].concat()).exits(14);
            assert_eq!(error(&ran)["delivery"], "sent", "{words:?}: {ran:?}");
        }
    }
    if has_python() {
        let scratch = Scratch::new("answered");
        let log = scratch.file("log");
        for (manner, exit) in [("shape", 11), ("visit", 14)] {
            let error = error(&odd(manner, &log, &["--json"]).exits(exit));
            assert_eq!(error["delivery"], "sent", "{manner}: {error}");
        }
    }
}

/// Members and blocks that nobody knows reach the user as they were written.
#[test]
fn raw_results_keep_what_we_do_not_know() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("extra");
    let log = scratch.file("log");
    let ran = odd("extra", &log, &["--json"]).exits(0);
    assert!(ran.stdout.contains(r#""future": [1, 2]"#), "{ran:?}");
    odd("extra", &log, &[]).exits(0).prints("[hologram, a type of content we do not know; see --json]\n");
}
