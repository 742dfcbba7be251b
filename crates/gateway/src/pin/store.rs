//! Approved tools on disk, a file for each server, for its owner alone.
//!
//! A file is replaced whole, by renaming, so several processes may share the folder. Whoever changes one holds the folder from
//! reading to writing, so that nobody's change is lost.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use cardan_config::tool::Folders;
use cardan_proto::limits::fleet::{CATALOG_BYTES, PIN_FORMS, PIN_HOLD_POLL, PIN_HOLD_TIME};
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
    /// As it was told last to all, where that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Pin>,
    /// As it was told to one client alone, the oldest first. What others are told decides nothing about it, so it waits until it is
    /// approved, and none makes room for another: whoever is told the former would put it back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    alone: Vec<Pin>,
    /// As it was approved for one alone: good beside the other, for anybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    also: Vec<Pin>,
}

/// Who is told of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearer {
    /// Everybody.
    All,
    /// One client, in a session of its own.
    One,
}

impl Known {
    fn new(approved: Pin) -> Self {
        Self { approved, changed: None, alone: Vec::new(), also: Vec::new() }
    }

    /// What waits to be approved.
    pub fn waiting(&self) -> impl Iterator<Item = &Pin> {
        self.changed.iter().chain(&self.alone)
    }

    /// Was it approved so?
    fn approves(&self, now: &Pin) -> bool {
        self.approved.is(now) || self.also.iter().any(|form| form.is(now))
    }
}

impl Pinned {
    /// Of a server of which nothing was seen.
    #[must_use]
    pub fn new(server: &str) -> Self {
        Self { format: FORMAT, server: server.to_owned(), tools: BTreeMap::new() }
    }

    /// A tool is told as `now`. Is it as it was approved? One that is new is.
    pub fn meet(&mut self, tool: &str, now: Pin, hearer: Hearer) -> bool {
        let Some(known) = self.tools.get_mut(tool) else {
            self.tools.insert(tool.to_owned(), Known::new(now));
            return true;
        };
        let approved = known.approves(&now);
        match hearer {
            Hearer::All => {
                known.alone.retain(|form| !form.is(&now));
                known.changed = (!approved).then_some(now);
            }
            Hearer::One if approved || known.waiting().any(|form| form.is(&now)) => {}
            Hearer::One if known.alone.len() >= PIN_FORMS => {}
            Hearer::One => known.alone.push(now),
        }
        approved
    }

    /// Does a form of a tool wait to be approved, by its digest?
    pub(super) fn waits(&self, tool: &str, digest: &str) -> bool {
        let is_it = |form: &Pin| digest.starts_with(&form.short());
        self.tools.get(tool).is_some_and(|known| known.waiting().any(is_it))
    }

    /// Approves a tool as it was shown, by its short digest. False: it is something else by now, or as it was.
    #[must_use]
    pub fn approve(&mut self, tool: &str, shown: &str) -> bool {
        let Some(known) = self.tools.get_mut(tool) else { return false };
        if let Some(now) = known.changed.take_if(|now| now.short() == shown) {
            known.also.retain(|form| !form.is(&now));
            known.approved = now;
            return true;
        }
        let Some(at) = known.alone.iter().position(|form| form.short() == shown) else { return false };
        let form = known.alone.remove(at);
        push(&mut known.also, form);
        true
    }
}

/// Adds a form to those that there are; the oldest makes room.
pub(super) fn push<T>(forms: &mut Vec<T>, form: T) {
    if forms.len() == PIN_FORMS {
        forms.remove(0);
    }
    forms.push(form);
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
    /// Where they were kept before; none: nowhere.
    before: Option<PathBuf>,
}

impl PinStore {
    /// Kept below `dir`, which is made when something is kept.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), before: None }
    }

    /// What is kept below `before` and not here is taken over when it is looked for.
    #[must_use]
    pub fn moved_from(self, before: impl Into<PathBuf>) -> Self {
        Self { before: Some(before.into()), ..self }
    }

    /// Beside what this user trusts: `$XDG_CONFIG_HOME/cardan/pins` or `~/.config/cardan/pins`. They used to be beside the catalogs, but
    /// whoever clears a cache means to lose nothing.
    #[must_use]
    pub fn of_user(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let store = Self::new(Folders::of(&variable).xdg?.join("cardan/pins"));
        Some(match cache::folder(variable, "pins") {
            Some(before) => store.moved_from(before),
            None => store,
        })
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
        let path = self.path(key)?;
        if let Some(pinned) = Self::read(&path)? {
            return Ok(Some(pinned));
        }
        let Some(old) = self.before.as_deref().and_then(|before| cache::place(before, key)) else {
            return Ok(None);
        };
        let Some(pinned) = Self::read(&old)? else {
            // Somebody may have taken it over between the two looks.
            return Self::read(&path);
        };
        // Once: what is approved from here on is approved here. Where it cannot be kept, it is read there again.
        match cache::add(&self.dir, &path, &serde_json::to_vec(&pinned)?) {
            Ok(()) => drop(fs::remove_file(&old)),
            // Somebody else was faster, and may have approved something since.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Self::read(&path),
            Err(_) => {}
        }
        Ok(Some(pinned))
    }

    fn read(path: &Path) -> io::Result<Option<Pinned>> {
        let file = match fs::File::open(path) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

    use serde_json::json;

    use super::*;

    fn pin(description: &str) -> Pin {
        let told = json!({ "name": "a", "description": description });
        serde_json::from_value(json!({ "digest": "", "told": told })).unwrap()
    }

    /// T25: what is approved is what was shown, and nothing that came since.
    #[test]
    fn t25_nothing_is_approved_that_was_not_shown() {
        let mut pinned = Pinned::new("one");
        assert!(pinned.meet("a", pin("adds"), Hearer::All));
        assert!(!pinned.meet("a", pin("adds more"), Hearer::All));
        let shown = pin("adds more").short();
        assert!(!pinned.meet("a", pin("reads ~/.ssh"), Hearer::All));
        assert!(!pinned.approve("a", &shown) && !pinned.approve("b", &shown));
        assert_eq!(pinned.tools["a"].changed, Some(pin("reads ~/.ssh")));
        assert!(pinned.approve("a", &pin("reads ~/.ssh").short()));
        assert!(!pinned.approve("a", &pin("reads ~/.ssh").short()), "it is as it was approved");
    }

    /// T25: what one client alone is told waits whatever all others are told, and is good beside it once it is approved.
    #[test]
    fn t25_what_one_is_told_waits_for_its_own_approval() {
        let mut pinned = Pinned::new("one");
        assert!(pinned.meet("a", pin("adds"), Hearer::All));
        for _ in 0..2 {
            assert!(!pinned.meet("a", pin("adds for ada"), Hearer::One));
            assert!(!pinned.meet("a", pin("adds for bob"), Hearer::One));
            assert!(pinned.meet("a", pin("adds"), Hearer::All) && pinned.meet("a", pin("adds"), Hearer::One));
        }
        let waiting: Vec<_> = pinned.tools["a"].waiting().cloned().collect();
        assert_eq!(waiting, [pin("adds for ada"), pin("adds for bob")]);
        assert!(pinned.approve("a", &pin("adds for ada").short()));
        assert!(
            pinned.meet("a", pin("adds for ada"), Hearer::One) && pinned.meet("a", pin("adds"), Hearer::All)
        );
        assert!(!pinned.meet("a", pin("adds for bob"), Hearer::One));
        // When all are told the same, there is one that waits.
        assert!(!pinned.meet("a", pin("adds for bob"), Hearer::All));
        assert_eq!(pinned.tools["a"].waiting().count(), 1);
        // Those that came first wait, however many come.
        let numbers: Vec<_> = (0..2 * PIN_FORMS).map(|number| pin(&number.to_string())).collect();
        for form in numbers.iter().chain(&numbers) {
            assert!(!pinned.meet("a", form.clone(), Hearer::One));
        }
        assert_eq!(pinned.tools["a"].alone, numbers[..PIN_FORMS]);
        assert!(pinned.waits("a", &numbers[0].short()) && !pinned.waits("a", &numbers[PIN_FORMS].short()));
    }

    /// T25: what was approved where caches are stays approved when caches are cleared.
    #[test]
    fn t25_what_was_kept_beside_caches_is_taken_over_once() {
        let place = std::env::temp_dir().join(format!("cardan-pins-moved-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        let (cache, config) = (place.join("cache"), place.join("config"));
        let mut pinned = Pinned::new("one");
        pinned.meet("a", pin("adds"), Hearer::All);
        PinStore::new(&cache).save("ab", &pinned).unwrap();
        let store = PinStore::new(&config).moved_from(&cache);
        assert_eq!(store.load("cd").unwrap(), None);
        assert_eq!(store.load("ab").unwrap(), Some(pinned.clone()));
        fs::remove_dir_all(&cache).unwrap();
        assert_eq!(store.load("ab").unwrap(), Some(pinned.clone()));
        // What is here is not overwritten by what is there.
        PinStore::new(&cache).save("ab", &Pinned::new("other")).unwrap();
        assert_eq!(store.load("ab").unwrap(), Some(pinned));
        fs::remove_dir_all(&place).unwrap();
    }
}
