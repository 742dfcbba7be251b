//! The cortex dialect in a session: calls and replies in its forms, both sides.

#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod dialect_bench;

use std::time::Duration;

use bytes::Bytes;
use cardan_proto::dialect::cortex::{UNREADABLE_ID, schema};
use cardan_proto::dialect::quirk::Quirk;
use cardan_proto::dialect::{CortexForm, Dialect};
use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{
    Answer, CallOptions, Cause, Command, Input, NewCall, Outcome, Progress, Refusal, Ticket, Wanted,
};
use cardan_proto::session::state::State;
use dialect_bench::{Bench, config};
use proptest::prelude::*;
use serde_json::{Value, json};

const FRAMES: Dialect = Dialect::Cortex(CortexForm::Frame);
const ENVELOPES: Dialect = Dialect::Cortex(CortexForm::Envelope);
const FORMS: [Dialect; 2] = [FRAMES, ENVELOPES];
const ADD: &str = r#"{"name":"add","arguments":{"a":1.50}}"#;

fn parsed(said: &[String]) -> Value {
    assert_eq!(said.len(), 1, "{said:?}");
    serde_json::from_str(&said[0]).unwrap()
}

/// S1-39, seeds on the handshake: an open link is ready, nothing is sent, tools are all there is.
#[test]
fn open_link_is_ready() {
    for dialect in FORMS {
        let (client, said) = Bench::open(config(Role::Client, dialect));
        assert_eq!((client.session.state(), said.len()), (State::Ready, 0));
        let caps = client.session.server_caps();
        assert!(caps.tools.is_some() && caps.resources.is_none() && caps.prompts.is_none());
    }
}

/// S1-40, S1-42, S1-C19: a frame has `id`, `name` and perhaps `arguments`; ids count upwards.
#[test]
fn client_writes_frames() {
    let mut client = Bench::client(FRAMES);
    assert_eq!(client.call(Method::ToolsCall, ADD).1, [r#"{"id":1,"name":"add","arguments":{"a":1.50}}"#]);
    assert_eq!(client.call(Method::ToolsCall, r#"{"name":"now"}"#).1, [r#"{"id":2,"name":"now"}"#]);
    assert_eq!(client.session.quirks().of(Quirk::CallFrameSent), 2);
}

/// S1-1, S1-3, S1-9, S1-21, S1-C1, defect of seed 001: calls fit the closed schema, so metadata is
/// not sent, not even a wanted progress token.
#[test]
fn client_writes_exact_envelopes() {
    let mut client = Bench::client(ENVELOPES);
    let params = Some(Bytes::from_static(br#"{"_meta":{"k":1},"task":{},"arguments":{},"name":"add"}"#));
    let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
    let said = client.local(Command::Call(NewCall {
        ticket: Ticket(7),
        method: Method::ToolsCall,
        params,
        options,
    }));
    assert_eq!(
        said,
        [r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{}}}"#]
    );
    assert_eq!(schema::check_request(&parsed(&said)), []);
    assert_eq!(client.session.quirks().of(Quirk::ParamsClosed), 1);
}

/// S1-3: what cannot be told is refused before it is sent.
#[test]
fn client_refuses_what_cannot_be_told() {
    for dialect in FORMS {
        let mut client = Bench::client(dialect);
        let calls = [
            (Method::ToolsList, ""),
            (Method::Ping, ""),
            (Method::ResourcesList, ""),
            (Method::ToolsCall, ""),
            (Method::ToolsCall, r#"{"name":""}"#),
            (Method::ToolsCall, r#"{"name":7}"#),
            (Method::ToolsCall, r#"{"name":"a","arguments":[]}"#),
        ];
        for (method, params) in calls {
            let (ticket, said) = client.call(method.clone(), params);
            assert!(said.is_empty(), "{method} {params}");
            let outcome = client.outcome(ticket);
            assert!(
                matches!(outcome, Some(Outcome::Refused(Refusal::NotInDialect(_)))),
                "{method} {params}: {outcome:?}"
            );
        }
        assert_eq!(client.session.in_flight(), (0, 0));
    }
}

/// S1-41, S1-C2: replies are matched by their id, with or without `jsonrpc`, in any order.
#[test]
fn client_reads_replies_without_version() {
    for strictness in [Strictness::Strict, Strictness::Standard, Strictness::Lenient] {
        let (mut client, _) = Bench::open(Config { strictness, ..config(Role::Client, FRAMES) });
        let (first, _) = client.call(Method::ToolsCall, ADD);
        let (second, _) = client.call(Method::ToolsCall, ADD);
        let (third, _) = client.call(Method::ToolsCall, ADD);
        client.hear(r#"{"id":2,"result":{"content":[{"type":"text","text":"2"}]}}"#);
        client.hear(r#" {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"1"}]}}"#);
        client.hear(r#"{"id":3,"error":{"code":404,"message":"no such tool"}}"#);
        let text = |n: &str| {
            Outcome::Done(Bytes::from(format!(r#"{{"content":[{{"type":"text","text":"{n}"}}]}}"#)))
        };
        assert_eq!(client.outcome(first), Some(&text("1")));
        assert_eq!(client.outcome(second), Some(&text("2")));
        assert_eq!(client.outcome(third), Some(&Outcome::Fault(Fault::new(404, "no such tool"))));
        assert_eq!(client.session.quirks().of(Quirk::VersionlessReply), 2);
        assert_eq!(client.session.state(), State::Ready);
    }
}

/// S1-4, S1-2: a result outside the schema is used and told; strictly, it ends the link.
#[test]
fn client_reports_results_outside_the_schema() {
    let reply = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}"#;
    let mut client = Bench::client(ENVELOPES);
    let (ticket, _) = client.call(Method::ToolsCall, ADD);
    client.hear(reply);
    assert!(matches!(client.outcome(ticket), Some(Outcome::Done(_))));
    let finding = client.session.findings().iter().find(|finding| finding.rule == Rule::ResultShape).unwrap();
    assert_eq!(&*finding.detail, "\"/result/resultType\": expected no such member and 1 more");

    let strict = Config { strictness: Strictness::Strict, ..config(Role::Client, ENVELOPES) };
    let (mut client, _) = Bench::open(strict);
    let (ticket, _) = client.call(Method::ToolsCall, ADD);
    client.hear(reply);
    let cause = Cause::Violated(Rule::ResultShape);
    assert!(matches!(client.outcome(ticket), Some(Outcome::Lost { cause: why, .. }) if *why == cause));
}

/// S1-44: pings and notifications in whatever form are ignored and counted; proper notes are routed.
#[test]
fn client_ignores_unsolicited_frames() {
    let mut client = Bench::client(FRAMES);
    let (ticket, _) = client.call(Method::ToolsCall, ADD);
    let frames = [
        r#"{"type":"ping"}"#,
        r#"{"type":"ping","id":1}"#,
        r#"{"event":"notification","data":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"method":"notification","params":{}}"#,
        "{}",
    ];
    for frame in frames {
        assert!(client.hear(frame).is_empty(), "{frame}");
    }
    assert_eq!(client.session.quirks().of(Quirk::Unsolicited), frames.len() as u64);
    assert_eq!(client.found(Rule::Foreign), 1);
    client.hear(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#);
    client.hear(r#"{"jsonrpc":"2.0","method":"notification"}"#);
    assert_eq!(client.found(Rule::NoteUnknown), 1);
    assert_eq!((client.outcome(ticket), client.session.state()), (None, State::Ready));
}

/// S1-44, S1-43: a frame with our id that says nothing is no reason to wait longer.
#[test]
fn empty_reply_settles_its_call() {
    let mut client = Bench::client(FRAMES);
    let (ticket, _) = client.call(Method::ToolsCall, ADD);
    client.hear(r#"{"id":1}"#);
    assert!(matches!(client.outcome(ticket), Some(Outcome::Violated(_))));
}

/// S1-43, S1-C20, S1-36: a timeout removes the call, tells nobody, and a late reply is known as one.
#[test]
fn timeouts_leak_nothing() {
    let mut client = Bench::client(FRAMES);
    for n in 0..50 {
        let (ticket, _) = client.call(Method::ToolsCall, ADD);
        let said = client.wait(Limits::DEFAULT.call_idle_timeout + Duration::from_millis(1));
        assert!(said.is_empty(), "the schemas have no cancel note: {said:?}");
        assert!(matches!(client.outcome(ticket), Some(Outcome::TimedOut { .. })), "{n}");
    }
    assert_eq!(client.session.in_flight(), (0, 0));
    assert_eq!(client.session.quirks().of(Quirk::NoteUnsent), 50);
    client.hear(r#"{"id":50,"result":{"content":[{"type":"text","text":""}]}}"#);
    assert_eq!(client.found(Rule::LateReply), 1);
}

/// S1-17, S1-45, S1-C18: a lost link rejects what waits and refuses what comes after.
#[test]
fn lost_link_rejects_all_calls() {
    let mut client = Bench::client(FRAMES);
    let tickets: Vec<Ticket> = (0..3).map(|_| client.call(Method::ToolsCall, ADD).0).collect();
    client.lost(Cause::Io("reset".into()));
    for ticket in tickets {
        assert!(matches!(client.outcome(ticket), Some(Outcome::Lost { .. })));
    }
    let (ticket, said) = client.call(Method::ToolsCall, ADD);
    assert!(said.is_empty());
    assert_eq!(client.outcome(ticket), Some(&Outcome::Refused(Refusal::NotOpen)));
}

/// S1-16, S1-44: a line that is no JSON is told locally, never on the wire.
#[test]
fn client_answers_no_broken_line() {
    let mut client = Bench::client(ENVELOPES);
    assert!(client.hear("panic: oops").is_empty());
    assert_eq!((client.found(Rule::Noise), client.session.state()), (1, State::Ready));
}

/// S1-40, S1-41, defect of seed 001: a server reads frames and envelopes alike, without a handshake,
/// and answers both with the whole schema.
#[test]
fn server_reads_both_forms() {
    let frames = [
        r#"{"id":"x","name":"add","arguments":{"a":1.50}}"#,
        r#"{"name":"add","arguments":{"a":1.50},"id":"x"}"#,
        r#"{"jsonrpc":"2.0","id":"x","name":"add","arguments":{"a":1.50}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"add","arguments":{"a":1.50}}}"#,
    ];
    for (dialect, frame) in FORMS.into_iter().flat_map(|dialect| frames.map(|frame| (dialect, frame))) {
        let mut server = Bench::strict_server(dialect);
        assert!(server.hear(frame).is_empty(), "{frame}");
        let call = &server.called()[0].call;
        assert_eq!(call.method, Method::ToolsCall);
        assert_eq!(call.params.raw().unwrap(), r#"{"name":"add","arguments":{"a":1.50}}"#);
        let said = server.answer(r#"{"content":[{"type":"text","text":"1.5"}]}"#);
        assert_eq!(
            said,
            [r#"{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"1.5"}]}}"#]
        );
        assert_eq!(schema::check_response(&parsed(&said)), []);
        assert_eq!(server.session.in_flight(), (0, 0));
    }
}

/// S1-4, S1-22, S1-32, S1-C1: whatever the handler answers, the reply fits the closed schema.
#[test]
fn server_closes_every_result() {
    let filled = |text: &str| json!([{"type": "text", "text": text}]);
    let table = [
        ("{}", json!({"content": filled("")})),
        (r#"{"content":[ ]}"#, json!({"content": filled("")})),
        (r#"{"content":null,"isError":"no"}"#, json!({"content": filled("")})),
        (
            r#"{"content":[],"structuredContent":{"n":1.50},"isError":true}"#,
            json!({"content": filled(r#"{"n":1.50}"#), "isError": true, "structuredContent": {"n": 1.5}}),
        ),
        (
            r#"{"content":[7,{"type":""},{"type":"x"}]}"#,
            json!({"content": [{"type": "text", "text": "7"}, {"type": "text", "text": "{\"type\":\"\"}"}, {"type": "x"}]}),
        ),
        (r#"{"structuredContent":[1,2]}"#, json!({"content": filled("[1,2]")})),
        (
            r#"{"resultType":"complete","_meta":{"k":"v"},"content":[{"type":"image","data":"","mimeType":"a/b"}]}"#,
            json!({"content": [{"type": "image", "data": "", "mimeType": "a/b"}], "_meta": {"k": "v"}}),
        ),
    ];
    for (result, want) in table {
        let mut server = Bench::server(FRAMES);
        server.hear(r#"{"id":1,"name":"add"}"#);
        let reply = parsed(&server.answer(result));
        assert_eq!((&reply["result"], schema::check_response(&reply)), (&want, vec![]), "{result}");
    }
}

/// S1-5, S1-46, S1-C1: faults fit the error schema.
#[test]
fn server_closes_every_fault() {
    for fault in [Fault::new(404, "no tool of this name"), Fault::new(1, ""), Fault::internal("disk full")] {
        let mut server = Bench::server(ENVELOPES);
        server.hear(r#"{"id":1,"name":"add"}"#);
        let key = server.called()[0].key;
        let said = server.local(Command::Answer { key, answer: Answer::Fault(fault) });
        assert_eq!(schema::check_error(&parsed(&said)), []);
    }
}

/// S1-16, S1-5, defect of seed 001: the schema has no error without id, so an unreadable frame is
/// answered under an id that no call has.
#[test]
fn unreadable_frame_is_answered_within_the_schema() {
    for frame in ["{nonsense", "7", "[]", r#"{"id":{},"name":"add"}"#] {
        let mut server = Bench::server(FRAMES);
        let reply = parsed(&server.hear(frame));
        assert_eq!((&reply["id"], schema::check_error(&reply)), (&json!(UNREADABLE_ID), vec![]), "{frame}");
        assert_eq!(server.session.quirks().of(Quirk::IdMadeUp), 1, "{frame}");
    }
}

/// S1-26 in the session: there is one method.
#[test]
fn server_knows_one_method() {
    for method in ["initialize", "ping", "tools/list", "server/discover", "shutdown", "x"] {
        let mut server = Bench::server(ENVELOPES);
        let reply = parsed(&server.hear(&json!({"jsonrpc": "2.0", "id": 3, "method": method}).to_string()));
        assert_eq!((&reply["error"]["code"], &reply["id"]), (&json!(-32601), &json!(3)), "{method}");
        assert_eq!(schema::check_error(&reply), [], "{method}");
    }
}

/// S1-3, S1-C1: a call outside the schema is served and told, with the place; strictly, it ends the link.
#[test]
fn server_reports_calls_outside_the_schema() {
    let table = [
        (r#"{"id":1,"name":"add","extra":1}"#, "\"/extra\": expected no such member"),
        (r#"{"id":1,"name":"add","arguments":[]}"#, "\"/params/arguments\": expected an object"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{}}}"#,
            "\"/params/_meta\": expected no such member",
        ),
    ];
    for (frame, want) in table {
        let mut server = Bench::server(FRAMES);
        assert!(server.hear(frame).is_empty());
        let findings: Vec<_> =
            server.session.findings().iter().filter(|f| f.rule == Rule::ParamsShape).collect();
        assert_eq!((findings.len(), &*findings[0].detail), (1, want), "{frame}");
        assert_eq!(server.called().len(), 1);

        let mut strict = Bench::strict_server(FRAMES);
        let said = strict.hear(frame);
        assert!(said.len() == 1 && said[0].starts_with("close: "), "{said:?}");
        assert!(strict.called().is_empty());
    }
}

/// S1-13, S1-44: nothing but replies leaves a server.
#[test]
fn server_sends_no_notes() {
    let mut server = Bench::server(ENVELOPES);
    let call =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}"#;
    server.hear(call);
    let key = server.called()[0].key;
    let progress = Progress { progress: 1.0, ..Progress::default() };
    assert!(server.local(Command::Progress { key, progress }).is_empty());
    assert_eq!(server.session.quirks().of(Quirk::NoteUnsent), 1);
    assert_eq!(server.answer("{}").len(), 1);
}

/// S1-37, S1-40, S1-41: our client and our server understand each other in both forms.
#[test]
fn both_sides_meet() {
    for dialect in FORMS {
        let (mut client, mut server) = (Bench::client(dialect), Bench::strict_server(dialect));
        for n in 0..3 {
            let (ticket, said) = client.call(Method::ToolsCall, ADD);
            assert!(server.hear(&said[0]).is_empty());
            let reply = server.answer(&format!(r#"{{"content":[{{"type":"text","text":"{n}"}}]}}"#));
            assert!(client.hear(&reply[0]).is_empty());
            assert!(matches!(client.outcome(ticket), Some(Outcome::Done(_))));
        }
        client.feed(Input::ReadClosed);
        assert_eq!((client.session.in_flight(), server.session.in_flight()), ((0, 0), (0, 0)));
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z\"\\\\/~]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(
                "content|type|isError|_meta|structuredContent|id|name",
                inner,
                0..4
            )
            .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// S1-5: an id that the error schema does not have is not sent, not even as an echo.
#[test]
fn ids_outside_the_schema_are_not_echoed() {
    for frame in [r#"{"id":-1.5e-45}"#, r#"{"jsonrpc":"2.0","id":"","method":"x"}"#] {
        for reply in Bench::server(ENVELOPES).hear(frame) {
            let reply = serde_json::from_str(&reply).unwrap();
            assert_eq!(schema::check_error(&reply), vec![], "{frame}");
        }
    }
}

proptest! {
    /// S1-4, S1-C1: there is no result that our server would send outside the schema.
    #[test]
    fn every_result_fits_once_closed(
        result in proptest::collection::btree_map("content|isError|_meta|structuredContent|x", value(), 0..5),
    ) {
        let mut server = Bench::server(FRAMES);
        server.hear(r#"{"id":1,"name":"add"}"#);
        let reply = parsed(&server.answer(&serde_json::to_string(&result).unwrap()));
        prop_assert_eq!(schema::check_response(&reply), vec![]);
    }

    /// S1-16, S1-44: no frame ends a session, and a client writes nothing in answer to any.
    #[test]
    fn no_frame_is_the_last(frame in prop_oneof![value().prop_map(|value| value.to_string()), any::<String>()]) {
        let mut client = Bench::client(FRAMES);
        let said = client.hear(&frame);
        prop_assert!(said.is_empty(), "{:?}", said);
        prop_assert_eq!(client.session.state(), State::Ready);
        let mut server = Bench::server(ENVELOPES);
        for reply in server.hear(&frame) {
            prop_assert_eq!(schema::check_error(&serde_json::from_str(&reply).unwrap()), vec![]);
        }
        prop_assert_eq!(server.session.state(), State::Ready);
    }
}
