//! The legacy era: the handshake, sessions, batches, and what a POST gets back.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cardan_proto::era::Revision;
use cardan_proto::jsonrpc::fault::code;
use serde_json::{Value, json};

use crate::rig::{
    BATCHING, BOTH, JSON, LEGACY, Rig, STREAM, Step, call, cancel, initialize, note, said, tool_call,
};

/// The revisions that have Streamable HTTP and sessions.
const REVISIONS: [&str; 3] = [BATCHING, Revision::V2025_06_18.date(), LEGACY];

/// HTTP-1, HTTP-12, HTL-21, HTL-27: every legacy revision opens a session, which its later calls name; the
/// oldest has no revision header and is served without. Results have nothing of the modern era.
#[tokio::test]
async fn a_session_is_opened_and_used() {
    let rig = Rig::start().await;
    for date in REVISIONS {
        let session = rig.open(date).await;
        let reply = session.call(1, "echo", json!({ "text": "hi" })).await;
        assert_eq!(said(&reply), "hi");
        assert_eq!(reply["result"].get("resultType"), None, "{date}");
    }
}

/// HTL-31: on the call that opens, the body decides, whatever the header says.
#[tokio::test]
async fn the_body_of_initialize_decides() {
    let rig = Rig::start().await;
    let headers = [("MCP-Protocol-Version", LEGACY), ("Mcp-Method", "initialize")];
    let session = rig.initialize(BATCHING, &headers).await;
    assert_eq!(session.status().await, 200);
}

/// HTL-19, HTL-20, SEC-6: ids are visible ASCII, 128 bits, and no two alike.
#[tokio::test]
async fn session_ids_cannot_be_guessed() {
    let rig = Rig::start().await;
    let mut ids = BTreeSet::new();
    let mut differing = [0_u8; 16];
    let mut first = None;
    for _ in 0..64 {
        let id = rig.initialize(LEGACY, &[]).await.id;
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        let bytes = URL_SAFE_NO_PAD.decode(&id).unwrap();
        let first = first.get_or_insert_with(|| bytes.clone());
        for (seen, (one, other)) in differing.iter_mut().zip(bytes.iter().zip(first.iter())) {
            *seen |= one ^ other;
        }
        assert_eq!(bytes.len(), 16);
        assert!(ids.insert(id));
    }
    // Over 64 of them, every bit varies: none is a counter or a clock.
    assert_eq!(differing, [0xff; 16]);
}

/// HTL-22, HTL-23, HTL-28: without a session 400, with one that is not there 404, with a revision that is
/// none 400; and 404 comes before that.
#[tokio::test]
async fn sessions_and_revisions_are_judged_in_order() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let (version, unknown) = (("MCP-Protocol-Version", LEGACY), ("Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA"));
    let own = ("Mcp-Session-Id", session.id.as_str());
    let table: [(Vec<(&str, &str)>, u16); 10] = [
        (vec![version], 400),
        (vec![], 400),
        (vec![version, unknown], 404),
        (vec![unknown], 404),
        (vec![version, ("Mcp-Session-Id", "short")], 404),
        (vec![version, own, own], 404),
        (vec![own, ("MCP-Protocol-Version", "yesterday")], 400),
        (vec![own, version, version], 400),
        (vec![own, ("MCP-Protocol-Version", Revision::V2025_06_18.date())], 200),
        (vec![own], 200),
    ];
    for (headers, want) in table {
        let answer = rig.post(&headers, &call(1, "ping")).await.answer().await;
        assert_eq!(answer.status(), want, "{headers:?}");
    }
}

/// HTL-23, HTL-25, S0-52: DELETE ends a session and what runs in it, with a word to whoever waits; afterwards every method gets 404.
#[tokio::test]
async fn delete_ends_a_session() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let other = rig.open(LEGACY).await;
    let mut push = session.listening().await;
    let mut wire = session.post(&tool_call(1, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    let answer = session.delete().await;
    assert_eq!((answer.status(), answer.body.len()), (204, 0));
    rig.signals.expect(Step::Dropped).await;
    push.ends().await;
    let given_up = wire.answer().await;
    assert_eq!(given_up.status(), 200);
    assert_eq!(given_up.json()["error"]["data"]["mayHaveExecuted"], true);
    assert_eq!(session.status().await, 404);
    assert_eq!(session.tell(&note("notifications/initialized")).await.status(), 404);
    assert_eq!(session.send("GET", &[STREAM], b"").await.answer().await.status(), 404);
    assert_eq!(session.delete().await.status(), 404);
    assert_eq!(other.status().await, 200);
}

/// HTTP-10: notes and replies get 202 and no body, also replies to calls that nobody made.
#[tokio::test]
async fn notes_and_replies_are_accepted() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let reply = json!({ "jsonrpc": "2.0", "id": 77, "result": {} });
    for message in [note("notifications/anything"), cancel(12), reply] {
        let answer = session.tell(&message).await;
        assert_eq!((answer.status(), answer.body.len()), (202, 0), "{message}");
    }
}

/// HTTP-11, HTL-22: a reply or note of no session, or no message at all, gets an error status.
#[tokio::test]
async fn what_cannot_be_accepted_gets_an_error_status() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let reply = json!({ "jsonrpc": "2.0", "id": 77, "result": {} });
    assert_eq!(rig.post(&[], &reply).await.answer().await.status(), 400);
    assert_eq!(rig.post(&[], &note("notifications/initialized")).await.answer().await.status(), 400);
    let bad = json!({ "jsonrpc": "2.0", "method": "notifications/anything", "params": 7 });
    let answer = session.tell(&bad).await;
    assert_eq!(answer.fault(), (400, code::INVALID_REQUEST));
    assert!(answer.json()["id"].is_null());
}

/// HTTP-12: faults of legacy calls are ordinary answers with 200.
#[tokio::test]
async fn faults_are_answers() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let fault = async |message: &Value| session.post(message).await.answer().await.fault();
    assert_eq!(fault(&call(1, "no/such")).await, (200, code::METHOD_NOT_FOUND));
    assert_eq!(fault(&tool_call(2, "nothing", json!({}))).await, (200, code::INVALID_PARAMS));
    assert_eq!(fault(&tool_call(3, "panic", json!({}))).await, (200, code::INTERNAL));
}

/// HTTP-7, HTTP-12: the form is chosen by what is accepted, here too.
#[tokio::test]
async fn accept_chooses_the_form() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let echo = tool_call(1, "echo", json!({ "text": "hi" })).to_string();
    let wire = session.send("POST", &[JSON, STREAM], echo.as_bytes()).await;
    let mut events = wire.events().await;
    assert_eq!(said(&events.reply(1).await), "hi");
    events.ends().await;
    let steps = tool_call(2, "steps", json!({})).to_string();
    let mut wire = session.send("POST", &[JSON, ("Accept", "application/json")], steps.as_bytes()).await;
    rig.signals.expect(Step::Entered).await;
    rig.signals.go.notify_one();
    assert_eq!(said(&wire.answer().await.json()), "stepped");
    let answer = session.send("POST", &[JSON, ("Accept", "image/png")], echo.as_bytes()).await.answer().await;
    assert_eq!(answer.status(), 406);
}

/// HTL-8, S1-24: a dropped connection cancels nothing; the handler runs to its end.
#[tokio::test]
async fn going_away_is_not_a_cancel() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let wire = session.post(&tool_call(1, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    drop(wire);
    // The server has certainly noticed once it has served others.
    assert_eq!(session.status().await, 200);
    rig.signals.go.notify_one();
    rig.signals.expect(Step::Finished).await;
    let mut events = session.post(&tool_call(2, "steps", json!({}))).await.events().await;
    rig.signals.expect(Step::Entered).await;
    events.message().await;
    drop(events);
    assert_eq!(session.status().await, 200);
    rig.signals.go.notify_one();
    rig.signals.expect(Step::Finished).await;
}

/// HTL-9, S0-87: the cancel note stops the handler and ends its POST, whatever form that had taken.
#[tokio::test]
async fn a_cancel_note_ends_the_post() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let mut wire = session.post(&tool_call(1, "hold", json!({}))).await;
    rig.signals.expect(Step::Entered).await;
    assert_eq!(session.tell(&cancel(1)).await.status(), 202);
    rig.signals.expect(Step::Dropped).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status(), answer.body.len()), (202, 0));
    let mut events = session.post(&tool_call(2, "steps", json!({}))).await.events().await;
    rig.signals.expect(Step::Entered).await;
    events.message().await;
    assert_eq!(session.tell(&cancel(2)).await.status(), 202);
    rig.signals.expect(Step::Dropped).await;
    events.ends().await;
}

/// HTTP-14, HTTP-15, HTTP-16, HTL-3, S1-29: the notes of a call come on its own stream, which ends after the
/// reply.
#[tokio::test]
async fn notes_precede_the_reply_on_its_stream() {
    let rig = Rig::start().await;
    for date in REVISIONS {
        let session = rig.open(date).await;
        let mut push = session.listening().await;
        let mut events = session.post(&tool_call(5, "steps", json!({}))).await.events().await;
        assert_eq!(events.head.header("x-accel-buffering"), "no");
        assert_eq!(events.head.header("cache-control"), "no-cache, no-store, no-transform");
        assert_eq!(events.message().await["params"]["progress"], 1.0);
        rig.signals.go.notify_one();
        assert_eq!(events.message().await["params"]["progress"], 2.0);
        assert_eq!(said(&events.reply(5).await), "stepped");
        events.ends().await;
        session.delete().await;
        push.ends().await;
    }
}

/// HTL-12, HTL-14: a handler that asks calls on the lane of its own call; the answer is posted, gets 202, and
/// the reply follows on that lane. The push lane hears nothing of it.
#[tokio::test]
async fn an_ask_goes_out_on_the_lane_of_its_call() {
    let rig = Rig::start().await;
    for date in [Revision::V2025_06_18.date(), LEGACY] {
        let session = rig.open(date).await;
        let mut push = session.listening().await;
        let mut events = session.post(&tool_call(1, "ask", json!({}))).await.events().await;
        let ask = events.message().await;
        assert_eq!(ask["method"], "elicitation/create", "{ask}");
        let result = json!({ "action": "accept", "content": { "name": "Ada" } });
        let answer = session.tell(&json!({ "jsonrpc": "2.0", "id": ask["id"], "result": result })).await;
        assert_eq!((answer.status(), answer.body.len()), (202, 0));
        assert!(said(&events.reply(1).await).contains("Ada"));
        events.ends().await;
        session.delete().await;
        push.ends().await;
    }
}

/// HTTP-12, HTL-12: a call that takes its answer as JSON alone has no lane for what its handler asks: the ask
/// fails at once and says why. A push lane that is open carries it instead.
#[tokio::test]
async fn an_ask_without_a_lane_fails_at_once() {
    let rig = Rig::start().await;
    for date in [Revision::V2025_06_18.date(), LEGACY] {
        let session = rig.open(date).await;
        let only_json = [("Accept", "application/json"), JSON];
        let ask = |id| tool_call(id, "ask", json!({})).to_string();
        let answer = session.send("POST", &only_json, ask(1).as_bytes()).await.answer().await;
        let refused = answer.json().to_string();
        assert!(refused.contains("could not be asked") && refused.contains("push lane"), "{refused}");
        let mut push = session.listening().await;
        let mut waiting = session.send("POST", &only_json, ask(2).as_bytes()).await;
        let asked = push.message().await;
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let result = json!({ "action": "accept", "content": { "name": "Ada" } });
        let told = session.tell(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
        assert_eq!(told.status(), 202);
        assert!(said(&waiting.answer().await.json()).contains("Ada"));
        session.delete().await;
        push.ends().await;
    }
}

/// HTL-1, HTL-2: the one revision with batches: all of its calls are answered, in one array, and notes beside
/// them are taken.
#[tokio::test]
async fn a_batch_of_calls_is_answered_in_one() {
    let rig = Rig::start().await;
    let session = rig.open(BATCHING).await;
    let batch = json!([
        tool_call(1, "echo", json!({ "text": "one" })),
        note("notifications/anything"),
        tool_call(2, "echo", json!({ "text": "two" })),
    ]);
    let answer = session.post(&batch).await.answer().await;
    let Value::Array(replies) = answer.json() else { panic!("{answer:?}") };
    let told: BTreeSet<_> =
        replies.iter().map(|reply| (reply["id"].as_i64(), said(reply).to_owned())).collect();
    assert_eq!(told, BTreeSet::from([(Some(1), "one".to_owned()), (Some(2), "two".to_owned())]));
    rig.signals.expect(Step::Noted).await;
}

/// HTL-2: with something to tell before, the replies come on a stream, each one, and then it ends.
#[tokio::test]
async fn a_batch_that_takes_time_is_a_stream() {
    let rig = Rig::start().await;
    let session = rig.open(BATCHING).await;
    let batch = json!([tool_call(1, "steps", json!({})), tool_call(2, "echo", json!({ "text": "two" }))]);
    let mut events = session.post(&batch).await.events().await;
    assert_eq!(events.message().await["params"]["progress"], 1.0);
    rig.signals.go.notify_one();
    let mut ids = BTreeSet::new();
    while let Some(event) = events.event().await {
        match serde_json::from_slice(&event.data).unwrap() {
            Value::Array(replies) => ids.extend(replies.iter().map(|reply| reply["id"].as_i64())),
            one => ids.extend(one.get("id").map(Value::as_i64)),
        }
    }
    assert_eq!(ids, BTreeSet::from([Some(1), Some(2)]));
}

/// HTL-1, HTTP-10: a batch of notes, or of replies, gets 202.
#[tokio::test]
async fn a_batch_without_calls_is_accepted() {
    let rig = Rig::start().await;
    let session = rig.open(BATCHING).await;
    let reply = json!({ "jsonrpc": "2.0", "id": 77, "result": {} });
    for batch in [json!([note("notifications/anything")]), json!([reply, reply])] {
        let answer = session.tell(&batch).await;
        assert_eq!((answer.status(), answer.body.len()), (202, 0), "{batch}");
    }
    rig.signals.expect(Step::Noted).await;
}

/// HTTP-8: where there are no batches, one gets 400, whether the header or the session tells the revision.
#[tokio::test]
async fn batches_are_of_one_revision() {
    let rig = Rig::start().await;
    for date in [Revision::V2025_06_18.date(), LEGACY] {
        let session = rig.open(date).await;
        for batch in [json!([call(1, "ping")]), json!([note("notifications/anything")])] {
            let told = session.post(&batch).await.answer().await;
            assert_eq!(told.fault(), (400, code::INVALID_REQUEST), "{date} {batch}");
            let headers = [BOTH, JSON, ("Mcp-Session-Id", session.id.as_str())];
            let untold = rig.ask("POST", "/mcp", &headers, batch.to_string().as_bytes()).await;
            assert_eq!(untold.fault(), (400, code::INVALID_REQUEST), "{date} {batch}, without the header");
        }
    }
    assert_eq!(rig.signals.unseen(), None);
    let answer = rig.post(&[], &json!([initialize(BATCHING)])).await.answer().await;
    assert_eq!(answer.status(), 400);
}

/// T10, HTL-30, SEC-6, HTTP-5: every request is judged by its token, and a session serves nobody but the one who
/// opened it: not others who know its id, not for reading, not for ending.
#[tokio::test]
async fn a_session_belongs_to_its_principal() {
    let rig = Rig::guarded().await;
    let ada = rig.initialize(LEGACY, &[("Authorization", "Bearer ada")]).await;
    assert_eq!(ada.status().await, 200);
    let named = ("Mcp-Session-Id", ada.id.as_str());
    for (authorization, want) in
        [("Bearer bob", 404), ("Bearer nobody", 401), ("Bearer guest", 403), ("Basic ada", 401)]
    {
        let headers = [named, ("Authorization", authorization)];
        assert_eq!(rig.post(&headers, &call(1, "ping")).await.answer().await.status(), want);
        for method in ["GET", "DELETE"] {
            let headers = [named, ("Authorization", authorization), STREAM];
            let answer = rig.ask(method, "/mcp", &headers, b"").await;
            assert_eq!(answer.status(), want, "{method} {authorization}");
        }
    }
    // Whose it is, or whether it is at all, is not told.
    let bob = ("Authorization", "Bearer bob");
    let other = rig.post(&[named, bob], &call(1, "ping")).await.answer().await;
    let unknown = [("Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA"), bob];
    let unknown = rig.post(&unknown, &call(1, "ping")).await.answer().await;
    assert_eq!((other.status(), &other.body), (unknown.status(), &unknown.body));
    let answer = rig.post(&[named], &call(1, "ping")).await.answer().await;
    assert_eq!(answer.status(), 401);
    assert!(answer.header("www-authenticate").contains("resource_metadata=\"https://auth.example/meta\""));
    assert_eq!(ada.status().await, 200);
}

/// HTL-11, HTL-10, S1-26, S1-C10: methods that the endpoint has not get 405 and the list of those it has; so do
/// GET and DELETE that name no session. A GET must accept events.
#[tokio::test]
async fn methods_are_judged() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    for method in ["PUT", "PATCH", "OPTIONS", "HEAD", "GET", "DELETE"] {
        let head = rig.send(method, "/mcp", &[STREAM], b"").await.head().await;
        assert_eq!((head.status, head.header("allow")), (405, "GET, POST, DELETE"), "{method}");
    }
    let answer = session.send("GET", &[("Accept", "application/json")], b"").await.answer().await;
    assert_eq!(answer.status(), 406);
    let answer = rig.ask("GET", "/mcp", &[STREAM, ("Mcp-Session-Id", "a b")], b"").await;
    assert_eq!(answer.status(), 400);
}
