//! Where a session is, how it gets there, and how it leaves.

mod common;

use std::time::Duration;

use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, Command, Input, Interest, Outcome, Refusal, Ticket};
use cardan_proto::session::state::{FiveStates, State, StateChange};
use common::*;
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn path(changes: &[StateChange]) -> Vec<(State, State)> {
    changes.iter().map(|change| (change.from, change.to)).collect()
}

/// Every state a client can be closed in, with a bench that is there.
fn clients_everywhere() -> Vec<(State, Bench)> {
    let mut probing = Bench::client();
    probing.local(Command::Open);
    let mut initializing = Bench::client();
    initializing.local(Command::Open);
    initializing.feed(fault(1, -32601));
    vec![
        (State::Disconnected, Bench::client()),
        (State::Probing, probing),
        (State::Initializing, initializing),
        (State::Ready, Bench::modern_client()),
        (State::Ready, Bench::legacy_client("2025-11-25")),
    ]
}

/// S2-19, S2-34 to S2-37, S0-29: each change is told with old and new state, and follows the table.
#[test]
fn the_way_to_ready_is_told() {
    let mut client = Bench::client();
    client.local(Command::Open);
    client.feed(fault(1, -32601));
    client.feed(reply(2, initialized("2025-11-25")));
    let states = client.states();
    assert_eq!(
        path(&states),
        [
            (State::Disconnected, State::Connecting),
            (State::Connecting, State::Probing),
            (State::Probing, State::Initializing),
            (State::Initializing, State::Ready)
        ]
    );
    assert!(states.iter().all(|change| change.from.may_become(change.to)));
    let five: Vec<_> = states.iter().map(|change| change.to.projected()).collect();
    assert_eq!(
        five,
        [FiveStates::Connecting, FiveStates::Initializing, FiveStates::Initializing, FiveStates::Ready]
    );
    assert!(client.session.server_caps().tools.is_some(), "ready comes with capabilities");
    assert!(client.session.greeting().is_some());
}

/// S2-38, S2-36: a failed connect closes its link and says why.
#[test]
fn a_failed_connect_says_why() {
    let mut client = Bench::client();
    client.local(Command::Open);
    client.secs(5);
    client.secs(30);
    assert_eq!(client.closed, Some(Cause::OpenTimeout));
    client.handle(Input::Closed { cause: Cause::OpenTimeout });
    let states = client.states();
    let last = states.last().unwrap();
    assert_eq!((last.to, last.cause.clone()), (State::Disconnected, Some(Cause::OpenTimeout)));
}

/// S2-40, S2-46, S2-36, F38: a close of ours works in every state, ends in `Closed` and stays there.
#[test]
fn a_close_works_in_every_state() {
    for (state, mut client) in clients_everywhere() {
        assert_eq!(client.session.state(), state);
        client.close("bye");
        client.handle(Input::Closed { cause: Cause::ClosedByUs("bye".into()) });
        assert_eq!(client.session.state(), State::Closed, "from {state:?}");
        assert_eq!(client.states().last().unwrap().cause, Some(Cause::ClosedByUs("bye".into())));
        client.sent();
        client.local(Command::Open);
        assert_eq!(client.session.state(), State::Closed, "closed is final");
        assert_eq!(client.sent(), NOTHING);
    }
}

/// S2-46, S0-56: the first cause counts: what the link says after our close does not make it a loss.
#[test]
fn the_first_cause_counts() {
    for after in [
        Cause::ClosedByPeer,
        Cause::Io("broken pipe".into()),
        Cause::Exited { status: "signal: 15".into(), stderr: "".into() },
    ] {
        let mut client = Bench::modern_client();
        client.close("bye");
        client.handle(Input::Closed { cause: after.clone() });
        assert_eq!(client.session.state(), State::Closed, "{after}");
    }
    let mut server = Bench::server();
    server.feed(modern(1, "tools/call", json!({"name": "slow"})));
    let key = server.called().key;
    server.close("restart");
    server.handle(Input::ReadClosed);
    server.done(key, json!({}));
    assert_eq!(server.closed, Some(Cause::ClosedByUs("restart".into())), "not by the peer");
}

/// S2-46: a loss from every state ends in `Disconnected`, from where one may try again.
#[test]
fn a_loss_may_be_tried_again() {
    for (state, mut client) in clients_everywhere() {
        if state == State::Disconnected {
            continue;
        }
        client.handle(Input::Closed { cause: Cause::ClosedByPeer });
        assert_eq!(client.session.state(), State::Disconnected, "from {state:?}");
        client.sent();
        client.local(Command::Open);
        assert_eq!(client.one()["method"], "server/discover");
    }
}

/// S1-17, S0-43: after the end of a link nothing is taken from it and nothing is sent to it.
#[test]
fn nothing_happens_after_the_end() {
    let mut client = Bench::modern_client();
    client.close("bye");
    client.events();
    client.feed(reply(1, json!({})));
    client.raw("noise");
    client.feed(legacy(1, "ping", json!({})));
    client.call_tool(1);
    assert_eq!(client.outcome(), Outcome::Refused(Refusal::NotOpen));
    client.local(Command::Listen { ticket: Ticket(2), interest: Interest::default() });
    assert_eq!(client.outcome(), Outcome::Refused(Refusal::NotOpen));
    assert_eq!(client.sent(), NOTHING);
    assert!(client.events().is_empty());
    assert_eq!(client.session.deadline(), None);

    let mut server = Bench::server();
    server.close("bye");
    server.feed(modern(1, "tools/list", json!({})));
    server.raw("noise");
    assert_eq!(server.sent(), NOTHING);
    assert!(server.calls().is_empty());
}

/// S0-56, S0-58, S0-39: our close gives up what is in flight, tells the server, and settles each call once.
#[test]
fn a_closing_client_gives_its_calls_up() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.local(Command::Listen {
        ticket: Ticket(2),
        interest: Interest { tools: true, ..Interest::default() },
    });
    client.call_tool(3);
    client.feed(reply(
        4,
        json!({"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}}),
    ));
    client.sent();
    client.close("user quit");
    let mut tickets = Vec::new();
    for (ticket, outcome) in client.settled() {
        assert!(matches!(outcome, Outcome::Cancelled { reason, .. } if reason == "user quit"));
        tickets.push(ticket);
    }
    tickets.sort_unstable();
    assert_eq!(tickets, [1, 2, 3]);
    let cancelled: Vec<_> = client.sent().iter().map(|frame| frame["params"]["requestId"].clone()).collect();
    assert_eq!(cancelled, [json!(2), json!(3)], "the third call was not in flight");
    client.handle(Input::Closed { cause: Cause::ClosedByUs("user quit".into()) });
    assert!(client.settled().is_empty());
}

/// S2-41: no revision has a `shutdown` call, and leaving makes none.
#[test]
fn leaving_makes_no_call() {
    for mut client in [Bench::modern_client(), Bench::legacy_client("2024-11-05")] {
        client.close("bye");
        assert_eq!(client.sent(), NOTHING);
    }
}

/// STD-12, S1-12: when the peer ends its input, running calls may finish within the grace, then it is over.
#[test]
fn the_end_of_input_drains_a_server() {
    let mut idle = Bench::server();
    idle.handle(Input::ReadClosed);
    assert_eq!(idle.closed, Some(Cause::ClosedByPeer), "at once when nothing runs");

    let mut server = Bench::server();
    server.feed(modern(1, "tools/call", json!({"name": "slow"})));
    server.feed(modern(2, "tools/call", json!({"name": "slow"})));
    let calls = server.calls();
    server.handle(Input::ReadClosed);
    assert_eq!((server.session.state(), server.closed.clone()), (State::Draining, None));
    server.done(calls[0].key, json!({}));
    assert_eq!(server.one()["id"], 1);
    server.wait(Limits::DEFAULT.eof_grace);
    assert_eq!(server.closed, Some(Cause::ClosedByPeer));
    assert_eq!(server.withdrawn()[0].0, calls[1].key);
    server.done(calls[1].key, json!({}));
    assert_eq!(server.sent(), NOTHING);
}

/// F38, S2-41: a leaving server finishes what runs, refuses what is new, and leaves in time in any case.
#[test]
fn a_leaving_server_drains() {
    let mut server = Bench::server();
    server.feed(modern("l", "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})));
    server.feed(modern(1, "tools/call", json!({"name": "slow"})));
    let key = server.called().key;
    server.sent();
    server.close("restart");
    assert_eq!(server.one()["id"], "l");
    server.feed(modern(2, "tools/call", json!({"name": "slow"})));
    assert_eq!(code(&server.one()), 42_900);
    server.done(key, json!({}));
    assert_eq!(server.one()["id"], 1);
    assert_eq!(server.closed, Some(Cause::ClosedByUs("restart".into())));

    let mut stuck = Bench::server();
    stuck.feed(modern(1, "tools/call", json!({"name": "slow"})));
    let key = stuck.called().key;
    stuck.close("restart");
    stuck.wait(Limits::DEFAULT.drain_timeout - Duration::from_millis(1));
    assert_eq!(stuck.closed, None);
    assert_eq!(stuck.sent(), NOTHING);
    stuck.wait(Duration::from_millis(1));
    // F24: it is told, once: what is answered is not withdrawn.
    let lost = stuck.one();
    assert_eq!((&lost["id"], &lost["error"]["data"]["outcome"]), (&json!(1), &json!("lost")));
    assert_eq!(stuck.withdrawn(), []);
    stuck.done(key, json!({}));
    assert_eq!(stuck.sent(), NOTHING);
    assert_eq!(stuck.closed, Some(Cause::ClosedByUs("restart".into())));
    assert_eq!(stuck.session.in_flight(), (0, 0));
}

/// A client that loses its server's output has lost the link, calls and all.
#[test]
fn the_end_of_output_ends_a_client() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.handle(Input::ReadClosed);
    assert!(matches!(client.outcome(), Outcome::Lost { cause: Cause::ClosedByPeer, .. }));
    assert_eq!(client.closed, Some(Cause::ClosedByPeer));
    client.handle(Input::Closed { cause: Cause::ClosedByPeer });
    assert_eq!(client.session.state(), State::Disconnected);
}
