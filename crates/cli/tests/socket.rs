//! `cardan serve` over WebSocket: with Node's own WebSocket, and with our own commands.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use common::{CARDAN, Ran, Scratch, cardan, finish};
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
        Self::with(&[])
    }

    fn with(more: &[&str]) -> Self {
        let words = [&["serve", "--listen", "127.0.0.1:0"], more].concat();
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

/// A proxy before `server`, whatever is asked for: it makes tunnels, and passes on requests with whole URLs. What it was asked for, the
/// first line of each, is told.
fn proxy(server: String) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
            let tell = tell.clone();
            thread::spawn(move || passed_on(client, server, &tell));
        }
    });
    (address, told)
}

fn passed_on(mut client: TcpStream, mut server: TcpStream, tell: &mpsc::Sender<String>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if client.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let first = String::from_utf8_lossy(&head).lines().next().unwrap().to_owned();
    match first.starts_with("CONNECT ") {
        true => client.write_all(b"HTTP/1.1 200 Go on\r\n\r\n").unwrap(),
        false => server.write_all(&head).unwrap(),
    }
    let _ = tell.send(first);
    let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let _ = std::io::copy(&mut client, &mut server);
    let _ = server.shutdown(std::net::Shutdown::Write);
}

/// CLI-44: servers beyond this machine are reached through the proxies that the environment names, by every kind of address, and
/// those that NO_PROXY names without.
#[test]
fn cli_44_proxies_stand_before_every_kind_of_address() {
    let serving = Serving::with(&["--allow-host", "server.test"]);
    let server = serving.url.trim_start_matches("ws://").split('/').next().unwrap().to_owned();
    let (proxy, told) = proxy(server.clone());
    let run = |url: &str, variables: &[(&str, &str)]| -> Ran {
        let mut command = Command::new(CARDAN);
        command.args(["call", url, "echo", "message=through"]).stdin(Stdio::null());
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        command.envs(variables.iter().copied());
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let by_http = format!("http://{proxy}");
    for (variable, url, asked) in [
        ("HTTP_PROXY", "ws://server.test/ws", "CONNECT server.test:80 HTTP/1.1"),
        ("ALL_PROXY", "ws://server.test:81/ws", "CONNECT server.test:81 HTTP/1.1"),
        ("HTTP_PROXY", "http://server.test/mcp", "POST http://server.test/mcp HTTP/1.1"),
    ] {
        run(url, &[(variable, &by_http)]).exits(0).prints("through\n");
        assert_eq!(told.try_iter().next().as_deref(), Some(asked), "{variable} {url}");
    }
    // What is on this machine, and what is named, is reached without: the other is not even looked up by the proxy.
    run(&serving.url, &[("HTTP_PROXY", &by_http)]).exits(0).prints("through\n");
    run("ws://server.test/ws", &[("HTTP_PROXY", &by_http), ("NO_PROXY", "server.test")]).exits(4);
    assert_eq!(told.try_iter().next(), None);
    let none = [("HTTPS_PROXY", "http://127.0.0.1:1")];
    run("wss://server.test/ws", &none).exits(4).tells(&["through the proxy", "127.0.0.1:1"]);
    let socks = [("ALL_PROXY", "socks5://127.0.0.1:1")];
    run("ws://server.test/ws", &socks).exits(4).tells(&["not by socks5"]);
}

/// CLI-8: HTTP is spoken over a Unix socket where the address names a path behind it, on the command line and where it is
/// configured.
#[test]
fn cli_8_http_goes_over_a_unix_socket() {
    let serving = Serving::start();
    let server = serving.url.trim_start_matches("ws://").split('/').next().unwrap().to_owned();
    let scratch = Scratch::new("http-socket");
    let socket = scratch.file("http.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
            thread::spawn(move || joined(client, server));
        }
    });
    let url = format!("unix://{socket}#/mcp");
    for era in ["legacy", "modern"] {
        let words = ["call", &url, "echo", "message=by a socket", "--era", era];
        cardan(&words).exits(0).prints("by a socket\n");
    }
    cardan(&["info", &format!("unix://{socket}#/nowhere")]).exits(4).tells(&["404"]);
    let absent = scratch.file("absent.sock");
    cardan(&["info", &format!("unix://{absent}#/mcp")]).exits(4).tells(&["absent.sock", "No such file"]);
    let config = scratch.file("cardan.toml");
    std::fs::write(&config, format!("[servers.local]\nurl = \"{url}\"\n")).unwrap();
    let words = ["call", "local", "echo", "message=configured", "--config", &config];
    cardan(&words).exits(0).prints("configured\n");
}

fn joined(mut client: UnixStream, mut server: TcpStream) {
    let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let _ = std::io::copy(&mut client, &mut server);
    let _ = server.shutdown(std::net::Shutdown::Write);
}
