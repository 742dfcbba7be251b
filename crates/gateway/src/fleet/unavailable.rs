//! Why an upstream cannot be used, in words that go after its name.

use std::fmt;
use std::sync::Arc;

use cardan_proto::limits::fleet::{QUEUE, QUEUE_WAIT};

/// Why an upstream cannot be used, at all or for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailable {
    /// It cannot be reached as it is configured.
    Misconfigured(Arc<str>),
    /// It is not part of the fleet any more.
    Gone,
    /// It takes so many calls at a time, and as many as may wait do already.
    Crowded {
        /// How many it takes.
        most: usize,
    },
    /// It takes so many calls at a time, and none of them ended for as long as one waits.
    Slow {
        /// How many it takes.
        most: usize,
    },
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misconfigured(problem) => write!(f, "cannot be reached as it is configured: {problem}"),
            Self::Gone => f.write_str("is not configured any more"),
            Self::Crowded { most } => {
                write!(f, "takes no more calls at a time than {most}, and {QUEUE} wait already")
            }
            Self::Slow { most } => {
                let seconds = QUEUE_WAIT.as_secs();
                write!(
                    f,
                    "takes no more calls at a time than {most}, and had no place for this one within {seconds} seconds"
                )
            }
        }
    }
}

impl std::error::Error for Unavailable {}
