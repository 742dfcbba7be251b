//! Notes that come by another way than replies, and so after what they were sent before.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardan_client::{Client, way};
use cardan_gateway::fleet::Making;
use cardan_gateway::relay::{Behind, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{Interest, LogLevel};
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::lines::Lines;
use relaying::{answering, connect, logging, plain, soon};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};
use tokio::sync::Barrier;

/// A legacy server whose log notes arrive after the reply that they were sent before, as they do where notes have a
/// stream of their own: with the first sign of life that is asked for, or the second.
async fn late(stream: DuplexStream, told: Told) {
    let (read, mut write) = split(stream);
    let (mut lines, mut pings) = (BufReader::new(read).lines(), 0);
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let mut said = Vec::new();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}, "logging": {}, "resources": {"subscribe": true}},
                "serverInfo": {"name": "late", "version": "1"},
            }),
            Some("tools/call") => {
                // The first two calls wait for each other, so that each has a line of its own.
                told.meeting.wait().await;
                json!({"content": [{"type": "text", "text": "done"}]})
            }
            Some("resources/subscribe") => {
                tokio::time::sleep(SLOW).await;
                told.subscribed.fetch_add(1, Ordering::SeqCst);
                json!({})
            }
            Some("ping") => {
                pings += 1;
                let params = json!({"level": "info", "data": format!("late {pings}")});
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

/// What a server was told on all of its lines, and how many calls it wants at once.
#[derive(Clone)]
struct Told {
    subscribed: Arc<AtomicUsize>,
    meeting: Arc<Barrier>,
}

impl Told {
    fn new(calls: usize) -> Self {
        Self { subscribed: Arc::default(), meeting: Arc::new(Barrier::new(calls)) }
    }
}

/// How long a subscription takes, in virtual time.
const SLOW: Duration = Duration::from_millis(200);

async fn relay(told: &Told) -> Relay {
    let told = told.clone();
    let dial = way(move || {
        let (ours, theirs) = duplex(64 << 10);
        tokio::spawn(late(theirs, told.clone()));
        let (read, write) = split(ours);
        std::future::ready(Ok::<_, Infallible>(Lines::new(read, write, &Limits::DEFAULT)))
    });
    let connector = Client::builder("relay", "1").era(EraChoice::Legacy);
    let making = Making { connector, way: dial, policy: Policy::CHILD };
    Relay::start(making, Options { behind: Behind::One, ..Options::default() }).await.unwrap()
}

/// SUB-3: a listen is acknowledged when it stands on every line by which the next call may go.
#[tokio::test(start_paused = true)]
async fn a_listen_stands_on_every_line_before_it_is_acknowledged() {
    let told = Told::new(2);
    let client = connect(&relay(&told).await, Era::Modern, answering("ada")).await;
    let (one, other) =
        (client.call_tool("it", &json!({})).unwrap(), client.call_tool("it", &json!({})).unwrap());
    let (one, other) = soon("both calls", async { tokio::join!(one, other) }).await;
    one.and(other).unwrap();
    let mut listen = client.listen(Interest { uris: vec!["a:b".into()], ..Interest::default() });
    soon("the listen", listen.ready()).await.unwrap();
    assert_eq!(told.subscribed.load(Ordering::SeqCst), 2);
}

/// LOG-4: a modern client hears nothing of a call after its reply, so the reply waits for what was said before it.
#[tokio::test]
async fn log_notes_with_a_stream_of_their_own_reach_a_modern_client() {
    let relay = relay(&Told::new(1)).await;
    let (connector, logs) = logging(plain());
    let client = connect(&relay, Era::Modern, connector).await;
    client.set_level(LogLevel::Debug);
    soon("the call", client.call_tool("it", &json!({})).unwrap()).await.unwrap();
    let late = ["late 1", "late 2"].map(|data| json!({"level": "info", "data": data}));
    assert_eq!(*logs.lock().unwrap(), late);
}
