//! Catalogs on disk, one file each, so that tools are listed before their servers have started.
//!
//! A file is replaced whole, by renaming, so several processes may share the directory. What cannot be read is as
//! good as absent: the server will tell again.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cardan_proto::limits::fleet::{CATALOG_AGE, CATALOG_BYTES};
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, Kind, List};

/// Files of another make are not read.
const FORMAT: u32 = 3;

/// Where catalogs are kept.
#[derive(Debug, Clone)]
pub struct CatalogCache {
    dir: PathBuf,
}

/// A catalog, and when it was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    format: u32,
    /// What the server was called, for people who look into the file.
    pub server: String,
    /// When each list was told.
    #[serde(rename = "told_ms")]
    pub told: Told,
    /// What it offers.
    pub catalog: Catalog,
}

/// When each list was told; none: never.
///
/// In milliseconds since 1970: other processes must understand it, so it is the wall clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told([Option<u64>; Kind::ALL.len()]);

impl Told {
    /// The list was told just now.
    pub fn now(&mut self, kind: Kind) {
        self.0[kind as usize] = Some(now_ms());
    }

    /// The list is not known any more.
    pub fn forget(&mut self, kind: Kind) {
        self.0[kind as usize] = None;
    }

    /// How long ago the list was told; a clock that was set back makes it new.
    #[must_use]
    pub fn age(&self, kind: Kind) -> Option<Duration> {
        self.0[kind as usize].map(|told| Duration::from_millis(now_ms().saturating_sub(told)))
    }

    /// For how long the server allows to use `list` without asking again; nothing: not any more.
    #[must_use]
    pub fn left(&self, kind: Kind, list: &List) -> Option<Duration> {
        // From the future: the clock was wrong then or is now, and nothing follows from it.
        let told = self.0[kind as usize].filter(|told| *told <= now_ms())?;
        let left = list.ttl_ms?.saturating_sub(now_ms().saturating_sub(told));
        (left > 0).then(|| Duration::from_millis(left))
    }
}

impl Kept {
    /// A catalog told just now, all of it.
    #[must_use]
    pub fn now(server: &str, catalog: Catalog) -> Self {
        let mut told = Told::default();
        for kind in Kind::ALL {
            told.now(kind);
        }
        Self::new(server, told, catalog)
    }

    /// A catalog whose lists were told at different times.
    #[must_use]
    pub fn new(server: &str, told: Told, catalog: Catalog) -> Self {
        Self { format: FORMAT, server: server.to_owned(), told, catalog }
    }

    /// Does the server allow to use this list without asking again?
    #[must_use]
    pub fn holds(&self, kind: Kind) -> bool {
        self.told.left(kind, self.catalog.list(kind)).is_some()
    }
}

impl CatalogCache {
    /// Kept below `dir`, which is made when something is kept.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Where this user keeps such things: `$XDG_CACHE_HOME/cardan/catalogs` or `~/.cache/cardan/catalogs`.
    #[must_use]
    pub fn of_user(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        folder(variable, "catalogs").map(Self::new)
    }

    /// What is kept under a digest. Nothing: never told, or not readable any more.
    #[must_use]
    pub fn load(&self, digest: &str) -> Option<Kept> {
        let file = fs::File::open(self.path(digest)?).ok()?;
        if file.metadata().ok()?.len() > CATALOG_BYTES {
            return None;
        }
        let bytes = io::read_to_string(io::Read::take(file, CATALOG_BYTES)).ok()?;
        serde_json::from_str(&bytes).ok().filter(|kept: &Kept| kept.format == FORMAT)
    }

    /// Keeps a catalog in place of what was there.
    pub fn save(&self, digest: &str, kept: &Kept) -> io::Result<()> {
        let path = self.path(digest).ok_or_else(|| io::Error::other("a digest is hexadecimal"))?;
        replace(&self.dir, &path, &serde_json::to_vec(kept)?)
    }

    /// Forgets what is kept under a digest.
    pub fn remove(&self, digest: &str) {
        if let Some(path) = self.path(digest) {
            // Already gone is as good.
            let _ = fs::remove_file(path);
        }
    }

    /// Takes out what was not told again for a long time, and drafts that somebody left behind.
    pub fn prune(&self) {
        let Ok(files) = fs::read_dir(&self.dir) else { return };
        for file in files.flatten() {
            let age = file.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > CATALOG_AGE) {
                let _ = fs::remove_file(file.path());
            }
        }
    }

    /// The digest comes from us; that it is a plain name is checked all the same, because it becomes a path.
    fn path(&self, digest: &str) -> Option<PathBuf> {
        place(&self.dir, digest)
    }
}

/// Where this user keeps such things.
pub(crate) fn folder(variable: impl Fn(&str) -> Option<String>, name: &str) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| Path::new(value).is_absolute());
    let base = set("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(Path::new(&set("HOME")?).join(".cache")))?;
    Some(base.join("cardan").join(name))
}

pub(crate) fn place(dir: &Path, digest: &str) -> Option<PathBuf> {
    let plain = !digest.is_empty() && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| dir.join(format!("{digest}.json")))
}

/// Puts a file in the place of what was there, whole or not at all, for its owner alone.
pub(crate) fn replace(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    drafted(dir, path, bytes, |draft| fs::rename(draft, path))
}

/// The same where nothing is; what is there stays.
pub(crate) fn add(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    drafted(dir, path, bytes, |draft| {
        fs::hard_link(draft, path)?;
        fs::remove_file(draft)
    })
}

fn drafted(
    dir: &Path,
    path: &Path,
    bytes: &[u8],
    name: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    make_private(dir)?;
    let unique = getrandom::u64().map_err(io::Error::other)?;
    let draft = path.with_extension(format!("{unique:016x}.draft"));
    // On the disk before it has the name: after a loss of power the old file is there or the new one, whole.
    let done = write_private(&draft, bytes).and_then(|()| name(&draft));
    if done.is_err() {
        // What is left of it helps nobody; the error that matters is the first.
        let _ = fs::remove_file(&draft);
    }
    done?;
    cardan_config::file::settle(dir);
    Ok(())
}

/// Tools tell what their owner works on: nobody else reads them.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(dir)
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
