//! Failures on our side in the shape of the error schema, for callers that know only that shape.
//!
//! Each has a code outside the reserved ranges and a marker in its data, and a peer's error loses
//! that marker, so that neither is taken for the other. None of this is ever sent.

use bytes::Bytes;
use serde_json::json;

use crate::finding::excerpt;
use crate::jsonrpc::envelope::{Envelope, Reply};
use crate::jsonrpc::fault::{Fault, code};
use crate::jsonrpc::id::CallId;
use crate::jsonrpc::splice::{Edit, member_of, splice};
use crate::jsonrpc::write;
use crate::limits::Limits;
use crate::session::event::{Deadline, Delivery, Outcome};

/// The member of `data` that says where an error was made.
const MARKER: &str = "local";

/// An outcome as a reply by the schemas, whether it came from the peer or not.
#[must_use]
pub fn reply(id: &CallId, outcome: &Outcome) -> Bytes {
    let outcome = match outcome {
        Outcome::Done(result) => Ok(result.clone()),
        Outcome::Fault(fault) => Err(foreign(fault.clone())),
        other => Err(fault(other)),
    };
    let mut out = Vec::new();
    write::envelope(&Envelope::Reply(Reply { id: Some(id.clone()), outcome }), &mut out);
    Bytes::from(out)
}

/// The error for an HTTP status: the peer's own, if the body has one, else one made here.
#[must_use]
pub fn of_status(status: u16, body: &Bytes) -> Fault {
    let theirs = member_of(body, "error").ok().flatten().and_then(|error| Fault::parse(&error));
    if let Some(fault) = theirs {
        return foreign(fault);
    }
    let body = excerpt(body, Limits::DEFAULT.excerpt_bytes);
    let message = format!("the server answered with HTTP status {status} and no error object");
    local(message, "http_status", &json!({ "status": status, "body": body }))
}

/// Was this error made on our side?
#[must_use]
pub fn is_local(fault: &Fault) -> bool {
    let marked = fault.data.as_ref().and_then(|data| member_of(data, MARKER).ok().flatten());
    fault.code == code::LOCAL && marked.is_some_and(|marker| &*marker == b"true")
}

fn fault(outcome: &Outcome) -> Fault {
    match outcome {
        Outcome::Done(_) | Outcome::Fault(_) => {
            Fault::internal("the peer answered; this is no local failure")
        }
        Outcome::TimedOut { deadline, after, delivery, .. } => {
            let class = match deadline {
                Deadline::Idle => "timeout_idle",
                Deadline::Total => "timeout_total",
            };
            let message = format!("no answer within {after:?}; allow more time or ask the server's owner");
            local(message, class, &json!({ "delivery": delivery.name() }))
        }
        Outcome::Cancelled { reason, delivery } => {
            local(format!("cancelled: {reason}"), "cancelled", &json!({ "delivery": delivery.name() }))
        }
        Outcome::Lost { cause, delivery } => {
            let message = format!("client closed before the answer came: {cause}; connect again");
            local(message, "closed", &json!({ "delivery": delivery.name() }))
        }
        Outcome::Violated(violation) => {
            let message = format!(
                "the answer is no reply: {}; report it to the server's owner",
                violation.rule.clause()
            );
            local(message, "envelope", &json!({ "rule": violation.rule.id(), "at": violation.at }))
        }
        Outcome::Refused(refusal) => {
            local(format!("not sent: {refusal}"), "refused", &json!({ "delivery": Delivery::NotSent.name() }))
        }
    }
}

fn local(message: String, class: &str, more: &serde_json::Value) -> Fault {
    let mut data = json!({ MARKER: true, "class": class });
    if let (Some(data), Some(more)) = (data.as_object_mut(), more.as_object()) {
        data.extend(more.clone());
    }
    Fault::new(code::LOCAL, message).with_data(&data)
}

/// A peer's error never passes for one of ours.
fn foreign(mut fault: Fault) -> Fault {
    if is_local(&fault) {
        fault.data = fault.data.and_then(|data| splice(&data, &[Edit::Set(MARKER, b"false")]).ok());
    }
    fault
}
