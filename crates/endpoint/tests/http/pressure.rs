//! Clients that are slow, many, or go away; and a server that stops while calls run.

use std::time::Duration;

use serde_json::json;

use crate::rig::{
    JSON, LEGACY, Rig, STREAM, Step, call, initialize, modern_headers, modern_tool, said, tool_call,
};

/// T19, T20: a head that does not come in time closes its connection: nothing at all, its first letter, a
/// part of it, a part of the next one.
#[tokio::test]
async fn slow_heads_are_closed() {
    let rig = Rig::limited(|limits| limits.head_timeout = Duration::from_millis(50)).await;
    for part in ["", "P", "PR", "G", "POST /mcp HT", "POST /mcp HTTP/1.1\r\nHost: x\r\n", "PRI * HT"] {
        let mut wire = rig.wire().await;
        wire.send(part.as_bytes()).await;
        while wire.try_read().await {}
    }
    let mut wire = rig.wire().await;
    wire.request("POST", "/mcp", &[JSON], initialize(LEGACY).to_string().as_bytes()).await;
    assert_eq!(wire.answer().await.status(), 200);
    wire.send(b"POST /mcp").await;
    while wire.try_read().await {}
}

/// T20: a client that sends the letter with which both versions begin costs nothing while nothing follows: the
/// thread rests in between.
#[tokio::test]
async fn a_lonely_letter_is_waited_for_at_rest() {
    let rig = Rig::limited(|limits| limits.head_timeout = Duration::from_millis(500)).await;
    let mut wire = rig.wire().await;
    wire.send(b"P").await;
    let rests = || tokio::runtime::Handle::current().metrics().worker_park_count(0);
    let before = rests();
    while wire.try_read().await {}
    // One that spins rests a few times at most: before the letter came, and after its time.
    assert!(rests() - before >= 8, "{} rests", rests() - before);
}

/// F10, T19, HTM-16: a client that does not read is cut off after the stall, and its call with it.
#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let rig = Rig::limited(|limits| limits.stall_timeout = Duration::from_millis(100)).await;
    let wire = rig.modern(&modern_tool(1, "flood", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    rig.signals.expect(Step::Dropped).await;
    drop(wire);
}

/// F10: a legacy session whose only reader stalls is freed, and others do not notice.
#[tokio::test]
async fn a_stalled_reader_holds_no_session() {
    let rig = Rig::limited(|limits| {
        limits.stall_timeout = Duration::from_millis(100);
        limits.session_idle_timeout = Duration::from_millis(100);
    })
    .await;
    let session = rig.open(LEGACY).await;
    let level =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "debug" } });
    assert_eq!(session.post(&level).await.answer().await.status(), 200);
    let stalled = session.send("GET", &[STREAM], b"").await;
    let much = "x".repeat(1 << 20);
    for _ in 0..32 {
        rig.server.log(cardan_proto::session::event::LogLevel::Error, &much);
    }
    // Nobody but the sweeper ends it, and only when the reader is gone.
    rig.signals.expect(Step::Closed).await;
    assert_eq!(session.status().await, 404);
    drop(stalled);
    rig.open(LEGACY).await;
}

/// F10: who reads slowly but reads gets everything.
#[tokio::test]
async fn a_slow_reader_gets_everything() {
    let rig = Rig::limited(|limits| limits.stall_timeout = Duration::from_secs(10)).await;
    let answer = rig.modern(&modern_tool(1, "big", json!({ "bytes": 20_000_000 }))).await.answer().await;
    assert_eq!(said(&answer.json()).len(), 20_000_000);
}

/// T19: connections are bounded; the next ones wait until one is free.
#[tokio::test]
async fn connections_are_bounded() {
    let rig = Rig::limited(|limits| limits.connections = 1).await;
    let body = initialize(LEGACY).to_string();
    let mut first = rig.wire().await;
    first.request("POST", "/mcp", &[JSON], body.as_bytes()).await;
    assert_eq!(first.answer().await.status(), 200);
    let mut second = rig.modern(&modern_tool(1, "hold", json!({}))).await;
    // The server turns many times while the second waits at the door.
    for _ in 0..20 {
        first.request("POST", "/mcp", &[JSON], body.as_bytes()).await;
        assert_eq!(first.answer().await.status(), 200);
    }
    assert_eq!(rig.signals.unseen(), None);
    drop(first);
    rig.signals.expect(Step::Entered).await;
    rig.signals.go.notify_one();
    assert_eq!(second.answer().await.status(), 200);
}

/// F12, S1-30: when the server stops, what runs is finished and told, in both eras and whether or not the
/// stream has begun; nobody new is let in, and push lanes end.
#[tokio::test]
async fn what_runs_is_finished_before_the_end() {
    let mut rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let mut push = session.listening().await;
    let mut legacy = session.post(&tool_call(1, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    let mut stream = session.post(&tool_call(2, "steps", json!({}))).await.events().await;
    rig.signals.expect(Step::Entered).await;
    stream.message().await;
    let mut modern = rig.modern(&modern_tool(3, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    rig.stopping();
    // Refused once the door is shut, which happens before anything is drained.
    let refused = rig.refuses().await;
    assert_eq!((refused.status(), refused.header("retry-after")), (503, "5"));
    for _ in 0..3 {
        rig.signals.go.notify_one();
        rig.signals.expect(Step::Finished).await;
    }
    assert_eq!(said(&legacy.answer().await.json()), "held");
    assert_eq!(stream.message().await["params"]["progress"], 2.0);
    assert_eq!(said(&stream.reply(2).await), "stepped");
    stream.ends().await;
    assert_eq!(said(&modern.answer().await.json()), "held");
    push.ends().await;
    rig.stopped().await;
}

/// F12: who does not finish in time is ended with the server.
#[tokio::test]
async fn draining_takes_no_longer_than_its_time() {
    let mut rig = Rig::limited(|limits| limits.drain_timeout = Duration::from_millis(50)).await;
    let wire = rig.modern(&modern_tool(1, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    rig.stopping();
    let signals = rig.signals.clone();
    rig.stopped().await;
    signals.expect(Step::Dropped).await;
    drop(wire);
}

/// F12: connections on which nothing was ever asked hold up nobody's end, however long their heads may take.
#[tokio::test]
async fn silent_connections_do_not_hold_up_the_end() {
    let long = Duration::from_secs(3600);
    let mut rig = Rig::limited(|limits| (limits.head_timeout, limits.drain_timeout) = (long, long)).await;
    let (mut silent, mut begun) = (rig.wire().await, rig.wire().await);
    begun.send(b"P").await;
    // Served, so those before it were accepted.
    assert_eq!(
        rig.modern(&modern_tool(1, "echo", json!({ "text": "a" }))).await.answer().await.status(),
        200
    );
    rig.stopping();
    rig.stopped().await;
    for wire in [&mut silent, &mut begun] {
        while wire.try_read().await {}
    }
}

/// F13: a server that was started anew knows none of the old sessions, and says so.
#[tokio::test]
async fn a_new_server_knows_no_old_session() {
    let old = Rig::start().await;
    let id = old.open(LEGACY).await.id;
    old.stopped().await;
    let new = Rig::start().await;
    let answer = new.post(&[("Mcp-Session-Id", &id)], &call(1, "ping")).await.answer().await;
    assert_eq!(answer.status(), 404);
}

/// F11, S1-21: a body that breaks off is no call, even if what came of it is one.
#[tokio::test]
async fn a_body_that_breaks_off_runs_nothing() {
    let rig = Rig::start().await;
    let message = modern_tool(1, "hold", json!({}));
    let headers = modern_headers(&message);
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.extend([JSON, ("Content-Length", "100000")]);
    let mut wire = rig.send("POST", "/mcp", &headers, message.to_string().as_bytes()).await;
    tokio::io::AsyncWriteExt::shutdown(&mut wire.stream).await.unwrap();
    while wire.try_read().await {}
    rig.open(LEGACY).await;
    assert_eq!(rig.signals.unseen(), None);
}
