//! Calls in flight, both directions: correlation, deadlines, cancels, and what is left at the end.

mod common;

use std::time::Duration;

use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::method::Method;
use cardan_proto::session::event::{
    Answer, CallOptions, Cause, Command, Deadline, Delivery, Event, Input, Outcome, Refusal, Stage, Ticket,
};
use cardan_proto::session::state::State;
use common::*;
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn cancel_ours(client: &mut Bench, ticket: u64) {
    client.local(Command::Cancel { ticket: Ticket(ticket), reason: "user left".into() });
}

/// S0-13, S0-15, S1-42, BASE-5, BASE-6, S3-9, S0-17: ids count up and are never used twice; replies in
/// any order find their call, once.
#[test]
fn replies_find_their_calls_in_any_order() {
    let mut client = Bench::legacy_client("2025-11-25");
    for ticket in 10..15 {
        client.call_tool(ticket);
    }
    let ids: Vec<_> = client.sent().iter().map(|call| call["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [3, 4, 5, 6, 7]);
    assert_eq!(client.session.in_flight(), (0, 5));
    for id in [6, 3, 7, 5, 4] {
        client.feed(reply(id, json!({"n": id})));
    }
    let settled = client.settled().into_iter().map(|(ticket, outcome)| match outcome {
        Outcome::Done(result) => (ticket, parsed(&result)["n"].as_u64().unwrap()),
        other => panic!("{other:?}"),
    });
    assert_eq!(settled.collect::<Vec<_>>(), [(13, 6), (10, 3), (14, 7), (12, 5), (11, 4)]);
    assert_eq!(client.session.in_flight(), (0, 0));
    client.call_tool(20);
    assert_eq!(client.one()["id"], 8);
}

/// S2-15, BASE-9, BASE-24, BASE-28, S0-61: a fault reaches the caller whole, whatever its code, and
/// is told apart from everything that we raise ourselves.
#[test]
fn faults_reach_the_caller_whole() {
    for code in [-32602, -32000, -32001, -32019, -32042, 7, 0, -1] {
        let mut client = Bench::modern_client();
        client.call_tool(1);
        client.feed(json!({"jsonrpc": "2.0", "id": 2, "error":
            {"code": code, "message": "no", "data": {"details": [1.5]}}}));
        let Outcome::Fault(fault) = client.outcome() else { panic!("{code}") };
        assert_eq!((fault.code, &*fault.message), (code, "no"));
        assert_eq!(parsed(&fault.data.unwrap()), json!({"details": [1.5]}));
    }
}

/// S0-20, F16, CAN-6, S0-38, T11: replies that nobody waits for are told apart, and none is matched.
#[test]
fn stray_replies_are_told_apart() {
    let mut client = Bench::modern_client();
    for ticket in 1..=4 {
        client.call_tool(ticket);
    }
    client.sent();
    client.feed(reply(2, json!({})));
    client.feed(reply(2, json!({"again": true})));
    cancel_ours(&mut client, 2);
    client.feed(reply(3, json!({})));
    client.feed(reply(99, json!({})));
    client.feed(reply("abc", json!({})));
    client.feed(reply("99", json!({})));
    client.feed(fault(99, -1));
    assert_eq!(
        client.found(),
        [
            Rule::DuplicateReply,
            Rule::LateReply,
            Rule::UnknownReply,
            Rule::UnknownReply,
            Rule::UnknownReply,
            Rule::UnknownReply
        ]
    );
    let tickets: Vec<_> = client.settled().iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(tickets, [1, 2], "one outcome each, none for the strays");
    assert_eq!(client.session.in_flight(), (0, 2));
}

/// BASE-7, T11, S0-20: an id in another JSON type is not our id. The call it was surely meant for
/// fails at once instead of hanging; lenient sessions take it.
#[test]
fn an_id_of_another_type_is_not_ours() {
    for id in [json!("2"), json!(2.0)] {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        let mut client = Bench::modern_client();
        client.call_tool(1);
        client.raw(&frame);
        assert!(matches!(client.outcome(), Outcome::Violated(v) if v.rule == Rule::IdTypeChanged), "{frame}");
        assert!(client.found().contains(&Rule::IdTypeChanged));

        let mut lenient = Bench::modern_client_with(|c| c.strictness = Strictness::Lenient);
        lenient.call_tool(1);
        lenient.raw(&frame);
        assert!(matches!(lenient.outcome(), Outcome::Done(_)), "{frame}");
        assert!(lenient.found().contains(&Rule::IdTypeChanged));
    }
}

/// S3-18, BASE-8, S0-40, S0-81: a reply that is none fails its call at once, with the rule.
#[test]
fn a_malformed_reply_fails_its_call_at_once() {
    for (frame, rule) in [
        (r#"{"id":2,"result":{}}"#, Rule::VersionMissing),
        (r#"{"jsonrpc":"2.0","id":2}"#, Rule::NoOutcome),
        (r#"{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":""}}"#, Rule::BothOutcomes),
        (r#"{"jsonrpc":"2.0","id":2,"error":{"code":"x","message":""}}"#, Rule::ErrorShape),
        (r#"{"jsonrpc":"2.0","id":2,"result":{}}{}"#, Rule::Trailing),
        (&format!(r#"{{"jsonrpc":"2.0","id":2,"result":{}"#, "[".repeat(200)), Rule::Depth),
        (r#"[{"jsonrpc":"2.0","id":2,"result":{}}]"#, Rule::BatchForbidden),
    ] {
        let mut client = Bench::modern_client();
        client.call_tool(1);
        client.sent();
        client.raw(frame);
        assert!(matches!(client.outcome(), Outcome::Violated(v) if v.rule == rule), "{frame}");
        assert_eq!(client.sent(), NOTHING, "a client never answers a broken frame");
        assert_eq!(client.session.state(), State::Ready);
    }
}

/// BASE-11, S1-5: an error without id belongs to the only call in flight, and to none of several.
#[test]
fn an_error_without_id_is_attributed_only_without_doubt() {
    let nameless = json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "cannot read"}});
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.feed(nameless.clone());
    assert!(matches!(client.outcome(), Outcome::Fault(fault) if fault.code == -32700));
    client.call_tool(2);
    client.call_tool(3);
    client.feed(nameless);
    assert!(client.settled().is_empty());
    assert_eq!(client.found(), [Rule::ReplyWithoutId, Rule::ReplyWithoutId]);
}

/// BASE-20, BASE-21: no type reads as complete, an unknown one is no valid reply,
/// one of a declared extension is.
#[test]
fn result_types_are_read() {
    for (result, valid) in [
        (json!({"content": []}), true),
        (json!({"resultType": "complete"}), true),
        (json!({"resultType": "task"}), false),
        (json!({"resultType": 5}), false),
        (json!([]), false),
        (json!("x"), false),
    ] {
        let mut client = Bench::modern_client();
        client.call_tool(1);
        client.feed(reply(2, result.clone()));
        match client.outcome() {
            Outcome::Done(done) => assert!(valid && parsed(&done) == result, "{result}"),
            Outcome::Violated(v) => assert!(!valid && v.rule == Rule::ResultType, "{result}"),
            other => panic!("{other:?}"),
        }
    }
    let mut client = Bench::modern_client_with(|c| c.result_types = vec!["task".into()]);
    client.call_tool(1);
    client.feed(reply(2, json!({"resultType": "task"})));
    assert!(matches!(client.outcome(), Outcome::Done(_)));
}

/// CAN-11, S0-36, S0-39, S0-86, CAN-2: silence ends a call on time, the server is told, and a late
/// reply is known for what it is.
#[test]
fn s0_36_silence_ends_a_call_on_time() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.sent();
    client.wait(Duration::from_millis(29_999));
    assert!(client.settled().is_empty());
    client.wait(Duration::from_millis(1));
    assert_eq!(
        client.outcome(),
        Outcome::TimedOut {
            deadline: Deadline::Idle,
            after: Duration::from_secs(30),
            delivery: Delivery::Unknown,
            stage: Stage::Sent,
            seen_bytes: 0,
        }
    );
    let told = client.one();
    assert_eq!(told["method"], "notifications/cancelled");
    assert_eq!(told["params"]["requestId"], 2);
    client.feed(reply(2, json!({})));
    assert_eq!(client.found(), [Rule::LateReply]);
    assert_eq!(client.session.in_flight(), (0, 0));
}

/// CAN-12, S0-36, F18: progress puts off the idle deadline and never the total one; both are set per
/// call, and zero means none.
#[test]
fn can_12_progress_never_lifts_the_total() {
    let mut client = Bench::modern_client();
    let options = CallOptions {
        idle: Some(Duration::from_secs(10)),
        total: Some(Duration::from_secs(35)),
        ..wanting_progress()
    };
    client.call_with(1, options);
    for n in 1..=6 {
        client.secs(5);
        client.feed(note("notifications/progress", json!({"progressToken": 2, "progress": n})));
        assert!(client.settled().is_empty(), "{n}");
    }
    client.secs(5);
    let Outcome::TimedOut { deadline, after, delivery, .. } = client.outcome() else { panic!() };
    assert_eq!((deadline, after), (Deadline::Total, Duration::from_secs(35)));
    assert_eq!(delivery, Delivery::Sent, "progress showed that it arrived");

    let none =
        CallOptions { idle: Some(Duration::ZERO), total: Some(Duration::ZERO), ..CallOptions::default() };
    client.call_with(2, none);
    client.secs(1_000_000);
    assert!(client.settled().is_empty());
}

/// S0-87, S0-37, S0-56, S0-58, STD-9, CAN-9: a cancel reaches the server with the caller's reason, and
/// the caller gets that reason back, as another outcome than a timeout.
#[test]
fn a_cancel_reaches_the_server() {
    let mut client = Bench::legacy_client("2025-06-18");
    client.call_tool(1);
    client.sent();
    cancel_ours(&mut client, 1);
    assert_eq!(client.one(), note("notifications/cancelled", json!({"requestId": 3, "reason": "user left"})));
    assert_eq!(
        client.outcome(),
        Outcome::Cancelled { reason: "user left".into(), delivery: Delivery::Unknown }
    );
    client.secs(100);
    cancel_ours(&mut client, 1);
    assert_eq!((client.settled().len(), client.sent().len()), (0, 0), "the first cause wins");
}

/// F17, CAN-7: a cancel after the reply is nothing; a reply after the cancel is late; one outcome each.
#[test]
fn cancel_races_completion() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.sent();
    client.feed(reply(2, json!({})));
    cancel_ours(&mut client, 1);
    assert!(matches!(client.outcome(), Outcome::Done(_)));
    assert_eq!(client.sent(), NOTHING);
    client.call_tool(2);
    client.sent();
    cancel_ours(&mut client, 2);
    client.feed(reply(3, json!({})));
    assert!(matches!(client.outcome(), Outcome::Cancelled { .. }));
    assert_eq!(client.sent().len(), 1);
}

/// CAN-5, STD-9, STD-10, F17, CAN-9: a cancelled call of the peer stops the handler, with the reason;
/// whatever the handler still says about it goes nowhere.
#[test]
fn a_cancelled_handler_sends_nothing() {
    for era in ["legacy", "modern"] {
        let mut server = Bench::legacy_server("2025-11-25", json!({}));
        let params = json!({"name": "slow", "_meta": {"progressToken": "t"}});
        server.feed(match era {
            "legacy" => legacy("x", "tools/call", params),
            _ => modern("x", "tools/call", params),
        });
        let key = server.called().key;
        server.feed(cancel("x"));
        assert_eq!(server.withdrawn(), [(key, "no longer needed".into())]);
        server.local(Command::Progress { key, progress: Default::default() });
        server.done(key, json!({"content": []}));
        assert_eq!(server.sent(), NOTHING, "{era}");
        assert_eq!(server.session.in_flight(), (0, 0));
        assert!(server.found().is_empty());
    }
}

/// CAN-7, CAN-8, CAN-1, T11, S3-10, BASE-13: pointless and malformed cancels are never answered, and hit
/// no call of another id type.
#[test]
fn pointless_cancels_are_ignored() {
    let mut server = Bench::legacy_server("2025-11-25", json!({}));
    server.feed(legacy(7, "tools/call", json!({"name": "slow"})));
    let key = server.called().key;
    server.feed(cancel("7"));
    server.feed(cancel(8));
    server.feed(cancel(json!(null)));
    server.feed(cancel(json!({"id": 7})));
    server.feed(note("notifications/cancelled", json!({})));
    server.feed(json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}));
    assert_eq!(server.found(), [Rule::CancelUnknown; 6]);
    assert_eq!(server.sent(), NOTHING);
    server.done(key, json!({"content": []}));
    assert_eq!(server.one()["id"], 7);
    server.feed(cancel(7));
    assert_eq!(server.sent(), NOTHING, "the call had ended");
}

/// CAN-3: a modern server cannot cancel a call of ours.
#[test]
fn a_server_cannot_cancel_our_calls() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.feed(cancel(2));
    assert!(client.settled().is_empty());
    assert_eq!(client.found(), [Rule::CancelUnknown]);
    client.feed(reply(2, json!({})));
    assert!(matches!(client.outcome(), Outcome::Done(_)));
}

/// F15, BASE-6, T11: a second call with a running id is refused, the first is unharmed; another type
/// is another id.
#[test]
fn duplicate_ids_of_the_peer_are_refused() {
    let mut server = Bench::server();
    server.feed(modern(1, "tools/call", json!({"name": "a"})));
    let first = server.called().key;
    server.feed(modern(1, "tools/call", json!({"name": "b"})));
    let refused = server.one();
    assert_eq!((&refused["id"], code(&refused)), (&json!(1), -32600));
    assert_eq!(server.found(), [Rule::DuplicateCall]);
    server.feed(modern("1", "tools/call", json!({"name": "c"})));
    let second = server.called().key;
    server.done(second, json!({"n": "text"}));
    server.done(first, json!({"n": "number"}));
    let sent = server.sent();
    assert_eq!((&sent[0]["id"], &sent[0]["result"]["n"]), (&json!("1"), &json!("text")));
    assert_eq!((&sent[1]["id"], &sent[1]["result"]["n"]), (&json!(1), &json!("number")));
    server.feed(modern(1, "tools/call", json!({"name": "d"})));
    assert_eq!(server.calls().len(), 1, "a finished id may come again in the modern era");
}

/// S0-16, S2-3, S0-48: a slow handler holds nobody up; calls are handed over in order of arrival.
#[test]
fn slow_handlers_hold_nobody_up() {
    let mut server = Bench::server();
    for id in 1..=3 {
        server.feed(modern(id, "tools/call", json!({"name": "slow"})));
    }
    let calls = server.calls();
    let order: Vec<_> = calls.iter().map(|called| called.call.id.as_number().unwrap()).collect();
    assert_eq!(order, [1, 2, 3]);
    server.done(calls[2].key, json!({}));
    assert_eq!(server.one()["id"], 3);
    server.done(calls[2].key, json!({}));
    assert_eq!(server.sent(), NOTHING, "a handler answers once");
    server.done(calls[0].key, json!({}));
    assert_eq!(server.one()["id"], 1);
}

/// S0-15, S1-43: both tables are bounded; the next call is refused, and room comes back.
#[test]
fn tables_are_bounded() {
    let mut server = Bench::server_with(|c| c.limits.calls_inbound = 2);
    for id in 1..=3 {
        server.feed(modern(id, "tools/call", json!({"name": "slow"})));
    }
    let refused = server.one();
    assert_eq!((&refused["id"], code(&refused)), (&json!(3), 42_900));
    server.feed(cancel(1));
    server.feed(modern(4, "tools/call", json!({"name": "slow"})));
    assert_eq!(server.sent(), NOTHING);

    let mut client = Bench::modern_client_with(|c| c.limits.calls_outbound = 1);
    client.call_tool(1);
    client.call_tool(2);
    assert_eq!(client.settled(), [(2, Outcome::Refused(Refusal::TooMany))]);
    client.feed(reply(2, json!({})));
    client.sent();
    client.call_tool(3);
    assert_eq!(client.sent().len(), 1);
}

/// S1-C20, S1-43: after many timeouts nothing is left behind.
#[test]
fn timeouts_leave_nothing_behind() {
    let mut client = Bench::modern_client();
    for ticket in 1..=5_000 {
        client.call_tool(ticket);
        client.secs(31);
    }
    assert_eq!(client.settled().len(), 5_000);
    assert_eq!(client.session.in_flight(), (0, 0));
    assert_eq!(client.session.deadline(), None);
}

/// S0-43, S0-82, S1-17: when the link is lost every call ends with the cause and says whether
/// it may have been executed.
#[test]
fn a_lost_link_ends_every_call_with_its_cause() {
    let mut client = Bench::modern_client();
    client.call_with(1, wanting_progress());
    client.call_tool(2);
    client.feed(note("notifications/progress", json!({"progressToken": 2, "progress": 1})));
    client.writes = false;
    client.call_tool(3);
    let cause = Cause::Exited { status: "signal: 9".into(), stderr: "out of memory".into() };
    client.handle(Input::Closed { cause: cause.clone() });
    let lost = |delivery| Outcome::Lost { cause: cause.clone(), delivery };
    let settled = client.settled();
    assert_eq!(
        settled,
        [(1, lost(Delivery::Sent)), (2, lost(Delivery::Unknown)), (3, lost(Delivery::NotSent))]
    );
    let executed: Vec<_> = settled.iter().map(|(_, outcome)| outcome.may_have_executed()).collect();
    assert_eq!(executed, [true, true, false]);
    assert!(cause.to_string().contains("out of memory"));
    assert_eq!((client.session.in_flight(), client.session.deadline()), ((0, 0), None));
    client.call_tool(4);
    assert_eq!(client.outcome(), Outcome::Refused(Refusal::NotOpen));
}

/// S0-43, CAN-5: when the link is lost the handlers of a server are stopped.
#[test]
fn a_lost_link_stops_the_handlers() {
    let mut server = Bench::server();
    server.feed(modern(1, "tools/call", json!({"name": "slow"})));
    let key = server.called().key;
    server.handle(Input::Closed { cause: Cause::Io("broken pipe".into()) });
    let withdrawn = server.withdrawn();
    assert_eq!(withdrawn.len(), 1);
    assert_eq!(withdrawn[0].0, key);
    assert!(withdrawn[0].1.contains("broken pipe"));
    server.local(Command::Answer { key, answer: Answer::Done("{}".into()) });
    assert_eq!(server.sent(), NOTHING);
}

/// S0-19, ROOT-4, S2-4: a legacy server's calls are answered, unknown ones with -32601; none is dropped.
#[test]
fn server_calls_are_never_dropped() {
    let mut client = Bench::legacy_client("2025-06-18");
    for (id, method) in [(1, "tools/call"), (2, "x/y"), (3, "tasks/get")] {
        client.feed(legacy(id, method, json!({})));
        let refused = client.one();
        assert_eq!((&refused["id"], code(&refused)), (&json!(id), -32601), "{method}");
    }
    client.feed(legacy("p", "ping", json!({})));
    assert_eq!(client.one(), reply("p", json!({})));
}

/// F39, BASE-31: a client that replies to a modern server is not listened to; the link lives.
#[test]
fn replies_to_a_modern_server_are_ignored() {
    let mut server = Bench::server();
    server.feed(reply(1, json!({})));
    server.feed(fault(json!(null), -32600));
    assert_eq!(server.found(), [Rule::ClientReply, Rule::ClientReply]);
    assert_eq!(server.sent(), NOTHING);
    assert_eq!(server.session.state(), State::Ready);
}

/// Params and results pass unread, unknown methods included.
#[test]
fn payloads_pass_unread() {
    let mut client = Bench::legacy_client("2025-11-25");
    let params = r#"{"n":1.50,"big":123456789012345678901234567890}"#;
    client.local(Command::Call(cardan_proto::session::event::NewCall {
        ticket: Ticket(1),
        method: Method::parse("x/y"),
        params: Some(params.into()),
        options: CallOptions::default(),
    }));
    assert_eq!(client.one()["method"], "x/y");
    client.raw(r#"{"jsonrpc":"2.0","id":3,"result":{"n":1.50}}"#);
    let Outcome::Done(result) = client.outcome() else { panic!() };
    assert_eq!(result, r#"{"n":1.50}"#);
    client.local(Command::Call(cardan_proto::session::event::NewCall {
        ticket: Ticket(2),
        method: Method::parse("x/y"),
        params: Some("[1]".into()),
        options: CallOptions::default(),
    }));
    assert_eq!(client.outcome(), Outcome::Refused(Refusal::Params));
    assert!(client.events().iter().all(|event| !matches!(event, Event::Found(_))));
}
