//! The states of a session, and the only ways between them.
//!
//! ```text
//!  Disconnected --connect--> Connecting --link up--> Probing --legacy--> Initializing
//!        ^                       |                      |                     |
//!        |                       |                      '------modern-----> Ready <--'
//!        |                       v                                            |
//!        '------lost------- Disconnecting <--drained or timed out-- Draining <-'
//!                                |
//!                                '--> Closed (by us: final)
//! ```
//!
//! A legacy server that forgot the session leads from `Ready` back to `Initializing`: the link is well,
//! and a new handshake replaces the session.
//!
//! A loss ends in `Disconnected`, from where a supervisor may try again; a close of our own ends in
//! `Closed`, from where nobody may.

use super::event::Cause;

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// No link.
    Disconnected,
    /// A link is being made.
    Connecting,
    /// Finding out the era.
    Probing,
    /// The legacy handshake.
    Initializing,
    /// Calls flow.
    Ready,
    /// Closing: what runs may finish.
    Draining,
    /// The link is being ended.
    Disconnecting,
    /// Ended by us, for good.
    Closed,
}

/// The five names that some consumers know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FiveStates {
    Disconnected,
    Connecting,
    Initializing,
    Ready,
    Disconnecting,
}

/// One change of state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// Before.
    pub from: State,
    /// After.
    pub to: State,
    /// Why, where there is more to say than "it went on".
    pub cause: Option<Cause>,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Disconnected,
        Self::Connecting,
        Self::Probing,
        Self::Initializing,
        Self::Ready,
        Self::Draining,
        Self::Disconnecting,
        Self::Closed,
    ];

    /// May this state be followed by `next`?
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        use State::{
            Closed, Connecting, Disconnected, Disconnecting, Draining, Initializing, Probing, Ready,
        };
        match self {
            Disconnected => matches!(next, Connecting | Closed),
            Connecting => matches!(next, Probing | Initializing | Ready | Disconnecting | Disconnected),
            Probing => matches!(next, Initializing | Ready | Disconnecting | Disconnected),
            Initializing => matches!(next, Probing | Ready | Disconnecting | Disconnected),
            Ready => matches!(next, Initializing | Draining | Disconnecting | Disconnected),
            Draining => matches!(next, Disconnecting | Disconnected),
            Disconnecting => matches!(next, Disconnected | Closed),
            Closed => false,
        }
    }

    /// The name among five.
    #[must_use]
    pub const fn projected(self) -> FiveStates {
        match self {
            Self::Disconnected | Self::Closed => FiveStates::Disconnected,
            Self::Connecting => FiveStates::Connecting,
            Self::Probing | Self::Initializing => FiveStates::Initializing,
            Self::Ready => FiveStates::Ready,
            Self::Draining | Self::Disconnecting => FiveStates::Disconnecting,
        }
    }

    /// Is the link up, or about to be?
    #[must_use]
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Disconnected | Self::Disconnecting | Self::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2-34, S2-35: the table of transitions; whatever is not listed cannot happen.
    #[test]
    fn transitions_are_a_table() {
        let listed = State::ALL.iter().flat_map(|from| {
            State::ALL.iter().filter(|to| from.may_become(**to)).map(move |to| (*from, *to))
        });
        assert_eq!(listed.count(), 23);
        assert!(State::ALL.iter().all(|to| !State::Closed.may_become(*to)));
        assert!(State::ALL.iter().all(|from| !from.may_become(*from)));
    }

    /// S2-46: what we close ourselves never leads back to connecting.
    #[test]
    fn closed_by_us_is_final() {
        assert!(State::Disconnecting.may_become(State::Closed));
        assert!(!State::Closed.may_become(State::Connecting));
        assert!(State::Disconnected.may_become(State::Connecting));
    }

    /// S2-40: a close interrupts every state of connecting.
    #[test]
    fn every_live_state_can_be_closed() {
        for state in State::ALL.into_iter().filter(|s| s.is_live() && *s != State::Draining) {
            assert!(state.may_become(State::Disconnecting), "{state:?}");
        }
    }
}
