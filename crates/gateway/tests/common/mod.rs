//! What several tests need.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part, and a failed step is a failed test"
)]

pub(crate) mod farm;

use std::fs;
use std::path::{Path, PathBuf};

/// A directory of a test's own, gone when the test is.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cardan-gateway-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
