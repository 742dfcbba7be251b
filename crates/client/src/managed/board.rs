//! What many may want to read, in order: the last few entries, for those who come late too.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Where entries are put up. The oldest make room.
#[derive(Debug)]
pub(crate) struct Board<T> {
    inner: Mutex<Inner<T>>,
    news: Notify,
    max: usize,
}

#[derive(Debug)]
struct Inner<T> {
    entries: VecDeque<T>,
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
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let inner = Inner { entries: VecDeque::new(), gone: 0, over: false };
        Arc::new(Self { inner: Mutex::new(inner), news: Notify::new(), max })
    }

    pub(crate) fn put(&self, entry: T) {
        {
            let mut inner = self.lock();
            if inner.entries.len() >= self.max {
                inner.entries.pop_front();
                inner.gone += 1;
            }
            inner.entries.push_back(entry);
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
            Some(entry) => {
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
        let board = Board::new(3);
        let mut early = board.watch();
        for n in 1..=2 {
            board.put(n);
        }
        assert_eq!(early.next().await, Some(1));
        for n in 3..=6 {
            board.put(n);
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

    #[tokio::test]
    async fn a_watcher_waits_for_what_comes() {
        let board = Board::new(3);
        let mut watcher = board.watch();
        let waiting = tokio::spawn(async move { watcher.next().await });
        tokio::task::yield_now().await;
        board.put("news");
        assert_eq!(waiting.await.expect("it does not panic"), Some("news"));
    }
}
