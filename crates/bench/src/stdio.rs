//! The echo server over real pipes: instructions and allocations per call by callgrind, CPU as a ratio
//! to the one-pass typed floor of the same run. The harness stands beside the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use cardan_proto::era::Revision;
use serde_json::Value;

use crate::Figure;

/// Rounds of each server, taken in turns.
const ROUNDS: usize = 5;

pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let harness = root.join("../shared/bench");
    if !harness.is_dir() {
        eprintln!("skipped: the bench harness is not beside the repository, so no figures over real pipes");
        return Ok(Vec::new());
    }
    let target = root.join("target/bench");
    let floor = build(&harness.join("harness/Cargo.toml"), &target, &[])?.join("limit-stdio");
    let echo =
        build(&root.join("Cargo.toml"), &root.join("target"), &["--package", "cardan", "--example", "echo"])?;
    let echo = echo.join("examples/echo");
    let mut figures = Vec::new();
    // A modern call is a third longer and its result carries metadata: a quarter more may be spent on it.
    for (revision, instructions, allocations) in [
        (Revision::V2025_06_18, Some(20_000.0), Some(12.0)),
        (Revision::LATEST_MODERN, Some(25_000.0), Some(12.0)),
    ] {
        let counted = icount(&harness, &target, &echo, revision)?;
        let what = format!("stdio echo of 64 B, {revision}");
        figures.push(Figure::new(format!("{what}: instructions"), counted.0, "", instructions));
        figures.push(Figure::new(format!("{what}: allocations"), counted.1, "", allocations));
    }
    let ratio = cpu_ratio(&target, &floor, &echo)?;
    figures.push(Figure::new(
        "stdio echo at 64 in flight: CPU to the typed floor",
        ratio,
        "times",
        Some(4.0),
    ));
    Ok(figures)
}

fn build(manifest: &Path, target: &Path, more: &[&str]) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(manifest)
        .args(more)
        .env("CARGO_TARGET_DIR", target)
        .status()
        .context("cannot run cargo build")?;
    ensure!(status.success(), "building {} failed", manifest.display());
    Ok(target.join("release"))
}

/// Instructions, and frees, which also count what the aligned allocator gave out.
fn icount(harness: &Path, target: &Path, server: &Path, revision: Revision) -> anyhow::Result<(f64, f64)> {
    let output = Command::new("python3")
        .arg(harness.join("icount"))
        .args(["--transport", "stdio", "--server"])
        .arg(server)
        .args(["--", "--protocol", revision.date()])
        .env("BENCH_BIN", target.join("release"))
        .output()
        .context("cannot run icount; it needs python3 and valgrind")?;
    ensure!(output.status.success(), "icount failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let line: Value = serde_json::from_str(text.lines().next().unwrap_or_default())?;
    let field = |name: &str| line[name].as_f64().with_context(|| format!("icount printed no {name}"));
    Ok((field("instructions_per_call")?, field("free_per_call")?))
}

/// The median of our CPU per call to the median of the floor's.
fn cpu_ratio(target: &Path, floor: &Path, echo: &Path) -> anyhow::Result<f64> {
    let (mut floors, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        floors.push(cpu(target, &format!("{} typed", floor.display()))?);
        ours.push(cpu(target, &echo.display().to_string())?);
    }
    Ok(median(ours) / median(floors))
}

fn cpu(target: &Path, server: &str) -> anyhow::Result<f64> {
    let output = Command::new(target.join("release/mcp-load"))
        .args(["--transport", "stdio", "--inflight", "64", "--seconds", "1", "--server", server])
        .output()
        .context("cannot run mcp-load")?;
    ensure!(output.status.success(), "mcp-load failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let line: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    line["server_cpu_us_per_call"].as_f64().context("mcp-load printed no CPU figure")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
