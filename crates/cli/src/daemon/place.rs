//! Where the daemon is found: a folder that nobody but its owner can enter, and a name for what it serves.

use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use cardan_config::Search;
use rustix::process::getuid;

use crate::cmd::config::variable;
use crate::failure::Failure;

/// The files of one daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    folder: PathBuf,
    name: String,
}

/// How names of sockets end.
const SOCKET: &str = "sock";

/// Others may not even look.
const PRIVATE: u32 = 0o700;

impl Place {
    /// Of the daemon for this configuration, seen from here.
    ///
    /// What servers inherit beside what is configured is part of the name: where they start, and where programs are found.
    /// So is our program: another one may speak otherwise.
    pub(crate) fn of(search: &Search) -> Result<Self, Failure> {
        let mut hash = DefaultHasher::new();
        let file = search.file.as_ref().map(|file| search.cwd.join(file));
        (program(), file, &search.cwd, format!("{:?}", search.folders)).hash(&mut hash);
        variable("PATH").hash(&mut hash);
        Ok(Self { folder: folder()?, name: format!("{:016x}", hash.finish()) })
    }

    /// Of all daemons of this user that have left a socket.
    pub(crate) fn all() -> Result<Vec<Self>, Failure> {
        let folder = folder()?;
        let files = fs::read_dir(&folder).map_err(|error| unusable(&folder, &error.to_string()))?;
        let names = files.flatten().filter_map(|file| {
            let path = file.path();
            let is_socket = path.extension().is_some_and(|end| end == SOCKET);
            Some(path.file_stem()?.to_str()?.to_owned()).filter(|_| is_socket)
        });
        let mut all: Vec<_> = names.map(|name| Self { folder: folder.clone(), name }).collect();
        all.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(all)
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(&self.name).with_extension(SOCKET)
    }

    /// What it holds while it listens.
    pub(crate) fn lock(&self) -> PathBuf {
        self.folder.join(&self.name).with_extension("lock")
    }

    /// Where one that was started by a command says what happens: below `$XDG_STATE_HOME/cardan` or `~/.local/state/cardan`.
    pub(crate) fn log(&self) -> Option<PathBuf> {
        let set = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
        Some(base.join("cardan").join(format!("daemon-{}.log", self.name)))
    }
}

/// What tells our program from one that was put in its place.
fn program() -> Option<(u64, u64, i64, i64)> {
    let about = fs::metadata(std::env::current_exe().ok()?).ok()?;
    Some((about.dev(), about.ino(), about.mtime(), about.mtime_nsec()))
}

/// Whose processes are ours.
pub(crate) fn user() -> u32 {
    getuid().as_raw()
}

/// The folder of all daemons of this user, made if it is not there: in `$XDG_RUNTIME_DIR`, or else among the temporary files.
fn folder() -> Result<PathBuf, Failure> {
    let own = variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|base| base.is_absolute());
    let own = own.filter(|base| fs::metadata(base).is_ok_and(|about| about.is_dir() && is_ours(&about)));
    let folder = match own {
        Some(base) => base.join("cardan"),
        None => std::env::temp_dir().join(format!("cardan-{}", user())),
    };
    private(&folder).map(|()| folder)
}

/// Makes a folder for its owner alone, or sees that it is one. Whoever else made it, or made it lead elsewhere, could listen in
/// our place.
fn private(folder: &Path) -> Result<(), Failure> {
    match DirBuilder::new().mode(PRIVATE).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(unusable(folder, &error.to_string()));
        }
        _ => {}
    }
    let about = fs::symlink_metadata(folder).map_err(|error| unusable(folder, &error.to_string()))?;
    match about.is_dir() && is_ours(&about) {
        true => Ok(()),
        false => Err(unusable(folder, "it is no folder that is yours alone")),
    }
}

/// Ours, and nobody else may do anything there.
fn is_ours(about: &fs::Metadata) -> bool {
    about.uid() == user() && about.mode() & 0o077 == 0
}

fn unusable(folder: &Path, why: &str) -> Failure {
    Failure::usage(format!("the daemon's folder {} cannot be used: {why}", folder.display()))
        .next("remove it, or let XDG_RUNTIME_DIR name a folder that only you can enter")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("cardan-place-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    /// CLI-31: a folder that others can enter, or that leads elsewhere, is not used.
    #[test]
    fn only_a_folder_of_our_own_will_do() {
        let scratch = scratch("private");
        let fresh = scratch.join("fresh");
        private(&fresh).unwrap();
        assert_eq!(fs::metadata(&fresh).unwrap().mode() & 0o777, PRIVATE);
        private(&fresh).unwrap();
        let open = scratch.join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o750)).unwrap();
        private(&open).unwrap_err();
        let leading = scratch.join("leading");
        symlink(&fresh, &leading).unwrap();
        private(&leading).unwrap_err();
        let file = scratch.join("file");
        fs::write(&file, "").unwrap();
        private(&file).unwrap_err();
        fs::remove_dir_all(scratch).unwrap();
    }
}
