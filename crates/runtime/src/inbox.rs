//! What our side wants from the driver: a queue with one reader, filled from any thread.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Waker};

use cardan_proto::session::event::{Cause, Command, Ticket};

use crate::peer::CallSlot;
use crate::witness::{Report, Witness};

/// A wish.
#[derive(Debug)]
pub(crate) enum Wish {
    /// For the session.
    Command(Command),
    /// A call or listen; its outcome goes to the slot.
    Call(Command, Ticket, Arc<CallSlot>),
    /// The end of the link, now.
    End(Cause),
}

impl Wish {
    /// May it be turned away when too many wait? Calls may, and notes that a peer may miss. Answers,
    /// cancels and the close may not: each belongs to something that is counted already.
    fn is_bounded(&self) -> bool {
        match self {
            Self::Call(..) => true,
            Self::End(_) => false,
            Self::Command(command) => {
                matches!(
                    command,
                    Command::Progress { .. }
                        | Command::Log { .. }
                        | Command::Note { .. }
                        | Command::Change(_)
                )
            }
        }
    }
}

/// Why a wish was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// The driver has left.
    Gone,
    /// Too many wait already.
    Full,
}

/// The queue. Whoever puts something in wakes the driver.
#[derive(Debug)]
pub(crate) struct Inbox {
    inner: Mutex<Inner>,
    max: usize,
    witness: Option<Arc<dyn Witness>>,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Wish>,
    waker: Option<Waker>,
    gone: bool,
    minted: u64,
    dropped: u64,
}

impl Inbox {
    /// An empty queue that takes calls and notes up to `max` wishes, towards whom `witness` knows.
    pub(crate) fn new(max: usize, witness: Option<Arc<dyn Witness>>) -> Self {
        Self { inner: Mutex::new(Inner::default()), max, witness }
    }

    /// What is known of the process on the other side.
    pub(crate) fn report(&self) -> Report {
        self.witness.as_ref().map(|witness| witness.report()).unwrap_or_default()
    }

    /// Puts a wish in, unless nobody will look at it or there are too many.
    pub(crate) fn put(&self, wish: Wish) -> Result<(), Unwanted> {
        let waker = {
            let mut inner = self.lock();
            if inner.gone {
                return Err(Unwanted::Gone);
            }
            if inner.queue.len() >= self.max && wish.is_bounded() {
                return Err(Unwanted::Full);
            }
            inner.queue.push_back(wish);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Puts a command in. Nobody waits for it: one that is not wanted is only counted.
    pub(crate) fn command(&self, command: Command) {
        if self.put(Wish::Command(command)).is_err() {
            self.lock().dropped += 1;
        }
    }

    /// Commands that were turned away.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
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

    /// Is there something to take?
    pub(crate) fn is_waiting(&self) -> bool {
        !self.lock().queue.is_empty()
    }

    /// The driver leaves; what is left is handed back.
    pub(crate) fn leave(&self) -> VecDeque<Wish> {
        let mut inner = self.lock();
        inner.gone = true;
        inner.waker = None;
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
