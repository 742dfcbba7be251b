//! The list `[[gateway.keys]]` of `cardan.toml`: whose tokens are good.

use std::fmt;

use crate::allowance::{self, Allowance};
use crate::problem::{Problem, Scene};
use crate::read::unknown_key;
use crate::text::is_name;
use crate::tree::Node;

/// A token that is good, and whom it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The principal.
    pub name: String,
    /// How the token is known.
    pub proof: Proof,
    /// How much the principal may ask for, where it is not what everyone may.
    pub allowance: Allowance,
}

/// How a token is known.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// By its SHA-256.
    Sha256([u8; 32]),
    /// It is in this variable.
    Variable(String),
}

/// What a hash begins with.
pub const SCHEME: &str = "sha256:";

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(_) => f.write_str("Sha256"),
            Self::Variable(name) => f.debug_tuple("Variable").field(name).finish(),
        }
    }
}

const KEYS: [&str; 6] = ["name", "hash", "env", "rate", "burst", "concurrency"];
const HASH: &str =
    "this is no hash of a token; make one with `cardan key NAME`, and never write a token here";

/// The keys that are right; what is wrong is no key.
pub(crate) fn read(scene: Scene<'_>, list: &Node) -> (Vec<Key>, Vec<Problem>) {
    let (mut keys, mut problems) = (Vec::new(), Vec::new());
    if list.items().is_empty() {
        let message = "a list of keys is expected: [[gateway.keys]] with name, and hash or env";
        problems.push(scene.problem(&list.span, Some("keys"), message));
    }
    for item in list.items() {
        match key(scene, item) {
            Ok(key) => keys.push(key),
            Err(problem) => problems.push(problem),
        }
    }
    (keys, problems)
}

fn key(scene: Scene<'_>, node: &Node) -> Result<Key, Problem> {
    if let Some(entry) = node.entries().iter().find(|entry| !KEYS.contains(&entry.key.as_str())) {
        return Err(unknown_key(scene, entry, KEYS));
    }
    let text = |key: &str| node.member(key).map(|value| (value, value.as_text().unwrap_or_default()));
    let name = text("name").map(|(_, name)| name).filter(|name| !name.trim().is_empty() && *name != "*");
    let Some(name) = name else {
        return Err(scene.problem(&node.span, Some("name"), "say whom the key stands for"));
    };
    let proof = match (text("hash"), text("env")) {
        (Some((at, hash)), None) => {
            let wrong = || scene.problem(&at.span, Some("hash"), HASH);
            Proof::Sha256(parse(hash).ok_or_else(wrong)?)
        }
        (None, Some((_, variable))) if is_name(variable) => Proof::Variable(variable.to_owned()),
        (None, Some((at, _))) => {
            let message =
                "the name of a variable is expected; put the token into a variable, and its name here";
            return Err(scene.problem(&at.span, Some("env"), message));
        }
        _ => return Err(scene.problem(&node.span, Some("keys"), "say either hash or env")),
    };
    let mut allowance = Allowance::default();
    for entry in node.entries().iter().filter(|entry| allowance::KEYS.contains(&entry.key.as_str())) {
        allowance.read(scene, entry)?;
    }
    Ok(Key { name: name.to_owned(), proof, allowance })
}

fn parse(hash: &str) -> Option<[u8; 32]> {
    let hex = hash.strip_prefix(SCHEME)?;
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::File;

    fn file(text: &str) -> File {
        File::parse(Path::new("cardan.toml"), text, None).unwrap()
    }

    #[test]
    fn what_is_said_is_read() {
        let hash = "0f".repeat(32);
        let said = file(&format!(
            "[[gateway.keys]]\nname = \"ada\"\nhash = \"sha256:{hash}\"\n[[gateway.keys]]\nname = \"bob\"\nenv = \"BOB\"\n"
        ));
        assert_eq!(said.problems, []);
        let allowance = Allowance::default();
        let key = |name: &str, proof| Key { name: name.to_owned(), proof, allowance };
        let keys = [key("ada", Proof::Sha256([15; 32])), key("bob", Proof::Variable("BOB".to_owned()))];
        assert_eq!(said.gateway.keys.unwrap(), keys);
        assert_eq!(said.gateway.pin, None);
    }

    /// T16: a key with a slip opens nothing, and is not shown; that there are keys still holds.
    #[test]
    fn t16_a_slip_is_no_key() {
        for (text, told) in [
            ("keys = 1", "a list of keys is expected"),
            ("keys = []", "a list of keys is expected"),
            ("keys = [{ name = \"a\" }]", "say either hash or env"),
            ("keys = [{ hash = \"x\" }]", "say whom the key stands for"),
            ("keys = [{ name = \"*\", env = \"A\" }]", "say whom the key stands for"),
            ("keys = [{ name = \"a\", hash = \"hunter2\" }]", "never write a token here"),
            ("keys = [{ name = \"a\", hash = \"sha256:00\" }]", "never write a token here"),
            ("keys = [{ name = \"a\", env = \"hunter 2\" }]", "the name of a variable is expected"),
            ("keys = [{ name = \"a\", token = \"hunter2\" }]", "there is no such key"),
        ] {
            let file = file(&format!("[gateway]\n{text}\n"));
            let problem = file.problems[0].to_string();
            assert!(problem.contains(told) && !problem.contains("hunter"), "{problem}");
            assert_eq!(file.gateway.keys, Some(Vec::new()), "{text}");
        }
    }
}
