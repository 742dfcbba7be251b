//! Standing interests: one open call in the modern era, subscriptions and unasked notes in the legacy one.

mod common;

use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::session::event::{
    Cause, Change, Command, Delivery, Event, Input, Interest, LaneId, LogLevel, Outcome, Refusal, Ticket,
};
use cardan_proto::session::state::State;
use common::*;
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn listen(id: impl Into<Value>, filter: Value) -> Value {
    modern(id, "subscriptions/listen", json!({"notifications": filter}))
}

fn acknowledged(id: impl Into<Value>, filter: Value) -> Value {
    note(
        "notifications/subscriptions/acknowledged",
        json!({"notifications": filter, "_meta": {SUBSCRIPTION: id.into()}}),
    )
}

fn changed(id: impl Into<Value>, what: &str) -> Value {
    note(&format!("notifications/{what}/list_changed"), json!({"_meta": {SUBSCRIPTION: id.into()}}))
}

fn tools() -> Interest {
    Interest { tools: true, ..Interest::default() }
}

fn start(client: &mut Bench, ticket: u64, interest: Interest) {
    client.local(Command::Listen { ticket: Ticket(ticket), interest });
}

/// Each change, and the listens that it is for.
fn changes(client: &mut Bench) -> Vec<(Vec<u64>, Change)> {
    let events = client.events();
    events
        .into_iter()
        .filter_map(|event| match event {
            Event::Changed { tickets, change } => {
                Some((tickets.into_iter().map(|ticket| ticket.0).collect(), change))
            }
            _ => None,
        })
        .collect()
}

/// SUB-1, SUB-3, SUB-4, SUB-6, SUB-15, STD-8: the acknowledgement comes first and lists what is honoured;
/// every note carries the id of its listen in its JSON type.
#[test]
fn a_listen_is_acknowledged_first() {
    for id in [json!(7), json!("7"), json!(-1)] {
        let mut server = Bench::server();
        server.local(Command::Change(Change::Tools));
        assert_eq!(server.sent(), NOTHING, "nobody asked");
        server.feed(listen(id.clone(), json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]})));
        let honoured = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]});
        assert_eq!(server.one(), acknowledged(id.clone(), honoured));
        server.local(Command::Change(Change::Tools));
        assert_eq!(server.one(), changed(id.clone(), "tools"));
        server.local(Command::Change(Change::Resource("a:b".into())));
        let updated = server.one();
        assert_eq!(updated["params"], json!({"uri": "a:b", "_meta": {SUBSCRIPTION: id}}));
    }
}

/// SUB-7, S0-72: what was told of a resource is told on with all that it said, and with the listen that it is for now.
#[test]
fn s0_72_what_was_told_is_told_on() {
    let mut client = Bench::modern_client();
    start(&mut client, 1, Interest { uris: vec!["a:b".into()], ..Interest::default() });
    client.sent();
    client.feed(acknowledged(2, json!({"resourceSubscriptions": ["a:b"]})));
    let said = json!({"uri": "a:b", "_meta": {SUBSCRIPTION: 2, "x/y": 1}, "title": "T"});
    client.feed(note("notifications/resources/updated", said));
    let heard = changes(&mut client);
    let [(_, change)] = &heard[..] else { panic!("{heard:?}") };
    let mut server = Bench::server();
    server.feed(listen("seven", json!({"resourceSubscriptions": ["a:b"]})));
    server.sent();
    server.local(Command::Change(change.clone()));
    let on = json!({"uri": "a:b", "_meta": {"x/y": 1, SUBSCRIPTION: "seven"}, "title": "T"});
    assert_eq!(server.one()["params"], on);
    let mut old = Bench::legacy_server("2025-11-25", json!({}));
    old.feed(legacy(1, "resources/subscribe", json!({"uri": "a:b"})));
    old.sent();
    old.local(Command::Change(change.clone()));
    assert_eq!(old.one()["params"], json!({"uri": "a:b", "_meta": {"x/y": 1}, "title": "T"}));
}

/// SUB-2, RES-5: changes that were not asked for are not told.
#[test]
fn unasked_changes_are_not_told() {
    let mut server = Bench::server();
    server.feed(listen(1, json!({"promptsListChanged": true, "resourceSubscriptions": ["file:///a"]})));
    server.sent();
    for change in [Change::Tools, Change::Resources, Change::Resource("file:///b".into())] {
        server.local(Command::Change(change));
    }
    server.local(Command::Change(Change::Resource("file:///ab".into())));
    assert_eq!(server.sent(), NOTHING);
    server.local(Command::Change(Change::Prompts));
    assert_eq!(server.one()["method"], "notifications/prompts/list_changed");
}

/// SUB-16: an update may name something below the address that was asked for.
#[test]
fn updates_below_an_address_are_told() {
    let mut server = Bench::server();
    server.feed(listen(1, json!({"resourceSubscriptions": ["file:///a"]})));
    server.sent();
    server.local(Command::Change(Change::Resource("file:///a/deep".into())));
    assert_eq!(server.one()["params"]["uri"], "file:///a/deep");
}

/// SUB-4, SUB-14, S2-29: only what the server announces is honoured; without anything to announce the
/// method does not exist.
#[test]
fn only_the_announced_is_honoured() {
    let mut server =
        Bench::server_with(|c| c.capabilities = r#"{"tools":{"listChanged":true},"resources":{}}"#.into());
    let everything = json!({"toolsListChanged": true, "promptsListChanged": true,
        "resourcesListChanged": true, "resourceSubscriptions": ["a:b"], "future": true});
    server.feed(listen(1, everything.clone()));
    assert_eq!(server.one(), acknowledged(1, json!({"toolsListChanged": true})));
    let mut mute = Bench::server_with(|c| c.capabilities = r#"{"tools":{}}"#.into());
    mute.feed(listen(1, everything));
    assert_eq!(code(&mute.one()), -32601);
}

/// SUB-1: a listen without a filter, or with a malformed one, gets -32602.
#[test]
fn malformed_filters_are_refused() {
    for params in [
        json!({}),
        json!({"notifications": null}),
        json!({"notifications": [true]}),
        json!({"notifications": {"toolsListChanged": "yes"}}),
        json!({"notifications": {"resourceSubscriptions": "a:b"}}),
        json!({"notifications": {"resourceSubscriptions": ["a:b", "no address"]}}),
        json!({"notifications": {"resourceSubscriptions": ["a:b\n"]}}),
    ] {
        let mut server = Bench::server();
        server.feed(modern(1, "subscriptions/listen", params.clone()));
        assert_eq!(code(&server.one()), -32602, "{params}");
    }
}

/// SUB-8, SUB-12, F15: listens are independent; a cancel ends the one it names, without a reply; an id
/// in use is refused.
#[test]
fn listens_are_independent() {
    let mut server = Bench::server();
    server.on_lane(LaneId(1), &listen("a", json!({"toolsListChanged": true})).to_string());
    server.on_lane(LaneId(2), &listen("b", json!({"toolsListChanged": true})).to_string());
    server.feed(listen("a", json!({"promptsListChanged": true})));
    let sent = server.sent_on_lanes();
    assert_eq!(sent.len(), 3);
    assert_eq!(code(&sent[2].1), -32600);
    server.local(Command::Change(Change::Tools));
    let told: Vec<_> = server.sent_on_lanes();
    assert_eq!(
        told,
        [(1, changed("a", "tools"), false), (2, changed("b", "tools"), false)],
        "each on its own lane"
    );
    server.found();
    server.feed(cancel("a"));
    assert!(server.found().is_empty());
    server.local(Command::Change(Change::Tools));
    assert_eq!(server.one(), changed("b", "tools"));
}

/// SUB-9, LOG-5, PRG-9: log notes and progress never travel on a listen.
#[test]
fn logs_and_progress_stay_off_listens() {
    let mut server = Bench::server();
    let mut call = listen(1, json!({"toolsListChanged": true}));
    call["params"]["_meta"]["progressToken"] = json!("t");
    call["params"]["_meta"][LOG_LEVEL] = json!("debug");
    server.feed(call);
    server.sent();
    let params = raw(&json!({"level": "error", "data": "x"}));
    server.local(Command::Log { key: None, level: LogLevel::Error, params });
    assert_eq!(server.sent(), NOTHING);
    assert!(server.calls().is_empty(), "no handler has a key to send progress with");
}

/// SUB-10, CAN-4, F38: a server that leaves ends every listen with its result, then closes.
#[test]
fn a_leaving_server_ends_its_listens() {
    let mut server = Bench::server();
    server.on_lane(LaneId(3), &listen("x", json!({"toolsListChanged": true})).to_string());
    server.sent();
    server.close("restart");
    let sent = server.sent_on_lanes();
    assert_eq!(sent.len(), 1);
    let (lane, closing, last) = &sent[0];
    assert_eq!((*lane, *last, &closing["id"]), (3, true, &json!("x")));
    assert_eq!(closing["result"]["resultType"], "complete");
    assert_eq!(closing["result"]["_meta"][SUBSCRIPTION], "x");
    assert_eq!(server.closed, Some(Cause::ClosedByUs("restart".into())));
}

/// Listens and their addresses are bounded.
#[test]
fn listens_are_bounded() {
    let mut server = Bench::server_with(|c| {
        c.limits.listens = 1;
        c.limits.listen_uris = 2;
    });
    server.feed(listen(1, json!({"resourceSubscriptions": ["a:1", "b:1", "c:1"]})));
    assert_eq!(code(&server.one()), 42_900);
    server.feed(listen(2, json!({"resourceSubscriptions": ["a:1", "b:1"]})));
    server.sent();
    server.feed(listen(3, json!({"toolsListChanged": true})));
    assert_eq!(code(&server.one()), 42_900);
    server.feed(cancel(2));
    server.feed(listen(4, json!({"toolsListChanged": true})));
    assert_eq!(server.one()["method"], "notifications/subscriptions/acknowledged");
}

/// SUB-1, SUB-5, SUB-7, S2-29: a client names what it wants, learns what is honoured, and sorts notes
/// by the id of the listen.
#[test]
fn a_client_sorts_notes_by_listen() {
    let mut client = Bench::modern_client();
    start(&mut client, 1, Interest { prompts: true, uris: vec!["a:b".into()], ..tools() });
    let call = client.one();
    assert_eq!(call["method"], "subscriptions/listen");
    assert_eq!(
        call["params"]["notifications"],
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["a:b"]})
    );
    assert_eq!(call["params"]["_meta"][VERSION], "2026-07-28");
    start(&mut client, 2, tools());
    client.feed(acknowledged(2, json!({"toolsListChanged": true})));
    client.feed(acknowledged(3, json!({})));
    let listening: Vec<_> = client
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Listening { ticket, interest } => Some((ticket.0, interest)),
            _ => None,
        })
        .collect();
    assert_eq!(listening, [(1, tools()), (2, Interest::default())]);
    client.feed(changed(3, "tools"));
    client.feed(changed(2, "tools"));
    client.feed(note("notifications/resources/updated", json!({"uri": "a:b/c", "_meta": {SUBSCRIPTION: 2}})));
    assert_eq!(
        changes(&mut client),
        [(vec![2], Change::Tools), (vec![1], Change::Tools), (vec![1], Change::Resource("a:b/c".into()))]
    );
    client.secs(10_000);
    assert!(client.settled().is_empty(), "a listen has no deadline");
}

/// SUB-3, SUB-6, T11: notes before the acknowledgement, of no listen, or with the id in another type,
/// are findings.
#[test]
fn stray_change_notes_are_findings() {
    let mut client = Bench::modern_client();
    start(&mut client, 1, tools());
    client.feed(changed(2, "tools"));
    assert_eq!(client.found(), [Rule::ListenUnacknowledged]);
    client.feed(acknowledged(2, json!({"toolsListChanged": true})));
    client.events();
    client.feed(changed("2", "tools"));
    client.feed(changed(9, "tools"));
    client.feed(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    assert_eq!(client.found(), [Rule::ListenUnknown; 3]);
    assert_eq!(changes(&mut client), []);
}

/// SUB-12, STD-9: a client ends its listen by a cancel note with the id of the call.
#[test]
fn a_client_cancels_its_listen() {
    let mut client = Bench::modern_client();
    start(&mut client, 1, tools());
    client.feed(acknowledged(2, json!({"toolsListChanged": true})));
    client.sent();
    client.local(Command::Cancel { ticket: Ticket(1), reason: "done".into() });
    let told = client.one();
    assert_eq!(
        (told["method"].as_str(), &told["params"]["requestId"]),
        (Some("notifications/cancelled"), &json!(2))
    );
    assert!(matches!(client.outcome(), Outcome::Cancelled { .. }));
    client.feed(changed(2, "tools"));
    assert_eq!(client.found(), [Rule::LateReply]);
}

/// SUB-10, CAN-3, CAN-4: the server's result, its cancel note, or both in turn end a listen gracefully,
/// in a strict session too.
#[test]
fn a_listen_ended_by_the_server_is_no_violation() {
    let result = reply(2, json!({"resultType": "complete", "_meta": {SUBSCRIPTION: 2}}));
    for frames in [vec![result.clone()], vec![cancel(2)], vec![cancel(2), result.clone()]] {
        let mut client = Bench::modern_client_with(|c| c.strictness = Strictness::Strict);
        start(&mut client, 1, tools());
        client.feed(acknowledged(2, json!({"toolsListChanged": true})));
        for frame in frames.clone() {
            client.feed(frame);
        }
        assert!(matches!(client.outcome(), Outcome::Done(_)));
        assert_eq!(client.session.state(), State::Ready, "{frames:?}");
        assert_eq!(client.session.in_flight(), (0, 0));
    }
}

/// S0-43: a listen that ends with the link says so, so that it can be taken up again.
#[test]
fn a_lost_listen_is_told_apart() {
    let mut client = Bench::modern_client();
    start(&mut client, 1, tools());
    client.feed(acknowledged(2, json!({"toolsListChanged": true})));
    client.handle(Input::Closed { cause: Cause::ClosedByPeer });
    assert_eq!(client.outcome(), Outcome::Lost { cause: Cause::ClosedByPeer, delivery: Delivery::Unknown });

    let mut old = Bench::legacy_client("2025-11-25");
    start(&mut old, 1, tools());
    old.handle(Input::Closed { cause: Cause::ClosedByPeer });
    assert!(matches!(old.outcome(), Outcome::Lost { .. }));
}

/// RES-4, S2-29: a legacy listen is one subscribe call per address; it is in force when all are
/// answered, and its cancel unsubscribes.
#[test]
fn legacy_listens_subscribe() {
    let mut client = Bench::legacy_client("2025-06-18");
    let interest = Interest { uris: vec!["a:1".into(), "a:2".into()], ..tools() };
    start(&mut client, 1, interest.clone());
    let sent = client.sent();
    let calls: Vec<_> =
        sent.iter().map(|call| (call["method"].as_str().unwrap(), &call["params"]["uri"])).collect();
    assert_eq!(calls, [("resources/subscribe", &json!("a:1")), ("resources/subscribe", &json!("a:2"))]);
    client.feed(reply(3, json!({})));
    assert!(!client.events().iter().any(|event| matches!(event, Event::Listening { .. })));
    client.feed(reply(4, json!({})));
    assert!(client.events().iter().any(|event| matches!(event, Event::Listening { ticket: Ticket(1), .. })));
    client.feed(note("notifications/resources/updated", json!({"uri": "a:2"})));
    client.feed(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    assert_eq!(changes(&mut client), [(vec![1], Change::Resource("a:2".into())), (vec![1], Change::Tools)]);
    client.local(Command::Cancel { ticket: Ticket(1), reason: "done".into() });
    let methods: Vec<_> = client.sent().iter().map(|call| call["method"].clone()).collect();
    assert_eq!(methods, ["resources/unsubscribe", "resources/unsubscribe"]);
    assert!(matches!(client.outcome(), Outcome::Cancelled { .. }));
}

/// S0-17, S1-43: a legacy listen settles once, whatever becomes of its subscribe calls, and what was
/// subscribed by then is given back.
#[test]
fn a_legacy_listen_settles_once() {
    let two = || Interest { uris: vec!["a:1".into(), "a:2".into()], ..Interest::default() };
    let mut client = Bench::legacy_client("2025-06-18");
    start(&mut client, 1, two());
    client.secs(100);
    assert_eq!(client.settled().len(), 1, "two calls timed out, one listen ended");

    start(&mut client, 2, two());
    client.local(Command::Cancel { ticket: Ticket(2), reason: "done".into() });
    client.secs(100);
    assert_eq!(client.settled().len(), 1, "cancelled, and not timed out as well");

    start(&mut client, 3, two());
    let ids: Vec<_> = client.sent().iter().map(|call| call["id"].clone()).collect();
    let [.., first, second] = &ids[..] else { panic!() };
    client.feed(reply(first.clone(), json!({})));
    client.feed(fault(second.clone(), -32002));
    assert!(matches!(&client.settled()[..], [(3, Outcome::Fault(_))]));
    let given_back = client.sent();
    assert!(given_back.iter().all(|call| call["method"] == "resources/unsubscribe"));
    assert!(given_back.iter().any(|call| call["params"]["uri"] == "a:1"));
}

/// S2-30: one legacy note is told once, with every listen that it is for.
#[test]
fn a_legacy_note_is_one_event_for_all_its_listens() {
    let mut client = Bench::legacy_client("2025-06-18");
    for ticket in 1..=3 {
        let interest = if ticket == 2 { Interest { prompts: true, ..Interest::default() } } else { tools() };
        start(&mut client, ticket, interest);
    }
    client.events();
    client.feed(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let mut changes = changes(&mut client);
    changes[0].0.sort_unstable();
    assert_eq!(changes, [(vec![1, 3], Change::Tools)]);
}

/// S2-29, S2-30: subscribing needs the server's word; list changes are heard even if undeclared.
#[test]
fn legacy_changes_are_heard_even_if_undeclared() {
    let mut client = Bench::client();
    client.local(Command::Open);
    client.feed(fault(1, -32601));
    client.feed(reply(
        2,
        json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {}, "tools": {}}}),
    ));
    client.events();
    start(&mut client, 1, Interest { uris: vec!["a:1".into()], ..Interest::default() });
    assert_eq!(client.outcome(), Outcome::Refused(Refusal::Capability("resources.subscribe")));
    client.feed(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    assert_eq!(changes(&mut client), [(vec![], Change::Tools)]);
}

/// RES-4, TOOL-5, RES-3, PRM-3: a legacy server answers subscriptions with an empty result, tells
/// updates to subscribers only and list changes to everyone, if it promised them.
#[test]
fn a_legacy_server_tells_its_subscribers() {
    let mut server = Bench::legacy_server("2025-03-26", json!({}));
    server.local(Command::Change(Change::Resource("a:1".into())));
    assert_eq!(server.sent(), NOTHING);
    server.feed(legacy(1, "resources/subscribe", json!({"uri": "a:1"})));
    assert_eq!(server.one(), reply(1, json!({})));
    server.local(Command::Change(Change::Resource("a:1".into())));
    assert_eq!(server.one(), note("notifications/resources/updated", json!({"uri": "a:1"})));
    server.feed(legacy(2, "resources/unsubscribe", json!({"uri": "a:1"})));
    server.sent();
    server.local(Command::Change(Change::Resource("a:1".into())));
    assert_eq!(server.sent(), NOTHING);
    server.local(Command::Change(Change::Prompts));
    assert_eq!(server.one(), json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}));
    server.feed(legacy(3, "resources/subscribe", json!({"uri": 5})));
    assert_eq!(code(&server.one()), -32602);
    let mut quiet =
        Bench::legacy_server_with("2025-03-26", json!({}), |c| c.capabilities = r#"{"tools":{}}"#.into());
    quiet.local(Command::Change(Change::Tools));
    assert_eq!(quiet.sent(), NOTHING);
}
