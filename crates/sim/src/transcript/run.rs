//! Plays a transcript against the core alone: no link, and time by hand.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::era::{Revision, Revisions};
use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::moment::Moment;
use cardan_proto::session::Session;
use cardan_proto::session::config::{Config, EraChoice, Role};
use cardan_proto::session::event::{
    Answer, Ask, AskKey, Asks, CallKey, CallOptions, Cause, Change, Command, Event, Input, Interest, LaneId,
    LogLevel, NewCall, Outcome, Output, Progress, Ticket,
};
use serde_json::{Value, json};

use super::{Closer, Failure, Transcript, What, demo, matches};

/// Plays `transcript`; the first line that does not hold is the error.
pub fn run(transcript: &Transcript) -> Result<(), Failure> {
    let config = configure(transcript).map_err(|why| Failure::at(0, why))?;
    let mut stage = Stage::new(config);
    stage.handle(Input::Local(Command::Open));
    for step in &transcript.steps {
        stage.step(transcript.role, &step.what).map_err(|why| Failure::at(step.line, why))?;
    }
    stage.is_quiet().and_then(|()| stage.is_told()).map_err(|why| {
        let line = transcript.steps.last().map_or(0, |step| step.line);
        Failure::at(line, format!("at the end: {why}"))
    })
}

fn configure(transcript: &Transcript) -> Result<Config, String> {
    let (name, capabilities) = match transcript.role {
        Role::Server => {
            ("demo", r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}"#)
        }
        Role::Client => ("client", r#"{"elicitation":{},"roots":{}}"#),
    };
    let identity = json!({ "name": name, "version": "0" }).to_string();
    let mut config = Config::new(transcript.role, identity.into(), capabilities.into());
    for (key, value) in &transcript.config {
        let unknown = || format!("unknown configuration: {key}={value}");
        match &**key {
            "revisions" => config.revisions = revisions(value).ok_or_else(unknown)?,
            "capabilities" => config.capabilities = value.clone().into(),
            "era" => {
                config.era = match &**value {
                    "auto" => EraChoice::Auto,
                    "legacy" => EraChoice::Legacy,
                    "modern" => EraChoice::Modern,
                    _ => return Err(unknown()),
                }
            }
            "strictness" => {
                config.strictness = match &**value {
                    "strict" => Strictness::Strict,
                    "standard" => Strictness::Standard,
                    "lenient" => Strictness::Lenient,
                    _ => return Err(unknown()),
                }
            }
            _ => return Err(unknown()),
        }
    }
    Ok(config)
}

fn revisions(text: &str) -> Option<Revisions> {
    match text {
        "all" => Some(Revisions::ALL),
        "legacy" => Some(Revisions::LEGACY),
        "modern" => Some(Revisions::MODERN),
        date => Revision::parse(date).map(Revisions::only),
    }
}

/// The session under test and what it did that no line has accounted for yet.
struct Stage {
    session: Session,
    now: Moment,
    frames: u64,
    sent: VecDeque<Value>,
    found: VecDeque<Rule>,
    settled: VecDeque<(u64, Outcome)>,
    /// Calls of the peer that wait for a line, by the JSON text of their id.
    running: HashMap<String, CallKey>,
    asks: VecDeque<AskKey>,
    closed: bool,
}

impl Stage {
    fn new(config: Config) -> Self {
        Self {
            session: Session::new(Arc::new(config), Moment::ZERO),
            now: Moment::ZERO,
            frames: 0,
            sent: VecDeque::new(),
            found: VecDeque::new(),
            settled: VecDeque::new(),
            running: HashMap::new(),
            asks: VecDeque::new(),
            closed: false,
        }
    }

    fn step(&mut self, role: Role, what: &What) -> Result<(), String> {
        match (what, role) {
            (What::Client(frame), Role::Server) | (What::Server(frame), Role::Client) => {
                self.is_quiet()?;
                self.handle(Input::Frame { lane: LaneId::MAIN, bytes: Bytes::from(frame.clone()) });
                Ok(())
            }
            (What::Client(frame) | What::Server(frame), _) => self.expect_frame(frame),
            (What::Wait(wait), _) => {
                self.is_quiet()?;
                self.wait(*wait);
                Ok(())
            }
            (What::Close(closer), _) => self.expect_close(*closer),
            (What::Finding(rule), _) => match self.found.pop_front() {
                Some(found) if found == *rule => Ok(()),
                other => Err(format!("found {:?} instead", other.map(Rule::id))),
            },
            (What::Outcome(text), _) => self.expect_outcome(text),
            (What::Local(text), _) => {
                self.is_quiet()?;
                let command = self.command(text)?;
                self.handle(Input::Local(command));
                Ok(())
            }
        }
    }

    fn handle(&mut self, input: Input) {
        self.session.handle(self.now, input);
        while let Some(output) = self.session.poll() {
            match output {
                Output::Send { message, .. } => {
                    let mut raw = Vec::new();
                    message.write(&mut raw);
                    self.frames += 1;
                    self.sent.push_back(serde_json::from_slice(&raw).unwrap_or_default());
                }
                // Every frame is written at once here.
                Output::Retract { .. } => {}
                Output::Close { .. } => self.closed = true,
                Output::EndLane { .. } | Output::Release { .. } => {}
                Output::Event(event) => self.told(event),
            }
        }
        self.session.written(self.frames);
    }

    fn told(&mut self, event: Event) {
        match event {
            Event::Found(finding) => self.found.push_back(finding.rule),
            Event::Settled { ticket, outcome } => self.settled.push_back((ticket.0, outcome)),
            Event::Asked { ask, .. } => self.asks.push_back(ask),
            Event::Called(called) => match demo::answer(&called.call) {
                Some(answer) => {
                    let command = Command::Answer { key: called.key, answer };
                    self.session.handle(self.now, Input::Local(command));
                }
                None => {
                    self.running.insert(called.call.id.to_string(), called.key);
                }
            },
            _ => {}
        }
    }

    fn wait(&mut self, wait: std::time::Duration) {
        let end = self.now + wait;
        while let Some(at) = self.session.deadline().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.handle(Input::Tick);
        }
        self.now = end;
    }

    /// Nothing was sent that the transcript does not have.
    fn is_quiet(&self) -> Result<(), String> {
        self.sent.front().map_or(Ok(()), |frame| Err(format!("unexpected frame: {frame}")))
    }

    /// Nothing happened that the transcript does not have.
    fn is_told(&self) -> Result<(), String> {
        match (self.found.front(), self.settled.front()) {
            (Some(rule), _) => Err(format!("unexpected finding: {}", rule.id())),
            (_, Some(settled)) => Err(format!("unexpected outcome: {settled:?}")),
            _ if self.closed => Err("this side closed the link".into()),
            _ => Ok(()),
        }
    }

    fn expect_frame(&mut self, text: &str) -> Result<(), String> {
        let expected = json(text)?;
        match self.sent.pop_front() {
            Some(seen) if matches(&expected, &seen) => Ok(()),
            Some(seen) => Err(format!("expected {expected}, saw {seen}")),
            None => Err(format!("expected {expected}, saw nothing")),
        }
    }

    fn expect_close(&mut self, closer: Closer) -> Result<(), String> {
        self.is_quiet()?;
        match (closer, std::mem::take(&mut self.closed)) {
            (Closer::Ours, true) => Ok(()),
            (Closer::Ours, false) => Err("the link is still open".into()),
            (Closer::Peer, true) => Err("the link was closed already, from this side".into()),
            (Closer::Peer, false) => {
                self.handle(Input::Closed { cause: Cause::ClosedByPeer });
                Ok(())
            }
        }
    }

    fn expect_outcome(&mut self, text: &str) -> Result<(), String> {
        let (ticket, rest) = word(text);
        let (kind, rest) = word(rest);
        let (seen_ticket, seen) = self.settled.pop_front().ok_or("no call has ended")?;
        let fits = match (kind, &seen) {
            ("done", Outcome::Done(result)) => {
                matches(&json(rest)?, &serde_json::from_slice(result).unwrap_or_default())
            }
            ("fault", Outcome::Fault(fault)) => rest == fault.code.to_string(),
            ("violated", Outcome::Violated(violation)) => rest == violation.rule.id(),
            ("timed-out", Outcome::TimedOut { .. })
            | ("cancelled", Outcome::Cancelled { .. })
            | ("lost", Outcome::Lost { .. })
            | ("refused", Outcome::Refused(_)) => true,
            _ => false,
        };
        if fits && ticket == seen_ticket.to_string() {
            return Ok(());
        }
        Err(format!("call {seen_ticket} ended with {seen:?}"))
    }

    fn command(&mut self, text: &str) -> Result<Command, String> {
        let (name, rest) = word(text);
        let (first, rest) = word(rest);
        Ok(match name {
            "done" => self.answer(first, Answer::Done(raw(rest)?))?,
            "fault" => {
                self.answer(first, Answer::Fault(Fault::new(rest.parse().map_err(|_| text)?, "no")))?
            }
            "ask" => self.answer(first, Answer::Ask(read_asks(rest)?))?,
            "progress" => {
                let progress = rest.parse().map_err(|_| format!("not a number: {rest}"))?;
                let progress = Progress { progress, total: None, message: None };
                Command::Progress { key: self.key(first)?, progress }
            }
            "log" => {
                let (level, params) = word(rest);
                let key = if first == "-" { None } else { Some(self.key(first)?) };
                Command::Log { key, level: read_level(level)?, params: raw(params)? }
            }
            "change" => Command::Change(match first {
                "tools" => Change::Tools,
                "prompts" => Change::Prompts,
                "resources" => Change::Resources,
                uri => Change::Resource(uri.into()),
            }),
            "call" => {
                let (method, params) = word(rest);
                let params = if params.is_empty() { None } else { Some(raw(params)?) };
                let (ticket, method) = (read_ticket(first)?, Method::parse(method));
                Command::Call(NewCall { ticket, method, params, options: CallOptions::default() })
            }
            "listen" => Command::Listen {
                ticket: read_ticket(first)?,
                interest: Interest { tools: true, ..Interest::default() },
            },
            "cancel" => Command::Cancel { ticket: read_ticket(first)?, reason: rest.to_owned().into() },
            "answer" => {
                let ask = self.asks.pop_front().ok_or("nothing was asked")?;
                Command::AnswerAsk { ask, outcome: Ok(raw(&format!("{first} {rest}"))?) }
            }
            "level" => Command::SetLevel(read_level(first)?),
            "close" => Command::Close { reason: format!("{first} {rest}").trim().to_owned().into() },
            _ => return Err(format!("unknown command: {text}")),
        })
    }

    fn answer(&self, id: &str, answer: Answer) -> Result<Command, String> {
        Ok(Command::Answer { key: self.key(id)?, answer })
    }

    fn key(&self, id: &str) -> Result<CallKey, String> {
        self.running.get(id).copied().ok_or_else(|| format!("no call {id} was left running"))
    }
}

/// The asks of `{"name":{"method":"..","params":{}}}`.
fn read_asks(text: &str) -> Result<Asks, String> {
    let Value::Object(requests) = json(text)? else { return Err("asks are an object".into()) };
    let entries = requests.iter().map(|(name, ask)| {
        let method = Method::parse(ask["method"].as_str().unwrap_or_default());
        (name.as_str().into(), Ask { method, params: Some(Bytes::from(ask["params"].to_string())) })
    });
    Ok(Asks { entries: entries.collect(), state: None })
}

fn read_ticket(text: &str) -> Result<Ticket, String> {
    text.parse().map(Ticket).map_err(|_| format!("not a ticket: {text}"))
}

fn read_level(text: &str) -> Result<LogLevel, String> {
    LogLevel::parse(text).ok_or_else(|| format!("not a level: {text}"))
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}: {text}"))
}

fn raw(text: &str) -> Result<Bytes, String> {
    json(text)?;
    Ok(Bytes::from(text.to_owned()))
}

/// The first word and the rest.
fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').map_or((text, ""), |(first, rest)| (first, rest.trim_start()))
}
