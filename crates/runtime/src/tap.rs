//! A link that shows what passes, and can keep it from passing.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cardan_proto::era::Revision;
use cardan_proto::session::event::{Abilities, Cause, Departed, LaneId, Outgoing};

use crate::link::{Link, Received};
use crate::witness::Witness;

/// Sees what passes over a link. Called from the link's task: it must not block.
pub trait Tap: Send + Sync {
    /// A message is about to be written.
    fn sends(&self, lane: LaneId, message: &Outgoing) -> Passage;

    /// Something came.
    fn received(&self, received: &Received);
}

/// Whether a message goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// It does.
    Open,
    /// It does not, and the peer never learns of it. Nothing may pass after it: order would lie about what was sent.
    Closed,
}

/// A link, seen by a tap or by nobody.
pub struct Tapped<L> {
    link: L,
    tap: Option<Arc<dyn Tap>>,
}

impl<L> Tapped<L> {
    /// `link` as `tap` sees it.
    pub fn new(link: L, tap: Option<Arc<dyn Tap>>) -> Self {
        Self { link, tap }
    }

    fn passes(&self, lane: LaneId, message: &Outgoing) -> bool {
        self.tap.as_ref().is_none_or(|tap| tap.sends(lane, message) == Passage::Open)
    }
}

impl<L: Link> Link for Tapped<L> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        let received = self.link.poll_recv(cx);
        if let (Some(tap), Poll::Ready(received)) = (&self.tap, &received) {
            tap.received(received);
        }
        received
    }

    fn put(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        if self.passes(lane, message) {
            self.link.put(frame, lane, message);
        }
    }

    fn put_ahead(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        if self.passes(lane, message) {
            self.link.put_ahead(frame, lane, message);
        }
    }

    fn retract(&mut self, frame: u64) {
        self.link.retract(frame);
    }

    fn end_lane(&mut self, lane: LaneId) {
        self.link.end_lane(lane);
    }

    fn release(&mut self, lane: LaneId, retry: Duration) {
        self.link.release(lane, retry);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.poll_flush(cx)
    }

    fn queued(&self) -> usize {
        self.link.queued()
    }

    fn departed(&self) -> Departed {
        self.link.departed()
    }

    fn abilities(&self) -> Abilities {
        self.link.abilities()
    }

    fn received_bytes(&self) -> u64 {
        self.link.received_bytes()
    }

    fn begun(&self) -> &[u8] {
        self.link.begun()
    }

    fn settled(&mut self, revision: Revision) {
        self.link.settled(revision);
    }

    fn witness(&self) -> Option<Arc<dyn Witness>> {
        self.link.witness()
    }

    fn poll_explain(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<Cause> {
        self.link.poll_explain(cx, cause)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<()> {
        self.link.poll_close(cx, cause)
    }
}

impl<L: fmt::Debug> fmt::Debug for Tapped<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tapped").field("link", &self.link).finish_non_exhaustive()
    }
}
