//! What waits to be written on a link of one byte stream.
//!
//! Messages leave in order, but for those few that must not wait for bulk: they go before whatever has not
//! begun to leave. A message that has begun is always finished first. What nobody wants any more can be
//! taken back until it begins.

use std::collections::VecDeque;

use cardan_proto::session::event::{Departed, Outgoing};

/// Two queues, and the rule which of them is next.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    in_order: Queue,
    ahead: Queue,
    /// The last message that might have gone ahead and was put in order. Those ahead go after it: among
    /// themselves they never change places.
    waits_for: u64,
}

/// With less than this before it, nothing needs to go ahead: one write takes it all, in the order in which
/// it was said.
const BULK_BYTES: usize = 16 << 10;

impl Outbox {
    pub(crate) fn push(&mut self, frame: u64, message: &Outgoing) {
        self.in_order.push(frame, message);
    }

    pub(crate) fn push_ahead(&mut self, frame: u64, message: &Outgoing) {
        if self.ahead.is_empty() && self.in_order.waiting_bytes() < BULK_BYTES {
            self.waits_for = frame;
            return self.in_order.push(frame, message);
        }
        self.ahead.push(frame, message);
    }

    /// Takes back a message that was put in order and has not begun to leave.
    pub(crate) fn retract(&mut self, frame: u64) {
        self.in_order.retract(frame);
    }

    /// What to write next; empty: nothing waits.
    pub(crate) fn waiting(&self) -> &[u8] {
        match (self.is_ahead_next(), self.ahead.is_empty()) {
            (true, _) => self.ahead.run(),
            (false, true) => self.in_order.run(),
            (false, false) => self.in_order.rest_of_first(),
        }
    }

    /// So much of [`Outbox::waiting`] was written.
    pub(crate) fn advance(&mut self, n: usize) {
        if self.is_ahead_next() { self.ahead.advance(n) } else { self.in_order.advance(n) }
    }

    /// All that waits, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.in_order.waiting_bytes() + self.ahead.waiting_bytes()
    }

    pub(crate) fn departed(&self) -> Departed {
        let in_order = self.in_order.written;
        // Whatever is in order and comes later than one ahead is written later, too.
        Departed { in_order, ahead: in_order.max(self.ahead.written), begun: self.in_order.begun() }
    }

    /// Not in the middle of a message. One that goes ahead is itself finished before the order goes on.
    fn is_ahead_next(&self) -> bool {
        !self.ahead.is_empty() && !self.in_order.is_torn() && self.in_order.written >= self.waits_for
    }
}

/// Bytes that wait, and where each message in them ends. Positions count from the queue's first byte ever.
#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    /// How much of `bytes` is written or skipped.
    done: usize,
    /// What is no longer in `bytes`.
    gone: u64,
    frames: VecDeque<Frame>,
    /// Where the first of `frames` begins.
    start: u64,
    /// How much of `bytes` was taken back and not skipped yet.
    retracted_bytes: usize,
    /// The last message that was written in full.
    written: u64,
}

/// One message that is not written in full.
#[derive(Debug)]
struct Frame {
    number: u64,
    end: u64,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Wanted,
    Retracted,
}

/// A buffer larger than this is given back when it is empty.
const KEPT_BYTES: usize = 1 << 20;

impl Queue {
    fn push(&mut self, number: u64, message: &Outgoing) {
        message.write(&mut self.bytes);
        self.bytes.push(b'\n');
        let end = self.gone + self.bytes.len() as u64;
        self.frames.push_back(Frame { number, end, fate: Fate::Wanted });
    }

    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    fn position(&self) -> u64 {
        self.gone + self.done as u64
    }

    /// Is the first message written in part?
    fn is_torn(&self) -> bool {
        self.position() > self.start
    }

    /// The last message of which anything was written.
    fn begun(&self) -> u64 {
        match self.frames.front() {
            Some(first) if self.is_torn() => first.number,
            _ => self.written,
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.done - self.retracted_bytes
    }

    /// All that can be written at once: up to the first message that was taken back.
    fn run(&self) -> &[u8] {
        if self.retracted_bytes == 0 {
            return &self.bytes[self.done..];
        }
        let wanted = self.frames.iter().take_while(|frame| frame.fate == Fate::Wanted);
        self.up_to(wanted.last().map_or(self.start, |last| last.end))
    }

    fn rest_of_first(&self) -> &[u8] {
        self.up_to(self.frames.front().map_or(self.start, |first| first.end))
    }

    fn up_to(&self, end: u64) -> &[u8] {
        &self.bytes[self.done..(end - self.gone) as usize]
    }

    fn retract(&mut self, number: u64) {
        let begun = self.begun();
        let Ok(at) = self.frames.binary_search_by_key(&number, |frame| frame.number) else { return };
        let start = if at == 0 { self.start } else { self.frames[at - 1].end };
        let frame = &mut self.frames[at];
        if number > begun && frame.fate == Fate::Wanted {
            frame.fate = Fate::Retracted;
            self.retracted_bytes += (frame.end - start) as usize;
            self.skip();
            self.tidy();
        }
    }

    fn advance(&mut self, n: usize) {
        self.done += n;
        let position = self.position();
        while let Some(frame) = self.frames.pop_front_if(|frame| frame.end <= position) {
            self.start = frame.end;
            self.written = frame.number;
        }
        self.skip();
        self.tidy();
    }

    /// Leaves out what was taken back, where it is next.
    fn skip(&mut self) {
        if self.retracted_bytes == 0 || self.is_torn() {
            return;
        }
        while let Some(frame) = self.frames.pop_front_if(|frame| frame.fate == Fate::Retracted) {
            let length = (frame.end - self.start) as usize;
            self.start = frame.end;
            self.done += length;
            self.retracted_bytes -= length;
        }
    }

    /// A peer that is always a little behind never empties the buffer: what is written must leave it all
    /// the same. Moving no more than was written keeps the cost proportional.
    fn tidy(&mut self) {
        if self.done >= KEPT_BYTES.max(self.bytes.len() / 2) || self.done == self.bytes.len() {
            self.gone += self.done as u64;
            self.bytes.drain(..self.done);
            self.done = 0;
            // One large reply must not pin its size for ever.
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Outgoing {
        Outgoing::Raw(text.to_owned().into())
    }

    /// So long that others need not wait for it.
    fn bulk(name: &str) -> Outgoing {
        message(&format!("{}{name}", ".".repeat(BULK_BYTES)))
    }

    /// Writes all that waits, at most `most` bytes at a time: the names, in order.
    fn written(out: &mut Outbox, most: usize) -> Vec<String> {
        let mut text = Vec::new();
        while !out.waiting().is_empty() {
            let n = out.waiting().len().min(most);
            text.extend_from_slice(&out.waiting()[..n]);
            out.advance(n);
        }
        assert_eq!(out.bytes(), 0);
        let text = String::from_utf8(text).unwrap();
        text.lines().map(|line| line.trim_start_matches('.').to_owned()).collect()
    }

    /// F6: a peer that keeps up without ever catching up does not make the buffer grow.
    #[test]
    fn f6_what_is_written_leaves_the_buffer() {
        let large = Outgoing::Raw(vec![b'x'; 64 << 10].into());
        let mut out = Outbox::default();
        out.push(1, &large);
        for n in 1..=1000 {
            out.push(n + 1, &large);
            out.advance((64 << 10) + 1);
            assert_eq!(out.departed(), Departed { in_order: n, ahead: n, begun: n });
            assert_eq!(out.waiting().len(), (64 << 10) + 1);
        }
        assert!(out.in_order.bytes.capacity() <= 4 * KEPT_BYTES, "{} bytes", out.in_order.bytes.capacity());
    }

    /// S0-47: what goes ahead overtakes bulk, but never cuts a message in two; the rest keeps its order.
    #[test]
    fn s0_47_what_goes_ahead_waits_for_no_more_than_the_message_on_its_way() {
        for most in [1, 1000, usize::MAX] {
            let mut out = Outbox::default();
            for (frame, name) in (1..).zip(["one", "two", "three"]) {
                out.push(frame, &bulk(name));
            }
            out.advance(3);
            out.push_ahead(4, &message("cancel"));
            out.push(5, &bulk("five"));
            out.push_ahead(6, &message("ping"));
            assert_eq!(out.departed(), Departed { in_order: 0, ahead: 0, begun: 1 });
            assert_eq!(written(&mut out, most), ["one", "cancel", "ping", "two", "three", "five"]);
            assert_eq!(out.departed(), Departed { in_order: 5, ahead: 6, begun: 5 });
        }
    }

    /// S0-47: a message that overtakes another is counted as itself, not as the one it overtook.
    #[test]
    fn s0_47_overtaking_does_not_count_for_the_overtaken() {
        let mut out = Outbox::default();
        out.push(1, &bulk("one"));
        out.push_ahead(2, &message("ping"));
        out.advance("ping\n".len());
        assert_eq!(out.departed(), Departed { in_order: 0, ahead: 2, begun: 0 });
        // One that goes ahead is finished, too, before the order goes on.
        out.push_ahead(3, &message("cancel"));
        out.advance(1);
        out.push(4, &message("more"));
        assert_eq!(written(&mut out, 2), ["ancel", "one", "more"]);
    }

    /// S0-47: a short queue keeps its order, and a ping in it is overtaken by no other and by no cancel of it.
    #[test]
    fn s0_47_those_that_go_ahead_keep_their_order() {
        for most in [1, usize::MAX] {
            let mut out = Outbox::default();
            out.push(1, &message("one"));
            out.push_ahead(2, &message("ping"));
            out.push(3, &bulk("three"));
            out.push_ahead(4, &message("cancel of the ping"));
            assert_eq!(out.departed(), Departed { in_order: 0, ahead: 0, begun: 0 });
            assert_eq!(written(&mut out, most), ["one", "ping", "cancel of the ping", "three"]);
            assert_eq!(out.departed(), Departed { in_order: 3, ahead: 4, begun: 3 });
        }
    }

    /// S0-47, S0-76: what was taken back never leaves; what has begun is not taken back.
    #[test]
    fn s0_47_what_is_taken_back_never_leaves() {
        for most in [1, 4, 100] {
            let mut out = Outbox::default();
            for (frame, name) in (1..).zip(["one", "two", "three", "four", "five"]) {
                out.push(frame, &message(name));
            }
            out.advance(1);
            for frame in [1, 2, 4, 4, 9] {
                out.retract(frame);
            }
            assert_eq!(out.bytes(), "ne\nthree\nfive\n".len());
            assert_eq!(written(&mut out, most), ["ne", "three", "five"]);
            out.push(6, &message("six"));
            out.retract(6);
            assert_eq!((out.bytes(), out.waiting()), (0, &b""[..]));
            out.push(7, &message("seven"));
            assert_eq!(written(&mut out, most), ["seven"]);
        }
    }
}
