//! The guard: a small process that outlives us by two seconds and takes the child's group with it.
//!
//! When we are killed outright nobody closes politely, and a child that ignores its end of input would
//! live on. The guard waits on a pipe that only we hold. If it reads a second line, all is well and it
//! leaves; if it reads the end, we are gone, and it ends the group: after a second TERM, after another
//! one KILL.

use std::fs::File;
use std::io::{self, Write};
use std::process::Stdio;

use tokio::process::{Child, Command};

/// Whether a child gets a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Guard {
    /// Yes: should we be killed, the child's group is gone within three seconds. Costs one `/bin/sh`
    /// that sleeps.
    #[default]
    On,
    /// No: for calls so short that starting a shell would be felt. A child that heeds the end of its
    /// input leaves by itself even so.
    Off,
}

/// A guard that was told its group. Dropping it dismisses it.
#[derive(Debug)]
pub(crate) struct Guardian {
    pipe: File,
    /// Kept so that tokio reaps it.
    _process: Child,
}

/// A guard that guards nothing yet, so that it can start while the child does. Dropped, it leaves.
#[derive(Debug)]
pub(crate) struct Post {
    pipe: File,
    process: Child,
}

/// The first line names the group, the second says that all is well. Signals from a terminal must not
/// reach the guard before us, and `--` keeps a group from being read as an option.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r group || exit 0
read -r leave && exit 0
sleep 1; kill -s TERM -- "-$group" || exit 0
sleep 1; kill -s KILL -- "-$group"
"#;

impl Post {
    /// Starts the guard.
    pub(crate) fn take() -> io::Result<Self> {
        let mut process = Command::new("/bin/sh")
            .arg("-c")
            .arg(SCRIPT)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = process.stdin.take().expect("stdin was asked to be piped");
        Ok(Self { pipe: File::from(stdin.into_owned_fd()?), process })
    }

    /// Names the group to be guarded. A few bytes into an empty pipe: this does not block.
    pub(crate) fn watch(mut self, group: u32) -> io::Result<Guardian> {
        writeln!(self.pipe, "{group}")?;
        Ok(Guardian { pipe: self.pipe, _process: self.process })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // One that is gone already needs no word.
        let _ = writeln!(self.pipe, "leave");
    }
}
