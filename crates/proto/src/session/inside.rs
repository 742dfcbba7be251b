//! Client: answers that are there and are no messages: with text around them in their line, or in a line that does not end.
//!
//! Both are taken for what they are only after a while in which nothing better came. A server that prints what it is about to
//! send has its answer in the next line, and the end of a line may be a write of its own.
//!
//! ```text
//!   text {reply} ──▶ held ──── a while ────▶ its call ends
//!                     └── the proper reply ─▶ forgotten
//!   {reply}      ──▶ begun ─── a while ────▶ its call ends
//!                     ├── more bytes ───────▶ begun, from now
//!                     └── a deadline ───────▶ told, with what there is, if nothing has followed for a while
//! ```

use bytes::Bytes;
use memchr::{memchr_iter, memmem};

use super::Session;
use super::config::Role;
use super::meant::Torn;
use crate::finding::{Rule, Strictness};
use crate::jsonrpc::envelope::{self, Decoded, Envelope, Reply, Shape, Violation};
use crate::jsonrpc::id::CallId;
use crate::limits::lines::{PATIENCE, PLACES};
use crate::moment::Moment;

/// What may be an answer yet.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// At most one for each call of ours.
    held: Vec<Held>,
    begun: Option<Begun>,
}

/// An answer with text around it, until its time has come.
#[derive(Debug)]
struct Held {
    found: Found,
    rule: Rule,
    due: Moment,
}

/// A line that has begun and not ended.
#[derive(Debug)]
struct Begun {
    /// By how many bytes had arrived it is told from one that goes on, and from another.
    arrived_bytes: u64,
    since: Moment,
    bytes: usize,
    head: Vec<u8>,
    looked: Looked,
    told: Told,
}

/// Was it looked into whether the line is an answer?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    NotYet,
    /// It is time to.
    Due,
    Yes,
}

/// Was it told that the line has no end?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    NotYet,
    Yes,
}

/// A proper reply to a call of ours, somewhere in a line.
#[derive(Debug)]
pub(super) struct Found {
    number: i64,
    pub(super) id: CallId,
    at: usize,
    /// Without what is around it.
    frame: Bytes,
}

impl Inside {
    /// When it is time to look again. A line matters only where somebody waits.
    pub(super) fn deadline(&self, calls: usize) -> Option<Moment> {
        let begun = self.begun.as_ref().filter(|begun| calls > 0 && begun.looked == Looked::NotYet);
        let held = self.held.iter().map(|held| held.due);
        held.chain(begun.map(|begun| begun.since + PATIENCE)).min()
    }

    /// Nothing has come of the line for a while. One that has just grown is on its way.
    pub(super) fn is_quiet(&self, now: Moment) -> bool {
        self.begun.as_ref().is_none_or(|begun| begun.since + PATIENCE <= now)
    }
}

impl Session {
    /// What of a line has arrived whose end has not; empty: nothing. Whoever reads lines tells this in every turn, after
    /// reading and after [`received`](Self::received).
    pub fn begun(&mut self, now: Moment, line: &[u8]) {
        if self.config.role == Role::Server || !self.state.is_live() || !self.carrier.reads_lines() {
            return;
        }
        self.now = now.max(self.now);
        let line = line.trim_ascii();
        if line.is_empty() {
            self.inside.begun = None;
            return;
        }
        let arrived_bytes = self.carrier.arrived_bytes();
        match &mut self.inside.begun {
            Some(begun) if begun.arrived_bytes == arrived_bytes => {
                if begun.looked == Looked::Due {
                    begun.looked = Looked::Yes;
                    self.look_into_begun(line);
                }
            }
            begun => {
                let head = line[..line.len().min(self.config.limits.excerpt_bytes + 1)].to_vec();
                let (looked, told) = (Looked::NotYet, Told::NotYet);
                *begun =
                    Some(Begun { arrived_bytes, since: self.now, bytes: line.len(), head, looked, told });
            }
        }
    }

    /// Nothing has followed for a while: a whole answer is not going to be any more whole.
    fn look_into_begun(&mut self, line: &[u8]) {
        if !line.ends_with(b"}") || memmem::find(line, NAME).is_none() {
            return;
        }
        let Some(found) = self.answer_in(&Bytes::copy_from_slice(line)) else { return };
        self.tell_begun(Some(found.id.clone()));
        self.take_found(found, Rule::Unterminated);
        self.obey_strictness();
    }

    /// A line has no end, and somebody has waited for one: once, with its bytes.
    pub(super) fn tell_begun(&mut self, call: Option<CallId>) {
        let untold = self.inside.begun.as_mut().filter(|begun| begun.told == Told::NotYet);
        let Some(begun) = untold else { return };
        begun.told = Told::Yes;
        let detail = format!("{} bytes, and no newline after them", begun.bytes);
        self.current = Bytes::from(std::mem::take(&mut begun.head));
        // It is the one after those that have arrived.
        self.frames += 1;
        self.find(Rule::Unterminated, call, detail);
        self.frames -= 1;
        self.current = Bytes::new();
    }

    /// A line that is no message may still hold the answer to a call of ours.
    pub(super) fn answer_inside(&self, violation: &Violation) -> Option<Found> {
        let is_text = matches!(violation.rule, Rule::Syntax | Rule::NotUtf8 | Rule::Trailing)
            && matches!(violation.shape, Shape::Unknown | Shape::Note);
        let is_ours = self.config.role == Role::Client && self.carrier.reads_lines();
        // Most of what is printed stops here, after one look at its bytes.
        if !is_text || !is_ours || memmem::find(&self.current, NAME).is_none() {
            return None;
        }
        self.answer_in(&self.current)
    }

    fn answer_in(&self, line: &Bytes) -> Option<Found> {
        // What a dialect translates has not its published form here.
        if self.outbound.len() == 0 || self.config.dialect.translates() {
            return None;
        }
        let mut from = 0;
        let mut looked = 0;
        for at in memchr_iter(b'{', line) {
            let is_object = line[at + 1..].trim_ascii_start().starts_with(b"\"");
            if at < from || !is_object {
                continue;
            }
            let (frame, end) = self.message_at(line.slice(at..));
            if let Some(found) = frame.and_then(|frame| self.reply_to_ours(frame, at)) {
                return Some(found);
            }
            from = at.saturating_add(end);
            looked += 1;
            if looked == PLACES {
                break;
            }
        }
        None
    }

    /// The message that `rest` begins with, and where to go on. Only a proper one counts, however lenient we are: anything may
    /// look like half of one.
    fn message_at(&self, rest: Bytes) -> (Option<Bytes>, usize) {
        match envelope::decode(&rest, Strictness::Standard, &self.config.limits) {
            Decoded::One(Ok(_), _) => (Some(rest), usize::MAX),
            Decoded::One(Err(violation), _) if violation.rule == Rule::Trailing => {
                let end = violation.at.min(rest.len());
                (Some(rest.slice(..end)), end.max(1))
            }
            _ => (None, 1),
        }
    }

    fn reply_to_ours(&self, frame: Bytes, at: usize) -> Option<Found> {
        let id = self.reply_of(&frame)?.id?;
        let number = id.as_number().filter(|number| self.outbound.has(*number))?;
        Some(Found { number, id, at, frame })
    }

    fn reply_of(&self, frame: &Bytes) -> Option<Reply> {
        match envelope::decode(frame, Strictness::Standard, &self.config.limits) {
            Decoded::One(Ok(Envelope::Reply(reply)), _) => Some(reply),
            _ => None,
        }
    }

    /// An answer with text around it: if no other comes, this is it.
    pub(super) fn hold_answer(&mut self, found: Found, rule: Rule) {
        // The first is as good as any other.
        if self.inside.held.iter().all(|held| held.found.number != found.number) {
            self.inside.held.push(Held { found, rule, due: self.now + PATIENCE });
        }
    }

    /// What was waited for long enough.
    pub(super) fn inside_due(&mut self) {
        let now = self.now;
        if let Some(begun) = &mut self.inside.begun
            && begun.looked == Looked::NotYet
            && begun.since + PATIENCE <= now
        {
            begun.looked = Looked::Due;
        }
        let due: Vec<_> = self.inside.held.extract_if(.., |held| held.due <= now).collect();
        for Held { found, rule, .. } in due {
            self.take_found(found, rule);
        }
    }

    /// Ends the call that an answer belongs to, unless it has ended: with what is wrong, or with the answer where such is mended.
    fn take_found(&mut self, found: Found, rule: Rule) {
        if !self.outbound.has(found.number) {
            return;
        }
        let mended = self.reply_of(&found.frame).filter(|_| self.config.strictness == Strictness::Lenient);
        match mended {
            Some(reply) => {
                self.noise = 0;
                self.torn = Torn::default();
                self.current = found.frame;
                self.replied(reply);
                self.current = Bytes::new();
            }
            None => {
                let violation = Violation { rule, id: Some(found.id), shape: Shape::Reply, at: found.at };
                self.settle_violated(found.number, violation);
                self.settle_claimed();
            }
        }
    }
}

/// What every message has.
const NAME: &[u8] = b"\"jsonrpc\"";
