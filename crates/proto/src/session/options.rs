//! How a call of ours is made: how long it may take, what is told of it, whether it may be made again.

use std::time::Duration;

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallOptions {
    /// Longest silence; `None`: the limit's default. Zero: no such deadline.
    pub idle: Option<Duration>,
    /// Longest time in all; `None`: the limit's default. Zero: no such deadline.
    pub total: Option<Duration>,
    /// Longest wait for a link; `None`: as long as it may be silent. Of interest where connections are kept.
    pub unlinked: Option<Duration>,
    /// Ask for progress notes.
    pub progress: Wanted,
    /// How they are told.
    pub steps: Steps,
    /// May it be sent again when the link is lost? Of interest where connections are kept; a session sends once.
    pub repeat: Repeat,
    /// By which session it may go.
    pub within: Within,
    /// Who answers when the result asks for input.
    pub rounds: Rounds,
    /// Whether what the peer cannot have is refused here.
    pub vetting: Vetting,
}

/// Whether a call is made that the revision does not have, or for which the peer declared no capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Vetting {
    /// No: it would be refused.
    #[default]
    Vetted,
    /// Yes: whoever calls wants to see what the peer says to it.
    Unvetted,
}

/// Who answers a modern result that asks for input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rounds {
    /// Our side, as it answers every ask; then the call is made again.
    #[default]
    Ours,
    /// Whoever called: the result is the outcome, unread, whatever it is.
    Callers,
}

/// Whether a call may be sent a second time when nobody knows what became of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeat {
    /// If its method has no effects, or the tool was listed as read-only or idempotent.
    #[default]
    IfSafe,
    /// Yes: whoever calls knows that a second time does no harm.
    Always,
    /// No.
    Never,
}

/// By which session a call may go, where another takes the place of the one there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Within {
    /// Any.
    #[default]
    Any,
    /// The one there is: what another would do with it is not known.
    This,
}

/// Whether something is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// No.
    #[default]
    No,
    /// Yes.
    Yes,
}

/// How the progress of a call of ours is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steps {
    /// Read, and no more often than anyone can look at it.
    #[default]
    Read,
    /// Note by note, as they came: whoever called passes them on.
    Whole,
}
