//! Request state: what a client carries between two rounds of a call and can neither read nor forge.
//!
//! Sealed with XChaCha20-Poly1305. The content says who it is for, which call it belongs to and
//! until when it is good; each is checked when it comes back. Whether it may come back twice is the
//! server's choice.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cardan_proto::jsonrpc::envelope::{Call, Param};
use cardan_proto::jsonrpc::fault::Fault;
use orion::aead::{self, SecretKey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::redeemed::{Mark, Redeemed};

/// Seals and opens request state.
pub(crate) struct Sealer {
    key: SecretKey,
    ttl: Duration,
    redeemed: Option<Redeemed>,
}

/// What is inside.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Held {
    /// Answers of all rounds before, by name.
    pub(crate) answers: Map<String, Value>,
    /// Names that were asked in the last round.
    pub(crate) asked: Vec<String>,
    /// How many rounds there were.
    pub(crate) rounds: usize,
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    until: u64,
    principal: String,
    call: String,
    held: Held,
}

impl Sealer {
    /// With a random key: state is good for this process only.
    pub(crate) fn random(ttl: Duration) -> Self {
        let key = SecretKey::generate().expect("the system has a random source");
        Self { key, ttl, redeemed: None }
    }

    /// With a shared key of 32 bytes, so that any replica can open what another sealed.
    pub(crate) fn with_key(key: &[u8; 32], ttl: Duration) -> Self {
        let key = SecretKey::try_from(key.as_slice()).expect("32 bytes are a valid key length");
        Self { key, ttl, redeemed: None }
    }

    /// Each state is good for one use; up to `max` used ones are remembered.
    pub(crate) fn once(mut self, max: usize) -> Self {
        self.redeemed = Some(Redeemed::new(max));
        self
    }

    pub(crate) fn seal(&self, held: Held, call: &Call, principal: &str) -> Result<Box<str>, Fault> {
        let until = now() + self.ttl.as_secs();
        let envelope = Envelope { until, principal: principal.to_owned(), call: digest(call)?, held };
        let plain = serde_json::to_vec(&envelope).map_err(|_| cannot_seal())?;
        let sealed = aead::seal(&self.key, &plain).map_err(|_| cannot_seal())?;
        Ok(URL_SAFE_NO_PAD.encode(sealed).into())
    }

    pub(crate) fn open(&self, state: &str, call: &Call, principal: &str) -> Result<Held, Fault> {
        let sealed = URL_SAFE_NO_PAD.decode(state).map_err(|_| refused("it is not ours"))?;
        let plain = aead::open(&self.key, &sealed)
            .map_err(|_| refused("it was changed, or sealed by another process, perhaps before a restart; start the call again"))?;
        let envelope: Envelope =
            serde_json::from_slice(&plain).map_err(|_| refused("it is of another version"))?;
        let now = now();
        if envelope.until <= now {
            return Err(refused("it has expired; start the call again"));
        }
        if envelope.principal != principal || envelope.call != digest(call)? {
            return Err(refused("it belongs to another call"));
        }
        if let Some(redeemed) = &self.redeemed {
            let mark: &Mark = sealed.first_chunk().ok_or_else(|| refused("it is not ours"))?;
            redeemed.redeem(*mark, envelope.until, now)?;
        }
        Ok(envelope.held)
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

fn refused(why: &str) -> Fault {
    Fault::invalid_params(format!("params.requestState: {why}"))
}

fn cannot_seal() -> Fault {
    Fault::internal("cannot seal the request state")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Method and params, but for what a retry changes. Equal for equal values, however spelled.
fn digest(call: &Call) -> Result<String, Fault> {
    // What cannot be read cannot be told apart from something else that cannot be read.
    let mut params: Map<String, Value> =
        call.params.decode().map_err(|error| Fault::invalid_params(format!("params: {error}")))?;
    for changing in [Param::Meta, Param::InputResponses, Param::RequestState] {
        params.remove(changing.name());
    }
    let text = format!("{}\n{}", call.method.name(), Value::Object(params));
    let digest = orion::hash::digest(text.as_bytes()).map_err(|_| cannot_seal())?;
    Ok(URL_SAFE_NO_PAD.encode(digest.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use cardan_proto::jsonrpc::envelope::Params;
    use cardan_proto::method::Method;

    fn call(params: &'static str) -> Call {
        Call {
            id: 1.into(),
            method: Method::ToolsCall,
            params: Params::outgoing(Bytes::from_static(params.as_bytes())),
            strays: None,
        }
    }

    fn held() -> Held {
        Held { answers: Map::new(), asked: vec!["name".into()], rounds: 1 }
    }

    const CALL: &str = r#"{"name":"ask","arguments":{"a":1,"b":2}}"#;
    const RETRY: &str =
        r#"{"_meta":{"x":1},"arguments":{"b":2,"a":1},"name":"ask","requestState":"s","inputResponses":{}}"#;

    /// MRTR-9: what was sealed for a call is good for its retry.
    #[test]
    fn state_is_good_for_the_retry_of_its_call() {
        let sealer = Sealer::random(Duration::from_secs(60));
        let state = sealer.seal(held(), &call(CALL), "ada").unwrap();
        assert_eq!(sealer.open(&state, &call(RETRY), "ada").unwrap(), held());
    }

    /// MRTR-7, MRTR-8, T12: every bit counts, and so do principal, call and time.
    #[test]
    fn tampered_foreign_and_expired_state_is_refused() {
        let sealer = Sealer::random(Duration::from_secs(60));
        let state = sealer.seal(held(), &call(CALL), "ada").unwrap();
        for at in 0..state.len() {
            let mut bytes = state.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(sealer.open(&changed, &call(CALL), "ada").is_err(), "byte {at}");
        }
        assert!(sealer.open(&state, &call(CALL), "bob").is_err());
        assert!(sealer.open(&state, &call(r#"{"name":"ask","arguments":{"a":2,"b":2}}"#), "ada").is_err());
        let restarted = Sealer::random(Duration::from_secs(60)).open(&state, &call(CALL), "ada").unwrap_err();
        assert!(restarted.message.contains("before a restart; start the call again"), "{restarted}");
        let expired =
            Envelope { until: 1, principal: "ada".into(), call: digest(&call(CALL)).unwrap(), held: held() };
        let plain = serde_json::to_vec(&expired).unwrap();
        let old = URL_SAFE_NO_PAD.encode(aead::seal(&sealer.key, &plain).unwrap());
        assert!(sealer.open(&old, &call(CALL), "ada").unwrap_err().message.contains("expired"));
    }

    /// MRTR-10: used once, and only by who may use it.
    #[test]
    fn state_is_good_for_one_use() {
        let sealer = Sealer::random(Duration::from_secs(60)).once(8);
        let state = sealer.seal(held(), &call(CALL), "ada").unwrap();
        assert!(sealer.open(&state, &call(CALL), "bob").is_err());
        assert!(sealer.open(&state, &call(RETRY), "ada").is_ok(), "a stranger's try does not use it up");
        let again = sealer.open(&state, &call(RETRY), "ada").unwrap_err();
        assert!(again.message.contains("used before"), "{again}");
        let other = sealer.seal(held(), &call(CALL), "ada").unwrap();
        assert!(sealer.open(&other, &call(CALL), "ada").is_ok(), "each state counts for itself");
    }

    /// MRTR-9, T12: a call that cannot be read has no state, neither its own nor another's.
    #[test]
    fn unreadable_calls_have_no_state() {
        let sealer = Sealer::random(Duration::from_secs(60));
        for odd in [r#"{"name":"a","x":1e999}"#, r#"{"name":"b","arguments":{"n":[1e999]}}"#] {
            assert!(sealer.seal(held(), &call(odd), "").is_err(), "{odd}");
            let state = sealer.seal(held(), &call(CALL), "").unwrap();
            assert!(sealer.open(&state, &call(odd), "").is_err(), "{odd}");
        }
    }

    #[test]
    fn replicas_share_a_key() {
        let (one, two) = (
            Sealer::with_key(&[7; 32], Duration::from_secs(9)),
            Sealer::with_key(&[7; 32], Duration::from_secs(9)),
        );
        let state = one.seal(held(), &call(CALL), "").unwrap();
        assert!(two.open(&state, &call(CALL), "").is_ok());
    }
}
