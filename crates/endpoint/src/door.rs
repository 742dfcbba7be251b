//! Whether new work is taken, and who is told when it is not any more.

use cardan_runtime::links::Links;
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
    running: Links,
}

impl Doorway {
    pub(crate) fn door(&self) -> Door {
        if self.running.is_closing() { Door::Closing } else { Door::Open }
    }

    /// A modern call has to wait. Those that are answered at once never come here.
    pub(crate) fn joined(&self, peer: Peer) {
        self.running.join(peer, ());
    }

    /// Closes: what runs is told, and so is what joins later.
    pub(crate) fn close(&self, reason: &'static str) {
        self.running.close(reason);
    }
}
