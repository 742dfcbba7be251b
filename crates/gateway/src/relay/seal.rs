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

#[cfg(test)]
mod tests {
    use cardan_proto::jsonrpc::fault::code;

    use super::*;

    const TTL: Duration = Duration::from_secs(60);

    #[track_caller]
    fn is_refused(seal: &Seal, state: &str) {
        let fault = seal.open::<u64>(state).expect_err(state).fault();
        assert_eq!(fault.code, code::INVALID_PARAMS, "{state}: {fault}");
    }

    /// MRTR-8, T12: every bit of it counts, every character, and its length.
    #[test]
    fn what_was_changed_is_refused() {
        let seal = Seal::default();
        let state = seal.seal(7_u64, TTL).unwrap();
        assert_eq!(seal.open::<u64>(&state), Ok((7, Age::Good)));
        let bytes = URL_SAFE_NO_PAD.decode(&*state).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            is_refused(&seal, &URL_SAFE_NO_PAD.encode(changed));
        }
        for at in 0..state.len() {
            // All others that a state may have there, and some that it cannot.
            for other in (' '..='~').chain(['\0', '\u{e4}']).filter(|other| !state[at..].starts_with(*other))
            {
                let mut changed = state.to_string();
                changed.replace_range(at..=at, other.encode_utf8(&mut [0; 4]));
                is_refused(&seal, &changed);
            }
            is_refused(&seal, &state[..at]);
            is_refused(&seal, &state[at + 1..]);
        }
        is_refused(&seal, &format!("{state}A"));
        is_refused(&seal, &format!("{state}{state}"));
    }

    /// T12: a key is that of one process, so what another sealed is not opened, whatever is written before it.
    #[test]
    fn what_another_sealed_is_refused() {
        let [ours, theirs] = [Seal::default(), Seal::default()];
        let state = theirs.seal(7_u64, TTL).unwrap();
        assert_eq!(ours.open::<u64>(&state), Err(Unopened::Foreign));
        let mut bytes = URL_SAFE_NO_PAD.decode(&*state).unwrap();
        bytes[..ours.0.mark.len()].copy_from_slice(&ours.0.mark);
        assert_eq!(ours.open::<u64>(&URL_SAFE_NO_PAD.encode(bytes)), Err(Unopened::Changed));
        let other = ours.seal("seven", TTL).unwrap();
        assert_eq!(ours.open::<u64>(&other), Err(Unopened::Other));
    }

    /// T12: it is good for a while, and not a moment longer.
    #[tokio::test(start_paused = true)]
    async fn what_is_old_has_expired() {
        let seal = Seal::default();
        let state = seal.seal(7_u64, TTL).unwrap();
        tokio::time::advance(TTL - Duration::from_millis(1)).await;
        assert_eq!(seal.open::<u64>(&state), Ok((7, Age::Good)));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(seal.open::<u64>(&state), Ok((7, Age::Expired)));
    }
}
