//! Clients that nobody here wrote against our demo server, in both eras: over stdio, Streamable HTTP and
//! old HTTP+SSE.
//!
//! The peers are installed by `cargo xtask test`; without them each test says that it was skipped, and
//! fails where `CARDAN_PEERS=required`. What each check asks stands in `peers/script.{mjs,py}`.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{CARDAN, Serving};
use serde_json::Value;

/// How the client reaches the server.
#[derive(Debug, Clone, Copy)]
enum Over {
    Stdio,
    Http,
    Events,
}

/// Checks that every client must pass in every era it speaks; `ping` exists in the legacy era only.
const CHECKS: [&str; 16] = [
    "connect",
    "list",
    "call",
    "structured",
    "tool_error",
    "unknown_tool",
    "progress",
    "cancel",
    "elicit",
    "sample",
    "roots",
    "read",
    "prompt",
    "complete",
    "log",
    "changed",
];

/// Runs one client against our demo and tells what it reported, by check.
fn report(client: &str, era: Option<&str>, over: Over) -> Option<Vec<Value>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("peers").join(client);
    let (program, script, installed) = if client.starts_with("python") {
        let python = root.join("target/peers").join(client).join("bin/python");
        (python.clone(), folder.join("client.py"), python.exists())
    } else {
        (PathBuf::from("node"), folder.join("client.mjs"), folder.join("node_modules").is_dir())
    };
    if !installed {
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "{client} is required and not installed");
        eprintln!("skipped: {client} is not installed; `cargo xtask test` installs it");
        return None;
    }
    let mut command = Command::new(program);
    command.arg(script);
    if let Some(era) = era {
        command.args(["--era", era]);
    }
    let serving = match over {
        Over::Stdio => {
            command.args(["--", CARDAN, "demo"]);
            None
        }
        Over::Http | Over::Events => {
            let serving = Serving::start(&[]);
            let path = if matches!(over, Over::Http) { "mcp" } else { "sse" };
            command.args(["--", &format!("http://{}/{path}", serving.address)]);
            Some(serving)
        }
    };
    let output = command.output().expect("the client runs");
    drop(serving);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(lines.iter().any(|line| line["check"] == "end"), "{client}: no end\n{text}\n{errors}");
    Some(lines)
}

/// The client passes every check over every transport, and settles on the same era.
fn passes(client: &str, era: Option<&str>, settles: &str) {
    for over in [Over::Stdio, Over::Http, Over::Events] {
        passes_over(over, client, era, settles);
    }
}

fn passes_over(over: Over, client: &str, era: Option<&str>, settles: &str) {
    let Some(lines) = report(client, era, over) else { return };
    let found = |check: &str| lines.iter().find(|line| line["check"] == check);
    let checks = CHECKS.iter().copied().chain((settles == "legacy").then_some("ping"));
    for check in checks {
        let line = found(check)
            .unwrap_or_else(|| panic!("{client} {era:?} {over:?}: {check} was not reached: {lines:?}"));
        assert_eq!(line["ok"], Value::Bool(true), "{client} {era:?} {over:?}: {line}");
    }
    assert_eq!(found("connect").expect("checked above")["era"], settles, "{client} {era:?}");
}

#[test]
fn typescript_sdk_1() {
    passes("node-v1", None, "legacy");
}

#[test]
fn typescript_sdk_2_legacy() {
    passes("node-v2", Some("legacy"), "legacy");
}

#[test]
fn typescript_sdk_2_modern() {
    passes("node-v2", Some("modern"), "modern");
}

/// VER-28: a client that probes finds us modern.
#[test]
fn typescript_sdk_2_probing() {
    passes("node-v2", Some("auto"), "modern");
}

#[test]
fn python_sdk_1() {
    passes("python-v1", None, "legacy");
}

#[test]
fn python_sdk_2_legacy() {
    passes("python-v2", Some("legacy"), "legacy");
}

#[test]
fn python_sdk_2_modern() {
    passes("python-v2", Some("modern"), "modern");
}

/// VER-28: a client that probes finds us modern.
#[test]
fn python_sdk_2_probing() {
    passes("python-v2", Some("auto"), "modern");
}
