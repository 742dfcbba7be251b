//! What is beside the messages, looked at only when something stirs there.
//!
//! A child's exit and its stderr have nothing to say at most turns of a link, and asking them costs as much as
//! reading a message does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// Tells whether something has stirred since it was last looked at.
#[derive(Debug)]
pub(crate) struct Stir {
    shared: Arc<Shared>,
    /// Wakes `shared`.
    waker: Waker,
    /// Whom `shared` wakes, as far as it was told.
    link: Waker,
}

#[derive(Debug)]
struct Shared {
    stirred: AtomicBool,
    link: Mutex<Waker>,
}

impl Stir {
    /// The first look is always due: before it, nobody waits for anything.
    pub(crate) fn new() -> Self {
        let link = Waker::noop().clone();
        let shared = Arc::new(Shared { stirred: AtomicBool::new(true), link: Mutex::new(link.clone()) });
        Self { waker: Waker::from(Arc::clone(&shared)), shared, link }
    }

    /// The waker to look with, if a look is due. What stirs from here on wakes the link that `cx` is polled by.
    pub(crate) fn due(&mut self, cx: &Context<'_>) -> Option<Waker> {
        if !self.link.will_wake(cx.waker()) {
            self.link = cx.waker().clone();
            *self.shared.link.lock().unwrap_or_else(PoisonError::into_inner) = self.link.clone();
        }
        // Taken back before the look: what stirs meanwhile makes another one due.
        self.shared.stirred.swap(false, Ordering::AcqRel).then(|| self.waker.clone())
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.stirred.store(true, Ordering::Release);
        self.link.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_look_is_due_at_first_and_after_each_stir() {
        let (one, two) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
        let (first, second) = (Waker::from(Arc::clone(&one)), Waker::from(Arc::clone(&two)));
        let mut stir = Stir::new();
        let waker = stir.due(&Context::from_waker(&first)).expect("the first look is due");
        assert!(stir.due(&Context::from_waker(&first)).is_none());
        waker.wake_by_ref();
        assert!(stir.due(&Context::from_waker(&second)).is_some());
        assert!(stir.due(&Context::from_waker(&second)).is_none());
        waker.wake();
        let woken = |counted: &Counted| counted.0.load(Ordering::SeqCst);
        assert_eq!((woken(&one), woken(&two)), (1, 1), "whoever polled last is woken");
        assert!(stir.due(&Context::from_waker(&second)).is_some());
    }
}
