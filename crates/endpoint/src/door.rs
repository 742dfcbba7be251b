//! Whether new work is taken, and who is told when it is not any more.

use std::sync::{Mutex, OnceLock, PoisonError};

use cardan_runtime::peer::Peer;

/// Whether new work is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// It is.
    Open,
    /// What runs is finished, and nothing new is taken.
    Closing,
}

/// Why whoever comes too late is sent away.
pub(crate) const CLOSING: &str = "the server is shutting down, try again later";

/// The door of one endpoint, and the calls behind it that no session outlives.
#[derive(Debug, Default)]
pub(crate) struct Doorway {
    /// Why it closes, once it does.
    closing: OnceLock<&'static str>,
    running: Mutex<Vec<Peer>>,
}

impl Doorway {
    pub(crate) fn door(&self) -> Door {
        match self.closing.get() {
            None => Door::Open,
            Some(_) => Door::Closing,
        }
    }

    /// A modern call has to wait. Those that are answered at once never come here.
    pub(crate) fn joined(&self, peer: Peer) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = self.closing.get() {
            return peer.close(*reason);
        }
        // Swept when the list would grow, so that joining stays cheap however many run.
        if running.len() == running.capacity() {
            running.retain(|peer| !peer.is_closed());
            let live = running.len();
            running.reserve(live.max(16));
        }
        running.push(peer);
    }

    /// Closes: what runs is told, and so is what joins later.
    pub(crate) fn close(&self, reason: &'static str) {
        let running = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            // Under the lock, so that nobody joins in between unheard. The first reason is the one that counts.
            let _ = self.closing.set(reason);
            std::mem::take(&mut *running)
        };
        for peer in running {
            peer.close(reason);
        }
    }
}
