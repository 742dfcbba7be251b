//! Why a child could not be started, and what to do about it.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use cardan_proto::session::event::Hurdle;
use cardan_runtime::link::NoLink;

/// Why a child could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no such program.
    NotFound {
        /// As it was given.
        program: Box<str>,
        /// The `PATH` that was searched; none: the program was given by its path.
        searched: Option<Box<str>>,
    },
    /// It is there but cannot be run.
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: Box<str>,
    },
    /// The working directory cannot be entered.
    BadCwd {
        /// The directory.
        cwd: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The guard could not be started.
    Guard(io::Error),
    /// The system refused: no memory, too many processes or files.
    Other {
        /// As it was given.
        program: Box<str>,
        /// What it said.
        source: io::Error,
    },
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { program, searched: Some(path) } if path.is_empty() => {
                write!(f, "cannot start `{program}`: no PATH is set to search for it; give its full path")
            }
            Self::NotFound { program, searched: Some(path) } => {
                write!(
                    f,
                    "cannot start `{program}`: it is not in PATH ({path}); install it or give its full path"
                )
            }
            Self::NotFound { program, searched: None } => {
                write!(f, "cannot start `{program}`: there is no such file; check the path")
            }
            Self::NotExecutable { path, reason } => {
                write!(f, "cannot start `{}`: {reason}", path.display())
            }
            Self::BadCwd { cwd, source } => {
                let cwd = cwd.display();
                write!(f, "cannot start in directory `{cwd}`: {source}; create it or choose another")
            }
            Self::Guard(source) => {
                write!(
                    f,
                    "cannot start the guard `/bin/sh`: {source}; spawn with the guard off to do without"
                )
            }
            Self::Other { program, source } => {
                write!(
                    f,
                    "cannot start `{program}`: {source}; check the limits on processes, files and memory"
                )
            }
        }
    }
}

impl Error for SpawnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::BadCwd { source, .. } | Self::Guard(source) | Self::Other { source, .. } => Some(source),
            Self::NotFound { .. } | Self::NotExecutable { .. } => None,
        }
    }
}

impl NoLink for SpawnError {
    fn hurdle(&self) -> Hurdle {
        Hurdle::Spawn
    }
}
