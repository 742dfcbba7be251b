//! What a forwarded request shows: that a replica has let its client in, and as whom.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cardan_proto::limits::replicas::PASS_AGE;
use serde::{Deserialize, Serialize};

use crate::keys::{Keys, Purpose};

/// What a request is, so that what is shown is good for it alone.
#[derive(Debug, Clone, Copy)]
pub struct Errand<'a> {
    /// The method.
    pub method: &'a str,
    /// The path.
    pub path: &'a str,
    /// The session.
    pub session: &'a str,
    /// The process that is to carry it out: one that was started in its place has not seen what was shown to it.
    pub to: &'a str,
}

/// What a replica says of a client that it has let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// As whom.
    pub principal: Option<String>,
    body: String,
    pub(crate) nonce: String,
}

impl Pass {
    /// Is it good for this body?
    #[must_use]
    pub fn is_for(&self, body: &[u8]) -> bool {
        digest(&[body]).is_some_and(|digest| digest == self.body)
    }
}

#[derive(Serialize, Deserialize)]
struct Content {
    at: u64,
    principal: Option<String>,
    errand: String,
    body: String,
    /// Drawn for each, so that none is shown twice.
    nonce: String,
}

/// The text of a header.
pub(crate) fn write(errand: Errand<'_>, body: &[u8], principal: Option<&str>, keys: &Keys) -> Option<String> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).ok()?;
    let content = Content {
        at: now().as_secs(),
        principal: principal.map(str::to_owned),
        errand: errand.digest()?,
        body: digest(&[body])?,
        nonce: URL_SAFE_NO_PAD.encode(nonce),
    };
    let plain = serde_json::to_vec(&content).ok()?;
    Some(URL_SAFE_NO_PAD.encode(keys.seal(Purpose::Pass, &plain)?))
}

/// What is said; nothing: nobody of ours wrote this, not for this, or long ago.
pub(crate) fn read(text: &str, errand: Errand<'_>, keys: &Keys) -> Option<Pass> {
    let plain = keys.open(Purpose::Pass, &URL_SAFE_NO_PAD.decode(text).ok()?)?;
    let Content { at, principal, errand: of, body, nonce } = serde_json::from_slice(&plain).ok()?;
    let fresh = now().as_secs().abs_diff(at) <= PASS_AGE.as_secs();
    (fresh && of == errand.digest()?).then_some(Pass { principal, body, nonce })
}

impl Errand<'_> {
    fn digest(self) -> Option<String> {
        digest(&[self.method.as_bytes(), self.path.as_bytes(), self.session.as_bytes(), self.to.as_bytes()])
    }
}

/// Of parts none of which has a line break in it, but for the last.
fn digest(parts: &[&[u8]]) -> Option<String> {
    let digest = orion::hash::digest(&parts.join(&b'\n')).ok()?;
    Some(URL_SAFE_NO_PAD.encode(digest.as_ref()))
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERRAND: Errand<'_> = Errand { method: "POST", path: "/mcp", session: "s", to: "tag-a" };

    /// T29, F22: a pass is good for its request, from whoever has the key, for a while.
    #[test]
    fn f22_a_pass_is_good_for_one_errand() {
        let keys = Keys::derive("secret");
        let pass = write(ERRAND, b"{}", Some("ada"), &keys).unwrap();
        let read_back = read(&pass, ERRAND, &keys).unwrap();
        assert_eq!(read_back.principal.as_deref(), Some("ada"));
        assert!(read_back.is_for(b"{}") && !read_back.is_for(b"[]"));
        let again = write(ERRAND, b"{}", Some("ada"), &keys).unwrap();
        assert_ne!(read(&again, ERRAND, &keys).unwrap().nonce, read_back.nonce);
        for other in [
            Errand { method: "DELETE", ..ERRAND },
            Errand { path: "/x", ..ERRAND },
            Errand { session: "t", ..ERRAND },
            Errand { to: "tag-b", ..ERRAND },
        ] {
            assert_eq!(read(&pass, other, &keys), None, "{other:?}");
        }
        assert_eq!(read(&pass, ERRAND, &Keys::derive("other")), None);
        assert_eq!(read("nonsense", ERRAND, &keys), None);
        let at = now().as_secs() - 2 * PASS_AGE.as_secs();
        let (errand, nothing) = (ERRAND.digest().unwrap(), String::new());
        let old = Content { at, principal: None, errand, body: nothing.clone(), nonce: nothing };
        let sealed = keys.seal(Purpose::Pass, &serde_json::to_vec(&old).unwrap()).unwrap();
        assert_eq!(read(&URL_SAFE_NO_PAD.encode(sealed), ERRAND, &keys), None);
    }
}
