//! A handler that lets its caller go, by revision.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::time::Duration;

use bytes::Bytes;
use cardan_endpoint::{Body, Endpoint, Options};
use cardan_proto::http::origin::{Allow, Ports};
use cardan_server::{Cx, Server};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;

fn endpoint() -> Endpoint<Server> {
    let server = Server::builder("test", "1").tool("slow", "Takes its time.", async |cx: Cx| {
        cx.release(Duration::from_millis(7));
        tokio::time::sleep(Duration::from_secs(1)).await;
        "done"
    });
    let nobody: [&str; 0] = [];
    let allow = Allow::bound([127, 0, 0, 1].into(), Ports::Any, &nobody, &nobody).unwrap();
    Endpoint::new(server.build(), Options::new(allow))
}

async fn post(
    endpoint: &Endpoint<Server>,
    session: Option<&str>,
    body: &serde_json::Value,
) -> Response<Body> {
    let mut request = Request::post("/mcp").header("host", "127.0.0.1:1");
    request = request.header("accept", "application/json, text/event-stream");
    request = request.header("content-type", "application/json");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    endpoint.answer(request.body(Full::from(Bytes::from(body.to_string()))).unwrap()).await
}

/// What a call says before its stream ends.
async fn said(revision: &str) -> String {
    let endpoint = endpoint();
    let hello = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
    let opened = post(&endpoint, None, &hello).await;
    let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "slow" } });
    let answer = post(&endpoint, Some(&session), &call).await;
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// HTL-5: 2025-11-25: the server says when to come back and hangs up before the reply.
#[tokio::test(start_paused = true)]
async fn callers_that_can_come_back_are_let_go() {
    let said = said("2025-11-25").await;
    assert!(said.contains("retry: 7\n") && !said.contains("done"), "{said}");
}

/// HTL-3: up to 2025-06-18 a stream stays open until the reply, whatever the handler would like.
#[tokio::test(start_paused = true)]
async fn callers_that_cannot_come_back_are_kept() {
    for revision in ["2025-03-26", "2025-06-18"] {
        let said = said(revision).await;
        assert!(!said.contains("retry:") && said.contains("done"), "{revision}: {said}");
    }
}
