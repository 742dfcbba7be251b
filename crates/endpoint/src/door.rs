//! Whether new work is taken, and who is told when it is not any more.

use std::sync::OnceLock;
use std::time::Duration;

use cardan_runtime::links::Links;
use cardan_runtime::peer::Peer;
use cardan_runtime::unfinished::{One, Unfinished};
use tokio::time::Instant;

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
#[derive(Debug)]
pub(crate) struct Doorway {
    running: Links,
    /// Calls whose clients have yet to come back.
    unfinished: Unfinished,
    /// When what runs is given up, once it closes.
    until: OnceLock<Instant>,
}

/// Whoever comes back for a call while the door is closing.
#[derive(Debug)]
pub(crate) struct Returned {
    /// How much time is left.
    pub(crate) left: Duration,
    /// Until the call is answered, the end waits for it.
    _one: One,
}

impl Doorway {
    pub(crate) fn new(unfinished: Unfinished) -> Self {
        Self { running: Links::default(), unfinished, until: OnceLock::new() }
    }

    pub(crate) fn door(&self) -> Door {
        if self.running.is_closing() { Door::Closing } else { Door::Open }
    }

    /// A modern call has to wait. Those that are answered at once never come here.
    pub(crate) fn joined(&self, peer: Peer) {
        self.running.join(peer, ());
    }

    /// Closes: what runs is told, and so is what joins later.
    pub(crate) fn close(&self, reason: &'static str, grace: Duration) {
        self.until.get_or_init(|| Instant::now() + grace);
        self.running.close(reason);
    }

    /// Somebody comes back for a call that was begun before.
    pub(crate) fn returned(&self) -> Returned {
        let left =
            self.until.get().map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        Returned { left, _one: self.unfinished.begin() }
    }

    /// Waits until nobody is to come back any more, or it is too late.
    pub(crate) async fn finished(&self) {
        let until = self.until.get().copied().unwrap_or_else(Instant::now);
        let _ = tokio::time::timeout_at(until, self.unfinished.none()).await;
    }
}
