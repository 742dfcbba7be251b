//! What a session knows of the link that carries it: what has left, what has come, what can be taken back.

use super::Session;
use super::event::{Cause, Delivery, Event, Outcome, Output, Refusal, Stage};
use super::tables::Pending;
use crate::era::Era;
use crate::method::Method;

/// When a message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// After all that was given before.
    InOrder,
    /// Before whatever has not begun to leave: a cancel or a ping must not wait for bulk.
    Ahead,
}

impl Turn {
    /// Of a call of ours.
    pub(super) fn of(method: &Method) -> Self {
        if *method == Method::Ping { Self::Ahead } else { Self::InOrder }
    }
}

/// How far a link has come with our frames, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departed {
    /// Those in order: up to this one they are written in full.
    pub in_order: u64,
    /// Those that went ahead: likewise.
    pub ahead: u64,
    /// Those in order: after this one none has begun to leave, and each can be taken back.
    pub begun: u64,
}

impl Departed {
    /// Of a link that writes all in order and gives nothing back.
    #[must_use]
    pub const fn through(frame: u64) -> Self {
        Self { in_order: frame, ahead: frame, begun: u64::MAX }
    }
}

/// What a link can do beside moving frames, as far as the protocol depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// How a call in flight is given up.
    pub cancel: Cancel,
    /// Whether a server can send what belongs to no call.
    pub pushes: Pushes,
    /// What it means that the probe for the modern era is not answered.
    pub silence: Silence,
    /// How messages are told apart.
    pub framing: Framing,
}

/// How messages are told apart on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// By the ends of lines: whatever else is printed looks like a message, and a message with a line break like several.
    Lines,
    /// By the transport: each thing that comes was meant as one message.
    Whole,
}

/// How a call in flight is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// By a note.
    ByNote,
    /// By closing its lane. For modern calls that is all; for legacy ones a note says it as well, since for
    /// them a lane that closes is no cancel.
    ByClosing,
}

/// What it means that the probe for the modern era is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// The server is of the legacy era: over one stream many drop what comes before the handshake.
    IsLegacy,
    /// Nothing, but that the server or the way to it is unwell: over HTTP every request has its answer.
    IsFailure,
}

/// Whether a server can send what belongs to no call: notes of changes and logs, and calls of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushes {
    /// It can.
    Carried,
    /// It may soon: the lane for it is being opened, or opened again.
    Opening,
    /// There is no lane for it, and never will be.
    Absent,
    /// There was a lane for it, which broke and could not be had again.
    Lost,
}

impl Abilities {
    /// Of one stream of lines each way: stdio, sockets.
    pub const STREAM: Self = Self {
        cancel: Cancel::ByNote,
        pushes: Pushes::Carried,
        silence: Silence::IsLegacy,
        framing: Framing::Lines,
    };
}

/// The link's side of a session.
#[derive(Debug)]
pub(super) struct Carrier {
    abilities: Abilities,
    /// Frames that we sent.
    sent: u64,
    departed: Departed,
    /// Bytes of the frames that arrived, and all bytes that the link has told of.
    framed_bytes: u64,
    received_bytes: u64,
    link: Link,
}

/// Whether what we handed out may still be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// It may.
    Up,
    /// It never will.
    Gone,
}

impl Default for Carrier {
    fn default() -> Self {
        Self {
            abilities: Abilities::STREAM,
            sent: 0,
            departed: Departed::through(0),
            framed_bytes: 0,
            received_bytes: 0,
            link: Link::Up,
        }
    }
}

impl Carrier {
    /// The number of the next frame.
    pub(super) fn mint(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    pub(super) fn arrived(&mut self, bytes: usize) {
        self.framed_bytes += bytes as u64;
    }

    /// How calls on this link are given up.
    pub(super) fn cancel(&self) -> Cancel {
        self.abilities.cancel
    }

    /// What arrived on this link so far.
    pub(super) fn arrived_bytes(&self) -> u64 {
        self.framed_bytes.max(self.received_bytes)
    }

    pub(super) fn pushes(&self) -> bool {
        matches!(self.abilities.pushes, Pushes::Carried | Pushes::Opening)
    }

    /// What becomes of a legacy listen that has no lane to hear by; nothing: it has one.
    pub(super) fn deaf(&self) -> Option<Outcome> {
        match self.abilities.pushes {
            Pushes::Carried | Pushes::Opening => None,
            Pushes::Absent => Some(Outcome::Refused(Refusal::NoPushes)),
            // Nothing is wrong with the wish: by another link it may come true.
            Pushes::Lost => {
                let cause = Cause::Io("the lane for pushes broke and could not be had again".into());
                Some(Outcome::Lost { cause, delivery: Delivery::Sent })
            }
        }
    }

    pub(super) fn silence(&self) -> Silence {
        self.abilities.silence
    }

    /// Are messages told apart by the ends of lines?
    pub(super) fn reads_lines(&self) -> bool {
        self.abilities.framing == Framing::Lines
    }

    /// The same for a new link of the same kind.
    pub(super) fn renewed(&self) -> Self {
        Self { abilities: self.abilities, ..Self::default() }
    }

    pub(super) fn lost(&mut self) {
        self.link = Link::Gone;
    }

    fn has_written(&self, pending: &Pending) -> bool {
        let through = match Turn::of(&pending.method) {
            Turn::InOrder => self.departed.in_order,
            Turn::Ahead => self.departed.ahead,
        };
        pending.frame.is_some_and(|frame| frame <= through)
    }

    /// Waits whole in the outbox, and would be given back.
    fn holds(&self, pending: &Pending) -> bool {
        Turn::of(&pending.method) == Turn::InOrder
            && pending.frame.is_some_and(|frame| frame > self.departed.begun)
    }
}

impl Session {
    /// What the link can do. May change as the link learns it.
    pub fn carried_by(&mut self, abilities: Abilities) {
        let before = std::mem::replace(&mut self.carrier.abilities, abilities);
        if before.pushes != abilities.pushes {
            self.event(Event::Pushes(abilities.pushes));
            self.refuse_legacy_listens();
        }
    }

    /// How many of our frames the link has written in full, all in order.
    pub fn written(&mut self, frames: u64) {
        self.departed(Departed::through(frames));
    }

    /// How far the link has come with our frames. Whoever obeys [`Output::Retract`] tells this after every
    /// write, before anything else is handled.
    pub fn departed(&mut self, now: Departed) {
        let known = &mut self.carrier.departed;
        known.in_order = known.in_order.max(now.in_order);
        known.ahead = known.ahead.max(now.ahead);
        known.begun = now.begun;
    }

    /// How many bytes the link has read, whether or not they are a frame yet. A link that does not tell is
    /// known by its frames alone.
    pub fn received(&mut self, bytes: u64) {
        self.carrier.received_bytes = self.carrier.received_bytes.max(bytes);
    }

    /// Gives up a call on the wire. One that has not begun to leave never does, and the peer need not hear
    /// of it; else the peer is told, in the way of the link.
    pub(super) fn call_off(&mut self, id: i64, pending: &Pending, reason: &str) -> Delivery {
        let delivery = self.delivery(pending);
        let unsent = self.carrier.holds(pending);
        let modern = pending.revision.is_some_and(|revision| revision.era() == Era::Modern);
        let by_closing = self.carrier.abilities.cancel == Cancel::ByClosing;
        if !(unsent || modern && by_closing) {
            self.send_cancel(id, reason);
        }
        if !unsent && !by_closing {
            return delivery;
        }
        // What could not be said has no number, and what the peer refused is not there to be taken back.
        if let Some(frame) = pending.frame.filter(|frame| self.state.is_live() && *frame > 0) {
            self.out.push_back(Output::Retract { frame });
        }
        match delivery {
            Delivery::Unknown if unsent => Delivery::NotSent,
            known => known,
        }
    }

    pub(super) fn delivery(&self, pending: &Pending) -> Delivery {
        // A retry stands for the whole call, whose earlier rounds were answered.
        if pending.pace.is_known() || pending.rounds > 0 {
            Delivery::Sent
        } else if pending.frame.is_none()
            || !self.carrier.has_written(pending) && self.carrier.link == Link::Gone
        {
            // Refused unread; or it waits in the outbox, and there is no link by which it may yet be written.
            Delivery::NotSent
        } else {
            Delivery::Unknown
        }
    }

    pub(super) fn stage(&self, pending: &Pending) -> Stage {
        if pending.pace.is_known() {
            Stage::Running
        } else if self.carrier.has_written(pending) {
            Stage::Sent
        } else {
            Stage::Queued
        }
    }
}
