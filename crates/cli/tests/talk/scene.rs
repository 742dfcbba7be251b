//! A server that asks, and someone at a terminal.

use std::fs::File;

use serde_json::{Value, json};

use crate::common::pty::{Pty, Seat};
use crate::common::{CARDAN, Scratch, cardan, has_python, logged};

/// A server that asks what its script says.
pub(crate) struct Scene {
    scratch: Scratch,
    script: String,
}

impl Scene {
    /// Nothing: the server cannot run here.
    pub(crate) fn new(name: &str, script: &Value) -> Option<Self> {
        has_python().then(|| Self { scratch: Scratch::new(name), script: script.to_string() })
    }

    /// One form with these fields, of which some are required.
    pub(crate) fn form(name: &str, message: &str, properties: &Value, required: &[&str]) -> Option<Self> {
        Self::new(name, &json!({ "asks": [form(message, properties, required)] }))
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.scratch.file(name)
    }

    /// The server's file, and its two arguments.
    pub(crate) fn server(&self) -> (&'static str, String, &str) {
        let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/asking_server.py");
        (server, self.file("log"), &self.script)
    }

    fn words(&self, more: &[&str]) -> Vec<String> {
        let (server, log, script) = self.server();
        let words = [&["call", "go"], more, &["--", "python3", server, &log, script]].concat();
        words.into_iter().map(str::to_owned).collect()
    }

    /// Someone calls its tool.
    pub(crate) fn call(&self, more: &[&str]) -> Seat {
        self.call_at(Pty::new(80), more)
    }

    /// The same at a terminal that was prepared. The result goes elsewhere: only the conversation is seen.
    pub(crate) fn call_at(&self, pty: Pty, more: &[&str]) -> Seat {
        let words = self.words(more);
        pty.stdout(File::create(self.file("stdout")).unwrap())
            .start(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The same without a terminal.
    pub(crate) fn call_unseen(&self, more: &[&str]) -> crate::common::Ran {
        let words = self.words(more);
        cardan(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The result of the last call.
    pub(crate) fn printed(&self) -> String {
        std::fs::read_to_string(self.file("stdout")).unwrap()
    }

    /// What the server was told, in order.
    pub(crate) fn heard(&self) -> Vec<Value> {
        logged(&self.file("log"))
    }

    /// The answer to its first ask.
    #[track_caller]
    pub(crate) fn answer(&self) -> Value {
        let heard = self.heard();
        let answer = heard.iter().find(|message| message["id"] == "ask-0");
        answer.unwrap_or_else(|| panic!("no answer: {heard:?}"))["result"].clone()
    }
}

/// A request for a form.
pub(crate) fn form(message: &str, properties: &Value, required: &[&str]) -> Value {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": schema } })
}

/// Someone runs a command against the demo server.
pub(crate) fn demo(words: &[&str]) -> Seat {
    Pty::new(80).start(&[words, &["--", CARDAN, "demo"]].concat())
}
