//! Files that come with a project: what they would run is run only once the user has seen it.
//!
//! Whoever opens a folder has not read its files. So a server of such a file that would start a process, or take values from this
//! machine elsewhere, is trusted as it is, by the digest of what it is and the file that says so. Whatever changes in either is to be
//! trusted anew. Files that the user named, and the user's own, are trusted: whoever writes there is the user.

use std::io;
use std::path::{Path, PathBuf};

use cardan_proto::limits::config::FILE_BYTES;

use crate::file::{overwrite, read_plain};
use crate::server::{Remote, Server, Way};
use crate::text::Text;
use crate::tool::Folders;

/// May what a server's file says be done?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// Yes: the user wrote or named the file, or it does nothing but name an address.
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
    path: Option<PathBuf>,
    text: String,
}

impl Trusted {
    /// What is remembered in `cardan/trusted` beside the user's `cardan.toml`. What cannot be read trusts nothing.
    #[must_use]
    pub fn of(folders: &Folders) -> Self {
        let path = Self::file(folders);
        let bytes = path.as_ref().and_then(|path| read_plain(path, FILE_BYTES).ok());
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        Self { path, text }
    }

    /// Where it is remembered.
    #[must_use]
    pub fn file(folders: &Folders) -> Option<PathBuf> {
        folders.xdg.as_ref().map(|folder| folder.join("cardan/trusted"))
    }

    /// How a server of a file stands that came with the project.
    #[must_use]
    pub fn standing(&self, server: &Server) -> Standing {
        let wanted = line(server);
        match () {
            () if !acts(server) => Standing::Ours,
            () if is_exposed(&server.origin.file) => Standing::Exposed,
            () if self.text.lines().any(|known| known == wanted) => Standing::Trusted,
            () => Standing::Unseen,
        }
    }

    /// Trusts servers as they are, until they are something else.
    pub fn add<'a>(&mut self, servers: impl IntoIterator<Item = &'a Server>) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Err(io::Error::other("there is no home where it could be remembered"));
        };
        let mut text = self.text.clone();
        for line in servers.into_iter().map(line) {
            if !text.lines().any(|known| known == line) {
                text += &format!("{line}\n");
            }
        }
        overwrite(path, &text)?;
        self.text = text;
        Ok(())
    }
}

/// What is remembered of a server: what it is, and which file says so.
fn line(server: &Server) -> String {
    let file = &server.origin.file;
    // Quoted, so that no name of a file makes two lines.
    format!("{} {:?}", server.digest(), std::fs::canonicalize(file).as_ref().unwrap_or(file))
}

/// Does it do more than name an address: start a process, or send what is on this machine?
fn acts(server: &Server) -> bool {
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
        std::fs::metadata(file).is_ok_and(|about| about.permissions().mode() & OTHERS_WRITE != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        false
    }
}
