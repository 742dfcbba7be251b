//! Clients that nobody here wrote against our demo server, in both eras: over stdio, Streamable HTTP and
//! old HTTP+SSE.
//!
//! The peers are installed by `cargo xtask test`; without them each test says that it was skipped, and
//! fails where `CARDAN_PEERS=required`. What each check asks stands in `peers/script.{mjs,py}`.

mod common;
#[path = "../../endpoint/tests/faults/proxy.rs"]
mod proxy;

use common::{CARDAN, CHECKS, Serving, peer};
use proxy::{Pace, Proxy};
use serde_json::Value;

/// How the client reaches the server.
#[derive(Debug, Clone, Copy)]
enum Over {
    Stdio,
    Http,
    Events,
}

/// What is between the client and the server, where there is a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Plain,
    /// It passes on one byte at a time.
    Dribbling,
}

/// Runs one client against our demo and tells what it reported, by check.
fn report(client: &str, era: Option<&str>, over: Over, network: Network) -> Option<Vec<Value>> {
    let script = if client.starts_with("python") { "client.py" } else { "client.mjs" };
    let mut command = peer(client, script)?;
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
            let dribbling = (network == Network::Dribbling).then(|| dribbling(&serving.address));
            let address = dribbling
                .as_ref()
                .map_or_else(|| serving.address.clone(), |(_, proxy)| proxy.address.to_string());
            command.args(["--", &format!("http://{address}/{path}")]);
            Some((serving, dribbling))
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

/// A proxy before the server, and the threads that it runs on.
fn dribbling(address: &str) -> (tokio::runtime::Runtime, Proxy) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("there are threads");
    let proxy = runtime.block_on(Proxy::before(address.parse().expect("an address and a port")));
    proxy.pace(Pace::OneByOne);
    (runtime, proxy)
}

/// The client passes every check over every transport, and settles on the same era.
fn passes(client: &str, era: Option<&str>, settles: &str) {
    for over in [Over::Stdio, Over::Http, Over::Events] {
        passes_over(over, client, era, settles, Network::Plain);
    }
}

fn passes_over(over: Over, client: &str, era: Option<&str>, settles: &str, network: Network) {
    let Some(lines) = report(client, era, over, network) else { return };
    let found = |check: &str| lines.iter().find(|line| line["check"] == check);
    let checks = CHECKS.iter().copied().chain((settles == "legacy").then_some("ping"));
    for check in checks {
        // A megabyte, byte by byte, takes longer than the client waits.
        if (check, network) == ("large", Network::Dribbling) {
            continue;
        }
        // This SDK takes no event beyond 1 MiB, and ends its session over one.
        if (check, client) == ("large", "python-v2") && matches!(over, Over::Events) {
            continue;
        }
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

/// F35: strangers reach us through a proxy that passes on one byte at a time, in both eras.
#[test]
fn f35_strangers_behind_a_dribbling_proxy() {
    for over in [Over::Http, Over::Events] {
        passes_over(over, "node-v1", None, "legacy", Network::Dribbling);
    }
    passes_over(Over::Http, "node-v2", Some("modern"), "modern", Network::Dribbling);
}
