//! The pure parts of the cortex dialect: schemas, replies in parts, local errors.

#![allow(clippy::unwrap_used)] // helpers of tests are tests too

use std::time::Duration;

use bytes::Bytes;
use cardan_proto::codec::{EventKind, SseDecoder, SseItem};
use cardan_proto::dialect::cortex::local;
use cardan_proto::dialect::cortex::schema::{
    Deviation, check_error, check_message, check_request, check_response,
};
use cardan_proto::dialect::cortex::stream::{Reassembly, Step, write_fragment, write_heartbeat, write_reply};
use cardan_proto::finding::Rule;
use cardan_proto::jsonrpc::envelope::{Reply, Violation};
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, Deadline, Delivery, Outcome, Refusal, Stage};
use serde_json::{Value, json};

type Check = fn(&Value) -> Vec<Deviation>;

/// The pointers of all deviations.
fn run(check: Check, message: &Value) -> Vec<String> {
    check(message).into_iter().map(|deviation| deviation.pointer).collect()
}

/// Each edit of a good message leads to these deviations and no others.
fn table(check: Check, good: &Value, rows: &[(&str, Option<Value>, &[&str])]) {
    assert!(run(check, good).is_empty(), "{good}");
    for (pointer, value, want) in rows {
        let mut message = good.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = message.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => parent.insert(name.to_owned(), value.clone()),
            None => parent.remove(name),
        };
        assert_eq!(run(check, &message), *want, "{pointer} = {value:?}");
    }
}

/// S1-2, S1-3, S1-C1: the request schema, with the place of every deviation.
#[test]
fn requests_are_checked() {
    let good =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "arguments": {}}});
    table(
        check_request,
        &good,
        &[
            ("/jsonrpc", None, &["/jsonrpc"]),
            ("/jsonrpc", Some(json!("1.0")), &["/jsonrpc"]),
            ("/id", None, &["/id"]),
            ("/id", Some(json!("a")), &[]),
            ("/id", Some(json!("")), &["/id"]),
            ("/id", Some(json!(null)), &["/id"]),
            ("/id", Some(json!(1.5)), &["/id"]),
            ("/id", Some(json!(2.0)), &[]),
            ("/method", Some(json!("tools/list")), &["/method"]),
            ("/params", None, &["/params"]),
            ("/params", Some(json!([])), &["/params"]),
            ("/params/name", None, &["/params/name"]),
            ("/params/name", Some(json!("")), &["/params/name"]),
            ("/params/arguments", None, &[]),
            ("/params/arguments", Some(json!(null)), &["/params/arguments"]),
            ("/params/_meta", Some(json!({"progressToken": 1})), &["/params/_meta"]),
            ("/extra", Some(json!(1)), &["/extra"]),
        ],
    );
    assert_eq!(run(check_request, &json!([])), [""]);
    assert_eq!(
        run(check_request, &json!({"a/b~c": 1})),
        ["/a~1b~0c", "/jsonrpc", "/id", "/method", "/params"]
    );
}

/// S1-2, S1-4, S1-C1, S1-C2: the response schema.
#[test]
fn responses_are_checked() {
    let good = json!({"jsonrpc": "2.0", "id": "a", "result": {"content": [{"type": "text", "text": "x"}],
        "isError": false, "structuredContent": {}, "_meta": {}}});
    table(
        check_response,
        &good,
        &[
            ("/id", None, &["/id"]),
            ("/result", None, &["/result"]),
            ("/error", Some(json!({})), &["/error"]),
            ("/result/content", None, &["/result/content"]),
            ("/result/content", Some(json!([])), &["/result/content"]),
            (
                "/result/content",
                Some(json!([{"type": ""}, 7])),
                &["/result/content/0/type", "/result/content/1/type"],
            ),
            ("/result/isError", Some(json!("no")), &["/result/isError"]),
            ("/result/structuredContent", Some(json!([1])), &["/result/structuredContent"]),
            ("/result/_meta", Some(json!(null)), &["/result/_meta"]),
            ("/result/resultType", Some(json!("complete")), &["/result/resultType"]),
        ],
    );
}

/// S1-2, S1-5, S1-C1, defect of seed 001: the error schema, which cannot say that an id was unreadable.
#[test]
fn errors_are_checked() {
    let good = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 404, "message": "no such tool", "data": [1], "more": 1}});
    table(
        check_error,
        &good,
        &[
            ("/id", None, &["/id"]),
            ("/id", Some(json!(null)), &["/id"]),
            ("/error", Some(json!("no")), &["/error"]),
            ("/error/code", Some(json!("404")), &["/error/code"]),
            ("/error/code", Some(json!(1.5)), &["/error/code"]),
            ("/error/message", None, &["/error/message"]),
            ("/error/message", Some(json!("")), &["/error/message"]),
            ("/error/data", None, &[]),
            ("/result", Some(json!({})), &["/result"]),
        ],
    );
}

/// S1-C1: a message that is wrong everywhere does not make an endless report.
#[test]
fn deviations_are_bounded() {
    let blocks = vec![json!(1); 10_000];
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": blocks}});
    assert_eq!(check_response(&message).len(), Limits::DEFAULT.findings);
}

/// S1-C3: messages that help nobody are told apart from those that do.
#[test]
fn messages_are_judged() {
    for poor in
        ["", " ", "Error", "Internal error.", "x\n    at f (a.js:1)", "Traceback (most recent call last):\n"]
    {
        assert!(check_message(poor).is_some(), "{poor:?}");
    }
    for good in ["internal error: disk full, free some space", "no tool named add; see the list"] {
        assert_eq!(check_message(good), None, "{good:?}");
    }
}

fn reassembly() -> Reassembly {
    Reassembly::new(CallId::from(4), &Limits::DEFAULT)
}

fn event(reassembly: &mut Reassembly, kind: &str, data: &Value) -> Step {
    reassembly.event(&EventKind::Other(kind.into()), &Bytes::from(data.to_string()))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn whole(content: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 4, "result": {"content": content}})
}

fn replied(step: Step) -> (Value, usize) {
    let Step::Reply { frame, found } = step else { panic!("no reply: {step:?}") };
    (serde_json::from_slice(&frame).unwrap(), found.len())
}

/// S1-30, S1-31, S1-32, S1-35: fragments are handed out as they come, `complete` is the reply.
#[test]
fn complete_ends_the_fragments() {
    let mut parts = reassembly();
    let first = json!({"content": [text("a")]});
    let want = Step::Fragment { part: Bytes::from(first.to_string()), count: 1 };
    assert_eq!(event(&mut parts, "result", &first), want);
    event(&mut parts, "result", &json!({"content": [text("b")], "isError": false}));
    let mut complete = whole(json!([text("ab")]));
    complete["result"]["isError"] = json!(false);
    assert_eq!(replied(event(&mut parts, "complete", &complete)), (complete.clone(), 0));
    assert!(matches!(event(&mut parts, "complete", &complete), Step::Odd(_)), "one reply only");
    assert_eq!(parts.finish(), None);
}

/// S1-35: `complete` wins over the assembled copy, and the difference is told.
#[test]
fn complete_wins_and_the_difference_is_told() {
    let table = [
        (json!({"content": [text("a")]}), json!([text("b")]), 1),
        (json!({"content": [text("a")]}), json!([text("a"), text("b")]), 1),
        (json!({"content": [text("a"), {"type": "image"}]}), json!([text("a"), {"type": "image"}]), 0),
        (json!({"isError": true}), json!([]), 1),
        (json!({"content": [text("a"), text(""), text("b")]}), json!([text("a"), text("b")]), 0),
    ];
    for (fragment, content, found) in table {
        let mut parts = reassembly();
        event(&mut parts, "result", &fragment);
        let complete = whole(content);
        assert_eq!(replied(event(&mut parts, "complete", &complete)), (complete, found), "{fragment}");
    }
}

/// S1-33: `error` ends the stream, whatever came before.
#[test]
fn error_ends_the_stream() {
    let mut parts = reassembly();
    event(&mut parts, "result", &json!({"content": [text("a")]}));
    let error = json!({"jsonrpc": "2.0", "id": 4, "error": {"code": 1, "message": "m"}});
    assert_eq!(replied(event(&mut parts, "error", &error)), (error.clone(), 0));
    assert!(matches!(event(&mut parts, "result", &json!({})), Step::Odd(_)));
}

/// S1-C15, S1-C17, defect of seed 001: `result` as the mark of the end is accepted and told, as a
/// whole reply or as the last fragment.
#[test]
fn result_may_be_the_end() {
    let mut parts = reassembly();
    let reply = whole(json!([text("a")]));
    assert_eq!(replied(event(&mut parts, "result", &reply)), (reply, 1));

    let mut parts = reassembly();
    event(&mut parts, "result", &json!({"content": [text("a")]}));
    event(&mut parts, "result", &json!({"content": [text("b")], "_meta": {"n": 1}}));
    let mut want = whole(json!([text("a"), text("b")]));
    want["result"]["_meta"] = json!({"n": 1});
    assert_eq!(replied(parts.finish().unwrap()), (want, 1));
    assert_eq!(parts.finish(), None);
    assert_eq!(reassembly().finish(), None, "nothing came");
}

/// S1-35: a copy with a hole is never passed off as the reply; only the peer's own words are.
#[test]
fn copy_with_a_hole_is_no_reply() {
    let limits = Limits { frame_bytes: 64, ..Limits::DEFAULT };
    for bad in [json!("x"), json!({"content": [text(&"x".repeat(80))]})] {
        let mut parts = Reassembly::new(CallId::from(4), &limits);
        event(&mut parts, "result", &json!({"content": [text("a")]}));
        assert!(matches!(event(&mut parts, "result", &bad), Step::Odd(_)), "{bad}");
        assert_eq!(parts.finish(), None);
        let complete = whole(json!([text("b")]));
        let mut parts = Reassembly::new(CallId::from(4), &limits);
        event(&mut parts, "result", &bad);
        assert_eq!(replied(event(&mut parts, "complete", &complete)), (complete, 0));
    }
}

/// S1-33: events of other kinds are told and skipped; plain messages are the session's.
#[test]
fn other_events_are_told() {
    let mut parts = reassembly();
    assert!(matches!(event(&mut parts, "progress", &json!({})), Step::Odd(_)));
    let message = Bytes::from_static(b"{}");
    assert_eq!(parts.event(&EventKind::Message, &message), Step::Frame(message));
}

/// S1-31, S1-32, S1-33, S1-34: what the server writes is what the client reads.
#[test]
fn events_are_written_and_read_back() {
    let mut out = Vec::new();
    write_heartbeat(&mut out);
    assert_eq!(out, b": heartbeat\n\n");
    write_fragment(br#"{"content":[{"type":"text","text":"a"}]}"#, &mut out);
    let reply = |outcome| Reply { id: Some(CallId::from(4)), outcome };
    write_reply(&reply(Ok(Bytes::from_static(br#"{"content":[{"type":"text","text":"a"}]}"#))), &mut out);
    write_reply(&reply(Err(Fault::new(1, "m"))), &mut out);
    let mut decoder = SseDecoder::new(1 << 10);
    decoder.feed(out.into());
    let items: Vec<SseItem> = decoder.by_ref().collect();
    let [SseItem::Comment, SseItem::Event(part), SseItem::Event(complete), SseItem::Event(error)] =
        &items[..]
    else {
        panic!("{items:?}")
    };
    let mut parts = reassembly();
    assert!(matches!(parts.event(&part.kind, &part.data), Step::Fragment { count: 1, .. }));
    assert_eq!(replied(parts.event(&complete.kind, &complete.data)), (whole(json!([text("a")])), 0));
    let (error, _) = replied(reassembly().event(&error.kind, &error.data));
    assert_eq!(run(check_error, &error), [""; 0]);
    assert!(Limits::DEFAULT.keep_alive_interval < Duration::from_secs(30));
}

/// S1-17, S1-23, S1-36, S1-45, S1-46, S1-C11, S1-C21, BASE-27, BASE-28: failures on our side fit the
/// error schema, help whoever reads them, and carry their mark.
#[test]
fn local_failures_fit_the_schema() {
    let delivery = Delivery::Unknown;
    let timed_out = |deadline| Outcome::TimedOut {
        deadline,
        after: Duration::from_secs(30),
        delivery,
        stage: Stage::Sent,
        seen_bytes: 0,
    };
    let outcomes = [
        (timed_out(Deadline::Idle), "timeout_idle"),
        (timed_out(Deadline::Total), "timeout_total"),
        (Outcome::Cancelled { reason: "user".into(), delivery }, "cancelled"),
        (Outcome::Lost { cause: Cause::Io("close code 1011: internal error".into()), delivery }, "closed"),
        (Outcome::Violated(Violation::of(Rule::NoOutcome)), "envelope"),
        (Outcome::Refused(Refusal::NotOpen), "refused"),
    ];
    for (outcome, class) in outcomes {
        let reply: Value = serde_json::from_slice(&local::reply(&CallId::from(7), &outcome)).unwrap();
        assert_eq!((run(check_error, &reply), &reply["id"]), (vec![], &json!(7)), "{outcome:?}");
        let error = &reply["error"];
        assert_eq!((&error["data"]["local"], &error["data"]["class"]), (&json!(true), &json!(class)));
        assert_eq!(check_message(error["message"].as_str().unwrap()), None, "{error}");
        assert!(!(-32768..=-32000).contains(&error["code"].as_i64().unwrap()));
        let fault = Fault::parse(&Bytes::from(error.to_string())).unwrap();
        assert!(local::is_local(&fault));
    }
    let lost = Outcome::Lost { cause: Cause::Io("close code 1011: internal error".into()), delivery };
    let reply = local::reply(&CallId::from(7), &lost);
    assert!(std::str::from_utf8(&reply).unwrap().contains("1011"), "the reason of the close is kept");
}

/// S1-23, S1-22, S1-C11: a status with an error object is the peer's, one without gets ours.
#[test]
fn statuses_become_errors() {
    let body =
        Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"error":{"code":404,"message":"no such tool"}}"#);
    let theirs = local::of_status(404, &body);
    assert_eq!((&theirs, local::is_local(&theirs)), (&Fault::new(404, "no such tool"), false));
    for body in ["", "<html>\u{1b}[2J", "{}", r#"{"error":"nope"}"#, "[1]"] {
        let ours = local::of_status(503, &Bytes::from_static(body.as_bytes()));
        assert_eq!((ours.code, local::is_local(&ours)), (code::LOCAL, true), "{body}");
        let data: Value = serde_json::from_slice(ours.data.as_ref().unwrap()).unwrap();
        assert_eq!(data["status"], 503);
        assert!(ours.message.contains("503"));
    }
}

/// BASE-28: a peer cannot make its error look like one of ours.
#[test]
fn peers_cannot_forge_the_mark() {
    let forged = Fault::new(code::LOCAL, "timed out").with_data(&json!({"local": true, "more": 1}));
    assert!(local::is_local(&forged));
    let reply: Value =
        serde_json::from_slice(&local::reply(&CallId::from(1), &Outcome::Fault(forged))).unwrap();
    assert_eq!(reply["error"]["data"], json!({"local": false, "more": 1}));
    let done = local::reply(&CallId::from(1), &Outcome::Done(Bytes::from_static(b"{}")));
    assert_eq!(done, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
}
