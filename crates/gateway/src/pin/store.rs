//! Approved tools on disk, a file for each server, for its owner alone.
//!
//! A file is replaced whole, by renaming, so several processes may share the folder. Whoever changes one holds the folder from
//! reading to writing, so that nobody's change is lost.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use cardan_proto::limits::fleet::{CATALOG_BYTES, PIN_HOLD_POLL, PIN_HOLD_TIME};
use serde::{Deserialize, Serialize};

use super::tool::Pin;
use crate::cache;

const FORMAT: u32 = 1;

/// The tools of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    format: u32,
    /// What the server was called, for people who look into the file.
    pub server: String,
    /// By the name that it has for them.
    pub tools: BTreeMap<String, Known>,
}

/// What is known of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// As it was approved, or first seen.
    pub approved: Pin,
    /// As it was told last, where that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Pin>,
}

impl Pinned {
    /// Of a server of which nothing was seen.
    #[must_use]
    pub fn new(server: &str) -> Self {
        Self { format: FORMAT, server: server.to_owned(), tools: BTreeMap::new() }
    }

    /// A tool is told as `now`. Is it as it was approved? One that is new is.
    pub fn meet(&mut self, tool: &str, now: Pin) -> bool {
        let Some(known) = self.tools.get_mut(tool) else {
            self.tools.insert(tool.to_owned(), Known { approved: now, changed: None });
            return true;
        };
        let same = known.approved.is(&now);
        known.changed = (!same).then_some(now);
        same
    }

    /// Approves what has changed, of one tool or of all; tells of which.
    pub fn approve(&mut self, tool: Option<&str>) -> Vec<String> {
        let mut approved = Vec::new();
        for (name, known) in self.tools.iter_mut().filter(|(name, _)| tool.is_none_or(|tool| tool == *name)) {
            if let Some(now) = known.changed.take() {
                known.approved = now;
                approved.push(name.clone());
            }
        }
        approved
    }
}

/// What tells that a file was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp(u64, Option<SystemTime>, u64);

/// Nobody else changes what is kept, while it lives.
#[derive(Debug)]
#[must_use = "it holds for as long as it lives"]
pub struct Hold {
    /// Closing it gives it back.
    _file: fs::File,
}

/// Where approved tools are kept.
#[derive(Debug, Clone)]
pub struct PinStore {
    dir: PathBuf,
}

impl PinStore {
    /// Kept below `dir`, which is made when something is kept.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Beside this user's catalogs: `$XDG_CACHE_HOME/cardan/pins` or `~/.cache/cardan/pins`.
    #[must_use]
    pub fn of_user(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        cache::folder(variable, "pins").map(Self::new)
    }

    /// Keeps other processes from changing anything until it is dropped. Waits for them, not for long.
    pub fn hold(&self) -> io::Result<Hold> {
        cache::make_private(&self.dir)?;
        let mut options = fs::OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.write(true).create(true).truncate(false).open(self.dir.join("lock"))?;
        let until = Instant::now() + PIN_HOLD_TIME;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Hold { _file: file }),
                Err(fs::TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(PIN_HOLD_POLL);
                }
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(io::Error::other("another process has held the folder for too long"));
                }
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// What is kept of a server; nothing: it was never seen.
    pub fn load(&self, key: &str) -> io::Result<Option<Pinned>> {
        let file = match fs::File::open(self.path(key)?) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() > CATALOG_BYTES {
            return Err(io::Error::other("the file is too large to be ours"));
        }
        let pinned: Pinned = serde_json::from_str(&io::read_to_string(io::Read::take(file, CATALOG_BYTES))?)?;
        match pinned.format {
            FORMAT => Ok(Some(pinned)),
            other => Err(io::Error::other(format!("format {other} is of another version"))),
        }
    }

    /// Keeps what is known of a server in place of what was there. Where that was read before, by whoever holds the folder.
    pub fn save(&self, key: &str, pinned: &Pinned) -> io::Result<()> {
        cache::replace(&self.dir, &self.path(key)?, &serde_json::to_vec(pinned)?)
    }

    /// Where what is known of a server is kept, for people.
    #[must_use]
    pub fn place(&self, key: &str) -> String {
        self.path(key).map(|path| path.display().to_string()).unwrap_or_default()
    }

    pub(super) fn stamp(&self, key: &str) -> Option<Stamp> {
        let about = fs::metadata(self.path(key).ok()?).ok()?;
        #[cfg(unix)]
        let place = std::os::unix::fs::MetadataExt::ino(&about);
        #[cfg(not(unix))]
        let place = 0;
        Some(Stamp(about.len(), about.modified().ok(), place))
    }

    fn path(&self, key: &str) -> io::Result<PathBuf> {
        let path = cache::place(&self.dir, key);
        path.ok_or_else(|| io::Error::other("what it is kept under is not hexadecimal"))
    }
}
