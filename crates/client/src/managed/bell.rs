//! Wakes one task, from anywhere.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Rung by many, heard by one.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    rung: bool,
    waker: Option<Waker>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let waker = {
            let mut inner = self.lock();
            inner.rung = true;
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready when it was rung since it was last heard.
    pub(crate) fn poll_rung(&self, cx: &Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if std::mem::take(&mut inner.rung) {
            return Poll::Ready(());
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
