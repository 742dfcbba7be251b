//! The task that tends one upstream: starts it, learns what it offers, stops it when nobody uses it.

use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use cardan_client::{CallError, Listen, Managed, Watcher};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::limits::fleet::WINDOW;
use cardan_proto::model::ServerCapabilities;
use cardan_proto::model::raw::Raw;
use cardan_proto::session::event::{Change, Interest};
use cardan_proto::upkeep::condition::{Condition, Transition};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::agenda::Agenda;
use super::spec::{Credentials, Making};
use super::upstream::{Progress, Upstream};
use super::{CHANGED, What};
use crate::cache::{Kept, Told};
use crate::catalog::{Catalog, Kind, List, fetch};

/// Tends one upstream for as long as it is part of the fleet.
pub(super) struct Tender {
    upstream: Arc<Upstream>,
    making: Making,
    /// Who was reached under this name before, and must have ended.
    before: Option<Arc<Upstream>>,
}

/// Lists on their way.
type Fetching = Pin<Box<dyn Future<Output = Vec<(Kind, Result<List, CallError>)>> + Send>>;

/// What is known and wanted of one connection.
struct Watch {
    managed: Managed,
    transitions: Watcher<Transition>,
    listen: Option<Listen>,
    fetching: Option<Fetching>,
    /// What is listened for.
    interest: Option<Interest>,
    /// How often calls began to flow.
    links: u32,
    /// Lists to fetch.
    agenda: Agenda,
    /// Held until it is known whether the upstream works, so that not all start at a time.
    /// Given back after the window at the latest: a mute one holds up nobody else.
    starting: Option<(OwnedSemaphorePermit, Instant)>,
}

/// What to do next.
enum Step {
    Stands(Transition),
    Listed(Vec<(Kind, Result<List, CallError>)>),
    Changed(Option<Change>),
    /// It is time to fetch lists again.
    Due,
    /// It has had the time in which others wait for it to start.
    Overdue,
    Idle,
    Ended,
}

impl Tender {
    pub(super) fn new(upstream: Arc<Upstream>, making: Making, before: Option<Arc<Upstream>>) -> Self {
        Self { upstream, making, before }
    }

    pub(super) async fn run(mut self) {
        if let Some(before) = self.before.take() {
            // Whoever asked for the change closes it too, unless they gave up. Even one that leaves before it began waits:
            // whoever follows waits for it, and so for all before.
            before.close(CHANGED).await;
        }
        while self.is_wanted().await {
            let starting = Arc::clone(&self.upstream.common.starting);
            let permit = tokio::select! {
                permit = starting.acquire_owned() => permit,
                () = self.upstream.left() => return,
            };
            // Never closed, so there always is one.
            let Ok(permit) = permit else { return };
            let Making { connector, way, .. } = self.making.clone();
            let Some(managed) = self.upstream.begin(|policy| Managed::start(connector, way, policy)) else {
                return;
            };
            let watch = Watch {
                transitions: managed.transitions(),
                managed,
                listen: None,
                fetching: None,
                interest: None,
                links: 0,
                agenda: Agenda::default(),
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
                    let offered = offered(&watch.managed);
                    watch.agenda.touch(offered.into_iter().filter(|kind| kind.touched_by(&change)));
                }
                // It has no changes to tell.
                Step::Changed(None) => watch.listen = None,
                Step::Due => watch.agenda.due(Instant::now()),
                Step::Overdue => watch.starting = None,
                Step::Idle => {
                    if self.stop(&watch.managed).await {
                        return;
                    }
                }
                Step::Ended => return self.upstream.ended(),
            }
            let up = watch.managed.condition().is_up();
            if up && watch.fetching.is_none() && !watch.agenda.is_empty() {
                let kinds = watch.agenda.take();
                watch.fetching = Some(Box::pin(fetch_all(watch.managed.clone(), kinds)));
            }
        }
    }

    async fn step(&self, watch: &mut Watch) -> Step {
        let listing = watch.fetching.is_some();
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
        // Without a link nothing can be fetched; the next one is told as a transition.
        let due_at = watch.agenda.due_at().filter(|_| watch.managed.condition().is_up());
        let due = async {
            match due_at {
                Some(at) => sleep_until(at).await,
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
            () = due => Step::Due,
            () = overdue => Step::Overdue,
            // Who has yet to tell what it offers is at work, for us.
            () = self.idle(), if !listing && self.upstream.has_started() => Step::Idle,
        }
    }

    /// Waits until nobody has used it for as long as is allowed.
    async fn idle(&self) {
        loop {
            let until = {
                let inner = self.upstream.lock();
                inner.idle_stop.filter(|_| inner.leases == 0).map(|allowed| inner.last_used + allowed)
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

    fn stands(&self, watch: &mut Watch, mut transition: Transition) {
        // Whoever listens may show it as it is.
        transition.cause = transition.cause.map(|cause| cause.redacted(&self.upstream.spec.secrets));
        self.upstream.stands(&transition);
        match transition.to {
            to if to.is_up() && !transition.from.is_up() => self.ready(watch),
            Condition::Reconnecting { .. } | Condition::Suspended { .. } => {
                watch.starting = None;
                self.decide(Progress::Failed);
            }
            _ => {}
        }
        self.upstream.common.tell(&self.upstream.name, What::Condition(transition));
    }

    /// Calls flow. After a first link everything is asked for that does not hold from before; after later ones the
    /// connection itself finds out what changed of what it has listed and listens for, and the rest is asked for.
    fn ready(&self, watch: &mut Watch) {
        watch.starting = None;
        let Some(server) = watch.managed.server() else { return };
        if let Some(settled) = watch.managed.settled() {
            self.upstream.settled(settled.revision);
        }
        let offered = offered(&watch.managed);
        let interest = interest(&server.capabilities);
        let first = watch.links == 0;
        watch.links += 1;
        watch.agenda.up(&offered);
        if first || watch.interest != interest {
            watch.listen = interest.clone().map(|interest| watch.managed.listen(interest));
            watch.interest = interest;
        }
        for kind in offered {
            let left = {
                let inner = self.upstream.lock();
                let list = inner.catalog.as_ref().map(|catalog| catalog.list(kind));
                list.and_then(|list| inner.told.left(kind, list))
            };
            // A listen that has ended hears nothing, whatever was wanted of it: the server has no lane for it.
            let wanted = watch.interest.as_ref().is_some_and(|interest| interest.covers(&kind.change()));
            let heard = watch.listen.is_some() && wanted;
            match left {
                Some(left) if first => watch.agenda.holds(kind, Instant::now(), left),
                _ if !first && heard && watch.agenda.has_come(kind) => {}
                _ => watch.agenda.touch([kind]),
            }
        }
        if watch.agenda.is_empty() && watch.fetching.is_none() {
            self.decide(Progress::Listed);
        } else {
            // Whatever failed before, its lists may come now.
            self.upstream.lock().progress = Progress::Open;
        }
    }

    /// Takes over lists that came; what did not come stays as it was, and is asked for again.
    async fn listed(&self, watch: &mut Watch, lists: Vec<(Kind, Result<List, CallError>)>) {
        watch.fetching = None;
        let (now, mut came, mut missing) = (Instant::now(), Vec::new(), Vec::new());
        for (kind, list) in lists {
            match list {
                Ok(mut list) => {
                    if let Some(misshapen) = &mut list.misshapen {
                        misshapen.first = (*self.upstream.hidden(&misshapen.first)).into();
                    }
                    watch.agenda.came(kind, now, list.ttl_ms);
                    came.push((kind, list));
                }
                Err(error) => {
                    let why = self.upstream.hidden(&format!("{}: {error}", kind.method()));
                    self.upstream.common.tell(&self.upstream.name, What::Unlisted(why));
                    missing.push(kind);
                }
            }
        }
        watch.agenda.did_not_come(&missing, now);
        let Some(settled) = watch.managed.settled().filter(|_| !came.is_empty()) else {
            let known = self.upstream.catalog().is_some();
            return self.decide(if known { Progress::Listed } else { Progress::Failed });
        };
        let greeting = settled.greeting.as_ref().and_then(|raw| std::str::from_utf8(raw).ok());
        let greeting = greeting.and_then(|text| Raw::parse(text).ok());
        let before = self.upstream.catalog();
        let mut catalog = before.as_deref().cloned().unwrap_or_else(|| Catalog::new(settled.revision, None));
        (catalog.revision, catalog.greeting) = (settled.revision, greeting);
        let (mut told, mut cached) = {
            let inner = self.upstream.lock();
            (inner.told, inner.cached.clone())
        };
        let offered = offered(&watch.managed);
        for kind in Kind::ALL.into_iter().filter(|kind| !offered.contains(kind)) {
            *catalog.list_mut(kind) = List::default();
            told.forget(kind);
            cached.remove(&kind);
        }
        for (kind, list) in came {
            *catalog.list_mut(kind) = list;
            told.now(kind);
            cached.remove(&kind);
        }
        let empty = Catalog::new(settled.revision, None);
        let changes = catalog.changes_since(before.as_deref().unwrap_or(&empty));
        let catalog = Arc::new(catalog);
        {
            let mut inner = self.upstream.lock();
            (inner.catalog, inner.told, inner.cached) = (Some(Arc::clone(&catalog)), told, cached);
        }
        self.decide(Progress::Listed);
        for change in changes {
            self.upstream.common.tell(&self.upstream.name, What::Changed(change));
        }
        // After all that, so that nobody waits for a slow disk.
        self.keep(&catalog, told).await;
    }

    /// Writes a catalog down for the next process.
    async fn keep(&self, catalog: &Catalog, told: Told) {
        let Some(cache) = self.upstream.common.cache.clone() else { return };
        let private = Kind::ALL.into_iter().any(|kind| catalog.list(kind).private);
        if private && self.upstream.spec.credentials == Credentials::Helped {
            return cache.remove(&self.upstream.spec.digest);
        }
        let kept = Kept::new(&self.upstream.name, told, catalog.clone());
        let digest = self.upstream.spec.digest.clone();
        let saved = tokio::task::spawn_blocking(move || cache.save(&digest, &kept)).await;
        if let Ok(Err(error)) = saved {
            let why = format!("the catalog cannot be kept: {error}").into();
            self.upstream.common.tell(&self.upstream.name, What::Unlisted(why));
        }
    }

    fn decide(&self, progress: Progress) {
        let mut inner = self.upstream.lock();
        if std::mem::replace(&mut inner.progress, progress) == Progress::Open {
            // Until now it was at work for us.
            inner.last_used = Instant::now();
        }
        drop(inner);
        self.upstream.common.stir();
    }
}

async fn fetch_all(managed: Managed, kinds: Vec<Kind>) -> Vec<(Kind, Result<List, CallError>)> {
    let mut lists = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let list = match fetch(&managed, kind).await {
            // It has none of them, and asking again will not change that.
            Err(CallError::Fault(fault)) if fault.code == code::METHOD_NOT_FOUND => Ok(List::default()),
            other => other,
        };
        lists.push((kind, list));
    }
    lists
}

/// The lists that the server has.
fn offered(managed: &Managed) -> BTreeSet<Kind> {
    let server = managed.server().unwrap_or_default();
    let era = managed.settled().map_or(Era::Legacy, |settled| settled.revision.era());
    Kind::ALL.into_iter().filter(|kind| kind.offered_by(&server.capabilities, era)).collect()
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
