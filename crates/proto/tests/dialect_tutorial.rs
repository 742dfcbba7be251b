//! The tutorial dialect: its names, its goodbye, its HTTP form, and the defects of its samples.

#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod dialect_bench;

use std::time::Duration;

use cardan_proto::dialect::quirk::Quirk;
use cardan_proto::dialect::{CortexForm, Dialect, tutorial};
use cardan_proto::finding::Rule;
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::method::Method;
use cardan_proto::session::config::Role;
use cardan_proto::session::event::{Cause, Input, Outcome};
use cardan_proto::session::state::State;
use dialect_bench::{Bench, config};
use http::{HeaderMap, HeaderValue};

const OPENING: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","#,
    r#""capabilities":{"roots":{"listChanged":true},"sampling":{}},"clientInfo":{"name":"c","version":"1"}}}"#
);
const WELCOME: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","#,
    r#""capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#
);
const SHUTDOWN: &str = r#"{"jsonrpc":"2.0","id":9,"method":"shutdown"}"#;

fn opened_server(dialect: Dialect) -> Bench {
    let mut server = Bench::server(dialect);
    assert_eq!(server.hear(OPENING).len(), 1);
    server
}

/// A client in the tutorial dialect that has shaken hands, and what it said last.
fn opened_client() -> (Bench, Vec<String>) {
    let (mut client, hello) = Bench::open(config(Role::Client, Dialect::Tutorial));
    assert!(hello[0].contains(r#""method":"initialize""#), "no probe: {hello:?}");
    let said = client.hear(WELCOME);
    (client, said)
}

/// S2-22: both names are understood, from anyone, and the short one is told once.
#[test]
fn short_name_of_initialized_is_always_understood() {
    for dialect in [Dialect::Standard, Dialect::Tutorial, Dialect::JsonRpcBatch] {
        let mut server = opened_server(dialect);
        for _ in 0..3 {
            assert!(server.hear(r#"{"jsonrpc":"2.0","method":"initialized"}"#).is_empty(), "{dialect:?}");
        }
        assert_eq!((server.found(Rule::Foreign), server.found(Rule::NoteUnknown)), (1, 0), "{dialect:?}");
        assert_eq!(server.session.quirks().of(Quirk::InitializedHeard), 3);
        assert!(server.hear(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).is_empty());
        assert_eq!(server.session.findings().total(), 1);
    }
}

/// S2-22: not even a strict server ends the session for it.
#[test]
fn short_name_of_initialized_is_no_violation() {
    let mut server = Bench::strict_server(Dialect::Standard);
    server.hear(OPENING);
    assert!(server.hear(r#"{"jsonrpc":"2.0","method":"initialized"}"#).is_empty());
    assert_eq!(server.session.state(), State::Ready);
}

/// S2-22: the client sends the short name in this dialect only.
#[test]
fn client_sends_the_name_of_its_dialect() {
    let (client, said) = opened_client();
    assert_eq!(said, [r#"{"jsonrpc":"2.0","method":"initialized"}"#]);
    assert_eq!(client.session.state(), State::Ready);

    let legacy = cardan_proto::session::config::EraChoice::Legacy;
    let standard =
        cardan_proto::session::config::Config { era: legacy, ..config(Role::Client, Dialect::Standard) };
    let (mut client, _) = Bench::open(standard);
    assert_eq!(client.hear(WELCOME), [r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#]);
}

/// S2-41: a server of the dialect answers the goodbye and ends; any other does not know the method.
#[test]
fn server_answers_shutdown_and_leaves() {
    let mut server = opened_server(Dialect::Tutorial);
    let said = server.hear(SHUTDOWN);
    assert_eq!(said, [r#"{"jsonrpc":"2.0","id":9,"result":{}}"#, "close: closed by the peer"]);

    for dialect in [Dialect::Standard, Dialect::JsonRpcBatch] {
        let mut server = opened_server(dialect);
        let said = server.hear(SHUTDOWN);
        // Methods that the core does not know are the application's to refuse.
        assert!(said.is_empty() && server.called()[0].call.method.name() == "shutdown", "{said:?}");
        assert_eq!(server.session.state(), State::Ready);
    }
}

/// S2-41: what runs is finished first, and nothing new begins.
#[test]
fn server_drains_before_it_leaves() {
    let mut server = opened_server(Dialect::Tutorial);
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add"}}"#;
    assert!(server.hear(call).is_empty());
    assert_eq!(server.hear(SHUTDOWN), [r#"{"jsonrpc":"2.0","id":9,"result":{}}"#]);
    assert_eq!(server.session.state(), State::Draining);
    let refused = server.hear(&call.replace("\"id\":2", "\"id\":3"));
    assert!(refused[0].contains("shutting down"), "{refused:?}");
    let said = server.answer(r#"{"content":[]}"#);
    assert_eq!(said, [r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#, "close: closed by the peer"]);
    assert_eq!(server.session.in_flight(), (0, 0));
}

/// S2-41: an answer of any kind, a lost link or silence ends the wait.
#[test]
fn client_says_shutdown_and_waits_briefly() {
    type Reply = fn(&mut Bench) -> Vec<String>;
    let replies: [Reply; 4] = [
        |client| client.hear(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#),
        |client| client.hear(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"unknown"}}"#),
        |client| client.feed(Input::ReadClosed),
        |client| client.wait(Duration::from_secs(2)),
    ];
    for (n, reply) in replies.into_iter().enumerate() {
        let (mut client, _) = opened_client();
        assert_eq!(client.close(), [r#"{"jsonrpc":"2.0","id":2,"method":"shutdown"}"#], "{n}");
        assert_eq!(client.session.state(), State::Draining, "{n}");
        assert!(client.session.deadline().is_some(), "{n}");
        assert_eq!(reply(&mut client), ["close: closed by us: done"], "{n}");
        client.lost(Cause::ClosedByUs("done".into()));
        assert_eq!((client.session.state(), client.session.in_flight()), (State::Closed, (0, 0)), "{n}");
    }
}

/// S2-46: a server that closes the link at once instead of answering does not make our own close a
/// loss, which would be followed by a reconnect.
#[test]
fn own_close_is_never_taken_for_a_loss() {
    let (mut client, _) = opened_client();
    client.close();
    client.lost(Cause::ClosedByPeer);
    assert_eq!(client.session.state(), State::Closed);
}

/// S2-40: a second close, and one while connecting, wait for nothing.
#[test]
fn close_never_waits_twice() {
    let (mut client, _) = opened_client();
    client.close();
    assert_eq!(client.close(), ["close: closed by us: done"]);
    let mut client = Bench::client(Dialect::Tutorial);
    assert_eq!(client.close(), ["close: closed by us: done"]);
}

/// S2-41: no other dialect says goodbye.
#[test]
fn nobody_else_says_shutdown() {
    let mut client = Bench::client(Dialect::Cortex(CortexForm::Frame));
    assert_eq!(client.close(), ["close: closed by us: done"]);
}

/// S2-4: notes are never answered, unknown methods are, with their id.
#[test]
fn server_answers_calls_and_never_notes() {
    let mut server = opened_server(Dialect::Tutorial);
    for note in [r#"{"jsonrpc":"2.0","method":"no/such"}"#, r#"{"jsonrpc":"2.0","method":"tools/call"}"#] {
        assert!(server.hear(note).is_empty(), "{note}");
    }
    let said = server.hear(r#"{"jsonrpc":"2.0","id":"a","method":"prompts/list"}"#);
    assert!(said[0].starts_with(r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"#), "{said:?}");
}

/// S2-4, defect of seed 002: the sample server crashes on a bad line; ours goes on.
#[test]
fn bad_line_does_not_end_the_server() {
    let mut server = opened_server(Dialect::Tutorial);
    assert!(server.hear("{nonsense")[0].contains("-32700"));
    assert_eq!(server.session.state(), State::Ready);
}

/// S2-4, defect of seed 002: the sample server answers notes, without an id. The only call in flight
/// must not be taken for the one that was answered.
#[test]
fn answer_to_a_note_settles_no_call() {
    let (mut client, _) = opened_client();
    let (ticket, _) = client.call(Method::ToolsList, "");
    let stray = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}"#;
    assert!(client.hear(stray).is_empty());
    assert_eq!((client.outcome(ticket), client.session.quirks().of(Quirk::NoteAnswered)), (None, 1));
    client.hear(r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#);
    assert!(matches!(client.outcome(ticket), Some(Outcome::Done(_))));
    let (ticket, _) = client.call(Method::ToolsList, "");
    client.hear(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#);
    assert!(matches!(client.outcome(ticket), Some(Outcome::Fault(_))), "other errors are about a call");
}

/// S2-4, defect of seed 002: the sample server fails on absent arguments, so they are always sent.
#[test]
fn arguments_are_always_sent() {
    let (mut client, _) = opened_client();
    let (_, said) = client.call(Method::ToolsCall, r#"{"name":"now"}"#);
    assert!(said[0].ends_with(r#""params":{"name":"now","arguments":{}}}"#), "{said:?}");
    let (_, said) = client.call(Method::ToolsCall, r#"{"name":"add","arguments":{"a":1.50}}"#);
    assert!(said[0].ends_with(r#""params":{"name":"add","arguments":{"a":1.50}}}"#), "{said:?}");
    assert_eq!(client.session.quirks().of(Quirk::ArgumentsAlways), 1);
}

/// S2-9: messages travel in events without a kind, and are read back as plain ones.
#[test]
fn events_are_bare() {
    use cardan_proto::codec::sse::write_event;
    use cardan_proto::codec::{EventKind, SseDecoder, SseItem};
    assert_eq!(Dialect::Standard.sse_event_kind(), Some("message"));
    let mut out = Vec::new();
    write_event(&mut out, Dialect::Tutorial.sse_event_kind(), None, None, b"{}");
    assert_eq!(out, b"data: {}\n\n");
    let mut decoder = SseDecoder::new(64);
    decoder.feed(out.into());
    let Some(SseItem::Event(event)) = decoder.next() else { panic!("no event") };
    assert_eq!(event.kind, EventKind::Message);
}

/// S2-7, S2-8, defect of seed 002: ids are text on both sides, whether they look like numbers or not;
/// the header of the tutorial and the query of the published transport both name the stream.
#[test]
fn stream_is_named_by_header_or_query() {
    let mut headers = HeaderMap::new();
    assert_eq!(tutorial::stream_of(&headers, None), None);
    assert_eq!(tutorial::stream_of(&headers, Some("sessionId=17")), Some("17"));
    assert_eq!(tutorial::stream_of(&headers, Some("a=b&sessionId=x&c")), Some("x"));
    assert_eq!(tutorial::stream_of(&headers, Some("session=17")), None);
    headers.append("x-client-id", HeaderValue::from_static("1718000000000"));
    assert_eq!(tutorial::stream_of(&headers, Some("sessionId=17")), Some("1718000000000"));
    headers.append("x-client-id", HeaderValue::from_static("2"));
    assert_eq!(tutorial::stream_of(&headers, Some("sessionId=17")), None, "two ids name no stream");
}

/// S2-10: a stream that does not exist is told, before anything is executed.
#[test]
fn unknown_stream_is_refused() {
    let (status, fault) = tutorial::unknown_stream();
    assert_eq!((status.as_u16(), fault.code), (404, code::INVALID_REQUEST));
    assert!(fault.message.contains("x-client-id"), "{fault}");
}
