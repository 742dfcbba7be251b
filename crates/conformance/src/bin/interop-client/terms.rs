//! What servers call things: the peers and our demo one way, the reference server another.

use std::env;

use serde_json::{Value, json};

/// What a gateway puts before the names of the server that is meant, for tools and prompts; nothing without one.
pub(crate) fn prefix() -> String {
    env::var("PEER_PREFIX").unwrap_or_default()
}

/// A tool or prompt by the name that it has here.
pub(crate) fn within(name: &str) -> String {
    prefix() + name
}

/// The names that are the server's own.
pub(crate) fn own(names: impl Iterator<Item = String>) -> Vec<String> {
    names.filter_map(|name| Some(name.strip_prefix(&prefix())?.to_owned())).collect()
}

/// A tool and its arguments.
pub(crate) type Tool = (&'static str, Value);

pub(crate) struct Terms {
    pub(crate) tools: [&'static str; 3],
    /// A call, and a member of its structured result.
    pub(crate) structured: (Tool, &'static str, Value),
    /// A call that fails, and a part of what it says.
    pub(crate) fail: (Tool, &'static str),
    /// What a slow call says at its end.
    pub(crate) done: &'static str,
    pub(crate) ask: Tool,
    pub(crate) sample: Tool,
    pub(crate) roots: Tool,
    pub(crate) template: &'static str,
    /// A listed resource, and one of the template.
    pub(crate) read: [&'static str; 2],
    /// A prompt, its argument and what fills it.
    pub(crate) prompt: (&'static str, &'static str, &'static str),
    /// A prompt, its argument and what is typed.
    pub(crate) complete: (&'static str, &'static str, &'static str),
    /// A call that logs, and a part of what it says.
    pub(crate) log: (Tool, &'static str),
    /// A call that changes the list of tools, where there is one.
    pub(crate) changed: Option<Tool>,
    /// A resource, and a call that tells of its update.
    pub(crate) updated: (&'static str, Tool),
    /// A resource that cannot be read: code and data.
    pub(crate) fault: (&'static str, i64, Option<Value>),
    slow: &'static str,
}

const DOCUMENT: &str = "demo://resource/static/document/architecture.md";

impl Terms {
    /// Of the server that has these tools.
    pub(crate) fn of(tools: &[String]) -> Self {
        let everything = Self::everything();
        if tools.iter().any(|tool| tool == everything.slow) { everything } else { Self::demo() }
    }

    pub(crate) fn demo() -> Self {
        Self {
            tools: ["echo", "add", "slow"],
            structured: (("add", json!({ "a": 2, "b": 3 })), "sum", json!(5)),
            fail: (("fail", json!({ "message": "out of luck" })), "out of luck"),
            done: "done",
            ask: ("ask", json!({ "question": "favourite colour?" })),
            sample: ("sample", json!({ "prompt": "say something" })),
            roots: ("roots", json!({})),
            template: "demo://file/{name}",
            read: ["demo://clock", "demo://file/readme"],
            prompt: ("greet", "name", "Ada"),
            complete: ("greet", "name", "A"),
            log: (("note", json!({ "level": "warning", "message": "hi" })), "hi"),
            changed: Some(("change", json!({ "what": "tools" }))),
            updated: ("demo://clock", ("change", json!({ "what": "demo://clock" }))),
            fault: ("demo://file/broken", 7001, Some(json!({ "part": "shaft", "tries": 3 }))),
            slow: "slow",
        }
    }

    fn everything() -> Self {
        Self {
            tools: ["echo", "get-sum", "trigger-long-running-operation"],
            structured: (
                ("get-structured-content", json!({ "location": "New York" })),
                "temperature",
                json!(33),
            ),
            fail: (
                ("get-resource-reference", json!({ "resourceType": "Text", "resourceId": -1 })),
                "resourceId",
            ),
            done: "completed",
            ask: ("trigger-elicitation-request", json!({})),
            sample: ("trigger-sampling-request", json!({ "prompt": "say something" })),
            roots: ("get-roots-list", json!({})),
            template: "demo://resource/dynamic/text/{resourceId}",
            read: [DOCUMENT, "demo://resource/dynamic/text/1"],
            prompt: ("args-prompt", "city", "Ada"),
            complete: ("completable-prompt", "department", "E"),
            log: (("toggle-simulated-logging", json!({})), ""),
            changed: None,
            updated: (DOCUMENT, ("toggle-subscriber-updates", json!({}))),
            fault: ("demo://resource/dynamic/text/0", -32603, None),
            slow: "trigger-long-running-operation",
        }
    }

    /// A call of so many steps.
    pub(crate) fn slow(&self, steps: u32, delay_ms: u32) -> Tool {
        let arguments = if self.slow == "slow" {
            json!({ "steps": steps, "delay_ms": delay_ms })
        } else {
            json!({ "steps": steps, "duration": f64::from(steps * delay_ms) / 1000.0 })
        };
        (self.slow, arguments)
    }
}
