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

use super::remove;
use crate::run::{say, succeed, works};

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
    let done = unpack(&place);
    if done.is_err() || !runs(&unpacked) {
        remove(&place)?;
    }
    done?;
    if unpacked.is_file() {
        return Ok(());
    }
    bail!("the package does not run on this machine; install nginx by hand, any package of it will do")
}

fn unpack(place: &Path) -> Result<()> {
    let download = || {
        let mut apt = Command::new("apt-get");
        apt.current_dir(place).args(["download", "--quiet"]).args(PACKAGES);
        apt
    };
    if !works(&mut download()) {
        // A fresh machine does not know its packages yet; telling it needs privilege.
        let _ = succeed(Command::new("apt-get").args(["update", "--quiet"]));
        succeed(&mut download())?;
    }
    for entry in fs::read_dir(place)? {
        let archive = entry?.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            succeed(Command::new("dpkg-deb").arg("--extract").args([&archive, &place.to_owned()]))?;
            remove(&archive)?;
        }
    }
    Ok(())
}

fn runs(program: &Path) -> bool {
    works(Command::new(program).arg("-v"))
}
