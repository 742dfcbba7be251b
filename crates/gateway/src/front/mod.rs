//! All servers of a fleet as one: any client, whatever era any side speaks.
//!
//! ```text
//!                     ┌─ lists ───▶ the merged catalogs (`view`)
//!   client ──▶ Desk ──┤
//!                     └─ calls ───▶ a Side of the server's relay (`relays`) ──▶ upstream
//! ```
//!
//! * A `Desk` is all servers at one link. It finds the server by the name, address or task that a call is about, puts the
//!   server's own name in the place of ours, and passes the call on as a relay does: asks, progress and log notes
//!   cross there, and clients are kept apart there.
//! * What servers offer is known from the fleet. A list is told at once; what comes later comes as a change.
//! * A server that cannot be reached fails its own calls, and says why.

mod completion;
mod desk;
mod forward;
mod gated;
mod greeting;
mod kin;
mod listen;
mod lists;
mod own;
mod read;
mod refused;
pub(crate) mod relays;
mod replaced;
mod several;
mod skills;
mod stale;
mod tasks;
mod traced;
mod trail;
mod view;
mod waiting;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use cardan_proto::http::param::Mirrors;
use cardan_proto::limits::Limits;
use cardan_proto::limits::fleet::WINDOW;
use cardan_proto::session::config::Config;
use cardan_proto::session::event::{Cause, Change};
use cardan_runtime::driver::Driver;
use cardan_runtime::link::Link;
use cardan_runtime::links::Links;
use cardan_runtime::peer::Peer;
use cardan_runtime::service::{Host, StrayHeaders};
use cardan_runtime::unfinished::Unfinished;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;
use tokio::time::Instant;

pub use self::desk::Desk;
use self::desk::Station;
use self::gated::Gated;
use self::kin::{Fitted, Kin};
use self::refused::Refusals;
pub use self::refused::Refused;
use self::relays::{Called, Relays};
use self::view::{HouseRules, Known, Scope, Unknown, View};
use crate::audit::Audit;
use crate::fleet::{Fleet, Upstream, lock};
use crate::merge::{Collision, Naming};
use crate::meter::{Allowances, Meter};
use crate::pin::Pins;
use crate::policy::Policy;
use crate::relay::{self, Lend, Names};
use crate::trace::{Tally, Tracer};

/// How a front is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How names of several servers are kept apart.
    pub naming: Naming,
    /// Who may see and use what.
    pub policy: Policy,
    /// How much each principal may ask for.
    pub allowances: Allowances,
    /// Looks at tools that change; none: nobody does.
    pub pins: Option<Arc<Pins>>,
    /// Where calls are written down; none: nowhere.
    pub audit: Option<Arc<Audit>>,
    /// Makes calls parts of traces; none: nobody follows them.
    pub trace: Option<Arc<Tracer>>,
    /// How long the first lists wait for servers that are starting.
    pub window: Duration,
    /// Entries on a page of a list.
    pub page_entries: usize,
    /// Bytes on a page of a list.
    pub page_bytes: usize,
    /// How the relays behind which servers stand are run.
    pub relay: relay::Options,
    /// Which of the fleet's connections calls may share.
    pub lend: Lend,
    /// Bounds of the sessions with clients.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            naming: Naming::default(),
            policy: Policy::default(),
            allowances: Allowances::default(),
            pins: None,
            audit: None,
            trace: None,
            window: WINDOW,
            page_entries: 1000,  // not every client turns pages
            page_bytes: 2 << 20, // but a page is one message
            relay: relay::Options::default(),
            lend: Lend::default(),
            limits: Limits::DEFAULT,
        }
    }
}

impl Options {
    fn page(&self) -> lists::Page {
        lists::Page { entries: self.page_entries.max(1), bytes: self.page_bytes }
    }
}

/// Changes that a listen has not told yet; one that is slower is told of all lists.
const CHANGES: usize = 256;

/// All servers of a fleet as one server. Cheap to clone; serves any number of links at once.
#[derive(Clone)]
pub struct Front(Arc<Inner>);

/// What all fronts before one fleet share.
struct House {
    fleet: Fleet,
    relays: Relays,
    /// What is offered in sessions that modern clients share.
    kin: Arc<Kin>,
    options: Options,
    rules: Mutex<Arc<HouseRules>>,
    opened: Instant,
    refusals: Refusals,
    meter: Arc<Meter>,
    /// The fronts of single servers that someone holds.
    alone: Mutex<HashMap<Box<str>, Weak<Inner>>>,
}

struct Inner {
    house: Arc<House>,
    scope: Scope,
    view: Mutex<Arc<View>>,
    gated: Gated,
    /// What is offered to modern clients that share sessions with a legacy server.
    fitted: Fitted,
    changes: broadcast::Sender<Change>,
    links: Links,
    /// The legacy clients.
    stations: Mutex<Vec<Weak<Station>>>,
    following: Mutex<Option<AbortHandle>>,
}

impl Front {
    /// All servers of `fleet`. Returns at once; needs a tokio runtime.
    #[must_use]
    pub fn start(fleet: Fleet, options: Options) -> Self {
        let relay = relay::Options { limits: options.limits.clone(), ..options.relay.clone() };
        let kin = Kin::new();
        let lent = (options.lend, Called::ByName);
        let relays = Relays::new(fleet.clone(), relay, lent, (Some(Arc::clone(&kin)), options.pins.clone()));
        let rules = HouseRules { naming: options.naming.clone(), policy: options.policy.clone() };
        let rules = Mutex::new(Arc::new(rules));
        let (opened, refusals, alone) = (Instant::now(), Refusals::default(), Mutex::default());
        let meter = Arc::new(Meter::default());
        meter.set(options.allowances.clone());
        let house = House { fleet, relays, kin, options, rules, opened, refusals, meter, alone };
        Self::of(Arc::new(house), Scope::All)
    }

    /// One server of the same fleet, under its own names; nothing: there is no such server.
    #[must_use]
    pub fn alone(&self, name: &str) -> Option<Self> {
        let house = &self.0.house;
        house.fleet.upstream(name)?;
        let mut alone = lock(&house.alone);
        if let Some(front) = alone.get(name).and_then(Weak::upgrade) {
            return Some(Self(front));
        }
        let front = Self::of(Arc::clone(house), Scope::One(name.into()));
        alone.insert(name.into(), Arc::downgrade(&front.0));
        Some(front)
    }

    fn of(house: Arc<House>, scope: Scope) -> Self {
        let inner = Arc::new(Inner {
            house,
            scope,
            view: Mutex::default(),
            gated: Gated::default(),
            fitted: Fitted::default(),
            changes: broadcast::Sender::new(CHANGES),
            links: Links::default(),
            stations: Mutex::default(),
            following: Mutex::default(),
        });
        inner.view();
        let following = tokio::spawn(follow(Arc::downgrade(&inner))).abort_handle();
        *lock(&inner.following) = Some(following);
        Self(inner)
    }

    /// The fleet behind it.
    #[must_use]
    pub fn fleet(&self) -> &Fleet {
        &self.0.house.fleet
    }

    /// Names are kept apart in another way, and others may see and use something, from now on. Rules are made of names, so it is
    /// one step: nobody meets the names of now with the rules of before. Clients are told.
    pub fn adopt(&self, naming: Naming, policy: Policy) {
        self.turn(|_| HouseRules { naming, policy });
    }

    /// Others may see and use something from now on. Clients are told.
    pub fn protect(&self, policy: Policy) {
        self.turn(|now| HouseRules { naming: now.naming.clone(), policy });
    }

    fn turn(&self, next: impl FnOnce(&HouseRules) -> HouseRules) {
        let regated = {
            let mut now = lock(&self.0.house.rules);
            let next = next(&now);
            if **now == next {
                return;
            }
            let regated = now.policy != next.policy || now.naming.separator() != next.naming.separator();
            *now = Arc::new(next);
            regated
        };
        for front in self.fronts() {
            front.view();
            if regated {
                front.all_changed();
            }
        }
    }

    /// Principals may ask for more or less from now on.
    pub fn allow(&self, allowances: Allowances) {
        self.0.house.meter.set(allowances);
    }

    /// Looks again at what is held back: something was approved. Clients are told.
    pub fn repin(&self) {
        for front in self.fronts() {
            front.view();
            front.fitted.repin();
            // What one client alone is offered may be another though what all are offered is not.
            for station in front.stations() {
                station.own.repin();
                station.tell();
            }
        }
        // Behind that: whoever is told lists at once.
        self.0.house.kin.repinned();
    }

    /// All servers, and those alone that someone holds.
    fn fronts(&self) -> Vec<Arc<Inner>> {
        let alone = lock(&self.0.house.alone);
        alone.values().filter_map(Weak::upgrade).chain([Arc::clone(&self.0)]).collect()
    }

    /// Names that two servers want.
    #[must_use]
    pub fn collisions(&self) -> Vec<Collision> {
        self.0.view().merged.collisions.clone()
    }

    /// How many calls no server was asked for, in the order of [`Refused::ALL`].
    #[must_use]
    pub fn refused(&self) -> [u64; Refused::ALL.len()] {
        self.0.house.refusals.counts()
    }

    /// How many calls wait for their client's answers.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.0.house.relays.parked()
    }

    /// What became of the spans of calls; none: none are made.
    #[must_use]
    pub fn traced(&self) -> Option<Tally> {
        self.0.house.options.trace.as_ref().map(|tracer| tracer.tally())
    }

    /// Waits until it is known what is offered, as the first list would.
    pub async fn settled(&self) {
        self.0.settled().await;
    }

    /// Serves one link to its end, and tells why it ended.
    pub async fn serve<L: Link + Unpin>(&self, link: L) -> Cause {
        let (driver, peer) = Driver::new(link, self.service(None), self.config(None));
        self.joined(peer, None);
        driver.await
    }

    /// Leaves the servers, politely, once no link is served any more, and ends the fleet.
    pub async fn end(&self, reason: &'static str) {
        self.close(reason);
        self.0.house.relays.close(reason).await;
        self.0.house.fleet.close(reason).await;
    }
}

impl Host for Front {
    type Service = Desk;

    fn config(&self, principal: Option<&Arc<str>>) -> Arc<Config> {
        let (front, principal) = (&self.0, principal.map(|principal| &**principal));
        let view = front.gated.view(front.current(), principal);
        view.config(|view| greeting::config(&front.scope, view, &front.house.options.limits))
    }

    fn service(&self, principal: Option<&Arc<str>>) -> Arc<Desk> {
        Arc::new(Desk::new(Arc::clone(&self.0), principal.cloned()))
    }

    fn joined(&self, peer: Peer, _principal: Option<&Arc<str>>) {
        self.0.links.join(peer, ());
    }

    fn close(&self, reason: &'static str) {
        self.0.links.close(reason);
    }

    fn unfinished(&self) -> Unfinished {
        self.0.house.relays.unfinished()
    }

    fn mirrors(&self, tool: &str, principal: Option<&Arc<str>>) -> Option<Arc<Mirrors>> {
        let (front, principal) = (&self.0, principal.map(|principal| &**principal));
        front.gated.view(front.view(), principal).mirrors(tool)
    }

    fn strays(&self) -> StrayHeaders {
        StrayHeaders::Passed
    }
}

/// The same front: what is closed is closed for all who hold it.
impl PartialEq for Front {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front").field("scope", &self.0.scope).finish_non_exhaustive()
    }
}

impl Inner {
    /// What is offered now. Whoever first sees that it is something else tells everyone.
    fn view(&self) -> Arc<View> {
        // Before looking, so that nobody who looked earlier puts what they saw over what is seen now.
        let mut view = lock(&self.view);
        let upstreams = self.scope.upstreams(&self.house.fleet);
        // Before the catalogs, so that one that comes in between is looked for again.
        let unknown = Unknown::among(&upstreams);
        let known = Known::of(upstreams, self.house.options.pins.as_deref());
        let house = self.rules();
        if view.is_of(&known, unknown, &house) {
            return Arc::clone(&view);
        }
        let next = Arc::new(View::of(known, unknown, self.scope.naming(&house.naming), house));
        let changes = next.changes_since(&view);
        *view = Arc::clone(&next);
        // Still under the lock, so that changes are told in their order. Nobody listening is fine.
        for change in changes {
            let _ = self.changes.send(change);
        }
        drop(view);
        for station in self.stations() {
            station.tell();
        }
        next
    }

    /// What is offered may be another for each principal, so everyone looks again.
    fn all_changed(&self) {
        for change in [Change::Tools, Change::Prompts, Change::Resources] {
            // Nobody listening is fine.
            let _ = self.changes.send(change);
        }
        for station in self.stations() {
            station.tell();
        }
    }

    /// What was offered when someone looked last.
    fn current(&self) -> Arc<View> {
        Arc::clone(&lock(&self.view))
    }

    fn stations(&self) -> Vec<Arc<Station>> {
        lock(&self.stations).iter().filter_map(Weak::upgrade).collect()
    }

    /// What is in force now.
    fn rules(&self) -> Arc<HouseRules> {
        Arc::clone(&lock(&self.house.rules))
    }

    /// Changes of lists, from now on.
    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// The server that a task is at, by its name here.
    fn with_task(&self, task: &str) -> Option<Arc<Upstream>> {
        let upstreams = self.scope.upstreams(&self.house.fleet);
        let server = Names::server(task, upstreams.iter().map(|upstream| upstream.name()))?;
        upstreams.iter().find(|upstream| upstream.name() == server).cloned()
    }

    /// A legacy client is here.
    fn attended(&self, station: &Arc<Station>) {
        push(&mut lock(&self.stations), Arc::downgrade(station), |station| station.strong_count() > 0);
    }

    /// Looks after what depends on servers that may have gone.
    fn sweep(&self) {
        let there = self.house.fleet.upstreams();
        for station in self.stations() {
            station.sweep(&there);
        }
        if self.scope == Scope::All {
            self.house.relays.sweep();
            self.house.sweep(&there);
        }
    }
}

impl House {
    /// Sends the clients of single servers away that are not there any more.
    fn sweep(&self, there: &[Arc<Upstream>]) {
        let mut alone = lock(&self.alone);
        let gone: Vec<_> =
            alone.extract_if(|name, _| !there.iter().any(|one| one.name() == &**name)).collect();
        drop(alone);
        for front in gone.iter().filter_map(|(_, front)| front.upgrade()) {
            Front(front).close("the server is not configured any more");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(following) = lock(&self.following).take() {
            following.abort();
        }
    }
}

/// Looks at the fleet whenever something happens there.
async fn follow(front: Weak<Inner>) {
    let Some(here) = front.upgrade() else { return };
    let (mut news, mut apart) = (here.house.fleet.news(), here.house.kin.changes());
    drop(here);
    // Those that were asked to start so that it is known what they offer.
    let mut asked: Vec<Weak<Upstream>> = Vec::new();
    loop {
        {
            let Some(front) = front.upgrade() else { return };
            front.view();
            front.sweep();
            asked.retain(|upstream| upstream.strong_count() > 0);
            for upstream in front.scope.upstreams(&front.house.fleet) {
                let known = asked.iter().any(|asked| asked.as_ptr() == Arc::as_ptr(&upstream));
                if upstream.catalog().is_none() && !known {
                    asked.push(Arc::downgrade(&upstream));
                    upstream.want();
                }
            }
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return },
            // What was missed is seen all the same.
            told = apart.recv() => match (told, front.upgrade()) {
                (Err(RecvError::Closed), _) | (_, None) => return,
                (_, Some(front)) => front.stations().iter().for_each(|station| station.tell()),
            },
        }
    }
}

/// Adds to a list that is swept when it would grow, so that adding stays cheap however long it is.
fn push<T>(list: &mut Vec<T>, item: T, lives: impl Fn(&T) -> bool) {
    if list.len() == list.capacity() {
        list.retain(lives);
        let live = list.len();
        list.reserve(live.max(16));
    }
    list.push(item);
}
