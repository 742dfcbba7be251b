//! Legacy resumption: a bounded ring of what was sent, so that a broken stream can go on.
//!
//! Event ids are unique in the session and name their lane, so only messages of the stream that
//! broke are sent again. What fell out of the ring is lost, and said to be.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::event::LaneId;

/// The id of one event: `lane-number`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The lane it was sent on.
    pub lane: LaneId,
    /// Counts up over all lanes of the session.
    pub number: u64,
}

impl EventId {
    /// As it stands in an event stream.
    #[must_use]
    pub fn text(self) -> String {
        format!("{}-{}", self.lane.0, self.number)
    }

    /// From an event stream; a foreign one is no id of ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (lane, number) = text.split_once('-')?;
        Some(Self { lane: LaneId(lane.parse().ok()?), number: number.parse().ok()? })
    }
}

/// What was sent last.
#[derive(Debug)]
pub struct Replay {
    ring: VecDeque<(EventId, Bytes)>,
    bytes: usize,
    minted: u64,
    max_events: usize,
    max_bytes: usize,
    /// The newest event that was forgotten, per lane: what crowds one lane out must not end another.
    forgotten: HashMap<LaneId, u64>,
    /// The same for all lanes that are not in there any more.
    forgotten_before: u64,
}

/// What is left to send again.
#[derive(Debug, PartialEq, Eq)]
pub enum Resume {
    /// All of it, in order.
    From(Vec<(EventId, Bytes)>),
    /// Some of it is gone.
    Forgotten,
}

impl Replay {
    /// An empty ring with its two bounds.
    #[must_use]
    pub fn new(max_events: usize, max_bytes: usize) -> Self {
        let (ring, forgotten) = (VecDeque::new(), HashMap::new());
        Self { ring, bytes: 0, minted: 0, max_events, max_bytes, forgotten, forgotten_before: 0 }
    }

    /// Names a place on a lane, with nothing to remember: what follows it is sent again.
    pub fn mint(&mut self, lane: LaneId) -> EventId {
        self.minted += 1;
        EventId { lane, number: self.minted }
    }

    /// Remembers a message and names it.
    pub fn push(&mut self, lane: LaneId, message: Bytes) -> EventId {
        let id = self.mint(lane);
        self.bytes += message.len();
        self.ring.push_back((id, message));
        while self.ring.len() > self.max_events || self.bytes > self.max_bytes {
            let Some((oldest, message)) = self.ring.pop_front() else { break };
            self.bytes -= message.len();
            self.forgotten.insert(oldest.lane, oldest.number);
        }
        self.bound_forgotten();
        id
    }

    /// There are at most as many lanes to tell apart as there are events.
    fn bound_forgotten(&mut self) {
        while self.forgotten.len() > self.max_events {
            let Some((&lane, &number)) = self.forgotten.iter().min_by_key(|(_, number)| **number) else {
                return;
            };
            self.forgotten.remove(&lane);
            self.forgotten_before = self.forgotten_before.max(number);
        }
    }

    /// What followed `last` on its own lane.
    #[must_use]
    pub fn after(&self, last: EventId) -> Resume {
        let forgotten = self.forgotten.get(&last.lane).copied().unwrap_or(self.forgotten_before);
        if last.number < forgotten {
            return Resume::Forgotten;
        }
        let rest = self.ring.iter().filter(|(id, _)| id.lane == last.lane && id.number > last.number);
        Resume::From(rest.cloned().collect())
    }

    /// The lane is done: nobody will resume it.
    pub fn forget(&mut self, lane: LaneId) {
        self.ring.retain(|(id, _)| id.lane != lane);
        self.bytes = self.ring.iter().map(|(_, message)| message.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(n: usize) -> Bytes {
        Bytes::from(vec![b'x'; n])
    }

    /// HTL-18, HTL-15, HTL-16: only the broken stream is replayed; ids are unique and name their lane.
    #[test]
    fn replays_one_lane_in_order() {
        let mut ring = Replay::new(8, 1000);
        let first = ring.push(LaneId(1), message(1));
        ring.push(LaneId(2), message(2));
        let third = ring.push(LaneId(1), message(3));
        assert_eq!(ring.after(first), Resume::From(vec![(third, message(3))]));
        assert_eq!(EventId::parse(&third.text()), Some(third));
        assert_eq!(EventId::parse("nonsense"), None);
    }

    /// HTL-17, HTL-18: what one lane says crowds out no other, as long as they can be told apart.
    #[test]
    fn a_quiet_lane_outlives_a_loud_one() {
        let mut ring = Replay::new(2, 1000);
        let quiet = ring.mint(LaneId(7));
        let loud = ring.push(LaneId(1), message(1));
        for _ in 0..5 {
            ring.push(LaneId(1), message(1));
        }
        assert_eq!(ring.after(quiet), Resume::From(Vec::new()));
        assert_eq!(ring.after(loud), Resume::Forgotten);
        let own = ring.push(LaneId(7), message(2));
        assert_eq!(ring.after(quiet), Resume::From(vec![(own, message(2))]));
        for lane in 8..20 {
            ring.push(LaneId(lane), message(1));
        }
        assert_eq!(ring.after(quiet), Resume::Forgotten);
        assert!(ring.forgotten.len() <= 2);
    }

    #[test]
    fn both_bounds_hold_and_loss_is_told() {
        let mut ring = Replay::new(2, 10);
        let first = ring.push(LaneId(1), message(4));
        ring.push(LaneId(1), message(4));
        let third = ring.push(LaneId(1), message(4));
        assert_eq!(ring.after(EventId { lane: LaneId(1), number: 0 }), Resume::Forgotten);
        assert_eq!(
            ring.after(first),
            Resume::From(vec![(EventId { lane: LaneId(1), number: 2 }, message(4)), (third, message(4))])
        );
        ring.push(LaneId(1), message(11));
        assert!(matches!(ring.after(third), Resume::Forgotten));
        ring.forget(LaneId(1));
        assert_eq!(ring.bytes, 0);
    }
}
