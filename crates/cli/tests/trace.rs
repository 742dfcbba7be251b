//! What passes between us and a server: shown by `--trace`, kept back by `--dry-run`.

mod common;

use common::{CARDAN, Scratch, Serving, cardan, demo, has_python, logged, odd_server};
use serde_json::Value;

/// The messages of a trace, each with its direction, in order.
fn messages(trace: &str) -> Vec<(&str, Value)> {
    let lines = trace.lines().filter_map(|line| {
        let (_, rest) = line.split_once(" ms ")?;
        let (direction, text) = rest.split_once(' ')?;
        Some((direction, serde_json::from_str(text).ok()?))
    });
    lines.collect()
}

fn methods<'a>(messages: &'a [(&str, Value)], direction: &str) -> Vec<&'a str> {
    let of = messages.iter().filter(|(other, _)| *other == direction);
    of.filter_map(|(_, message)| message["method"].as_str()).collect()
}

/// Every message is shown with its direction, calls before their replies, whatever carries them, and the result stays alone
/// on stdout.
#[test]
fn a_trace_has_every_message_both_ways() {
    let served = Serving::start(&[]);
    let url = format!("http://{}/mcp", served.address);
    for (era, opens) in
        [("modern", &["server/discover"][..]), ("legacy", &["initialize", "notifications/initialized"])]
    {
        let wanted = [opens, &["tools/list", "tools/call"]].concat();
        for ran in [
            demo(&["call", "add", "a=1", "b=2", "--trace", "--era", era]),
            cardan(&["call", &url, "add", "a=1", "b=2", "--trace", "--era", era]),
        ] {
            let ran = ran.exits(0).prints("{\"sum\":3}\n");
            let seen = messages(&ran.stderr);
            assert_eq!(methods(&seen, "->"), wanted, "{}", ran.stderr);
            for (at, (_, call)) in seen.iter().enumerate().filter(|(_, (way, _))| *way == "->") {
                let answers = |(way, reply): &&(&str, Value)| *way == "<-" && reply["id"] == call["id"];
                let replies = seen[at..].iter().filter(answers).count();
                assert_eq!(replies, usize::from(call.get("id").is_some()), "{call} in {}", ran.stderr);
            }
        }
    }
}

/// Notes of the server are in the trace too, where they came.
#[test]
fn a_trace_has_notes_in_order() {
    let ran = demo(&["call", "slow", "steps=2", "delay_ms=1", "--trace"]).exits(0);
    let seen = messages(&ran.stderr);
    let call = seen.iter().position(|(_, message)| message["method"] == "tools/call").unwrap();
    let progress: Vec<_> =
        seen[call..].iter().filter(|(_, message)| message["method"] == "notifications/progress").collect();
    assert_eq!(progress.len(), 2, "{}", ran.stderr);
    assert!(seen.last().unwrap().1["result"].is_object(), "{}", ran.stderr);
}

/// What we gave to the server is not shown when it says it back, and nothing that came moves the cursor.
#[test]
fn a_trace_shows_no_secret_and_is_not_obeyed() {
    let secret = "hunter2-hunter2";
    let token = format!("TOKEN={secret}");
    let ran = demo(&["call", "echo", &format!("message={secret}"), "--trace", "--env", &token]).exits(0);
    assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
    assert!(ran.stderr.contains("tools/call"), "{}", ran.stderr);
    if has_python() {
        let scratch = Scratch::new("trace");
        let log = scratch.file("log");
        let ran = cardan(&[&["call", "odd", "--trace"][..], &odd_server("fault", &log)].concat()).exits(10);
        assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
    }
}

/// Bytes that are no text, or that a terminal would obey, can be told from what is shown of them.
#[test]
fn a_trace_tells_foreign_bytes() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("trace-bytes");
    for (manner, code, shown) in [
        ("bytes", 11, r#"[escaped] {"jsonrpc": "2.0", "id": "#),
        ("bytes", 11, r#""text": "\xff\xfe"}]}}"#),
        ("nul", 11, r#""text": "mended"}]}}\x00"#),
        ("prose", 12, r"[escaped] Traceback (most recent call last)\x07"),
    ] {
        let log = scratch.file("log");
        let words = ["call", "odd", "--trace", "--timeout", "2"];
        let ran = cardan(&[&words[..], &odd_server(manner, &log)].concat()).exits(code);
        let traced = ran.stderr.lines().filter(|line| line.contains(" ms <- "));
        assert!(traced.clone().any(|line| line.contains(shown)), "{shown} in {}", ran.stderr);
        assert!(ran.stderr.chars().all(|c| c == '\n' || !c.is_control()), "{}", ran.stderr);
    }
}

/// What a command is for is printed as it would be sent, and the server never sees it.
#[test]
fn a_rehearsal_sends_nothing() {
    let served = Serving::start(&[]);
    let url = format!("http://{}/mcp", served.address);
    for era in ["modern", "legacy"] {
        let ran = cardan(&["call", &url, "count", "--dry-run", "--era", era]).exits(0);
        let frame = ran.json();
        assert_eq!((&frame["method"], &frame["params"]["name"]), (&"tools/call".into(), &"count".into()));
        assert!(frame["params"]["_meta"]["progressToken"].is_number(), "as it would be sent: {frame}");
        assert_eq!(ran.stderr, "");
    }
    cardan(&["call", &url, "count"]).exits(0).prints("1\n");
    for (words, method) in [
        (&["read", "demo://clock"][..], "resources/read"),
        (&["prompt", "greet", "name=Ada"], "prompts/get"),
        (&["list", "prompts"], "prompts/list"),
        (&["raw", "acme/reindex", "{\"all\":true}"], "acme/reindex"),
        (&["complete", "greet", "name=A"], "completion/complete"),
        (&["ping", "--era", "legacy"], "ping"),
        (&["ping", "--era", "modern"], "server/discover"),
        (&["info", "--era", "legacy"], "ping"),
        (&["info", "--era", "modern"], "server/discover"),
        (&["listen", "tools", "--era", "modern"], "subscriptions/listen"),
        (&["listen", "tools", "demo://clock", "--era", "legacy"], "resources/subscribe"),
    ] {
        let frame = demo(&[words, &["--dry-run"]].concat()).exits(0).json();
        assert_eq!(frame["method"], method, "{words:?}");
    }
    // What a legacy server tells unasked needs no message.
    let ran = demo(&["listen", "--dry-run", "--era", "legacy"]).exits(0).prints("");
    ran.tells(&["no message would be sent: the server tells this unasked"]);
}

/// What is shown is to the byte what the server gets when the same is said without `--dry-run`.
#[test]
fn a_rehearsal_shows_what_is_sent() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("rehearsed");
    for (era, manner) in [("legacy", "extra"), ("modern", "modern")] {
        let log = scratch.file(era);
        let words = ["call", "odd", "n=3", "word=käse", "--no-check", "--era", era];
        let server = odd_server(manner, &log);
        let shown = cardan(&[&words[..], &["--dry-run"], &server].concat()).exits(0).stdout;
        assert!(shown.contains("käse") && shown.ends_with('\n'), "{shown}");
        let is_there =
            || std::fs::read_to_string(&log).unwrap().split_inclusive('\n').any(|line| line == shown);
        assert!(!is_there(), "{era}: it was sent");
        cardan(&[&words[..], &server].concat()).exits(0);
        assert!(is_there(), "{era}: {shown} is not in {:#?}", logged(&log));
    }
}

/// Arguments are typed and checked as if they were sent; the server's own log has no call, also over a pipe.
#[test]
fn a_rehearsal_is_checked_like_the_real_thing() {
    demo(&["call", "add", "a=one", "b=2", "--dry-run"]).exits(1).tells(&["/arguments/a"]);
    let frame = demo(&["call", "add", "a=1", "b=2", "--dry-run"]).exits(0).json();
    assert_eq!(frame["params"]["arguments"], serde_json::json!({ "a": 1, "b": 2 }));
    if has_python() {
        let scratch = Scratch::new("rehearsal");
        let log = scratch.file("log");
        let ran =
            cardan(&[&["call", "odd", "n=3", "--dry-run"][..], &odd_server("hang", &log)].concat()).exits(0);
        assert_eq!(ran.json()["params"]["arguments"]["n"], 3);
        let seen = logged(&log);
        assert!(seen.iter().all(|message| message["method"] != "tools/call"), "{seen:?} by {CARDAN}");
    }
}
