//! What a new configuration changes, so that only that is touched.

use crate::server::Server;

/// The difference between two sets of servers, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    /// Only in the new one.
    pub added: Vec<String>,
    /// Only in the old one.
    pub removed: Vec<String>,
    /// In both, but not the same.
    pub changed: Vec<Changed>,
    /// In both, and the same.
    pub same: Vec<String>,
}

/// A server that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Which.
    pub name: String,
    /// In which parts.
    pub parts: Vec<&'static str>,
    /// What it takes.
    pub touch: Touch,
}

/// What a change takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// The server must be reached anew.
    Restart,
    /// The link can stay.
    Keep,
}

impl Diff {
    /// Compares the servers of two configurations.
    #[must_use]
    pub fn of(old: &[Server], new: &[Server]) -> Self {
        let find = |servers: &[Server], name: &str| servers.iter().position(|server| server.name == name);
        let mut diff = Self::default();
        for server in old.iter().filter(|server| find(new, &server.name).is_none()) {
            diff.removed.push(server.name.clone());
        }
        for server in new {
            let Some(at) = find(old, &server.name) else {
                diff.added.push(server.name.clone());
                continue;
            };
            let parts = old[at].differences(server);
            if parts.is_empty() {
                diff.same.push(server.name.clone());
                continue;
            }
            let touch = if old[at].digest() == server.digest() { Touch::Keep } else { Touch::Restart };
            diff.changed.push(Changed { name: server.name.clone(), parts, touch });
        }
        diff
    }
}
