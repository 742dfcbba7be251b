//! Calls that run upstream while their modern client answers what the upstream asked.
//!
//! The client holds sealed text that names the call. It is good for this client, this call and a while. Each call is
//! looked after meanwhile: one that ends occupies nothing any more, one whose client stays away is given up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use cardan_proto::jsonrpc::envelope::{Call, Param};
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_runtime::unfinished::{One, Unfinished};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::running::Running;
use super::seal::{Age, EXPIRED, Seal, Unopened, refused};
use super::who::{begun, given_up};
use crate::fleet::lock;

/// Who may go on with a call, and with which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bound {
    principal: Option<Box<str>>,
    digest: Box<[u8]>,
}

impl Bound {
    pub(super) fn of(call: &Call, principal: Option<&Arc<str>>) -> Result<Self, Fault> {
        Ok(Self { principal: principal.map(|name| (&**name).into()), digest: digest(call)? })
    }
}

/// The parked calls.
pub(super) struct Park {
    seal: Seal,
    /// Tells its names from those of others that seal alike.
    lot: u64,
    max: usize,
    ttl: Duration,
    unfinished: Unfinished,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    minted: u64,
    parked: HashMap<u64, Parked>,
}

struct Parked {
    /// Asks for the call. Dropped: the call is given up.
    claim: oneshot::Sender<Claim>,
    bound: Bound,
    _unfinished: One,
}

/// What the client holds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Name {
    lot: u64,
    call: u64,
}

/// Where a call goes on.
type Claim = oneshot::Sender<Running>;

impl Park {
    pub(super) fn new(seal: Seal, max: usize, ttl: Duration, unfinished: Unfinished) -> Self {
        let lot = seal.lot();
        Self { seal, lot, max, ttl, unfinished, inner: Mutex::default() }
    }

    /// How long a call stays.
    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.inner).parked.len()
    }

    /// Takes a call in; what names it is for its client. Without a place it is given up.
    pub(super) fn put(self: &Arc<Self>, running: Running, bound: Bound) -> Result<Box<str>, Fault> {
        let mut inner = lock(&self.inner);
        if inner.parked.len() >= self.max {
            return Err(Fault::new(code::BUSY, "too many calls wait for answers; call again later"));
        }
        // Each leaves room for others. Those who have no name are one: whoever has none can be as many as they like.
        let same = |parked: &&Parked| parked.bound.principal == bound.principal;
        if inner.parked.values().filter(same).count() >= self.max.div_ceil(2) {
            return Err(Fault::new(code::BUSY, "too many of your calls wait for answers; answer one first"));
        }
        inner.minted += 1;
        let name = inner.minted;
        let sealed = self.seal.seal(Name { lot: self.lot, call: name }, self.ttl)?;
        let (claim, claimed) = oneshot::channel();
        inner.parked.insert(name, Parked { claim, bound, _unfinished: self.unfinished.begin() });
        let (park, ttl) = (Arc::downgrade(self), self.ttl);
        tokio::spawn(async move {
            if tokio::time::timeout(ttl, keep(running, claimed)).await.is_err() {
                forget(&park, name);
            }
        });
        Ok(sealed)
    }

    /// Hands a call out to the client it belongs to.
    pub(super) async fn take(&self, state: &str, bound: &Bound) -> Result<Running, Fault> {
        let claimed = self.claim(state, bound)?;
        // Just now.
        claimed.await.map_err(|_| given_up(refused(EXPIRED)))
    }

    /// Does a call wait here that this names?
    pub(super) fn has(&self, state: &str) -> bool {
        let opened = self.seal.open::<Name>(state);
        opened
            .is_ok_and(|(name, _)| name.lot == self.lot && lock(&self.inner).parked.contains_key(&name.call))
    }

    fn claim(&self, state: &str, bound: &Bound) -> Result<oneshot::Receiver<Running>, Fault> {
        let (name, age) = self.seal.open::<Name>(state).map_err(Unopened::fault)?;
        let mut inner = lock(&self.inner);
        let parked = inner.parked.get(&name.call).filter(|_| name.lot == self.lot);
        match (parked, age) {
            // What became of it is not known any more, but that it had begun: no state is sealed before.
            (None, Age::Expired) => return Err(begun(refused(EXPIRED))),
            (None, Age::Good) if name.lot == self.lot => return Err(begun(refused(SPENT))),
            // Who knew whether it was is gone.
            (None, Age::Good) => return Err(begun(refused(REPLACED))),
            (Some(parked), _) if parked.bound != *bound => return Err(refused("it belongs to another call")),
            (Some(_), _) => {}
        }
        let parked = inner.parked.remove(&name.call).ok_or_else(|| begun(refused(SPENT)))?;
        let (claim, claimed) = oneshot::channel();
        // Where it is too late by now, nothing comes of it.
        let _ = parked.claim.send(claim);
        Ok(claimed)
    }

    /// Gives up all.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut lock(&self.inner).parked);
        drop(all);
    }
}

/// Looks after a call until its client is back.
async fn keep(mut running: Running, mut claimed: oneshot::Receiver<Claim>) {
    let claim = tokio::select! {
        claim = &mut claimed => claim,
        outcome = running.ended() => {
            running.abandon(&outcome);
            claimed.await
        }
    };
    if let Ok(claim) = claim {
        // Who does not wait for it any more gives it up.
        let _ = claim.send(running);
    }
}

/// The client did not come back in time.
fn forget(park: &Weak<Park>, name: u64) {
    if let Some(park) = park.upgrade() {
        lock(&park.inner).parked.remove(&name);
    }
}

const SPENT: &str = "it was used before; make the call again";
const REPLACED: &str = "it was used before, or its server was started again since; make the call again";

/// Method and params, but for what a retry changes. Equal for equal values, however spelled.
fn digest(call: &Call) -> Result<Box<[u8]>, Fault> {
    let mut params: Map<String, Value> =
        call.params.decode().map_err(|error| Fault::invalid_params(format!("params: {error}")))?;
    for changing in [Param::Meta, Param::InputResponses, Param::RequestState] {
        params.remove(changing.name());
    }
    let text = format!("{}\n{}", call.method.name(), Value::Object(params));
    let digest =
        orion::hash::digest(text.as_bytes()).map_err(|_| Fault::internal("cannot seal the request state"))?;
    Ok(digest.as_ref().into())
}
