//! The link of a legacy session: messages come in by POST, and go out on the lane they belong to.
//!
//! A POST opens a lane of its own; the push lane (GET) is there as long as the session. A lane whose reader
//! is gone goes on: what it would have read is kept for the reader to come back.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::codec::sse::{write_event, write_priming};
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::jsonrpc::envelope::{Decoded, Envelope};
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, Delivery, Departed, LaneId, Outgoing};
use cardan_proto::session::replay::{EventId, Resume};
use cardan_runtime::link::{Link, Received};

use crate::shelf::{Kept, Shelf};
use crate::wire::{Wire, is_reply};

/// The link.
#[derive(Debug)]
pub(crate) struct Lanes {
    arrived: VecDeque<Received>,
    open: Vec<Lane>,
    push: Lane,
    /// The place on the push lane before all that waits there.
    before_waiting: Option<EventId>,
    replay: Kept,
    minted: u32,
    readers: u32,
    put: u64,
    max_lanes: usize,
    max_lane_bytes: usize,
    max_unread: usize,
}

/// One lane.
#[derive(Debug)]
struct Lane {
    id: LaneId,
    form: Form,
    waiting: VecDeque<Message>,
    bytes: usize,
    reader: Reader,
    waker: Option<Waker>,
    end: End,
}

/// One message, on its way to a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    id: Option<EventId>,
    wire: Wire,
}

/// What a lane looks like to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing was sent yet.
    Undecided,
    /// Events, which can be resumed.
    Events,
    /// The reply and nothing else: its reader takes no events.
    Reply,
}

/// Who reads a lane. Each reader has a number, so that one that was replaced cannot speak for its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    Nobody,
    Number(u32),
}

/// What follows on a lane when all that waits is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// More.
    Open,
    /// Nothing.
    Ended,
    /// The rest, for a reader that comes back after this time.
    Released(Duration),
}

/// The first thing that a POST has to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// The reply, and nothing else.
    Reply(Wire),
    /// Events: read them.
    Events,
    /// Nothing at all: the call was withdrawn.
    Nothing,
}

/// What there is to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Events.
    Bytes(Bytes),
    /// Nothing more.
    End,
}

/// Too many lanes are open.
#[derive(Debug)]
pub(crate) struct TooMany;

/// What was to be resumed is not kept any more.
#[derive(Debug)]
pub(crate) struct Forgotten;

impl Lane {
    fn new(id: LaneId) -> Self {
        Self {
            id,
            form: Form::Undecided,
            waiting: VecDeque::new(),
            bytes: 0,
            reader: Reader::Nobody,
            waker: None,
            end: End::Open,
        }
    }

    fn push(&mut self, message: Message) {
        self.bytes += message.wire.len();
        self.waiting.push_back(message);
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }
}

impl Lanes {
    pub(crate) fn new(limits: &Limits, shelf: &Arc<Shelf>) -> Self {
        let mut push = Lane::new(LaneId::MAIN);
        push.form = Form::Events;
        Self {
            arrived: VecDeque::new(),
            open: Vec::new(),
            push,
            before_waiting: None,
            replay: Kept::new(shelf, limits),
            minted: 0,
            readers: 0,
            put: 0,
            max_lanes: limits.lanes,
            max_lane_bytes: limits.outbox_bytes,
            max_unread: limits.replay_events,
        }
    }

    /// A message came that opens no lane: a note, or a reply.
    pub(crate) fn arrive(&mut self, decoded: Decoded) {
        self.arrived.push_back(Received::Read { lane: LaneId::MAIN, decoded });
    }

    /// A message came whose reply goes out on a lane of its own, which looks like this.
    pub(crate) fn arrive_on_lane(&mut self, decoded: Decoded, form: Form) -> Result<(LaneId, u32), TooMany> {
        if self.open.len() >= self.max_lanes {
            return Err(TooMany);
        }
        self.minted += 1;
        let mut lane = Lane { form, ..Lane::new(LaneId(self.minted)) };
        let reader = self.new_reader();
        lane.reader = Reader::Number(reader);
        self.arrived.push_back(Received::Read { lane: lane.id, decoded });
        self.open.push(lane);
        Ok((LaneId(self.minted), reader))
    }

    /// Lanes of calls that are not read to their end.
    pub(crate) fn open_lanes(&self) -> usize {
        self.open.len()
    }

    /// Is there anything to be done, or to be read?
    pub(crate) fn is_busy(&self) -> bool {
        !self.open.is_empty() || !self.arrived.is_empty()
    }

    /// Does anyone read?
    pub(crate) fn is_read(&self) -> bool {
        self.open.iter().chain([&self.push]).any(|lane| lane.reader != Reader::Nobody)
    }

    /// Whoever reads the lane is not woken by what comes next: they look by themselves.
    pub(crate) fn hush(&mut self, id: LaneId) {
        if let Some(lane) = self.open.iter_mut().find(|lane| lane.id == id) {
            lane.waker = None;
        }
    }

    /// The first thing that the lane of a POST has to say.
    pub(crate) fn poll_first(&mut self, id: LaneId, cx: &Context<'_>) -> Poll<First> {
        let Some(lane) = self.open.iter_mut().find(|lane| lane.id == id) else {
            return Poll::Ready(First::Nothing);
        };
        match (lane.form, lane.waiting.len(), lane.end) {
            (_, 0, End::Open) | (Form::Reply, _, End::Open | End::Released(_)) => {
                lane.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            (_, 0 | 1, End::Ended) | (Form::Reply, _, End::Ended) => {
                let reply = lane.waiting.pop_back();
                self.remove(id);
                Poll::Ready(reply.map_or(First::Nothing, |reply| First::Reply(reply.wire)))
            }
            _ => Poll::Ready(First::Events),
        }
    }

    /// The lane of a POST becomes a stream of events. What opens it, where the revision primes streams.
    pub(crate) fn become_events(&mut self, id: LaneId, primed: bool) -> Bytes {
        let mut out = Vec::new();
        let Some(lane) = self.open.iter_mut().find(|lane| lane.id == id) else { return Bytes::new() };
        lane.form = Form::Events;
        if primed {
            write_priming(&mut out, &self.replay.mint(id).text(), None);
        }
        let reply = (lane.end == End::Ended).then_some(lane.waiting.len());
        for (at, message) in lane.waiting.iter_mut().enumerate() {
            let bytes = message.wire.clone().joined();
            message.id = Some(match reply {
                Some(count) if at + 1 == count => self.replay.push_reply(id, bytes.clone()),
                _ => self.replay.push(id, bytes.clone()),
            });
            message.wire = Wire::Whole(bytes);
        }
        Bytes::from(out)
    }

    /// Someone wants to read the push lane, from where an earlier reader was cut off if that is told. Whoever
    /// read before reads no more: a reader that we believe to be there may be long gone.
    pub(crate) fn open_push(&mut self) -> u32 {
        let reader = self.new_reader();
        self.push.reader = Reader::Number(reader);
        self.push.wake();
        reader
    }

    /// Whoever reads the push lane reads no more. What comes waits for the next.
    pub(crate) fn hang_up(&mut self) {
        self.push.reader = Reader::Nobody;
        self.push.wake();
    }

    /// What opens the push lane, where the revision primes streams. Who sees no more than that and comes back
    /// must get what waits here now.
    pub(crate) fn prime_push(&mut self) -> Bytes {
        let waits = !self.push.waiting.is_empty();
        let place = self.before_waiting.filter(|_| waits);
        let place = place.unwrap_or_else(|| self.replay.mint(LaneId::MAIN));
        let mut out = Vec::new();
        write_priming(&mut out, &place.text(), None);
        Bytes::from(out)
    }

    /// A reader comes back to the lane it was cut off from.
    pub(crate) fn resume(&mut self, last: EventId) -> Result<(LaneId, u32), Forgotten> {
        let Resume::From(events) = self.replay.after(last) else { return Err(Forgotten) };
        let form = self.lane_mut(last.lane).map(|lane| lane.form);
        match form {
            Some(Form::Events) => {}
            // Nobody was told an event of it yet, and its own reader waits for the first.
            Some(Form::Undecided | Form::Reply) => return Err(Forgotten),
            None if events.is_empty() => return Err(Forgotten),
            None => self.open.push(Lane { form: Form::Events, end: End::Ended, ..Lane::new(last.lane) }),
        }
        let reader = self.new_reader();
        let Some(lane) = self.lane_mut(last.lane) else { return Err(Forgotten) };
        lane.clear();
        if matches!(lane.end, End::Released(_)) {
            lane.end = End::Open;
        }
        lane.reader = Reader::Number(reader);
        for (id, bytes) in events {
            lane.push(Message { id: Some(id), wire: Wire::Whole(bytes) });
        }
        lane.wake();
        Ok((last.lane, reader))
    }

    /// What there is to read on a lane that has become events.
    pub(crate) fn poll_events(&mut self, id: LaneId, reader: u32, cx: &Context<'_>) -> Poll<Next> {
        let Some(lane) = self.lane_mut(id).filter(|lane| lane.reader == Reader::Number(reader)) else {
            return Poll::Ready(Next::End);
        };
        if lane.waiting.is_empty() {
            return match lane.end {
                End::Open => {
                    lane.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
                End::Ended => {
                    self.remove(id);
                    Poll::Ready(Next::End)
                }
                End::Released(retry) => {
                    lane.reader = Reader::Nobody;
                    let retry = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
                    let mut out = Vec::new();
                    write_priming(&mut out, &self.replay.mint(id).text(), Some(retry));
                    Poll::Ready(Next::Bytes(Bytes::from(out)))
                }
            };
        }
        let mut out = Vec::with_capacity(lane.bytes + 48 * lane.waiting.len());
        for message in lane.waiting.drain(..) {
            let id = message.id.map(EventId::text);
            write_event(&mut out, None, id.as_deref(), None, &message.wire.joined());
        }
        lane.bytes = 0;
        Poll::Ready(Next::Bytes(Bytes::from(out)))
    }

    /// A reader is gone. Its lane goes on without it.
    pub(crate) fn leave(&mut self, id: LaneId, reader: u32) {
        let Some(lane) = self.lane_mut(id).filter(|lane| lane.reader == Reader::Number(reader)) else {
            return;
        };
        lane.reader = Reader::Nobody;
        lane.waker = None;
        // The push lane keeps what was not read for whoever comes next; the others are resumed by event id.
        if id != LaneId::MAIN {
            lane.clear();
            if lane.end == End::Ended {
                self.remove(id);
            }
        }
    }

    fn new_reader(&mut self) -> u32 {
        self.readers += 1;
        self.readers
    }

    fn lane_mut(&mut self, id: LaneId) -> Option<&mut Lane> {
        if id == LaneId::MAIN {
            return Some(&mut self.push);
        }
        self.open.iter_mut().find(|lane| lane.id == id)
    }

    fn remove(&mut self, id: LaneId) {
        self.open.retain(|lane| lane.id != id);
    }

    /// Puts a message on the push lane. Without a reader only the newest are kept.
    fn put_push(&mut self, wire: Wire) {
        let bytes = wire.joined();
        if self.push.waiting.is_empty() {
            self.before_waiting = Some(self.replay.mint(LaneId::MAIN));
        }
        let id = Some(self.replay.push(LaneId::MAIN, bytes.clone()));
        self.push.push(Message { id, wire: Wire::Whole(bytes) });
        let unread = self.push.reader == Reader::Nobody;
        while (unread && self.push.waiting.len() > self.max_unread) || self.push.bytes > self.max_lane_bytes {
            let Some(oldest) = self.push.waiting.pop_front() else { break };
            self.push.bytes -= oldest.wire.len();
        }
    }

    /// What belongs to a call whose reader takes nothing but the reply. A note is not worth telling elsewhere;
    /// a call of ours may go out on the push lane, or else whoever waits for its answer is told at once.
    fn put_beside(&mut self, message: &Outgoing) {
        let Outgoing::One(Envelope::Call(call)) = message else { return };
        if self.push.reader != Reader::Nobody {
            return self.put_push(Wire::of(message));
        }
        self.arrived.push_back(Received::Failed {
            id: Some(call.id.clone()),
            cause: Cause::Http(Box::new(HttpFailure::NoLane)),
            delivery: Delivery::NotSent,
        });
    }

    /// Puts a message on the lane of a POST.
    fn put_lane(&mut self, id: LaneId, message: &Outgoing) {
        let (wire, last) = (Wire::of(message), is_reply(message));
        let Some(at) = self.open.iter().position(|lane| lane.id == id) else { return };
        let lane = &mut self.open[at];
        if last {
            lane.end = End::Ended;
        }
        match (lane.form, lane.reader) {
            (Form::Reply, _) if !last => self.put_beside(message),
            (Form::Undecided | Form::Reply, Reader::Number(_)) => lane.push(Message { id: None, wire }),
            // Its reader left before there was anything to resume. A reply belongs on no other lane, and what
            // is no reply may still be read on the push lane.
            (Form::Undecided | Form::Reply, Reader::Nobody) if last => {
                self.open.remove(at);
            }
            (Form::Undecided | Form::Reply, Reader::Nobody) => self.put_push(wire),
            (Form::Events, reader) => {
                let bytes = wire.joined();
                let event = if last {
                    self.replay.push_reply(id, bytes.clone())
                } else {
                    self.replay.push(id, bytes.clone())
                };
                if reader == Reader::Nobody {
                    if last {
                        self.open.remove(at);
                    }
                    return;
                }
                lane.push(Message { id: Some(event), wire: Wire::Whole(bytes) });
                if lane.bytes > self.max_lane_bytes {
                    // It does not keep up: it may come back and resume.
                    lane.reader = Reader::Nobody;
                    lane.clear();
                    lane.wake();
                }
            }
        }
    }
}

impl Link for Lanes {
    fn poll_recv(&mut self, _cx: &mut Context<'_>) -> Poll<Received> {
        // Whoever brings a message drives the session afterwards, so there is nobody to wake.
        self.arrived.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    fn put(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        self.put = frame;
        if lane == LaneId::MAIN {
            self.put_push(Wire::of(message));
        } else {
            self.put_lane(lane, message);
        }
    }

    fn end_lane(&mut self, lane: LaneId) {
        if let Some(lane) = self.open.iter_mut().find(|open| open.id == lane) {
            lane.end = End::Ended;
            lane.wake();
            if lane.reader == Reader::Nobody {
                let id = lane.id;
                self.remove(id);
            }
        }
    }

    fn release(&mut self, lane: LaneId, retry: Duration) {
        if let Some(lane) = self.open.iter_mut().find(|open| open.id == lane)
            && lane.end == End::Open
            && lane.form != Form::Reply
            && lane.reader != Reader::Nobody
        {
            lane.end = End::Released(retry);
            lane.wake();
        }
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn queued(&self) -> usize {
        // Each lane has its own bound and its own reader; a slow one is no reason to end the session.
        0
    }

    fn departed(&self) -> Departed {
        Departed::through(self.put)
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>, _cause: &Cause) -> Poll<()> {
        for lane in self.open.iter_mut().chain([&mut self.push]) {
            lane.end = End::Ended;
            lane.wake();
        }
        Poll::Ready(())
    }
}

/// Readers that wait must learn that there is nothing to wait for.
impl Drop for Lanes {
    fn drop(&mut self) {
        for lane in self.open.iter_mut().chain([&mut self.push]) {
            lane.wake();
        }
    }
}
