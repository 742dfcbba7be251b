//! S0-47: which messages need not wait for bulk, and what is never sent because nobody wants it any more.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::time::Duration;

use cardan_proto::method::Method;
use cardan_proto::session::event::{
    Answer, Ask, Asks, CallOptions, Cause, Command, Delivery, Departed, Input, NewCall, Outcome, Stage,
    Ticket, Turn,
};
use common::*;
use serde_json::json;

fn cancel_ours(bench: &mut Bench, ticket: u64) {
    bench.local(Command::Cancel { ticket: Ticket(ticket), reason: "enough".into() });
}

fn ping(bench: &mut Bench, ticket: u64) {
    let (ticket, options) = (Ticket(ticket), CallOptions::default());
    bench.local(Command::Call(NewCall { ticket, method: Method::Ping, params: None, options }));
}

/// Frames 1 to 3 opened the session; this many of the rest are written, and the next may have begun.
fn departed(in_order: u64, begun: u64) -> Departed {
    Departed { in_order, ahead: in_order, begun }
}

/// S0-47: cancels, pings and their answers go ahead; everything else keeps its place.
#[test]
fn s0_47_control_goes_ahead_and_nothing_else() {
    let mut client = Bench::legacy_client("2025-06-18");
    client.turns.clear();
    client.call_tool(1);
    ping(&mut client, 2);
    cancel_ours(&mut client, 1);
    client.feed(json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
    client.local(Command::Note { method: Method::RootsListChanged, params: None });
    assert_eq!(client.turns, [Turn::InOrder, Turn::Ahead, Turn::Ahead, Turn::Ahead, Turn::InOrder]);

    let mut server = Bench::legacy_server("2025-06-18", json!({}));
    server.turns.clear();
    server.feed(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    server.feed(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
    let key = server.called().key;
    server.local(Command::Answer { key, answer: Answer::Done(r#"{"tools":[]}"#.into()) });
    assert_eq!(server.turns, [Turn::Ahead, Turn::InOrder]);
}

/// S0-47, S0-76: a call that has not begun to leave is taken back, and the server hears nothing of it.
#[test]
fn s0_47_a_cancelled_call_that_never_left_is_taken_back() {
    let mut client = Bench::legacy_client("2025-06-18");
    client.writes = false;
    for ticket in 1..=3 {
        client.call_tool(ticket);
    }
    client.session.departed(departed(3, 4));
    client.sent();
    cancel_ours(&mut client, 2);
    assert_eq!((client.retracted.clone(), client.sent().len()), (vec![5], 0));
    let outcome = client.outcome();
    assert!(matches!(outcome, Outcome::Cancelled { delivery: Delivery::NotSent, .. }), "{outcome:?}");

    // The first one is on its way: half of it may be read already.
    cancel_ours(&mut client, 1);
    assert_eq!(client.one()["method"], "notifications/cancelled");
    let outcome = client.outcome();
    assert!(matches!(outcome, Outcome::Cancelled { delivery: Delivery::Unknown, .. }), "{outcome:?}");

    // Time runs out for the third.
    client.secs(30);
    let outcome = client.outcome();
    let Outcome::TimedOut { delivery, stage, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((delivery, stage), (Delivery::NotSent, Stage::Queued));
    assert_eq!((client.retracted.clone(), client.sent().len()), (vec![5, 6], 0));
    assert_eq!(client.session.in_flight(), (0, 0));
}

/// S0-47: a reply to a call that was taken back is nobody's.
#[test]
fn s0_47_leaving_takes_back_what_never_left() {
    let mut client = Bench::legacy_client("2025-06-18");
    client.writes = false;
    for ticket in 1..=2 {
        client.call_tool(ticket);
    }
    client.session.departed(departed(4, 4));
    client.sent();
    client.close("done");
    let delivered: Vec<_> = client
        .settled()
        .into_iter()
        .map(|(ticket, outcome)| match outcome {
            Outcome::Cancelled { delivery, .. } => (ticket, delivery),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(delivered, [(1, Delivery::Unknown), (2, Delivery::NotSent)]);
    assert_eq!((client.retracted.clone(), client.sent().len()), (vec![5], 1), "one cancel, for the first");
}

/// S0-47, S0-76: a ping that overtook bulk was written, whatever became of the bulk; and a stalled one was not.
#[test]
fn s0_47_what_overtook_is_counted_as_itself() {
    let lost = |ahead| {
        let mut client = Bench::legacy_client("2025-06-18");
        client.writes = false;
        client.call_tool(1);
        ping(&mut client, 2);
        client.session.departed(Departed { in_order: 3, ahead, begun: 3 });
        client.handle(Input::Closed { cause: Cause::ClosedByPeer });
        client
            .settled()
            .into_iter()
            .map(|(_, outcome)| match outcome {
                Outcome::Lost { delivery, .. } => delivery,
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(lost(5), [Delivery::NotSent, Delivery::Unknown]);
    assert_eq!(lost(0), [Delivery::NotSent, Delivery::NotSent]);
}

/// S0-47: a legacy server takes back an ask that its client has not read, when the call it serves is gone.
#[test]
fn s0_47_an_ask_that_never_left_is_taken_back() {
    let mut server = Bench::legacy_server("2025-06-18", json!({"roots": {}}));
    server.feed(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}));
    let key = server.called().key;
    server.writes = false;
    let ask = Ask { method: Method::RootsList, params: None };
    let asks = Asks { entries: vec![("r".into(), ask)], state: None };
    server.local(Command::Answer { key, answer: Answer::Ask(asks) });
    assert_eq!(server.one()["method"], "roots/list");
    server.session.departed(departed(1, 1));
    server.feed(cancel(1));
    assert_eq!((server.retracted.len(), server.sent().len()), (1, 0));
    server.wait(Duration::from_secs(1000));
    assert_eq!(server.session.in_flight(), (0, 0));
}

/// S0-47: a link that gives nothing back is never asked to, and nothing is called unsent that may leave yet.
#[test]
fn s0_47_without_word_of_the_outbox_nothing_is_taken_back() {
    let mut client = Bench::legacy_client("2025-06-18");
    client.writes = false;
    client.call_tool(1);
    client.sent();
    cancel_ours(&mut client, 1);
    assert_eq!(client.one()["method"], "notifications/cancelled");
    assert!(client.retracted.is_empty());
}
