//! The batch dialect: batches in any revision, each entry on its own.

#![allow(clippy::unwrap_used)] // helpers of tests are tests too

mod dialect_bench;

use cardan_proto::dialect::Dialect;
use cardan_proto::dialect::quirk::Quirk;
use cardan_proto::era::{Era, Revision};
use cardan_proto::finding::Rule;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Answer, Command};
use cardan_proto::session::state::State;
use dialect_bench::{Bench, config};
use serde_json::{Value, json};

/// A server whose client has settled on `revision`.
fn opened(revision: Revision) -> Bench {
    let mut server = Bench::server(Dialect::JsonRpcBatch);
    if revision.era() == Era::Legacy {
        let params = json!({"protocolVersion": revision.date(), "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params});
        server.hear(&hello.to_string());
    }
    server
}

fn call(id: u64, revision: Revision) -> Value {
    let mut params = json!({"name": "add"});
    if revision.era() == Era::Modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision.date(),
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        });
    }
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Answers every call that runs, newest first.
fn answer_all(server: &mut Bench) -> Vec<String> {
    let keys: Vec<_> = server.called().iter().map(|called| called.key).collect();
    let answer = Answer::Done(br#"{"content":[]}"#.as_slice().into());
    let answered =
        keys.into_iter().rev().flat_map(|key| server.local(Command::Answer { key, answer: answer.clone() }));
    answered.collect()
}

fn ids(reply: &str) -> Vec<Value> {
    let replies: Vec<Value> = serde_json::from_str(reply).unwrap();
    replies.into_iter().map(|reply| reply["id"].clone()).collect()
}

/// S3-12, S3-13, S3-15: in every revision a batch is answered by one array, in any order.
#[test]
fn batches_work_in_every_revision() {
    for revision in Revision::ALL {
        let mut server = opened(revision);
        let note =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}});
        let batch = json!([call(1, revision), note, call(2, revision)]);
        assert!(server.hear(&batch.to_string()).is_empty(), "{revision}");
        let said = answer_all(&mut server);
        assert_eq!(said.len(), 1, "{revision}: {said:?}");
        assert_eq!(ids(&said[0]), [json!(2), json!(1)], "{revision}");
        assert_eq!(server.session.in_flight(), (0, 0));
        let granted = u64::from(revision != Revision::V2025_03_26);
        assert_eq!(server.session.quirks().of(Quirk::BatchAnyRevision), granted, "{revision}");
        assert_eq!(server.found(Rule::BatchForbidden), 0);
    }
}

/// S3-13, S3-25: without the dialect, revisions without batches refuse the whole.
#[test]
fn batches_are_refused_without_the_dialect() {
    let mut server = Bench::server(Dialect::Standard);
    let said = server.hear(&json!([call(1, Revision::LATEST_MODERN)]).to_string());
    assert!(said.len() == 1 && said[0].contains("-32600"), "{said:?}");
    assert!(server.called().is_empty());
    assert_eq!(server.found(Rule::BatchForbidden), 1);
}

/// S3-16, S3-25: a bad entry spoils only itself.
#[test]
fn bad_entries_spoil_only_themselves() {
    for revision in Revision::ALL {
        let mut server = opened(revision);
        let bad = [
            json!(1),
            json!([]),
            json!({"foo": "bar"}),
            json!({"jsonrpc": "1.0", "id": 5, "method": "ping"}),
        ];
        let mut batch = vec![call(1, revision)];
        batch.extend(bad.clone());
        batch.push(call(2, revision));
        assert!(server.hear(&Value::Array(batch).to_string()).is_empty());
        let said = answer_all(&mut server);
        assert_eq!(said.len(), 1, "{revision}: {said:?}");
        let replies: Vec<Value> = serde_json::from_str(&said[0]).unwrap();
        let faults: Vec<_> = replies.iter().filter(|reply| reply.get("error").is_some()).collect();
        assert_eq!((replies.len(), faults.len()), (6, bad.len()), "{revision}");
        assert!(faults.iter().all(|fault| fault["error"]["code"] == -32600), "{revision}: {faults:?}");
        assert_eq!(faults.iter().filter(|fault| fault["id"].is_null()).count(), 3, "{revision}");
        assert_eq!(server.found(Rule::BatchNested), 1, "{revision}");
    }
}

/// S3-15: notes alone are answered by nothing.
#[test]
fn batch_of_notes_yields_nothing() {
    let mut server = opened(Revision::V2025_11_25);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    assert!(server.hear(&json!([note, note]).to_string()).is_empty());
    assert_eq!(server.session.state(), State::Ready);
}

/// S3-16: an empty array is one invalid request, as is one beyond the limit.
#[test]
fn empty_and_endless_batches_are_refused_whole() {
    let mut server = opened(Revision::LATEST_MODERN);
    let many = vec![call(1, Revision::LATEST_MODERN); Limits::DEFAULT.batch_entries + 1];
    for (batch, rule) in [(json!([]), Rule::BatchEmpty), (Value::Array(many), Rule::BatchTooLong)] {
        let said = server.hear(&batch.to_string());
        assert_eq!(said.len(), 1, "{said:?}");
        let reply: Value = serde_json::from_str(&said[0]).unwrap();
        assert_eq!(reply["error"]["code"], -32600);
        assert_eq!(server.found(rule), 1);
    }
    assert!(server.called().is_empty());
}

/// S3-12: the handshake stands alone even here.
#[test]
fn handshake_is_never_in_a_batch() {
    let mut server = Bench::server(Dialect::JsonRpcBatch);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    let said = server.hear(&json!([hello]).to_string());
    assert!(said[0].contains("-32600") && said[0].starts_with('['), "{said:?}");
}

/// S3-14: we never send batches of our own.
#[test]
fn client_sends_no_batches() {
    let role = cardan_proto::session::config::Role::Client;
    let (_, said) = Bench::open(config(role, Dialect::JsonRpcBatch));
    assert!(said.iter().all(|frame| frame.starts_with('{')), "{said:?}");
}
