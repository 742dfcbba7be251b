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
    /// The body.
    pub body: &'a [u8],
}

#[derive(Serialize, Deserialize)]
struct Content {
    at: u64,
    principal: Option<String>,
    errand: String,
}

/// The text of a header.
pub(crate) fn write(errand: Errand<'_>, principal: Option<&str>, keys: &Keys) -> Option<String> {
    let content =
        Content { at: now().as_secs(), principal: principal.map(str::to_owned), errand: digest(errand)? };
    let plain = serde_json::to_vec(&content).ok()?;
    Some(URL_SAFE_NO_PAD.encode(keys.seal(Purpose::Pass, &plain)?))
}

/// As whom the client was let in; nothing: nobody of ours wrote this, not for this, or long ago.
pub(crate) fn read(text: &str, errand: Errand<'_>, keys: &Keys) -> Option<Option<String>> {
    let plain = keys.open(Purpose::Pass, &URL_SAFE_NO_PAD.decode(text).ok()?)?;
    let content: Content = serde_json::from_slice(&plain).ok()?;
    let fresh = now().as_secs().abs_diff(content.at) <= PASS_AGE.as_secs();
    (fresh && content.errand == digest(errand)?).then_some(content.principal)
}

fn digest(errand: Errand<'_>) -> Option<String> {
    let Errand { method, path, session, body } = errand;
    let mut text = format!("{method}\n{path}\n{session}\n").into_bytes();
    text.extend_from_slice(orion::hash::digest(body).ok()?.as_ref());
    Some(URL_SAFE_NO_PAD.encode(orion::hash::digest(&text).ok()?.as_ref()))
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERRAND: Errand<'_> = Errand { method: "POST", path: "/mcp", session: "s", body: b"{}" };

    /// T29, F22: a pass is good for its request, from whoever has the key, for a while.
    #[test]
    fn f22_a_pass_is_good_for_one_errand() {
        let keys = Keys::derive("secret");
        let pass = write(ERRAND, Some("ada"), &keys).unwrap();
        assert_eq!(read(&pass, ERRAND, &keys), Some(Some("ada".to_owned())));
        for other in [
            Errand { method: "DELETE", ..ERRAND },
            Errand { path: "/x", ..ERRAND },
            Errand { session: "t", ..ERRAND },
            Errand { body: b"[]", ..ERRAND },
        ] {
            assert_eq!(read(&pass, other, &keys), None, "{other:?}");
        }
        assert_eq!(read(&pass, ERRAND, &Keys::derive("other")), None);
        assert_eq!(read("nonsense", ERRAND, &keys), None);
        let old = Content {
            at: now().as_secs() - 2 * PASS_AGE.as_secs(),
            principal: None,
            errand: digest(ERRAND).unwrap(),
        };
        let sealed = keys.seal(Purpose::Pass, &serde_json::to_vec(&old).unwrap()).unwrap();
        assert_eq!(read(&URL_SAFE_NO_PAD.encode(sealed), ERRAND, &keys), None);
    }
}
