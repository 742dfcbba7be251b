//! Server: modern calls that were answered with a question. Their clients come back by the same link, if it lasts.

use bytes::Bytes;
use memchr::memmem;

use super::Session;
use super::carrier::Cancel;
use super::event::Cause;
use crate::jsonrpc::envelope::{Call, Param};
use crate::jsonrpc::splice::member_of;
use crate::model::result::ResultType;
use crate::moment::Moment;

/// The states that clients are to bring back, each with the moment until which it is good.
#[derive(Debug, Default)]
pub(super) struct Returning(Vec<(Box<str>, Moment)>);

/// A result that asks is smaller than this; in others nothing is looked for. One that is not is not waited for.
const ASKING_BYTES: usize = 64 << 10;

impl Session {
    /// A client was asked something, and holds this state until it comes back.
    pub(super) fn asked_with(&mut self, state: &str) {
        if !self.lasts() {
            return;
        }
        let (now, limits) = (self.now, &self.config.limits);
        let held = &mut self.returning.0;
        held.retain(|(_, until)| *until > now);
        // Whoever was asked first has had the longest time to come back.
        if held.len() >= limits.calls_inbound {
            held.remove(0);
        }
        held.push((state.into(), now + limits.request_state_ttl));
    }

    /// The same by a result that somebody else has written. Nearly none asks, and those are not read for it.
    pub(super) fn asked_by(&mut self, result: &Bytes) {
        if self.lasts()
            && result.len() <= ASKING_BYTES
            && memmem::find(result, b"input_required").is_some()
            && ResultType::peek(result) == ResultType::InputRequired
            && let Ok(Some(state)) = member_of(result, "requestState")
            && let Ok(state) = serde_json::from_slice::<Box<str>>(&state)
        {
            self.asked_with(&state);
        }
    }

    /// Does this call go on with one that was asked here?
    pub(super) fn comes_back(&mut self, call: &Call) -> bool {
        if self.returning.0.is_empty() {
            return false;
        }
        let Some(state) = call.params.text(Param::RequestState) else { return false };
        let held = &mut self.returning.0;
        let at = held.iter().position(|(other, _)| **other == *state);
        at.map(|at| held.remove(at)).is_some()
    }

    /// Where each call has a link of its own, nobody comes back by it.
    fn lasts(&self) -> bool {
        self.carrier.cancel() != Cancel::ByClosing
    }

    /// Nobody can come back any more.
    pub(super) fn none_comes_back(&mut self) {
        self.returning = Returning::default();
    }

    /// Does an end for this reason wait for anybody? A peer that leaves does not come back.
    pub(super) fn awaits(&self, cause: &Cause) -> bool {
        let now = self.now;
        matches!(cause, Cause::ClosedByUs(_)) && self.returning.0.iter().any(|(_, until)| *until > now)
    }
}
