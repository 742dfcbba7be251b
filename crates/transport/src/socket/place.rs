//! The file of a Unix socket: made private before anyone can see it, removed with its listener.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Where our socket is. Dropped, it is removed if it is still ours.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Device and number of our file: another may have taken the path since.
    file: (u64, u64),
}

impl Place {
    /// Binds at `path`, for the owner only.
    ///
    /// A socket is born with the mode that the umask allows. So it is bound in a directory of its own
    /// that nobody else can enter, and moved to its place when its mode is right.
    pub(super) async fn bind(path: PathBuf) -> io::Result<(UnixListener, Self)> {
        clear(&path).await?;
        let cradle = Cradle::new(&path)?;
        let born = cradle.0.join("s");
        let listener = UnixListener::bind(&born)?;
        fs::set_permissions(&born, Permissions::from_mode(0o600))?;
        let file = identity(&born)?;
        fs::rename(&born, &path)?;
        Ok((listener, Self { path, file }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The directory in which a socket is born; gone when dropped.
struct Cradle(PathBuf);

impl Cradle {
    fn new(path: &Path) -> io::Result<Self> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // Short, because the path of a socket may have about a hundred bytes.
        for n in 0..CRADLES {
            let cradle = parent.join(format!(".{}.{n}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&cradle) {
                Ok(()) => return Ok(Self(cradle)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("no free name beside the socket"))
    }
}

/// Binds at the same time in one directory, and leftovers of processes with our number.
const CRADLES: usize = 64;

impl Drop for Cradle {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0.join("s"));
        let _ = fs::remove_dir(&self.0);
    }
}

/// Makes room: only a socket that nobody listens on is in nobody's way.
async fn clear(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}
