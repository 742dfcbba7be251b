//! Server: answering the peer's calls. The era is picked per call and remembered with it.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use super::Session;
use super::config::{Interests, Role};
use super::event::{
    Answer, Answers, Ask, Asks, CallKey, CallOptions, Called, Cause, Event, LaneId, LogLevel, Outcome,
    Outgoing, Output, Refusal, Steps, Ticket, Turn,
};
use super::progress::{self, Pace};
use super::state::State;
use super::tables::{BatchKey, Purpose, Round, Running};
use crate::dialect::quirk::Quirk;
use crate::dialect::tutorial;
use crate::era::caps::ClientCaps;
use crate::era::gates::UnreadId;
use crate::era::{self, Era, Readiness, Revision, Said, gates};
use crate::finding::Rule;
use crate::jsonrpc::envelope::{Call, Envelope, MetaKey, Note, Param, Params, Reply};
use crate::jsonrpc::fault::{Fault, code};
use crate::jsonrpc::id::CallId;
use crate::method::{Kind, Method, Sender};

impl Session {
    /// A call arrived: refuse it, answer it here, or hand it to our side.
    pub(super) fn serve(&mut self, lane: LaneId, call: Call, batch: Option<BatchKey>) {
        if self.inbound.find(&call.id).is_some() || self.standing.has(&call.id) {
            self.find(Rule::DuplicateCall, Some(call.id.clone()), call.method.to_string());
            let fault =
                Fault::new(code::INVALID_REQUEST, "a call with this id is still running; use another id");
            let revision = self.revision().unwrap_or(Revision::LATEST_MODERN);
            return self.reply(lane, batch, Some(call.id), revision, Err(fault));
        }
        if tutorial::is_shutdown(&call.method) && self.config.dialect.grants(Quirk::ShutdownHeard) {
            return self.peer_leaves(lane, call, batch);
        }
        // To a server of legacy revisions only, the modern metadata is an unknown key like any other.
        let modern = self.config.revisions.newest(Era::Modern).is_some();
        let admitted = if modern && call.params.meta(MetaKey::ProtocolVersion).is_some() {
            self.admit_modern(&call, batch)
        } else {
            self.admit_legacy(&call, batch)
        };
        match admitted {
            Err(fault) => {
                let revision = self.revision().unwrap_or(Revision::LATEST_MODERN);
                self.reply_as_is(lane, batch, call.id, revision, fault);
            }
            Ok((revision, level)) => self.admitted(lane, call, batch, revision, level),
        }
    }

    fn admit_modern(
        &self,
        call: &Call,
        batch: Option<BatchKey>,
    ) -> Result<(Revision, Option<LogLevel>), Fault> {
        if batch.is_some() && !self.config.dialect.grants(Quirk::BatchAnyRevision) {
            return Err(Fault::new(
                code::INVALID_REQUEST,
                "this revision has no batches; send calls one by one",
            ));
        }
        era::admit(&call.params, &call.method, &self.config)
    }

    fn admit_legacy(
        &mut self,
        call: &Call,
        batch: Option<BatchKey>,
    ) -> Result<(Revision, Option<LogLevel>), Fault> {
        match (&call.method, self.shaken.as_ref().map(|shaken| shaken.revision)) {
            (Method::Initialize, _) if batch.is_some() => {
                self.find(Rule::BatchedOpening, Some(call.id.clone()), String::new());
                Err(Fault::new(code::INVALID_REQUEST, "initialize is never in a batch"))
            }
            (Method::Initialize, None) => Ok((Revision::LATEST_LEGACY, None)),
            (Method::Initialize, Some(_)) => {
                self.find(Rule::OpenedTwice, Some(call.id.clone()), String::new());
                Err(Fault::new(code::INVALID_REQUEST, "the session is initialized already"))
            }
            // A legacy client may see whether we live before it says hello.
            (Method::Ping, Some(revision)) => Ok((revision, None)),
            (Method::Ping, None) if self.config.revisions.newest(Era::Legacy).is_some() => {
                Ok((Revision::LATEST_LEGACY, None))
            }
            (_, Some(revision)) => {
                // A client that calls has gone on, whether it said so or not.
                self.peer_is_ready();
                Ok((revision, self.legacy_level()))
            }
            (_, None) if self.config.dialect.grants(Quirk::NoOpening) => {
                self.granted(Quirk::NoOpening);
                Ok((Revision::LATEST_LEGACY, None))
            }
            (_, None) => {
                self.find(Rule::BeforeOpening, Some(call.id.clone()), call.method.to_string());
                Err(Fault::invalid_params(format!(
                    "{} came before initialize and without _meta; either call initialize first or put \"{}\" into params._meta",
                    call.method,
                    MetaKey::ProtocolVersion.name()
                )))
            }
        }
    }

    fn admitted(
        &mut self,
        lane: LaneId,
        call: Call,
        batch: Option<BatchKey>,
        revision: Revision,
        level: Option<LogLevel>,
    ) {
        // Calls that flow the other way, and notes with an id, are no methods of a server.
        let foreign = call.method.sender() == Some(Sender::Server) || call.method.kind() == Some(Kind::Note);
        let known = !foreign && revision.has(&call.method) && self.config.dialect.speaks(&call.method);
        let untold = known && self.server.lacks(&call.method).is_some();
        if !known || untold {
            let fault = Fault::method_not_found(call.method.name());
            self.reply(lane, batch, Some(call.id.clone()), revision, Err(fault));
            if untold {
                self.event(Event::Untold(call));
            }
            return;
        }
        let room = self.inbound.len() < self.config.limits.calls_inbound;
        // Who was asked before the end began may still answer.
        let admits = room && (self.comes_back(&call) || self.state == State::Ready);
        if !admits {
            let why = if self.state == State::Ready { "too many calls in flight" } else { "shutting down" };
            let fault = Fault::new(code::BUSY, format!("{why}; try again later"));
            return self.reply(lane, batch, Some(call.id), revision, Err(fault));
        }
        match call.method {
            Method::Initialize => self.shake(lane, call),
            Method::Ping if batch.is_none() => self.pong(lane, call.id),
            Method::Ping => self.reply(lane, batch, Some(call.id), revision, Ok(Bytes::from_static(b"{}"))),
            Method::Discover => {
                let result = era::discover_result(&self.config);
                let result = revision.seal(&call.method, result, &self.config);
                self.reply(lane, batch, Some(call.id), revision, Ok(result));
            }
            Method::SubscriptionsListen => self.peer_listens(lane, call, revision),
            Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                self.peer_subscribes(lane, batch, call, revision)
            }
            Method::LoggingSetLevel => self.peer_sets_level(lane, batch, call, revision),
            _ => self.hand_over(lane, call, batch, revision, level),
        }
    }

    pub(super) fn hand_over(
        &mut self,
        lane: LaneId,
        call: Call,
        batch: Option<BatchKey>,
        revision: Revision,
        log_level: Option<LogLevel>,
    ) {
        let answers = match self.retry_answers(&call, revision) {
            Ok(answers) => answers,
            Err(fault) => {
                self.reply(lane, batch, Some(call.id), revision, Err(fault));
                return self.drained();
            }
        };
        // Only a call that runs is waited for: one refused here has its reply already.
        if let Some(batch) = batch {
            self.batches.add_call(batch);
        }
        let progress = progress::wanted(&call.params);
        let running = Running {
            call: call.clone(),
            lane,
            revision,
            log_level,
            batch,
            rounds: 0,
            round: None,
            answers: Answers::new(),
            pace: Pace::default(),
        };
        let key = self.inbound.insert(running);
        let capabilities = self.declared(&call, revision);
        self.event(Event::Called(Called { key, call, revision, answers, capabilities, log_level, progress }));
    }

    /// The answers that a modern retry brings. Extra ones are the handler's to ignore.
    fn retry_answers(&self, call: &Call, revision: Revision) -> Result<Option<Answers>, Fault> {
        if revision.era() == Era::Legacy || !call.method.may_ask() {
            return Ok(None);
        }
        let state = call.params.get(Param::RequestState);
        // Anything but a string was never ours, and must not pass for none.
        if state.as_ref().is_some_and(|state| state.first() != Some(&b'"')) {
            return Err(Fault::invalid_params("params.requestState: not a string; send it back as it came"));
        }
        let Some(raw) = call.params.get(Param::InputResponses) else {
            return Ok(state.map(|_| Answers::new()));
        };
        let map: BTreeMap<Box<str>, &serde_json::value::RawValue> =
            serde_json::from_slice(&raw).map_err(|error| {
                Fault::invalid_params(format!("params.inputResponses: {error}; send an object of results"))
            })?;
        if map.len() > self.config.limits.asks_per_round {
            return Err(Fault::invalid_params("params.inputResponses: too many entries"));
        }
        if let Some((name, _)) = map.iter().find(|(_, answer)| !answer.get().starts_with('{')) {
            return Err(Fault::invalid_params(format!("params.inputResponses/{name}: not an object")));
        }
        Ok(Some(
            map.into_iter()
                .map(|(name, answer)| (name, Ok(raw.slice_ref(answer.get().as_bytes()))))
                .collect(),
        ))
    }

    fn shake(&mut self, lane: LaneId, call: Call) {
        match era::handshake(&call.params, &self.config) {
            Ok((shaken, result)) => {
                let revision = shaken.revision;
                self.shaken = Some(shaken);
                self.reply(lane, None, Some(call.id), revision, Ok(result));
            }
            Err(fault) => self.reply_as_is(lane, None, call.id, Revision::LATEST_MODERN, fault),
        }
    }

    /// The client went on after the handshake.
    pub(super) fn peer_is_ready(&mut self) {
        if let Some(shaken) = &mut self.shaken
            && shaken.readiness == Readiness::Awaited
        {
            shaken.readiness = Readiness::Told;
            let (revision, capabilities) = (shaken.revision, shaken.capabilities.clone());
            let identity = shaken.identity.take();
            self.event(Event::Greeted { revision, capabilities, identity });
        }
    }

    fn peer_sets_level(&mut self, lane: LaneId, batch: Option<BatchKey>, call: Call, revision: Revision) {
        #[derive(Deserialize)]
        struct Wire {
            level: String,
        }
        let level = call.params.decode::<Wire>().ok().and_then(|wire| LogLevel::parse(&wire.level));
        let outcome = match level {
            Some(level) => {
                self.log_level = Some(level);
                if self.config.interests == Interests::Handed {
                    return self.hand_over(lane, call, batch, revision, Some(level));
                }
                Ok(Bytes::from_static(b"{}"))
            }
            None => Err(Fault::invalid_params(
                "params.level: use one of debug, info, notice, warning, error, critical, alert, emergency",
            )),
        };
        self.reply(lane, batch, Some(call.id), revision, outcome);
    }

    /// A handler is done, or needs input. A late answer finds no call and is dropped.
    pub(super) fn answer(&mut self, key: CallKey, answer: Answer) {
        match answer {
            Answer::Ask(asks) => self.ask(key, asks),
            Answer::Done(result) => self.finish(key, Ok(result)),
            Answer::Bare(result) => self.finish_bare(key, result),
            Answer::Sealed(result) => self.finish_sealed(key, result),
            Answer::Fault(fault) => self.finish(key, Err(fault)),
        }
    }

    fn finish(&mut self, key: CallKey, outcome: Result<Bytes, Fault>) {
        let Some(running) = self.finished(key) else { return };
        let revision = running.revision;
        let outcome = match running.call.method {
            Method::SubscriptionsListen => outcome.map(|_| Self::closing(&running.call.id)),
            _ => outcome,
        };
        let outcome = outcome.and_then(|result| self.sealed(&running.call, revision, result));
        self.reply(running.lane, running.batch, Some(running.call.id), revision, outcome);
        self.drained();
    }

    /// The result as the call's revision writes it.
    fn sealed(&self, call: &Call, revision: Revision, result: Bytes) -> Result<Bytes, Fault> {
        let said = match revision.era() {
            Era::Legacy => Said::Something,
            Era::Modern => Said::by(&result),
        };
        match said {
            Said::Nothing => Ok(revision.seal_bare(&call.method, result, &self.config)),
            // A client that declared no extension would misread a result of a type that one defines.
            Said::Extended if !ClientCaps::read(&self.declared(call, revision)).extensions => {
                Err(Fault::internal("the result is of a type that the client did not declare"))
            }
            Said::Something | Said::Extended => Ok(revision.seal(&call.method, result, &self.config)),
        }
    }

    fn finish_bare(&mut self, key: CallKey, result: Bytes) {
        let Some(running) = self.finished(key) else { return };
        let revision = running.revision;
        let result = revision.seal_bare(&running.call.method, result, &self.config);
        self.reply(running.lane, running.batch, Some(running.call.id), revision, Ok(result));
        self.drained();
    }

    fn finish_sealed(&mut self, key: CallKey, result: Bytes) {
        let Some(running) = self.finished(key) else { return };
        if running.revision.era() == Era::Modern && running.call.method.may_ask() {
            self.asked_by(&result);
        }
        self.reply(running.lane, running.batch, Some(running.call.id), running.revision, Ok(result));
        self.drained();
    }

    /// We leave, and the time for what runs is over: its callers are told, rather than finding the link gone.
    /// Their handlers end with the link.
    pub(super) fn give_up_inbound(&mut self, cause: &Cause) {
        let Cause::ClosedByUs(reason) = cause else { return };
        for key in self.inbound.keys() {
            let message = format!("the call was given up after it had begun: {reason}");
            let fault = Fault::internal(message)
                .with_data(&json!({ "outcome": "lost", "delivery": "sent", "mayHaveExecuted": true }));
            self.finish(key, Err(fault));
        }
    }

    fn finished(&mut self, key: CallKey) -> Option<Running> {
        self.send_held(key);
        let running = self.inbound.remove(key)?;
        self.drop_asks_of(key);
        Some(running)
    }

    /// What the client of this call declared: with the call, or once for all in the handshake.
    fn declared(&self, call: &Call, revision: Revision) -> Bytes {
        match revision.era() {
            Era::Modern => call.params.meta(MetaKey::ClientCapabilities).unwrap_or_default(),
            Era::Legacy => self.shaken.as_ref().map_or_else(Bytes::new, |shaken| shaken.capabilities.clone()),
        }
    }

    /// May this call be answered with a task, or be about one?
    pub(super) fn declares_tasks(&self, call: &Call, revision: Revision) -> bool {
        ClientCaps::read(&self.declared(call, revision)).tasks
    }

    /// Carries asks in the way of the call's era.
    fn ask(&mut self, key: CallKey, asks: Asks) {
        let max_rounds = self.config.limits.ask_rounds;
        let Some(running) = self.inbound.get_mut(key) else { return };
        running.rounds += 1;
        let (revision, rounds, method) = (running.revision, running.rounds, running.call.method.clone());
        let call = running.call.clone();
        let caps = ClientCaps::read(&self.declared(&call, revision));
        if rounds > max_rounds {
            return self.finish(key, Err(Fault::internal("the call asked for input too often")));
        }
        if let Some(mistake) = impossible(&method, &asks, self.config.limits.asks_per_round) {
            return self.finish(key, Err(Fault::internal(mistake)));
        }
        if let Some(required) = asks.entries.iter().find_map(|(_, ask)| caps.lacks_to_send(ask, revision)) {
            return self.finish(key, Err(Fault::missing_capability(&required)));
        }
        match revision.era() {
            Era::Modern => {
                let result = era::input_required(&asks, revision, &self.config);
                let Some(running) = self.inbound.remove(key) else { return };
                if let Some(state) = &asks.state {
                    self.asked_with(state);
                }
                self.reply(running.lane, running.batch, Some(running.call.id), revision, Ok(result));
                self.drained();
            }
            Era::Legacy => self.ask_by_calls(key, asks, revision),
        }
    }

    fn ask_by_calls(&mut self, key: CallKey, asks: Asks, revision: Revision) {
        let Some(running) = self.inbound.get_mut(key) else { return };
        let lane = running.lane;
        let answers = std::mem::take(&mut running.answers);
        running.round = Some(Round { waiting: asks.entries.len(), answers });
        if asks.entries.is_empty() {
            return self.next_round(key);
        }
        for (name, ask) in asks.entries {
            let params = revision.dress_ask(&ask);
            self.call_peer(lane, Purpose::Ask { key, name }, ask.method, params, revision);
        }
    }

    /// A handler asks while it goes on. Only legacy clients can be asked so, and each on the lane of its call.
    pub(super) fn ask_within(&mut self, key: CallKey, ticket: Ticket, ask: Ask) {
        let Some(running) = self.inbound.get(key).filter(|running| running.revision.era() == Era::Legacy)
        else {
            return self.settle(ticket, Outcome::Refused(Refusal::NotOpen));
        };
        let (lane, revision) = (running.lane, running.revision);
        let caps = ClientCaps::read(&self.declared(&running.call, revision));
        if caps.lacks_to_send(&ask, revision).is_some() || !revision.has(&ask.method) {
            let lacking = Refusal::Capability("what is asked for");
            return self.settle(ticket, Outcome::Refused(lacking));
        }
        let params = revision.dress_ask(&ask);
        // A person may think: only the time in all counts.
        let (idle, progress) = (Some(Duration::ZERO), ask.progress());
        let options = CallOptions { idle, progress, steps: Steps::Whole, ..CallOptions::default() };
        self.start(Purpose::Call(ticket), ask.method, params, options, Some(revision), lane, 0);
    }

    /// One ask was answered. When all are, the handler goes on.
    pub(super) fn ask_answered(&mut self, key: CallKey, name: Box<str>, outcome: Result<Bytes, Fault>) {
        let Some(running) = self.inbound.get_mut(key) else { return };
        let Some(round) = &mut running.round else { return };
        round.answers.push((name, outcome));
        round.waiting = round.waiting.saturating_sub(1);
        if round.waiting == 0 {
            self.next_round(key);
        }
    }

    fn next_round(&mut self, key: CallKey) {
        let Some(running) = self.inbound.get_mut(key) else { return };
        let Some(round) = running.round.take() else { return };
        let call = running.call.clone();
        let progress = progress::wanted(&call.params);
        running.answers.clone_from(&round.answers);
        let (revision, log_level) = (running.revision, running.log_level);
        let capabilities = self.declared(&call, revision);
        self.event(Event::Called(Called {
            key,
            call,
            revision,
            answers: Some(round.answers),
            capabilities,
            log_level,
            progress,
        }));
    }

    /// The level of the legacy session: what the client set, or our own choice before that.
    fn legacy_level(&self) -> Option<LogLevel> {
        match self.config.interests {
            Interests::Kept => self.server.logging.then(|| self.log_level.unwrap_or(LogLevel::Info)),
            // Whoever is behind us has a level of its own, and may log without having announced it.
            Interests::Handed => Some(self.log_level.unwrap_or(LogLevel::Debug)),
        }
    }

    /// A log note: on its call's lane and by its call's level; legacy ones also without a call.
    pub(super) fn log(&mut self, key: Option<CallKey>, level: LogLevel, params: Bytes) {
        if !self.server.logging && self.config.interests == Interests::Kept {
            return;
        }
        let running = key.and_then(|key| self.inbound.get(key));
        let (lane, wanted) = match running {
            Some(running) if running.revision.era() == Era::Modern => (running.lane, running.log_level),
            Some(running) => (running.lane, self.legacy_level()),
            None if key.is_some() => return,
            None if !self.carrier.pushes() => return,
            None => (LaneId::MAIN, self.legacy_level().filter(|_| self.shaken.is_some())),
        };
        if wanted.is_some_and(|wanted| level >= wanted)
            && self.logs.admits(self.now, self.config.limits.log_per_second)
        {
            self.send_note(lane, Method::Message, Some(params));
        }
    }

    /// A reply, its fault in the words of the revision.
    pub(super) fn reply(
        &mut self,
        lane: LaneId,
        batch: Option<BatchKey>,
        id: Option<CallId>,
        revision: Revision,
        outcome: Result<Bytes, Fault>,
    ) {
        let outcome = outcome.map_err(|fault| revision.seal_fault(fault));
        let reply = Envelope::Reply(Reply { id, outcome });
        match batch {
            None => self.send(lane, Outgoing::One(reply), lane != LaneId::MAIN),
            Some(batch) => {
                let done = self.batches.answer(batch, reply);
                self.flush_batch(done);
            }
        }
    }

    /// The answer to a ping. Bulk must not make us look dead.
    pub(super) fn pong(&mut self, lane: LaneId, id: CallId) {
        let reply = Reply { id: Some(id), outcome: Ok(Bytes::from_static(b"{}")) };
        let last = self.config.role == Role::Server && lane != LaneId::MAIN;
        self.send_at(Turn::Ahead, lane, Outgoing::One(Envelope::Reply(reply)), last);
    }

    /// A fault that already speaks for its era, such as the refusal of a revision.
    fn reply_as_is(
        &mut self,
        lane: LaneId,
        batch: Option<BatchKey>,
        id: CallId,
        revision: Revision,
        fault: Fault,
    ) {
        let revision = if fault.is_modern() { Revision::LATEST_MODERN } else { revision };
        self.reply(lane, batch, Some(id), revision, Err(fault));
    }

    /// A reply to something whose id may not be readable.
    pub(super) fn reply_unread(
        &mut self,
        lane: LaneId,
        batch: Option<BatchKey>,
        id: Option<CallId>,
        revision: Revision,
        fault: Fault,
    ) {
        let id = match gates(revision).unread_id {
            UnreadId::Null => id.or_else(|| Some(CallId::null())),
            UnreadId::Omitted => id,
        };
        self.reply(lane, batch, id, revision, Err(fault));
    }

    pub(super) fn flush_batch(&mut self, done: Option<(LaneId, Vec<Envelope>)>) {
        match done {
            Some((lane, replies)) if replies.is_empty() => self.end_lane(lane),
            Some((lane, replies)) => self.send(lane, Outgoing::Batch(replies), lane != LaneId::MAIN),
            None => {}
        }
    }

    /// A lane that belongs to one call ends with it.
    pub(super) fn end_lane(&mut self, lane: LaneId) {
        if lane != LaneId::MAIN {
            self.out.push_back(Output::EndLane { lane });
        }
    }

    /// A handler lets its caller go until the answer is there. Callers of other revisions would not know
    /// to come back, so they are kept.
    pub(super) fn release(&mut self, key: CallKey, retry: Duration) {
        if let Some(running) = self.inbound.get(key)
            && running.lane != LaneId::MAIN
            && gates(running.revision).priming_event
        {
            self.out.push_back(Output::Release { lane: running.lane, retry });
        }
    }

    pub(super) fn send_note(&mut self, lane: LaneId, method: Method, params: Option<Bytes>) {
        let params = params.map_or_else(Params::none, Params::outgoing);
        self.noted = true;
        self.send(lane, Outgoing::One(Envelope::Note(Note { method, params })), false);
    }
}

/// Asks that no client could answer: a mistake of the handler.
fn impossible(method: &Method, asks: &Asks, max: usize) -> Option<&'static str> {
    let names: HashSet<_> = asks.entries.iter().map(|(name, _)| name).collect();
    if !method.may_ask() {
        Some("a call of this method cannot ask for input")
    } else if asks.entries.is_empty() && asks.state.is_none() {
        Some("the call asked for nothing")
    } else if names.len() < asks.entries.len() {
        Some("two asks have the same name")
    } else if asks.entries.iter().any(|(_, ask)| !ask.method.is_ask()) {
        Some("an ask is neither elicitation nor sampling nor roots")
    } else if asks.entries.len() > max {
        Some("too many asks in one round")
    } else {
        None
    }
}
