//! Client: requests for input, whichever way the era carries them.
//!
//! A legacy server calls us; a modern one answers our call with requests and waits for a retry.
//! Our side sees the same event and gives the same answer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::Session;
use super::event::{Ask, AskKey, Cause, Deadline, Delivery, Event, LaneId, Outcome, Outgoing, Stage, Ticket};
use super::progress::{self, Quota};
use super::state::State;
use super::tables::{Manner, Pending, Purpose};
use crate::era::{self, Revision};
use crate::finding::Rule;
use crate::jsonrpc::envelope::{Call, Envelope, Reply, Shape, Violation};
use crate::jsonrpc::fault::{Fault, code};
use crate::jsonrpc::id::CallId;
use crate::method::Method;
use crate::moment::Moment;

/// Asks that our side has yet to answer.
#[derive(Debug, Default)]
pub(super) struct PendingAsks {
    open: BTreeMap<AskKey, Origin>,
    rounds: BTreeMap<Ticket, AskRound>,
    minted: u64,
    quota: Quota,
}

const MINUTE: Duration = Duration::from_secs(60);

/// Where the answer goes.
#[derive(Debug, Clone)]
enum Origin {
    /// To a call of a legacy server, which may want to hear of progress by this token.
    Call { lane: LaneId, id: CallId, token: Option<Bytes> },
    /// Into the retry of our own call.
    Round { ticket: Ticket, name: Box<str> },
}

/// Our own call, between the result that asks and the retry that answers.
#[derive(Debug)]
struct AskRound {
    method: Method,
    params: Option<Bytes>,
    manner: Manner,
    revision: Option<Revision>,
    state: Option<Box<str>>,
    waiting: usize,
    answers: Vec<(Box<str>, Bytes)>,
    started: Moment,
    seen_bytes: u64,
    total: Option<Moment>,
    rounds: usize,
}

impl PendingAsks {
    /// Does a legacy server wait for an answer? Then its silence is no reason to give up. A modern one
    /// waits for nothing: the call that asks is not in flight.
    pub(super) fn hold_server_up(&self) -> bool {
        self.open.values().any(|origin| matches!(origin, Origin::Call { .. }))
    }

    /// Calls of ours that are not in flight because someone is being asked.
    pub(super) fn between_rounds(&self) -> usize {
        self.rounds.len()
    }

    pub(super) fn earliest_deadline(&self) -> Option<Moment> {
        self.rounds.values().filter_map(|round| round.total).min()
    }

    fn add(&mut self, origin: Origin) -> AskKey {
        self.minted += 1;
        let key = AskKey(self.minted);
        self.open.insert(key, origin);
        key
    }
}

impl Session {
    /// A call from the server: an ask, a ping, or nothing we know.
    pub(super) fn asked_by_call(&mut self, lane: LaneId, call: Call) {
        if self.is_modern() {
            // Clients of this era send no replies: there is nothing to answer with.
            return self.find(Rule::ServerCall, Some(call.id), call.method.to_string());
        }
        let revision = self.revision.unwrap_or(Revision::LATEST_LEGACY);
        if call.method == Method::Ping {
            return self.pong(lane, call.id);
        }
        // Only clients open sessions. Whoever answered this would read its own answer next, and take it for the server's.
        if matches!(call.method, Method::Initialize | Method::Discover) && self.state != State::Ready {
            self.find(Rule::Echo, Some(call.id), call.method.to_string());
            return self.end(Cause::Violated(Rule::Echo));
        }
        if !call.method.is_ask() || !revision.has(&call.method) {
            let fault = Fault::method_not_found(call.method.name());
            return self.reply_to_server(lane, call.id, Err(fault));
        }
        let duplicate =
            self.asks.open.values().any(|o| matches!(o, Origin::Call { id, .. } if *id == call.id));
        if duplicate {
            self.find(Rule::DuplicateCall, Some(call.id.clone()), call.method.to_string());
            let fault = Violation::of(Rule::DuplicateCall).fault();
            return self.reply_to_server(lane, call.id, Err(fault));
        }
        let token = progress::token_of(&call.params);
        let what = Ask { method: call.method, params: call.params.raw().cloned() };
        if let Some(fault) = self.undeclared(&what, revision) {
            self.find(Rule::Unadvertised, Some(call.id.clone()), what.method.to_string());
            return self.reply_to_server(lane, call.id, Err(fault));
        }
        if self.asks.open.len() >= self.config.limits.calls_inbound {
            let fault = Fault::new(code::BUSY, "too many requests for input at once");
            return self.reply_to_server(lane, call.id, Err(fault));
        }
        if !self.in_time(1, &what.method) {
            let fault = Fault::new(code::BUSY, "too many requests for input in a minute; ask again later");
            return self.reply_to_server(lane, call.id, Err(fault));
        }
        let ask = self.asks.add(Origin::Call { lane, id: call.id, token });
        self.event(Event::Asked { ask, ticket: None, what });
    }

    /// A person who is asked all the time answers anything: no server may ask faster than the limit.
    fn in_time(&mut self, count: usize, method: &Method) -> bool {
        let (now, max) = (self.now, self.config.limits.asks_per_minute);
        let admits = self.asks.quota.admits(u32::try_from(count).unwrap_or(u32::MAX), now, max, MINUTE);
        if !admits {
            self.find(Rule::AskFlood, None, method.to_string());
        }
        admits
    }

    /// What a legacy client answers to an ask it did not offer.
    fn undeclared(&self, ask: &Ask, revision: Revision) -> Option<Fault> {
        let required = self.client.lacks(ask, revision)?;
        let offered = match ask.method {
            Method::ElicitationCreate => self.client.form || self.client.url,
            Method::SamplingCreateMessage => self.client.sampling,
            _ => false,
        };
        Some(if offered {
            Fault::invalid_params(format!("this client did not declare {required}"))
        } else {
            Fault::method_not_found(ask.method.name())
        })
    }

    fn reply_to_server(&mut self, lane: LaneId, id: CallId, outcome: Result<Bytes, Fault>) {
        let reply = Reply { id: Some(id), outcome };
        self.send(lane, Outgoing::One(Envelope::Reply(reply)), false);
    }

    /// Our call was answered with asks.
    pub(super) fn asked_by_result(
        &mut self,
        ticket: Ticket,
        pending: Pending,
        entries: Vec<(Box<str>, Ask)>,
        state: Option<Box<str>>,
    ) {
        let rounds = pending.rounds + 1;
        let refused = entries.iter().find(|(_, ask)| {
            self.client.lacks(ask, pending.revision.unwrap_or(Revision::LATEST_MODERN)).is_some()
        });
        if let Some((name, ask)) = refused {
            let detail = format!("{name}: {}", ask.method);
            self.find(Rule::Unadvertised, None, detail);
            let violation = Violation { shape: Shape::Reply, ..Violation::of(Rule::Unadvertised) };
            return self.settle(ticket, Outcome::Violated(violation));
        }
        let flood = match entries.first() {
            Some((_, first)) => !self.in_time(entries.len(), &first.method),
            None => false,
        };
        if flood || rounds > self.config.limits.ask_rounds {
            let reason = Cow::Borrowed("the server asked for input too often");
            return self.settle(ticket, Outcome::Cancelled { reason, delivery: Delivery::Sent });
        }
        let round = AskRound {
            method: pending.method,
            params: pending.params,
            manner: Manner { options: pending.options, strays: pending.strays },
            revision: pending.revision,
            state,
            waiting: entries.len(),
            answers: Vec::with_capacity(entries.len()),
            started: pending.started,
            seen_bytes: pending.seen_bytes,
            total: pending.total,
            rounds,
        };
        self.asks.rounds.insert(ticket, round);
        if entries.is_empty() {
            return self.retry(ticket);
        }
        for (name, what) in entries {
            if matches!(what.method, Method::SamplingCreateMessage | Method::RootsList) {
                self.find(Rule::Deprecated, None, what.method.to_string());
            }
            let ask = self.asks.add(Origin::Round { ticket, name });
            self.event(Event::Asked { ask, ticket: Some(ticket), what });
        }
    }

    /// Our side answered an ask.
    pub(super) fn answer_ask(&mut self, ask: AskKey, outcome: Result<Bytes, Fault>) {
        match self.asks.open.remove(&ask) {
            None => {}
            Some(Origin::Call { lane, id, .. }) => {
                self.reply_to_server(lane, id, outcome);
                self.resume_idle();
            }
            Some(Origin::Round { ticket, name }) => self.collect(ticket, name, outcome),
        }
    }

    /// Our side tells how far the answer has come, in the words of whoever gives it.
    pub(super) fn ask_step(&mut self, ask: AskKey, params: &[u8]) {
        if let Some(Origin::Call { lane, token: Some(token), .. }) = self.asks.open.get(&ask) {
            let revision = self.revision.unwrap_or(Revision::LATEST_LEGACY);
            let (lane, params) = (*lane, progress::addressed(params, token, revision));
            self.send_step(lane, params);
        }
    }

    fn collect(&mut self, ticket: Ticket, name: Box<str>, outcome: Result<Bytes, Fault>) {
        let answer = match outcome {
            Ok(answer) => answer,
            // There is no way to send an error for one input: the call is given up here.
            Err(fault) => {
                let reason = Cow::Owned(format!("no answer to {name}: {}", fault.message));
                self.cancel_while_asking(ticket, reason);
                return;
            }
        };
        let Some(round) = self.asks.rounds.get_mut(&ticket) else { return };
        round.answers.push((name, answer));
        round.waiting = round.waiting.saturating_sub(1);
        if round.waiting == 0 {
            self.retry(ticket);
        }
    }

    /// The same call once more, under a new id, with answers and state.
    fn retry(&mut self, ticket: Ticket) {
        let Some(round) = self.asks.rounds.remove(&ticket) else { return };
        let params = era::retry_params(round.params.as_ref(), &round.answers, round.state.as_deref());
        let id = self.start(
            Purpose::Call(ticket),
            round.method,
            Some(params),
            round.manner,
            round.revision,
            LaneId::MAIN,
            round.rounds,
        );
        if let Some(pending) = self.outbound.get_mut(id) {
            // The next retry starts from the original params, and the total deadline covers all rounds.
            pending.params = round.params;
            pending.started = round.started;
            pending.seen_bytes = round.seen_bytes;
            pending.total = round.total;
        }
        self.set_alarm();
    }

    /// Gives up a call that is between two rounds. Nothing is in flight, so nothing is sent.
    pub(super) fn cancel_while_asking(&mut self, ticket: Ticket, reason: Cow<'static, str>) -> bool {
        if self.asks.rounds.remove(&ticket).is_none() {
            return false;
        }
        self.withdraw_asks_of(ticket);
        self.settle(ticket, Outcome::Cancelled { reason, delivery: Delivery::Sent });
        true
    }

    fn withdraw_asks_of(&mut self, gone: Ticket) {
        let asks: Vec<_> = self
            .asks
            .open
            .iter()
            .filter(|(_, origin)| matches!(origin, Origin::Round { ticket, .. } if *ticket == gone))
            .map(|(ask, _)| *ask)
            .collect();
        for ask in asks {
            self.asks.open.remove(&ask);
            self.event(Event::AskWithdrawn { ask, reason: "".into() });
        }
    }

    /// A legacy server takes its ask back.
    pub(super) fn ask_cancelled(&mut self, cancelled: &CallId, reason: &str) -> bool {
        let found = self.asks.open.iter().find_map(|(ask, origin)| match origin {
            Origin::Call { id, .. } if id == cancelled => Some(*ask),
            _ => None,
        });
        let Some(ask) = found else { return false };
        self.asks.open.remove(&ask);
        self.event(Event::AskWithdrawn { ask, reason: reason.into() });
        self.resume_idle();
        true
    }

    pub(super) fn asking_tickets(&self) -> Vec<Ticket> {
        self.asks.rounds.keys().copied().collect()
    }

    /// Calls whose total time ran out while someone was being asked.
    pub(super) fn rounds_due(&mut self) {
        for ticket in self.asking_tickets() {
            let due = self
                .asks
                .rounds
                .get(&ticket)
                .is_some_and(|round| round.total.is_some_and(|at| at <= self.now));
            let Some(round) = due.then(|| self.asks.rounds.remove(&ticket)).flatten() else { continue };
            self.withdraw_asks_of(ticket);
            let outcome = Outcome::TimedOut {
                deadline: Deadline::Total,
                after: self.now.since(round.started),
                delivery: Delivery::Sent,
                stage: Stage::Asking,
                seen_bytes: self.carrier.arrived_bytes().saturating_sub(round.seen_bytes),
            };
            self.settle(ticket, outcome);
        }
    }

    /// The link is gone: nobody wants the answers.
    pub(super) fn withdraw_asks(&mut self, cause: &Cause) {
        for (ask, _) in std::mem::take(&mut self.asks.open) {
            self.event(Event::AskWithdrawn { ask, reason: "".into() });
        }
        for (ticket, _) in std::mem::take(&mut self.asks.rounds) {
            self.settle(ticket, Outcome::Lost { cause: cause.clone(), delivery: Delivery::Sent });
        }
    }

    /// Once the server waits for nobody any more, its silence counts again, from now on.
    fn resume_idle(&mut self) {
        if self.asks.hold_server_up() {
            return;
        }
        let (now, default) = (self.now, self.config.limits.call_idle_timeout);
        for id in self.outbound.ids() {
            if let Some(pending) = self.outbound.get_mut(id)
                && pending.idle.is_some()
            {
                pending.idle = Some(now + pending.options.idle.unwrap_or(default));
            }
        }
        self.set_alarm();
    }
}
