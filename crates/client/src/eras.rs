//! Remembering which era a server speaks, so that a legacy one is not probed again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cardan_proto::era::Era;

/// The eras of servers, by command line or address. Lives as long as the process; what is wrong is
/// forgotten and found out again.
#[derive(Debug, Default)]
pub struct Eras {
    known: Mutex<HashMap<Box<str>, Era>>,
}

impl Eras {
    /// What is known of `server`.
    #[must_use]
    pub fn get(&self, server: &str) -> Option<Era> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(server).copied()
    }

    /// Remembers what was found out.
    pub fn put(&self, server: &str, era: Era) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(server.into(), era);
    }

    /// What was remembered proved wrong.
    pub fn forget(&self, server: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(server);
    }
}
