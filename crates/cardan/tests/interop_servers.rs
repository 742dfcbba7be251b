//! Our client against servers that nobody here wrote, over stdio.
//!
//! The peers are installed by `cargo xtask test`; without them each test says that it was skipped, and
//! fails where `CARDAN_PEERS=required`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::PathBuf;
use std::time::Duration;

use cardan::client::{Answerers, CallError, Client, Urls};
use cardan::proto::era::Era;
use cardan::proto::limits::Limits;
use cardan::proto::model::CallToolResult;
use cardan::proto::model::elicit::ElicitResult;
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::{CallOptions, Wanted};
use cardan::transport::error::SpawnError;
use cardan::transport::spawn::Spawn;
use serde_json::json;

/// A server to talk to.
struct Peer {
    name: &'static str,
    command: Vec<String>,
    /// What probing must find.
    era: Era,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The peer, or nothing when it is not installed.
fn peer(name: &'static str, era: Era) -> Option<Peer> {
    let root = root();
    let folder = root.join("peers").join(name);
    let (program, script, installed) = if name.starts_with("python") {
        let python = root.join("target/peers").join(name).join("bin/python");
        (python.clone(), folder.join("server.py"), python.exists())
    } else {
        (PathBuf::from("node"), folder.join("server.mjs"), folder.join("node_modules").is_dir())
    };
    let (script, argument) = match name {
        "node-everything" => {
            (folder.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js"), Some("stdio"))
        }
        _ => (script, None),
    };
    if !installed {
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "{name} is required and not installed");
        eprintln!("skipped: {name} is not installed; `cargo xtask test` installs it");
        return None;
    }
    let mut command = vec![program.display().to_string(), script.display().to_string()];
    command.extend(argument.map(str::to_owned));
    Some(Peer { name, command, era })
}

async fn connect(peer: &Peer, era: EraChoice) -> Client {
    connect_hearing(peer, era, |_| ()).await
}

/// The same, with every line of its stderr.
async fn connect_hearing(
    peer: &Peer,
    era: EraChoice,
    on_line: impl Fn(&str) + Send + Sync + 'static,
) -> Client {
    let spawn = Spawn::new(&peer.command[0]).args(&peer.command[1..]).on_stderr(on_line);
    let answers = Answerers::default().elicit(Urls::NotOffered, |_| async {
        Ok(ElicitResult::filled([("answer".to_owned(), "blue".into())].into()))
    });
    let dial = async || -> Result<_, SpawnError> { spawn.spawn(&Limits::DEFAULT) };
    let connector = Client::builder("cardan-tests", "0").answer(answers).era(era);
    match tokio::time::timeout(Duration::from_secs(30), connector.connect(dial)).await {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => panic!("{}: {error}", peer.name),
        Err(_) => panic!("{}: no session within 30 s", peer.name),
    }
}

fn text(result: &CallToolResult) -> &str {
    result.content.first().and_then(|content| content.as_text()).unwrap_or_default()
}

/// What every server with our contract must do, over its own SDK.
async fn contract(peer: &Peer, era: EraChoice) {
    let (given_up, mut stopped) = tokio::sync::mpsc::unbounded_channel();
    let on_line = move |line: &str| {
        if line.trim() == "cancelled" {
            // Nobody waits for it any more when the test is over.
            let _ = given_up.send(());
        }
    };
    let client = connect_hearing(peer, era, on_line).await;
    let found = client.settled().revision.era();
    match era {
        EraChoice::Legacy => assert_eq!(found, Era::Legacy, "{}", peer.name),
        _ => assert_eq!(found, peer.era, "{}", peer.name),
    }
    let tools = client.all_tools().await.expect("tools are listed");
    for wanted in ["echo", "add", "slow", "fail", "ask"] {
        assert!(tools.iter().any(|tool| tool.name == wanted), "{}: no tool {wanted}", peer.name);
    }
    let echoed = client.call_tool("echo", &json!({"message": "joint"})).unwrap().await.unwrap();
    assert_eq!(text(&echoed), "joint");
    let sum = client.call_tool("add", &json!({"a": 2, "b": 3})).unwrap().await.unwrap();
    assert_eq!(sum.structured_content.unwrap().value()["sum"].as_f64(), Some(5.0));
    let failed = client.call_tool("fail", &json!({"message": "on purpose"})).unwrap().await.unwrap();
    assert!(failed.failed() && text(&failed).contains("on purpose"));
    let asked = client.call_tool("ask", &json!({"question": "colour?"})).unwrap().await.unwrap();
    assert!(text(&asked).contains("blue"), "{}: {asked:?}", peer.name);
    progress(&client, peer).await;
    cancel(&client, peer).await;
    let heard = tokio::time::timeout(Duration::from_secs(60), stopped.recv()).await;
    assert_eq!(heard, Ok(Some(())), "{}: the handler of the cancelled call was stopped", peer.name);
    let clock = client.read("demo://clock").await.unwrap();
    assert_eq!(clock.contents.len(), 1);
    let prompts = client.all_prompts().await.unwrap();
    assert!(prompts.iter().any(|prompt| prompt.name == "greet"));
    client.ping().await.unwrap();
    client.close("done").await;
}

/// PRG-3, S2-16: every progress note arrives, in order, before the result.
async fn progress(client: &Client, peer: &Peer) {
    let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
    let mut call = client.call_tool_with("slow", &json!({"steps": 3, "delay_ms": 5}), options).unwrap();
    let mut seen = Vec::new();
    while let Some(progress) = call.progress().await {
        seen.push(progress.progress);
    }
    assert_eq!(seen.len(), 3, "{}: {seen:?}", peer.name);
    assert!(seen.is_sorted(), "{}: {seen:?}", peer.name);
    assert!(call.await.is_ok());
}

/// CAN-6, S0-39, S0-87: a cancel ends the call here and in the server, which goes on serving.
async fn cancel(client: &Client, peer: &Peer) {
    let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
    let mut call = client.call_tool_with("slow", &json!({"steps": 1000, "delay_ms": 20}), options).unwrap();
    assert!(call.progress().await.is_some(), "{}: it runs", peer.name);
    call.cancel("test");
    assert!(matches!(call.await, Err(CallError::Cancelled { .. })), "{}", peer.name);
    let echoed = client.call_tool("echo", &json!({"message": "still there"})).unwrap().await.unwrap();
    assert_eq!(text(&echoed), "still there");
}

#[tokio::test]
async fn typescript_sdk_1_is_legacy_and_works() {
    let Some(peer) = peer("node-v1", Era::Legacy) else { return };
    contract(&peer, EraChoice::Auto).await;
}

#[tokio::test]
async fn typescript_sdk_2_works_in_both_eras() {
    let Some(peer) = peer("node-v2", Era::Modern) else { return };
    contract(&peer, EraChoice::Auto).await;
    contract(&peer, EraChoice::Legacy).await;
}

#[tokio::test]
async fn python_sdk_1_is_legacy_and_works() {
    let Some(peer) = peer("python-v1", Era::Legacy) else { return };
    contract(&peer, EraChoice::Auto).await;
}

#[tokio::test]
async fn python_sdk_2_works_in_both_eras() {
    let Some(peer) = peer("python-v2", Era::Modern) else { return };
    contract(&peer, EraChoice::Auto).await;
    contract(&peer, EraChoice::Legacy).await;
}

/// The reference server of the field has a contract of its own.
#[tokio::test]
async fn server_everything_works() {
    let Some(peer) = peer("node-everything", Era::Legacy) else { return };
    let client = connect(&peer, EraChoice::Auto).await;
    assert_eq!(client.settled().revision.era(), Era::Legacy);
    let tools = client.all_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "echo"), "{tools:?}");
    let echoed = client.call_tool("echo", &json!({"message": "joint"})).unwrap().await.unwrap();
    assert!(text(&echoed).contains("joint"));
    let sum = client.call_tool("get-sum", &json!({"a": 2, "b": 3})).unwrap().await.unwrap();
    assert!(text(&sum).contains('5'), "{sum:?}");
    let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
    let long = json!({"duration": 1, "steps": 4});
    let mut call = client.call_tool_with("trigger-long-running-operation", &long, options).unwrap();
    let mut notes = 0;
    while call.progress().await.is_some() {
        notes += 1;
    }
    assert_eq!(notes, 4);
    assert!(call.await.is_ok());
    let resources = client.all_resources().await.unwrap();
    assert!(!resources.is_empty());
    let first = client.read(&resources[0].uri).await.unwrap();
    assert!(!first.contents.is_empty());
    assert!(!client.all_prompts().await.unwrap().is_empty());
    let cause = client.close("done").await;
    eprintln!("ended: {cause}");
}
