//! Foreign wire forms elsewhere than on pipes: at servers that are dialled, for clients on a socket, and behind `cardan serve`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::thread;

use common::{CARDAN, Scratch, Serving, cardan, start};
use serde_json::{Value, json};

/// A process that ends with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a server of the cortex dialect answers to: calls of tools only, without a handshake. It says what it was given.
fn answer(message: &Value) -> Value {
    assert_eq!(message["method"], "tools/call", "{message}");
    let params = message["params"].as_object().unwrap();
    assert!(params.keys().all(|key| key == "name" || key == "arguments"), "{message}");
    let said = format!("{} {}", params["name"], params["arguments"]);
    json!({ "content": [{ "type": "text", "text": said }] })
}

/// It on a TCP port, a message per line.
fn on_tcp() -> String {
    serving(|stream| {
        let mut out = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let message: Value = serde_json::from_str(&line).unwrap();
            let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": answer(&message) });
            writeln!(out, "{reply}").unwrap();
        }
    })
}

/// It over HTTP, where a reply comes whole, or as events in parts.
fn on_http(in_parts: bool) -> String {
    serving(move |mut stream| {
        let mut read = BufReader::new(stream.try_clone().unwrap());
        let (mut length, mut line) = (0, String::new());
        while read.read_line(&mut line).unwrap_or(0) > 2 {
            if let Some(count) = line.to_lowercase().strip_prefix("content-length:") {
                length = count.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        read.read_exact(&mut body).unwrap();
        // Nothing else than calls is ever sent to it.
        let message: Value = serde_json::from_slice(&body).unwrap();
        let result = answer(&message);
        let (form, body) = if in_parts {
            ("text/event-stream", format!("event: result\ndata: {result}\n\n"))
        } else {
            (
                "application/json",
                json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string(),
            )
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {form}\r\nConnection: close\r\n");
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    })
}

fn serving(one: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let one = one.clone();
            thread::spawn(move || one(stream));
        }
    });
    address
}

/// CLI-9: a server of a dialect that is dialled, by a socket or over HTTP, whole or in parts, serves clients of every era.
#[test]
fn cli_9_a_server_of_a_dialect_is_dialled() {
    let http = |in_parts| format!("http://{}/mcp", on_http(in_parts));
    for server in [format!("tcp://{}", on_tcp()), http(false), http(true)] {
        let bridge = Serving::bridge(&["--dialect", "cortex", &server]);
        let way = format!("http://{}/mcp", bridge.address);
        for era in ["legacy", "modern"] {
            let called =
                cardan(&["call", &way, "any", "--no-check", "--era", era, "a:=1", "--json"]).exits(0).json();
            assert_eq!(called["content"][0]["text"], "\"any\" {\"a\":1}", "{server} {era}: {called}");
        }
    }
}

/// CLI-9: so does one that is configured so, by its name.
#[test]
fn cli_9_a_configured_server_of_a_dialect_is_dialled() {
    let scratch = Scratch::new("dialect-named");
    let config = scratch.file("cardan.toml");
    let url = format!("http://{}/mcp", on_http(true));
    fs::write(&config, format!("[servers.parts]\nurl = '{url}'\ndialect = 'cortex'\n")).unwrap();
    let bridge = Serving::bridge(&["--config", &config, "parts"]);
    let way = format!("http://{}/mcp", bridge.address);
    let called = cardan(&["call", &way, "any", "--no-check", "a:=1", "--json"]).exits(0).json();
    assert_eq!(called["content"][0]["text"], "\"any\" {\"a\":1}", "{called}");
}

/// CLI-9: clients on a Unix socket may speak a dialect, all of them the same.
#[test]
fn cli_9_clients_on_a_socket_speak_a_dialect() {
    let scratch = Scratch::new("dialect-socket");
    let path = scratch.file("bridge.sock");
    let words = ["bridge", "--unix", &path, "--client-dialect", "cortex", "--", CARDAN, "demo"];
    let mut bridge = Ended(start(&words));
    let mut line = String::new();
    BufReader::new(bridge.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("listening on unix://{path}\n"));
    // Seen from elsewhere it is a server of that dialect.
    let behind = Serving::bridge(&["--dialect", "cortex", &format!("unix://{path}")]);
    let way = format!("ws://{}/ws", behind.address);
    for era in ["legacy", "modern"] {
        let words = ["call", &way, "add", "--no-check", "--era", era, "a:=2", "b:=3"];
        cardan(&words).exits(0).prints("{\"sum\":5}\n");
    }
}

/// CLI-9: a server of a dialect that is configured so is one like any other behind `cardan serve`.
#[test]
fn cli_9_a_configured_server_of_a_dialect_is_one_of_many() {
    let scratch = Scratch::new("dialect-serve");
    let config = scratch.file("cardan.toml");
    let foreign = format!(
        "[servers.foreign]\ncommand = ['{CARDAN}', 'bridge', '--stdio', '--client-dialect', 'tutorial', '--', '{CARDAN}', 'demo']\n\
         dialect = 'tutorial'\n[servers.plain]\ncommand = ['{CARDAN}', 'demo']\n"
    );
    fs::write(&config, foreign).unwrap();
    let gateway = Serving::start_at(&scratch.file("home"), &["--config", &config]);
    let way = format!("http://{}/mcp", gateway.address);
    for era in ["legacy", "modern"] {
        for tool in ["foreign__add", "plain__add"] {
            cardan(&["call", &way, tool, "--era", era, "a=2", "b=3"]).exits(0).prints("{\"sum\":5}\n");
        }
        cardan(&["call", &way, "foreign__slow", "--era", era, "steps=2", "delay_ms=1"])
            .exits(0)
            .tells(&["2 of 2"]);
    }
}
