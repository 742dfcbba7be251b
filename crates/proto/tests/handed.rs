//! What a session hands over when someone else keeps it: listens, subscriptions, levels, rounds and asks.

mod common;

use bytes::Bytes;
use cardan_proto::http::stray::Strays;
use cardan_proto::jsonrpc::envelope::Envelope;
use cardan_proto::jsonrpc::fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, Interests};
use cardan_proto::session::event::{
    Answer, Ask, CallKey, CallOptions, Change, Command, Event, Input, Interest, LaneId, LogLevel, NewCall,
    Outcome, Outgoing, Output, Refusal, Rounds, Ticket,
};
use common::{Bench, SUBSCRIPTION, code, initialize, legacy, modern, note};
use http::{HeaderMap, HeaderValue};
use serde_json::json;

fn handing(config: &mut Config) {
    config.interests = Interests::Handed;
}

fn done(bench: &mut Bench, key: CallKey) {
    bench.local(Command::Answer { key, answer: Answer::Done(Bytes::from_static(b"{}")) });
}

/// SUB-1, SUB-3: a listen that is handed over is acknowledged when it stands, told what is its own, and ended by
/// whoever keeps it.
#[test]
fn a_handed_listen_lives_as_a_call() {
    let mut server = Bench::server_with(handing);
    let filter = json!({"toolsListChanged": true});
    server.feed(modern("l", "subscriptions/listen", json!({"notifications": filter})));
    let listen = server.called();
    assert!(server.sent().is_empty(), "not before it stands");
    let asked = Interest::asked_by(&listen.call.params).expect("it can be read");
    assert!(asked.tools && !asked.prompts);
    server.local(Command::Listening { key: listen.key, interest: asked });
    let tag = json!({SUBSCRIPTION: "l"});
    assert_eq!(
        server.one(),
        note("notifications/subscriptions/acknowledged", json!({"notifications": filter, "_meta": tag}))
    );
    server.local(Command::Tell { key: listen.key, change: Change::Tools });
    assert_eq!(server.one(), note("notifications/tools/list_changed", json!({"_meta": tag})));
    done(&mut server, listen.key);
    let last = server.one();
    assert_eq!((&last["id"], &last["result"]["_meta"][SUBSCRIPTION]), (&json!("l"), &json!("l")));
    assert_eq!(server.session.in_flight(), (0, 0));
}

/// Who leaves ends handed listens too, and waits for none.
#[test]
fn a_handed_listen_does_not_hold_up_the_end() {
    let mut server = Bench::server_with(handing);
    server.feed(modern(1, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})));
    let key = server.called().key;
    server.local(Command::Close { reason: "done".into() });
    assert!(
        server
            .events()
            .iter()
            .any(|event| matches!(event, Event::Withdrawn { key: gone, .. } if *gone == key))
    );
    assert!(server.closed.is_some(), "nothing else runs");
}

/// LOG-1: whoever is behind us may log without having said so, as some SDKs do; what it says reaches its client.
#[test]
fn log_notes_that_nobody_announced_are_told() {
    let silent = |config: &mut Config| {
        handing(config);
        config.capabilities = Bytes::from_static(b"{\"tools\":{}}");
    };
    let params = Bytes::from_static(b"{\"level\":\"info\",\"data\":\"hi\"}");
    let log = |key| Command::Log { key: Some(key), level: LogLevel::Info, params: params.clone() };
    let told = note("notifications/message", json!({"level": "info", "data": "hi"}));
    let mut server = Bench::legacy_server_with("2025-11-25", json!({}), silent);
    server.feed(legacy(1, "tools/call", json!({"name": "t"})));
    let key = server.called().key;
    server.local(log(key));
    assert_eq!(server.one(), told);
    let mut server = Bench::server_with(silent);
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let mut call = modern(1, "tools/call", json!({"name": "t"}));
    for (name, value) in meta.as_object().expect("an object") {
        call["params"]["_meta"][name] = value.clone();
    }
    server.feed(call);
    let key = server.called().key;
    server.local(log(key));
    assert_eq!(server.one(), told);
}

/// LOG-2, LOG-3, RES-13: subscriptions and levels of a legacy client are handed over once they make sense.
#[test]
fn subscriptions_and_levels_are_handed_over() {
    let mut server = Bench::legacy_server_with("2025-11-25", json!({}), handing);
    for (method, params) in [
        ("resources/subscribe", json!({"uri": "a:b"})),
        ("resources/unsubscribe", json!({"uri": "a:b"})),
        ("logging/setLevel", json!({"level": "error"})),
    ] {
        server.feed(legacy(1, method, params));
        let handed = server.called();
        assert_eq!(handed.call.method.name(), method);
        assert!(server.sent().is_empty());
        done(&mut server, handed.key);
        assert_eq!(server.one()["result"], json!({}));
    }
    for (method, params) in
        [("resources/subscribe", json!({"uri": 5})), ("logging/setLevel", json!({"level": "loud"}))]
    {
        server.feed(legacy(2, method, params));
        assert_eq!(code(&server.one()), fault::code::INVALID_PARAMS);
    }
}

/// The level that a handed session starts with hides nothing.
#[test]
fn the_level_is_that_of_who_is_behind() {
    let mut server = Bench::legacy_server_with("2025-11-25", json!({}), handing);
    let params = Bytes::from_static(br#"{"level":"debug","data":1}"#);
    server.local(Command::Log { key: None, level: LogLevel::Debug, params });
    assert_eq!(server.one()["method"], "notifications/message");
}

/// Whoever is told of a legacy client is told once, when it can be asked.
#[test]
fn a_client_that_goes_on_is_greeted_once() {
    let mut server = Bench::server();
    server.feed(initialize(0, "2025-06-18", json!({"roots": {}})));
    let greeted = |bench: &mut Bench| -> Vec<Bytes> {
        let events = bench.events().into_iter();
        events
            .filter_map(|event| match event {
                Event::Greeted { capabilities, identity, .. } => {
                    assert!(identity.is_some(), "who it is is told too");
                    Some(capabilities)
                }
                _ => None,
            })
            .collect()
    };
    assert!(greeted(&mut server).is_empty());
    server.feed(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(greeted(&mut server), [Bytes::from_static(br#"{"roots":{}}"#)]);
    server.feed(legacy(1, "tools/list", json!({})));
    assert!(greeted(&mut server).is_empty());
}

/// An ask within a call goes on the wire at once, and its answer settles it while the call runs on.
#[test]
fn a_running_call_asks() {
    let mut server = Bench::legacy_server("2025-11-25", json!({"roots": {}}));
    server.feed(legacy(1, "tools/call", json!({"name": "t"})));
    let key = server.called().key;
    let ask = |method| Ask { method, params: None };
    server.local(Command::AskWithin { key, ticket: Ticket(1), ask: ask(Method::RootsList) });
    let asked = server.one();
    assert_eq!(asked["method"], "roots/list");
    server.feed(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}));
    assert_eq!(server.outcome(), Outcome::Done(Bytes::from_static(br#"{"roots":[]}"#)));
    server.local(Command::AskWithin { key, ticket: Ticket(2), ask: ask(Method::ElicitationCreate) });
    assert!(matches!(server.outcome(), Outcome::Refused(Refusal::Capability(_))), "not declared");
    done(&mut server, key);
    server.local(Command::AskWithin { key, ticket: Ticket(3), ask: ask(Method::RootsList) });
    assert!(matches!(server.outcome(), Outcome::Refused(Refusal::NotOpen)), "the call is over");
}

/// MRTR-1: a caller that answers itself gets the result that asks as it came, and one that is sealed goes out so.
#[test]
fn rounds_of_the_caller_pass_unread() {
    let raw = r#"{"resultType":"input_required","inputRequests":{"x":{"method":"roots/list"}},"requestState":"s","n":1.50}"#;
    let mut client = Bench::modern_client();
    let options = CallOptions { rounds: Rounds::Callers, ..CallOptions::default() };
    client.local(Command::Call(NewCall {
        ticket: Ticket(1),
        method: Method::ToolsCall,
        params: None,
        options,
    }));
    let id = client.one()["id"].clone();
    client.raw(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{raw}}}"#));
    assert_eq!(client.outcome(), Outcome::Done(Bytes::from_static(raw.as_bytes())));

    let mut server = Bench::server();
    server.feed(modern(7, "tools/call", json!({"name": "t"})));
    let key = server.called().key;
    server.local(Command::Answer { key, answer: Answer::Sealed(Bytes::from_static(raw.as_bytes())) });
    assert_eq!(server.one()["result"], serde_json::from_str::<serde_json::Value>(raw).expect("it is JSON"));
}

/// INT-1: what goes beside a call goes with each of its rounds, and is no part of the message.
#[test]
fn strays_go_with_each_round() {
    let mut came = HeaderMap::new();
    came.insert("mcp-param-x", HeaderValue::from_static("1"));
    let strays = Strays::collect(&came, None, &Limits::DEFAULT).expect("it is short").expect("there is one");
    let mut client = Bench::modern_client();
    let call = NewCall {
        ticket: Ticket(1),
        method: Method::ToolsCall,
        params: None,
        options: CallOptions::default(),
    };
    let asks = r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","requestState":"s"}}"#;
    let inputs = [
        Input::Local(Command::CallBeside(Box::new((call, strays.clone())))),
        Input::Frame { lane: LaneId::MAIN, bytes: Bytes::from_static(asks.as_bytes()) },
    ];
    for input in inputs {
        client.session.handle(client.now, input);
        let outputs: Vec<_> = std::iter::from_fn(|| client.session.poll()).collect();
        let calls: Vec<_> = outputs
            .into_iter()
            .filter_map(|output| match output {
                Output::Send { message: Outgoing::One(Envelope::Call(call)), .. } => Some(call),
                _ => None,
            })
            .collect();
        let [call] = &calls[..] else { panic!("not one call: {calls:?}") };
        assert_eq!(call.strays.as_ref(), Some(&strays));
        let mut written = Vec::new();
        Outgoing::One(Envelope::Call(call.clone())).write(&mut written);
        assert!(!String::from_utf8_lossy(&written).contains("mcp-param"), "no part of the message");
    }
}
