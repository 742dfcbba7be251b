//! What must hold, whatever happens. Told of every command and every output, it keeps its own
//! books and compares.
//!
//! The first broken rule is kept; what follows from it is noise.

use std::collections::BTreeMap;
use std::time::Duration;

use cardan_proto::jsonrpc::envelope::{Envelope, MetaKey, Reply};
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::method::Method;
use cardan_proto::moment::Moment;
use cardan_proto::session::Session;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{
    AskKey, CallKey, CallOptions, Called, Command, Delivery, Event, Outcome, Outgoing, Output, Ticket,
};
use cardan_proto::session::state::State;

use crate::workload::nonce_in;

/// One session may want this much done after one input, a batch say, besides what each of its calls wants.
const OUTPUTS_MAX: usize = 256;

/// The books on both sides.
#[derive(Debug, Default)]
pub struct Oracle {
    client: Books,
    server: Books,
    /// Calls that a side said never left, by nonce.
    unsent: Vec<u64>,
    /// Calls that a side has received, by nonce, with how often.
    received: BTreeMap<u64, u32>,
    failure: Option<String>,
    /// What has happened, to see that runs are not idle.
    pub tally: Tally,
}

/// How often what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls settled with a result.
    pub done: u64,
    /// Calls settled with a fault.
    pub fault: u64,
    /// Calls settled by a deadline.
    pub timed_out: u64,
    /// Calls given up.
    pub cancelled: u64,
    /// Calls lost with the link.
    pub lost: u64,
    /// Calls answered by nonsense.
    pub violated: u64,
    /// Calls that were never made.
    pub refused: u64,
    /// Calls that came to a handler, counted per round.
    pub called: u64,
    /// Calls that were taken from a handler.
    pub withdrawn: u64,
    /// Asks that came to a person.
    pub asked: u64,
    /// Deviations recorded.
    pub found: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.done += other.done;
        self.fault += other.fault;
        self.timed_out += other.timed_out;
        self.cancelled += other.cancelled;
        self.lost += other.lost;
        self.violated += other.violated;
        self.refused += other.refused;
        self.called += other.called;
        self.withdrawn += other.withdrawn;
        self.asked += other.asked;
        self.found += other.found;
    }
}

/// What one side has done.
#[derive(Debug, Default)]
struct Books {
    state: Option<State>,
    tickets: BTreeMap<Ticket, Entry>,
    keys: BTreeMap<CallKey, Running>,
    asks: BTreeMap<AskKey, AskBook>,
    /// Of the wire ids that we gave: is a cancel out for it?
    sent_ids: BTreeMap<i64, Sent>,
    /// Since when nobody is being asked.
    unasked: Moment,
    closed: bool,
}

impl Books {
    /// Does anybody here wait for the peer?
    fn waits(&self) -> bool {
        self.tickets.values().any(|entry| !entry.settled)
            || self.keys.values().any(|running| running.phase == Phase::Running)
    }
}

/// A ticket.
#[derive(Debug)]
struct Entry {
    settled: bool,
    deadline: Option<Moment>,
    /// The longest silence, and the last sign of life.
    idle: Option<Duration>,
    heard: Moment,
    kind: Kind,
}

/// What a ticket stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A call whose handler echoes its nonce.
    Echo,
    /// A call that the core answers.
    Plain,
    Listen,
}

/// A call that runs here.
#[derive(Debug)]
struct Running {
    id: CallId,
    token: Option<u64>,
    nonce: Option<u64>,
    phase: Phase,
    since: Moment,
    progress: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Answered,
    Withdrawn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskBook {
    Open,
    Done,
}

#[derive(Debug)]
struct Sent {
    method: Method,
    cancelled: bool,
}

impl Oracle {
    /// The first rule that did not hold.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Records that something does not hold.
    pub fn fail(&mut self, what: impl FnOnce() -> String) {
        if self.failure.is_none() {
            self.failure = Some(what());
        }
    }

    fn books(&mut self, who: Role) -> &mut Books {
        match who {
            Role::Client => &mut self.client,
            Role::Server => &mut self.server,
        }
    }

    /// A frame reaches a side. Progress is a sign of life even where it is held back, and whose it is the
    /// books cannot tell: it speaks for every call that waits.
    pub fn arrives(&mut self, who: Role, frame: &[u8], now: Moment) {
        if memchr::memmem::find(frame, Method::Progress.name().as_bytes()).is_some() {
            for entry in self.books(who).tickets.values_mut() {
                entry.heard = now;
            }
        }
    }

    /// A side is about to be told something.
    pub fn commanded(&mut self, who: Role, command: &Command, config: &Config, now: Moment) {
        let (ticket, deadline, kind) = match command {
            Command::Call(call) => {
                let echo = call.method != Method::Ping
                    && call.params.as_ref().is_some_and(|raw| nonce_in(raw).is_some());
                let kind = if echo { Kind::Echo } else { Kind::Plain };
                (call.ticket, total_deadline(call.options, config, now), kind)
            }
            Command::Listen { ticket, .. } => (*ticket, None, Kind::Listen),
            Command::AnswerAsk { ask, .. } => {
                let books = self.books(who);
                if let Some(book) = books.asks.get_mut(ask) {
                    *book = AskBook::Done;
                    books.unasked = now;
                }
                return;
            }
            _ => return,
        };
        let idle = match command {
            Command::Call(call) => Some(call.options.idle.unwrap_or(config.limits.call_idle_timeout)),
            _ => None,
        };
        let entry = Entry { settled: false, deadline, idle, heard: now, kind };
        let before = self.books(who).tickets.insert(ticket, entry);
        debug_assert!(before.is_none(), "the workload never reuses a ticket");
    }

    /// A side wants something done.
    pub fn output(&mut self, who: Role, output: &Output, now: Moment, config: &Config, tainted: bool) {
        match output {
            Output::Close { .. } => {
                if std::mem::replace(&mut self.books(who).closed, true) {
                    self.fail(|| format!("{who:?} closes its link twice"));
                }
            }
            Output::Send { message, .. } => {
                if self.books(who).closed {
                    self.fail(|| format!("{who:?} sends after it closed its link: {message:?}"));
                }
                match message {
                    Outgoing::One(envelope) => self.sent(who, envelope, now, config, tainted),
                    Outgoing::Batch(entries) => {
                        for envelope in entries {
                            self.sent(who, envelope, now, config, tainted);
                        }
                    }
                    Outgoing::Raw(_) => {}
                }
            }
            Output::EndLane { lane } | Output::Release { lane, .. } => {
                self.fail(|| format!("{who:?} ends or releases {lane:?}, the only lane there is"));
            }
            Output::Retract { .. } => {}
            Output::Event(event) => self.event(who, event, now),
        }
    }

    fn sent(&mut self, who: Role, envelope: &Envelope, now: Moment, config: &Config, tainted: bool) {
        match envelope {
            Envelope::Reply(reply) => self.sent_reply(who, reply, tainted),
            Envelope::Call(call) => {
                let Some(id) = call.id.as_number() else {
                    return self.fail(|| format!("{who:?} gave a call the id {}", call.id));
                };
                let raw = call.params.raw();
                let nonce = raw.and_then(|raw| nonce_in(raw));
                self.hear(who, nonce.map(Ticket), now);
                // The next round of a call without a nonce: the server spoke, and whose it is nobody can tell.
                let next = |raw: &[u8]| memchr::memmem::find(raw, b"\"requestState\":").is_some();
                if nonce.is_none() && raw.is_some_and(|raw| next(raw)) {
                    self.books(who).unasked = now;
                }
                let sent = Sent { method: call.method.clone(), cancelled: false };
                if self.books(who).sent_ids.insert(id, sent).is_some() {
                    self.fail(|| format!("{who:?} gave the id {id} twice"));
                }
            }
            Envelope::Note(note) if note.method == Method::Cancelled => {
                let id = note.params.raw().and_then(|raw| number_after(raw, "\"requestId\":"));
                self.sent_cancel(who, id);
            }
            Envelope::Note(note) if note.method == Method::Progress => {
                let token = note.params.raw().and_then(|raw| number_after(raw, "\"progressToken\":"));
                self.sent_progress(who, token, now, config);
            }
            Envelope::Note(_) => {}
        }
    }

    /// CAN-5, F17: a call is answered once, and not at all once it was withdrawn.
    fn sent_reply(&mut self, who: Role, reply: &Reply, tainted: bool) {
        let Some(id) = &reply.id else { return };
        if reply.outcome.as_ref().is_err_and(is_about_a_frame) {
            return;
        }
        let mut last = None;
        for running in self.books(who).keys.values_mut().filter(|running| running.id == *id) {
            last = Some(running.phase);
            if running.phase == Phase::Running {
                running.phase = Phase::Answered;
                return;
            }
        }
        // An id that never came to a handler was answered by the core, or is one of many of an evil peer.
        if last.is_some() && !tainted && id.as_number().is_some() {
            self.fail(|| format!("{who:?} replies to call {id}, which is {last:?}"));
        }
    }

    /// VER-11: `initialize` is never cancelled, and nothing is cancelled twice.
    fn sent_cancel(&mut self, who: Role, id: Option<u64>) {
        let sent = id.and_then(|id| self.books(who).sent_ids.get_mut(&(id as i64)));
        let wrong = match sent {
            None => Some("was never called"),
            Some(sent) if sent.method == Method::Initialize => Some("is the handshake"),
            Some(sent) => std::mem::replace(&mut sent.cancelled, true).then_some("is cancelled already"),
        };
        if let Some(wrong) = wrong {
            self.fail(|| format!("{who:?} cancels {id:?}, which {wrong}"));
        }
    }

    /// F18: progress comes while the call runs, and no faster than the limit.
    fn sent_progress(&mut self, who: Role, token: Option<u64>, now: Moment, config: &Config) {
        let Some(token) = token else { return };
        let found = self.books(who).keys.values_mut().filter(|running| running.token == Some(token));
        let found = found.max_by_key(|running| running.phase == Phase::Running);
        let Some(running) = found else {
            return self.fail(|| format!("{who:?} tells the progress of {token}, which it never had"));
        };
        running.progress += 1;
        let phase = running.phase;
        if phase != Phase::Running {
            self.fail(|| format!("{who:?} tells the progress of {token}, which is {phase:?}"));
        }
        // A peer may give one token to several calls; whose progress it is nobody can tell then.
        let per_second = u64::from(config.limits.progress_per_second) + 1;
        let sharing = self.books(who).keys.values().filter(|running| running.token == Some(token));
        let (count, most) = sharing.fold((0, 0), |(count, most), running| {
            let seconds = now.since(running.since).as_secs() + 2;
            (count + running.progress, most + seconds * per_second)
        });
        if count > most {
            self.fail(|| format!("{who:?} told progress of {token} {count} times, at most {most} allowed"));
        }
    }

    /// A sign of life, from here on silence counts anew.
    fn hear(&mut self, who: Role, ticket: Option<Ticket>, now: Moment) {
        if let Some(entry) = ticket.and_then(|ticket| self.books(who).tickets.get_mut(&ticket)) {
            entry.heard = now;
        }
    }

    fn event(&mut self, who: Role, event: &Event, now: Moment) {
        match event {
            Event::Progressed { ticket, .. } => self.hear(who, Some(*ticket), now),
            Event::AskWithdrawn { .. } => self.books(who).unasked = now,
            Event::Asked { .. } => self.tally.asked += 1,
            Event::Called(_) => self.tally.called += 1,
            Event::Withdrawn { .. } => self.tally.withdrawn += 1,
            Event::Found(_) => self.tally.found += 1,
            _ => {}
        }
        match event {
            Event::State(change) => {
                let books = self.books(who);
                let before = books.state.replace(change.to).unwrap_or(State::Disconnected);
                if before != change.from || !change.from.may_become(change.to) {
                    self.fail(|| {
                        format!("{who:?} goes from {before:?} ({:?}) to {:?}", change.from, change.to)
                    });
                }
            }
            Event::Called(called) => self.called(who, called, now),
            Event::Withdrawn { key, .. } => {
                let phase = self
                    .books(who)
                    .keys
                    .get_mut(key)
                    .map(|running| std::mem::replace(&mut running.phase, Phase::Withdrawn));
                if phase != Some(Phase::Running) {
                    self.fail(|| format!("{who:?} withdraws {key:?}, which is {phase:?}"));
                }
            }
            Event::Settled { ticket, outcome } => self.settled(who, *ticket, outcome),
            Event::Progressed { ticket, .. }
            | Event::Listening { ticket, .. }
            | Event::Asked { ticket: Some(ticket), .. }
                if !self.is_open(who, *ticket) =>
            {
                self.fail(|| format!("{who:?} hears of {ticket:?}, which is settled: {event:?}"));
            }
            Event::Changed { tickets, .. } => {
                if let Some(ticket) = tickets.iter().find(|ticket| !self.is_open(who, **ticket)) {
                    self.fail(|| format!("{who:?} hears of {ticket:?}, which is settled: {event:?}"));
                }
            }
            Event::Asked { ask, ticket, what } => {
                let asked = what.params.as_ref().and_then(|raw| nonce_in(raw));
                if self.books(who).asks.insert(*ask, AskBook::Open).is_some() {
                    self.fail(|| format!("{who:?} is asked {ask:?} twice"));
                }
                if let Some(ticket) = ticket
                    && asked.is_some_and(|nonce| nonce != ticket.0)
                {
                    self.fail(|| format!("{who:?} is asked for {asked:?} in the name of {ticket:?}"));
                }
            }
            Event::AskWithdrawn { ask, .. } => {
                let before = self.books(who).asks.insert(*ask, AskBook::Done);
                if before != Some(AskBook::Open) {
                    self.fail(|| format!("{who:?} withdraws {ask:?}, which is {before:?}"));
                }
            }
            _ => {}
        }
    }

    fn is_open(&mut self, who: Role, ticket: Ticket) -> bool {
        self.books(who).tickets.get(&ticket).is_some_and(|entry| !entry.settled)
    }

    fn called(&mut self, who: Role, called: &Called, now: Moment) {
        let nonce = called.call.params.raw().and_then(|raw| nonce_in(raw));
        let (key, id) = (called.key, called.call.id.clone());
        if let Some(nonce) = nonce {
            if called.answers.is_none() {
                *self.received.entry(nonce).or_default() += 1;
            }
            if self.unsent.contains(&nonce) {
                self.fail(|| format!("P6: {who:?} has call {nonce}, which was said never to have left"));
            }
            let foreign =
                called.answers.iter().flatten().filter_map(|(_, answer)| nonce_in(answer.as_ref().ok()?));
            for other in foreign.filter(|other| *other != nonce).collect::<Vec<_>>() {
                self.fail(|| format!("P2: {who:?} has the answer to {other} in call {nonce}"));
            }
        }
        let token = called.call.params.meta(MetaKey::ProgressToken).and_then(|raw| number_at(&raw));
        let running = Running { id, token, nonce, phase: Phase::Running, since: now, progress: 0 };
        if let Some(before) = self.books(who).keys.insert(key, running) {
            // The next round of a call keeps its key; nothing else may.
            let goes_on = before.phase == Phase::Running && called.answers.is_some() && before.nonce == nonce;
            if !goes_on {
                self.fail(|| format!("{who:?} is called under {key:?} again, which was {:?}", before.phase));
            }
        }
    }

    /// P1: one outcome per ticket. P2: it belongs to it.
    fn settled(&mut self, who: Role, ticket: Ticket, outcome: &Outcome) {
        *match outcome {
            Outcome::Done(_) => &mut self.tally.done,
            Outcome::Fault(_) => &mut self.tally.fault,
            Outcome::TimedOut { .. } => &mut self.tally.timed_out,
            Outcome::Cancelled { .. } => &mut self.tally.cancelled,
            Outcome::Lost { .. } => &mut self.tally.lost,
            Outcome::Violated(_) => &mut self.tally.violated,
            _ => &mut self.tally.refused,
        } += 1;
        let Some(entry) = self.books(who).tickets.get_mut(&ticket) else {
            return self.fail(|| format!("{who:?} settles {ticket:?}, which it never had"));
        };
        let kind = entry.kind;
        if std::mem::replace(&mut entry.settled, true) {
            return self.fail(|| format!("P1: {who:?} settles {ticket:?} a second time: {outcome:?}"));
        }
        match outcome {
            Outcome::Done(result) if kind == Kind::Echo => {
                let nonce = nonce_in(result);
                if nonce != Some(ticket.0) {
                    self.fail(|| format!("P2: {who:?} has the result of {nonce:?} for {ticket:?}"));
                }
            }
            Outcome::TimedOut { delivery: Delivery::NotSent, .. }
            | Outcome::Cancelled { delivery: Delivery::NotSent, .. }
            | Outcome::Lost { delivery: Delivery::NotSent, .. }
            | Outcome::Refused(_) => {
                self.unsent.push(ticket.0);
                if self.received.contains_key(&ticket.0) {
                    self.fail(|| {
                        format!("P6: {ticket:?} was said never to have left, but arrived: {outcome:?}")
                    });
                }
            }
            _ => {}
        }
    }

    /// After every input of a side.
    pub fn stepped(&mut self, who: Role, session: &Session, outputs: usize, config: &Config) {
        let books = self.books(who);
        let known = books.tickets.len() + books.keys.len() + books.asks.len();
        if outputs > OUTPUTS_MAX + 4 * known {
            self.fail(|| format!("{who:?} wants {outputs} things done at once"));
        }
        let (inbound, outbound) = session.in_flight();
        if who == Role::Server && outbound > 0 && !self.server.waits() {
            self.fail(|| format!("the server waits for {outbound} replies that nobody wants"));
        }
        if who == Role::Server && inbound > config.limits.calls_inbound {
            self.fail(|| format!("{inbound} calls run, at most {} allowed", config.limits.calls_inbound));
        }
        if self.books(who).state.unwrap_or(State::Disconnected) != session.state() {
            self.fail(|| format!("{who:?} is {:?}, but did not say so", session.state()));
        }
    }

    /// After every step: no call outlives its total deadline, and none outlives its idle deadline while
    /// nobody is asked. `late` is how late a tick may come.
    pub fn check_deadlines(&mut self, now: Moment, late: Duration) {
        for who in [Role::Client, Role::Server] {
            let books = self.books(who);
            if books.asks.values().any(|ask| *ask == AskBook::Open) {
                books.unasked = now;
            }
            let unasked = books.unasked;
            let overdue = books.tickets.iter().find(|(_, entry)| {
                let total = entry.deadline;
                let idle = entry.idle.map(|idle| entry.heard.max(unasked) + idle);
                !entry.settled && [total, idle].into_iter().flatten().any(|deadline| now > deadline + late)
            });
            if let Some((ticket, _)) = overdue {
                let ticket = *ticket;
                self.fail(|| format!("{who:?} still waits for {ticket:?} at {now:?}, past its deadline"));
            }
        }
    }

    /// Everything is at rest on an honest link: whatever could end has ended.
    pub fn check_rest(&mut self, client: &Session, server: &Session) {
        for (who, session) in [(Role::Client, client), (Role::Server, server)] {
            let books = self.books(who);
            let waiting =
                books.tickets.iter().find(|(_, entry)| !entry.settled && entry.kind != Kind::Listen);
            if let Some((ticket, _)) = waiting {
                let ticket = *ticket;
                self.fail(|| format!("at rest, {who:?} still waits for {ticket:?}"));
            }
            let (inbound, _) = session.in_flight();
            if inbound > 0 {
                self.fail(|| format!("at rest, {inbound} calls still run on the {who:?}"));
            }
        }
    }

    /// S0-43, P5: the link is gone on both sides: nothing is left.
    pub fn check_end(&mut self, who: Role, session: &Session) {
        let books = self.books(who);
        let open = books.tickets.iter().find(|(_, entry)| !entry.settled).map(|(ticket, _)| *ticket);
        let running =
            books.keys.iter().find(|(_, running)| running.phase == Phase::Running).map(|(key, _)| *key);
        let asked = books.asks.iter().find(|(_, ask)| **ask == AskBook::Open).map(|(ask, _)| *ask);
        if let Some(ticket) = open {
            self.fail(|| format!("P1: {who:?} never settles {ticket:?}"));
        }
        if let Some(key) = running {
            self.fail(|| format!("{who:?} neither answers nor withdraws {key:?}"));
        }
        if let Some(ask) = asked {
            self.fail(|| format!("{who:?} leaves {ask:?} open"));
        }
        if session.in_flight() != (0, 0) || session.deadline().is_some() {
            self.fail(|| format!("P5: {who:?} ends with {:?} in flight", session.in_flight()));
        }
        if !matches!(session.state(), State::Disconnected | State::Closed) {
            self.fail(|| format!("{who:?} ends {:?}", session.state()));
        }
    }

    /// P6: nothing is done twice, unless the evil peer said it twice.
    pub fn check_repeats(&mut self) {
        let twice = self.received.iter().find(|(_, count)| **count > 1).map(|(nonce, _)| *nonce);
        if let Some(nonce) = twice {
            self.fail(|| format!("P6: call {nonce} was received twice"));
        }
    }
}

/// A second frame with the id of a call, or a broken one, is refused under that id; the call runs on.
fn is_about_a_frame(fault: &Fault) -> bool {
    fault.code == code::INVALID_REQUEST && fault.data.is_none()
}

fn total_deadline(options: CallOptions, config: &Config, now: Moment) -> Option<Moment> {
    let total = options.total.unwrap_or(config.limits.call_total_timeout);
    (!total.is_zero()).then(|| now + total)
}

/// The number after the first `marker`, if there is one.
pub(crate) fn number_after(text: &[u8], marker: &str) -> Option<u64> {
    let at = text.windows(marker.len()).position(|window| window == marker.as_bytes())? + marker.len();
    number_at(&text[at..])
}

fn number_at(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(None, |number, digit| {
        Some(number.unwrap_or(0u64).wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    })
}
