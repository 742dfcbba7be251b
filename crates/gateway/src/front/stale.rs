//! Lists that are not what they were, and who fetches them.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Mutex;

use tokio::task::JoinSet;

use crate::catalog::Kind;
use crate::fleet::lock;

/// Lists that are not what they were. Who first says so fetches them; what is said meanwhile is fetched once more.
#[derive(Debug, Default)]
pub(super) struct Stale(Option<BTreeSet<Kind>>);

/// Who fetches lists that are not what they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Whoever said so.
    Ours,
    /// Someone who is at it.
    Others,
}

impl Stale {
    /// These are not what they were.
    pub(super) fn touch(&mut self, kinds: impl IntoIterator<Item = Kind>) -> Turn {
        let turn = if self.0.is_some() { Turn::Others } else { Turn::Ours };
        self.0.get_or_insert_default().extend(kinds);
        turn
    }

    /// What is to be fetched next, by whoever fetches; nothing: the next who says so fetches.
    pub(super) fn next(&mut self) -> Option<Kind> {
        let next = self.0.as_mut().and_then(BTreeSet::pop_first);
        if next.is_none() {
            self.0 = None;
        }
        next
    }

    /// Is nobody at it?
    pub(super) fn is_idle(&self) -> bool {
        self.0.is_none()
    }
}

/// What is being fetched, for as long as this lives.
#[derive(Debug, Default)]
pub(super) struct Fetches(Mutex<JoinSet<()>>);

impl Fetches {
    pub(super) fn spawn(&self, fetching: impl Future<Output = ()> + Send + 'static) {
        let mut running = lock(&self.0);
        while running.try_join_next().is_some() {}
        running.spawn(fetching);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However often a change is told while a list is on its way, it is fetched once more.
    #[test]
    fn what_is_told_meanwhile_is_one_more() {
        let mut stale = Stale::default();
        assert_eq!(stale.touch([Kind::Tools]), Turn::Ours);
        assert_eq!(stale.next(), Some(Kind::Tools));
        for _ in 0..50 {
            assert_eq!(stale.touch([Kind::Tools]), Turn::Others);
        }
        assert!(!stale.is_idle());
        assert_eq!([stale.next(), stale.next()], [Some(Kind::Tools), None]);
        assert!(stale.is_idle());
        assert_eq!(stale.touch([Kind::Resources, Kind::Templates]), Turn::Ours);
        assert_eq!(
            [stale.next(), stale.next(), stale.next()],
            [Some(Kind::Resources), Some(Kind::Templates), None]
        );
    }
}
