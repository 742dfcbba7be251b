//! The rules of ownership, as values: time and what the store says are arguments.
//!
//! A replica has one lease, a key in the store that expires. It owns a session while its lease lasts and the session's
//! record names it. Whoever wants a session of another takes it only when that one's lease is over, and makes the
//! session's fence larger by one, so that what the old owner still writes is refused.
//!
//! ```text
//!           confirmed                    not in time
//!   Lapsed ----------> Held (epoch n) ----------------> Lapsed
//!                        |    ^
//!                        '----'  confirmed, and the store had our last mark: the same epoch goes on
//! ```
//!
//! An epoch is a time in which nobody else can have taken anything. When a new one begins, every session is looked up
//! before it is used again.

use std::time::Duration;

use cardan_proto::moment::Moment;

/// The lease of one replica, as it knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    term: Duration,
    beats: u64,
    /// The latest beat that the store confirmed.
    mark: Option<u64>,
    until: Option<Moment>,
    epoch: u64,
}

/// One attempt to renew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Beat {
    /// What is written.
    pub mark: u64,
    sent: Moment,
}

impl Lease {
    /// One that was never held.
    #[must_use]
    pub fn new(term: Duration) -> Self {
        Self { term, beats: 0, mark: None, until: None, epoch: 0 }
    }

    /// Renews it now.
    pub fn beat(&mut self, now: Moment) -> Beat {
        self.beats += 1;
        Beat { mark: self.beats, sent: now }
    }

    /// The store has written a beat; `before` is the mark that it found there.
    ///
    /// Only the mark of our last confirmed beat shows that the key never was away. Another is that of a beat which came late,
    /// perhaps after the key had expired and others had taken what was ours.
    pub fn confirmed(&mut self, beat: Beat, before: Option<u64>) {
        if before.is_none() || before != self.mark {
            self.epoch += 1;
        }
        self.mark = Some(beat.mark);
        // From when it was sent: the store counts from when it came, which is later. The rest is for clocks that run unevenly.
        self.until = Some(beat.sent + (self.term - self.term / 16));
    }

    /// Is it held, for all that we know?
    #[must_use]
    pub fn holds(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Until when, unless it is renewed.
    #[must_use]
    pub fn until(&self) -> Option<Moment> {
        self.until
    }

    /// How often it began anew.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Gives it up.
    pub fn release(&mut self) {
        (self.mark, self.until) = (None, None);
    }

    /// How long it lasts without renewal.
    #[must_use]
    pub fn term(&self) -> Duration {
        self.term
    }

    /// How long to wait before the next beat: two may fail before the lease is over.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.term / 3
    }
}

/// What is to be done about a session that is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Its owner answers for it, and for so long nobody else may.
    Forward(Duration),
    /// It can be taken over with this fence.
    Take(u64),
}

/// By the store's word: whose a session is, its fence, and how much longer the owner's lease lasts.
#[must_use]
pub fn step(owner: &str, me: &str, fence: u64, left: Option<Duration>) -> Step {
    match left {
        Some(left) if owner != me => Step::Forward(left),
        // What is ours and not here was never finished: nobody else has it either.
        _ => Step::Take(fence + 1),
    }
}

#[cfg(test)]
mod tests;
