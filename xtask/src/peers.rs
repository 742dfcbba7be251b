//! Setting up the foreign peers the interop tests talk to.
//!
//! A peer is a folder below `peers/`: `node-*` with a `package.json`, `python-*` with a `requirements.txt`, or one with
//! a `Cargo.toml`. Node packages go beside, the others into `target/peers/<name>`.
//! A stamp remembers what was installed, so that the second run costs nothing. Some peers are no SDKs: a
//! proxy, `nginx`, a browser, and shells.

mod chromium;
pub(crate) mod debian;
mod nginx;
mod shells;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    args::Args,
    run::{cargo, say, succeed},
    walk,
};

/// Lets the tests run although a peer could not be installed.
const SKIP: &str = "CARDAN_SKIP_PEERS";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Python,
    /// A workspace of its own, whose programs are built.
    Rust,
}

#[derive(Debug)]
struct Peer {
    name: String,
    kind: Kind,
    folder: PathBuf,
    /// Holds what is installed.
    place: PathBuf,
    stamp: PathBuf,
}

/// Whether all peers are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peers {
    /// They are.
    Ready,
    /// Some are missing, and that was accepted.
    Missing,
}

/// `peers`: the first step of all tests, alone.
pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    set_up(&walk::root()).map(drop)
}

/// Installs what every peer needs.
pub(crate) fn set_up(root: &Path) -> Result<Peers> {
    let peers = find(root)?;
    if peers.is_empty() {
        say("no foreign peers to set up");
    }
    let mut missing = Vec::new();
    for peer in &peers {
        if let Err(why) = peer.install() {
            say(&format!("peer {}: not installed: {why:#}", peer.name));
            missing.push(peer.name.as_str());
        }
    }
    if let Err(why) = nginx::set_up(root) {
        say(&format!("peer {}: not installed: {why:#}", nginx::NAME));
        missing.push(nginx::NAME);
    }
    if let Err(why) = chromium::set_up(root) {
        say(&format!("peer {}: not installed: {why:#}", chromium::NAME));
        missing.push(chromium::NAME);
    }
    for shell in shells::SHELLS {
        if let Err(why) = shell.set_up(root) {
            say(&format!("peer {}: not installed: {why:#}", shell.name));
            missing.push(shell.name);
        }
    }
    if missing.is_empty() {
        return Ok(Peers::Ready);
    }
    let names = missing.join(", ");
    if env::var_os(SKIP).is_none_or(|value| value != "1") {
        bail!("without {names} the tests against them would be skipped; set {SKIP}=1 to accept that");
    }
    say(&format!("SKIPPED: every test against {names}, because {SKIP}=1"));
    Ok(Peers::Missing)
}

/// Installs what one peer needs.
pub(crate) fn set_up_one(root: &Path, name: &str) -> Result<()> {
    let peers = find(root)?;
    let peer = peers.iter().find(|peer| peer.name == name);
    peer.with_context(|| format!("there is no peer {name}"))?.install()
}

fn find(root: &Path) -> Result<Vec<Peer>> {
    let mut peers = Vec::new();
    let Ok(entries) = fs::read_dir(root.join("peers")) else { return Ok(peers) };
    for entry in entries {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let made = root.join("target/peers");
        let (kind, place) = if name.starts_with("node-") && folder.join("package.json").is_file() {
            (Kind::Node, folder.join("node_modules"))
        } else if name.starts_with("python-") && folder.join("requirements.txt").is_file() {
            (Kind::Python, made.join(&name))
        } else if folder.join("Cargo.toml").is_file() {
            (Kind::Rust, made.join(&name))
        } else {
            continue;
        };
        peers.push(Peer { stamp: made.join(format!("{name}.stamp")), name, kind, folder, place });
    }
    peers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(peers)
}

impl Peer {
    fn install(&self) -> Result<()> {
        let wanted = self.fingerprint()?;
        let stamped = fs::read_to_string(&self.stamp).is_ok_and(|stamp| stamp == wanted);
        if stamped && self.place.is_dir() {
            say(&format!("peer {}: up to date", self.name));
            return Ok(());
        }
        say(&format!("peer {}: installing", self.name));
        fs::create_dir_all(self.stamp.parent().context("a stamp lies in a folder")?)?;
        // Half an installation must not pass for a whole one, here or in the tests. Half a build is built on.
        remove(&self.stamp)?;
        if self.kind != Kind::Rust {
            remove(&self.place)?;
        }
        let done = match self.kind {
            Kind::Node => self.install_node(),
            Kind::Python => self.install_python(),
            Kind::Rust => succeed(
                cargo(&self.folder).args(["build", "--locked", "--quiet", "--target-dir"]).arg(&self.place),
            ),
        };
        if done.is_err() && self.kind != Kind::Rust {
            remove(&self.place)?;
        }
        done?;
        fs::write(&self.stamp, wanted).with_context(|| format!("cannot write {}", self.stamp.display()))
    }

    fn install_node(&self) -> Result<()> {
        let verb = if self.folder.join("package-lock.json").is_file() { "ci" } else { "install" };
        succeed(Command::new("npm").current_dir(&self.folder).args([verb, "--no-audit", "--no-fund"]))
    }

    fn install_python(&self) -> Result<()> {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&self.place))?;
        let mut pip = Command::new(self.place.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        succeed(pip.arg(self.folder.join("requirements.txt")))
    }

    /// Changes whenever the wanted packages change.
    fn fingerprint(&self) -> Result<String> {
        let mut hash = Fnv::START;
        let wanted = ["package.json", "package-lock.json", "requirements.txt", "Cargo.toml", "Cargo.lock"];
        let sources = fs::read_dir(self.folder.join("src")).into_iter().flatten().flatten();
        let mut sources: Vec<PathBuf> = sources.map(|source| source.path()).collect();
        sources.sort();
        for path in wanted.into_iter().map(|name| self.folder.join(name)).chain(sources) {
            if path.is_file() {
                hash = hash.add(&fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
            }
        }
        Ok(format!("{:016x}", hash.0))
    }
}

fn remove(path: &Path) -> Result<()> {
    let gone = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match gone {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(why).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// FNV-1a: the standard library's hashers may change between releases.
struct Fnv(u64);

impl Fnv {
    const START: Self = Self(0xcbf2_9ce4_8422_2325);

    fn add(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }
}

#[cfg(test)]
mod tests;
