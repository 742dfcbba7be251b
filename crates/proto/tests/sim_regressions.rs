//! What the simulator and the fuzzers found, each as the shortest story that showed it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::era::Revisions;
use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::jsonrpc::envelope::{Envelope, Violation};
use cardan_proto::method::Method;
use cardan_proto::moment::Moment;
use cardan_proto::session::Session;
use cardan_proto::session::config::{Config, EraChoice, Role};
use cardan_proto::session::event::{
    Answer, Ask, AskKey, Asks, CallKey, CallOptions, Cause, Change, Command, Delivery, Event, Input,
    Interest, LaneId, NewCall, Outcome, Outgoing, Output, Ticket, Wanted,
};
use cardan_proto::session::state::State;

/// One session, and everything that it wanted done.
struct Stage {
    session: Session,
    now: Moment,
    out: Vec<Output>,
}

impl Stage {
    fn new(role: Role, change: impl FnOnce(&mut Config)) -> Self {
        let capabilities = match role {
            Role::Client => r#"{"roots":{},"elicitation":{}}"#,
            Role::Server => r#"{"tools":{},"resources":{"subscribe":true},"logging":{}}"#,
        };
        let mut config = Config::new(
            role,
            Bytes::from_static(br#"{"name":"x","version":"1"}"#),
            Bytes::from_static(capabilities.as_bytes()),
        );
        change(&mut config);
        let mut stage = Self {
            session: Session::new(Arc::new(config), Moment::ZERO),
            now: Moment::ZERO,
            out: Vec::new(),
        };
        stage.local(Command::Open);
        stage
    }

    /// A client whose handshake is done.
    fn legacy_client(change: impl FnOnce(&mut Config)) -> Self {
        let mut stage = Self::new(Role::Client, |config| {
            config.era = EraChoice::Legacy;
            change(config);
        });
        stage.frame(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}}"#);
        assert_eq!(stage.session.state(), State::Ready);
        stage.out.clear();
        stage
    }

    fn modern_client() -> Self {
        let mut stage = Self::new(Role::Client, |config| config.era = EraChoice::Modern);
        stage.frame(r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}"#);
        assert_eq!(stage.session.state(), State::Ready);
        stage.out.clear();
        stage
    }

    fn legacy_server(change: impl FnOnce(&mut Config)) -> Self {
        let mut stage = Self::new(Role::Server, change);
        stage.frame(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}"#);
        stage.out.clear();
        stage
    }

    fn handle(&mut self, input: Input) {
        self.session.handle(self.now, input);
        while let Some(output) = self.session.poll() {
            self.out.push(output);
        }
    }

    fn frame(&mut self, text: &str) {
        self.handle(Input::Frame { lane: LaneId::MAIN, bytes: Bytes::copy_from_slice(text.as_bytes()) });
    }

    fn local(&mut self, command: Command) {
        self.handle(Input::Local(command));
    }

    fn call(&mut self, ticket: u64, options: CallOptions) {
        let params = Some(Bytes::from_static(br#"{"name":"t"}"#));
        self.local(Command::Call(NewCall {
            ticket: Ticket(ticket),
            method: Method::ToolsCall,
            params,
            options,
        }));
    }

    fn cancel(&mut self, ticket: u64) {
        self.local(Command::Cancel { ticket: Ticket(ticket), reason: Cow::Borrowed("x") });
    }

    fn tick_at(&mut self, ms: u64) {
        self.now = Moment::after(Duration::from_millis(ms));
        self.handle(Input::Tick);
    }

    fn outcomes(&self, ticket: u64) -> Vec<&Outcome> {
        let events = self.out.iter().filter_map(|output| match output {
            Output::Event(Event::Settled { ticket: settled, outcome }) if settled.0 == ticket => {
                Some(outcome)
            }
            _ => None,
        });
        events.collect()
    }

    fn asked(&self) -> AskKey {
        let asked = self.out.iter().find_map(|output| match output {
            Output::Event(Event::Asked { ask, .. }) => Some(*ask),
            _ => None,
        });
        asked.expect("the story brought an ask")
    }

    fn called(&self) -> CallKey {
        let called = self.out.iter().find_map(|output| match output {
            Output::Event(Event::Called(called)) => Some(called.key),
            _ => None,
        });
        called.expect("the story brought a call")
    }

    /// What came after the link was closed, but for the word that it is.
    fn after_close(&self) -> Vec<&Output> {
        let at = self.out.iter().position(|output| matches!(output, Output::Close { .. }));
        let at = at.expect("the story closed the link");
        let rest = self.out[at + 1..].iter();
        rest.filter(|output| !matches!(output, Output::Event(Event::State(_)))).collect()
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// P6: while the link lives, an unwritten call is still in its outbox and may yet leave. Only a link that
/// is gone proves that it never will.
#[test]
fn s0_76_a_call_that_may_still_leave_is_not_called_unsent() {
    let mut stage = Stage::legacy_client(|_| {});
    stage.call(1, CallOptions::default());
    stage.call(2, CallOptions { total: Some(ms(100)), ..CallOptions::default() });
    stage.call(3, CallOptions::default());
    stage.cancel(1);
    stage.tick_at(100);
    stage.handle(Input::Closed { cause: Cause::ClosedByPeer });
    assert!(matches!(stage.outcomes(1)[..], [Outcome::Cancelled { delivery: Delivery::Unknown, .. }]));
    assert!(matches!(stage.outcomes(2)[..], [Outcome::TimedOut { delivery: Delivery::Unknown, .. }]));
    assert!(matches!(stage.outcomes(3)[..], [Outcome::Lost { delivery: Delivery::NotSent, .. }]));
}

/// P6: a retry that was never written is part of a call that was executed.
#[test]
fn s0_76_a_call_whose_retry_is_unsent_was_sent() {
    let mut stage = Stage::modern_client();
    stage.call(1, CallOptions::default());
    stage.session.written(2);
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","requestState":"s"}}"#);
    stage.handle(Input::Closed { cause: Cause::ClosedByPeer });
    assert!(matches!(stage.outcomes(1)[..], [Outcome::Lost { delivery: Delivery::Sent, .. }]));
}

/// When we end the link ourselves, what was handed out before is still written.
#[test]
fn s0_43_our_own_close_does_not_unsend() {
    let mut stage = Stage::legacy_client(|_| {});
    stage.call(1, CallOptions::default());
    stage.local(Command::Close { reason: Cow::Borrowed("x") });
    assert!(matches!(stage.outcomes(1)[..], [Outcome::Cancelled { delivery: Delivery::Unknown, .. }]));
}

/// A strict session told the peer off after it had closed the link.
#[test]
fn nothing_is_sent_after_the_close() {
    let mut stage = Stage::new(Role::Server, |config| config.strictness = Strictness::Strict);
    let violation = Violation::of(Rule::Unterminated);
    stage.handle(Input::Broken { lane: LaneId::MAIN, violation, excerpt: "half".into() });
    assert!(stage.after_close().is_empty(), "{:?}", stage.after_close());
    assert!(stage.out.iter().any(|output| matches!(output, Output::Close { .. })));
}

/// A frame that was on its way when we closed is read, and leads to nothing.
#[test]
fn frames_after_the_close_are_dropped() {
    let mut stage = Stage::legacy_client(|_| {});
    stage.local(Command::Close { reason: Cow::Borrowed("x") });
    stage.frame(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    stage.local(Command::Log {
        key: None,
        level: cardan_proto::session::event::LogLevel::Error,
        params: Bytes::new(),
    });
    assert!(stage.after_close().is_empty(), "{:?}", stage.after_close());

    let mut stage = Stage::legacy_server(|_| {});
    stage.local(Command::Close { reason: Cow::Borrowed("x") });
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    stage.frame("nonsense");
    stage.local(Command::Log {
        key: None,
        level: cardan_proto::session::event::LogLevel::Error,
        params: Bytes::from_static(b"{}"),
    });
    assert!(stage.after_close().is_empty(), "{:?}", stage.after_close());
}

/// In strict mode the call was settled with the link, and then heard of its progress.
#[test]
fn s0_17_no_progress_after_the_outcome() {
    let mut stage = Stage::legacy_client(|config| config.strictness = Strictness::Strict);
    stage.call(1, CallOptions { progress: Wanted::Yes, ..CallOptions::default() });
    let note =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}"#;
    stage.frame(note);
    stage.frame(note);
    let settled =
        stage.out.iter().position(|output| matches!(output, Output::Event(Event::Settled { .. }))).unwrap();
    let late =
        stage.out[settled..].iter().any(|output| matches!(output, Output::Event(Event::Progressed { .. })));
    assert!(!late, "{:?}", &stage.out[settled..]);
}

/// P1: a legacy listen ends when its first subscribe call fails or when it is cancelled, and the fate of
/// the other subscribe calls is nobody's business then.
#[test]
fn s0_17_a_listen_settles_once_whatever_its_parts_do() {
    let interest = || Interest { uris: vec!["a:b".into(), "c:d".into()], ..Interest::default() };
    let mut stage = Stage::legacy_client(|config| config.limits.call_idle_timeout = ms(100));
    stage.local(Command::Listen { ticket: Ticket(1), interest: interest() });
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"no"}}"#);
    stage.tick_at(100);
    assert_eq!(stage.outcomes(1).len(), 1);

    stage.local(Command::Listen { ticket: Ticket(2), interest: interest() });
    stage.cancel(2);
    stage.tick_at(300);
    assert_eq!(stage.outcomes(2).len(), 1);

    stage.local(Command::Listen { ticket: Ticket(3), interest: interest() });
    stage.tick_at(500);
    assert_eq!(stage.outcomes(3).len(), 1);

    stage.local(Command::Listen { ticket: Ticket(4), interest: interest() });
    stage.cancel(4);
    for id in 2..20 {
        stage.frame(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":[]}}"#));
    }
    assert_eq!(stage.outcomes(4).len(), 1);
    assert_eq!(stage.session.in_flight(), (0, 0));
}

/// A call between two rounds was lost to "closed by the peer", whatever had happened.
#[test]
fn s0_43_a_call_that_waits_for_a_person_is_lost_with_the_true_cause() {
    let mut stage = Stage::modern_client();
    stage.call(1, CallOptions::default());
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}}"#);
    stage.asked();
    stage.handle(Input::Closed { cause: Cause::Stalled });
    assert!(matches!(stage.outcomes(1)[..], [Outcome::Lost { cause: Cause::Stalled, .. }]));
}

/// The idle deadline rests while a person is asked; when the server takes the ask back, it must run again.
#[test]
fn can_11_silence_counts_again_after_an_ask_is_withdrawn() {
    let mut stage = Stage::legacy_client(|_| {});
    stage.call(1, CallOptions { idle: Some(ms(100)), ..CallOptions::default() });
    stage.frame(r#"{"jsonrpc":"2.0","id":"a","method":"roots/list"}"#);
    stage.tick_at(200);
    assert!(stage.outcomes(1).is_empty());
    stage.frame(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#);
    assert_eq!(stage.session.deadline(), Some(Moment::after(ms(300))));
    stage.tick_at(300);
    assert!(matches!(stage.outcomes(1)[..], [Outcome::TimedOut { .. }]));
}

/// An answer that comes too late for its ask says nothing about the peer.
#[test]
fn can_11_a_late_answer_does_not_put_off_the_idle_deadline() {
    let mut stage = Stage::legacy_client(|_| {});
    stage.call(1, CallOptions { idle: Some(ms(100)), ..CallOptions::default() });
    stage.now = Moment::after(ms(90));
    stage.local(Command::AnswerAsk { ask: AskKey(7), outcome: Ok(Bytes::from_static(b"{}")) });
    assert_eq!(stage.session.deadline(), Some(Moment::after(ms(100))));
    stage.tick_at(100);
    assert!(matches!(stage.outcomes(1)[..], [Outcome::TimedOut { .. }]));
}

/// In the modern era a server waits for no answer: while one call asks, the silence of another counts.
#[test]
fn can_11_silence_counts_while_another_call_asks() {
    let mut stage = Stage::modern_client();
    stage.call(1, CallOptions::default());
    stage.call(2, CallOptions { idle: Some(ms(100)), ..CallOptions::default() });
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}}"#);
    stage.now = Moment::after(ms(50));
    stage.cancel(1);
    assert_eq!(stage.session.deadline(), Some(Moment::after(ms(100))));
    stage.tick_at(100);
    assert!(matches!(stage.outcomes(2)[..], [Outcome::TimedOut { .. }]));
}

/// VER-28, VER-29: our own legacy server told our own client that they have nothing in common.
#[test]
fn ver_29_a_legacy_server_is_found_by_a_probing_client() {
    let mut server = Stage::new(Role::Server, |config| config.revisions = Revisions::LEGACY);
    let mut client = Stage::new(Role::Client, |_| {});
    for _ in 0..4 {
        for output in std::mem::take(&mut client.out) {
            if let Output::Send { message, .. } = output {
                server.frame(&text(&message));
            }
        }
        for output in std::mem::take(&mut server.out) {
            if let Output::Send { message, .. } = output {
                client.frame(&text(&message));
            }
        }
    }
    assert_eq!(client.session.state(), State::Ready);
    assert_eq!(client.session.revision(), server.session.revision());
}

/// A malformed answer to an ask of ours must not keep the handler waiting for the deadline.
#[test]
fn a_malformed_answer_ends_its_ask() {
    let mut stage = Stage::legacy_server(|_| {});
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}"#);
    let key = stage.called();
    let ask = Ask { method: Method::ElicitationCreate, params: Some(Bytes::from_static(b"{}")) };
    let asks = Asks { entries: vec![("a".into(), ask)], state: None };
    stage.local(Command::Answer { key, answer: Answer::Ask(asks) });
    stage.out.clear();
    stage.frame(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#);
    assert_eq!(stage.called(), key);
    assert_eq!(stage.session.in_flight(), (1, 0));
}

/// The id of a listen comes back as it was spelled, even one that no JSON library would read: it used to
/// bring the server down, and a long number lost its digits.
#[test]
fn base_7_any_id_of_a_listen_is_echoed() {
    for id in [r#""\ud800""#, "123456789012345678901", "1.50"] {
        let mut stage = Stage::new(Role::Server, |config| {
            config.capabilities = Bytes::from_static(br#"{"tools":{"listChanged":true}}"#);
        });
        stage.frame(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"notifications":{{"toolsListChanged":true}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        ));
        stage.local(Command::Change(Change::Tools));
        stage.local(Command::Close { reason: Cow::Borrowed("x") });
        let sent: Vec<_> = stage
            .out
            .iter()
            .filter_map(|output| match output {
                Output::Send { message, .. } => Some(text(message)),
                _ => None,
            })
            .collect();
        assert_eq!(sent.len(), 3, "acknowledgement, change, end");
        let member = format!("\"io.modelcontextprotocol/subscriptionId\":{id}");
        assert!(sent.iter().all(|text| text.contains(&member)), "{sent:?}");
    }
}

/// A second close, or the peer's end of file, must not put off the end that was promised.
#[test]
fn closing_twice_does_not_take_longer() {
    let mut stage = Stage::legacy_server(|config| {
        config.limits.drain_timeout = ms(1000);
        config.limits.eof_grace = ms(900);
    });
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}"#);
    stage.local(Command::Close { reason: Cow::Borrowed("x") });
    stage.now = Moment::after(ms(500));
    stage.local(Command::Close { reason: Cow::Borrowed("x") });
    stage.handle(Input::ReadClosed);
    assert_eq!(stage.session.deadline(), Some(Moment::after(ms(1000))));
    stage.tick_at(1000);
    assert!(stage.out.iter().any(|output| matches!(output, Output::Close { .. })));
}

fn text(message: &Outgoing) -> String {
    if let Outgoing::One(Envelope::Note(note)) = message {
        assert_ne!(note.method, Method::Cancelled);
    }
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    String::from_utf8(bytes).expect("messages are text")
}
