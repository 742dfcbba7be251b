//! `cardan-sim`: runs seeds, and shows one that fails.

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

use cardan_sim::{Tracing, UPKEEP, judge, run_seed, run_upkeep};

const USAGE: &str = "usage: cardan-sim [--seeds N] [--from S] [--seed X [--trace]]
  --seeds N   run N seeds (10000)
  --from S    the first of them (0)
  --seed X    run this one seed
  --trace     and show its last events";

/// A few failures tell as much as thousands.
const SHOWN_MAX: u64 = 5;

/// How many of the last events of a failure are shown without `--trace`.
const TAIL: usize = 12;

struct Wish {
    seeds: u64,
    from: u64,
    one: Option<u64>,
    tracing: Tracing,
}

fn main() -> ExitCode {
    match wish(std::env::args().skip(1)) {
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            ExitCode::from(2)
        }
        Ok(Wish { one: Some(seed), tracing, .. }) => show(seed, tracing),
        Ok(wish) => run(&wish),
    }
}

fn wish(args: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut wish = Wish { seeds: 10_000, from: 0, one: None, tracing: Tracing::Off };
    let mut args = args;
    while let Some(name) = args.next() {
        let mut number = || {
            let value = args.next().ok_or_else(|| format!("{name} needs a number"))?;
            value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"))
        };
        match name.as_str() {
            "--seeds" => wish.seeds = number()?,
            "--from" => wish.from = number()?,
            "--seed" => wish.one = Some(number()?),
            "--trace" => wish.tracing = Tracing::On,
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(wish)
}

fn run(wish: &Wish) -> ExitCode {
    let start = Instant::now();
    let (mut passed, mut failed) = (0u64, 0u64);
    for seed in wish.from..wish.from.saturating_add(wish.seeds) {
        let failure = catch_unwind(|| judge(seed)).unwrap_or_else(|_| Some("a panic".into()));
        match failure {
            None => passed += 1,
            Some(what) => {
                failed += 1;
                if failed <= SHOWN_MAX {
                    tell(seed, &what);
                }
            }
        }
        let done = passed + failed;
        if done.is_multiple_of(20_000) {
            let rate = done as f64 / start.elapsed().as_secs_f64();
            eprintln!("{done} of {} seeds, {rate:.0} per second, {failed} failed", wish.seeds);
        }
    }
    say(&format!("{passed} passed, {failed} failed"));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(seed: u64, what: &str) {
    eprintln!("seed {seed}: {what}");
    let trace = catch_unwind(|| match what.starts_with(UPKEEP) {
        true => run_upkeep(seed, Tracing::On).trace,
        false => run_seed(seed, Tracing::On).trace,
    });
    let trace = trace.unwrap_or_default();
    for line in &trace[trace.len().saturating_sub(TAIL)..] {
        eprintln!("  {line}");
    }
    eprintln!("  again: cargo run --release -p cardan-sim -- --seed {seed} --trace");
}

fn show(seed: u64, tracing: Tracing) -> ExitCode {
    let (report, kept) = (run_seed(seed, tracing), run_upkeep(seed, tracing));
    for line in report.trace.iter().chain(&kept.trace) {
        say(line);
    }
    say(&format!("seed {seed}: {} steps, digest {:016x}, {:?}", report.steps, report.digest, report.tally));
    say(&format!("upkeep: {} steps, digest {:016x}, {:?}", kept.steps, kept.digest, kept.tally));
    match report.failure.or_else(|| kept.failure.map(|what| format!("{UPKEEP}{what}"))) {
        None => {
            say("1 passed, 0 failed");
            ExitCode::SUCCESS
        }
        Some(what) => {
            say(&format!("{what}\n0 passed, 1 failed"));
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "the answer of a command")]
fn say(line: &str) {
    println!("{line}");
}
