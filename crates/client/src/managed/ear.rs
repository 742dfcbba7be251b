//! One standing interest that outlives links: what was heard and not yet taken.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use cardan_proto::session::event::{Cause, Change, Delivery, Interest, Outcome};
use cardan_runtime::peer::Happening;

use super::bell::Bell;

/// Whoever listens takes from it, whoever keeps the connection puts into it.
#[derive(Debug)]
pub(crate) struct Ear {
    pub(crate) interest: Interest,
    inner: Mutex<Inner>,
    max: usize,
    /// Who is to know that nobody listens any more.
    keeper: Arc<Bell>,
}

#[derive(Debug, Default)]
struct Inner {
    heard: VecDeque<Happening>,
    /// Changes that were dropped because nobody took them.
    dropped: u64,
    waker: Option<Waker>,
    over: Option<Outcome>,
    left: bool,
}

impl Ear {
    pub(crate) fn new(interest: Interest, max: usize, keeper: Arc<Bell>) -> Self {
        Self { interest, inner: Mutex::default(), max, keeper }
    }

    /// What was heard next; nothing: it is over.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Happening>> {
        let mut inner = self.lock();
        if let Some(happening) = inner.heard.pop_front() {
            return Poll::Ready(Some(happening));
        }
        if inner.over.is_some() {
            return Poll::Ready(None);
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// How it ended.
    pub(crate) fn outcome(&self) -> Outcome {
        self.lock().over.clone().unwrap_or(Outcome::Lost {
            cause: Cause::ClosedByUs("the connection is no longer kept".into()),
            delivery: Delivery::Unknown,
        })
    }

    /// How many changes were dropped because nobody took them.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Puts something in. The oldest makes room.
    pub(crate) fn hear(&self, happening: Happening) {
        self.change(|inner| {
            if inner.heard.len() >= self.max {
                inner.dropped += Happening::make_room(&mut inner.heard);
            }
            inner.heard.push_back(happening);
        });
    }

    /// So many more were dropped on their way here.
    pub(crate) fn missed(&self, count: u64) {
        self.lock().dropped += count;
    }

    /// Tells a change, if it is of interest.
    pub(crate) fn told(&self, change: &Change) {
        if self.interest.covers(change) {
            self.hear(Happening::Change(change.clone()));
        }
    }

    /// It ends.
    pub(crate) fn end(&self, outcome: Outcome) {
        self.change(|inner| inner.over = Some(outcome));
    }

    /// Nobody listens any more.
    pub(crate) fn leave(&self) {
        self.lock().left = true;
        self.keeper.ring();
    }

    /// Has it ended, or does nobody listen any more?
    pub(crate) fn is_over(&self) -> bool {
        let inner = self.lock();
        inner.left || inner.over.is_some()
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let waker = {
            let mut inner = self.lock();
            change(&mut inner);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
