//! Lines that are shared, as someone sees them who wants to know what is offered there.
//!
//! A legacy upstream may come to offer something else in one session than in others: after a login, say, or once a group of
//! tools was asked for. Whoever shares the session shares that.

use std::fmt;
use std::sync::{Arc, Weak};

use cardan_client::Managed;
use cardan_proto::session::event::Change;

use super::Isolation;
use super::askable::Askable;
use super::pool::Pool;

/// Who share lines to an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sharers {
    /// Whose they are; none: they are everybody's.
    principal: Option<Arc<str>>,
    /// What may be asked there.
    pub(super) askable: Askable,
}

impl Sharers {
    /// Is someone among them who can be asked this, where a legacy upstream is shared so?
    pub(crate) fn have(&self, isolation: Isolation, principal: Option<&Arc<str>>, askable: Askable) -> bool {
        self.principal.as_ref() == principal.filter(|_| isolation == Isolation::Principal)
            && self.askable == askable
    }
}

/// The lines that some share.
#[derive(Clone)]
pub(crate) struct Shelf {
    pub(crate) sharers: Sharers,
    pool: Weak<Pool>,
}

impl Shelf {
    pub(super) fn new(pool: Weak<Pool>, principal: Option<Arc<str>>, askable: Askable) -> Self {
        Self { sharers: Sharers { principal, askable }, pool }
    }

    /// The line that a call takes which finds nobody else there; none: there is none any more.
    pub(crate) fn line(&self) -> Option<Managed> {
        let foremost = self.pool.upgrade()?.foremost(self.sharers.askable)?;
        Some(foremost.line.managed.clone())
    }

    /// Without any.
    #[cfg(test)]
    pub(crate) fn empty(askable: Askable) -> Self {
        Self::new(Weak::new(), None, askable)
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("sharers", &self.sharers).finish_non_exhaustive()
    }
}

/// What happened to what is offered by the lines of a shelf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turned {
    /// A line told that a list is another.
    Changed(Change),
    /// A line was lost or left: who calls next may find another session.
    Gone,
}

/// Who is told of it. It must not wait.
pub(crate) type OnTurn = Arc<dyn Fn(&Shelf, Turned) + Send + Sync>;
