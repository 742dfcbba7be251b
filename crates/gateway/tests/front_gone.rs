//! A legacy server to which several sessions lead: what the loss of one says about the server.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{CallError, Client, way};
use cardan_gateway::fleet::{Health, Making, Spec, Status};
use cardan_gateway::front::Front;
use cardan_proto::era::Era;
use cardan_proto::limits::Limits;
use cardan_proto::model::tool::CallToolResult;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::CallOptions;
use cardan_proto::upkeep::condition::Condition;
use cardan_proto::upkeep::policy::{Backoff, Burst, Policy};
use cardan_runtime::lines::Lines;
use cardan_runtime::memory::MemoryLink;
use fronting::{at, front};
use relaying::plain;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::time::Instant;

/// How the server fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fares {
    Well,
    /// It takes no new sessions.
    Full,
    /// A session that is used ends, and there are no new ones.
    Gone,
}

/// The server's side: it answers line by line, each session by itself.
struct Stage {
    fares: Mutex<Fares>,
    dialled: AtomicUsize,
    /// How often its first session was asked whether it lives.
    pings: AtomicUsize,
}

impl Stage {
    fn new() -> Arc<Self> {
        let (dialled, pings) = (AtomicUsize::default(), AtomicUsize::default());
        Arc::new(Self { fares: Mutex::new(Fares::Well), dialled, pings })
    }

    fn fares(&self) -> Fares {
        *self.fares.lock().unwrap()
    }

    fn becomes(&self, fares: Fares) {
        *self.fares.lock().unwrap() = fares;
    }

    fn pings(&self) -> usize {
        self.pings.load(Ordering::SeqCst)
    }

    fn dial(self: &Arc<Self>) -> io::Result<MemoryLink> {
        if self.fares() != Fares::Well {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "nobody there"));
        }
        let number = self.dialled.fetch_add(1, Ordering::SeqCst) + 1;
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(Arc::clone(self).serve(theirs, number));
        let (read, write) = tokio::io::split(ours);
        Ok(Lines::new(read, write, &Limits::DEFAULT))
    }

    /// One session, until it is to end.
    async fn serve(self: Arc<Self>, stream: DuplexStream, number: usize) {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        let tools = ["who", "die"].map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
        while let Ok(Some(line)) = lines.next_line().await {
            let asked: Value = serde_json::from_str(&line).unwrap();
            if asked["method"] == "ping" && number == 1 {
                self.pings.fetch_add(1, Ordering::SeqCst);
            }
            if self.fares() == Fares::Gone || asked["params"]["name"] == "die" {
                return;
            }
            let result = match asked["method"].as_str().unwrap() {
                "initialize" => json!({
                    "protocolVersion": asked["params"]["protocolVersion"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "stage", "version": "1" },
                }),
                "tools/list" => json!({ "tools": tools }),
                "tools/call" => json!({ "content": [{ "type": "text", "text": "me" }] }),
                _ => json!({}),
            };
            if !asked["id"].is_null() {
                let reply = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
                write.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
            }
        }
    }
}

/// A front before it, and a legacy client, which has a session of its own there.
async fn met(stage: &Arc<Stage>, kind: &'static str) -> (Front, Client) {
    let server = Arc::clone(stage);
    let way = way(move || std::future::ready(server.dial()));
    // Tried again and again, so that nobody is told sooner that there is no hope.
    let backoff = Backoff { max: Duration::from_secs(1), attempts: 1000, ..Policy::REMOTE.backoff };
    let burst = Burst { restarts: 1000, ..Policy::REMOTE.burst };
    let policy = Policy { backoff, burst, ..Policy::REMOTE };
    let connector = Client::builder("gateway", "1").era(EraChoice::Legacy);
    let front = front(vec![Spec::new("one", kind, "digest", Making { connector, way, policy })]);
    let client = at(&front, Era::Legacy, plain()).await;
    call(&client, "one__who").await.unwrap();
    assert_eq!((stage.dialled.load(Ordering::SeqCst), stage.pings()), (2, 0));
    (front, client)
}

/// A call whose caller waits as good as for ever.
async fn call(client: &Client, tool: &str) -> Result<CallToolResult, CallError> {
    let never = Some(Duration::ZERO);
    let options = CallOptions { idle: never, total: never, ..CallOptions::default() };
    let call = client.call_tool_with(tool, &json!({}), options).unwrap();
    tokio::time::timeout(Duration::from_secs(3600), call).await.expect("it ends within an hour")
}

fn status(front: &Front) -> Status {
    front.fleet().status().remove(0)
}

/// F1, S0-79: a server that is well although a session with it was lost is asked once whether it lives, and nothing else
/// happens to it; where each session is a process of its own, the others are not asked.
#[tokio::test(start_paused = true)]
async fn f1_a_lost_session_is_a_reason_to_look_and_no_more() {
    for (kind, pings) in [("http", 1), ("stdio", 0)] {
        let stage = Stage::new();
        let (front, client) = met(&stage, kind).await;
        let lost = call(&client, "one__die").await.unwrap_err().to_string();
        assert!(lost.contains("lost") || lost.contains("closed"), "{lost}");
        tokio::time::sleep(Duration::from_secs(5)).await;
        let stands = status(&front);
        assert_eq!(stands.health, Health::Kept(Condition::READY), "{kind}");
        assert_eq!((stands.connects, stands.restarts, stage.pings()), (1, 0, pings), "{kind}");
        call(&client, "one__who").await.unwrap();
        front.end("done").await;
    }
}

/// F1, S0-79: health tells the truth within a second of a call that met its server's end by a session of its own.
#[tokio::test(start_paused = true)]
async fn f1_a_lost_session_shows_that_its_server_is_gone() {
    let stage = Stage::new();
    let (front, client) = met(&stage, "http").await;
    stage.becomes(Fares::Gone);
    let began = Instant::now();
    call(&client, "one__who").await.unwrap_err();
    while status(&front).health.is_up() {
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(began.elapsed() <= Duration::from_secs(1), "it is said to be up");
    }
    assert!(status(&front).cause.is_some());
    front.end("done").await;
}

/// F14: whoever calls a server that was there before is told after five seconds that it is away, whichever session that
/// concerns.
#[tokio::test(start_paused = true)]
async fn f14_a_call_waits_five_seconds_for_what_was_lost() {
    let grace = Duration::from_secs(5);
    for fares in [Fares::Full, Fares::Gone] {
        let stage = Stage::new();
        let (front, client) = met(&stage, "http").await;
        stage.becomes(fares);
        call(&client, "one__die").await.unwrap_err();
        for _ in 0..3 {
            let began = Instant::now();
            call(&client, "one__who").await.unwrap_err();
            let took = began.elapsed();
            assert!(took >= grace && took < grace * 11 / 10, "{fares:?}: {took:?}");
        }
        stage.becomes(Fares::Well);
        call(&client, "one__who").await.unwrap();
        front.end("done").await;
    }
}
