//! Batches: one revision has them, every other one refuses, and one bad entry spoils only itself.

mod common;

use bytes::Bytes;
use cardan_proto::dialect::Dialect;
use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::jsonrpc::envelope::{Decoded, decode};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::Attribution;
use cardan_proto::session::event::{Cause, Input, LaneId, Outcome};
use cardan_proto::session::state::State;
use common::*;
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn batching_server() -> Bench {
    Bench::legacy_server("2025-03-26", json!({"roots": {}}))
}

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn call(id: u64) -> Value {
    legacy(id, "tools/call", json!({"name": "a"}))
}

fn ids(batch: &Value) -> Vec<Value> {
    let entries = batch.as_array().unwrap_or_else(|| panic!("a batch was expected: {batch}"));
    entries.iter().map(|entry| entry["id"].clone()).collect()
}

/// S3-12, S3-15, BASE-14, STD-17, S3-13: replies of a batch go out together when the last one is there, in
/// any order, and notes add none.
#[test]
fn a_batch_is_answered_as_one() {
    let mut server = batching_server();
    let note = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    server.feed(json!([call(1), ping(2), note, call(3)]));
    assert_eq!(server.sent(), NOTHING);
    let calls = server.calls();
    server.done(calls[1].key, json!({"n": 3}));
    assert_eq!(server.sent(), NOTHING);
    server.done(calls[0].key, json!({"n": 1}));
    let batch = server.one();
    assert_eq!(ids(&batch), [json!(2), json!(3), json!(1)]);
    assert_eq!(batch[2], reply(1, json!({"n": 1})));
    assert!(server.found().is_empty());
}

/// S3-15, BASE-13: a batch of notes is silence, and so is one whose calls were all cancelled.
#[test]
fn batches_without_replies_are_silence() {
    let mut server = batching_server();
    server.feed(json!([note("notifications/x", json!({})), cancel(9)]));
    assert_eq!(server.sent(), NOTHING);
    server.feed(json!([call(1), cancel(1)]));
    assert_eq!(server.sent(), NOTHING);
    server.feed(json!([call(1), call(2)]));
    let calls = server.calls();
    server.feed(cancel(1));
    server.done(calls[calls.len() - 1].key, json!({}));
    assert_eq!(ids(&server.one()), [json!(2)]);
    assert_eq!(server.session.in_flight(), (0, 0));
}

/// S3-16, S3-11, BASE-10, CLI-23: each entry stands alone; a bad one is answered by itself, with a null id in
/// this revision, and the others are served.
#[test]
fn each_entry_stands_alone() {
    let mut server = batching_server();
    let bad = [
        json!(5),
        json!("x"),
        json!([ping(8)]),
        json!({}),
        json!({"jsonrpc": "1.0", "id": 4, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
    ];
    let mut entries = vec![ping(1)];
    entries.extend(bad);
    entries.push(ping(2));
    server.feed(Value::Array(entries));
    let batch = server.one();
    let shape: Vec<_> = batch
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["id"].clone(), entry.get("id").is_some(), entry["error"]["code"].as_i64()))
        .collect();
    let null = (json!(null), true, Some(-32600));
    assert_eq!(
        shape,
        [
            (json!(1), true, None),
            null.clone(),
            null.clone(),
            null.clone(),
            null.clone(),
            (json!(4), true, Some(-32600)),
            null,
            (json!(2), true, None)
        ]
    );
    assert_eq!(server.session.state(), State::Ready);
}

/// F19, S3-16: empty, nested, oversized and unreadable arrays are refused as one, within bounds.
#[test]
fn impossible_batches_are_refused_as_one() {
    let huge = format!("[{}]", vec!["1"; 1_000_000].join(","));
    let long = format!("[{}]", vec![ping(1).to_string(); 65].join(","));
    for (frame, refusal) in
        [("[]", -32600), (&*huge, -32600), (&*long, -32600), ("[{}", -32700), ("[1,]", -32700)]
    {
        let mut server = batching_server();
        server.raw(frame);
        assert_eq!(code(&server.one()), refusal, "{}", &frame[..frame.len().min(20)]);
        assert_eq!(server.session.state(), State::Ready);
    }
    let mut server = batching_server();
    server.raw("[[[[]]]]");
    assert_eq!(
        server.one(),
        json!([{"jsonrpc": "2.0", "id": null, "error":
        {"code": -32600, "message": "batch-nested: a batch holds messages (JSON-RPC 2.0, 6) (at byte 1)"}}])
    );
    let limits = Limits { batch_entries: 2, ..Limits::DEFAULT };
    let decoded = decode(&Bytes::from_static(b"[1,2,3]"), Strictness::Standard, &limits);
    assert!(matches!(decoded, Decoded::One(Err(violation), _) if violation.rule == Rule::BatchTooLong));
}

/// BASE-16, S3-13, S3-25, F19: in every other revision, and before any, an array is one invalid request;
/// nothing in it is served.
#[test]
fn other_revisions_have_no_batches() {
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut server = Bench::legacy_server(revision, json!({}));
        server.feed(json!([call(1), ping(2)]));
        let refused = server.one();
        assert_eq!(code(&refused), -32600, "{revision}");
        assert_eq!(refused.get("id").is_some(), revision < "2025-11-25", "{revision}");
        assert_eq!(refused["id"], json!(null));
        assert!(server.calls().is_empty());
        assert_eq!(server.found(), [Rule::BatchForbidden]);
    }
    let mut server = Bench::server();
    server.feed(json!([modern(1, "tools/list", json!({}))]));
    let refused = server.one();
    assert_eq!((code(&refused), refused.get("id")), (-32600, None));
    assert!(server.calls().is_empty());
}

/// BASE-15: `initialize` is never in a batch, wherever batches are accepted.
#[test]
fn the_handshake_is_never_in_a_batch() {
    let mut server = Bench::server_with(|c| c.dialect = Dialect::JsonRpcBatch);
    server.feed(json!([initialize(1, "2025-03-26", json!({})), ping(2)]));
    let batch = server.one();
    assert_eq!((code(&batch[0]), &batch[1]), (-32600, &reply(2, json!({}))));
    assert_eq!(server.session.revision(), None);
    assert_eq!(server.found(), [Rule::Foreign, Rule::BatchedOpening]);
}

/// S3-13: two switches accept batches where the revision has none: the dialect, which was asked
/// for, and lenience, which names the rule.
#[test]
fn a_tolerant_switch_accepts_batches() {
    let mut dialect =
        Bench::legacy_server_with("2025-11-25", json!({}), |c| c.dialect = Dialect::JsonRpcBatch);
    dialect.feed(json!([ping(1), ping(2)]));
    assert_eq!(ids(&dialect.one()), [json!(1), json!(2)]);
    assert_eq!(dialect.found(), [Rule::Foreign]);
    let mut lenient =
        Bench::legacy_server_with("2025-11-25", json!({}), |c| c.strictness = Strictness::Lenient);
    lenient.feed(json!([ping(1), ping(2)]));
    assert_eq!(ids(&lenient.one()), [json!(1), json!(2)]);
    assert_eq!(lenient.found(), [Rule::BatchForbidden]);
}

/// F19, BASE-16: modern calls are never served from a batch, also where a legacy session has batches.
#[test]
fn modern_calls_are_refused_inside_batches() {
    let mut server = batching_server();
    server.feed(json!([modern(1, "tools/list", json!({})), ping(2)]));
    let batch = server.one();
    assert_eq!((code(&batch[0]), &batch[1]), (-32600, &reply(2, json!({}))));
    assert!(server.calls().is_empty());
}

/// S3-14, BASE-14, BASE-5: our own calls go out one by one; a server's batch of replies settles each.
#[test]
fn a_client_takes_batches_and_sends_none() {
    let mut client = Bench::legacy_client("2025-03-26");
    for ticket in 1..=3 {
        client.call_tool(ticket);
    }
    assert!(client.sent().iter().all(Value::is_object));
    client.feed(json!([reply(5, json!({})), ping(9), {"jsonrpc": "2.0", "id": 4}, reply(3, json!({}))]));
    let settled = client.settled();
    assert!(matches!(settled[0], (3, Outcome::Done(_))));
    assert!(matches!(&settled[1], (2, Outcome::Violated(violation)) if violation.rule == Rule::NoOutcome));
    assert!(matches!(settled[2], (1, Outcome::Done(_))));
    assert_eq!(client.one(), reply(9, json!({})));
}

/// BASE-16, F16: where there are no batches, an answer in an array ends its call at once all the same, whatever else is wrong with it, as
/// it would outside; what is no answer in it ends none.
#[test]
fn an_answer_in_a_forbidden_batch_ends_its_call_at_once() {
    let guessing = || Bench::modern_client_with(|config| config.attribution = Attribution::OnlyCall);
    let fine = || reply(2, json!({"content": [], "resultType": "complete"}));
    for (entry, rule, is_named) in [
        (r#"{"jsonrpc":"2.0","id":2,"result":{}}"#, Rule::BatchForbidden, true),
        (r#"{"jsonrpc":"2.0","id":"2","result":{}}"#, Rule::IdTypeChanged, true),
        (r#"{"id":2,"result":{}}"#, Rule::VersionMissing, true),
        (r#"{"jsonrpc":"2.0","id":2}"#, Rule::NoOutcome, true),
        (
            r#"{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":"x"}}"#,
            Rule::BothOutcomes,
            true,
        ),
        (r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#, Rule::BatchForbidden, true),
        (r#"{"jsonrpc":"2.0","result":{}}"#, Rule::ReplyWithoutId, false),
        (r#"{"result":{}}"#, Rule::VersionMissing, false),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, Rule::IdNull, false),
        (r#"{"jsonrpc":"2.0","id":99,"result":{}}"#, Rule::UnknownReply, false),
        (r#"{"jsonrpc":"2.0","id":"word","result":{}}"#, Rule::UnknownReply, false),
    ] {
        for (mut client, ends) in [(guessing(), true), (Bench::modern_client(), is_named)] {
            client.call_tool(1);
            client.raw(&format!(r#"[{entry},{{"level":"info"}},5]"#));
            assert_eq!(client.found()[0], Rule::BatchForbidden, "{entry}");
            if ends {
                let outcome = client.outcome();
                assert!(matches!(&outcome, Outcome::Violated(of) if of.rule == rule), "{entry}: {outcome:?}");
            } else {
                client.feed(fine());
                assert!(matches!(client.outcome(), Outcome::Done(_)), "{entry}");
            }
        }
    }
    for nothing in [r#"[5,"x",{},{"level":"info"}]"#, r#"[{"jsonrpc":"2.0","id":2,"method":"ping"}]"#] {
        let mut client = guessing();
        client.call_tool(1);
        client.raw(nothing);
        client.feed(fine());
        assert!(matches!(client.outcome(), Outcome::Done(_)), "{nothing}");
    }
    // With two in flight it belongs to the one that is left; an answer to a note is nobody's.
    let mut client = guessing();
    (1..=2).for_each(|ticket| client.call_tool(ticket));
    client.raw(r#"[{"jsonrpc":"2.0","id":99,"result":{}}]"#);
    client.feed(fine());
    let outcomes: Vec<_> = client.settled().into_iter().map(|(_, outcome)| outcome).collect();
    assert!(matches!(&outcomes[..], [Outcome::Done(_), Outcome::Violated(_)]), "{outcomes:?}");
    let mut client = Bench::legacy_client_with("2025-11-25", |c| c.attribution = Attribution::OnlyCall);
    client.call_tool(1);
    client.raw(r#"[{"jsonrpc":"2.0","id":null,"result":{}}]"#);
    client.feed(reply(3, json!({"content": []})));
    assert!(matches!(client.outcome(), Outcome::Done(_)));
}

/// S0-43: a batch that is still open when the link goes leaves nothing behind.
#[test]
fn an_open_batch_ends_with_the_link() {
    let mut server = batching_server();
    server.feed(json!([call(1), ping(2)]));
    let key = server.called().key;
    server.handle(Input::Closed { cause: Cause::ClosedByPeer });
    assert_eq!(server.withdrawn()[0].0, key);
    server.done(key, json!({}));
    assert_eq!(server.sent(), NOTHING);
}

/// S3-15: the batch is answered on the lane it came on.
#[test]
fn a_batch_is_answered_on_its_lane() {
    let mut server = batching_server();
    server.on_lane(LaneId(6), &json!([ping(1), ping(2)]).to_string());
    let sent = server.sent_on_lanes();
    assert_eq!((sent.len(), sent[0].0, sent[0].2), (1, 6, true));
}
