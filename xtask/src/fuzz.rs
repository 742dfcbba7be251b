//! `fuzz`: libFuzzer on the stable toolchain.
//!
//! The coverage that libFuzzer needs comes from an LLVM pass that stable rustc can be told to
//! run, so neither a nightly nor cargo-fuzz is needed. The crate `fuzz/` is a workspace of its
//! own, because these flags must not touch the others.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    args::Args,
    run::{cargo, say, show, succeed},
    walk,
};

const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg fuzzing",
    "-Cdebuginfo=line-tables-only",
];

/// One input may take this long and hold this much; more is a finding.
const INPUT_BOUNDS: [&str; 2] = ["-timeout=5", "-rss_limit_mb=1024"];

/// Seconds per target when neither time nor runs are named.
const SECONDS: u64 = 60;

struct Outcome {
    target: String,
    runs: u64,
    per_second: u64,
    clean: bool,
}

/// `fuzz [--seconds N] [--runs N] [--target T]`.
pub(crate) fn run(mut args: Args) -> Result<()> {
    let seconds: Option<u64> = args.number("--seconds")?;
    let runs: Option<u64> = args.number("--runs")?;
    let only = args.value("--target")?;
    args.finish()?;
    let seconds = seconds.or_else(|| runs.is_none().then_some(SECONDS));

    let folder = walk::root().join("fuzz");
    let targets = targets(&folder, only.as_deref())?;
    let built = build(&folder)?;
    let mut outcomes = Vec::new();
    for target in targets {
        outcomes.push(fuzz(&folder, &built, target, seconds, runs)?);
    }
    show(&table(&outcomes));
    let failed: Vec<&str> = outcomes.iter().filter(|o| !o.clean).map(|o| o.target.as_str()).collect();
    if !failed.is_empty() {
        bail!("{} failed, the inputs are in fuzz/artifacts", failed.join(", "));
    }
    Ok(())
}

fn targets(folder: &Path, only: Option<&str>) -> Result<Vec<String>> {
    let sources = walk::files(folder, "fuzz_targets", &[".rs"])?;
    let names =
        sources.iter().filter_map(|file| file.path.strip_prefix("fuzz_targets/")?.strip_suffix(".rs"));
    let chosen: Vec<String> =
        names.filter(|name| only.is_none_or(|only| only == *name)).map(str::to_owned).collect();
    if chosen.is_empty() {
        bail!(
            "no fuzz target {}in fuzz/fuzz_targets",
            only.map(|only| format!("`{only}` ")).unwrap_or_default()
        );
    }
    Ok(chosen)
}

/// Builds all targets; yields the folder they are in.
fn build(folder: &Path) -> Result<PathBuf> {
    let host = host()?;
    // With a target named, the flags reach neither build scripts nor macros, which could not link.
    let mut build = cargo(folder);
    build.args(["build", "--release", "--bins", "--target", &host]).env("RUSTFLAGS", FLAGS.join(" "));
    succeed(&mut build)?;
    Ok(folder.join("target").join(host).join("release"))
}

fn host() -> Result<String> {
    let out = Command::new("rustc").arg("-vV").output().context("cannot ask rustc for its host")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc did not name its host")
}

fn fuzz(
    folder: &Path,
    built: &Path,
    target: String,
    seconds: Option<u64>,
    runs: Option<u64>,
) -> Result<Outcome> {
    let corpus = folder.join("corpus").join(&target);
    let artifacts = folder.join("artifacts").join(&target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let mut command = Command::new(built.join(&target));
    command.args(INPUT_BOUNDS).args(["-print_final_stats=1", "-use_value_profile=1"]);
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args(seconds.map(|n| format!("-max_total_time={n}")));
    command.args(runs.map(|n| format!("-runs={n}")));
    command.arg(&corpus);
    let seeds = folder.join("seeds").join(&target);
    command.args(seeds.is_dir().then_some(seeds));
    say(&format!("fuzzing {target}"));
    let out = command.stdout(Stdio::null()).output();
    let out =
        out.with_context(|| format!("cannot start {target}, does fuzz/Cargo.toml name it as a bin?"))?;
    let log = String::from_utf8_lossy(&out.stderr);
    let clean = out.status.success();
    if !clean {
        eprintln!("{}", tail(&log, 60));
    }
    let runs = stat(&log, "number_of_executed_units");
    Ok(Outcome { target, runs, per_second: stat(&log, "average_exec_per_sec"), clean })
}

fn stat(log: &str, name: &str) -> u64 {
    let line =
        log.lines().rev().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

fn tail(log: &str, lines: usize) -> String {
    let all: Vec<&str> = log.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn table(outcomes: &[Outcome]) -> String {
    let mut out = format!("{:<24} {:>12} {:>10}  outcome\n", "target", "runs", "per second");
    for o in outcomes {
        let verdict = if o.clean { "clean" } else { "FAILED" };
        out.push_str(&format!("{:<24} {:>12} {:>10}  {verdict}\n", o.target, o.runs, o.per_second));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_read_from_the_log() {
        let log = "INFO: x\nstat::number_of_executed_units: 1200\nstat::average_exec_per_sec:     600\n";
        assert_eq!((stat(log, "number_of_executed_units"), stat(log, "average_exec_per_sec")), (1200, 600));
        assert_eq!(stat(log, "peak_rss_mb"), 0);
    }

    #[test]
    fn the_table_names_the_failed() {
        let outcome = Outcome { target: "line".to_owned(), runs: 10, per_second: 5, clean: false };
        assert!(table(&[outcome]).ends_with("line                               10          5  FAILED\n"));
    }

    #[test]
    fn targets_are_the_files_of_the_folder() {
        let folder = walk::root().join("fuzz");
        assert!(targets(&folder, None).unwrap().contains(&"envelope".to_owned()));
        assert!(targets(&folder, Some("no_such")).is_err());
    }
}
