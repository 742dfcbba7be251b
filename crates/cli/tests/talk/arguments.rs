//! Arguments that are required and not given.

use std::fs::File;

use serde_json::{Value, json};

use crate::common::pty::{CTRL_C, CTRL_D, Pty};
use crate::common::{CARDAN, Scratch, cardan_reading};
use crate::scene::{Scene, demo};

/// CLI-46, CLI-47: what is missing is asked for by the schema, and what does not fit is told with its place and asked again.
#[test]
fn cli_47_missing_arguments_are_asked_for() {
    let scratch = Scratch::new("sum");
    let sum = scratch.file("sum");
    let pty = Pty::new(80).stdout(File::create(&sum).unwrap());
    let mut seat = pty.start(&["call", "add", "a=2", "--", CARDAN, "demo"]);
    seat.sees("tool add needs one more argument").sees("b (number)").sees("| The second number.");
    seat.sees("b: ")
        .types("three\r")
        .sees("/arguments/b: \"three\" is not a number")
        .sees("b: ")
        .types("3\r");
    seat.end().exits(0);
    assert_eq!(std::fs::read_to_string(&sum).unwrap(), "{\"sum\":5}\n");

    let mut seat = demo(&["call", "note"]);
    seat.sees("level (one of these)").sees("4) warning").sees("level: ").types("loud\r");
    seat.sees("/arguments/level: is not one of").sees("level: ").types("4\r");
    seat.sees("message: ").types("hi\r").sees("warning").sees("demo: ").sees("hi");
    seat.end().exits(0);

    let schema = json!({
        "type": "object",
        "properties": {
            "count": { "type": "integer", "default": 3 }, "tags": { "$ref": "#/$defs/tags" },
            "empty": { "type": "string" }, "token": { "type": "string" },
        },
        "required": ["count", "tags", "empty", "token"],
        "$defs": { "tags": { "type": "array", "items": { "type": "string" }, "description": "What it is about" } },
    });
    let Some(scene) = Scene::new("schema", &json!({ "schema": schema })) else { return };
    let mut seat = scene.call(&[]);
    seat.sees("count [3]: ").types("\r").sees("| What it is about").sees("tags: ").types("[\"x\", 1]\r");
    seat.sees("/arguments/tags/1: is not text").sees("tags: ").types("x\r");
    seat.sees("empty: ").types("\r").sees("empty: ").types("\"\"\r").sees("token: ");
    assert!(!seat.modes().0, "what looks like a secret is hidden");
    seat.types("abc\r");
    seat.end().exits(0);
    let sent: Value = serde_json::from_str(&scene.printed()).unwrap();
    assert_eq!(sent, json!({ "count": 3, "empty": "", "tags": ["x"], "token": "abc" }));
}

/// CLI-47: each answer is checked by all that the schema says of it and asked for again, so that nothing that was typed is lost; what is
/// given is checked before anybody is asked.
#[test]
fn cli_47_answers_are_checked_one_by_one() {
    let schema = json!({
        "type": "object",
        "properties": {
            "n": { "type": "integer", "minimum": 1 }, "word": { "type": "string", "pattern": "^[a-z]+$" },
            "sure": { "type": "boolean" }, "again": { "type": "boolean", "default": false },
            "name": { "$ref": "#/$defs/name" },
        },
        "required": ["n", "word", "sure", "again", "name"],
        "$defs": { "name": { "type": "string", "minLength": 2 } },
    });
    let Some(scene) = Scene::new("each", &json!({ "schema": schema })) else { return };
    let mut seat = scene.call(&[]);
    seat.sees("n: ").types("0\r").sees("/arguments/n: value is less than the minimum of 1");
    seat.sees("n: ").types("1\r");
    seat.sees("word: ")
        .types("ABC\r")
        .sees("/arguments/word: value does not match")
        .sees("word: ")
        .types("abc\r");
    seat.sees("sure (yes or no)")
        .sees("sure: ")
        .types("perhaps\r")
        .sees("/arguments/sure: is neither yes nor no");
    seat.sees("sure: ").types("Y\r").sees("again [no]: ").types("\r");
    seat.sees("name: ").types("x\r").sees("/arguments/name: ").sees("name: ").types("xy\r");
    seat.end().exits(0);
    let sent: Value = serde_json::from_str(&scene.printed()).unwrap();
    assert_eq!(sent, json!({ "n": 1, "word": "abc", "sure": true, "again": false, "name": "xy" }));
    for (given, told) in
        [("n=0", "/arguments/n: "), ("name=x", "/arguments/name: "), ("sure=yes", "true or false")]
    {
        let shown = scene.call(&[given]).end();
        assert!(shown.written().contains(told), "{}", shown.written());
        assert!(!shown.written().contains("needs"), "{}", shown.written());
        shown.exits(1);
    }
}

/// CLI-47: who does not want to go on leaves with nothing sent, and nobody is asked who cannot be.
#[test]
fn cli_47_who_leaves_the_questions_sends_nothing() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] });
    let Some(scene) = Scene::new("left", &json!({ "schema": schema })) else { return };
    let mut seat = scene.call(&[]);
    seat.sees("a: ").types(CTRL_D).sees("tool go needs /arguments/a (string)").sees("add a=<string>");
    seat.end().exits(1);
    let mut seat = scene.call(&[]);
    seat.sees("a: ").types(CTRL_C);
    seat.end().exits(130);
    for options in [["--no-input"], ["--no-check"]] {
        let shown = scene.call(&options).end();
        assert!(!shown.written().contains("a: "), "{}", shown.written());
        assert_eq!(shown.code, Some(if options == ["--no-input"] { 1 } else { 0 }));
    }
    let mut seat = scene.call(&["b=1"]);
    seat.sees("no argument `b`");
    seat.end().exits(1);
    let calls = scene.heard().iter().filter(|said| said["method"] == "tools/call").count();
    assert_eq!(calls, 1, "only the call that was not to be checked");
}

#[test]
fn arguments_of_prompts_are_asked_for() {
    let mut seat = demo(&["prompt", "greet"]);
    seat.sees("prompt greet needs one more argument")
        .sees("name: ")
        .types("\r")
        .sees("name: ")
        .types("Ada\r");
    seat.sees("Please greet Ada");
    seat.end().exits(0);
    let mut seat = demo(&["prompt", "greet"]);
    seat.sees("name: ").types(CTRL_D).sees("/arguments/name");
    seat.end().exits(1);
}

/// CLI-47: what looks like a secret, by its name or by its title, is not shown while it is typed, nor said again.
#[test]
fn cli_47_secrets_are_typed_unseen() {
    let arguments = json!([
        { "name": "password", "required": true }, { "name": "k", "title": "API key", "required": true },
        { "name": "who", "required": true },
    ]);
    let script = json!({
        "prompts": [{ "name": "login", "arguments": arguments }],
        "schema": {
            "type": "object",
            "properties": { "k": { "type": "string", "title": "API key", "default": "hunter1" }, "pin": { "type": "integer" } },
            "required": ["k", "pin"],
        },
    });
    let Some(scene) = Scene::new("unseen", &script) else { return };
    let (server, log, script) = scene.server();
    let printed = scene.file("stdout");
    let words = ["prompt", "login", "--", "python3", server, &log, script];
    let mut seat = Pty::new(80).stdout(File::create(&printed).unwrap()).start(&words);
    for (prompt, typed, is_shown) in
        [("password: ", "hunter2\r", false), ("k: ", "hunter3\r", false), ("who: ", "Ada\r", true)]
    {
        seat.sees(prompt);
        assert_eq!(seat.modes().0, is_shown, "{prompt}");
        seat.types(typed);
    }
    let shown = seat.end().exits(0).written();
    assert!(!shown.contains("hunter") && shown.contains("Ada"), "{shown}");
    assert!(scene.printed().contains(r#"{"k": "hunter3", "password": "hunter2", "who": "Ada"}"#));

    let mut seat = scene.call(&[]);
    seat.sees("k [hidden]: ").types("\r").sees("pin: ").types("hunter4\r");
    seat.sees("/arguments/pin: it is not integer").sees("pin: ").types("4\r");
    let shown = seat.end().exits(0).written();
    assert!(!shown.contains("hunter"), "{shown}");
}

/// CLI-46: a call as it is written in code, and stdin as a value.
#[test]
fn cli_46_arguments_are_one_word_or_stdin() {
    let call = |word: &str, more: &[&str]| {
        cardan_reading(&[&["call", word], more, &["--", CARDAN, "demo"]].concat(), "piped")
    };
    call("add(a: 2, b: 3)", &[]).exits(0).prints("{\"sum\":5}\n");
    call("add(a: 2)", &["b=4"]).exits(0).prints("{\"sum\":6}\n");
    call("echo(message: \"a, (b)\")", &[]).exits(0).prints("a, (b)\n");
    call("echo(mesage: hi)", &[]).exits(1).tells(&["did you mean `message`?"]);
    call("echo(message: hi", &[]).exits(1).tells(&["no `)`", "next: "]);
    call("add(a: two, b: 3)", &[]).exits(1).tells(&["/arguments/a"]);
    call("echo", &["message=-"]).exits(0).prints("piped\n");
    call("echo", &["message:=\"-\""]).exits(0).prints("-\n");
    call("add", &["a=-", "b=@-"]).exits(1).tells(&["stdin can be read only once"]);
}

/// The host stands on a line of its own where nothing can stand out.
#[test]
fn a_terminal_without_colours_is_asked_alike() {
    let words = ["call", "visit", "url=https://example.com/x", "--", CARDAN, "demo"];
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let mut seat = Pty::new(80).env(name, value).start(&words);
        seat.sees("  https://example.com/x\r\n  host: example.com\r\n").sees("[c]ancel: ").types("n\r");
        seat.end().exits(14);
    }
}
