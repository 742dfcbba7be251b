//! Whole sessions over WebSocket, in memory: calls at once, loss, dialects.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use cardan_client::{CallError, Client};
use cardan_proto::dialect::{CortexForm, Dialect};
use cardan_proto::finding::Rule;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{Cause, Event};
use cardan_proto::socket::CloseCode;
use cardan_server::{Json, Server};
use cardan_ws::{WsLink, layer};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::io::{DuplexStream, duplex};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio_websockets::{Message, WebSocketStream};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Number {
    n: u64,
}

/// A server whose tool `meet` answers when `at_once` calls of it run.
fn server(at_once: usize, dialect: Dialect) -> Server {
    let barrier = Arc::new(Barrier::new(at_once));
    Server::builder("socket", "1")
        .tool("meet", "answers when all are there", move |number: Number| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                Json(json!({"n": number.n}))
            }
        })
        .tool("hang", "never answers", async || {
            std::future::pending::<()>().await;
            "never"
        })
        .dialect(dialect)
        .build()
}

/// Serves one end of a link; the other is for the test.
fn serve(server: &Server) -> (DuplexStream, JoinHandle<Cause>) {
    let (ours, theirs) = duplex(64 << 10);
    let server = server.clone();
    let link = WsLink::server(ours, &Limits::DEFAULT);
    (theirs, tokio::spawn(async move { server.serve(link).await }))
}

async fn client(stream: DuplexStream, era: EraChoice) -> Client {
    let link = WsLink::client(stream, &Limits::DEFAULT);
    Client::builder("test", "1").era(era).connect_link(link).await.unwrap()
}

/// A client of no library of ours.
fn stranger(stream: DuplexStream) -> WebSocketStream<DuplexStream> {
    layer::client(stream, &Limits::DEFAULT)
}

async fn hear(socket: &mut WebSocketStream<DuplexStream>) -> Value {
    let message = socket.next().await.unwrap().unwrap();
    serde_json::from_str(message.as_text().unwrap()).unwrap()
}

async fn say(socket: &mut WebSocketStream<DuplexStream>, message: Value) {
    socket.send(Message::text(message.to_string())).await.unwrap();
}

/// S1-37, S1-39, S1-43: a hundred calls run at once on one socket, in both eras, and each gets its own reply.
#[tokio::test]
async fn s1_37_calls_run_at_once() {
    for era in [EraChoice::Legacy, EraChoice::Modern, EraChoice::Auto] {
        let (stream, serving) = serve(&server(100, Dialect::Standard));
        let client = client(stream, era).await;
        let calls: Vec<_> = (0..100).map(|n| client.call_tool("meet", &json!({"n": n})).unwrap()).collect();
        for (n, call) in calls.into_iter().enumerate() {
            let result = call.await.unwrap();
            let structured = serde_json::to_value(result.structured_content).unwrap();
            assert_eq!(structured, json!({"n": n}));
        }
        client.close("done").await;
        let cause = serving.await.unwrap();
        assert!(matches!(cause, Cause::Closed { code: CloseCode::Normal, .. }), "{cause}");
    }
}

/// S1-45: a socket that is dropped fails every call in flight, and says that they may have run.
#[tokio::test]
async fn s1_45_a_dropped_socket_fails_all_calls() {
    let (stream, serving) = serve(&server(1, Dialect::Standard));
    let mut client = client(stream, EraChoice::Modern).await;
    let calls: Vec<_> = (0..10).map(|_| client.call_tool("hang", &json!({})).unwrap()).collect();
    client.call_tool("meet", &json!({"n": 1})).unwrap().await.unwrap();
    serving.abort();
    for call in calls {
        let error = call.await.unwrap_err();
        assert!(matches!(error, CallError::Lost { cause: Cause::Io(_), .. }), "{error}");
        assert!(error.may_have_executed());
    }
    assert!(matches!(client.closed().await, Cause::Io(_)));
}

/// S1-47, S1-45: what the server closes with is what every call in flight ends with.
#[tokio::test]
async fn s1_47_calls_end_with_the_code() {
    let (ours, theirs) = duplex(64 << 10);
    let connector = Client::builder("test", "1").dialect(Dialect::Cortex(CortexForm::Frame));
    let client = connector.connect_link(WsLink::client(ours, &Limits::DEFAULT)).await.unwrap();
    let mut socket = layer::server(theirs, &Limits::DEFAULT);
    let calls = [1, 2].map(|n| client.call_tool("hang", &json!({"n": n})).unwrap());
    for _ in &calls {
        hear(&mut socket).await;
    }
    let code = tokio_websockets::CloseCode::GOING_AWAY;
    socket.send(Message::close(Some(code), "going to bed")).await.unwrap();
    for call in calls {
        let Err(CallError::Lost { cause: Cause::Closed { code, reason }, .. }) = call.await else {
            panic!("not lost")
        };
        assert_eq!((code, &*reason), (CloseCode::GoingAway, "going to bed"));
    }
}

/// F24, S1-47: a server of ours answers what does not finish before it goes, then says why it goes.
#[tokio::test]
async fn f24_what_does_not_finish_is_answered() {
    let server = server(1, Dialect::Standard);
    let (stream, serving) = serve(&server);
    let mut client = client(stream, EraChoice::Modern).await;
    let call = client.call_tool("hang", &json!({})).unwrap();
    client.call_tool("meet", &json!({"n": 1})).unwrap().await.unwrap();
    tokio::time::pause();
    server.close("going to bed");
    let Err(CallError::Fault(fault)) = call.await else { panic!("not answered") };
    let data: Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
    assert_eq!(data["outcome"], "lost");
    let Cause::Closed { code, reason } = client.closed().await else { panic!("not closed") };
    assert_eq!((code, &*reason), (CloseCode::GoingAway, "closed by us: going to bed"));
    assert!(matches!(serving.await.unwrap(), Cause::ClosedByUs(_)));
}

/// S1-46: an error object is a fault, with its code.
#[tokio::test]
async fn s1_46_errors_are_faults() {
    let (stream, _serving) = serve(&server(1, Dialect::Standard));
    let client = client(stream, EraChoice::Legacy).await;
    let error = client.call_tool("nowhere", &json!({})).unwrap().await.unwrap_err();
    assert!(matches!(error, CallError::Fault(_)), "{error}");
}

/// S1-40, S1-41: in the dialect a call is `{id, name, arguments}`, and its reply has the id, whether or not
/// the frame says `jsonrpc`. No handshake comes before.
#[tokio::test]
async fn s1_40_short_frames_are_calls() {
    let (stream, _serving) = serve(&server(2, Dialect::Cortex(CortexForm::Frame)));
    let mut socket = stranger(stream);
    say(&mut socket, json!({"id": 1, "name": "meet", "arguments": {"n": 7}})).await;
    say(&mut socket, json!({"jsonrpc": "2.0", "id": 2, "name": "meet", "arguments": {"n": 8}})).await;
    let mut replies = [hear(&mut socket).await, hear(&mut socket).await];
    replies.sort_by_key(|reply| reply["id"].as_u64());
    assert_eq!((&replies[0]["id"], &replies[1]["id"]), (&json!(1), &json!(2)));
    assert!(replies.iter().all(|reply| reply.get("result").is_some()), "{replies:?}");
}

/// S1-40, S1-42, S1-41: our client writes such frames, with ids that count up, and takes a reply without
/// `jsonrpc`.
#[tokio::test]
async fn s1_40_our_client_writes_short_frames() {
    let (ours, theirs) = duplex(64 << 10);
    let connector = Client::builder("test", "1").dialect(Dialect::Cortex(CortexForm::Frame));
    let client = connector.connect_link(WsLink::client(ours, &Limits::DEFAULT)).await.unwrap();
    let mut socket = layer::server(theirs, &Limits::DEFAULT);
    for id in 1..=2 {
        let call = client.call_tool("add", &json!({"a": id})).unwrap();
        assert_eq!(hear(&mut socket).await, json!({"id": id, "name": "add", "arguments": {"a": id}}));
        say(&mut socket, json!({"id": id, "result": {"content": [{"type": "text", "text": "3"}]}})).await;
        call.await.unwrap();
    }
}

/// The tutorial's note opens a session over WebSocket as it does over its own transport.
#[tokio::test]
async fn the_tutorial_dialect_works_too() {
    let (stream, _serving) = serve(&server(1, Dialect::Tutorial));
    let mut socket = stranger(stream);
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    say(&mut socket, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).await;
    assert_eq!(hear(&mut socket).await["id"], 1);
    say(&mut socket, json!({"jsonrpc": "2.0", "method": "initialized"})).await;
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "meet", "arguments": {"n": 1}}});
    say(&mut socket, call).await;
    assert!(hear(&mut socket).await.get("result").is_some());
}

/// S1-44: frames that are no messages are findings, a binary one is the last.
#[tokio::test]
async fn s1_44_unknown_frames_are_found() {
    let found = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&found);
    let server = Server::builder("socket", "1")
        .observe(move |event| {
            if let Event::Found(finding) = event {
                seen.lock().unwrap().push(finding.rule);
            }
        })
        .build();
    let (stream, serving) = serve(&server);
    let mut socket = stranger(stream);
    socket.send(Message::text("not json")).await.unwrap();
    assert_eq!(hear(&mut socket).await["error"]["code"], -32700);
    socket.send(Message::binary("{}")).await.unwrap();
    let mut code = None;
    while let Some(Ok(message)) = socket.next().await {
        code = message.as_close().map(|(code, _)| u16::from(code));
    }
    assert_eq!(code, Some(1003));
    assert_eq!(serving.await.unwrap(), Cause::Violated(Rule::Binary));
    assert_eq!(*found.lock().unwrap(), [Rule::Syntax, Rule::Binary]);
}
