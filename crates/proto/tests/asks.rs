//! Requests for input: calls to the client in the legacy era, rounds of one call in the modern one.

mod common;

use std::time::Duration;

use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::fault::code::BUSY;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::event::{
    Answer, Ask, AskKey, Asks, CallOptions, Cause, Command, Deadline, Delivery, Event, Input, Outcome, Ticket,
};
use common::*;
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

/// A modern result that asks; `requests` and `state` only where given.
fn input_required(requests: Option<Value>, state: Option<&str>) -> Value {
    let mut result = json!({"resultType": "input_required"});
    if let Some(requests) = requests {
        result["inputRequests"] = requests;
    }
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    result
}

fn form(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": {"type": "object"}}})
}

fn answer_ask(client: &mut Bench, ask: AskKey, answer: Value) {
    client.local(Command::AnswerAsk { ask, outcome: Ok(raw(&answer)) });
}

fn asking_server(method: &str, caps: Value) -> (Bench, cardan_proto::session::event::CallKey) {
    let mut server = Bench::server();
    server.feed(modern_with(1, method, json!({"name": "a", "uri": "a:b"}), caps));
    let key = server.called().key;
    (server, key)
}

/// MRTR-1, MRTR-3, MRTR-4, MRTR-11, MRTR-25, BASE-30: modern asks travel inside the result, without id
/// and hints, and the call is over for the server.
#[test]
fn modern_asks_travel_in_the_result() {
    for method in ["tools/call", "prompts/get", "resources/read"] {
        let (mut server, key) =
            asking_server(method, json!({"elicitation": {}, "sampling": {}, "roots": {}}));
        server.ask(
            key,
            &[
                ("who", Method::ElicitationCreate, json!({"message": "?", "elicitationId": "e"})),
                ("where", Method::RootsList, json!({})),
            ],
            Some("sealed \u{e9} \" state"),
        );
        let sent = server.one();
        assert_eq!(sent["id"], 1);
        assert_eq!(
            sent["result"],
            json!({"resultType": "input_required", "requestState": "sealed \u{e9} \" state",
                "inputRequests": {
                    "who": {"method": "elicitation/create", "params": {"message": "?"}},
                    "where": {"method": "roots/list", "params": {}}},
                "_meta": {SERVER_INFO: {"name": "s", "version": "1"}}}),
            "{method}"
        );
        assert_eq!(server.session.in_flight(), (0, 0));
        server.done(key, json!({}));
        assert_eq!(server.sent(), NOTHING, "the answer comes with another call");
    }
}

/// MRTR-2, MRTR-3, MRTR-5, MRTR-22: results that no client could use are never sent; the handler's
/// mistake is an internal error.
#[test]
fn impossible_asks_are_never_sent() {
    let all = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let ask = |name: &str, method: Method| (name.into(), Ask { method, params: None });
    let many = (0..33).map(|n| ask(&n.to_string(), Method::RootsList)).collect();
    for (method, asks) in [
        ("tools/list", Asks { entries: vec![ask("a", Method::RootsList)], state: None }),
        ("tools/call", Asks::default()),
        ("tools/call", Asks { entries: vec![ask("a", Method::RootsList); 2], state: None }),
        ("tools/call", Asks { entries: vec![ask("a", Method::ToolsList)], state: None }),
        ("tools/call", Asks { entries: many, state: None }),
    ] {
        let (mut server, key) = asking_server(method, all.clone());
        server.local(Command::Answer { key, answer: Answer::Ask(asks.clone()) });
        assert_eq!(code(&server.one()), -32603, "{asks:?}");
        let mut old = Bench::legacy_server("2025-11-25", all.clone());
        old.feed(legacy(1, method, json!({"name": "a"})));
        let key = old.called().key;
        old.local(Command::Answer { key, answer: Answer::Ask(asks.clone()) });
        assert_eq!(code(&old.one()), -32603, "{asks:?}");
    }
}

/// MRTR-6, VER-22, ELI-3, SAM-2: what the client did not declare is not asked, down to the mode, and
/// the error names the capability.
#[test]
fn undeclared_asks_are_refused() {
    for (caps, method, params, required) in [
        (json!({}), Method::RootsList, json!({}), json!({"roots": {}})),
        (json!({}), Method::SamplingCreateMessage, json!({}), json!({"sampling": {}})),
        (
            json!({"sampling": {}}),
            Method::SamplingCreateMessage,
            json!({"tools": []}),
            json!({"sampling": {"tools": {}}}),
        ),
        (
            json!({"elicitation": {}}),
            Method::ElicitationCreate,
            json!({"mode": "url"}),
            json!({"elicitation": {"url": {}}}),
        ),
        (
            json!({"elicitation": {"url": {}}}),
            Method::ElicitationCreate,
            json!({}),
            json!({"elicitation": {"form": {}}}),
        ),
    ] {
        let (mut server, key) = asking_server("tools/call", caps.clone());
        server.ask(key, &[("a", method.clone(), params.clone())], None);
        let refused = server.one();
        assert_eq!(code(&refused), -32021, "{caps} {method}");
        assert_eq!(refused["error"]["data"], json!({"requiredCapabilities": required}));

        let mut old = Bench::legacy_server("2025-11-25", caps);
        old.feed(legacy(1, "tools/call", json!({"name": "a"})));
        let key = old.called().key;
        old.ask(key, &[("a", method, params)], None);
        let refused = old.one();
        assert_eq!(refused["id"], 1, "the call is refused, the client is not asked");
        assert!(!matches!(code(&refused), -32022..=-32020), "codes of the modern era stay there");
    }
}

/// MRTR-17: answers reach the handler by name, unknown ones too; malformed ones get -32602.
#[test]
fn a_retry_brings_its_answers() {
    let mut server = Bench::server();
    let params =
        json!({"name": "a", "inputResponses": {"q": {"action": "accept"}, "x": {}}, "requestState": "s"});
    server.feed(modern(5, "tools/call", params));
    let called = server.called();
    let answers = called.answers.unwrap();
    let names: Vec<_> = answers.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["q", "x"]);
    assert_eq!(parsed(answers[0].1.as_ref().unwrap()), json!({"action": "accept"}));
    server.feed(modern(6, "tools/call", json!({"name": "a", "requestState": "s"})));
    assert_eq!(server.called().answers, Some(Vec::new()), "state alone is a retry too");
    server.feed(modern(7, "tools/call", json!({"name": "a"})));
    assert_eq!(server.called().answers, None);
    for (id, bad) in (8..).zip([json!([]), json!("x"), json!({"q": 5}), json!({"q": null}), json!(null)]) {
        server.feed(modern(id, "tools/call", json!({"name": "a", "inputResponses": bad})));
        assert_eq!(code(&server.one()), -32602, "{bad}");
    }
    // MRTR-7: state that is no string does not pass for none.
    for (id, bad) in (20..).zip([json!(5), json!(null), json!({}), json!(["s"])]) {
        let params = json!({"name": "a", "inputResponses": {"q": {"action": "accept"}}, "requestState": bad});
        server.feed(modern(id, "tools/call", params));
        assert_eq!(code(&server.one()), -32602, "{bad}");
    }
    assert!(server.calls().is_empty());
}

/// MRTR-12 to MRTR-16, MRTR-20, MRTR-24, VER-14: the client gathers all answers, then repeats the call
/// under a new id, with the same params, its own metadata, the answers by name and the state as it came.
#[test]
fn the_client_retries_with_all_answers() {
    let mut client = Bench::modern_client();
    let params = json!({"name": "echo", "arguments": {"n": 1.5}, "_meta": {"com.example/k": 1}});
    client.call(1, Method::ToolsCall, Some(params), wanting_progress());
    let first = client.one();
    let state = "opaque \u{e9}\n\"x\" \u{1f600}";
    let requests = json!({"a": form("first?"), "b": {"method": "roots/list"}});
    client.feed(reply(2, input_required(Some(requests), Some(state))));
    let asked = client.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].1, Some(Ticket(1)));
    assert_eq!(asked[0].2.method, Method::ElicitationCreate);
    assert_eq!(parsed(asked[0].2.params.as_ref().unwrap())["message"], "first?");
    answer_ask(&mut client, asked[1].0, json!({"roots": []}));
    assert_eq!(client.sent(), NOTHING, "one answer is missing");
    answer_ask(&mut client, asked[0].0, json!({"action": "accept", "content": {}}));
    let retry = client.one();
    assert_eq!(retry["id"], 3);
    let mut expected = first["params"].clone();
    expected["_meta"]["progressToken"] = json!(3);
    expected["inputResponses"] = json!({"a": {"action": "accept", "content": {}}, "b": {"roots": []}});
    expected["requestState"] = json!(state);
    assert_eq!(retry["params"], expected);

    // The next round starts from the original params: nothing of this one is used again.
    client.feed(reply(3, input_required(Some(json!({"c": form("second?")})), None)));
    let asked = client.asked();
    answer_ask(&mut client, asked[0].0, json!({"action": "decline"}));
    let third = client.one();
    assert_eq!(third["id"], 4);
    assert_eq!(third["params"]["inputResponses"], json!({"c": {"action": "decline"}}));
    assert_eq!(third["params"].get("requestState"), None, "there was none");
    client.feed(reply(4, json!({"content": []})));
    assert!(matches!(client.outcome(), Outcome::Done(_)));
    assert_eq!(client.session.in_flight(), (0, 0));
}

/// MRTR-12, MRTR-16: state without requests is handed back at once, and belongs to its call alone.
#[test]
fn state_alone_is_handed_back_at_once() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.call_tool(2);
    client.sent();
    client.feed(reply(2, input_required(None, Some("s"))));
    let retry = client.one();
    assert_eq!((&retry["id"], &retry["params"]["requestState"]), (&json!(4), &json!("s")));
    assert_eq!(retry["params"].get("inputResponses"), None);
    client.call_tool(3);
    assert_eq!(client.one()["params"].get("requestState"), None);
}

/// MRTR-22: a server that asks for ever is left; the rounds are bounded.
#[test]
fn rounds_are_bounded() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    let mut rounds = 0;
    while let Some(call) = client.sent().pop() {
        rounds += 1;
        client.feed(reply(call["id"].clone(), input_required(None, Some("again"))));
    }
    assert_eq!(rounds, 17, "the call and sixteen retries");
    assert!(matches!(client.outcome(), Outcome::Cancelled { reason, .. } if reason.contains("too often")));
    assert_eq!(client.session.in_flight(), (0, 0));
}

/// MRTR-21: an ask that cannot be answered ends the call here; nothing is sent, other asks are withdrawn.
#[test]
fn an_unanswerable_ask_ends_the_call() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.sent();
    client.feed(reply(2, input_required(Some(json!({"a": form("?"), "b": form("?")})), None)));
    let asked = client.asked();
    client.local(Command::AnswerAsk { ask: asked[0].0, outcome: Err(Fault::new(-1, "user said no")) });
    assert!(matches!(client.outcome(), Outcome::Cancelled { reason, .. } if reason.contains("user said no")));
    let withdrawn: Vec<_> = client.events();
    assert!(withdrawn.iter().any(|e| matches!(e, Event::AskWithdrawn { ask, .. } if *ask == asked[1].0)));
    answer_ask(&mut client, asked[1].0, json!({"action": "accept"}));
    assert_eq!(client.sent(), NOTHING);
}

/// MRTR-2 to MRTR-6: results that ask in a wrong way are no valid replies, and no one is asked.
#[test]
fn malformed_rounds_fail_the_call() {
    let sampling = json!({"method": "sampling/createMessage", "params": {}});
    let many: serde_json::Map<_, _> = (0..33).map(|n| (n.to_string(), form("?"))).collect();
    for (method, result, rule) in [
        (Method::ToolsList, input_required(Some(json!({"a": form("?")})), None), Rule::AskMisplaced),
        (Method::ToolsCall, input_required(None, None), Rule::ResultShape),
        (Method::ToolsCall, input_required(Some(json!([])), None), Rule::ResultShape),
        (Method::ToolsCall, input_required(Some(json!({"a": {"params": {}}})), None), Rule::ResultShape),
        (Method::ToolsCall, input_required(Some(json!({"a": ["roots/list"]})), None), Rule::ResultShape),
        (
            Method::ToolsCall,
            input_required(Some(json!({"a": {"method": "tools/call"}})), None),
            Rule::ResultShape,
        ),
        (Method::ToolsCall, input_required(Some(many.into()), None), Rule::ResultShape),
        (Method::ToolsCall, input_required(Some(json!({"a": sampling})), None), Rule::Unadvertised),
    ] {
        let mut client = Bench::modern_client_with(|c| c.capabilities = r#"{"elicitation":{}}"#.into());
        client.call(1, method, None, Default::default());
        client.sent();
        client.feed(reply(2, result.clone()));
        assert!(matches!(client.outcome(), Outcome::Violated(v) if v.rule == rule), "{result}");
        assert!(client.asked().is_empty());
        assert_eq!(client.sent(), NOTHING);
    }
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.raw(r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"a":{"method":"roots/list"}}}}"#);
    assert!(matches!(client.outcome(), Outcome::Violated(v) if v.rule == Rule::ResultShape));
}

/// CAN-12, S0-36: the total deadline covers all rounds; thinking is no silence.
#[test]
fn the_total_deadline_covers_all_rounds() {
    let mut client = Bench::modern_client();
    let options = CallOptions { total: Some(Duration::from_secs(100)), ..CallOptions::default() };
    client.call_with(1, options);
    client.feed(reply(2, input_required(Some(json!({"a": form("?")})), None)));
    let asked = client.asked();
    client.secs(90);
    assert!(client.settled().is_empty(), "a person may think longer than a server");
    answer_ask(&mut client, asked[0].0, json!({"action": "accept"}));
    client.sent();
    client.secs(10);
    let outcome = client.outcome();
    assert!(
        matches!(outcome, Outcome::TimedOut { deadline: Deadline::Total, after, .. } if after.as_secs() == 100),
        "{outcome:?}"
    );

    client.call_with(2, options);
    let id = client.sent().pop().unwrap()["id"].clone();
    client.feed(reply(id, input_required(Some(json!({"a": form("?")})), None)));
    client.secs(100);
    assert!(matches!(client.outcome(), Outcome::TimedOut { deadline: Deadline::Total, .. }));
    assert!(client.events().iter().any(|event| matches!(event, Event::AskWithdrawn { .. })));
    assert_eq!(client.session.deadline(), None);
}

/// S0-36: a person who thinks about one call keeps no other call alive in the modern era.
#[test]
fn a_round_keeps_only_its_own_call_alive() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.call_tool(2);
    client.feed(reply(2, input_required(Some(json!({"a": form("?")})), None)));
    client.secs(30);
    let settled = client.settled();
    assert_eq!(settled.len(), 1);
    assert!(matches!(&settled[0], (2, Outcome::TimedOut { deadline: Deadline::Idle, .. })));
}

/// S0-43: a call between two rounds is lost with the true cause.
#[test]
fn a_call_between_rounds_is_lost_with_the_cause() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.feed(reply(2, input_required(Some(json!({"a": form("?")})), None)));
    let cause = Cause::Exited { status: "signal: 9".into(), stderr: "".into() };
    client.handle(Input::Closed { cause: cause.clone() });
    assert_eq!(client.outcome(), Outcome::Lost { cause, delivery: Delivery::Sent });
}

/// DEP-1, S2-31: legacy asks are calls to the client; when all are answered the handler goes on with
/// the same call, and a fault of the client is an answer too.
#[test]
fn legacy_asks_are_calls() {
    let mut server = Bench::legacy_server("2025-11-25", json!({"elicitation": {}, "sampling": {}}));
    server.feed(legacy("c", "tools/call", json!({"name": "a"})));
    let key = server.called().key;
    server.ask(
        key,
        &[
            ("q", Method::ElicitationCreate, json!({"message": "?"})),
            ("s", Method::SamplingCreateMessage, json!({"messages": []})),
        ],
        Some("state"),
    );
    let sent = server.sent();
    let methods: Vec<_> = sent.iter().map(|call| call["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["elicitation/create", "sampling/createMessage"]);
    assert_eq!(sent[0]["params"], json!({"message": "?"}));
    server.feed(fault(sent[1]["id"].clone(), -1));
    assert!(server.calls().is_empty());
    server.feed(reply(sent[0]["id"].clone(), json!({"action": "accept"})));
    let again = server.called();
    assert_eq!(again.key, key);
    let answers: std::collections::BTreeMap<_, _> = again.answers.unwrap().into_iter().collect();
    assert_eq!(answers["s"].as_ref().unwrap_err().code, -1);
    assert_eq!(parsed(answers["q"].as_ref().unwrap()), json!({"action": "accept"}));
    server.done(key, json!({"content": []}));
    assert_eq!(server.one(), reply("c", json!({"content": []})));
}

/// S2-3, S0-41: a client's malformed answer to an ask is an answer: the handler goes on at once.
#[test]
fn a_malformed_answer_does_not_hang_the_handler() {
    for bad in [
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"1","result":{}}"#,
    ] {
        let mut server = Bench::legacy_server("2025-11-25", json!({"roots": {}}));
        server.feed(legacy(9, "tools/call", json!({"name": "a"})));
        let key = server.called().key;
        server.ask(key, &[("r", Method::RootsList, json!({}))], None);
        assert_eq!(server.one()["id"], 1);
        server.raw(bad);
        let answers = server.called().answers.unwrap();
        assert!(answers[0].1.is_err(), "{bad}");
    }
}

/// CAN-1, CAN-5: when the client cancels its call, the asks it led to are taken back.
#[test]
fn a_cancelled_call_takes_its_asks_back() {
    let mut server = Bench::legacy_server("2025-11-25", json!({"roots": {}}));
    server.feed(legacy(9, "tools/call", json!({"name": "a"})));
    let key = server.called().key;
    server.ask(key, &[("r", Method::RootsList, json!({}))], None);
    let ask = server.one()["id"].clone();
    server.feed(cancel(9));
    let taken = server.one();
    assert_eq!(
        (taken["method"].as_str(), &taken["params"]["requestId"]),
        (Some("notifications/cancelled"), &ask)
    );
    server.feed(reply(ask, json!({"roots": []})));
    assert!(server.calls().is_empty());
    assert_eq!(server.found(), [Rule::LateReply]);
}

/// S0-19, MRTR-6, ELI-13: a legacy client answers what it declared, refuses what it did not,
/// and honours a withdrawal.
#[test]
fn a_legacy_client_answers_asks() {
    let mut client =
        Bench::legacy_client_with("2025-11-25", |c| c.capabilities = r#"{"elicitation":{}}"#.into());
    client.feed(legacy("e", "elicitation/create", json!({"message": "?"})));
    let asked = client.asked();
    assert_eq!(asked[0].1, None);
    answer_ask(&mut client, asked[0].0, json!({"action": "cancel"}));
    assert_eq!(client.one(), reply("e", json!({"action": "cancel"})));
    for (id, method, params, refusal) in [
        (1, "roots/list", json!({}), -32601),
        (2, "sampling/createMessage", json!({}), -32601),
        (3, "elicitation/create", json!({"mode": "url"}), -32602),
    ] {
        client.feed(legacy(id, method, params));
        let refused = client.one();
        assert_eq!((&refused["id"], code(&refused)), (&json!(id), refusal), "{method}");
    }
    client.feed(legacy(4, "elicitation/create", json!({"message": "?"})));
    let ask = client.asked()[0].0;
    client.feed(cancel(4));
    assert!(
        client.events().iter().any(|e| matches!(e, Event::AskWithdrawn { ask: gone, .. } if *gone == ask))
    );
    answer_ask(&mut client, ask, json!({"action": "accept"}));
    assert_eq!(client.sent(), NOTHING, "a cancelled ask is not answered");
}

/// S0-36: while a legacy server asks, its silence about our call is no reason to give up; when the ask
/// is gone, answered or withdrawn, the wait starts anew.
#[test]
fn silence_does_not_count_while_a_person_is_asked() {
    for withdraw in [false, true] {
        let mut client = Bench::legacy_client("2025-11-25");
        client.call_tool(1);
        client.feed(legacy(7, "elicitation/create", json!({"message": "?"})));
        let ask = client.asked()[0].0;
        client.secs(100);
        assert!(client.settled().is_empty());
        match withdraw {
            true => client.feed(cancel(7)),
            false => answer_ask(&mut client, ask, json!({"action": "accept"})),
        }
        client.secs(29);
        assert!(client.settled().is_empty(), "the wait starts anew");
        client.secs(1);
        assert!(matches!(client.outcome(), Outcome::TimedOut { deadline: Deadline::Idle, .. }));
    }
}

/// DEP-1: deprecated asks work in the modern era, and are remarked upon without any harm.
#[test]
fn deprecated_asks_are_served() {
    let mut client = Bench::modern_client_with(|c| c.strictness = Strictness::Strict);
    client.call_tool(1);
    client.feed(reply(2, input_required(Some(json!({"r": {"method": "roots/list", "params": {}}})), None)));
    assert_eq!(client.found(), [Rule::Deprecated]);
    assert_eq!(client.asked().len(), 1);
    assert_eq!(client.closed, None);
}

/// A modern client that was asked something, and holds this state.
fn asked(server: &mut Bench, id: u64, state: &str) {
    server.feed(modern_with(id, "tools/call", json!({"name": "a"}), json!({"roots": {}})));
    let key = server.called().key;
    server.ask(key, &[("where", Method::RootsList, json!({}))], Some(state));
    assert_eq!(server.one()["result"]["requestState"], state);
}

fn back(id: u64, state: &str) -> Value {
    let answers = json!({"where": {"roots": []}});
    let params = json!({"name": "a", "inputResponses": answers, "requestState": state});
    modern_with(id, "tools/call", params, json!({"roots": {}}))
}

/// F23: the end of a link waits for a client that was asked something. It alone may still call, as often as it is asked.
#[test]
fn f23_the_end_waits_for_who_was_asked() {
    let mut server = Bench::server();
    asked(&mut server, 1, "first");
    server.close("asked to stop");
    assert!(server.closed.is_none());
    server.feed(modern(2, "tools/call", json!({"name": "a"})));
    server.feed(back(3, "forged"));
    let refused: Vec<i64> = server.sent().iter().map(code).collect();
    assert_eq!(refused, [BUSY, BUSY]);
    server.feed(back(4, "first"));
    let key = server.called().key;
    server.ask(key, &[("where", Method::RootsList, json!({}))], Some("second"));
    assert_eq!(server.one()["id"], 4);
    assert!(server.closed.is_none());
    server.feed(back(5, "first"));
    assert_eq!(code(&server.one()), BUSY, "a state is brought back once");
    server.feed(back(6, "second"));
    let key = server.called().key;
    server.done(key, json!({}));
    assert_eq!(server.one()["id"], 6);
    assert_eq!(server.closed, Some(Cause::ClosedByUs("asked to stop".into())));
}

/// F23: a question that somebody else wrote into the result is waited for, too.
#[test]
fn f23_the_end_waits_where_the_result_was_passed_on() {
    let mut server = Bench::server();
    server.feed(modern_with(1, "tools/call", json!({"name": "a"}), json!({"roots": {}})));
    let key = server.called().key;
    let result = input_required(Some(json!({"where": {"method": "roots/list"}})), Some("theirs"));
    server.local(Command::Answer { key, answer: Answer::Sealed(raw(&result)) });
    server.close("asked to stop");
    assert_eq!(server.one()["result"], result);
    assert!(server.closed.is_none());
    server.feed(back(2, "theirs"));
    let key = server.called().key;
    server.done(key, json!({}));
    assert!(server.closed.is_some());
}

/// F24: it waits within its time, for nobody who cannot come back, and for no state that is good no more.
#[test]
fn f24_the_end_does_not_wait_for_ever_for_who_was_asked() {
    let mut server = Bench::server();
    asked(&mut server, 1, "never");
    server.close("asked to stop");
    server.wait(Limits::DEFAULT.drain_timeout);
    assert!(server.closed.is_some(), "the time is over");

    let mut server = Bench::server();
    asked(&mut server, 1, "gone");
    server.close("asked to stop");
    server.handle(Input::ReadClosed);
    assert!(server.closed.is_some(), "its client has left");

    let mut server = Bench::server();
    asked(&mut server, 1, "old");
    server.wait(Limits::DEFAULT.request_state_ttl);
    server.close("asked to stop");
    assert!(server.closed.is_some(), "the state has expired");
}
