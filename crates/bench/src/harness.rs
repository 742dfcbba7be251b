//! The load generator and its anchors, which stand beside the repository.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use cardan_proto::era::Revision;
use serde_json::Value;

/// Rounds of each server, taken in turns.
const ROUNDS: usize = 7;

/// The harness, built.
pub(crate) struct Harness {
    source: PathBuf,
    programs: PathBuf,
}

impl Harness {
    /// Builds it; nothing: it is not there, which is said.
    pub(crate) fn find() -> anyhow::Result<Option<Self>> {
        let source = root().join("../shared/bench");
        if !source.is_dir() {
            eprintln!(
                "skipped: the bench harness is not beside the repository, so no figures over real pipes and sockets"
            );
            return Ok(None);
        }
        let target = root().join("target/bench");
        let programs = build(&source.join("harness/Cargo.toml"), &target, "release", &[])?;
        Ok(Some(Self { source, programs }))
    }

    /// A program of the harness.
    pub(crate) fn program(&self, name: &str) -> String {
        self.programs.join(name).display().to_string()
    }

    /// Instructions of one call, and frees, which also count what the aligned allocator gave out.
    pub(crate) fn icount(
        &self,
        transport: &str,
        server: &str,
        revision: Revision,
    ) -> anyhow::Result<(f64, f64)> {
        let output = Command::new("python3")
            .arg(self.source.join("icount"))
            .args(["--transport", transport, "--server", server, "--", "--protocol", revision.date()])
            .env("BENCH_BIN", &self.programs)
            .output()
            .context("cannot run icount; it needs python3 and valgrind")?;
        ensure!(output.status.success(), "icount failed: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let line: Value = serde_json::from_str(text.lines().next().unwrap_or_default())?;
        Ok((field(&line, "instructions_per_call")?, field(&line, "free_per_call")?))
    }

    /// One run of the load generator: what it printed.
    pub(crate) fn load(&self, server: &str, options: &[&str]) -> anyhow::Result<Value> {
        let output = Command::new(self.programs.join("mcp-load"))
            .args(["--server", server])
            .args(options)
            .output()
            .context("cannot run mcp-load")?;
        ensure!(output.status.success(), "mcp-load failed: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
    }

    /// A figure of ours to that of the floor, both taken in turns and both brought down to one value by `of`.
    pub(crate) fn ratio(
        &self,
        figure: &str,
        of: fn(Vec<f64>) -> f64,
        ours: &str,
        floor: &str,
        options: &[&str],
    ) -> anyhow::Result<f64> {
        let (ours, floor) = self.pair(figure, of, ours, floor, options)?;
        Ok(ours / floor)
    }

    /// A figure of ours and that of the floor, taken likewise.
    pub(crate) fn pair(
        &self,
        figure: &str,
        of: fn(Vec<f64>) -> f64,
        ours: &str,
        floor: &str,
        options: &[&str],
    ) -> anyhow::Result<(f64, f64)> {
        let [floors, our] = self.turns(figure, [(floor, options), (ours, options)])?;
        Ok((of(our), of(floors)))
    }

    /// A figure of several servers, each with its options, taken in turns.
    pub(crate) fn turns<const N: usize>(
        &self,
        figure: &str,
        servers: [(&str, &[&str]); N],
    ) -> anyhow::Result<[Vec<f64>; N]> {
        let mut taken = [const { Vec::new() }; N];
        for _ in 0..ROUNDS {
            for (taken, (server, options)) in taken.iter_mut().zip(servers) {
                taken.push(field(&self.load(server, options)?, figure)?);
            }
        }
        for (taken, (server, _)) in taken.iter().zip(servers) {
            let program = server.split(' ').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
            eprintln!("{figure}: {program} {taken:.1?}");
        }
        Ok(taken)
    }

    /// What starts the mcp-proxy of crates.io, installed; a port and the command of a server are to follow.
    pub(crate) fn mcp_proxy(&self) -> anyhow::Result<String> {
        let place = root().join("target/bench/anchors");
        let program = place.join("bin/mcp-proxy");
        if !program.is_file() {
            let mut install = cargo();
            install.args(["install", "mcp-proxy", "--version", "0.6.0", "--locked", "--quiet", "--root"]);
            install.arg(&place).arg("--target-dir").arg(root().join("target/bench/mcp-proxy"));
            ensure!(install.status()?.success(), "cargo could not install mcp-proxy");
        }
        let start = self.source.join("anchors/mcp-proxy-rs");
        Ok(format!("{} {}", start.display(), program.display()))
    }
}

/// A number that a program printed.
pub(crate) fn field(line: &Value, name: &str) -> anyhow::Result<f64> {
    line[name].as_f64().with_context(|| format!("no {name} in {line}"))
}

/// An example of the facade, built.
pub(crate) fn example(name: &str, features: &str) -> anyhow::Result<String> {
    let more = ["--package", "cardan", "--example", name, "--features", features];
    let programs = build(&root().join("Cargo.toml"), &root().join("target"), OURS, &more)?;
    Ok(programs.join("examples").join(name).display().to_string())
}

/// The `cardan` command: as it was given to us, or built.
pub(crate) fn command(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given);
    }
    let ours = ["--package", "cardan-cli"];
    let programs = build(&root().join("Cargo.toml"), &root().join("target"), OURS, &ours)?;
    Ok(programs.canonicalize()?.join("cardan"))
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Our programs are measured as they are given to others.
const OURS: &str = "dist";

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Ours, from the cargo that started us: some crates are built anew whenever it changes.
    cargo.env_remove("CARGO_MANIFEST_DIR");
    cargo
}

fn build(manifest: &Path, target: &Path, profile: &str, more: &[&str]) -> anyhow::Result<PathBuf> {
    let status = cargo()
        .args(["build", "--profile", profile, "--quiet", "--manifest-path"])
        .arg(manifest)
        .args(more)
        .env("CARGO_TARGET_DIR", target)
        .status()
        .context("cannot run cargo build")?;
    ensure!(status.success(), "building {} failed", manifest.display());
    Ok(target.join(profile))
}

/// An address that nobody listens at.
pub(crate) fn free() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The middle of some values, of which there is at least one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The least of some values. For the cost of a call: whatever else the machine does only adds to it.
pub(crate) fn least(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}
