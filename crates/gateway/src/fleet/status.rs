//! How one upstream stands, for people and for health checks.

use std::sync::Arc;
use std::time::Duration;

use cardan_proto::era::Revision;
use cardan_proto::upkeep::condition::Condition;

/// How one upstream stands.
#[derive(Debug, Clone)]
pub struct Status {
    /// What it is called.
    pub name: String,
    /// What kind of way leads to it.
    pub kind: &'static str,
    /// Does it work?
    pub health: Health,
    /// Why it does not, or did not last.
    pub cause: Option<Arc<str>>,
    /// For how long it has stood so.
    pub since: Duration,
    /// How often it was connected again.
    pub restarts: u32,
    /// The revision that is spoken, or was last.
    pub revision: Option<Revision>,
    /// What is known of its catalog.
    pub known: Known,
    /// How many tools it offers, as far as is known.
    pub tools: Option<usize>,
    /// Calls that use it right now.
    pub in_use: usize,
}

/// Does it work?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It cannot be reached as it is configured.
    Misconfigured,
    /// It starts when it is used.
    Asleep,
    /// It waits for others to have started.
    Waiting,
    /// As its connection does.
    Kept(Condition),
}

impl Health {
    /// Do calls flow?
    #[must_use]
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Kept(condition) if condition.is_up())
    }
}

impl std::fmt::Display for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Misconfigured => f.write_str("misconfigured"),
            Self::Asleep => f.write_str("asleep"),
            Self::Waiting => f.write_str("waiting"),
            Self::Kept(condition) => condition.fmt(f),
        }
    }
}

/// Where what is known of a catalog comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nothing is known.
    Nothing,
    /// From the cache, and told so long ago.
    Cached(Duration),
    /// From the server itself.
    Told,
}
