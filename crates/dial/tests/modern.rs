//! Streamable HTTP in the modern era: heads, answers, cancels, losses.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cardan_client::CallError;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::method::Method;
use cardan_proto::session::event::{CallOptions, Cause, Delivery, Interest};
use common::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;

fn lost(error: &CallError) -> (&HttpFailure, Delivery) {
    match error {
        CallError::Lost { cause: Cause::Http(failure), delivery, .. } => (failure, *delivery),
        other => panic!("not lost: {other}"),
    }
}

async fn call(stage: &Stage) -> Result<String, CallError> {
    let client = connect(&stage.http()).await;
    let result = client.call_tool("t", &json!({}))?.await?;
    Ok(serde_json::to_value(&result.content).unwrap()[0]["text"].as_str().unwrap().to_owned())
}

/// HTTP-6, HTTP-7, HTTP-9, HTM-1, HTM-2, HTM-7, HTM-8, HTM-9, S1-18, S1-19: every message is a POST of its
/// own whose head says what its body says.
#[tokio::test(start_paused = true)]
async fn the_head_mirrors_the_body() {
    let stage = modern(|asked| match asked.method() {
        "resources/read" => Say::Json(result(asked, json!({ "resultType": "complete", "contents": [] }))),
        _ => Say::Json(result(asked, text("ok"))),
    });
    let client = connect(&stage.http()).await;
    client.call_tool("grüße", &json!({ "a": 1 })).unwrap().await.unwrap();
    client.read("file:///a%20b").await.unwrap();
    assert_eq!(stage.lines(), ["POST server/discover", "POST tools/call", "POST resources/read"]);
    for asked in stage.asked() {
        assert_eq!(asked.header("mcp-protocol-version"), Some(MODERN));
        assert_eq!(asked.header("mcp-method"), Some(asked.method()));
        let version = &asked.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        assert_eq!(version, MODERN);
        assert_eq!(asked.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(asked.header("content-type"), Some("application/json"));
        assert_eq!(asked.header("accept-encoding"), Some("identity"));
        assert_eq!(asked.header("mcp-session-id"), None);
    }
    let names: Vec<_> =
        stage.asked().iter().map(|asked| asked.header("mcp-name").map(str::to_owned)).collect();
    assert_eq!(names, [None, Some("=?base64?Z3LDvMOfZQ==?=".into()), Some("file:///a%20b".into())]);
    assert_eq!(stage.dialled(), ["server.test:80"], "S1-25, S1-C12: one connection serves them all");
}

/// HTTP-13, HTTP-18, HTTP-17, S0-63, S0-64: a reply as JSON and as events are the same; notes come before it.
#[tokio::test(start_paused = true)]
async fn both_answer_types_bring_the_reply() {
    let as_json = modern(|asked| Say::Json(result(asked, text("json"))));
    assert_eq!(call(&as_json).await.unwrap(), "json");
    let as_events = modern(|asked| {
        let log = json!({ "jsonrpc": "2.0", "method": "notifications/message",
            "params": { "level": "info", "data": "working" } });
        let reply = message(&result(asked, text("events"))).replace('\n', "\r\n");
        Say::Events(format!("\u{feff}: hi\nevent: odd\ndata: x\n\nid: 1\ndata:\n\n{}{reply}", message(&log)))
    });
    let (client, notebook) =
        connect_as(&as_events.http(), Default::default(), cardan_proto::limits::Limits::DEFAULT).await;
    let client = client.unwrap();
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    assert!(notebook.has("working"));
    assert!(!notebook.has("found"), "{:?}", notebook.lines());
}

/// S0-61, S0-83, HTM-5, HTM-24: a fault that comes with a status is the reply, whatever id it has.
#[tokio::test(start_paused = true)]
async fn a_fault_with_a_status_is_the_reply() {
    let ids = [json!(null), json!("server-error"), json!(2)];
    for (status, id) in
        [400, 404, 422, 500].into_iter().flat_map(|s| ids.iter().map(move |id| (s, id.clone())))
    {
        let stage = modern(move |_| {
            let fault = json!({ "jsonrpc": "2.0", "id": id,
                "error": { "code": -32602, "message": "no such tool", "data": { "tool": "t" } } });
            Say::Full(status, vec![("content-type", "application/json".into())], fault.to_string())
        });
        match call(&stage).await {
            Err(CallError::Fault(fault)) => {
                assert_eq!((fault.code, &*fault.message), (-32602, "no such tool"));
                assert_eq!(fault.data.as_deref(), Some(&br#"{"tool":"t"}"#[..]));
            }
            other => panic!("{status}: {other:?}"),
        }
    }
}

/// S0-59, S0-60, S0-83, S1-23, S1-C11, HTM-23: a status without a fault fails its own call, with what the
/// server said of it, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_status_fails_its_call_alone() {
    for (status, want) in [
        (401, Delivery::NotSent),
        (403, Delivery::NotSent),
        (404, Delivery::Sent),
        (413, Delivery::NotSent),
        (422, Delivery::Sent),
        (429, Delivery::NotSent),
        (431, Delivery::NotSent),
        (500, Delivery::Unknown),
        (503, Delivery::Unknown),
    ] {
        let calls = AtomicUsize::new(0);
        let stage = modern(move |asked| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => {
                let challenge = "Bearer resource_metadata=\"https://a.test/meta\"".to_owned();
                let headers =
                    vec![("www-authenticate", challenge), ("mcp-auth-server", "https://as.test".into())];
                Say::Full(status, headers, "go away".into())
            }
            _ => Say::Json(result(asked, text("ok"))),
        });
        let client = connect(&stage.http()).await;
        let error = client.call_tool("t", &json!({})).unwrap().await.unwrap_err();
        let (failure, delivery) = lost(&error);
        assert_eq!((failure.status().unwrap().as_u16(), delivery), (status, want));
        assert!(error.to_string().contains("go away"), "{error}");
        assert_eq!(error.may_have_executed(), want != Delivery::NotSent, "{status}: refused before it ran");
        let hints = failure.hints().unwrap();
        assert_eq!(hints.bearer.as_ref().unwrap().resource_metadata(), Some("https://a.test/meta"));
        assert_eq!(hints.auth_server.as_deref(), Some("https://as.test"));
        client.call_tool("t", &json!({})).unwrap().await.expect("the link lives on");
    }
}

/// S1-20: a redirect that is not followed may be the answer to what was done; only 307 and 308 say that it was not.
#[tokio::test(start_paused = true)]
async fn a_refused_redirect_says_what_may_have_run() {
    for (status, to, want) in [
        (301, "/new", Delivery::Unknown),
        (302, "/new", Delivery::Unknown),
        (303, "/new", Delivery::Unknown),
        (304, "/new", Delivery::Unknown),
        (307, "http://evil.test/mcp", Delivery::NotSent),
        (308, "http://evil.test/mcp", Delivery::NotSent),
    ] {
        let stage = modern(move |_| Say::Full(status, vec![("location", to.to_owned())], String::new()));
        let error = call(&stage).await.unwrap_err();
        let (failure, delivery) = lost(&error);
        assert!(matches!(failure, HttpFailure::Redirect(_)), "{status}: {failure:?}");
        assert_eq!((status, delivery), (status, want));
        assert_eq!(stage.of("tools/call").len(), 1, "{status}");
    }
}

/// S0-62, S0-84: what is no message is told with its type and its beginning; broken JSON is a violation.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_message_is_named() {
    let html = vec![("content-type", "text/html; charset=utf-8".to_owned())];
    let page = modern(move |_| Say::Full(200, html.clone(), "<html>Sign in</html>".into()));
    let error = call(&page).await.unwrap_err();
    assert!(error.to_string().contains("text/html"), "{error}");
    assert!(error.to_string().contains("Sign in"), "{error}");
    let json = vec![("content-type", "application/json".to_owned())];
    let broken = modern(move |_| Say::Full(200, json.clone(), "{\"jsonrpc\":".into()));
    assert!(matches!(call(&broken).await, Err(CallError::Violated(_))));
    let events = modern(|_| Say::Events("data: {\"jsonrpc\":\"2.0\",\"result\":\n\n".into()));
    assert!(matches!(call(&events).await, Err(CallError::Violated(_))));
    // Cut so early that nobody can tell whose it is, or no message at all: nothing else came.
    for data in ["{\"jsonrpc\":\"2.0\",\"id\":2,\"resu", "{\"jsonrpc\":", "oops"] {
        let events = modern(move |_| Say::Events(format!("data: {data}\n\n")));
        let limits = cardan_proto::limits::Limits::DEFAULT;
        let (client, notebook) = connect_as(&events.http(), Default::default(), limits).await;
        let outcome = client.unwrap().call_tool("t", &json!({})).unwrap().await;
        assert!(matches!(outcome, Err(CallError::Violated(_))), "{data}: {outcome:?}");
        assert!(notebook.has("syntax") && !notebook.has("noise"), "{:?}", notebook.lines());
    }
    let empty = modern(|_| Say::Status(202, ""));
    assert!(matches!(lost(&call(&empty).await.unwrap_err()).0, HttpFailure::NoReply { .. }));
    let other = modern(|_| Say::Json(json!({ "jsonrpc": "2.0", "id": 99, "result": {} })));
    assert!(matches!(lost(&call(&other).await.unwrap_err()).0, HttpFailure::NoReply { .. }));
}

/// S0-67: an event that is no message is skipped and recorded; the reply behind it counts.
#[tokio::test(start_paused = true)]
async fn a_broken_event_is_skipped() {
    let stage =
        modern(|asked| Say::Events(format!("data: {{nonsense\n\n{}", message(&result(asked, text("ok"))))));
    let (client, notebook) =
        connect_as(&stage.http(), Default::default(), cardan_proto::limits::Limits::DEFAULT).await;
    client.unwrap().call_tool("t", &json!({})).unwrap().await.unwrap();
    assert!(notebook.has("found"), "{:?}", notebook.lines());
}

/// HTM-17, HTM-21, S0-85, F11: a modern lane that breaks loses its call, event ids or not; nothing is resumed.
#[tokio::test(start_paused = true)]
async fn a_broken_lane_is_not_resumed() {
    for say in [
        || Say::Cut("id: 7\ndata:\n\n".into()),
        || Say::Events("id: 7\ndata:\n\n".into()),
        || Say::Events(String::new()),
        || Say::Reset,
    ] {
        let stage = modern(move |_| say());
        let error = call(&stage).await.unwrap_err();
        let (failure, delivery) = lost(&error);
        assert!(matches!(failure, HttpFailure::Broken(_) | HttpFailure::NoReply { .. }), "{failure}");
        assert_eq!(delivery, Delivery::Unknown);
        assert!(error.may_have_executed());
        assert_eq!(stage.of("GET").len(), 0);
        assert_eq!(stage.of("tools/call").len(), 1, "S0-73, S0-76: never sent twice");
    }
}

/// CAN-13, HTM-16, S0-87: to cancel, the lane is closed; no note is posted.
#[tokio::test(start_paused = true)]
async fn a_cancel_closes_the_lane() {
    let (keep, live) = mpsc::unbounded_channel::<String>();
    let live = std::sync::Mutex::new(Some(live));
    let stage = modern(move |_| Say::Live(live.lock().unwrap().take().expect("called once")));
    let client = connect(&stage.http()).await;
    let mut waiting = client.call_tool("t", &json!({})).unwrap();
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("nobody answers"),
        () = settle() => {}
    }
    waiting.cancel("enough");
    assert!(matches!(waiting.await, Err(CallError::Cancelled { .. })));
    settle().await;
    assert_eq!(stage.gone(), 1, "the server saw the lane close");
    assert_eq!(stage.lines(), ["POST server/discover", "POST tools/call"]);
    drop(keep);
}

/// S0-54, S0-86: a server that never answers: the deadline comes on time, and closes the lane.
#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up_on_time() {
    let stage = modern(|_| Say::Hang);
    let client = connect(&stage.http()).await;
    let options = CallOptions { idle: Some(Duration::from_secs(3)), ..Default::default() };
    let started = tokio::time::Instant::now();
    let error = client.call_tool_with("t", &json!({}), options).unwrap().await.unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    assert_eq!(started.elapsed().as_secs(), 3);
    assert_eq!(stage.lines(), ["POST server/discover", "POST tools/call"]);
}

/// HTTP-15: a listen is a lane that stays, beside which calls flow.
#[tokio::test(start_paused = true)]
async fn a_listen_has_a_lane_of_its_own() {
    let (tell, live) = mpsc::unbounded_channel();
    let live = std::sync::Mutex::new(Some(live));
    let stage = Stage::new(move |asked| match asked.method() {
        "server/discover" => Say::Json(result(
            asked,
            json!({ "resultType": "complete", "supportedVersions": [MODERN], "ttlMs": 0, "cacheScope": "private",
                "capabilities": { "tools": { "listChanged": true } } }),
        )),
        "subscriptions/listen" => Say::Live(live.lock().unwrap().take().expect("one listen")),
        _ => Say::Json(result(asked, text("ok"))),
    });
    let client = connect(&stage.http()).await;
    let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
    settle().await;
    let id = stage.of("subscriptions/listen")[0].body["id"].clone();
    let note = |method: &str, mut params: Value| {
        params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
        message(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    };
    let honoured = json!({ "notifications": { "toolsListChanged": true } });
    tell.send(note("notifications/subscriptions/acknowledged", honoured)).unwrap();
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    tell.send(note("notifications/tools/list_changed", json!({}))).unwrap();
    let change = listen.next().await.expect("the listen lives");
    assert!(format!("{change:?}").contains("Tools"), "{change:?}");
}

/// HTTP-6: calls overtake each other; a slow one holds up none.
#[tokio::test(start_paused = true)]
async fn calls_run_side_by_side() {
    let stage = modern(|asked| match asked.header("mcp-name") {
        Some("slow") => Say::Hang,
        _ => Say::Json(result(asked, text("ok"))),
    });
    let client = connect(&stage.http()).await;
    let slow = client.call_tool("slow", &json!({})).unwrap();
    let quick: Vec<_> = (0..100).map(|_| client.call_tool("quick", &json!({})).unwrap()).collect();
    for call in quick {
        call.await.unwrap();
    }
    slow.cancel("done");
}

/// HTM-18, HTM-19, HTM-20: the modern era has no session, so there is nothing to end and nothing to resume.
#[tokio::test(start_paused = true)]
async fn closing_a_modern_link_says_nothing() {
    let stage = modern(|asked| Say::Json(result(asked, text("ok"))));
    let client = connect(&stage.http()).await;
    client.raw(Method::ToolsCall, Some(r#"{"name":"t"}"#.into()), Default::default()).await.unwrap();
    client.close("done").await;
    assert_eq!(stage.of("DELETE").len() + stage.of("GET").len(), 0);
}

/// F11, F13: where a connection broke, those that idle beside it are as stale: what follows goes over a fresh one, so that a
/// server that came back is not taken for dead.
#[tokio::test(start_paused = true)]
async fn f13_what_follows_a_break_goes_over_a_fresh_connection() {
    const IDLE: usize = 3;
    let restarted = Arc::new(AtomicBool::new(false));
    let stale = Arc::clone(&restarted);
    let stage = modern(move |asked| match stale.load(Ordering::SeqCst) && asked.connection <= IDLE {
        true => Say::Reset,
        false => Say::After(Duration::from_secs(1), Box::new(Say::Json(result(asked, text("ok"))))),
    });
    let client = connect(&stage.http()).await;
    let call = || client.call_tool("t", &json!({})).unwrap();
    let at_once: Vec<_> = (0..IDLE).map(|_| call()).collect();
    for call in at_once {
        call.await.unwrap();
    }
    assert_eq!(stage.dialled().len(), IDLE);
    restarted.store(true, Ordering::SeqCst);
    let error = call().await.unwrap_err();
    assert_eq!(lost(&error).1, Delivery::Unknown, "the server may have had it");
    for _ in 0..IDLE {
        call().await.unwrap();
    }
    assert_eq!(stage.dialled().len(), IDLE + 1, "and that one is kept");
}
