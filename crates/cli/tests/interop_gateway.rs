//! Clients that nobody here wrote, before a gateway with several servers behind it.
//!
//! The peers are installed by `cargo xtask test`; without them each test says that it was skipped, and
//! fails where `CARDAN_PEERS=required`. What each check asks stands in `peers/script.{mjs,py}`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{CARDAN, CHECKS, Scratch, Serving, cardan, peer};
use serde_json::Value;

/// Runs one client against what `words` name, and checks what it reports.
fn passes(home: &str, client: &str, era: Option<&str>, words: &[&str]) {
    let script = if client.starts_with("python") { "client.py" } else { "client.mjs" };
    let Some(mut command) = peer(client, script) else { return };
    if let Some(era) = era {
        command.args(["--era", era]);
    }
    command.env("HOME", home).env_remove("XDG_CACHE_HOME");
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

/// Learns what servers offer, so that a gateway knows it at once.
fn learn(home: &str, file: &str) {
    let mut servers = Command::new(CARDAN);
    servers
        .args(["servers", "--config", file, "--wait", "60"])
        .env("HOME", home)
        .env_remove("XDG_CACHE_HOME");
    servers.output().unwrap();
}

/// One client before gateways whose first server is of each era, with a second one and a sick one beside it: over HTTP,
/// old HTTP+SSE where the client has it, and stdio.
fn passes_gateways(client: &str, era: Option<&str>) {
    let scratch = Scratch::new(&format!("interop-gateway-{client}-{}", era.unwrap_or("any")));
    let (home, remote) = (scratch.file("home"), Serving::start(&[]));
    for upstream in ["legacy", "modern"] {
        let file = scratch.file(&format!("{upstream}.toml"));
        let config = format!(
            "[gateway]\nnaming = \"never\"\n\
             [servers.sick]\ncommand = \"sh\"\nargs = [\"-c\", \"exit 3\"]\n\
             [servers.first]\nurl = \"http://{}/mcp\"\nera = \"{upstream}\"\n\
             [servers.second]\ncommand = '{CARDAN}'\nargs = [\"demo\"]\n",
            remote.address
        );
        fs::write(&file, config).unwrap();
        learn(&home, &file);
        let gateway = Serving::start_at(&home, &["--config", &file]);
        passes(&home, client, era, &[&format!("http://{}/mcp", gateway.address)]);
        passes(&home, client, era, &[&format!("http://{}/servers/first/mcp", gateway.address)]);
        if era.is_none() {
            passes(&home, client, era, &[&format!("http://{}/sse", gateway.address)]);
        }
        passes(&home, client, era, &[CARDAN, "serve", "--stdio", "--config", &file]);
    }
}

#[test]
fn typescript_sdk_1() {
    passes_gateways("node-v1", None);
}

#[test]
fn typescript_sdk_2_legacy() {
    passes_gateways("node-v2", Some("legacy"));
}

#[test]
fn typescript_sdk_2_modern() {
    passes_gateways("node-v2", Some("modern"));
}

#[test]
fn python_sdk_1() {
    passes_gateways("python-v1", None);
}

#[test]
fn python_sdk_2_legacy() {
    passes_gateways("python-v2", Some("legacy"));
}

#[test]
fn python_sdk_2_modern() {
    passes_gateways("python-v2", Some("modern"));
}

/// The reference server and ours, behind one address: clients of both eras call both, hear progress and are asked.
#[test]
fn server_everything_among_others() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/node-everything");
    let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    if peer("node-everything", script).is_none() {
        return;
    }
    let scratch = Scratch::new("interop-gateway-everything");
    let (file, script) = (scratch.file("cardan.toml"), folder.join(script).display().to_string());
    let config = format!(
        "[servers.everything]\ncommand = \"node\"\nargs = ['{script}', \"stdio\"]\n\
         [servers.demo]\ncommand = '{CARDAN}'\nargs = [\"demo\"]\n"
    );
    fs::write(&file, config).unwrap();
    let home = scratch.file("home");
    learn(&home, &file);
    let gateway = Serving::start_at(&home, &["--config", &file]);
    let address = format!("http://{}/mcp", gateway.address);
    for era in ["legacy", "modern"] {
        let call =
            |words: &[&str]| cardan(&[&["call", &address], words, &["--era", era, "--no-check"]].concat());
        call(&["everything__echo", "message=hi"]).exits(0).prints("Echo: hi\n");
        let slow = ["everything__trigger-long-running-operation", "duration:=1", "steps:=4"];
        call(&slow).exits(0).tells(&["1 of 4", "4 of 4"]);
        let asked = call(&["everything__trigger-elicitation-request", "--answer", "name=Ada"]).exits(0);
        assert!(asked.stdout.contains("Ada"), "{era}: {asked:#?}");
        call(&["demo__add", "a:=2", "b:=3"]).exits(0).prints("{\"sum\":5}\n");
    }
    assert_eq!(gateway.stop(), Some(0));
}
