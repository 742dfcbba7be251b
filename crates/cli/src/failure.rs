//! Why a command failed, in full: class, message, the peer's code and data, delivery, last words of
//! the server, and what to do next.

use std::borrow::Cow;
use std::path::Path;
use std::process::ExitCode;

use cardan_client::{CallError, Class, ConnectError, Step};
use cardan_proto::finding::{Class as RuleClass, Finding, Rule};
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::jsonrpc::splice::{Edit, splice};
use cardan_proto::limits::Limits;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::{Cause, Delivery, Hurdle, Refusal};
use cardan_proto::socket::Again;
use cardan_runtime::link::NoLink;
use cardan_runtime::witness::Report;
use http::StatusCode;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::look::{Surface, Tagging, tagging};
use crate::output::{Form, json_line};
use crate::progress::over;
use crate::tagged;

mod delivery;
mod parcel;
mod told;

pub(crate) use parcel::{pack_finding, unpack_finding};

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    class: Class,
    message: String,
    next: Option<String>,
    circumstances: Box<Circumstances>,
}

/// What else is known.
#[derive(Debug, Default)]
struct Circumstances {
    fault: Option<Fault>,
    /// Where on its way it failed, if it got on its way.
    stage: Option<Step>,
    /// Whether the call reached the server, where that is a question.
    delivery: Option<Delivery>,
    /// Did the server answer the call?
    answered: bool,
    findings: Vec<Finding>,
    stderr: String,
    /// How the server's process ended.
    server_exit: Option<Box<str>>,
}

/// The first findings say how it began, the last ones where it came to; more would bury it.
const MAX_FINDINGS: usize = 5;

/// So many of them are the first.
const FIRST_FINDINGS: usize = 3;

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, class: exit.class(), message: message.into(), next: None, circumstances: Box::default() }
    }

    /// The tool ran, and says in its result that it failed.
    pub(crate) fn of_tool(class: Class, message: impl Into<String>) -> Self {
        let mut failure = Self::new(Exit::ToolFailed, message).at(class, Some(Step::Protocol));
        failure.circumstances.answered = true;
        failure
    }

    /// The server answered, and what it answered is wrong in a way of which only strictness makes a failure.
    pub(crate) fn of_result(message: impl Into<String>) -> Self {
        let failure = Self::new(Exit::Violation, message).at(Class::Schema, Some(Step::Protocol));
        let mut failure = failure.next(NOT_STRICT);
        failure.circumstances.answered = true;
        failure
    }

    /// With what is known of where it failed.
    fn at(mut self, class: Class, stage: Option<Step>) -> Self {
        (self.class, self.circumstances.stage) = (class, stage);
        self
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// What there is to say cannot be written where it should go.
    pub(crate) fn unwritten(message: impl Into<String>) -> Self {
        Self::new(Exit::Unwritten, message)
    }

    /// The command was only rehearsed, and all is said.
    pub(crate) fn rehearsed() -> Self {
        Self::new(Exit::Done, "")
    }

    /// With what to do next.
    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        self.next = Some(step.into());
        self
    }

    /// The same where nothing better is known.
    pub(crate) fn or_next(mut self, step: impl FnOnce() -> String) -> Self {
        self.next = self.next.or_else(|| Some(step()));
        self
    }

    /// Without the advice to be lenient: that was tried.
    pub(crate) fn leniently(mut self) -> Self {
        if self.next_step().is_some_and(|next| next.contains("lenient")) {
            self.next = Some("report it to the server's author: this cannot be mended here".to_owned());
        }
        self
    }

    /// With the advice to be less strict, where the link ended for what may have done no call any harm.
    pub(crate) fn strictly(mut self) -> Self {
        // Of answers, the shape is looked at by nobody else.
        let harmless = !self.circumstances.answered || self.class == Class::Schema;
        if self.exit == Exit::Violation && harmless {
            self.next = match self.next.as_deref() {
                Some(REPORT) => Some(NOT_STRICT.to_owned()),
                Some(LENIENT) => Some(LENIENT_INSTEAD.to_owned()),
                _ => self.next,
            };
        }
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The same failure in a class that the command knows better.
    pub(crate) fn classed(mut self, exit: Exit) -> Self {
        if self.circumstances.stage.is_none() {
            self.class = exit.class();
        }
        self.exit = exit;
        self
    }

    /// The server's own error, where it is the reason.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        self.circumstances.fault.as_ref()
    }

    /// Does the server not know the method?
    pub(crate) fn is_unknown_method(&self) -> bool {
        self.fault().is_some_and(|fault| fault.code == code::METHOD_NOT_FOUND)
    }

    /// With what was seen on the way, where it may explain the failure.
    pub(crate) fn seen(mut self, findings: Vec<Finding>) -> Self {
        let explains =
            matches!(self.exit, Exit::Unreachable | Exit::Violation | Exit::Timeout | Exit::Exited);
        if explains && self.circumstances.findings.is_empty() {
            self.circumstances.findings = few(findings);
        }
        self
    }

    /// With what the server said last on stderr, where it had a part in the failure.
    pub(crate) fn last_words(mut self, stderr: &str) -> Self {
        let (known, exit) = (&mut self.circumstances, self.exit);
        let took_part = match exit {
            Exit::ToolFailed | Exit::Fault | Exit::Violation | Exit::Timeout | Exit::Exited => true,
            Exit::Unreachable => true,
            Exit::NotFound => known.fault.is_some(),
            Exit::Done | Exit::Usage | Exit::Auth | Exit::NotAllUp | Exit::Unwritten => false,
            Exit::InputRequired | Exit::Interrupted => false,
        };
        // The failure may bring them itself.
        if took_part && known.stderr.is_empty() {
            stderr.clone_into(&mut known.stderr);
        }
        self
    }

    /// Without the server's stderr: it was shown as it came.
    pub(crate) fn wordless(mut self) -> Self {
        self.circumstances.stderr.clear();
        self
    }

    /// Without secrets, whoever let them slip.
    pub(crate) fn hiding(mut self, secrets: &Redactor) -> Self {
        self.message = secrets.redact(&self.message).into_owned();
        self.next = self.next.map(|next| secrets.redact(&next).into_owned());
        let known = &mut self.circumstances;
        known.stderr = secrets.redact(&known.stderr).into_owned();
        known.server_exit = known.server_exit.take().map(|exit| secrets.redact(&exit).into());
        for finding in &mut known.findings {
            finding.detail = secrets.redact(&finding.detail).into();
            finding.bytes = secrets.redact(&finding.bytes).into();
        }
        if let Some(fault) = &mut known.fault {
            fault.message = secrets.redact(&fault.message).into_owned().into();
        }
        if let Some(data) = known.fault.as_mut().and_then(|fault| fault.data.as_mut()) {
            let told = String::from_utf8_lossy(data).into_owned();
            if let Cow::Owned(text) = secrets.redact(&told) {
                // What is no JSON any more is told as text.
                *data = match serde_json::from_str::<&RawValue>(&text) {
                    Ok(_) => text.into(),
                    Err(_) => Value::String(text).to_string().into(),
                };
            }
        }
        self
    }

    /// Why there is no session.
    pub(crate) fn of_connecting<E: NoLink>(error: ConnectError<E>) -> Self {
        let (class, stage) = (error.class(), error.step());
        let failure = match error {
            ConnectError::Link(error) => {
                Self::new(Exit::of_hurdle(error.hurdle()), error.to_string()).next(advice(error.hurdle()))
            }
            ConnectError::Opening { cause, findings, report } => {
                let mut failure = Self::of_cause(cause).reported(report);
                failure.circumstances.findings = few(findings);
                failure
            }
            other => Self::new(Exit::Unreachable, other.to_string()),
        };
        failure.at(class, Some(stage))
    }

    /// The same over a bare socket: nobody here has started a command, and whatever listens there may speak something else.
    pub(crate) fn of_dialling<E: NoLink>(error: ConnectError<E>, address: Option<&str>) -> Self {
        let failure = Self::of_connecting(error);
        match address {
            Some(address) if failure.circumstances.findings.iter().any(is_http) => {
                failure.next(format!("HTTP is spoken there: try http://{address}/mcp"))
            }
            _ if failure.next.as_deref() == Some(CLOSED) => failure.next(CLOSED_SOCKET),
            _ => failure,
        }
    }

    /// The daemon ended in a call: what became of it at the server is not known, unless it was not sent at all.
    pub(crate) fn of_daemon(error: &CallError, delivery: Delivery, log: Option<&Path>) -> Self {
        let message = "the daemon ended while it waited for the server";
        let log = log.map(|path| format!("; the daemon's log is {}", path.display())).unwrap_or_default();
        let next = match delivery {
            Delivery::NotSent => "make the call again",
            _ => "see whether the server has done it, before it is made again",
        };
        let failure = Self::new(Exit::Exited, message).at(error.class(), Some(error.step()));
        failure.delivered(delivery).next(format!("{next}{log}"))
    }

    /// Why a link ended, or never was.
    pub(crate) fn of_cause(cause: Cause) -> Self {
        let (class, stage) = (Class::of_cause(&cause), Step::of_cause(&cause));
        Self::told_by(cause).at(class, stage)
    }

    fn told_by(cause: Cause) -> Self {
        let message = cause.to_string();
        match cause {
            Cause::Exited { status, stderr } => {
                let mut failure = Self::new(Exit::Exited, format!("the server's process ended ({status})"));
                failure.circumstances.stderr = stderr.into();
                failure.next("see what it says on stderr, or start the command by hand")
            }
            Cause::ClosedByPeer => Self::new(Exit::Exited, "the server closed the link").next(CLOSED),
            Cause::Closed { code, .. } => Self::new(Exit::Exited, message).next(match code.again() {
                Again::Now => "connect again",
                Again::Later => "connect again in a while, or see the server's log",
                Again::No => "see the server's log: the same would happen again",
            }),
            Cause::Silent(_) => Self::new(Exit::Timeout, message).next("see whether the server hangs"),
            Cause::Stalled => Self::new(Exit::Timeout, message).next("see whether the server hangs"),
            Cause::OpenTimeout => Self::new(Exit::Timeout, message).next(SLOW),
            Cause::Violated(Rule::Echo) => {
                Self::new(Exit::Violation, "this is no MCP server: it sends back what it is sent")
                    .next("give the command of a server after `--`, such as `cardan demo`")
            }
            Cause::Violated(rule) => Self::new(Exit::Violation, message).next(mending(rule)),
            Cause::NoCommonRevision { .. } => {
                Self::new(Exit::Unreachable, message).next("leave --era away, or update the server")
            }
            Cause::Unreachable { hurdle, .. } => {
                Self::new(Exit::of_hurdle(hurdle), message).next(advice(hurdle))
            }
            Cause::Http(failure) if is_busy(&failure) => {
                let again = failure.hints().and_then(|hints| hints.retry_after.as_ref());
                let when = again.map_or_else(|| "in a while".to_owned(), ToString::to_string);
                Self::new(Exit::Unreachable, message).next(format!("the server is busy: try again {when}"))
            }
            Cause::Http(failure) => {
                let (exit, next) = match *failure {
                    HttpFailure::Connect { hurdle, .. } => (Exit::of_hurdle(hurdle), advice(hurdle)),
                    HttpFailure::Status { status, .. } => {
                        (Exit::of_hurdle(Hurdle::Status(status)), advice(Hurdle::Status(status)))
                    }
                    HttpFailure::Redirect(_) => {
                        (Exit::Unreachable, "use the address that the server redirects to, if you trust it")
                    }
                    _ => (Exit::Unreachable, advice(Hurdle::Handshake)),
                };
                Self::new(exit, message).next(next)
            }
            Cause::OpenRefused(fault) if fault.code == code::METHOD_NOT_FOUND => {
                Self::of_fault(Exit::Fault, message, fault).next(OTHER_ERA)
            }
            Cause::OpenRefused(fault) => Self::of_fault(Exit::Fault, message, fault)
                .next("give the server what it wants in its arguments or variables, or see its log"),
            _ => Self::new(Exit::Unreachable, message).next("connect again"),
        }
    }

    fn of_fault(exit: Exit, message: String, fault: Fault) -> Self {
        let mut failure = Self::new(exit, message);
        failure.circumstances.fault = Some(fault);
        failure
    }

    /// With what became of the server's process.
    fn reported(mut self, report: Report) -> Self {
        let known = &mut self.circumstances;
        known.server_exit = report.exit.filter(|exit| !self.message.contains(&**exit));
        if known.stderr.is_empty() {
            known.stderr = report.stderr.into();
        }
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Tells it on stderr, and gives the exit code.
    pub(crate) fn report(self, form: Form) -> ExitCode {
        if self.exit == Exit::Done {
            return self.exit.into();
        }
        if tagging() == Tagging::Lines {
            tagged::put(&tagged::line_of("error", &self.json()));
        }
        over(&match form {
            Form::Text => self.text(Surface::stderr()),
            Form::Json => format!(
                "{}
",
                json_line(&self.json())
            ),
        });
        self.exit.into()
    }

    fn json(&self) -> String {
        let known = &self.circumstances;
        let mut error = json!({
            "class": self.class.name(),
            "exit": self.exit.code(),
            "message": self.message,
            "delivery": self.delivery().name(),
        });
        if let Some(stage) = known.stage {
            error["stage"] = json!(stage.name());
        }
        if let Some(fault) = &known.fault {
            error["code"] = json!(fault.code);
        }
        if !known.findings.is_empty() {
            error["findings"] = known.findings.iter().map(ToString::to_string).collect();
        }
        if let Some(exit) = &known.server_exit {
            error["server_exit"] = json!(exit);
        }
        if !known.stderr.is_empty() {
            error["stderr"] = json!(self.stderr_lines());
        }
        if let Some(next) = self.next_step() {
            error["next"] = json!(next);
        }
        let error = error.to_string();
        // As the server spells it.
        let data = known.fault.as_ref().and_then(|fault| fault.data.as_deref());
        let spliced = data.and_then(|data| splice(error.as_bytes(), &[Edit::Set("data", data)]).ok());
        let told = spliced.as_deref().and_then(|told| std::str::from_utf8(told).ok()).unwrap_or(&error);
        format!("{{\"error\":{told}}}")
    }

    pub(crate) fn next_step(&self) -> Option<&str> {
        let known = &self.circumstances;
        if self.exit == Exit::Timeout && known.findings.iter().any(is_no_message) {
            // A server that does not open may be none.
            match (known.delivery, self.next.as_deref()) {
                (Some(_), _) => return Some(NO_MESSAGE),
                (None, Some(SLOW)) if known.findings.iter().any(|found| found.rule == Rule::Unterminated) => {
                    return Some(NO_END);
                }
                (None, Some(SLOW)) => return Some(NO_GREETING),
                (None, _) => {}
            }
        }
        self.next.as_deref().or_else(|| self.exit.next_step())
    }

    /// What the server said last: few lines, as whoever kept them saw to.
    fn stderr_lines(&self) -> Vec<&str> {
        self.circumstances.stderr.trim_end().lines().collect()
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let (message, next) = (error.to_string(), error.next_step());
        let (class, stage, answered) = (error.class(), error.step(), error.may_have_executed());
        let mut failure = match error {
            CallError::Fault(fault) => {
                let (exit, message) = (exit_of(&fault), fault.message.clone().into_owned());
                let next = match exit {
                    Exit::InputRequired => {
                        "give roots with --root, answers of a model with --sampling-command or on a terminal"
                    }
                    _ => next,
                };
                Self::of_fault(exit, message, fault).next(next)
            }
            CallError::TimedOut { delivery, .. } => {
                Self::new(Exit::Timeout, message).delivered(delivery).next("allow more time with --timeout")
            }
            CallError::Cancelled { delivery, .. } => {
                Self::new(Exit::Interrupted, message).delivered(delivery)
            }
            CallError::Lost { cause, delivery, report } => {
                // There is a session, and an answer to its call, which is none.
                let no_reply = matches!(&cause, Cause::Http(failure) if failure.is_no_reply());
                let failure = Self::of_cause(cause).reported(report).delivered(delivery);
                if no_reply { failure.classed(Exit::Violation).next(REPORT) } else { failure }
            }
            CallError::Refused(Refusal::Capability(_) | Refusal::NotInRevision(_)) => {
                Self::new(Exit::NotFound, message)
                    .next("see what the server can do with `cardan info SERVER`")
            }
            CallError::Refused(_) => Self::new(Exit::Unreachable, message).next(next),
            CallError::Violated(violation) if violation.rule == Rule::Oversize => {
                let most = Limits::DEFAULT.frame_bytes >> 20;
                Self::new(Exit::Violation, message)
                    .next(format!("ask the server for less: a message has at most {most} MiB here"))
            }
            CallError::Violated(violation) => {
                Self::new(Exit::Violation, message).next(mending(violation.rule))
            }
            _ => Self::new(Exit::Violation, message).next(next),
        };
        // What lost its link may have reached the server or not, which is told by itself.
        failure.circumstances.answered = answered && failure.circumstances.delivery.is_none();
        failure.at(class, Some(stage))
    }
}

/// Adds a finding to those that are shown.
pub(crate) fn keep(findings: &mut Vec<Finding>, finding: Finding) {
    if findings.len() == MAX_FINDINGS {
        findings.remove(FIRST_FINDINGS);
    }
    findings.push(finding);
}

fn few(findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept = Vec::with_capacity(MAX_FINDINGS);
    findings.into_iter().for_each(|finding| keep(&mut kept, finding));
    kept
}

/// Does it say that what came was no message, or no proper one?
fn is_no_message(finding: &Finding) -> bool {
    matches!(finding.rule.class(), RuleClass::Framing | RuleClass::Syntax | RuleClass::Envelope)
}

/// Is it what a web server says to who does not speak HTTP? Old ones answer with nothing but a page.
fn is_http(finding: &Finding) -> bool {
    let starts =
        |word: &str| finding.bytes.get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word));
    finding.rule == Rule::Noise && ["HTTP/", "<!doctype html", "<html"].into_iter().any(starts)
}

/// Does the server turn us away only for now?
fn is_busy(failure: &HttpFailure) -> bool {
    let status = failure.status();
    matches!(failure, HttpFailure::Status { .. })
        && matches!(status, Some(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE))
}

/// What to do about an answer of which nothing can be made.
const REPORT: &str = "report it to the server's author, or see the server's log";

/// What to do where what came in place of an answer explains why none did.
const NO_MESSAGE: &str = "see the findings: what came cannot be read as an answer, so --timeout alone may not help; report it to the server's author";

/// What to do about a server that went away.
const CLOSED: &str = "see its log, or start the command by hand";

/// The same where it was not started here.
const CLOSED_SOCKET: &str = "see its log, and whether it is an MCP server that speaks one message a line";

/// What to do where nothing came at all.
const SLOW: &str = "is this an MCP server? allow a slow one more time with --timeout";

/// The same where something came that is no answer.
const NO_GREETING: &str =
    "see the findings: what came is no message, so --timeout alone may not help; is this an MCP server?";

/// The same where it has no end.
const NO_END: &str = "see the findings: a message ends with a newline, and --timeout brings none; report it to the server's author";

/// What to do about a server that does not know by what a session is opened.
const OTHER_ERA: &str =
    "the server may be of the other era: leave --era away, or see whether it speaks the protocol at all";

/// What to do about a server that breaks the protocol.
const LENIENT: &str = "report it to the server's author, or try --lenient";

/// The same where only strictness may have made a failure of it.
const NOT_STRICT: &str = "report it to the server's author, or leave --strict away";

const LENIENT_INSTEAD: &str =
    "report it to the server's author, or leave --strict away, or say --lenient in its place";

/// What to do about a rule that is broken: nobody can mend half a message.
fn mending(rule: Rule) -> &'static str {
    if rule.is_mendable() { LENIENT } else { REPORT }
}

/// What to do about what stood in the way of a link, with the options that help.
fn advice(hurdle: Hurdle) -> &'static str {
    match hurdle {
        Hurdle::Tls => {
            "trust its certificate with --ca FILE if you know it, or see whether TLS is spoken there"
        }
        Hurdle::Status(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            "give a token with --bearer-env, or what the server wants with --header"
        }
        Hurdle::Late => "see whether the server hangs, or allow more time with --timeout",
        other => other.next_step(),
    }
}

fn exit_of(fault: &Fault) -> Exit {
    match fault.code {
        code::RESOURCE_NOT_FOUND => Exit::NotFound,
        code::MISSING_CAPABILITY | code::URL_ELICITATION_REQUIRED => Exit::InputRequired,
        // Legacy revisions have no code for it; the data is the same.
        _ if data_of(fault).get("requiredCapabilities").is_some() => Exit::InputRequired,
        _ => Exit::Fault,
    }
}

/// What the server says beside the message; null where it says nothing.
fn data_of(fault: &Fault) -> Value {
    fault.data.as_ref().and_then(|data| serde_json::from_slice(data).ok()).unwrap_or_default()
}
