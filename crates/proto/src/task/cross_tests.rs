//! Tasks of one design in the words of the other, as values.

use bytes::Bytes;
use serde_json::{Value, json};

use super::cross::{
    Brings, asks_in, both, core_of, extension_of, needs_extension, offered, optional_tools, outcome_of, read,
    task_of, tied, untied,
};
use super::life::Design;
use crate::era::Revision;
use crate::jsonrpc::fault::Fault;
use crate::method::Method;
use crate::model::task::Task;
use crate::session::event::Ask;

fn raw(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

fn value(raw: &Bytes) -> Value {
    serde_json::from_slice(raw).unwrap()
}

/// A task of either design, with these members beside the usual ones.
fn task(members: Value) -> Value {
    let mut task =
        json!({"taskId": "t", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-02T00:00:00Z"});
    for (name, value) in members.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

fn parsed(members: Value) -> Task {
    read(&raw(&task(members))).unwrap()
}

/// TSKD-1, TSKD-3, TSKE-19, TSKE-20: who runs tools as tasks, and in which design, is said by revision and capability together.
#[test]
fn designs_are_told_by_revision_and_capability() {
    let core = json!({"tasks": {"requests": {"tools": {"call": {}}}}});
    let other = json!({"tasks": {"requests": {"sampling": {"createMessage": {}}}}});
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let rows = [
        (Revision::V2025_11_25, &core, Some(Design::Core)),
        (Revision::V2025_11_25, &other, None),
        (Revision::V2025_11_25, &extension, None),
        (Revision::V2025_06_18, &core, None),
        (Revision::V2026_07_28, &extension, Some(Design::Extension)),
        (Revision::V2026_07_28, &core, None),
    ];
    for (revision, capabilities, design) in rows {
        assert_eq!(offered(revision, &raw(capabilities)), design, "{revision:?} {capabilities}");
    }
    assert_eq!(offered(Revision::V2026_07_28, b"nothing"), None);
}

/// TSKD-1: both designs are declared exactly; whatever else was declared stays as it was.
#[test]
fn capabilities_of_both_designs() {
    let modern = Bytes::from_static(br#"{"n":1.50,"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    assert_eq!(
        both(Design::Extension, &modern),
        r#"{"n":1.50,"extensions":{"io.modelcontextprotocol/tasks":{}},"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}}"#
    );
    let legacy = raw(&json!({"tasks": {"requests": {"tools": {"call": {}}}}, "extensions": {"a/b": {}}}));
    let said = value(&both(Design::Core, &legacy));
    assert_eq!(said["extensions"], json!({"a/b": {}, "io.modelcontextprotocol/tasks": {}}));
    assert_eq!(offered(Revision::V2026_07_28, said.to_string().as_bytes()), Some(Design::Extension));
    assert_eq!(offered(Revision::V2025_11_25, said.to_string().as_bytes()), Some(Design::Core));
}

/// TSKD-9, TSKD-10, TSKD-22: every state of the extension is one of the core design, with its times.
#[test]
fn the_extension_in_the_words_of_the_core() {
    let failed = json!({"content": [{"type": "text", "text": "broke"}], "isError": true});
    let error = json!({"code": -32603, "message": "lost"});
    let rows = [
        (
            json!({"status": "working", "ttlMs": 5, "pollIntervalMs": 7}),
            json!({"status": "working", "ttl": 5, "pollInterval": 7}),
        ),
        (json!({"status": "working", "ttlMs": null}), json!({"status": "working", "ttl": null})),
        (
            json!({"status": "input_required", "ttlMs": 5, "inputRequests": {"a": {"method": "odd"}}}),
            json!({"status": "input_required", "ttl": 5}),
        ),
        (
            json!({"status": "completed", "ttlMs": 5, "result": {"content": []}}),
            json!({"status": "completed", "ttl": 5}),
        ),
        (
            json!({"status": "completed", "ttlMs": 5, "result": failed}),
            json!({"status": "failed", "ttl": 5, "statusMessage": "broke"}),
        ),
        (
            json!({"status": "failed", "ttlMs": 5, "error": error}),
            json!({"status": "failed", "ttl": 5, "statusMessage": "lost"}),
        ),
        (
            json!({"status": "failed", "ttlMs": 5, "error": error, "statusMessage": "so"}),
            json!({"status": "failed", "ttl": 5, "statusMessage": "so"}),
        ),
        (json!({"status": "cancelled", "ttlMs": 5}), json!({"status": "cancelled", "ttl": 5})),
        (
            json!({"status": "paused", "ttlMs": 5}),
            json!({"status": "working", "ttl": 5, "statusMessage": "paused"}),
        ),
    ];
    for (given, left) in rows {
        let core = serde_json::to_value(core_of(&parsed(given.clone()))).unwrap();
        assert_eq!(core, task(left), "{given}");
    }
}

/// TSKD-12: what a task of the extension brought is what the call would have brought, byte for byte.
#[test]
fn outcomes_are_taken_out_of_the_task() {
    let state = Bytes::from_static(
        br#"{"taskId":"t","createdAt":"","lastUpdatedAt":"","status":"completed","ttlMs":1,"result":{"n":1.50}}"#,
    );
    let result = outcome_of(&read(&state).unwrap()).unwrap().unwrap();
    assert_eq!(result, r#"{"n":1.50}"#);
    let error = json!({"code": 7, "message": "m", "data": {"n": 1}});
    let fault = outcome_of(&parsed(json!({"status": "failed", "error": error}))).unwrap().unwrap_err();
    assert_eq!(
        (fault.code, &*fault.message, fault.data.unwrap()),
        (7, "m", Bytes::from_static(b"{\"n\":1}"))
    );
    for odd in [json!({"status": "completed"}), json!({"status": "failed"})] {
        assert!(outcome_of(&parsed(odd)).unwrap().is_err());
    }
    for none in ["working", "input_required", "cancelled"] {
        assert!(outcome_of(&parsed(json!({"status": none}))).is_none(), "{none}");
    }
}

/// TSKE-8, TSKE-9, TSKE-24: every state of the core design is one of the extension, with what belongs to it.
#[test]
fn the_core_in_the_words_of_the_extension() {
    let done =
        Ok(raw(&json!({"content": [], "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}})));
    let failed = Ok(raw(&json!({"content": [], "isError": true, "_meta": {"a": 1}})));
    let fault = Err(Fault::new(7, "m").with_data(&json!({"n": 1})));
    let ask = Ask {
        method: Method::ElicitationCreate,
        params: Some(raw(&json!({
            "message": "who?", "requestedSchema": {"type": "object", "properties": {}}, "task": {}, "elicitationId": "1",
            "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}, "x": 1},
        }))),
    };
    let asks = [("ask-1".into(), ask)];
    let rows = [
        (
            json!({"status": "working", "ttl": 5, "pollInterval": 7}),
            Brings::Nothing,
            json!({"status": "working", "ttlMs": 5, "pollIntervalMs": 7}),
        ),
        (json!({"status": "working"}), Brings::Nothing, json!({"status": "working", "ttlMs": null})),
        // Asks come by themselves, so the state may come before them and after them.
        (
            json!({"status": "input_required", "ttl": null}),
            Brings::Asks(&[]),
            json!({"status": "working", "ttlMs": null}),
        ),
        (
            json!({"status": "working", "ttl": null}),
            Brings::Asks(&asks),
            json!({"status": "input_required", "ttlMs": null, "inputRequests":
                {"ask-1": {"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}, "_meta": {"x": 1}}}}}),
        ),
        (
            json!({"status": "completed", "ttl": 1}),
            Brings::Outcome(&done),
            json!({"status": "completed", "ttlMs": 1, "result": {"content": []}}),
        ),
        (
            json!({"status": "failed", "ttl": 1, "statusMessage": "so"}),
            Brings::Outcome(&failed),
            json!({"status": "completed", "ttlMs": 1, "statusMessage": "so", "result": {"content": [], "isError": true, "_meta": {"a": 1}}}),
        ),
        (
            json!({"status": "failed", "ttl": 1}),
            Brings::Outcome(&fault),
            json!({"status": "failed", "ttlMs": 1, "error": {"code": 7, "message": "m", "data": {"n": 1}}}),
        ),
        (
            json!({"status": "failed", "ttl": 1, "statusMessage": "so"}),
            Brings::Nothing,
            json!({"status": "failed", "ttlMs": 1, "statusMessage": "so", "error": {"code": -32603, "message": "so"}}),
        ),
        (
            json!({"status": "cancelled", "ttl": 1}),
            Brings::Outcome(&fault),
            json!({"status": "cancelled", "ttlMs": 1}),
        ),
    ];
    for (given, brings, left) in rows {
        let state = extension_of(&parsed(given.clone()), brings);
        assert_eq!(value(&state), task(left), "{given}");
        let flaws = serde_json::from_slice::<Task>(&state).unwrap().check_detailed();
        assert!(flaws.is_empty(), "{given}: {flaws:?}");
    }
}

/// TSKE-8: what a task asks is read one by one; what nobody could be asked is left out, and so is what is too much.
#[test]
fn asks_are_read_by_name() {
    let state = raw(&json!({"inputRequests": {
        "a": {"method": "roots/list"},
        "b": {"method": "tools/call", "params": {}},
        "c": {"method": "elicitation/create", "params": {"message": "who?"}},
    }}));
    let asks = asks_in(&state, 9);
    let names: Vec<_> = asks.iter().map(|(name, ask)| (&**name, ask.method.clone())).collect();
    assert_eq!(names, [("a", Method::RootsList), ("c", Method::ElicitationCreate)]);
    assert_eq!(asks[1].1.params.as_deref(), Some(&br#"{"message":"who?"}"#[..]));
    assert_eq!(asks_in(&state, 1).len(), 1);
    assert!(asks_in(&raw(&json!({"inputRequests": 7})), 9).is_empty());
}

/// TSKD-13: a message says which task it belongs to, and stays what it was otherwise.
#[test]
fn messages_are_tied_to_their_task() {
    for (given, left) in [
        (r#"{"n":1.50}"#, r#"{"n":1.50,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#),
        (
            r#"{"_meta":{"x":1},"n":1}"#,
            r#"{"_meta":{"x":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}},"n":1}"#,
        ),
    ] {
        let given = Bytes::from_static(given.as_bytes());
        let tied = tied(&given, "t");
        assert_eq!(tied, left);
        assert_eq!(task_of(&tied).as_deref(), Some("t"));
        assert_eq!(untied(&tied), given);
    }
    assert_eq!(task_of(&Bytes::from_static(br#"{"_meta":{}}"#)), None);
}

/// TSKE-4: only a fault that wants the extension and nothing else can be mended by declaring it.
#[test]
fn calls_that_need_the_extension() {
    let fault = |required: Value| Fault::missing_capability(&required);
    assert!(needs_extension(&fault(crate::model::task::required())));
    assert!(!needs_extension(&fault(json!({"elicitation": {}}))));
    assert!(!needs_extension(&fault(
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}, "a/b": {}}})
    )));
    assert!(!needs_extension(&Fault::internal("no")));
}

/// TSKD-4: each tool says how it can be called, and stays what it was otherwise.
#[test]
fn tools_say_that_they_may_be_tasks() {
    let page = r#"{"tools":[{"name":"a","n":1.50},{"name":"b","execution":{"taskSupport":"required"}}],"nextCursor":"x"}"#;
    assert_eq!(
        optional_tools(&Bytes::from_static(page.as_bytes())),
        r#"{"tools":[{"name":"a","n":1.50,"execution":{"taskSupport":"optional"}},{"name":"b","execution":{"taskSupport":"required"}}],"nextCursor":"x"}"#
    );
    assert_eq!(optional_tools(&Bytes::from_static(b"{}")), "{}");
}
