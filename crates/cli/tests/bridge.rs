//! `cardan bridge`, from every transport to every other, in both eras on both sides.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Child;

use common::{CARDAN, Scratch, Serving, cardan, recorder, signal, start};

const ERAS: [&str; 2] = ["legacy", "modern"];

/// Calls through `server`, which may be an address or `--` and a command, and checks what only a true bridge gets right:
/// a result, a form and a resource.
fn works(server: &[&str], era: &str) {
    let call = |words: &[&str]| {
        let (before, after): (Vec<_>, Vec<_>) = match server {
            ["--", ..] => (vec![], server.to_vec()),
            address => (address.to_vec(), vec![]),
        };
        cardan(&[&words[..1], &before, &words[1..], &["--era", era], &after].concat())
    };
    call(&["call", "add", "a=2", "b=3"]).exits(0).prints("{\"sum\":5}\n");
    call(&["call", "ask", "question=who?", "--answer", "answer=Ada"]).exits(0).prints("Ada\n");
    call(&["call", "roots", "--root", "/usr"]).exits(0).prints("file:///usr\n");
    call(&["call", "slow", "steps=3", "delay_ms=1"]).exits(0).tells(&["1 of 3", "3 of 3"]);
    call(&["call", "note", "level=warning", "message=careful"]).exits(0).tells(&["careful"]);
    call(&["call", "fail", "message=no"]).exits(5);
    call(&["read", "demo://no-such"]).exits(5);
    let info = call(&["info"]).exits(0);
    assert!(info.stdout.contains("cardan-demo"), "{info:#?}");
}

/// Every client reaches a stdio server over HTTP and WebSocket, whichever era either speaks.
#[test]
fn a_stdio_server_behind_http() {
    for upstream in ERAS {
        let bridge = Serving::bridge(&["--era", upstream, "--", CARDAN, "demo"]);
        for era in ERAS {
            works(&[&format!("http://{}/mcp", bridge.address)], era);
            works(&[&format!("ws://{}/ws", bridge.address)], era);
        }
        assert_eq!(bridge.stop(), Some(0));
    }
}

/// A client that only starts processes reaches servers over HTTP and WebSocket.
#[test]
fn a_remote_server_behind_stdio() {
    let serving = Serving::start(&[]);
    for address in [format!("http://{}/mcp", serving.address), format!("ws://{}/ws", serving.address)] {
        for (upstream, era) in ERAS.into_iter().flat_map(|upstream| ERAS.map(|era| (upstream, era))) {
            works(&["--", CARDAN, "bridge", "--stdio", "--era", upstream, &address], era);
        }
    }
}

/// Sessions with the server, and so its processes, are shared as it is said; everything else works as before.
#[test]
fn sessions_are_shared_as_it_is_said() {
    // One is there to meet the server. Four clients ask for lists and call; those that share need one more, on which
    // they can be asked, and follow its lists.
    for (sessions, processes) in [("client", 1 + 4), ("shared", 1 + 1), ("call", 1 + 1 + 2 * 4)] {
        let scratch = Scratch::new(&format!("sessions-{sessions}"));
        let started = scratch.file("started");
        let counting = format!("echo started >> '{started}'; exec '{CARDAN}' demo");
        let bridge = Serving::bridge(&["--sessions", sessions, "--", "sh", "-c", &counting]);
        let address = format!("http://{}/mcp", bridge.address);
        for _ in 0..4 {
            cardan(&["call", &address, "add", "a=2", "b=3", "--era", "legacy"]).exits(0);
        }
        assert_eq!(fs::read_to_string(&started).unwrap().lines().count(), processes, "{sessions}");
        for era in ERAS {
            works(&[&address], era);
        }
        assert_eq!(bridge.stop(), Some(0));
    }
}

/// A process that ends with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sockets on either end, and a bridge behind a bridge.
#[test]
fn sockets_and_chains() {
    let scratch = Scratch::new("bridge");
    let path = scratch.file("demo.sock");
    let mut demo = Ended(start(&["demo", "--unix", &path]));
    let mut line = String::new();
    BufReader::new(demo.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    let unix = format!("unix://{path}");
    for era in ERAS {
        works(&["--", CARDAN, "bridge", "--stdio", &unix], era);
    }
    let bridge = Serving::bridge(&[&unix]);
    for era in ERAS {
        works(&["--", CARDAN, "bridge", "--stdio", &format!("http://{}/mcp", bridge.address)], era);
    }
}

/// Clients come in by a socket too, and it is gone with the bridge.
#[test]
fn a_server_behind_a_socket() {
    let scratch = Scratch::new("bridge-unix");
    let path = scratch.file("bridge.sock");
    let mut bridge = Ended(start(&["bridge", "--unix", &path, "--", CARDAN, "demo"]));
    let mut line = String::new();
    BufReader::new(bridge.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("listening on unix://{path}\n"));
    for era in ERAS {
        works(&[&format!("unix://{path}")], era);
    }
    signal(&bridge.0, "TERM");
    assert_eq!(bridge.0.wait().unwrap().code(), Some(0));
    assert!(!Path::new(&path).exists());
    for other in [["--listen", "127.0.0.1:0"], ["--key-env", "KEY"], ["--allow-host", "a.test"]] {
        let words = [&["bridge", "--unix", &path], &other[..], &["--", CARDAN, "demo"]].concat();
        cardan(&words).exits(1).tells(&["--unix", other[0]]);
    }
}

/// What cannot be bridged is told at once, with the reason, and nothing is served.
#[test]
fn what_cannot_be_bridged_is_told_at_once() {
    cardan(&["bridge", "--", "/no/such/command"]).exits(4).tells(&["/no/such/command", "next:"]);
    cardan(&["bridge", "--stdio", "--", "sh", "-c", "echo sorry >&2; exit 3"]).exits(13).tells(&["sorry"]);
    cardan(&["bridge", "--stdio", "http://127.0.0.1:1/mcp"]).exits(4).tells(&["refused", "next:"]);
    cardan(&["bridge"]).exits(1).tells(&["no server is given"]);
    cardan(&["bridge", "http://127.0.0.1:1/mcp", "more"]).exits(1).tells(&["`more`"]);
    cardan(&["bridge", "--stdio", "--listen", "127.0.0.1:0", "--", "x"]).exits(1).tells(&["--listen"]);
}

/// INT-10, T9: what a client shows to the bridge stays there; the server behind sees what the bridge was told to show.
#[test]
fn a_clients_token_does_not_reach_the_server() {
    let serving = Serving::start(&[]);
    let (address, recorded) = recorder(serving.address.clone());
    let bridge = Serving::bridge(&[&format!("http://{address}/mcp"), "--header", "X-Own: bridge"]);
    for era in ERAS {
        let address = format!("http://{}/mcp", bridge.address);
        let shown =
            ["--header", "Authorization: Bearer s3cr3t", "--header", "Cookie: id=s3cr3t", "--era", era];
        cardan(&[&["call", address.as_str(), "add", "a=2", "b=3"], &shown[..]].concat()).exits(0);
    }
    let recorded = String::from_utf8_lossy(&recorded.lock().unwrap()).to_lowercase();
    assert!(recorded.contains("x-own: bridge") && recorded.contains("tools/call"), "{recorded}");
    assert!(!recorded.contains("s3cr3t"), "{recorded}");
}

/// TSKE-2, TSKE-5, TSKE-8, CLI-19: a modern client follows a task of the demo server, whichever era the bridge speaks with it.
#[test]
fn a_modern_client_follows_tasks_of_either_design() {
    for upstream in ["legacy", "modern"] {
        let bridge = Serving::bridge(&["--era", upstream, "--", CARDAN, "demo"]);
        let address = format!("http://{}/mcp", bridge.address);
        let declared = serde_json::json!({"io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
        let raw = |method: &str, mut params: serde_json::Value| {
            params["_meta"] = declared.clone();
            cardan(&["raw", &address, method, &params.to_string(), "--era", "modern"]).exits(0).json()
        };
        let call = serde_json::json!({"name": "job", "arguments": {"steps": 2, "delay_ms": 10}});
        let made = raw("tools/call", call);
        assert_eq!(made["resultType"], "task", "{upstream}: {made}");
        // Each look is a process of its own: it takes its time, and needs no pause.
        let ended = loop {
            let state = raw("tasks/get", serde_json::json!({"taskId": made["taskId"]}));
            if state["status"] != "working" {
                break state;
            }
        };
        assert_eq!(ended["result"]["content"][0]["text"], "done", "{upstream}: {ended}");
    }
}
