//! Our server, running for as long as it is held.

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// A running server.
pub(crate) struct Fixture {
    child: Child,
    url: String,
}

impl Fixture {
    /// Starts it with replies of a form, and waits for the line that says where it listens.
    pub(crate) fn start(root: &Path, replies: &str) -> Result<Self> {
        let path = path(root, "conformance-server");
        let mut child = Command::new(&path)
            .arg(replies)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", path.display()))?;
        let out = child.stdout.take().context("the server's output is a pipe")?;
        let mut line = String::new();
        let read = BufReader::new(out).read_line(&mut line);
        let fixture = Self { child, url: line.trim().to_owned() };
        read.context("cannot read where the server listens")?;
        if !fixture.url.starts_with("http://") {
            bail!("the server did not say where it listens but {:?}", fixture.url);
        }
        Ok(fixture)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // It holds nothing that must be saved.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where cargo puts a binary.
pub(crate) fn path(root: &Path, binary: &str) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("debug").join(binary)
}
