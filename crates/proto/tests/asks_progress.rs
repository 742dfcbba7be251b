//! How far the answer to an ask has come: told by the client before it answers, with the token of the ask.

mod common;

use cardan_proto::method::Method;
use cardan_proto::session::event::{Ask, Command, Event, Ticket, Wanted};
use common::*;
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

/// PRG-1, PRG-5: how far an answer has come is told with the token of the ask, as it was said, and not after the answer.
#[test]
fn progress_of_an_answer_names_the_token_of_its_ask() {
    for token in [json!("t"), json!(5)] {
        let mut client = Bench::legacy_client("2025-11-25");
        let params = json!({"messages": [], "maxTokens": 1, "_meta": {"progressToken": token}});
        client.feed(legacy(1, "sampling/createMessage", params));
        let (ask, _, what) = client.asked().remove(0);
        assert_eq!(what.progress(), Wanted::Yes);
        let step = |n: u8| Command::AskStep {
            ask,
            params: raw(&json!({"progressToken": 77, "progress": n, "x": [n]})),
        };
        client.local(step(1));
        let told = json!({"progressToken": token, "progress": 1, "x": [1]});
        assert_eq!(client.one(), note("notifications/progress", told));
        client.local(Command::AnswerAsk { ask, outcome: Ok(raw(&json!({}))) });
        client.sent();
        client.local(step(2));
        assert_eq!(client.sent(), NOTHING);
    }
}

/// PRG-10: a server that gave no token is told nothing.
#[test]
fn an_ask_without_a_token_has_no_progress() {
    let mut client = Bench::legacy_client("2025-11-25");
    client.feed(legacy(1, "sampling/createMessage", json!({"messages": [], "maxTokens": 1})));
    let (ask, _, what) = client.asked().remove(0);
    assert_eq!(what.progress(), Wanted::No);
    client.local(Command::AskStep { ask, params: raw(&json!({"progressToken": 77, "progress": 1})) });
    assert_eq!(client.sent(), NOTHING);
}

/// PRG-4, T11: an ask that is passed on has a token of ours, so that its progress is told from all other.
#[test]
fn an_ask_within_a_call_has_a_token_of_ours() {
    let mut server = Bench::legacy_server("2025-11-25", json!({"sampling": {}}));
    server.feed(legacy(1, "tools/call", json!({"name": "a"})));
    let key = server.called().key;
    let params = json!({"messages": [], "maxTokens": 1, "_meta": {"progressToken": "theirs", "x": 1}});
    let ask = Ask { method: Method::SamplingCreateMessage, params: Some(raw(&params)) };
    server.local(Command::AskWithin { key, ticket: Ticket(9), ask });
    let asked = server.one();
    let token = &asked["params"]["_meta"]["progressToken"];
    assert_eq!((token, &asked["params"]["_meta"]["x"]), (&asked["id"], &json!(1)));
    let said = json!({"progressToken": token, "progress": 0, "message": "half"});
    for _ in 0..2 {
        server.feed(note("notifications/progress", said.clone()));
    }
    let steps = server.events().into_iter().filter_map(|event| match event {
        Event::Stepped { ticket: Ticket(9), params } => Some(parsed(&params)),
        _ => None,
    });
    assert_eq!(steps.collect::<Vec<_>>(), [said.clone(), said]);
}
