//! What carried one message failed: its own call ends, and nothing else does.
//!
//! On links with one lane a failure is the link's end. On HTTP every call has an exchange of its own.

use super::Session;
use super::event::{Cause, Delivery, Outcome};
use super::tables::{Grave, Purpose};
use crate::finding::Rule;
use crate::jsonrpc::fault::Fault;
use crate::jsonrpc::id::CallId;

impl Session {
    pub(super) fn failed(&mut self, id: Option<CallId>, cause: Cause, delivery: Delivery) {
        let call = id.as_ref().and_then(CallId::as_number);
        let gone = matches!(&cause, Cause::Http(failure) if failure.is_session_gone());
        if gone && self.heal(call, &cause) {
            return;
        }
        let replaced = matches!(&cause, Cause::Http(failure) if failure.is_session_replaced());
        match call {
            Some(call) if replaced && self.replaced(call, &cause) => {}
            Some(call) => self.settle_failed(call, cause, delivery),
            None => self.find(Rule::PostRefused, id, cause.to_string()),
        }
    }

    /// A call that was answered or given up before is not concerned.
    fn settle_failed(&mut self, id: i64, cause: Cause, delivery: Delivery) {
        let Some(mut pending) = self.outbound.remove(id, Grave::GivenUp, self.config.limits.tombstones)
        else {
            return;
        };
        self.tell_held(&mut pending);
        match pending.purpose {
            Purpose::Call(ticket) | Purpose::Listen(ticket) => {
                if matches!(&cause, Cause::Http(failure) if failure.is_no_reply()) {
                    self.find(Rule::NoReply, Some(CallId::from(id)), cause.to_string());
                }
                self.drop_listen(ticket);
                self.settle(ticket, Outcome::Lost { cause, delivery });
            }
            Purpose::Probe => self.probe_failed(cause),
            Purpose::Handshake => self.end(cause),
            Purpose::Ask { key, name } => {
                let fault = Fault::internal(format!("the client could not be asked: {cause}"));
                self.ask_answered(key, name, Err(fault));
            }
            Purpose::Subscribe(ticket) => self.end_legacy_listen(ticket, Outcome::Lost { cause, delivery }),
            Purpose::Farewell => self.left(),
            Purpose::Errand => self.find(Rule::PostRefused, Some(CallId::from(id)), cause.to_string()),
        }
    }
}
