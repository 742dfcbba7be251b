//! A session on a bench: frames in as JSON, frames out as JSON, time by hand.

#![allow(dead_code, reason = "every test file uses its own part of the bench")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::finding::Rule;
use cardan_proto::method::Method;
use cardan_proto::moment::Moment;
use cardan_proto::session::Session;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{
    Answer, Ask, AskKey, Asks, CallKey, CallOptions, Called, Cause, Command, Event, Input, LaneId, NewCall,
    Outcome, Output, Ticket, Turn, Wanted,
};
use cardan_proto::session::state::{State, StateChange};
use serde_json::{Value, json};

pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// One session, everything it wants collected.
pub(crate) struct Bench {
    pub(crate) session: Session,
    pub(crate) now: Moment,
    /// Does the link write at once what it is given?
    pub(crate) writes: bool,
    /// Frames with their lane and whether they end it.
    sent: Vec<(LaneId, Value, bool)>,
    count: u64,
    /// How each frame is to be written, and what was taken back.
    pub(crate) turns: Vec<Turn>,
    pub(crate) retracted: Vec<u64>,
    events: Vec<Event>,
    pub(crate) closed: Option<Cause>,
}

impl Bench {
    /// A session that is not opened yet.
    pub(crate) fn new(config: Config) -> Self {
        let session = Session::new(Arc::new(config), Moment::ZERO);
        Self {
            session,
            now: Moment::ZERO,
            writes: true,
            sent: Vec::new(),
            count: 0,
            turns: Vec::new(),
            retracted: Vec::new(),
            events: Vec::new(),
            closed: None,
        }
    }

    /// An open server with every capability.
    pub(crate) fn server() -> Self {
        Self::server_with(|_| {})
    }

    pub(crate) fn server_with(tweak: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(Role::Server, SERVER_CAPS);
        tweak(&mut config);
        let mut bench = Self::new(config);
        bench.local(Command::Open);
        bench.events.clear();
        bench
    }

    /// A server with the legacy handshake behind it.
    pub(crate) fn legacy_server(revision: &str, capabilities: Value) -> Self {
        Self::legacy_server_with(revision, capabilities, |_| {})
    }

    pub(crate) fn legacy_server_with(
        revision: &str,
        capabilities: Value,
        tweak: impl FnOnce(&mut Config),
    ) -> Self {
        let mut bench = Self::server_with(tweak);
        bench.feed(initialize(0, revision, capabilities));
        bench.feed(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        bench.sent.clear();
        bench.events.clear();
        bench
    }

    /// A client, still to be opened, that can answer every ask.
    pub(crate) fn client() -> Self {
        Self::client_with(|_| {})
    }

    pub(crate) fn client_with(tweak: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(Role::Client, CLIENT_CAPS);
        tweak(&mut config);
        Self::new(config)
    }

    /// A client that found a modern server. The probe had id 1.
    pub(crate) fn modern_client() -> Self {
        Self::modern_client_with(|_| {})
    }

    pub(crate) fn modern_client_with(tweak: impl FnOnce(&mut Config)) -> Self {
        let mut bench = Self::client_with(tweak);
        bench.local(Command::Open);
        bench.feed(reply(1, discovered(&["2026-07-28"])));
        bench.rest()
    }

    /// A client that shook hands. The probe had id 1 and the handshake id 2.
    pub(crate) fn legacy_client(revision: &str) -> Self {
        Self::legacy_client_with(revision, |_| {})
    }

    pub(crate) fn legacy_client_with(revision: &str, tweak: impl FnOnce(&mut Config)) -> Self {
        let mut bench = Self::client_with(tweak);
        bench.local(Command::Open);
        bench.feed(fault(1, -32601));
        bench.feed(reply(2, initialized(revision)));
        bench.rest()
    }

    fn rest(mut self) -> Self {
        assert_eq!(self.session.state(), State::Ready);
        self.sent.clear();
        self.events.clear();
        self
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.session.handle(self.now, input);
        while let Some(output) = self.session.poll() {
            match output {
                Output::Retract { frame } => self.retracted.push(frame),
                Output::Send { lane, message, last, turn, .. } => {
                    self.turns.push(turn);
                    assert_eq!(self.closed, None, "nothing is sent after the close");
                    let mut raw = Vec::new();
                    message.write(&mut raw);
                    assert!(!raw.iter().any(|b| *b < 0x20), "a frame is one line");
                    let value = serde_json::from_slice(&raw).expect("what we send is JSON");
                    self.sent.push((lane, value, last));
                    self.count += 1;
                }
                Output::EndLane { .. } | Output::Release { .. } => {}
                Output::Event(event) => self.events.push(event),
                Output::Close { cause } => self.closed = Some(cause),
            }
        }
        if self.writes {
            self.session.written(self.count);
        }
    }

    /// A frame of the peer.
    pub(crate) fn feed(&mut self, frame: Value) {
        self.raw(&frame.to_string());
    }

    pub(crate) fn raw(&mut self, frame: &str) {
        self.on_lane(LaneId::MAIN, frame);
    }

    pub(crate) fn on_lane(&mut self, lane: LaneId, frame: &str) {
        self.handle(Input::Frame { lane, bytes: Bytes::copy_from_slice(frame.as_bytes()) });
    }

    pub(crate) fn local(&mut self, command: Command) {
        self.handle(Input::Local(command));
    }

    /// Time passes, with a tick whenever the session asked for one.
    pub(crate) fn wait(&mut self, wait: Duration) {
        let end = self.now + wait;
        while let Some(at) = self.session.deadline().filter(|at| *at <= end) {
            assert!(self.session.deadline() > Some(self.now) || at <= self.now, "deadlines lie ahead");
            self.now = at.max(self.now);
            self.handle(Input::Tick);
            assert!(self.session.deadline().is_none_or(|next| next > self.now), "a tick settles what is due");
        }
        self.now = end;
    }

    pub(crate) fn secs(&mut self, secs: u64) {
        self.wait(Duration::from_secs(secs));
    }

    pub(crate) fn close(&mut self, reason: &'static str) {
        self.local(Command::Close { reason: reason.into() });
    }

    /// What was sent since the last look.
    pub(crate) fn sent(&mut self) -> Vec<Value> {
        self.sent.drain(..).map(|(_, value, _)| value).collect()
    }

    pub(crate) fn sent_on_lanes(&mut self) -> Vec<(u32, Value, bool)> {
        self.sent.drain(..).map(|(lane, value, last)| (lane.0, value, last)).collect()
    }

    /// The one frame that was sent since the last look.
    pub(crate) fn one(&mut self) -> Value {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "one frame was expected: {sent:?}");
        sent.remove(0)
    }

    /// Everything told since the last look.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn pick<T>(&mut self, pick: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        let mut picked = Vec::new();
        self.events.retain(|event| pick(event).map(|one| picked.push(one)).is_none());
        picked
    }

    /// The rules of the findings since the last look.
    pub(crate) fn found(&mut self) -> Vec<Rule> {
        self.pick(|event| match event {
            Event::Found(finding) => Some(finding.rule),
            _ => None,
        })
    }

    pub(crate) fn states(&mut self) -> Vec<StateChange> {
        self.pick(|event| match event {
            Event::State(change) => Some(change.clone()),
            _ => None,
        })
    }

    pub(crate) fn settled(&mut self) -> Vec<(u64, Outcome)> {
        self.pick(|event| match event {
            Event::Settled { ticket, outcome } => Some((ticket.0, outcome.clone())),
            _ => None,
        })
    }

    /// The one call of ours that ended since the last look.
    pub(crate) fn outcome(&mut self) -> Outcome {
        let mut settled = self.settled();
        assert_eq!(settled.len(), 1, "one outcome was expected: {settled:?}");
        settled.remove(0).1
    }

    pub(crate) fn calls(&mut self) -> Vec<Called> {
        self.pick(|event| match event {
            Event::Called(called) => Some(called.clone()),
            _ => None,
        })
    }

    /// The one call handed over since the last look.
    pub(crate) fn called(&mut self) -> Called {
        let mut calls = self.calls();
        assert_eq!(calls.len(), 1, "one call was expected: {calls:?}");
        calls.remove(0)
    }

    pub(crate) fn asked(&mut self) -> Vec<(AskKey, Option<Ticket>, Ask)> {
        self.pick(|event| match event {
            Event::Asked { ask, ticket, what } => Some((*ask, *ticket, what.clone())),
            _ => None,
        })
    }

    pub(crate) fn withdrawn(&mut self) -> Vec<(CallKey, Box<str>)> {
        self.pick(|event| match event {
            Event::Withdrawn { key, reason } => Some((*key, reason.clone())),
            _ => None,
        })
    }

    /// Our side calls a tool; the ticket names it.
    pub(crate) fn call_tool(&mut self, ticket: u64) {
        self.call_with(ticket, CallOptions::default());
    }

    pub(crate) fn call_with(&mut self, ticket: u64, options: CallOptions) {
        self.call(ticket, Method::ToolsCall, Some(json!({"name": "echo", "arguments": {}})), options);
    }

    pub(crate) fn call(&mut self, ticket: u64, method: Method, params: Option<Value>, options: CallOptions) {
        let params = params.map(|params| raw(&params));
        self.local(Command::Call(NewCall { ticket: Ticket(ticket), method, params, options }));
    }

    /// Our handler is done.
    pub(crate) fn done(&mut self, key: CallKey, result: Value) {
        self.local(Command::Answer { key, answer: Answer::Done(raw(&result)) });
    }

    /// Our handler needs input.
    pub(crate) fn ask(&mut self, key: CallKey, entries: &[(&str, Method, Value)], state: Option<&str>) {
        let entries = entries
            .iter()
            .map(|(name, method, params)| {
                ((*name).into(), Ask { method: method.clone(), params: Some(raw(params)) })
            })
            .collect();
        let asks = Asks { entries, state: state.map(Into::into) };
        self.local(Command::Answer { key, answer: Answer::Ask(asks) });
    }
}

pub(crate) const SERVER_CAPS: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}"#;
pub(crate) const CLIENT_CAPS: &str =
    r#"{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}"#;

pub(crate) fn config(role: Role, capabilities: &'static str) -> Config {
    let identity: &'static [u8] = match role {
        Role::Server => br#"{"name":"s","version":"1"}"#,
        Role::Client => br#"{"name":"c","version":"1"}"#,
    };
    Config::new(role, Bytes::from_static(identity), Bytes::from_static(capabilities.as_bytes()))
}

pub(crate) fn raw(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

pub(crate) fn parsed(raw: &Bytes) -> Value {
    serde_json::from_slice(raw).expect("payloads are JSON")
}

pub(crate) fn wanting_progress() -> CallOptions {
    CallOptions { progress: Wanted::Yes, ..CallOptions::default() }
}

pub(crate) fn initialize(id: u64, revision: &str, capabilities: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": revision, "capabilities": capabilities,
        "clientInfo": {"name": "c", "version": "1"}}})
}

pub(crate) fn legacy(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// A call of the modern era from a client that can do nothing.
pub(crate) fn modern(id: impl Into<Value>, method: &str, params: Value) -> Value {
    modern_with(id, method, params, json!({}))
}

/// With capabilities of its own.
pub(crate) fn modern_with(id: impl Into<Value>, method: &str, mut params: Value, caps: Value) -> Value {
    let mut meta = params.get("_meta").cloned().unwrap_or_else(|| json!({}));
    meta[VERSION] = json!("2026-07-28");
    meta[CAPABILITIES] = caps;
    params["_meta"] = meta;
    legacy(id, method, params)
}

pub(crate) fn note(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

pub(crate) fn cancel(id: impl Into<Value>) -> Value {
    note("notifications/cancelled", json!({"requestId": id.into(), "reason": "no longer needed"}))
}

pub(crate) fn reply(id: impl Into<Value>, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}

pub(crate) fn fault(id: impl Into<Value>, code: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "error": {"code": code, "message": "no"}})
}

pub(crate) fn discovered(versions: &[&str]) -> Value {
    json!({"resultType": "complete", "supportedVersions": versions, "ttlMs": 0, "cacheScope": "private",
        "capabilities": serde_json::from_str::<Value>(SERVER_CAPS).expect("a constant")})
}

pub(crate) fn initialized(revision: &str) -> Value {
    json!({"protocolVersion": revision, "serverInfo": {"name": "s", "version": "1"},
        "capabilities": serde_json::from_str::<Value>(SERVER_CAPS).expect("a constant")})
}

/// The code of an error reply.
pub(crate) fn code(reply: &Value) -> i64 {
    reply["error"]["code"].as_i64().unwrap_or_else(|| panic!("an error reply was expected: {reply}"))
}
