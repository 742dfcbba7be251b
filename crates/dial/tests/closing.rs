//! Connections that end in the very moment in which they are used.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::time::Duration;

use cardan_client::{CallError, Client};
use cardan_dial::Http;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::CallOptions;
use cardan_proxy::Proxies;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Calls in turn, each over the connection that the one before may have left just now.
const CALLS: usize = 2_000;

/// Far longer than a call takes, and shorter than any deadline of ours.
const SOON: Duration = Duration::from_secs(10);

/// One request, if one comes: what its body says.
async fn request(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<Value> {
    loop {
        let head = read.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
            let length: usize = text.split("content-length: ").nth(1)?.split('\r').next()?.parse().ok()?;
            if read.len() >= head + 4 + length {
                let body = serde_json::from_slice(&read[head + 4..head + 4 + length]).unwrap();
                read.drain(..head + 4 + length);
                return Some(body);
            }
        }
        if stream.read_buf(read).await.ok()? == 0 {
            return None;
        }
    }
}

/// Answers, says that more is welcome, and hangs up a moment later.
async fn serve(mut stream: TcpStream, turns: u32) {
    let mut read = Vec::new();
    let Some(asked) = request(&mut stream, &mut read).await else { return };
    let result = match asked["method"].as_str() {
        Some("server/discover") => json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private" }),
        _ => json!({ "resultType": "complete", "content": [] }),
    };
    let body = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string();
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// F11, S0-77: a server that hangs up after every answer, sooner or later, costs no call its end: each is answered, or is
/// lost at once, whatever moment the connection ends in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f11_no_call_waits_for_a_connection_that_ended() {
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = door.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        for turns in (0..12).cycle() {
            let (stream, _) = door.accept().await.unwrap();
            tokio::spawn(serve(stream, turns));
        }
    });
    let http = Http::new(&format!("http://{address}/mcp")).unwrap().proxies(Proxies::Direct);
    let client =
        Client::builder("tester", "1").era(EraChoice::Modern).connect(async || http.link()).await.unwrap();
    let never =
        CallOptions { idle: Some(Duration::ZERO), total: Some(Duration::ZERO), ..CallOptions::default() };
    let mut lost = 0;
    for n in 0..CALLS {
        let call = client.call_tool_with("t", &json!({}), never).unwrap();
        match tokio::time::timeout(SOON, call).await.unwrap_or_else(|_| panic!("call {n} has no end")) {
            Ok(_) => {}
            Err(CallError::Lost { .. }) => lost += 1,
            Err(other) => panic!("call {n}: {other}"),
        }
    }
    assert!(lost < CALLS / 2, "{lost} of {CALLS} were lost");
    serving.abort();
}
