//! A server asks for a model.

use serde_json::{Value, json};

use crate::common::pty::CTRL_D;
use crate::common::{Scratch, demo as unseen};
use crate::scene::{Scene, demo};

/// CLI-16, SAM-7, SAM-12: a person reads what is asked, agrees, answers and has a last look; or declines, and the server is
/// told so.
#[test]
fn cli_16_a_person_answers_for_the_model() {
    for era in ["legacy", "modern"] {
        let sample = ["call", "sample", "prompt=Tell a joke", "--era", era];
        let mut seat = demo(&sample);
        seat.sees("asks your model for an answer of at most 500 tokens").sees("user:").sees("| Tell a joke");
        seat.sees("Answer in its place?").types("y\r").sees("> ").types("No.\r").sees("> ").types("\r");
        seat.sees("This goes to").sees("| No.").sees("Send it?").types("e\r");
        seat.sees("> ").types("Knock\r").sees("> ").types("knock\r").sees("> ").types("\r");
        seat.sees("Send it?").types("\r").sees("Knock\r\nknock");
        seat.end().exits(0);
        for typed in ["n\r", CTRL_D] {
            let mut seat = demo(&sample);
            seat.sees("Answer in its place?").types(typed).sees("the user declined to answer for the model");
            seat.end().exits(14);
        }
    }
    let params = json!({
        "maxTokens": 1, "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }],
    });
    let script = json!({ "asks": [{ "method": "sampling/createMessage", "params": params }] });
    let Some(scene) = Scene::new("rejected", &script) else { return };
    let mut seat = scene.call(&[]);
    seat.sees("Answer in its place?").types("n\r");
    seat.end().exits(14);
    let heard = scene.heard();
    let answer = heard.iter().find(|message| message["id"] == "ask-0").unwrap();
    assert_eq!(answer["error"]["code"], -1, "{answer}");
}

/// CLI-16: a command reads the request and answers with text or a whole result; when it fails that is told.
#[test]
fn cli_16_a_command_answers_for_the_model() {
    let scratch = Scratch::new("model");
    let asked = scratch.file("asked.json");
    let sample = |era: &str, command: &str| {
        unseen(&["call", "sample", "prompt=Tell a joke", "--era", era, "--sampling-command", command])
    };
    for era in ["legacy", "modern"] {
        let command = format!("cat > {asked}; echo Knock; echo knock");
        sample(era, &command).exits(0).prints("Knock\nknock\n").tells(&["asks your model"]);
        let request: Value = serde_json::from_str(&std::fs::read_to_string(&asked).unwrap()).unwrap();
        assert_eq!(request["messages"][0]["content"]["text"], "Tell a joke");
        assert_eq!(request["maxTokens"], 500);
        let whole = r#"echo '{"role":"assistant","content":{"type":"text","text":"whole"},"model":"m"}'"#;
        sample(era, whole).exits(0).prints("whole\n");
        sample(era, "echo oh no >&2; exit 3")
            .exits(14)
            .tells(&["oh no", "sampling command failed (exit status: 3)"]);
        sample(era, "true").exits(14).tells(&["answered with nothing"]);
        sample(era, "exec no-such-model-here").exits(14).tells(&["sampling command failed"]);
        unseen(&["call", "sample", "prompt=x", "--era", era]).exits(14).tells(&["--sampling-command"]);
    }
}
