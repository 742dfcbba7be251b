//! Log notes: who gets them, at which level, in which era.

mod common;

use std::sync::{Arc, Mutex};

use cardan::client::Connector;
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision};
use cardan::proto::model::LogLevel;
use cardan::proto::session::event::{Event, Interest};
use common::{BOTH, Raw, Way, dressed, join, plain};
use serde_json::{Value, json};
use tokio::sync::Notify;

fn talking() -> Server {
    Server::builder("log", "1")
        .logging()
        .tool("talk", "at every level", |cx: Cx| async move {
            for level in LogLevel::ALL {
                cx.log(level, Some("talker"), &json!({ "said": level.name() }));
            }
            "done"
        })
        .build()
}

/// A client that keeps what was logged.
fn hearing() -> (Connector, Arc<Mutex<Vec<Value>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&heard);
    let connector = plain().observe(move |event| {
        if let Event::Logged { params } = event {
            keep.lock().expect("nobody panics").push(serde_json::from_slice(params).expect("an object"));
        }
    });
    (connector, heard)
}

fn levels(heard: &Mutex<Vec<Value>>) -> Vec<String> {
    heard
        .lock()
        .expect("nobody panics")
        .iter()
        .map(|note| note["level"].as_str().unwrap_or("none").to_owned())
        .collect()
}

/// LOG-2, LOG-9: notes at the wanted level and above, whichever way the era tells it.
#[tokio::test]
async fn notes_follow_the_level() {
    for revision in Revision::ALL {
        for wanted in [LogLevel::Debug, LogLevel::Warning, LogLevel::Emergency] {
            let (connector, heard) = hearing();
            let (client, wire) = join(&talking(), connector, revision).await;
            client.set_level(wanted);
            client.call_tool("talk", &json!({})).unwrap().await.unwrap();
            let expected: Vec<_> = LogLevel::ALL.into_iter().filter(|level| *level >= wanted).collect();
            assert_eq!(
                levels(&heard),
                expected.iter().map(|level| level.name()).collect::<Vec<_>>(),
                "{revision}"
            );
            assert_eq!(heard.lock().unwrap()[0]["logger"], "talker");
            let told = wire.of(Way::Out, "logging/setLevel");
            assert_eq!(told.len(), usize::from(revision.era() == Era::Legacy), "{revision}");
            if revision.era() == Era::Legacy {
                assert_eq!(wire.results("logging/setLevel")[0]["result"], json!({}));
            }
        }
    }
}

/// LOG-4: without a level a modern call gets no notes; the next call neither inherits one.
#[tokio::test]
async fn modern_calls_without_level_are_silent() {
    let mut raw = Raw::client_of(&talking());
    let mut loud = dressed(json!({ "name": "talk" }), json!({}));
    loud["_meta"]["io.modelcontextprotocol/logLevel"] = json!("alert");
    raw.start("tools/call", loud).await;
    assert_eq!(raw.recv().await["params"]["level"], "alert");
    assert_eq!(raw.recv().await["params"]["level"], "emergency");
    assert!(raw.recv().await.get("result").is_some());
    let quiet = raw.modern("tools/call", json!({ "name": "talk" }), json!({})).await;
    assert_eq!(quiet["result"]["content"][0]["text"], "done", "the reply comes first, VER-23");
}

/// LOG-2: before any level is set a legacy server decides: from info on.
#[tokio::test]
async fn legacy_default_is_info() {
    let (connector, heard) = hearing();
    let (client, _) = join(&talking(), connector, Revision::LATEST_LEGACY).await;
    client.call_tool("talk", &json!({})).unwrap().await.unwrap();
    assert_eq!(levels(&heard)[0], "info");
    assert_eq!(levels(&heard).len(), 7);
}

/// LOG-2: a level that a legacy client sets counts at once, also for calls that run already.
#[tokio::test]
async fn the_level_changes_under_a_running_call() {
    let (go, step) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (going, stepping) = (Arc::clone(&go), Arc::clone(&step));
    let server = Server::builder("log", "1")
        .logging()
        .tool("wait", "logs late", move |cx: Cx| {
            let (go, step) = (Arc::clone(&going), Arc::clone(&stepping));
            async move {
                step.notify_one();
                go.notified().await;
                cx.log(LogLevel::Debug, None, &"late");
                "done"
            }
        })
        .build();
    let (connector, heard) = hearing();
    let (client, _) = join(&server, connector, Revision::LATEST_LEGACY).await;
    client.set_level(LogLevel::Error);
    let call = client.call_tool("wait", &json!({})).unwrap();
    step.notified().await;
    client.set_level(LogLevel::Debug);
    client.ping().await.unwrap();
    go.notify_one();
    call.await.unwrap();
    assert_eq!(levels(&heard), ["debug"]);
}

/// LOG-3, LOG-6: unknown levels are -32602 in both eras.
#[tokio::test]
async fn unknown_levels_are_refused() {
    let server = talking();
    let mut raw = Raw::legacy(&server, Revision::LATEST_LEGACY, json!({})).await;
    for odd in [json!({ "level": "warn" }), json!({ "level": 3 }), json!({})] {
        assert_eq!(raw.call("logging/setLevel", odd).await["error"]["code"], -32602);
    }
    let mut raw = Raw::client_of(&server);
    for odd in [json!("warn"), json!(3)] {
        let mut params = dressed(json!({ "name": "talk" }), json!({}));
        params["_meta"]["io.modelcontextprotocol/logLevel"] = odd;
        assert_eq!(raw.call("tools/call", params).await["error"]["code"], -32602);
    }
}

/// LOG-1: a server that did not declare it sends none and knows no level.
#[tokio::test]
async fn undeclared_logging_is_silent() {
    let server = Server::builder("mute", "1")
        .tool("talk", "in vain", |cx: Cx| async move {
            cx.log(LogLevel::Emergency, None, &"fire");
            "done"
        })
        .build();
    for revision in BOTH {
        let (connector, heard) = hearing();
        let (client, _) = join(&server, connector, revision).await;
        client.set_level(LogLevel::Debug);
        client.call_tool("talk", &json!({})).unwrap().await.unwrap();
        server.log(LogLevel::Emergency, &"fire");
        client.ping().await.unwrap();
        assert_eq!(levels(&heard), [""; 0], "{revision}");
    }
    let mut raw = Raw::legacy(&server, Revision::LATEST_LEGACY, json!({})).await;
    assert_eq!(raw.call("logging/setLevel", json!({ "level": "info" })).await["error"]["code"], -32601);
}

/// LOG-5, SUB-9: notes outside any call go to legacy clients only; a listen never carries them.
#[tokio::test]
async fn listens_carry_no_log_notes() {
    let server = talking();
    for (revision, count) in [(Revision::LATEST_LEGACY, 1), (Revision::LATEST_MODERN, 0)] {
        let (connector, heard) = hearing();
        let (client, wire) = join(&server, connector, revision).await;
        client.set_level(LogLevel::Debug);
        let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
        listen.ready().await.unwrap();
        server.log(LogLevel::Alert, &json!("outside"));
        client.ping().await.unwrap();
        assert_eq!(heard.lock().unwrap().len(), count, "{revision}");
        for note in wire.of(Way::In, "notifications/message") {
            assert!(note.pointer("/params/_meta").is_none(), "{note}");
        }
    }
}

/// What went wrong inside a handler that panics is not told.
#[tokio::test]
async fn panics_tell_no_internals() {
    let server = Server::builder("boom", "1")
        .logging()
        .tool("boom", "panics", async || -> String { panic!("the password is hunter2") })
        .build();
    for revision in BOTH {
        let (client, wire) = join(&server, plain(), revision).await;
        client.set_level(LogLevel::Debug);
        assert!(client.call_tool("boom", &json!({})).unwrap().await.is_err());
        assert!(!format!("{:?}", wire.all()).contains("hunter2"));
    }
}
