//! What was sent on the lanes of legacy sessions, kept for readers that come back for it.
//!
//! Each session has its ring. A reply that would crowd out the rest of it, or does not fit at all, is put on a shelf that all
//! sessions of the endpoint share, for as long as a client takes to come back: a note may be lost, a reply should not be.
//! When there is no room the oldest goes, of its own session first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::LaneId;
use cardan_proto::session::replay::{EventId, Replay, Resume};
use tokio::time::Instant;

/// Large replies of all sessions of an endpoint, the oldest first.
#[derive(Debug)]
pub(crate) struct Shelf {
    inner: Mutex<Inner>,
    max_bytes: usize,
    ttl: Duration,
}

#[derive(Debug, Default)]
struct Inner {
    replies: VecDeque<Shelved>,
    bytes: usize,
    minted: u64,
}

#[derive(Debug)]
struct Shelved {
    session: u64,
    id: EventId,
    reply: Bytes,
    since: Instant,
}

impl Inner {
    /// Takes the oldest away, of one session or of all. Was there one?
    fn drop_oldest(&mut self, of: impl Fn(&Shelved) -> bool) -> bool {
        let oldest = self.replies.iter().position(of).and_then(|at| self.replies.remove(at));
        self.bytes -= oldest.as_ref().map_or(0, |shelved| shelved.reply.len());
        oldest.is_some()
    }

    /// So much is kept for a session.
    fn held(&self, session: u64) -> usize {
        let own = self.replies.iter().filter(|shelved| shelved.session == session);
        own.map(|shelved| shelved.reply.len()).sum()
    }
}

impl Shelf {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { inner: Mutex::default(), max_bytes: limits.shelf_bytes, ttl: limits.shelf_ttl }
    }

    /// Takes away what nobody has come back for in time.
    pub(crate) fn sweep(&self) {
        let mut inner = self.lock();
        while inner.replies.front().is_some_and(|oldest| oldest.since.elapsed() >= self.ttl) {
            inner.drop_oldest(|_| true);
        }
    }

    /// Keeps a reply, of which no session has more than this. Is there room for it?
    fn put(&self, session: u64, id: EventId, reply: &Bytes, max_session: usize) -> bool {
        if reply.len() > max_session.min(self.max_bytes) {
            return false;
        }
        self.sweep();
        let mut inner = self.lock();
        while inner.held(session) + reply.len() > max_session {
            inner.drop_oldest(|shelved| shelved.session == session);
        }
        while inner.bytes + reply.len() > self.max_bytes {
            inner.drop_oldest(|_| true);
        }
        inner.bytes += reply.len();
        inner.replies.push_back(Shelved { session, id, reply: reply.clone(), since: Instant::now() });
        true
    }

    /// A reply, if it is still there.
    fn find(&self, session: u64, id: EventId) -> Option<Bytes> {
        self.sweep();
        let inner = self.lock();
        let found = inner.replies.iter().find(|shelved| (shelved.session, shelved.id) == (session, id))?;
        Some(found.reply.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one session has sent.
#[derive(Debug)]
pub(crate) struct Kept {
    ring: Replay,
    shelf: Arc<Shelf>,
    /// Its number on the shelf.
    session: u64,
    /// What it has put there, found or not, so that what is lost can be said to be.
    shelved: VecDeque<EventId>,
    /// A reply of more than this is put on the shelf.
    large: usize,
    max_shelved: usize,
    max_shelved_bytes: usize,
}

/// However small the ring, smaller replies are not worth a place on the shelf.
const LARGE: usize = 16 << 10;

impl Kept {
    pub(crate) fn new(shelf: &Arc<Shelf>, limits: &Limits) -> Self {
        let mut inner = shelf.lock();
        inner.minted += 1;
        Self {
            ring: Replay::new(limits.replay_events, limits.replay_bytes),
            shelf: Arc::clone(shelf),
            session: inner.minted,
            shelved: VecDeque::new(),
            large: LARGE.max(limits.replay_bytes / 4),
            max_shelved: limits.replay_events,
            max_shelved_bytes: limits.shelf_session_bytes,
        }
    }

    /// Names a place on a lane, with nothing to remember.
    pub(crate) fn mint(&mut self, lane: LaneId) -> EventId {
        self.ring.mint(lane)
    }

    /// Remembers a message that is no reply, and names it.
    pub(crate) fn push(&mut self, lane: LaneId, message: Bytes) -> EventId {
        self.ring.push(lane, message)
    }

    /// Remembers the last message of a lane, and names it.
    pub(crate) fn push_reply(&mut self, lane: LaneId, reply: Bytes) -> EventId {
        if reply.len() <= self.large {
            return self.ring.push(lane, reply);
        }
        let id = self.ring.mint(lane);
        if !self.shelf.put(self.session, id, &reply, self.max_shelved_bytes) {
            return self.ring.push(lane, reply);
        }
        self.shelved.push_back(id);
        if self.shelved.len() > self.max_shelved {
            self.shelved.pop_front();
        }
        id
    }

    /// What followed `last` on its own lane. Notes that are kept no more do not cost a call its reply.
    pub(crate) fn after(&self, last: EventId) -> Resume {
        let events = self.ring.after(last);
        let follows = |id: &&EventId| id.lane == last.lane && id.number > last.number;
        let Some(&id) = self.shelved.iter().find(follows) else { return events };
        match (events, self.shelf.find(self.session, id)) {
            (_, None) => Resume::Forgotten,
            (Resume::Forgotten, Some(reply)) => Resume::From(vec![(id, reply)]),
            (Resume::From(mut events), Some(reply)) => {
                events.push((id, reply));
                Resume::From(events)
            }
        }
    }
}

/// Nobody comes back to a session that is gone.
impl Drop for Kept {
    fn drop(&mut self) {
        let mut inner = self.shelf.lock();
        while inner.drop_oldest(|shelved| shelved.session == self.session) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;
    const LIMITS: Limits = Limits {
        replay_events: 4,
        replay_bytes: 64 * KIB,
        shelf_session_bytes: 200 * KIB,
        shelf_bytes: 300 * KIB,
        ..Limits::DEFAULT
    };

    fn reply(kib: usize) -> Bytes {
        Bytes::from(vec![b'x'; kib * KIB])
    }

    fn start(lane: u32) -> EventId {
        EventId { lane: LaneId(lane), number: 0 }
    }

    /// The sizes of what is left for a lane, in KiB; nothing: it is told to be gone.
    fn left(kept: &Kept, lane: u32) -> Option<Vec<usize>> {
        match kept.after(start(lane)) {
            Resume::From(events) => Some(events.iter().map(|(_, message)| message.len() / KIB).collect()),
            Resume::Forgotten => None,
        }
    }

    /// HTL-17, F11: a reply that does not fit the ring follows the notes of its lane, and crowds out nothing there.
    #[test]
    fn a_large_reply_is_kept_beside_the_ring() {
        let shelf = Arc::new(Shelf::new(&LIMITS));
        let mut kept = Kept::new(&shelf, &LIMITS);
        kept.push(LaneId(1), reply(1));
        let last = kept.push_reply(LaneId(1), reply(150));
        kept.push_reply(LaneId(2), reply(10));
        assert_eq!(left(&kept, 1), Some(vec![1, 150]));
        assert_eq!(left(&kept, 2), Some(vec![10]));
        assert_eq!(kept.after(last), Resume::From(Vec::new()), "nothing follows it");
        // Its notes may be crowded out, it may not.
        for _ in 0..5 {
            kept.push(LaneId::MAIN, reply(1));
        }
        assert_eq!((left(&kept, 1), left(&kept, 2)), (Some(vec![150]), None));
    }

    /// T19, HTL-17: a session has its bound, and all of them together; the oldest goes, and is said to be gone.
    #[test]
    fn both_bounds_hold_and_loss_is_told() {
        let shelf = Arc::new(Shelf::new(&LIMITS));
        let (mut one, mut other) = (Kept::new(&shelf, &LIMITS), Kept::new(&shelf, &LIMITS));
        other.push_reply(LaneId(1), reply(80));
        one.push(LaneId(1), reply(1));
        one.push_reply(LaneId(1), reply(120));
        one.push_reply(LaneId(2), reply(90));
        assert_eq!((left(&one, 1), left(&one, 2)), (None, Some(vec![90])), "its own oldest");
        assert_eq!(left(&other, 1), Some(vec![80]), "nobody else's");
        one.push_reply(LaneId(3), reply(100));
        other.push_reply(LaneId(2), reply(110));
        assert_eq!((left(&other, 1), left(&other, 2)), (None, Some(vec![110])), "the oldest of all");
        assert_eq!((left(&one, 2), left(&one, 3)), (Some(vec![90]), Some(vec![100])));
        one.push_reply(LaneId(4), reply(201));
        assert_eq!(left(&one, 4), None, "it fits nowhere");
        assert_eq!(shelf.lock().bytes, 300 * KIB);
        drop(one);
        assert_eq!(shelf.lock().bytes, 110 * KIB, "what nobody comes back to is not kept");
    }

    /// T19, HTL-17: what nobody comes back for goes after its time.
    #[tokio::test(start_paused = true)]
    async fn a_large_reply_is_kept_for_its_time() {
        let shelf = Arc::new(Shelf::new(&LIMITS));
        let mut kept = Kept::new(&shelf, &LIMITS);
        kept.push_reply(LaneId(1), reply(100));
        tokio::time::advance(LIMITS.shelf_ttl / 2).await;
        kept.push_reply(LaneId(2), reply(100));
        tokio::time::advance(LIMITS.shelf_ttl / 2).await;
        shelf.sweep();
        assert_eq!(shelf.lock().bytes, 100 * KIB);
        assert_eq!((left(&kept, 1), left(&kept, 2)), (None, Some(vec![100])));
    }
}
