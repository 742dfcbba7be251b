//! The table `[replicas]` of `cardan.toml`: several gateways of one configuration share legacy sessions.

use std::time::Duration;

use cardan_proto::limits::config::VALUE_FILE_BYTES;
use cardan_proto::limits::replicas::{LEASE, MAX_LEASE, MIN_LEASE};
use cardan_proto::secret::Secret;

use crate::file::read_plain;
use crate::keys::Unit;
use crate::problem::{Problem, Scene, choice};
use crate::read::{time, unknown_key};
use crate::text::{Grammar, Part, Text};
use crate::tree::Node;

/// How sessions are shared. Nothing said: they are not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replicas {
    /// The Redis where it is written down whose sessions are whose.
    pub store: Option<Text>,
    /// Where the other replicas reach this one.
    pub address: Option<Text>,
    /// The secret that all of them share.
    pub key: Option<Text>,
    /// What every key in the store begins with.
    pub prefix: Option<String>,
    /// How long sessions stay a replica's own without a word from the store.
    pub lease: Option<Duration>,
}

/// The same, expanded and whole.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The store.
    pub store: Secret,
    /// Where the others reach us.
    pub address: String,
    /// The secret.
    pub key: Secret,
    /// What keys begin with.
    pub prefix: String,
    /// How long sessions stay ours.
    pub lease: Duration,
}

const KEYS: [&str; 5] = ["store", "address", "key", "prefix", "lease"];

/// What keys begin with unless told otherwise.
const PREFIX: &str = "cardan";

impl Replicas {
    /// What is said here, and for the rest what `other` says.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            store: self.store.or_else(|| other.store.clone()),
            address: self.address.or_else(|| other.address.clone()),
            key: self.key.or_else(|| other.key.clone()),
            prefix: self.prefix.or_else(|| other.prefix.clone()),
            lease: self.lease.or(other.lease),
        }
    }

    /// What is said, with the values of this machine; nothing: sessions are not shared. An error says what is missing.
    pub fn expand(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Shared>, String> {
        if *self == Self::default() {
            return Ok(None);
        }
        let text = |key: &str, text: &Option<Text>| {
            let text = text.as_ref().ok_or_else(|| format!("[replicas] says no `{key}`"))?;
            expand(text, env).map_err(|why| format!("`{key}` of [replicas]: {why}"))
        };
        Ok(Some(Shared {
            store: Secret::new(text("store", &self.store)?),
            address: text("address", &self.address)?.trim_end_matches('/').to_owned(),
            key: Secret::new(text("key", &self.key)?),
            prefix: self.prefix.clone().unwrap_or_else(|| PREFIX.to_owned()),
            lease: self.lease.unwrap_or(LEASE),
        }))
    }

    pub(crate) fn read(scene: Scene<'_>, table: &Node) -> (Self, Vec<Problem>) {
        let (mut replicas, mut problems) = (Self::default(), Vec::new());
        if !table.is_table() {
            let message = format!("this is {}, not a table", table.value.kind());
            problems.push(scene.problem(&table.span, Some("replicas"), message));
        }
        for entry in table.entries() {
            let said = entry.node.as_text().filter(|text| !text.is_empty());
            let wrong = |message: String| scene.problem(&entry.node.span, Some(&entry.key), message);
            let parsed = said.map(|text| Text::parse(text, Grammar::Cardan));
            match (entry.key.as_str(), said) {
                ("store", Some(_)) => replicas.store = parsed,
                ("address", Some(_)) => replicas.address = parsed,
                ("key", Some(_)) => replicas.key = parsed,
                ("store" | "address" | "key", None) => problems.push(wrong("text is expected".to_owned())),
                ("prefix", Some(prefix)) if fits(prefix) => replicas.prefix = Some(prefix.to_owned()),
                ("prefix", _) => {
                    problems.push(wrong("write up to 64 of letters, digits, _, -, . and :".to_owned()));
                }
                ("lease", _) => match time(scene, &entry.key, &entry.node, Unit::Any) {
                    Ok(lease) if (MIN_LEASE..=MAX_LEASE).contains(&lease) => replicas.lease = Some(lease),
                    Ok(_) => {
                        let (least, most) = (MIN_LEASE.as_secs(), MAX_LEASE.as_secs());
                        problems.push(wrong(format!("write a time from {least}s to {most}s")));
                    }
                    Err(problem) => problems.push(problem),
                },
                _ => problems.push(unknown_key(scene, entry, KEYS)),
            }
        }
        (replicas, problems)
    }
}

fn fits(prefix: &str) -> bool {
    prefix.len() <= 64 && prefix.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c))
}

fn expand(text: &Text, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    for part in &text.parts {
        match part {
            Part::Literal(text) => out.push_str(text),
            Part::Variable { name, default } => {
                match (env(name).filter(|value| !value.is_empty()), default) {
                    (Some(value), _) => out.push_str(&value),
                    (None, Some(default)) => out.push_str(&expand(default, env)?),
                    (None, None) => return Err(format!("the variable {name} is not set")),
                }
            }
            Part::File(path) => {
                let unread = |why: String| format!("{path} cannot be read: {why}");
                let bytes = read_plain(path.as_ref(), VALUE_FILE_BYTES).map_err(unread)?;
                let value = String::from_utf8(bytes).map_err(|_| unread("it is not UTF-8".to_owned()))?;
                out.push_str(value.trim());
            }
            Part::Input(_) | Part::Command(_) | Part::Place(_) | Part::Unknown(_) => {
                let accepted = choice(["${NAME}", "${NAME:-default}", "${file:path}"]);
                return Err(format!("of placeholders {accepted} can stand here"));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::File;

    fn file(text: &str) -> File {
        File::parse(Path::new("cardan.toml"), text, None).unwrap()
    }

    const WHOLE: &str = "[replicas]\nstore = 'redis://:${PASS}@store:6379/1'\naddress = 'http://${HOST:-10.0.0.5}:2273/'\n\
                         key = '${KEY}'\nprefix = 'team:a'\nlease = '20s'\n";

    fn env(name: &str) -> Option<String> {
        match name {
            "PASS" => Some("hunter22".into()),
            "KEY" => Some("0123456789abcdef0123456789abcdef".into()),
            _ => None,
        }
    }

    /// F22, T29: what replicas share is said in one table, and its secrets come from the environment and are not shown.
    #[test]
    fn f22_what_is_said_is_read_and_expanded() {
        let said = file(WHOLE);
        assert_eq!(said.problems, []);
        let shared = said.replicas.expand(&env).unwrap().unwrap();
        assert_eq!(shared.store.expose(), "redis://:hunter22@store:6379/1");
        assert_eq!((shared.address.as_str(), shared.prefix.as_str()), ("http://10.0.0.5:2273", "team:a"));
        assert_eq!((shared.key.expose().len(), shared.lease), (32, Duration::from_secs(20)));
        assert!(!format!("{shared:?}{said:?}").contains("hunter22"));
        assert!(file("").replicas.expand(&env).unwrap().is_none());
    }

    #[test]
    fn what_is_missing_or_wrong_is_told() {
        let short = file("[replicas]\nstore = 'redis://a'\naddress = 'http://b'\n").replicas;
        assert_eq!(short.expand(&env).unwrap_err(), "[replicas] says no `key`");
        let unset = Replicas { key: Some(Text::variable("NONE")), ..short };
        assert_eq!(unset.expand(&env).unwrap_err(), "`key` of [replicas]: the variable NONE is not set");
        for (text, told) in [
            ("[replicas]\nstore = 1\n", "cardan.toml:2:9: `store`: text is expected"),
            ("[replicas]\nprefix = 'a b'\n", "`prefix`: write up to 64"),
            ("[replicas]\nlease = '1s'\n", "`lease`: write a time from 2s to 300s"),
            ("[replicas]\nadress = 'a'\n", "did you mean `address`?"),
            ("replicas = 1\n", "not a table"),
        ] {
            let problems = file(text).problems;
            assert!(problems[0].to_string().contains(told), "{problems:?}");
        }
    }

    #[test]
    fn the_nearer_file_wins() {
        let (near, far) = (file("[replicas]\nprefix = 'b'\n").replicas, file(WHOLE).replicas);
        let both = near.or(&far);
        assert_eq!((both.prefix.as_deref(), &both.key), (Some("b"), &far.key));
    }
}
