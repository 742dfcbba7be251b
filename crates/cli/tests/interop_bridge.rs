//! Clients and servers that nobody here wrote, on either side of `cardan bridge`.
//!
//! The peers are installed by `cargo xtask test`; without them each test says that it was skipped, and
//! fails where `CARDAN_PEERS=required`. What each check asks stands in `peers/script.{mjs,py}`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::path::Path;

use common::{CARDAN, CHECKS, Serving, cardan, peer};
use serde_json::Value;

/// Runs one client against what `words` name, and checks what it reports.
fn passes(client: &str, era: Option<&str>, words: &[&str]) {
    let script = if client.starts_with("python") { "client.py" } else { "client.mjs" };
    let Some(mut command) = peer(client, script) else { return };
    if let Some(era) = era {
        command.args(["--era", era]);
    }
    let output = command.arg("--").args(words).output().expect("the client runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let settles = era.unwrap_or("legacy");
    for check in CHECKS.iter().copied().chain((settles == "legacy").then_some("ping")) {
        let line = lines.iter().find(|line| line["check"] == check);
        let line =
            line.unwrap_or_else(|| panic!("{client} {era:?} {words:?}: {check} was not reached: {text}"));
        assert_eq!(line["ok"], Value::Bool(true), "{client} {era:?} {words:?}: {line}");
    }
}

/// One client before a bridge to a server of each era: over HTTP, old HTTP+SSE where the client has it, and stdio.
fn passes_bridges(client: &str, era: Option<&str>) {
    for upstream in ["legacy", "modern"] {
        let bridge = Serving::bridge(&["--era", upstream, "--", CARDAN, "demo"]);
        passes(client, era, &[&format!("http://{}/mcp", bridge.address)]);
        if era.is_none() {
            passes(client, era, &[&format!("http://{}/sse", bridge.address)]);
        }
        let address = format!("ws://{}/ws", bridge.address);
        passes(client, era, &[CARDAN, "bridge", "--stdio", "--era", upstream, &address]);
    }
}

#[test]
fn typescript_sdk_1() {
    passes_bridges("node-v1", None);
}

#[test]
fn typescript_sdk_2_legacy() {
    passes_bridges("node-v2", Some("legacy"));
}

#[test]
fn typescript_sdk_2_modern() {
    passes_bridges("node-v2", Some("modern"));
}

#[test]
fn python_sdk_1() {
    passes_bridges("python-v1", None);
}

#[test]
fn python_sdk_2_legacy() {
    passes_bridges("python-v2", Some("legacy"));
}

#[test]
fn python_sdk_2_modern() {
    passes_bridges("python-v2", Some("modern"));
}

/// The reference server, which is legacy, behind a bridge: clients of both eras call it, hear its progress and are
/// asked by it.
#[test]
fn server_everything_behind_a_bridge() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/node-everything");
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    if peer("node-everything", script).is_none() {
        return;
    }
    let script = folder.join(script).display().to_string();
    let bridge = Serving::bridge(&["--", "node", &script, "stdio"]);
    let address = format!("http://{}/mcp", bridge.address);
    for era in ["legacy", "modern"] {
        let call = |words: &[&str]| cardan(&[&["call", &address], words, &["--era", era]].concat());
        call(&["echo", "message=hi"]).exits(0).prints("Echo: hi\n");
        let slow = ["trigger-long-running-operation", "duration=1", "steps=4"];
        call(&slow).exits(0).tells(&["1 of 4", "4 of 4"]);
        let asked = call(&["trigger-elicitation-request", "--answer", "name=Ada"]).exits(0);
        assert!(asked.stdout.contains("Ada"), "{era}: {asked:#?}");
        let roots = call(&["get-roots-list", "--root", "/usr"]).exits(0);
        assert!(roots.stdout.contains("file:///usr"), "{era}: {roots:#?}");
        cardan(&["list", &address, "--era", era]).exits(0);
    }
    assert_eq!(bridge.stop(), Some(0));
}

/// TSKD-4, TSKD-7, TSKD-12, TSKD-17: a client that nobody here wrote, which has the tasks of 2025-11-25, follows one at a modern
/// server and at a legacy one.
#[test]
fn typescript_sdk_1_follows_tasks() {
    for upstream in ["modern", "legacy"] {
        let Some(mut command) = peer("node-v1", "tasks.mjs") else { return };
        let bridge = Serving::bridge(&["--era", upstream, "--", CARDAN, "demo"]);
        let address = format!("http://{}/mcp", bridge.address);
        let output = command.args(["job", r#"{"steps":3,"delay_ms":20}"#, "--", &address]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let of = |kind: &str| {
            let line = lines.iter().find(|line| line["type"] == kind);
            line.unwrap_or_else(|| {
                panic!("{upstream}: no {kind}: {text} {}", String::from_utf8_lossy(&output.stderr))
            })
        };
        assert!(of("capability")["tasks"]["requests"]["tools"]["call"].is_object(), "{upstream}: {text}");
        assert_eq!(of("taskCreated")["task"]["status"], "working", "{upstream}: {text}");
        assert_eq!(of("result")["result"]["content"][0]["text"], "done", "{upstream}: {text}");
        if upstream == "modern" {
            let listed = of("listed");
            assert_eq!(listed["ids"], serde_json::json!([listed["id"]]), "{text}");
        }
    }
}

/// TSKE-2, TSKE-8, TSKE-11, TSKE-15: a modern client follows a task of the reference server, which is legacy: it is asked by the
/// task's state, and its answer is in the result.
#[test]
fn a_task_of_server_everything_is_followed_by_a_modern_client() {
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    if peer("node-everything", script).is_none() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/node-everything").join(script);
    let script = script.display().to_string();
    let bridge = Serving::bridge(&["--", "node", &script, "stdio"]);
    let address = format!("http://{}/mcp", bridge.address);
    let declared = serde_json::json!({"io.modelcontextprotocol/clientCapabilities":
        {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let raw = |method: &str, mut params: Value| {
        params["_meta"] = declared.clone();
        cardan(&["raw", &address, method, &params.to_string(), "--era", "modern"]).exits(0).json()
    };
    let made = raw(
        "tools/call",
        serde_json::json!({"name": "simulate-research-query", "arguments": {"topic": "python", "ambiguous": true}}),
    );
    assert_eq!((&made["resultType"], &made["status"]), (&"task".into(), &"working".into()), "{made}");
    let id = &made["taskId"];
    // Each look is a process of its own: it takes its time, and needs no pause.
    let settled = |not: &str| loop {
        let state = raw("tasks/get", serde_json::json!({ "taskId": id }));
        if state["status"] != "working" && state["status"] != not {
            return state;
        }
    };
    let asks = settled("");
    assert_eq!(asks["status"], "input_required", "{asks}");
    let (name, ask) = asks["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(ask["method"], "elicitation/create", "{asks}");
    let choice = &ask["params"]["requestedSchema"]["properties"]["interpretation"]["oneOf"][0]["const"];
    let answer = serde_json::json!({"action": "accept", "content": {"interpretation": choice}});
    raw("tasks/update", serde_json::json!({"taskId": id, "inputResponses": {name: answer}}));
    let ended = settled("input_required");
    assert_eq!(ended["status"], "completed", "{ended}");
    let report = ended["result"]["content"][0]["text"].as_str().unwrap();
    assert!(report.contains(choice.as_str().unwrap()), "{report}");
    assert_eq!(bridge.stop(), Some(0));
}
