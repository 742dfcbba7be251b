//! F16: answers that are there and are no messages, because of text around them or because their line does not end. Nobody waits for
//! a deadline where the answer has come.

mod common;

use std::time::Duration;

use cardan_proto::finding::{Finding, Rule, Strictness};
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{Cause, Command, Event, Input, Outcome};
use common::*;
use serde_json::json;

/// Longer than anything better is waited for, and far shorter than any deadline.
const SOON: Duration = Duration::from_millis(300);

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[],"resultType":"complete"}}"#;

fn fine() -> serde_json::Value {
    reply(2, json!({"content": [], "resultType": "complete"}))
}

/// So much of a line has come, and in all so many bytes.
fn begin(client: &mut Bench, arrived_bytes: u64, line: &str) {
    client.session.received(arrived_bytes);
    let now = client.now;
    client.session.begun(now, line.as_bytes());
}

/// Time passes as a driver lets it pass: it tells in every turn what of a line there is.
fn pass(client: &mut Bench, wait: Duration, line: &str) {
    client.wait(wait);
    let now = client.now;
    client.session.begun(now, line.as_bytes());
    client.handle(Input::Tick);
}

fn findings(client: &Bench) -> Vec<Finding> {
    client.session.findings().iter().cloned().collect()
}

fn is_violated(outcome: &Outcome, rule: Rule) -> bool {
    matches!(outcome, Outcome::Violated(violation) if violation.rule == rule)
}

/// An answer with text around it ends its call as soon as nothing better follows; who is lenient gets it.
#[test]
fn an_answer_with_text_around_it_ends_its_call() {
    let note =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"a":1}}}"#;
    for (before, after, rule) in [
        ("[INFO] ", "", Rule::Noise),
        ("> ", "", Rule::Noise),
        ("data: ", "", Rule::Noise),
        ("\u{1b}[0m", "", Rule::Noise),
        ("\u{1b}[32m", "\u{1b}[0m", Rule::Noise),
        ("\u{feff}", "", Rule::Noise),
        ("INFO {app} ctx={\"user\":{\"id\":2}} ", "", Rule::Noise),
        ("sent ", " in 5 ms", Rule::Noise),
        ("2026 ", "", Rule::Trailing),
        (note, "", Rule::Trailing),
    ] {
        let line = format!("{before}{ANSWER}{after}");
        let mut client = Bench::modern_client();
        client.call_tool(1);
        client.raw(&line);
        client.wait(SOON);
        let outcome = client.outcome();
        assert!(is_violated(&outcome, rule), "{line}: {outcome:?}");
        let found = findings(&client);
        assert_eq!((found.len(), found[0].rule, found[0].frame), (1, rule, 2), "{line}");
        assert!(found[0].call.is_some() && found[0].bytes.contains("result"), "{line}: {found:?}");

        let mut lenient = Bench::modern_client_with(|config| config.strictness = Strictness::Lenient);
        lenient.call_tool(1);
        lenient.raw(&line);
        lenient.wait(SOON);
        assert!(matches!(lenient.outcome(), Outcome::Done(_)), "{line}");
        assert_eq!(lenient.found(), [rule], "{line}");

        // A server that prints what it sends does send it.
        let mut client = Bench::modern_client();
        client.call_tool(1);
        client.raw(&line);
        client.feed(fine());
        assert!(matches!(client.outcome(), Outcome::Done(_)), "{line}");
        client.wait(SOON);
        assert_eq!((client.settled().len(), client.found()), (0, vec![rule]), "{line}");
        client.handle(Input::Tick);
        assert_eq!(client.session.deadline(), None, "{line}");
    }
}

/// Whatever is no whole answer to a call that waits ends none, however much it looks like one.
#[test]
fn what_only_quotes_an_answer_ends_no_call() {
    for line in [
        r#"[INFO] {"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"[INFO] {"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"[INFO] {"jsonrpc":"2.0","id":"2","result":{}}"#,
        r#"[INFO] {"jsonrpc":"2.0","result":{}}"#,
        r#"[INFO] {"jsonrpc":"2.0","id":2,"method":"ping"}"#,
        r#"[INFO] {"jsonrpc":"2.0","method":"notifications/message","params":{"id":2,"result":{}}}"#,
        r#"[INFO] {"jsonrpc":"2.0","id":2,"result":{"con..."#,
        r#"[INFO] {"id":2,"result":{}}"#,
        r#"[INFO] "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}""#,
        r#"{"jsonrpc":"2.0","method":"x","params":{"quoted":{"jsonrpc":"2.0","id":2,"result":{}}}}"#,
        r#"{"level":"info","msg":{"jsonrpc":"2.0","id":2,"result":{}}}"#,
        r#""jsonrpc" {{{{{{{{ {"a":{"a":{"a":{"a":{"a":"#,
    ] {
        for strictness in [Strictness::Standard, Strictness::Lenient] {
            let mut client = Bench::modern_client_with(|config| config.strictness = strictness);
            client.call_tool(1);
            client.raw(line);
            client.wait(SOON);
            assert_eq!(client.settled().len(), 0, "{line}");
            client.feed(fine());
            assert!(matches!(client.outcome(), Outcome::Done(_)), "{line}");
        }
    }
}

/// So it is while a session is opened: the handshake is not waited for either.
#[test]
fn a_handshake_with_text_before_it_ends_the_opening() {
    for (era, answer) in [
        (EraChoice::Legacy, reply(1, initialized("2025-11-25"))),
        (EraChoice::Modern, reply(1, discovered(&["2026-07-28"]))),
    ] {
        let mut client = Bench::client_with(|config| config.era = era);
        client.local(Command::Open);
        client.raw(&format!("[INFO] {answer}"));
        client.wait(SOON);
        assert_eq!(client.closed, Some(Cause::Violated(Rule::Noise)), "{era:?}");

        let mut client = Bench::client_with(|config| config.era = era);
        client.local(Command::Open);
        let line = answer.to_string();
        begin(&mut client, 1100, &line);
        pass(&mut client, SOON, &line);
        assert_eq!(client.closed, Some(Cause::Violated(Rule::Unterminated)), "{era:?}");
    }
}

/// An answer whose line does not end ends its call when nothing has followed for a while; who is lenient gets it.
#[test]
fn an_answer_without_a_newline_ends_its_call() {
    for (strictness, line) in [
        (Strictness::Standard, ANSWER.to_owned()),
        (Strictness::Standard, format!("> {ANSWER}")),
        (Strictness::Lenient, ANSWER.to_owned()),
    ] {
        let mut client = Bench::modern_client_with(|config| config.strictness = strictness);
        client.call_tool(1);
        begin(&mut client, 1100, &line[..20]);
        client.wait(Duration::from_millis(200));
        begin(&mut client, 1200, &line);
        pass(&mut client, Duration::from_millis(200), &line);
        assert_eq!(client.settled().len(), 0, "more has come meanwhile: {line}");
        pass(&mut client, Duration::from_millis(100), &line);
        let outcome = client.outcome();
        match strictness {
            Strictness::Lenient => assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}"),
            _ => assert!(is_violated(&outcome, Rule::Unterminated), "{outcome:?}"),
        }
        let found = findings(&client);
        assert_eq!((found.len(), found[0].rule, found[0].frame), (1, Rule::Unterminated, 2), "{found:?}");
        assert!(found[0].bytes.contains("\"id\":2"), "{found:?}");
        // Its end, when it comes at last, harms nobody.
        client.raw(&line);
        pass(&mut client, SOON, "");
        assert_eq!((client.settled().len(), client.closed.clone()), (0, None), "{line}");
    }
    let mut strict = Bench::modern_client_with(|config| config.strictness = Strictness::Strict);
    strict.call_tool(1);
    begin(&mut strict, 1100, ANSWER);
    pass(&mut strict, SOON, ANSWER);
    assert_eq!(strict.closed, Some(Cause::Violated(Rule::Unterminated)));
}

/// A line that has no end and is no answer is told when a deadline has passed, once, with its bytes.
#[test]
fn a_timeout_tells_of_a_line_that_does_not_end() {
    let line = r#"{"jsonrpc":"2.0","id":2,"result":{"content":"#;
    let mut client = Bench::modern_client();
    client.call_tool(1);
    client.call_tool(2);
    begin(&mut client, 1100, line);
    pass(&mut client, Duration::from_secs(31), line);
    let events = client.events();
    let told = events.iter().position(|event| matches!(event, Event::Found(_)));
    let ended = events.iter().position(|event| matches!(event, Event::Settled { .. }));
    assert!(told.is_some() && told < ended, "it explains the end: {events:?}");
    let found = findings(&client);
    assert_eq!((found.len(), found[0].rule, found[0].frame), (1, Rule::Unterminated, 2), "{found:?}");
    assert!(found[0].bytes.contains("content") && found[0].detail.contains("no newline"), "{found:?}");

    let mut client = Bench::client_with(|config| config.era = EraChoice::Legacy);
    client.local(Command::Open);
    begin(&mut client, 1100, "starting...");
    pass(&mut client, Duration::from_secs(120), "starting...");
    assert_eq!(client.closed, Some(Cause::OpenTimeout));
    assert_eq!(client.found(), [Rule::Unterminated]);
}

/// A line that has just grown when a deadline passes is on its way: its server is not blamed, its link lives on, and the reply that
/// it is reaches its call.
#[test]
fn a_timeout_tells_nothing_of_a_line_that_is_arriving() {
    for strictness in [Strictness::Standard, Strictness::Strict] {
        let line = reply(3, json!({"content": [], "resultType": "complete"})).to_string();
        let mut client = Bench::modern_client_with(|config| config.strictness = strictness);
        client.call_tool(1);
        client.secs(20);
        client.call_tool(2);
        begin(&mut client, 1100, &line[..20]);
        client.wait(Duration::from_millis(9_900));
        begin(&mut client, 1200, &line[..40]);
        pass(&mut client, Duration::from_millis(200), &line[..40]);
        assert!(matches!(client.outcome(), Outcome::TimedOut { .. }), "{strictness:?}");
        assert_eq!((client.found(), client.closed.clone()), (vec![], None), "{strictness:?}");
        client.raw(&line);
        assert!(matches!(client.outcome(), Outcome::Done(_)), "{strictness:?}");
    }
}

/// A line that ends in time is a message like any other, and one that has begun costs no wake-ups where nobody waits.
#[test]
fn a_line_that_ends_in_time_is_no_deviation() {
    let mut client = Bench::modern_client();
    client.call_tool(1);
    begin(&mut client, 1100, ANSWER);
    client.wait(Duration::from_millis(200));
    client.feed(fine());
    begin(&mut client, 1101, "");
    assert!(matches!(client.outcome(), Outcome::Done(_)));
    begin(&mut client, 1103, "> ");
    client.handle(Input::Tick);
    assert_eq!((client.session.deadline(), client.found()), (None, vec![]));
    let mut server = Bench::server();
    begin(&mut server, 1100, ANSWER);
    assert_eq!(server.session.deadline(), None);
}
