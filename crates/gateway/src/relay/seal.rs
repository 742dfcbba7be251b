//! Text that a client holds between two rounds, and can neither read nor forge.
//!
//! Sealed with XChaCha20-Poly1305. Before the sealed bytes stands which key it was, so that what was changed is told from what
//! someone else sealed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cardan_proto::jsonrpc::fault::Fault;
use orion::aead::{self, SecretKey};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// What seals and opens. Clones do it alike: what the relay of a server sealed, the one that comes in its place can open.
#[derive(Clone)]
pub struct Seal(Arc<Inner>);

struct Inner {
    key: SecretKey,
    /// Which key it is, for everyone to read.
    mark: Mark,
    /// Times are told from here on: no other process has the key.
    since: Instant,
    lots: AtomicU64,
}

type Mark = [u8; 8];

/// What is inside.
#[derive(Debug, Serialize, Deserialize)]
struct Content<T> {
    until_ms: u64,
    held: T,
}

/// Whether sealed text is still good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// It is.
    Good,
    /// Its time is over.
    Expired,
}

impl Seal {
    /// A number that nobody else has who seals alike.
    pub(super) fn lot(&self) -> u64 {
        self.0.lots.fetch_add(1, Ordering::Relaxed)
    }

    /// Seals something for a while.
    pub(super) fn seal<T: Serialize>(&self, held: T, ttl: Duration) -> Result<Box<str>, Fault> {
        let content = Content { until_ms: self.now_ms().saturating_add(millis(ttl)), held };
        let plain = serde_json::to_vec(&content).map_err(|_| cannot_seal())?;
        let sealed = aead::seal(&self.0.key, &plain).map_err(|_| cannot_seal())?;
        Ok(URL_SAFE_NO_PAD.encode([&self.0.mark[..], &sealed].concat()).into())
    }

    /// What was sealed, and whether it is good still.
    pub(super) fn open<T: for<'a> Deserialize<'a>>(&self, state: &str) -> Result<(T, Age), Unopened> {
        let bytes = URL_SAFE_NO_PAD.decode(state).map_err(|_| Unopened::Odd)?;
        let sealed = bytes.strip_prefix(&self.0.mark).ok_or(Unopened::Foreign)?;
        let plain = aead::open(&self.0.key, sealed).map_err(|_| Unopened::Changed)?;
        let Content { until_ms, held } = serde_json::from_slice(&plain).map_err(|_| Unopened::Other)?;
        Ok((held, if self.now_ms() < until_ms { Age::Good } else { Age::Expired }))
    }

    fn now_ms(&self) -> u64 {
        millis(self.0.since.elapsed())
    }
}

impl Default for Seal {
    /// With a random key: what it seals is good for this process only.
    fn default() -> Self {
        let key = SecretKey::generate().expect("the system has a random source");
        let mut mark = Mark::default();
        orion::util::secure_rand_bytes(&mut mark).expect("the system has a random source");
        Self(Arc::new(Inner { key, mark, since: Instant::now(), lots: AtomicU64::default() }))
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

/// Why sealed text cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unopened {
    /// Nothing that is sealed looks so.
    Odd,
    /// It was not sealed with this key.
    Foreign,
    /// It was, but is another now.
    Changed,
    /// It is something else that was sealed with it.
    Other,
}

impl Unopened {
    /// As a client is told it.
    pub(super) fn fault(self) -> Fault {
        refused(match self {
            Self::Odd => "it is not ours; send it back as it came, or make the call again",
            Self::Foreign => {
                "it was sealed by another gateway, or before this one was started; make the call again"
            }
            Self::Changed => "it was changed; send it back as it came, or make the call again",
            Self::Other => "it belongs to another call",
        })
    }
}

/// Why a state is not good any more.
pub(super) const EXPIRED: &str = "it has expired; make the call again";

/// What a client is told whose state is not good.
pub(super) fn refused(why: &str) -> Fault {
    Fault::invalid_params(format!("params.requestState: {why}"))
}

fn cannot_seal() -> Fault {
    Fault::internal("cannot seal the request state")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
