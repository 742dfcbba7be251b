//! What a server may ask of a client, and of which one: capabilities declared, visits ended.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cardan::client::CallError;
use cardan::prelude::*;
use cardan::proto::era::Revision;
use cardan::proto::model::elicit::{ElicitResult, UrlAsk};
use cardan::proto::model::sampling::{CreateMessageParams, IncludeContext, SamplingMessage};
use cardan::proto::session::state::State;
use common::{BOTH, Raw, Way, answering, dressed, join, observing, plain, words};
use serde_json::{Value, json};

const LEGACY: Revision = Revision::LATEST_LEGACY;

/// ROOT-6: a handler sees whether there are roots, does without them, and outlives a client that
/// declared them and then has none to tell; asking regardless fails that call alone.
#[tokio::test]
async fn servers_live_without_roots() {
    let server = Server::builder("roots", "1")
        .tool("careful", "uses roots if there are any", |cx: Cx| async move {
            if !cx.client().roots {
                return Ok::<_, Stop>("no roots".to_owned());
            }
            match cx.roots("r") {
                Ok(roots) => Ok(format!("{} roots", roots.len())),
                Err(Stop::Failed(_)) => Ok("roots are not to be had".to_owned()),
                Err(stop) => Err(stop),
            }
        })
        .tool("careless", "asks regardless", |cx: Cx| async move {
            Ok::<_, Stop>(cx.roots("r")?.len().to_string())
        })
        .build();
    for revision in BOTH {
        let (client, wire) = join(&server, plain(), revision).await;
        let text = async |client: &Client, tool: &str| {
            let result = client.call_tool(tool, &json!({}))?.await?;
            Ok::<_, CallError>(result.content[0].as_text().unwrap().to_owned())
        };
        assert_eq!(text(&client, "careful").await.unwrap(), "no roots", "{revision}");
        assert!(matches!(text(&client, "careless").await, Err(CallError::Fault(_))), "{revision}");
        assert_eq!(text(&client, "careful").await.unwrap(), "no roots");
        assert!(wire.of(Way::In, "roots/list").is_empty(), "it was never asked");
        let some = Answerers::default().roots(Arc::default());
        let (client, _) = join(&server, answering(some), revision).await;
        assert_eq!(text(&client, "careful").await.unwrap(), "0 roots", "{revision}");
    }
    let mut raw = Raw::legacy(&server, LEGACY, json!({ "roots": {} })).await;
    raw.start("tools/call", json!({ "name": "careful" })).await;
    let ask = raw.recv().await;
    assert_eq!(ask["method"], "roots/list");
    raw.refuse(&ask, -32603, Value::Null).await;
    assert_eq!(words(&raw.recv().await), "roots are not to be had");
}

/// SAM-3, DEP-3: context of servers is asked for only where the client declared it, which ours never does;
/// `none` needs nothing.
#[tokio::test]
async fn context_needs_its_capability() {
    let sampling = |context: IncludeContext| {
        move |cx: Cx| {
            let mut params = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 10);
            params.include_context = Some(context.clone());
            async move { Ok::<_, Stop>(cx.sample("model", &params)?.model) }
        }
    };
    let server = Server::builder("sampling", "1")
        .tool("this", "with context", sampling(IncludeContext::ThisServer))
        .tool("all", "with more", sampling(IncludeContext::AllServers))
        .tool("none", "without", sampling(IncludeContext::None))
        .build();
    for (declared, tool, asks) in [
        (json!({ "sampling": {} }), "this", false),
        (json!({ "sampling": {} }), "all", false),
        (json!({ "sampling": {} }), "none", true),
        (json!({ "sampling": { "context": {} } }), "this", true),
        (json!({ "sampling": { "context": {} } }), "all", true),
    ] {
        let call = json!({ "name": tool });
        let mut raw = Raw::legacy(&server, LEGACY, declared.clone()).await;
        raw.start("tools/call", call.clone()).await;
        let next = raw.recv().await;
        assert_eq!(next["method"] == "sampling/createMessage", asks, "{declared} {tool}: {next}");
        let mut raw = Raw::client_of(&server);
        let reply = raw.modern("tools/call", call, declared.clone()).await;
        assert_eq!(reply["result"]["resultType"] == "input_required", asks, "{declared} {tool}: {reply}");
        if !asks {
            let required = &reply["error"]["data"]["requiredCapabilities"];
            assert_eq!(*required, json!({ "sampling": { "context": {} } }), "{reply}");
        }
    }
    for revision in BOTH {
        let connector = answering(Answerers::default().sample(|_| async { panic!("nothing to answer") }));
        let (client, wire) = join(&server, connector, revision).await;
        assert!(client.call_tool("this", &json!({})).unwrap().await.is_err(), "{revision}");
        let said = format!("{:?}", wire.went(Way::Out));
        assert!(said.contains("sampling") && !said.contains("\"context\""), "{said}");
    }
}

/// A server whose tool sends its caller away and tells when the visit has ended.
fn visiting() -> Server {
    Server::builder("visits", "1")
        .tool("visit", "sends away", |cx: Cx| async move {
            let mut url = UrlAsk::new("go", "https://example.com/a");
            url.elicitation_id = Some("visit-7".into());
            let answer = cx.visit("a", &url)?;
            cx.elicitation_complete("visit-7");
            Ok::<_, Stop>(format!("{:?}", answer.action))
        })
        .build()
}

/// ELI-15: the end of a visit is told to the client that was asked, under the id it was asked with, and
/// to nobody else; revisions that have no such note get none.
#[tokio::test]
async fn the_end_of_a_visit_is_told_to_who_was_asked() {
    let server = visiting();
    let declared = json!({ "elicitation": { "url": {} } });
    let mut asked = Raw::legacy(&server, LEGACY, declared.clone()).await;
    let mut other = Raw::legacy(&server, LEGACY, declared.clone()).await;
    let id = asked.start("tools/call", json!({ "name": "visit" })).await;
    let ask = asked.recv().await;
    assert_eq!(ask["params"]["elicitationId"], "visit-7");
    asked.reply(&ask, json!({ "action": "accept" })).await;
    let note = asked.recv().await;
    assert_eq!(note["method"], "notifications/elicitation/complete", "{note}");
    assert_eq!(note["params"], json!({ "elicitationId": "visit-7" }));
    assert_eq!(asked.recv().await["id"], id);
    assert_eq!(other.call("ping", json!({})).await["result"], json!({}), "nothing came before it");

    let mut raw = Raw::client_of(&server);
    let asking = raw.modern("tools/call", json!({ "name": "visit" }), declared.clone()).await;
    let retry = json!({
        "name": "visit", "requestState": asking["result"]["requestState"],
        "inputResponses": { "a": { "action": "accept" } },
    });
    let id = raw.start("tools/call", dressed(retry, declared)).await;
    assert_eq!(raw.recv().await["id"], id, "no note before the reply");
}

/// ELI-16: the end of a visit that nobody knows of, or that had ended before, is observed and changes
/// nothing: nothing is said, nothing is asked, the link goes on.
#[tokio::test]
async fn unknown_visits_end_unnoticed() {
    let answered = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&answered);
    let answerers = Answerers::default().elicit(Urls::Offered, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(ElicitResult::cancelled()))
    });
    let (connector, seen) = observing(answering(answerers));
    let (mut raw, client) = Raw::ready(connector, LEGACY, json!({ "tools": {} })).await;
    seen.lock().unwrap().clear();
    let url = json!({ "mode": "url", "message": "m", "url": "https://x.com", "elicitationId": "known" });
    assert_eq!(raw.call("elicitation/create", url).await["result"]["action"], "cancel");
    for id in [json!("known"), json!("known"), json!("unknown"), json!(7), json!(null)] {
        let params = json!({ "elicitationId": id });
        raw.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": params }),
        )
        .await;
    }
    assert_eq!(raw.call("ping", json!({})).await["result"], json!({}), "nothing was said to the notes");
    assert_eq!(answered.load(Ordering::SeqCst), 1);
    assert_eq!(client.state(), State::Ready);
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], "asked elicitation/create");
    assert_eq!(seen[1..], ["noted notifications/elicitation/complete"; 5]);
}
