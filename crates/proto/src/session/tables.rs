//! The tables of calls in flight, both directions. Bounded by their users, empty at rest.
//!
//! A call of the peer lives in a slot and is named by slot and generation, so handlers find it
//! without hashing; its wire id is looked up only for cancels and duplicates.

use std::collections::VecDeque;

use bytes::Bytes;

use super::event::{Answers, CallKey, CallOptions, LaneId, LogLevel, Ticket};
use super::progress::Pace;
use crate::era::Revision;
use crate::fast::FastMap;
use crate::http::stray::Strays;
use crate::jsonrpc::envelope::{Call, Violation};
use crate::jsonrpc::id::CallId;
use crate::method::Method;
use crate::moment::Moment;

/// A call of the peer that runs here.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) call: Call,
    pub(super) lane: LaneId,
    pub(super) revision: Revision,
    pub(super) log_level: Option<LogLevel>,
    pub(super) batch: Option<BatchKey>,
    pub(super) rounds: usize,
    pub(super) round: Option<Round>,
    /// Answers of all rounds so far.
    pub(super) answers: Answers,
    pub(super) pace: Pace,
}

/// Asks that a legacy client has yet to answer.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) waiting: usize,
    pub(super) answers: Answers,
}

/// Names a batch that is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct BatchKey(pub(super) u64);

/// Calls of the peer.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_id: FastMap<CallId, CallKey>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    running: Option<Running>,
}

impl Inbound {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn find(&self, id: &CallId) -> Option<CallKey> {
        self.by_id.get(id).copied()
    }

    pub(super) fn insert(&mut self, running: Running) -> CallKey {
        let index = self.free.pop().unwrap_or_else(|| {
            if self.slots.is_empty() {
                // Many sessions serve one call in all their life; room for four would be the default.
                self.slots.reserve_exact(1);
            }
            self.slots.push(Slot { generation: 0, running: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let key = CallKey(u64::from(slot.generation) << 32 | u64::from(index));
        self.by_id.insert(running.call.id.clone(), key);
        slot.running = Some(running);
        key
    }

    pub(super) fn get(&self, key: CallKey) -> Option<&Running> {
        let slot = self.slots.get(key.0 as u32 as usize)?;
        slot.running.as_ref().filter(|_| u64::from(slot.generation) == key.0 >> 32)
    }

    pub(super) fn get_mut(&mut self, key: CallKey) -> Option<&mut Running> {
        let slot = self.slots.get_mut(key.0 as u32 as usize)?;
        if u64::from(slot.generation) != key.0 >> 32 {
            return None;
        }
        slot.running.as_mut()
    }

    pub(super) fn remove(&mut self, key: CallKey) -> Option<Running> {
        self.get_mut(key)?;
        let index = key.0 as u32;
        let slot = &mut self.slots[index as usize];
        let running = slot.running.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        self.by_id.remove(&running.call.id);
        Some(running)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Running> {
        self.slots.iter().filter_map(|slot| slot.running.as_ref())
    }

    pub(super) fn keys(&self) -> Vec<CallKey> {
        let mut keys: Vec<_> = self.by_id.values().copied().collect();
        keys.sort_unstable();
        keys
    }
}

/// Why we call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    /// Someone on our side wants the result.
    Call(Ticket),
    /// To find out the era.
    Probe,
    /// To shake hands.
    Handshake,
    /// A handler of ours needs input.
    Ask {
        /// The call it serves.
        key: CallKey,
        /// The name of the ask.
        name: Box<str>,
    },
    /// A standing interest of ours.
    Listen(Ticket),
    /// Part of a legacy interest of ours.
    Subscribe(Ticket),
    /// To say that we leave.
    Farewell,
    /// Nobody waits for the reply.
    Errand,
}

/// How a call of ours is made.
#[derive(Debug)]
pub(super) struct Manner {
    pub(super) options: CallOptions,
    /// What goes beside it.
    pub(super) strays: Option<Strays>,
}

impl From<CallOptions> for Manner {
    fn from(options: CallOptions) -> Self {
        Self { options, strays: None }
    }
}

/// A call of ours that the peer has yet to answer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) purpose: Purpose,
    pub(super) method: Method,
    /// As the caller gave them, for a retry with answers.
    pub(super) params: Option<Bytes>,
    pub(super) options: CallOptions,
    /// The same.
    pub(super) strays: Option<Strays>,
    pub(super) revision: Option<Revision>,
    /// Which of our frames it is; none: the peer refused it unread, and it is to be sent again.
    pub(super) frame: Option<u64>,
    pub(super) started: Moment,
    /// Bytes that had arrived on the link when it was made.
    pub(super) seen_bytes: u64,
    pub(super) idle: Option<Moment>,
    pub(super) total: Option<Moment>,
    pub(super) rounds: usize,
    pub(super) pace: Pace,
}

/// How a finished call of ours ended, for telling late replies from foreign ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grave {
    Answered,
    /// A reply may come yet.
    GivenUp,
    /// The same, of something else than a call that somebody made, or it has come by now.
    Passed,
}

/// An answer that does not say whose it is, while several calls wait for one.
#[derive(Debug)]
struct Unclaimed {
    violation: Violation,
    /// Those that it may be meant for: whoever is answered otherwise is not among them.
    candidates: Vec<i64>,
}

/// Calls of ours.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    pending: FastMap<i64, Pending>,
    tickets: FastMap<u64, i64>,
    graves: VecDeque<(i64, Grave)>,
    /// The first that nobody has claimed.
    unclaimed: Option<Box<Unclaimed>>,
    minted: i64,
}

impl Outbound {
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// A new wire id. Integers from one, never reused.
    pub(super) fn mint(&mut self) -> i64 {
        self.minted += 1;
        self.minted
    }

    pub(super) fn insert(&mut self, id: i64, pending: Pending) {
        if let Purpose::Call(ticket) | Purpose::Listen(ticket) = pending.purpose {
            self.tickets.insert(ticket.0, id);
        }
        self.pending.insert(id, pending);
    }

    pub(super) fn id_of(&self, ticket: Ticket) -> Option<i64> {
        self.tickets.get(&ticket.0).copied()
    }

    pub(super) fn has(&self, id: i64) -> bool {
        self.pending.contains_key(&id)
    }

    pub(super) fn get_mut(&mut self, id: i64) -> Option<&mut Pending> {
        self.pending.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: i64, grave: Grave, max_graves: usize) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        if let Purpose::Call(ticket) | Purpose::Listen(ticket) = pending.purpose {
            self.tickets.remove(&ticket.0);
        }
        while self.graves.len() >= max_graves.max(1) {
            self.graves.pop_front();
        }
        let grave = match (grave, &pending.purpose) {
            (Grave::GivenUp, Purpose::Call(_) | Purpose::Subscribe(_) | Purpose::Ask { .. }) => grave,
            (Grave::GivenUp, _) => Grave::Passed,
            _ => grave,
        };
        self.graves.push_back((id, grave));
        if let (Grave::Answered, Some(unclaimed)) = (grave, &mut self.unclaimed) {
            unclaimed.candidates.retain(|candidate| *candidate != id);
        }
        Some(pending)
    }

    /// A late reply came: nothing more is to be expected.
    pub(super) fn rest(&mut self, id: i64) {
        let buried = self.graves.iter_mut().rev().find(|(buried, _)| *buried == id);
        // What was answered before stays so: whatever comes after is one too many.
        if let Some((_, grave @ Grave::GivenUp)) = buried {
            *grave = Grave::Passed;
        }
        if let Some(unclaimed) = &mut self.unclaimed {
            unclaimed.candidates.retain(|candidate| *candidate != id);
        }
    }

    pub(super) fn grave(&self, id: i64) -> Option<Grave> {
        self.graves.iter().rev().find(|(buried, _)| *buried == id).map(|(_, grave)| *grave)
    }

    /// Was it the id of a call of ours, even if nothing else is known of it any more?
    pub(super) fn was_ours(&self, id: i64) -> bool {
        (1..=self.minted).contains(&id)
    }

    /// The only call whose answer is waited for, if there is exactly one.
    pub(super) fn only_awaited(&self) -> Option<i64> {
        let mut awaited = self.awaited();
        let (only, more) = (awaited.next(), awaited.next());
        only.filter(|_| more.is_none())
    }

    /// The calls whose answers are waited for. A listen is answered when it ends.
    fn awaited(&self) -> impl Iterator<Item = i64> {
        let awaited =
            self.pending.iter().filter(|(_, pending)| !matches!(pending.purpose, Purpose::Listen(_)));
        awaited.map(|(id, _)| *id)
    }

    /// The calls whose answers may come yet, although nobody waits for them.
    fn given_up(&self) -> impl Iterator<Item = i64> {
        self.graves.iter().filter(|(_, grave)| *grave == Grave::GivenUp).map(|(id, _)| *id)
    }

    /// The only call that an answer can be meant for, if there is exactly one.
    pub(super) fn only_meant(&self) -> Option<i64> {
        self.only_awaited().filter(|_| self.given_up().next().is_none())
    }

    /// An answer came that does not say whose it is, and several may have been meant.
    pub(super) fn leave(&mut self, violation: Violation) {
        let waits = |id: &i64| self.pending.contains_key(id);
        // The first is as good as any other, while somebody waits for it.
        if self.unclaimed.as_ref().is_none_or(|first| !first.candidates.iter().any(waits)) {
            let candidates = self.awaited().chain(self.given_up()).collect();
            self.unclaimed = Some(Box::new(Unclaimed { violation, candidates }));
        }
    }

    /// The call that such an answer was meant for, once all others have theirs.
    pub(super) fn claim(&mut self) -> Option<(i64, Violation)> {
        let candidates = &self.unclaimed.as_ref()?.candidates;
        let mut waiting = candidates.iter().copied().filter(|id| self.pending.contains_key(id));
        let only = match (waiting.next(), candidates.len()) {
            (Some(only), 1) => Some(only),
            (Some(_), _) => return None,
            // Nobody waits for it any more.
            (None, _) => None,
        };
        let unclaimed = self.unclaimed.take()?;
        Some((only?, unclaimed.violation))
    }

    pub(super) fn ids(&self) -> Vec<i64> {
        let mut ids: Vec<_> = self.pending.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&i64, &Pending)> {
        self.pending.iter()
    }
}
