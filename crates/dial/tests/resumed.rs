//! Streamable HTTP in the legacy era: replies that are resumed at servers which do that badly.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::CallOptions;
use common::*;
use serde_json::json;
use tokio::sync::mpsc;

/// S0-85, S0-25, F11: some event stores replay what they have and carry nothing after it, so that a resumed lane stays
/// open and dead, with or without comments. It is asked for again, at a growing distance, and the call goes on; one that
/// brings an event slowly is left in peace.
#[tokio::test(start_paused = true)]
async fn s0_85_a_resumed_lane_without_a_word_is_asked_for_again() {
    for (comments, silent_for, most) in [(false, 6, 5), (true, 6, 5), (false, 25, 7), (false, 3600, 90)] {
        let start = tokio::time::Instant::now();
        let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => welcome(asked, Some("s-1")),
            (_, "tools/call") => Say::Cut("id: a\ndata:\n\n".into()),
            ("GET", _) if asked.header("last-event-id").is_none() => Say::Status(405, ""),
            ("GET", _) => {
                let (tell, live) = mpsc::unbounded_channel();
                if start.elapsed() >= Duration::from_secs(silent_for) {
                    let reply = json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [] } });
                    tell.send(format!("id: b\n{}", message(&reply))).unwrap();
                }
                tokio::spawn(async move {
                    while !tell.is_closed() {
                        pass(Duration::from_millis(300)).await;
                        let _ = comments.then(|| tell.send(": alive\n\n".to_owned()));
                    }
                });
                Say::Live(live)
            }
            _ => Say::Status(202, ""),
        });
        let client = connect(&stage.http()).await;
        let options =
            CallOptions { idle: Some(Duration::ZERO), total: Some(Duration::ZERO), ..Default::default() };
        let call = client.call_tool_with("t", &json!({}), options).unwrap();
        tokio::time::timeout(Duration::from_secs(2 * silent_for + 10), call).await.expect("in time").unwrap();
        assert_eq!(stage.of("tools/call").len(), 1);
        let gets = stage.of("GET").len() - 1;
        assert!((2..=most).contains(&gets), "{gets} in {silent_for} s");
    }
}

/// S0-85: an event that comes slowly is no silence.
#[tokio::test(start_paused = true)]
async fn s0_85_a_slow_event_is_left_in_peace() {
    let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        (_, "tools/call") => Say::Cut("id: a\ndata:\n\n".into()),
        ("GET", _) if asked.header("last-event-id").is_none() => Say::Status(405, ""),
        ("GET", _) => {
            let (tell, live) = mpsc::unbounded_channel();
            let reply = json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [] } });
            tokio::spawn(async move {
                for piece in format!("id: b\n{}", message(&reply)).as_bytes().chunks(4) {
                    pass(Duration::from_millis(700)).await;
                    tell.send(String::from_utf8_lossy(piece).into_owned()).unwrap();
                }
            });
            Say::Live(live)
        }
        _ => Say::Status(202, ""),
    });
    let client = connect(&stage.http()).await;
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    assert_eq!(stage.of("GET").len(), 2);
}

/// F11, S0-69: a server that has not noticed yet that a lane was cut says that it is taken. That passes, for a reply and for
/// pushes.
#[tokio::test(start_paused = true)]
async fn f11_a_lane_that_is_taken_is_asked_for_again() {
    let gets = AtomicUsize::new(0);
    let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        (_, "tools/call") => Say::Cut("id: a\ndata:\n\n".into()),
        ("GET", _) if asked.header("last-event-id") == Some("a") => {
            match gets.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => Say::Status(409, "taken"),
                _ => {
                    let reply = json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [] } });
                    Say::Events(format!("id: b\n{}", message(&reply)))
                }
            }
        }
        ("GET", _) => match asked.header("last-event-id") {
            None => Say::Cut("id: p\ndata:\n\n".into()),
            Some(_) if gets.fetch_add(1, Ordering::SeqCst) < 4 => Say::Status(409, "taken"),
            Some(_) => Say::Hang,
        },
        _ => Say::Status(202, ""),
    });
    let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
    let client = client.unwrap();
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    pass(Duration::from_secs(60)).await;
    assert!(!notebook.has("push-lost"), "{:?}", notebook.lines());
}
