//! S0-4: what a session does differently over links that can do different things.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::method::Method;
use cardan_proto::session::event::{
    Abilities, CallOptions, Cancel, Cause, Change, Command, Delivery, Framing, Input, Interest, LogLevel,
    NewCall, Outcome, Pushes, Refusal, Silence, Ticket,
};
use common::*;
use serde_json::json;

const CLOSING: Abilities = Abilities { cancel: Cancel::ByClosing, ..Abilities::STREAM };
const NO_PUSHES: Abilities = Abilities { pushes: Pushes::Absent, ..Abilities::STREAM };

/// S0-4: where closing a lane cancels, the lane is closed and no note is sent; a legacy call gets its note
/// first.
#[test]
fn s0_4_a_link_says_how_calls_are_cancelled() {
    let mut client = Bench::modern_client();
    client.session.carried_by(CLOSING);
    client.call_tool(1);
    client.sent();
    client.local(Command::Cancel { ticket: Ticket(1), reason: "enough".into() });
    assert_eq!((client.retracted.len(), client.sent().len()), (1, 0));
    let outcome = client.outcome();
    assert!(matches!(outcome, Outcome::Cancelled { delivery: Delivery::Unknown, .. }), "{outcome:?}");
    client.call_tool(2);
    client.sent();
    client.secs(30);
    assert!(matches!(client.outcome(), Outcome::TimedOut { delivery: Delivery::Unknown, .. }));
    assert_eq!((client.retracted.len(), client.sent().len()), (2, 0));

    let mut client = Bench::legacy_client("2025-11-25");
    client.session.carried_by(CLOSING);
    client.call_tool(1);
    client.sent();
    client.local(Command::Cancel { ticket: Ticket(1), reason: "enough".into() });
    assert_eq!(client.one()["method"], "notifications/cancelled");
    assert_eq!(client.retracted.len(), 1, "nobody reads the lane any more");
}

/// VER-31: over HTTP a probe that is not answered says nothing of the era, so there is no handshake; the probe
/// has all the time of the opening. Over one stream it means legacy.
#[test]
fn ver_31_silence_is_an_era_only_over_a_stream() {
    for (silence, secs) in [(Silence::IsFailure, 30), (Silence::IsLegacy, 5)] {
        let mut client = Bench::client_with(|_| {});
        client.session.carried_by(Abilities { silence, ..Abilities::STREAM });
        client.local(Command::Open);
        assert_eq!(client.one()["method"], "server/discover");
        client.secs(secs - 1);
        assert_eq!((client.sent().len(), &client.closed), (0, &None), "{silence:?}");
        client.secs(1);
        let handshakes = client.sent().iter().filter(|frame| frame["method"] == "initialize").count();
        match silence {
            Silence::IsLegacy => assert_eq!((handshakes, &client.closed), (1, &None)),
            Silence::IsFailure => assert_eq!((handshakes, &client.closed), (0, &Some(Cause::OpenTimeout))),
        }
    }
}

/// S0-4: who cannot hear of changes is told so, instead of listening for ever; the modern listen is a call.
#[test]
fn s0_4_a_link_without_pushes_refuses_legacy_listens() {
    let interest = || Interest { tools: true, ..Interest::default() };
    let mut client = Bench::legacy_client("2025-11-25");
    client.session.carried_by(NO_PUSHES);
    client.local(Command::Listen { ticket: Ticket(1), interest: interest() });
    assert_eq!(client.outcome(), Outcome::Refused(Refusal::NoPushes));

    let mut client = Bench::modern_client();
    client.session.carried_by(NO_PUSHES);
    client.local(Command::Listen { ticket: Ticket(1), interest: interest() });
    assert_eq!(client.one()["method"], "subscriptions/listen");
}

/// S0-49, SUB-17: a lane for pushes that broke takes listens with it as lost, not as unwanted: by another link they may
/// come true.
#[test]
fn s0_49_a_lost_lane_loses_listens() {
    let mut client = Bench::legacy_client("2025-11-25");
    let interest = Interest { tools: true, ..Interest::default() };
    client.local(Command::Listen { ticket: Ticket(1), interest: interest.clone() });
    client.session.carried_by(Abilities { pushes: Pushes::Lost, ..Abilities::STREAM });
    client.local(Command::Listen { ticket: Ticket(2), interest });
    let settled = client.settled();
    assert_eq!(settled.len(), 2, "{settled:?}");
    assert!(settled.iter().all(|(_, outcome)| matches!(outcome, Outcome::Lost { .. })), "{settled:?}");
}

/// S0-4: a server without a lane for pushes keeps to itself what belongs to no call.
#[test]
fn s0_4_a_link_without_pushes_carries_nothing_outside_calls() {
    for (abilities, pushed) in [(Abilities::STREAM, 2), (NO_PUSHES, 0)] {
        let mut server = Bench::legacy_server("2025-11-25", json!({"roots": {}}));
        server.session.carried_by(abilities);
        server.local(Command::Change(Change::Tools));
        let params = r#"{"level":"error","data":"x"}"#.into();
        server.local(Command::Log { key: None, level: LogLevel::Error, params });
        assert_eq!(server.sent().len(), pushed, "{abilities:?}");
    }
    let mut server = Bench::legacy_server("2025-11-25", json!({"roots": {}}));
    server.session.carried_by(NO_PUSHES);
    let (ticket, options) = (Ticket(1), CallOptions::default());
    server.local(Command::Call(NewCall { ticket, method: Method::RootsList, params: None, options }));
    assert_eq!(server.outcome(), Outcome::Refused(Refusal::NoPushes));
}

/// S1-11: what a link notices beside its lanes is a finding, and no reason to end even a strict session.
#[test]
fn s1_11_what_a_link_notices_is_a_finding() {
    let mut client = Bench::client_with(|config| config.strictness = Strictness::Strict);
    client.local(Command::Open);
    client.handle(Input::Noticed { rule: Rule::FrameOnStderr, detail: "{}".into() });
    assert_eq!(client.found(), [Rule::FrameOnStderr]);
    assert_eq!(client.closed, None);
}

/// F16: where the transport tells messages apart, what cannot be read was meant as one: it is no print on a stream of lines, and
/// nothing follows that would complete it.
#[test]
fn f16_what_cannot_be_read_is_noise_only_among_lines() {
    for (framing, rules) in
        [(Framing::Lines, [Rule::Noise, Rule::Trailing]), (Framing::Whole, [Rule::Syntax, Rule::Trailing])]
    {
        let mut client = Bench::modern_client();
        client.session.carried_by(Abilities { framing, ..Abilities::STREAM });
        client.call_tool(1);
        client.raw("{");
        client.raw("\"id\": 2,");
        assert_eq!(client.found(), rules, "{framing:?}");
        client.raw("\"result\": {");
        assert_eq!(client.found().contains(&Rule::Split), framing == Framing::Lines);
    }
}
