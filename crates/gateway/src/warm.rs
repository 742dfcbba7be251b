//! Servers as they are, kept running for those who come again: nothing is hidden, renamed or put together.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use cardan_client::{CallError, Settled};
use cardan_proto::era::{Era, Revision};
use cardan_proto::finding::Finding;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::session::event::Cause;
use cardan_runtime::link::Link;

use crate::fleet::{Fleet, Upstream};
use crate::front::relays::{Called, Reached, Relays};
use crate::relay::{Lend, Options};

/// A fleet whose servers are spoken with one at a time, each behind a relay.
pub struct Warm {
    fleet: Fleet,
    relays: Relays,
}

impl Warm {
    /// The servers of `fleet`.
    #[must_use]
    pub fn new(fleet: Fleet, options: Options) -> Self {
        let relays = Relays::new(fleet.clone(), options, (Lend::Modern, Called::Nothing), (None, None));
        Self { fleet, relays }
    }

    /// The fleet.
    #[must_use]
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Reaches a server: starts it if it sleeps, and waits until calls flow.
    pub async fn open(&self, upstream: &Arc<Upstream>) -> Result<Open, Fault> {
        let reached = self.relays.reach(upstream).await?;
        // It was met, or calls would not flow.
        let settled = reached.visit.managed.settled();
        let settled = settled.ok_or_else(|| Fault::internal("the server was lost just now"))?;
        Ok(Open { settled, reached })
    }

    /// Leaves what belongs to servers that are there no more, or sleep.
    pub fn sweep(&self) {
        self.relays.sweep();
    }

    /// Takes no new calls. Links end when what runs there is done.
    pub fn close(&self, reason: &'static str) {
        self.relays.dismiss(reason);
    }

    /// Leaves all servers, politely, once no link is served any more, and ends them.
    pub async fn end(&self, reason: &'static str) {
        self.relays.close(reason).await;
        self.fleet.close(reason).await;
    }
}

impl fmt::Debug for Warm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warm").field("fleet", &self.fleet).finish_non_exhaustive()
    }
}

/// A server that calls flow to. While it is held the server is not stopped.
pub struct Open {
    settled: Settled,
    reached: Reached,
}

impl Open {
    /// What it speaks.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.settled.revision
    }

    /// What it says of itself, in the words of the modern era; nothing: it is of the other.
    #[must_use]
    pub fn greeting(&self) -> Option<&Bytes> {
        let modern = self.settled.revision.era() == Era::Modern;
        self.settled.greeting.as_ref().filter(|_| modern)
    }

    /// Asks it whether it lives.
    pub async fn ping(&self) -> Result<(), CallError> {
        self.reached.visit.managed.ping().await
    }

    /// What its process said last on stderr.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.reached.relay.last_words()
    }

    /// What it did wrong during the call that ended last, unless that was told.
    #[must_use]
    pub fn last_found(&self) -> Vec<Finding> {
        self.reached.relay.last_found()
    }

    /// Serves one link to its end, and tells why it ended.
    pub async fn serve<L: Link + Unpin>(&self, link: L) -> Cause {
        self.reached.relay.serve(link).await
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").field("revision", &self.settled.revision).finish_non_exhaustive()
    }
}
