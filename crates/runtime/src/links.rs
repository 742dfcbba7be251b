//! Who is served, to be told of changes and of the end.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::peer::Peer;

/// The peers of links that last, each with what else is to be known of it.
///
/// Once it is closed, whoever joins is told at once: a link that is made while the end is told misses nothing.
#[derive(Debug)]
pub struct Links<T = ()> {
    live: Mutex<Vec<(Peer, T)>>,
    /// Why it closes, once it does: set under the lock, so that nobody joins in between unheard. The first reason is the
    /// one that counts.
    closing: OnceLock<&'static str>,
}

impl<T> Default for Links<T> {
    fn default() -> Self {
        Self { live: Mutex::default(), closing: OnceLock::new() }
    }
}

impl<T> Links<T> {
    /// There is one more.
    pub fn join(&self, peer: Peer, known: T) {
        let mut live = self.lock();
        if let Some(reason) = self.closing.get() {
            drop(live);
            return peer.close(*reason);
        }
        // Swept when the list would grow, so that joining stays cheap however many links there are.
        if live.len() == live.capacity() {
            live.retain(|(peer, _)| !peer.is_closed());
            let left = live.len();
            live.reserve(left.max(16));
        }
        live.push((peer, known));
    }

    /// Ends every link when what runs there is done, and those that join later. Until then they can be told things.
    pub fn close(&self, reason: &'static str) {
        let live = {
            let live = self.lock();
            let _ = self.closing.set(reason);
            live.iter().map(|(peer, _)| peer.clone()).collect::<Vec<_>>()
        };
        for peer in live {
            peer.close(reason);
        }
    }

    /// Was it closed?
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.get().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Peer, T)>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Links<T> {
    /// Those there are. Some may have ended meanwhile.
    #[must_use]
    pub fn live(&self) -> Vec<(Peer, T)> {
        self.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

    use std::sync::Arc;

    use bytes::Bytes;
    use cardan_proto::session::config::{Config, Role};
    use cardan_proto::session::event::Cause;

    use super::*;
    use crate::driver::Driver;
    use crate::service::Silent;

    /// Whoever was there is told the end, and so is whoever joins while it is told or afterwards.
    #[tokio::test]
    async fn who_joins_late_is_told_the_end() {
        let links = Links::default();
        let link = || {
            let object = || Bytes::from_static(b"{}");
            let config = Arc::new(Config::new(Role::Server, object(), object()));
            let (ours, theirs) = crate::memory::pair(&config.limits);
            (Driver::new(ours, Arc::new(Silent), config), theirs)
        };
        let ((early, peer), _early) = link();
        links.join(peer, ());
        assert!(!links.is_closing());
        links.close("first");
        links.close("second");
        let ((late, peer), _late) = link();
        links.join(peer, ());
        assert_eq!(early.await, Cause::ClosedByUs("first".into()));
        assert_eq!(late.await, Cause::ClosedByUs("first".into()));
        assert!(links.is_closing() && links.live().iter().all(|(peer, ())| peer.is_closed()));
    }
}
