//! The modern era: one POST, one answer, and nothing kept.

use cardan_proto::jsonrpc::fault::code;
use cardan_proto::limits::Limits;
use serde_json::json;

use crate::rig::{
    BATCHING, JSON, LEGACY, MODERN, Rig, Step, call, initialize, listen_to_tools, modern, modern_headers,
    modern_tool, note, said, tool_call,
};

/// HTTP-1, HTTP-12, HTM-19, S1-18, S1-22: one POST, one JSON answer, and no session is made of it.
#[tokio::test]
async fn a_call_is_answered_with_json() {
    let rig = Rig::start().await;
    let answer = rig.modern(&modern_tool(7, "echo", json!({ "text": "hi" }))).await.answer().await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.head.has("mcp-session-id"));
    let message = answer.json();
    assert_eq!((said(&message), &message["id"]), ("hi", &json!(7)));
    assert_eq!(message["result"]["resultType"], "complete");
}

/// HTM-3, HTM-4, HTM-5, HTM-10, HTM-11, HTM-24, T14: each disagreement has its status, its code and the id
/// of its call, and no handler runs.
#[tokio::test]
async fn disagreements_are_refused_with_the_id_of_the_call() {
    let rig = Rig::start().await;
    let good = modern_tool(3, "hold", json!({}));
    let set = |name: &'static str, value: Option<&str>| {
        let mut headers = modern_headers(&good);
        headers.retain(|(own, _)| *own != name);
        headers.extend(value.map(|value| (name, value.to_owned())));
        headers
    };
    let of = |date: &str| {
        let mut message = good.clone();
        message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(date);
        message
    };
    let without = |key: &str| {
        let mut message = good.clone();
        message["params"]["_meta"].as_object_mut().unwrap().remove(key);
        message
    };
    let renamed = |method: &str| {
        let mut message = good.clone();
        message["method"] = json!(method);
        message
    };
    let version = "MCP-Protocol-Version";
    let mismatch = (400, code::HEADER_MISMATCH);
    let table = [
        (set(version, Some(LEGACY)), good.clone(), mismatch),
        (set(version, None), good.clone(), mismatch),
        (set(version, Some("2099-01-01")), of("2099-01-01"), (400, code::UNSUPPORTED_VERSION)),
        // A legacy revision in the body is a modern call of a revision that has none.
        (set(version, Some(LEGACY)), of(LEGACY), (400, code::UNSUPPORTED_VERSION)),
        (set("Mcp-Method", None), good.clone(), mismatch),
        (set("Mcp-Method", Some("TOOLS/CALL")), good.clone(), mismatch),
        (set("Mcp-Method", Some("tools/list")), good.clone(), mismatch),
        (set("Mcp-Name", None), good.clone(), mismatch),
        (set("Mcp-Name", Some("echo")), good.clone(), mismatch),
        (set("Mcp-Name", Some("h\u{f6}ld")), good.clone(), mismatch),
        (set("Mcp-Name", Some("=?base64?aG9sZA?=")), good.clone(), mismatch),
        (set("Mcp-Method", Some("no/such")), renamed("no/such"), (404, code::METHOD_NOT_FOUND)),
        (set("Mcp-Method", Some("ping")), renamed("ping"), (404, code::METHOD_NOT_FOUND)),
        (set("Mcp-Method", Some("initialize")), renamed("initialize"), (404, code::METHOD_NOT_FOUND)),
        (set("", None), without("io.modelcontextprotocol/clientCapabilities"), (400, code::INVALID_PARAMS)),
        (set("", None), without("io.modelcontextprotocol/protocolVersion"), (400, code::INVALID_PARAMS)),
    ];
    for (headers, message, want) in table {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = rig.post(&headers, &message).await.answer().await;
        assert_eq!(answer.fault(), want, "{headers:?} {message}");
        assert_eq!(answer.json()["id"], 3, "{headers:?} {message}");
        assert!(!answer.head.has("mcp-session-id"));
    }
    assert_eq!(rig.signals.unseen(), None);
}

/// HTM-4: the fault names what is served and what was asked for.
#[tokio::test]
async fn an_unknown_revision_is_told_which_are_served() {
    let rig = Rig::start().await;
    let mut message = modern(call(1, "tools/list"));
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let headers = [("MCP-Protocol-Version", "2031-01-01"), ("Mcp-Method", "tools/list")];
    let answer = rig.post(&headers, &message).await.answer().await;
    let data = &answer.json()["error"]["data"];
    assert_eq!(data["requested"], "2031-01-01");
    assert!(data["supported"].as_array().unwrap().contains(&json!(MODERN)), "{data}");
}

/// HTM-13, HTM-14, HTM-9, HTM-12: names in any case, white space around values, and encoded names are the
/// same; a repeated header is not.
#[tokio::test]
async fn headers_are_compared_as_http_has_them() {
    let rig = Rig::start().await;
    let message = modern_tool(1, "echo", json!({ "text": "hi" }));
    let version = ("mcp-PROTOCOL-version", MODERN);
    let table = [
        (vec![version, ("MCP-METHOD", " \ttools/call \t"), ("mcp-name", "echo")], 200),
        (vec![version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?ZWNobw==?=")], 200),
        (vec![version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo"), ("Mcp-Name", "echo")], 400),
        (
            vec![version, ("Mcp-Method", "tools/call"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")],
            400,
        ),
        (vec![version, version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")], 400),
    ];
    for (headers, want) in table {
        let answer = rig.post(&headers, &message).await.answer().await;
        assert_eq!(answer.status(), want, "{headers:?}");
    }
}

/// HTTP-10, HTM-25: a note needs no modern headers beside its revision, and gets 202 without a body.
#[tokio::test]
async fn a_note_is_accepted_without_more_headers() {
    let rig = Rig::start().await;
    for message in [note("notifications/anything"), modern(note("notifications/anything"))] {
        let answer = rig.post(&[("MCP-Protocol-Version", MODERN)], &message).await.answer().await;
        assert_eq!((answer.status(), answer.body.len()), (202, 0), "{message}");
        rig.signals.expect(Step::Noted).await;
    }
}

/// HTTP-9, HTTP-11: a reply belongs to no modern call, with or without a session id, and a batch is none.
#[tokio::test]
async fn replies_and_batches_are_refused() {
    let rig = Rig::start().await;
    let reply = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let batch = json!([modern(call(1, "tools/list"))]);
    let version = ("MCP-Protocol-Version", MODERN);
    let session = ("Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA");
    for headers in [vec![version], vec![version, session]] {
        for message in [&reply, &batch] {
            let answer = rig.post(&headers, message).await.answer().await;
            assert_eq!(answer.fault(), (400, code::INVALID_REQUEST), "{headers:?} {message}");
        }
    }
    let answer = rig.post(&[("MCP-Protocol-Version", BATCHING), session], &batch).await.answer().await;
    assert_eq!(answer.fault(), (400, code::INVALID_REQUEST));
}

/// HTM-19, HTM-20: a session id and a last event id beside modern marks are ignored, even those of a live
/// session.
#[tokio::test]
async fn session_and_event_ids_are_ignored() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let message = modern_tool(1, "echo", json!({ "text": "hi" }));
    let headers = modern_headers(&message);
    for id in [session.id.as_str(), "unknown", "not a session id"] {
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.extend([("Mcp-Session-Id", id), ("Last-Event-ID", "1-1")]);
        let answer = rig.post(&headers, &message).await.answer().await;
        assert_eq!(answer.status(), 200, "{id}");
        assert_eq!(answer.json()["result"]["resultType"], "complete");
        assert!(!answer.head.has("mcp-session-id"));
    }
}

/// HTM-18, HTM-6, HTM-19, S1-26: a modern-only endpoint has POST alone, and says so.
#[tokio::test]
async fn a_modern_only_endpoint_has_post_alone() {
    let rig = Rig::with(Limits::DEFAULT, |options| options.modern_only()).await;
    for method in ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"] {
        let mut wire = rig.send(method, "/mcp", &[("Mcp-Session-Id", "x"), ("Accept", "*/*")], b"").await;
        let head = wire.head().await;
        assert_eq!((head.status, head.header("allow")), (405, "POST"), "{method}");
    }
    let answer = rig.post(&[], &call(4, "tools/list")).await.answer().await;
    assert_eq!(answer.fault(), (400, code::HEADER_MISMATCH));
    assert_eq!(answer.json()["id"], 4);
    let answer = rig.post(&[], &initialize(LEGACY)).await.answer().await;
    assert_eq!(answer.fault(), (400, code::UNSUPPORTED_VERSION));
    assert_eq!(answer.json()["error"]["data"]["supported"], json!([MODERN]));
    assert!(!answer.head.has("mcp-session-id"));
    let answer = rig.modern(&modern(call(1, "tools/list"))).await.answer().await;
    assert_eq!(answer.status(), 200);
}

/// HTTP-7, HTTP-12: the answer takes the form that is accepted: one alone, either, or whatever when nothing
/// is said. What accepts neither gets 406.
#[tokio::test]
async fn accept_chooses_the_form() {
    let rig = Rig::start().await;
    let message = modern_tool(1, "echo", json!({ "text": "hi" }));
    let headers = modern_headers(&message);
    let with = |accept: &'static str| {
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("Accept", accept));
        headers
    };
    for accept in
        ["application/json", "*/*", "application/json, text/event-stream", "text/event-stream;q=0, */*"]
    {
        let answer = rig.post(&with(accept), &message).await.answer().await;
        assert_eq!((answer.status(), said(&answer.json())), (200, "hi"), "{accept}");
    }
    let mut events = rig.post(&with("text/event-stream"), &message).await.events().await;
    assert_eq!(said(&events.reply(1).await), "hi");
    events.ends().await;
    let answer = rig.post(&with("text/html"), &message).await.answer().await;
    assert_eq!(answer.fault(), (406, code::INVALID_REQUEST));
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(JSON);
    let answer = rig.ask("POST", "/mcp", &headers, message.to_string().as_bytes()).await;
    assert_eq!((answer.status(), said(&answer.json())), (200, "hi"));
}

/// HTTP-14, HTTP-15, HTTP-16, HTM-21, S0-64, S1-28, S1-29, S1-30, S1-C14: notes of the call come as events
/// without ids, unbuffered, before its reply, and then the stream ends.
#[tokio::test]
async fn notes_precede_the_reply_on_its_stream() {
    let rig = Rig::start().await;
    let mut events = rig.modern(&modern_tool(5, "steps", json!({}))).await.events().await;
    assert_eq!(events.head.header("content-type"), "text/event-stream");
    assert_eq!(events.head.header("x-accel-buffering"), "no");
    assert_eq!(events.head.header("cache-control"), "no-cache, no-store, no-transform");
    for progress in [1.0, 2.0] {
        let event = events.event().await.unwrap();
        assert_eq!(event.id, None);
        let message: serde_json::Value = serde_json::from_slice(&event.data).unwrap();
        assert_eq!(message["params"]["progress"], progress, "{message}");
        assert_eq!(message["params"]["progressToken"], 5);
        rig.signals.go.notify_one();
    }
    assert_eq!(said(&events.reply(5).await), "stepped");
    events.ends().await;
}

/// HTTP-12: a client that takes JSON alone is told the reply alone, however much came before it.
#[tokio::test]
async fn notes_are_kept_from_who_takes_json_alone() {
    let rig = Rig::start().await;
    let message = modern_tool(5, "steps", json!({}));
    let headers = modern_headers(&message);
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(("Accept", "application/json"));
    let mut wire = rig.post(&headers, &message).await;
    rig.signals.expect(Step::Entered).await;
    rig.signals.go.notify_one();
    let answer = wire.answer().await;
    assert_eq!((answer.status(), said(&answer.json())), (200, "stepped"));
}

/// HTTP-12: the status waits for the first message, so that a fault found by a handler, at once or after a
/// while, still has its own.
#[tokio::test]
async fn the_status_waits_for_the_first_message() {
    let rig = Rig::start().await;
    let answer = rig.modern(&modern_tool(1, "lacking", json!({}))).await.answer().await;
    assert_eq!(answer.fault(), (400, code::MISSING_CAPABILITY));
    let mut wire = rig.modern(&modern_tool(2, "late", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    rig.signals.go.notify_one();
    let answer = wire.answer().await;
    assert_eq!(answer.fault(), (400, code::MISSING_CAPABILITY));
    // An ordinary fault is an ordinary answer.
    let answer = rig.modern(&modern_tool(3, "nothing", json!({}))).await.answer().await;
    assert_eq!(answer.fault(), (200, code::INVALID_PARAMS));
}

/// T21: a panic fails its own call and nothing else.
#[tokio::test]
async fn a_panic_fails_its_own_call() {
    let rig = Rig::start().await;
    let answer = rig.modern(&modern_tool(1, "panic", json!({}))).await.answer().await;
    assert_eq!(answer.fault(), (200, code::INTERNAL));
    let answer = rig.modern(&modern_tool(2, "echo", json!({ "text": "hi" }))).await.answer().await;
    assert_eq!(said(&answer.json()), "hi");
}

/// HTM-16, S1-24: who goes away cancels, be it before the head of the answer or in mid-stream.
#[tokio::test]
async fn going_away_cancels() {
    let rig = Rig::start().await;
    let wire = rig.modern(&modern_tool(1, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    drop(wire);
    rig.signals.expect(Step::Dropped).await;
    let mut events = rig.modern(&modern_tool(2, "steps", json!({}))).await.events().await;
    rig.signals.expect(Step::Entered).await;
    events.message().await;
    drop(events);
    rig.signals.expect(Step::Dropped).await;
}

/// HTM-15, HTM-22: a handler that asks makes no call: what it needs is the result, the last thing on the
/// stream, and the retry with the answer goes on.
#[tokio::test]
async fn an_ask_is_a_result_and_the_last_thing() {
    let rig = Rig::start().await;
    let message = modern_tool(1, "ask", json!({}));
    let headers = modern_headers(&message);
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(("Accept", "text/event-stream"));
    let mut events = rig.post(&headers, &message).await.events().await;
    let asked = events.reply(1).await;
    events.ends().await;
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let (name, ask) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(ask["method"], "elicitation/create");
    let mut retry = modern_tool(2, "ask", json!({}));
    let answers = json!({ name.as_str(): { "action": "accept", "content": { "name": "Ada" } } });
    retry["params"]["inputResponses"] = answers;
    retry["params"]["requestState"] = result["requestState"].clone();
    let answer = rig.modern(&retry).await.answer().await;
    assert!(said(&answer.json()).contains("Ada"), "{:?}", answer.json());
}

/// HTM-15, SUB-13: a listen is acknowledged first, hears what it asked for, and ends with its result when the server
/// stops.
#[tokio::test]
async fn a_listen_is_acknowledged_then_told_then_ended() {
    let mut rig = Rig::start().await;
    let mut events = rig.modern(&listen_to_tools(9)).await.events().await;
    let ack = events.message().await;
    assert_eq!(events.head.header("content-type"), "text/event-stream");
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    let subscription = |message: &serde_json::Value| {
        message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
    };
    assert_eq!(subscription(&ack), 9);
    rig.modern(&modern_tool(1, "touch", json!({}))).await.answer().await;
    let change = events.message().await;
    assert_eq!(change["method"], "notifications/tools/list_changed");
    assert_eq!(subscription(&change), 9);
    rig.stopping();
    let last = events.reply(9).await;
    assert_eq!(last["result"]["resultType"], "complete", "{last}");
    events.ends().await;
    rig.stopped().await;
}

/// HTTP-12: a listen is told as events or not at all: who takes none is told at once.
#[tokio::test]
async fn a_listen_needs_events() {
    let rig = Rig::start().await;
    let message = listen_to_tools(1);
    let headers = modern_headers(&message);
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(("Accept", "application/json"));
    assert_eq!(rig.post(&headers, &message).await.answer().await.status(), 406);
}

/// HTM-16: closing a listen's stream ends it; others go on.
#[tokio::test]
async fn listens_are_independent() {
    let rig = Rig::start().await;
    let mut gone = rig.modern(&listen_to_tools(1)).await.events().await;
    let mut stays = rig.modern(&listen_to_tools(1)).await.events().await;
    gone.message().await;
    stays.message().await;
    drop(gone);
    rig.modern(&modern_tool(1, "touch", json!({}))).await.answer().await;
    assert_eq!(stays.message().await["method"], "notifications/tools/list_changed");
}

/// HTTP-6, S1-25: one connection serves call after call, of both eras.
#[tokio::test]
async fn a_connection_serves_many_calls() {
    let rig = Rig::start().await;
    let mut wire = rig.wire().await;
    for id in 0..5 {
        let message = modern_tool(id, "echo", json!({ "text": "hi" }));
        let headers = modern_headers(&message);
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(JSON);
        wire.request("POST", "/mcp", &headers, message.to_string().as_bytes()).await;
        assert_eq!(wire.answer().await.json()["id"], id);
        wire.request("POST", "/mcp", &[JSON], initialize(LEGACY).to_string().as_bytes()).await;
        assert_eq!(wire.answer().await.json()["result"]["protocolVersion"], LEGACY);
    }
}

/// S1-30, F35: a request that waits behind a stream on the same connection holds none of its events back.
#[tokio::test]
async fn events_flow_before_the_next_request() {
    let rig = Rig::start().await;
    let message = modern_tool(1, "steps", json!({}));
    let headers = modern_headers(&message);
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(JSON);
    let mut wire = rig.wire().await;
    wire.request("POST", "/mcp", &headers, message.to_string().as_bytes()).await;
    wire.request("POST", "/mcp", &[JSON], initialize(LEGACY).to_string().as_bytes()).await;
    let mut events = wire.events().await;
    assert_eq!(events.message().await["params"]["progress"], 1.0);
    rig.signals.go.notify_one();
    assert_eq!(events.message().await["params"]["progress"], 2.0);
    events.reply(1).await;
    events.ends().await;
    assert_eq!(events.wire.answer().await.json()["result"]["protocolVersion"], LEGACY);
}

/// S1-19, S1-21, T14, T20: bodies that are no message are refused with their own code, and without an id.
#[tokio::test]
async fn bodies_that_are_no_message_are_refused() {
    let rig = Rig::start().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let table: [(&[u8], i64); 10] = [
        (b"", code::PARSE),
        (b"{", code::PARSE),
        (b"\xff\xfe", code::PARSE),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}garbage", code::PARSE),
        (deep.as_bytes(), code::PARSE),
        (b"1", code::INVALID_REQUEST),
        (b"{}", code::INVALID_REQUEST),
        (b"[]", code::INVALID_REQUEST),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"method\":\"tools/list\"}",
            code::INVALID_REQUEST,
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":7}", code::INVALID_REQUEST),
    ];
    for (body, want) in table {
        let answer = rig.ask("POST", "/mcp", &[JSON, ("MCP-Protocol-Version", MODERN)], body).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]);
        assert_eq!(answer.fault(), (400, want), "{shown}");
    }
    let unmarked = tool_call(1, "echo", json!({ "text": "hi" }));
    let answer = rig.post(&[("MCP-Protocol-Version", MODERN)], &unmarked).await.answer().await;
    assert_eq!(answer.fault(), (400, code::INVALID_PARAMS));
}
