//! What a call occupies at its server beside a line, for as long as it runs.

use tokio::sync::OwnedSemaphorePermit;

use super::vet::Bar;
use crate::fleet::{Visit, Waiting};

/// What a call occupies; nothing, where nobody counts. Dropped: it is free for others.
#[derive(Default)]
pub(crate) struct Held {
    /// While it is held the server is not stopped.
    visit: Option<Visit>,
    _place: Option<OwnedSemaphorePermit>,
    /// It waits for its client's answers.
    waiting: Option<Waiting>,
    /// Who made it hears there whether it was let out.
    pub(super) bar: Bar,
}

impl Held {
    pub(crate) fn new(visit: Visit, place: Option<OwnedSemaphorePermit>) -> Self {
        Self { visit: Some(visit), _place: place, waiting: None, bar: Bar::default() }
    }

    /// Unless it is held back: then that is said there.
    pub(crate) fn unless(self, bar: &Bar) -> Self {
        Self { bar: bar.clone(), ..self }
    }

    /// The call is parked: it has ended for those who count calls by their answers, but not for the server.
    pub(super) fn park(&mut self) {
        self.waiting = self.visit.as_ref().map(Visit::wait);
    }

    /// Its client is back.
    pub(super) fn resume(&mut self) {
        self.waiting = None;
    }

    /// The call has ended, but its server has to be there for the next round.
    pub(super) fn into_visit(self) -> Option<Visit> {
        self.visit
    }
}
