//! The session machine: everything the protocol does on one link, as one value.
//!
//! Feed it what happens with [`Session::handle`], take what it wants done with [`Session::poll`],
//! and come back no later than [`Session::deadline`]. It never waits, never reads a clock and never
//! refuses to read: the reply it waits for may be behind the call it would refuse.
//!
//! This file dispatches. `serve` answers the peer's calls, `calls` makes ours, `opening` settles the
//! era, `asks`, `listens`, `progress` and `batches` do what their names say, `carrier` knows what the link
//! has done, `tables` remembers who waits for what, `meant` judges what is no message or no proper answer, `inside` finds
//! answers in what is none.

mod asks;
mod batches;
mod calls;
mod carrier;
pub mod config;
mod edge;
pub mod event;
mod failed;
mod heal;
mod inside;
mod listens;
mod meant;
mod notes;
mod opening;
mod options;
mod outcome;
mod progress;
pub mod replay;
mod returning;
mod serve;
mod shapes;
pub mod state;
mod tables;
mod updated;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use self::asks::PendingAsks;
use self::batches::Batches;
use self::carrier::Carrier;
use self::config::{Config, Role};
use self::event::{
    CallKey, Cause, Command, Event, Input, LaneId, LogLevel, Outcome, Outgoing, Output, Ticket, Turn,
};
use self::heal::Heal;
use self::inside::Inside;
use self::listens::{Heard, Standing};
use self::meant::Torn;
use self::opening::Opening;
use self::progress::LogPace;
use self::returning::Returning;
use self::state::{State, StateChange};
use self::tables::{BatchKey, Inbound, Outbound};
use crate::dialect::quirk::{Quirk, Tally};
use crate::era::caps::{ClientCaps, ServerCaps};
use crate::era::{Era, Handshake, Readiness, Revision, gates};
use crate::finding::{Finding, Findings, Rule, Strictness, excerpt};
use crate::jsonrpc::envelope::{self, Decoded, Envelope, Violation};
use crate::jsonrpc::id::CallId;
use crate::moment::Moment;

/// What a turn usually has to say: room for it is made once, and is small enough for any allocator's quick path.
const TURN: usize = 3;

/// Protocol state for one peer.
#[derive(Debug)]
pub struct Session {
    config: Arc<Config>,
    now: Moment,
    state: State,
    /// The server's capabilities: ours, or those the server declared.
    server: ServerCaps,
    /// The client's capabilities, when that is us.
    client: ClientCaps,
    /// Client: the settled revision.
    revision: Option<Revision>,
    /// Server: the legacy handshake, once it was done.
    shaken: Option<Handshake>,
    opening: Opening,
    /// Client: the legacy session is being replaced.
    heal: Heal,
    inbound: Inbound,
    outbound: Outbound,
    batches: Batches,
    asks: PendingAsks,
    /// Server: interests of the peer.
    standing: Standing,
    /// Client: interests of ours.
    heard: Heard,
    log_level: Option<LogLevel>,
    /// Server: how many log notes went out of late.
    logs: LogPace,
    out: VecDeque<Output>,
    findings: Findings,
    quirks: Tally,
    /// Frames that arrived.
    frames: u64,
    /// The one that is being dealt with, for what is found in it.
    current: Bytes,
    /// Client: a note of ours was sent since the last reply, which a server that answers everything may answer yet.
    noted: bool,
    carrier: Carrier,
    noise: usize,
    torn: Torn,
    inside: Inside,
    /// When the earliest of our deadlines may pass; never later than it does.
    alarm: Option<Moment>,
    drain: Option<(Moment, Cause)>,
    /// Server: clients that were asked something.
    returning: Returning,
    /// Why we ended the link, until it is gone.
    ended: Option<Cause>,
    /// Strict: the rule whose breach ends the link, once the input that broke it is dealt with.
    broken: Option<Rule>,
}

impl Session {
    /// A session without a link yet.
    #[must_use]
    pub fn new(config: Arc<Config>, now: Moment) -> Self {
        let config = crate::dialect::narrowed(config);
        let (server, client) = match config.role {
            Role::Server => (*config.server_caps(), ClientCaps::default()),
            Role::Client => (ServerCaps::default(), ClientCaps::read(&config.capabilities)),
        };
        Self {
            config,
            now,
            state: State::Disconnected,
            server,
            client,
            revision: None,
            shaken: None,
            opening: Opening::default(),
            heal: Heal::default(),
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            batches: Batches::default(),
            asks: PendingAsks::default(),
            standing: Standing::default(),
            heard: Heard::default(),
            log_level: None,
            logs: LogPace::default(),
            out: VecDeque::with_capacity(TURN),
            findings: Findings::default(),
            quirks: Tally::default(),
            frames: 0,
            current: Bytes::new(),
            noted: false,
            carrier: Carrier::default(),
            noise: 0,
            torn: Torn::default(),
            inside: Inside::default(),
            alarm: None,
            drain: None,
            returning: Returning::default(),
            ended: None,
            broken: None,
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Moment, input: Input) {
        debug_assert!(now >= self.now, "time never runs backwards");
        self.now = now.max(self.now);
        match input {
            // What was on its way when the link ended concerns nobody any more.
            Input::Frame { .. }
            | Input::Read { .. }
            | Input::Broken { .. }
            | Input::Failed { .. }
            | Input::Noticed { .. }
            | Input::Doubted
                if !self.state.is_live() => {}
            Input::Frame { lane, bytes } => {
                self.current = bytes;
                self.frame(lane);
                self.current = Bytes::new();
            }
            Input::Read { lane, decoded } => {
                self.frames += 1;
                self.take(lane, decoded);
            }
            Input::Broken { lane, violation, excerpt } => {
                self.frames += 1;
                self.violated(lane, violation, &excerpt, None);
            }
            Input::Failed { id, cause, delivery } => self.failed(id, cause, delivery),
            Input::Noticed { rule, detail } => self.find(rule, None, detail.into()),
            Input::Doubted => self.event(Event::Doubted),
            Input::ReadClosed => self.read_closed(),
            Input::Closed { cause } => self.closed(&cause),
            Input::Local(command) => self.local(command),
            Input::Tick => self.tick(),
        }
        self.obey_strictness();
    }

    /// What to do next; nothing: wait for something to happen.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When to come back with [`Input::Tick`], if nothing else happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        let drain = self.drain.as_ref().map(|(until, _)| *until);
        let inside = self.inside.deadline(self.outbound.len());
        [self.alarm, self.opening.deadline, drain, inside].into_iter().flatten().min()
    }

    /// Where the session is.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The settled revision: a client's, or that of a server's legacy handshake.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        self.revision.or_else(|| self.shaken.as_ref().map(|shaken| shaken.revision))
    }

    /// What was recorded about the peer.
    #[must_use]
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// What the dialect had to grant, and how often.
    #[must_use]
    pub fn quirks(&self) -> &Tally {
        &self.quirks
    }

    /// Log notes that were dropped because they came too fast.
    #[must_use]
    pub fn dropped_logs(&self) -> u64 {
        self.logs.dropped()
    }

    /// Calls in flight: the peer's, and ours with those that wait for answers between two rounds. Both are
    /// zero at rest.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        (self.inbound.len(), self.outbound.len() + self.asks.between_rounds() + self.heal.waiting())
    }

    /// The answer that opened the session, for who wants more than the revision: the result of
    /// `initialize` or `server/discover`.
    #[must_use]
    pub fn greeting(&self) -> Option<&Bytes> {
        self.opening.greeting.as_ref()
    }

    /// What the server declared, or what we declared as one.
    #[must_use]
    pub fn server_caps(&self) -> &ServerCaps {
        &self.server
    }

    /// The current frame is dealt with.
    fn frame(&mut self, lane: LaneId) {
        self.frames += 1;
        self.carrier.arrived(self.current.len());
        let decoded = if self.config.dialect.translates() {
            let Some(bytes) = self.heard(&self.current.clone()) else { return };
            self.decoded(&bytes)
        } else {
            self.decoded(&self.current)
        };
        self.take(lane, decoded);
    }

    fn decoded(&self, bytes: &Bytes) -> Decoded {
        envelope::decode(bytes, self.config.strictness, &self.config.limits)
    }

    fn take(&mut self, lane: LaneId, decoded: Decoded) {
        match decoded {
            Decoded::One(Ok(envelope), repairs) => {
                self.noise = 0;
                self.torn = Torn::default();
                for rule in repairs {
                    self.find(rule, None, String::new());
                }
                self.arrived(lane, envelope, None);
            }
            Decoded::One(Err(violation), _) => self.violated(lane, violation, "", None),
            Decoded::Batch(entries) => self.batch(lane, entries),
        }
    }

    fn arrived(&mut self, lane: LaneId, envelope: Envelope, batch: Option<BatchKey>) {
        if self.broken.is_some() {
            return; // strict: what comes with a deviation is not obeyed
        }
        match (envelope, self.config.role) {
            (Envelope::Call(call), Role::Server) => self.serve(lane, call, batch),
            (Envelope::Call(call), Role::Client) => self.asked_by_call(lane, call),
            (Envelope::Note(note), Role::Server) => self.note_to_server(note),
            (Envelope::Note(note), Role::Client) => self.note_to_client(note),
            (Envelope::Reply(reply), _) => self.replied(reply),
        }
    }

    fn batch(&mut self, lane: LaneId, entries: Vec<(Result<Envelope, Violation>, Vec<Rule>)>) {
        let allowed = self.revision().is_some_and(|revision| gates(revision).batches);
        if !allowed && self.config.dialect.grants(Quirk::BatchAnyRevision) {
            self.granted(Quirk::BatchAnyRevision);
        } else if !allowed {
            self.find(Rule::BatchForbidden, None, format!("{} entries", entries.len()));
            if self.config.strictness != Strictness::Lenient {
                return self.refuse_batch(lane, entries);
            }
        }
        self.noise = 0;
        let key = self.batches.open(lane);
        for (entry, repairs) in entries {
            for rule in repairs {
                self.find(rule, None, String::new());
            }
            match entry {
                Ok(envelope) => self.arrived(lane, envelope, Some(key)),
                Err(violation) => self.violated(lane, violation, "batch entry", Some(key)),
            }
        }
        let done = self.batches.seal(key);
        self.flush_batch(done);
    }

    fn local(&mut self, command: Command) {
        match command {
            Command::Open => self.open(),
            Command::Call(call) => self.call(call, None),
            Command::CallBeside(beside) => self.call(beside.0, Some(beside.1)),
            Command::Note { method, params } => self.note(method, params),
            Command::Cancel { ticket, reason } => self.cancel(ticket, reason),
            Command::Answer { key, answer } => self.answer(key, answer),
            Command::Progress { key, progress } => self.progress(key, progress),
            Command::Step { key, params } => self.step(key, &params),
            Command::Release { key, retry } => self.release(key, retry),
            Command::Log { key, level, params } => self.log(key, level, params),
            Command::Change(change) => self.change(&change),
            Command::AskWithin { key, ticket, ask } => self.ask_within(key, ticket, ask),
            Command::Listening { key, interest } => self.listening(key, interest),
            Command::Tell { key, change } => self.tell(key, &change),
            Command::AnswerAsk { ask, outcome } => self.answer_ask(ask, outcome),
            Command::AskStep { ask, params } => self.ask_step(ask, &params),
            Command::Listen { ticket, interest } => self.listen(ticket, interest),
            Command::SetLevel(level) => self.set_level(level),
            Command::Close { reason } => self.close(reason),
            Command::Abandon { reason } => self.give_up(Cause::ClosedByUs(reason)),
        }
    }

    fn tick(&mut self) {
        self.inside_due();
        self.opening_due();
        self.release_progress();
        self.calls_due();
        if let Some((_, cause)) = self.drain.take_if(|(until, _)| *until <= self.now) {
            self.give_up(cause);
        }
        self.set_alarm();
    }

    /// Ends at once, and leaves nobody without an answer.
    fn give_up(&mut self, cause: Cause) {
        if self.state.is_live() {
            self.give_up_inbound(&cause);
            self.end(cause);
        }
    }

    /// The peer sends nothing more. What it asked for is still answered, within the grace.
    fn read_closed(&mut self) {
        if !self.state.is_live() {
            return;
        }
        match self.config.role {
            Role::Client => self.end(self.cause_or(Cause::ClosedByPeer)),
            Role::Server => {
                self.end_handed_listens();
                self.none_comes_back();
                self.drain(Cause::ClosedByPeer, self.config.limits.eof_grace);
            }
        }
    }

    fn close(&mut self, reason: std::borrow::Cow<'static, str>) {
        if !self.state.is_live() {
            if self.state == State::Disconnected {
                self.become_state(State::Closed, Some(Cause::ClosedByUs(reason)));
            }
            return;
        }
        let cause = Cause::ClosedByUs(reason.clone());
        match self.config.role {
            Role::Client => {
                self.give_up_all(reason);
                self.leave(cause);
            }
            Role::Server => {
                self.end_listens();
                self.drain(cause, self.config.limits.drain_timeout);
            }
        }
    }

    fn drain(&mut self, cause: Cause, grace: std::time::Duration) {
        // The first cause is the one that counts; the sooner end too.
        let (until, cause) = match self.drain.take() {
            Some((until, first)) => (until.min(self.now + grace), first),
            None => (self.now + grace, cause),
        };
        if self.inbound.len() == 0 && !self.awaits(&cause) {
            return self.end(cause);
        }
        if self.state == State::Ready {
            self.become_state(State::Draining, Some(cause.clone()));
        }
        self.drain = Some((until, cause));
    }

    /// After a call of the peer has ended: was it the last one we waited for?
    fn drained(&mut self) {
        if self.inbound.len() > 0 || self.drain.as_ref().is_some_and(|(_, cause)| self.awaits(cause)) {
            return;
        }
        if let Some((_, cause)) = self.drain.take() {
            self.end(cause);
        }
    }

    /// Ends the link from our side.
    fn end(&mut self, cause: Cause) {
        if matches!(self.state, State::Disconnecting | State::Disconnected | State::Closed) {
            return;
        }
        // Before its consequences: whoever obeys may learn more about the end before telling of it.
        self.out.push_back(Output::Close { cause: cause.clone() });
        self.become_state(State::Disconnecting, Some(cause.clone()));
        self.forget(&cause);
        self.ended = Some(cause);
    }

    /// The link is gone, by whoever. If we closed it, that is why, whatever the link says.
    fn closed(&mut self, cause: &Cause) {
        if matches!(self.state, State::Disconnected | State::Closed) {
            return;
        }
        self.carrier.lost();
        let ours = self.ended.take().filter(|ended| matches!(ended, Cause::ClosedByUs(_)));
        let cause = &ours.unwrap_or_else(|| self.cause_or(cause.clone()));
        let by_us = matches!(cause, Cause::ClosedByUs(_));
        if by_us && self.state.may_become(State::Disconnecting) {
            self.become_state(State::Disconnecting, None);
        }
        let rest = if by_us { State::Closed } else { State::Disconnected };
        self.become_state(rest, Some(cause.clone()));
        self.forget(cause);
    }

    /// Every call gets its outcome and every table is emptied.
    fn forget(&mut self, cause: &Cause) {
        self.batches = Batches::default();
        for key in self.inbound.keys() {
            self.withdraw(key, &cause.to_string());
        }
        self.lose_calls(cause);
        self.lose_waiting(cause);
        self.withdraw_asks(cause);
        self.standing = Standing::default();
        self.lose_listens(cause);
        self.opening.deadline = None;
        self.drain = None;
        self.none_comes_back();
        self.alarm = None;
        self.inside = Inside::default();
    }

    /// A call of the peer is no more: nothing further is sent for it.
    fn withdraw(&mut self, key: CallKey, reason: &str) {
        let Some(running) = self.inbound.remove(key) else { return };
        self.drop_asks_of(key);
        match running.batch {
            Some(batch) => {
                let done = self.batches.drop_call(batch);
                self.flush_batch(done);
            }
            None => self.end_lane(running.lane),
        }
        self.event(Event::Withdrawn { key, reason: reason.into() });
    }

    fn become_state(&mut self, to: State, cause: Option<Cause>) {
        debug_assert!(self.state.may_become(to), "{:?} to {to:?}", self.state);
        let from = std::mem::replace(&mut self.state, to);
        self.event(Event::State(StateChange { from, to, cause }));
    }

    fn send(&mut self, lane: LaneId, message: Outgoing, last: bool) {
        self.send_at(Turn::InOrder, lane, message, last);
    }

    /// Hands out a frame and tells its number; none: nothing is sent any more.
    fn send_at(&mut self, turn: Turn, lane: LaneId, message: Outgoing, last: bool) -> Option<u64> {
        // In a strict session a finding ends the link before its reply is written.
        if !self.state.is_live() || self.broken.is_some() {
            return None;
        }
        let message = if self.config.dialect.translates() { self.told(message)? } else { message };
        let frame = self.carrier.mint();
        self.out.push_back(Output::Send { lane, frame, turn, message, last });
        Some(frame)
    }

    fn event(&mut self, event: Event) {
        self.out.push_back(Output::Event(event));
    }

    /// Records a deviation. In strict mode the link ends with the input that brought it.
    fn find(&mut self, rule: Rule, call: Option<CallId>, detail: String) {
        let secrets = &self.config.secrets;
        let detail = secrets.redact(&detail).into();
        // A peer can put anything into an id.
        let call = call.filter(|id| !secrets.holds(&id.to_string()));
        let bytes = secrets.redact(&excerpt(&self.current, self.config.limits.excerpt_bytes)).into();
        let finding = Finding { frame: self.frames, rule, call, detail, bytes };
        self.findings.record(finding.clone(), self.config.limits.findings);
        self.event(Event::Found(finding));
        if self.config.strictness == Strictness::Strict && !is_informative(rule) {
            self.broken.get_or_insert(rule);
        }
    }

    fn obey_strictness(&mut self) {
        if let Some(rule) = self.broken.take() {
            self.end(Cause::Violated(rule));
        }
    }

    fn settle(&mut self, ticket: Ticket, outcome: Outcome) {
        self.event(Event::Settled { ticket, outcome });
    }

    /// Server: the legacy client, once it may be told things.
    fn ready_peer(&self) -> Option<&Handshake> {
        self.shaken.as_ref().filter(|shaken| shaken.readiness == Readiness::Told)
    }

    /// Client: the era is settled and modern.
    fn is_modern(&self) -> bool {
        self.revision.is_some_and(|revision| revision.era() == Era::Modern)
    }

    /// The alarm rings at the earliest deadline; ringing early does no harm.
    fn set_alarm(&mut self) {
        self.alarm = [self.earliest_call_deadline(), self.earliest_progress()].into_iter().flatten().min();
    }

    fn ring_by(&mut self, at: Moment) {
        self.alarm = Some(self.alarm.map_or(at, |alarm| alarm.min(at)));
    }
}

/// Races and deprecations are worth a line, never a broken link.
fn is_informative(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::LateReply
            | Rule::CancelUnknown
            | Rule::NoteUnknown
            | Rule::Deprecated
            | Rule::ProgressUnknown
            | Rule::PushLost
            | Rule::PostRefused
            | Rule::Foreign
            | Rule::FrameOnStderr
    )
}
