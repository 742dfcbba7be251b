//! How a link ends: politely, within one deadline.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use tokio::time::{Sleep, sleep};

use super::{HttpLink, Way};
use crate::exchange;
use crate::held::Held;

/// The steps of a polite end.
pub(super) struct Closing {
    deadline: Pin<Box<Sleep>>,
    pub(super) delete: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl HttpLink {
    /// From now on only what is polite goes on: notes, and the end of the session.
    pub(super) fn begin_close(&mut self) -> Closing {
        for (_, flight) in self.calls.drain() {
            flight.handle.abort();
        }
        // With its stream a session of the oldest transport ends: whatever is still posted is too late then.
        if !matches!(self.way, Way::Events(_)) {
            self.leave_lane();
        }
        self.held = Held::default();
        for (frame, message) in self.steps.end() {
            self.begin(frame, &message);
        }
        let deadline = Box::pin(sleep(self.wire.limits.farewell_timeout));
        let mut delete: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        if self.heads.session.is_some() && matches!(self.way, Way::Posting) {
            let (wire, url) = (self.wire.clone(), self.url.clone());
            delete = Some(Box::pin(exchange::delete(wire, url, self.heads.delete())));
        }
        Closing { deadline, delete }
    }

    pub(super) fn poll_farewell(&mut self, closing: &mut Closing, cx: &mut Context<'_>) -> Poll<()> {
        if closing.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        loop {
            while self.news.poll_recv(cx).is_ready() {}
            match self.exchanges.poll_next_unpin(cx) {
                Poll::Ready(Some(_)) => {}
                Poll::Ready(None) => break,
                Poll::Pending if self.exchanges.len() == 1 && self.lane.is_some() => self.leave_lane(),
                Poll::Pending => return Poll::Pending,
            }
        }
        match &mut closing.delete {
            Some(delete) => delete.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}
