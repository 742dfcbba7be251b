//! A relay in whose place another one stands: it takes no new calls, and finishes those that wait for a retry.

use std::sync::Arc;

use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::session::event::{Called, Cause, Delivery, Outcome};

use super::reserve::Ticket;
use super::{Relay, modern};

impl Relay {
    /// Another one stands in its place, for a server that was started again. What is not needed for retries is left.
    pub(crate) fn replaced(&self) {
        self.0.reserve.forsake();
        for pool in self.0.pools() {
            pool.thin();
        }
    }

    /// Waits until no call waits for its retry, none runs that may come to, and no retry of one that is lost can come.
    pub(crate) async fn finished(&self) {
        let _ = tokio::time::timeout(self.0.options.limits.request_state_ttl, self.0.pending.none()).await;
    }

    /// Is it the retry of a call that waits here?
    pub(crate) fn awaits(&self, called: &Called) -> bool {
        let state = called.call.params.text(Param::RequestState);
        modern::goes_on(&self.0, called) && state.is_some_and(|state| self.0.park.has(&state))
    }

    /// Is it the retry of a call that was asked by a process which is gone?
    pub(crate) fn has_lost(&self, called: &Called, principal: Option<&Arc<str>>) -> bool {
        Ticket::of(called, principal).is_some_and(|ticket| self.0.reserve.has_lost(&ticket))
    }

    /// What its client is told where nobody else can go on with such a call: someone `says` so.
    pub(crate) fn lost(&self, called: &Called, says: &Fault) -> Fault {
        let why = format!("it was started again since it asked, and now says: {}", says.message);
        let outcome = Outcome::Lost { cause: Cause::ClosedByUs(why.into()), delivery: Delivery::Sent };
        self.0.who.fault(&outcome, &called.call.method)
    }
}
