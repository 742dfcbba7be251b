//! Calls that run upstream while their modern client answers what the upstream asked.
//!
//! The client holds sealed text that names the call. It is good for this client, this call and a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cardan_proto::jsonrpc::envelope::{Call, Param};
use cardan_proto::jsonrpc::fault::{Fault, code};
use orion::aead::{self, SecretKey};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::modern::Running;
use crate::fleet::lock;

/// Who may go on with a call, and with which.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Bound {
    principal: Option<Arc<str>>,
    digest: Box<[u8]>,
}

impl Bound {
    pub(super) fn of(call: &Call, principal: Option<Arc<str>>) -> Result<Self, Fault> {
        Ok(Self { principal, digest: digest(call)? })
    }
}

/// The parked calls.
pub(super) struct Park {
    key: SecretKey,
    max: usize,
    ttl: Duration,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    minted: u64,
    parked: HashMap<u64, Parked>,
}

struct Parked {
    running: Running,
    bound: Bound,
    until: Instant,
}

impl Park {
    pub(super) fn new(max: usize, ttl: Duration) -> Self {
        let key = SecretKey::generate().expect("the system has a random source");
        Self { key, max, ttl, inner: Mutex::default() }
    }

    /// How long a call stays.
    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.inner).parked.len()
    }

    /// Takes a call in; what names it is for its client. Without a place it is given up.
    pub(super) fn put(&self, running: Running, bound: Bound) -> Result<Box<str>, Fault> {
        self.sweep();
        let mut inner = lock(&self.inner);
        if inner.parked.len() >= self.max {
            return Err(Fault::new(code::BUSY, "too many calls wait for answers; call again later"));
        }
        inner.minted += 1;
        let name = inner.minted;
        let sealed = aead::seal(&self.key, &name.to_be_bytes())
            .map_err(|_| Fault::internal("cannot seal the request state"))?;
        let until = Instant::now() + self.ttl;
        inner.parked.insert(name, Parked { running, bound, until });
        Ok(URL_SAFE_NO_PAD.encode(sealed).into())
    }

    /// Hands a call out to the client it belongs to.
    pub(super) fn take(&self, state: &str, bound: &Bound) -> Result<Running, Fault> {
        self.sweep();
        let sealed = URL_SAFE_NO_PAD.decode(state).map_err(|_| refused("it is not ours"))?;
        let name = aead::open(&self.key, &sealed).ok().and_then(|name| name.try_into().ok());
        let name =
            u64::from_be_bytes(name.ok_or_else(|| refused("it was changed, or sealed by someone else"))?);
        let mut inner = lock(&self.inner);
        match inner.parked.get(&name) {
            None => return Err(refused("it was used before or has expired; start the call again")),
            Some(parked) if parked.bound != *bound => return Err(refused("it belongs to another call")),
            Some(_) => {}
        }
        let parked = inner.parked.remove(&name);
        parked.map(|parked| parked.running).ok_or_else(|| refused("it was used before"))
    }

    /// Gives up calls whose clients did not come back in time.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        // Dropped outside of the lock: giving a call up wakes others.
        let late: Vec<_> = lock(&self.inner).parked.extract_if(|_, parked| parked.until <= now).collect();
        drop(late);
    }

    /// Gives up all.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut lock(&self.inner).parked);
        drop(all);
    }
}

fn refused(why: &str) -> Fault {
    Fault::invalid_params(format!("params.requestState: {why}"))
}

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
