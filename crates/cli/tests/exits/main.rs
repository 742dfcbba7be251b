//! Every exit code, provoked; and what is told with it.

mod answers;
#[path = "../common/mod.rs"]
mod common;
mod usage;

use std::io::{Read as _, Write as _};

use common::{CARDAN, ODD, Scratch, Serving, cardan, demo, has_python, logged, odd_server};
use serde_json::{Value, json};

fn odd(manner: &str, log: &str, words: &[&str]) -> common::Ran {
    cardan(&[&["call", "odd"], words, &odd_server(manner, log)].concat())
}

fn error(ran: &common::Ran) -> Value {
    serde_json::from_str::<Value>(&ran.stderr).expect("one line of JSON")["error"].clone()
}

#[test]
fn unreachable_is_4() {
    cardan(&["info", "--", "cardan-no-such-server"]).exits(4).tells(&["cardan-no-such-server", "PATH"]);
    cardan(&["info", "unix:///nowhere/demo.sock"]).exits(4).tells(&["/nowhere/demo.sock"]);
    cardan(&["info", "tcp://127.0.0.1:1"]).exits(4).tells(&["127.0.0.1:1"]);
    demo(&["info", "--cwd", "/nowhere"]).exits(4).tells(&["/nowhere"]);
}

/// CLI-48: a bare socket that leads to HTTP is told as that, whether what answers has a head or not.
#[test]
fn http_behind_a_bare_socket_is_told() {
    let serving = Serving::start(&[]);
    let bare = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let old = bare.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in bare.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"<!DOCTYPE HTML>\n<html lang=\"en\">\n<title>no</title>\n</html>\n");
        }
    });
    for address in [serving.address.as_str(), &old] {
        for era in ["auto", "legacy"] {
            let ran = cardan(&["info", &format!("tcp://{address}"), "--era", era]).exits(13);
            ran.tells(&[&format!("next: HTTP is spoken there: try http://{address}/mcp\n")]);
        }
    }
    let closing = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", closing.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in closing.incoming() {
            let _ = stream.unwrap().read(&mut [0; 4096]);
        }
    });
    let ran = cardan(&["info", &address, "--era", "legacy"]).exits(13);
    assert!(!ran.stderr.contains("the command by hand"), "nobody started one: {ran:?}");
}

/// S2-44, S0-60, S0-12: for programs each failure has its class, where it happened and whether anything was sent; and
/// there is something to do about each.
#[test]
fn s2_44_classes_are_told_to_programs() {
    let nobody = |scheme: &str| format!("{scheme}://127.0.0.1:1/mcp");
    let unknown = |scheme: &str| format!("{scheme}://cardan-test.invalid:1/mcp");
    let (http, ws, far_http, far_ws) = (nobody("http"), nobody("ws"), unknown("http"), unknown("ws"));
    type Row<'a> = (&'a [&'a str], u8, &'a str, Option<&'a str>, &'a str);
    let rows: [Row<'_>; 15] = [
        (&["info", "http://user@localhost/mcp"], 1, "config", None, "not_sent"),
        (&["info", "weather"], 1, "config", None, "not_sent"),
        (&["info", &far_http], 4, "dns", Some("resolve"), "not_sent"),
        (&["info", &far_ws], 4, "dns", Some("resolve"), "not_sent"),
        (&["info", "tcp://cardan-test.invalid:1"], 4, "dns", Some("resolve"), "not_sent"),
        (&["info", &http], 4, "connect", Some("connect"), "not_sent"),
        (&["info", &ws], 4, "connect", Some("connect"), "not_sent"),
        (&["info", "tcp://127.0.0.1:1"], 4, "connect", Some("connect"), "not_sent"),
        (&["info", "unix:///nowhere/demo.sock"], 4, "connect", Some("connect"), "not_sent"),
        (&["info", "--", "cardan-no-such-server"], 4, "spawn", Some("connect"), "not_sent"),
        (&["info", "--cwd", "/nowhere", "--", CARDAN, "demo"], 4, "spawn", Some("connect"), "not_sent"),
        (
            &["info", "--timeout", "0.3", "--", "sleep", "60"],
            12,
            "timeout_total",
            Some("protocol"),
            "not_sent",
        ),
        (&["info", "--", "sh", "-c", "exit 3"], 13, "exit", Some("protocol"), "not_sent"),
        (&["call", "fail", "message=no", "--", CARDAN, "demo"], 5, "tool_error", Some("protocol"), "sent"),
        (&["call", "panic", "--", CARDAN, "demo"], 10, "json_rpc", Some("protocol"), "sent"),
    ];
    for (words, exit, class, stage, delivery) in rows {
        let (options, command) =
            words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
        let ran = cardan(&[options, &["--json"], command].concat()).exits(exit.into());
        let error = error(&ran);
        assert_eq!(error["class"], class, "{words:?}: {error}");
        assert_eq!(error.get("stage").and_then(Value::as_str), stage, "{words:?}: {error}");
        assert_eq!(error["delivery"], delivery, "{words:?}: {error}");
        assert!(error["next"].is_string(), "{words:?}: {error}");
    }
}

/// TOOL-13, TOOL-14: what failed and what is not there. TOOL-15: what a tool says of its failure is its result, for a model to
/// read, on stdout.
#[test]
fn tool_error_and_not_found_are_5() {
    demo(&["call", "fail", "message=out of paper"]).exits(5).prints("out of paper\n").tells(&["tool error"]);
    let result = demo(&["call", "fail", "message=no", "--json"]).exits(5).json();
    assert_eq!(result["isError"], true);
    let told =
        demo(&["call", "ecko", "message=hi"]).exits(5).tells(&["no tool `ecko`", "did you mean `echo`?"]);
    told.tells(&["\n  class: capability\n  delivery: the server did not run it\n"]);
    let told = demo(&["complete", "greet", "nme=A"]).exits(5);
    told.tells(&["\n  class: capability\n  delivery: the server had it\n"]);
    for era in ["legacy", "modern"] {
        demo(&["read", "demo://file/none", "--era", era]).exits(5).tells(&["not found", "demo://file/none"]);
    }
    demo(&["read", "demo://clokc"])
        .exits(5)
        .tells(&["did you mean `demo://clock`?", "cardan list resources -- "]);
    demo(&["call", "add", "--no-check", "a=x", "b=1"]).exits(5).tells(&["tool error"]);
}

/// CLI-49, S0-61, S2-15: code, message and data of the server's error survive.
#[test]
fn a_json_rpc_error_is_10_with_code_and_data() {
    demo(&["call", "panic"]).exits(10).tells(&[
        "the handler panicked",
        "code: -32603",
        "stderr or in its log",
    ]);
    demo(&["call", "nope", "--no-check"]).exits(10).tells(&["code: -32602", "nope", "check the name"]);
    if has_python() {
        let scratch = Scratch::new("fault");
        let log = scratch.file("log");
        odd("fault", &log, &[]).exits(10).tells(&[
            "no \\u{1b}[31mluck",
            "code: -32050",
            r#"data: {"tries": 3}"#,
        ]);
        let ran = odd("fault", &log, &["--json"]).exits(10).tells(&[r#""data":{"tries": 3}"#]);
        let error = error(&ran);
        assert_eq!((&error["code"], &error["data"]), (&json!(-32050), &json!({ "tries": 3 })));
        assert_eq!((&error["exit"], &error["class"]), (&json!(10), &json!("json_rpc")));
        assert_eq!((&error["stage"], &error["delivery"]), (&json!("protocol"), &json!("sent")));
    }
}

/// CLI-3: what a server was found to be is remembered: it is not asked again; and what is no longer true heals itself.
#[test]
fn the_era_is_remembered_between_commands() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("eras");
    let (log, wrapper, manner) = (scratch.file("log"), scratch.file("server"), scratch.file("manner"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/odd_server.py");
    std::fs::write(&wrapper, format!("exec python3 {script} \"$(cat {manner})\" {log}\n")).unwrap();
    let probes = || logged(&log).iter().filter(|message| message["method"] == "server/discover").count();
    let call = || cardan(&["call", "odd", "--timeout", "3", "--", "sh", &wrapper]).exits(0).prints("fine\n");
    std::fs::write(&manner, "mute").unwrap();
    call();
    assert_eq!(probes(), 1, "the question was asked, and not answered");
    call();
    assert_eq!(probes(), 1, "it is not asked again");
    cardan(&["list", "tools", "--era", "auto", "--", "sh", &wrapper]).exits(0);
    assert_eq!(probes(), 1);
    std::fs::write(&manner, "modern").unwrap();
    call();
    assert_eq!(probes(), 2, "who does not shake hands any more is asked");
    call();
    assert_eq!(probes(), 3, "and so it stays");
}

/// CLI-16: a legacy server that asks a model nobody offered, and fails for want of it, needs input.
#[test]
fn asking_a_model_that_is_not_there_is_14() {
    if has_python() {
        let scratch = Scratch::new("samples");
        let log = scratch.file("log");
        odd("samples", &log, &["--era", "legacy"]).exits(14).tells(&["asks the model", "--sampling-command"]);
    }
}

/// CLI-13: a timeout is told to the server too.
#[test]
fn a_timeout_is_12_and_cancels_on_the_wire() {
    demo(&["call", "slow", "steps=1", "delay_ms=60000", "--timeout", "2"]).exits(12).tells(&[
        "timeout",
        "bytes came meanwhile",
        "delivery: ",
        "--timeout",
    ]);
    if has_python() {
        let scratch = Scratch::new("timeout");
        let log = scratch.file("log");
        odd("hang", &log, &["--timeout", "3", "--era", "legacy"]).exits(12);
        let messages = logged(&log);
        let call = messages.iter().find(|message| message["method"] == "tools/call").unwrap();
        let cancel = messages.iter().find(|message| message["method"] == "notifications/cancelled").unwrap();
        assert_eq!(cancel["params"]["requestId"], call["id"]);
    }
    cardan(&["info", "--timeout", "0.3", "--", "sleep", "60"]).exits(12).tells(&["in time"]);
    let mute = "echo 'out of cheese' >&2; read -r line; read -r line; exit 7";
    cardan(&["info", "--timeout", "1", "--era", "legacy", "--", "sh", "-c", mute])
        .exits(12)
        .tells(&["process of the server: exit status: 7", "| out of cheese"]);
}

/// S0-33, S0-87: exit status and last words of a server that dies, whenever it dies.
/// CLI-27, CLI-28.
#[test]
fn a_server_that_exits_is_13_with_its_last_words() {
    cardan(&["info", "--", "sh", "-c", "echo oops >&2; exit 3"]).exits(13).tells(&[
        "exit status: 3",
        "stderr of the server:",
        "| oops",
        "next: ",
    ]);
    cardan(&["info", "--", "true"]).exits(13).tells(&["exit status: 0"]);
    if has_python() {
        let scratch = Scratch::new("dies");
        let log = scratch.file("log");
        odd("die", &log, &[]).exits(13).tells(&["exit status: 7", "| about to die", "delivery: "]);
        let again = scratch.file("again");
        let error = error(&odd("die", &again, &["--json"]).exits(13));
        assert_eq!(error["stderr"], json!(["about to die"]));
        // It was written, nothing says that it was not done: so it is not sent again.
        assert_eq!(error["delivery"], "unknown");
        let calls = logged(&again).iter().filter(|message| message["method"] == "tools/call").count();
        assert_eq!(calls, 1);
    }
}

/// CLI-28: a panic's message is told however deep the stack behind it is, and the rest of the stack is not.
#[test]
fn cli_28_a_panic_is_told_before_its_stack() {
    let panics = "echo \"thread 'main' panicked at src/main.rs:2:5:\" >&2; echo 'no luck' >&2; \
                  seq 500 | sed 's/.*/  &: core::ops::function::FnOnce::call_once/' >&2; exit 101";
    let ran = cardan(&["info", "--", "sh", "-c", panics]).exits(13).tells(&[
        "| thread 'main' panicked at src/main.rs:2:5:\n",
        "| no luck\n    | …\n    |   491: core",
        "|   500: core",
    ]);
    assert!(!ran.stderr.contains("|   490: "), "{ran:#?}");
}

/// CLI-28: what a server says on stderr goes with every failure that it has a part in, whichever way it is named; with -v it
/// was shown as it came.
#[test]
fn cli_28_the_last_words_go_with_every_failure() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("words");
    let log = scratch.file("log");
    let config = scratch.file("cardan.toml");
    for (manner, exit) in [("fails", 5), ("complains", 10), ("refuses", 10)] {
        let server = format!("[servers.odd]\ncommand = \"python3\"\nargs = ['{ODD}', '{manner}', '{log}']\n");
        std::fs::write(&config, server).unwrap();
        let named = |words: &[&str]| {
            cardan(&[&["call", "odd", "odd", "--config", &config, "--era", "legacy"], words].concat())
        };
        let given = |words: &[&str]| odd(manner, &log, &[words, &["--era", "legacy"]].concat());
        for call in [&named as &dyn Fn(&[&str]) -> common::Ran, &given] {
            call(&[]).exits(exit).tells(&["stderr of the server:\n    | the disk is full\n", "next: "]);
            assert_eq!(error(&call(&["--json"]).exits(exit))["stderr"], json!(["the disk is full"]));
            let told = call(&["-v"]).exits(exit).tells(&["server: the disk is full\n"]);
            assert!(!told.stderr.contains("stderr of the server"), "{told:?}");
        }
    }
}

/// TOOL-8: what a server says of its tools is told as its word; a call that was lost is not made again for it.
#[test]
fn tool_8_hints_are_not_relied_upon() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("hints");
    let log = scratch.file("log");
    let listed = cardan(&[&["list", "tools"], &odd_server("die", &log)[..]].concat()).exits(0);
    assert!(listed.stdout.contains("read-only, idempotent"), "{listed:?}");
    odd("die", &log, &[]).exits(13).tells(&["delivery: whether the server ran it is not known"]);
    let calls = logged(&log).iter().filter(|message| message["method"] == "tools/call").count();
    assert_eq!(calls, 1);
}

/// ROOT-7, SEC-9: a server is shown no folder, asks no model and learns of no visit unless the user says so; what is
/// offered and what is used can be seen (TOOL-18).
#[test]
fn root_7_nothing_is_given_without_consent() {
    for era in ["legacy", "modern"] {
        let asked = |words: &[&str]| demo(&[&["call"], words, &["--era", era, "--trace"]].concat());
        let told = asked(&["roots"]).exits(14).stderr;
        let ours: Vec<&str> = told.lines().filter(|line| line.contains(" -> ")).collect();
        let given = |what: &str| ours.iter().any(|line| line.contains(what));
        assert!(given("\"elicitation\":") && !given("\"roots\":{") && !given("\"sampling\":"), "{ours:?}");
        assert!(!given("file://"), "{ours:?}");
        asked(&["roots", "--root", "/usr"]).exits(0).tells(&["file:///usr"]);
        asked(&["visit", "url=https://example.com/x"]).exits(14).prints("declined\n");
        asked(&["visit", "url=https://example.com/x", "--accept-urls"]).exits(0);
        let used = asked(&["add", "a=2", "b=3"]).exits(0).tells(&["\"name\":\"add\""]);
        assert_eq!(used.stderr.matches("\"method\":\"tools/call\"").count(), 1, "{used:?}");
        let offered = demo(&["list", "tools", "--era", era]).exits(0).stdout;
        assert!(offered.contains("add(") || offered.contains("add "), "{offered}");
    }
}

/// CLI-15: what nobody can give is named, with the option that gives it.
#[test]
fn input_that_nobody_can_give_is_14() {
    for era in ["legacy", "modern"] {
        demo(&["call", "ask", "question=who?", "--era", era]).exits(14).prints("declined\n").tells(&[
            "who?",
            "--answer answer=<string>",
            "\n  class: capability\n  delivery: the server had it\n",
        ]);
        demo(&["call", "ask", "question=who?", "--answer", "name=Ada", "--era", era])
            .exits(14)
            .tells(&["answer", "missing"]);
        demo(&["call", "visit", "url=https://example.com/x", "--era", era])
            .exits(14)
            .prints("declined\n")
            .tells(&["https://example.com/x", "--accept-urls"]);
        demo(&["call", "sample", "prompt=x", "--era", era])
            .exits(14)
            .tells(&["sampling", "--sampling-command"]);
        demo(&["call", "roots", "--era", era]).exits(14).tells(&["--root"]);
    }
}

/// ELI-17, CLI-13: nobody waits for a visit longer than for the call that needs it, nor for a server that is gone.
#[test]
fn eli_17_the_wait_for_a_visit_ends() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("visit");
    let log = scratch.file("log");
    for (manner, exit, told) in
        [("visit", 12, "had not ended after 3.0 s"), ("visit and leave", 13, "exit status: 7")]
    {
        let ran = odd(manner, &log, &["--accept-urls", "--timeout", "3", "--json"]).exits(exit);
        let last = ran.stderr.lines().last().unwrap_or_default();
        let error = serde_json::from_str::<Value>(last).expect("JSON comes last")["error"].clone();
        assert_eq!(error["delivery"], "sent", "{manner}: {error}");
        assert!(error.to_string().contains(told), "{manner}: {error}");
    }
}

/// S0-33: nothing of it on success, everything with -v.
#[test]
fn the_servers_stderr_is_shown_when_wanted() {
    let script = format!("echo banner >&2; exec {CARDAN} demo");
    let words = ["call", "echo", "message=hi", "--", "sh", "-c", &script];
    assert_eq!(cardan(&words).exits(0).prints("hi\n").stderr, "");
    let words = ["call", "echo", "message=hi", "-v", "--", "sh", "-c", &script];
    cardan(&words).exits(0).prints("hi\n").tells(&["server: banner\n"]);
}
