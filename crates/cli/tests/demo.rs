//! The demo server on raw stdio, line by line, in both eras.

mod common;

use common::{Raw, signal};
use serde_json::{Value, json};

fn legacy() -> Raw {
    let mut raw = Raw::start();
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} },
        "clientInfo": { "name": "test", "version": "1" },
    });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let (reply, _) = raw.call(&hello);
    assert_eq!(reply["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(reply["result"]["serverInfo"]["name"], "cardan-demo");
    assert!(reply["result"]["instructions"].is_string());
    raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    raw
}

fn call(id: i64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn tool(id: i64, name: &str, arguments: Value) -> Value {
    call(id, "tools/call", json!({ "name": name, "arguments": arguments }))
}

/// With what every modern call carries.
fn modern(mut message: Value) -> Value {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {}
        },
    });
    message
}

fn text(reply: &Value) -> &str {
    reply["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply}"))
}

/// STD-12: the server exits promptly on stdin EOF, in both eras and before any word.
#[test]
fn eof_ends_the_server() {
    let mut raw = legacy();
    let (reply, _) = raw.call(&tool(1, "echo", json!({ "message": "hi" })));
    assert_eq!(text(&reply), "hi");
    assert_eq!(raw.end().exits(0).stdout, "");
    let mut raw = Raw::start();
    let (reply, _) = raw.call(&modern(tool(1, "echo", json!({ "text": "hi" }))));
    assert_eq!(text(&reply), "hi");
    assert_eq!(raw.end().exits(0).stdout, "");
    Raw::start().end().exits(0);
}

#[test]
fn signals_end_the_server() {
    for name in ["TERM", "INT"] {
        let raw = legacy();
        signal(raw.child(), name);
        raw.wait().exits(0);
    }
}

#[test]
fn modern_discovery_needs_no_handshake() {
    let mut raw = Raw::start();
    let (reply, _) = raw.call(&modern(call(1, "server/discover", json!({}))));
    let result = &reply["result"];
    assert!(result["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert!(result["capabilities"]["tools"].is_object());
    raw.end().exits(0);
}

/// TOOL-1, TOOL-2, TOOL-4: lists page in a stable order to their end.
#[test]
fn every_list_pages() {
    let mut raw = legacy();
    let lists = [
        ("tools/list", "tools", 18),
        ("resources/list", "resources", 28),
        ("prompts/list", "prompts", 12),
        ("resources/templates/list", "resourceTemplates", 1),
    ];
    let mut id = 0;
    for (method, member, total) in lists {
        let (mut cursor, mut entries, mut pages) = (None::<String>, 0, 0);
        loop {
            id += 1;
            let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let (reply, _) = raw.call(&call(id, method, params));
            let page = reply["result"][member].as_array().unwrap().len();
            assert!(page <= 10);
            (entries, pages) = (entries + page, pages + 1);
            match reply["result"]["nextCursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        assert_eq!(entries, total, "{method}");
        assert_eq!(pages, total.div_ceil(10), "{method}");
    }
    raw.end().exits(0);
}

/// TOOL-5: changes really happen, and are announced.
#[test]
fn changes_are_made_and_announced() {
    let mut raw = legacy();
    let kinds = [
        ("tools", "notifications/tools/list_changed"),
        ("resources", "notifications/resources/list_changed"),
        ("prompts", "notifications/prompts/list_changed"),
    ];
    for (id, (what, note)) in (1..).zip(kinds) {
        let (reply, mut notes) = raw.call(&tool(id, "change", json!({ "what": what })));
        assert!(text(&reply).contains("gained"), "{reply}");
        if notes.is_empty() {
            notes.push(raw.next());
        }
        assert_eq!(notes[0]["method"], note);
    }
    let (reply, _) = raw.call(&tool(10, "extra", json!({})));
    assert_eq!(text(&reply), "extra");
    let (reply, _) = raw.call(&call(11, "resources/read", json!({ "uri": "demo://extra" })));
    assert_eq!(reply["result"]["contents"][0]["text"], "This came later.");
    let (reply, _) = raw.call(&call(12, "prompts/get", json!({ "name": "extra" })));
    assert_eq!(reply["result"]["messages"][0]["content"]["text"], "This came later.");
    let (reply, _) = raw.call(&tool(13, "change", json!({ "what": "tools" })));
    assert!(text(&reply).contains("lost"));
    let (reply, _) = raw.call(&tool(14, "extra", json!({})));
    assert_eq!(reply["error"]["code"], -32602);
    let (reply, _) = raw.call(&tool(15, "change", json!({ "what": "weather" })));
    assert_eq!(reply["result"]["isError"], true);
    raw.end().exits(0);
}

#[test]
fn a_subscribed_resource_announces_its_update() {
    let mut raw = legacy();
    raw.call(&call(1, "resources/subscribe", json!({ "uri": "demo://clock" })));
    let (_, mut notes) = raw.call(&tool(2, "change", json!({ "what": "demo://clock" })));
    if notes.is_empty() {
        notes.push(raw.next());
    }
    assert_eq!(notes[0]["method"], "notifications/resources/updated");
    assert_eq!(notes[0]["params"]["uri"], "demo://clock");
    raw.end().exits(0);
}

#[test]
fn names_are_completed() {
    let mut raw = legacy();
    for (id, (reference, typed, values)) in (1..).zip([
        (json!({ "type": "ref/prompt", "name": "greet" }), "a", json!(["Ada", "Alan"])),
        (json!({ "type": "ref/prompt", "name": "greet" }), "Gr", json!(["Grace"])),
        (json!({ "type": "ref/resource", "uri": "demo://file/{name}" }), "re", json!(["readme", "recipe"])),
    ]) {
        let argument = json!({ "name": "name", "value": typed });
        let params = json!({ "ref": reference, "argument": argument });
        let (reply, _) = raw.call(&call(id, "completion/complete", params));
        assert_eq!(reply["result"]["completion"]["values"], values);
    }
    raw.end().exits(0);
}

/// Legacy: the server calls the client; each ask has its answer in the result.
#[test]
fn legacy_asks_are_calls_to_the_client() {
    let mut raw = legacy();
    let sampled = json!({ "role": "assistant", "content": { "type": "text", "text": "42" }, "model": "m" });
    let cases = [
        (
            tool(1, "ask", json!({ "question": "who?" })),
            "elicitation/create",
            json!({ "action": "accept", "content": { "answer": "Ada" } }),
            "Ada",
        ),
        (
            tool(2, "ask", json!({ "question": "who?" })),
            "elicitation/create",
            json!({ "action": "cancel" }),
            "cancelled",
        ),
        (
            tool(3, "visit", json!({ "url": "https://example.com" })),
            "elicitation/create",
            json!({ "action": "decline" }),
            "declined",
        ),
        (tool(4, "sample", json!({ "prompt": "6 times 7" })), "sampling/createMessage", sampled, "42"),
        (
            tool(5, "roots", json!({})),
            "roots/list",
            json!({ "roots": [{ "uri": "file:///a", "name": "a" }, { "uri": "file:///b" }] }),
            "file:///a (a)\nfile:///b",
        ),
    ];
    for (message, method, result, expected) in cases {
        raw.send(&message);
        let ask = raw.next();
        assert_eq!(ask["method"], method);
        if ask["params"]["mode"] == "url" {
            assert_eq!(ask["params"]["elicitationId"].as_str().unwrap().len(), 32);
        }
        raw.send(&json!({ "jsonrpc": "2.0", "id": ask["id"], "result": result }));
        let reply = raw.next();
        assert_eq!((&reply["id"], text(&reply)), (&message["id"], expected));
    }
    raw.end().exits(0);
}

/// TOOL-20, modern: the call returns with what it needs and is retried with the answers.
#[test]
fn modern_asks_are_answered_by_a_retry() {
    let mut raw = Raw::start();
    let message = modern(tool(1, "sample", json!({ "prompt": "6 times 7" })));
    let (reply, _) = raw.call(&message);
    assert_eq!(reply["result"]["resultType"], "input_required");
    let asks = reply["result"]["inputRequests"].as_object().unwrap();
    assert_eq!(asks["sample"]["method"], "sampling/createMessage");
    let mut retry = message;
    retry["id"] = json!(2);
    retry["params"]["requestState"] = reply["result"]["requestState"].clone();
    retry["params"]["inputResponses"] = json!({
        "sample": { "role": "assistant", "content": { "type": "text", "text": "42" }, "model": "m" }
    });
    let (reply, _) = raw.call(&retry);
    assert_eq!(text(&reply), "42");
    raw.end().exits(0);
}

/// TOOL-6, TOOL-7, TOOL-9: schemas are of objects, names are plain, results fit what is announced.
#[test]
fn tools_are_described_and_keep_their_word() {
    let mut raw = legacy();
    let (first, _) = raw.call(&call(1, "tools/list", json!({})));
    for tool in first["result"]["tools"].as_array().unwrap() {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["description"].is_string(), "{tool}");
    }
    let echo = &first["result"]["tools"][0];
    assert_eq!(echo["inputSchema"]["required"], json!(["message"]), "the other spelling is not announced");
    assert!(echo["inputSchema"]["properties"].get("text").is_none());
    let (sum, _) = raw.call(&tool(2, "add", json!({ "a": 1.5, "b": 2 })));
    assert_eq!(sum["result"]["structuredContent"], json!({ "sum": 3.5 }));
    for (id, calls) in [(3, "1"), (4, "2")] {
        let (count, _) = raw.call(&tool(id, "count", json!({})));
        assert_eq!(text(&count), calls);
    }
    let (bad, _) = raw.call(&tool(5, "add", json!({ "a": "x", "b": 2 })));
    assert!(bad["result"]["isError"] == true && text(&bad).contains("/arguments/a"), "{bad}");
    let (big, _) = raw.call(&tool(6, "big", json!({ "bytes": 9_000_000 })));
    assert_eq!(big["result"]["isError"], true);
    let (picture, _) = raw.call(&tool(7, "picture", json!({})));
    assert_eq!(picture["result"]["content"][0]["mimeType"], "image/png");
    let (panicked, _) = raw.call(&tool(8, "panic", json!({})));
    assert_eq!(panicked["error"]["code"], -32603);
    let (alive, _) = raw.call(&tool(9, "echo", json!({ "message": "still here" })));
    assert_eq!(text(&alive), "still here");
    raw.end().exits(0);
}
