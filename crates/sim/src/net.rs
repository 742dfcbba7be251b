//! The link between the two sessions: one pipe of bytes per direction.
//!
//! A frame waits in the outbox, where it may be overtaken or taken back, is written in pieces, travels,
//! and is read by the real line decoder.
//! The link may stall, break within a frame or end one way; and the peer behind it may be evil: it
//! says things twice, late, broken or out of the blue.

use std::collections::{BTreeSet, VecDeque};

use bytes::BytesMut;
use cardan_proto::codec::{Line, LineDecoder};
use cardan_proto::jsonrpc::envelope::Envelope;
use cardan_proto::moment::Moment;
use cardan_proto::session::config::Role;
use cardan_proto::session::event::{Departed, Outgoing, Turn};

use crate::fault::{Weather, millis};
use crate::junk;
use crate::rng::Rng;

/// One direction of the link.
#[derive(Debug)]
pub struct Pipe {
    weather: Weather,
    /// Who writes into it.
    from: Role,
    decoder: LineDecoder,
    read: BytesMut,
    outbox: VecDeque<Queued>,
    outbox_bytes: usize,
    /// How much of the first frame in the outbox is written.
    offset: usize,
    written_bytes: u64,
    frames: u64,
    departed: Departed,
    next_write: Moment,
    flight: VecDeque<(Moment, Travelling)>,
    held: Vec<(Moment, Queued)>,
    tainted: BTreeSet<i64>,
    end: End,
}

#[derive(Debug)]
struct Queued {
    bytes: Vec<u8>,
    source: Source,
}

/// Who put a frame into the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Session(u64, Turn),
    /// The evil peer repeats what the session sent.
    Copy(u64),
    Evil,
}

#[derive(Debug)]
enum Travelling {
    Bytes(Vec<u8>),
    Eof,
}

/// How far a direction has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Not at all.
    Open,
    /// No more bytes this way; the other way goes on.
    Half,
    /// With the whole link.
    Whole,
}

/// What comes out at the far end.
#[derive(Debug)]
pub enum Arrived {
    /// What the decoder made of the bytes.
    Line(Line),
    /// Nothing more will come.
    Eof(End),
}

/// What a write has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    /// Some bytes are on their way.
    Some,
    /// The link broke.
    Cut,
}

impl Pipe {
    /// An empty pipe.
    #[must_use]
    pub fn new(from: Role, weather: Weather, frame_bytes: usize) -> Self {
        Self {
            weather,
            from,
            decoder: LineDecoder::new(frame_bytes),
            read: BytesMut::new(),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            offset: 0,
            written_bytes: 0,
            frames: 0,
            departed: Departed { in_order: 0, ahead: 0, begun: 0 },
            next_write: Moment::ZERO,
            flight: VecDeque::new(),
            held: Vec::new(),
            tainted: BTreeSet::new(),
            end: End::Open,
        }
    }

    /// How far the frames of the session have come.
    #[must_use]
    pub fn departed(&self) -> Departed {
        let begun = match self.outbox.front() {
            Some(Queued { source: Source::Session(frame, Turn::InOrder), .. }) if self.offset > 0 => *frame,
            _ => self.departed.in_order,
        };
        Departed { begun, ..self.departed }
    }

    /// The session takes a frame back. The evil peer never saw it and cannot repeat it.
    pub fn retract(&mut self, frame: u64) {
        let wanted = |queued: &Queued| match queued.source {
            Source::Session(number, _) | Source::Copy(number) => number != frame,
            Source::Evil => true,
        };
        self.outbox.retain(wanted);
        self.held.retain(|(_, queued)| wanted(queued));
        self.outbox_bytes = self.outbox.iter().map(|queued| queued.bytes.len()).sum::<usize>() - self.offset;
    }

    /// Did the evil peer send a call with this id more than once?
    #[must_use]
    pub fn is_tainted(&self, id: i64) -> bool {
        self.tainted.contains(&id)
    }

    /// How much waits to be written.
    #[must_use]
    pub fn outbox_bytes(&self) -> usize {
        self.outbox_bytes
    }

    /// Takes a message of the session, as a driver would: what may be dropped is, at the bound.
    pub fn send(
        &mut self,
        (frame, turn): (u64, Turn),
        message: &Outgoing,
        max_bytes: usize,
        now: Moment,
        rng: &mut Rng,
    ) {
        let mut bytes = Vec::with_capacity(128);
        message.write(&mut bytes);
        bytes.push(b'\n');
        if self.end != End::Open || (message.is_droppable() && self.outbox_bytes > max_bytes) {
            bytes.clear();
        }
        let queued = Queued { bytes, source: Source::Session(frame, turn) };
        if self.weather.evil > 0 && rng.percent(self.weather.evil) {
            if rng.below(4) == 0 {
                self.taint(message);
                return self.send_twice(queued, frame, now, rng);
            }
            return self.send_evil(queued, frame, now, rng);
        }
        self.queue(queued, now, rng);
    }

    /// Twice, the second time perhaps much later.
    fn send_twice(&mut self, queued: Queued, frame: u64, now: Moment, rng: &mut Rng) {
        let copy = Queued { bytes: queued.bytes.clone(), source: Source::Copy(frame) };
        self.queue(queued, now, rng);
        if rng.percent(50) {
            self.held.push((now + millis(rng.below(3000)), copy));
        } else {
            self.queue(copy, now, rng);
        }
    }

    fn send_evil(&mut self, queued: Queued, frame: u64, now: Moment, rng: &mut Rng) {
        let Queued { mut bytes, source } = queued;
        match rng.below(7) {
            // Late: written, but not seen by the peer until then.
            0 => {
                let late = Queued { bytes, source: Source::Copy(frame) };
                self.held.push((now + millis(rng.below(3000)), late));
                bytes = Vec::new();
            }
            // Never.
            1 => bytes.clear(),
            // Cut off, but with a newline.
            2 => {
                bytes.truncate(rng.below(bytes.len() as u64) as usize);
                bytes.push(b'\n');
            }
            3 => bytes = junk::retyped(&bytes),
            _ => {
                let line = junk::line(self.from, self.frames, rng);
                self.queue(Queued { bytes: line, source: Source::Evil }, now, rng);
            }
        }
        self.queue(Queued { bytes, source }, now, rng);
    }

    fn taint(&mut self, message: &Outgoing) {
        if let Outgoing::One(Envelope::Call(call)) = message {
            self.tainted.extend(call.id.as_number());
        }
    }

    fn queue(&mut self, queued: Queued, now: Moment, rng: &mut Rng) {
        if self.outbox.is_empty() {
            self.next_write = self.next_write.max(now + millis(rng.below(self.weather.write_ms + 1)));
        }
        self.outbox_bytes += queued.bytes.len();
        let goes_ahead = |queued: &Queued| matches!(queued.source, Source::Session(_, Turn::Ahead));
        if !goes_ahead(&queued) {
            return self.outbox.push_back(queued);
        }
        // After the frame that is being written, and after others that go ahead.
        let torn = usize::from(self.offset > 0);
        let others = self.outbox.iter().skip(torn).take_while(|queued| goes_ahead(queued)).count();
        self.outbox.insert(torn + others, queued);
    }

    /// When something happens here next.
    #[must_use]
    pub fn next_at(&self) -> Option<Moment> {
        let writing = (self.end == End::Open && !self.outbox.is_empty()).then_some(self.next_write);
        let held = self.held.iter().map(|(at, _)| *at).min().filter(|_| self.end == End::Open);
        let arriving = self.flight.front().map(|(at, _)| *at);
        [writing, held, arriving].into_iter().flatten().min()
    }

    /// Writes what can be written now.
    pub fn write(&mut self, now: Moment, rng: &mut Rng) -> Wrote {
        if self.end != End::Open {
            return Wrote::Some;
        }
        while let Some(at) = self.held.iter().position(|(due, _)| *due <= now) {
            let (_, queued) = self.held.swap_remove(at);
            self.queue(queued, now, rng);
        }
        if let Some((from, length)) = self.weather.stall
            && now >= Moment::after(from)
            && now < Moment::after(from) + length
        {
            self.next_write = Moment::after(from) + length;
        }
        while self.end == End::Open && !self.outbox.is_empty() && self.next_write <= now {
            if self.write_chunk(now, rng) == Wrote::Cut {
                return Wrote::Cut;
            }
        }
        Wrote::Some
    }

    fn write_chunk(&mut self, now: Moment, rng: &mut Rng) -> Wrote {
        let room = match self.weather.chunk_bytes {
            0 => u64::MAX,
            most => rng.within(1, most),
        };
        let budget = [self.weather.cut_bytes, self.weather.half_close_bytes].into_iter().flatten().min();
        let left = budget.map_or(u64::MAX, |budget| budget.saturating_sub(self.written_bytes));
        let chunk = self.take(usize::try_from(room.min(left)).unwrap_or(usize::MAX));
        self.written_bytes += chunk.len() as u64;
        if !chunk.is_empty() {
            let arrival = now + millis(rng.below(self.weather.delay_ms + 1));
            self.travel(arrival, Travelling::Bytes(chunk));
        }
        if budget.is_some_and(|budget| self.written_bytes >= budget) {
            if self.weather.cut_bytes == budget {
                return Wrote::Cut;
            }
            self.end(End::Half, now);
        }
        self.next_write = now + millis(rng.below(self.weather.write_ms + 1));
        Wrote::Some
    }

    /// Takes up to `max` bytes off the outbox, and counts the frames that are gone.
    fn take(&mut self, max: usize) -> Vec<u8> {
        let mut chunk = Vec::new();
        while let Some(first) = self.outbox.front() {
            let rest = &first.bytes[self.offset..];
            let part = rest.len().min(max - chunk.len());
            chunk.extend_from_slice(&rest[..part]);
            if part < rest.len() {
                self.offset += part;
                break;
            }
            match first.source {
                Source::Session(frame, Turn::InOrder) => self.departed.in_order = frame,
                Source::Session(frame, Turn::Ahead) => self.departed.ahead = frame,
                Source::Copy(_) | Source::Evil => {}
            }
            self.frames += u64::from(matches!(first.source, Source::Session(..)));
            self.offset = 0;
            self.outbox.pop_front();
        }
        self.outbox_bytes -= chunk.len();
        chunk
    }

    /// Nothing overtakes anything on its way.
    fn travel(&mut self, arrival: Moment, what: Travelling) {
        let arrival = self.flight.back().map_or(arrival, |(last, _)| arrival.max(*last));
        self.flight.push_back((arrival, what));
    }

    /// Ends this direction: what is on its way still arrives, the rest is gone.
    pub fn end(&mut self, end: End, now: Moment) {
        if self.end != End::Open {
            self.end = End::Whole;
            return;
        }
        self.end = end;
        self.outbox.clear();
        (self.outbox_bytes, self.offset) = (0, 0);
        self.held.clear();
        self.travel(now, Travelling::Eof);
    }

    /// What is on its way is lost, as with a reset.
    pub fn lose_flight(&mut self) {
        self.flight.clear();
    }

    /// What has arrived by now, one thing at a time.
    pub fn read(&mut self, now: Moment) -> Option<Arrived> {
        loop {
            if let Some(line) = self.decoder.next(&mut self.read) {
                return Some(Arrived::Line(line));
            }
            match self.flight.front_mut() {
                Some((at, Travelling::Bytes(bytes))) if *at <= now => {
                    self.read.extend_from_slice(bytes);
                    self.flight.pop_front();
                }
                Some((at, Travelling::Eof)) if *at <= now => {
                    if let Some(line) = self.decoder.finish(&mut self.read) {
                        return Some(Arrived::Line(line));
                    }
                    self.flight.pop_front();
                    return Some(Arrived::Eof(self.end));
                }
                _ => return None,
            }
        }
    }
}
