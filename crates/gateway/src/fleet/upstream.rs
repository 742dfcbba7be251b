//! One server of the fleet, as those see it who use it.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use cardan_client::Managed;
use cardan_proto::era::Revision;
use cardan_proto::model::Raw;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::Cause;
use cardan_proto::upkeep::condition::{Condition, Transition};
use cardan_proto::upkeep::policy::Policy;
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use super::places::Places;
use super::spec::{Making, Spec};
use super::status::{Blame, Health, Known, Status};
use super::tally::{Counts, Tally, Waiting};
use super::tender::Tender;
use super::unavailable::Unavailable;
use super::{Common, lock};
use crate::cache::Told;
use crate::catalog::{Catalog, Kind};
use crate::merge::Claim;
use crate::relay::{Behind, Isolation, Loan};
use crate::rules::RuleSet;

/// One server of the fleet.
#[derive(Debug)]
pub struct Upstream {
    pub(super) name: Arc<str>,
    pub(super) spec: Spec,
    rules: Mutex<Arc<RuleSet>>,
    /// The connection there is; none: it sleeps, or waits to be started.
    pub(super) managed: watch::Sender<Option<Managed>>,
    pub(super) inner: Mutex<Inner>,
    /// Someone wants it, or does not any more.
    pub(super) stir: Notify,
    /// It leaves the fleet: whoever waits for it gives up.
    leaving: watch::Sender<bool>,
    /// Whoever closes it waits for its end; giving up that wait leaves it to the next.
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    abort: OnceLock<AbortHandle>,
    tally: Tally,
    born: Instant,
    pub(super) common: Arc<Common>,
}

/// What changes while it runs.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) catalog: Option<Arc<Catalog>>,
    /// When its lists were told.
    pub(super) told: Told,
    /// Those that come from the cache, and that the server itself has not told.
    pub(super) cached: BTreeSet<Kind>,
    /// Who uses it right now.
    pub(super) leases: usize,
    pub(super) last_used: Instant,
    pub(super) wanted: bool,
    /// Started by its first use rather than at once, as was said last?
    lazy: bool,
    /// Stopped after so long without use; none: never.
    pub(super) idle_stop: Option<Duration>,
    /// Calls at a time, and places for them; none: as many as come.
    places: Option<Arc<Places>>,
    /// How its connection is kept.
    policy: Policy,
    pub(super) closing: bool,
    /// How many connections were begun.
    begun: u64,
    pub(super) progress: Progress,
    starts: Starts,
    revision: Option<Revision>,
    cause: Option<Arc<str>>,
    since: Instant,
}

/// How often a server was started and came up. A session that is renewed on its link is no other link.
#[derive(Debug, Clone, Copy, Default)]
struct Starts {
    /// A connection has begun: its first attempt starts the server, or wakes it.
    begun: bool,
    dialled: bool,
    ups: u32,
    /// Attempts that followed a failure or a loss, whether or not anything came of them.
    again: u32,
}

impl Starts {
    fn saw(&mut self, condition: Condition) {
        if condition == Condition::CONNECTING {
            self.dialled = true;
            self.again += u32::from(!std::mem::take(&mut self.begun));
        }
        if condition.is_up() && std::mem::take(&mut self.dialled) {
            self.ups += 1;
        }
    }
}

/// How far starting has come, for those who wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing is known yet.
    Open,
    /// What it offers was told.
    Listed,
    /// It does not work, at least not at once.
    Failed,
}

impl Upstream {
    /// Begins to run a server, after the end of `before` if there is one.
    pub(super) fn start(spec: Spec, common: &Arc<Common>, before: Option<Arc<Self>>) -> Arc<Self> {
        let now = Instant::now();
        let cached = common.cache.as_ref().and_then(|cache| cache.load(&spec.digest));
        let inner = Inner {
            told: cached.as_ref().map(|kept| kept.told).unwrap_or_default(),
            cached: match &cached {
                Some(kept) => Kind::ALL.into_iter().filter(|kind| kept.told.age(*kind).is_some()).collect(),
                None => BTreeSet::new(),
            },
            catalog: cached.map(|kept| Arc::new(kept.catalog)),
            leases: 0,
            last_used: now,
            wanted: !spec.lazy,
            lazy: spec.lazy,
            idle_stop: spec.idle_stop,
            places: spec.concurrency.map(Places::new),
            policy: spec.making.as_ref().map(|making| making.policy).unwrap_or_default(),
            closing: false,
            begun: 0,
            progress: Progress::Open,
            starts: Starts::default(),
            revision: None,
            cause: spec.making.as_ref().err().cloned(),
            since: now,
        };
        let upstream = Arc::new(Self {
            name: spec.name.as_str().into(),
            rules: Mutex::new(Arc::new(spec.rules.clone())),
            managed: watch::Sender::new(None),
            inner: Mutex::new(inner),
            stir: Notify::new(),
            leaving: watch::Sender::new(false),
            task: tokio::sync::Mutex::default(),
            abort: OnceLock::new(),
            tally: Tally::default(),
            born: now,
            common: Arc::clone(common),
            spec,
        });
        if let Ok(making) = upstream.spec.making.clone() {
            let tender = Tender::new(Arc::clone(&upstream), making, before);
            let task = tokio::spawn(tender.run());
            // Nobody else knows it yet, so both are free.
            let _ = upstream.abort.set(task.abort_handle());
            if let Ok(mut place) = upstream.task.try_lock() {
                *place = Some(task);
            }
        }
        upstream
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What makes it another connection than one that is reached otherwise.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.spec.identity
    }

    /// Under what its approved tools are kept.
    pub(crate) fn pinned(&self) -> &str {
        &self.spec.pinned
    }

    /// What it offers, as far as is known: from itself, or from the cache.
    #[must_use]
    pub fn catalog(&self) -> Option<Arc<Catalog>> {
        self.lock().catalog.clone()
    }

    /// A tool, prompt, resource or template, if the server itself has told of it since it was started.
    #[must_use]
    pub fn told(&self, kind: Kind, key: &str) -> Option<Raw> {
        let inner = self.lock();
        let catalog = inner.catalog.as_ref().filter(|_| !inner.cached.contains(&kind))?;
        let mut entries = catalog.list(kind).entries.iter();
        entries.find(|entry| entry.key() == key).map(|entry| entry.raw().clone())
    }

    /// What it offers. Where that is not known yet, no server behind this one can be sure of its names.
    pub(crate) fn claimed(&self, behind: &mut Claim) -> Option<Arc<Catalog>> {
        // Before the catalog, so that one that comes in between is not taken for one that has nothing.
        let starting = self.is_open();
        let catalog = self.catalog();
        if catalog.is_none() && starting {
            *behind = Claim::Open;
        }
        catalog
    }

    /// What of that is shown.
    #[must_use]
    pub fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(&lock(&self.rules))
    }

    /// The right to call it, for as long as it is held. Starts it if it sleeps, and waits until it has begun to
    /// connect and a place is free; whether calls flow is the connection's business. Dropping the wait gives it up.
    pub async fn lease(self: &Arc<Self>) -> Result<Lease, Unavailable> {
        let visit = self.visit().await?;
        let place = self.place().await?;
        Ok(Lease { visit, _place: place })
    }

    /// Its connection, without a place for a call. It is not stopped meanwhile.
    pub(crate) async fn visit(self: &Arc<Self>) -> Result<Visit, Unavailable> {
        if let Err(problem) = &self.spec.making {
            return Err(Unavailable::Misconfigured(Arc::clone(problem)));
        }
        let using = Using::new(Arc::clone(self));
        let mut managed = self.managed.subscribe();
        loop {
            if self.lock().closing {
                return Err(Unavailable::Gone);
            }
            if let Some(managed) = managed.borrow_and_update().clone() {
                if let Condition::Suspended { .. } = managed.condition() {
                    // Nobody else may try again. How often that is worth it is not for callers to say.
                    managed.want();
                }
                // Someone uses it, so the connection is the one that was begun last.
                let number = self.lock().begun;
                return Ok(Visit { managed, number, using });
            }
            tokio::select! {
                _ = managed.changed() => {}
                () = self.left() => {}
            }
        }
    }

    /// A place for a call, where there are so many; nothing: as many as come.
    pub(crate) async fn place(&self) -> Result<Option<OwnedSemaphorePermit>, Unavailable> {
        let places = self.lock().places.clone();
        let Some(places) = places else { return Ok(None) };
        tokio::select! {
            place = places.take() => place.map(Some),
            () = self.left() => Err(Unavailable::Gone),
        }
    }

    /// How it is reached, and whether each connection leads to a process of its own.
    pub(crate) fn making(&self) -> Result<(Making, Behind), &Arc<str>> {
        let behind = if self.spec.kind == "stdio" { Behind::Many } else { Behind::One };
        let policy = self.lock().policy;
        self.spec.making.as_ref().map(|making| (Making { policy, ..making.clone() }, behind))
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        // Its own word for why goes with its condition: what the tender has taken in may be a step behind.
        let (condition, cause) = self.managed.borrow().as_ref().map(Managed::standing).unzip();
        let cause = cause.flatten().map(|cause| self.told_as(cause));
        let inner = self.lock();
        let health = match (&self.spec.making, condition) {
            (Err(_), _) => Health::Misconfigured,
            (Ok(_), Some(condition)) => Health::Kept(condition),
            (Ok(_), None) if inner.wanted => Health::Waiting,
            (Ok(_), None) => Health::Asleep,
        };
        let oldest = inner.cached.iter().filter_map(|kind| inner.told.age(*kind)).max();
        Status {
            name: self.spec.name.clone(),
            kind: self.spec.kind,
            health,
            blame: if cause.is_some() { Blame::Present } else { Blame::Past },
            cause: cause.or_else(|| inner.cause.clone()),
            since: inner.since.elapsed(),
            connects: inner.starts.ups,
            restarts: inner.starts.again,
            revision: inner.revision.or_else(|| inner.catalog.as_ref().map(|catalog| catalog.revision)),
            known: match (&inner.catalog, oldest) {
                (None, _) => Known::Nothing,
                (Some(_), Some(age)) => Known::Cached(age),
                (Some(_), None) => Known::Told,
            },
            tools: inner.catalog.as_ref().map(|catalog| catalog.tools.entries.len()),
            in_use: inner.leases,
        }
    }

    /// Why it came to a transition, as may be shown.
    #[must_use]
    pub fn why(&self, transition: &Transition) -> Option<Arc<str>> {
        transition.cause.clone().map(|cause| self.told_as(cause))
    }

    /// What became of the calls to it.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.tally.counts()
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Is there nothing to wait for?
    pub(crate) fn is_decided(&self) -> bool {
        let known = self.lock().catalog.is_some();
        known || self.has_started()
    }

    /// Has it yet to be tried, or to tell what it offers? One that sleeps after it was tried may never be wanted again.
    pub(crate) fn is_open(&self) -> bool {
        let inner = self.lock();
        let tells = inner.wanted || inner.begun == 0;
        self.spec.making.is_ok() && tells && inner.progress == Progress::Open
    }

    /// Since when it has been there.
    pub(crate) fn born(&self) -> Instant {
        self.born
    }

    /// Has starting come to its end, whatever was known before?
    pub(super) fn has_started(&self) -> bool {
        let inner = self.lock();
        self.spec.making.is_err() || !inner.wanted || inner.progress != Progress::Open
    }

    /// Would `spec` reach the same server in the same way?
    pub(super) fn is_reached_as(&self, spec: &Spec) -> bool {
        let problem = |spec: &Spec| spec.making.as_ref().err().cloned();
        self.spec.identity == spec.identity && problem(&self.spec) == problem(spec)
    }

    /// Takes over what can change while it runs.
    pub(super) fn adjust(&self, spec: Spec) {
        *lock(&self.rules) = Arc::new(spec.rules);
        let mut inner = self.lock();
        inner.idle_stop = spec.idle_stop;
        if inner.places.as_ref().map(|places| places.most) != spec.concurrency {
            // Calls that run have their places among the old ones, and finish there.
            inner.places = spec.concurrency.map(Places::new);
        }
        // Whoever was stopped because nobody used it sleeps on.
        let woken = std::mem::replace(&mut inner.lazy, spec.lazy) && !spec.lazy;
        inner.wanted |= woken && spec.making.is_ok();
        if let Ok(making) = &spec.making {
            inner.policy = making.policy;
        }
        // Under the lock, so that a connection that begins just now has the new numbers or is told them.
        if let (Some(managed), Ok(making)) = (&*self.managed.borrow(), &spec.making) {
            managed.adopt(making.policy);
        }
        drop(inner);
        self.stir.notify_one();
    }

    pub(super) async fn close(&self, reason: &'static str) {
        // From here on nothing is begun: what is there now is all there is to close.
        self.lock().closing = true;
        self.leaving.send_replace(true);
        let managed = self.managed.borrow().clone();
        if let Some(managed) = managed {
            managed.close(reason).await;
        }
        let mut task = self.task.lock().await;
        if let Some(running) = task.as_mut() {
            // A panic of the task would be a defect of ours; closing goes on all the same.
            let _ = running.await;
        }
        *task = None;
        drop(task);
        self.managed.send_replace(None);
    }

    /// Waits until it leaves the fleet.
    pub(crate) async fn left(&self) {
        // The sender lives as long as we do, so this waits and does not fail.
        let _ = self.leaving.subscribe().wait_for(|leaving| *leaving).await;
    }

    /// Ends it at once, without a word.
    pub(super) fn abort(&self) {
        if let Some(task) = self.abort.get() {
            task.abort();
        }
        self.managed.send_replace(None);
    }

    /// Begins a connection; nothing: it leaves the fleet. Under the lock, so that closing meets the connection or
    /// there is none.
    pub(super) fn begin(&self, start: impl FnOnce(Policy) -> Managed) -> Option<Managed> {
        let mut inner = self.lock();
        if inner.closing {
            return None;
        }
        let managed = start(inner.policy);
        inner.begun += 1;
        inner.starts.begun = true;
        self.managed.send_replace(Some(managed.clone()));
        inner.since = Instant::now();
        drop(inner);
        self.common.stir();
        Some(managed)
    }

    /// The connection has ended.
    pub(super) fn ended(&self) {
        self.managed.send_replace(None);
        self.lock().since = Instant::now();
        self.common.stir();
    }

    /// Takes the connection out, unless someone uses it. Under the lock, so that nobody comes and still finds it.
    pub(super) fn retire(&self) -> bool {
        let mut inner = self.lock();
        if inner.leases > 0 {
            return false;
        }
        (inner.wanted, inner.progress, inner.since) = (false, Progress::Open, Instant::now());
        self.managed.send_replace(None);
        drop(inner);
        self.common.stir();
        true
    }

    /// A transition was seen.
    pub(super) fn stands(&self, transition: &Transition) {
        let mut inner = self.lock();
        inner.since = Instant::now();
        if let Some(cause) = &transition.cause {
            inner.cause = Some(self.told_as(cause.clone()));
        }
        inner.starts.saw(transition.to);
    }

    /// A cause without this server's secrets: none in its parts, and none that the parts make together.
    fn told_as(&self, cause: Cause) -> Arc<str> {
        self.hidden(&cause.redacted(&self.spec.secrets).to_string())
    }

    /// Text without this server's secrets.
    pub(crate) fn hidden(&self, text: &str) -> Arc<str> {
        self.spec.secrets.redact(text).into()
    }

    /// How long it may be silent about a call; none: as long as the caller waits.
    pub(crate) fn call_timeout(&self) -> Option<Duration> {
        self.spec.call_timeout
    }

    /// What may be asked on its connection of those who use it.
    pub(crate) fn loan(&self) -> Option<&Loan> {
        self.spec.loan.as_ref()
    }

    pub(crate) fn isolation(&self) -> Isolation {
        self.spec.isolation
    }

    /// What is not to be shown of it.
    #[must_use]
    pub fn secrets(&self) -> &Redactor {
        &self.spec.secrets
    }

    pub(super) fn settled(&self, revision: Revision) {
        self.lock().revision = Some(revision);
    }

    /// Starts it, if it sleeps.
    pub(crate) fn want(&self) {
        self.lock().wanted = true;
        self.stir.notify_one();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// Counted as someone who uses an upstream, while it lives.
#[derive(Debug)]
struct Using(Arc<Upstream>);

impl Using {
    fn new(upstream: Arc<Upstream>) -> Self {
        upstream.lock().leases += 1;
        upstream.want();
        Self(upstream)
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.leases -= 1;
        inner.last_used = Instant::now();
        drop(inner);
        self.0.stir.notify_one();
    }
}

/// The right to call an upstream. Calls are those of a kept connection.
#[derive(Debug)]
pub struct Lease {
    visit: Visit,
    _place: Option<OwnedSemaphorePermit>,
}

impl Deref for Lease {
    type Target = Managed;

    fn deref(&self) -> &Managed {
        &self.visit.managed
    }
}

/// An upstream's connection, which is kept while this is held.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) managed: Managed,
    /// Which of its connections it is.
    pub(crate) number: u64,
    using: Using,
}

impl Visit {
    /// A call there waits for its client's answers.
    pub(crate) fn wait(&self) -> Waiting {
        Waiting::at(Arc::clone(&self.using.0))
    }
}

#[cfg(test)]
mod tests {
    use cardan_proto::session::state::State;

    use super::*;

    /// A renewed session is no restart and neither is being woken; an attempt that follows a failure or a loss is one.
    #[test]
    fn s0_79_restarts_follow_failures() {
        let mut starts = Starts::default();
        let initializing = Condition::Session(State::Initializing);
        let first = [
            (Condition::CONNECTING, 0, 0),
            (Condition::DISCONNECTED, 0, 0),
            (Condition::CONNECTING, 0, 1),
            (initializing, 0, 1),
            (Condition::READY, 1, 1),
            (Condition::Degraded, 1, 1),
            (initializing, 1, 1),
            (Condition::READY, 1, 1),
            (Condition::DISCONNECTED, 1, 1),
            (Condition::CONNECTING, 1, 2),
            (Condition::READY, 2, 2),
        ];
        let woken = [(Condition::CONNECTING, 2, 2), (Condition::READY, 3, 2)];
        for connection in [&first[..], &woken] {
            starts.begun = true;
            for (seen, ups, again) in connection {
                starts.saw(*seen);
                assert_eq!((starts.ups, starts.again), (*ups, *again), "{seen:?}");
            }
        }
    }
}
