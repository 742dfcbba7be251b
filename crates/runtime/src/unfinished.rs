//! Calls that go on though no link has them.
//!
//! A modern call that is asked something is answered, and goes on when its client calls again. Until then nothing that
//! is served knows of it, so whoever ends waits for it here.

use std::sync::Arc;

use tokio::sync::watch;

/// How many such calls there are. Clones count the same ones.
#[derive(Debug, Clone)]
pub struct Unfinished(Arc<watch::Sender<usize>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct One(Unfinished);

impl Default for Unfinished {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Unfinished {
    /// There is one more.
    #[must_use]
    pub fn begin(&self) -> One {
        self.0.send_modify(|count| *count += 1);
        One(self.clone())
    }

    /// Waits until there is none.
    pub async fn none(&self) {
        // The sender is ours, so there is always someone to tell.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// F23: whoever waits goes on when the last one is done, and one that follows another leaves no gap.
    #[test]
    fn the_last_one_ends_the_wait() {
        let unfinished = Unfinished::default();
        let first = unfinished.begin();
        let mut none = pin!(unfinished.none());
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(none.as_mut().poll(&mut cx), Poll::Pending);
        let second = unfinished.clone().begin();
        drop(first);
        assert_eq!(none.as_mut().poll(&mut cx), Poll::Pending);
        drop(second);
        assert_eq!(none.as_mut().poll(&mut cx), Poll::Ready(()));
    }
}
