//! Exchanges that fail alone, and the legacy session that is replaced when the server has forgotten it.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use cardan_proto::finding::Rule;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::method::Method;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{
    CallOptions, Cause, Command, Delivery, Event, Input, Interest, LogLevel, Outcome, Refusal, Ticket,
};
use cardan_proto::session::state::State;
use common::*;
use http::StatusCode;
use serde_json::{Value, json};

const LEGACY: &str = "2025-11-25";

fn status(code: u16) -> Cause {
    let status = StatusCode::from_u16(code).unwrap();
    Cause::Http(Box::new(HttpFailure::Status { status, excerpt: "".into(), hints: Box::default() }))
}

fn gone() -> Cause {
    Cause::Http(Box::new(HttpFailure::SessionGone { status: StatusCode::NOT_FOUND }))
}

fn fail(bench: &mut Bench, id: Option<i64>, cause: Cause, delivery: Delivery) {
    bench.handle(Input::Failed { id: id.map(CallId::from), cause, delivery });
}

fn methods(sent: &[Value]) -> Vec<&str> {
    sent.iter().map(|frame| frame["method"].as_str().unwrap()).collect()
}

/// S0-83, F13: a failure settles its own call, once, with its delivery; everything else goes on.
#[test]
fn a_failure_settles_its_own_call() {
    for mut client in [Bench::modern_client(), Bench::legacy_client(LEGACY)] {
        client.call_tool(1);
        client.call_tool(2);
        let ids: Vec<_> = client.sent().iter().map(|frame| frame["id"].as_i64().unwrap()).collect();
        for _ in 0..2 {
            fail(&mut client, Some(ids[0]), status(503), Delivery::Unknown);
        }
        let settled = client.settled();
        assert_eq!(settled, [(1, Outcome::Lost { cause: status(503), delivery: Delivery::Unknown })]);
        client.feed(reply(ids[1], json!({"resultType": "complete", "content": []})));
        assert!(matches!(client.outcome(), Outcome::Done(_)));
        assert_eq!(client.session.in_flight(), (0, 0));
        client.feed(reply(ids[0], json!({"content": []})));
        assert_eq!(client.found(), [Rule::LateReply]);
        fail(&mut client, None, status(400), Delivery::Sent);
        assert_eq!(client.found(), [Rule::PostRefused], "a note that was refused is worth a line");
        assert_eq!(client.session.state(), State::Ready);
    }
}

/// F12: what fails beside all calls is told to whoever keeps the connection, for as long as the link lives, and is no
/// finding about the peer.
#[test]
fn f12_a_doubt_is_passed_on() {
    let doubts = |client: &mut Bench| {
        client.handle(Input::Doubted);
        client.events().iter().filter(|event| matches!(event, Event::Doubted)).count()
    };
    for mut client in [Bench::modern_client(), Bench::legacy_client(LEGACY)] {
        client.call_tool(1);
        assert_eq!((doubts(&mut client), client.session.findings().iter().count()), (1, 0));
        assert_eq!((client.session.state(), client.session.in_flight()), (State::Ready, (0, 1)));
        client.handle(Input::Closed { cause: Cause::ClosedByPeer });
        assert_eq!(doubts(&mut client), 0, "nobody can look after a link that is gone");
    }
}

/// F16: an exchange that ends without the reply breaks a rule, which is told with the call it was for.
#[test]
fn f16_an_exchange_without_its_reply_is_a_finding() {
    let cause = Cause::Http(Box::new(HttpFailure::NoReply { status: StatusCode::OK }));
    let mut client = Bench::modern_client();
    client.call_tool(1);
    let id = client.one()["id"].as_i64().unwrap();
    fail(&mut client, Some(id), cause.clone(), Delivery::Sent);
    assert_eq!(client.found(), [Rule::NoReply]);
    assert_eq!(client.outcome(), Outcome::Lost { cause, delivery: Delivery::Sent });
}

/// VER-30, VER-31, HTTP-11: which failures of the probe lead to the handshake.
#[test]
fn only_answers_of_the_server_speak_of_the_era() {
    let broken = || Cause::Http(Box::new(HttpFailure::Broken("reset".into())));
    for (cause, falls_back) in [
        (status(400), true),
        (status(405), true),
        (status(401), false),
        (status(502), false),
        (broken(), false),
        (Cause::Io("odd".into()), false),
    ] {
        let mut client = Bench::client();
        client.local(Command::Open);
        client.sent();
        fail(&mut client, Some(1), cause.clone(), Delivery::Unknown);
        let state = client.session.state();
        assert_eq!(state == State::Initializing, falls_back, "{cause}: {state:?}");
        if !falls_back {
            assert_eq!(client.states().last().unwrap().cause, Some(cause));
        }
    }
    let mut client = Bench::client_with(|config| config.era = EraChoice::Modern);
    client.local(Command::Open);
    fail(&mut client, Some(1), status(404), Delivery::Sent);
    assert_eq!(client.states().last().unwrap().cause, Some(status(404)), "the reason, not a timeout");
}

/// HTL-24, F13: one handshake for all; refused calls go again under their ids, new ones wait, interests and the
/// log level are told anew.
#[test]
fn a_forgotten_session_is_replaced() {
    let mut client = Bench::client();
    client.local(Command::Open);
    client.feed(fault(1, -32601));
    let answer = json!({"protocolVersion": LEGACY, "serverInfo": {"name": "s", "version": "1"},
        "capabilities": {"tools": {}, "logging": {}, "resources": {"subscribe": true}}});
    client.feed(reply(2, answer.clone()));
    client.local(Command::SetLevel(LogLevel::Error));
    client.local(Command::Listen {
        ticket: Ticket(9),
        interest: Interest { uris: vec!["file:///x".into()], ..Interest::default() },
    });
    client.feed(reply(3, json!({})));
    client.feed(reply(4, json!({})));
    client.call_tool(1);
    client.call_with(2, wanting_progress());
    client.sent();
    client.events();
    fail(&mut client, Some(5), gone(), Delivery::NotSent);
    fail(&mut client, Some(6), gone(), Delivery::NotSent);
    fail(&mut client, None, gone(), Delivery::NotSent);
    assert_eq!(methods(&client.sent()), ["initialize"]);
    let change = client.states().remove(0);
    assert_eq!((change.from, change.to, change.cause), (State::Ready, State::Initializing, Some(gone())));
    client.call_tool(3);
    client.call_tool(4);
    client.local(Command::Cancel { ticket: Ticket(4), reason: "changed my mind".into() });
    client.local(Command::Cancel { ticket: Ticket(1), reason: "me too".into() });
    assert_eq!(client.sent(), [] as [Value; 0], "nobody has these calls, so nobody is told");
    for (_, outcome) in client.settled() {
        assert!(matches!(outcome, Outcome::Cancelled { delivery: Delivery::NotSent, .. }), "{outcome:?}");
    }
    assert_eq!(client.session.in_flight(), (0, 3), "the handshake, the refused call and the waiting one");
    client.feed(reply(7, answer));
    let sent = client.sent();
    assert_eq!(
        methods(&sent),
        ["notifications/initialized", "logging/setLevel", "resources/subscribe", "tools/call", "tools/call"]
    );
    assert_eq!((&sent[3]["id"], &sent[3]["params"]["_meta"]["progressToken"]), (&json!(6), &json!(6)));
    client.feed(reply(6, json!({"content": []})));
    client.feed(reply(sent[4]["id"].as_i64().unwrap(), json!({"content": []})));
    let done: Vec<_> = client.settled().into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(done, [2, 3]);
    assert_eq!(client.session.state(), State::Ready);
}

/// LOG-2, HTL-24: a level that a call has set is in force in the next session, too; one that was refused is not.
#[test]
fn a_level_that_was_taken_is_told_to_the_next_session() {
    let told: [&[&str]; 2] = [
        &["notifications/initialized", "logging/setLevel", "tools/call"],
        &["notifications/initialized", "tools/call"],
    ];
    for (refused, told) in [false, true].into_iter().zip(told) {
        let mut client = Bench::client_with(|config| config.era = EraChoice::Legacy);
        client.local(Command::Open);
        let answer = json!({"protocolVersion": LEGACY, "serverInfo": {"name": "s", "version": "1"},
            "capabilities": {"tools": {}, "logging": {}}});
        client.feed(reply(1, answer.clone()));
        let level = json!({"level": "debug"});
        client.call(7, Method::LoggingSetLevel, Some(level), CallOptions::default());
        client.feed(if refused { fault(2, -32000) } else { reply(2, json!({})) });
        client.call_tool(8);
        client.sent();
        fail(&mut client, Some(3), gone(), Delivery::NotSent);
        client.sent();
        client.feed(reply(4, answer));
        let sent = client.sent();
        assert_eq!(methods(&sent), told);
        assert!(refused || sent[1]["params"] == json!({"level": "debug"}), "{sent:?}");
    }
}

/// F14: sessions that are forgotten before any call is answered are replaced a few times, not for ever.
#[test]
fn replacing_ends_where_nothing_comes_of_it() {
    let mut client = Bench::legacy_client_with(LEGACY, |config| config.limits.renewals = 2);
    client.call_tool(1);
    let call = client.one()["id"].as_i64().unwrap();
    for _ in 0..2 {
        fail(&mut client, Some(call), gone(), Delivery::NotSent);
        let handshake = client.one()["id"].as_i64().unwrap();
        client.feed(reply(handshake, initialized(LEGACY)));
        assert_eq!(client.sent().last().unwrap()["id"], call);
    }
    fail(&mut client, Some(call), gone(), Delivery::NotSent);
    assert_eq!(client.outcome(), Outcome::Lost { cause: gone(), delivery: Delivery::NotSent });
    assert_eq!((client.session.state(), client.session.in_flight()), (State::Ready, (0, 0)));
}

/// F13: where there is no new session, everyone who waits is told, and nothing was sent.
#[test]
fn a_refused_renewal_ends_the_link() {
    let mut client = Bench::legacy_client_with(LEGACY, |config| config.limits.calls_outbound = 3);
    client.call_tool(1);
    let call = client.one()["id"].as_i64().unwrap();
    fail(&mut client, Some(call), gone(), Delivery::NotSent);
    let handshake = client.one()["id"].as_i64().unwrap();
    client.call_tool(2);
    client.call_tool(3);
    assert_eq!(client.outcome(), Outcome::Refused(Refusal::TooMany), "what waits is bounded");
    fail(&mut client, Some(handshake), status(401), Delivery::Sent);
    let settled = client.settled();
    assert_eq!(settled.len(), 2);
    for (_, outcome) in settled {
        assert_eq!(outcome, Outcome::Lost { cause: status(401), delivery: Delivery::NotSent });
    }
    assert_eq!(client.session.in_flight(), (0, 0));
}

/// HTM-19: the modern era has no session that could be forgotten.
#[test]
fn a_modern_call_is_not_healed() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    let call = client.one()["id"].as_i64().unwrap();
    fail(&mut client, Some(call), gone(), Delivery::NotSent);
    assert_eq!(client.outcome(), Outcome::Lost { cause: gone(), delivery: Delivery::NotSent });
    assert_eq!(client.sent(), [] as [Value; 0]);
}
