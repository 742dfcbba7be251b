//! How much of it happens.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts, kept where it happens.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) forwards: AtomicU64,
    pub(crate) takeovers: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) unreadable: AtomicU64,
}

/// What has happened since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Requests that were brought to the replica whose session they are for.
    pub forwards: u64,
    /// Sessions that were taken over from a replica that was gone.
    pub takeovers: u64,
    /// Writes that the store refused, because the session had gone on elsewhere or ended.
    pub stale: u64,
    /// What the store had in the place of a session and nobody of ours had written so.
    pub unreadable: u64,
    /// Calls of the store that failed.
    pub store_failures: u64,
}

impl Tally {
    pub(crate) fn add(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self, store_failures: u64) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            forwards: of(&self.forwards),
            takeovers: of(&self.takeovers),
            stale: of(&self.stale),
            unreadable: of(&self.unreadable),
            store_failures,
        }
    }
}
