//! How calls and links end: exactly one outcome, with its cause and whether it was delivered.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use crate::era::Revision;
use crate::finding::Rule;
use crate::http::failure::HttpFailure;
use crate::jsonrpc::envelope::Violation;
use crate::jsonrpc::fault::Fault;
use crate::secret::Redactor;
use crate::socket::CloseCode;

/// How a call of ours ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// With a result.
    Done(Bytes),
    /// With a fault of the peer.
    Fault(Fault),
    /// Not in time. It was cancelled on the wire.
    TimedOut {
        /// Which deadline.
        deadline: Deadline,
        /// After how long.
        after: Duration,
        /// Did it reach the peer?
        delivery: Delivery,
        /// How far it had come.
        stage: Stage,
        /// Bytes that arrived on the link since the call was made, half a message included. None at all is
        /// a peer that hangs; many are one that speaks of something else.
        seen_bytes: u64,
    },
    /// We gave it up.
    Cancelled {
        /// Why.
        reason: Cow<'static, str>,
        /// Did it reach the peer?
        delivery: Delivery,
    },
    /// The link was lost before the reply.
    Lost {
        /// Why.
        cause: Cause,
        /// Did it reach the peer?
        delivery: Delivery,
    },
    /// The peer answered, but not with a reply.
    Violated(Violation),
    /// We never sent it.
    Refused(Refusal),
}

impl Outcome {
    /// May the peer have done what the call asks for?
    #[must_use]
    pub fn may_have_executed(&self) -> bool {
        match self {
            Self::Done(_) | Self::Violated(_) => true,
            Self::Fault(_) => true,
            Self::TimedOut { delivery, .. }
            | Self::Cancelled { delivery, .. }
            | Self::Lost { delivery, .. } => *delivery != Delivery::NotSent,
            Self::Refused(_) => false,
        }
    }
}

/// Which deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// No reply and no progress for too long.
    Idle,
    /// Too long in all.
    Total,
}

/// How far a call had come when its time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It waits for the peer to take our bytes.
    Queued,
    /// It was written; the peer gave no sign of it.
    Sent,
    /// The peer told how far it is.
    Running,
    /// The peer asked for input, and the answer was not there yet.
    Asking,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queued => "still waiting to be written",
            Self::Sent => "written, no sign of it since",
            Self::Running => "running, as its progress showed",
            Self::Asking => "waiting for the input it asked for",
        })
    }
}

/// Whether a call reached the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It never left, or the peer refused it unread. Either way it was not executed.
    NotSent,
    /// It left, and the peer gave a sign of having it.
    Sent,
    /// It left; what became of it is not known.
    Unknown,
}

impl Delivery {
    /// Its name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::Sent => "sent",
            Self::Unknown => "unknown",
        }
    }
}

/// Why we did not send a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Too many calls in flight.
    TooMany,
    /// The session is not open, or is closing.
    NotOpen,
    /// The peer did not declare the capability.
    Capability(&'static str),
    /// The era or revision has no such method.
    NotInRevision(Revision),
    /// The params are not a JSON object.
    Params,
    /// Too many bytes wait to be written.
    Backlog,
    /// The answer would come outside of any call, and the link has no lane for that.
    NoPushes,
    /// The dialect cannot say this.
    NotInDialect(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => f.write_str("too many calls in flight; wait for some to end"),
            Self::NotOpen => f.write_str("the session is not open"),
            Self::Capability(name) => write!(f, "the peer did not declare {name}"),
            Self::NotInRevision(revision) => write!(f, "revision {revision} has no such method"),
            Self::Params => f.write_str("the params are not a JSON object"),
            Self::Backlog => f.write_str("the peer does not keep up with what was sent before"),
            Self::NoPushes => f.write_str("the link carries nothing outside of calls"),
            Self::NotInDialect(why) => write!(f, "the peer's dialect cannot say this: {why}"),
        }
    }
}

/// What stood in the way of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Hurdle {
    /// What is configured cannot be used, so nothing was tried.
    Config,
    /// The process could not be started.
    Spawn,
    /// The name has no address.
    Dns,
    /// Nobody answers at the address, or the way there is barred.
    #[default]
    Connect,
    /// No trust in the server, none of it in us, or no TLS at all.
    Tls,
    /// The server answered with a status instead of opening a link.
    Status(StatusCode),
    /// What answered does not speak the transport.
    Handshake,
    /// No answer in time.
    Late,
}

impl Hurdle {
    /// What to try next, in one line.
    #[must_use]
    pub const fn next_step(self) -> &'static str {
        match self {
            Self::Config => "correct how the server is configured",
            Self::Spawn => "install the program, or correct its name, its folder and who may run it",
            Self::Dns => "check the name for a slip, and whether this machine can resolve others",
            Self::Connect => "see whether the server runs and the address is right",
            Self::Tls => {
                "see whether the address is one of TLS, and trust the server's certificate if you know it"
            }
            Self::Status(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                "give a token or what else the server asks for"
            }
            Self::Status(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) => {
                "wait a while, then try again"
            }
            Self::Status(_) | Self::Handshake => "see whether this is the server's MCP address, and its log",
            Self::Late => "see whether the server hangs, or allow more time",
        }
    }
}

/// Why a link ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// We closed it.
    ClosedByUs(Cow<'static, str>),
    /// The peer closed it.
    ClosedByPeer,
    /// The peer closed it and said why, where the transport has words for it.
    Closed {
        /// The code.
        code: CloseCode,
        /// In the peer's own words.
        reason: Box<str>,
    },
    /// The peer's process ended.
    Exited {
        /// How, in words: `exit status: 1`, `signal: 9`.
        status: Box<str>,
        /// Its last words on stderr.
        stderr: Box<str>,
    },
    /// No link could be made.
    Unreachable {
        /// What stood in the way.
        hurdle: Hurdle,
        /// In words.
        why: Box<str>,
    },
    /// Reading or writing failed.
    Io(Box<str>),
    /// An HTTP exchange failed.
    Http(Box<HttpFailure>),
    /// The peer does not take our bytes.
    Stalled,
    /// The peer gave no sign of life for this long.
    Silent(Duration),
    /// The peer broke the protocol beyond what the strictness allows.
    Violated(Rule),
    /// Opening took too long.
    OpenTimeout,
    /// The peer and we have no revision in common.
    NoCommonRevision {
        /// What the peer offers, as it spelled it.
        theirs: Vec<Box<str>>,
    },
    /// The peer refused the handshake.
    OpenRefused(Fault),
    /// Something on our side of the link panicked: a defect of ours, or of a transport.
    Panicked,
}

impl Cause {
    /// The same without secrets in the words that came from elsewhere.
    #[must_use]
    pub fn redacted(self, secrets: &Redactor) -> Self {
        let hidden = |text: Box<str>| -> Box<str> { secrets.redact(&text).into() };
        match self {
            Self::ClosedByUs(reason) => Self::ClosedByUs(secrets.redact(&reason).into_owned().into()),
            Self::Closed { code, reason } => Self::Closed { code, reason: hidden(reason) },
            Self::Exited { status, stderr } => Self::Exited { status, stderr: hidden(stderr) },
            Self::Unreachable { hurdle, why } => Self::Unreachable { hurdle, why: hidden(why) },
            Self::Io(error) => Self::Io(hidden(error)),
            Self::Http(failure) => Self::Http(Box::new(failure.redacted(secrets))),
            Self::NoCommonRevision { theirs } => {
                Self::NoCommonRevision { theirs: theirs.into_iter().map(hidden).collect() }
            }
            Self::OpenRefused(fault) => Self::OpenRefused(fault.redacted(secrets)),
            same @ (Self::ClosedByPeer
            | Self::Stalled
            | Self::Silent(_)
            | Self::Violated(_)
            | Self::OpenTimeout
            | Self::Panicked) => same,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClosedByUs(reason) => write!(f, "closed by us: {reason}"),
            Self::ClosedByPeer => f.write_str("closed by the peer"),
            Self::Closed { code, reason } if reason.is_empty() => write!(f, "closed by the peer ({code})"),
            Self::Closed { code, reason } => write!(f, "closed by the peer ({code}): {reason}"),
            Self::Exited { status, stderr } if stderr.is_empty() => {
                write!(f, "the server's process ended ({status})")
            }
            Self::Exited { status, stderr } => {
                write!(f, "the server's process ended ({status}); its last words: {}", stderr.trim_end())
            }
            Self::Unreachable { why, .. } => write!(f, "no link could be made: {why}"),
            Self::Io(error) => write!(f, "link failed: {error}"),
            Self::Http(failure) => failure.fmt(f),
            Self::Stalled => f.write_str("the peer does not take our bytes"),
            Self::Silent(after) => {
                write!(f, "the peer gave no sign of life for {} s", after.as_secs())
            }
            Self::Violated(rule) => write!(f, "the peer broke the protocol: {}", rule.clause()),
            Self::OpenTimeout => f.write_str("the peer did not answer the handshake in time"),
            Self::NoCommonRevision { theirs } if theirs.is_empty() => {
                f.write_str("no common revision; the peer names none")
            }
            Self::NoCommonRevision { theirs } => {
                write!(f, "no common revision; the peer speaks {}", theirs.join(", "))
            }
            Self::OpenRefused(fault) => write!(f, "the peer refused the handshake: {fault}"),
            Self::Panicked => f.write_str("something on our side of the link panicked"),
        }
    }
}
