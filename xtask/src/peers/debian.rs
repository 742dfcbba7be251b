//! Packages of Debian, unpacked and not installed: nothing else of the machine changes, no service starts, and no privilege is
//! needed.

use std::{fs, path::Path, process::Command};

use anyhow::Result;

use super::remove;
use crate::run::{succeed, works};

/// Unpacks packages into a folder that is there.
pub(crate) fn unpack(place: &Path, packages: &[&str]) -> Result<()> {
    let download = || {
        let mut apt = Command::new("apt-get");
        apt.current_dir(place).args(["download", "--quiet"]).args(packages);
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
