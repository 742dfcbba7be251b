//! A name for what a server is: the same however its file is written, another when something else is reached.

use std::fmt;

use orion::errors::UnknownCryptoError;
use orion::hazardous::hash::sha2::sha256::Sha256;

use crate::resolve::{Endpoint, Reach, Resolved};
use crate::server::{EnvPolicy, Remote, Server, Way};
use crate::text::{Part, Text};
use crate::tree::{Node, Value};

/// The SHA-256 of what determines which server is reached and how it is spoken to. Values of variables are no part of
/// it, and neither are name, timeouts, lists of tools or where it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Digest {
    /// The digest of words in their order.
    #[must_use]
    pub fn of_words(words: &[String]) -> Self {
        let mut hash = Hash(Sha256::new());
        hash.list(words, |hash, word| hash.word(word));
        hash.finish()
    }
}

impl Server {
    /// The digest of its configuration.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut hash = Hash(Sha256::new());
        hash.word(self.way.kind());
        match self.way.sorted() {
            Way::Command(launch) => {
                hash.text(&launch.program);
                hash.list(&launch.args, Hash::text);
                hash.list(&launch.env, |hash, (name, value)| {
                    hash.word(name);
                    hash.list(value.as_slice(), Hash::text);
                });
                hash.list(&launch.pass, |hash, name| hash.word(name));
                hash.list(&launch.env_files, Hash::text);
                hash.list(launch.cwd.as_slice(), Hash::text);
            }
            Way::Http(remote) | Way::Sse(remote) | Way::WebSocket(remote) => hash.remote(&remote),
            Way::Unix(address) | Way::Pipe(address) | Way::Tcp(address) => hash.text(&address),
        }
        let settings = &self.settings;
        hash.word(&format!(
            "{:?} {:?} {:?} {:?}",
            settings.era, settings.revision, settings.dialect, settings.env_policy
        ));
        hash.list(self.isolation.as_slice(), Hash::node);
        hash.finish()
    }

    /// The digest of all that is trusted with it: its name, what it is, which variables it sees, and what its files of variables hold.
    pub(crate) fn seal(&self, policy: EnvPolicy, files: &[Option<String>]) -> Digest {
        let mut hash = Hash(Sha256::new());
        hash.word("trusted");
        hash.word(&self.name);
        hash.bytes(&self.digest().0);
        hash.word(&format!("{policy:?}"));
        hash.list(files, |hash, text| hash.list(text.as_slice(), |hash, text| hash.word(text)));
        hash.finish()
    }
}

impl Resolved {
    /// A name for whoever is reached, and as whom: the digest of the configuration mixed with everything that was
    /// expanded, credentials included. They cannot be read back from it. What a helper will print is no part of it.
    #[must_use]
    pub fn fingerprint(&self, digest: Digest) -> Digest {
        let mut hash = Hash(Sha256::new());
        hash.word("resolved");
        hash.bytes(&digest.0);
        match &self.reach {
            Reach::Command { program, args, env, cwd } => {
                hash.word(program.expose());
                hash.list(args, |hash, arg| hash.word(arg.expose()));
                hash.list(env, |hash, (name, value)| {
                    hash.word(name);
                    hash.list(value.as_slice(), |hash, value| hash.word(value.expose()));
                });
                hash.list(cwd.as_slice(), |hash, cwd| hash.word(&cwd.to_string_lossy()));
            }
            Reach::Http(endpoint) | Reach::Sse(endpoint) | Reach::WebSocket(endpoint) => {
                hash.endpoint(endpoint);
            }
            Reach::Unix(path) | Reach::Pipe(path) => hash.word(&path.to_string_lossy()),
            Reach::Tcp(address) => hash.word(address),
        }
        hash.finish()
    }
}

struct Hash(Sha256);

impl Hash {
    /// Every word says how long it is, so that no two texts run together to the same.
    fn word(&mut self, word: &str) {
        self.count(word.len());
        self.bytes(word.as_bytes());
    }

    fn count(&mut self, count: usize) {
        self.bytes(&(count as u64).to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes).expect("a configuration is far shorter than 2^61 bytes");
    }

    fn list<T>(&mut self, items: &[T], each: impl Fn(&mut Self, &T)) {
        self.count(items.len());
        items.iter().for_each(|item| each(self, item));
    }

    fn remote(&mut self, remote: &Remote) {
        self.text(&remote.url);
        self.list(&remote.headers, |hash, (name, value)| {
            hash.word(&name.to_ascii_lowercase());
            hash.text(value);
        });
        self.list(remote.headers_helper.as_slice(), Self::text);
        self.list(remote.bearer_env.as_slice(), |hash, name| hash.word(name));
        self.list(remote.ca.as_slice(), Self::text);
    }

    fn endpoint(&mut self, endpoint: &Endpoint) {
        self.word(endpoint.url.expose());
        self.list(&endpoint.headers, |hash, (name, value)| {
            hash.word(&name.to_ascii_lowercase());
            hash.word(value.expose());
        });
        self.list(endpoint.ca.as_slice(), |hash, ca| hash.word(&ca.to_string_lossy()));
    }

    fn text(&mut self, text: &Text) {
        self.list(&text.parts, |hash, part| match part {
            Part::Literal(text) => hash.tagged("literal", text),
            Part::Variable { name, default } => {
                hash.tagged("variable", name);
                hash.list(default.as_slice(), |hash, default| hash.text(default));
            }
            Part::Input(id) => hash.tagged("input", id),
            Part::File(path) => hash.tagged("file", path),
            Part::Command(line) => hash.tagged("command", line),
            Part::Place(place) => hash.tagged("place", &format!("{place:?}")),
            Part::Unknown(raw) => hash.tagged("unknown", raw),
        });
    }

    fn tagged(&mut self, tag: &str, word: &str) {
        self.word(tag);
        self.word(word);
    }

    fn node(&mut self, node: &Node) {
        self.word(node.value.kind());
        match &node.value {
            Value::Null => {}
            Value::Bool(value) => self.word(&value.to_string()),
            Value::Number(word) | Value::Text(word) => self.word(word),
            Value::List(items) => self.list(items, Self::node),
            Value::Table(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by(|one, two| one.key.cmp(&two.key));
                self.list(&entries, |hash, entry| {
                    hash.word(&entry.key);
                    hash.node(&entry.node);
                });
            }
        }
    }

    fn finish(mut self) -> Digest {
        let digest: Result<_, UnknownCryptoError> = self.0.finalize();
        let digest = digest.expect("it is finished once");
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Digest(bytes)
    }
}
