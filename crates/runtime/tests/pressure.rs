//! A peer that does not keep up, breaks off or is forgotten: bounded buffers, and an outcome for all.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::finding::Rule;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, EraChoice, Role};
use cardan_proto::session::event::{CallOptions, Cause, Event, LaneId, Outcome, Outgoing, Refusal, Stage};
use cardan_proto::session::state::State;
use cardan_runtime::driver::Driver;
use cardan_runtime::lines::Lines;
use cardan_runtime::link::Link;
use cardan_runtime::peer::{CallHandle, Peer};
use cardan_runtime::service::{Service, Silent};
use tokio::io::{AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;

fn config(limits: Limits) -> Arc<Config> {
    let identity = Bytes::from_static(br#"{"name":"t","version":"1"}"#);
    let mut config = Config::new(Role::Client, identity, Bytes::from_static(b"{}"));
    config.era = EraChoice::Legacy;
    config.limits = limits;
    Arc::new(config)
}

type ClientLink = Lines<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// A client's link, and the bare other end of it.
fn link(limits: &Limits) -> (ClientLink, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(ours);
    (Lines::new(reader, writer, limits), theirs)
}

/// Answers the handshake, and then neither reads nor writes.
async fn opened(stream: &mut DuplexStream) {
    let mut lines = BufReader::new(stream).lines();
    lines.next_line().await.unwrap();
    let stream = lines.get_mut().get_mut();
    stream.write_all(HELLO.as_bytes()).await.unwrap();
    stream.write_all(b"\n").await.unwrap();
}

/// Tells when calls flow.
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

fn call(peer: &Peer, bytes: usize) -> CallHandle {
    let params = format!(r#"{{"name":"x","arguments":{{"a":"{}"}}}}"#, "a".repeat(bytes));
    peer.call(Method::ToolsCall, Some(params.into()), CallOptions::default())
}

/// F6, CLI-30: calls made at once are refused at the bound; the link is not torn down for them.
#[tokio::test(start_paused = true)]
async fn f6_a_burst_beyond_the_backlog_is_refused_call_by_call() {
    let limits = Limits { outbox_bytes: 1 << 20, ..Limits::DEFAULT };
    let (link, mut theirs) = link(&limits);
    let herald = Arc::new(Herald::default());
    let (driver, peer) = Driver::new(link, Arc::clone(&herald), config(limits));
    let driver = tokio::spawn(driver);
    opened(&mut theirs).await;
    herald.ready.notified().await;
    let calls: Vec<CallHandle> = (0..200).map(|_| call(&peer, 64 << 10)).collect();
    let mut refused = 0;
    for call in calls {
        match tokio::time::timeout(Duration::from_secs(1), call).await {
            Ok(Outcome::Refused(Refusal::Backlog)) => refused += 1,
            Ok(other) => panic!("{other:?}"),
            Err(_) => {}
        }
    }
    assert!((150..200).contains(&refused), "{refused} refused");
    assert!(!driver.is_finished(), "the link lives");
}

/// S0-34: a peer that does not read cannot keep us from leaving.
#[tokio::test(start_paused = true)]
async fn closing_towards_a_peer_that_does_not_read_ends() {
    let (mut link, _theirs) = link(&Limits::DEFAULT);
    link.put(1, LaneId::MAIN, &Outgoing::Raw(vec![b'x'; 1 << 20].into()));
    let cause = Cause::ClosedByUs("done".into());
    let closing = std::future::poll_fn(|cx| link.poll_close(cx, &cause));
    tokio::time::timeout(Duration::from_secs(6), closing).await.expect("bounded by the drain timeout");
}

/// S0-43: what a dying peer answered is not lost because a later write failed.
#[tokio::test(start_paused = true)]
async fn s0_43_a_reply_that_arrived_survives_a_broken_pipe() {
    let (reader, mut replies) = tokio::io::duplex(64 << 10);
    let (writer, mut calls) = tokio::io::duplex(64 << 10);
    let link = Lines::new(reader, writer, &Limits::DEFAULT);
    let herald = Arc::new(Herald::default());
    let (driver, peer) = Driver::new(link, Arc::clone(&herald), config(Limits::DEFAULT));
    let driver = tokio::spawn(driver);
    let mut lines = BufReader::new(&mut calls).lines();
    lines.next_line().await.unwrap();
    replies.write_all(format!("{HELLO}\n").as_bytes()).await.unwrap();
    herald.ready.notified().await;
    let first = call(&peer, 1);
    while !lines.next_line().await.unwrap().unwrap().contains("tools/call") {}
    // It reads no more, and its answer is under way when our next write fails.
    drop(calls);
    let second = call(&peer, 1);
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    replies.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[]}}\n").await.unwrap();
    drop(replies);
    assert!(matches!(first.await, Outcome::Done(_)), "answered");
    assert!(matches!(second.await, Outcome::Lost { .. }));
    assert_eq!(driver.await.unwrap(), Cause::ClosedByPeer);
}

/// S0-43: a peer that takes nothing more but stays is not waited for.
#[tokio::test(start_paused = true)]
async fn s0_43_a_broken_pipe_alone_ends_the_link() {
    let (reader, _replies) = tokio::io::duplex(64 << 10);
    let (writer, calls) = tokio::io::duplex(64 << 10);
    drop(calls);
    let link = Lines::new(reader, writer, &Limits::DEFAULT);
    let (driver, _peer) = Driver::new(link, Arc::new(Silent), config(Limits::DEFAULT));
    let cause = tokio::time::timeout(Duration::from_secs(1), driver).await.expect("soon");
    assert!(matches!(cause, Cause::Io(_)), "{cause:?}");
}

/// S0-43: a driver that is dropped tells its callers.
#[tokio::test(start_paused = true)]
async fn s0_43_dropping_the_driver_settles_its_calls() {
    let (link, mut theirs) = link(&Limits::DEFAULT);
    let herald = Arc::new(Herald::default());
    let (driver, peer) = Driver::new(link, Arc::clone(&herald), config(Limits::DEFAULT));
    let mut driver = tokio::spawn(driver);
    opened(&mut theirs).await;
    herald.ready.notified().await;
    let sent = call(&peer, 1);
    let soon = tokio::time::timeout(Duration::from_secs(1), &mut driver).await;
    assert!(soon.is_err(), "it runs, and the call is on its way");
    let waiting = call(&peer, 1);
    driver.abort();
    for handle in [sent, waiting] {
        let outcome = tokio::time::timeout(Duration::from_secs(1), handle).await.expect("told");
        assert!(matches!(outcome, Outcome::Lost { .. }), "{outcome:?}");
    }
    assert!(peer.is_closed());
}

/// S0-57: half a reply is told from silence.
#[tokio::test(start_paused = true)]
async fn s0_57_a_timeout_counts_the_bytes_of_half_a_reply() {
    let (link, mut theirs) = link(&Limits::DEFAULT);
    let herald = Arc::new(Herald::default());
    let (driver, peer) = Driver::new(link, Arc::clone(&herald), config(Limits::DEFAULT));
    let _driver = tokio::spawn(driver);
    opened(&mut theirs).await;
    herald.ready.notified().await;
    let call = call(&peer, 1);
    tokio::task::yield_now().await;
    let half = br#"{"jsonrpc":"2.0","id":2,"result":{"content":["#;
    theirs.write_all(half).await.unwrap();
    let outcome = call.await;
    let Outcome::TimedOut { stage, seen_bytes, after, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((stage, seen_bytes), (Stage::Sent, half.len() as u64));
    assert_eq!(after, Limits::DEFAULT.call_idle_timeout);
}

/// Takes at once what it is given, and lets it out when it is flushed, a moment later.
#[derive(Default)]
struct Lazy {
    taken: Vec<u8>,
    asked: bool,
    out: Arc<Mutex<Vec<u8>>>,
}

impl AsyncWrite for Lazy {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.taken.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.asked, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let taken = std::mem::take(&mut self.taken);
        self.out.lock().unwrap().extend(taken);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// S0-43: an answer that a slow file has taken and not written yet is not lost when the input ends.
#[tokio::test(start_paused = true)]
async fn s0_43_what_a_writer_holds_is_flushed_before_it_is_closed() {
    let writer = Lazy::default();
    let out = Arc::clone(&writer.out);
    let mut link = Lines::new(&b""[..], writer, &Limits::DEFAULT);
    link.put(1, LaneId::MAIN, &Outgoing::Raw(Bytes::from_static(b"{}")));
    std::future::poll_fn(|cx| link.poll_close(cx, &Cause::ClosedByPeer)).await;
    assert_eq!(*out.lock().unwrap(), b"{}\n");
}

/// S3-21, S0-36: a reply that is too long to be read fails its call at once, if it says early whose it is; and
/// nobody else's.
#[tokio::test(start_paused = true)]
async fn s3_21_an_oversize_reply_fails_its_call() {
    let limits = Limits { frame_bytes: 4 << 10, ..Limits::DEFAULT };
    let (link, mut theirs) = link(&limits);
    let herald = Arc::new(Herald::default());
    let (driver, peer) = Driver::new(link, Arc::clone(&herald), config(limits.clone()));
    let _driver = tokio::spawn(driver);
    opened(&mut theirs).await;
    herald.ready.notified().await;
    let (first, second) = (call(&peer, 1), call(&peer, 1));
    let long = "x".repeat(8 << 10);
    // Ids 2 and 3. A call of the server's may have the id of one of ours, and text may speak of any.
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":2,"method":"ping","params":{{"a":"{long}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","result":{{"id":2,"a":"{long}"}},"id":2}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"id":2,"a":"{long}"}}}}"#),
    ] {
        theirs.write_all(line.as_bytes()).await.unwrap();
        theirs.write_all(b"\n").await.unwrap();
    }
    let start = tokio::time::Instant::now();
    let outcome = second.await;
    assert!(matches!(&outcome, Outcome::Violated(broken) if broken.rule == Rule::Oversize), "{outcome:?}");
    assert_eq!(start.elapsed(), Duration::ZERO);
    let outcome = first.await;
    assert!(matches!(outcome, Outcome::TimedOut { .. }), "its reply said too late whose it is: {outcome:?}");
}
