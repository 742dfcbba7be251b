//! The tasks of one receiver: bounded, in order of creation, each bound to its principal.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::life::{Design, Detail, Life};
use crate::jsonrpc::fault::{Fault, code};
use crate::limits::Limits;
use crate::model::task::Task;
use crate::moment::Moment;

/// Who a task belongs to; nobody in particular where there is no authorization.
pub type Principal = Option<Arc<str>>;

/// Tasks, each with something of the receiver's own.
#[derive(Debug)]
pub struct Store<T> {
    held: BTreeMap<Place, Held<T>>,
    index: HashMap<Box<str>, Place>,
    minted: u64,
    limits: Limits,
    /// The wall clock at the start of monotonic time.
    epoch_ms: u64,
    /// No task expires before.
    quiet_until: Moment,
}

/// A place in the order of creation. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u64);

/// One task.
#[derive(Debug)]
pub struct Held<T> {
    /// Names it.
    pub id: Box<str>,
    /// Who it belongs to.
    pub owner: Principal,
    /// Where it stands.
    pub life: Life,
    /// The receiver's own.
    pub with: T,
}

/// There are too many tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Full {
    /// What the caller reads.
    #[must_use]
    pub fn fault(self) -> Fault {
        Fault::new(code::BUSY, "too many tasks are kept; cancel some or wait until they expire")
    }
}

impl<T> Store<T> {
    /// An empty store. `epoch_ms` is the wall clock at the start of monotonic time.
    #[must_use]
    pub fn new(limits: &Limits, epoch_ms: u64) -> Self {
        let (held, index) = (BTreeMap::new(), HashMap::new());
        Self { held, index, minted: 0, limits: limits.clone(), epoch_ms, quiet_until: Moment::ZERO }
    }

    /// A new task that works. `id` must be impossible to guess; `ttl` is what the caller wishes.
    pub fn create(
        &mut self,
        id: &str,
        owner: Principal,
        design: Design,
        ttl: Option<Duration>,
        with: T,
        now: Moment,
    ) -> Result<&mut Held<T>, Full> {
        let owned = self.held.values().filter(|held| held.owner == owner).count();
        if self.held.len() >= self.limits.tasks || owned >= self.limits.tasks_per_principal {
            return Err(Full);
        }
        // At least long enough to be looked at once.
        let least = self.limits.task_poll_interval.min(self.limits.task_ttl_max);
        let ttl = ttl.unwrap_or(self.limits.task_ttl).clamp(least, self.limits.task_ttl_max);
        let life = Life::begin(design, ttl, now);
        self.quiet_until = match self.held.is_empty() {
            true => life.expires(),
            false => self.quiet_until.min(life.expires()),
        };
        self.minted += 1;
        let place = Place(self.minted);
        self.index.insert(id.into(), place);
        Ok(self.held.entry(place).or_insert(Held { id: id.into(), owner, life, with }))
    }

    /// Takes out what has expired, so that its work can be stopped.
    pub fn expire(&mut self, now: Moment) -> Vec<Held<T>> {
        if now < self.quiet_until || self.held.is_empty() {
            return Vec::new();
        }
        let due: Vec<_> = self
            .held
            .iter()
            .filter(|(_, held)| held.life.expires() <= now)
            .map(|(place, _)| *place)
            .collect();
        let gone: Vec<_> = due.into_iter().filter_map(|place| self.held.remove(&place)).collect();
        for held in &gone {
            self.index.remove(&held.id);
        }
        self.quiet_until = self.held.values().map(|held| held.life.expires()).min().unwrap_or(now);
        gone
    }

    /// The task of this name, whoever asks: for the work itself.
    pub fn own(&mut self, id: &str) -> Option<&mut Held<T>> {
        self.held.get_mut(self.index.get(id)?)
    }

    /// The task of this name, if it belongs to `owner` and was made in this design.
    pub fn get(&mut self, id: &str, owner: &Principal, design: Design) -> Option<&mut Held<T>> {
        self.own(id).filter(|held| held.owner == *owner && held.life.design() == design)
    }

    /// The work has ended. A result that would not fit is a failure. False: it had ended before.
    pub fn finish(&mut self, id: &str, outcome: Result<Bytes, Fault>, now: Moment) -> bool {
        let Some(place) = self.index.get(id) else { return false };
        let Some(owner) = self.held.get(place).map(|held| held.owner.clone()) else { return false };
        let owned = self.held.values().filter(|held| held.owner == owner);
        let kept: usize = owned.map(|held| held.life.kept_bytes()).sum();
        let max = self.limits.task_result_bytes;
        let outcome = outcome.and_then(|result| match kept.saturating_add(result.len()) > max {
            true => Err(Fault::internal("the result is too large to be kept")),
            false => Ok(result),
        });
        self.held.get_mut(place).is_some_and(|held| held.life.finish(outcome, now))
    }

    /// Up to `size` tasks of `owner` after `after`, and where the next page begins.
    #[must_use]
    pub fn page(
        &self,
        owner: &Principal,
        design: Design,
        after: Option<Place>,
        size: usize,
    ) -> (Vec<Task>, Option<Place>) {
        let from = after.map_or(0, |place| place.0.saturating_add(1));
        let mut owned = self
            .held
            .range(Place(from)..)
            .filter(|(_, held)| held.owner == *owner && held.life.design() == design);
        let page: Vec<_> = owned.by_ref().take(size).collect();
        let next = page.last().map(|(place, _)| **place).filter(|_| owned.next().is_some());
        (page.into_iter().map(|(_, held)| self.view(held, Detail::Head)).collect(), next)
    }

    /// A place that was given out.
    #[must_use]
    pub fn is_place(&self, place: Place) -> bool {
        (1..=self.minted).contains(&place.0)
    }

    /// A task as its design writes it.
    #[must_use]
    pub fn view(&self, held: &Held<T>, detail: Detail) -> Task {
        held.life.view(&held.id, detail, self.limits.task_poll_interval, self.epoch_ms)
    }

    /// The task of this name as its design writes it, whoever asks.
    #[must_use]
    pub fn show(&self, id: &str, detail: Detail) -> Option<Task> {
        self.held.get(self.index.get(id)?).map(|held| self.view(held, detail))
    }

    /// All tasks.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Held<T>> {
        self.held.values_mut()
    }
}
