//! A fleet in simulation: servers that start fast, slowly, late or never, that crash, and of which something is known from
//! before, rightly or not. Every choice is drawn from one seed, bytes go through memory, and the clock moves only when
//! everyone waits. Only how old a catalog on disk is has to be told by the real clock, so that is judged by the minute.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod judge;
mod site;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cardan_gateway::cache::{CatalogCache, Kept, Told};
use cardan_gateway::catalog::{Catalog, Kind, List};
use cardan_gateway::fleet::{Event, Fleet, Health, Options};
use cardan_gateway::merge::Naming;
use cardan_proto::era::{Era, Revision};
use cardan_proto::limits::fleet::WINDOW;
use cardan_proto::session::event::CallOptions;
use cardan_sim::rng::Rng;
use cardan_sim::story::{self, Story};
use common::Scratch;
use serde_json::json;
use site::{Cached, Holds, Plan, Site, Start};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep, timeout};

const AGAIN: &str = "cargo test -p cardan-gateway --test sim every_seed";

/// Timers tick by the millisecond, and several may follow upon each other.
const TICKS: Duration = Duration::from_millis(20);

/// How long a run goes on when everything was used.
const REST: Duration = Duration::from_secs(130);

/// How long someone waits for a server that is not known to be sick.
const PATIENCE: Duration = Duration::from_secs(3600);

struct World {
    sites: Vec<Site>,
    /// How many start at a time.
    parallel: usize,
    cache: CatalogCache,
    fleet: Fleet,
    events: Arc<Mutex<Vec<Event>>>,
    story: Story,
}

fn run(seed: u64) -> Story {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let scratch = Scratch::new(&format!("sim-{}", RUNS.fetch_add(1, Ordering::Relaxed)));
    let mut rng = Rng::seeded(seed);
    let sites: Vec<_> = (0..rng.within(3, 12)).map(|n| Site::new(Plan::draw(n as usize, &mut rng))).collect();
    let cache = CatalogCache::new(scratch.path());
    for site in &sites {
        put_down(&cache, &scratch, &site.plan);
    }
    runtime.block_on(live(sites, rng.pick(&[1, 2, 8]), cache))
}

/// Writes down what is known of a server from before.
fn put_down(cache: &CatalogCache, scratch: &Scratch, plan: &Plan) {
    let minutes = |minutes: u64| minutes * 60_000;
    let (tool, holds, digest) = match plan.cached {
        Cached::Nothing => return,
        Cached::Garbage => {
            return fs::write(scratch.path().join(format!("{}.json", plan.digest())), "{garbage").unwrap();
        }
        Cached::Same(holds) | Cached::Other(holds) => (plan.known().unwrap(), holds, plan.digest()),
        Cached::Foreign => ("tool-of-a-stranger".to_owned(), Holds::Longer, format!("{}00", plan.digest())),
    };
    let (age_ms, ttl_ms) = match holds {
        Holds::Unsaid => (minutes(10), None),
        Holds::Expired => (minutes(120), Some(minutes(60))),
        Holds::Longer => (minutes(10), Some(minutes(600))),
        Holds::For(left) => (minutes(10), Some(minutes(10) + left.as_millis() as u64)),
    };
    let revision = if plan.era == Era::Modern { Revision::LATEST_MODERN } else { Revision::LATEST_LEGACY };
    let mut catalog = Catalog::new(revision, None);
    let entries = json!([{ "name": tool, "inputSchema": { "type": "object" } }]).to_string();
    catalog.tools =
        List { ttl_ms, ..List::of(Kind::Tools, serde_json::from_str(&entries).unwrap()).unwrap() };
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let told: Told = serde_json::from_value(json!([now_ms - age_ms, null, null, null, null])).unwrap();
    cache.save(&digest, &Kept::new(&plan.name, told, catalog)).unwrap();
}

async fn live(sites: Vec<Site>, parallel: usize, cache: CatalogCache) -> Story {
    let specs = sites.iter().map(Site::spec).collect();
    let fleet = Fleet::start(specs, Options { parallel, cache: Some(cache.clone()) });
    let events = Arc::<Mutex<Vec<Event>>>::default();
    let collecting = tokio::spawn(collect(fleet.events(), Arc::clone(&events)));
    let mut world = World { sites, parallel, cache, fleet, events, story: Story::default() };
    let start = Instant::now();
    let known: Vec<_> = world.sites.iter().filter_map(|site| judge::known(&site.plan)).collect();
    let (listed, dials) = (tools(&world.fleet), world.dials());
    world.story.demand(listed == known, || format!("at once {listed:?} is listed, and {known:?} is known"));
    world.story.demand(dials == 0, || "something was dialled before anything was listed".into());
    let users = world.users();
    world.fleet.settle(WINDOW).await;
    let waited = start.elapsed();
    let settles = world.settles();
    let right = waited >= settles && waited <= settles + TICKS;
    world.story.demand(right, || format!("waited {waited:?} for those who start, not {settles:?}"));
    for user in users {
        let used = user.await.unwrap();
        world.used(used);
    }
    world.wake().await;
    sleep(REST).await;
    world.rest().await;
    let World { fleet, mut story, .. } = world;
    drop(fleet);
    collecting
        .await
        .unwrap()
        .unwrap_or_else(|missed| story.demand(false, || format!("{missed} events missed")));
    story
}

async fn collect(mut events: broadcast::Receiver<Event>, into: Arc<Mutex<Vec<Event>>>) -> Result<(), u64> {
    loop {
        match events.recv().await {
            Ok(event) => into.lock().unwrap().push(event),
            Err(broadcast::error::RecvError::Closed) => return Ok(()),
            Err(broadcast::error::RecvError::Lagged(missed)) => return Err(missed),
        }
    }
}

fn tools(fleet: &Fleet) -> Vec<String> {
    let (merged, _) = fleet.merged(&Naming::Prefix(Naming::SEPARATOR.into()));
    merged.list(Kind::Tools).iter().map(|shown| shown.key.to_string()).collect()
}

/// How one call to a server went.
struct Used {
    site: Site,
    took: Duration,
    bound: Duration,
    outcome: Result<(), String>,
}

/// Calls a server as soon as that can be done, and no longer than for `patience`.
async fn call(fleet: Fleet, site: Site, bound: Duration, patience: Duration) -> Used {
    let begun = Instant::now();
    let upstream = fleet.upstream(&site.plan.name).unwrap();
    let outcome = match timeout(PATIENCE, upstream.lease()).await {
        Err(_) => Err("never had its turn".to_owned()),
        Ok(Err(unavailable)) => Err(unavailable.to_string()),
        Ok(Ok(lease)) => {
            let options =
                CallOptions { idle: Some(patience), total: Some(patience), ..CallOptions::default() };
            let call = lease.call_tool_with(&site.plan.tool(), &json!({}), options).unwrap();
            call.await.map_err(|error| error.to_string()).and_then(|result| {
                let text = serde_json::to_value(result).unwrap()["content"][0]["text"].clone();
                if text == *site.plan.name { Ok(()) } else { Err(format!("answered by {text}")) }
            })
        }
    };
    Used { site, took: begun.elapsed(), bound, outcome }
}

impl World {
    fn dials(&self) -> u32 {
        self.sites.iter().map(|site| site.log.lock().unwrap().dials).sum()
    }

    /// Whoever does not sleep and is well is used at once. It may have to wait for its turn.
    fn users(&self) -> Vec<tokio::task::JoinHandle<Used>> {
        let well =
            self.turns().into_iter().filter_map(|(site, turn)| Some((site, turn + site.plan.takes()?)));
        well.map(|(site, bound)| tokio::spawn(call(self.fleet.clone(), site.clone(), bound, PATIENCE)))
            .collect()
    }

    /// When those start that do so by themselves. A turn ends when it is known whether a server works, and with the
    /// window at the latest.
    fn turns(&self) -> Vec<(&Site, Duration)> {
        let mut free = vec![Duration::ZERO; self.parallel];
        let starting = self.sites.iter().filter(|site| !site.plan.lazy && site.plan.start != Start::Broken);
        let turns = starting.map(|site| {
            let place = free.iter_mut().min().expect("somebody starts");
            let turn = *place;
            *place += site.plan.decides().unwrap_or(WINDOW).min(WINDOW);
            (site, turn)
        });
        turns.collect()
    }

    /// How long it takes until it is known of everybody what it offers or that it does not work.
    fn settles(&self) -> Duration {
        let open = self.turns().into_iter().filter(|(site, _)| site.plan.known().is_none());
        let decided = open.map(|(site, turn)| turn + site.plan.decides().unwrap_or(WINDOW));
        decided.max().unwrap_or_default().min(WINDOW)
    }

    /// Those who sleep are woken by a call, and by nothing else.
    async fn wake(&mut self) {
        // By then everybody else has had its turn.
        sleep(WINDOW * u32::try_from(self.sites.len()).unwrap()).await;
        for site in self.sites.clone().into_iter().filter(|site| site.plan.lazy) {
            let health = self.fleet.upstream(&site.plan.name).unwrap().status().health;
            let (name, dials) = (site.plan.name.clone(), site.log.lock().unwrap().dials);
            let sleeps = (health, dials) == (Health::Asleep, 0);
            self.story.demand(sleeps, || format!("{name} was to sleep, and is {health} after {dials} dials"));
            self.story.meet("one that sleeps");
            let used = self.try_one(site).await;
            self.used(used);
        }
    }

    /// Calls a server that has had its turn.
    async fn try_one(&self, site: Site) -> Used {
        let up = self.fleet.upstream(&site.plan.name).unwrap().status().health.is_up();
        let (bound, patience) = match site.plan.takes() {
            Some(takes) => (if up { Duration::ZERO } else { takes }, PATIENCE),
            None => (Duration::from_secs(1), Duration::from_secs(1)),
        };
        call(self.fleet.clone(), site, bound, patience).await
    }

    fn used(&mut self, used: Used) {
        let Used { site, took, bound, outcome } = used;
        let (name, well) = (&site.plan.name, site.plan.takes().is_some());
        self.story.tell(format!("{name} {}: {outcome:?}", if well { "is well" } else { "is sick" }));
        self.story.demand(outcome.is_ok() == well, || format!("{name}: {outcome:?}, and {:?}", site.plan));
        self.story.demand(took <= bound + TICKS, || {
            format!("{name}: took {took:?}, not {bound:?}: {:?}", site.plan)
        });
        if bound > site.plan.takes().unwrap_or(bound) {
            self.story.meet("one that waits for its turn");
        }
    }

    /// Everything has come to rest: who is well is there, who is not hides nobody, and all of it was told.
    async fn rest(&mut self) {
        let end = Instant::now();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        let statuses = self.fleet.status();
        for (site, status) in self.sites.iter().zip(&statuses) {
            judge::site(&mut self.story, site, status, &events, end);
        }
        let due: Vec<_> = self.sites.iter().filter_map(judge::offered).collect();
        let listed = tools(&self.fleet);
        self.story.demand(listed == due, || format!("at rest {listed:?} is listed, not {due:?}"));
        for site in self.sites.clone() {
            let used = self.try_one(site).await;
            self.used(used);
        }
        self.fleet.close("the run is over").await;
        self.next_process(&due).await;
    }

    /// What was learnt is there at once for the next process, before anything is dialled; and calling starts what is called.
    async fn next_process(&mut self, due: &[String]) {
        let specs = self.sites.iter().map(|site| {
            let mut spec = site.spec();
            spec.lazy = spec.making.is_ok();
            spec
        });
        let before = self.dials();
        self.fleet = Fleet::start(
            specs.collect(),
            Options { parallel: self.parallel, cache: Some(self.cache.clone()) },
        );
        let start = Instant::now();
        self.fleet.settle(WINDOW).await;
        let (listed, waited) = (tools(&self.fleet), start.elapsed());
        self.story.demand(listed == due, || format!("the next process lists {listed:?}, not {due:?}"));
        self.story
            .demand(waited.is_zero(), || format!("the next process waits {waited:?} for those who sleep"));
        let well = self.sites.iter().find(|site| site.plan.takes().is_some()).cloned();
        self.story
            .demand(self.dials() == before, || "the next process dials before anything is called".into());
        if let Some(site) = well {
            let used = self.try_one(site).await;
            self.used(used);
            self.story.demand(self.dials() > before, || "a call started nothing".into());
            self.story.meet("one that a call starts in the next process");
        }
        self.fleet.close("the run is over").await;
    }
}

/// S0-78, S0-80, in simulation: whoever is sick hides none of the others, and each that is well is usable after its turn
/// and its own start; every transition is told; what is known from before is listed before anything is dialled, is never
/// that of another configuration, and is asked for anew when its time is over and not before; who sleeps is started by
/// its first call.
#[test]
fn s0_78_every_seed_keeps_the_rules() {
    story::every(300, AGAIN, run);
}

/// Runs in which nothing happens would keep every rule: S0-78 and S0-80 are met in all their cases.
#[test]
fn the_runs_are_eventful() {
    story::eventful(100, &judge::CASES, 10, run);
}

/// The same seed is the same run.
#[test]
fn a_seed_is_a_run() {
    story::same(30, run);
}
