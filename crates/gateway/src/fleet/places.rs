//! Places for calls at a server that takes so many at a time, and the queue before them.
//!
//! Whoever finds no place waits its turn, in the order of coming. The queue has an end, and so has the wait: a server that
//! does not keep up refuses in time what it would never come to, and nothing piles up here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use cardan_proto::limits::fleet::{QUEUE, QUEUE_WAIT};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::unavailable::Unavailable;

/// The places at one server.
#[derive(Debug)]
pub(super) struct Places {
    /// How many there are.
    pub(super) most: usize,
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(most.max(1)));
        Arc::new(Self { most, free, waiting: AtomicUsize::new(0) })
    }

    /// A place, for as long as it is held. Dropping the wait gives it up.
    pub(super) async fn take(&self) -> Result<OwnedSemaphorePermit, Unavailable> {
        // Nobody is overtaken: what becomes free belongs to who waits first.
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(place);
        }
        let _waits = Waits::begin(&self.waiting).ok_or(Unavailable::Crowded { most: self.most })?;
        let waited = tokio::time::timeout(QUEUE_WAIT, Arc::clone(&self.free).acquire_owned()).await;
        match waited {
            Ok(Ok(place)) => Ok(place),
            // The semaphore is never closed: it took too long.
            Ok(Err(_)) | Err(_) => Err(Unavailable::Slow { most: self.most }),
        }
    }
}

/// One that waits, while it lives.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    /// Nothing: there are too many.
    fn begin(waiting: &'a AtomicUsize) -> Option<Self> {
        let room = |count| (count < QUEUE).then_some(count + 1);
        waiting.fetch_update(Relaxed, Relaxed, room).ok().map(|_| Self(waiting))
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
