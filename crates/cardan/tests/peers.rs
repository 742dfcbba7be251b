//! What both sides say of themselves, and what they do not conclude from it.

mod common;

use std::sync::{Arc, Mutex, RwLock};

use cardan::client::CallError;
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision};
use cardan::proto::method::Method;
use cardan::proto::model::LogLevel;
use cardan::proto::model::content::Role;
use cardan::proto::model::roots::Root;
use cardan::proto::model::sampling::{Blocks, CreateMessageParams, CreateMessageResult, SamplingMessage};
use cardan::proto::session::event::{CallOptions, Event};
use common::{BOTH, Raw, Way, answering, dressed, join, params_in, plain, raw_in};
use serde_json::json;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

fn server() -> Server {
    Server::builder("peers", "2.1")
        .instructions("be gentle")
        .logging()
        .tool("t", "t", async || "done")
        .tool("old", "uses what is on its way out", |cx: Cx| async move {
            cx.log(LogLevel::Info, None, &"working");
            let roots = cx.roots("roots")?;
            let params = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 5);
            let said = cx.sample("model", &params)?;
            Ok::<_, Stop>(format!("{} {}", roots.len(), said.model))
        })
        .build()
}

/// VER-20: every modern result names the server; legacy ones name it once.
#[tokio::test]
async fn results_name_the_server() {
    let (client, wire) = join(&server(), plain(), Revision::LATEST_MODERN).await;
    client.all_tools().await.unwrap();
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    for reply in wire.went(Way::In) {
        assert_eq!(reply["result"]["_meta"][SERVER_INFO]["name"], "peers", "{reply}");
    }
    for revision in Revision::ALL {
        let (client, wire) = join(&server(), plain(), revision).await;
        client.call_tool("t", &json!({})).unwrap().await.unwrap();
        let info = client.server();
        assert_eq!(
            info.implementation.map(|one| (one.name, one.version)),
            Some(("peers".into(), "2.1".into()))
        );
        assert_eq!(info.instructions.as_deref(), Some("be gentle"), "{revision}");
        let named = wire.results("tools/call")[0].pointer("/result/_meta").is_some();
        assert_eq!(named, revision.era() == Era::Modern, "{revision}");
    }
}

/// VER-21: who the client says it is changes nothing, and neither does saying nothing.
#[tokio::test]
async fn names_change_nothing() {
    let mut raw = Raw::client_of(&server());
    let mut replies = Vec::new();
    for info in [json!(null), json!({ "name": "root", "version": "1" }), json!("odd")] {
        let mut params = dressed(json!({ "name": "t" }), json!({}));
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = info;
        replies.push(raw.call("tools/call", params).await["result"].clone());
    }
    assert!(replies.iter().all(|reply| reply["content"][0]["text"] == "done"), "{replies:?}");
    assert!(replies.windows(2).all(|pair| pair[0] == pair[1]));
}

/// VER-22, VER-23: nothing is concluded from earlier calls on the link, in either direction.
#[tokio::test]
async fn earlier_calls_prove_nothing() {
    let mut raw = Raw::client_of(&server());
    let able = json!({ "roots": {}, "sampling": {} });
    let reply = raw.modern("tools/call", json!({ "name": "old" }), able.clone()).await;
    assert_eq!(reply["result"]["resultType"], "input_required", "{reply}");
    let reply = raw.modern("tools/call", json!({ "name": "old" }), json!({})).await;
    assert_eq!(reply["error"]["code"], -32021, "{reply}");
    assert_eq!(reply["error"]["data"]["requiredCapabilities"], json!({ "roots": {} }));
    let bare = raw.call("tools/call", json!({ "name": "t" })).await;
    assert_eq!(bare["error"]["code"], -32602, "a call without metadata is not modern by habit: {bare}");
    // One link, both eras: the handshake does not change what modern calls are.
    let mut raw = Raw::legacy(&server(), Revision::LATEST_LEGACY, able).await;
    let reply = raw.modern("tools/call", json!({ "name": "old" }), json!({})).await;
    assert_eq!(reply["error"]["code"], -32021, "{reply}");
}

/// DEP-1, DEP-2, S2-31: roots, sampling and logging work in every revision; the modern era notes that they
/// are on their way out.
#[tokio::test]
async fn deprecated_features_work() {
    for revision in Revision::ALL {
        let (logged, found) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
        let (log, find) = (Arc::clone(&logged), Arc::clone(&found));
        let answers = Answerers::default().roots(Arc::new(RwLock::new(vec![Root::new("file:///a")]))).sample(
            |_| async {
                let content = Blocks::One(Content::text("hello"));
                Ok(CreateMessageResult {
                    role: Role::Assistant,
                    content,
                    model: "m".into(),
                    stop_reason: None,
                    meta: None,
                })
            },
        );
        let connector = answering(answers).observe(move |event| match event {
            Event::Logged { .. } => *log.lock().unwrap() += 1,
            Event::Found(finding) if finding.rule.id() == "deprecated" => *find.lock().unwrap() += 1,
            _ => {}
        });
        let (client, _) = join(&server(), connector, revision).await;
        client.set_level(LogLevel::Info);
        let result = client.call_tool("old", &json!({})).unwrap().await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("1 m"), "{revision}");
        assert!(*logged.lock().unwrap() > 0, "{revision}");
        assert_eq!(*found.lock().unwrap() > 0, revision.era() == Era::Modern, "{revision}");
    }
}

/// EXT-2, EXT-4: extensions are off unless asked for; methods of theirs are unknown, and undeclared ones are
/// not called.
#[tokio::test]
async fn extensions_are_off() {
    for revision in BOTH {
        let mut raw = raw_in(&server(), revision).await;
        let reply = raw.call("tasks/get", params_in(revision, json!({ "taskId": "1" }))).await;
        assert_eq!(reply["error"]["code"], -32601, "{revision}: {reply}");
        let (client, wire) = join(&server(), plain(), revision).await;
        let params = bytes::Bytes::from_static(b"{\"taskId\":\"1\"}");
        let refused = client.raw(Method::TasksGet, Some(params), CallOptions::default()).await;
        assert!(matches!(refused, Err(CallError::Refused(_))), "{revision}: {refused:?}");
        assert_eq!(wire.of(Way::Out, "tasks/get").len(), 0);
        assert!(!format!("{:?}", wire.went(Way::Out)).contains("extensions"), "{revision}");
        assert!(client.call_tool("t", &json!({})).unwrap().await.is_ok(), "core behaviour goes on");
    }
}

/// EXT-2: a server that lists extensions we do not know is used by its core.
#[tokio::test]
async fn unknown_extensions_are_tolerated() {
    let capabilities =
        json!({ "tools": {}, "extensions": { "com.example/x": { "y": 1 } }, "experimental": { "z": {} } });
    for revision in BOTH {
        let (mut raw, client) = Raw::ready(plain(), revision, capabilities.clone()).await;
        assert!(client.server().capabilities.tools.is_some(), "S2-28");
        let call = client.call_tool("x", &json!({})).unwrap();
        let asked = raw.recv().await;
        raw.reply(&asked, json!({ "content": [] })).await;
        call.await.unwrap();
    }
}
