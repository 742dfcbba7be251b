//! What time it is for one session.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use cardan_proto::moment::Moment;
use tokio::time::{Instant, Sleep};

/// Monotonic time since the driver's start, and one timer for the next deadline.
///
/// It is read once for several turns: all that happens in one happens at one moment, and a call that is answered
/// at once costs one look at the clock.
pub(crate) struct Clock {
    start: Instant,
    now: Moment,
    timer: Option<Pin<Box<Sleep>>>,
    armed: Option<Moment>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), now: Moment::ZERO, timer: None, armed: None }
    }

    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    pub(crate) fn look(&mut self) {
        self.now = Moment::after(self.start.elapsed());
    }

    /// Ready when `deadline` has come. The timer is armed only when the driver is about to sleep.
    ///
    /// Deadlines mostly move away, call by call. A timer that is due before them is left as it is, and armed again
    /// when it rings too soon.
    pub(crate) fn poll(&mut self, deadline: Moment, cx: &mut Context<'_>) -> Poll<()> {
        while self.now < deadline {
            let at = self.start + deadline.elapsed();
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            if self.armed.is_none_or(|armed| deadline < armed) {
                timer.as_mut().reset(at);
                self.armed = Some(deadline);
            }
            match timer.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => {
                    self.armed = None;
                    self.look();
                }
            }
        }
        Poll::Ready(())
    }
}
