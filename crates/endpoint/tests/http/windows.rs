//! Clients of HTTP/2 that leave the window of a stream shut while their connection is well.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::mount::request;
use crate::rig::{LEGACY, Rig, STREAM, Step, modern_tool, said, within};

/// A connection whose streams have this window, and its end.
async fn connect(rig: &Rig, window: u32) -> (http2::SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let stream = tokio::net::TcpStream::connect(rig.address).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

async fn stalling() -> Rig {
    Rig::limited(|limits| limits.stall_timeout = Duration::from_millis(200)).await
}

/// F10, T19: a stream whose window is shut is let go after the stall, with the call that feeds it; with nothing else
/// on it, so is the connection.
#[tokio::test]
async fn f10_a_shut_window_ends_its_call() {
    for window in [0, 1024] {
        let rig = stalling().await;
        let uri = format!("http://{}/mcp", rig.address);
        let (mut sender, ended) = connect(&rig, window).await;
        let flood = request(&uri, &modern_tool(1, "flood", json!({})));
        let unread = within(sender.send_request(flood)).await.unwrap();
        rig.signals.expect(Step::Entered).await;
        rig.signals.expect(Step::Dropped).await;
        let _ = within(ended).await.expect("the connection is ended, not the test");
        drop(unread);
    }
}

/// F10: one message that nobody takes, however small, holds no stream either.
#[tokio::test]
async fn f10_a_reply_is_not_offered_for_ever() {
    for (window, bytes) in [(0, 10), (0, 200_000), (16, 1000), (1024, 200_000)] {
        let rig = stalling().await;
        let uri = format!("http://{}/mcp", rig.address);
        let (mut sender, ended) = connect(&rig, window).await;
        let big = request(&uri, &modern_tool(1, "big", json!({ "bytes": bytes })));
        let unread = within(sender.send_request(big)).await.unwrap();
        let _ = within(ended).await.expect("the connection is ended, not the test");
        drop(unread);
    }
}

/// F10: who leaves one stream unread and reads another keeps the other, and the connection.
#[tokio::test]
async fn f10_a_shut_window_costs_no_other_stream() {
    let rig = stalling().await;
    let uri = format!("http://{}/mcp", rig.address);
    let (mut sender, _ended) = connect(&rig, 1024).await;
    let held = tokio::spawn(sender.send_request(request(&uri, &modern_tool(1, "hold", json!({})))));
    rig.signals.expect(Step::Entered).await;
    let unread =
        within(sender.send_request(request(&uri, &modern_tool(2, "flood", json!({}))))).await.unwrap();
    rig.signals.expect(Step::Entered).await;
    rig.signals.expect(Step::Dropped).await;
    rig.signals.go.notify_one();
    rig.signals.expect(Step::Finished).await;
    let held = within(held).await.unwrap().unwrap();
    let reply: Value = serde_json::from_slice(&within(held.collect()).await.unwrap().to_bytes()).unwrap();
    assert_eq!(said(&reply), "held");
    // What is read again after all is reset: the rest is gone.
    assert!(within(unread.collect()).await.is_err());
}

/// F10: a legacy session whose only reader shuts its window is freed.
#[tokio::test]
async fn f10_a_shut_window_holds_no_session() {
    let rig = Rig::limited(|limits| {
        limits.stall_timeout = Duration::from_millis(200);
        limits.session_idle_timeout = Duration::from_millis(200);
    })
    .await;
    let session = rig.open(LEGACY).await;
    let level =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "debug" } });
    assert_eq!(session.post(&level).await.answer().await.status(), 200);
    let (mut sender, _ended) = connect(&rig, 1024).await;
    let get = http::Request::get(format!("http://{}/mcp", rig.address))
        .header(STREAM.0, STREAM.1)
        .header("mcp-session-id", &session.id)
        .header("mcp-protocol-version", LEGACY)
        .body(Full::default())
        .unwrap();
    let unread = within(sender.send_request(get)).await.unwrap();
    assert_eq!(unread.status(), 200);
    rig.server.log(cardan_proto::session::event::LogLevel::Error, &"x".repeat(1 << 20));
    rig.signals.expect(Step::Closed).await;
    assert_eq!(session.status().await, 404);
    drop(unread);
}

/// F10: who reads slowly through a small window gets everything.
#[tokio::test]
async fn f10_a_small_window_is_no_stall() {
    let rig = Rig::limited(|limits| limits.stall_timeout = Duration::from_secs(10)).await;
    let uri = format!("http://{}/mcp", rig.address);
    let (mut sender, _ended) = connect(&rig, 1024).await;
    let big = request(&uri, &modern_tool(1, "big", json!({ "bytes": 500_000 })));
    let response = within(sender.send_request(big)).await.unwrap();
    let body = within(response.collect()).await.unwrap().to_bytes();
    assert_eq!(said(&serde_json::from_slice(&body).unwrap()).len(), 500_000);
}
