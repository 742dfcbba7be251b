//! Files on disk, replaced whole or not at all, with a backup.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cardan_proto::limits::config::BACKUPS;

/// Reads a file of at most so many bytes. It may be read again at any time, so it must stay what it is: a plain file.
pub fn read_plain(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no plain file".to_owned());
    }
    let too_long = || format!("it is longer than {most} bytes");
    if about.len() > most {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    // It may grow while it is read.
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most { Err(too_long()) } else { Ok(bytes) }
}

/// What happened to the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved {
    /// There was none.
    New,
    /// The old one is kept here.
    Backup(PathBuf),
}

/// Replaces a file's text. It must still hold `old`; permissions stay, a symlink stays one, and the old text is kept
/// beside it in `NAME.bak`, `NAME.bak.1` and so on.
pub fn replace(path: &Path, old: Option<&str>, new: &str) -> io::Result<Saved> {
    let Some(old) = old else { return create(path, new) };
    let path = fs::canonicalize(path)?;
    if fs::read(&path)? != old.as_bytes() {
        return Err(io::Error::other("the file has changed since it was read; nothing was written"));
    }
    let permissions = fs::metadata(&path)?.permissions();
    let backup = back_up(&path, old, &permissions)?;
    let draft = sibling(&path, &format!(".cardan-{}", std::process::id()));
    let written = write_new(&draft, new)
        .and_then(|()| fs::set_permissions(&draft, permissions))
        .and_then(|()| fs::rename(&draft, &path));
    if let Err(error) = written {
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    settle(path.parent().unwrap_or(&path));
    Ok(Saved::Backup(backup))
}

/// Puts a text in the place of what was there, whole or not at all, for its owner alone. No backup is kept.
pub(crate) fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let draft = sibling(path, &format!(".cardan-{}", std::process::id()));
    // Left behind by someone who had the same number.
    let _ = fs::remove_file(&draft);
    if let Err(error) = write_new(&draft, text).and_then(|()| fs::rename(&draft, path)) {
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    settle(folder);
    Ok(())
}

/// Lets the names in a folder outlast a loss of power. Where that cannot be asked for, they are as safe as they are.
pub fn settle(folder: &Path) {
    if let Ok(folder) = fs::File::open(folder) {
        let _ = folder.sync_all();
    }
}

fn create(path: &Path, text: &str) -> io::Result<Saved> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    // A link is made only where nothing is, and what it leads to is whole already.
    let draft = sibling(path, &format!(".cardan-{}", std::process::id()));
    let made = write_new(&draft, text).and_then(|()| match fs::hard_link(&draft, path) {
        // Not every file system has links; a name that nobody had a moment ago is as good.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => {
            fs::rename(&draft, path)
        }
        linked => linked,
    });
    // Gone already where it was renamed.
    let _ = fs::remove_file(&draft);
    made?;
    settle(path.parent().unwrap_or(path));
    Ok(Saved::New)
}

fn back_up(path: &Path, text: &str, permissions: &fs::Permissions) -> io::Result<PathBuf> {
    for number in 0..BACKUPS {
        let ending = if number == 0 { ".bak".to_owned() } else { format!(".bak.{number}") };
        let backup = sibling(path, &ending);
        match write_new(&backup, text) {
            Ok(()) => {
                fs::set_permissions(&backup, permissions.clone())?;
                return Ok(backup);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("there are too many backups of this file already"))
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// Only its owner reads it until its permissions are known: it may hold secrets.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
