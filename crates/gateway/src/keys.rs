//! Tokens in front: who is who. Nothing else makes anybody somebody: no header, no name that a client gives itself.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cardan_config::token::{Key, Proof, SCHEME};
use orion::hazardous::hash::sha2::sha256::Sha256;

/// Shorter tokens can be guessed.
pub const SHORTEST: usize = 16;

/// Tokens that are good. None of them is kept, only digests.
#[derive(Clone, Default)]
pub struct Keys(Vec<(Arc<str>, [u8; 32])>);

impl Keys {
    /// Those of a configuration, and what is wrong with those that cannot be used.
    #[must_use]
    pub fn of(keys: &[Key], variable: impl Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let (mut good, mut wrong) = (Vec::new(), Vec::new());
        for Key { name, proof, .. } in keys {
            let known = match proof {
                Proof::Sha256(digest) => Ok(*digest),
                Proof::Variable(named) => match variable(named) {
                    Some(token) if token.trim().len() >= SHORTEST => Ok(digest(token.trim())),
                    Some(_) => Err(format!("the token in {named} has fewer than {SHORTEST} characters")),
                    None => Err(format!("there is no variable {named}")),
                },
            };
            match known {
                Ok(digest) => good.push((name.as_str().into(), digest)),
                Err(why) => wrong.push(format!("the key of {name} cannot be used: {why}")),
            }
        }
        (Self(good), wrong)
    }

    /// One token alone.
    #[must_use]
    pub fn one(principal: &str, token: &str) -> Self {
        Self(vec![(principal.into(), digest(token))])
    }

    /// For whom a token stands; nothing: for nobody. Takes as long for any token that is no good.
    #[must_use]
    pub fn principal(&self, token: &str) -> Option<&Arc<str>> {
        self.whose(&Print::of(token))
    }

    /// The same for a token that nobody has kept.
    #[must_use]
    pub fn whose(&self, print: &Print) -> Option<&Arc<str>> {
        let mut found = None;
        // All are compared, so that the time does not tell which came near.
        for (name, known) in &self.0 {
            if orion::util::secure_cmp(known, &print.0).is_ok() {
                found = Some(name);
            }
        }
        found
    }
}

/// What is left of a token, by which it is known again.
#[derive(Clone)]
pub struct Print([u8; 32]);

impl Print {
    /// Of this one.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(digest(token))
    }
}

impl fmt::Debug for Print {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Print").finish_non_exhaustive()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// A new token that nobody can guess.
pub fn token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(format!("cardan_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// What stands in a configuration for a token.
#[must_use]
pub fn hash(token: &str) -> String {
    let mut text = SCHEME.to_owned();
    for byte in digest(token) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn digest(token: &str) -> [u8; 32] {
    let digest = Sha256::digest(token.as_bytes()).expect("a token is far shorter than 2^61 bytes");
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cardan_config::File;

    use super::*;

    /// T16: there is no token but those that somebody made.
    #[test]
    fn t16_only_tokens_that_were_made_are_good() {
        let ada = token().unwrap();
        let text = format!(
            "[[gateway.keys]]\nname = \"ada\"\nhash = \"{}\"\n[[gateway.keys]]\nname = \"bob\"\nenv = \"BOB\"\n\
             [[gateway.keys]]\nname = \"eve\"\nenv = \"SHORT\"\n[[gateway.keys]]\nname = \"joe\"\nenv = \"NONE\"\n",
            hash(&ada)
        );
        let file = File::parse(Path::new("cardan.toml"), &text, None).unwrap();
        let variable = |name: &str| match name {
            "BOB" => Some("a token of some length\n".to_owned()),
            "SHORT" => Some(String::new()),
            _ => None,
        };
        let (keys, wrong) = Keys::of(&file.gateway.keys.unwrap(), variable);
        let who = |token: &str| keys.principal(token).map(|name| name.to_string());
        assert_eq!(who(&ada).as_deref(), Some("ada"));
        assert_eq!(who("a token of some length").as_deref(), Some("bob"));
        for bad in ["", "ada", &ada[1..], &hash(&ada), "secret", "changeme"] {
            assert_eq!(who(bad), None, "{bad}");
        }
        assert!(
            matches!(&wrong[..], [eve, joe] if eve.contains("fewer than 16") && joe.contains("no variable NONE"))
        );
        assert_eq!(format!("{keys:?}"), r#"["ada", "bob"]"#);
        assert_eq!(Keys::default().principal(""), None);
    }

    #[test]
    fn tokens_differ() {
        let (one, two) = (token().unwrap(), token().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.len(), 50);
    }
}
