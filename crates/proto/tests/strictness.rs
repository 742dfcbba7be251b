//! One findings engine, three levels: what is repaired is recorded, what is malformed is named at once.

mod common;

use std::time::Duration;

use cardan_proto::finding::{Class, Rule, Strictness};
use cardan_proto::jsonrpc::envelope::Violation;
use cardan_proto::session::config::{Attribution, Config, Shapes};
use cardan_proto::session::event::{Cause, Command, Event, Input, Interest, LaneId, Outcome, Ticket};
use cardan_proto::session::state::State;
use common::*;
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn level(strictness: Strictness) -> impl Fn(&mut Config) {
    move |config| config.strictness = strictness
}

/// S0-81, S0-40, S0-41, S3-19, S3-6, S2-3, S1-16, BASE-11: a malformed line of any kind gets its error
/// from a server, without an id where none could be read, and the stream goes on.
#[test]
fn a_bad_line_does_not_end_a_server() {
    for (frame, answer, rule) in [
        ("not json", Some(-32700), Rule::Syntax),
        ("{\"jsonrpc\":\"2.0\",\"id\":1", Some(-32700), Rule::Syntax),
        ("5", Some(-32600), Rule::NotAnObject),
        ("{}", Some(-32600), Rule::VersionMissing),
        ("{\"jsonrpc\":\"2.0\"}", Some(-32600), Rule::NoOutcome),
        ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", Some(-32600), Rule::IdNull),
        ("{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[1]}", None, Rule::ParamsType),
        ("{\"jsonrpc\":\"1.0\",\"method\":\"m\"}", None, Rule::VersionWrong),
    ] {
        let mut server = Bench::server();
        server.raw(frame);
        match answer {
            Some(expected) => {
                let sent = server.one();
                assert_eq!((code(&sent), sent.get("id")), (expected, None), "{frame}");
            }
            None => assert_eq!(server.sent(), NOTHING, "a note is never answered: {frame}"),
        }
        assert_eq!(server.found(), [rule], "{frame}");
        server.feed(legacy(2, "ping", json!({})));
        assert_eq!(server.one(), reply(2, json!({})), "the stream goes on after {frame}");
    }
}

/// S2-4, S2-18, BASE-32: a malformed call gets the fitting code under its own id, in one short sentence.
#[test]
fn a_malformed_call_is_answered_under_its_id() {
    for (frame, expected) in [
        (r#"{"jsonrpc":"2.0","id":"x","method":"ping","params":[1]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":"x","method":"ping","params":{"_meta":5}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":"x","method":5}"#, -32600),
        (r#"{"jsonrpc":"3.0","id":"x","method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":"x","id":"x","method":"ping"}"#, -32600),
    ] {
        let mut server = Bench::server();
        server.raw(frame);
        let sent = server.one();
        assert_eq!((&sent["id"], code(&sent)), (&json!("x"), expected), "{frame}");
        let message = sent["error"]["message"].as_str().unwrap();
        assert!(message.len() < 160 && !message.contains('\n'), "{message}");
    }
}

/// BASE-10, BASE-11: older revisions get a null id where none could be read, newer ones no id.
#[test]
fn unread_ids_are_null_or_absent_by_revision() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut server = Bench::legacy_server(revision, json!({}));
        server.raw("nonsense");
        let sent = server.one();
        assert_eq!(sent.get("id").is_some(), revision <= "2025-06-18", "{revision}");
        assert_eq!(code(&sent), -32700);
    }
}

/// S1-16, S0-81, S1-6, BASE-2: a client never answers a broken line; it records it and goes on.
#[test]
fn a_bad_line_does_not_end_a_client() {
    let mut client = Bench::legacy_client("2025-11-25");
    client.call_tool(1);
    client.sent();
    for noise in
        ["[INFO] starting", "5", "{}", "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", "{\"a\":"]
    {
        client.raw(noise);
    }
    client.handle(Input::Frame {
        lane: LaneId::MAIN,
        bytes: b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}"[..].into(),
    });
    client.handle(Input::Broken {
        lane: LaneId::MAIN,
        violation: Violation::of(Rule::Oversize),
        excerpt: "xxx".into(),
    });
    assert_eq!(client.sent(), NOTHING);
    assert_eq!(
        client.found(),
        [
            Rule::Noise,
            Rule::NotAnObject,
            Rule::VersionMissing,
            Rule::IdNull,
            Rule::Noise,
            Rule::Noise,
            Rule::Oversize
        ]
    );
    client.feed(reply(3, json!({})));
    assert!(matches!(client.outcome(), Outcome::Done(_)));
}

/// S3-21: an oversized line is reported by the link and answered without an id.
#[test]
fn broken_frames_are_reported() {
    let mut server = Bench::server();
    let violation = Violation::of(Rule::Oversize);
    server.handle(Input::Broken { lane: LaneId::MAIN, violation, excerpt: "xxx".into() });
    assert_eq!(code(&server.one()), -32600);
    assert_eq!(server.found(), [Rule::Oversize]);
    assert_eq!(server.session.state(), State::Ready);
}

/// A piece of a message at the end of input is reported.
#[test]
fn an_unterminated_end_is_reported() {
    let mut server = Bench::server();
    let violation = Violation::of(Rule::Unterminated);
    server.handle(Input::Broken { lane: LaneId::MAIN, violation, excerpt: "{\"jso".into() });
    assert_eq!(server.found(), [Rule::Unterminated]);
    server.handle(Input::ReadClosed);
    assert_eq!(server.closed, Some(Cause::ClosedByPeer));
}

/// S0-40: noise without end closes the link, a message in between starts the count anew.
#[test]
fn noise_is_bounded() {
    let mut client = Bench::modern_client_with(|c| c.limits.noise_lines = 3);
    for _ in 0..3 {
        client.raw("hello");
    }
    client.feed(note("notifications/message", json!({"level": "info", "data": 1})));
    for _ in 0..3 {
        client.raw("hello");
    }
    assert_eq!(client.closed, None);
    client.raw("hello");
    assert_eq!(client.closed, Some(Cause::Violated(Rule::Noise)));
}

/// S0-40, S2-44: a finding carries frame number, rule, call and an excerpt; all are counted, few kept.
#[test]
fn findings_are_recorded_in_full() {
    let mut client = Bench::modern_client_with(|c| c.limits.findings = 2);
    client.raw("\u{1b}[31mhello");
    client.feed(reply(77, json!({})));
    client.raw("again");
    let findings = client.session.findings();
    assert_eq!((findings.total(), findings.count(Rule::Noise)), (3, 2));
    let kept: Vec<_> =
        findings.iter().map(|finding| (finding.frame, finding.rule, finding.call.is_some())).collect();
    // The answer to the probe was the first frame.
    assert_eq!(kept, [(2, Rule::Noise, false), (3, Rule::UnknownReply, true)]);
    let text = findings.iter().next().unwrap().to_string();
    assert!(text.contains("hello") && text.contains("frame 2") && !text.contains('\u{1b}'), "{text}");
}

/// BASE-33: what is merely unknown is no deviation at any level: members, capabilities, notes.
#[test]
fn unknown_things_are_tolerated_at_every_level() {
    for strictness in [Strictness::Strict, Strictness::Standard, Strictness::Lenient] {
        let mut server = Bench::server_with(level(strictness));
        server.feed(initialize(1, "2025-06-18", json!({"future": {"x": 1}, "roots": {"new": true}})));
        server.feed(json!({"jsonrpc": "2.0", "method": "notifications/initialized", "extra": 1}));
        server.feed(note("notifications/from/tomorrow", json!({"x": 1})));
        server.feed(legacy(2, "ping", json!({"x": {"y": 1}})));
        assert_eq!(server.sent().len(), 2);
        assert_eq!(server.closed, None, "{strictness:?}");
    }
}

/// S2-17, S3-10, BASE-13: notes are never answered, whatever they say and whenever they come.
#[test]
fn notes_are_never_answered() {
    for mut bench in [Bench::server(), Bench::legacy_server("2025-11-25", json!({})), Bench::modern_client()]
    {
        for method in [
            "notifications/initialized",
            "tools/call",
            "x/y",
            "initialize",
            "ping",
            "notifications/tools/list_changed",
        ] {
            bench.feed(note(method, json!({"name": 5})));
            bench.feed(json!({"jsonrpc": "2.0", "method": method}));
        }
        assert_eq!(bench.sent(), NOTHING);
        assert!(bench.calls().is_empty());
        assert_eq!(bench.session.state(), State::Ready);
        assert!(
            bench.events().iter().any(|event| matches!(event, Event::Noted(_))),
            "our side may know better"
        );
    }
}

/// S0-20: a strict session ends at the first deviation, with its rule, and says nothing more.
#[test]
fn a_strict_session_ends_at_the_first_deviation() {
    let strict = || Bench::server_with(level(Strictness::Strict));
    for (frame, rule) in [
        ("nonsense", Rule::Syntax),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Rule::IdFraction),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Rule::BatchForbidden),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, Rule::BeforeOpening),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Rule::ClientReply),
    ] {
        let mut server = strict();
        server.raw(frame);
        assert_eq!(server.closed, Some(Cause::Violated(rule)), "{frame}");
        server.feed(legacy(2, "ping", json!({})));
        assert_eq!(server.sent(), NOTHING, "the link is over");
    }
}

/// CAN-7, CAN-6: races are nobody's fault: a strict session survives late replies, cancels and progress.
#[test]
fn races_do_not_end_a_strict_session() {
    let mut client = Bench::modern_client_with(level(Strictness::Strict));
    client.call_with(1, wanting_progress());
    client.secs(30);
    client.feed(note("notifications/progress", json!({"progressToken": 2, "progress": 1})));
    client.feed(reply(2, json!({})));
    client.feed(cancel(2));
    assert_eq!(client.closed, None);
    // A change that was on its way when we stopped listening.
    let interest = Interest { tools: true, ..Interest::default() };
    client.local(Command::Listen { ticket: Ticket(7), interest });
    client.local(Command::Cancel { ticket: Ticket(7), reason: "enough".into() });
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 3});
    client.feed(note("notifications/tools/list_changed", json!({"_meta": meta})));
    assert_eq!(client.closed, None);
    let mut server = Bench::server_with(level(Strictness::Strict));
    server.feed(cancel(5));
    assert_eq!(server.closed, None);
}

/// S3-18: a lenient session takes replies and calls without a version and records it.
#[test]
fn a_lenient_session_repairs() {
    let mut client = Bench::modern_client_with(level(Strictness::Lenient));
    client.call_tool(1);
    client.feed(json!({"id": 2, "result": {"content": []}}));
    assert!(matches!(client.outcome(), Outcome::Done(_)));
    assert_eq!(client.found(), [Rule::VersionMissing]);
    let mut server = Bench::server_with(level(Strictness::Lenient));
    server.feed(json!({"id": 1, "method": "ping"}));
    assert_eq!(server.one(), reply(1, json!({})));
}

/// S3-6: the classes of rules run from the outside in, and each rule has a clause to cite.
#[test]
fn every_rule_has_a_clause() {
    for class in
        [Class::Framing, Class::Syntax, Class::Envelope, Class::Correlation, Class::Lifecycle, Class::Schema]
    {
        assert!(Rule::ALL.iter().any(|rule| rule.class() == class), "{class:?}");
    }
    assert!(Rule::ALL.iter().all(|rule| !rule.clause().is_empty()));
}

/// S0-86: deadlines are kept while the peer talks nonsense.
#[test]
fn noise_does_not_stop_the_clock() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    for _ in 0..300 {
        client.raw("noise");
        client.wait(Duration::from_millis(100));
    }
    assert!(matches!(client.outcome(), Outcome::TimedOut { .. }));
}

/// S2-44, F16: who waits for one answer alone has what does not say whose it is taken for that, with the rule it breaks; who did not
/// ask for a guess goes on waiting. What belongs to a call that has ended, or to a note, is never taken for an answer.
#[test]
fn an_answer_without_a_usable_id_is_attributed_where_that_is_wanted() {
    for (frame, rule) in [
        (r#"{"jsonrpc":"2.0","result":{"content":[]}}"#, Rule::ReplyWithoutId),
        (r#"{"jsonrpc":"2.0","id":null,"result":{"content":[]}}"#, Rule::IdNull),
        (r#"{"jsonrpc":"2.0","id":99,"result":{"content":[]}}"#, Rule::UnknownReply),
        (r#"{"jsonrpc":"2.0","id":"x","result":{"content":[]}}"#, Rule::UnknownReply),
        (r#"{"jsonrpc":"2.0","result":{},"error":{"code":1,"message":"x"}}"#, Rule::BothOutcomes),
        (r#"{"jsonrpc":"2.0","result":{"content":["#, Rule::Syntax),
    ] {
        let mut client = Bench::modern_client_with(|config| config.attribution = Attribution::OnlyCall);
        client.call_tool(1);
        client.raw(frame);
        assert!(
            matches!(client.outcome(), Outcome::Violated(violation) if violation.rule == rule),
            "{frame}"
        );
        assert_eq!(client.found(), [rule], "{frame}");
        let mut patient = Bench::modern_client();
        patient.call_tool(1);
        patient.raw(frame);
        patient.feed(reply(2, json!({"content": [], "resultType": "complete"})));
        assert!(matches!(patient.outcome(), Outcome::Done(_)), "{frame}");
        // With two in flight nobody knows.
        let mut client = Bench::modern_client_with(|config| config.attribution = Attribution::OnlyCall);
        client.call_tool(1);
        client.call_tool(2);
        client.raw(frame);
        assert!(client.events().iter().all(|event| !matches!(event, Event::Settled { .. })), "{frame}");
    }
}

/// F16: where several wait, an answer that does not say whose it is belongs to the one that is left when all others have theirs. What
/// was given up may be answered yet, so then nobody knows.
#[test]
fn what_nobody_claims_belongs_to_the_last_that_waits() {
    let listening =
        || Bench::modern_client_with(|config: &mut Config| config.attribution = Attribution::OnlyCall);
    let fine = |id| reply(id, json!({"content": [], "resultType": "complete"}));
    let violated = |event: &Event| match event {
        Event::Settled { outcome: Outcome::Violated(violation), .. } => Some(violation.rule),
        _ => None,
    };
    for (frame, rule) in [
        (r#"{"jsonrpc":"2.0","result":{"content":[]}}"#, Rule::ReplyWithoutId),
        (r#"{"jsonrpc":"2.0","id":99,"result":{"content":[]}}"#, Rule::UnknownReply),
        (r#"{"jsonrpc":"2.0","result":{"content":["#, Rule::Syntax),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}"#, Rule::ReplyWithoutId),
    ] {
        let mut client = listening();
        (1..=3).for_each(|ticket| client.call_tool(ticket));
        client.raw(frame);
        // One that is made later cannot have been meant.
        client.call_tool(4);
        client.feed(fine(3));
        assert_eq!(client.events().iter().find_map(violated), None, "{frame}");
        client.feed(fine(2));
        assert_eq!(client.events().iter().filter_map(violated).collect::<Vec<_>>(), [rule], "{frame}");
        client.feed(fine(5));
        assert!(matches!(client.outcome(), Outcome::Done(_)), "{frame}");
        // Given up before: its answer may be what came.
        let mut client = listening();
        client.call_tool(1);
        client.local(Command::Cancel { ticket: Ticket(1), reason: "enough".into() });
        client.call_tool(2);
        client.raw(frame);
        client.feed(fine(3));
        assert_eq!(client.events().iter().find_map(violated), None, "{frame}");
    }
}

/// F16: a cut reply that begins with the id of a call ends that call, whoever else waits.
#[test]
fn a_cut_reply_ends_the_call_it_names() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.call_tool(2);
    client.raw(r#"{"jsonrpc":"2.0","id":3,"result":{"content":["#);
    assert!(matches!(client.outcome(), Outcome::Violated(violation) if violation.rule == Rule::Syntax));
    client.feed(reply(2, json!({"content": [], "resultType": "complete"})));
    assert!(matches!(client.outcome(), Outcome::Done(_)));
}

/// F16: a server that answers notes too does no call any harm, at any level.
#[test]
fn answers_to_notes_are_nobodys() {
    for strictness in [Strictness::Standard, Strictness::Lenient] {
        let mut client = Bench::legacy_client_with("2025-11-25", |config| {
            config.attribution = Attribution::OnlyCall;
            config.strictness = strictness;
        });
        client.call_tool(1);
        client.sent();
        client.raw(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#);
        client.raw(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"what?"}}"#);
        client.feed(reply(3, json!({"content": []})));
        assert!(matches!(client.outcome(), Outcome::Done(_)), "{strictness:?}");
    }
}

/// F16: an answer with line breaks inside, as printers for people make it, ends its call as soon as its lines say whose it is; what is
/// printed beside, and a message of another kind, ends none.
#[test]
fn an_answer_in_several_lines_ends_its_call_at_once() {
    let guessing = || Bench::modern_client_with(|config| config.attribution = Attribution::OnlyCall);
    for (lines, guessed, named) in [
        (&["{", "  \"jsonrpc\": \"2.0\",", "  \"id\": 2,", "  \"result\": {"][..], true, true),
        (&["{", "  \"jsonrpc\": \"2.0\",", "  \"result\": {"], true, false),
        (&["{\"jsonrpc\": \"2.0\","], true, false),
        (&["{\"jsonrpc\":\"2.0\",\"id\":2,"], true, false),
        (&["{'a': 1}", "{", "\"id\": 2,", "\"error\": {"], true, true),
        // No answer.
        (&["{", "  \"debug\": 1,", "  \"level\": {", "}"], false, false),
        (&["{", "  \"id\": 2,", "  \"method\": \"roots/list\"", "}"], false, false),
        (&["{\"jsonrpc\":\"2.0\",\"method\":\"notifications/prog"], false, false),
        (&["{\"jsonrpc\":\"2.0\",\"id\":2,\"meth"], false, false),
    ] {
        for (mut client, ends) in [(guessing(), guessed), (Bench::modern_client(), named)] {
            client.call_tool(1);
            lines.iter().for_each(|line| client.raw(line));
            let found = client.found();
            if found.last() == Some(&Rule::Split) {
                ["    \"content\": []", "  }", "}"].iter().for_each(|line| client.raw(line));
                assert_eq!(client.found(), [], "the rest of it is told already: {lines:?}");
            }
            assert!(guessed || !found.contains(&Rule::Split), "{lines:?}: {found:?}");
            if ends {
                assert!(
                    matches!(client.outcome(), Outcome::Violated(violation) if violation.rule == Rule::Split),
                    "{lines:?}"
                );
            } else {
                client.feed(reply(2, json!({"content": [], "resultType": "complete"})));
                assert!(matches!(client.outcome(), Outcome::Done(_)), "{lines:?}");
            }
        }
    }
}

/// S2-44: where results are looked at, one that deviates is recorded with the call it answers; only a strict session does not use it.
#[test]
fn results_are_looked_at_where_that_is_wanted() {
    for (strictness, shapes, used, found) in [
        (Strictness::Standard, Shapes::Trusted, true, &[][..]),
        (Strictness::Standard, Shapes::Checked, true, &[Rule::ResultShape]),
        (Strictness::Lenient, Shapes::Checked, true, &[Rule::ResultShape]),
        (Strictness::Strict, Shapes::Checked, false, &[Rule::ResultShape]),
    ] {
        let mut client = Bench::modern_client_with(|config| {
            (config.strictness, config.shapes) = (strictness, shapes);
        });
        client.call_tool(1);
        client.feed(reply(2, json!({"resultType": "complete"})));
        assert_eq!(client.found(), found, "{strictness:?}");
        match client.outcome() {
            Outcome::Done(_) => assert!(used, "{strictness:?}"),
            Outcome::Violated(violation) => assert_eq!((violation.rule, used), (Rule::ResultShape, false)),
            other => panic!("{other:?}"),
        }
    }
}
