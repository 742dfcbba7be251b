//! Calls that no server was asked for, by reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cardan_proto::jsonrpc::envelope::{Call, Param};
use cardan_proto::method::Method;

use super::desk::Station;
use super::trail::{Target, Trail};
use super::view::{Likely, Purpose};
use crate::catalog::Kind;

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
    /// Its headers say something else than its body.
    Headers,
}

/// Why a call was answered before it came here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unheard {
    /// The client was told that there is none of its kind.
    Untold,
    /// Its headers say something else than its body.
    Disagreed,
}

impl Refused {
    /// All there are, in the order in which they are counted.
    pub const ALL: [Self; 6] =
        [Self::Unknown, Self::Policy, Self::Pin, Self::Rate, Self::Concurrency, Self::Headers];

    /// In one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Policy => "policy",
            Self::Pin => "pin",
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Headers => "headers",
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

impl Station {
    /// What others are offered under a name or at an address, or would be if it were not held back, whoever asks for it.
    pub(super) fn offered(&self, kind: Kind, key: &str) -> Option<Target> {
        let all = self.front.view();
        match kind {
            Kind::Resources => match all.having(key, Purpose::Read).first() {
                Some((upstream, Likely::Said)) => Some((upstream.name().into(), all.written(upstream, key))),
                _ => None,
            },
            _ => {
                let found = all.find(kind, key).map(|(upstream, own)| (upstream.name().into(), Some(own)));
                let held = || all.held(key).filter(|_| kind == Kind::Tools);
                found.or_else(|| held().map(|(server, own)| (server.into(), Some(own.into()))))
            }
        }
    }

    /// Counts a try at something that the client is not offered: others are, or nobody is.
    pub(super) fn missed(&self, kinds: &[Kind], key: &str) {
        let hidden = kinds.iter().any(|kind| self.offered(*kind, key).is_some());
        self.front.house.refusals.count(if hidden { Refused::Policy } else { Refused::Unknown });
    }

    /// The client tried something, and has its answer already.
    pub(super) fn unheard(self: &Arc<Self>, call: &Call, why: Unheard) {
        let (kind, param) = match call.method {
            Method::ToolsCall => (Kind::Tools, Param::Name),
            Method::PromptsGet => (Kind::Prompts, Param::Name),
            Method::ResourcesRead => (Kind::Resources, Param::Uri),
            _ => return,
        };
        let offered = call.params.text(param).and_then(|key| self.offered(kind, &key));
        self.front.house.refusals.count(match (why, &offered) {
            (Unheard::Disagreed, _) => Refused::Headers,
            (Unheard::Untold, Some(_)) => Refused::Policy,
            (Unheard::Untold, None) => Refused::Unknown,
        });
        if let Some(trail) = Trail::begin(self, call) {
            if let Some((server, own)) = &offered {
                trail.barred(server, own.as_deref());
            }
            trail.refuse();
        }
    }
}
