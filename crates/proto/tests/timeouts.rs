//! S0-57: what a call tells whose time was up: how far it came, after how long, and what was heard meanwhile.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::time::Duration;

use cardan_proto::session::event::{CallOptions, Outcome, Stage};
use common::*;
use serde_json::json;

fn timed_out(outcome: Outcome) -> (Stage, Duration, u64) {
    let Outcome::TimedOut { stage, after, seen_bytes, .. } = outcome else { panic!("{outcome:?}") };
    (stage, after, seen_bytes)
}

/// S0-57: a call that the peer never took is told from one that it took and forgot.
#[test]
fn s0_57_a_timeout_says_how_far_the_call_came() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.secs(30);
    assert_eq!(timed_out(client.outcome()), (Stage::Sent, Duration::from_secs(30), 0));

    client.writes = false;
    client.call_tool(2);
    client.secs(30);
    assert_eq!(timed_out(client.outcome()).0, Stage::Queued);

    client.writes = true;
    client.call_with(3, wanting_progress());
    client.feed(note("notifications/progress", json!({"progressToken": 4, "progress": 1})));
    client.secs(30);
    assert_eq!(timed_out(client.outcome()).0, Stage::Running);
}

/// S0-57: the time somebody took to answer an ask is told as that.
#[test]
fn s0_57_a_timeout_while_somebody_is_asked_says_so() {
    let mut client = Bench::modern_client();
    let options = CallOptions { total: Some(Duration::from_secs(100)), ..CallOptions::default() };
    client.call_with(1, options);
    client.feed(reply(
        2,
        json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}),
    ));
    assert_eq!(client.asked().len(), 1);
    client.secs(100);
    let (stage, after, _) = timed_out(client.outcome());
    assert_eq!((stage, after), (Stage::Asking, Duration::from_secs(100)));
}

/// S0-57: bytes are counted from the call on, those of half a message too.
#[test]
fn s0_57_bytes_seen_are_those_since_the_call() {
    let other = note("notifications/message", json!({"level": "info", "data": "x"}));
    let length = other.to_string().len() as u64;
    let mut client = Bench::modern_client();
    client.feed(other.clone());
    client.call_tool(1);
    client.feed(other.clone());
    client.secs(10);
    client.feed(other.clone());
    client.secs(20);
    assert_eq!(timed_out(client.outcome()).2, 2 * length, "two frames since the call");

    // The link knows better: it has read more than the frames are.
    client.session.received(10_000);
    client.call_tool(2);
    client.feed(other);
    client.session.received(10_000 + length + 1 + 700);
    client.secs(30);
    assert_eq!(timed_out(client.outcome()).2, length + 1 + 700);
}
