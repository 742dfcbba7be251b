//! Which servers were found to be legacy, on disk, so that the next process need not find out again.
//!
//! One small file for all, replaced whole; of two processes that learn at once one may be forgotten, and learns again. What was
//! found holds for a while only: a server that has become modern is to be noticed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use cardan_proto::limits::fleet::{ERA_AGE, ERA_BYTES, ERAS};
use serde::{Deserialize, Serialize};

use crate::cache::{folder, replace};

/// Files of another make are not read.
const FORMAT: u32 = 1;

/// Where it is kept.
#[derive(Debug, Clone)]
pub struct EraCache {
    dir: PathBuf,
}

/// When each legacy server was found to be one, in seconds since 1970, by the digest of what it is.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Found {
    format: u32,
    legacy: BTreeMap<String, u64>,
}

impl EraCache {
    /// Kept in `dir`, which is made when something is kept.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Where this user keeps such things: `$XDG_CACHE_HOME/cardan/eras` or `~/.cache/cardan/eras`.
    #[must_use]
    pub fn of_user(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        folder(variable, "eras").map(Self::new)
    }

    /// Was this server found to be legacy of late?
    #[must_use]
    pub fn is_legacy(&self, digest: &str) -> bool {
        self.load().legacy.contains_key(digest)
    }

    /// It was found to be legacy just now.
    pub fn learn(&self, digest: &str) -> io::Result<()> {
        let mut found = self.load();
        found.legacy.insert(digest.to_owned(), now());
        while found.legacy.len() > ERAS {
            let oldest = found.legacy.iter().min_by_key(|(_, at)| **at).map(|(digest, _)| digest.clone());
            oldest.and_then(|oldest| found.legacy.remove(&oldest));
        }
        self.save(&found)
    }

    /// It is not, or not any more.
    pub fn forget(&self, digest: &str) -> io::Result<()> {
        let mut found = self.load();
        match found.legacy.remove(digest) {
            Some(_) => self.save(&found),
            None => Ok(()),
        }
    }

    /// What still holds. What cannot be read is as good as absent.
    fn load(&self) -> Found {
        let read = || {
            let file = fs::File::open(self.path()).ok()?;
            let text = io::read_to_string(io::Read::take(file, ERA_BYTES)).ok()?;
            serde_json::from_str(&text).ok().filter(|found: &Found| found.format == FORMAT)
        };
        let mut found: Found = read().unwrap_or_default();
        let now = now();
        // From the future: the clock was wrong then or is now, and nothing follows from it.
        found.legacy.retain(|_, at| *at <= now && now - *at < ERA_AGE.as_secs());
        found
    }

    fn save(&self, found: &Found) -> io::Result<()> {
        let text = serde_json::to_vec(&Found { format: FORMAT, legacy: found.legacy.clone() })?;
        replace(&self.dir, &self.path(), &text)
    }

    fn path(&self) -> PathBuf {
        self.dir.join("eras.json")
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("cardan-eras-{}-{name}", std::process::id()))
    }

    /// What was learnt is there for the next process, for its owner alone, until it is forgotten.
    #[test]
    fn what_is_learnt_is_kept_and_forgotten() {
        let dir = scratch("kept");
        let cache = EraCache::new(&dir);
        assert!(!cache.is_legacy("aa"));
        cache.forget("aa").unwrap();
        assert!(!dir.exists(), "nothing is written for nothing");
        cache.learn("aa").unwrap();
        cache.learn("bb").unwrap();
        let again = EraCache::new(&dir);
        assert!(again.is_legacy("aa") && again.is_legacy("bb") && !again.is_legacy("cc"));
        #[cfg(unix)]
        {
            let mode =
                |path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
            assert_eq!((mode(dir.clone()) & 0o77, mode(dir.join("eras.json")) & 0o77), (0, 0));
        }
        again.forget("aa").unwrap();
        assert!(!cache.is_legacy("aa") && cache.is_legacy("bb"));
        fs::remove_dir_all(dir).unwrap();
    }

    /// What is old, from the future or broken says nothing; the oldest make room.
    #[test]
    fn what_is_kept_is_bounded() {
        let dir = scratch("bounded");
        let cache = EraCache::new(&dir);
        let mut found = Found { format: FORMAT, legacy: BTreeMap::new() };
        found.legacy.insert("old".into(), now() - ERA_AGE.as_secs());
        found.legacy.insert("future".into(), now() + 1000);
        cache.save(&found).unwrap();
        assert!(!cache.is_legacy("old") && !cache.is_legacy("future"));
        found.legacy = (0..ERAS).map(|n| (format!("{n:04}"), now() - (ERAS - n) as u64)).collect();
        cache.save(&found).unwrap();
        cache.learn("new").unwrap();
        assert!(cache.is_legacy("new") && cache.is_legacy("0001") && !cache.is_legacy("0000"));
        assert!(fs::metadata(dir.join("eras.json")).unwrap().len() < ERA_BYTES);
        fs::write(dir.join("eras.json"), "{").unwrap();
        assert!(!cache.is_legacy("new"));
        fs::remove_dir_all(dir).unwrap();
    }
}
