//! Our own calls: sent once, settled once, whatever the peer does.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

use super::Session;
use super::config::Role;
use super::event::{
    Ask, CallKey, CallOptions, Cause, Deadline, LaneId, LogLevel, NewCall, Outcome, Outgoing, Refusal,
    Rounds, Ticket, Turn, Vetting, Wanted,
};
use super::progress::Pace;
use super::state::State;
use super::tables::{Grave, Manner, Pending, Purpose};
use crate::era::caps::ClientCaps;
use crate::era::{Era, ModernMeta, Readiness, Revision, Unsealed, gates};
use crate::finding::{Rule, Strictness};
use crate::http::stray::Strays;
use crate::jsonrpc::envelope::{Call, Envelope, MetaKey, Note, Param, Params, Reply, Shape, Violation};
use crate::jsonrpc::fault::Fault;
use crate::jsonrpc::id::CallId;
use crate::jsonrpc::splice::{Edit, member_of, splice};
use crate::jsonrpc::write;
use crate::method::{Kind, Method, Sender};
use crate::model::logging::SetLevelParams;
use crate::moment::Moment;

impl Session {
    /// Someone on our side calls. Only a legacy session has to wait for another, and it has no use for `strays`.
    pub(super) fn call(&mut self, new: NewCall, strays: Option<Strays>) {
        let Some(new) = self.unless_healing(new) else { return };
        if let Some(refusal) = self.refusal(&new) {
            return self.settle(new.ticket, Outcome::Refused(refusal));
        }
        let revision = self.revision();
        let manner = Manner { options: new.options, strays };
        self.start(Purpose::Call(new.ticket), new.method, new.params, manner, revision, LaneId::MAIN, 0);
    }

    fn refusal(&self, new: &NewCall) -> Option<Refusal> {
        if self.state != State::Ready {
            return Some(Refusal::NotOpen);
        }
        if self.outbound.len() + self.asks.between_rounds() >= self.config.limits.calls_outbound {
            return Some(Refusal::TooMany);
        }
        if new.params.as_ref().is_some_and(|params| params.first() != Some(&b'{')) {
            return Some(Refusal::Params);
        }
        if self.config.role == Role::Server {
            return self.refusal_to_server(new);
        }
        if let Some(refusal) = self.config.dialect.refusal(new) {
            return Some(refusal);
        }
        if new.options.vetting == Vetting::Unvetted {
            return None;
        }
        let revision = self.revision?;
        if !revision.has(&new.method) {
            return Some(Refusal::NotInRevision(revision));
        }
        // Completion is older than its capability: such a server cannot declare it.
        let undeclarable =
            new.method == Method::CompletionComplete && !gates(revision).completions_capability;
        self.server.lacks(&new.method).filter(|_| !undeclarable).map(Refusal::Capability)
    }

    /// A server has a peer to call only in the legacy era, and only for what that peer declared.
    fn refusal_to_server(&self, new: &NewCall) -> Option<Refusal> {
        let Some(shaken) = &self.shaken else {
            return Some(Refusal::NotInRevision(Revision::LATEST_MODERN));
        };
        let foreign = new.method.sender() == Some(Sender::Client) || new.method.kind() == Some(Kind::Note);
        if foreign || !shaken.revision.has(&new.method) {
            return Some(Refusal::NotInRevision(shaken.revision));
        }
        if !self.carrier.pushes() {
            return Some(Refusal::NoPushes);
        }
        if new.method == Method::Ping {
            return None;
        }
        if shaken.readiness == Readiness::Awaited {
            return Some(Refusal::NotOpen);
        }
        let name = match new.method {
            Method::SamplingCreateMessage => "sampling",
            Method::ElicitationCreate => "elicitation",
            Method::RootsList => "roots",
            _ => return None,
        };
        let ask = Ask { method: new.method.clone(), params: new.params.clone() };
        let lacking = ClientCaps::read(&shaken.capabilities).lacks_to_send(&ask, shaken.revision);
        lacking.map(|_| Refusal::Capability(name))
    }

    /// A call that the session makes for itself.
    pub(super) fn call_peer(
        &mut self,
        lane: LaneId,
        purpose: Purpose,
        method: Method,
        params: Option<Bytes>,
        revision: Revision,
    ) {
        self.start(purpose, method, params, CallOptions::default(), Some(revision), lane, 0);
    }

    /// Puts a call on the wire and into the table.
    #[allow(clippy::too_many_arguments, reason = "one place writes the table's row")]
    pub(super) fn start(
        &mut self,
        purpose: Purpose,
        method: Method,
        params: Option<Bytes>,
        manner: impl Into<Manner>,
        revision: Option<Revision>,
        lane: LaneId,
        rounds: usize,
    ) -> i64 {
        let id = self.outbound.mint();
        let Manner { options, strays } = manner.into();
        let token = (options.progress == Wanted::Yes).then_some(id);
        let dressed = self.dress(params.as_ref(), token, revision);
        let (name, beside) = (method.clone(), strays.clone());
        let call = Call { id: CallId::from(id), method: name, params: dressed, strays: beside };
        // A call that could not be said has no frame, and nothing is known of it.
        let frame = self.send_at(Turn::of(&method), lane, Outgoing::One(Envelope::Call(call)), false);
        let (idle, total) = self.deadlines(&purpose, options);
        for at in [idle, total].into_iter().flatten() {
            self.ring_by(at);
        }
        let (started, seen_bytes) = (self.now, self.carrier.arrived_bytes());
        let pending = Pending {
            purpose,
            method,
            params,
            options,
            strays,
            revision,
            frame: frame.or(Some(0)),
            started,
            seen_bytes,
            idle,
            total,
            rounds,
            pace: Pace::default(),
        };
        self.outbound.insert(id, pending);
        id
    }

    /// The params with the metadata of the era. A progress token is the only one legacy calls carry.
    pub(super) fn dress(
        &self,
        params: Option<&Bytes>,
        token: Option<i64>,
        revision: Option<Revision>,
    ) -> Params {
        if let Some(revision) = revision.filter(|revision| revision.era() == Era::Modern) {
            let meta = ModernMeta { revision, log_level: self.log_level };
            return Params::outgoing(meta.dress(params, token, &self.config));
        }
        let Some(token) = token else {
            return params.cloned().map_or_else(Params::none, Params::outgoing);
        };
        let empty = Bytes::from_static(b"{}");
        let params = params.unwrap_or(&empty);
        let given = member_of(params, Param::Meta.name()).ok().flatten().unwrap_or_else(|| empty.clone());
        let token = token.to_string();
        let meta =
            splice(&given, &[Edit::Set(MetaKey::ProgressToken.name(), token.as_bytes())]).unwrap_or(given);
        let dressed = splice(params, &[Edit::Set(Param::Meta.name(), &meta)]);
        Params::outgoing(dressed.unwrap_or_else(|_| params.clone()))
    }

    fn deadlines(&self, purpose: &Purpose, options: CallOptions) -> (Option<Moment>, Option<Moment>) {
        let limits = &self.config.limits;
        let at = |wish: Option<Duration>, default: Duration| {
            let wait = wish.unwrap_or(default);
            (!wait.is_zero()).then(|| self.now + wait)
        };
        match purpose {
            // The opening keeps its own time, a listen has none, and a person may think.
            Purpose::Probe | Purpose::Handshake | Purpose::Listen(_) | Purpose::Farewell => (None, None),
            Purpose::Ask { .. } => (None, at(None, limits.call_total_timeout)),
            Purpose::Call(_) | Purpose::Subscribe(_) | Purpose::Errand => {
                (at(options.idle, limits.call_idle_timeout), at(options.total, limits.call_total_timeout))
            }
        }
    }

    /// A reply arrived. Where it is the last but one, it tells whose an answer was that did not.
    pub(super) fn replied(&mut self, reply: Reply) {
        self.settle_replied(reply);
        self.settle_claimed();
    }

    fn settle_replied(&mut self, reply: Reply) {
        // Without a handshake we called nobody: this is a modern client, and those never reply.
        if self.config.role == Role::Server && self.shaken.is_none() {
            return self.find(Rule::ClientReply, reply.id, String::new());
        }
        let Some(id) = self.claimed(&reply) else { return };
        let Some(mut pending) = self.outbound.remove(id, Grave::Answered, self.config.limits.tombstones)
        else {
            return;
        };
        self.tell_held(&mut pending);
        match pending.purpose.clone() {
            Purpose::Call(ticket) => {
                self.heal.answered();
                self.call_replied(ticket, id, pending, reply.outcome);
            }
            Purpose::Probe => self.probe_replied(&reply.outcome),
            Purpose::Handshake => self.handshake_replied(reply.outcome),
            Purpose::Ask { key, name } => self.ask_answered(key, name, reply.outcome),
            Purpose::Listen(ticket) => self.listen_ended(ticket, reply.outcome),
            Purpose::Subscribe(ticket) => self.subscribed(ticket, reply.outcome),
            Purpose::Farewell => self.left(),
            Purpose::Errand => {}
        }
    }

    /// Which call of ours a reply belongs to; if none, says why.
    pub(super) fn claimed(&mut self, reply: &Reply) -> Option<i64> {
        let Some(id) = &reply.id else {
            // The peer could not read our id. With one call in flight there is no doubt which it was.
            return self.unnamed(reply);
        };
        if let Some(number) = id.as_number() {
            if self.outbound.get_mut(number).is_some() {
                self.noted = false;
                return Some(number);
            }
            if self.late_probe(number, reply) {
                return None;
            }
            let rule = match self.outbound.grave(number) {
                Some(Grave::Answered) => Rule::DuplicateReply,
                Some(Grave::GivenUp | Grave::Passed) => Rule::LateReply,
                None => Rule::UnknownReply,
            };
            self.find(rule, Some(id.clone()), String::new());
            self.outbound.rest(number);
            return if self.outbound.was_ours(number) { None } else { self.misnamed(id) };
        }
        let coerced =
            id.coerced().and_then(|id| id.as_number()).filter(|id| self.outbound.get_mut(*id).is_some());
        let Some(number) = coerced else {
            self.find(Rule::UnknownReply, Some(id.clone()), String::new());
            return self.misnamed(id);
        };
        self.find(Rule::IdTypeChanged, Some(id.clone()), format!("{id} for {number}"));
        if self.config.strictness == Strictness::Lenient {
            return Some(number);
        }
        self.settle_violated(
            number,
            Violation { rule: Rule::IdTypeChanged, id: Some(id.clone()), shape: Shape::Reply, at: 0 },
        );
        None
    }

    fn call_replied(&mut self, ticket: Ticket, id: i64, pending: Pending, outcome: Result<Bytes, Fault>) {
        let result = match outcome {
            Ok(result) => result,
            Err(fault) => return self.settle(ticket, Outcome::Fault(fault)),
        };
        if pending.method == Method::LoggingSetLevel {
            // Whoever set it waited for the answer. A session that replaces this one is told it, too.
            self.log_level = SetLevelParams::level_in(pending.params.as_deref()).or(self.log_level);
        }
        if pending.options.rounds == Rounds::Callers && result.first() == Some(&b'{') {
            return self.settle(ticket, Outcome::Done(result));
        }
        let revision = pending.revision.unwrap_or(Revision::LATEST_LEGACY);
        match revision.unseal(&pending.method, pending.params.as_ref(), result, &self.config) {
            Unsealed::Done(result) if !self.may_use(id, &pending.method, &result) => {
                let violation = Violation { shape: Shape::Reply, ..Violation::of(Rule::ResultShape) };
                self.settle(ticket, Outcome::Violated(violation));
            }
            Unsealed::Done(result) => {
                let result = if pending.rounds > 0 { uncacheable(&pending.method, result) } else { result };
                self.settle(ticket, Outcome::Done(result));
            }
            Unsealed::Asks(entries, state) => self.asked_by_result(ticket, pending, entries, state),
            Unsealed::Broken(rule) => {
                self.find(rule, None, pending.method.to_string());
                self.settle(
                    ticket,
                    Outcome::Violated(Violation { shape: Shape::Reply, ..Violation::of(rule) }),
                );
            }
        }
    }

    /// The peer answered with something that is no reply: the call must not hang.
    pub(super) fn settle_violated(&mut self, id: i64, violation: Violation) {
        let Some(pending) = self.outbound.remove(id, Grave::Answered, self.config.limits.tombstones) else {
            return;
        };
        match pending.purpose {
            Purpose::Call(ticket) | Purpose::Listen(ticket) => {
                self.drop_listen(ticket);
                self.settle(ticket, Outcome::Violated(violation));
            }
            Purpose::Probe => self.probe_broken(violation.rule),
            Purpose::Handshake => self.end(Cause::Violated(violation.rule)),
            Purpose::Ask { key, name } => {
                let fault =
                    Fault::internal(format!("the client's answer was malformed: {}", violation.rule.id()));
                self.ask_answered(key, name, Err(fault));
            }
            Purpose::Subscribe(ticket) => self.end_legacy_listen(ticket, Outcome::Violated(violation)),
            Purpose::Farewell => self.left(),
            Purpose::Errand => {}
        }
    }

    /// Gives up a call or listen of ours, on the wire too.
    pub(super) fn cancel(&mut self, ticket: Ticket, reason: Cow<'static, str>) {
        if self.cancel_waiting(ticket, reason.clone())
            || self.cancel_while_asking(ticket, reason.clone())
            || self.cancel_legacy_listen(ticket, reason.clone())
        {
            return;
        }
        let Some(id) = self.outbound.id_of(ticket) else { return };
        let Some(pending) = self.outbound.remove(id, Grave::GivenUp, self.config.limits.tombstones) else {
            return;
        };
        self.drop_listen(ticket);
        let delivery = self.call_off(id, &pending, &reason);
        self.settle(ticket, Outcome::Cancelled { reason, delivery });
    }

    pub(super) fn give_up_all(&mut self, reason: Cow<'static, str>) {
        for ticket in self.asking_tickets() {
            self.cancel_while_asking(ticket, reason.clone());
        }
        for ticket in self.heal.tickets() {
            self.cancel_waiting(ticket, reason.clone());
        }
        for id in self.outbound.ids() {
            let Some(pending) = self.outbound.get_mut(id) else { continue };
            match pending.purpose {
                Purpose::Call(ticket) | Purpose::Listen(ticket) => self.cancel(ticket, reason.clone()),
                _ => {}
            }
        }
    }

    pub(super) fn send_cancel(&mut self, id: i64, reason: &str) {
        if self.heal.holds(id) {
            return; // the peer does not have it
        }
        let mut params = b"{\"requestId\":".to_vec();
        params.extend_from_slice(id.to_string().as_bytes());
        params.extend_from_slice(b",\"reason\":");
        write::string(reason, &mut params);
        params.push(b'}');
        let note = Note { method: Method::Cancelled, params: Params::outgoing(Bytes::from(params)) };
        self.send_at(Turn::Ahead, LaneId::MAIN, Outgoing::One(Envelope::Note(note)), false);
    }

    /// Asks that a call of the peer made are pointless once it is gone.
    pub(super) fn drop_asks_of(&mut self, gone: CallKey) {
        if self.config.role == Role::Client {
            return;
        }
        for id in self.outbound.ids() {
            let ours = self
                .outbound
                .get_mut(id)
                .is_some_and(|p| matches!(p.purpose, Purpose::Ask { key, .. } if key == gone));
            if !ours {
                continue;
            }
            if let Some(ask) = self.outbound.remove(id, Grave::GivenUp, self.config.limits.tombstones) {
                self.call_off(id, &ask, "the call it belongs to has ended");
            }
        }
    }

    /// Calls whose time is up.
    pub(super) fn calls_due(&mut self) {
        let paused = self.asks.hold_server_up();
        for id in self.outbound.ids() {
            let now = self.now;
            let Some(pending) = self.outbound.get_mut(id) else { continue };
            let deadline = if pending.total.is_some_and(|at| at <= now) {
                Deadline::Total
            } else if !paused && pending.idle.is_some_and(|at| at <= now) {
                Deadline::Idle
            } else {
                continue;
            };
            self.time_out(id, deadline);
        }
        self.rounds_due();
    }

    fn time_out(&mut self, id: i64, deadline: Deadline) {
        let Some(pending) = self.outbound.remove(id, Grave::GivenUp, self.config.limits.tombstones) else {
            return;
        };
        // What is arriving may well be the reply to another.
        if self.outbound.len() == 0 || self.inside.is_quiet(self.now) {
            self.tell_begun(None);
        }
        let outcome = Outcome::TimedOut {
            deadline,
            after: self.now.since(pending.started),
            stage: self.stage(&pending),
            delivery: self.call_off(id, &pending, "timed out"),
            seen_bytes: self.carrier.arrived_bytes().saturating_sub(pending.seen_bytes),
        };
        match pending.purpose {
            Purpose::Call(ticket) | Purpose::Listen(ticket) => {
                self.drop_listen(ticket);
                self.settle(ticket, outcome);
            }
            Purpose::Subscribe(ticket) => self.end_legacy_listen(ticket, outcome),
            Purpose::Ask { key, name } => {
                self.ask_answered(key, name, Err(Fault::internal("the client did not answer in time")));
            }
            Purpose::Probe | Purpose::Handshake | Purpose::Errand | Purpose::Farewell => {}
        }
    }

    pub(super) fn earliest_call_deadline(&self) -> Option<Moment> {
        let paused = self.asks.hold_server_up();
        let calls = self.outbound.iter().flat_map(|(_, pending)| {
            let idle = if paused { None } else { pending.idle };
            [idle, pending.total]
        });
        calls.chain([self.asks.earliest_deadline()]).flatten().min()
    }

    /// Every call of ours ends with the link, and says whether it may have been executed.
    pub(super) fn lose_calls(&mut self, cause: &Cause) {
        for id in self.outbound.ids() {
            let Some(pending) = self.outbound.remove(id, Grave::GivenUp, 1) else { continue };
            let delivery = self.delivery(&pending);
            if let Purpose::Call(ticket) | Purpose::Listen(ticket) = pending.purpose {
                self.drop_listen(ticket);
                self.settle(ticket, Outcome::Lost { cause: cause.clone(), delivery });
            }
        }
    }

    /// Client: the wanted log level. Legacy servers are told, modern ones hear it with every call.
    pub(super) fn set_level(&mut self, level: LogLevel) {
        self.log_level = Some(level);
        if self.state != State::Ready || self.is_modern() || !self.server.logging {
            return;
        }
        let Some(revision) = self.revision else { return };
        let params = Bytes::from(format!("{{\"level\":\"{}\"}}", level.name()));
        self.call_peer(LaneId::MAIN, Purpose::Errand, Method::LoggingSetLevel, Some(params), revision);
    }

    /// A note to the peer.
    pub(super) fn note(&mut self, method: Method, params: Option<Bytes>) {
        // A modern server has nothing to tell but what belongs to a call or a listen.
        let revision = match self.config.role {
            Role::Client => self.revision,
            Role::Server => self.ready_peer().filter(|_| self.carrier.pushes()).map(|shaken| shaken.revision),
        };
        if self.state == State::Ready && revision.is_some_and(|revision| revision.has(&method)) {
            self.send_note(LaneId::MAIN, method, params);
        }
    }
}

/// What answers made is good for this caller and this moment only: nobody may keep it.
fn uncacheable(method: &Method, result: Bytes) -> Bytes {
    if !method.is_cacheable() {
        return result;
    }
    splice(&result, &[Edit::Drop("ttlMs"), Edit::Drop("cacheScope")]).unwrap_or(result)
}
