//! Ctrl-C, or TERM, or a terminal that goes: the first one ends what runs politely, the second one ends us.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// How often the user interrupted. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    count: watch::Sender<u32>,
}

impl Interrupts {
    /// Watches from now on; none is missed between two waits.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let watch =
            |kind| signal(kind).map_err(|error| Failure::usage(format!("cannot watch for signals: {error}")));
        let (mut interrupt, mut terminate) =
            (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
        let count = watch::Sender::new(0);
        let counting = count.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                counting.send_modify(|count| *count += 1);
            }
        });
        Ok(Self { count })
    }

    /// Counts one that came by another way.
    pub(crate) fn count(&self) {
        self.count.send_modify(|count| *count += 1);
    }

    /// Was there one?
    pub(crate) fn any(&self) -> bool {
        *self.count.borrow() > 0
    }

    /// Waits for the first.
    pub(crate) async fn first(&self) {
        self.nth(1).await;
    }

    /// Waits for the second.
    pub(crate) async fn second(&self) {
        self.nth(2).await;
    }

    /// Does something that comes to its end after the first; nothing: there was a second, and it was left alone.
    pub(crate) async fn unless_twice<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.second() => None,
        }
    }

    /// Waits for one more than there were.
    pub(crate) async fn another(&self) {
        let so_far = *self.count.borrow();
        self.nth(so_far + 1).await;
    }

    async fn nth(&self, wanted: u32) {
        // It fails only where nobody can count any more, and we can.
        let _ = self.count.subscribe().wait_for(|count| *count >= wanted).await;
    }
}
