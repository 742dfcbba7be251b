//! The supervised set of upstreams.
//!
//! Each upstream has one task that tends it: starts it, fetches its catalog, follows its changes, stops it when
//! nobody uses it. One that is sick is sick alone. What an upstream offered before is known from the cache, so its tools
//! are listed while it is still starting, and calling one waits for it.

mod agenda;
mod places;
mod spec;
mod status;
mod tally;
mod tender;
mod unavailable;
mod upstream;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cardan_proto::limits::fleet::{EVENTS, STARTS};
use cardan_proto::session::event::Change;
use cardan_proto::upkeep::condition::Transition;
use tokio::sync::{Semaphore, broadcast, watch};

pub use spec::{Credentials, Making, Spec};
pub use status::{Blame, Health, Known, Standing, Status};
pub(crate) use tally::Waiting;
pub use tally::{BUCKETS, Counts, Ending};
pub use unavailable::Unavailable;
pub(crate) use upstream::Visit;
pub use upstream::{Lease, Upstream};

use crate::cache::CatalogCache;
use crate::merge::{Claim, Merged, Naming, Source};

/// How a fleet is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Starting at a time: more would only be in each other's way.
    pub parallel: usize,
    /// Where catalogs outlive the process; none: nowhere.
    pub cache: Option<CatalogCache>,
}

impl Default for Options {
    fn default() -> Self {
        Self { parallel: STARTS, cache: None }
    }
}

/// Why those end that a reload takes out.
const CHANGED: &str = "the configuration changed";

/// Something that happened to one upstream.
#[derive(Debug, Clone)]
pub struct Event {
    /// Which.
    pub server: Arc<str>,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum What {
    /// It came to the fleet.
    Added,
    /// It left the fleet.
    Removed,
    /// Its connection stands otherwise.
    Condition(Transition),
    /// It offers something else.
    Changed(Change),
    /// It was stopped, because nobody used it.
    Stopped,
    /// A list could not be fetched; what was known of it stays.
    Unlisted(Arc<str>),
}

/// What a reload did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// New ones.
    pub added: Vec<String>,
    /// Gone ones.
    pub removed: Vec<String>,
    /// Started again, because they are reached otherwise.
    pub restarted: Vec<String>,
    /// Left alone.
    pub kept: Vec<String>,
}

/// The supervised set of upstreams, in their configured order. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Fleet {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    upstreams: Mutex<Vec<Arc<Upstream>>>,
    /// Those that a reload took out and that have not ended yet. Whoever gives up the reload leaves them here.
    leaving: Mutex<Vec<Arc<Upstream>>>,
    common: Arc<Common>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        for upstream in lock(&self.upstreams).iter().chain(lock(&self.leaving).iter()) {
            upstream.abort();
        }
    }
}

/// What all upstreams of a fleet share.
#[derive(Debug)]
struct Common {
    cache: Option<CatalogCache>,
    starting: Arc<Semaphore>,
    events: broadcast::Sender<Event>,
    /// Counts whatever may end someone's wait.
    news: watch::Sender<u64>,
}

impl Common {
    fn tell(&self, server: &Arc<str>, what: What) {
        // Nobody listening is fine.
        let _ = self.events.send(Event { server: Arc::clone(server), what });
        self.stir();
    }

    fn stir(&self) {
        self.news.send_modify(|count| *count += 1);
    }
}

impl Fleet {
    /// Begins to run a fleet. Returns at once; needs a tokio runtime.
    #[must_use]
    pub fn start(specs: Vec<Spec>, options: Options) -> Self {
        let common = Arc::new(Common {
            cache: options.cache,
            starting: Arc::new(Semaphore::new(options.parallel.max(1))),
            events: broadcast::Sender::new(EVENTS),
            news: watch::Sender::new(0),
        });
        let upstreams = specs.into_iter().map(|spec| Upstream::start(spec, &common, None)).collect();
        let (upstreams, leaving) = (Mutex::new(upstreams), Mutex::default());
        Self { shared: Arc::new(Shared { upstreams, leaving, common }) }
    }

    /// All upstreams, in their configured order.
    #[must_use]
    pub fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.lock().clone()
    }

    /// One upstream, by its name.
    #[must_use]
    pub fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        self.lock().iter().find(|upstream| upstream.name() == name).cloned()
    }

    /// How each stands.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        self.upstreams().iter().map(|upstream| upstream.status()).collect()
    }

    /// What happens from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.shared.common.events.subscribe()
    }

    /// Counts whatever may be of interest, from now on.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.shared.common.news.subscribe()
    }

    /// Waits until it is known of every upstream that starts what it offers or that it does not work, at most for
    /// `window`.
    pub async fn settle(&self, window: Duration) {
        self.all(window, Upstream::is_decided).await;
    }

    /// Waits until every upstream that starts has told what it offers itself, or failed, at most so long. What is known
    /// from the cache does not count.
    pub async fn started(&self, within: Duration) {
        self.all(within, Upstream::has_started).await;
    }

    async fn all(&self, within: Duration, holds: fn(&Upstream) -> bool) {
        let mut news = self.shared.common.news.subscribe();
        let decided = async {
            while !self.upstreams().iter().all(|upstream| holds(upstream)) {
                if news.changed().await.is_err() {
                    return;
                }
            }
        };
        // What is not known by then comes as a change.
        let _ = tokio::time::timeout(within, decided).await;
    }

    /// What all of them offer, as one. Entries lead to upstreams by their place in the list that comes with it.
    #[must_use]
    pub fn merged(&self, naming: &Naming) -> (Merged, Vec<Arc<Upstream>>) {
        let mut claim = Claim::Sure;
        let known = self.upstreams().into_iter().filter_map(|upstream| {
            let (catalog, rules) = (upstream.claimed(&mut claim)?, upstream.rules());
            Some((upstream, catalog, rules, claim))
        });
        let known: Vec<_> = known.collect();
        let sources: Vec<_> = known
            .iter()
            .map(|(upstream, catalog, rules, claim)| {
                let (server, claim) = (upstream.name(), *claim);
                Source { server, catalog, rules, claim }
            })
            .collect();
        let merged = Merged::of(&sources, naming);
        (merged, known.into_iter().map(|(upstream, ..)| upstream).collect())
    }

    /// Goes over to a new configuration. Upstreams that are reached as before go on untouched, calls and all.
    pub async fn reload(&self, specs: Vec<Spec>) -> Reloaded {
        let common = &self.shared.common;
        let mut done = Reloaded::default();
        let mut leaving = Vec::new();
        {
            let mut upstreams = self.lock();
            let mut before: HashMap<String, Arc<Upstream>> = HashMap::new();
            for upstream in upstreams.drain(..) {
                // Of two by one name only one can go on.
                leaving.extend(before.insert(upstream.name().to_owned(), upstream));
            }
            for spec in specs {
                let name = spec.name.clone();
                let next = match before.remove(&name) {
                    Some(same) if same.is_reached_as(&spec) => {
                        same.adjust(spec);
                        done.kept.push(name);
                        same
                    }
                    Some(other) => {
                        // Two processes of one server would be in each other's way: over ports, files and locks.
                        let before = (other.spec.kind == "stdio").then(|| Arc::clone(&other));
                        leaving.push(other);
                        done.restarted.push(name);
                        Upstream::start(spec, common, before)
                    }
                    None => {
                        done.added.push(name);
                        Upstream::start(spec, common, None)
                    }
                };
                upstreams.push(next);
            }
            done.removed.extend(before.keys().cloned());
            done.removed.sort();
            leaving.extend(before.into_values());
            // While nobody can close the fleet: what has left it is still closed by it.
            lock(&self.shared.leaving).extend(leaving.iter().cloned());
        }
        for name in &done.added {
            common.tell(&name.as_str().into(), What::Added);
        }
        for name in &done.removed {
            common.tell(&name.as_str().into(), What::Removed);
        }
        common.stir();
        close_all(&leaving, CHANGED).await;
        lock(&self.shared.leaving).retain(|one| !leaving.iter().any(|left| Arc::ptr_eq(one, left)));
        done
    }

    /// Tries every upstream now that waits for its next attempt or is suspended, as if nothing had failed before. Those
    /// that are up go on, and those that sleep sleep on.
    pub fn retry(&self) {
        for upstream in self.upstreams() {
            if let Some(managed) = &*upstream.managed.borrow() {
                managed.retry();
            }
        }
    }

    /// Lets what runs finish, then ends all. Returns when no process is left.
    pub async fn close(&self, reason: &'static str) {
        let mut upstreams = std::mem::take(&mut *self.lock());
        upstreams.append(&mut lock(&self.shared.leaving));
        close_all(&upstreams, reason).await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Upstream>>> {
        lock(&self.shared.upstreams)
    }
}

/// All at a time: the slowest decides how long it takes, not their number.
async fn close_all(upstreams: &[Arc<Upstream>], reason: &'static str) {
    let mut closing: tokio::task::JoinSet<()> = upstreams
        .iter()
        .map(|upstream| {
            let upstream = Arc::clone(upstream);
            async move { upstream.close(reason).await }
        })
        .collect();
    while closing.join_next().await.is_some() {}
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
