//! Streamable HTTP in the legacy era: sessions, the push lane, resumption.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardan_client::CallError;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{Delivery, Interest, LogLevel, Pushes};
use cardan_proto::session::state::State;
use common::*;
use serde_json::json;
use tokio::sync::mpsc;

/// HTL-21, HTL-26, HTL-9, HTTP-8, HTL-25, S0-50, S0-51, S0-52: the session and the settled revision are on
/// everything after the handshake, and the session is ended with the link.
#[tokio::test(start_paused = true)]
async fn the_session_is_named_until_its_end() {
    let stage = legacy(|asked| match asked.header("mcp-session-id") {
        // A later id is not taken.
        Some("s-1") => Say::Full(
            200,
            vec![("content-type", "application/json".into()), ("mcp-session-id", "s-2".into())],
            result(asked, text("ok")).to_string(),
        ),
        _ => Say::Status(400, "no session"),
    });
    let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
    let client = client.unwrap();
    client.call_tool("a", &json!({})).unwrap().await.unwrap();
    client.call_tool("b", &json!({})).unwrap().await.unwrap();
    assert!(notebook.has("session-changed"));
    client.close("done").await;
    let lines = stage.lines();
    assert_eq!(lines[..3], ["POST server/discover", "POST initialize", "POST notifications/initialized"]);
    assert_eq!(lines.last().unwrap(), "DELETE");
    for asked in &stage.asked()[..2] {
        assert_eq!(asked.header("mcp-session-id"), None);
    }
    assert_eq!(stage.asked()[1].header("mcp-protocol-version"), None, "the body decides on the handshake");
    for asked in &stage.asked()[2..] {
        assert_eq!(asked.header("mcp-session-id"), Some("s-1"), "{}", asked.line());
        assert_eq!(asked.header("mcp-protocol-version"), Some(LEGACY), "{}", asked.line());
        assert_eq!(asked.header("mcp-method"), None, "{}", asked.line());
    }
}

/// S0-65, S0-66: nothing overtakes the note that ends the handshake; then comes the push lane, and 405
/// means that there is none.
#[tokio::test(start_paused = true)]
async fn nothing_overtakes_the_end_of_the_handshake() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let stage = Stage::new(move |asked| match asked.method() {
        "server/discover" => Say::Status(404, ""),
        "initialize" => welcome(asked, Some("s-1")),
        "notifications/initialized" => match wait.lock().unwrap().try_recv() {
            Ok(()) => Say::Status(202, ""),
            Err(_) => Say::Hang,
        },
        "" => Say::Status(405, ""),
        _ => Say::Json(result(asked, text("ok"))),
    });
    let client = connect(&stage.http()).await;
    let early = client.call_tool("t", &json!({})).unwrap();
    settle().await;
    assert_eq!(stage.of("tools/call").len(), 0, "{:?}", stage.lines());
    // A server that does not answer the note does not hold up everything for ever.
    early.await.unwrap();
    assert_eq!(stage.of("tools/call").len(), 1);
    go.send(()).unwrap();
    let client = connect(&stage.http()).await;
    let before = tokio::time::Instant::now();
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    assert!(before.elapsed() < Duration::from_secs(1));
    settle().await;
    pass(Duration::from_secs(600)).await;
    assert_eq!(stage.of("GET").len(), 2, "one for each link, and no more after 405");
}

/// HTL-10, S0-65, S0-68: what the server pushes arrives; its calls are answered by POST.
#[tokio::test(start_paused = true)]
async fn pushes_arrive_and_are_answered() {
    let (tell, live) = mpsc::unbounded_channel();
    let live = Mutex::new(Some(live));
    let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        ("GET", _) => Say::Live(live.lock().unwrap().take().expect("one lane")),
        _ => Say::Status(202, ""),
    });
    let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
    let _client = client.unwrap();
    settle().await;
    assert_eq!(stage.of("GET")[0].header("accept"), Some("text/event-stream"));
    tell.send(message(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))).unwrap();
    tell.send(message(&json!({ "jsonrpc": "2.0", "id": "q", "method": "ping" }))).unwrap();
    settle().await;
    assert!(notebook.has("changed Tools"), "{:?}", notebook.lines());
    let answer = stage.asked().pop().unwrap();
    assert_eq!(answer.body, json!({ "jsonrpc": "2.0", "id": "q", "result": {} }));
    assert_eq!(answer.header("mcp-session-id"), Some("s-1"));
}

/// S0-65: a server drops what it pushes while there is no push lane, so the lane is open before the first call.
#[tokio::test(start_paused = true)]
async fn the_push_lane_is_open_before_the_first_call() {
    for answer in [|| Say::Status(405, ""), || Say::Events(String::new())] {
        let stage = legacy_pushing(answer);
        let client = connect(&stage.http()).await;
        client.call_tool("t", &json!({})).unwrap().await.unwrap();
        assert_eq!(stage.lines()[2..], ["POST notifications/initialized", "GET", "POST tools/call"]);
    }
    // A server that says nothing on the lane until it has something to push holds nobody up for long.
    let stage = legacy_pushing(|| Say::Hang);
    let client = connect(&stage.http()).await;
    let before = tokio::time::Instant::now();
    let call = client.call_tool("t", &json!({})).unwrap();
    settle().await;
    assert_eq!(stage.of("tools/call").len(), 0, "{:?}", stage.lines());
    call.await.unwrap();
    assert!(before.elapsed() <= Limits::DEFAULT.push_head_start + Duration::from_millis(10));
}

fn legacy_pushing(push: fn() -> Say) -> Stage {
    Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        (_, "notifications/initialized") => Say::Status(202, ""),
        ("GET", _) => push(),
        _ => Say::Json(result(asked, text("ok"))),
    })
}

/// F16: a reply that is to come by the push lane is waited for while there is one or may be; where there is none the call ends at once.
#[tokio::test(start_paused = true)]
async fn a_reply_by_the_push_lane_needs_one() {
    for push in
        [|| Say::Status(405, ""), || Say::After(Duration::from_millis(300), Say::Status(405, "").into())]
    {
        let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => welcome(asked, Some("s-1")),
            ("GET", _) => push(),
            _ => Say::Status(202, ""),
        });
        let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
        let before = tokio::time::Instant::now();
        let error = client.unwrap().call_tool("t", &json!({})).unwrap().await.unwrap_err();
        assert!(error.to_string().contains("ended without the reply"), "{error}");
        assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
        assert!(notebook.has("no-reply"), "{:?}", notebook.lines());
    }
    let (tell, live) = mpsc::unbounded_channel();
    let live = Mutex::new(Some(live));
    let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        ("GET", _) => Say::Live(live.lock().unwrap().take().expect("one lane")),
        (_, "tools/call") => {
            tell.send(message(&result(asked, text("pushed")))).unwrap();
            Say::Status(202, "")
        }
        _ => Say::Status(202, ""),
    });
    connect(&stage.http()).await.call_tool("t", &json!({})).unwrap().await.unwrap();
}

/// HTL-6, HTL-7, HTL-17, S0-69, S0-75: the push lane is opened again after its last event, when the server
/// wants it, and only slowly when nothing comes of it.
#[tokio::test(start_paused = true)]
async fn the_push_lane_is_resumed_and_lost() {
    let gets = AtomicUsize::new(0);
    let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        ("GET", _) => match gets.fetch_add(1, Ordering::SeqCst) {
            0 => Say::Cut("retry: 7000\nid: e1\ndata:\n\n".into()),
            1 => Say::Events(format!(
                "id: e2\n{}",
                message(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))
            )),
            2 => Say::Status(503, ""),
            _ => Say::Events(String::new()),
        },
        _ => Say::Status(202, ""),
    });
    let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
    let client = client.unwrap();
    pass(Duration::from_secs(3600)).await;
    let gets = stage.of("GET");
    let last: Vec<_> = gets.iter().map(|get| get.header("last-event-id").map(str::to_owned)).collect();
    assert_eq!(last[..3], [None, Some("e1".into()), Some("e2".into())]);
    assert!(gets[1].at - gets[0].at >= Duration::from_secs(7));
    assert!(gets[2].at - gets[1].at >= Duration::from_secs(7), "what the server wants holds on");
    let slow = &gets[2 + Limits::DEFAULT.reconnects - 1..];
    for pair in slow.windows(2) {
        let pause = pair[1].at - pair[0].at;
        assert!(pause >= Limits::DEFAULT.reconnect_wait_max, "F14: the circuit opens, {pause:?}");
    }
    assert!(slow.len() > 40, "it is asked for, slowly: {}", slow.len());
    let told = notebook.lines().iter().filter(|line| line.contains("push-lost")).count();
    assert_eq!((told, client.pushes()), (1, Pushes::Lost), "{:?}", notebook.lines());
    assert!(notebook.has("changed Tools"));
}

/// HTL-6, F14: a lane that was lost and comes back carries pushes again, and a second loss is told like the first.
#[tokio::test(start_paused = true)]
async fn a_lost_push_lane_comes_back() {
    let (tell, live) = mpsc::unbounded_channel::<String>();
    let lanes = Mutex::new(vec![live]);
    let gets = AtomicUsize::new(0);
    let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        ("GET", _) => match gets.fetch_add(1, Ordering::SeqCst) {
            0 => Say::Events(String::new()),
            1..=9 => Say::Status(503, ""),
            _ => lanes.lock().unwrap().pop().map_or(Say::Status(503, ""), Say::Live),
        },
        _ => Say::Json(result(asked, json!({}))),
    });
    let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
    let client = client.unwrap();
    pass(Duration::from_secs(120)).await;
    assert_eq!(client.pushes(), Pushes::Lost);
    let wish = Interest { tools: true, ..Interest::default() };
    assert!(client.listen(wish.clone()).ready().await.is_err(), "nothing could be heard");
    pass(Duration::from_secs(600)).await;
    assert_eq!(client.pushes(), Pushes::Carried, "{:?}", notebook.lines());
    let mut listen = client.listen(wish);
    listen.ready().await.unwrap();
    drop(tell);
    pass(Duration::from_secs(600)).await;
    assert_eq!(client.pushes(), Pushes::Lost);
    let told = notebook.lines().iter().filter(|line| line.contains("push-lost")).count();
    assert_eq!(told, 2, "once for each loss: {:?}", notebook.lines());
}

/// HTL-6, F12: a proxy that cuts what is quiet after half a minute is no reason to give up; comments are none
/// either, however short the lane.
#[tokio::test(start_paused = true)]
async fn a_quiet_push_lane_is_opened_again_and_again() {
    for (life, first) in [(Duration::from_secs(30), ""), (Duration::ZERO, ": hello\n\n")] {
        let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => welcome(asked, Some("s-1")),
            ("GET", _) => {
                let (tell, live) = mpsc::unbounded_channel();
                tell.send(first.to_owned()).unwrap();
                tokio::spawn(async move {
                    pass(life).await;
                    drop(tell);
                });
                Say::Live(live)
            }
            _ => Say::Status(202, ""),
        });
        let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
        let client = client.unwrap();
        pass(Duration::from_secs(3600)).await;
        assert!(!notebook.has("push-lost"), "{life:?}: {:?}", notebook.lines());
        assert_ne!(client.pushes(), Pushes::Lost, "{life:?}");
        let gets = stage.of("GET").len();
        assert!((100..1900).contains(&gets), "{life:?}: {gets} lanes in an hour");
    }
}

/// S0-49, HTL-17: a server that never opened a push lane has none to lose.
#[tokio::test(start_paused = true)]
async fn a_push_lane_that_never_was_is_absent() {
    for status in [400, 403, 404, 406, 501, 503] {
        let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => welcome(asked, None),
            ("GET", _) => Say::Status(status, ""),
            _ => Say::Status(202, ""),
        });
        let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
        let client = client.unwrap();
        pass(Duration::from_secs(3600)).await;
        assert_eq!(client.pushes(), Pushes::Absent, "{status}");
        assert!(!notebook.has("push-lost"), "{status}: {:?}", notebook.lines());
    }
}

/// F12: a server that keeps its lane alive and then falls silent has vanished; one that never did has not.
#[tokio::test(start_paused = true)]
async fn silence_after_keep_alives_is_a_loss() {
    for (first, want) in [(": alive\n\n", 2), ("", 1)] {
        let (tell, live) = mpsc::unbounded_channel();
        let lanes = Mutex::new(vec![live]);
        let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => welcome(asked, None),
            ("GET", _) => lanes.lock().unwrap().pop().map_or(Say::Hang, Say::Live),
            _ => Say::Status(202, ""),
        });
        let _client = connect(&stage.http()).await;
        tell.send(first.to_owned()).unwrap();
        pass(Limits::DEFAULT.read_idle_timeout * 2).await;
        assert_eq!(stage.of("GET").len(), want);
    }
}

/// HTL-7, HTL-17, HTL-18, F11, S0-85: a reply whose lane breaks is resumed after its last event, again and
/// again, without loss and without a second call.
#[tokio::test(start_paused = true)]
async fn a_broken_reply_is_resumed() {
    let gets = AtomicUsize::new(0);
    let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        (_, "tools/call") => Say::Cut("id: a\nretry: 500\ndata:\n\n".into()),
        ("GET", _) => match (asked.header("last-event-id"), gets.fetch_add(1, Ordering::SeqCst)) {
            (None, _) => Say::Status(405, ""),
            (Some("a"), 1) => Say::Cut("id: b\ndata:\n\n".into()),
            (Some("b"), 2) => Say::Status(502, ""),
            (Some("b"), 3) => {
                let reply = json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [] } });
                Say::Events(format!("id: c\n{}", message(&reply)))
            }
            other => panic!("{other:?}"),
        },
        _ => Say::Status(202, ""),
    });
    let client = connect(&stage.http()).await;
    client.call_tool("t", &json!({})).unwrap().await.unwrap();
    assert_eq!(stage.of("tools/call").len(), 1);
    let gets = stage.of("GET");
    assert!(gets[1].at - stage.of("tools/call")[0].at >= Duration::from_millis(500));
    assert!(gets.iter().all(|get| get.header("mcp-session-id") == Some("s-1")));
}

/// S0-85, F11: without an event id, or where the server resumes nothing, the call is lost and says so.
#[tokio::test(start_paused = true)]
async fn a_reply_that_cannot_be_resumed_is_lost() {
    for (events, get, gets) in [("", 405, 1), ("id: a\ndata:\n\n", 405, 2), ("id: a\ndata:\n\n", 500, 6)] {
        let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => welcome(asked, Some("s-1")),
            (_, "tools/call") => Say::Cut(events.into()),
            ("GET", _) if asked.header("last-event-id").is_none() => Say::Status(405, ""),
            ("GET", _) => Say::Status(get, ""),
            _ => Say::Status(202, ""),
        });
        let client = connect(&stage.http()).await;
        let options =
            cardan_proto::session::event::CallOptions { idle: Some(Duration::ZERO), ..Default::default() };
        let error = client.call_tool_with("t", &json!({}), options).unwrap().await.unwrap_err();
        assert!(matches!(error, CallError::Lost { delivery: Delivery::Unknown, .. }), "{error}");
        assert_eq!(stage.of("GET").len(), gets, "{events:?} {get}");
    }
}

/// S0-84: a stream that ends after broken JSON has brought the answer, and to resume it would bring the same again: the call
/// ends at once, and says what is wrong.
#[tokio::test(start_paused = true)]
async fn s0_84_a_broken_answer_on_a_stream_is_not_waited_for() {
    let stage = Stage::new(|asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        (_, "tools/call") => Say::Events("id: a\ndata: {\"jsonrpc\":\"2.0\",\"result\":\n\n".into()),
        ("GET", _) => Say::Status(405, ""),
        _ => Say::Status(202, ""),
    });
    let client = connect(&stage.http()).await;
    let options =
        cardan_proto::session::event::CallOptions { idle: Some(Duration::ZERO), ..Default::default() };
    let error = client.call_tool_with("t", &json!({}), options).unwrap().await.unwrap_err();
    assert!(matches!(error, CallError::Violated(_)), "{error}");
    assert!(stage.of("GET").iter().all(|get| get.header("last-event-id").is_none()));
}

/// HTL-9, HTL-8: a legacy call is cancelled by a note; closing the lane alone would not do.
#[tokio::test(start_paused = true)]
async fn a_legacy_cancel_is_a_note() {
    let stage = legacy(|asked| match asked.method() {
        "tools/call" => Say::Hang,
        _ => Say::Status(202, ""),
    });
    let client = connect(&stage.http()).await;
    let waiting = client.call_tool("t", &json!({})).unwrap();
    settle().await;
    waiting.cancel("enough");
    let _ = waiting.await;
    settle().await;
    let note = &stage.of("notifications/cancelled")[0].body;
    assert_eq!(note["params"]["requestId"], stage.of("tools/call")[0].body["id"]);
}

/// A server that forgets its session after each answered `life` calls, and takes a new handshake.
fn forgetful(life: usize, status: u16, body: &'static str) -> Stage {
    let state = Mutex::new((0_usize, 0_usize));
    Stage::new(move |asked| {
        let mut state = state.lock().unwrap();
        let session = format!("s-{}", state.0);
        match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => {
                assert_eq!(asked.header("mcp-session-id"), None, "HTL-24: without the id");
                *state = (state.0 + 1, life);
                welcome(asked, Some(&format!("s-{}", state.0)))
            }
            ("GET", _) => Say::Hang,
            ("DELETE", _) => Say::Status(405, ""),
            (_, method) => {
                let fresh = asked.header("mcp-session-id") == Some(&session) && state.1 > 0;
                match (fresh, method) {
                    (false, _) => Say::Status(status, body),
                    (true, "tools/call") => {
                        state.1 -= 1;
                        Say::Json(result(asked, text("ok")))
                    }
                    (true, _) if asked.body.get("id").is_some() => Say::Json(result(asked, json!({}))),
                    (true, _) => Say::Status(202, ""),
                }
            }
        }
    })
}

/// HTL-24, HTL-23, S0-51, F13: a forgotten session is replaced once for all who wait; what was refused
/// is sent again, what is new waits, log level and subscriptions are told anew, and observers see why.
#[tokio::test(start_paused = true)]
async fn a_forgotten_session_is_replaced_once_for_all() {
    for (status, body) in [(404, ""), (410, ""), (400, "Bad Request: No valid session ID provided")] {
        let stage = forgetful(3, status, body);
        let (client, notebook) = connect_as(&stage.http(), EraChoice::Legacy, Limits::DEFAULT).await;
        let client = client.unwrap();
        client.set_level(LogLevel::Warning);
        let mut listen = client.listen(Interest { uris: vec!["file:///x".into()], ..Default::default() });
        for _ in 0..3 {
            client.call_tool("t", &json!({})).unwrap().await.unwrap();
        }
        let many: Vec<_> = (0..3).map(|_| client.call_tool("t", &json!({})).unwrap()).collect();
        for call in many {
            call.await.unwrap();
        }
        assert_eq!(stage.of("initialize").len(), 2, "{status}: {:?}", stage.lines());
        assert_eq!(stage.of("logging/setLevel").len(), 2);
        assert_eq!(stage.of("resources/subscribe").len(), 2);
        assert_eq!(client.state(), State::Ready);
        assert_eq!(client.ended(), None);
        assert!(notebook.has("Initializing (the session is gone"), "{:?}", notebook.lines());
        tokio::select! {
            biased;
            change = listen.next() => panic!("{change:?}"),
            () = settle() => {}
        }
        client.close("done").await;
    }
}

/// F14: a server that forgets at once is not asked for ever; the call fails, unsent.
#[tokio::test(start_paused = true)]
async fn a_server_that_always_forgets_is_given_up() {
    let stage = legacy(|_| Say::Status(404, ""));
    let client = connect(&stage.http()).await;
    let error = client.call_tool("t", &json!({})).unwrap().await.unwrap_err();
    assert!(matches!(error, CallError::Lost { delivery: Delivery::NotSent, .. }), "{error}");
    assert_eq!(stage.of("initialize").len(), 1 + Limits::DEFAULT.renewals);
}

/// HTL-22: without a session, 404 says nothing of one.
#[tokio::test(start_paused = true)]
async fn a_404_without_session_is_just_a_404() {
    let stage = Stage::new(|asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, None),
        (_, "tools/call") => Say::Status(404, ""),
        ("GET", _) => Say::Status(405, ""),
        _ => Say::Status(202, ""),
    });
    let client = connect(&stage.http()).await;
    let error = client.call_tool("t", &json!({})).unwrap().await.unwrap_err();
    assert!(matches!(error, CallError::Lost { delivery: Delivery::Sent, .. }), "{error}");
    assert_eq!(stage.of("initialize").len(), 1);
    client.close("done").await;
    assert_eq!(stage.of("DELETE").len(), 0, "no session to end");
}

/// S0-52, S0-53: a farewell that nobody answers is short.
#[tokio::test(start_paused = true)]
async fn a_farewell_is_short() {
    let stage = Stage::new(|asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, ""),
        (_, "initialize") => welcome(asked, Some("s-1")),
        (_, "notifications/initialized") => Say::Status(202, ""),
        _ => Say::Hang,
    });
    let client = connect(&stage.http()).await;
    let open = client.call_tool("t", &json!({})).unwrap();
    settle().await;
    let started = tokio::time::Instant::now();
    client.close("done").await;
    assert!(started.elapsed() <= Limits::DEFAULT.farewell_timeout, "{:?}", started.elapsed());
    assert!(matches!(open.await, Err(CallError::Cancelled { .. })));
}

/// F11, HTL-17, HTL-18: a lane cut at any byte is resumed without loss and without repetition, as soon as one
/// event with an id has come; before that the call is lost.
#[tokio::test(start_paused = true)]
async fn a_lane_may_be_cut_anywhere() {
    let log = |n: usize| {
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/message",
            "params": { "level": "info", "data": format!("note {n} ü") } });
        format!("id: {n}\n{}", message(&note))
    };
    let reply = json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [] } });
    let events = vec!["id: 0\ndata:\n\n".to_owned(), log(1), log(2), format!("id: 3\n{}", message(&reply))];
    let (whole, first) = (events.concat(), events[0].len());
    for cut in (0..whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
        let (events, begun) = (events.clone(), whole[..cut].to_owned());
        let stage = Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => welcome(asked, Some("s-1")),
            (_, "tools/call") => Say::Cut(begun.clone()),
            ("GET", _) => match asked.header("last-event-id") {
                None => Say::Status(405, ""),
                Some(last) => Say::Events(events[last.parse::<usize>().unwrap() + 1..].concat()),
            },
            _ => Say::Status(202, ""),
        });
        let (client, notebook) = connect_as(&stage.http(), EraChoice::Auto, Limits::DEFAULT).await;
        let client = client.unwrap();
        let outcome = client.call_tool("t", &json!({})).unwrap().await;
        assert_eq!(outcome.is_ok(), cut >= first, "{cut}: {outcome:?}");
        let logged: Vec<_> = notebook.lines().into_iter().filter(|line| line.starts_with("logged")).collect();
        assert_eq!(logged.len(), if cut >= first { 2 } else { 0 }, "{cut}: {logged:?}");
        assert_eq!(stage.of("tools/call").len(), 1);
    }
}
