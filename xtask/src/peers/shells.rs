//! The shells whose completion is tested: the machine's own, or those of Debian. Bash is everywhere.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use super::debian::unpack;
use super::remove;
use crate::run::{say, works};

/// A shell, and the packages that have it and what it needs beside what every machine has.
pub(super) struct Shell {
    pub(super) name: &'static str,
    packages: &'static [&'static str],
    /// Where its program is unpacked.
    program: &'static str,
}

/// All of them.
pub(super) const SHELLS: [Shell; 2] = [
    Shell { name: "zsh", packages: &["zsh", "zsh-common"], program: "bin/zsh" },
    Shell { name: "fish", packages: &["fish", "fish-common", "libpcre2-32-0"], program: "usr/bin/fish" },
];

impl Shell {
    /// Finds it, or unpacks it.
    pub(super) fn set_up(&self, root: &Path) -> Result<()> {
        let place = root.join("target/peers").join(self.name);
        let unpacked = place.join(self.program);
        if runs(&PathBuf::from(self.name), &place) || runs(&unpacked, &place) {
            say(&format!("peer {}: up to date", self.name));
            return Ok(());
        }
        say(&format!("peer {}: unpacking the Debian packages", self.name));
        remove(&place)?;
        fs::create_dir_all(&place)?;
        let done = unpack(&place, self.packages);
        if done.is_err() || !runs(&unpacked, &place) {
            remove(&place)?;
        }
        done?;
        if unpacked.is_file() {
            return Ok(());
        }
        bail!("the package does not run on this machine; install {} by hand", self.name)
    }
}

/// With the libraries that were unpacked beside it.
fn runs(program: &Path, place: &Path) -> bool {
    let libraries = fs::read_dir(place.join("usr/lib")).into_iter().flatten().flatten();
    let libraries: Vec<_> = libraries.map(|entry| entry.path().display().to_string()).collect();
    works(Command::new(program).arg("--version").env("LD_LIBRARY_PATH", libraries.join(":")))
}
