//! What one shared secret is good for: names that tell nothing, and text that only replicas can read or make.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orion::{aead, auth};

/// Shorter secrets can be guessed.
pub const SHORTEST: usize = 32;

/// The keys that follow from a secret.
pub(crate) struct Keys {
    names: auth::SecretKey,
    records: aead::SecretKey,
    passes: aead::SecretKey,
}

/// What is sealed, each with a key of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// What the store keeps.
    Record,
    /// What a forwarded request shows.
    Pass,
}

impl Keys {
    pub(crate) fn derive(secret: &str) -> Self {
        let known = "a digest is as long as a key";
        let digest = orion::hash::digest(secret.as_bytes()).expect("a secret is shorter than any bound");
        let root = auth::SecretKey::try_from(digest.as_ref()).expect(known);
        let sub = |label: &str| {
            let tag = auth::authenticate(&root, label.as_bytes()).expect("a label is shorter than any bound");
            tag.unprotected_as_ref().to_vec()
        };
        Self {
            names: auth::SecretKey::try_from(&sub("cardan replicas: names")[..]).expect(known),
            records: aead::SecretKey::try_from(&sub("cardan replicas: records")[..]).expect(known),
            passes: aead::SecretKey::try_from(&sub("cardan replicas: passes")[..]).expect(known),
        }
    }

    /// The name of a session in the store. Who sees it learns neither the id nor where it is good.
    pub(crate) fn name(&self, place: &str, id: &str) -> String {
        let text = format!("{place}\n{id}");
        let tag = auth::authenticate(&self.names, text.as_bytes()).expect("an id is shorter than any bound");
        URL_SAFE_NO_PAD.encode(tag.unprotected_as_ref())
    }

    pub(crate) fn seal(&self, purpose: Purpose, plain: &[u8]) -> Option<Vec<u8>> {
        aead::seal(self.key(purpose), plain).ok()
    }

    pub(crate) fn open(&self, purpose: Purpose, sealed: &[u8]) -> Option<Vec<u8>> {
        aead::open(self.key(purpose), sealed).ok()
    }

    fn key(&self, purpose: Purpose) -> &aead::SecretKey {
        match purpose {
            Purpose::Record => &self.records,
            Purpose::Pass => &self.passes,
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T29: names differ by place, id and secret, and show none of them.
    #[test]
    fn t29_names_tell_nothing() {
        let (one, two) = (Keys::derive("one secret"), Keys::derive("another secret"));
        let name = one.name("/mcp", "id-of-a-session");
        assert_eq!(name, Keys::derive("one secret").name("/mcp", "id-of-a-session"));
        for other in [
            one.name("/mcp", "id"),
            one.name("/x/mcp", "id-of-a-session"),
            two.name("/mcp", "id-of-a-session"),
        ] {
            assert_ne!(name, other);
        }
        assert!(!name.contains("id-of") && name.len() == 43);
    }

    /// T29: what one key sealed no other opens, not even one of the same secret.
    #[test]
    fn t29_each_purpose_has_its_key() {
        let keys = Keys::derive("one secret");
        let sealed = keys.seal(Purpose::Record, b"plain").unwrap();
        assert_eq!(keys.open(Purpose::Record, &sealed).unwrap(), b"plain");
        assert!(keys.open(Purpose::Pass, &sealed).is_none());
        assert!(Keys::derive("another secret").open(Purpose::Record, &sealed).is_none());
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            assert!(keys.open(Purpose::Record, &flipped).is_none(), "byte {at}");
        }
    }
}
