//! What kind of failure it is, in names that programs may rely on: what happened, where, and whether to try again.

use std::fmt;

use cardan_proto::finding::{Class as RuleClass, Rule};
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::model::tool::CallToolResult;
use cardan_proto::session::event::{Cause, Deadline, Delivery, Hurdle, Refusal};
use cardan_runtime::link::NoLink;
use http::StatusCode;

use crate::error::{CallError, ConnectError};

/// What happened. Names stay as they are; there may be more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// What is configured cannot be used, so nothing was tried.
    Config,
    /// The server's process could not be started.
    Spawn,
    /// The server's name has no address.
    Dns,
    /// Nobody answers at the address, or the way there is barred.
    Connect,
    /// No trust in the server, or no TLS at all.
    Tls,
    /// The server wants to know who we are.
    AuthRequired,
    /// The server knows who we are, and does not let us.
    AuthFailed,
    /// An HTTP status that says no, or leads where we do not follow.
    HttpStatus,
    /// The server refused to open a session, or its transport did not say how.
    Handshake,
    /// No revision in common, or the settled one cannot say this.
    Version,
    /// One side does not offer what the call needs.
    Capability,
    /// No sign of life in time.
    TimeoutIdle,
    /// No answer in time.
    TimeoutTotal,
    /// Given up by the caller.
    Cancelled,
    /// The link was closed or broke.
    Closed,
    /// The server's process ended.
    Exit,
    /// The bytes are no message.
    Framing,
    /// The message is no JSON.
    Syntax,
    /// The JSON is no message of the protocol.
    Envelope,
    /// A value does not have the shape that it should.
    Schema,
    /// The server answered with an error.
    JsonRpc,
    /// The tool ran, and says in its result that it failed.
    ToolError,
    /// More than a bound allows: in bytes, in number, at a time.
    TooLarge,
    /// A defect on our side.
    Internal,
}

/// Whether to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// It was not executed, and may go better the next time.
    Yes,
    /// It may have been executed: only what does no harm twice.
    IfHarmless,
    /// The same would happen again, until something is changed.
    No,
}

/// Where on its way it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Before anything was tried: how it is configured, or where its name leads.
    Resolve,
    /// Before there was a link.
    Connect,
    /// Before the call had left.
    Send,
    /// Before the answer was here.
    Receive,
    /// Reading what came, or putting together what goes.
    Decode,
    /// By what the other side decided.
    Protocol,
}

impl Step {
    /// Its name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Decode => "decode",
            Self::Protocol => "protocol",
        }
    }

    /// The step of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Resolve, Self::Connect, Self::Send, Self::Receive, Self::Decode, Self::Protocol];
        all.into_iter().find(|step| step.name() == name)
    }

    /// Where a link failed for this.
    #[must_use]
    pub const fn of_hurdle(hurdle: Hurdle) -> Self {
        match hurdle {
            Hurdle::Config | Hurdle::Dns => Self::Resolve,
            _ => Self::Connect,
        }
    }

    /// Where a link failed for this, before or after it was made.
    #[must_use]
    pub fn of_cause(cause: &Cause) -> Option<Self> {
        match cause {
            Cause::Unreachable { hurdle, .. } => Some(Self::of_hurdle(*hurdle)),
            Cause::Http(failure) => Some(match **failure {
                HttpFailure::Connect { hurdle, .. } => Self::of_hurdle(hurdle),
                HttpFailure::Content { .. } | HttpFailure::Unfit(_) => Self::Decode,
                HttpFailure::Broken(_) | HttpFailure::NoReply { .. } => Self::Receive,
                _ => Self::Protocol,
            }),
            _ => None,
        }
    }
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::Config,
        Self::Spawn,
        Self::Dns,
        Self::Connect,
        Self::Tls,
        Self::AuthRequired,
        Self::AuthFailed,
        Self::HttpStatus,
        Self::Handshake,
        Self::Version,
        Self::Capability,
        Self::TimeoutIdle,
        Self::TimeoutTotal,
        Self::Cancelled,
        Self::Closed,
        Self::Exit,
        Self::Framing,
        Self::Syntax,
        Self::Envelope,
        Self::Schema,
        Self::JsonRpc,
        Self::ToolError,
        Self::TooLarge,
        Self::Internal,
    ];

    /// Its name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Spawn => "spawn",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::AuthRequired => "auth_required",
            Self::AuthFailed => "auth_failed",
            Self::HttpStatus => "http_status",
            Self::Handshake => "handshake",
            Self::Version => "version",
            Self::Capability => "capability",
            Self::TimeoutIdle => "timeout_idle",
            Self::TimeoutTotal => "timeout_total",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
            Self::Exit => "exit",
            Self::Framing => "framing",
            Self::Syntax => "syntax",
            Self::Envelope => "envelope",
            Self::Schema => "schema",
            Self::JsonRpc => "json_rpc",
            Self::ToolError => "tool_error",
            Self::TooLarge => "too_large",
            Self::Internal => "internal",
        }
    }

    /// Why a link ended, or never was.
    #[must_use]
    pub fn of_cause(cause: &Cause) -> Self {
        match cause {
            Cause::Exited { .. } => Self::Exit,
            Cause::Unreachable { hurdle, .. } => Self::of_hurdle(*hurdle),
            Cause::Http(failure) => of_http(failure),
            Cause::Stalled | Cause::Silent(_) => Self::TimeoutIdle,
            Cause::OpenTimeout => Self::TimeoutTotal,
            Cause::Violated(rule) => of_rule(*rule),
            Cause::NoCommonRevision { .. } => Self::Version,
            Cause::OpenRefused(_) => Self::Handshake,
            Cause::Panicked => Self::Internal,
            // Closed by whoever, or broken.
            _ => Self::Closed,
        }
    }

    /// What stood in the way of a link.
    #[must_use]
    pub fn of_hurdle(hurdle: Hurdle) -> Self {
        match hurdle {
            Hurdle::Config => Self::Config,
            Hurdle::Spawn => Self::Spawn,
            Hurdle::Dns => Self::Dns,
            Hurdle::Tls => Self::Tls,
            Hurdle::Status(status) => of_status(status),
            Hurdle::Handshake => Self::Handshake,
            Hurdle::Late => Self::TimeoutTotal,
            _ => Self::Connect,
        }
    }

    /// What a result says of itself: a tool that ran may have failed.
    #[must_use]
    pub fn of_result(result: &CallToolResult) -> Option<Self> {
        result.failed().then_some(Self::ToolError)
    }

    /// Would the same happen again, whatever became of the call?
    const fn is_lasting(self) -> bool {
        match self {
            Self::AuthRequired | Self::AuthFailed | Self::Version | Self::Capability => true,
            Self::Config | Self::Spawn | Self::Tls | Self::ToolError | Self::Internal => true,
            Self::Handshake
            | Self::Schema
            | Self::JsonRpc
            | Self::Envelope
            | Self::Framing
            | Self::Syntax => true,
            Self::Dns | Self::Connect | Self::HttpStatus | Self::TimeoutIdle | Self::TimeoutTotal => false,
            Self::Cancelled | Self::Closed | Self::Exit | Self::TooLarge => false,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A server that has seen a token and says no will say so again; the first wish is to be told who we are.
fn of_status(status: StatusCode) -> Class {
    match status {
        StatusCode::UNAUTHORIZED => Class::AuthRequired,
        StatusCode::FORBIDDEN => Class::AuthFailed,
        _ => Class::HttpStatus,
    }
}

fn of_http(failure: &HttpFailure) -> Class {
    match failure {
        HttpFailure::Connect { hurdle, .. } => Class::of_hurdle(*hurdle),
        HttpFailure::Broken(_) => Class::Closed,
        HttpFailure::Status { status, .. } => of_status(*status),
        HttpFailure::Content { .. } => Class::Framing,
        HttpFailure::NoReply { .. } => Class::Envelope,
        HttpFailure::NoEndpoint | HttpFailure::Endpoint(_) => Class::Handshake,
        HttpFailure::Unfit(_) => Class::Schema,
        HttpFailure::LegacyOnly => Class::Version,
        HttpFailure::NoLane => Class::Capability,
        _ => Class::HttpStatus,
    }
}

fn of_rule(rule: Rule) -> Class {
    match (rule, rule.class()) {
        (Rule::Oversize | Rule::Depth | Rule::IdTooLong, _) => Class::TooLarge,
        (_, RuleClass::Framing) => Class::Framing,
        (_, RuleClass::Syntax) => Class::Syntax,
        (_, RuleClass::Schema) => Class::Schema,
        _ => Class::Envelope,
    }
}

impl CallError {
    /// What happened.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Fault(fault) => match fault.code {
                code::MISSING_CAPABILITY => Class::Capability,
                code::UNSUPPORTED_VERSION => Class::Version,
                _ => Class::JsonRpc,
            },
            Self::TimedOut { deadline: Deadline::Idle, .. } => Class::TimeoutIdle,
            Self::TimedOut { .. } => Class::TimeoutTotal,
            Self::Cancelled { .. } => Class::Cancelled,
            Self::Lost { cause, .. } => Class::of_cause(cause),
            Self::Violated(violation) => of_rule(violation.rule),
            Self::Refused(Refusal::Capability(_) | Refusal::NoPushes) => Class::Capability,
            Self::Refused(Refusal::NotInRevision(_) | Refusal::NotInDialect(_)) => Class::Version,
            Self::Refused(Refusal::Params) => Class::Schema,
            Self::Refused(Refusal::NotOpen) => Class::Closed,
            Self::Refused(_) | Self::Endless(_) => Class::TooLarge,
            Self::Shape(_) | Self::Address(_) | Self::Unchecked(_) | Self::Unverified(_) => Class::Schema,
        }
    }

    /// Whether to try again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        let busy = matches!(self, Self::Fault(fault) if fault.code == code::BUSY);
        // What lost its link may go better over the next one, unless the server said why not.
        let lasting = match self {
            Self::Violated(_) | Self::Endless(_) => true,
            _ => self.class().is_lasting(),
        };
        match (busy, lasting, self.may_have_executed()) {
            (true, ..) => Retry::Yes,
            (_, true, _) => Retry::No,
            (_, _, true) => Retry::IfHarmless,
            (_, _, false) => Retry::Yes,
        }
    }

    /// Where on its way it failed.
    #[must_use]
    pub fn step(&self) -> Step {
        match self {
            Self::Fault(_) | Self::Refused(_) => Step::Protocol,
            Self::Violated(_) | Self::Shape(_) | Self::Endless(_) => Step::Decode,
            Self::Address(_) | Self::Unchecked(_) | Self::Unverified(_) => Step::Decode,
            Self::Lost { cause, delivery, .. } => Step::of_cause(cause).unwrap_or_else(|| reached(*delivery)),
            Self::TimedOut { delivery, .. } | Self::Cancelled { delivery, .. } => reached(*delivery),
        }
    }
}

fn reached(delivery: Delivery) -> Step {
    match delivery {
        Delivery::NotSent => Step::Send,
        Delivery::Sent | Delivery::Unknown => Step::Receive,
    }
}

impl<E: NoLink> ConnectError<E> {
    /// What happened.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Link(error) => Class::of_hurdle(error.hurdle()),
            Self::Opening { cause, .. } => Class::of_cause(cause),
        }
    }

    /// Where on its way it failed.
    #[must_use]
    pub fn step(&self) -> Step {
        match self {
            Self::Link(error) => Step::of_hurdle(error.hurdle()),
            Self::Opening { cause, .. } => Step::of_cause(cause).unwrap_or(Step::Protocol),
        }
    }

    /// What to try next, in one line.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Link(error) => error.hurdle().next_step(),
            Self::Opening { cause, .. } => {
                next_of(cause).unwrap_or("connect again; look at the server's last words")
            }
        }
    }
}

/// What helps against what stood in the way of a link.
pub(crate) fn next_of(cause: &Cause) -> Option<&'static str> {
    match cause {
        Cause::Unreachable { hurdle, .. } => Some(hurdle.next_step()),
        Cause::Http(failure) => match **failure {
            HttpFailure::Connect { hurdle, .. } => Some(hurdle.next_step()),
            HttpFailure::Status { status, .. } => Some(Hurdle::Status(status).next_step()),
            _ => None,
        },
        Cause::Panicked => Some("report it, with the message of the panic"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use cardan_proto::jsonrpc::fault::Fault;
    use cardan_proto::session::event::Stage;
    use cardan_runtime::witness::Report;

    use super::*;

    fn lost(cause: Cause, delivery: Delivery) -> CallError {
        CallError::Lost { cause, delivery, report: Report::default() }
    }

    fn status(status: u16) -> Cause {
        let status = StatusCode::from_u16(status).unwrap();
        Cause::Http(Box::new(HttpFailure::Status { status, excerpt: "".into(), hints: Box::default() }))
    }

    fn late(deadline: Deadline, delivery: Delivery) -> CallError {
        let after = Duration::from_secs(1);
        CallError::TimedOut { deadline, after, delivery, stage: Stage::Sent, seen_bytes: 0 }
    }

    /// S2-44: each failure has a stable class, says whether to try again, and where it happened.
    #[test]
    fn s2_44_failures_have_classes() {
        use Delivery::{NotSent, Sent, Unknown};
        let broken = Cause::Http(Box::new(HttpFailure::Broken("no".into())));
        let fault = |code| CallError::Fault(Fault::new(code, "no"));
        let cancelled = |delivery| CallError::Cancelled { reason: "enough".into(), delivery };
        let refused = CallError::Refused;
        let exited = Cause::Exited { status: "exit status: 1".into(), stderr: "".into() };
        let rows = [
            (fault(code::INTERNAL), "json_rpc", Retry::No, Step::Protocol),
            (fault(code::BUSY), "json_rpc", Retry::Yes, Step::Protocol),
            (fault(code::MISSING_CAPABILITY), "capability", Retry::No, Step::Protocol),
            (fault(code::UNSUPPORTED_VERSION), "version", Retry::No, Step::Protocol),
            (late(Deadline::Idle, Unknown), "timeout_idle", Retry::IfHarmless, Step::Receive),
            (late(Deadline::Total, NotSent), "timeout_total", Retry::Yes, Step::Send),
            (cancelled(Sent), "cancelled", Retry::IfHarmless, Step::Receive),
            (lost(Cause::ClosedByPeer, Unknown), "closed", Retry::IfHarmless, Step::Receive),
            (lost(Cause::Io("reset".into()), NotSent), "closed", Retry::Yes, Step::Send),
            (lost(exited, Sent), "exit", Retry::IfHarmless, Step::Receive),
            (lost(Cause::Panicked, Unknown), "internal", Retry::No, Step::Receive),
            (lost(broken, Unknown), "closed", Retry::IfHarmless, Step::Receive),
            (lost(status(401), NotSent), "auth_required", Retry::No, Step::Protocol),
            (lost(status(403), NotSent), "auth_failed", Retry::No, Step::Protocol),
            (lost(status(503), NotSent), "http_status", Retry::Yes, Step::Protocol),
            (lost(Cause::Stalled, NotSent), "timeout_idle", Retry::Yes, Step::Send),
            (lost(Cause::OpenTimeout, NotSent), "timeout_total", Retry::Yes, Step::Send),
            (lost(Cause::NoCommonRevision { theirs: Vec::new() }, NotSent), "version", Retry::No, Step::Send),
            (lost(Cause::OpenRefused(Fault::new(1, "no")), NotSent), "handshake", Retry::No, Step::Send),
            (lost(Cause::Violated(Rule::Noise), Unknown), "framing", Retry::No, Step::Receive),
            (lost(Cause::Violated(Rule::Syntax), Unknown), "syntax", Retry::No, Step::Receive),
            (lost(Cause::Violated(Rule::IdNull), Unknown), "envelope", Retry::No, Step::Receive),
            (refused(Refusal::TooMany), "too_large", Retry::Yes, Step::Protocol),
            (refused(Refusal::NotOpen), "closed", Retry::Yes, Step::Protocol),
            (CallError::Shape("odd".into()), "schema", Retry::No, Step::Decode),
            (CallError::Endless("long".into()), "too_large", Retry::No, Step::Decode),
        ];
        let hurdles = [
            (Hurdle::Config, "config", Retry::No, Step::Resolve),
            (Hurdle::Spawn, "spawn", Retry::No, Step::Connect),
            (Hurdle::Dns, "dns", Retry::Yes, Step::Resolve),
            (Hurdle::Connect, "connect", Retry::Yes, Step::Connect),
            (Hurdle::Tls, "tls", Retry::No, Step::Connect),
            (Hurdle::Status(StatusCode::UNAUTHORIZED), "auth_required", Retry::No, Step::Connect),
            (Hurdle::Status(StatusCode::FORBIDDEN), "auth_failed", Retry::No, Step::Connect),
            (Hurdle::Status(StatusCode::BAD_GATEWAY), "http_status", Retry::Yes, Step::Connect),
            (Hurdle::Handshake, "handshake", Retry::No, Step::Connect),
            (Hurdle::Late, "timeout_total", Retry::Yes, Step::Connect),
        ];
        let rows = rows.into_iter().chain(hurdles.into_iter().flat_map(|(hurdle, class, retry, step)| {
            let causes = [
                Cause::Unreachable { hurdle, why: "no".into() },
                Cause::Http(Box::new(HttpFailure::Connect { hurdle, why: "no".into() })),
            ];
            causes.map(|cause| (lost(cause, NotSent), class, retry, step))
        }));
        let rows: Vec<_> = rows.collect();
        for (error, class, retry, step) in &rows {
            let got = (error.class().name(), error.retry(), error.step());
            assert_eq!(got, (*class, *retry, *step), "{error}");
        }
        let mut seen: HashSet<_> = rows.iter().map(|(error, ..)| error.class()).collect();
        let failed = CallToolResult { is_error: Some(true), ..CallToolResult::default() };
        seen.extend(Class::of_result(&failed));
        assert_eq!(Class::of_result(&CallToolResult::default()), None);
        assert_eq!(seen.len(), Class::ALL.len(), "each class is among them");
        let names: HashSet<_> = Class::ALL.iter().map(|class| class.name()).collect();
        assert_eq!(names.len(), Class::ALL.len());
    }
}
