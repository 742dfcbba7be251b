//! Our client against servers that nobody here wrote, over Streamable HTTP and the older HTTP+SSE.
//!
//! The peers are installed by `cargo xtask test`; without them each test says that it was skipped, and
//! fails where `CARDAN_PEERS=required`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use cardan_client::{Answerers, CallError, Client, Urls};
use cardan_dial::{Http, Kind};
use cardan_proto::era::Era;
use cardan_proto::model::CallToolResult;
use cardan_proto::model::elicit::ElicitResult;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Wanted};
use serde_json::json;

/// A server that runs, until it is dropped.
struct Peer {
    child: Child,
    url: String,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a peer, or nothing when it is not installed.
fn start(name: &str, way: &str) -> Option<Peer> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("peers").join(name);
    let (program, script, installed) = if name.starts_with("python") {
        let python = root.join("target/peers").join(name).join("bin/python");
        (python.clone(), folder.join("server.py"), python.exists())
    } else {
        (PathBuf::from("node"), folder.join("server.mjs"), folder.join("node_modules").is_dir())
    };
    if !installed {
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "{name} is required and not installed");
        eprintln!("skipped: {name} is not installed; `cargo xtask test` installs it");
        return None;
    }
    let mut child = Command::new(program)
        .arg(script)
        .args(way.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the peer starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("stdout is piped");
    BufReader::new(stdout).read_line(&mut line).expect("the peer says where it listens");
    Some(Peer { child, url: line.trim().to_owned() })
}

async fn connect(peer: &Peer, kind: Kind, era: EraChoice) -> Client {
    let answers = Answerers::default().elicit(Urls::NotOffered, |_| async {
        Ok(ElicitResult::filled([("answer".to_owned(), "blue".into())].into()))
    });
    let http = Http::new(&peer.url).unwrap().kind(kind);
    let connector = Client::builder("cardan-tests", "0").answer(answers).era(era);
    connector.connect(async || http.link()).await.unwrap_or_else(|error| panic!("{}: {error}", peer.url))
}

fn text(result: &CallToolResult) -> &str {
    result.content.first().and_then(|content| content.as_text()).unwrap_or_default()
}

async fn call(client: &Client, tool: &str, arguments: serde_json::Value) -> CallToolResult {
    client.call_tool(tool, &arguments).unwrap().await.unwrap_or_else(|error| panic!("{tool}: {error}"))
}

/// Whether the server can ask its client something.
#[derive(PartialEq)]
enum Asks {
    Yes,
    No,
}

/// What every server with our contract must do, over its own SDK.
async fn contract(peer: &Peer, kind: Kind, (choice, era): (EraChoice, Era), asks: Asks) {
    let client = connect(peer, kind, choice).await;
    assert_eq!(client.settled().revision.era(), era);
    assert!(client.all_tools().await.unwrap().iter().any(|tool| tool.name == "echo"));
    assert_eq!(text(&call(&client, "echo", json!({ "message": "jöint" })).await), "jöint");
    let sum = call(&client, "add", json!({ "a": 2, "b": 3 })).await;
    assert_eq!(sum.structured_content.unwrap().value()["sum"].as_f64(), Some(5.0));
    assert!(call(&client, "fail", json!({ "message": "on purpose" })).await.failed());
    if asks == Asks::Yes {
        let asked = call(&client, "ask", json!({ "question": "colour?" })).await;
        assert!(text(&asked).contains("blue"), "{asked:?}");
    }
    let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
    let slow = json!({ "steps": 3, "delay_ms": 5 });
    let mut running = client.call_tool_with("slow", &slow, options).unwrap();
    let mut seen = 0;
    while running.progress().await.is_some() {
        seen += 1;
    }
    assert_eq!(seen, 3, "every progress note comes before the result");
    running.await.unwrap();
    let endless = json!({ "steps": 1000, "delay_ms": 20 });
    let mut running = client.call_tool_with("slow", &endless, options).unwrap();
    assert!(running.progress().await.is_some());
    running.cancel("test");
    assert!(matches!(running.await, Err(CallError::Cancelled { .. })));
    let many: Vec<_> = (0..20).map(|n| call(&client, "echo", json!({ "message": n.to_string() }))).collect();
    for (n, echoed) in futures_util::future::join_all(many).await.iter().enumerate() {
        assert_eq!(text(echoed), n.to_string());
    }
    assert_eq!(client.read("demo://clock").await.unwrap().contents.len(), 1);
    assert!(client.read("demo://none").await.is_err());
    client.ping().await.unwrap();
    client.close("done").await;
}

/// HTTP-13, HTL-21, SSE0-6: the TypeScript SDK of the legacy era, over both transports.
#[tokio::test]
async fn typescript_sdk_1_over_http() {
    let legacy = (EraChoice::Auto, Era::Legacy);
    let Some(peer) = start("node-v1", "--http") else { return };
    contract(&peer, Kind::Auto, legacy, Asks::Yes).await;
    let Some(peer) = start("node-v1", "--sse") else { return };
    contract(&peer, Kind::Auto, legacy, Asks::Yes).await;
    let Some(peer) = start("node-v1", "--sse") else { return };
    contract(&peer, Kind::Events, legacy, Asks::Yes).await;
}

/// HTM-1, HTM-7, HTM-16: the TypeScript SDK of both eras. Where its legacy side keeps no session it cannot ask.
#[tokio::test]
async fn typescript_sdk_2_over_http() {
    for (way, asks) in [("--http", Asks::Yes), ("--http --stateless", Asks::No)] {
        let Some(peer) = start("node-v2", way) else { return };
        contract(&peer, Kind::Auto, (EraChoice::Auto, Era::Modern), Asks::Yes).await;
        contract(&peer, Kind::Auto, (EraChoice::Legacy, Era::Legacy), asks).await;
    }
}

/// HTTP-13, HTL-21, SSE0-6: the Python SDK of the legacy era, over both transports.
#[tokio::test]
async fn python_sdk_1_over_http() {
    for way in ["--http", "--sse"] {
        let Some(peer) = start("python-v1", way) else { return };
        contract(&peer, Kind::Auto, (EraChoice::Auto, Era::Legacy), Asks::Yes).await;
    }
}

/// HTM-1, HTM-7, HTM-16: the Python SDK of both eras.
#[tokio::test]
async fn python_sdk_2_over_http() {
    let Some(peer) = start("python-v2", "--http") else { return };
    contract(&peer, Kind::Auto, (EraChoice::Auto, Era::Modern), Asks::Yes).await;
    contract(&peer, Kind::Auto, (EraChoice::Legacy, Era::Legacy), Asks::Yes).await;
}

/// HTTP-13, HTL-21, SSE0-6, HTL-25: the reference server of the field, over both transports.
#[tokio::test]
async fn server_everything_over_http() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../peers/node-everything/node_modules");
    if !root.is_dir() {
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "node-everything is required and not installed");
        return eprintln!("skipped: node-everything is not installed; `cargo xtask test` installs it");
    }
    for (way, path) in [("streamableHttp", "/mcp"), ("sse", "/sse")] {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new("node")
            .arg(root.join("@modelcontextprotocol/server-everything/dist/index.js"))
            .arg(way)
            .env("PORT", free.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("node starts");
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let peer = Peer { child, url: format!("http://127.0.0.1:{free}{path}") };
        let mut lines = stderr.lines().map_while(Result::ok);
        lines.find(|line| line.contains(&free.to_string())).expect("it says where it listens");
        // What it says later must not fill the pipe.
        let rest = std::thread::spawn(move || lines.count());
        let client = connect(&peer, Kind::Auto, EraChoice::Auto).await;
        assert!(text(&call(&client, "echo", json!({ "message": "joint" })).await).contains("joint"));
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let long = json!({ "duration": 1, "steps": 4 });
        let mut running = client.call_tool_with("trigger-long-running-operation", &long, options).unwrap();
        let mut notes = 0;
        while running.progress().await.is_some() {
            notes += 1;
        }
        assert_eq!(notes, 4, "{way}");
        running.await.unwrap();
        let resources = client.all_resources().await.unwrap();
        assert!(!client.read(&resources[0].uri).await.unwrap().contents.is_empty());
        client.close("done").await;
        drop(peer);
        rest.join().unwrap();
    }
}
