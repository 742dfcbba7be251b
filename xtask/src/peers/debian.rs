//! Packages of Debian, unpacked and not installed: nothing else of the machine changes, no service starts, and no privilege is
//! needed.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

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

/// A package and all that it needs and this machine lacks.
pub(crate) fn missing(package: &str) -> Result<Vec<String>> {
    let simulate = || -> Result<Vec<String>> {
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--simulate", "--quiet", "--no-install-recommends", package]);
        let told = apt.output().context("cannot start apt-get")?;
        Ok(installed(&String::from_utf8_lossy(&told.stdout)))
    };
    let mut packages = simulate()?;
    if packages.is_empty() {
        // A fresh machine does not know its packages yet; telling it needs privilege.
        let _ = succeed(Command::new("apt-get").args(["update", "--quiet"]));
        packages = simulate()?;
    }
    if packages.is_empty() {
        bail!("this machine knows no package {package}, or not all that it needs");
    }
    Ok(packages)
}

/// The packages that a simulated installation would install.
fn installed(told: &str) -> Vec<String> {
    let lines = told.lines().filter_map(|line| line.strip_prefix("Inst "));
    lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_a_simulation() {
        let told = "Reading package lists...\nInst liba0 (1.0 Debian:12 [amd64])\nInst b [1] (2 c [all])\nConf liba0 (1.0)\n";
        assert_eq!(installed(told), ["liba0", "b"]);
    }
}
