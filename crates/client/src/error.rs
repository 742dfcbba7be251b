//! What can go wrong with a call, and with connecting.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use cardan_proto::era::Revision;
use cardan_proto::finding::{Finding, Rule};
use cardan_proto::jsonrpc::envelope::Violation;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::model::Flaw;
use cardan_proto::session::event::{Cause, Deadline, Delivery, Outcome, Refusal, Stage};
use cardan_runtime::witness::Report;

use crate::class::next_of;

/// Why a call brought no result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CallError {
    /// The server answered with an error.
    Fault(Fault),
    /// No answer in time. The server was told that nobody waits any more.
    TimedOut {
        /// Which deadline.
        deadline: Deadline,
        /// After how long.
        after: Duration,
        /// Did it reach the server?
        delivery: Delivery,
        /// How far it had come.
        stage: Stage,
        /// Bytes that arrived on the link since the call was made.
        seen_bytes: u64,
    },
    /// The call was given up.
    Cancelled {
        /// Why.
        reason: Cow<'static, str>,
        /// Did it reach the server?
        delivery: Delivery,
    },
    /// The link was lost.
    Lost {
        /// Why.
        cause: Cause,
        /// Did it reach the server?
        delivery: Delivery,
        /// What was known of the server's process then, if it is a child of ours.
        report: Report,
    },
    /// The server answered with something that is no answer.
    Violated(Violation),
    /// The call was never sent.
    Refused(Refusal),
    /// The result does not have the shape of its method.
    Shape(String),
    /// A listing that does not end.
    Endless(String),
    /// What was to be read has no address, so the call was never sent.
    Address(Flaw),
    /// The result could not have been checked, so the call was never sent.
    Unchecked(String),
    /// What was read is not what was listed, and is not handed out.
    Unverified(String),
}

impl CallError {
    /// May the server have done what the call asks for?
    #[must_use]
    pub fn may_have_executed(&self) -> bool {
        match self {
            Self::Fault(_) | Self::Violated(_) | Self::Shape(_) | Self::Endless(_) | Self::Unverified(_) => {
                true
            }
            Self::TimedOut { delivery, .. }
            | Self::Cancelled { delivery, .. }
            | Self::Lost { delivery, .. } => *delivery != Delivery::NotSent,
            Self::Refused(_) | Self::Address(_) | Self::Unchecked(_) => false,
        }
    }

    /// Does it say that a resource does not exist? Each era has its own code for that.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Fault(fault) if fault.is_resource_not_found())
    }

    /// What to try next, in one line.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Fault(fault) => next_of_fault(fault),
            Self::TimedOut { deadline: Deadline::Idle, .. } => {
                "allow more time, or ask the server for progress"
            }
            Self::TimedOut { .. } => "allow more time in all",
            Self::Cancelled { .. } => "call again",
            Self::Lost { cause, .. } => {
                next_of(cause).unwrap_or("connect again; look at the server's last words")
            }
            Self::Violated(violation) if violation.rule == Rule::Oversize => {
                "allow longer messages (limits.frame_bytes), or ask for less"
            }
            Self::Violated(_) => "report it to the server's author; lenient mode may help",
            // Nothing can be made of it at any level.
            Self::Shape(_) | Self::Endless(_) => {
                "report it to the server's author; the raw result can be had"
            }
            Self::Unverified(_) => "list again; if it still differs, do not trust it",
            Self::Address(_) => "take it from the server's list; if it is there, lenient mode may help",
            Self::Unchecked(_) => "call without the check, or report the schema to the server's author",
            Self::Refused(Refusal::Capability(_)) => "the server does not offer this; see its capabilities",
            Self::Refused(Refusal::NoPushes) => "ask for what you want to know when you want to know it",
            Self::Refused(Refusal::NotInRevision(_)) => "the settled revision has no such method",
            Self::Refused(_) => "wait for calls in flight, then call again",
        }
    }
}

/// Only some codes say that the call was wrong; with others the server has the reason.
fn next_of_fault(fault: &Fault) -> &'static str {
    match fault.code {
        code::METHOD_NOT_FOUND => "check the method's name, and what the server says that it can do",
        code::INVALID_PARAMS | code::RESOURCE_NOT_FOUND => {
            "check the name and the arguments against the server's lists"
        }
        _ => "see what the server says on stderr or in its log",
    }
}

/// The result, or why there is none.
pub(crate) fn result_of(
    outcome: Outcome,
    report: impl FnOnce() -> Report,
) -> Result<bytes::Bytes, CallError> {
    Err(match outcome {
        Outcome::Done(result) => return Ok(result),
        Outcome::Fault(fault) => CallError::Fault(fault),
        Outcome::TimedOut { deadline, after, delivery, stage, seen_bytes } => {
            CallError::TimedOut { deadline, after, delivery, stage, seen_bytes }
        }
        Outcome::Cancelled { reason, delivery } => CallError::Cancelled { reason, delivery },
        Outcome::Lost { cause, delivery } => CallError::Lost { cause, delivery, report: report() },
        Outcome::Violated(violation) => CallError::Violated(violation),
        Outcome::Refused(refusal) => CallError::Refused(refusal),
        _ => CallError::Shape("an outcome of a newer version".into()),
    })
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => write!(f, "the server answered with an error: {fault}"),
            Self::TimedOut { deadline, after, delivery, stage, seen_bytes } => {
                let what = match deadline {
                    Deadline::Idle => "no sign of life",
                    Deadline::Total => "no answer",
                };
                let (secs, delivery) = (after.as_secs_f64(), words(*delivery));
                write!(
                    f,
                    "{what} within {secs:.1} s: {stage}; {seen_bytes} bytes came meanwhile ({delivery})"
                )
            }
            Self::Cancelled { reason, delivery } => write!(f, "given up: {reason} ({})", words(*delivery)),
            Self::Lost { cause, delivery, report } => {
                write!(f, "link lost: {cause} ({})", words(*delivery))?;
                write_report(f, cause, report)
            }
            Self::Violated(violation) => {
                write!(
                    f,
                    "the server's answer breaks the protocol: {} ({})",
                    violation.rule.id(),
                    violation.rule.clause()
                )
            }
            Self::Refused(refusal) => write!(f, "not sent: {refusal}"),
            Self::Shape(why) => write!(f, "the result does not have the shape of its method: {why}"),
            Self::Address(flaw) => write!(f, "not sent, for the resource's address {flaw}"),
            Self::Unchecked(why) => write!(f, "not sent, for its result cannot be checked: {why}"),
            Self::Unverified(why) => write!(f, "read, but not what was listed: {why}"),
            Self::Endless(why) => write!(f, "the listing does not end: {why}"),
        }
    }
}

/// An exit that is the cause has told its status and last words already.
fn write_report(f: &mut fmt::Formatter<'_>, cause: &Cause, report: &Report) -> fmt::Result {
    match cause {
        Cause::Exited { .. } => Ok(()),
        _ if report.is_empty() => Ok(()),
        _ => write!(f, "; {report}"),
    }
}

/// A delivery in words.
#[must_use]
pub fn words(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::NotSent => "the server did not run it",
        Delivery::Sent => "the server had it",
        Delivery::Unknown => "whether the server ran it is not known",
    }
}

impl Error for CallError {}

/// Why there is no session.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError<E> {
    /// The link could not be made.
    Link(E),
    /// The link ended, or was ended, before calls could flow.
    Opening {
        /// Why.
        cause: Cause,
        /// What the server did wrong until then.
        findings: Vec<Finding>,
        /// What became of the server's process, if it is a child of ours.
        report: Report,
    },
}

impl<E: fmt::Display> fmt::Display for ConnectError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) => write!(f, "cannot connect: {error}"),
            Self::Opening { cause, findings, report } => {
                write!(f, "cannot open a session: {cause}")?;
                if let Some(first) = findings.first() {
                    write!(f, "; {first}")?;
                }
                write_report(f, cause, report)
            }
        }
    }
}

impl<E: Error + 'static> Error for ConnectError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Link(error) => Some(error),
            Self::Opening { .. } => None,
        }
    }
}

/// What a session settled on.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// The revision, and so the era.
    pub revision: Revision,
    /// The result of `initialize` or `server/discover`, as raw JSON. Dialects have none.
    pub greeting: Option<bytes::Bytes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-49: what to do follows the code: who called is told to look at the call only where that can help.
    #[test]
    fn cli_49_the_advice_after_an_error_follows_its_code() {
        for (code, named) in [
            (code::METHOD_NOT_FOUND, "method"),
            (code::INVALID_PARAMS, "arguments"),
            (code::RESOURCE_NOT_FOUND, "name"),
            (code::INTERNAL, "log"),
            (code::INVALID_REQUEST, "log"),
            (-32_050, "log"),
            (7, "log"),
        ] {
            let next = CallError::Fault(Fault::new(code, "no")).next_step();
            assert!(next.contains(named), "{code}: {next}");
        }
    }

    /// S0-57: a timeout says stage, elapsed time and bytes seen, besides what becomes of the call.
    #[test]
    fn s0_57_a_timeout_says_how_far_it_came() {
        let error = CallError::TimedOut {
            deadline: Deadline::Idle,
            after: Duration::from_millis(30_040),
            delivery: Delivery::Unknown,
            stage: Stage::Sent,
            seen_bytes: 17,
        };
        assert_eq!(
            error.to_string(),
            "no sign of life within 30.0 s: written, no sign of it since; 17 bytes came meanwhile \
             (whether the server ran it is not known)"
        );
    }
}
