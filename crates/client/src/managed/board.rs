//! What many may want to read, in order: the last few entries, for those who come late too.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Where entries are put up. The oldest make room, by number and by bytes; the newest is always there.
#[derive(Debug)]
pub(crate) struct Board<T> {
    inner: Mutex<Inner<T>>,
    news: Notify,
    max: usize,
    max_bytes: usize,
}

#[derive(Debug)]
struct Inner<T> {
    /// Each with what it takes to keep it, beside itself.
    entries: VecDeque<(T, usize)>,
    bytes: usize,
    /// How many were taken down.
    gone: u64,
    over: bool,
}

/// Reads a board from its oldest entry on, or from what is put up next.
#[derive(Debug)]
pub struct Watcher<T> {
    board: Arc<Board<T>>,
    read: u64,
    missed: u64,
}

impl<T: Clone> Board<T> {
    pub(crate) fn new(max: usize, max_bytes: usize) -> Arc<Self> {
        let inner = Inner { entries: VecDeque::new(), bytes: 0, gone: 0, over: false };
        Arc::new(Self { inner: Mutex::new(inner), news: Notify::new(), max, max_bytes })
    }

    /// Puts up an entry that takes so many bytes beside itself.
    pub(crate) fn put(&self, entry: T, bytes: usize) {
        {
            let mut inner = self.lock();
            while inner.entries.len() >= self.max || inner.bytes + bytes > self.max_bytes {
                let Some((_, freed)) = inner.entries.pop_front() else { break };
                inner.bytes -= freed;
                inner.gone += 1;
            }
            inner.entries.push_back((entry, bytes));
            inner.bytes += bytes;
        }
        self.news.notify_waiters();
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        self.lock().over = true;
        self.news.notify_waiters();
    }

    pub(crate) fn watch(self: &Arc<Self>) -> Watcher<T> {
        Watcher { board: Arc::clone(self), read: self.lock().gone, missed: 0 }
    }

    /// Reads from the next entry on.
    pub(crate) fn watch_on(self: &Arc<Self>) -> Watcher<T> {
        let read = {
            let inner = self.lock();
            inner.gone + inner.entries.len() as u64
        };
        Watcher { board: Arc::clone(self), read, missed: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Watcher<T> {
    /// The next entry; nothing: there will be no more.
    pub async fn next(&mut self) -> Option<T> {
        let board = Arc::clone(&self.board);
        loop {
            // Registered before looking, so that nothing is put up unseen in between.
            let mut news = std::pin::pin!(board.news.notified());
            news.as_mut().enable();
            match self.look() {
                Ok(entry) => return Some(entry),
                Err(Empty::Over) => return None,
                Err(Empty::SoFar) => news.await,
            }
        }
    }

    /// The next entry, if it is there already.
    pub fn try_next(&mut self) -> Option<T> {
        self.look().ok()
    }

    /// How many entries were taken down before they were read.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    fn look(&mut self) -> Result<T, Empty> {
        let inner = self.board.lock();
        let skipped = inner.gone.saturating_sub(self.read);
        (self.read, self.missed) = (self.read + skipped, self.missed + skipped);
        let at = usize::try_from(self.read - inner.gone).unwrap_or(usize::MAX);
        match inner.entries.get(at) {
            Some((entry, _)) => {
                self.read += 1;
                Ok(entry.clone())
            }
            None if inner.over => Err(Empty::Over),
            None => Err(Empty::SoFar),
        }
    }
}

/// Why there is no entry.
enum Empty {
    SoFar,
    Over,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0-9: who comes late reads the last entries; what was taken down unread is counted.
    #[tokio::test]
    async fn s0_9_late_watchers_see_the_last_entries_and_how_many_they_missed() {
        let board = Board::new(3, 100);
        let mut early = board.watch();
        for n in 1..=2 {
            board.put(n, 0);
        }
        assert_eq!(early.next().await, Some(1));
        for n in 3..=6 {
            board.put(n, 0);
        }
        let mut late = board.watch();
        board.end();
        let mut rest = Vec::new();
        while let Some(n) = early.next().await {
            rest.push(n);
        }
        assert_eq!((rest, early.missed()), (vec![4, 5, 6], 2));
        assert_eq!((late.next().await, late.missed()), (Some(4), 0));
        assert_eq!(late.try_next(), Some(5));
    }

    /// T19: what large entries take is bounded too; the newest is there whatever its size.
    #[tokio::test]
    async fn t19_large_entries_make_room_sooner() {
        let board = Board::new(3, 100);
        let mut watcher = board.watch();
        for (n, bytes) in [(1, 40), (2, 40), (3, 40), (4, 60)] {
            board.put(n, bytes);
        }
        assert_eq!((watcher.try_next(), watcher.try_next(), watcher.try_next()), (Some(3), Some(4), None));
        assert_eq!(watcher.missed(), 2);
        board.put(5, 1000);
        let mut late = board.watch();
        assert_eq!((late.try_next(), late.try_next()), (Some(5), None));
        board.put(6, 1);
        assert_eq!((late.try_next(), late.try_next()), (Some(6), None));
    }

    #[tokio::test]
    async fn a_watcher_waits_for_what_comes() {
        let board = Board::new(3, 100);
        let mut watcher = board.watch();
        let waiting = tokio::spawn(async move { watcher.next().await });
        tokio::task::yield_now().await;
        board.put("news", 0);
        assert_eq!(waiting.await.expect("it does not panic"), Some("news"));
    }
}
