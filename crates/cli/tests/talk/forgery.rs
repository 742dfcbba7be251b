//! What a server says stays behind its mark, however it is written: no row of the terminal begins with it.

use serde_json::json;

use crate::common::pty::{CTRL_D, Pty, Shown};
use crate::common::{Scratch, has_python};
use crate::scene::Scene;

/// Words that begin some row, wherever the text stands, unless someone breaks it into rows: seven and eighty columns have no
/// common part.
fn forged() -> String {
    format!("x{}{}\nFORGED", " ".repeat(64), "FORGED ".repeat(80))
}

/// The rows of a terminal with 80 columns.
fn rows(shown: &Shown) -> Vec<String> {
    let written = shown.written();
    let mut rows = Vec::new();
    for line in written.lines() {
        // Colours take no room, and what is drawn over was a line of ours.
        let line = line.rsplit('␍').next().unwrap();
        let mut plain = String::new();
        for (at, piece) in line.split('␛').enumerate() {
            plain.push_str(if at == 0 {
                piece
            } else {
                piece.split_once(['m', 'K']).map_or("", |(_, rest)| rest)
            });
        }
        let chars: Vec<char> = plain.chars().collect();
        rows.extend(chars.chunks(80).map(|row| row.iter().collect::<String>()));
    }
    rows
}

/// T30: it is shown, and begins no row.
#[track_caller]
fn stays(shown: &Shown) {
    let rows = rows(shown);
    assert!(rows.iter().any(|row| row.contains("FORGED")), "{rows:#?}");
    let begun: Vec<&String> = rows.iter().filter(|row| row.starts_with("FORGED")).collect();
    assert!(begun.is_empty(), "{begun:?} in {rows:#?}");
}

/// T30: messages, titles, descriptions, choices, names and defaults of a form, also where they are told again.
#[test]
fn t30_a_form_stays_behind_its_bar() {
    let evil = forged();
    let secret = format!("{evil} password");
    let properties = json!({
        "a": { "type": "string", "title": evil, "description": evil, "enum": [evil, "b"], "enumNames": [evil, evil] },
        &evil: { "type": "string", "title": "short", "default": evil },
        &secret: { "type": "string" },
    });
    let Some(scene) = Scene::form("barred", &evil, &properties, &["a"]) else { return };
    let mut seat = scene.call(&["--quiet", "--answer", "a=c"]);
    seat.sees("[y/N] ").types("y\r").sees("a: ").types("c\r").sees("is not one of").sees("a: ").types("b\r");
    seat.sees("FORGED]: ").types("\r").sees("password: ").types("x\r").sees("Send it?").types("\r");
    stays(&seat.end().exits(0));
}

/// T30: the words beside an address, asked about and told.
#[test]
fn t30_words_beside_an_address_stay_behind_their_bar() {
    let visit = json!({ "method": "elicitation/create", "params": {
        "mode": "url", "message": forged(), "url": "https://example.com/x", "elicitationId": "v1" } });
    let Some(scene) = Scene::new("barred-visit", &json!({ "asks": [visit], "note": forged() })) else {
        return;
    };
    let mut seat = scene.call(&["--quiet"]);
    seat.sees("[c]ancel: ").types("y\r");
    stays(&seat.end().exits(0));
    stays(&scene.call(&["--quiet", "--accept-urls"]).end().exits(0));
    stays(&scene.call(&["--quiet", "--no-input"]).end().exits(14));
    let piped = scene.call_unseen(&["--accept-urls"]).exits(0).stderr;
    assert!(piped.lines().all(|line| !line.starts_with("FORGED")), "{piped}");
}

/// T30: what a model is asked, and with which tools.
#[test]
fn t30_what_a_model_is_asked_stays_behind_its_bar() {
    let message = json!({ "role": "user", "content": { "type": "text", "text": forged() } });
    let tools = json!([{ "name": forged(), "inputSchema": { "type": "object" } }]);
    let params = json!({ "maxTokens": 1, "messages": [message], "systemPrompt": forged(), "tools": tools });
    let script = json!({ "asks": [{ "method": "sampling/createMessage", "params": params }] });
    let Some(scene) = Scene::new("barred-model", &script) else { return };
    let mut seat = scene.call(&["--quiet"]);
    seat.sees("Answer in its place?").types(CTRL_D);
    stays(&seat.end().exits(14));
}

/// T30: arguments that are asked for, and why one does not fit.
#[test]
fn t30_arguments_stay_behind_their_bar() {
    let evil = forged();
    let schema = json!({ "type": "object", "required": ["a", &evil], "properties": {
        "a": { "enum": [evil, "b"], "description": evil },
        &evil: { "type": "string", "description": evil, "pattern": "FORGED FORGED" },
    }});
    let Some(scene) = Scene::new("barred-arguments", &json!({ "schema": schema })) else { return };
    let mut seat = scene.call(&["--quiet"]);
    seat.sees("a: ").types("c\r").sees("a: ").types("2\r").sees("FORGED: ").types("x\r");
    seat.sees("FORGED: ").types(CTRL_D);
    stays(&seat.end().exits(1));
}

/// T30: what a server says on stderr, as it comes and as its last words, and what a project's file would have started.
#[test]
fn t30_last_words_stay_behind_their_bar() {
    if !has_python() {
        return;
    }
    let speak = format!("import sys; sys.stderr.write({:?}); sys.exit(3)", forged());
    for more in [&["--quiet"][..], &["--quiet", "-v"]] {
        let words = [&["list"], more, &["--", "python3", "-c", &speak]].concat();
        stays(&Pty::new(80).run(&words).exits(13));
    }
    let scratch = Scratch::new("barred-trust");
    let config = format!("[servers.x]\ncommand = [\"sh\", {:?}]\n", forged());
    std::fs::write(scratch.file("cardan.toml"), config).unwrap();
    let folder = std::path::Path::new(&scratch.file("cardan.toml")).parent().unwrap().to_owned();
    let home = scratch.file("home");
    stays(&Pty::new(80).cwd(&folder).env("HOME", &home).run(&["config", "trust"]).exits(0));
}
