//! Files that come with a project: what they would run is run only once the user has seen it.
//!
//! Whoever opens a folder has not read its files. So a server of such a file that would start a process, or take values from this
//! machine elsewhere, or take the place of one of the user's, is trusted as it is, by the digest of what it is and the file that
//! says so. Whatever changes in either is to be trusted anew. Files that the user named, and the user's own, are trusted: whoever writes there is the user.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cardan_proto::limits::config::FILE_BYTES;

use crate::file::{overwrite, read_plain};
use crate::load::{Config, Search};
use crate::resolve::{Commands, Surroundings};
use crate::server::{EnvPolicy, Remote, Server, Way};
use crate::text::Text;
use crate::tool::Folders;

/// May what a server's file says be done?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// Yes: the user wrote or named the file, or it does nothing but name an address under a name of its own.
    #[default]
    Ours,
    /// Yes: it came with the project, and the user has trusted it.
    Trusted,
    /// Not before the user has seen it.
    Unseen,
    /// No: others on this machine can change the file at any time.
    Exposed,
}

/// What the user has trusted.
#[derive(Debug, Clone, Default)]
pub struct Trusted {
    text: String,
}

impl Trusted {
    /// What is remembered in `cardan/trusted` beside the user's `cardan.toml`.
    pub fn of(folders: &Folders) -> io::Result<Self> {
        let text = Self::file(folders).map(|path| read(&path)).transpose()?.unwrap_or_default();
        Ok(Self { text })
    }

    /// Where it is remembered.
    #[must_use]
    pub fn file(folders: &Folders) -> Option<PathBuf> {
        folders.xdg.as_ref().map(|folder| folder.join("cardan/trusted"))
    }

    /// How a server of a file stands that came with the project.
    #[must_use]
    pub fn standing(&self, server: &Server, config: &Config, search: &Search) -> Standing {
        let wanted = line(server, config, search);
        match () {
            () if is_exposed(&server.origin.file) => Standing::Exposed,
            () if self.text.lines().any(|known| known == wanted) => Standing::Trusted,
            () => Standing::Unseen,
        }
    }

    /// Trusts servers as they are in a configuration, until they are something else.
    pub fn add<'a>(
        servers: impl IntoIterator<Item = &'a Server>,
        config: &Config,
        search: &Search,
    ) -> io::Result<()> {
        let Some(path) = Self::file(&search.folders) else {
            return Err(io::Error::other("there is no home where it could be remembered"));
        };
        // What others add between reading and writing would be lost.
        let _held = hold(&path)?;
        let mut text = read(&path)?;
        for line in servers.into_iter().map(|server| line(server, config, search)) {
            if !text.lines().any(|known| known == line) {
                text += &format!("{line}\n");
            }
        }
        overwrite(&path, &text)
    }
}

/// What is remembered; nothing where there is no file yet.
fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(String::new());
    }
    let bytes = read_plain(path, FILE_BYTES).map_err(io::Error::other)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}

/// Keeps other processes from changing the file until it is dropped. The file itself is replaced, so another one is held.
fn hold(path: &Path) -> io::Result<fs::File> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let lock = options.write(true).create(true).truncate(false).open(path.with_extension("lock"))?;
    lock.lock()?;
    Ok(lock)
}

/// What is remembered of a server: what it is here, and which file says so.
fn line(server: &Server, config: &Config, search: &Search) -> String {
    let (env, project) = (|name: &str| std::env::var(name).ok(), search.project());
    let around = Surroundings {
        env: &env,
        inputs: &|id| config.input(id, &env),
        home: search.folders.home.as_deref(),
        workspace: Some(&project),
        commands: Commands::Refuse,
    };
    let policy = config.settings(server).env_policy.unwrap_or(EnvPolicy::Inherit);
    let seal = server.seal(policy, &server.env_file_texts(&around));
    let file = &server.origin.file;
    // Quoted, so that no name of a file makes two lines.
    format!("{seal} {:?}", fs::canonicalize(file).as_ref().unwrap_or(file))
}

/// Does it do more than name an address: start a process, or send what is on this machine?
pub(crate) fn acts(server: &Server) -> bool {
    let takes = |text: &Text| text.has_placeholders();
    match &server.way {
        Way::Command(_) => true,
        Way::Http(remote) | Way::Sse(remote) | Way::WebSocket(remote) => {
            let Remote { url, headers, headers_helper, bearer_env, .. } = remote;
            headers_helper.is_some()
                || bearer_env.is_some()
                || takes(url)
                || headers.iter().any(|(_, value)| takes(value))
        }
        Way::Unix(address) | Way::Pipe(address) | Way::Tcp(address) => takes(address),
    }
}

/// Can anyone on this machine change it?
fn is_exposed(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        const OTHERS_WRITE: u32 = 0o002;
        fs::metadata(file).is_ok_and(|about| about.permissions().mode() & OTHERS_WRITE != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        false
    }
}
