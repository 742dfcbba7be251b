//! Notes that come by another way than replies, and so after what they were sent before.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::convert::Infallible;

use cardan_client::{Client, way};
use cardan_gateway::fleet::Making;
use cardan_gateway::relay::{Behind, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::LogLevel;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::lines::Lines;
use relaying::{connect, logging, plain, soon};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};

/// A legacy server whose log notes arrive after the reply that they were sent before, as they do where notes have a
/// stream of their own: with the first sign of life that is asked for.
async fn late(stream: DuplexStream) {
    let (read, mut write) = split(stream);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let mut said = Vec::new();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}, "logging": {}},
                "serverInfo": {"name": "late", "version": "1"},
            }),
            Some("tools/call") => json!({"content": [{"type": "text", "text": "done"}]}),
            Some("ping") => {
                let params = json!({"level": "info", "data": "late"});
                said.push(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
                json!({})
            }
            _ => json!({}),
        };
        if message.get("id").is_some() {
            said.push(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        }
        for message in said {
            write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        }
    }
}

/// LOG-4: a modern client hears nothing of a call after its reply, so the reply waits for what was said before it.
#[tokio::test]
async fn log_notes_with_a_stream_of_their_own_reach_a_modern_client() {
    let dial = way(|| {
        let (ours, theirs) = duplex(64 << 10);
        tokio::spawn(late(theirs));
        let (read, write) = split(ours);
        std::future::ready(Ok::<_, Infallible>(Lines::new(read, write, &Limits::DEFAULT)))
    });
    let connector = Client::builder("relay", "1").era(EraChoice::Legacy);
    let making = Making { connector, way: dial, policy: Policy::CHILD };
    let relay = Relay::start(making, Options { behind: Behind::One, ..Options::default() }).await.unwrap();
    let (connector, logs) = logging(plain());
    let client = connect(&relay, Era::Modern, connector).await;
    client.set_level(LogLevel::Debug);
    soon("the call", client.call_tool("it", &json!({})).unwrap()).await.unwrap();
    assert_eq!(*logs.lock().unwrap(), [json!({"level": "info", "data": "late"})]);
}
