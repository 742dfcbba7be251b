//! Why WebSockets are closed: the codes on the wire and what they mean, in both directions.

use std::fmt;

use crate::finding::{Class, Rule};
use crate::session::config::Role;
use crate::session::event::Cause;

/// The subprotocol that says: JSON-RPC messages of MCP, one per text frame.
pub const SUBPROTOCOL: &str = "mcp";

/// What a close frame can hold of a reason: a control frame has 125 bytes, two of them are the code.
pub const REASON_BYTES: usize = 123;

/// Why a WebSocket was closed, as its close frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseCode {
    /// Done.
    Normal,
    /// The server goes down, or the page was left.
    GoingAway,
    /// A frame that the WebSocket protocol does not have.
    Protocol,
    /// A kind of message that is not accepted here: binary.
    Unsupported,
    /// The close frame gave no code. Never on the wire.
    Absent,
    /// A message that is not what it claims to be: text that is no UTF-8, or no JSON.
    BadPayload,
    /// A message that breaks the rules of the conversation.
    Policy,
    /// A message that is too large.
    TooBig,
    /// An extension that the client insisted on is missing.
    Extension,
    /// The other side broke down.
    Internal,
    /// The service restarts.
    Restart,
    /// The service has too much to do.
    Overload,
    /// Something behind the service answered wrongly.
    Gateway,
    /// Any other: of a library, a framework or an application.
    Other(u16),
}

/// Whether a new link may fare better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// At once.
    Now,
    /// After a while.
    Later,
    /// Not with the same messages.
    No,
}

/// The codes with a name.
const NAMED: [(CloseCode, u16, Again, &str); 13] = [
    (CloseCode::Normal, 1000, Again::Now, "done"),
    (CloseCode::GoingAway, 1001, Again::Later, "going away"),
    (CloseCode::Protocol, 1002, Again::No, "broken framing"),
    (CloseCode::Unsupported, 1003, Again::No, "unsupported kind of message"),
    (CloseCode::Absent, 1005, Again::Now, "no code given"),
    (CloseCode::BadPayload, 1007, Again::No, "malformed message"),
    (CloseCode::Policy, 1008, Again::No, "against the rules"),
    (CloseCode::TooBig, 1009, Again::No, "message too large"),
    (CloseCode::Extension, 1010, Again::No, "extension missing"),
    (CloseCode::Internal, 1011, Again::Later, "internal error"),
    (CloseCode::Restart, 1012, Again::Later, "service restarts"),
    (CloseCode::Overload, 1013, Again::Later, "service overloaded"),
    (CloseCode::Gateway, 1014, Again::Later, "bad gateway"),
];

impl CloseCode {
    /// What a number stands for.
    #[must_use]
    pub fn of(number: u16) -> Self {
        NAMED.iter().find(|named| named.1 == number).map_or(Self::Other(number), |named| named.0)
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Other(number) => number,
            known => known.row().map_or(0, |row| row.1),
        }
    }

    /// In words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match (self.row(), self) {
            (Some(row), _) => row.3,
            // The ranges that the protocol leaves to others.
            (None, Self::Other(3000..=3999)) => "a code of a library",
            (None, Self::Other(4000..=4999)) => "a code of an application",
            (None, _) => "an unknown code",
        }
    }

    /// Whether a new link may fare better.
    #[must_use]
    pub fn again(self) -> Again {
        self.row().map_or(Again::Later, |row| row.2)
    }

    /// What to close with when a link ends for `cause`. Nothing: the peer does not, or need not, hear of it.
    #[must_use]
    pub fn to_tell(cause: &Cause, role: Role) -> Option<Self> {
        match (cause, role) {
            // The peer said it first, or takes nothing any more.
            (Cause::ClosedByPeer | Cause::Closed { .. } | Cause::Io(_) | Cause::Stalled, _) => None,
            (Cause::Unreachable { .. }, _) => None,
            (Cause::ClosedByUs(_), Role::Client) | (Cause::OpenRefused(_), _) => Some(Self::Normal),
            (Cause::ClosedByUs(_), Role::Server) => Some(Self::GoingAway),
            (Cause::Exited { .. } | Cause::Panicked, _) => Some(Self::Internal),
            (Cause::Violated(rule), _) => Some(Self::of_rule(*rule)),
            (Cause::Silent(_) | Cause::OpenTimeout | Cause::NoCommonRevision { .. } | Cause::Http(_), _) => {
                Some(Self::Policy)
            }
        }
    }

    fn of_rule(rule: Rule) -> Self {
        match (rule, rule.class()) {
            (Rule::Binary, _) => Self::Unsupported,
            (Rule::Oversize, _) => Self::TooBig,
            (Rule::SocketFraming, _) => Self::Protocol,
            (_, Class::Framing | Class::Syntax) => Self::BadPayload,
            _ => Self::Policy,
        }
    }

    fn row(self) -> Option<&'static (Self, u16, Again, &'static str)> {
        NAMED.iter().find(|named| named.0 == self)
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.number(), self.meaning())
    }
}

/// As much of a reason as a close frame can hold.
#[must_use]
pub fn reason(text: &str) -> &str {
    &text[..text.floor_char_boundary(REASON_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::fault::Fault;
    use std::time::Duration;

    /// S1-47: every code has a meaning, and is itself again on the way back.
    #[test]
    fn s1_47_codes_have_meanings() {
        let table = [
            (1000, CloseCode::Normal, Again::Now),
            (1001, CloseCode::GoingAway, Again::Later),
            (1002, CloseCode::Protocol, Again::No),
            (1003, CloseCode::Unsupported, Again::No),
            (1004, CloseCode::Other(1004), Again::Later),
            (1005, CloseCode::Absent, Again::Now),
            (1007, CloseCode::BadPayload, Again::No),
            (1008, CloseCode::Policy, Again::No),
            (1009, CloseCode::TooBig, Again::No),
            (1010, CloseCode::Extension, Again::No),
            (1011, CloseCode::Internal, Again::Later),
            (1012, CloseCode::Restart, Again::Later),
            (1013, CloseCode::Overload, Again::Later),
            (1014, CloseCode::Gateway, Again::Later),
            (3000, CloseCode::Other(3000), Again::Later),
            (4999, CloseCode::Other(4999), Again::Later),
        ];
        for (number, code, again) in table {
            assert_eq!(CloseCode::of(number), code);
            assert_eq!((code.number(), code.again()), (number, again));
            assert!(!code.meaning().is_empty());
        }
        for number in 0..=u16::MAX {
            assert_eq!(CloseCode::of(number).number(), number);
        }
    }

    /// S1-47: why we end a link becomes the code that says so.
    #[test]
    fn s1_47_causes_have_codes() {
        let table = [
            (Cause::ClosedByUs("done".into()), Role::Client, Some(1000)),
            (Cause::ClosedByUs("shutting down".into()), Role::Server, Some(1001)),
            (Cause::Violated(Rule::SocketFraming), Role::Server, Some(1002)),
            (Cause::Violated(Rule::Binary), Role::Server, Some(1003)),
            (Cause::Violated(Rule::NotUtf8), Role::Client, Some(1007)),
            (Cause::Violated(Rule::Syntax), Role::Server, Some(1007)),
            (Cause::Violated(Rule::DuplicateReply), Role::Client, Some(1008)),
            (Cause::Violated(Rule::IdNull), Role::Server, Some(1008)),
            (Cause::Violated(Rule::Oversize), Role::Server, Some(1009)),
            (Cause::Silent(Duration::from_secs(45)), Role::Client, Some(1008)),
            (Cause::OpenTimeout, Role::Client, Some(1008)),
            (Cause::NoCommonRevision { theirs: Vec::new() }, Role::Client, Some(1008)),
            (Cause::OpenRefused(Fault::internal("no")), Role::Client, Some(1000)),
            (Cause::Exited { status: "exit status: 1".into(), stderr: "".into() }, Role::Server, Some(1011)),
            (Cause::ClosedByPeer, Role::Client, None),
            (Cause::Closed { code: CloseCode::Normal, reason: "".into() }, Role::Server, None),
            (Cause::Io("reset".into()), Role::Client, None),
            (Cause::Stalled, Role::Server, None),
        ];
        for (cause, role, number) in table {
            assert_eq!(CloseCode::to_tell(&cause, role).map(CloseCode::number), number, "{cause}");
        }
    }

    #[test]
    fn a_reason_fits_its_frame_and_stays_text() {
        assert_eq!(reason("short"), "short");
        let long = "é".repeat(100);
        assert_eq!(reason(&long).len(), 122);
    }
}
