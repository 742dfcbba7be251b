//! How a kept connection stands: where its session is, and what a session does not know.
//!
//! ```text
//!   Disconnected ──▶ Connecting ──▶ Probing, Initializing ──▶ Ready ◀──▶ Degraded
//!      ▲    │  ▲          │                  │                  │           │
//!      │    │  └──────────┴──── failed ──────┴────── lost ──────┴───────────┘
//!      │    ├─────▶ Reconnecting { attempt, until } ──▶ Connecting
//!      │    └─────▶ Suspended { until } ──────────────▶ Connecting
//!      │                                                       by us, from anywhere:
//!      └── every failure and loss passes here, with its cause  [Draining,] Disconnecting, Closed
//! ```

use std::fmt;

use crate::moment::Moment;
use crate::session::event::Cause;
use crate::session::state::{FiveStates, State};

/// How a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// As its session does.
    Session(State),
    /// Calls flow, but a listen broke and is not in force again yet.
    Degraded,
    /// There is no link; one will be made.
    Reconnecting {
        /// Which attempt it will be since the connection was last stable, from one.
        attempt: u32,
        /// When.
        until: Moment,
    },
    /// There is no link, and calls fail at once: too many attempts failed, or too many links in a short time.
    Suspended {
        /// When to look again; none: when someone wants it, which is heard before that moment too.
        until: Option<Moment>,
    },
}

impl Condition {
    /// No link yet.
    pub const DISCONNECTED: Self = Self::Session(State::Disconnected);
    /// A link is being made.
    pub const CONNECTING: Self = Self::Session(State::Connecting);
    /// Calls flow.
    pub const READY: Self = Self::Session(State::Ready);
    /// Ended by us, for good.
    pub const CLOSED: Self = Self::Session(State::Closed);

    /// May this be followed by `next`? What follows from sessions is in their own table.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use Condition::{Degraded, Reconnecting, Session, Suspended};
        match (self, next) {
            (Session(from), Session(to)) => from.may_become(to),
            (Session(State::Ready), Degraded) | (Degraded, Session(State::Ready)) => true,
            (Degraded, Session(to)) => State::Ready.may_become(to),
            (Session(State::Disconnected), Reconnecting { .. } | Suspended { .. }) => true,
            (Reconnecting { .. } | Suspended { .. }, Session(to)) => {
                matches!(to, State::Connecting | State::Closed)
            }
            _ => false,
        }
    }

    /// Do calls flow?
    #[must_use]
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Session(State::Ready) | Self::Degraded)
    }

    /// The name among five.
    #[must_use]
    pub const fn projected(self) -> FiveStates {
        match self {
            Self::Session(state) => state.projected(),
            Self::Degraded => FiveStates::Ready,
            Self::Reconnecting { .. } | Self::Suspended { .. } => FiveStates::Disconnected,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(state) => write!(f, "{}", format!("{state:?}").to_lowercase()),
            Self::Degraded => f.write_str("degraded"),
            Self::Reconnecting { attempt, .. } => write!(f, "reconnecting (attempt {attempt})"),
            Self::Suspended { .. } => f.write_str("suspended"),
        }
    }
}

/// One change of condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Before.
    pub from: Condition,
    /// After.
    pub to: Condition,
    /// Why, where there is more to say than "it went on".
    pub cause: Option<Cause>,
    /// Attempts since the connection was last stable; the first link of all is number zero.
    pub attempt: u32,
    /// Monotonic time since upkeep began.
    pub at: Moment,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Condition> {
        let mut all: Vec<_> = State::ALL.into_iter().map(Condition::Session).collect();
        all.push(Condition::Degraded);
        all.push(Condition::Reconnecting { attempt: 1, until: Moment::ZERO });
        all.push(Condition::Suspended { until: None });
        all
    }

    /// S2-34, S2-35: what a session does not know is a table too.
    #[test]
    fn s2_35_transitions_are_a_table() {
        let pairs = all().into_iter().flat_map(|from| all().into_iter().map(move |to| (from, to)));
        let listed: Vec<_> = pairs.filter(|(from, to)| from.may_become(*to)).collect();
        // 23 of sessions; Ready and Degraded both ways, 4 ways out of Degraded; 2 into and 4 out of waiting.
        assert_eq!(listed.len(), 23 + 2 + 4 + 2 + 4);
        assert!(all().into_iter().all(|to| !Condition::CLOSED.may_become(to)));
    }

    /// S2-34: each has its name among five.
    #[test]
    fn s2_34_every_condition_has_its_name_among_five() {
        for condition in all() {
            let up = condition.projected() == FiveStates::Ready;
            assert_eq!(up, condition.is_up(), "{condition}");
        }
        assert_eq!(Condition::Suspended { until: None }.projected(), FiveStates::Disconnected);
        assert_eq!(Condition::CONNECTING.to_string(), "connecting");
    }
}
