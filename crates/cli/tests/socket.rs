//! `cardan serve` over WebSocket: with Node's own WebSocket, and with our own commands.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{CARDAN, cardan};
use serde_json::Value;

/// A server and its address, until it is dropped.
struct Serving {
    child: Child,
    url: String,
    /// Kept, so that the server can tell what it likes.
    _stderr: BufReader<std::process::ChildStderr>,
}

impl Serving {
    fn start() -> Self {
        let words = ["serve", "--listen", "127.0.0.1:0"];
        let mut child = Command::new(CARDAN).args(words).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut url = None;
        while url.is_none() {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "no ws:// address was told");
            url = line.split_whitespace().find(|word| word.starts_with("ws://")).map(str::to_owned);
        }
        Self { child, url: url.unwrap(), _stderr: stderr }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// S1-37, S2-11: a client on Node's own WebSocket, without any SDK, is served in both eras.
#[test]
fn s1_37_node_is_served_in_both_eras() {
    let mut probe = Command::new("node");
    probe.args(["--experimental-websocket", "-e", "process.exit(typeof WebSocket === 'function' ? 0 : 1)"]);
    let has_socket = probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !has_socket {
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "Node with a WebSocket is required");
        eprintln!("skipped: there is no Node with a WebSocket of its own");
        return;
    }
    let serving = Serving::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/socket.mjs");
    let output =
        Command::new("node").arg("--experimental-websocket").arg(script).arg(&serving.url).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let checks: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(checks.len(), 9, "{told}\n{errors}");
    assert_eq!(checks[8]["failed"], 0, "{told}\n{errors}");
}

/// S1-38: `ws://` is an address like any other, and what went wrong is told with what to do.
#[test]
fn s1_38_commands_dial_websockets() {
    let serving = Serving::start();
    cardan(&["call", &serving.url, "echo", "message=over a socket"]).exits(0).prints("over a socket\n");
    for era in ["legacy", "modern"] {
        cardan(&["list", &serving.url, "tools", "--era", era]).exits(0);
    }
    let elsewhere = serving.url.replace("/ws", "/nowhere");
    cardan(&["info", &elsewhere]).exits(4).tells(&["404 Not Found", "check the path"]);
    cardan(&["info", "ws://me:secret@localhost/ws"]).exits(1).tells(&["credentials do not belong"]);
    cardan(&["info", "ws://127.0.0.1:1/ws"]).exits(4).tells(&["start the server"]);
}
