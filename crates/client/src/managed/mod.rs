//! A connection that is kept: one link after another, and calls that do not care which.
//!
//! * [`Managed`]: the handle.
//! * [`Way`]: how a link is made.
//! * [`Policy`](cardan_proto::upkeep::policy::Policy): how often, how long, and when to stop.
//!
//! The decisions are those of [`Upkeep`](cardan_proto::upkeep::Upkeep), a value; the task here only does what
//! it says. A call does not pass through that task: it goes to the link there is, as without upkeep.

pub(crate) mod bell;
mod board;
mod catalog;
pub(crate) mod ear;
mod hearing;
mod keeper;
pub(crate) mod kept;
mod overhear;
pub(crate) mod resend;
mod way;

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::{ControlFlow, Deref};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_proto::finding::Finding;
use cardan_proto::session::event::{Cause, Event};
use cardan_proto::upkeep::Input;
use cardan_proto::upkeep::condition::{Condition, Transition};
use cardan_proto::upkeep::policy::Policy;
use tokio::task::JoinHandle;

pub use board::Watcher;
pub use way::{Reaching, Unreached, Way, way};

use self::keeper::Keeper;
use self::kept::{Kept, lock, unconnected};
use crate::cache::Cache;
use crate::caller::{Caller, Reach};
use crate::client::ServerInfo;
use crate::connect::Connector;
use crate::error::{CallError, Settled};

/// A connection that is made again whenever it is lost. Cheap to clone; when the last one is dropped, the link
/// ends at once. [`Managed::close`] does so politely.
///
/// What it can call is said by [`Caller`]. While there is no link, calls wait for one within their deadlines, or
/// fail at once, as the policy says. A call whose link is lost is sent again if it was never sent, or, once, if
/// that does no harm; otherwise it ends as lost and says that it may have been executed.
#[derive(Debug, Clone)]
pub struct Managed {
    owner: Arc<Owner>,
}

/// Owns the task.
#[derive(Debug)]
struct Owner {
    kept: Arc<Kept>,
    caller: Arc<Caller>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Managed {
    /// Begins to keep a connection to the server at the end of `way`. Returns at once; needs a tokio runtime.
    #[must_use]
    pub fn start(connector: Connector, way: Arc<dyn Way>, policy: Policy) -> Self {
        let connector = connector.with_memory();
        let (config, answerers, observer, logs) = connector.parts();
        let cache = Arc::new(Cache::new(config.limits.cache_entries));
        // Jitter needs to differ between processes, and no more than that.
        let seed = RandomState::new().build_hasher().finish();
        let kept = Arc::new(Kept::new(policy, &config.limits, Arc::clone(&cache), observer, logs, seed));
        let caller = Arc::new(Caller::new(Reach::Kept(Arc::clone(&kept)), cache, config, answerers));
        let keeper = Keeper::new(Arc::clone(&kept), Arc::clone(&caller), connector, way);
        let task = Mutex::new(Some(tokio::spawn(keeper.run())));
        Self { owner: Arc::new(Owner { kept, caller, task }) }
    }

    /// How the connection stands.
    #[must_use]
    pub fn condition(&self) -> Condition {
        self.owner.kept.present().borrow().condition
    }

    /// How the connection stands, and why there was no link last, as of one moment.
    #[must_use]
    pub fn standing(&self) -> (Condition, Option<Cause>) {
        self.owner.kept.standing()
    }

    /// Waits until calls flow, at most for so long. Fails at once where nothing is tried any more.
    pub async fn ready(&self, within: Duration) -> Result<Settled, CallError> {
        let kept = &self.owner.kept;
        let cause = match tokio::time::timeout(within, kept.reachable()).await {
            Ok(Ok(settled)) => return Ok(settled),
            Ok(Err(cause)) => cause,
            Err(_) => kept.last_cause().or(Some(Cause::OpenTimeout)),
        };
        Err(unconnected(cause, || kept.report()))
    }

    /// What the last session settled on; nothing: there was none yet.
    #[must_use]
    pub fn settled(&self) -> Option<Settled> {
        self.owner.kept.present().borrow().settled.clone()
    }

    /// How many sessions there have been. What is known from another one is known of another server, as far as anyone can tell.
    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.owner.kept.present().borrow().sessions
    }

    /// What the server said of itself last.
    #[must_use]
    pub fn server(&self) -> Option<ServerInfo> {
        self.settled().as_ref().map(ServerInfo::of)
    }

    /// Every change of condition: the last ones, then those to come.
    #[must_use]
    pub fn transitions(&self) -> Watcher<Transition> {
        self.owner.kept.transitions()
    }

    /// What the server tells unasked, whichever link it comes by: changes, log notes (see [`Logs`](crate::Logs)) and other
    /// notes; the last ones, then those to come.
    #[must_use]
    pub fn notes(&self) -> Watcher<Event> {
        self.owner.kept.notes()
    }

    /// Hears log notes where they come in, in their order among progress and asks, whichever link they come by, until it
    /// wants no more. Must not block.
    pub fn overhear(&self, hears: impl Fn(&Event) -> ControlFlow<()> + Send + Sync + 'static) {
        self.owner.kept.overhearers.join(hears);
    }

    /// What the server does wrong from now on, whichever link it comes by.
    #[must_use]
    pub fn findings(&self) -> Watcher<Finding> {
        self.owner.kept.findings()
    }

    /// Makes a new link now, whatever was tried before. One that lives is replaced.
    pub fn reconnect(&self) {
        self.owner.kept.feed(Input::Connect);
    }

    /// Makes an attempt now if there is no link, whatever was tried before. One that lives is left alone, and what was
    /// closed stays so.
    pub fn retry(&self) {
        self.owner.kept.feed(Input::Retry);
    }

    /// Says that someone has use for it. Where it is suspended, one attempt is made, though not more often than after the
    /// longest wait of its policy; otherwise nothing happens.
    pub fn want(&self) {
        self.owner.kept.feed(Input::Wanted);
    }

    /// Says that something failed elsewhere that may have this server's end for its cause. The link there is is looked
    /// after, once for all who say so meanwhile; one that is well stays as it is.
    pub fn doubt(&self) {
        self.owner.kept.doubt_current();
    }

    /// Keeps the connection by other numbers from now on, without touching the link there is. One that waits for its
    /// next attempt makes it now.
    pub fn adopt(&self, policy: Policy) {
        self.owner.kept.adopt(policy);
    }

    /// Lets what runs finish, ends the link and keeps none any more. Returns when nothing is left of it.
    pub async fn close(&self, reason: impl Into<Cow<'static, str>>) {
        let kept = &self.owner.kept;
        kept.feed(Input::Close { reason: reason.into() });
        // The first who closes waits for the task itself, others for its last word.
        let task = lock(&self.owner.task).take();
        match task {
            Some(task) => drop(task.await),
            None => drop(kept.present().wait_for(|present| present.condition == Condition::CLOSED).await),
        }
    }
}

impl Deref for Managed {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.owner.caller
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}
