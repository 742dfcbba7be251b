//! Command lines that make no sense: 1, and nothing is sent.

use super::*;

/// CLI-47: nothing is sent that the tool's schema excludes.
#[test]
fn usage_is_1_and_nothing_is_sent() {
    demo(&["call", "echo"]).exits(1).tells(&["/arguments/message (string)", "add message=<string>"]);
    demo(&["call", "echo", "mesage=hi"]).exits(1).tells(&["no argument `mesage`", "did you mean `message`?"]);
    demo(&["call", "add", "a=two", "b=3"]).exits(1).tells(&["/arguments/a", "not a number", "a=<number>"]);
    demo(&["call", "add", "a:=\"2\"", "b=3"]).exits(1).tells(&["/arguments/a: is not a number"]);
    demo(&["call", "note", "level=loud", "message=x"]).exits(1).tells(&["/arguments/level", "warning"]);
    demo(&["call", "echo", "hi"]).exits(1).tells(&["key=value"]);
    demo(&["call", "echo", "--args", "[1]"]).exits(1).tells(&["not a JSON object"]);
    demo(&["call", "echo", "--strict", "--lenient"]).exits(1);
    demo(&["call", "echo", "--era", "bronze"]).exits(1);
    demo(&["read", "demo://clock", "more"]).exits(1).tells(&["one word too many"]);
    cardan(&["unknown"]).exits(1);
    cardan(&["--help"]).exits(0);
    if has_python() {
        let scratch = Scratch::new("unsent");
        let log = scratch.file("log");
        odd("hang", &log, &["n=1.5"]).exits(1).tells(&["/arguments/n", "not a whole number"]);
        assert!(logged(&log).iter().all(|message| message["method"] != "tools/call"));
    }
}

/// CLI-48: a command line that makes no sense is told in the same form as any other failure, with something to do about it.
#[test]
fn cli_48_what_the_parser_refuses_is_told_alike() {
    for (words, told, next) in [
        (&["call", "echo", "--era", "bronze"][..], "'bronze'", "cardan call --help"),
        (&["call", "--strict", "--lenient", "x"], "--lenient", "cardan call --help"),
        (&["call"], "missing", "`cardan call <SERVER> <TOOL> [KEY=VALUE]...`; see `cardan call --help`"),
        (&["lst"], "'lst'", "did you mean `list`?"),
        (&["config", "lst"], "'lst'", "did you mean `list`?"),
        (&["unknown"], "'unknown'", "cardan --help"),
        (&["help", "calls"], "'calls'", "did you mean `call`? or see `cardan --help`"),
        (&["help", "config", "lst"], "'lst'", "did you mean `list`? or see `cardan config --help`"),
        (&["call", "echo", "--timout", "3"], "'--timout'", "did you mean `--timeout`?"),
        (&["call", "demo", "echo", "message=hi", "--timout", "3"], "'--timout'", "did you mean `--timeout`?"),
        (&["call", "127.0.0.1:8080/mcp", "echo"], "127.0.0.1:8080/mcp", "http://127.0.0.1:8080/mcp"),
        (&["info", "--timeout", "soon"], "'soon'", "cardan info --help"),
        (&["call", "echo", "sh", "-y", "server"], "'-y'", "cardan call echo -- sh -y server"),
    ] {
        let ran = cardan(words).exits(1).prints("").tells(&["cardan: usage: ", told, "next: ", next]);
        assert!(!ran.stderr.contains("tip:"), "{ran:?}");
        let forms = if words[0] == "call" { &["--json", "--jsonl"][..] } else { &["--json"] };
        for form in forms {
            let ran = cardan(&[words, &[form]].concat()).exits(1);
            let error = error(&ran);
            assert_eq!((&error["class"], &error["exit"]), (&json!("config"), &json!(1)), "{words:?}");
            assert!(error["message"].as_str().unwrap().contains(told), "{words:?}: {error}");
            assert!(error["next"].is_string() && error["delivery"] == "not_sent", "{words:?}: {error}");
            let lines = usize::from(*form == "--jsonl");
            assert_eq!(ran.stdout.matches(r#"{"type":"error","#).count(), lines, "{words:?}: {ran:?}");
        }
    }
    demo(&["call", "add", "{\"a\":1}"]).exits(1).tells(&["is not an argument", "put --args before it"]);
    // Who says nothing is shown what can be said.
    for words in [&[][..], &["config"]] {
        cardan(words).exits(1).prints("").tells(&["Usage: cardan ", "\nCommands:\n"]);
    }
    // What follows `--` is the server's.
    let told = cardan(&["call", "--", "server", "--json"]).exits(1);
    assert!(told.stderr.starts_with("cardan: usage: "), "{told:?}");
}

/// CLI-4: who forgets `--` before a server's command is shown where it belongs.
#[test]
fn cli_4_a_forgotten_separator_is_told() {
    cardan(&["call", "echo", "sh", "server.sh"]).exits(1).tells(&["cardan call echo -- sh server.sh"]);
    cardan(&["info", "sh", "server.sh"]).exits(1).tells(&["cardan info -- sh server.sh"]);
    cardan(&["list", "sh", "server.sh"]).exits(1).tells(&["cardan list -- sh server.sh"]);
    cardan(&["list", "sh", "tols"]).exits(1).tells(&["did you mean `tools`?"]);
}

/// Servers by name or by a transport to come: the accepted forms are named.
#[test]
fn an_unknown_server_is_usage() {
    for server in ["weather", "http://user@localhost/mcp", "ws:///mcp", "gopher://x", "tcp://x", "unix://x"] {
        cardan(&["call", server, "echo"]).exits(1).tells(&["next: "]);
    }
    cardan(&["info", "weather"]).exits(1).tells(&[
        "no server named `weather` is configured",
        "tcp://host:port",
        "unix:///path",
    ]);
    for (address, meant) in [("example.com/mcp", "https://example.com/mcp"), ("box:80/x", "http://box:80/x")]
    {
        cardan(&["info", address]).exits(1).tells(&[meant]);
    }
    let scratch = Scratch::new("unknown");
    std::fs::write(scratch.file("cardan.toml"), "[servers.demo]\ncommand = 'x'\n").unwrap();
    for words in [&["config", "explain"][..], &["config", "remove"], &["config", "trust"], &["pin", "list"]] {
        let ran = cardan(&[words, &["dmo", "--config", &scratch.file("cardan.toml")]].concat()).exits(1);
        // No place in a file is wrong about a name that is not there.
        ran.tells(&["usage: no server named `dmo` is configured\n", "did you mean `demo`?"]);
    }
    cardan(&["info", "ws:///mcp"]).exits(1).tells(&["has no host"]);
    cardan(&["info", "http://127.0.0.1:1/mcp"]).exits(4).tells(&["no connection", "the address is right"]);
    cardan(&["info", "tcp://x:1", "--header", "a: b"]).exits(1).tells(&["over HTTP"]);
    cardan(&["info"]).exits(1).tells(&["no server is given"]);
}

/// CLI-46, CLI-47: of two values for one key only one can be meant, whatever they are for.
#[test]
fn what_is_given_twice_is_refused() {
    let twice = ["prompt", "greet", "name=Ada", "name=Bob"];
    demo(&twice).exits(1).tells(&["/arguments/name: it is given twice", "next: give it once"]);
    let replaced = ["prompt", "greet", "--args", r#"{"name": "Ada"}"#, "name=Bob"];
    assert!(demo(&replaced).exits(0).stdout.contains("Bob"), "a word replaces what --args says");
    if has_python() {
        // A list is known by the schema, whether it is checked or not.
        let scratch = Scratch::new("twice");
        let log = scratch.file("log");
        let ran = odd("answers notes", &log, &["many:=[1]", "many:=[2]", "--no-check", "--dry-run"]).exits(0);
        assert!(ran.stdout.contains(r#""arguments":{"many":[1,2]}"#), "{ran:?}");
    }
    let answers = ["call", "ask", "question=Who?", "--answer", "answer=Ada", "--answer", "answer=Bob"];
    let told =
        ["--answer answer is given twice", "next: give it once; several choices are separated by commas"];
    demo(&answers).exits(1).tells(&told);
    demo(&["complete", "greet", "name=A", "tone=x", "tone=y"])
        .exits(1)
        .tells(&["/arguments/tone: it is given twice"]);
}

/// CLI-47: all that a schema can say is checked, and told with its place.
#[test]
fn arguments_are_checked_in_full() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("schema");
    let log = scratch.file("log");
    for (words, told) in [
        (&["n=0"][..], "/arguments/n: "),
        (&["n=1", "word=UP"], "/arguments/word: "),
        (&["word=up"], "\"n\" is a required property"),
    ] {
        odd("hang", &log, words).exits(1).tells(&["tool odd does not take this", told, "--no-check"]);
    }
    assert!(logged(&log).iter().all(|message| message["method"] != "tools/call"));
    odd("extra", &log, &["n=1", "word=up"]).exits(0);
}
