//! `--jsonl`: everything that happens, a tagged line each.

use std::io::{BufRead, BufReader};

use serde_json::{Value, json};

use super::common::pty::Pty;
use super::common::{Ran, Scratch, Serving, cardan, demo, finish, has_python, signal, start};
use super::server;

fn lines(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().unwrap()).collect()
}

/// CLI-12, CLI-21: progress, notes and the result, in the order in which they came.
#[test]
fn everything_is_told_in_its_order() {
    if !has_python() {
        return;
    }
    let ran = cardan(&[&["call", "steps", "--jsonl"][..], &server("neat")].concat()).exits(0);
    let all = lines(&ran);
    let order = ["log", "progress", "progress", "progress", "log", "change", "result"];
    assert_eq!(types(&all), order, "{ran:?}");
    assert_eq!(all[0], json!({ "type": "log", "level": "warning", "logger": "disk", "data": "nearly full" }));
    assert_eq!(all[2], json!({ "type": "progress", "progress": 2.0, "total": 3.0, "message": "step 2" }));
    assert_eq!(all[4]["data"], json!({ "text": "full" }));
    assert_eq!(all[5], json!({ "type": "change", "changed": "tools" }));
    assert_eq!(all[6]["result"]["content"][0]["text"], "done");
    assert!(ran.stdout.starts_with("{\"type\":\"log\","), "the type is first: {ran:?}");
    assert_eq!(ran.stderr, "");
}

/// CLI-48, CLI-49: a failure is the last line, and on stderr as ever.
#[test]
fn a_failure_is_the_last_line() {
    let ran = demo(&["call", "panic", "--jsonl"]).exits(10);
    let all = lines(&ran);
    assert_eq!(all.last().unwrap()["type"], "error");
    assert_eq!(all.last().unwrap()["error"]["code"], -32603);
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(told["error"], all.last().unwrap()["error"]);
    let ran = demo(&["call", "fail", "message=no", "--jsonl"]).exits(5);
    assert_eq!(types(&lines(&ran)), ["result", "error"]);
    let ran = demo(&["read", "demo://page/7", "--jsonl"]).exits(0);
    assert_eq!(lines(&ran)[0]["result"]["contents"][0]["text"], "This is page 7.");
    demo(&["prompt", "greet", "name=Ada", "--jsonl"]).exits(0);
    demo(&["call", "echo", "message=x", "--json", "--jsonl"]).exits(1);
}

/// CLI-24: what deviates is told where it happens.
#[test]
fn findings_are_told() {
    if !has_python() {
        return;
    }
    let ran = cardan(&[&["call", "bytes", "--jsonl", "--strict"][..], &server("neat")].concat());
    let all = lines(&ran);
    let finding = all.iter().find(|line| line["type"] == "finding");
    assert!(finding.is_some_and(|finding| finding["rule"].is_string()), "{ran:?}");
}

/// CLI-15, CLI-48: every ask that is refused has its line: one that cannot be read, two that nobody offered to answer, one that nobody
/// answers.
#[test]
fn refused_asks_are_told() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("refused-asks");
    let name =
        json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let script = json!({ "asks": [
        { "method": "elicitation/create", "params": { "message": "Who?", "requestedSchema": 5 } },
        { "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 5 } },
        { "method": "roots/list" },
        { "method": "elicitation/create", "params": { "message": "Who?", "requestedSchema": name } },
    ]});
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/asking_server.py");
    let words = ["call", "go", "--jsonl", "--no-input", "--", "python3", server];
    let ran = cardan(&[&words[..], &[&scratch.file("log"), &script.to_string()]].concat()).exits(14);
    let all = lines(&ran);
    let refused: Vec<_> = all.iter().filter(|line| line["type"] == "refused").collect();
    let told = [
        ("elicitation/create", "params: invalid type: integer `5`"),
        ("sampling/createMessage", "nobody offered to answer it"),
        ("roots/list", "nobody offered to answer it"),
        ("elicitation/create", "the server asks: Who?; nobody is here to answer"),
    ];
    assert_eq!(refused.len(), told.len(), "{ran:#?}");
    for (line, (method, why)) in refused.iter().zip(told) {
        assert_eq!(line["method"], method, "{ran:#?}");
        assert!(line["why"].as_str().unwrap().starts_with(why), "{why}: {ran:#?}");
    }
    assert_eq!(types(&all).last(), Some(&"error"));
}

/// CLI-20: changes are tagged too, once each, in either era.
#[test]
fn changes_are_told() {
    let serving = Serving::start(&[]);
    let address = format!("http://{}/mcp", serving.address);
    for era in ["legacy", "modern"] {
        let mut child = start(&["listen", &address, "tools", "demo://clock", "--era", era, "--jsonl"]);
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        assert_eq!(stderr.next().unwrap().unwrap(), "listening to tools, demo://clock");
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        for (what, line) in [
            ("tools", r#"{"type":"change","changed":"tools"}"#),
            ("demo://clock", r#"{"type":"change","changed":"resource","uri":"demo://clock"}"#),
        ] {
            cardan(&["call", &address, "change", &format!("what={what}")]).exits(0);
            assert_eq!(stdout.next().unwrap().unwrap(), line);
        }
        signal(&child, "INT");
        finish(child).exits(0);
        assert!(stdout.next().is_none());
    }
}

/// CLI-20, SUB-6: what a modern server sends on a listen is told as it spells it: it says itself which listen it means.
#[test]
fn a_change_that_is_spelled_otherwise_is_told() {
    if !has_python() {
        return;
    }
    let odd = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/odd_server.py");
    let words =
        ["listen", "file:///tmp/x", "--json", "--era", "modern", "--", "python3", odd, "modern", "/dev/null"];
    let ran = cardan(&words);
    assert_eq!(ran.stdout, "{\"changed\":\"resource\",\"uri\":\"file:///private/tmp/x\"}\n", "{ran:?}");
}

/// CLI-20: a listen tells everything in the order of the wire, and the same things in either form: nothing that nobody listens to.
#[test]
fn a_listen_is_told_in_its_order() {
    if !has_python() {
        return;
    }
    let words = ["listen", "tools", "look://page"];
    let ran = cardan(&[&words[..], &["--jsonl"], &server("bursts")].concat()).exits(13);
    let all = lines(&ran);
    // What deviates is told in text where it is asked for, with `--verbose`.
    let told: Vec<_> = all
        .iter()
        .filter(|line| line["type"] != "finding")
        .map(|line| match line["type"].as_str().unwrap() {
            "log" => line["data"].as_str().unwrap(),
            "change" => line["changed"].as_str().unwrap(),
            "note" => line["method"].as_str().unwrap(),
            other => other,
        })
        .collect();
    let note = "notifications/vendor/weather";
    let order = ["first", "second", "tools", "third", "resource", note, "tools", "last", "error"];
    assert_eq!(told, order, "{ran:#?}");
    let shown = Pty::new(80).run(&[&words[..], &server("bursts")].concat());
    let text = String::from_utf8(shown.bytes).unwrap().replace("\r\x1b[2K", "");
    let told: Vec<_> = text.lines().take_while(|line| !line.contains("cardan: ")).map(plain).collect();
    let note = "note: notifications/vendor/weather {\"sky\": \"clear\"}";
    let changed = "resource changed: look://page";
    let (listening, tools) = ("listening to tools, look://page", "tools changed");
    let order =
        ["info: first", listening, "info: second", tools, "info: third", changed, note, tools, "info: last"];
    assert_eq!(told, order, "{text}");
}

/// CLI-21: who listens is told log notes from the chosen level on, whichever way the era tells the server; without one from info on.
#[test]
fn cli_21_a_listen_has_its_level() {
    if !has_python() {
        return;
    }
    let levels = ["debug", "info", "warning", "error"];
    for era in ["legacy", "modern"] {
        for (chosen, first) in [(None, 1), (Some("debug"), 0), (Some("info"), 1), (Some("error"), 3)] {
            let level = chosen.map(|level| ["--log-level", level]);
            let words = ["listen", "look://page", "--era", era];
            let words =
                [&words[..], level.as_ref().map_or(&[][..], |words| &words[..]), &server("levels")].concat();
            let ran = cardan(&words).exits(13);
            let told: Vec<_> = ran.stderr.lines().filter_map(|line| line.strip_suffix(": told")).collect();
            assert_eq!(told, levels[first..], "{era} {chosen:?}: {ran:#?}");
        }
    }
}

/// A line of a terminal without colours.
fn plain(line: &str) -> String {
    let mut parts = line.trim_end().split("\x1b[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |line, part| line + part.split_once('m').unwrap().1)
}
