//! Foreign wire forms through `cardan bridge`: a server that speaks one, and a client.

mod common;

use common::{CARDAN, Ran, Serving, cardan, cardan_reading, has_python};
use serde_json::{Value, json};

fn lines(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a message per line")).collect()
}

/// CLI-9: a server without a handshake and with closed schemas serves clients of every era and transport.
#[test]
fn cli_9_a_server_of_a_dialect_serves_everyone() {
    if !has_python() {
        return;
    }
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cortex_server.py");
    let behind = Serving::bridge(&["--dialect", "cortex", "--", "python3", server]);
    for way in [format!("http://{}/mcp", behind.address), format!("ws://{}/ws", behind.address)] {
        for era in ["legacy", "modern"] {
            let words = ["call", &way, "any", "--no-check", "--era", era, "a:=1.50", "b:=\"text\""];
            cardan(&words).exits(0).prints("{\"a\": 1.5, \"b\": \"text\"}\n");
        }
        cardan(&["list", &way, "tools"]).exits(10).tells(&["method not found"]);
    }
}

/// CLI-9: clients that write short frames, whole envelopes or a tutorial's notes reach a server of today.
#[test]
fn cli_9_a_client_of_a_dialect_reaches_anyone() {
    let bridge = |dialect: &str, said: &[Value]| {
        let said: String = said.iter().map(|message| format!("{message}\n")).collect();
        let words = ["bridge", "--stdio", "--client-dialect", dialect, "--", CARDAN, "demo"];
        lines(&cardan_reading(&words, &said).exits(0))
    };
    let sum = |messages: &[Value], id: i64| {
        let found = messages.iter().find(|message| message["id"] == id).expect("a reply");
        found["result"]["structuredContent"]["sum"].clone()
    };
    let arguments = json!({ "a": 1, "b": 2 });
    let frame = json!({ "id": 1, "name": "add", "arguments": arguments });
    assert_eq!(sum(&bridge("cortex-frame", &[frame]), 1), 3);
    let params = json!({ "name": "add", "arguments": arguments });
    let call = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    assert_eq!(sum(&bridge("cortex", &[call(1)]), 1), 3);
    let initialize = json!({
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": { "name": "tutorial", "version": "1" }
    });
    let opening = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize });
    let initialized = json!({ "jsonrpc": "2.0", "method": "initialized" });
    assert_eq!(sum(&bridge("tutorial", &[opening, initialized, call(2)]), 2), 3);
}

/// What is no dialect is said with those that there are, and only whoever starts the bridge is known by one.
#[test]
fn unknown_dialects_are_usage() {
    let bridge = |words: &[&str]| cardan(&[&["bridge"], words, &["--", CARDAN, "demo"]].concat());
    bridge(&["--dialect", "klingon"]).exits(1).tells(&["tutorial", "cortex-frame"]);
    bridge(&["--client-dialect", "cortex"]).exits(1).tells(&["--stdio"]);
}
