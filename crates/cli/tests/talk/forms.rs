//! Forms, field by field.

use std::fs::File;

use serde_json::json;

use crate::common::pty::{CTRL_C, CTRL_D, Pty};
use crate::scene::{Scene, demo, form};

/// CLI-14, ELI-10, ELI-11: who asks is said, the person sees what goes out, and accepts, declines or cancels; the same in
/// both eras.
#[test]
fn cli_14_a_form_is_answered_on_the_terminal() {
    for era in ["legacy", "modern"] {
        let ask = ["call", "ask", "question=Who are you?", "--era", era];
        let mut seat = demo(&ask);
        seat.sees("cardan (\"cardan-demo\") asks:").sees("  | Who are you?").sees("answer: ").types("Ada\r");
        seat.sees("This goes to cardan").sees("answer: Ada").sees("Send it?").types("\r").sees("Ada");
        seat.end().exits(0);
        for (typed, outcome) in [("n\r", "declined"), ("cancel\r", "cancelled")] {
            let mut seat = demo(&ask);
            seat.sees("answer: ").types("Ada\r").sees("Send it?").types(typed).sees(outcome);
            seat.sees("input required").sees("Who are you?; it was not answered");
            seat.end().exits(14);
        }
        let mut seat = demo(&ask);
        seat.sees("answer: ").types("A").types(CTRL_D).types(CTRL_D).sees("declined");
        seat.end().exits(14);
    }
}

/// CLI-14, ELI-6, ELI-7, ELI-12: every kind of field, with what it takes; what does not fit is told and asked again;
/// Enter takes the default.
#[test]
fn cli_14_every_kind_of_field_is_asked_for() {
    let properties = json!({
        "mail": { "type": "string", "title": "E-mail", "description": "Where to write to", "format": "email" },
        "age": { "type": "integer", "minimum": 1, "maximum": 99, "default": 30 },
        "sure": { "type": "boolean" },
        "colour": { "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"] },
        "days": { "type": "array", "items": { "type": "string", "enum": ["mon", "tue", "wed"] }, "minItems": 1 },
        "nick": { "type": "string" },
        "note": { "type": "string", "default": "none" },
    });
    let required = ["mail", "sure", "colour", "days"];
    let Some(scene) = Scene::form("fields", "Tell me", &properties, &required) else { return };
    let mut seat = scene.call(&[]);
    seat.sees("age (whole number from 1 to 99, optional)").sees("age [30]: ").types("100\r");
    seat.sees("age is greater than 99").sees("age [30]: ").types("\r");
    seat.sees("1) Red (r)").sees("2) Green (g)").sees("colour: ").types("3\r");
    seat.sees("colour is not one of r, g").sees("colour: ").types("2\r");
    seat.sees("3) wed").sees("days: ").types("\r").sees("fewer than 1").sees("days: ").types("1, wed\r");
    seat.sees("E-mail (mail address)\r\n  | Where to write to\r\nmail: ").types("\r");
    seat.sees("mail is required").sees("mail: ").types("nobody\r");
    seat.sees("mail is not a mail address").sees("mail: ").types("ada@example.org\r");
    seat.sees("nick (text, optional)").sees("nick: ").types("\r");
    seat.sees("note [none]: ").types("\"\"\r");
    seat.sees("sure (yes or no)").sees("sure [y/n]: ").types("maybe\r");
    seat.sees("sure is neither yes nor no").sees("sure [y/n]: ").types("y\r");
    seat.sees("nick: (left empty)").sees("Send it?").types("e\r");
    for prompt in ["age [30]: ", "colour [g]: ", "days [mon,wed]: ", "mail [ada@example.org]: "] {
        seat.sees(prompt).types("\r");
    }
    seat.sees("nick: ").types("ada\r").sees("note []: ").types("\r").sees("sure [yes]: ").types("\r");
    seat.sees("Send it?").types("y\r");
    seat.end().exits(0);
    let content = json!({
        "mail": "ada@example.org", "age": 30, "sure": true, "colour": "g", "days": ["mon", "wed"], "nick": "ada", "note": "",
    });
    assert_eq!(scene.answer(), json!({ "action": "accept", "content": content }));
}

/// CLI-15: answers that were given come first; only the rest is asked for, and nothing at all when there is none.
#[test]
fn cli_15_given_answers_are_not_asked_for() {
    let properties = json!({ "a": { "type": "string" }, "b": { "type": "integer" } });
    let Some(scene) = Scene::form("given", "Two things", &properties, &["a", "b"]) else { return };
    let mut seat = scene.call(&["--answer", "a=x"]);
    seat.sees("b: ").types("2\r").sees("Send it?").types("\r");
    let shown = seat.end().exits(0);
    assert!(!shown.written().contains("a (text)"), "{}", shown.written());
    let mut seat = scene.call(&["--answer", "a=x", "--answer", "b=two"]);
    seat.sees("--answer b: is not a number").sees("b: ").types(CTRL_D);
    seat.end().exits(14);
    let shown = scene.call(&["--answer", "a=x", "--answer", "b=2"]).end().exits(0);
    assert!(!shown.written().contains("asks"), "{}", shown.written());
    assert_eq!(scene.answer(), json!({ "action": "accept", "content": { "a": "x", "b": 2 } }));
}

/// CLI-15: nobody is asked who cannot see the question, cannot answer it or does not want to; what to write instead is told.
#[test]
fn cli_15_without_a_terminal_nobody_is_asked() {
    let properties = json!({ "a": { "type": "string" } });
    let Some(scene) = Scene::form("unseen", "One thing", &properties, &["a"]) else { return };
    scene.call_unseen(&[]).exits(14).tells(&["One thing", "--answer a=<string>"]);
    let mut seat = scene.call(&["--no-input"]);
    seat.sees("input required").sees("--answer a=<string>");
    seat.end().exits(14);
    let mut seat = scene.call_at(Pty::new(80).stdin("/dev/null"), &[]);
    seat.sees("--answer a=<string>");
    seat.end().exits(14);
    let told = scene.file("stderr");
    let seat = scene.call_at(Pty::new(80).stderr(File::create(&told).unwrap()), &[]);
    seat.end().exits(14);
    assert!(std::fs::read_to_string(told).unwrap().contains("--answer a=<string>"));
}

/// CLI-14: stdin that holds an argument does not keep a person from answering.
#[test]
fn cli_14_answers_are_typed_while_stdin_is_data() {
    let properties = json!({ "a": { "type": "string" } });
    let Some(scene) = Scene::form("data", "One thing", &properties, &["a"]) else { return };
    let data = scene.file("data");
    std::fs::write(&data, "{}").unwrap();
    let mut seat = scene.call_at(Pty::new(80).stdin(&data), &["--args", "-"]);
    seat.sees("a: ").types("x\r").sees("Send it?").types("\r");
    seat.end().exits(0);
    assert_eq!(scene.answer()["content"], json!({ "a": "x" }));
}

/// ELI-8: what looks like a secret is warned of, not shown while it is typed nor afterwards, and the terminal is as before.
#[test]
fn eli_8_secrets_are_warned_of_and_never_shown() {
    let properties = json!({ "apiKey": { "type": "string" }, "name": { "type": "string" } });
    let Some(scene) = Scene::form("secret", "Log in", &properties, &["apiKey"]) else { return };
    let mut seat = scene.call(&[]);
    seat.sees("WARNING: apiKey looks like a secret").sees("[y/N] ").types("\r");
    seat.end().exits(14);
    assert_eq!(scene.answer(), json!({ "action": "decline" }));

    let mut seat = scene.call(&[]);
    seat.sees("[y/N] ");
    let before = seat.modes();
    seat.types("y\r").sees("apiKey: ");
    assert!(before.0 && !seat.modes().0, "hidden while it is typed");
    seat.types("hunter2\r").sees("name: ");
    assert_eq!(seat.modes(), before, "shown again afterwards");
    seat.types("ada\r").sees("apiKey: (hidden)").sees("Send it?").types("\r");
    let shown = seat.end().exits(0).written();
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(scene.heard().iter().any(|message| message["result"]["content"]["apiKey"] == "hunter2"));
}

/// CLI-13: Ctrl-C at a question cancels the call on the wire, and a terminal that was mute is so no more.
#[test]
fn cli_13_ctrl_c_at_a_question_cancels_the_call() {
    let properties = json!({ "password": { "type": "string" } });
    let Some(scene) = Scene::form("interrupted", "Log in", &properties, &["password"]) else { return };
    let mut seat = scene.call(&[]);
    seat.sees("[y/N] ");
    let before = seat.modes();
    seat.types("y\r").sees("password: ");
    assert!(!seat.modes().0);
    seat.types("hun").types(CTRL_C);
    let shown = seat.end().exits(130);
    assert_eq!(shown.modes, before);
    assert!(!shown.written().contains("hun"), "{}", shown.written());
    let heard = scene.heard();
    assert!(heard.iter().any(|message| message["method"] == "notifications/cancelled"), "{heard:?}");
    assert!(heard.iter().all(|message| message["id"] != "ask-0"), "{heard:?}");
}

/// T30, ELI-27: nothing of what a server asks moves the cursor, passes for a line of ours or becomes a link.
#[test]
fn t30_questions_cannot_forge_the_terminal() {
    let evil = "x\u{1b}[2J\u{9b}1m\u{7}\r\nSend it? y\u{202e}\u{1b}]8;;https://evil.example\u{1b}\\here";
    let properties = json!({
        evil: { "type": "string", "title": evil, "description": evil, "enum": [evil, "b"], "enumNames": [evil, evil] },
    });
    let script = json!({ "asks": [form(evil, &properties, &[])], "name": evil });
    let Some(scene) = Scene::new("forged", &script) else { return };
    // A slow start draws a line of ours, which is not what is looked at here.
    let mut seat = scene.call(&["--quiet", "--color", "never"]);
    seat.sees("optional)").sees(": ").types(CTRL_D);
    let shown = seat.end().exits(14);
    let written = shown.written();
    assert!(
        !written.contains('␛') && !written.contains('\u{9b}') && !written.contains('\u{202e}'),
        "{written}"
    );
    assert!(!shown.bytes.contains(&7), "{written}");
    let forged = written.lines().filter(|line| line.starts_with("Send it?")).count();
    assert_eq!(forged, 0, "{written}");
}

/// Two asks at once are put one after the other, and what else is told waits for the end of a question.
#[test]
fn one_question_is_put_at_a_time() {
    let field = json!({ "a": { "type": "string" } });
    let asks = [form("First", &field, &["a"]), form("Second", &field, &["a"])];
    let script = json!({ "asks": asks, "together": true, "note": "mind the gap" });
    let Some(scene) = Scene::new("together", &script) else { return };
    let mut seat = scene.call(&[]);
    seat.sees("| First").sees("a: ").types("1\r").sees("Send it?").types("\r");
    seat.sees("| Second").sees("a: ").types("2\r").sees("Send it?").types("\r");
    let shown = seat.end().exits(0).left();
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text}: {shown}"));
    assert!(at("mind the gap") > at("Send it?"), "{shown}");
}

/// What a terminal cut is not taken for an answer.
#[test]
fn half_an_answer_is_none() {
    let mut seat = demo(&["call", "ask", "question=Who?"]);
    seat.sees("answer: ").types(&"x".repeat(5000)).types("\r").sees("cuts lines").sees("answer: ");
    seat.types("Ada\r").sees("Send it?").types("\r").sees("Ada");
    seat.end().exits(0);
}
