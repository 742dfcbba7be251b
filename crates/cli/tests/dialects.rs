//! Foreign wire forms through `cardan bridge`: a server that speaks one, and a client.

mod common;

use common::{CARDAN, ODD, Ran, Scratch, Serving, cardan, cardan_reading, has_python};
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

/// What a bridge tells a client on stdio that said this and left.
fn bridged(dialects: &[&str], server: &[&str], said: &[Value]) -> Vec<Value> {
    let said: String = said.iter().map(|message| format!("{message}\n")).collect();
    let words = [&["bridge", "--stdio"], dialects, &["--"], server].concat();
    lines(&cardan_reading(&words, &said).exits(0))
}

fn reply(messages: &[Value], id: i64) -> &Value {
    let found = messages.iter().find(|message| message["id"] == id);
    found.unwrap_or_else(|| panic!("no reply to {id} in {messages:?}"))
}

/// How a client of the tutorial begins, or of today, but for the name of its note.
fn opening(revision: &str, initialized: &str) -> [Value; 2] {
    let client = json!({ "name": "c", "version": "1" });
    let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
    [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": initialized }),
    ]
}

fn calls(id: i64, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn adds(id: i64) -> Value {
    calls(id, "add", &json!({ "a": 1, "b": 2 }))
}

const DEMO: [&str; 2] = [CARDAN, "demo"];

/// CLI-9: clients that write short frames, whole envelopes or a tutorial's notes reach a server of today.
#[test]
fn cli_9_a_client_of_a_dialect_reaches_anyone() {
    let sum = |dialect: &str, said: &[Value], id: i64| {
        let told = bridged(&["--client-dialect", dialect], &DEMO, said);
        reply(&told, id)["result"]["structuredContent"]["sum"].clone()
    };
    let frame = json!({ "id": 1, "name": "add", "arguments": { "a": 1, "b": 2 } });
    assert_eq!(sum("cortex-frame", &[frame], 1), 3);
    assert_eq!(sum("cortex", &[adds(1)], 1), 3);
    let [hello, initialized] = opening("2024-11-05", "initialized");
    assert_eq!(sum("tutorial", &[hello, initialized, adds(2)], 2), 3);
}

/// CLI-9: one dialect is bridged into another, or into itself, and each side hears its own alone.
#[test]
fn cli_9_dialects_are_bridged_into_each_other() {
    if !has_python() {
        return;
    }
    let cortex = ["python3", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cortex_server.py")];
    let given = json!({ "b": "text", "a": 1 });
    let said = json!([{ "type": "text", "text": r#"{"a": 1, "b": "text"}"# }]);
    let frame = json!({ "id": 1, "name": "any", "arguments": given });
    for (dialect, call) in [("cortex", calls(1, "any", &given)), ("cortex-frame", frame)] {
        let told = bridged(&["--client-dialect", dialect, "--dialect", "cortex"], &cortex, &[call]);
        assert_eq!(told, [json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": said } })], "{dialect}");
    }
    let [hello, initialized] = opening("2024-11-05", "initialized");
    let leaves = json!({ "jsonrpc": "2.0", "id": 3, "method": "shutdown" });
    let tutorial = [hello, initialized, calls(2, "any", &given), leaves];
    let told = bridged(&["--client-dialect", "tutorial", "--dialect", "cortex"], &cortex, &tutorial);
    assert_eq!(reply(&told, 1)["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(reply(&told, 2)["result"]["content"], said);
    assert!(reply(&told, 3)["result"].is_object(), "{told:?}");
    let told = bridged(&["--client-dialect", "cortex", "--dialect", "tutorial"], &DEMO, &[adds(1)]);
    assert_eq!(reply(&told, 1)["result"]["structuredContent"]["sum"], 3);
}

/// CLI-9: batches of either side are taken in a revision that has none where that was asked for, and nowhere else.
#[test]
fn cli_9_batches_are_a_dialect() {
    let [hello, initialized] = opening("2025-11-25", "notifications/initialized");
    let batch = [hello.clone(), initialized.clone(), json!([adds(2), adds(3)])];
    let told = bridged(&["--client-dialect", "batch"], &DEMO, &batch);
    let replies = told.iter().find_map(Value::as_array).unwrap_or_else(|| panic!("no batch in {told:?}"));
    for id in [2, 3] {
        assert_eq!(reply(replies, id)["result"]["structuredContent"]["sum"], 3);
    }
    let told = bridged(&[], &DEMO, &batch);
    assert!(told.iter().any(|message| message["error"]["code"] == -32600), "{told:?}");
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("batches");
    let (log, config) = (scratch.file("log"), scratch.file("cardan.toml"));
    let server = ["python3", ODD, "array", &log];
    let single = [hello, initialized, calls(2, "odd", &json!({}))];
    let told = bridged(&["--dialect", "batch"], &server, &single);
    assert_eq!(reply(&told, 2)["result"]["content"][0]["text"], "mended");
    assert!(reply(&bridged(&[], &server, &single), 2)["error"].is_object());
    for (dialect, exit) in [("batch", 0), ("standard", 11)] {
        let server =
            format!("command = 'python3'\nargs = ['{ODD}', 'array', '{log}']\ndialect = '{dialect}'\n");
        std::fs::write(&config, format!("[servers.odd]\n{server}")).unwrap();
        let ran = cardan(&["call", "odd", "odd", "--config", &config]).exits(exit);
        assert_eq!(ran.stdout, if exit == 0 { "mended\n" } else { "" }, "{ran:?}");
    }
}

/// What is no dialect is said with those that there are, and only whoever starts the bridge is known by one.
#[test]
fn unknown_dialects_are_usage() {
    let bridge = |words: &[&str]| cardan(&[&["bridge"], words, &["--", CARDAN, "demo"]].concat());
    bridge(&["--dialect", "klingon"]).exits(1).tells(&["tutorial", "cortex-frame"]);
    bridge(&["--client-dialect", "cortex"]).exits(1).tells(&["--stdio"]);
}
