//! Notes on the way to a reply: progress and log messages.

mod common;

use std::time::Duration;

use bytes::Bytes;
use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::session::event::{
    CallKey, CallOptions, Change, Command, Deadline, Event, Input, LaneId, LogLevel, Outcome, Progress,
    Steps, Wanted,
};
use common::*;
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn at(progress: f64) -> Progress {
    Progress { progress, total: None, message: None }
}

fn told(server: &mut Bench, key: CallKey, progress: Progress) -> Vec<Value> {
    server.local(Command::Progress { key, progress });
    server.sent().into_iter().map(|frame| frame["params"].clone()).collect()
}

fn tool_call(token: Value) -> Value {
    modern(1, "tools/call", json!({"name": "a", "_meta": {"progressToken": token}}))
}

fn progress(token: impl Into<Value>, progress: impl Into<Value>) -> Value {
    note("notifications/progress", json!({"progressToken": token.into(), "progress": progress.into()}))
}

fn progressed(client: &mut Bench) -> Vec<f64> {
    let events = client.events();
    let told = events.into_iter().filter_map(|event| match event {
        Event::Progressed { progress, .. } => Some(progress.progress),
        _ => None,
    });
    told.collect()
}

/// PRG-1, S2-16: progress goes out with the token of the call, in its JSON type, with any growing
/// numbers, with or without total and message.
#[test]
fn progress_names_the_token_of_its_call() {
    for token in [json!("t"), json!(5), json!("5"), json!(0)] {
        let mut server = Bench::server();
        server.feed(tool_call(token.clone()));
        let called = server.called();
        assert_eq!(called.progress, Wanted::Yes);
        let key = called.key;
        assert_eq!(told(&mut server, key, at(-1.5)), [json!({"progressToken": token, "progress": -1.5})]);
        let more = Progress { progress: 1.0, total: Some(3.0), message: Some("one \"of\" three".into()) };
        assert_eq!(
            told(&mut server, key, more),
            [json!({"progressToken": token, "progress": 1, "total": 3, "message": "one \"of\" three"})]
        );
    }
}

/// PRG-10, PRG-1: without a token there is no progress, and a token of another type is none.
#[test]
fn without_a_token_there_is_no_progress() {
    for token in [json!(null), json!({}), json!([1]), json!(true)] {
        let mut server = Bench::server();
        server.feed(tool_call(token.clone()));
        let called = server.called();
        assert_eq!(called.progress, Wanted::No, "{token}");
        assert_eq!(told(&mut server, called.key, at(1.0)), NOTHING, "{token}");
    }
    let mut server = Bench::server();
    server.feed(modern(1, "tools/call", json!({"name": "a"})));
    let called = server.called();
    assert_eq!(told(&mut server, called.key, at(1.0)), NOTHING);
}

/// PRG-3, PRG-5: values only grow, nonsense is dropped, and nothing follows the reply.
#[test]
fn progress_only_grows_and_ends_with_the_reply() {
    let mut server = Bench::server();
    server.feed(tool_call(json!("t")));
    let key = server.called().key;
    let mut sent = Vec::new();
    for value in [1.0, 1.0, 0.5, f64::NAN, 2.0, f64::INFINITY, 2.5, 2.4] {
        sent.extend(told(&mut server, key, at(value)));
    }
    let values: Vec<_> = sent.iter().map(|params| params["progress"].as_f64().unwrap()).collect();
    assert_eq!(values, [1.0, 2.0, 2.5]);
    server.done(key, json!({}));
    server.sent();
    assert_eq!(told(&mut server, key, at(3.0)), NOTHING);
}

/// PRG-7, F18, S0-48: progress goes out no faster than the limit; the newest value is held, not lost,
/// and comes before the reply.
#[test]
fn progress_is_rate_limited() {
    let mut server = Bench::server_with(|c| c.limits.progress_per_second = 3);
    server.feed(tool_call(json!("t")));
    let key = server.called().key;
    server.secs(5);
    let mut sent = Vec::new();
    for n in 1..=50 {
        sent.extend(told(&mut server, key, at(f64::from(n))));
    }
    assert_eq!(sent.len(), 3);
    server.secs(1);
    assert_eq!(server.one()["params"]["progress"], 50, "the newest one when its second is over");
    for n in 51..=60 {
        told(&mut server, key, at(f64::from(n)));
    }
    server.done(key, json!({}));
    let sent = server.sent();
    assert_eq!((&sent[0]["params"]["progress"], &sent[1]["id"]), (&json!(60), &json!(1)));
    server.secs(2);
    assert_eq!(server.session.deadline(), None);
}

/// PRG-9, S0-48: progress travels on the lane of its call.
#[test]
fn progress_stays_on_its_lane() {
    let mut server = Bench::server();
    server.on_lane(LaneId(4), &tool_call(json!("t")).to_string());
    let key = server.called().key;
    server.local(Command::Progress { key, progress: at(1.0) });
    let sent = server.sent_on_lanes();
    assert_eq!((sent[0].0, sent[0].2), (4, false));
}

/// S2-16: a revision without progress messages gets none.
#[test]
fn the_first_revision_has_no_progress_message() {
    for (revision, has) in [("2024-11-05", false), ("2025-03-26", true)] {
        let mut server = Bench::legacy_server(revision, json!({}));
        server.feed(legacy(1, "tools/call", json!({"name": "a", "_meta": {"progressToken": 1}})));
        let key = server.called().key;
        let sent = told(&mut server, key, Progress { message: Some("hm".into()), ..at(1.0) });
        assert_eq!(sent[0].get("message").is_some(), has, "{revision}");
    }
}

/// PRG-1, PRG-2, BASE-6: our token is the id of the call, so no two calls in flight share one.
#[test]
fn our_tokens_are_unique() {
    for mut client in [Bench::modern_client(), Bench::legacy_client("2024-11-05")] {
        for ticket in 1..=3 {
            client.call_with(ticket, wanting_progress());
        }
        let sent = client.sent();
        for call in &sent {
            assert_eq!(call["params"]["_meta"]["progressToken"], call["id"]);
        }
        assert_ne!(sent[0]["id"], sent[1]["id"]);
        client.call_tool(4);
        assert_eq!(client.one().pointer("/params/_meta/progressToken"), None, "only if wanted");
    }
}

/// PRG-4, S2-16, T11: progress reaches its call; what names no call that wants it is a remark.
#[test]
fn progress_reaches_its_call() {
    let mut client = Bench::modern_client();
    client.call_with(1, wanting_progress());
    client.call_tool(2);
    client.feed(note(
        "notifications/progress",
        json!({"progressToken": 2, "progress": 0.25, "total": 1.5, "message": "hm"}),
    ));
    let events = client.events();
    let Some(Event::Progressed { ticket, progress: seen }) = events.first() else { panic!("{events:?}") };
    assert_eq!(ticket.0, 1);
    assert_eq!(*seen, Progress { progress: 0.25, total: Some(1.5), message: Some("hm".into()) });
    for stray in [progress("2", 1), progress(3, 1), progress(99, 1), progress("x", 1)] {
        client.feed(stray);
    }
    assert_eq!(client.found(), [Rule::ProgressUnknown; 4], "call 3 did not ask for progress");
    for malformed in
        [json!({"progress": 1}), json!({"progressToken": 2}), json!({"progressToken": 2, "progress": "x"})]
    {
        client.feed(note("notifications/progress", malformed));
    }
    assert_eq!(client.found(), [Rule::ParamsShape; 3]);
    assert_eq!(progressed(&mut client), [] as [f64; 0]);
    client.feed(reply(2, json!({})));
    client.feed(progress(2, 2));
    assert_eq!(client.found(), [Rule::ProgressUnknown], "the call is over");
}

/// S0-20: progress of a call that we gave up has only crossed our cancel.
#[test]
fn progress_after_giving_up_is_no_fault_of_the_peer() {
    let mut client = Bench::modern_client();
    client.call_with(1, wanting_progress());
    client.secs(3600);
    assert!(matches!(client.outcome(), Outcome::TimedOut { .. }));
    client.feed(progress(2, 1));
    assert_eq!(client.found(), [] as [Rule; 0]);
    assert_eq!(progressed(&mut client), [] as [f64; 0]);
}

/// PRG-3: values that do not grow are findings, measured by the greatest so far.
#[test]
fn stuck_progress_is_a_finding() {
    let mut client = Bench::modern_client();
    client.call_with(1, wanting_progress());
    for (value, stuck) in [(5, false), (5, true), (3, true), (4, true), (6, false)] {
        client.feed(progress(2, value));
        assert_eq!(client.found().contains(&Rule::ProgressStuck), stuck, "{value}");
    }
}

/// PRG-4, S0-36: progress for a call that did not ask for it does not keep that call alive.
#[test]
fn unasked_progress_keeps_nothing_alive() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.secs(20);
    client.feed(progress(2, 1));
    client.secs(10);
    assert!(matches!(client.outcome(), Outcome::TimedOut { deadline: Deadline::Idle, .. }));
}

/// F18, PRG-7: a flood of progress reaches our side at a bounded rate, the newest value last, and ends
/// with the call; the total deadline stands.
#[test]
fn a_flood_of_progress_is_thinned() {
    let mut client = Bench::modern_client_with(|c| c.limits.progress_per_second = 10);
    let options = CallOptions { total: Some(Duration::from_secs(3)), ..wanting_progress() };
    client.call_with(1, options);
    let mut seen = Vec::new();
    for n in 1..=2_000 {
        client.feed(progress(2, n));
        client.wait(Duration::from_millis(1));
        seen.extend(progressed(&mut client));
    }
    assert!(seen.len() <= 31, "{} in two seconds", seen.len());
    assert!(seen.is_sorted());
    client.wait(Duration::from_millis(500));
    client.feed(progress(2, 3_000));
    client.feed(reply(2, json!({})));
    let events = client.events();
    let last = events
        .iter()
        .rposition(|e| matches!(e, Event::Progressed { progress, .. } if progress.progress >= 2_000.0));
    let settled = events.iter().position(|e| matches!(e, Event::Settled { .. }));
    assert!(last < settled && last.is_some(), "progress before the outcome: {events:?}");

    client.call_with(2, options);
    for n in 1..=60 {
        client.wait(Duration::from_millis(100));
        client.feed(progress(3, n));
    }
    assert!(matches!(client.outcome(), Outcome::TimedOut { deadline: Deadline::Total, .. }));
}

/// PRG-3, F18: where progress is passed on, every note is told as it came, however fast; that one does not grow is a finding.
#[test]
fn steps_are_told_whole() {
    let mut client = Bench::modern_client_with(|c| c.limits.progress_per_second = 1);
    client.call_with(1, CallOptions { steps: Steps::Whole, ..wanting_progress() });
    let said = [
        r#"{"progressToken":2,"progress":1.50,"_meta":{"a":1.0},"odd":[1, 2]}"#,
        r#"{"progress":1.50,"message":"again","progressToken":2}"#,
        r#"{"progressToken":2,"progress":9007199254740993}"#,
    ];
    let mut heard = Vec::new();
    for params in said {
        client.raw(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#));
        heard.extend(client.events().into_iter().filter_map(|event| match event {
            Event::Stepped { params, .. } => Some(params),
            _ => None,
        }));
    }
    assert_eq!(heard, said);
    assert_eq!(client.session.findings().count(Rule::ProgressStuck), 1);
}

/// PRG-1, PRG-10, S2-16: a step that is passed on goes out with the token of its call and is else untouched; a revision
/// without progress messages gets none, and nobody hears of it who did not ask.
#[test]
fn steps_go_out_as_they_came() {
    let said = json!({"progressToken": 7, "progress": 0.5, "message": "m", "_meta": {"a": 1}});
    for (revision, has) in [("2025-06-18", true), ("2024-11-05", false)] {
        let mut wanted = said.clone();
        wanted["progressToken"] = json!("t");
        if !has {
            wanted.as_object_mut().unwrap().remove("message");
        }
        let mut server = Bench::legacy_server_with(revision, json!({}), |c| c.limits.progress_per_second = 1);
        server.feed(legacy(1, "tools/call", json!({"name": "a", "_meta": {"progressToken": "t"}})));
        let key = server.called().key;
        for _ in 0..3 {
            server.local(Command::Step { key, params: raw(&said) });
            assert_eq!(server.one()["params"], wanted, "{revision}");
        }
        server.feed(legacy(2, "tools/call", json!({"name": "a"})));
        let key = server.called().key;
        server.local(Command::Step { key, params: raw(&said) });
        assert_eq!(server.sent(), NOTHING, "{revision}");
    }
}

fn log(server: &mut Bench, key: Option<CallKey>, level: LogLevel) -> Vec<Value> {
    let params = raw(&json!({"level": level.name(), "data": "x"}));
    server.local(Command::Log { key, level, params });
    server.sent()
}

/// LOG-2, LOG-3, LOG-9: a legacy level is answered with an empty result and then holds; a bad one is
/// -32602 and changes nothing.
#[test]
fn legacy_levels_hold_from_then_on() {
    let mut server = Bench::legacy_server("2025-06-18", json!({}));
    for (n, wanted) in LogLevel::ALL.into_iter().enumerate() {
        server.feed(legacy(n, "logging/setLevel", json!({"level": wanted.name()})));
        assert_eq!(server.one(), reply(n, json!({})));
        for (m, level) in LogLevel::ALL.into_iter().enumerate() {
            assert_eq!(log(&mut server, None, level).len(), usize::from(m >= n), "{level:?} at {wanted:?}");
        }
        for bad in [json!({"level": "loud"}), json!({}), json!({"level": 3})] {
            server.feed(legacy(99, "logging/setLevel", bad));
            assert_eq!(code(&server.one()), -32602);
        }
    }
}

/// LOG-4 to LOG-6, VER-35, VER-23: modern log notes belong to a call that set a level, on its lane and at
/// its level, whatever a legacy session on the link wants; a bad level is -32602.
#[test]
fn modern_logs_belong_to_their_call() {
    let mut server = Bench::legacy_server("2025-06-18", json!({}));
    server.feed(legacy(0, "logging/setLevel", json!({"level": "debug"})));
    server.sent();
    let call =
        |id: u64, level: Value| modern(id, "tools/call", json!({"name": "a", "_meta": {LOG_LEVEL: level}}));
    server.on_lane(LaneId(2), &call(1, json!("warning")).to_string());
    server.on_lane(LaneId(3), &modern(2, "tools/call", json!({"name": "a"})).to_string());
    let calls = server.calls();
    assert_eq!(calls[0].log_level, Some(LogLevel::Warning));
    assert_eq!(calls[1].log_level, None);
    assert_eq!(log(&mut server, Some(calls[0].key), LogLevel::Notice), NOTHING);
    assert_eq!(log(&mut server, Some(calls[1].key), LogLevel::Emergency), NOTHING, "it set no level");
    let params = raw(&json!({"level": "error", "data": 1}));
    server.local(Command::Log { key: Some(calls[0].key), level: LogLevel::Error, params });
    let sent = server.sent_on_lanes();
    assert_eq!(
        (sent[0].0, &sent[0].1),
        (2, &note("notifications/message", json!({"level": "error", "data": 1})))
    );
    server.done(calls[0].key, json!({}));
    server.sent();
    assert_eq!(log(&mut server, Some(calls[0].key), LogLevel::Error), NOTHING, "the call is over");
    for bad in [json!("loud"), json!(3), json!(null)] {
        server.feed(call(9, bad));
        assert_eq!(code(&server.one()), -32602);
    }
}

/// LOG-7: a handler that logs in a loop fills no link: what is beyond the limit of a second is dropped and
/// counted, in and outside of calls together, and the next second has its own share.
#[test]
fn log_notes_are_limited_per_second() {
    let mut server = Bench::legacy_server_with("2025-06-18", json!({}), |c| c.limits.log_per_second = 5);
    server.feed(legacy(1, "tools/call", json!({"name": "a"})));
    let key = server.called().key;
    for second in 1..=3_u64 {
        let sent: usize =
            (0..10).map(|n| log(&mut server, (n % 2 == 0).then_some(key), LogLevel::Emergency).len()).sum();
        assert_eq!((sent, server.session.dropped_logs()), (5, second * 5));
        assert_eq!(log(&mut server, None, LogLevel::Debug), NOTHING);
        assert_eq!(server.session.dropped_logs(), second * 5, "what nobody wants is not counted");
        server.now = server.now + Duration::from_secs(1);
    }
    server.done(key, json!({}));
    assert_eq!(server.one()["id"], 1, "the reply is not held up");
}

/// LOG-1: who does not declare logging does not log, in either era.
#[test]
fn undeclared_logging_is_silent() {
    let mut server =
        Bench::legacy_server_with("2025-06-18", json!({}), |c| c.capabilities = r#"{"tools":{}}"#.into());
    server.feed(modern(1, "tools/call", json!({"name": "a", "_meta": {LOG_LEVEL: "debug"}})));
    let key = server.called().key;
    assert_eq!(log(&mut server, Some(key), LogLevel::Alert), NOTHING);
    assert_eq!(log(&mut server, None, LogLevel::Alert), NOTHING);
}

/// LOG-2: what a handler is told of its level is what goes out, also before any level was set.
#[test]
fn handlers_are_told_the_level_that_holds() {
    let mut server = Bench::legacy_server("2025-06-18", json!({}));
    server.feed(legacy(1, "tools/call", json!({"name": "a"})));
    let called = server.called();
    let level = called.log_level.expect("a legacy server decides for itself");
    assert_eq!(log(&mut server, Some(called.key), level).len(), 1);
    let below = LogLevel::ALL.into_iter().rev().find(|lower| *lower < level).unwrap();
    assert_eq!(log(&mut server, Some(called.key), below), NOTHING);
}

/// LOG-2, LOG-4, DEP-1: a client tells a legacy server its level by a call, a modern one with every call.
#[test]
fn a_client_wants_a_level_in_either_era() {
    let mut modern = Bench::modern_client_with(|c| c.strictness = Strictness::Strict);
    modern.local(Command::SetLevel(LogLevel::Error));
    assert_eq!(modern.sent(), NOTHING);
    modern.call_tool(1);
    assert_eq!(modern.one()["params"]["_meta"][LOG_LEVEL], "error");
    modern.feed(note("notifications/message", json!({"level": "error", "data": {"x": 1}})));
    let events = modern.events();
    assert!(matches!(&events[..], [Event::Logged { params }] if parsed(params)["data"]["x"] == 1));

    let mut old = Bench::legacy_client("2025-03-26");
    old.local(Command::SetLevel(LogLevel::Info));
    assert_eq!(old.one()["params"], json!({"level": "info"}));
    old.call_tool(1);
    assert_eq!(old.one().pointer("/params/_meta"), None);
}

/// T19: what may be kept of a note holds nothing else of what was read with it.
#[test]
fn t19_a_note_keeps_nothing_else_of_what_was_read() {
    let mut client = Bench::legacy_client("2025-11-25");
    for (method, params) in [
        ("notifications/message", json!({"level": "info", "data": "x"})),
        ("notifications/tasks/status", json!({"taskId": "t"})),
        ("notifications/resources/updated", json!({"uri": "a:b", "title": "T"})),
        ("x/unknown", json!({"a": 1})),
    ] {
        let frame = Bytes::from(note(method, params.clone()).to_string());
        client.handle(Input::Frame { lane: LaneId::MAIN, bytes: frame.clone() });
        let mut kept = client.events().into_iter().filter_map(|event| match event {
            Event::Logged { params } => Some(params),
            Event::Noted(note) => note.params.raw().cloned(),
            Event::Changed { change: Change::Resource(updated), .. } => Some(updated.params()),
            _ => None,
        });
        let kept = kept.next().expect(method);
        assert_eq!(parsed(&kept), params, "{method}");
        assert!(!frame.as_ptr_range().contains(&kept.as_ptr()), "{method} is a part of the frame");
    }
}
