//! Calls in several rounds: state that nobody can forge, answers that nobody can misplace.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardan::client::CallError;
use cardan::prelude::*;
use cardan::proto::era::Revision;
use cardan::proto::limits::Limits;
use cardan::proto::method::Method;
use cardan::proto::model::GetPromptParams;
use cardan::proto::model::elicit::ElicitResult;
use cardan::proto::model::resource::ResourceContents;
use cardan::proto::session::event::Ask;
use common::{Raw, Way, answering, dressed, join};
use serde_json::{Value, json};

const MODERN: Revision = Revision::LATEST_MODERN;

fn forms() -> Value {
    json!({ "elicitation": {} })
}

fn ask(cx: &Cx, name: &str) -> Result<String, Stop> {
    let answer = cx.elicit(name, &Form::new(name).string("v"))?;
    Ok(format!("{:?}", answer.content.unwrap_or_default().get("v")))
}

fn server() -> Server {
    Server::builder("rounds", "1")
        .tool("two", "asks twice", |cx: Cx| async move {
            let (one, two) = (ask(&cx, "one")?, ask(&cx, "two")?);
            Ok::<_, Stop>(format!("{one} {two}"))
        })
        .tool("both", "asks two things at once", |cx: Cx| async move {
            let form = |name: &str| {
                let params =
                    json!({ "message": name, "requestedSchema": { "type": "object", "properties": {} } });
                Ask { method: Method::ElicitationCreate, params: Some(params.to_string().into()) }
            };
            cx.need_all(vec![("a", form("a")), ("b", form("b"))])?;
            Ok::<_, Stop>("both".to_owned())
        })
        .tool("endless", "never has enough", |cx: Cx| async move {
            for n in 0.. {
                ask(&cx, &format!("n{n}"))?;
            }
            Ok::<_, Stop>(String::new())
        })
        .resource(Resource::new("x:1", "one"), |cx: Cx| async move {
            Ok(vec![ResourceContents::text("x:1", ask(&cx, "why")?)])
        })
        .prompt(Prompt::new("p"), |_, cx: Cx| async move { Ok(vec![PromptMessage::user(ask(&cx, "why")?)]) })
        .cache(cardan::proto::session::config::CacheHint {
            ttl: Duration::from_secs(60),
            scope: cardan::proto::session::config::CacheScope::Private,
        })
        .build()
}

fn answer(value: &str) -> Value {
    json!({ "action": "accept", "content": { "v": value } })
}

fn willing() -> (cardan::client::Connector, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let connector = answering(Answerers::default().elicit(Urls::NotOffered, move |params| {
        counted.fetch_add(1, Ordering::SeqCst);
        let content = [("v".to_owned(), params.message().into())].into();
        async move { Ok(ElicitResult::filled(content)) }
    }));
    (connector, asked)
}

/// MRTR-1, MRTR-3, MRTR-4, MRTR-12, MRTR-13, MRTR-14, MRTR-15, MRTR-20, MRTR-24, MRTR-25: asks stand in the
/// result only; each retry is the original call with a new id, its own metadata, bare answers under the
/// same names and the state as it came.
#[tokio::test]
async fn a_retry_is_the_call_with_answers() {
    let (connector, asked) = willing();
    let (client, wire) = join(&server(), connector, MODERN).await;
    let result = client.call_tool("two", &json!({ "x": [1.50] })).unwrap().await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("Some(Text(\"one\")) Some(Text(\"two\"))"));
    assert_eq!(asked.load(Ordering::SeqCst), 2, "each is asked once");
    let (calls, replies) = (wire.of(Way::Out, "tools/call"), wire.results("tools/call"));
    assert_eq!((calls.len(), replies.len()), (3, 3));
    for pair in calls.windows(2) {
        assert_ne!(pair[0]["id"], pair[1]["id"]);
    }
    for (n, name) in ["one", "two"].into_iter().enumerate() {
        let (asking, retry) = (&replies[n]["result"], &calls[n + 1]["params"]);
        assert_eq!(asking["resultType"], "input_required");
        let entry = &asking["inputRequests"][name];
        assert_eq!(entry.as_object().unwrap().keys().collect::<Vec<_>>(), ["method", "params"]);
        assert!(asking.get("ttlMs").is_none() && asking.get("cacheScope").is_none());
        assert_eq!(retry["inputResponses"], json!({ name: answer(name) }));
        assert_eq!(retry["requestState"], asking["requestState"]);
        assert_eq!((&retry["name"], &retry["arguments"]), (&json!("two"), &json!({ "x": [1.50] })));
        assert_eq!(retry["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN.date());
    }
    assert!(calls[0]["params"].get("requestState").is_none(), "MRTR-14: none was given");
    assert!(wire.went(Way::In).iter().all(|message| message.get("method").is_none()), "no server calls");
}

/// MRTR-2, MRTR-23, CACHE-6: prompts and resources may ask too; what answers made is not kept.
#[tokio::test]
async fn prompts_and_resources_ask_too() {
    let (connector, asked) = willing();
    let (client, wire) = join(&server(), connector, MODERN).await;
    client.prompt(&GetPromptParams { name: "p".into(), ..GetPromptParams::default() }).await.unwrap();
    for round in 1..=2 {
        client.read("x:1").await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1 + round, "read again, asked again");
    }
    assert_eq!(wire.of(Way::Out, "resources/read").len(), 4);
}

/// MRTR-2: a list that asks is a violation.
#[tokio::test]
async fn lists_cannot_ask() {
    let (connector, asked) = willing();
    let (mut raw, client) = Raw::ready(connector, MODERN, json!({ "tools": {} })).await;
    let script = tokio::spawn(async move {
        let call = raw.recv().await;
        raw.reply(&call, json!({ "resultType": "input_required", "requestState": "s" })).await;
        raw
    });
    assert!(matches!(client.all_tools().await, Err(CallError::Violated(_))));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    script.await.unwrap();
}

/// MRTR-12, MRTR-14: state is opaque text and goes back byte for byte; without requests the retry is
/// immediate, and without state none is sent.
#[tokio::test]
async fn state_goes_back_as_it_came() {
    let (connector, _) = willing();
    let (mut raw, client) = Raw::ready(connector, MODERN, json!({ "tools": {} })).await;
    let state = "not base64 \u{1}é\"\\/ 🦀 {}";
    let call = client.call_tool("x", &json!({})).unwrap();
    let first = raw.recv().await;
    raw.reply(&first, json!({ "resultType": "input_required", "requestState": state })).await;
    let second = raw.recv().await;
    assert_eq!(second["params"]["requestState"], state);
    assert!(second["params"].get("inputResponses").is_none());
    let form = json!({ "message": "m", "requestedSchema": { "type": "object", "properties": { "v": { "type": "string" } } } });
    let requests = json!({ "a": { "method": "elicitation/create", "params": form } });
    raw.reply(&second, json!({ "resultType": "input_required", "inputRequests": requests })).await;
    let third = raw.recv().await;
    assert!(third["params"].get("requestState").is_none(), "MRTR-16: the old state is used up");
    assert_eq!(third["params"]["inputResponses"], json!({ "a": answer("m") }));
    raw.reply(&third, json!({ "resultType": "complete", "content": [] })).await;
    call.await.unwrap();
}

/// MRTR-3, MRTR-4, MRTR-5, MRTR-6: a result that asks for nothing, twice under one name, or for what the
/// client did not declare ends the call.
#[tokio::test]
async fn malformed_rounds_end_the_call() {
    let form = r#"{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}"#;
    let rows = [
        String::new(),
        format!(r#","inputRequests":{{"a":{form},"a":{form}}}"#),
        r#","inputRequests":{"a":{"method":"tools/call","params":{}}}"#.to_owned(),
        r#","inputRequests":{"a":{"method":"roots/list"}}"#.to_owned(),
        r#","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://x"}}}"#.to_owned(),
        r#","inputRequests":[]"#.to_owned(),
    ];
    for row in rows {
        let (connector, asked) = willing();
        let (mut raw, client) = Raw::ready(connector, MODERN, json!({ "tools": {} })).await;
        let call = client.call_tool("x", &json!({})).unwrap();
        let id = raw.recv().await["id"].clone();
        raw.write(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required"{row}}}}}"#
        ))
        .await;
        let outcome = call.await;
        assert!(matches!(outcome, Err(CallError::Violated(_))), "{row}: {outcome:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 0, "{row}");
    }
}

/// Starts a call of `tool` and brings the result that asks.
async fn asking(raw: &mut Raw, tool: &str) -> Value {
    let reply = raw.modern("tools/call", json!({ "name": tool, "arguments": { "k": 1 } }), forms()).await;
    assert_eq!(reply["result"]["resultType"], "input_required", "{reply}");
    reply["result"].clone()
}

async fn retry(raw: &mut Raw, params: Value) -> Value {
    raw.modern("tools/call", params, forms()).await
}

/// MRTR-17, MRTR-18, MRTR-19: extra answers are ignored, missing ones asked for again, malformed ones are
/// faults.
#[tokio::test]
async fn answers_are_sorted_out() {
    let mut raw = Raw::client_of(&server());
    let state = asking(&mut raw, "both").await["requestState"].clone();
    let with = |responses: Value| json!({ "name": "both", "arguments": { "k": 1 }, "inputResponses": responses, "requestState": state });
    let accepted = json!({ "action": "accept", "content": {} });
    let done = retry(&mut raw, with(json!({ "a": accepted, "b": accepted, "extra": accepted }))).await;
    assert_eq!(done["result"]["content"][0]["text"], "both", "{done}");
    let half = retry(&mut raw, with(json!({ "b": accepted }))).await;
    assert_eq!(
        half["result"]["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["a"],
        "{half}"
    );
    let again = half["result"]["requestState"].clone();
    let rest = json!({ "name": "both", "arguments": { "k": 1 }, "inputResponses": { "a": accepted }, "requestState": again });
    assert_eq!(
        retry(&mut raw, rest).await["result"]["content"][0]["text"],
        "both",
        "what was answered is known"
    );
    for odd in [json!([]), json!("x"), json!({ "a": 7 }), json!(null)] {
        let reply = retry(&mut raw, with(odd.clone())).await;
        let asks_again = reply["result"]["resultType"] == "input_required";
        assert!(reply["error"]["code"] == -32602 || (odd.is_null() && asks_again), "{odd}: {reply}");
    }
    let one = asking(&mut raw, "two").await["requestState"].clone();
    let wrong = json!({ "name": "two", "arguments": { "k": 1 }, "inputResponses": { "one": { "action": "maybe" } }, "requestState": one });
    assert_eq!(retry(&mut raw, wrong).await["error"]["code"], -32602);
}

/// MRTR-7, MRTR-8, MRTR-9: state that was changed, made up, or belongs to another call or tool is
/// refused.
#[tokio::test]
async fn forged_state_is_refused() {
    let server = server();
    let mut raw = Raw::client_of(&server);
    let state = asking(&mut raw, "two").await["requestState"].as_str().unwrap().to_owned();
    let call = |tool: &str, arguments: Value, state: &str| json!({ "name": tool, "arguments": arguments, "inputResponses": { "one": answer("x") }, "requestState": state });
    let good = retry(&mut raw, call("two", json!({ "k": 1 }), &state)).await;
    assert_eq!(good["result"]["resultType"], "input_required", "{good}");
    let mut flipped = state.clone().into_bytes();
    flipped[20] = if flipped[20] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    for odd in [
        call("two", json!({ "k": 1 }), &flipped),
        call("two", json!({ "k": 1 }), &state[..state.len() - 4]),
        call("two", json!({ "k": 1 }), ""),
        call("two", json!({ "k": 2 }), &state),
        call("endless", json!({ "k": 1 }), &state),
    ] {
        let reply = retry(&mut raw, odd).await;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains("requestState"), "{reply}");
    }
    // Another server has another key, unless they share one.
    let mut other = Raw::client_of(&self::server());
    let reply = retry(&mut other, call("two", json!({ "k": 1 }), &state)).await;
    assert_eq!(reply["error"]["code"], -32602);
}

/// MRTR-22: rounds are bounded on both sides.
#[tokio::test]
async fn rounds_are_bounded() {
    let (connector, asked) = willing();
    let (client, _) = join(&server(), connector.clone(), MODERN).await;
    let outcome = client.call_tool("endless", &json!({})).unwrap().await;
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(asked.load(Ordering::SeqCst), Limits::DEFAULT.ask_rounds);
    let (client, _) = join(&server(), connector, Revision::LATEST_LEGACY).await;
    assert!(matches!(client.call_tool("endless", &json!({})).unwrap().await, Err(CallError::Fault(_))));
    let limits = Limits { ask_rounds: 3, ..Limits::DEFAULT };
    let (connector, asked) = willing();
    let (mut raw, client) = Raw::ready(connector.limits(limits), MODERN, json!({ "tools": {} })).await;
    let call = client.call_tool("x", &json!({})).unwrap();
    for _ in 0..4 {
        let round = raw.recv().await;
        raw.reply(&round, json!({ "resultType": "input_required", "requestState": "again" })).await;
    }
    assert!(matches!(call.await, Err(CallError::Cancelled { .. })));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

/// MRTR-11, MRTR-16: a server holds nothing between two rounds: any replica with the key goes on, and a call
/// that is never retried costs nothing.
#[tokio::test]
async fn replicas_go_on_with_a_call() {
    let replica = || {
        Server::builder("replica", "1")
            .seal_key([7; 32])
            .tool("t", "t", |cx: Cx| async move { ask(&cx, "one") })
            .build()
    };
    let mut raw = Raw::client_of(&replica());
    let params = json!({ "name": "t" });
    let state = raw.modern("tools/call", params, forms()).await["result"]["requestState"].clone();
    let retried = json!({ "name": "t", "inputResponses": { "one": answer("x") }, "requestState": state });
    let mut other = Raw::client_of(&replica());
    let done = other.modern("tools/call", retried, forms()).await;
    assert_eq!(done["result"]["content"][0]["text"], "Some(Text(\"x\"))", "{done}");
}

/// MRTR-10: a server that asks for it runs a call at most once for the same answers; others leave that to
/// their author.
#[tokio::test]
async fn answers_are_redeemed_once() {
    for (builder, again) in
        [(Server::builder("once", "1").once(), false), (Server::builder("often", "1"), true)]
    {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let server = builder
            .tool("pay", "asks, then does it", move |cx: Cx| {
                let count = Arc::clone(&count);
                async move {
                    let answer = ask(&cx, "sure")?;
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, Stop>(answer)
                }
            })
            .build();
        let mut raw = Raw::client_of(&server);
        let state =
            raw.modern("tools/call", json!({ "name": "pay" }), forms()).await["result"]["requestState"]
                .clone();
        let retry =
            json!({ "name": "pay", "inputResponses": { "sure": answer("x") }, "requestState": state });
        assert!(raw.modern("tools/call", retry.clone(), forms()).await["result"].is_object());
        // Over another link too.
        let reply = Raw::client_of(&server).modern("tools/call", retry, forms()).await;
        assert_eq!(reply["result"].is_object(), again, "{reply}");
        assert_eq!(runs.load(Ordering::Relaxed), 1 + usize::from(again));
        if !again {
            assert_eq!(reply["error"]["code"], -32602);
            assert!(reply["error"]["message"].as_str().unwrap().contains("used before"), "{reply}");
        }
    }
}

/// `limits.states_redeemed`, MRTR-10: when no more can be remembered, nothing runs twice all the same.
#[tokio::test]
async fn a_full_memory_refuses() {
    let limits = Limits { states_redeemed: 1, ..Limits::DEFAULT };
    let server = Server::builder("once", "1")
        .once()
        .limits(limits)
        .tool("t", "t", |cx: Cx| async move { ask(&cx, "one") })
        .build();
    let mut raw = Raw::client_of(&server);
    for done in [true, false] {
        let state =
            raw.modern("tools/call", json!({ "name": "t" }), forms()).await["result"]["requestState"].clone();
        let retry = json!({ "name": "t", "inputResponses": { "one": answer("x") }, "requestState": state });
        let reply = raw.modern("tools/call", retry, forms()).await;
        assert_eq!(reply["result"].is_object(), done, "{reply}");
        assert!(done || reply["error"]["message"].as_str().unwrap().contains("try again later"), "{reply}");
    }
}

/// `limits.request_state_ttl`, MRTR-8: state that is good for no time is never good.
#[tokio::test]
async fn state_expires() {
    for (ttl, good) in [(Duration::ZERO, false), (Duration::from_secs(600), true)] {
        let limits = Limits { request_state_ttl: ttl, ..Limits::DEFAULT };
        let server = Server::builder("brief", "1")
            .limits(limits)
            .tool("t", "t", |cx: Cx| async move { ask(&cx, "one") })
            .build();
        let mut raw = Raw::client_of(&server);
        let state =
            raw.modern("tools/call", json!({ "name": "t" }), forms()).await["result"]["requestState"].clone();
        let retry = json!({ "name": "t", "inputResponses": { "one": answer("x") }, "requestState": state });
        let reply = raw.modern("tools/call", retry, forms()).await;
        assert_eq!(reply["result"].is_object(), good, "{reply}");
        assert!(good || reply["error"]["message"].as_str().unwrap().contains("expired"), "{reply}");
    }
}

/// VER-22, MRTR-6: capabilities count per call: -32021 with what is required.
#[tokio::test]
async fn capabilities_count_per_call() {
    let mut raw = Raw::client_of(&server());
    assert_eq!(
        raw.modern("tools/call", json!({ "name": "two" }), forms()).await["result"]["resultType"],
        "input_required"
    );
    for lacking in [json!({}), json!({ "elicitation": { "url": {} } }), json!({ "sampling": {} })] {
        let reply = raw.modern("tools/call", json!({ "name": "two" }), lacking).await;
        assert_eq!(reply["error"]["code"], -32021, "{reply}");
        assert_eq!(reply["error"]["data"]["requiredCapabilities"], json!({ "elicitation": { "form": {} } }));
    }
    let undressed = dressed(json!({ "name": "two" }), json!([]));
    assert_eq!(raw.call("tools/call", undressed).await["error"]["code"], -32602);
}
