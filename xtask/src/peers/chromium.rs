//! The browser whose pages call our server: the machine's own Chromium, or that of Debian, unpacked. Tests start it by a
//! script, which knows where it is and where its libraries are.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, bail};

use super::debian::{missing, unpack};
use super::remove;
use crate::run::{say, works};

/// What it is called in messages.
pub(super) const NAME: &str = "chromium";

/// A browser without a window: the smallest there is.
const PACKAGE: &str = "chromium-headless-shell";

/// Browsers that do as well.
const OWN: [&str; 3] = [PACKAGE, "chromium", "google-chrome"];

/// The name of the script.
const SCRIPT: &str = "browser";

/// Libraries lie in a folder that is named after the machine; some have one of their own there.
const UNPACKED: &str = r#"here=$(dirname "$0")/usr/lib
for folder in "$here"/*-linux-* "$here"/*-linux-*/pulseaudio; do
    LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
exec "$here/chromium/chromium-headless-shell" "$@"
"#;

/// Finds it, or unpacks it.
pub(super) fn set_up(root: &Path) -> Result<()> {
    let place = root.join("target/peers").join(NAME);
    if runs(&place.join(SCRIPT)) {
        say("peer chromium: up to date");
        return Ok(());
    }
    remove(&place)?;
    fs::create_dir_all(&place)?;
    let done = install(&place);
    if done.is_err() {
        remove(&place)?;
    }
    done
}

fn install(place: &Path) -> Result<()> {
    let own = OWN.into_iter().find(|program| works(Command::new(program).arg("--version")));
    let text = match own {
        Some(own) => format!("exec {own} --headless \"$@\"\n"),
        None => {
            say("peer chromium: unpacking the Debian packages, 100 MB");
            let packages = missing(PACKAGE)?;
            unpack(place, &packages.iter().map(String::as_str).collect::<Vec<_>>())?;
            UNPACKED.to_owned()
        }
    };
    let script = place.join(SCRIPT);
    fs::write(&script, text)?;
    if !runs(&script) {
        bail!(
            "the package does not run on this machine; install chromium by hand, any package of it will do"
        );
    }
    Ok(())
}

fn runs(script: &Path) -> bool {
    works(Command::new("sh").arg(script).arg("--version"))
}
