//! Bounds that have no other home for their tests: what happens at each, one below it and one beyond.

mod common;

use std::time::Duration;

use cardan_proto::dialect::Dialect;
use cardan_proto::finding::Rule;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Cause, Event, Input, Outcome};
use cardan_proto::session::state::State;
use common::*;
use serde_json::{Map, Value, json};

fn forms(count: usize) -> Value {
    let form = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}});
    let entries: Map<_, _> = (0..count).map(|n| (n.to_string(), form.clone())).collect();
    json!({"resultType": "input_required", "inputRequests": entries})
}

/// `limits.asks_per_round`: the client refuses a result with more, the server a handler with more and a
/// retry that brings more.
#[test]
fn asks_per_round() {
    for (count, fits) in [(2, true), (3, false)] {
        let mut client = Bench::modern_client_with(|c| c.limits.asks_per_round = 2);
        client.call_tool(1);
        client.feed(reply(2, forms(count)));
        assert_eq!(client.asked().len(), if fits { count } else { 0 });
        let violated =
            matches!(client.settled()[..], [(1, Outcome::Violated(ref v))] if v.rule == Rule::ResultShape);
        assert_eq!(violated, !fits, "{count}");

        let mut server = Bench::server_with(|c| c.limits.asks_per_round = 2);
        server.feed(modern_with(1, "tools/call", json!({"name": "a"}), json!({"elicitation": {}})));
        let key = server.called().key;
        let form = json!({"message": "?", "requestedSchema": {"type": "object"}});
        let names: Vec<_> = (0..count).map(|n| n.to_string()).collect();
        let entries: Vec<_> =
            names.iter().map(|name| (name.as_str(), Method::ElicitationCreate, form.clone())).collect();
        server.ask(key, &entries, None);
        let answer = server.one();
        assert_eq!(answer["result"]["resultType"] == "input_required", fits, "{answer}");

        let answers: Map<_, _> = (0..count).map(|n| (n.to_string(), json!({"action": "decline"}))).collect();
        let params = json!({"name": "a", "inputResponses": answers, "requestState": "s"});
        server.feed(modern_with(2, "tools/call", params, json!({"elicitation": {}})));
        assert_eq!(server.calls().len(), usize::from(fits));
        assert!(fits || code(&server.one()) == -32602);
    }
}

/// `limits.reason_bytes`: the reason of a cancel comes as it was written, cut where it is longer, and never within a character.
#[test]
fn reasons_of_cancels() {
    for (given, told) in
        [("a\"b", "a\"b"), ("12345678", "12345678"), ("123456789", "12345678"), ("1234567é", "1234567")]
    {
        let mut server = Bench::server_with(|c| c.limits.reason_bytes = 8);
        server.feed(modern(1, "tools/call", json!({"name": "a"})));
        let key = server.called().key;
        server.feed(note("notifications/cancelled", json!({"requestId": 1, "reason": given})));
        assert_eq!(server.withdrawn(), [(key, told.into())]);
    }
}

/// ELI-24, `limits.asks_per_minute`: a legacy server that asks faster is refused with a fault and found out;
/// a minute later it may ask again.
#[test]
fn asks_per_minute_in_the_legacy_era() {
    let mut client = Bench::legacy_client_with("2025-11-25", |c| c.limits.asks_per_minute = 2);
    let ask = |client: &mut Bench, id: u64| {
        let params = json!({"message": "?", "requestedSchema": {"type": "object"}});
        client.feed(legacy(id, "elicitation/create", params));
        client.asked().len()
    };
    assert_eq!((ask(&mut client, 1), ask(&mut client, 2)), (1, 1));
    assert!(client.sent().is_empty() && client.found().is_empty());
    client.secs(59);
    assert_eq!(ask(&mut client, 3), 0, "nobody is asked");
    let refused = client.one();
    assert_eq!((&refused["id"], code(&refused)), (&json!(3), 42_900));
    assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("ask again later")));
    assert_eq!(client.found(), [Rule::AskFlood]);
    client.secs(1);
    assert_eq!(ask(&mut client, 4), 1);
    assert!(client.sent().is_empty() && client.found().is_empty());
}

/// ELI-24, `limits.asks_per_minute`: a modern call that asks faster is given up; all asks of a round are put
/// to the user or none.
#[test]
fn asks_per_minute_in_the_modern_era() {
    let mut client = Bench::modern_client_with(|c| c.limits.asks_per_minute = 3);
    let ask = |client: &mut Bench, ticket: u64, count: usize| {
        client.call_tool(ticket);
        let id = client.one()["id"].clone();
        client.feed(reply(id, forms(count)));
        client.asked().len()
    };
    assert_eq!(ask(&mut client, 1, 2), 2);
    assert_eq!(ask(&mut client, 2, 2), 0);
    assert!(matches!(client.outcome(), Outcome::Cancelled { reason, .. } if reason.contains("too often")));
    assert_eq!(client.found(), [Rule::AskFlood]);
    assert_eq!(ask(&mut client, 3, 1), 1, "what was refused does not count");
    client.secs(60);
    assert_eq!(ask(&mut client, 4, 3), 3);
}

/// `limits.excerpt_bytes`: of what is no message, a finding shows so much and says that there was more.
#[test]
fn excerpt_bytes() {
    for (line, shown) in [("not json", "not json"), ("not json at all", "not json...")] {
        let mut client = Bench::modern_client_with(|c| c.limits.excerpt_bytes = 8);
        client.raw(line);
        let details: Vec<_> = client
            .events()
            .into_iter()
            .filter_map(|event| match event {
                Event::Found(finding) => Some(finding.bytes),
                _ => None,
            })
            .collect();
        assert_eq!(details, [shown.into()]);
    }
}

/// `limits.farewell_timeout`: a server that does not answer the goodbye is left then, and not before.
#[test]
fn farewell_timeout() {
    let mut client = Bench::client_with(|c| {
        c.dialect = Dialect::Tutorial;
        c.era = cardan_proto::session::config::EraChoice::Legacy;
        c.limits.farewell_timeout = Duration::from_secs(7);
    });
    client.local(cardan_proto::session::event::Command::Open);
    client.feed(reply(1, initialized("2024-11-05")));
    assert_eq!(client.session.state(), State::Ready);
    client.sent();
    client.close("done");
    assert_eq!(client.one()["method"], "shutdown");
    client.wait(Duration::from_millis(6_999));
    assert_eq!(client.closed, None);
    client.handle(Input::Tick);
    client.wait(Duration::from_millis(1));
    assert_eq!(client.closed, Some(Cause::ClosedByUs("done".into())));
}
