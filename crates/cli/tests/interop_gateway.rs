//! Clients that nobody here wrote, before a gateway with several servers behind it.
//!
//! The peers are installed by `cargo xtask test`; without them each test says that it was skipped, and
//! fails where `CARDAN_PEERS=required`. What each check asks stands in `peers/script.{mjs,py}`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::process::Command;

use common::{CARDAN, CHECKS, Fifo, Scratch, Serving, cardan, everything, peer, signal_pid};
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

fn words(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// The reference server and ours, behind one address: clients of both eras call both, hear progress and are asked. What the
/// reference server offers depends on what its client can be asked: once a modern client shares a session there, it is
/// offered what that session is.
#[test]
fn server_everything_among_others() {
    let Some(everything) = everything() else { return };
    let scratch = Scratch::new("interop-gateway-everything");
    let file = scratch.file("cardan.toml");
    let config = format!(
        "[servers.everything]\ncommand = \"sh\"\nargs = [\"-c\", \"exec {}\"]\n\
         [servers.demo]\ncommand = '{CARDAN}'\nargs = [\"demo\"]\n",
        words(&everything)
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
    let listed = cardan(&["list", &address, "tools", "--era", "modern", "--json"]).exits(0).stdout;
    assert!(listed.contains("everything__echo"), "{listed}");
    assert!(
        !listed.contains("everything__trigger-sampling-request"),
        "nobody here answers such asks: {listed}"
    );
    assert_eq!(gateway.stop(), Some(0));
}

/// S0-79, S0-80: the reference server and one of the Python SDK, as processes. What they offer is known before they are started,
/// and where they are killed they are there again without anybody's doing.
#[test]
fn s0_79_s0_80_foreign_servers_are_known_at_once_and_come_back() {
    let (Some(everything), Some(python)) = (everything(), peer("python-v1", "server.py")) else { return };
    let scratch = Scratch::new("interop-gateway-killed");
    let (file, home) = (scratch.file("cardan.toml"), scratch.file("home"));
    let servers = [("everything", words(&everything)), ("python", words(&python))].map(|(name, words)| {
        let pids = Fifo::new(&scratch, name);
        let line = format!("echo $$ > {}; exec {words}", pids.path);
        (name, pids, format!("[servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", \"{line}\"]\n"))
    });
    fs::write(&file, servers.iter().map(|(_, _, text)| text.as_str()).collect::<String>()).unwrap();
    learn(&home, &file);
    for (_, pids, _) in &servers {
        pids.line();
    }

    let mut listing = Command::new(CARDAN);
    listing.args(["servers", "--config", &file, "--window", "0", "--json"]).env("HOME", &home);
    let output = listing.env_remove("XDG_CACHE_HOME").output().unwrap();
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    for server in listed["servers"].as_array().unwrap() {
        let has_echo = server["tools"].as_array().unwrap().iter().any(|tool| tool == "echo");
        assert_eq!((&server["catalog"], has_echo), (&"cached".into(), true), "{server}");
    }

    let gateway = Serving::start_at(&home, &["--config", &file]);
    let address = format!("http://{}/mcp", gateway.address);
    for (name, pids, _) in &servers {
        // Before any call: to each client that may be asked a legacy server is a process of its own.
        let first = pids.line();
        signal_pid(first.parse().unwrap(), "KILL");
        assert_ne!(pids.line(), first, "{name} was started anew");
        let ran = cardan(&["call", &address, &format!("{name}__echo"), "message=hi"]).exits(0);
        assert!(ran.stdout.ends_with("hi\n"), "{ran:#?}");
    }
    assert_eq!(gateway.stop(), Some(0));
}
