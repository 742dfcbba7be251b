//! Which file a command means.
//!
//! Found by us rather than by the system: the error can then say where was looked, and the child is
//! started the fast way even when its environment differs from ours.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::SpawnError;

/// The file that `program` means for a child with this working directory and `PATH`.
pub(crate) fn find(program: &OsStr, cwd: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, SpawnError> {
    let base = base(cwd)?;
    if program.as_bytes().contains(&b'/') {
        let file = base.join(program);
        return match judge(&file) {
            Verdict::Runs => Ok(file),
            Verdict::CannotRun(reason) => Err(SpawnError::NotExecutable { path: file, reason }),
            Verdict::Absent => Err(SpawnError::NotFound { program: lossy(program), searched: None }),
        };
    }
    let searched = path.unwrap_or_default();
    let mut refused = None;
    for dir in std::env::split_paths(searched).filter(|_| !searched.is_empty() && !program.is_empty()) {
        let file = base.join(dir).join(program);
        match judge(&file) {
            Verdict::Runs => return Ok(file),
            Verdict::CannotRun(reason) => {
                refused.get_or_insert(SpawnError::NotExecutable { path: file, reason });
            }
            Verdict::Absent => {}
        }
    }
    let searched = Some(lossy(searched));
    Err(refused.unwrap_or_else(|| SpawnError::NotFound { program: lossy(program), searched }))
}

/// Is it something that can be started here, with our own `PATH`?
#[must_use]
pub fn is_program(word: &OsStr) -> bool {
    find(word, None, std::env::var_os("PATH").as_deref()).is_ok()
}

/// What the system said, in our words: directory and file were there a moment ago.
pub(crate) fn explain(error: io::Error, program: &OsStr, file: PathBuf) -> SpawnError {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => {
            "the interpreter named in its first line does not exist; install it or correct the line"
        }
        io::ErrorKind::PermissionDenied => {
            "the system denies running it; check its permissions and its mount"
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            "it is neither a program for this machine nor a script whose first line names its interpreter"
        }
        _ => return SpawnError::Other { program: lossy(program), source: error },
    };
    SpawnError::NotExecutable { path: file, reason: reason.into() }
}

/// Where relative paths start. Absolute, because the child enters its directory first.
fn base(cwd: Option<&Path>) -> Result<PathBuf, SpawnError> {
    let Some(cwd) = cwd else {
        return std::env::current_dir().map_err(|source| SpawnError::BadCwd { cwd: ".".into(), source });
    };
    let bad = |source| SpawnError::BadCwd { cwd: cwd.to_owned(), source };
    match cwd.metadata() {
        Ok(metadata) if metadata.is_dir() => std::path::absolute(cwd).map_err(bad),
        Ok(_) => Err(bad(io::ErrorKind::NotADirectory.into())),
        Err(error) => Err(bad(error)),
    }
}

enum Verdict {
    Runs,
    CannotRun(Box<str>),
    Absent,
}

fn judge(file: &Path) -> Verdict {
    let executable = |metadata: &Metadata| metadata.permissions().mode() & 0o111 != 0;
    match file.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Verdict::CannotRun("it is a directory; name a program in it".into())
        }
        Ok(metadata) if executable(&metadata) => Verdict::Runs,
        Ok(_) => Verdict::CannotRun("it may not be executed; allow it with `chmod +x`".into()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Verdict::CannotRun(
            "a directory on the way to it may not be entered; check its permissions".into(),
        ),
        Err(_) => Verdict::Absent,
    }
}

fn lossy(text: &OsStr) -> Box<str> {
    text.to_string_lossy().into()
}
