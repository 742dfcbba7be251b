//! One server behind another link: any client, whatever era either side speaks.
//!
//! ```text
//!   legacy client ──▶ Guest ──▶ a Line of its own ───────────▶ upstream
//!     that shares ──▶ Visitor ─┐
//!   modern call ───────────────┴▶ Pool ▶ a Line that is shared, ▶ upstream
//!                               or held alone while it may be asked or told something
//! ```
//!
//! * Payloads pass as raw bytes; the sessions on either side dress the envelopes.
//! * A legacy client has an upstream session of its own (`guest`): what belongs to no call, log notes and asks
//!   among it, can concern nobody else. Where it is said that sessions are shared (`Isolation`), its calls go the way
//!   of modern ones (`visitor`), and it is told what belongs to them.
//! * Modern calls share lines (`pool`). A call that may be asked by a legacy upstream, or that wants log notes, holds
//!   a line alone: whatever comes by it belongs to that call. One that was given up, or not answered in time, leaves a line on
//!   which nobody is told anything any more, since late words may still come.
//! * A legacy upstream that asks a modern call parks it (`park`): the client gets `input_required`, its retry goes on. One that
//!   wants addresses visited first has ended the call: the client is asked to visit them, and its retry is a new call (`detour`).

mod askable;
mod detour;
mod explain;
mod greeting;
mod guest;
mod held;
mod line;
mod loan;
mod mirrored;
mod modern;
mod names;
mod park;
mod pool;
mod replaced;
mod reserve;
mod running;
mod seal;
mod shelf;
mod side;
mod tasks;
mod terms;
mod vet;
mod visitor;
mod voice;
mod wants;
mod who;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{CallError, Managed, Settled};
use cardan_proto::dialect::Dialect;
use cardan_proto::era::Era;
use cardan_proto::finding::Finding;
use cardan_proto::http::param::Mirrors;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::secret::Redactor;
use cardan_proto::session::config::Config;
use cardan_proto::session::event::{Called, Cause};
use cardan_proto::task::{Design, cross};
use cardan_runtime::driver::Driver;
use cardan_runtime::link::Link;
use cardan_runtime::links::Links;
use cardan_runtime::peer::Peer;
use cardan_runtime::service::{Host, StrayHeaders};
use cardan_runtime::unfinished::Unfinished;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

pub(crate) use self::askable::Askable;
pub use self::explain::Explain;
use self::explain::LastFound;
pub(crate) use self::greeting::config;
pub(crate) use self::held::Held;
use self::line::Line;
pub use self::loan::Loan;
use self::mirrored::Mirrored;
pub(crate) use self::modern::Ear;
pub(crate) use self::names::Names;
use self::park::Park;
use self::pool::Pool;
use self::reserve::Reserve;
pub use self::seal::Seal;
pub(crate) use self::shelf::{OnTurn, Sharers, Shelf, Turned};
pub use self::side::Side;
pub(crate) use self::tasks::Ledger;
use self::tasks::Tasks;
use self::vet::Leave;
pub(crate) use self::vet::{Bar, Barred, Vet};
pub(crate) use self::who::Who;
use crate::fleet::{Health, Making, lock};
use crate::latest::Latest;
use crate::trace::Tracer;

/// How a relay is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Lines that modern calls share or hold. One more call that needs a line alone waits, then fails as busy.
    pub lines: usize,
    /// Legacy clients, each with a line of its own. Calls of one more fail as busy.
    pub guests: usize,
    /// Modern calls that wait for their client's answers. One more is given up. Nobody has more than half of the places, and those
    /// without a name count as one.
    pub parked: usize,
    /// Whom the lines lead to.
    pub behind: Behind,
    /// Who shares sessions with the upstream.
    pub isolation: Isolation,
    /// What the upstream is called in what is told of it, and before the names of its tasks; nothing: it is the
    /// only one.
    pub name: Option<Arc<str>>,
    /// What is not to be told to clients of whatever the upstream or its connection says of a call that failed.
    pub secrets: Redactor,
    /// How long the upstream may be silent about a call; none: as long as the client waits.
    pub call_timeout: Option<Duration>,
    /// How long the first session with the upstream may take.
    pub opening: Duration,
    /// How long a call waits for a session that was lost; none: as long as `limits` let a call be silent.
    pub grace: Option<Duration>,
    /// What clients are told beside the words when a call brings no reply; none: nothing.
    pub explain: Option<Explain>,
    /// Makes calls parts of traces; none: nobody follows them, or whoever stands before the relay does it.
    pub trace: Option<Arc<Tracer>>,
    /// The foreign wire form that clients speak.
    pub dialect: Dialect,
    /// Bounds of the sessions with clients.
    pub limits: Limits,
    /// Counts the calls that wait for their client's answers, with those of other relays that have the same.
    pub unfinished: Unfinished,
    /// Seals what clients hold while they are asked, alike for all relays that have the same.
    pub seal: Seal,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lines: 64,   // each may be a process
            guests: 512, // likewise
            parked: 64,  // each holds a line
            behind: Behind::Many,
            isolation: Isolation::Client,
            name: None,
            secrets: Redactor::default(),
            call_timeout: None,
            opening: Duration::from_secs(120), // a package may have to be fetched first
            grace: None,
            explain: None,
            trace: None,
            dialect: Dialect::Standard,
            limits: Limits::DEFAULT,
            unfinished: Unfinished::default(),
            seal: Seal::default(),
        }
    }
}

impl Options {
    /// How long a session is waited for that was lost.
    fn grace(&self) -> Duration {
        self.grace.unwrap_or(self.limits.call_idle_timeout)
    }
}

/// Whom the lines of a relay lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Behind {
    /// Each to a server of its own, such as a child: what changes by one line is told by that line alone.
    #[default]
    Many,
    /// All to the same server.
    One,
}

/// Who shares sessions with an upstream. A call that may be asked something, or that wants log notes, has one to itself
/// while it runs, whoever else shares it before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// All clients.
    Shared,
    /// Those of the same principal; those that have none.
    Principal,
    /// No legacy client with any other; modern calls, which stand alone, with each other.
    #[default]
    Client,
    /// No call with any other: each has a session that is left when it ends.
    Call,
}

/// To whom someone's own connection to an upstream is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lend {
    /// To calls that need nothing of their own.
    #[default]
    Always,
    /// The same, but where the upstream is legacy only to those who can be asked what it was told of there.
    Modern,
}

/// A server that stands for another one. Cheap to clone; serves any number of links at once.
#[derive(Clone)]
pub struct Relay(Arc<Core>);

/// What all links share.
pub(crate) struct Core {
    making: Making,
    /// The connection by which the upstream was met, which is kept until the end.
    first: Managed,
    met: Latest<Met>,
    who: Who,
    names: Names,
    pool: Arc<Pool>,
    /// Of principals that share with nobody else.
    pools: Mutex<HashMap<Arc<str>, Arc<Pool>>>,
    park: Arc<Park>,
    tasks: Arc<Tasks>,
    reserve: Arc<Reserve>,
    /// Counts the calls that run and may yet be asked something, and those that wait for a retry.
    pending: Unfinished,
    mirrored: Mirrored,
    seats: Arc<Semaphore>,
    links: Links,
    farewells: Arc<Farewells>,
    options: Options,
    found: LastFound,
    /// Looks whether the upstream says something else of itself after a loss.
    watching: Mutex<Option<AbortHandle>>,
    /// Who wants to know what is offered by lines that are shared.
    on_turn: Option<OnTurn>,
    /// Judges tools before they are called; none: nobody does.
    vet: Option<Vet>,
}

/// What the upstream said of itself when it was met last.
struct Met {
    era: Era,
    greeting: Option<Bytes>,
    config: Arc<Config>,
    /// How it runs tools as tasks; none: it does not.
    design: Option<Design>,
}

impl Met {
    fn of(settled: &Settled, options: &Options) -> Self {
        let mut config = config(settled, &options.limits);
        config.dialect = options.dialect;
        let config = Arc::new(config);
        let design = cross::offered(settled.revision, &config.capabilities);
        Self { era: settled.revision.era(), greeting: settled.greeting.clone(), config, design }
    }
}

impl Core {
    fn era(&self) -> Era {
        self.met.get().era
    }

    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.met.get().config)
    }

    fn design(&self) -> Option<Design> {
        self.met.get().design
    }

    /// The lines by which someone's calls go.
    fn pool(&self, principal: Option<&Arc<str>>) -> Arc<Pool> {
        match (self.options.isolation, principal) {
            (Isolation::Principal, Some(principal)) => {
                let mut pools = lock(&self.pools);
                let made = || {
                    let farewells = Arc::clone(&self.farewells);
                    let pool = Pool::start(self.making.clone(), None, &self.options, farewells);
                    pool.beside(self.doubted());
                    if let Some(on_turn) = &self.on_turn {
                        pool.tell(Some(Arc::clone(principal)), Arc::clone(on_turn));
                    }
                    pool
                };
                Arc::clone(pools.entry(Arc::clone(principal)).or_insert_with(made))
            }
            _ => Arc::clone(&self.pool),
        }
    }

    /// What is looked after when a line is lost: the connection by which health is told, where that leads to the same
    /// server. One probe settles it, however many lines were lost.
    fn doubted(&self) -> Option<Managed> {
        (self.options.behind == Behind::One).then(|| self.first.clone())
    }

    fn pools(&self) -> Vec<Arc<Pool>> {
        let own: Vec<_> = lock(&self.pools).values().cloned().collect();
        std::iter::once(Arc::clone(&self.pool)).chain(own).collect()
    }

    /// May this call go by a line, right now?
    async fn vet(&self, line: &Line, called: &Called, bar: &Bar) -> Result<Leave, Fault> {
        match &self.vet {
            None => Ok(Leave::Any),
            Some(vet) => vet.admit(line, called, bar).await,
        }
    }

    /// The upstream was met again. Sessions to come are told what it says now.
    fn meet(&self, settled: &Settled) {
        let met = self.met.get();
        if met.era != settled.revision.era() || met.greeting != settled.greeting {
            self.met.put(Met::of(settled, &self.options));
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(watching) = lock(&self.watching).take() {
            watching.abort();
        }
    }
}

impl Relay {
    /// Meets the upstream, so that clients see what it is. Fails when it cannot be met in time.
    pub async fn start(making: Making, options: Options) -> Result<Self, CallError> {
        let farewells = Arc::new(Farewells::default());
        let pool = Pool::start(making.clone(), None, &options, Arc::clone(&farewells));
        let settled = pool.meet(options.opening).await?;
        let ledger = Ledger::new(&options.limits);
        Ok(Self::of(making, (None, None, None), pool, farewells, &settled, (options, ledger)))
    }

    /// A relay to an upstream that someone else keeps a connection to, which has settled so. Where they lend it, it is the
    /// first line. Who made which task there is known from before. `on_turn` is told what becomes of what is offered by
    /// lines that are shared, and `vet` judges tools before they are called.
    pub(crate) fn beside(
        met: &Managed,
        (lend, loan): (Lend, Option<&Loan>),
        settled: &Settled,
        making: Making,
        (options, ledger): (Options, Arc<Ledger>),
        (on_turn, vet): (Option<OnTurn>, Option<Vet>),
    ) -> Self {
        let farewells = Arc::new(Farewells::default());
        let lent = match (lend, settled.revision.era()) {
            (Lend::Always, _) | (Lend::Modern, Era::Modern) => Some((met.clone(), None)),
            (Lend::Modern, Era::Legacy) => loan.map(|loan| (met.clone(), Some(loan.clone()))),
        };
        let pool = Pool::start(making.clone(), lent, &options, Arc::clone(&farewells));
        if let Some(on_turn) = &on_turn {
            pool.tell(None, Arc::clone(on_turn));
        }
        Self::of(making, (Some(met.clone()), on_turn, vet), pool, farewells, settled, (options, ledger))
    }

    fn of(
        making: Making,
        (met, on_turn, vet): (Option<Managed>, Option<OnTurn>, Option<Vet>),
        pool: Arc<Pool>,
        farewells: Arc<Farewells>,
        settled: &Settled,
        (options, ledger): (Options, Arc<Ledger>),
    ) -> Self {
        let first = met.unwrap_or_else(|| pool.first());
        let who = Who::server(options.name.as_deref(), options.secrets.clone());
        let names = Names::of(options.name.as_deref());
        let pending = Unfinished::default();
        let core = Arc::new(Core {
            making,
            first: first.clone(),
            met: Latest::new(Met::of(settled, &options)),
            tasks: Tasks::new(ledger, names.clone(), who.clone()),
            who,
            names,
            park: Arc::new(Park::new(
                options.seal.clone(),
                options.parked,
                options.limits.request_state_ttl,
                options.unfinished.clone(),
            )),
            reserve: Reserve::new(
                options.parked.min(options.lines / 2).max(1),
                options.limits.request_state_ttl,
                (options.unfinished.clone(), pending.clone()),
            ),
            pending,
            mirrored: Mirrored::new(options.limits.tools_remembered),
            seats: Arc::new(Semaphore::new(options.guests)),
            pool,
            pools: Mutex::default(),
            links: Links::default(),
            farewells,
            options,
            found: LastFound::default(),
            watching: Mutex::default(),
            on_turn,
            vet,
        });
        core.pool.beside(core.doubted());
        let watching = tokio::spawn(watch(first, Arc::downgrade(&core))).abort_handle();
        *lock(&core.watching) = Some(watching);
        Self(core)
    }

    /// Does a call come back that has been running here all the while?
    pub(crate) fn is_going_on(&self, called: &Called) -> bool {
        modern::goes_on(&self.0, called)
    }

    /// Serves one link to its end, and tells why it ended.
    pub async fn serve<L: Link + Unpin>(&self, link: L) -> Cause {
        let (driver, peer) = Driver::new(link, self.service(None), self.config(None));
        self.joined(peer, None);
        driver.await
    }

    /// Leaves the upstream, politely, once no link is served any more.
    pub async fn end(&self, reason: &'static str) {
        self.close(reason);
        self.0.park.clear();
        self.0.reserve.clear();
        for pool in self.0.pools() {
            pool.close(reason).await;
        }
        self.0.farewells.said().await;
    }

    /// How the upstream stands, by the connection it was met by, and why there was none last, without its secrets.
    #[must_use]
    pub fn standing(&self) -> (Health, Option<String>) {
        let (condition, cause) = self.0.first.standing();
        let secrets = &self.0.options.secrets;
        // None in its parts, and none that the parts make together.
        let told = |cause: Cause| secrets.redact(&cause.redacted(secrets).to_string()).into_owned();
        (Health::Kept(condition), cause.map(told))
    }

    /// What the upstream's process by which the last call went said last on stderr, without its secrets.
    #[must_use]
    pub fn last_words(&self) -> String {
        let latest = self.0.pools().iter().filter_map(|pool| pool.latest()).max_by_key(|(idle, _)| *idle);
        let said = latest.map(|(_, managed)| managed.report().stderr).unwrap_or_default();
        self.0.options.secrets.redact(&said).into_owned()
    }

    /// What the upstream did wrong during the call that ended last, unless that was told, here or there; nothing where failures
    /// are not explained.
    #[must_use]
    pub fn last_found(&self) -> Vec<Finding> {
        std::mem::take(&mut *lock(&self.0.found))
    }

    /// How many sessions with the upstream are kept for calls that share them, and how many calls are parked.
    #[must_use]
    pub fn census(&self) -> (usize, usize) {
        (self.0.pools().iter().map(|pool| pool.lines()).sum(), self.0.park.len())
    }
}

impl Host for Relay {
    type Service = Side;

    fn config(&self, _principal: Option<&Arc<str>>) -> Arc<Config> {
        self.0.config()
    }

    fn service(&self, principal: Option<&Arc<str>>) -> Arc<Side> {
        Arc::new(Side::new(Arc::clone(&self.0), principal.cloned()))
    }

    fn joined(&self, peer: Peer, _principal: Option<&Arc<str>>) {
        self.0.links.join(peer, ());
    }

    fn close(&self, reason: &'static str) {
        self.0.links.close(reason);
    }

    fn unfinished(&self) -> Unfinished {
        self.0.options.unfinished.clone()
    }

    fn mirrors(&self, tool: &str, _principal: Option<&Arc<str>>) -> Option<Arc<Mirrors>> {
        self.0.mirrored.of(tool)
    }

    fn strays(&self) -> StrayHeaders {
        match self.0.era() {
            Era::Modern => StrayHeaders::Passed,
            Era::Legacy => StrayHeaders::Ignored,
        }
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("era", &self.0.era()).finish_non_exhaustive()
    }
}

/// Looks at what the upstream says of itself whenever calls flow anew.
async fn watch(first: Managed, core: Weak<Core>) {
    let mut transitions = first.transitions();
    while let Some(transition) = transitions.next().await {
        let Some(core) = core.upgrade() else { return };
        if transition.to.is_up()
            && let Some(settled) = first.settled()
        {
            core.meet(&settled);
        }
    }
}

/// Connections that are being left. Whoever leaves has no time to wait for it.
#[derive(Debug, Default)]
struct Farewells(Mutex<JoinSet<()>>);

impl Farewells {
    /// Leaves a connection; without a runtime it ends at once.
    fn say(&self, managed: Managed, reason: &'static str) {
        self.say_with(managed, reason, ());
    }

    /// The same, with something that is dropped once it is left.
    fn say_with(&self, managed: Managed, reason: &'static str, until: impl Send + 'static) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let mut leaving = lock(&self.0);
        while leaving.try_join_next().is_some() {}
        leaving.spawn(async move {
            managed.close(reason).await;
            drop(until);
        });
    }

    /// Waits until all are left.
    async fn said(&self) {
        let mut leaving = std::mem::take(&mut *lock(&self.0));
        while leaving.join_next().await.is_some() {}
    }
}
