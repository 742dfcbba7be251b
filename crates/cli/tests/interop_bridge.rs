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
