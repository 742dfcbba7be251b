//! What a kept connection restores, in simulation: servers that die at any moment, also while things are being restored, and
//! come back as they were or with other tools; users who set levels, listen, leave, list and call meanwhile. Every choice
//! is drawn from one seed, bytes go through memory, and the clock moves only when everyone waits.
//!
//! Every line between the two is read on its way. From what users wanted before a link was made follows what must have
//! been said on it before the first call.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use cardan::client::{Answerers, Client, Listen, Managed, way};
use cardan::prelude::*;
use cardan::proto::era::{Era, Revisions};
use cardan::proto::limits::Limits;
use cardan::proto::model::LogLevel;
use cardan::proto::model::resource::ResourceContents;
use cardan::proto::model::roots::Root;
use cardan::proto::session::event::{CallOptions, Change, Event, Interest, Repeat};
use cardan::proto::upkeep::policy::{Backoff, Burst, Policy};
use cardan::runtime::lines::Lines;
use cardan_sim::rng::Rng;
use cardan_sim::story::{self, Story};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

const AGAIN: &str = "cargo test -p cardan --test restored every_seed";

/// Longer than anything here takes, and shorter than anyone waits.
const REST: Duration = Duration::from_secs(20);

/// In this time everyone has taken in what was said.
const MOMENT: Duration = Duration::from_millis(1);

/// What is drawn for one run.
struct Plan {
    era: Era,
    /// The links but the last, which lives on.
    lives: Vec<Life>,
    deeds: Vec<(Duration, Deed)>,
}

/// How a link ends.
#[derive(Debug, Clone, Copy)]
struct Life {
    end: End,
    /// Whether the server comes back with another tool.
    other: bool,
}

#[derive(Debug, Clone, Copy)]
enum End {
    After(Duration),
    /// Upon so many lines of ours, of which it has not read the last.
    Amid(u64),
}

/// What a user does.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Level(LogLevel),
    Listen(u64),
    Leave,
    List,
    Call,
    Roots(u64),
}

impl Plan {
    fn draw(era: Era, rng: &mut Rng) -> Self {
        let lives = (0..rng.within(1, 7)).map(|_| {
            let after = Duration::from_millis(rng.below(2_000));
            let end = if rng.percent(50) { End::After(after) } else { End::Amid(rng.within(1, 14)) };
            Life { end, other: rng.percent(40) }
        });
        let lives = lives.collect();
        let deeds = (0..rng.within(4, 40)).map(|_| {
            let deed = match rng.below(9) {
                0 => Deed::Level(rng.pick(&[LogLevel::Debug, LogLevel::Info, LogLevel::Error])),
                1 | 2 => Deed::Listen(rng.below(4)),
                3 => Deed::Leave,
                4 => Deed::List,
                5 => Deed::Roots(rng.below(100)),
                _ => Deed::Call,
            };
            (Duration::from_millis(rng.below(500)), deed)
        });
        Self { era, lives, deeds: deeds.collect() }
    }
}

/// What users wanted, what was said, and what became of it.
#[derive(Default)]
struct Truth {
    links: usize,
    /// The tools of the server there is, as a number.
    version: u64,
    /// The levels that were set, the last of which is in force.
    levels: Vec<LogLevel>,
    /// Who listens, by number and address.
    ears: BTreeMap<usize, String>,
    roots: Vec<String>,
    /// The session was open once, so its era is known.
    met: bool,
    /// The tools that were listed last.
    listed: Option<u64>,
    /// Changes that have to be announced, and that were.
    due: u64,
    announced: u64,
    last: Link,
    story: Story,
}

/// One link, as far as it was heard.
#[derive(Debug, Clone, Default)]
struct Link {
    number: usize,
    /// What was wanted when it was made.
    levels: usize,
    ears: BTreeMap<usize, String>,
    /// The one before died before it was open.
    doubtful: bool,
    opened: bool,
    /// What was said on it.
    lines: u64,
    level: Option<String>,
    addresses: BTreeSet<String>,
    /// Lists that were asked for.
    listings: BTreeSet<u64>,
}

impl Truth {
    fn dialled(&mut self, plan: &Plan) -> Link {
        self.links += 1;
        let before = self.links.checked_sub(2).and_then(|at| plan.lives.get(at));
        self.version += u64::from(before.is_some_and(|life| life.other));
        let (levels, ears, doubtful) = (self.levels.len(), self.ears.clone(), !self.last.opened);
        Link { number: self.links, levels, ears, doubtful, ..Link::default() }
    }

    /// What the client says.
    fn said(&mut self, era: Era, link: &mut Link, message: &Value) {
        link.lines += 1;
        let method = message["method"].as_str().unwrap_or_default();
        self.story.tell(format!("link {}: {method} {}", link.number, message["id"]));
        let foreign = match era {
            Era::Legacy => method == "server/discover",
            Era::Modern => method == "initialize",
        };
        // Who died at the question that it knew before may have become another.
        let forgotten = foreign && self.met && !link.doubtful;
        self.story.demand(!forgotten, || format!("link {}: the era was forgotten, {method}", link.number));
        link.opened |= !matches!(method, "server/discover" | "initialize");
        self.met |= link.opened;
        let params = &message["params"];
        match method {
            "logging/setLevel" => link.level = params["level"].as_str().map(str::to_owned),
            "resources/subscribe" => self.subscribed(link, &[params["uri"].clone()]),
            "resources/unsubscribe" => {
                link.addresses.remove(params["uri"].as_str().unwrap());
            }
            "subscriptions/listen" => {
                let wanted = params["notifications"]["resourceSubscriptions"].as_array();
                self.subscribed(link, wanted.map(Vec::as_slice).unwrap_or_default());
            }
            "tools/list" => drop(link.listings.insert(message["id"].as_u64().unwrap())),
            "tools/call" => {
                if era == Era::Modern {
                    let level = &params["_meta"]["io.modelcontextprotocol/logLevel"];
                    link.level = level.as_str().map(str::to_owned);
                }
                self.judge(link);
            }
            _ => {}
        }
        self.last = link.clone();
    }

    fn subscribed(&mut self, link: &mut Link, addresses: &[Value]) {
        for address in addresses.iter().map(|address| address.as_str().unwrap().to_owned()) {
            let wanted = self.ears.values().chain(link.ears.values()).any(|one| *one == address);
            self.story.demand(wanted, || format!("link {}: nobody listens to {address}", link.number));
            link.addresses.insert(address);
        }
    }

    /// S2-45: what was in force before this link was made is in force on it before a call is.
    fn judge(&mut self, link: &Link) {
        let (number, told) = (link.number, &link.level);
        // Another may have been set since; then either will do.
        let wanted = &self.levels[link.levels.saturating_sub(1)..];
        let right = link.levels == 0 || wanted.iter().any(|level| told.as_deref() == Some(level.name()));
        self.story.demand(right, || format!("link {number}: a call at level {told:?}, not {wanted:?}"));
        let mut standing = link.ears.iter().filter(|(ear, _)| self.ears.contains_key(*ear));
        let missing = standing.find(|(_, address)| !link.addresses.contains(*address));
        self.story.demand(missing.is_none(), || format!("link {number}: a call before {missing:?}"));
        if number > 1 {
            self.story.meet(match (link.levels, link.ears.len()) {
                (0, 0) => "a call on a later link",
                (_, 0) => "a level that is restored",
                _ => "a listen that is restored",
            });
        }
    }

    /// What the server says, and the client has taken in.
    fn answered(&mut self, link: &mut Link, message: &Value) {
        let Some(id) = message["id"].as_u64() else { return };
        if link.listings.remove(&id) && message.get("result").is_some() {
            let before = self.listed.replace(self.version);
            let differs = before.is_some_and(|before| before != self.version);
            self.due += u64::from(differs);
            if link.number > 1 && before.is_some() {
                self.story.meet(if differs { "a list that differs" } else { "a list that is the same" });
            }
        }
    }
}

#[derive(Clone)]
struct World {
    plan: Arc<Plan>,
    truth: Arc<Mutex<Truth>>,
    roots: Arc<RwLock<Vec<Root>>>,
}

impl World {
    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap()
    }

    fn keep(&self) -> Managed {
        let world = self.clone();
        let way = way(move || {
            let world = world.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                tokio::spawn(world.between(theirs));
                let (read, write) = tokio::io::split(ours);
                Ok::<_, Infallible>(Lines::new(read, write, &Limits::DEFAULT))
            }
        });
        let truth = Arc::clone(&self.truth);
        let connector =
            Client::builder("tests", "0").answer(Answerers::default().roots(Arc::clone(&self.roots)));
        let connector = connector.observe(move |event| {
            if let Event::Changed { change: Change::Tools, .. } = event {
                truth.lock().unwrap().announced += 1;
            }
        });
        // Nothing is drawn by others: no jitter, and attempts without end.
        let backoff = Backoff { min: Duration::ZERO, max: Duration::ZERO, attempts: u32::MAX };
        let burst = Burst { restarts: u32::MAX, within: Duration::ZERO };
        Managed::start(connector, way, Policy { backoff, burst, ..Policy::CHILD })
    }

    /// A server of its own for each link.
    fn server(&self, version: u64) -> Server {
        let revisions = if self.plan.era == Era::Legacy { Revisions::LEGACY } else { Revisions::MODERN };
        let mut builder = Server::builder("server", "1")
            .revisions(revisions)
            .logging()
            .tool("call", "does nothing", async |_: Value| "done")
            .tool(&format!("tool-{version}"), "is new", async |_: Value| "done")
            .tool("roots", "tells them", |cx: Cx| async move {
                let roots = cx.roots("r")?;
                Ok::<_, Stop>(roots.first().map(|root| root.uri.clone()).unwrap_or_default())
            });
        for n in 0..4 {
            let address = format!("x:{n}");
            let resource = Resource::new(&address, "one");
            builder = builder.resource(resource, move |_| {
                let address = address.clone();
                async move { Ok(vec![ResourceContents::text(&address, "1")]) }
            });
        }
        builder.build()
    }

    /// Stands between the two of one link, and ends it when it is time.
    async fn between(self, client: DuplexStream) {
        let (mut link, server) = {
            let mut truth = self.truth();
            let link = truth.dialled(&self.plan);
            truth.last = link.clone();
            let version = truth.version;
            (link, self.server(version))
        };
        let end = self.plan.lives.get(link.number - 1).map(|life| life.end);
        let (near, far) = tokio::io::duplex(1 << 16);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let (read, write) = tokio::io::split(far);
            server.serve(Lines::new(read, write, &Limits::DEFAULT)).await
        });
        let (from_client, mut to_client) = tokio::io::split(client);
        let (from_server, mut to_server) = tokio::io::split(near);
        let mut asked = BufReader::new(from_client).lines();
        let mut answered = BufReader::new(from_server).lines();
        let mut over = std::pin::pin!(async {
            match end {
                Some(End::After(life)) => sleep(life).await,
                _ => std::future::pending().await,
            }
        });
        loop {
            tokio::select! {
                biased;
                line = answered.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    if to_client.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                        return;
                    }
                    self.truth().answered(&mut link, &serde_json::from_str(&line).unwrap());
                }
                line = asked.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    self.truth().said(self.plan.era, &mut link, &serde_json::from_str(&line).unwrap());
                    if matches!(end, Some(End::Amid(lines)) if lines == link.lines) {
                        break;
                    }
                    to_server.write_all(format!("{line}\n").as_bytes()).await.unwrap();
                }
                () = &mut over => break,
            }
        }
        // What was answered is taken in before the end is.
        sleep(MOMENT).await;
        self.truth().story.meet(match end {
            Some(End::Amid(_)) => "a death amid what is said",
            _ => "a death in peace",
        });
    }

    /// One user, who does one thing after another.
    async fn live(&self, managed: &Managed) {
        let mut ears: Vec<(usize, Listen)> = Vec::new();
        let mut calls = JoinSet::new();
        for (at, (wait, deed)) in self.plan.deeds.iter().enumerate() {
            sleep(*wait).await;
            self.truth().story.tell(format!("{deed:?}"));
            match *deed {
                Deed::Level(level) => {
                    managed.set_level(level);
                    self.truth().levels.push(level);
                }
                Deed::Listen(n) => {
                    let address = format!("x:{n}");
                    let uris = vec![address.as_str().into()];
                    ears.push((at, managed.listen(Interest { uris, ..Interest::default() })));
                    self.truth().ears.insert(at, address);
                }
                Deed::Leave => {
                    if let Some((ear, listen)) = ears.pop() {
                        drop(listen);
                        self.truth().ears.remove(&ear);
                    }
                }
                Deed::Roots(n) => {
                    let uri = format!("file:///{n}");
                    self.truth().roots.push(uri.clone());
                    *self.roots.write().unwrap() = vec![Root { uri, ..Root::default() }];
                    managed.roots_changed();
                    calls.spawn(self.clone().ask_roots(managed.clone()));
                }
                Deed::List => {
                    let managed = managed.clone();
                    calls.spawn(async move { drop(managed.all_tools().await) });
                }
                Deed::Call => {
                    let options = CallOptions { repeat: Repeat::Always, ..CallOptions::default() };
                    let call = managed.call_tool_with("call", &json!({}), options).unwrap();
                    calls.spawn(async move { drop(call.await) });
                }
            }
        }
        sleep(REST).await;
        while let Some(call) = calls.join_next().await {
            call.unwrap();
        }
        self.judge_end(&ears);
    }

    /// S2-45: whichever link it is, the server that asks is told the roots of the moment.
    async fn ask_roots(self, managed: Managed) {
        let before = self.truth().roots.len() - 1;
        let options = CallOptions { repeat: Repeat::Always, ..CallOptions::default() };
        let Ok(told) = managed.call_tool_with("roots", &json!({}), options).unwrap().await else { return };
        let told = told.content.first().and_then(|content| content.as_text()).unwrap_or_default().to_owned();
        let truth = &mut *self.truth();
        let known = truth.roots[before..].contains(&told);
        truth
            .story
            .demand(known, || format!("told the roots {told:?}, not one of {:?}", &truth.roots[before..]));
        truth.story.meet("roots that are told");
    }

    /// All is quiet, and a link is up: everything that is wanted is in force on it.
    fn judge_end(&self, ears: &[(usize, Listen)]) {
        let truth = &mut *self.truth();
        let (due, announced, listed, version) = (truth.due, truth.announced, truth.listed, truth.version);
        let story = &mut truth.story;
        story.demand(announced == due, || format!("{announced} changes announced, not {due}"));
        story.demand(listed.is_none_or(|listed| listed == version), || {
            format!("tools are known as {listed:?}, and are {version}")
        });
        let missing = truth.ears.values().find(|address| !truth.last.addresses.contains(*address));
        story.demand(missing.is_none(), || format!("{missing:?} is not listened to in the end"));
        story.demand(ears.len() == truth.ears.len(), || "a listen was forgotten".into());
        let level = truth.levels.last().map(|level| level.name());
        if self.plan.era == Era::Legacy {
            let told = truth.last.level.as_deref();
            story.demand(told == level, || format!("the level is {told:?} in the end, not {level:?}"));
        }
    }
}

fn run_as(era: Era, seed: u64) -> Story {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let plan = Arc::new(Plan::draw(era, &mut Rng::seeded(seed)));
    runtime.block_on(async {
        let world = World { plan, truth: Arc::default(), roots: Arc::default() };
        let managed = world.keep();
        world.live(&managed).await;
        managed.close("done").await;
        std::mem::take(&mut world.truth().story)
    })
}

fn run(seed: u64) -> Story {
    run_as(if seed.is_multiple_of(2) { Era::Modern } else { Era::Legacy }, seed)
}

/// S2-45, S0-8, S0-75, in simulation: after every loss, and however often restoring itself is cut short, the level and the
/// listens are told before a call is, the era is not asked for again, roots are those of the moment, and that lists are
/// others is announced exactly where they are.
#[test]
fn s2_45_every_seed_restores_what_was_in_force() {
    story::every(2000, AGAIN, run);
}

/// Runs in which nothing happens would keep every rule: S2-45 is met in all its cases, in both eras.
#[test]
fn the_runs_are_eventful() {
    let cases = [
        "a call on a later link",
        "a level that is restored",
        "a listen that is restored",
        "a list that differs",
        "a list that is the same",
        "roots that are told",
        "a death amid what is said",
        "a death in peace",
    ];
    for era in [Era::Legacy, Era::Modern] {
        story::eventful(100, &cases, 10, |seed| run_as(era, seed));
    }
}

/// The same seed is the same run.
#[test]
fn a_seed_is_a_run() {
    story::same(40, run);
}
