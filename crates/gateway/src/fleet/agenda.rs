//! Which lists of a connection are to be fetched, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cardan_proto::limits::fleet::{LIST_FRESH_MIN, LIST_WAIT_MAX, LIST_WAIT_MIN};
use tokio::time::Instant;

use crate::catalog::Kind;

/// Which lists are to be fetched, and when.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// At once.
    stale: BTreeSet<Kind>,
    /// Those that did not come: when calls flow anew, or after a while.
    failed: BTreeSet<Kind>,
    again: Option<Instant>,
    failures: u32,
    /// Until when a list holds, where its server says so.
    expiry: BTreeMap<Kind, Instant>,
    /// Those that came over this connection.
    came: BTreeSet<Kind>,
}

impl Agenda {
    /// These are not what they were.
    pub(super) fn touch(&mut self, kinds: impl IntoIterator<Item = Kind>) {
        self.stale.extend(kinds);
    }

    /// Calls flow: what did not come may come now. Lists that are not offered any more are not asked for.
    pub(super) fn up(&mut self, offered: &BTreeSet<Kind>) {
        self.stale.append(&mut self.failed);
        self.again = None;
        self.stale.retain(|kind| offered.contains(kind));
        self.expiry.retain(|kind, _| offered.contains(kind));
        self.came.retain(|kind| offered.contains(kind));
    }

    /// Did it come over this connection, so that the connection itself notices what is new after a loss?
    pub(super) fn has_come(&self, kind: Kind) -> bool {
        self.came.contains(&kind)
    }

    /// It came, and holds for so long.
    pub(super) fn came(&mut self, kind: Kind, now: Instant, ttl_ms: Option<u64>) {
        self.came.insert(kind);
        self.failed.remove(&kind);
        if self.failed.is_empty() {
            (self.failures, self.again) = (0, None);
        }
        // Zero says that it never holds, which is no time to ask again.
        match ttl_ms.filter(|ttl| *ttl > 0) {
            Some(ttl) => self.holds(kind, now, Duration::from_millis(ttl)),
            None => drop(self.expiry.remove(&kind)),
        }
    }

    /// It holds for so long from now.
    pub(super) fn holds(&mut self, kind: Kind, now: Instant, left: Duration) {
        // What lies beyond all clocks holds for ever.
        match now.checked_add(left.max(LIST_FRESH_MIN)) {
            Some(until) => drop(self.expiry.insert(kind, until)),
            None => drop(self.expiry.remove(&kind)),
        }
    }

    /// These did not come.
    pub(super) fn did_not_come(&mut self, kinds: &[Kind], now: Instant) {
        if kinds.is_empty() {
            return;
        }
        self.failed.extend(kinds);
        for kind in kinds {
            self.expiry.remove(kind);
        }
        let wait = LIST_WAIT_MIN.saturating_mul(1 << self.failures.min(16)).min(LIST_WAIT_MAX);
        (self.failures, self.again) = (self.failures.saturating_add(1), Some(now + wait));
    }

    /// When something becomes due by itself.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.expiry.values().copied().chain(self.again).min()
    }

    /// It is `now`: what is due is stale.
    pub(super) fn due(&mut self, now: Instant) {
        if self.again.is_some_and(|again| again <= now) {
            self.again = None;
            self.stale.append(&mut self.failed);
        }
        let expired: Vec<_> =
            self.expiry.iter().filter(|(_, until)| **until <= now).map(|(kind, _)| *kind).collect();
        for kind in expired {
            self.expiry.remove(&kind);
            self.stale.insert(kind);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stale.is_empty()
    }

    /// What to fetch now.
    pub(super) fn take(&mut self) -> Vec<Kind> {
        std::mem::take(&mut self.stale).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_did_not_come_is_asked_for_ever_more_rarely() {
        let (mut agenda, start) = (Agenda::default(), Instant::now());
        for wait in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
            agenda.did_not_come(&[Kind::Tools], start);
            assert_eq!(agenda.due_at(), Some(start + Duration::from_secs(wait)));
            agenda.due(start + Duration::from_secs(wait));
            assert_eq!(agenda.take(), [Kind::Tools]);
        }
        agenda.did_not_come(&[Kind::Tools], start);
        agenda.up(&Kind::ALL.into());
        assert_eq!((agenda.take(), agenda.due_at()), (vec![Kind::Tools], None), "at once on a new link");
        agenda.came(Kind::Tools, start, None);
        agenda.did_not_come(&[Kind::Prompts], start);
        assert_eq!(agenda.due_at(), Some(start + LIST_WAIT_MIN), "whatever came, it begins anew");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_expired_is_due_and_changes_are_counted_once() {
        let (mut agenda, start) = (Agenda::default(), Instant::now());
        agenda.came(Kind::Tools, start, Some(60_000));
        agenda.came(Kind::Prompts, start, Some(1));
        agenda.came(Kind::Resources, start, Some(0));
        assert_eq!(agenda.due_at(), Some(start + LIST_FRESH_MIN));
        agenda.due(start + LIST_FRESH_MIN);
        for _ in 0..3 {
            agenda.touch([Kind::Prompts, Kind::Templates]);
        }
        assert_eq!(agenda.take(), [Kind::Prompts, Kind::Templates]);
        assert_eq!(agenda.due_at(), Some(start + Duration::from_secs(60)));
        agenda.up(&BTreeSet::new());
        assert_eq!(agenda.due_at(), None, "what is not offered is not asked for");
    }
}
