//! One session of either role, driven by bytes: frames of any shape, time, commands and the end of the
//! link in any order. Whatever the peer says, every ticket settles once and nothing is left at the end.

#![no_main]

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::finding::Strictness;
use cardan_proto::jsonrpc::envelope::Violation;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::moment::Moment;
use cardan_proto::session::Session;
use cardan_proto::session::config::{Config, EraChoice, Role};
use cardan_proto::session::event::{
    Answer, Ask, AskKey, Asks, CallKey, CallOptions, Cause, Change, Command, Event, Input, Interest, LaneId,
    LogLevel, NewCall, Output, Progress, Ticket, Wanted,
};
use cardan_sim::oracle::Oracle;
use libfuzzer_sys::fuzz_target;

/// Frames that lead somewhere: `#` is a small number, `@` one of some methods, `~` modern metadata.
const FRAMES: [&str; 16] = [
    r#"{"jsonrpc":"2.0","id":#,"method":"@","params":{"name":"t",~}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"@","params":{"name":"t","uri":"a:b"}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{"resultType":"input_required","requestState":"s","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{}}}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{"resultType":"input_required","requestState":"s"}}"#,
    r#"{"jsonrpc":"2.0","id":#,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28","2025-11-25"]}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}}"#,
    r#"{"jsonrpc":"2.0","id":#,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"roots":{},"elicitation":{}}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":#,"progress":#}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":#}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":#}}}"#,
    r#"[{"jsonrpc":"2.0","id":#,"method":"@","params":{"name":"t"}},{"jsonrpc":"2.0","id":#,"result":{}},1,{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":#}}]"#,
    r#"{"jsonrpc":"2.0","id":#,"error":{"code":1}}"#,
    r##"{"jsonrpc":"2.0","id":"#","result":{}}"##,
];

const METHODS: [Method; 8] = [
    Method::ToolsCall,
    Method::ResourcesRead,
    Method::ResourcesSubscribe,
    Method::SubscriptionsListen,
    Method::Ping,
    Method::RootsList,
    Method::ElicitationCreate,
    Method::LoggingSetLevel,
];

const META: &str = r#""notifications":{"toolsListChanged":true},"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{},"elicitation":{}}}"#;

fuzz_target!(|input: &[u8]| {
    if input.len() <= 4096 {
        Drive::new(Script(input)).run();
    }
});

/// The fuzzer's bytes, one after the other.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }
}

struct Drive<'a> {
    script: Script<'a>,
    config: Arc<Config>,
    session: Session,
    oracle: Oracle,
    now: Moment,
    tickets: u64,
    keys: Vec<CallKey>,
    asks: Vec<AskKey>,
}

impl<'a> Drive<'a> {
    fn new(mut script: Script<'a>) -> Self {
        let choice = script.byte();
        let role = if choice & 1 == 0 { Role::Client } else { Role::Server };
        let capabilities = match role {
            Role::Client => r#"{"roots":{},"elicitation":{"form":{},"url":{}}}"#,
            Role::Server => {
                r#"{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}"#
            }
        };
        let identity = Bytes::from_static(b"{\"name\":\"f\",\"version\":\"1\"}");
        let mut config = Config::new(role, identity, Bytes::from_static(capabilities.as_bytes()));
        config.strictness =
            [Strictness::Strict, Strictness::Standard, Strictness::Lenient][usize::from(choice >> 1 & 3) % 3];
        config.era =
            [EraChoice::Auto, EraChoice::Legacy, EraChoice::Modern][usize::from(choice >> 3 & 3) % 3];
        if choice & 0x20 != 0 {
            config.limits = Limits {
                calls_inbound: 2,
                calls_outbound: 2,
                tombstones: 1,
                ask_rounds: 1,
                listens: 1,
                listen_uris: 1,
                noise_lines: 2,
                progress_per_second: 1,
                ..Limits::DEFAULT
            };
        }
        let config = Arc::new(config);
        let session = Session::new(config.clone(), Moment::ZERO);
        Self {
            script,
            config,
            session,
            oracle: Oracle::default(),
            now: Moment::ZERO,
            tickets: 0,
            keys: Vec::new(),
            asks: Vec::new(),
        }
    }

    fn run(mut self) {
        self.local(Command::Open);
        while !self.script.0.is_empty() {
            self.step();
        }
        self.feed(Input::Closed { cause: Cause::ClosedByPeer });
        // Handlers and people that come too late.
        for key in std::mem::take(&mut self.keys) {
            self.local(Command::Answer { key, answer: Answer::Done(Bytes::from_static(b"{}")) });
        }
        self.oracle.check_end(self.config.role, &self.session);
        self.judge();
    }

    fn step(&mut self) {
        let choice = self.script.byte();
        let lane = LaneId::MAIN;
        match choice % 16 {
            0..=4 => {
                let frame = self.frame(choice >> 4);
                self.feed(Input::Frame { lane, bytes: frame });
            }
            5 => {
                let count = usize::from(self.script.byte());
                let bytes = Bytes::copy_from_slice(self.script.bytes(count));
                self.feed(Input::Frame { lane, bytes });
            }
            6 => {
                let rule = cardan_proto::finding::Rule::Oversize;
                self.feed(Input::Broken { lane, violation: Violation::of(rule), excerpt: "".into() });
            }
            7 => {
                let ms = u64::from(self.script.byte()) << (choice >> 4);
                self.pass(Duration::from_millis(ms));
            }
            8 if choice >> 4 == 0 => self.feed(Input::ReadClosed),
            8 if choice >> 4 == 1 => {
                self.feed(Input::Closed { cause: Cause::ClosedByUs(Cow::Borrowed("x")) })
            }
            8 if choice >> 4 == 2 => self.feed(Input::Closed { cause: Cause::Stalled }),
            8 if choice >> 4 == 3 => self.local(Command::Close { reason: Cow::Borrowed("x") }),
            8 => self.session.written(u64::from(choice >> 4)),
            9 => self.handler(choice >> 4),
            _ => {
                let command = self.command(choice);
                self.local(command);
            }
        }
    }

    fn frame(&mut self, template: u8) -> Bytes {
        let numbers = self.script.byte();
        let method = METHODS[usize::from(numbers >> 4) % METHODS.len()].name();
        let number = (numbers & 15).to_string();
        let text =
            FRAMES[usize::from(template)].replace('#', &number).replace('@', method).replace('~', META);
        Bytes::from(text)
    }

    fn command(&mut self, choice: u8) -> Command {
        let recent = Ticket(self.tickets.saturating_sub(u64::from(choice >> 6)));
        let params = Some(Bytes::from_static(b"{\"name\":\"t\"}"));
        match choice % 16 {
            10 | 11 => {
                let wait = |on: bool| on.then(|| Duration::from_millis(u64::from(choice)));
                let options = CallOptions {
                    idle: wait(choice & 0x10 != 0),
                    total: wait(choice & 0x20 != 0),
                    progress: if choice & 0x40 == 0 { Wanted::No } else { Wanted::Yes },
                    ..CallOptions::default()
                };
                let method = METHODS[usize::from(choice >> 5) % 2].clone();
                Command::Call(NewCall { ticket: self.ticket(), method, params, options })
            }
            12 => Command::Cancel { ticket: recent, reason: Cow::Borrowed("x") },
            13 => {
                let uris = ["a:b", "c:d", "e:f"][..usize::from(choice >> 4 & 3)].iter();
                let uris = uris.map(|uri| (*uri).into()).collect();
                let interest = Interest { tools: true, uris, ..Interest::default() };
                Command::Listen { ticket: self.ticket(), interest }
            }
            14 => {
                let ask = self.asks.pop().unwrap_or(AskKey(99));
                let outcome = if choice & 0x10 == 0 {
                    Ok(Bytes::from_static(b"{}"))
                } else {
                    Err(Fault::new(-1, "no"))
                };
                Command::AnswerAsk { ask, outcome }
            }
            _ if choice & 0x10 == 0 => Command::SetLevel(LogLevel::Debug),
            _ if choice & 0x20 == 0 => Command::Change(Change::Tools),
            _ => Command::Change(Change::Resource("a:b/c".into())),
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    fn handler(&mut self, choice: u8) {
        let key = self.keys.last().copied().unwrap_or(CallKey(99));
        let answer = match choice & 7 {
            0 | 1 => Answer::Done(Bytes::from_static(b"{}")),
            2 => Answer::Fault(Fault::internal("x")),
            3 | 4 => {
                let ask = Ask { method: Method::RootsList, params: None };
                let entries = (0..choice >> 2).map(|n| (n.to_string().into(), ask.clone()));
                Answer::Ask(Asks { entries: entries.collect(), state: Some("s".into()) })
            }
            5 | 6 => {
                let progress = Progress { progress: f64::from(self.script.byte()), ..Progress::default() };
                return self.local(Command::Progress { key, progress });
            }
            _ => {
                let params = Bytes::from_static(b"{\"level\":\"error\"}");
                return self.local(Command::Log { key: Some(key), level: LogLevel::Error, params });
            }
        };
        self.keys.pop();
        self.local(Command::Answer { key, answer });
    }

    /// Lets time pass, and ticks when asked to.
    fn pass(&mut self, wait: Duration) {
        let until = self.now + wait;
        while let Some(at) = self.session.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.feed(Input::Tick);
            let next = self.session.deadline();
            assert!(next.is_none_or(|next| next > self.now), "wants a tick at once after a tick");
        }
        self.now = until;
        self.oracle.check_deadlines(self.now, Duration::ZERO);
        self.judge();
    }

    fn local(&mut self, command: Command) {
        self.oracle.commanded(self.config.role, &command, &self.config, self.now);
        self.feed(Input::Local(command));
    }

    fn feed(&mut self, input: Input) {
        let role = self.config.role;
        self.session.handle(self.now, input);
        let mut outputs = 0;
        while let Some(output) = self.session.poll() {
            outputs += 1;
            // A peer that gives one id to many calls may well see many replies to it.
            self.oracle.output(role, &output, self.now, &self.config, true);
            match output {
                Output::Event(Event::Called(called)) => self.keys.push(called.key),
                Output::Event(Event::Asked { ask, .. }) => self.asks.push(ask),
                _ => {}
            }
        }
        self.oracle.stepped(role, &self.session, outputs, &self.config);
        self.judge();
    }

    fn judge(&self) {
        if let Some(failure) = self.oracle.failure() {
            panic!("{failure}");
        }
    }
}
