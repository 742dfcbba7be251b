//! A server asks for a model.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::pty::CTRL_D;
use crate::common::{CARDAN, Fifo, Scratch, demo as unseen, finish, signal, start};
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

/// CLI-16: the command may stand in a variable, and for configured servers in the user's file; not in one that came with a
/// project.
#[test]
fn cli_16_the_command_may_be_configured() {
    let scratch = Scratch::new("configured-model");
    let config = scratch.file("cardan.toml");
    let text = format!(
        "[client]\nsampling_command = \"echo configured\"\n[servers.demo]\ncommand = [\"{CARDAN}\", \"demo\"]\n"
    );
    std::fs::write(&config, text).unwrap();
    let sample = |words: &[&str], variable: Option<&str>| {
        let mut command = Command::new(CARDAN);
        command.args(["call", "demo", "sample", "prompt=x"]).args(words).stdin(Stdio::null());
        command.envs(variable.map(|command| ("CARDAN_SAMPLING_COMMAND", command)));
        let home = scratch.file("home");
        command
            .current_dir(Path::new(&config).parent().unwrap())
            .env("HOME", home)
            .env_remove("XDG_CONFIG_HOME");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let named = ["--config", config.as_str()];
    assert_eq!(sample(&named, None), (Some(0), "configured\n".to_owned()));
    assert_eq!(sample(&named, Some("echo variable")), (Some(0), "variable\n".to_owned()));
    let said = [&named[..], &["--sampling-command", "echo said"]].concat();
    assert_eq!(sample(&said, Some("echo variable")), (Some(0), "said\n".to_owned()));
    let trusted = Command::new(CARDAN)
        .args(["config", "trust", "--all"])
        .current_dir(Path::new(&config).parent().unwrap())
        .env("HOME", scratch.file("home"))
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    assert_eq!(sample(&[], None).0, Some(14), "found in the project's file, and not believed");
}

/// CLI-13, CLI-16: a command that answers for a model ends with the call that it answers.
#[test]
fn cli_13_an_interrupted_call_ends_the_command_that_answers() {
    let scratch = Scratch::new("endless-model");
    let mark = Fifo::new(&scratch, "pid");
    // What it has started itself ends, too.
    let command = format!("sleep 600 & echo $! > {}; wait", mark.path);
    let child = start(&["call", "sample", "prompt=x", "--sampling-command", &command, "--", CARDAN, "demo"]);
    let pid = mark.line();
    signal(&child, "INT");
    finish(child).exits(130);
    let start = Instant::now();
    let lives = || std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    while lives() {
        assert!(start.elapsed() < Duration::from_secs(10), "{pid} was left behind");
    }
}

/// CLI-16: a command that answers without end is stopped, and its call with it.
#[test]
fn cli_16_an_endless_answer_is_given_up() {
    unseen(&["call", "sample", "prompt=x", "--sampling-command", "yes"])
        .exits(14)
        .tells(&["the sampling command was given up: it answers with more than fits"]);
}
