//! A server of both eras: which call belongs to which, and what each gets.

mod common;

use cardan_proto::era::{Era, Revision, Revisions};
use cardan_proto::finding::Rule;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::session::config::{CacheHint, CacheScope, Disclosure};
use cardan_proto::session::event::{Answer, Change, Command, Event, LaneId, Outcome, Refusal};
use common::*;
use serde_json::{Value, json};

/// VER-2, VER-7, VER-13, S2-20, S2-21: the handshake echoes a legacy revision we speak, answers
/// with the newest legacy one otherwise, and never with a modern one.
#[test]
fn the_handshake_settles_on_a_legacy_revision() {
    for (offered, settled) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let mut server = Bench::server_with(|c| c.instructions = Some("\"be kind\"".into()));
        server.feed(initialize(1, offered, json!({})));
        let answer = server.one();
        assert_eq!(answer["id"], 1);
        let result = &answer["result"];
        assert_eq!(result["protocolVersion"], settled, "{offered}");
        assert_eq!(result["serverInfo"], json!({"name": "s", "version": "1"}));
        assert_eq!(result["instructions"], "be kind");
        assert_eq!(result["capabilities"]["tools"], json!({"listChanged": true}));
        assert_eq!(result["capabilities"].get("completions").is_some(), settled >= "2025-03-26");
        for modern in ["resultType", "ttlMs", "cacheScope", "_meta"] {
            assert_eq!(result.get(modern), None, "{modern} is not in the legacy era");
        }
        assert_eq!(server.session.revision(), Revision::parse(settled));
    }
}

/// VER-7: a server that speaks one revision answers with it.
#[test]
fn the_newest_of_its_own_is_answered() {
    let mut server = Bench::server_with(|c| c.revisions = Revisions::only(Revision::V2025_06_18));
    server.feed(initialize(1, "2025-11-25", json!({})));
    assert_eq!(server.one()["result"]["protocolVersion"], "2025-06-18");
}

/// VER-33, VER-17: a modern-only server refuses the handshake and names its revisions.
#[test]
fn a_modern_only_server_names_its_revisions() {
    let mut server = Bench::server_with(|c| c.revisions = Revisions::MODERN);
    server.feed(initialize(1, "2025-11-25", json!({})));
    let refused = server.one();
    assert_eq!(code(&refused), -32022);
    assert_eq!(refused["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    server.feed(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(code(&server.one()), -32602, "without a legacy era there is no ping before it either");
}

/// META-7, VER-29: to a server of legacy revisions only, the modern `_meta` means nothing, so a
/// probing client finds out that it is legacy.
#[test]
fn a_legacy_only_server_shows_no_modern_sign() {
    let mut server = Bench::server_with(|c| c.revisions = Revisions::LEGACY);
    server.feed(modern(1, "server/discover", json!({})));
    let refused = server.one();
    assert!(!matches!(code(&refused), -32022..=-32020), "{refused}");
    server.feed(initialize(2, "2025-11-25", json!({})));
    assert_eq!(server.one()["result"]["protocolVersion"], "2025-11-25");
    server.feed(modern(3, "tools/list", json!({})));
    assert_eq!(server.called().revision, Revision::V2025_11_25);
    server.feed(modern(4, "server/discover", json!({})));
    assert_eq!(code(&server.one()), -32601);
}

/// VER-19, VER-20, CACHE-1 to CACHE-3, BASE-19: discovery tells revisions, capabilities and hints.
#[test]
fn discovery_is_answered_in_full() {
    let mut server = Bench::server_with(|c| {
        c.cache = CacheHint { ttl: std::time::Duration::from_secs(60), scope: CacheScope::Public };
        c.instructions = Some("\"be kind\"".into());
    });
    server.feed(modern("probe", "server/discover", json!({})));
    let answer = server.one();
    assert_eq!(answer["id"], "probe");
    let result = &answer["result"];
    let all = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
    assert_eq!(result["supportedVersions"], json!(all));
    assert_eq!(result["capabilities"], serde_json::from_str::<Value>(SERVER_CAPS).unwrap());
    assert_eq!(result["instructions"], "be kind");
    assert_eq!((&result["resultType"], &result["ttlMs"]), (&json!("complete"), &json!(60_000)));
    assert_eq!(result["cacheScope"], "public");
    assert_eq!(result["_meta"][SERVER_INFO], json!({"name": "s", "version": "1"}));
    assert_eq!(server.session.revision(), None, "nothing is remembered");
}

/// VER-16, BASE-18, VER-34: without what every modern call needs, -32602 says what is missing.
#[test]
fn incomplete_metadata_is_refused() {
    for (meta, word) in [
        (json!({VERSION: "2026-07-28"}), CAPABILITIES),
        (json!({VERSION: "2026-07-28", CAPABILITIES: null}), CAPABILITIES),
        (json!({VERSION: "2026-07-28", CAPABILITIES: []}), CAPABILITIES),
        (json!({VERSION: 20260728, CAPABILITIES: {}}), VERSION),
        (json!({VERSION: null, CAPABILITIES: {}}), VERSION),
        (json!({CAPABILITIES: {}}), VERSION),
        (json!({}), VERSION),
    ] {
        let mut server = Bench::server();
        server.feed(legacy(1, "tools/list", json!({"_meta": meta})));
        let refused = server.one();
        assert_eq!(code(&refused), -32602, "{meta}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(word), "{refused}");
        assert!(server.calls().is_empty());
    }
    let mut server = Bench::server();
    server.feed(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    assert_eq!(code(&server.one()), -32602);
    assert_eq!(server.found(), [Rule::BeforeOpening]);
}

/// VER-17, VER-36: an unknown revision in `_meta`, or one that has no `_meta` mechanism, gets -32022,
/// and only revisions that could be used this way are named.
#[test]
fn other_revisions_in_meta_are_refused() {
    for version in ["2025-11-25", "2024-11-05", "2031-01-01", "", "latest"] {
        let mut server = Bench::server();
        let mut call = modern(1, "tools/list", json!({}));
        call["params"]["_meta"][VERSION] = json!(version);
        server.feed(call);
        let refused = server.one();
        assert_eq!(code(&refused), -32022, "{version}");
        assert_eq!(refused["error"]["data"], json!({"supported": ["2026-07-28"], "requested": version}));
    }
}

/// VER-15, VER-21: calls without client info are served; who it is changes nothing.
#[test]
fn client_info_is_optional() {
    let mut server = Bench::server();
    for (id, info) in [(1, None), (2, Some(json!({"name": "x", "version": "9"}))), (3, Some(json!(5)))] {
        let mut call = modern(id, "tools/list", json!({}));
        if let Some(info) = info {
            call["params"]["_meta"][CLIENT_INFO] = info;
        }
        server.feed(call);
        let key = server.called().key;
        server.done(key, json!({"tools": []}));
        assert_eq!(server.one()["result"]["tools"], json!([]));
    }
}

/// PNG-1, PNG-3: a ping is answered at once in the legacy era, before the handshake too; in
/// the modern era it does not exist.
#[test]
fn pings_belong_to_the_legacy_era() {
    let mut server = Bench::server();
    server.feed(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert_eq!(server.one(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    server.feed(modern(2, "ping", json!({})));
    assert_eq!(code(&server.one()), -32601);
    server.feed(initialize(3, "2025-06-18", json!({})));
    server.feed(json!({"jsonrpc": "2.0", "id": 4, "method": "ping"}));
    assert_eq!(server.sent()[1], json!({"jsonrpc": "2.0", "id": 4, "result": {}}));
}

/// BASE-29, VER-34, VER-36: what an era does not have is -32601 in it, `initialize` with modern
/// `_meta` included.
#[test]
fn methods_exist_in_their_era_only() {
    for method in
        ["initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/result"]
    {
        let mut server = Bench::server();
        server.feed(modern(1, method, json!({"protocolVersion": "2025-11-25", "uri": "x", "level": "info"})));
        assert_eq!(code(&server.one()), -32601, "{method}");
        assert_eq!(server.session.revision(), None);
    }
    let mut server = Bench::legacy_server("2025-11-25", json!({}));
    for method in ["server/discover", "subscriptions/listen", "tasks/update"] {
        server.feed(legacy(1, method, json!({"notifications": {}})));
        assert_eq!(code(&server.one()), -32601, "{method}");
    }
}

/// BASE-29, VER-9, VER-10, VER-36, S2-4: methods of features we do not offer are -32601 in both eras.
#[test]
fn features_not_offered_do_not_exist() {
    let nothing = |c: &mut cardan_proto::session::config::Config| c.capabilities = "{}".into();
    let methods = [
        "tools/list",
        "tools/call",
        "prompts/get",
        "resources/read",
        "resources/templates/list",
        "completion/complete",
        "tasks/get",
    ];
    for method in methods.into_iter().chain(["subscriptions/listen"]) {
        let mut server = Bench::server_with(nothing);
        server.feed(modern(1, method, json!({"notifications": {}})));
        assert_eq!(code(&server.one()), -32601, "{method}");
    }
    for method in methods.into_iter().chain(["logging/setLevel", "resources/subscribe"]) {
        let mut server = Bench::legacy_server_with("2025-11-25", json!({}), nothing);
        server.feed(legacy(1, method, json!({"uri": "x", "level": "info"})));
        assert_eq!(code(&server.one()), -32601, "{method}");
    }
}

/// BASE-29, S2-4: what only servers call, and notes dressed up as calls, are no methods of a server.
#[test]
fn calls_in_the_wrong_direction_do_not_exist() {
    for method in [
        "sampling/createMessage",
        "roots/list",
        "elicitation/create",
        "notifications/progress",
        "notifications/initialized",
    ] {
        let mut server = Bench::legacy_server("2025-11-25", json!({}));
        server.feed(legacy(1, method, json!({})));
        assert_eq!(code(&server.one()), -32601, "{method} in the legacy era");
        server.feed(modern(2, method, json!({})));
        assert_eq!(code(&server.one()), -32601, "{method} in the modern era");
        assert!(server.calls().is_empty());
    }
}

/// VER-1, VER-12, S0-3, S2-19: a second `initialize` and one without a revision are refused, and
/// change nothing.
#[test]
fn odd_handshakes_are_refused() {
    let mut server = Bench::server();
    server.feed(legacy(1, "initialize", json!({"capabilities": {}})));
    assert_eq!(code(&server.one()), -32602);
    server.feed(legacy(2, "tools/list", json!({})));
    assert_eq!(code(&server.one()), -32602, "still not open");
    server.feed(initialize(3, "2025-06-18", json!({})));
    server.feed(initialize(4, "2025-11-25", json!({})));
    let sent = server.sent();
    assert_eq!((sent[0]["result"]["protocolVersion"].as_str(), code(&sent[1])), (Some("2025-06-18"), -32600));
    assert_eq!(server.session.revision(), Some(Revision::V2025_06_18));
    assert!(server.found().contains(&Rule::OpenedTwice));
}

/// VER-5: until `initialized` comes, changes stay unannounced and nothing but pings is called.
#[test]
fn the_server_waits_for_initialized() {
    let mut server = Bench::server();
    server.feed(initialize(1, "2025-06-18", json!({"sampling": {}, "roots": {}})));
    server.sent();
    server.local(Command::Change(Change::Tools));
    server.call(1, Method::RootsList, None, Default::default());
    assert_eq!(server.outcome(), Outcome::Refused(Refusal::NotOpen));
    assert_eq!(server.sent(), [] as [Value; 0]);
    server.call(2, Method::Ping, None, Default::default());
    assert_eq!(server.one()["method"], "ping");
    server.feed(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.local(Command::Change(Change::Tools));
    assert_eq!(server.one(), json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    server.call(3, Method::RootsList, None, Default::default());
    assert_eq!(server.one()["method"], "roots/list");
}

/// VER-9, VER-10, S2-31, BASE-30: a server calls only what the client declared, and nobody at all in
/// the modern era.
#[test]
fn a_server_calls_only_what_was_declared() {
    let mut server = Bench::legacy_server("2025-11-25", json!({"roots": {}}));
    server.call(1, Method::SamplingCreateMessage, Some(json!({"messages": []})), Default::default());
    assert!(matches!(server.outcome(), Outcome::Refused(Refusal::Capability(_))));
    server.call(2, Method::ToolsList, None, Default::default());
    assert!(matches!(server.outcome(), Outcome::Refused(Refusal::NotInRevision(_))));
    server.call(3, Method::RootsList, None, Default::default());
    let call = server.one();
    server.feed(reply(call["id"].clone(), json!({"roots": []})));
    assert!(matches!(server.outcome(), Outcome::Done(_)));

    let mut server = Bench::server();
    for (ticket, method) in [(1, Method::RootsList), (2, Method::Ping), (3, Method::ElicitationCreate)] {
        server.call(ticket, method, None, Default::default());
        assert!(matches!(server.outcome(), Outcome::Refused(Refusal::NotInRevision(_))));
    }
    server.local(Command::Note { method: Method::ToolsListChanged, params: None });
    assert_eq!(server.sent(), [] as [Value; 0], "a modern server tells nothing unasked");
}

/// VER-24, VER-34, VER-35, VER-23, STD-7: both eras interleave on one link; each call is answered in
/// its own, and neither learns from the other.
#[test]
fn both_eras_run_at_once() {
    let mut server = Bench::server();
    server.feed(modern("m1", "tools/call", json!({"name": "a"})));
    server.feed(initialize(1, "2025-06-18", json!({"elicitation": {}})));
    server.feed(legacy(2, "tools/list", json!({})));
    server.feed(modern("m2", "tools/list", json!({})));
    let calls = server.calls();
    let eras: Vec<_> = calls.iter().map(|called| called.revision.era()).collect();
    assert_eq!(eras, [Era::Modern, Era::Legacy, Era::Modern]);
    server.sent();

    server.done(calls[2].key, json!({"tools": []}));
    server.done(calls[1].key, json!({"tools": []}));
    let sent = server.sent();
    assert_eq!(sent[0]["result"]["resultType"], "complete");
    assert_eq!(sent[0]["result"]["ttlMs"], 0);
    assert_eq!(sent[1], json!({"jsonrpc": "2.0", "id": 2, "result": {"tools": []}}));

    // The handshake declared forms; the modern call declared nothing, and that counts.
    server.ask(calls[0].key, &[("q", Method::ElicitationCreate, json!({"message": "?"}))], None);
    let refused = server.one();
    assert_eq!((&refused["id"], code(&refused)), (&json!("m1"), -32021));
}

/// VER-22, VER-23, MRTR-6: capabilities count for the call that carries them, not for the next one.
#[test]
fn capabilities_are_those_of_the_call() {
    let mut server = Bench::server();
    server.feed(modern_with(1, "tools/call", json!({"name": "a"}), json!({"elicitation": {}})));
    server.feed(modern(2, "tools/call", json!({"name": "a"})));
    for called in server.calls() {
        server.ask(called.key, &[("q", Method::ElicitationCreate, json!({"message": "?"}))], None);
    }
    let sent = server.sent();
    assert_eq!(sent[0]["result"]["resultType"], "input_required");
    assert_eq!(code(&sent[1]), -32021);
    assert_eq!(sent[1]["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}));
}

/// VER-25: a later call is served by another session just as well.
#[test]
fn nothing_ties_modern_calls_together() {
    for id in [1, 2] {
        let mut server = Bench::server();
        server.feed(modern(id, "tools/call", json!({"name": "echo"})));
        let key = server.called().key;
        server.done(key, json!({"content": []}));
        assert_eq!(server.one()["id"], id);
    }
}

/// BASE-19, VER-20, META-7, CACHE-1, S2-14: a modern result gains its type and our name, keeps what the
/// handler wrote, and only cacheable ones gain hints.
#[test]
fn results_are_dressed_for_the_era() {
    let mut server = Bench::server();
    server.feed(modern(1, "tools/call", json!({"name": "a"})));
    let key = server.called().key;
    server.done(key, json!({"content": [], "isError": false, "_meta": {"com.example/k": 1}, "x": [1.5]}));
    let result = server.one()["result"].clone();
    assert_eq!(
        result,
        json!({"content": [], "isError": false, "x": [1.5], "resultType": "complete",
            "_meta": {"com.example/k": 1, SERVER_INFO: {"name": "s", "version": "1"}}})
    );
    let cacheable =
        ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];
    for (id, method) in (2..).zip(cacheable) {
        server.feed(modern(id, method, json!({"uri": "a:b"})));
        let key = server.called().key;
        server.done(key, json!({"ttlMs": 5}));
        let result = server.one()["result"].clone();
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(5), &json!("private")), "{method}");
    }
}

/// CACHE-4: every page of a list carries the same scope.
#[test]
fn pages_share_their_scope() {
    let mut server = Bench::server();
    let mut scopes = Vec::new();
    for (id, cursor) in (1..).zip([json!({}), json!({"cursor": "a"}), json!({"cursor": "b"})]) {
        server.feed(modern(id, "tools/list", cursor));
        let key = server.called().key;
        server.done(key, json!({"tools": [], "nextCursor": "x"}));
        scopes.push(server.one()["result"]["cacheScope"].clone());
    }
    assert_eq!(scopes, ["private"; 3]);
}

/// VER-20: a server may keep its name to itself.
#[test]
fn the_name_can_be_withheld() {
    let mut server = Bench::server_with(|c| c.disclosure = Disclosure::Anonymous);
    server.feed(modern(1, "server/discover", json!({})));
    assert_eq!(server.one()["result"].get("_meta"), None);
}

/// BASE-25, BASE-26, S2-18, RES-6, RES-7: codes that an era does not have become those it has.
#[test]
fn faults_speak_the_code_of_their_era() {
    for (given, legacy_code, modern_code) in [(-32002, -32002, -32602), (-32042, -32042, -32603)] {
        let mut server = Bench::legacy_server("2025-11-25", json!({}));
        server.feed(legacy(1, "resources/read", json!({"uri": "a:b"})));
        server.feed(modern(2, "resources/read", json!({"uri": "a:b"})));
        for called in server.calls() {
            let fault = Fault::new(given, "no").with_data(&json!({"uri": "a:b"}));
            server.local(Command::Answer { key: called.key, answer: Answer::Fault(fault) });
        }
        let sent = server.sent();
        assert_eq!((code(&sent[0]), code(&sent[1])), (legacy_code, modern_code));
        assert_eq!(sent[1]["error"]["data"], json!({"uri": "a:b"}));
    }
}

/// S2-22: `initialized` by its short name does no harm.
#[test]
fn names_of_the_tutorial_do_no_harm() {
    let mut server = Bench::server();
    server.feed(initialize(1, "2024-11-05", json!({})));
    server.feed(json!({"jsonrpc": "2.0", "method": "initialized"}));
    server.sent();
    server.feed(legacy(2, "tools/list", json!({})));
    let key = server.called().key;
    server.done(key, json!({"tools": []}));
    assert_eq!(server.one()["id"], 2);
}

/// STD-7, S0-48: replies go to the lane of their call and end it.
#[test]
fn a_reply_uses_the_lane_of_its_call() {
    let mut server = Bench::server();
    server.on_lane(LaneId(7), &modern(1, "tools/list", json!({})).to_string());
    server.on_lane(LaneId(8), &modern(2, "server/discover", json!({})).to_string());
    let key = server.called().key;
    server.done(key, json!({"tools": []}));
    let sent = server.sent_on_lanes();
    let shape: Vec<_> = sent.iter().map(|(lane, value, last)| (*lane, value["id"].clone(), *last)).collect();
    assert_eq!(shape, [(8, json!(2), true), (7, json!(1), true)]);
}

/// META-7: what the client put into `_meta` reaches the handler untouched.
#[test]
fn metadata_reaches_the_handler() {
    let mut server = Bench::server();
    let meta = json!({"traceparent": "00-x", "com.example/k": {"a": [1.0]}});
    server.feed(modern(1, "tools/call", json!({"name": "a", "_meta": meta})));
    let params = server.called().call.params.decode::<Value>().unwrap();
    assert_eq!(params["_meta"]["traceparent"], "00-x");
    assert_eq!(params["_meta"]["com.example/k"], json!({"a": [1.0]}));
    assert!(server.events().iter().all(|event| !matches!(event, Event::Found(_))));
}
