//! Is the peer still there? After some silence it is asked, and after more it counts as gone.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use cardan_proto::limits::Limits;
use tokio::time::{Instant, Sleep, sleep_until};

/// When the peer was heard last, and when to ask next.
#[derive(Debug)]
pub(crate) struct Pulse {
    interval: Duration,
    patience: Duration,
    /// How many bytes had come when it was heard last.
    seen: u64,
    heard: Instant,
    asked: Instant,
    /// Set for the earliest moment at which something may be due. Hearing of the peer does not move it: it is
    /// looked at when it fires.
    timer: Pin<Box<Sleep>>,
}

/// What the silence means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Ask whether the peer is there.
    Ask,
    /// It is not: nothing came for this long.
    Dead(Duration),
}

impl Pulse {
    pub(crate) fn new(limits: &Limits) -> Self {
        let now = Instant::now();
        let interval = limits.keep_alive_interval.max(Duration::from_millis(1));
        let patience = limits.read_idle_timeout.max(interval);
        let timer = Box::pin(sleep_until(now + interval));
        Self { interval, patience, seen: 0, heard: now, asked: now, timer }
    }

    /// There is nothing to read; `seen` bytes have come so far. Ready when the silence means something.
    pub(crate) fn poll(&mut self, seen: u64, cx: &mut Context<'_>) -> Poll<Silence> {
        if seen != self.seen {
            self.seen = seen;
            self.heard = Instant::now();
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let now = Instant::now();
            let end = self.heard + self.patience;
            if now >= end {
                return Poll::Ready(Silence::Dead(self.patience));
            }
            let due = self.heard.max(self.asked) + self.interval;
            if now >= due {
                self.asked = now;
                self.timer.as_mut().reset((now + self.interval).min(end));
                return Poll::Ready(Silence::Ask);
            }
            self.timer.as_mut().reset(due.min(end));
        }
    }

    /// The peer is behind with reading, so it cannot have read a ping either. How long it may be behind is
    /// the driver's to judge.
    pub(crate) fn excuse(&mut self) {
        self.heard = Instant::now();
    }
}
