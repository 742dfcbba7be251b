//! What the commands print, against the demo server.

mod common;

use common::{CARDAN, Scratch, cardan, cardan_reading, demo, finish, has_python, odd_server, signal, start};
use serde_json::json;

/// S2-3: the same command in both eras, and the era by choice.
/// CLI-2, CLI-4: a started server of either era, found out or chosen.
#[test]
fn a_call_prints_its_text() {
    for era in ["auto", "legacy", "modern"] {
        demo(&["call", "echo", "message=hi there", "--era", era]).exits(0).prints("hi there\n").tells(&[]);
    }
    assert_eq!(demo(&["call", "echo", "message=hi"]).stderr, "");
}

/// CLI-1: servers of every legacy revision are called, listed and read, whether they answer the probe or die of it.
#[test]
fn cli_1_every_legacy_revision_is_spoken() {
    if !has_python() {
        return;
    }
    const SERVER: &str = r#"
import json, sys
revision = sys.argv[1]
results = {
    "initialize": {"protocolVersion": revision, "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                   "serverInfo": {"name": "old", "version": "1"}},
    "tools/list": {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": revision}]},
    "resources/list": {"resources": [{"uri": "old://it", "name": "it"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": [{"uri": "old://it", "text": revision}]},
    "prompts/list": {"prompts": [{"name": "ask"}]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": revision}}]},
    "ping": {},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method not in results and sys.argv[2] == "dies":
        sys.exit(1)
    answer = {"result": results[method]} if method in results else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"#;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        for manner in ["answers", "dies"] {
            let run = |words: &[&str]| {
                cardan(&[words, &["--", "python3", "-c", SERVER, revision, manner]].concat()).exits(0)
            };
            let told = format!("{revision}\n");
            run(&["call", "say"]).prints(&told);
            run(&["read", "old://it"]).prints(&told);
            let asked = run(&["prompt", "ask"]);
            assert!(asked.stdout.contains(revision), "{asked:?}");
            let listed = run(&["list"]);
            assert!(["say", "old://it", "ask"].iter().all(|name| listed.stdout.contains(name)), "{listed:?}");
            assert_eq!(run(&["info", "--json"]).json()["revision"], revision);
        }
    }
}

/// TOOL-11, TOOL-23: the raw result has the structure, and the same as text.
#[test]
fn json_prints_the_raw_result_on_one_line() {
    let result = demo(&["call", "add", "a=2", "b=3", "--json"]).exits(0).json();
    assert_eq!(result["structuredContent"], json!({ "sum": 5 }));
    assert_eq!(result["content"], json!([{ "type": "text", "text": "{\"sum\":5}" }]));
    demo(&["call", "add", "a=0.5", "b=-1"]).exits(0).prints("{\"sum\":-0.5}\n");
}

/// CLI-21: log notes come from a chosen level on.
#[test]
fn progress_and_log_notes_go_to_stderr() {
    for era in ["legacy", "modern"] {
        demo(&["call", "slow", "steps=3", "delay_ms=1", "--era", era]).exits(0).prints("done\n").tells(&[
            "progress: 1 of 3, step 1 of 3\n",
            "progress: 2 of 3, step 2 of 3\n",
            "progress: 3 of 3, step 3 of 3\n",
        ]);
        demo(&["call", "note", "level=warning", "message=mind", "--era", era])
            .exits(0)
            .prints("noted\n")
            .tells(&["warning: demo: mind\n"]);
        let quiet = ["call", "note", "level=info", "message=mind", "--log-level", "error", "--era", era];
        assert!(!demo(&quiet).exits(0).stderr.contains("mind"));
    }
}

/// CLI-21: a lower level brings what a higher one leaves out, whichever way the era tells the server.
#[test]
fn cli_21_a_lower_level_brings_more() {
    for era in ["legacy", "modern"] {
        for (level, is_told) in [("debug", true), ("info", false), ("error", false)] {
            let words = ["call", "note", "level=debug", "message=mind", "--log-level", level, "--era", era];
            let ran = demo(&words).exits(0).prints("noted\n");
            assert_eq!(ran.stderr.contains("debug: demo: mind\n"), is_told, "{era} {level}: {ran:?}");
        }
    }
}

#[test]
fn content_of_every_kind_is_told() {
    demo(&["call", "picture"]).exits(0).prints("[image, image/png, 98 bytes; save it with --output]\n");
    demo(&["call", "sound"]).exits(0).prints("[audio, audio/wav, 844 bytes; save it with --output]\n");
    demo(&["call", "link"]).exits(0).prints("[link to clock: demo://clock]\n");
    demo(&["call", "embed"]).exits(0).prints("This is page 1.\n");
    assert_eq!(demo(&["call", "big", "bytes=100000"]).exits(0).stdout.len(), 100_001);
}

/// T30: what a server says cannot move the cursor, in any form of output.
#[test]
fn control_characters_are_shown_not_obeyed() {
    demo(&["call", "echo", "message=\u{1b}[2J\u{9b}1m\rx"]).exits(0).prints("\\u{1b}[2J\\u{9b}1m\\u{d}x\n");
    let ran = demo(&["call", "echo", "message=\u{1b}\u{9b}", "--json"]).exits(0);
    assert!(!ran.stdout.trim_end().contains(char::is_control), "{ran:?}");
    assert_eq!(ran.json()["content"][0]["text"], "\u{1b}\u{9b}");
}

/// All pages of every list.
/// CLI-11.
#[test]
fn lists_are_complete() {
    let lists = demo(&["list", "--json"]).exits(0).json();
    let count = |member: &str| lists[member].as_array().unwrap().len();
    assert_eq!((count("tools"), count("resources")), (18, 28));
    assert_eq!((count("resourceTemplates"), count("prompts")), (1, 12));
    let ran = demo(&["list", "tools", "--era", "legacy"]).exits(0);
    assert_eq!(ran.stdout.lines().count(), 18);
    assert!(ran.stdout.contains("add a=<number> b=<number>"), "{ran:?}");
    assert!(ran.stdout.contains("[steps=<integer>]"), "{ran:?}");
    demo(&["list", "prompts"]).exits(0);
    demo(&["list", "tols"]).exits(1).tells(&["did you mean `tools`?"]);
}

/// CLI-10: a server with resources that does not know templates has none of them; who asks for just these is told.
#[test]
fn cli_10_what_a_server_does_not_list_is_empty() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("no-templates");
    let log = scratch.file("log");
    let list = |words: &[&str]| cardan(&[&["list"], words, &odd_server("no templates", &log)].concat());
    let lists = list(&["--json"]).exits(0).json();
    assert_eq!(
        (&lists["resources"][0]["uri"], &lists["resourceTemplates"]),
        (&json!("odd://it"), &json!([]))
    );
    list(&["templates"]).exits(10);
}

/// CLI-10: resources are within reach.
#[test]
fn resources_are_read() {
    demo(&["read", "demo://page/7"]).exits(0).prints("This is page 7.\n");
    demo(&["read", "demo://file/recipe"]).exits(0).prints("Flour, water, salt, time.\n");
    let clock = demo(&["read", "demo://clock", "--json"]).exits(0).json();
    assert_eq!(clock["contents"][0]["mimeType"], "text/plain");
    assert_eq!(clock["contents"][0]["text"].as_str().unwrap().len(), "2000-01-01T00:00:00.000Z".len());
}

/// CLI-10: prompts are within reach.
#[test]
fn prompts_are_filled_in() {
    demo(&["prompt", "greet", "name=Ada"])
        .exits(0)
        .prints("user: Please greet Ada warmly, in one sentence.\n");
    let filled = demo(&["prompt", "greet", "name=Ada", "--json"]).exits(0).json();
    assert_eq!(filled["messages"][0]["role"], "user");
    demo(&["prompt", "greet"]).exits(1).tells(&["/arguments/name"]);
    demo(&["prompt", "greet", "nmae=Ada"]).exits(1).tells(&["did you mean `name`?"]);
    demo(&["prompt", "gret", "name=Ada"]).exits(5).tells(&["did you mean `greet`?"]);
}

#[test]
fn info_tells_era_revision_and_timings() {
    for (era, revision) in [("legacy", "2025-11-25"), ("modern", "2026-07-28")] {
        let info = demo(&["info", "--json", "--era", era]).exits(0).json();
        assert_eq!((info["era"].as_str(), info["revision"].as_str()), (Some(era), Some(revision)));
        assert_eq!(info["server"]["name"], "cardan-demo");
        for capability in ["tools", "resources", "prompts", "completions", "logging"] {
            assert!(info["capabilities"].get(capability).is_some(), "{capability}");
        }
        assert!(info["timings"]["openMs"].as_f64().unwrap() > 0.0);
        assert!(info["timings"]["pingMs"].as_f64().unwrap() > 0.0);
    }
    let ran = demo(&["info"]).exits(0);
    for row in ["server        cardan-demo", "era           modern", "speaks        2026-07-28, 2025-11-25"] {
        assert!(ran.stdout.contains(row), "{row}: {ran:?}");
    }
}

/// CLI-15, CLI-17: answers, consent and roots that are given are enough.
#[test]
fn forms_are_answered_from_the_command_line() {
    for era in ["legacy", "modern"] {
        demo(&["call", "ask", "question=who?", "--answer", "answer=Ada", "--era", era])
            .exits(0)
            .prints("Ada\n");
        demo(&["call", "visit", "url=https://example.com/x", "--accept-urls", "--era", era])
            .exits(0)
            .prints("accepted\n")
            .tells(&["https://example.com/x"]);
        let scratch = Scratch::new("a root");
        let root = scratch.file("..");
        let ran = demo(&["call", "roots", "--root", &root, "--era", era]).exits(0);
        assert!(ran.stdout.starts_with("file:///"), "{ran:?}");
    }
}

/// STD-15, STD-19: the same framing and the same lifecycle on sockets, in both eras, found out or chosen; the
/// address is told, a signal ends the server.
/// CLI-8.
#[test]
fn the_demo_is_reached_by_unix_socket_and_tcp() {
    let scratch = Scratch::new("sockets");
    let path = scratch.file("demo.sock");
    for words in [["demo", "--unix", &path], ["demo", "--tcp", "127.0.0.1:0"]] {
        let mut server = start(&words);
        let mut line = String::new();
        let mut stderr = std::io::BufReader::new(server.stderr.take().unwrap());
        std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ").unwrap();
        for era in ["auto", "legacy", "modern"] {
            cardan(&["call", address, "echo", "message=hi", "--era", era]).exits(0).prints("hi\n");
            let told = cardan(&["info", address, "--era", era, "--json"]).exits(0).json();
            assert_eq!(told["era"], if era == "legacy" { "legacy" } else { "modern" }, "{told}");
        }
        signal(&server, "TERM");
        finish(server).exits(0);
        cardan(&["info", address]).exits(4);
    }
    assert!(!std::path::Path::new(&path).exists(), "the socket is removed");
}

/// F25: whoever closes our stdout has read enough.
#[test]
fn a_broken_pipe_is_success() {
    let mut child = start(&["call", "big", "bytes=4000000", "--", CARDAN, "demo"]);
    drop(child.stdout.take());
    let ran = finish(child).exits(0);
    assert_eq!(ran.stderr, "");
}

/// CLI-46: words, files and stdin.
#[test]
fn arguments_come_from_files_and_stdin() {
    let scratch = Scratch::new("files");
    let file = scratch.file("letter.txt");
    std::fs::write(&file, "two\nlines").unwrap();
    demo(&["call", "echo", &format!("message=@{file}")]).exits(0).prints("two\nlines\n");
    let at_home = std::process::Command::new(CARDAN)
        .args(["call", "echo", "message=@~/letter.txt", "--", CARDAN, "demo"])
        .env("HOME", scratch.file(""))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&at_home.stdout), "two\nlines\n", "{at_home:?}");
    let object = scratch.file("args.json");
    std::fs::write(&object, r#"{"a": 1, "b": 2}"#).unwrap();
    demo(&["call", "add", "--args", &format!("@{object}"), "b=5"]).exits(0).prints("{\"sum\":6}\n");
    let words = ["call", "echo", "--args", "-", "--", CARDAN, "demo"];
    cardan_reading(&words, r#"{"message": "piped"}"#).exits(0).prints("piped\n");
    let words = ["call", "echo", "message=@-", "--", CARDAN, "demo"];
    cardan_reading(&words, "piped").exits(0).prints("piped\n");
}

/// CLI-46: a word says all of its key, whatever `--args` says of it; and what cannot be sent is not read to its end.
#[test]
fn words_replace_what_args_say() {
    let sum =
        |words: &[&str]| demo(&[&["call", "add", "--dry-run", "--no-check"], words].concat()).exits(0).json();
    let arguments = |frame: serde_json::Value| frame["params"]["arguments"].clone();
    let given = sum(&["--args", r#"{"a":[1,2],"b":1}"#, "a:=[3]"]);
    assert_eq!(arguments(given), json!({"a": [3], "b": 1}));
    demo(&["call", "add", "--args", r#"{"a":1,"b":1}"#, "a=2", "--json"]).exits(0).tells(&[]);
    demo(&["prompt", "greet", "--args", r#"{"name":"Ada"}"#]).exits(0);
    let ran = demo(&["prompt", "greet", "--args", r#"{"name":"Ada"}"#, "name=Bob", "--dry-run"]).exits(0);
    assert_eq!(arguments(ran.json()), json!({"name": "Bob"}));
    demo(&["call", "echo", "message=@/dev/zero"]).exits(1).tells(&["longer than a message may be"]);
    demo(&["call", "echo", "--args", "@/dev/zero"]).exits(1).tells(&["longer than a message may be"]);
}

/// Numbers are sent as they were typed, however long they are, and white space between parts is not. What is given twice
/// is a slip, unless it is a list.
#[test]
fn arguments_are_sent_as_they_are_written() {
    let long = "123456789012345678901234567890";
    let sent = |words: &[&str]| demo(&[&["call", "add", "--dry-run"], words].concat()).exits(0).stdout;
    for words in [
        &["a:=1.10", &format!("b={long}")][..],
        &["--args", &format!("{{ \"a\": 1.10,\n\t\"b\": {long} }}")],
        &["--args", &format!("{{\"a\":1,\"b\":{long}}}"), "a=1.10"],
    ] {
        let frame = sent(words);
        assert!(frame.contains(&format!("\"arguments\":{{\"a\":1.10,\"b\":{long}}}")), "{words:?}: {frame}");
    }
    let hash = sent(&["--no-check", "a=1", "b=2", "commit=1234567e8"]);
    assert!(hash.contains("\"commit\":\"1234567e8\""), "{hash}");
    demo(&["call", "add", "a=1", "a=2", "b=3"])
        .exits(1)
        .tells(&["/arguments/a: it is given twice", "give it once"]);
}

/// What is rehearsed is told as what it is.
#[test]
fn a_rehearsal_in_lines_shows_a_frame() {
    let line = demo(&["call", "echo", "message=hi", "--jsonl", "--dry-run"]).exits(0).json();
    assert_eq!((&line["type"], &line["frame"]["method"]), (&json!("frame"), &json!("tools/call")));
}

/// CLI-49: what is advised after a failure can be typed as it stands, and fits what failed.
#[test]
fn cli_49_advice_can_be_followed() {
    let scratch = Scratch::new("advice");
    let config = scratch.file("cardan.toml");
    std::fs::write(&config, format!("[servers.demo]\ncommand = [\"{CARDAN}\", \"demo\"]\n")).unwrap();
    let named = |words: &[&str]| cardan(&[words, &["--config", &config]].concat());
    named(&["read", "demo", "demo://clok"]).exits(5).tells(&["`cardan list demo resources`"]);
    named(&["list", "demo", "resources"]).exits(0);
    demo(&["read", "demo://clok"]).exits(5).tells(&["`cardan list resources -- ", " ...`"]);
    let told = named(&["raw", "demo", "tools/lst"]).exits(10);
    let told = told.tells(&["did you mean `tools/list`?", "`cardan info demo`"]);
    assert!(!told.stderr.contains("arguments"), "{told:?}");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let words = ["call", "add", "a=2", "b=3", "--", CARDAN, "demo"];
    let ran = std::process::Command::new(CARDAN).args(words).stdout(full).output().unwrap();
    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(told.contains("not written") && told.contains("delivery: the server had it"), "{told}");
    for words in [&["--help"][..], &["--version"], &["help", "call"], &["completions", "bash"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = std::process::Command::new(CARDAN).args(words).stdout(full).output().unwrap();
        let told = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.code() == Some(1) && told.contains("not written"), "{words:?}: {told}");
    }
    if !has_python() {
        return;
    }
    let log = scratch.file("log");
    let odd =
        |manner: &str, more: &[&str]| cardan(&[&["call", "odd"], more, &odd_server(manner, &log)].concat());
    odd("both", &[]).exits(11).tells(&["try --lenient"]);
    let told = odd("both", &["--lenient"]).exits(11).stderr;
    assert!(told.contains("report it") && !told.contains("--lenient"), "{told}");
    let told = odd("wordless", &[]).exits(5).stderr;
    assert!(told.contains("failed without a word") && !told.contains("stdout"), "{told}");
}

/// S1-C5: a password in an address is not repeated, and it is said where it belongs; what else is wrong is told by itself.
#[test]
fn a_password_does_not_belong_in_an_address() {
    for address in ["http://user:pa55@host/mcp", "https://pa55@host/mcp", "http://u:pa55@host"] {
        let ran = cardan(&["info", address]).exits(1).tells(&["[redacted]@host", "--header"]);
        assert!(!ran.stderr.contains("pa55"), "{ran:?}");
    }
    cardan(&["info", "http://host:99999/mcp"]).exits(1).tells(&["port is no number below 65536"]);
    cardan(&["info", "http://h%st/mcp"]).exits(1).tells(&["names no plain host"]);
}

/// CLI-46: where a server proposes nothing because there is no such prompt, template or argument, that is said.
#[test]
fn what_cannot_be_completed_is_not_found() {
    demo(&["complete", "gret", "name=A"]).exits(5).tells(&["no prompt `gret`", "did you mean `greet`?"]);
    demo(&["complete", "greet", "nme=A"]).exits(5).tells(&["no argument `nme`", "did you mean `name`?"]);
    demo(&["complete", "demo://fle/{name}", "name="])
        .exits(5)
        .tells(&["no template", "did you mean `demo://file/{name}`?"]);
    demo(&["complete", "greet", "name=zzzz"]).exits(0).prints("");
}

/// CLI-49: a program that only sends back what it is sent is told as that, at once.
#[test]
fn an_echo_is_no_server() {
    for era in ["auto", "legacy", "modern"] {
        cardan(&["list", "--era", era, "--", "cat"])
            .exits(11)
            .tells(&["sends back what it is sent", "cardan demo"]);
    }
}
