//! One session on a bench: frames in, frames and events out.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::dialect::Dialect;
use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::method::Method;
use cardan_proto::moment::Moment;
use cardan_proto::session::Session;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{
    Answer, CallOptions, Called, Cause, Command, Event, Input, LaneId, NewCall, Outcome, Output, Ticket,
};

pub(crate) struct Bench {
    pub(crate) session: Session,
    pub(crate) events: Vec<Event>,
    now: Moment,
    tickets: u64,
}

pub(crate) fn config(role: Role, dialect: Dialect) -> Config {
    let identity = Bytes::from_static(br#"{"name":"bench","version":"1"}"#);
    let capabilities: &[u8] = match role {
        Role::Server => br#"{"tools":{},"logging":{}}"#,
        Role::Client => b"{}",
    };
    Config { dialect, ..Config::new(role, identity, Bytes::from_static(capabilities)) }
}

impl Bench {
    /// A session that is open, and what it said while opening.
    pub(crate) fn open(config: Config) -> (Self, Vec<String>) {
        let now = Moment::default();
        let session = Session::new(Arc::new(config), now);
        let mut bench = Self { session, events: Vec::new(), now, tickets: 0 };
        let said = bench.local(Command::Open);
        (bench, said)
    }

    pub(crate) fn server(dialect: Dialect) -> Self {
        Self::open(config(Role::Server, dialect)).0
    }

    pub(crate) fn strict_server(dialect: Dialect) -> Self {
        Self::open(Config { strictness: Strictness::Strict, ..config(Role::Server, dialect) }).0
    }

    pub(crate) fn client(dialect: Dialect) -> Self {
        Self::open(config(Role::Client, dialect)).0
    }

    pub(crate) fn feed(&mut self, input: Input) -> Vec<String> {
        self.session.handle(self.now, input);
        let mut said = Vec::new();
        while let Some(output) = self.session.poll() {
            match output {
                Output::Send { message, .. } => {
                    let mut out = Vec::new();
                    message.write(&mut out);
                    said.push(String::from_utf8(out).unwrap());
                }
                Output::EndLane { .. } | Output::Release { .. } => {}
                Output::Retract { frame } => said.push(format!("retract {frame}")),
                Output::Event(event) => self.events.push(event),
                Output::Close { cause } => said.push(format!("close: {cause}")),
            }
        }
        said
    }

    pub(crate) fn hear(&mut self, frame: &str) -> Vec<String> {
        self.feed(Input::Frame { lane: LaneId::MAIN, bytes: Bytes::copy_from_slice(frame.as_bytes()) })
    }

    pub(crate) fn local(&mut self, command: Command) -> Vec<String> {
        self.feed(Input::Local(command))
    }

    pub(crate) fn wait(&mut self, time: Duration) -> Vec<String> {
        self.now = self.now + time;
        self.feed(Input::Tick)
    }

    pub(crate) fn call(&mut self, method: Method, params: &str) -> (Ticket, Vec<String>) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let params = (!params.is_empty()).then(|| Bytes::copy_from_slice(params.as_bytes()));
        let options = CallOptions::default();
        (ticket, self.local(Command::Call(NewCall { ticket, method, params, options })))
    }

    pub(crate) fn outcome(&self, wanted: Ticket) -> Option<&Outcome> {
        self.events.iter().find_map(|event| match event {
            Event::Settled { ticket, outcome } if *ticket == wanted => Some(outcome),
            _ => None,
        })
    }

    /// The calls that the peer made, oldest first.
    pub(crate) fn called(&self) -> Vec<&Called> {
        let called = self.events.iter();
        called
            .filter_map(|event| if let Event::Called(called) = event { Some(called) } else { None })
            .collect()
    }

    /// Answers the newest call.
    pub(crate) fn answer(&mut self, result: &str) -> Vec<String> {
        let key = self.called().last().unwrap().key;
        let answer = Answer::Done(Bytes::copy_from_slice(result.as_bytes()));
        self.local(Command::Answer { key, answer })
    }

    pub(crate) fn found(&self, rule: Rule) -> u64 {
        self.session.findings().count(rule)
    }

    pub(crate) fn close(&mut self) -> Vec<String> {
        self.local(Command::Close { reason: "done".into() })
    }

    pub(crate) fn lost(&mut self, cause: Cause) -> Vec<String> {
        self.feed(Input::Closed { cause })
    }
}
