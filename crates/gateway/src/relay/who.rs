//! What one side is told of the other when a call brings no reply.

use std::fmt;
use std::sync::Arc;

use cardan_client::words;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::method::Method;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::{Delivery, Outcome, Refusal};
use serde_json::json;

/// Who is spoken of.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    /// In words.
    name: Arc<str>,
    /// What nobody is told of it.
    secrets: Redactor,
}

impl Who {
    /// The server with this name; nothing: the only one there is.
    pub(crate) fn server(name: Option<&str>, secrets: Redactor) -> Self {
        let name = name
            .map_or_else(|| "the server behind this one".into(), |name| format!("server `{name}`").into());
        Self { name, secrets }
    }

    /// The client.
    pub(super) fn client() -> Self {
        Self { name: "the client".into(), secrets: Redactor::default() }
    }

    /// What is told of a call that brought no reply, and whether it may have been executed.
    pub(super) fn fault(&self, outcome: &Outcome, method: &Method) -> Fault {
        // What a server says when it refuses us may quote what we showed it.
        self.said(outcome, method).redacted(&self.secrets)
    }

    fn said(&self, outcome: &Outcome, method: &Method) -> Fault {
        match outcome {
            Outcome::Refused(
                Refusal::Capability(_) | Refusal::NotInRevision(_) | Refusal::NotInDialect(_),
            ) => Fault::method_not_found(method.name()),
            Outcome::Refused(refusal @ (Refusal::TooMany | Refusal::Backlog)) => {
                Fault::new(code::BUSY, format!("{self} is busy: {refusal}"))
            }
            Outcome::Lost { cause, delivery } => {
                let cause = cause.clone().redacted(&self.secrets);
                told(format!("{self} was lost: {cause} ({})", words(*delivery)), outcome, "lost", *delivery)
            }
            Outcome::TimedOut { delivery, .. } => {
                told(format!("{self} did not answer in time"), outcome, "timed_out", *delivery)
            }
            Outcome::Cancelled { reason, delivery } => {
                told(format!("the call was given up: {reason}"), outcome, "cancelled", *delivery)
            }
            Outcome::Violated(violation) => {
                let rule = violation.rule;
                let message =
                    format!("the answer of {self} breaks the protocol: {} ({})", rule.id(), rule.clause());
                told(message, outcome, "violated", Delivery::Sent)
            }
            other => told(
                format!("the call could not be passed on: {other:?}"),
                other,
                "refused",
                Delivery::NotSent,
            ),
        }
    }

    /// The same for a call that was not made at all.
    pub(crate) fn unreachable(&self, why: &dyn fmt::Display) -> Fault {
        let message = format!("{self} cannot be reached: {why}");
        let fault = Fault::internal(message).with_data(&json!({
            "outcome": "lost",
            "delivery": "not_sent",
            "mayHaveExecuted": false,
        }));
        fault.redacted(&self.secrets)
    }

    /// The same where nothing came of it in time.
    pub(super) fn silent(&self) -> Fault {
        self.unreachable(&"it did not answer in time")
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A fault of ours by which a call ends that its server had begun.
pub(super) fn given_up(fault: Fault) -> Fault {
    fault.with_data(&json!({
        "outcome": "cancelled",
        "delivery": Delivery::Sent.name(),
        "mayHaveExecuted": true,
    }))
}

/// A fault for who comes back to a call that had begun, and of whose end nothing is known.
pub(super) fn begun(fault: Fault) -> Fault {
    fault.with_data(&json!({ "delivery": Delivery::Sent.name(), "mayHaveExecuted": true }))
}

fn told(message: String, outcome: &Outcome, what: &str, delivery: Delivery) -> Fault {
    Fault::internal(message).with_data(&json!({
        "outcome": what,
        "delivery": delivery.name(),
        "mayHaveExecuted": outcome.may_have_executed(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cardan_proto::secret::Secret;
    use cardan_proto::session::event::Cause;
    use serde_json::Value;

    /// A call that was lost says so, and whether it may have been executed.
    #[test]
    fn lost_calls_tell_what_is_known() {
        for (delivery, executed) in [(Delivery::NotSent, false), (Delivery::Unknown, true)] {
            let outcome = Outcome::Lost { cause: Cause::ClosedByPeer, delivery };
            let fault = Who::server(Some("a"), Redactor::default()).fault(&outcome, &Method::ToolsCall);
            assert!(fault.message.starts_with("server `a` was lost"), "{}", fault.message);
            let data: Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
            assert_eq!((&data["outcome"], &data["mayHaveExecuted"]), (&json!("lost"), &json!(executed)));
        }
    }
    /// What a server quotes of its credentials when it refuses us is told to no client.
    #[test]
    fn secrets_are_not_told() {
        let who = Who::server(Some("a"), Redactor::new([Secret::new("tok-1234567890")]));
        let said = "Incorrect API key: tok-1234567890";
        let outcome = Outcome::Lost { cause: Cause::Io(said.into()), delivery: Delivery::NotSent };
        for fault in [who.fault(&outcome, &Method::ToolsCall), who.unreachable(&said)] {
            assert!(fault.message.contains("Incorrect API key"), "{}", fault.message);
            assert!(!fault.message.contains("tok-1234567890"), "{}", fault.message);
        }
    }
}
