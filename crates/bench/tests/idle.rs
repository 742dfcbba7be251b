//! What a session costs while nothing happens.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use allocation_counter::measure;
use cardan_endpoint::{Body, Endpoint, Options};
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use cardan_server::Server;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;

/// As many as show a cost that is per session; ten thousand are in `cargo xtask bench http`.
const SESSIONS: u64 = 1000;

/// What one session may hold, its stream included. The connections below it are hyper's and the kernel's.
const BYTES: i64 = 8 << 10;

/// What waits on a stream, and how often it was looked at.
struct Watched {
    body: Body,
    polls: Arc<AtomicU64>,
    said: Arc<AtomicU64>,
}

impl Future for Watched {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        while let Poll::Ready(frame) = http_body::Body::poll_frame(Pin::new(&mut self.body), cx) {
            assert!(frame.is_some(), "the stream of an idle session ended");
            self.said.fetch_add(1, Ordering::Relaxed);
        }
        Poll::Pending
    }
}

fn endpoint() -> Endpoint<Server> {
    let nobody: [&str; 0] = [];
    let allow = Allow::bound([127, 0, 0, 1].into(), Ports::Any, &nobody, &nobody).unwrap();
    let server = Server::builder("idle", "1").tool("echo", "says nothing", async || "");
    Endpoint::new(server.build(), Options::new(allow))
}

/// A legacy session with its push stream.
async fn open(endpoint: &Endpoint<Server>, polls: &Arc<AtomicU64>, said: &Arc<AtomicU64>) {
    let request = |method: &str, accept: &str| {
        let request = Request::builder().method(method).uri("/mcp").header("host", "127.0.0.1");
        request.header("accept", accept).header("content-type", "application/json")
    };
    let both = "application/json, text/event-stream";
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "i", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }).to_string();
    let opened = endpoint.answer(request("POST", both).body(Full::from(hello)).unwrap()).await;
    let session = opened.headers()["mcp-session-id"].clone();
    opened.into_body().collect().await.unwrap();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let ready = request("POST", both).header("mcp-session-id", &session).body(Full::from(ready)).unwrap();
    assert_eq!(endpoint.answer(ready).await.status(), 202);
    let push = request("GET", "text/event-stream").header("mcp-session-id", &session);
    let push = endpoint.answer(push.body(Full::<bytes::Bytes>::default()).unwrap()).await;
    assert_eq!(push.status(), 200);
    let watched = Watched { body: push.into_body(), polls: Arc::clone(polls), said: Arc::clone(said) };
    tokio::spawn(watched);
    tokio::task::yield_now().await;
}

/// F27: an idle session with its stream is a few KiB, wakes up only to show that it lives, and then allocates nothing.
#[test]
fn f27_idle_sessions_are_small_and_quiet() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let (endpoint, polls, said) = (endpoint(), Arc::default(), Arc::default());
    let more = |count: u64| {
        runtime.block_on(async {
            for _ in 0..count {
                open(&endpoint, &polls, &said).await;
            }
        });
    };
    // Tables that grow by doubling have done so.
    more(SESSIONS);
    let held = measure(|| more(SESSIONS)).bytes_current / SESSIONS as i64;
    println!("{held} bytes for each idle session");
    assert!((1..=BYTES).contains(&held), "{held} bytes for each session");
    let streams = 2 * SESSIONS;
    assert_eq!(endpoint.census().sessions as u64, streams);

    polls.store(0, Ordering::Relaxed);
    said.store(0, Ordering::Relaxed);
    let interval = Limits::DEFAULT.keep_alive_interval;
    let while_later = 4 * interval + Duration::from_secs(1);
    let quiet = measure(|| runtime.block_on(async { tokio::time::sleep(while_later).await }));
    let (polls, said) = (polls.load(Ordering::Relaxed), said.load(Ordering::Relaxed));
    assert_eq!((polls, said), (4 * streams, 4 * streams), "one look and one sign of life for each interval");
    println!("{} allocations in four intervals of {streams} streams", quiet.count_total);
    assert!(quiet.count_total < streams / 10, "{} allocations while nothing happens", quiet.count_total);
    assert_eq!(endpoint.census().sessions as u64, streams, "a session with a stream is not idle");
}
