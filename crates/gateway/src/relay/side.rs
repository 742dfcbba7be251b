//! The upstream, as one link sees it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::Note;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::cx::CallCx;
use cardan_runtime::peer::Peer;
use cardan_runtime::service::{Handler, Service};

use super::guest::Guest;
use super::{Core, modern};

/// A relay at one link, for one principal.
pub struct Side {
    core: Arc<Core>,
    principal: Option<Arc<str>>,
    /// The legacy client at this link; nothing inside: there were too many.
    guest: OnceLock<Option<Arc<Guest>>>,
}

impl Side {
    pub(super) fn new(core: Arc<Core>, principal: Option<Arc<str>>) -> Self {
        Self { core, principal, guest: OnceLock::new() }
    }
}

impl Service for Side {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        match (called.revision.era(), self.guest.get()) {
            (Era::Modern, _) => {
                Box::pin(modern::call(Arc::clone(&self.core), self.principal.clone(), cx, called))
            }
            (Era::Legacy, Some(Some(guest))) => Box::pin(Arc::clone(guest).call(cx, called)),
            (Era::Legacy, _) => {
                let fault = Fault::new(code::BUSY, "too many clients have sessions here; try again later");
                Box::pin(std::future::ready(Answer::Fault(fault)))
            }
        }
    }

    fn greeted(&self, peer: Peer, capabilities: &Bytes) {
        self.guest.get_or_init(|| Guest::open(&self.core, peer, capabilities));
    }

    fn note(&self, note: Note) {
        if let Some(Some(guest)) = self.guest.get() {
            guest.tell(note);
        }
    }
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Side").field("principal", &self.principal).finish_non_exhaustive()
    }
}
