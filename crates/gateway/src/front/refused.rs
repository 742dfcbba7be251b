//! Calls that no server was asked for, by reason.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why no server was asked for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Nothing is called so.
    Unknown,
    /// The policy hides it from this principal.
    Policy,
    /// It has changed since it was approved.
    Pin,
    /// The principal asks too often.
    Rate,
    /// The principal asks for too much at a time.
    Concurrency,
}

impl Refused {
    /// All there are, in the order in which they are counted.
    pub const ALL: [Self; 5] = [Self::Unknown, Self::Policy, Self::Pin, Self::Rate, Self::Concurrency];

    /// In one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Policy => "policy",
            Self::Pin => "pin",
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
        }
    }
}

/// Counts them.
#[derive(Debug, Default)]
pub(super) struct Refusals([AtomicU64; Refused::ALL.len()]);

impl Refusals {
    pub(super) fn count(&self, why: Refused) {
        self.0[why as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn counts(&self) -> [u64; Refused::ALL.len()] {
        self.0.each_ref().map(|count| count.load(Relaxed))
    }
}
