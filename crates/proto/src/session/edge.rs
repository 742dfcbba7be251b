//! Where the dialect sits: between frames and envelopes, and at the end of a session.

use bytes::Bytes;

use super::Session;
use super::event::{CallOptions, Cause, LaneId, Outgoing};
use super::state::State;
use super::tables::{BatchKey, Purpose};
use crate::dialect::quirk::{Quirk, Way};
use crate::dialect::{self, tutorial};
use crate::finding::Rule;
use crate::jsonrpc::envelope::{Call, Note};
use crate::method::Method;

impl Session {
    /// A frame as the protocol has it; nothing: it may be ignored.
    pub(super) fn heard(&mut self, frame: &Bytes) -> Option<Bytes> {
        let heard = dialect::inbound(frame, &self.config);
        for quirk in heard.quirks {
            self.granted(quirk);
        }
        for (rule, detail) in heard.found {
            self.find(rule, None, detail);
            if !self.state.is_live() {
                return None;
            }
        }
        heard.what
    }

    /// A message as the peer understands it; nothing: it cannot be told.
    pub(super) fn told(&mut self, message: Outgoing) -> Option<Outgoing> {
        let told = dialect::outbound(message, &self.config);
        for quirk in told.quirks {
            self.granted(quirk);
        }
        told.what
    }

    /// A note under its published name.
    pub(super) fn standard(&mut self, note: Note) -> Note {
        let Some((method, quirk)) = dialect::standard_note(&note.method) else { return note };
        self.granted(quirk);
        Note { method, ..note }
    }

    /// Counts a quirk. What a peer does is a finding, once; what we do is none.
    pub(super) fn granted(&mut self, quirk: Quirk) {
        if self.quirks.count(quirk) == 1 && quirk.way() == Way::Accept {
            self.find(Rule::Foreign, None, format!("{}: {}", quirk.name(), quirk.breaks()));
        }
    }

    /// Server: the peer says that it leaves. What runs is finished, nothing new begins.
    pub(super) fn peer_leaves(&mut self, lane: LaneId, call: Call, batch: Option<BatchKey>) {
        self.granted(Quirk::ShutdownHeard);
        let revision = self.revision().unwrap_or(crate::era::Revision::LATEST_LEGACY);
        self.reply(lane, batch, Some(call.id), revision, Ok(Bytes::from_static(b"{}")));
        // Inside a batch the other entries come first: the peer will close the link itself.
        if batch.is_none() && self.drain.is_none() {
            self.end_listens();
            self.none_comes_back();
            self.drain(Cause::ClosedByPeer, self.config.limits.drain_timeout);
        }
    }

    /// Client: ends the link, after a goodbye where the dialect has one. Its answer is waited for
    /// only briefly, and may be anything.
    pub(super) fn leave(&mut self, cause: Cause) {
        if self.state != State::Ready || !self.config.dialect.grants(Quirk::ShutdownSent) {
            return self.end(cause);
        }
        self.become_state(State::Draining, Some(cause.clone()));
        let method = Method::Other(tutorial::SHUTDOWN.into());
        let (revision, options) = (self.revision, CallOptions::default());
        self.start(Purpose::Farewell, method, None, options, revision, LaneId::MAIN, 0);
        self.drain = Some((self.now + self.config.limits.farewell_timeout, cause));
    }

    /// Client: the goodbye was answered.
    pub(super) fn left(&mut self) {
        if let Some((_, cause)) = self.drain.take() {
            self.end(cause);
        }
    }

    /// Why the link ends: if we were about to close it, that is the reason, whoever was faster.
    pub(super) fn cause_or(&self, cause: Cause) -> Cause {
        match &self.drain {
            Some((_, ours @ Cause::ClosedByUs(_))) => ours.clone(),
            _ => cause,
        }
    }
}
