//! The task that tends one upstream: starts it, learns what it offers, stops it when nobody uses it.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use cardan_client::{CallError, Listen, Managed, Watcher};
use cardan_proto::model::ServerCapabilities;
use cardan_proto::model::raw::Raw;
use cardan_proto::session::event::{Change, Interest};
use cardan_proto::upkeep::condition::{Condition, Transition};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::spec::{Credentials, Making};
use super::upstream::{Progress, Upstream};
use super::{WINDOW, What};
use crate::cache::Kept;
use crate::catalog::{Catalog, Kind, List, fetch};

/// Tends one upstream for as long as it is part of the fleet.
pub(super) struct Tender {
    upstream: Arc<Upstream>,
    making: Making,
}

/// Lists on their way.
type Fetching = Pin<Box<dyn Future<Output = Vec<(Kind, Result<List, CallError>)>> + Send>>;

/// What is known and wanted of one connection.
struct Watch {
    managed: Managed,
    transitions: Watcher<Transition>,
    listen: Option<Listen>,
    fetching: Option<Fetching>,
    /// Lists to fetch next.
    stale: Vec<Kind>,
    /// Held until it is known whether the upstream works, so that not all start at a time.
    /// Given back after the window at the latest: a mute one holds up nobody else.
    starting: Option<(OwnedSemaphorePermit, Instant)>,
}

/// What to do next.
enum Step {
    Stands(Transition),
    Listed(Vec<(Kind, Result<List, CallError>)>),
    Changed(Option<Change>),
    /// It has had the time in which others wait for it to start.
    Overdue,
    Idle,
    Ended,
}

impl Tender {
    pub(super) fn new(upstream: Arc<Upstream>, making: Making) -> Self {
        Self { upstream, making }
    }

    pub(super) async fn run(self) {
        while self.is_wanted().await {
            let starting = Arc::clone(&self.upstream.common.starting);
            let permit = tokio::select! {
                permit = starting.acquire_owned() => permit,
                () = self.upstream.left() => return,
            };
            // Never closed, so there always is one.
            let Ok(permit) = permit else { return };
            let Making { connector, way, policy } = self.making.clone();
            let Some(managed) = self.upstream.begin(|| Managed::start(connector, way, policy)) else {
                return;
            };
            let watch = Watch {
                transitions: managed.transitions(),
                managed,
                listen: None,
                fetching: None,
                stale: Vec::new(),
                starting: Some((permit, Instant::now() + WINDOW)),
            };
            self.tend(watch).await;
        }
    }

    /// Waits until someone wants it. False: nobody ever will.
    async fn is_wanted(&self) -> bool {
        loop {
            {
                let inner = self.upstream.lock();
                if inner.closing {
                    return false;
                }
                if inner.wanted {
                    return true;
                }
            }
            tokio::select! {
                () = self.upstream.stir.notified() => {}
                () = self.upstream.left() => return false,
            }
        }
    }

    /// Looks after a connection until it ends or nobody needs it.
    async fn tend(&self, mut watch: Watch) {
        loop {
            match self.step(&mut watch).await {
                Step::Stands(transition) => self.stands(&mut watch, transition),
                Step::Listed(lists) => self.listed(&mut watch, lists).await,
                Step::Changed(Some(change)) => {
                    let touched = Kind::ALL.into_iter().filter(|kind| kind.touched_by(&change));
                    watch.stale.extend(touched);
                }
                // It has no changes to tell.
                Step::Changed(None) => watch.listen = None,
                Step::Overdue => watch.starting = None,
                Step::Idle => {
                    if self.stop(&watch.managed).await {
                        return;
                    }
                }
                Step::Ended => return self.upstream.ended(),
            }
            if watch.fetching.is_none() && !watch.stale.is_empty() {
                let kinds = std::mem::take(&mut watch.stale);
                watch.fetching = Some(Box::pin(fetch_all(watch.managed.clone(), kinds)));
            }
        }
    }

    async fn step(&self, watch: &mut Watch) -> Step {
        let fetched = async {
            match &mut watch.fetching {
                Some(fetching) => fetching.await,
                None => pending().await,
            }
        };
        let changed = async {
            match &mut watch.listen {
                Some(listen) => listen.next().await,
                None => pending().await,
            }
        };
        let overdue = async {
            match &watch.starting {
                Some((_, at)) => sleep_until(*at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            transition = watch.transitions.next() => transition.map_or(Step::Ended, Step::Stands),
            lists = fetched => Step::Listed(lists),
            change = changed => Step::Changed(change),
            () = overdue => Step::Overdue,
            () = self.idle() => Step::Idle,
        }
    }

    /// Waits until nobody has used it for as long as is allowed.
    async fn idle(&self) {
        let Some(allowed) = self.upstream.spec.idle_stop else { return pending().await };
        loop {
            let until = {
                let inner = self.upstream.lock();
                (inner.leases == 0).then(|| inner.last_used + allowed)
            };
            match until {
                Some(until) if until <= Instant::now() => return,
                Some(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    () = self.upstream.stir.notified() => {}
                },
                None => self.upstream.stir.notified().await,
            }
        }
    }

    /// Stops it, unless someone came just now.
    async fn stop(&self, managed: &Managed) -> bool {
        if !self.upstream.retire() {
            return false;
        }
        managed.close("nobody uses it").await;
        self.upstream.common.tell(&self.upstream.name, What::Stopped);
        true
    }

    fn stands(&self, watch: &mut Watch, transition: Transition) {
        self.upstream.stands(&transition);
        match transition.to {
            Condition::READY if !transition.from.is_up() => self.ready(watch),
            Condition::Reconnecting { .. } | Condition::Suspended { .. } => {
                watch.starting = None;
                self.decide(Progress::Failed);
            }
            _ => {}
        }
        self.upstream.common.tell(&self.upstream.name, What::Condition(transition));
    }

    /// Calls flow. After a first link everything is asked for that does not hold from before; after later ones the
    /// connection itself finds out what changed.
    fn ready(&self, watch: &mut Watch) {
        watch.starting = None;
        let Some(server) = watch.managed.server() else { return };
        if let Some(settled) = watch.managed.settled() {
            self.upstream.settled(settled.revision);
        }
        if watch.listen.is_some() || watch.fetching.is_some() {
            return;
        }
        watch.listen = interest(&server.capabilities).map(|interest| watch.managed.listen(interest));
        let cached = self.upstream.lock().cached.clone();
        let holds = |kind| cached.as_ref().is_some_and(|kept| kept.holds(kind));
        watch.stale = Kind::ALL
            .into_iter()
            .filter(|kind| kind.offered_by(&server.capabilities) && !holds(*kind))
            .collect();
        if watch.stale.is_empty() {
            self.decide(Progress::Listed);
        }
    }

    /// Takes over lists that came; what did not come stays as it was.
    async fn listed(&self, watch: &mut Watch, lists: Vec<(Kind, Result<List, CallError>)>) {
        watch.fetching = None;
        let Some(settled) = watch.managed.settled() else { return };
        let greeting = settled.greeting.as_ref().and_then(|raw| std::str::from_utf8(raw).ok());
        let greeting = greeting.and_then(|text| Raw::parse(text).ok());
        let before = self.upstream.catalog();
        let mut catalog = before.as_deref().cloned().unwrap_or_else(|| Catalog::new(settled.revision, None));
        (catalog.revision, catalog.greeting) = (settled.revision, greeting);
        let server = watch.managed.server().unwrap_or_default();
        for kind in Kind::ALL.into_iter().filter(|kind| !kind.offered_by(&server.capabilities)) {
            *catalog.list_mut(kind) = List::default();
        }
        for (kind, list) in lists {
            match list {
                Ok(list) => *catalog.list_mut(kind) = list,
                Err(error) => {
                    let why = self.upstream.hidden(&format!("{}: {error}", kind.method()));
                    self.upstream.common.tell(&self.upstream.name, What::Unlisted(why));
                }
            }
        }
        let empty = Catalog::new(settled.revision, None);
        let changes = catalog.changes_since(before.as_deref().unwrap_or(&empty));
        self.keep(&catalog).await;
        {
            let mut inner = self.upstream.lock();
            (inner.catalog, inner.cached) = (Some(Arc::new(catalog)), None);
        }
        self.decide(Progress::Listed);
        for change in changes {
            self.upstream.common.tell(&self.upstream.name, What::Changed(change));
        }
    }

    /// Writes a catalog down for the next process.
    async fn keep(&self, catalog: &Catalog) {
        let Some(cache) = self.upstream.common.cache.clone() else { return };
        let private = Kind::ALL.into_iter().any(|kind| catalog.list(kind).private);
        if private && self.upstream.spec.credentials == Credentials::Helped {
            return cache.remove(&self.upstream.spec.digest);
        }
        let kept = Kept::now(&self.upstream.name, catalog.clone());
        let digest = self.upstream.spec.digest.clone();
        let saved = tokio::task::spawn_blocking(move || cache.save(&digest, &kept)).await;
        if let Ok(Err(error)) = saved {
            let why = format!("the catalog cannot be kept: {error}").into();
            self.upstream.common.tell(&self.upstream.name, What::Unlisted(why));
        }
    }

    fn decide(&self, progress: Progress) {
        self.upstream.lock().progress = progress;
        self.upstream.common.stir();
    }
}

async fn fetch_all(managed: Managed, kinds: Vec<Kind>) -> Vec<(Kind, Result<List, CallError>)> {
    let mut lists = Vec::with_capacity(kinds.len());
    for kind in kinds {
        lists.push((kind, fetch(&managed, kind).await));
    }
    lists
}

/// All changes of lists that the server can tell; nothing: none.
fn interest(capabilities: &ServerCapabilities) -> Option<Interest> {
    let tells = |flag: Option<Option<bool>>| flag.flatten() == Some(true);
    let interest = Interest {
        tools: tells(capabilities.tools.as_ref().map(|tools| tools.list_changed)),
        prompts: tells(capabilities.prompts.as_ref().map(|prompts| prompts.list_changed)),
        resources: tells(capabilities.resources.as_ref().map(|resources| resources.list_changed)),
        ..Interest::default()
    };
    (interest.tools || interest.prompts || interest.resources).then_some(interest)
}
