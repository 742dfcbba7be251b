//! In which form a reply that is there at once is sent.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use bytes::Bytes;
use cardan_endpoint::{Body, Endpoint, Options, Replies};
use cardan_proto::http::origin::{Allow, Ports};
use cardan_server::Server;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const LEGACY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}"#;
const MODERN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
const UNKNOWN: &str = r#"{"jsonrpc":"2.0","id":1,"method":"odd/method","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

fn endpoint(replies: Replies) -> Endpoint<Server> {
    let server = Server::builder("test", "1").tool("echo", "Says something.", async || "said").build();
    let nobody: [&str; 0] = [];
    let allow = Allow::bound([127, 0, 0, 1].into(), Ports::Any, &nobody, &nobody).unwrap();
    Endpoint::new(server, Options::new(allow).replies(replies))
}

fn request(method: Method, headers: &[(&str, &str)], body: &'static str) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri("/mcp").header("host", "127.0.0.1:1");
    if !headers.iter().any(|(name, _)| *name == "accept") {
        request = request.header("accept", "application/json, text/event-stream");
    }
    request = request.header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::from(body)).unwrap()
}

fn form(response: &Response<Body>) -> (StatusCode, &str) {
    let form = response.headers().get("content-type").map(|value| value.to_str().unwrap());
    (response.status(), form.unwrap_or_default())
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn session(endpoint: &Endpoint<Server>) -> String {
    let opened = endpoint.answer(request(Method::POST, &[], INITIALIZE)).await;
    assert_eq!(opened.status(), StatusCode::OK);
    opened.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

const ROUTED: [(&str, &str); 3] =
    [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
const STRAY: [(&str, &str); 2] = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "odd/method")];

/// HTTP-12: one message or a stream, as the endpoint was set up; a client that takes but one form gets it.
#[tokio::test]
async fn a_modern_reply_has_the_form_that_was_asked_for() {
    let (json, events) = ("application/json", "text/event-stream");
    let only = |form| [&ROUTED[..], &[("accept", form)]].concat();
    for (replies, headers, expected) in [
        (Replies::Short, ROUTED.to_vec(), json),
        (Replies::Events, ROUTED.to_vec(), events),
        (Replies::Events, only(json), json),
        (Replies::Short, only(events), events),
    ] {
        let response = endpoint(replies).answer(request(Method::POST, &headers, MODERN)).await;
        assert_eq!(form(&response), (StatusCode::OK, expected), "{replies:?} {headers:?}");
        assert!(text(response).await.contains("said"));
    }
    // A stream has status 200, so what needs another is no stream.
    let refused = endpoint(Replies::Events).answer(request(Method::POST, &STRAY, UNKNOWN)).await;
    assert_eq!(form(&refused), (StatusCode::NOT_FOUND, json));
}

/// HTL-4, HTL-17: a legacy reply sent as an event can be had again by whoever lost it on the way.
#[tokio::test]
async fn a_legacy_reply_as_events_is_primed_and_can_be_resumed() {
    let endpoint = endpoint(Replies::Events);
    let session = session(&endpoint).await;
    let headers = [("mcp-session-id", session.as_str())];
    let response = endpoint.answer(request(Method::POST, &headers, LEGACY)).await;
    assert_eq!(form(&response), (StatusCode::OK, "text/event-stream"));
    let first = text(response).await;
    let (priming, reply) = first.split_once("\n\n").unwrap();
    assert!(priming.contains("id: ") && reply.contains("said"), "{first}");
    let id = priming.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let headers = [("mcp-session-id", session.as_str()), ("last-event-id", id)];
    let again = endpoint.answer(request(Method::GET, &headers, "")).await;
    assert_eq!(text(again).await.trim_start_matches(|c| c != 'i'), reply);
}

/// HTTP-12: a client that reads events alone gets its reply primed too.
#[tokio::test]
async fn a_legacy_client_that_reads_events_alone_gets_events() {
    let endpoint = endpoint(Replies::Short);
    let session = session(&endpoint).await;
    let headers = [("mcp-session-id", session.as_str()), ("accept", "text/event-stream")];
    let response = endpoint.answer(request(Method::POST, &headers, LEGACY)).await;
    assert_eq!(form(&response), (StatusCode::OK, "text/event-stream"));
    assert!(text(response).await.starts_with("id: "));
}
