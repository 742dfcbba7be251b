//! Which era and which transport: what the answers to the first POSTs say, and the oldest transport.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cardan_client::CallError;
use cardan_dial::Kind;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use common::*;
use serde_json::json;
use tokio::sync::mpsc;

async fn try_open(stage: &Stage, era: EraChoice) -> Result<String, String> {
    let (client, _) = connect_as(&stage.http(), era, Limits::DEFAULT).await;
    client.map(|client| client.settled().revision.date().to_owned())
}

/// VER-30, VER-31: the body of a refused probe is read before anything is concluded; auth and
/// failures say nothing of the era.
#[tokio::test(start_paused = true)]
async fn what_a_refused_probe_says() {
    let body = |code: i64| {
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": "no",
            "data": { "supported": ["2030-01-01"], "requested": MODERN } } })
    };
    let table = [
        (400, None, Ok(LEGACY)),
        (404, None, Ok(LEGACY)),
        (405, None, Ok(LEGACY)),
        (406, None, Ok(LEGACY)),
        (400, Some(-32000), Ok(LEGACY)),
        (400, Some(-32602), Ok(LEGACY)),
        (404, Some(-32601), Ok(LEGACY)),
        (200, Some(-32601), Ok(LEGACY)),
        (400, Some(-32022), Err("no common revision; the peer speaks 2030-01-01")),
        (400, Some(-32020), Err("refused the handshake")),
        (401, None, Err("answered 401")),
        (403, None, Err("answered 403")),
        (401, Some(-32000), Err("answered 401")),
        (429, None, Err("answered 429")),
        (500, None, Err("answered 500")),
        (500, Some(-32603), Err("answered 500")),
        (503, None, Err("answered 503")),
    ];
    for (status, code, want) in table {
        let stage = Stage::new(move |asked| match asked.method() {
            "server/discover" => {
                let text = code.map(|code| body(code).to_string()).unwrap_or_default();
                Say::Full(status, vec![("content-type", "application/json".into())], text)
            }
            "initialize" => welcome(asked, None),
            "" => Say::Status(405, ""),
            _ => Say::Status(202, ""),
        });
        let got = try_open(&stage, EraChoice::Auto).await;
        match (&got, want) {
            (Ok(revision), Ok(want)) => assert_eq!(revision, want),
            (Err(error), Err(want)) => {
                assert!(error.contains(want), "{status} {code:?}: {error}");
                assert_eq!(stage.of("initialize").len(), 0, "{status} {code:?}: no fall-back");
            }
            _ => panic!("{status} {code:?}: {got:?}"),
        }
    }
}

/// S0-77: nobody there is no era; nothing was sent, and nothing is tried in another era.
#[tokio::test]
async fn a_refused_connection_is_no_era() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let http = cardan_dial::Http::new(&format!("http://127.0.0.1:{port}/mcp")).unwrap();
    let (client, notebook) = connect_as(&http, EraChoice::Auto, Limits::DEFAULT).await;
    let error = client.unwrap_err();
    assert!(error.contains("no connection") && error.contains("refused"), "{error}");
    assert!(!notebook.has("Initializing"), "{:?}", notebook.lines());
}

/// VER-31: a probe that is not answered is a failure, not an era; it has the whole time of the opening.
#[tokio::test(start_paused = true)]
async fn a_silent_probe_is_no_era() {
    let stage = Stage::new(|_| Say::Hang);
    let started = tokio::time::Instant::now();
    let error = try_open(&stage, EraChoice::Auto).await.unwrap_err();
    assert!(error.contains("in time"), "{error}");
    assert_eq!(started.elapsed().as_secs(), Limits::DEFAULT.open_timeout.as_secs());
    assert_eq!(stage.lines(), ["POST server/discover"]);
}

/// VER-31: who speaks only the modern era is told the status instead of falling back.
#[tokio::test(start_paused = true)]
async fn modern_only_clients_do_not_fall_back() {
    let stage = Stage::new(|_| Say::Status(404, "what?"));
    let error = try_open(&stage, EraChoice::Modern).await.unwrap_err();
    assert!(error.contains("404") && error.contains("what?"), "{error}");
    assert_eq!(stage.lines(), ["POST server/discover"]);
}

/// A server of the oldest transport at `/sse`, which posts at `endpoint`.
fn oldest(endpoint: &'static str) -> Stage {
    let lane = Mutex::new(None::<mpsc::UnboundedSender<String>>);
    Stage::new(move |asked| {
        let path = asked.target.split('?').next().unwrap();
        match (asked.verb.as_str(), path) {
            ("GET", "/sse") => {
                let (tell, live) = mpsc::unbounded_channel();
                tell.send(format!(": hello\n\nevent: endpoint\ndata: {endpoint}\n\n")).unwrap();
                *lane.lock().unwrap() = Some(tell);
                Say::Live(live)
            }
            ("POST", "/messages") => {
                let reply = match asked.method() {
                    "initialize" => json!({ "protocolVersion": "2024-11-05", "capabilities": { "tools": {} },
                        "serverInfo": { "name": "old", "version": "1" } }),
                    "tools/call" if asked.body["params"]["name"] == "die" => {
                        *lane.lock().unwrap() = None;
                        return Say::Status(202, "Accepted");
                    }
                    "tools/call" if asked.body["params"]["name"] == "refuse" => {
                        return Say::Status(413, "too much");
                    }
                    _ => json!({ "content": [] }),
                };
                if asked.body.get("id").is_some() {
                    let lane = lane.lock().unwrap();
                    lane.as_ref()
                        .unwrap()
                        .send(format!("event: message\n{}", message(&result(asked, reply))))
                        .unwrap();
                }
                Say::Status(202, "Accepted")
            }
            _ => Say::Status(404, "Cannot POST /sse"),
        }
    })
}

/// SSE0-3, SSE0-4, SSE0-6, SSE0-8, S2-5: a server of the oldest transport is found by itself, and by name.
#[tokio::test(start_paused = true)]
async fn the_oldest_transport_is_found() {
    for (kind, posts) in [
        (Kind::Auto, vec!["POST server/discover", "POST initialize", "GET", "POST initialize"]),
        (Kind::Events, vec!["GET", "POST initialize"]),
    ] {
        let stage = oldest("/messages?sessionId=1");
        let http = stage.http_at("http://server.test/sse").kind(kind).header("x-key", "k").unwrap();
        let client = connect(&http).await;
        client.call_tool("t", &json!({})).unwrap().await.unwrap();
        assert_eq!(client.settled().revision.date(), "2024-11-05");
        let mut want = posts;
        want.extend(["POST notifications/initialized", "POST tools/call"]);
        assert_eq!(stage.lines(), want);
        let last = stage.asked().pop().unwrap();
        assert_eq!(last.target, "/messages?sessionId=1");
        assert!(stage.asked().iter().all(|asked| asked.header("x-key") == Some("k")), "S1-20");
        let refused = client.call_tool("refuse", &json!({})).unwrap().await.unwrap_err();
        assert!(refused.to_string().contains("413"), "{refused}");
        client.call_tool("t", &json!({})).unwrap().await.expect("one refusal is no end");
        let error = client.call_tool("die", &json!({})).unwrap().await.unwrap_err();
        assert!(matches!(error, CallError::Lost { .. }), "the stream's end loses what waits: {error}");
    }
}

/// SSE0-9, T7: an endpoint elsewhere is refused before anything is sent there.
#[tokio::test(start_paused = true)]
async fn a_foreign_endpoint_is_refused() {
    for endpoint in [
        "http://evil.test/messages",
        "//evil.test/messages",
        "https://server.test/messages",
        "http://server.test:81/m",
    ] {
        let stage = oldest(endpoint);
        let http = stage.http_at("http://server.test/sse").bearer("secret").unwrap().kind(Kind::Events);
        let (client, _) = connect_as(&http, EraChoice::Legacy, Limits::DEFAULT).await;
        let error = client.unwrap_err();
        assert!(error.contains("another origin"), "{error}");
        assert_eq!(stage.dialled(), ["server.test:80"]);
    }
}

/// SSE0-6: where the oldest transport is not there either, the answer to the handshake is the reason; a stream
/// that never says where to post is not waited for long.
#[tokio::test(start_paused = true)]
async fn without_the_oldest_transport_the_first_refusal_counts() {
    for get in [|| Say::Status(405, ""), || Say::Events(": hi\n\n".into()), || Say::Hang] {
        let stage = Stage::new(move |asked| match asked.method() {
            "server/discover" => Say::Status(404, ""),
            "initialize" => Say::Full(400, vec![], fault(asked, -32000, "clients need a badge").to_string()),
            _ => get(),
        });
        let error = try_open(&stage, EraChoice::Auto).await.unwrap_err();
        assert!(error.contains("clients need a badge"), "{error}");
        assert_eq!(stage.lines(), ["POST server/discover", "POST initialize", "GET"]);
    }
    let stage = Stage::new(|asked| match asked.method() {
        "initialize" => Say::Status(401, ""),
        _ => Say::Status(404, ""),
    });
    let error = try_open(&stage, EraChoice::Auto).await.unwrap_err();
    assert!(error.contains("401"), "auth is no reason to look elsewhere: {error}");
    assert_eq!(stage.of("GET").len(), 0);
}

/// A server that turns out to be modern at the handshake is probed once more.
#[tokio::test(start_paused = true)]
async fn a_modern_server_behind_a_slow_start() {
    let probes = AtomicUsize::new(0);
    let stage = Stage::new(move |asked| match (asked.method(), probes.load(Ordering::SeqCst)) {
        ("server/discover", 0) => {
            probes.store(1, Ordering::SeqCst);
            Say::Status(404, "not yet")
        }
        ("server/discover", _) => discovered(asked),
        _ => {
            let mut refusal = fault(asked, -32022, "no handshake here");
            refusal["error"]["data"] = json!({ "supported": [MODERN], "requested": LEGACY });
            Say::Full(400, vec![("content-type", "application/json".into())], refusal.to_string())
        }
    });
    assert_eq!(try_open(&stage, EraChoice::Auto).await.unwrap(), MODERN);
    assert_eq!(stage.lines(), ["POST server/discover", "POST initialize", "POST server/discover"]);
}
