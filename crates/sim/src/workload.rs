//! What the people on both sides do: calls, cancels, listens, changes, and handlers that answer some time.
//!
//! Every call carries its ticket as a nonce, every answer echoes it, so a result that reaches the
//! wrong caller is seen at once.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::session::config::Role;
use cardan_proto::session::event::{
    Answer, Ask, AskKey, Asks, CallKey, CallOptions, Change, Command, Interest, LogLevel, NewCall, Progress,
    Ticket, Wanted,
};

use crate::fault::millis;
use crate::oracle::number_after;
use crate::rng::Rng;

/// What both sides remember of what they did.
#[derive(Debug, Default)]
pub struct Workload {
    tickets: u64,
    /// Tickets of each side, to cancel some, in whatever state they are.
    client: Vec<Ticket>,
    server: Vec<Ticket>,
    /// Calls that handlers have seen, to speak of some after their end.
    keys: Vec<CallKey>,
    asks: Vec<AskKey>,
    steps: u64,
}

/// What a handler does when its time comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Answers with a result.
    Done,
    /// Answers with a fault.
    Fault,
    /// Asks for input.
    Ask,
    /// Tells how far it is.
    Progress,
    /// Writes a log note.
    Log,
}

impl Workload {
    /// The next thing that someone wants.
    pub fn command(&mut self, rng: &mut Rng) -> (Role, Command) {
        self.steps += 1;
        if rng.percent(75) {
            (Role::Client, self.of_client(rng))
        } else {
            (Role::Server, self.of_server(rng))
        }
    }

    fn of_client(&mut self, rng: &mut Rng) -> Command {
        match rng.below(20) {
            0..=11 => {
                let method = rng.pick(&[
                    Method::ToolsCall,
                    Method::ToolsCall,
                    Method::ToolsCall,
                    Method::ResourcesRead,
                    Method::PromptsGet,
                    Method::ToolsList,
                    Method::CompletionComplete,
                    Method::Ping,
                ]);
                let ticket = self.ticket(Role::Client);
                Command::Call(new_call(ticket, method, rng))
            }
            12..=14 => cancel(&self.client, rng),
            15 | 16 => Command::Listen { ticket: self.ticket(Role::Client), interest: interest(rng) },
            17 => Command::SetLevel(rng.pick(&LogLevel::ALL)),
            18 => Command::Note { method: Method::RootsListChanged, params: None },
            _ if rng.percent(30) => Command::Close { reason: Cow::Borrowed("enough") },
            // An answer that nobody waits for any more.
            _ => {
                Command::AnswerAsk { ask: late(&self.asks, AskKey(u64::MAX), rng), outcome: Ok(object(None)) }
            }
        }
    }

    fn of_server(&mut self, rng: &mut Rng) -> Command {
        match rng.below(12) {
            0..=4 => Command::Change(rng.pick(&[
                Change::Tools,
                Change::Prompts,
                Change::Resources,
                Change::Resource("a:b/c".into()),
                Change::Resource("x:y".into()),
            ])),
            5 | 6 => log(None, rng),
            7 => Command::Call(new_call(self.ticket(Role::Server), Method::Ping, rng)),
            8 => cancel(&self.server, rng),
            9 => Command::Progress {
                key: late(&self.keys, CallKey(u64::MAX), rng),
                progress: Progress::default(),
            },
            10 if rng.percent(30) => Command::Close { reason: Cow::Borrowed("leaving") },
            _ => Command::Note { method: Method::ElicitationComplete, params: Some(object(None)) },
        }
    }

    fn ticket(&mut self, who: Role) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        match who {
            Role::Client => self.client.push(ticket),
            Role::Server => self.server.push(ticket),
        }
        ticket
    }

    /// A handler is called: what it will do, and when. No answer among them: it never comes to an end.
    pub fn handle(&mut self, key: CallKey, round: usize, rng: &mut Rng) -> Vec<(Duration, Act)> {
        self.keys.push(key);
        let pause = rng.pick(&[0, 2, 20, 300, 1500]);
        let mut at = millis(rng.below(pause + 1));
        let mut acts = Vec::new();
        for _ in 0..rng.pick(&[0, 0, 1, 3, 9]) {
            acts.push((at, if rng.percent(80) { Act::Progress } else { Act::Log }));
            at += millis(rng.below(pause + 1));
        }
        match rng.below(20) {
            0..=11 => acts.push((at, Act::Done)),
            12 => acts.push((at, Act::Fault)),
            13..=18 if round < 3 => {
                acts.push((at, Act::Ask));
                // Some lose patience, and answer before they are answered.
                if rng.percent(15) {
                    acts.push((at + millis(rng.below(1000)), Act::Done));
                }
            }
            13..=18 => acts.push((at, Act::Done)),
            _ => {}
        }
        acts
    }

    /// Someone is asked: after how long there is an answer, if ever.
    pub fn asked(&mut self, ask: AskKey, rng: &mut Rng) -> Option<Duration> {
        self.asks.push(ask);
        rng.percent(90).then(|| millis(rng.pick(&[0, 3, 50, 800, 4000])))
    }
}

/// What a handler says.
pub(crate) fn act(act: Act, key: CallKey, nonce: Option<u64>, step: u64, rng: &mut Rng) -> Command {
    let answer = match act {
        Act::Done => Answer::Done(object(nonce)),
        Act::Fault => Answer::Fault(rng.pick(&[
            Fault::internal("broke down"),
            Fault::resource_not_found("a:b"),
            Fault::new(-32042, "go there first"),
        ])),
        Act::Ask => Answer::Ask(asks(nonce, rng)),
        Act::Progress => {
            let message = rng.percent(30).then(|| "on it".to_owned());
            let progress = step as f64 / if rng.percent(20) { 3.0 } else { 1.0 };
            return Command::Progress { key, progress: Progress { progress, total: None, message } };
        }
        Act::Log => return log(Some(key), rng),
    };
    Command::Answer { key, answer }
}

/// What the person who is asked says.
pub(crate) fn answer_ask(ask: AskKey, nonce: Option<u64>, rng: &mut Rng) -> Command {
    let outcome = if rng.percent(85) { Ok(object(nonce)) } else { Err(Fault::new(-1, "no")) };
    Command::AnswerAsk { ask, outcome }
}

/// The nonce in a payload.
#[must_use]
pub fn nonce_in(payload: &[u8]) -> Option<u64> {
    number_after(payload, "\"nonce\":")
}

fn object(nonce: Option<u64>) -> Bytes {
    nonce.map_or(Bytes::from_static(b"{}"), |nonce| Bytes::from(format!("{{\"nonce\":{nonce}}}")))
}

fn new_call(ticket: Ticket, method: Method, rng: &mut Rng) -> NewCall {
    let nonce = ticket.0;
    let params = match rng.below(12) {
        0 if method == Method::Ping => None,
        1 => Some(format!("{{\"nonce\":{nonce},\"_meta\":{{\"x\":[1]}}}}")),
        2 => Some(format!("{{\"nonce\":{nonce},\"requestState\":\"old\",\"name\":\"n\"}}")),
        3 => Some(format!("{{\"nonce\":{nonce},\"pad\":\"{}\"}}", "p".repeat(rng.below(1500) as usize))),
        _ => Some(format!("{{\"name\":\"echo\",\"arguments\":{{\"nonce\":{nonce}}}}}")),
    };
    let some_time = |rng: &mut Rng| match rng.below(10) {
        0 => Some(millis(rng.within(1, 400))),
        1 => Some(millis(rng.within(400, 4000))),
        _ => None,
    };
    let options = CallOptions {
        idle: some_time(rng),
        total: some_time(rng),
        progress: rng.pick(&[Wanted::Yes, Wanted::No]),
        ..CallOptions::default()
    };
    NewCall { ticket, method, params: params.map(Bytes::from), options }
}

fn cancel(tickets: &[Ticket], rng: &mut Rng) -> Command {
    // CAN-7: whether it runs, has ended or never was.
    Command::Cancel { ticket: late(tickets, Ticket(u64::MAX), rng), reason: Cow::Borrowed("changed my mind") }
}

/// One of `known`, mostly one of the last; or `unknown`.
fn late<T: Copy>(known: &[T], unknown: T, rng: &mut Rng) -> T {
    let back = if rng.percent(70) { rng.below(4) } else { rng.below(known.len() as u64 + 1) };
    known.iter().rev().nth(back as usize).copied().unwrap_or(unknown)
}

fn interest(rng: &mut Rng) -> Interest {
    let uris: &[&str] = rng.pick(&[&[][..], &["a:b"][..], &["a:b", "x:y"][..], &["a:b", "c:d", "e:f"][..]]);
    Interest {
        tools: rng.percent(60),
        prompts: rng.percent(30),
        resources: rng.percent(30),
        uris: uris.iter().map(|uri| (*uri).into()).collect(),
        tasks: Vec::new(),
    }
}

fn log(key: Option<CallKey>, rng: &mut Rng) -> Command {
    let level = rng.pick(&LogLevel::ALL);
    let params = Bytes::from(format!("{{\"level\":\"{}\",\"data\":1}}", level.name()));
    Command::Log { key, level, params }
}

fn asks(nonce: Option<u64>, rng: &mut Rng) -> Asks {
    let count = rng.pick(&[0, 1, 1, 2, 3]);
    let entries = (0..count).map(|n| {
        let method = rng.pick(&[Method::ElicitationCreate, Method::RootsList, Method::SamplingCreateMessage]);
        let ask = Ask { method, params: Some(object(nonce)) };
        (format!("ask {n}").into(), ask)
    });
    Asks { entries: entries.collect(), state: Some("sealed \"state\"".into()) }
}
