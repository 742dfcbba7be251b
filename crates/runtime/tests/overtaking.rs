//! S0-47: what overtakes bulk on a real link, and what is never written because nobody wants it any more.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, EraChoice, Role};
use cardan_proto::session::event::{
    Abilities, CallOptions, Cancel, Cause, Delivery, Departed, Event, LaneId, Outcome, Outgoing,
};
use cardan_proto::session::state::State;
use cardan_runtime::driver::Driver;
use cardan_runtime::lines::Lines;
use cardan_runtime::link::{Link, Received};
use cardan_runtime::peer::{CallHandle, Peer};
use cardan_runtime::service::Service;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines as Reader};
use tokio::task::JoinHandle;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;

/// What the far end's pipe holds: a large call does not fit.
const PIPE_BYTES: usize = 4 << 10;

#[derive(Default)]
struct Herald {
    ready: tokio::sync::Notify,
}

impl Service for Herald {
    fn event(&self, event: &Event) {
        if matches!(event, Event::State(change) if change.to == State::Ready) {
            self.ready.notify_one();
        }
    }
}

fn config(era: EraChoice) -> Config {
    let identity = Bytes::from_static(br#"{"name":"t","version":"1"}"#);
    Config { era, ..Config::new(Role::Client, identity, Bytes::from_static(b"{}")) }
}

/// A client with an open session, and the far end, which reads when it is told to.
struct Scene {
    peer: Peer,
    driver: JoinHandle<Cause>,
    far: Reader<BufReader<DuplexStream>>,
}

impl Scene {
    async fn new(limits: Limits) -> Self {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let (reader, writer) = tokio::io::split(ours);
        let config = Config { limits: limits.clone(), ..config(EraChoice::Legacy) };
        let herald = Arc::new(Herald::default());
        let link = Lines::new(reader, writer, &limits);
        let (driver, peer) = Driver::new(link, Arc::clone(&herald), Arc::new(config));
        let driver = tokio::spawn(driver);
        let mut scene = Self { peer, driver, far: BufReader::with_capacity(1, theirs).lines() };
        scene.read().await;
        scene.far.get_mut().write_all(format!("{HELLO}\n").as_bytes()).await.unwrap();
        scene.read().await;
        herald.ready.notified().await;
        scene
    }

    async fn read(&mut self) -> Value {
        serde_json::from_str(&self.far.next_line().await.unwrap().unwrap()).unwrap()
    }

    /// The methods of what comes, up to the first of `last`, with the id that is meant.
    async fn read_to(&mut self, last: &str) -> Vec<String> {
        let mut read = Vec::new();
        loop {
            let frame = self.read().await;
            let method = frame["method"].as_str().unwrap_or("reply").to_owned();
            let id = [&frame["params"]["requestId"], &frame["id"]].into_iter().find(|id| !id.is_null());
            let done = method == last;
            read.push(format!("{method} {}", id.unwrap_or(&Value::Null)));
            if done {
                return read;
            }
        }
    }

    fn call(&self, bytes: usize) -> CallHandle {
        let params = format!(r#"{{"name":"x","arguments":{{"a":"{}"}}}}"#, "a".repeat(bytes));
        self.peer.call(Method::ToolsCall, Some(params.into()), CallOptions::default())
    }

    fn ping(&self) -> CallHandle {
        self.peer.call(Method::Ping, None, CallOptions::default())
    }
}

/// Lets the driver take what it was told.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// S0-47: a cancel and a ping do not wait behind bulk, and cut no message in two.
#[tokio::test(start_paused = true)]
async fn s0_47_cancel_and_ping_overtake_bulk() {
    let mut scene = Scene::new(Limits::DEFAULT).await;
    let small = scene.call(1);
    settle().await;
    let bulk: Vec<CallHandle> = (0..3).map(|_| scene.call(64 << 10)).collect();
    settle().await;
    small.cancel("enough");
    let ping = scene.ping();
    settle().await;
    // Ids 2 to 5 are the calls; 3 is being written.
    let order = scene.read_to("ping").await;
    assert_eq!(order, ["tools/call 2", "tools/call 3", "notifications/cancelled 2", "ping 6"]);
    scene.far.get_mut().write_all(b"{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{}}\n").await.unwrap();
    assert!(matches!(ping.await, Outcome::Done(_)));
    assert_eq!(scene.read().await["id"], 4);
    assert_eq!(scene.read().await["id"], 5);
    drop(bulk);
}

/// S0-47, S0-76: a call that is cancelled before it began to leave never leaves, and no cancel follows it.
#[tokio::test(start_paused = true)]
async fn s0_47_a_cancelled_call_does_not_leave_the_outbox() {
    let mut scene = Scene::new(Limits::DEFAULT).await;
    let mut calls: Vec<Option<CallHandle>> = (0..4).map(|_| Some(scene.call(64 << 10))).collect();
    settle().await;
    // The first is being written; the second and the last never will be.
    for (n, expected) in [(0, Delivery::Unknown), (1, Delivery::NotSent), (3, Delivery::NotSent)] {
        let call = calls[n].take().unwrap();
        call.cancel("enough");
        let outcome = call.await;
        let Outcome::Cancelled { delivery, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(delivery, expected, "{n}");
    }
    let _ping = scene.ping();
    let order = scene.read_to("ping").await;
    assert_eq!(order, ["tools/call 2", "notifications/cancelled 2", "ping 6"]);
    assert_eq!(scene.read().await["id"], 4);
}

/// S0-76: notes that were dropped do not make a call look unsent that was written.
#[tokio::test(start_paused = true)]
async fn s0_76_a_dropped_note_does_not_shift_the_count() {
    let mut scene = Scene::new(Limits { outbox_bytes: 32 << 10, ..Limits::DEFAULT }).await;
    let bulk = scene.call(48 << 10);
    settle().await;
    let progress = Bytes::from_static(br#"{"progressToken":1,"progress":1}"#);
    scene.peer.note(Method::Progress, Some(progress));
    settle().await;
    assert_eq!(scene.read().await["id"], 2);
    let call = scene.call(1);
    assert_eq!(scene.read().await["id"], 3, "the note was dropped");
    drop(scene.far);
    for handle in [bulk, call] {
        let outcome = handle.await;
        assert!(matches!(outcome, Outcome::Lost { delivery: Delivery::Unknown, .. }), "{outcome:?}");
    }
    scene.driver.await.unwrap();
}

/// A link on which closing a lane cancels.
struct Closing<L> {
    link: L,
    closed: Arc<Mutex<Vec<u64>>>,
}

impl<L: Link> Link for Closing<L> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        self.link.poll_recv(cx)
    }

    fn put(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        self.link.put(frame, lane, message);
    }

    fn retract(&mut self, frame: u64) {
        self.closed.lock().unwrap().push(frame);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.link.poll_flush(cx)
    }

    fn queued(&self) -> usize {
        self.link.queued()
    }

    fn departed(&self) -> Departed {
        Departed::through(self.link.departed().in_order)
    }

    fn abilities(&self) -> Abilities {
        Abilities { cancel: Cancel::ByClosing, ..Abilities::STREAM }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<()> {
        self.link.poll_close(cx, cause)
    }
}

/// S0-4: the driver learns from the link what it can do.
#[tokio::test(start_paused = true)]
async fn s0_4_the_link_says_what_it_can() {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (reader, writer) = tokio::io::split(ours);
    let closed = Arc::new(Mutex::new(Vec::new()));
    let link = Closing { link: Lines::new(reader, writer, &Limits::DEFAULT), closed: Arc::clone(&closed) };
    let herald = Arc::new(Herald::default());
    let (driver, peer) = Driver::new(link, Arc::clone(&herald), Arc::new(config(EraChoice::Modern)));
    let driver = tokio::spawn(driver);
    let mut scene = Scene { peer, driver, far: BufReader::new(theirs).lines() };
    assert_eq!(scene.read().await["method"], "server/discover");
    let found = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}"#;
    scene.far.get_mut().write_all(format!("{found}\n").as_bytes()).await.unwrap();
    herald.ready.notified().await;
    let call = scene.call(1);
    assert_eq!(scene.read().await["id"], 2);
    call.cancel("enough");
    assert!(matches!(call.await, Outcome::Cancelled { delivery: Delivery::Unknown, .. }));
    assert_eq!(*closed.lock().unwrap(), [2]);
    let _next = scene.call(1);
    assert_eq!(scene.read().await["id"], 3, "no note in between");
}
