//! Progress, cancellation and deadlines, end to end.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardan::client::CallError;
use cardan::prelude::*;
use cardan::proto::era::{Revision, gates};
use cardan::proto::limits::Limits;
use cardan::proto::session::event::{CallOptions, Deadline, Event, Wanted};
use common::{BOTH, Raw, Way, join, params_in, plain, raw_in};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Handlers that run, and those that were dropped before their end.
#[derive(Clone, Default)]
struct Watch {
    started: Arc<Notify>,
    dropped: Arc<AtomicUsize>,
    ended: Arc<Notify>,
}

struct Guard(Watch);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
        self.0.ended.notify_one();
    }
}

fn server(watch: &Watch) -> Server {
    let watch = watch.clone();
    Server::builder("flow", "1")
        .tool("hang", "never ends", move |cx: Cx| {
            let watch = watch.clone();
            async move {
                let _guard = Guard(watch.clone());
                watch.started.notify_one();
                cx.progress(1.0, None, Some("hanging"));
                std::future::pending::<()>().await;
                "never"
            }
        })
        .tool("steps", "goes up, then tries to go down", |cx: Cx| async move {
            for step in [1.0, 1.5, 1.5, 1.0, f64::NAN, 2.0] {
                cx.progress(step, Some(2.0), Some("going"));
            }
            let late = cx.clone();
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                late.progress(3.0, None, None);
            });
            "done"
        })
        .tool("quick", "returns", async || "quick")
        .build()
}

fn wanting() -> CallOptions {
    CallOptions { progress: Wanted::Yes, ..CallOptions::default() }
}

/// PRG-1, PRG-2, PRG-3, PRG-5, PRG-6: tokens are distinct, progress only goes up, stops at the end, and says
/// something where the revision lets it.
#[tokio::test]
async fn progress_goes_up_and_stops() {
    for revision in Revision::ALL {
        let (client, wire) = join(&server(&Watch::default()), plain(), revision).await;
        for _ in 0..2 {
            let mut call = client.call_tool_with("steps", &json!({}), wanting()).unwrap();
            let mut seen = Vec::new();
            while let Some(progress) = call.progress().await {
                assert_eq!(progress.message.is_some(), gates(revision).progress_message, "{revision}");
                seen.push((progress.progress, progress.total));
            }
            assert_eq!(seen, [(1.0, Some(2.0)), (1.5, Some(2.0)), (2.0, Some(2.0))], "{revision}");
            call.await.unwrap();
        }
        client.call_tool("quick", &json!({})).unwrap().await.unwrap();
        let tokens: Vec<_> = wire
            .of(Way::Out, "tools/call")
            .iter()
            .map(|call| call["params"]["_meta"]["progressToken"].clone())
            .collect();
        assert!(tokens[0].is_i64() && tokens[1].is_i64() && tokens[0] != tokens[1] && tokens[2].is_null());
        assert_eq!(wire.of(Way::In, "notifications/progress").len(), 6, "nothing after the end");
    }
}

/// PRG-1, PRG-4, PRG-10: any token comes back in its own type; without one there is no progress.
#[tokio::test]
async fn tokens_come_back_as_they_were() {
    for revision in BOTH {
        let mut raw = raw_in(&server(&Watch::default()), revision).await;
        for token in [json!("t-1"), json!(""), json!(7)] {
            let params = json!({ "name": "steps", "_meta": { "progressToken": token } });
            raw.start("tools/call", params_in(revision, params)).await;
            for _ in 0..3 {
                assert_eq!(raw.recv().await["params"]["progressToken"], token);
            }
            assert!(raw.recv().await.get("result").is_some());
        }
        let silent = raw.call("tools/call", params_in(revision, json!({ "name": "steps" }))).await;
        assert!(silent.get("result").is_some());
    }
}

/// PRG-4: progress of a call that is not ours is found and ignored.
#[tokio::test]
async fn foreign_progress_is_ignored() {
    for revision in BOTH {
        let (mut raw, client) = Raw::ready(plain(), revision, json!({ "tools": {} })).await;
        let mut call = client.call_tool_with("x", &json!({}), wanting()).unwrap();
        let asked = raw.recv().await;
        let token = asked["params"]["_meta"]["progressToken"].clone();
        for (token, progress) in [(json!("foreign"), 1), (json!(999), 2), (token, 3)] {
            let params = json!({ "progressToken": token, "progress": progress });
            raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
                .await;
        }
        raw.reply(&asked, json!({ "content": [] })).await;
        assert_eq!(call.progress().await.unwrap().progress, 3.0);
        assert!(call.progress().await.is_none());
        call.await.unwrap();
    }
}

/// CAN-1, CAN-2, CAN-5, S0-37, S0-39: dropping a call tells the server, which stops and says nothing more.
#[tokio::test]
async fn dropping_cancels_on_the_wire() {
    for revision in Revision::ALL {
        let watch = Watch::default();
        let (client, wire) = join(&server(&watch), plain(), revision).await;
        let call = client.call_tool("hang", &json!({})).unwrap();
        watch.started.notified().await;
        drop(call);
        let note = wire.until(Way::Out, "notifications/cancelled").await;
        let called = &wire.of(Way::Out, "tools/call")[0];
        assert_eq!(note["params"]["requestId"], called["id"], "{revision}");
        assert!(!note["params"]["reason"].as_str().unwrap().is_empty(), "CAN-9");
        client.call_tool("quick", &json!({})).unwrap().await.unwrap();
        assert_eq!(watch.dropped.load(Ordering::SeqCst), 1, "{revision}: the handler was dropped");
        assert_eq!(wire.results("tools/call").len(), 1, "{revision}: no reply to what was cancelled");
    }
}

/// S0-37: an explicit cancel tells why, here and there.
#[tokio::test]
async fn cancelling_tells_why() {
    for revision in BOTH {
        let watch = Watch::default();
        let (client, wire) = join(&server(&watch), plain(), revision).await;
        let call = client.call_tool("hang", &json!({})).unwrap();
        watch.started.notified().await;
        call.cancel("changed my mind");
        let outcome = call.await;
        assert!(
            matches!(&outcome, Err(CallError::Cancelled { reason, .. }) if reason == "changed my mind"),
            "{outcome:?}"
        );
        assert_eq!(
            wire.until(Way::Out, "notifications/cancelled").await["params"]["reason"],
            "changed my mind"
        );
    }
}

/// CAN-11, CAN-12, S0-36, S0-38, S0-39: a deadline cancels on the wire; progress puts off the idle one and
/// never the total one; zero is none.
#[tokio::test(start_paused = true)]
async fn deadlines_cancel_on_the_wire() {
    let second = Duration::from_secs(1);
    for revision in BOTH {
        let (client, wire) = join(&server(&Watch::default()), plain(), revision).await;
        let rows = [
            (CallOptions { idle: Some(second * 2), ..wanting() }, Deadline::Idle, second * 2),
            (
                CallOptions { total: Some(second * 5), idle: Some(Duration::ZERO), ..wanting() },
                Deadline::Total,
                second * 5,
            ),
            (CallOptions::default(), Deadline::Idle, Limits::DEFAULT.call_idle_timeout),
        ];
        for (n, (options, expected, after)) in rows.into_iter().enumerate() {
            let start = tokio::time::Instant::now();
            let outcome = client.call_tool_with("hang", &json!({}), options).unwrap().await;
            assert!(
                matches!(outcome, Err(CallError::TimedOut { deadline, .. }) if deadline == expected),
                "{outcome:?}"
            );
            let took = start.elapsed();
            assert!(took >= after && took < after + second, "{revision} {n}: {took:?}");
            client.ping().await.unwrap();
            assert_eq!(wire.of(Way::Out, "notifications/cancelled").len(), n + 1);
        }
    }
}

/// F18, CAN-12, S0-36: progress keeps a call alive, but not for ever.
#[tokio::test(start_paused = true)]
async fn progress_does_not_keep_a_call_for_ever() {
    for revision in BOTH {
        let limits = Limits { call_total_timeout: Duration::from_secs(100), ..Limits::DEFAULT };
        let (mut raw, client) = Raw::ready(plain().limits(limits), revision, json!({ "tools": {} })).await;
        let call = client.call_tool_with("x", &json!({}), wanting()).unwrap();
        let asked = raw.recv().await;
        let start = tokio::time::Instant::now();
        tokio::spawn(async move {
            for n in 1..1000 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                let params =
                    json!({ "progressToken": asked["params"]["_meta"]["progressToken"], "progress": n });
                raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
                    .await;
            }
        });
        let outcome = call.await;
        assert!(matches!(outcome, Err(CallError::TimedOut { deadline: Deadline::Total, .. })), "{outcome:?}");
        assert_eq!(
            start.elapsed().as_secs(),
            100,
            "{revision}: past the idle deadline of 30 s, to the total one"
        );
    }
}

/// CAN-6, CAN-7, CAN-8, S0-38: late replies and odd cancels harm nobody.
#[tokio::test]
async fn races_are_no_errors() {
    for revision in BOTH {
        let (mut raw, client) = Raw::ready(plain(), revision, json!({ "tools": {} })).await;
        let call = client.call_tool("x", &json!({})).unwrap();
        let asked = raw.recv().await;
        drop(call);
        assert_eq!(raw.recv().await["method"], "notifications/cancelled");
        raw.reply(&asked, json!({ "content": [] })).await;
        let call = client.call_tool("y", &json!({})).unwrap();
        let asked = raw.recv().await;
        raw.reply(&asked, json!({ "content": [] })).await;
        call.await.unwrap();

        let mut raw = raw_in(&server(&Watch::default()), revision).await;
        for odd in
            [json!({ "requestId": 999 }), json!({}), json!({ "requestId": null }), json!({ "requestId": {} })]
        {
            raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": odd })).await;
        }
        let reply = raw.call("tools/call", params_in(revision, json!({ "name": "quick" }))).await;
        assert_eq!(reply["result"]["content"][0]["text"], "quick", "nothing came before it");
    }
}

/// S0-39: an opening that is given up is not cancelled on the wire.
#[tokio::test(start_paused = true)]
async fn the_handshake_is_never_cancelled() {
    let (mut raw, connecting) = Raw::server_for(plain(), Revision::LATEST_LEGACY);
    assert_eq!(raw.recv().await["method"], "initialize");
    let error = connecting.await.unwrap().unwrap_err();
    assert!(error.contains("in time"), "{error}");
    let left = tokio::time::timeout(Duration::from_secs(1), tokio::spawn(async move { raw.recv().await }));
    assert!(left.await.unwrap().unwrap_err().is_panic(), "the link was closed without another word");
}

/// S1-24, CAN-13: a client that leaves takes its calls with it.
#[tokio::test(start_paused = true)]
async fn leaving_ends_what_runs() {
    for revision in BOTH {
        let watch = Watch::default();
        let server = server(&watch);
        let (client, _) = join(&server, plain(), revision).await;
        let call = client.call_tool("hang", &json!({})).unwrap();
        watch.started.notified().await;
        drop(client);
        assert!(matches!(call.await, Err(CallError::Lost { .. })), "{revision}");
        watch.ended.notified().await;
        assert_eq!(watch.dropped.load(Ordering::SeqCst), 1, "{revision}");
    }
}

/// CAN-9: the server hears why.
#[tokio::test]
async fn reasons_are_observed() {
    let (heard, hearing) = tokio::sync::mpsc::unbounded_channel::<String>();
    let watch = Watch::default();
    let started = Arc::clone(&watch.started);
    let server = Server::builder("s", "1")
        .tool("hang", "hangs", move || {
            started.notify_one();
            std::future::pending::<String>()
        })
        .observe(move |event| {
            if let Event::Withdrawn { reason, .. } = event {
                let _ = heard.send(reason.to_string());
            }
        })
        .build();
    let mut hearing = hearing;
    let (client, _) = join(&server, plain(), Revision::LATEST_MODERN).await;
    let call = client.call_tool("hang", &Value::Object(serde_json::Map::new())).unwrap();
    watch.started.notified().await;
    call.cancel("because");
    assert_eq!(hearing.recv().await.as_deref(), Some("because"));
}
