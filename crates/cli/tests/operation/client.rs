//! Clients of both eras, on connections of their own.

use serde_json::{Value, json};

use crate::rig::{Running, Wire};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A modern call of a tool. Its headers say the same as it does.
pub(crate) fn modern(running: &Running, tool: &str, arguments: &Value) -> Wire {
    modern_with(running, &[], tool, arguments)
}

/// The same with more headers.
pub(crate) fn modern_with(running: &Running, headers: &[&str], tool: &str, arguments: &Value) -> Wire {
    post_modern(running, "/mcp", headers, tool, json!({ "name": tool, "arguments": arguments }), &json!({}))
}

/// A modern call by someone who can be asked; with an answer, the retry of one that was.
pub(crate) fn modern_asked(
    running: &Running,
    path: &str,
    tool: &str,
    answer: Option<(&str, &Value)>,
) -> Wire {
    let mut params = json!({ "name": tool, "arguments": { "question": "who?" } });
    if let Some((state, answers)) = answer {
        params["requestState"] = state.into();
        params["inputResponses"] = answers.clone();
    }
    post_modern(running, path, &[], tool, params, &json!({ "elicitation": {} }))
}

fn post_modern(
    running: &Running,
    path: &str,
    headers: &[&str],
    tool: &str,
    mut params: Value,
    capabilities: &Value,
) -> Wire {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "progressToken": 1,
    });
    let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    let (version, name) = (format!("MCP-Protocol-Version: {MODERN}"), format!("Mcp-Name: {tool}"));
    let usual = [&*version, "Mcp-Method: tools/call", &name];
    running.post(path, &[&usual, headers].concat(), &message)
}

/// A legacy client.
pub(crate) struct Legacy<'a> {
    running: &'a Running,
    path: &'static str,
    pub(crate) session: String,
}

/// What a legacy client says first.
pub(crate) fn initialize() -> Value {
    let params = json!({
        "protocolVersion": LEGACY,
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

impl<'a> Legacy<'a> {
    pub(crate) fn open(running: &'a Running) -> Self {
        Self::open_at(running, "/mcp")
    }

    pub(crate) fn open_at(running: &'a Running, path: &'static str) -> Self {
        let opened = running.post(path, &[], &initialize()).answer();
        assert_eq!(opened.status, 200, "{opened:?}");
        let session = opened.session();
        let client = Self { running, path, session };
        let told = client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).answer();
        assert_eq!(told.status, 202, "{told:?}");
        client
    }

    pub(crate) fn post(&self, message: &Value) -> Wire {
        let session = format!("Mcp-Session-Id: {}", self.session);
        self.running.post(self.path, &[&session], message)
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Wire {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": 1 } });
        self.post(&json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params }))
    }
}
