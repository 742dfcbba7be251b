//! What a server does wrong is told: which frame, which rule, which bytes, and what to do about it.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use common::{ODD, Ran, Scratch, cardan, has_python, logged, odd_server};
use serde_json::Value;

const ODD_HTTP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/odd_http.py");

/// A server over HTTP that misbehaves as told, until it is dropped.
struct Odd {
    url: String,
    child: Child,
}

impl Odd {
    fn start(manner: &str) -> Self {
        let mut command = Command::new("python3");
        let mut child = command.args([ODD_HTTP, manner]).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { url: url.trim_end().to_owned(), child }
    }

    /// Nobody waits here for what does not come: the calls have no deadline.
    fn call(&self, words: &[&str]) -> Ran {
        cardan(&[&["call", &self.url, "odd", "--era", "legacy", "--timeout", "0"], words].concat())
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with(words: &[&str], manner: &str, log: &str) -> Ran {
    cardan(&[words, &["--era", "legacy"], &odd_server(manner, log)].concat())
}

/// TOOL-1, F16: an entry that is listed badly is told where it is listed and where it is wanted, and keeps nobody from its
/// neighbours.
#[test]
fn a_badly_listed_entry_harms_only_itself() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("listed");
    let log = scratch.file("log");
    with(&["call", "odd"], "bad list", &log).exits(0).prints("fine\n");
    with(&["prompt", "fine"], "bad list", &log).exits(0).prints("user: hi\n");
    let told = [
        "missing field `inputSchema`",
        "finding: frame ",
        "result-shape (call ",
        r#"in {"name": "noschema"}"#,
        "; rule: a result has the shape that the schema gives its method",
    ];
    let ran = with(&["call", "noschema"], "bad list", &log).exits(11).tells(&told);
    ran.tells(&["tool noschema", "the server did not run it", "next: ", "--no-check"]);
    let calls = logged(&log).iter().filter(|message| message["method"] == "tools/call").count();
    assert_eq!(calls, 1, "what cannot be checked is not sent");
    with(&["call", "noschema", "n=1", "--no-check"], "bad list", &log).exits(0).prints("fine\n");
    with(&["prompt", "bad"], "bad list", &log).exits(11).tells(&[
        "prompt bad",
        "finding: frame ",
        "result-shape",
    ]);
    // Who lists is told, and who is strict is kept from it.
    let listed = with(&["list", "tools"], "bad list", &log).exits(0).tells(&told);
    assert!(listed.stdout.contains("noschema") && listed.stdout.contains("odd"), "{listed:?}");
    with(&["call", "odd", "--strict"], "bad list", &log).exits(11).tells(&told[1..]);
}

/// CLI-3, CLI-48: a server that does not know how the chosen era opens a session is no reason to look at its arguments.
#[test]
fn the_wrong_era_is_told_as_that() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("wrong-era");
    let log = scratch.file("log");
    let words = [&["call", "odd", "--era", "modern"][..], &odd_server("plain", &log)].concat();
    let told =
        ["refused the handshake", "code: -32601", "next: the server may be of the other era: leave --era"];
    cardan(&words).exits(10).tells(&told);
}

/// TOOL-1, F16: so it is in a fleet, whose state tells how many entries are listed badly and what is wrong with the first; one that has
/// not even a name does not take its list along.
#[test]
fn a_fleet_tells_what_is_listed_badly() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("listed-fleet");
    let (log, config) = (scratch.file("log"), scratch.file("cardan.toml"));
    let server = |name: &str| {
        format!("[servers.{name}]\ncommand = 'python3'\nargs = ['{ODD}', '{name} list', '{log}']\n")
    };
    fs::write(&config, server("bad") + &server("good")).unwrap();
    let servers = |more: &[&str]| cardan(&[&["servers", "--wait", "60", "--config", &config], more].concat());
    let told = "tools/list: /tools/0: missing field `inputSchema`";
    let ran = servers(&["--json"]).exits(0).json();
    let (bad, good) = (&ran["servers"][0], &ran["servers"][1]);
    assert_eq!((&bad["name"], &good["misshapen"]), (&"bad".into(), &Value::Null), "{ran}");
    assert_eq!(bad["misshapen"]["count"], 3, "a tool and two prompts: {ran}");
    assert!(bad["misshapen"]["first"].as_str().unwrap().starts_with(told), "{ran}");
    let ran = servers(&[]).exits(0);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert!(lines[1].contains(&format!("  3 entries are listed badly: {told}")), "{ran:?}");
    assert!(!lines[2].contains("badly"), "{ran:?}");
    let found = cardan(&["prompt", "bad", "fine", "--config", &config]).exits(0);
    assert_eq!(found.stdout, "user: hi\n");
}

/// CLI-24, F16: a result without the shape of its method is told with its frame, its rule and its bytes; only --strict ends for
/// one that can be used all the same.
#[test]
fn a_misshapen_result_is_told_with_its_frame() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("misshapen");
    let log = scratch.file("log");
    let told = ["finding: frame ", "result-shape (call ", "; rule: a result has the shape"];
    let ran = with(&["call", "odd"], "shape", &log).exits(11).tells(&told);
    ran.tells(&["not a list", r#""result": {"content""#, "next: see it as it is with --json"]);
    with(&["call", "odd"], "bare", &log).exits(0);
    with(&["call", "odd", "-v"], "bare", &log).exits(0).tells(&told).tells(&["missing field `content`"]);
    with(&["call", "odd", "--strict"], "bare", &log)
        .exits(11)
        .tells(&told)
        .tells(&["missing field `content`"]);
}

/// CLI-48: who does not answer the handshake and says something else is not only slow.
#[test]
fn a_handshake_that_is_no_message_is_not_only_late() {
    for (script, told, next) in [
        (
            r#"printf '{"jsonrpc":"2.0","id":1'; exec sleep 100"#,
            "unterminated",
            "a message ends with a newline",
        ),
        ("echo starting up; exec sleep 100", "noise", "what came is no message"),
    ] {
        for era in ["auto", "legacy"] {
            let words = ["info", "--timeout", "5", "--era", era, "--", "sh", "-c", script];
            let ran = cardan(&words).exits(12).tells(&[told, "next: see the finding", next]);
            assert!(!ran.stderr.contains("allow a slow one more time"), "{ran:?}");
        }
    }
    let silent = ["info", "--timeout", "1", "--", "sleep", "100"];
    cardan(&silent).exits(12).tells(&["allow a slow one more time with --timeout"]);
}

/// TOOL-10, CLI-24: a structured result that does not fit the tool's output schema is printed and told, and ends --strict.
#[test]
fn a_result_that_breaks_its_promise_is_told() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("promises");
    let log = scratch.file("log");
    let rule = "; rule: a structured result fits the output schema of its tool (tools)";
    let cases = [
        ("promises wrong", "/structuredContent/sky/degrees: value is not of type \"integer\""),
        ("promises nothing", "/structuredContent: is missing, and the tool has an output schema"),
    ];
    for (manner, flaw) in cases {
        let told = format!("finding: output-schema: {flaw}{rule}");
        let ran = with(&["call", "odd"], manner, &log).exits(0).prints("3 degrees\n");
        assert_eq!(ran.stderr, format!("{told}\n"));
        for more in ["--lenient", "--verbose"] {
            let ran = with(&["call", "odd", more], manner, &log).exits(0).prints("3 degrees\n");
            assert_eq!(ran.stderr.matches(&told).count(), 1, "{ran:?}");
        }
        let ran = with(&["call", "odd", "--strict"], manner, &log).exits(11).prints("3 degrees\n");
        assert_eq!(ran.stderr.matches("output-schema").count(), 1, "{ran:?}");
        ran.tells(&[
            &told,
            "the result of tool odd does not fit its output schema",
            "delivery: the server had it",
            "or leave --strict away",
        ]);
        let ran = with(&["call", "odd", "--jsonl"], manner, &log).exits(0);
        let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["type"], &lines[1]["type"]), (&"finding".into(), &"result".into()), "{ran:?}");
        assert_eq!((&lines[0]["rule"], &lines[0]["frame"]), (&"output-schema".into(), &Value::Null));
        assert_eq!(with(&["call", "odd", "--no-check"], manner, &log).exits(0).stderr, "");
    }
    assert_eq!(with(&["call", "odd", "--strict"], "promises fine", &log).exits(0).stderr, "");
    let failed = with(&["call", "odd", "--strict"], "promises nothing but failure", &log).exits(5);
    assert!(!failed.stderr.contains("output-schema"), "a failure promises nothing: {failed:?}");
    // Who cannot be checked breaks no promise.
    for (manner, why) in [
        ("promises nonsense", "the output schema: "),
        ("promises masses", "/structuredContent is too large for its schema"),
        ("promises infinity", "/structuredContent: number out of range"),
    ] {
        let ran = with(&["call", "odd", "--strict"], manner, &log).exits(0);
        ran.tells(&["the result was not checked: ", why, "(tool odd)"]);
    }
}

/// F16: an answer with line breaks inside ends its call at once, and so does one that is cut; the calls have no deadline here. What
/// waits is told by its first lines, which explain it.
#[test]
fn an_answer_in_several_lines_is_told_at_once() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("pretty");
    let log = scratch.file("log");
    let call = |manner: &str, timeout: &str| with(&["call", "odd", "--timeout", timeout], manner, &log);
    for manner in ["pretty", "pretty, no id"] {
        call(manner, "0").exits(11).tells(&[": split", "finding: frame ", "one message per line", r#"{\n"#]);
    }
    call("cut in a name", "0").exits(11).tells(&[": syntax", "\"resu; rule: "]);
    call("cut early", "0").exits(11).tells(&[": split", r#"{"jsonrpc":"2.0","id":"#]);
    let ran = call("chatter", "2").exits(12).tells(&["line 0;", "line 2;", "line 38;", "line 39;"]);
    assert!(!ran.stderr.contains("line 3;"), "{ran:?}");
    ran.tells(&["next: see the findings"]);
    // Long lines are told apart by how they begin.
    call("huge, no id", "0").exits(11).tells(&["oversize"]);
    call("huge prose", "3").exits(12).tells(&["oversize", "next: see the findings"]);
}

/// F16: an answer with text before it in its line, or whose line does not end, ends its call at once, whoever called; the calls have no
/// deadline here. Who is lenient gets it, and who waits for what is cut is told what there is.
#[test]
fn an_answer_inside_of_a_line_is_told_at_once() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("inside");
    let log = scratch.file("log");
    let call = |manner: &str, words: &[&str]| with(&[&["call", "odd"], words].concat(), manner, &log);
    for (manner, rule, bytes) in [
        ("tagged", "noise (call ", "[INFO] {\"jsonrpc\""),
        ("prompted", "noise (call ", "> {\"jsonrpc\""),
        ("coloured", "noise (call ", "\\x1b[0m{\"jsonrpc\""),
        ("marked", "noise (call ", "\\u{feff}{\"jsonrpc\""),
        ("endless", "unterminated (call ", "{\"jsonrpc\""),
    ] {
        let told = ["finding: frame ", rule, bytes, "; rule: "];
        call(manner, &["--timeout", "0"]).exits(11).tells(&told);
        call(manner, &["--timeout", "0", "--lenient"]).exits(0).prints("mended\n");
    }
    for (manner, rule) in
        [("greets tagged", "only messages go to stdout"), ("greets endless", "ends with a newline")]
    {
        call(manner, &["--timeout", "60"]).exits(11).tells(&["finding: frame ", rule, "protocolVersion"]);
    }
    // What is printed before it is sent is sent all the same.
    call("echoed", &[]).exits(0).prints("mended\n");
    let told =
        ["unterminated: ", "bytes, and no newline after them", "\"content\"", "next: see the findings"];
    call("endless and cut", &["--timeout", "10"]).exits(12).tells(&told);
    call("greets endless and cut", &["--timeout", "10"]).exits(12).tells(&told[..2]);
}

/// S0-84, F16: over HTTP, too, what comes in place of an answer is a violation, with the rule that holds there; and an answer that never
/// comes is not waited for.
#[test]
fn what_is_no_answer_over_http_is_11() {
    if !has_python() {
        return;
    }
    for (manner, told) in [
        ("cut event", &["syntax", "\"resu", "(RFC 8259)"][..]),
        ("no event", &["syntax", "oops", "(RFC 8259)"]),
        ("half an event", &["ended without the reply", "broken-event", "no-reply", "\"resu"]),
        ("empty stream", &["ended without the reply", "no-reply (call "]),
        ("empty", &["(200 OK) ended without the reply", "no-reply (call "]),
        ("accepted", &["(202 Accepted) ended without the reply", "no-reply (call "]),
    ] {
        let odd = Odd::start(manner);
        let ran =
            odd.call(&[]).exits(11).tells(told).tells(&["finding: frame ", "; rule: ", "next: report it"]);
        assert!(!ran.stderr.contains("stdio"), "{manner}: {ran:?}");
    }
    Odd::start("pushed").call(&[]).exits(0).prints("fine\n");
    Odd::start("page").call(&[]).exits(4).tells(&["text/html", "Log in"]);
}

/// S0-60: who is turned away for now is told when to come again.
#[test]
fn a_busy_server_says_when_to_come_again() {
    if !has_python() {
        return;
    }
    let busy = Odd::start("busy");
    busy.call(&[]).exits(4).tells(&[
        "429",
        "slow down",
        "in 7 s",
        "next: the server is busy: try again in 7 s",
    ]);
    let told: Value = serde_json::from_str(&busy.call(&["--json"]).exits(4).stderr).unwrap();
    assert_eq!(told["error"]["delivery"], "not_sent", "{told}");
    Odd::start("down").call(&[]).exits(4).tells(&["503", "next: the server is busy: try again in a while"]);
}
