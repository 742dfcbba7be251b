//! Ids, whatever order calls and replies come in: of theirs one call at a time has each, of ours none is used twice, and a reply
//! settles the call that it names, once.

mod common;

use std::collections::BTreeMap;

use cardan_proto::session::event::{CallKey, Command, Outcome, Ticket};
use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What a peer that calls us does, and our handlers.
#[derive(Debug, Clone)]
enum Theirs {
    Call(Value),
    /// One of those that run is done.
    Done(usize),
}

fn theirs() -> impl Strategy<Value = Theirs> {
    let id = prop_oneof![(0..4_u64).prop_map(Value::from), (0..4_u64).prop_map(|id| id.to_string().into())];
    prop_oneof![3 => id.prop_map(Theirs::Call), 2 => any::<usize>().prop_map(Theirs::Done)]
}

/// What we do as a client, and our peer.
#[derive(Debug, Clone)]
enum Ours {
    Call,
    /// One of all that were made is given up.
    Cancel(usize),
    /// One of all that were made is answered, or one that nobody made.
    Reply(usize),
    Wait,
}

fn ours() -> impl Strategy<Value = Ours> {
    prop_oneof![
        3 => Just(Ours::Call),
        1 => any::<usize>().prop_map(Ours::Cancel),
        5 => any::<usize>().prop_map(Ours::Reply),
        1 => Just(Ours::Wait),
    ]
}

/// The id of one of these, or one that is foreign.
fn answered(ids: &[u64], nth: usize) -> Value {
    match nth % (ids.len() + 2) {
        at if at < ids.len() => ids[at].into(),
        at if at == ids.len() => (1_000_000 + nth as u64 % 1000).into(),
        _ => format!("never {}", nth % 1000).into(),
    }
}

proptest! {
    /// F15, BASE-6, T11: a call whose id is taken is refused, and it alone; each other has one reply, its own, under its own id. What is
    /// done leaves its id to others.
    #[test]
    fn f15_an_id_has_one_call_at_a_time(steps in vec(theirs(), 1..80)) {
        let mut server = Bench::server();
        let mut running: Vec<(Value, CallKey, usize)> = Vec::new();
        let all = steps.len();
        for (nonce, step) in steps.into_iter().chain(vec![Theirs::Done(0); all]).enumerate() {
            match step {
                Theirs::Call(id) => {
                    server.feed(modern(id.clone(), "tools/call", json!({"name": "a"})));
                    let (calls, sent) = (server.calls(), server.sent());
                    if running.iter().any(|(taken, ..)| *taken == id) {
                        prop_assert_eq!((calls.len(), sent.len()), (0, 1));
                        prop_assert_eq!((&sent[0]["id"], code(&sent[0])), (&id, -32600));
                    } else {
                        prop_assert_eq!((calls.len(), sent.len()), (1, 0));
                        running.push((id, calls[0].key, nonce));
                    }
                }
                Theirs::Done(_) if running.is_empty() => {}
                Theirs::Done(nth) => {
                    let (id, key, nonce) = running.remove(nth % running.len());
                    server.done(key, json!({"n": nonce}));
                    let told = server.one();
                    prop_assert_eq!((&told["id"], &told["result"]["n"]), (&id, &json!(nonce)));
                }
            }
        }
        prop_assert_eq!(server.session.in_flight(), (0, 0));
    }

    /// F16, T11, S0-17, S0-20: the first reply to a call that waits settles it, with its own result. A second one, one that comes after the
    /// call was given up or its time was over, and one to nobody settle nothing, whatever is called later.
    #[test]
    fn f16_a_reply_settles_its_own_call_once(steps in vec(ours(), 1..80)) {
        for mut client in [Bench::modern_client(), Bench::legacy_client("2025-11-25")] {
            // All ids there ever were, and the tickets of those that wait.
            let (mut ids, mut waiting) = (Vec::new(), BTreeMap::new());
            for (nonce, step) in steps.iter().enumerate() {
                match step {
                    Ours::Call => {
                        client.call_tool(nonce as u64);
                        let id = client.one()["id"].as_u64().expect("a number");
                        prop_assert!(!ids.contains(&id), "{} again", id);
                        ids.push(id);
                        waiting.insert(id, nonce as u64);
                    }
                    Ours::Cancel(nth) => {
                        let Some(id) = ids.get(nth % ids.len().max(1)) else { continue };
                        let Some(ticket) = waiting.remove(id) else { continue };
                        client.local(Command::Cancel { ticket: Ticket(ticket), reason: "user left".into() });
                        let settled = client.settled();
                        let is_cancelled =
                            matches!(settled[..], [(at, Outcome::Cancelled { .. })] if at == ticket);
                        prop_assert!(is_cancelled, "{:?}", settled);
                        client.sent();
                    }
                    Ours::Reply(nth) => {
                        let id = answered(&ids, *nth);
                        client.feed(reply(id.clone(), json!({"n": nonce})));
                        let settled = client.settled();
                        let expected = id.as_u64().and_then(|id| waiting.remove(&id));
                        prop_assert_eq!(settled.first().map(|(ticket, _)| *ticket), expected);
                        prop_assert!(settled.len() <= 1);
                        for (_, outcome) in settled {
                            let Outcome::Done(result) = outcome else { panic!("{outcome:?}") };
                            prop_assert_eq!(&parsed(&result)["n"], &json!(nonce));
                        }
                    }
                    Ours::Wait => {
                        client.secs(11);
                        for (ticket, outcome) in client.settled() {
                            let is_late = matches!(outcome, Outcome::TimedOut { .. });
                            prop_assert!(is_late, "{:?}", outcome);
                            let late = waiting.iter().find(|(_, one)| **one == ticket).map(|(id, _)| *id);
                            prop_assert!(late.is_some_and(|id| waiting.remove(&id).is_some()));
                        }
                        client.sent();
                    }
                }
            }
            prop_assert_eq!(client.session.in_flight(), (0, waiting.len()));
        }
    }
}
