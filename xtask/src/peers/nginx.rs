//! The proxy that tests put in front of our server: the machine's own nginx, or that of Debian.
//!
//! Its packages are unpacked below `target/peers` and not installed: nothing else of the machine changes, no service
//! starts, and no privilege is needed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use super::debian::unpack;
use super::remove;
use crate::run::{say, works};

/// What it is called in messages.
pub(super) const NAME: &str = "nginx";

/// The smallest package with a proxy in it; newer releases keep the program itself in the other.
const PACKAGES: [&str; 2] = ["nginx-light", "nginx"];

/// Finds it, or unpacks it.
pub(super) fn set_up(root: &Path) -> Result<()> {
    let place = root.join("target/peers/nginx");
    let unpacked = place.join("usr/sbin/nginx");
    let own = [unpacked.clone(), PathBuf::from("nginx"), PathBuf::from("/usr/sbin/nginx")];
    if own.iter().any(|program| runs(program)) {
        say("peer nginx: up to date");
        return Ok(());
    }
    say("peer nginx: unpacking the Debian packages");
    remove(&place)?;
    fs::create_dir_all(&place)?;
    let done = unpack(&place, &PACKAGES);
    if done.is_err() || !runs(&unpacked) {
        remove(&place)?;
    }
    done?;
    if unpacked.is_file() {
        return Ok(());
    }
    bail!("the package does not run on this machine; install nginx by hand, any package of it will do")
}

fn runs(program: &Path) -> bool {
    works(Command::new(program).arg("-v"))
}
