//! Client: a legacy server has forgotten the session. One new handshake serves everyone who waits.
//!
//! ```text
//!          refused unread             answered
//!  well --------------> healing ----------------> well
//!                          | refused again, silent
//!                          '----------------------> the link ends
//! ```
//!
//! Calls that the old session refused were not executed: they are sent again, once, under the same id, unless they may go by no other.
//! Calls made meanwhile wait. The log level and the subscriptions are told anew. A server that forgets
//! again and again is not asked for ever: after a few new sessions without an answered call, calls fail.

use std::borrow::Cow;
use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::json;

use super::Session;
use super::config::Role;
use super::event::{
    CallOptions, Cause, Delivery, Interest, LaneId, NewCall, Outcome, Outgoing, Refusal, Ticket, Turn,
    Wanted, Within,
};
use super::state::State;
use super::tables::{Grave, Purpose};
use crate::jsonrpc::envelope::{Call, Envelope};
use crate::jsonrpc::id::CallId;
use crate::method::Method;

/// What waits for a new session.
#[derive(Debug, Default)]
pub(super) struct Heal {
    /// Why there is to be a new one; none: all is well.
    cause: Option<Cause>,
    /// Wire ids of calls that the old session refused.
    refused: Vec<i64>,
    /// What was wanted meanwhile.
    waiting: VecDeque<Waiting>,
    /// New sessions since a call was answered.
    renewals: usize,
}

#[derive(Debug)]
enum Waiting {
    Call(NewCall),
    Listen(Ticket, Interest),
}

impl Waiting {
    fn ticket(&self) -> Ticket {
        match self {
            Self::Call(new) => new.ticket,
            Self::Listen(ticket, _) => *ticket,
        }
    }
}

impl Heal {
    /// How many calls wait that have no wire id yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.waiting.iter().map(Waiting::ticket).collect()
    }

    /// Is this a call that the peer does not have?
    pub(super) fn holds(&self, id: i64) -> bool {
        self.refused.contains(&id)
    }

    /// A call was answered: the session is good for something.
    pub(super) fn answered(&mut self) {
        self.renewals = 0;
    }
}

impl Session {
    /// The session is gone, as the answer to `refused` or to no call says. `false`: there is no remedy.
    pub(super) fn heal(&mut self, refused: Option<i64>, cause: &Cause) -> bool {
        if self.config.role == Role::Server || self.is_modern() {
            return false;
        }
        let healing = self.heal.cause.is_some();
        let spent = self.heal.renewals >= self.config.limits.renewals;
        if !healing && (spent || self.state != State::Ready) {
            return false;
        }
        if let Some(id) = refused {
            self.hold(id, cause);
        }
        if !healing {
            self.heal.cause = Some(cause.clone());
            self.heal.renewals += 1;
            self.shake_hands(Some(cause.clone()));
        }
        true
    }

    /// A call was refused late: there is a new session already. It goes by that one, unless it may go by no other. `false`: by none.
    pub(super) fn replaced(&mut self, id: i64, cause: &Cause) -> bool {
        let healing = self.heal.cause.is_some();
        if !healing && self.state != State::Ready {
            return false;
        }
        self.hold(id, cause);
        if !healing {
            for id in std::mem::take(&mut self.heal.refused) {
                self.send_again(id);
            }
        }
        true
    }

    fn hold(&mut self, id: i64, cause: &Cause) {
        let Some(pending) = self.outbound.get_mut(id) else { return };
        if let (Purpose::Call(ticket), Within::This) = (&pending.purpose, pending.options.within) {
            let ticket = *ticket;
            self.outbound.remove(id, Grave::GivenUp, self.config.limits.tombstones);
            return self.settle(ticket, unsent(cause));
        }
        if pending.purpose == Purpose::Errand {
            // What errands told the old session is told to the new one anyway.
            self.outbound.remove(id, Grave::GivenUp, self.config.limits.tombstones);
            return;
        }
        pending.frame = None;
        self.heal.refused.push(id);
    }

    /// The call, if it can be made now. Otherwise it waits, within the bound on calls.
    pub(super) fn unless_healing(&mut self, new: NewCall) -> Option<NewCall> {
        match &self.heal.cause {
            None => return Some(new),
            Some(cause) if new.options.within == Within::This => self.settle(new.ticket, unsent(cause)),
            Some(_) => self.wait(Waiting::Call(new)),
        }
        None
    }

    /// The same for a listen.
    pub(super) fn listen_unless_healing(
        &mut self,
        ticket: Ticket,
        interest: Interest,
    ) -> Option<(Ticket, Interest)> {
        if self.heal.cause.is_none() {
            return Some((ticket, interest));
        }
        self.wait(Waiting::Listen(ticket, interest));
        None
    }

    fn wait(&mut self, waiting: Waiting) {
        if self.outbound.len() + self.heal.waiting() >= self.config.limits.calls_outbound {
            return self.settle(waiting.ticket(), Outcome::Refused(Refusal::TooMany));
        }
        self.heal.waiting.push_back(waiting);
    }

    /// Gives up a call that waits; `false`: none such does.
    pub(super) fn cancel_waiting(&mut self, ticket: Ticket, reason: Cow<'static, str>) -> bool {
        let before = self.heal.waiting.len();
        self.heal.waiting.retain(|waiting| waiting.ticket() != ticket);
        if self.heal.waiting.len() == before {
            return false;
        }
        self.settle(ticket, Outcome::Cancelled { reason, delivery: Delivery::NotSent });
        true
    }

    /// There will be no new session: who waits is told.
    pub(super) fn lose_waiting(&mut self, cause: &Cause) {
        let heal = std::mem::take(&mut self.heal);
        for waiting in heal.waiting {
            self.settle(waiting.ticket(), unsent(cause));
        }
    }

    /// The new session is open: everyone goes on.
    pub(super) fn healed(&mut self) {
        let Some(cause) = self.heal.cause.take() else { return };
        self.resubscribe(&cause);
        for id in std::mem::take(&mut self.heal.refused) {
            self.send_again(id);
        }
        for waiting in std::mem::take(&mut self.heal.waiting) {
            match waiting {
                Waiting::Call(new) => self.call(new, None),
                Waiting::Listen(ticket, interest) => self.listen(ticket, interest),
            }
        }
    }

    /// Interests stand, so the new session hears of them. One that turned modern has no such thing.
    fn resubscribe(&mut self, cause: &Cause) {
        let Some(revision) = self.revision else { return };
        if self.is_modern() {
            return self.lose_listens(cause);
        }
        for uri in self.standing_uris() {
            let params = Bytes::from(json!({ "uri": uri }).to_string());
            let method = Method::ResourcesSubscribe;
            self.call_peer(LaneId::MAIN, Purpose::Errand, method, Some(params), revision);
        }
    }

    fn send_again(&mut self, id: i64) {
        let revision = self.revision;
        let Some(pending) = self.outbound.get_mut(id) else { return };
        pending.revision = revision;
        let (method, params) = (pending.method.clone(), pending.params.clone());
        let CallOptions { progress, .. } = pending.options;
        let token = (progress == Wanted::Yes).then_some(id);
        let params = self.dress(params.as_ref(), token, revision);
        let call = Call { id: CallId::from(id), method, params, strays: None };
        let turn = Turn::of(&call.method);
        let frame = self.send_at(turn, LaneId::MAIN, Outgoing::One(Envelope::Call(call)), false);
        if let Some(pending) = self.outbound.get_mut(id) {
            pending.frame = frame;
        }
    }
}

/// The outcome of a call that went by no session.
fn unsent(cause: &Cause) -> Outcome {
    Outcome::Lost { cause: cause.clone(), delivery: Delivery::NotSent }
}
