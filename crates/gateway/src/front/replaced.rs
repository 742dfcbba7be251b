//! Relays of servers that were started again, for as long as calls wait there for their retries.

use std::sync::{Arc, Mutex};

use cardan_proto::jsonrpc::fault::code;
use cardan_proto::session::event::{Answer, Called};
use tokio::sync::watch;

use crate::fleet::{Upstream, lock};
use crate::relay::Relay;

/// Those relays. Each is kept no longer than a retry may take.
#[derive(Default)]
pub(crate) struct Replaced {
    relays: Mutex<Vec<Old>>,
    /// Nobody waits any more.
    closing: watch::Sender<bool>,
}

struct Old {
    number: u64,
    server: Box<str>,
    relay: Relay,
}

impl Replaced {
    /// Keeps a relay from now on, until what is returned has waited for its calls.
    pub(super) fn keep(self: &Arc<Self>, server: &str, relay: &Relay) -> impl Future<Output = ()> + use<> {
        relay.replaced();
        let mut relays = lock(&self.relays);
        let number = relays.last().map_or(0, |old| old.number + 1);
        relays.push(Old { number, server: server.into(), relay: relay.clone() });
        drop(relays);
        let (replaced, relay) = (Arc::clone(self), relay.clone());
        async move {
            let mut closing = replaced.closing.subscribe();
            tokio::select! {
                () = relay.finished() => {}
                _ = closing.wait_for(|closing| *closing) => {}
            }
            // Before it ends, so that nothing goes there meanwhile.
            lock(&replaced.relays).retain(|old| old.number != number);
        }
    }

    /// The relay where a call waits for this retry.
    pub(super) fn awaiting(&self, upstream: &Upstream, called: &Called) -> Option<Relay> {
        self.find(upstream, |relay| relay.awaits(called))
    }

    /// The relay of the process that asked for this retry, where that is gone.
    pub(super) fn losing(
        &self,
        upstream: &Upstream,
        called: &Called,
        principal: Option<&Arc<str>>,
    ) -> Option<Relay> {
        self.find(upstream, |relay| relay.has_lost(called, principal))
    }

    fn find(&self, upstream: &Upstream, fits: impl Fn(&Relay) -> bool) -> Option<Relay> {
        let relays = lock(&self.relays);
        let mut own = relays.iter().filter(|old| *old.server == *upstream.name());
        own.find(|old| fits(&old.relay)).map(|old| old.relay.clone())
    }

    /// Calls that wait for their client's answers.
    pub(super) fn parked(&self) -> usize {
        lock(&self.relays).iter().map(|old| old.relay.census().1).sum()
    }

    /// Waits for no call any more.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
    }
}

/// The answer to the retry of a call that was asked by a process which is gone. Another one may know how to go on; one
/// that does not refuses what it did not seal.
pub(super) fn judged(old: &Relay, called: &Called, answer: Answer) -> Answer {
    match answer {
        Answer::Fault(says) if says.code == code::INVALID_PARAMS => Answer::Fault(old.lost(called, &says)),
        other => other,
    }
}
