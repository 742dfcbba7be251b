//! Whose is it? Frames that are no message, and answers that do not say which call they answer.
//!
//! Nobody waits in vain for an answer that came and could not be read: the call that it was meant for ends with what is
//! wrong. Which one that is its id tells; without one it is found out only where that is wanted
//! ([`Attribution`]): it is that of the one call there is, or of the one that is left when all others have their answers.

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

use super::Session;
use super::config::{Attribution, Role};
use super::event::{Cause, LaneId};
use super::tables::BatchKey;
use crate::era::Revision;
use crate::finding::{Rule, Strictness};
use crate::jsonrpc::envelope::{Envelope, Reply, Shape, Violation};
use crate::jsonrpc::fault::code;
use crate::jsonrpc::id::CallId;
use crate::jsonrpc::splice::member_of;

/// Client: a message in several lines, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Torn {
    /// Lines that may be one, together; none: nothing has begun.
    lines: Vec<u8>,
    told: Told,
}

/// Was a message in several lines told of, so that what follows is its rest?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Told {
    #[default]
    No,
    Yes,
}

impl Session {
    /// A frame that is no message. A server owes an answer to what may have been a call; a client owes
    /// none. The call of ours that it may have been meant for must not hang.
    pub(super) fn violated(
        &mut self,
        lane: LaneId,
        violation: Violation,
        detail: &str,
        batch: Option<BatchKey>,
    ) {
        let violation = self.looked_into(violation);
        // Where messages are told apart otherwise than by lines, whatever comes was meant as one.
        let is_noise =
            is_unreadable(&violation) && self.config.role == Role::Client && self.carrier.reads_lines();
        let rule = if is_noise { Rule::Noise } else { violation.rule };
        let inside = self.answer_inside(&violation);
        if inside.is_some() || !self.is_rest(&violation) {
            let id = inside.as_ref().map(|found| found.id.clone()).or_else(|| violation.id.clone());
            self.find(rule, id, detail.into());
        }
        self.noise += 1;
        if self.noise > self.config.limits.noise_lines {
            return self.end(Cause::Violated(rule));
        }
        if let Some(found) = inside {
            return self.hold_answer(found, rule);
        }
        let violation = self.pieced(violation);
        let Some(violation) = self.end_meant(violation) else { return };
        if self.config.role == Role::Server && matches!(violation.shape, Shape::Call | Shape::Unknown) {
            let revision = self.revision().unwrap_or(Revision::LATEST_MODERN);
            let fault = violation.fault();
            self.reply_unread(lane, batch, violation.id, revision, fault);
        }
    }

    /// Ends the call that a broken answer was meant for, or keeps it until it is known which one that is. Given back: what was
    /// meant for none.
    fn end_meant(&mut self, violation: Violation) -> Option<Violation> {
        match (violation.shape, self.meant_for(&violation)) {
            (Shape::Reply | Shape::Unknown, Some(id)) => {
                self.settle_violated(id, violation);
                self.settle_claimed();
                None
            }
            (Shape::Reply, None) if self.is_unclaimed(&violation) => {
                self.outbound.leave(violation);
                None
            }
            _ => Some(violation),
        }
    }

    /// A batch where there are none. Nothing in it is served; an answer in it ends its call as it would outside of one.
    pub(super) fn refuse_batch(
        &mut self,
        lane: LaneId,
        entries: Vec<(Result<Envelope, Violation>, Vec<Rule>)>,
    ) {
        let violation = Violation::of(Rule::BatchForbidden);
        if self.config.role == Role::Server {
            let revision = self.revision().unwrap_or(Revision::LATEST_MODERN);
            return self.reply_unread(lane, None, None, revision, violation.fault());
        }
        let parts = parts(&self.current).into_iter().chain(std::iter::repeat(Bytes::new()));
        for ((entry, _), part) in entries.into_iter().zip(parts) {
            self.current = part;
            match entry {
                Ok(Envelope::Reply(reply)) => self.replied_in(reply, &violation),
                Err(broken) if broken.shape == Shape::Reply || broken.id.is_some() => {
                    self.find(broken.rule, broken.id.clone(), "batch entry".into());
                    self.end_meant(broken);
                }
                _ => {}
            }
        }
    }

    /// Client: a proper reply in what is none.
    fn replied_in(&mut self, reply: Reply, violation: &Violation) {
        if let Some(id) = self.claimed(&reply) {
            let violation = Violation { id: reply.id, shape: Shape::Reply, ..violation.clone() };
            self.settle_violated(id, violation);
        }
        self.settle_claimed();
    }

    /// Client: what cannot be parsed may still begin like a message.
    fn looked_into(&self, violation: Violation) -> Violation {
        if self.config.role == Role::Server || !is_unreadable(&violation) {
            return violation;
        }
        let at = violation.at;
        Violation { at, ..Violation::in_head(violation.rule, &self.current, &self.config.limits) }
    }

    /// Client: what is no message on its own may be part of one that has line breaks inside, or was cut. Together such
    /// lines say whose it is, as far as anything does.
    fn pieced(&mut self, violation: Violation) -> Violation {
        let is_part = violation.shape == Shape::Unknown && !self.current.is_empty();
        if self.config.role == Role::Server || !self.carrier.reads_lines() || !is_part {
            return violation;
        }
        let lines = &mut self.torn.lines;
        if self.current.starts_with(b"{") {
            lines.clear();
        } else if lines.is_empty() {
            return violation;
        } else {
            lines.push(b'\n');
        }
        // Nothing can complete what is wrong otherwise than by ending too early.
        if lines.is_empty() && violation.rule != Rule::Syntax {
            return violation;
        }
        let most = self.config.limits.excerpt_bytes;
        lines.extend_from_slice(&self.current[..most.min(self.current.len())]);
        lines.truncate(most);
        let lines = Bytes::copy_from_slice(lines);
        let whole = Violation::in_head(Rule::Split, &lines, &self.config.limits);
        // Who guesses does not wait for the rest of what begins as nothing but a message does.
        let guessed = self.attributed().is_some()
            && lines.starts_with(VERSION)
            && memmem::find(&lines, METHOD).is_none();
        // Inside of a message there may be anything, but no other.
        let is_inside = self.torn.told == Told::Yes && memmem::find(&lines, NAME).is_none();
        if is_inside || whole.shape != Shape::Reply && !guessed {
            return violation;
        }
        self.torn = Torn { lines: Vec::new(), told: Told::Yes };
        self.current = lines;
        self.find(Rule::Split, whole.id.clone(), String::new());
        Violation { shape: Shape::Reply, ..whole }
    }

    /// May it be a line of a message that was told of already? To tell of each would bury that.
    fn is_rest(&self, violation: &Violation) -> bool {
        let is_line = violation.shape == Shape::Unknown && !self.current.is_empty();
        self.torn.told == Told::Yes && is_line
    }

    /// Which call of ours a broken frame was the answer to.
    fn meant_for(&self, violation: &Violation) -> Option<i64> {
        if let Some(id) = violation.id.as_ref().and_then(CallId::as_number)
            && (self.outbound.has(id) || self.outbound.was_ours(id))
        {
            return Some(id).filter(|id| self.outbound.has(*id));
        }
        let is_answer = violation.shape == Shape::Reply && !self.is_hollow();
        self.attributed().filter(|_| is_answer)
    }

    /// Ends the call that an answer was meant for which did not say so, once that is beyond doubt.
    pub(super) fn settle_claimed(&mut self) {
        if let Some((id, violation)) = self.outbound.claim() {
            self.settle_violated(id, violation);
        }
    }

    /// Is it an answer, and nobody knows yet to what?
    fn is_unclaimed(&self, violation: &Violation) -> bool {
        let named =
            violation.id.as_ref().and_then(CallId::as_number).filter(|id| self.outbound.was_ours(*id));
        self.config.attribution == Attribution::OnlyCall && named.is_none() && !self.is_hollow()
    }

    /// The call that an answer without a usable id is taken for, where that is wanted and beyond doubt.
    pub(super) fn attributed(&self) -> Option<i64> {
        self.outbound.only_meant().filter(|_| self.config.attribution == Attribution::OnlyCall)
    }

    /// The call that a reply without id is taken for; it is well-formed otherwise.
    pub(super) fn unnamed(&mut self, reply: &Reply) -> Option<i64> {
        let fault = reply.outcome.as_ref().err();
        self.find(Rule::ReplyWithoutId, None, fault.map(|fault| format!("{fault:?}")).unwrap_or_default());
        let meant_for_note = match fault {
            // Who knows the method has read the message, and so its id, if there was one.
            Some(fault) => self.noted && fault.code == code::METHOD_NOT_FOUND,
            None => self.is_hollow(),
        };
        let ours = self.outbound.only_meant().filter(|_| !meant_for_note);
        if ours.is_none() && !meant_for_note && self.config.attribution == Attribution::OnlyCall {
            self.outbound.leave(Violation { shape: Shape::Reply, ..Violation::of(Rule::ReplyWithoutId) });
        }
        ours
    }

    /// A reply to a call that was never made: which call it is taken for, if that can be repaired.
    pub(super) fn misnamed(&mut self, id: &CallId) -> Option<i64> {
        let violation =
            Violation { rule: Rule::UnknownReply, id: Some(id.clone()), shape: Shape::Reply, at: 0 };
        match (self.attributed(), self.config.strictness) {
            (Some(ours), Strictness::Lenient) => return Some(ours),
            (Some(ours), _) => self.settle_violated(ours, violation),
            (None, _) if self.config.attribution == Attribution::OnlyCall => self.outbound.leave(violation),
            (None, _) => {}
        }
        None
    }

    /// Is it what a server says that answers notes too? Those have no id, and there is nothing to tell them.
    fn is_hollow(&self) -> bool {
        let result = || member_of(&self.current, "result").ok().flatten();
        self.noted && result().is_some_and(|result| !result.starts_with(b"{") || &*result == b"{}")
    }
}

/// The entries of an array, as they were written.
fn parts(array: &Bytes) -> Vec<Bytes> {
    let parts = serde_json::from_slice::<Vec<&RawValue>>(array).unwrap_or_default();
    parts.into_iter().map(|part| array.slice_ref(part.get().as_bytes())).collect()
}

/// What most messages begin with, and nothing else does.
const VERSION: &[u8] = b"{\"jsonrpc\"";

/// What every message has.
const NAME: &[u8] = b"\"jsonrpc\"";

/// What is no answer has this, or the beginning of it.
const METHOD: &[u8] = b"\"meth";

/// Not even its beginning could be read.
fn is_unreadable(violation: &Violation) -> bool {
    matches!(violation.rule, Rule::Syntax | Rule::NotUtf8) && violation.shape == Shape::Unknown
}
