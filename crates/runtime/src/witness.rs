//! What is known of the process behind a link, whatever the protocol says.

use std::fmt;

/// How a process fares that serves us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How it ended, in words, by itself or by us. None: it runs, or is no child of ours.
    pub exit: Option<Box<str>>,
    /// Its last words on stderr, safe to print.
    pub stderr: Box<str>,
}

impl Report {
    /// Is there nothing to tell?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exit.is_none() && self.stderr.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.exit, self.stderr.trim_end()) {
            (Some(exit), "") => write!(f, "the server's process ended ({exit})"),
            (Some(exit), words) => {
                write!(f, "the server's process ended ({exit}); its last words: {words}")
            }
            (None, "") => f.write_str("the server's process says nothing"),
            (None, words) => write!(f, "the server's last words: {words}"),
        }
    }
}

/// Someone who knows. Outlives the link.
pub trait Witness: fmt::Debug + Send + Sync {
    /// What is known by now.
    fn report(&self) -> Report;
}
