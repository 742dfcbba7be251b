//! What every HTTP client owes its server, row by row.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardan_client::CallError;
use cardan_dial::Kind;
use cardan_proto::era::Revision;
use cardan_proto::finding::Strictness;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Cause, Delivery, Interest, Pushes, Refusal};
use cardan_proto::session::state::State;
use common::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// A server of one legacy revision, without session and push lane.
fn of_revision(date: &'static str, answer: fn(&Asked) -> Value) -> Stage {
    Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => Say::Json(result(
            asked,
            json!({ "protocolVersion": date, "capabilities": { "tools": {} },
                "serverInfo": { "name": "s", "version": "1" } }),
        )),
        (_, "notifications/initialized") => Say::Status(202, ""),
        ("GET", _) => Say::Status(405, ""),
        _ => Say::Json(answer(asked)),
    })
}

/// The dates of the revisions with Streamable HTTP of the legacy era.
const STREAMABLE: [Revision; 3] = [Revision::V2025_03_26, Revision::V2025_06_18, Revision::V2025_11_25];

/// S0-7, S0-21: every HTTP form is spoken by the one client: the modern era, three legacy revisions, and the
/// oldest transport. Each POST accepts both types and, where its revision has them, names revision and method.
#[tokio::test(start_paused = true)]
async fn s0_7_all_forms_are_spoken() {
    let modern = modern(|asked| Say::Json(result(asked, text("ok"))));
    let client = connect(&modern.http()).await;
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    let call = modern.of("tools/call").pop().unwrap();
    assert_eq!(call.header("mcp-protocol-version"), Some(MODERN));
    assert_eq!((call.header("mcp-method"), call.header("mcp-name")), (Some("tools/call"), Some("t")));
    for revision in STREAMABLE {
        let date = revision.date();
        let stage = of_revision(date, |asked| result(asked, text("ok")));
        let client = connect(&stage.http()).await;
        assert_eq!(client.settled().revision, revision);
        client.call_tool("t", &json!({})).unwrap().await.unwrap();
        let call = stage.of("tools/call").pop().unwrap();
        assert_eq!(call.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(call.header("mcp-protocol-version"), Some(date), "as was settled");
        assert_eq!(call.header("mcp-method"), None, "{date} has no such header");
        let opening = stage.of("initialize").pop().unwrap();
        assert_eq!(opening.header("mcp-protocol-version"), None, "nothing is settled yet");
        assert!(opening.body["id"].is_number());
    }
    let oldest = oldest();
    let client = connect(&oldest.http_at("http://server.test/sse")).await;
    assert_eq!(client.settled().revision, Revision::V2024_11_05);
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
}

/// A server of the oldest transport alone. The tool `slow` never answers, and a cancel is taken after a second.
fn oldest() -> Stage {
    let lane = Mutex::new(None::<mpsc::UnboundedSender<String>>);
    Stage::new(move |asked| match (asked.verb.as_str(), asked.target.as_str()) {
        ("GET", "/sse") => {
            let (tell, live) = mpsc::unbounded_channel();
            tell.send("event: endpoint\ndata: /messages\n\n".to_owned()).unwrap();
            *lane.lock().unwrap() = Some(tell);
            Say::Live(live)
        }
        ("POST", "/messages") => {
            let reply = match asked.method() {
                "initialize" => {
                    json!({ "protocolVersion": Revision::V2024_11_05.date(), "capabilities": { "tools": {} },
                        "serverInfo": { "name": "old", "version": "1" } })
                }
                _ => json!({ "content": [] }),
            };
            if asked.method() == "notifications/cancelled" {
                return Say::After(Duration::from_secs(1), Box::new(Say::Status(202, "Accepted")));
            }
            if asked.body.get("id").is_some() && asked.body["params"]["name"] != "slow" {
                let frame = format!("event: message\n{}", message(&result(asked, reply)));
                lane.lock().unwrap().as_ref().unwrap().send(frame).unwrap();
            }
            Say::Status(202, "Accepted")
        }
        _ => Say::Status(405, ""),
    })
}

/// S0-11: the oldest transport is one of its own: found when the POST of the handshake is refused, taken at once
/// when it is named, and never tried where Streamable HTTP is named.
#[tokio::test(start_paused = true)]
async fn s0_11_the_oldest_transport_is_one_of_its_own() {
    for (kind, first) in [(Kind::Auto, "POST server/discover"), (Kind::Events, "GET")] {
        let stage = oldest();
        let client = connect(&stage.http_at("http://server.test/sse").kind(kind)).await;
        client.call_tool("t", &json!({})).unwrap().await.unwrap();
        assert_eq!(stage.lines()[0], first);
        assert_eq!(stage.of("GET").len(), 1);
    }
    let stage = oldest();
    let http = stage.http_at("http://server.test/sse").kind(Kind::Streamable);
    let (client, _) = connect_as(&http, EraChoice::Auto, Limits::DEFAULT).await;
    assert!(client.unwrap_err().contains("405"));
    assert_eq!(stage.of("GET").len(), 0);
}

/// HTL-9, S0-39: a server of the oldest transport forgets the session with its stream, so a cancel that is under way when the
/// client leaves is taken before the stream ends.
#[tokio::test(start_paused = true)]
async fn s0_39_the_oldest_transport_takes_a_cancel_before_its_stream_ends() {
    let stage = oldest();
    let client = connect(&stage.http_at("http://server.test/sse").kind(Kind::Events)).await;
    let call = client.call_tool("slow", &json!({})).unwrap();
    settle().await;
    drop(call);
    let leaving = tokio::spawn(async move { client.close("done").await });
    pass(Duration::from_millis(500)).await;
    assert_eq!((stage.of("notifications/cancelled").len(), stage.gone()), (1, 0), "it is being taken");
    leaving.await.unwrap();
    settle().await;
    assert_eq!(stage.gone(), 1);
}

/// S0-22: a JSON answer counts if it has our id; an array does in the one revision that has them.
#[tokio::test(start_paused = true)]
async fn s0_22_a_json_answer_has_our_id() {
    let foreign = modern(|_| Say::Json(json!({ "jsonrpc": "2.0", "id": 77, "result": text("other") })));
    let client = connect(&foreign.http()).await;
    let error = client.call_tool("t", &json!({})).unwrap().await.unwrap_err();
    let CallError::Lost { cause: Cause::Http(failure), .. } = &error else { panic!("{error}") };
    assert!(matches!(**failure, HttpFailure::NoReply { .. }), "{failure}");
    let page = modern(|_| Say::Full(200, vec![("content-type", "text/html".into())], "<p>hi</p>".into()));
    let error = connect(&page.http()).await.call_tool("t", &json!({})).unwrap().await.unwrap_err();
    assert!(error.to_string().contains("text/html"), "{error}");
    for revision in STREAMABLE {
        let stage = of_revision(revision.date(), |asked| json!([result(asked, text("ok"))]));
        let client = cardan_client::Client::builder("t", "1").strictness(Strictness::Strict);
        let http = stage.http();
        let client = client.connect(async || http.link()).await.unwrap();
        let outcome = client.call_tool("t", &json!({})).unwrap().await;
        assert_eq!(outcome.is_ok(), revision == Revision::V2025_03_26, "{revision}: {outcome:?}");
    }
}

/// S0-23: what a legacy server still says after the reply is heard, within a bound; then the stream is let go.
#[tokio::test(start_paused = true)]
async fn s0_23_a_stream_is_drained_after_the_reply() {
    let (tell, live) = mpsc::unbounded_channel::<String>();
    let live = Mutex::new(Some(live));
    let first = tell.clone();
    let stage = legacy(move |asked| {
        first.send(message(&result(asked, text("ok")))).unwrap();
        Say::Live(live.lock().unwrap().take().expect("called once"))
    });
    let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
    let client = client.unwrap();
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    let late = json!({ "jsonrpc": "2.0", "method": "notifications/message",
        "params": { "level": "info", "data": "trailing" } });
    tell.send(message(&late)).unwrap();
    settle().await;
    assert!(notebook.has("trailing"), "{:?}", notebook.lines());
    assert_eq!(stage.gone(), 0);
    pass(Limits::DEFAULT.drain_timeout + Duration::from_secs(1)).await;
    settle().await;
    assert_eq!(stage.gone(), 1, "a stream that does not end is not read for ever");
}

/// S0-24: on the stream of a call, what has a method and an id is a call of the server, answered by a POST of its
/// own; without an id it is a note.
#[tokio::test(start_paused = true)]
async fn s0_24_calls_on_a_stream_are_answered_by_post() {
    let (tell, live) = mpsc::unbounded_channel::<String>();
    let live = Mutex::new(Some(live));
    let stage = legacy(move |asked| match asked.method() {
        "tools/call" => Say::Live(live.lock().unwrap().take().expect("called once")),
        _ => Say::Status(202, ""),
    });
    let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
    let client = client.unwrap();
    let waiting = client.call_tool("t", &json!({})).unwrap();
    settle().await;
    pass(Limits::DEFAULT.push_head_start).await;
    let call = json!({ "jsonrpc": "2.0", "id": "s-1", "method": "ping" });
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/message",
        "params": { "level": "info", "data": "a note" } });
    tell.send(message(&call) + &message(&note)).unwrap();
    settle().await;
    let answer = stage.asked().pop().unwrap();
    assert_eq!(answer.body, json!({ "jsonrpc": "2.0", "id": "s-1", "result": {} }));
    assert!(notebook.has("a note"));
    let id = stage.of("tools/call")[0].body["id"].clone();
    tell.send(message(&json!({ "jsonrpc": "2.0", "id": id, "result": text("ok") }))).unwrap();
    waiting.await.unwrap();
}

/// S0-25: a stream that ends without the reply is resumed where that is legal; else what became of the call is not
/// known, and it is never sent again.
#[tokio::test(start_paused = true)]
async fn s0_25_a_stream_without_reply_is_resumed_or_unknown() {
    for revision in STREAMABLE {
        let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => Say::Json(result(
                asked,
                json!({ "protocolVersion": revision.date(), "capabilities": { "tools": {} },
                    "serverInfo": { "name": "s", "version": "1" } }),
            )),
            (_, "tools/call") => Say::Events("id: e1\ndata:\n\n".into()),
            ("GET", _) if asked.header("last-event-id") == Some("e1") => {
                let reply = json!({ "jsonrpc": "2.0", "id": 3, "result": text("late") });
                Say::Events(message(&reply))
            }
            ("GET", _) => Say::Status(405, ""),
            _ => Say::Status(202, ""),
        });
        let client = connect(&stage.http()).await;
        client.call_tool("t", &json!({})).unwrap().await.expect("it is resumed");
        assert_eq!(stage.of("tools/call").len(), 1);
    }
    let stage = modern(|_| Say::Events("id: e1\ndata:\n\n".into()));
    let client = connect(&stage.http()).await;
    let error = client.call_tool("t", &json!({})).unwrap().await.unwrap_err();
    assert!(matches!(error, CallError::Lost { delivery: Delivery::Unknown, .. }), "{error}");
    pass(Duration::from_secs(120)).await;
    assert_eq!((stage.of("tools/call").len(), stage.of("GET").len()), (1, 0));
}

/// S0-27: a posted note expects 202; another success is a finding and no failure, and what comes with it as events
/// is heard.
#[tokio::test(start_paused = true)]
async fn s0_27_a_note_is_taken_with_202() {
    let log = json!({ "jsonrpc": "2.0", "method": "notifications/message",
        "params": { "level": "info", "data": "beside" } });
    let events = message(&log);
    for (status, as_events, found) in
        [(202, false, false), (200, false, true), (204, false, true), (200, true, true)]
    {
        let events = events.clone();
        let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => welcome(asked, None),
            (_, "notifications/initialized") if as_events => Say::Events(events.clone()),
            (_, "notifications/initialized") => Say::Status(status, ""),
            ("GET", _) => Say::Status(405, ""),
            _ => Say::Json(result(asked, text("ok"))),
        });
        let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
        client.unwrap().call_tool("t", &json!({})).unwrap().await.unwrap();
        assert_eq!(notebook.has("post-refused"), found, "{status}: {:?}", notebook.lines());
        assert_eq!(notebook.has("beside"), as_events);
    }
}

/// S0-27, S0-65: a server that answers the end of the handshake with a stream holds nobody up: that it answers is
/// enough.
#[tokio::test(start_paused = true)]
async fn s0_27_a_stream_beside_the_handshake_holds_up_nobody() {
    let (tell, live) = mpsc::unbounded_channel::<String>();
    let lanes = Mutex::new(vec![live]);
    let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, None),
        (_, "notifications/initialized") => Say::Live(lanes.lock().unwrap().pop().expect("once")),
        ("GET", _) => Say::Status(405, ""),
        _ => Say::Json(result(asked, text("ok"))),
    });
    let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
    let (client, before) = (client.unwrap(), tokio::time::Instant::now());
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    assert!(before.elapsed() < Duration::from_millis(100), "{:?}", before.elapsed());
    let log = json!({ "jsonrpc": "2.0", "method": "notifications/message",
        "params": { "level": "info", "data": "beside" } });
    tell.send(message(&log)).unwrap();
    settle().await;
    assert!(notebook.has("beside"), "{:?}", notebook.lines());
}

/// S1-C12: a note that the server never answers, or whose answer never ends, does not keep its connection for ever.
#[tokio::test(start_paused = true)]
async fn s1_c12_a_note_has_a_deadline() {
    for hang in [true, false] {
        let (tell, live) = mpsc::unbounded_channel::<String>();
        let lanes = Mutex::new(vec![live]);
        let stage = legacy(move |asked| match asked.method() {
            "notifications/cancelled" if hang => Say::Hang,
            "notifications/cancelled" => Say::Live(lanes.lock().unwrap().pop().expect("once")),
            _ => Say::Hang,
        });
        let (client, _notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
        let client = client.unwrap();
        let call = client.call_tool("t", &json!({})).unwrap();
        settle().await;
        drop(call);
        pass(Limits::DEFAULT.call_idle_timeout * 2).await;
        assert_eq!(stage.of("notifications/cancelled").len(), 1, "{:?}", stage.lines());
        if !hang {
            assert!(tell.is_closed(), "nobody reads what comes beside for ever");
        }
        // What still ran would hold up the farewell.
        let before = tokio::time::Instant::now();
        client.close("done").await;
        assert!(before.elapsed() < Limits::DEFAULT.farewell_timeout, "{:?}", before.elapsed());
    }
}

/// S0-27: remarks are no noise: a server that takes every note with 200 keeps its link, however many there are.
#[tokio::test(start_paused = true)]
async fn s0_27_remarks_do_not_end_a_link() {
    let stage = legacy(|asked| match asked.method() {
        "notifications/cancelled" => Say::Status(200, ""),
        _ => Say::Hang,
    });
    let limits = Limits { noise_lines: 3, ..Limits::DEFAULT };
    let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, limits).await;
    let client = client.unwrap();
    for _ in 0..10 {
        let call = client.call_tool("t", &json!({})).unwrap();
        settle().await;
        drop(call);
        settle().await;
    }
    assert_eq!(stage.of("notifications/cancelled").len(), 10);
    assert!(notebook.has("post-refused"), "{:?}", notebook.lines());
    assert_eq!((client.state(), client.ended()), (State::Ready, None));
}

/// S0-49: that a link is configured, that its session is open and that its push lane is there are three facts;
/// each is told, and a listen that nothing could ever reach is refused.
#[tokio::test(start_paused = true)]
async fn s0_49_three_facts_about_a_link() {
    let (keep, live) = mpsc::unbounded_channel::<String>();
    let lanes = Mutex::new(vec![live]);
    let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        ("GET", _) => lanes.lock().unwrap().pop().map_or(Say::Status(405, ""), Say::Live),
        _ => Say::Status(202, ""),
    });
    let http = stage.http();
    drop(http.link().unwrap());
    assert!(stage.asked().is_empty(), "configured, and nothing said");
    let (client, notebook) = connect_as(&http, EraChoice::Auto, Limits::DEFAULT).await;
    let client = client.unwrap();
    let listen = client.listen(Interest { tools: true, ..Interest::default() });
    settle().await;
    assert_eq!((client.state(), client.pushes()), (State::Ready, Pushes::Carried));
    let lines = notebook.lines();
    let at = |what: &str| {
        lines.iter().position(|line| line == what).unwrap_or_else(|| panic!("{what}: {lines:?}"))
    };
    assert!(at("pushes Opening") < at("Ready") && at("Ready") < at("pushes Carried"), "{lines:?}");
    drop(keep);
    pass(Duration::from_secs(5)).await;
    assert_eq!((client.state(), client.pushes()), (State::Ready, Pushes::Absent), "open, without pushes");
    drop(listen);
    let mut late = client.listen(Interest { tools: true, ..Interest::default() });
    let refused = late.ready().await.unwrap_err();
    assert!(matches!(refused, CallError::Refused(Refusal::NoPushes)), "{refused}");
    // The modern era has no such lane: its listens are calls.
    let modern = modern(|asked| Say::Json(result(asked, text("ok"))));
    let client = connect(&modern.http()).await;
    settle().await;
    assert_eq!((client.state(), client.pushes()), (State::Ready, Pushes::Absent));
}

/// S0-55: a caller's cancel and the timer work together: whichever comes first ends the call, once, and the other
/// finds nothing left to end.
#[tokio::test(start_paused = true)]
async fn s0_55_cancel_and_timer_work_together() {
    let options = CallOptions { idle: Some(Duration::from_secs(3)), ..CallOptions::default() };
    for in_time in [true, false] {
        let stage = legacy(|asked| match asked.method() {
            "tools/call" => Say::Hang,
            _ => Say::Status(202, ""),
        });
        let client = connect(&stage.http()).await;
        let waiting = client.call_tool_with("t", &json!({}), options).unwrap();
        settle().await;
        pass(Duration::from_secs(if in_time { 1 } else { 4 })).await;
        waiting.cancel("enough");
        let error = waiting.await.unwrap_err();
        match in_time {
            true => assert!(matches!(error, CallError::Cancelled { .. }), "{error}"),
            false => assert!(matches!(error, CallError::TimedOut { .. }), "{error}"),
        }
        pass(Duration::from_secs(10)).await;
        assert_eq!(stage.of("notifications/cancelled").len(), 1, "the server is told once");
    }
}

/// S1-C12: connections are reused, one after the other and with a reply that is a stream, and timeouts are kept
/// without costing the connection of anyone else.
#[tokio::test(start_paused = true)]
async fn s1_c12_connections_are_reused_and_timeouts_kept() {
    let calls = AtomicUsize::new(0);
    let stage = modern(move |asked| match (asked.header("mcp-name"), calls.fetch_add(1, Ordering::SeqCst)) {
        (Some("hang"), _) => Say::Hang,
        (_, n) if n % 2 == 0 => Say::Json(result(asked, text("ok"))),
        _ => Say::Events(message(&result(asked, text("ok")))),
    });
    let client = connect(&stage.http()).await;
    for _ in 0..20 {
        client.call_tool("t", &json!({})).unwrap().await.unwrap();
        settle().await;
    }
    assert_eq!(stage.dialled().len(), 1, "connections for twenty calls");
    let options = CallOptions { idle: Some(Duration::from_secs(2)), ..CallOptions::default() };
    let started = tokio::time::Instant::now();
    let error = client.call_tool_with("hang", &json!({}), options).unwrap().await.unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    assert_eq!(started.elapsed().as_secs(), 2);
    for _ in 0..5 {
        client.call_tool("t", &json!({})).unwrap().await.unwrap();
        settle().await;
    }
    assert_eq!(stage.dialled().len(), 2, "one connection was closed with the call that hung");
}
