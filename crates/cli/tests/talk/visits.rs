//! Addresses that a server sends people to.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use crate::common::pty::{CTRL_C, CTRL_D, Pty};
use crate::common::{CARDAN, Fifo, Scratch};
use crate::scene::{Scene, demo, form};

/// A browser that writes down where it is sent.
fn browser(scratch: &Scratch, seen: &Fifo) -> String {
    let path = scratch.file("browser");
    std::fs::write(&path, format!("#!/bin/sh\necho \"$1\" > '{}'\n", seen.path)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// CLI-14, ELI-10, ELI-20, ELI-25: the whole address and its host are shown, and only a yes is consent; both eras.
#[test]
fn cli_14_an_address_is_visited_only_with_consent() {
    for era in ["legacy", "modern"] {
        let answers = [("y\r", "accepted"), ("n\r", "declined"), ("c\r", "cancelled"), (CTRL_D, "declined")];
        for (typed, outcome) in answers {
            let mut seat = demo(&["call", "visit", "url=https://example.com/x?y=1", "--era", era]);
            seat.sees("asks you to visit an address").sees("https://\x1b[1mexample.com\x1b[0m/x?y=1");
            seat.sees("host: \x1b[1mexample.com")
                .sees("[c]ancel: ")
                .types("\r")
                .sees("[c]ancel: ")
                .types(typed);
            seat.sees(outcome);
            seat.end().exits(if outcome == "accepted" { 0 } else { 14 });
        }
    }
    let mut seat = demo(&["call", "visit", "url=http://xn--e1awd7f.com/"]);
    seat.sees("Punycode").sees("not https").types(CTRL_C);
    seat.end().exits(130);
}

/// ELI-20: the browser is started by `--open` and a yes together, and by nothing else.
#[test]
fn eli_20_the_browser_is_opened_only_after_a_yes() {
    let scratch = Scratch::new("browser");
    let seen = Fifo::new(&scratch, "seen");
    let browser = browser(&scratch, &seen);
    let visit = |url: &str, more: &[&str], typed: &str| {
        let url = format!("url={url}");
        let words = [&["call", "visit", &url], more, &["--", CARDAN, "demo"]].concat();
        let mut seat = Pty::new(80).env("BROWSER", &browser).start(&words);
        seat.sees("[c]ancel: ").types(typed);
        seat.end().exits(if typed == "y\r" { 0 } else { 14 });
    };
    visit("https://example.com/refused", &["--open"], "n\r");
    visit("https://example.com/plain", &[], "y\r");
    visit("https://example.com/opened?a=1&b=$(id)", &["--open"], "y\r");
    // The first that arrives is the only one that was opened.
    assert_eq!(seen.line(), "https://example.com/opened?a=1&b=$(id)");
}

/// ELI-5, ELI-20: what is refused before anyone is asked is told, with the reason; a path that is not encoded is no reason, a
/// host that may look like another is.
#[test]
fn eli_5_what_is_refused_unasked_is_told() {
    let visit = |url: &str| {
        json!({ "method": "elicitation/create", "params": {
            "mode": "url", "message": "Log in", "url": url, "elicitationId": "v1" } })
    };
    let object = form("Who?", &json!({ "who": { "type": "object" } }), &[]);
    let rows = [
        (visit("https://ex\u{e4}mple.com/x"), &["params/url", "not ASCII"]),
        (visit("javascript:alert(1)"), &["params/url", "refused"]),
        (object, &["asks you something", "object"]),
    ];
    for (at, (ask, told)) in rows.into_iter().enumerate() {
        let Some(scene) = Scene::new(&format!("malformed-{at}"), &json!({ "asks": [ask] })) else { return };
        scene.call_unseen(&["--accept-urls"]).exits(0).tells(told).tells(&["breaks the protocol"]);
        let failing =
            Scene::new(&format!("malformed-failing-{at}"), &json!({ "asks": [ask], "fails": true }));
        failing.unwrap().call_unseen(&["--accept-urls"]).exits(14).tells(told);
    }
    let script = json!({ "asks": [visit("https://example.com/\u{fc}b?c=\u{e4}")] });
    let scene = Scene::new("encoded", &script).unwrap();
    scene.call_unseen(&["--accept-urls"]).exits(0).tells(&["https://example.com/%C3%BCb?c=%C3%A4"]);
    assert_eq!(scene.answer(), json!({ "action": "accept" }));
    let mut seat = scene.call(&[]);
    seat.sees("/%C3%BCb?c=%C3%A4").sees("[c]ancel: ").types("n\r");
    seat.end().exits(14);
}

/// ELI-14, ELI-16, ELI-17: a call that must wait for a visit is made again when the server says that the visit has ended, or
/// when the person does not want to wait for that.
#[test]
fn eli_17_a_call_waits_for_the_visit_it_needs() {
    let visit = json!({ "message": "Log in", "url": "https://example.com/login", "elicitationId": "v1" });
    let calls = |scene: &Scene| scene.heard().iter().filter(|said| said["method"] == "tools/call").count();
    let scratch = Scratch::new("visits");
    let end = scratch.file("end");
    assert!(Command::new("mkfifo").arg(&end).status().unwrap().success());
    // Open for both, so that nobody waits for the other end.
    let mut pipe = File::options().read(true).write(true).open(&end).unwrap();

    let script = json!({ "visits": [&visit], "end": end });
    let Some(scene) = Scene::new("noted", &script) else { return };
    let mut seat = scene.call(&[]);
    seat.sees("| Log in").sees("example.com").sees("[c]ancel: ").types("y\r");
    seat.sees("Waiting until the server says that the visit has ended");
    writeln!(pipe, "it has").unwrap();
    seat.end().exits(0);
    assert_eq!(calls(&scene), 2);

    let scene = Scene::new("unnoted", &json!({ "visits": [&visit] })).unwrap();
    let mut seat = scene.call(&[]);
    seat.sees("[c]ancel: ").types("y\r").sees("Enter goes on at once: ").types("\r");
    seat.end().exits(0);
    assert_eq!(calls(&scene), 2);

    let scene = Scene::new("unvisited", &json!({ "visits": [&visit] })).unwrap();
    let mut seat = scene.call(&[]);
    seat.sees("[c]ancel: ").types("n\r").sees("https://example.com/login was not visited");
    seat.end().exits(14);
    scene.call_unseen(&[]).exits(14).tells(&["https://example.com/login", "--accept-urls"]);
    assert_eq!(calls(&scene), 2);

    let script = json!({ "visits": [&visit], "end": end });
    let scene = Scene::new("consented", &script).unwrap();
    writeln!(pipe, "it has").unwrap();
    scene.call_unseen(&["--accept-urls"]).exits(0).tells(&["https://example.com/login", "waiting until"]);
}

/// ELI-20: a line that was typed for a question that the server withdrew is no consent to what it asks next.
#[test]
fn eli_20_an_answer_to_a_withdrawn_question_is_no_consent() {
    let scratch = Scratch::new("withdrawn-pipe");
    let path = scratch.file("withdraw");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut pipe = File::options().read(true).write(true).open(&path).unwrap();
    let visit = json!({ "method": "elicitation/create", "params": {
        "mode": "url", "message": "Log in", "url": "https://example.com/login", "elicitationId": "v1" } });
    let question = form("Your name?", &json!({ "name": { "type": "string" } }), &["name"]);
    let script = json!({ "asks": [question, visit], "withdraw": path });
    let Some(scene) = Scene::new("withdrawn", &script) else { return };
    let mut seat = scene.call(&[]);
    seat.sees("name: ");
    writeln!(pipe, "withdraw").unwrap();
    seat.sees("\r\n").types("y\r").sees("y\r\n");
    writeln!(pipe, "go on").unwrap();
    seat.sees("[c]ancel: ").types("n\r");
    seat.end().exits(14);
    let heard = scene.heard();
    let answer = heard.iter().find(|message| message["id"] == "ask-1").unwrap();
    assert_eq!(answer["result"]["action"], "decline", "{answer}");
}
