//! A client meets servers of either era, slow ones, silent ones and ones that talk nonsense.

mod common;

use cardan_proto::era::{Era, Revision, Revisions};
use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Disclosure, EraChoice};
use cardan_proto::session::event::{Cause, Command, Event, Input, LogLevel, Outcome, Refusal};
use cardan_proto::session::state::State;
use common::*;
use serde_json::{Value, json};

fn opened(tweak: impl FnOnce(&mut cardan_proto::session::config::Config)) -> (Bench, Value) {
    let mut client = Bench::client_with(tweak);
    client.local(Command::Open);
    let first = client.one();
    (client, first)
}

fn unsupported(id: u64, supported: &[&str]) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "no",
        "data": {"supported": supported, "requested": "2026-07-28"}}})
}

/// Which method the client sends next, or nothing.
fn next_method(client: &mut Bench) -> Option<String> {
    let sent = client.sent();
    assert!(sent.len() <= 1, "{sent:?}");
    sent.first().map(|frame| frame["method"].as_str().expect("only calls and notes here").to_owned())
}

/// VER-28, VER-14, VER-15, BASE-18, S0-13, S1-42: the probe comes first, whole, with id 1.
#[test]
fn the_probe_is_a_complete_modern_call() {
    let (_, probe) = opened(|_| {});
    let caps: Value = serde_json::from_str(CLIENT_CAPS).unwrap();
    assert_eq!(
        probe,
        json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {
            VERSION: "2026-07-28", CAPABILITIES: caps, CLIENT_INFO: {"name": "c", "version": "1"}}}})
    );
    let (_, probe) = opened(|c| c.disclosure = Disclosure::Anonymous);
    assert_eq!(probe["params"]["_meta"].get(CLIENT_INFO), None);
}

/// VER-28: what somebody has asked a modern server already is not asked again; what leads to no session is.
#[test]
fn a_server_that_was_met_is_not_asked_again() {
    let greeting = |versions: &[&str]| Some(discovered(versions).to_string().into());
    let mut client = Bench::client_with(|c| c.greeting = greeting(&["2026-07-28"]));
    client.local(Command::Open);
    assert_eq!(client.sent(), [] as [Value; 0]);
    assert_eq!(client.session.revision(), Some(Revision::V2026_07_28));
    assert!(client.session.server_caps().tools.is_some());
    client.call(1, Method::ToolsList, None, Default::default());
    assert_eq!(client.one()["params"]["_meta"][VERSION], "2026-07-28");

    for useless in [greeting(&["2025-11-25"]), greeting(&[]), Some("nonsense".into())] {
        let (_, first) = opened(|c| c.greeting = useless);
        assert_eq!(first["method"], "server/discover");
    }
    let (_, first) = opened(|c| (c.era, c.greeting) = (EraChoice::Legacy, greeting(&["2026-07-28"])));
    assert_eq!(first["method"], "initialize", "it is of use in the modern era only");
}

/// VER-28, S2-37, STD-6, VER-14: a discover result opens the modern era without a handshake; calls
/// carry their metadata.
#[test]
fn a_modern_server_is_used_at_once() {
    let (mut client, _) = opened(|_| {});
    client.feed(reply(1, discovered(&["2026-07-28", "2025-11-25"])));
    assert_eq!(client.sent(), [] as [Value; 0], "no handshake, no note");
    assert_eq!(client.session.revision(), Some(Revision::V2026_07_28));
    assert!(client.session.server_caps().tools.is_some());
    client.call(1, Method::ToolsList, None, Default::default());
    let call = client.one();
    assert_eq!(call["params"]["_meta"][VERSION], "2026-07-28");
    assert!(call["params"]["_meta"][CAPABILITIES].is_object());
}

/// VER-1, VER-3, VER-6, VER-29, S0-3, S2-20, S2-22, S0-26: whatever is no modern sign leads to the
/// handshake with the newest legacy revision, then `initialized`, without params.
#[test]
fn every_other_answer_leads_to_the_handshake() {
    let answers = [
        fault(1, -32601),
        fault(1, -32602),
        fault(1, -32600),
        fault(1, -32000),
        fault(1, -32700),
        fault(1, 0),
        json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "cannot read"}}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "who are you"}}),
        reply(1, json!({})),
        reply(1, json!({"tools": []})),
        reply(1, json!([])),
        reply(1, json!(null)),
        reply(1, discovered(&["2025-06-18"])),
        unsupported(1, &["2025-11-25", "2025-06-18"]),
        json!({"jsonrpc": "2.0", "id": 1}),
        json!({"id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}}),
        json!([{"jsonrpc": "2.0", "id": 1, "result": {}}]),
    ];
    for answer in answers {
        let (mut client, _) = opened(|_| {});
        client.feed(answer.clone());
        let handshake = client.one();
        assert_eq!(handshake["method"], "initialize", "{answer}");
        assert_eq!(handshake["id"], 2, "ids are never used twice");
        assert_eq!(handshake["params"]["protocolVersion"], "2025-11-25");
        assert_eq!(handshake["params"]["clientInfo"], json!({"name": "c", "version": "1"}));
        assert_eq!(handshake["params"]["capabilities"], serde_json::from_str::<Value>(CLIENT_CAPS).unwrap());
        assert_eq!(handshake["params"].get("_meta"), None);
        client.feed(reply(2, initialized("2025-11-25")));
        assert_eq!(client.one(), json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(client.session.state(), State::Ready);
    }
}

/// VER-29, F36: a silent server gets the handshake when the probe's time is up, not later.
#[test]
fn a_silent_server_gets_the_handshake() {
    let (mut client, _) = opened(|_| {});
    let deadline = client.session.deadline().unwrap();
    assert_eq!(deadline.elapsed(), Limits::DEFAULT.probe_timeout);
    client.secs(4);
    assert_eq!(next_method(&mut client), None);
    client.secs(1);
    assert_eq!(next_method(&mut client).as_deref(), Some("initialize"));
    client.feed(reply(2, initialized("2024-11-05")));
    assert_eq!(client.session.revision(), Some(Revision::V2024_11_05));
}

/// VER-12, VER-29: the probe's time is part of the time for opening, of which half is left for the handshake.
#[test]
fn the_probe_has_a_share_of_the_time_for_opening() {
    for (open, probe) in [(30, 5), (4, 2)] {
        let (mut client, _) = opened(|c| c.limits.open_timeout = std::time::Duration::from_secs(open));
        client.secs(probe);
        assert_eq!(next_method(&mut client).as_deref(), Some("initialize"));
        client.secs(open - probe - 1);
        assert_eq!(client.closed, None);
        client.secs(1);
        assert_eq!(client.closed, Some(Cause::OpenTimeout));
    }
}

/// VER-12: a program that sends back what it is sent is no server, whether it is probed or shaken hands with.
#[test]
fn an_echo_is_known_as_one() {
    for era in [EraChoice::Auto, EraChoice::Legacy] {
        let (mut client, first) = opened(|c| c.era = era);
        client.feed(first);
        assert_eq!(client.closed, Some(Cause::Violated(Rule::Echo)));
        assert_eq!(client.sent(), [] as [Value; 0], "an answer would come back too");
        assert_eq!(client.found(), [Rule::Echo]);
    }
}

/// A banner on stdout is no answer: the probe waits on, and the noise is recorded.
#[test]
fn a_chatty_server_is_waited_for() {
    let (mut client, _) = opened(|_| {});
    client.raw("Server listening on stdio...");
    client.raw("");
    assert_eq!(client.sent(), [] as [Value; 0]);
    assert_eq!(client.found(), [Rule::Noise, Rule::Noise]);
    client.feed(reply(1, discovered(&["2026-07-28"])));
    assert_eq!(client.session.state(), State::Ready);
}

/// A server that dies of the probe: the state it died in is told, so that a supervisor can start it
/// again and go straight to the handshake.
#[test]
fn a_server_that_dies_of_the_probe_is_told() {
    let (mut client, _) = opened(|_| {});
    client.states();
    let cause = Cause::Exited { status: "exit status: 1".into(), stderr: "unexpected message".into() };
    client.handle(Input::Closed { cause: cause.clone() });
    let states = client.states();
    assert_eq!(states.len(), 1);
    assert_eq!((states[0].from, states[0].to), (State::Probing, State::Disconnected));
    assert_eq!(states[0].cause, Some(cause));
    let (_, first) = opened(|c| c.era = EraChoice::Legacy);
    assert_eq!(first["method"], "initialize");
}

/// VER-18, VER-30: -32022 is answered by one more probe with a common revision, never by the
/// handshake; without one in common the error names what the server speaks.
#[test]
fn a_modern_refusal_is_never_followed_by_the_handshake() {
    let (mut client, _) = opened(|_| {});
    client.feed(unsupported(1, &["2026-07-28"]));
    let again = client.one();
    assert_eq!((again["method"].as_str(), &again["id"]), (Some("server/discover"), &json!(2)));
    client.feed(reply(2, discovered(&["2026-07-28"])));
    assert_eq!(client.session.state(), State::Ready);

    let (mut client, _) = opened(|_| {});
    client.feed(unsupported(1, &["2026-07-28"]));
    client.feed(unsupported(2, &["2026-07-28"]));
    assert!(matches!(client.closed, Some(Cause::NoCommonRevision { .. })), "one retry, no loop");

    let (mut client, _) = opened(|_| {});
    client.feed(unsupported(1, &["2031-01-01"]));
    assert_eq!(next_method(&mut client), None);
    assert_eq!(client.closed, Some(Cause::NoCommonRevision { theirs: vec!["2031-01-01".into()] }));
    assert!(client.closed.unwrap().to_string().contains("2031-01-01"));

    for code in [-32020, -32021] {
        let (mut client, _) = opened(|_| {});
        client.feed(fault(1, code));
        assert_eq!(next_method(&mut client), None);
        assert!(matches!(client.closed, Some(Cause::OpenRefused(_))), "{code}");
    }
}

/// VER-8, VER-12, S2-38, S2-39, S0-3: an answered revision that we do not speak ends the link, with
/// a clear word.
#[test]
fn the_answered_revision_is_checked() {
    for (answered, ours) in [
        ("2031-01-01", Revisions::ALL),
        ("2026-07-28", Revisions::ALL),
        ("2024-11-05", Revisions::only(Revision::V2025_11_25)),
    ] {
        let (mut client, _) = opened(|c| {
            c.era = EraChoice::Legacy;
            c.revisions = ours;
        });
        client.feed(reply(1, initialized(answered)));
        assert_eq!(client.sent(), [] as [Value; 0]);
        assert_eq!(client.closed, Some(Cause::NoCommonRevision { theirs: vec![answered.into()] }));
        assert!(client.found().contains(&Rule::RevisionUnknown));
    }
    let (mut client, _) = opened(|c| c.era = EraChoice::Legacy);
    client.feed(reply(1, json!({"serverInfo": {}})));
    assert_eq!(client.closed, Some(Cause::Violated(Rule::ResultShape)));
}

/// VER-11, VER-12, S0-39: a silent handshake ends the link; `initialize` is never cancelled.
#[test]
fn a_silent_handshake_ends_the_link() {
    let (mut client, _) = opened(|c| c.era = EraChoice::Legacy);
    client.secs(29);
    assert_eq!(client.closed, None);
    client.secs(1);
    assert_eq!(client.closed, Some(Cause::OpenTimeout));
    assert_eq!(client.sent(), [] as [Value; 0]);

    let (mut client, _) = opened(|c| c.era = EraChoice::Legacy);
    client.close("changed my mind");
    assert_eq!(client.sent(), [] as [Value; 0], "no cancel for the handshake");
    assert_eq!(client.closed, Some(Cause::ClosedByUs("changed my mind".into())));
}

/// VER-12: a refused handshake is told with the server's own words.
#[test]
fn a_refused_handshake_is_told() {
    let (mut client, _) = opened(|c| c.era = EraChoice::Legacy);
    client.feed(json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "not today"}}));
    let cause = client.closed.unwrap();
    assert!(matches!(&cause, Cause::OpenRefused(fault) if fault.code == -32602));
    assert!(cause.to_string().contains("not today"));
}

/// VER-33, VER-18: -32022 to `initialize` means modern after all: one more probe, then it is decided.
#[test]
fn a_server_that_refuses_the_handshake_by_revision_is_modern() {
    let (mut client, _) = opened(|_| {});
    client.secs(5);
    assert_eq!(next_method(&mut client).as_deref(), Some("initialize"));
    client.feed(unsupported(2, &["2026-07-28"]));
    let probe = client.one();
    assert_eq!((probe["method"].as_str(), &probe["id"]), (Some("server/discover"), &json!(3)));
    client.feed(reply(3, discovered(&["2026-07-28"])));
    assert_eq!(client.session.revision(), Some(Revision::V2026_07_28));

    let (mut client, _) = opened(|_| {});
    client.feed(fault(1, -32601));
    client.feed(unsupported(2, &["2026-07-28"]));
    client.feed(fault(3, -32601));
    client.sent();
    client.feed(unsupported(4, &["2026-07-28"]));
    assert!(matches!(client.closed, Some(Cause::OpenRefused(_))), "once is enough");

    let (mut client, _) = opened(|c| c.era = EraChoice::Legacy);
    client.feed(unsupported(1, &["2026-07-28"]));
    assert!(matches!(client.closed, Some(Cause::OpenRefused(_))), "legacy was asked for");
}

/// F16, VER-29: a late discover result is never taken for the answer to `initialize`; while that one
/// is out, the modern era wins, and the handshake's answer is late in turn.
#[test]
fn a_late_discover_result_wins_over_an_open_handshake() {
    let (mut client, _) = opened(|_| {});
    client.secs(5);
    assert_eq!(next_method(&mut client).as_deref(), Some("initialize"));
    client.feed(reply(1, discovered(&["2026-07-28"])));
    assert_eq!(client.session.revision(), Some(Revision::V2026_07_28));
    assert_eq!(client.sent(), [] as [Value; 0]);
    client.found();
    client.feed(reply(2, initialized("2025-11-25")));
    assert_eq!(client.found(), [Rule::LateReply]);
    assert_eq!(client.session.revision(), Some(Revision::V2026_07_28));
    assert_eq!(client.sent(), [] as [Value; 0], "no initialized note any more");
    client.secs(60);
    assert_eq!(client.closed, None, "the deadline of the handshake is gone too");
}

/// F16: late answers of other kinds change nothing: an error, nonsense, or a result after the handshake.
#[test]
fn other_late_answers_to_the_probe_change_nothing() {
    for late in [fault(1, -32601), unsupported(1, &["2026-07-28"]), reply(1, json!({}))] {
        let (mut client, _) = opened(|_| {});
        client.secs(5);
        client.sent();
        client.feed(late);
        assert_eq!(client.found(), [Rule::LateReply]);
        client.feed(reply(2, initialized("2025-06-18")));
        assert_eq!(client.session.revision(), Some(Revision::V2025_06_18));
        client.feed(reply(1, discovered(&["2026-07-28"])));
        assert_eq!(client.found(), [Rule::LateReply]);
        assert_eq!(client.session.revision(), Some(Revision::V2025_06_18));
    }
}

/// VER-30: a modern-only client never shakes hands, and says what it met instead. A server may take as long to start as
/// one that is shaken hands with.
#[test]
fn a_modern_only_client_says_what_it_met() {
    let (mut client, _) = opened(|c| c.era = EraChoice::Modern);
    client.secs(29);
    assert_eq!(client.closed, None);
    client.secs(1);
    assert_eq!(client.closed, Some(Cause::OpenTimeout));

    let (mut client, _) = opened(|c| c.revisions = Revisions::MODERN);
    client.feed(fault(1, -32601));
    assert!(matches!(&client.closed, Some(Cause::OpenRefused(fault)) if fault.code == -32601));

    let (mut client, _) = opened(|c| c.revisions = Revisions::MODERN);
    client.raw(r#"{"jsonrpc":"2.0","id":1}"#);
    assert_eq!(client.closed, Some(Cause::Violated(Rule::NoOutcome)), "it did answer");

    let (mut client, _) = opened(|c| c.era = EraChoice::Modern);
    client.feed(reply(1, discovered(&["2025-11-25"])));
    assert_eq!(client.closed, Some(Cause::NoCommonRevision { theirs: vec!["2025-11-25".into()] }));
    assert_eq!(client.sent(), [] as [Value; 0]);

    let mut client = Bench::client_with(|c| {
        c.era = EraChoice::Modern;
        c.revisions = Revisions::LEGACY;
    });
    client.local(Command::Open);
    let cause = client.closed.unwrap();
    assert!(!cause.to_string().ends_with(' '), "an empty list is told as one: {cause}");
}

/// VER-4: before the session is open nothing is called, and the refusal says so.
#[test]
fn nothing_is_called_before_it_is_open() {
    let mut client = Bench::client();
    for step in 0..3 {
        client.call_tool(step);
        assert_eq!(client.outcome(), Outcome::Refused(Refusal::NotOpen));
        match step {
            0 => client.local(Command::Open),
            _ => client.feed(fault(1, -32601)),
        }
        client.sent();
    }
}

/// PNG-1, S0-19: a server may ping while the era is being settled.
#[test]
fn pings_are_answered_while_opening() {
    let (mut client, _) = opened(|_| {});
    client.feed(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    assert_eq!(client.one(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    client.secs(5);
    client.sent();
    client.feed(json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
    assert_eq!(client.one(), json!({"jsonrpc": "2.0", "id": 9, "result": {}}));
}

/// S2-33, VER-10: features that the server did not declare fail here, and the session lives.
#[test]
fn undeclared_features_fail_locally() {
    for era in [Era::Legacy, Era::Modern] {
        let (mut client, _) = opened(|_| {});
        match era {
            Era::Modern => client
                .feed(reply(1, json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}))),
            Era::Legacy => {
                client.feed(fault(1, -32601));
                client
                    .feed(reply(2, json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})));
            }
        }
        client.sent();
        for (ticket, method) in
            [(1, Method::PromptsList), (2, Method::ResourcesRead), (3, Method::CompletionComplete)]
        {
            client.call(ticket, method, None, Default::default());
            assert!(matches!(client.outcome(), Outcome::Refused(Refusal::Capability(_))));
        }
        assert_eq!(client.sent(), [] as [Value; 0]);
        client.call_tool(4);
        assert_eq!(client.one()["method"], "tools/call");
    }
}

/// VER-10: a method of the other era fails here.
#[test]
fn methods_of_the_other_era_fail_locally() {
    let mut modern = Bench::modern_client();
    modern.call(1, Method::Ping, None, Default::default());
    assert_eq!(modern.outcome(), Outcome::Refused(Refusal::NotInRevision(Revision::V2026_07_28)));
    modern.local(Command::Note { method: Method::RootsListChanged, params: None });
    assert_eq!(modern.sent(), [] as [Value; 0]);
    let mut old = Bench::legacy_client("2025-11-25");
    old.call(1, Method::Discover, None, Default::default());
    assert_eq!(old.outcome(), Outcome::Refused(Refusal::NotInRevision(Revision::V2025_11_25)));
    old.local(Command::Note { method: Method::RootsListChanged, params: None });
    assert_eq!(old.one()["method"], "notifications/roots/list_changed");
}

/// LOG-2: a level that was wanted before the handshake is told right after it.
#[test]
fn a_level_wanted_early_is_told_after_the_handshake() {
    let mut client = Bench::client_with(|c| c.era = EraChoice::Legacy);
    client.local(Command::SetLevel(LogLevel::Warning));
    client.local(Command::Open);
    client.sent();
    client.feed(reply(1, initialized("2025-06-18")));
    let sent = client.sent();
    assert_eq!(sent[0]["method"], "notifications/initialized");
    assert_eq!(sent[1]["method"], "logging/setLevel");
    assert_eq!(sent[1]["params"], json!({"level": "warning"}));
}

/// F39, BASE-30, BASE-31, S0-19: a modern server that calls gets no reply; the call is recorded and
/// the link lives, unless we are strict.
#[test]
fn a_modern_server_that_calls_is_not_answered() {
    let mut client = Bench::modern_client();
    client.feed(legacy(1, "roots/list", json!({})));
    client.feed(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(client.found(), [Rule::ServerCall, Rule::ServerCall]);
    assert_eq!(client.sent(), [] as [Value; 0]);
    assert!(client.events().iter().all(|event| !matches!(event, Event::Asked { .. })));
    assert_eq!(client.session.state(), State::Ready);

    let mut strict = Bench::modern_client_with(|c| c.strictness = Strictness::Strict);
    strict.feed(legacy(1, "roots/list", json!({})));
    assert_eq!(strict.closed, Some(Cause::Violated(Rule::ServerCall)));
}

/// S0-13: a session that lost its link opens again with fresh ids and finds the era anew.
#[test]
fn opening_again_starts_over_but_for_the_ids() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.handle(Input::Closed { cause: Cause::ClosedByPeer });
    assert_eq!(client.session.state(), State::Disconnected);
    client.sent();
    client.local(Command::Open);
    let probe = client.one();
    assert_eq!((probe["method"].as_str(), &probe["id"]), (Some("server/discover"), &json!(3)));
    assert_eq!(client.session.revision(), None, "the era of the old link is forgotten");
    client.feed(legacy(1, "ping", json!({})));
    assert_eq!(client.one()["result"], json!({}), "it may be a legacy server now");
    client.feed(fault(3, -32601));
    client.feed(reply(4, initialized("2025-03-26")));
    assert_eq!(client.session.revision(), Some(Revision::V2025_03_26));
}
