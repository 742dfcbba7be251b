//! One server behind another link: any client, whatever era either side speaks.
//!
//! ```text
//!   legacy client ──▶ Guest ──▶ a Line of its own ───────────▶ upstream
//!   modern call ────▶ Pool ───▶ a Line that is shared, ──────▶ upstream
//!                               or held alone while it may be asked or told something
//! ```
//!
//! * Payloads pass as raw bytes; the sessions on either side dress the envelopes.
//! * A legacy client has an upstream session of its own (`guest`): what belongs to no call, log notes and asks
//!   among it, can concern nobody else.
//! * Modern calls share lines (`pool`). A call that may be asked by a legacy upstream, or that wants log notes, holds
//!   a line alone: whatever comes by it belongs to that call. One that was given up leaves a line on which nobody is
//!   told anything any more, since late words may still come.
//! * A legacy upstream that asks a modern call parks it (`park`): the client gets `input_required`, its retry goes on.

mod greeting;
mod guest;
mod line;
mod modern;
mod park;
mod pool;
mod side;
mod terms;
mod voice;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{CallError, Managed};
use cardan_proto::era::Era;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::Config;
use cardan_proto::session::event::Cause;
use cardan_runtime::driver::Driver;
use cardan_runtime::link::Link;
use cardan_runtime::peer::Peer;
use cardan_runtime::service::Host;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::park::Park;
use self::pool::Pool;
pub use self::side::Side;
use crate::fleet::Making;
use crate::fleet::lock;

/// How a relay is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Lines that modern calls share or hold. One more call that needs a line alone waits, then fails as busy.
    pub lines: usize,
    /// Legacy clients, each with a line of its own. Calls of one more fail as busy.
    pub guests: usize,
    /// Modern calls that wait for their client's answers. One more is given up.
    pub parked: usize,
    /// Whom the lines lead to.
    pub behind: Behind,
    /// How long the first session with the upstream may take.
    pub opening: Duration,
    /// Bounds of the sessions with clients.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lines: 64,   // each may be a process
            guests: 512, // likewise
            parked: 64,  // each holds a line
            behind: Behind::Many,
            opening: Duration::from_secs(120), // a package may have to be fetched first
            limits: Limits::DEFAULT,
        }
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

/// A server that stands for another one. Cheap to clone; serves any number of links at once.
#[derive(Clone)]
pub struct Relay(Arc<Core>);

/// What all links share.
pub(crate) struct Core {
    making: Making,
    /// What the upstream spoke when it was first met.
    era: Era,
    config: Arc<Config>,
    pool: Arc<Pool>,
    park: Arc<Park>,
    seats: Arc<Semaphore>,
    links: Mutex<Vec<Peer>>,
    farewells: Arc<Farewells>,
    options: Options,
}

impl Relay {
    /// Meets the upstream, so that clients see what it is. Fails when it cannot be met in time.
    pub async fn start(making: Making, options: Options) -> Result<Self, CallError> {
        let farewells = Arc::new(Farewells::default());
        let pool = Pool::start(making.clone(), &options, Arc::clone(&farewells));
        let settled = pool.meet(options.opening).await?;
        Ok(Self(Arc::new(Core {
            making,
            era: settled.revision.era(),
            config: Arc::new(greeting::config(&settled, &options.limits)),
            park: Arc::new(Park::new(options.parked, options.limits.request_state_ttl)),
            seats: Arc::new(Semaphore::new(options.guests)),
            pool,
            links: Mutex::default(),
            farewells,
            options,
        })))
    }

    /// Serves one link to its end, and tells why it ended.
    pub async fn serve<L: Link + Unpin>(&self, link: L) -> Cause {
        let (driver, peer) = Driver::new(link, self.service(None), Arc::clone(self.config(None)));
        self.joined(peer, None);
        driver.await
    }

    /// Leaves the upstream, politely, once no link is served any more.
    pub async fn end(&self, reason: &'static str) {
        self.close(reason);
        self.0.park.clear();
        self.0.pool.close(reason).await;
        self.0.farewells.said().await;
    }

    /// How many sessions with the upstream modern calls keep, and how many calls are parked.
    #[must_use]
    pub fn census(&self) -> (usize, usize) {
        (self.0.pool.lines(), self.0.park.len())
    }
}

impl Host for Relay {
    type Service = Side;

    fn config(&self, _principal: Option<&Arc<str>>) -> &Arc<Config> {
        &self.0.config
    }

    fn service(&self, principal: Option<&Arc<str>>) -> Arc<Side> {
        Arc::new(Side::new(Arc::clone(&self.0), principal.cloned()))
    }

    fn joined(&self, peer: Peer, _principal: Option<&Arc<str>>) {
        let mut links = lock(&self.0.links);
        // Swept when the list would grow, so that joining stays cheap however many links there are.
        if links.len() == links.capacity() {
            links.retain(|peer| !peer.is_closed());
            let live = links.len();
            links.reserve(live.max(16));
        }
        links.push(peer);
    }

    fn close(&self, reason: &'static str) {
        for peer in lock(&self.0.links).drain(..) {
            peer.close(reason);
        }
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("era", &self.0.era).finish_non_exhaustive()
    }
}

/// Connections that are being left. Whoever leaves has no time to wait for it.
#[derive(Debug, Default)]
struct Farewells(Mutex<JoinSet<()>>);

impl Farewells {
    /// Leaves a connection; without a runtime it ends at once.
    fn say(&self, managed: Managed, reason: &'static str) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let mut leaving = lock(&self.0);
        while leaving.try_join_next().is_some() {}
        leaving.spawn(async move { managed.close(reason).await });
    }

    /// Waits until all are left.
    async fn said(&self) {
        let mut leaving = std::mem::take(&mut *lock(&self.0));
        while leaving.join_next().await.is_some() {}
    }
}
