//! What our side wants from the driver: a queue with one reader, filled from any thread.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Waker};

use cardan_proto::session::event::{Command, Ticket};

use crate::peer::CallSlot;

/// A wish.
#[derive(Debug)]
pub(crate) enum Wish {
    /// For the session.
    Command(Command),
    /// A call or listen; its outcome goes to the slot.
    Call(Command, Ticket, Arc<CallSlot>),
}

/// The queue. Whoever puts something in wakes the driver.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Wish>,
    waker: Option<Waker>,
    gone: bool,
    minted: u64,
}

impl Inbox {
    /// False: the driver is gone and nobody will look.
    pub(crate) fn put(&self, wish: Wish) -> bool {
        let waker = {
            let mut inner = self.lock();
            if inner.gone {
                return false;
            }
            inner.queue.push_back(wish);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    pub(crate) fn mint(&self) -> Ticket {
        let mut inner = self.lock();
        inner.minted += 1;
        Ticket(inner.minted)
    }

    /// Takes all there is; remembers who to wake when there is nothing.
    pub(crate) fn take(&self, into: &mut VecDeque<Wish>, cx: &Context<'_>) {
        let mut inner = self.lock();
        if !inner.queue.is_empty() {
            return std::mem::swap(&mut inner.queue, into);
        }
        if !inner.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.waker = Some(cx.waker().clone());
        }
    }

    /// The driver leaves; what is left is handed back.
    pub(crate) fn leave(&self) -> VecDeque<Wish> {
        let mut inner = self.lock();
        inner.gone = true;
        std::mem::take(&mut inner.queue)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.lock().gone
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here can panic halfway through a change.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
