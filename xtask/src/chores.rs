//! `sim`, `bench` and `soak`: release builds of crates that do the work themselves.

use anyhow::{Result, bail};

use crate::{
    args::Args,
    dist, peers,
    run::{cargo, succeed},
    walk,
};

/// Seeds when none are named: what a change must pass.
const SEEDS: u64 = 10_000;

/// Seeds of sessions for each seed of a world that is made of futures: those take so much longer.
const HEAVIER: u64 = 20;

/// `sim [--seeds N]`: sessions in a lossy world, one run per seed; then notes, HTTP and fleets, which are simulated
/// beside their code.
pub(crate) fn sim(mut args: Args) -> Result<()> {
    let seeds = args.number("--seeds")?.unwrap_or(SEEDS);
    args.finish()?;
    let (root, all) = (walk::root(), seeds.to_string());
    succeed(cargo(&root).args(["run", "--release", "-p", "cardan-sim", "--", "--seeds", &all]))?;
    let fewer = seeds.div_ceil(HEAVIER).to_string();
    let worlds = ["-p", "cardan-client", "-p", "cardan-dial", "-p", "cardan-gateway", "--test", "sim"];
    succeed(cargo(&root).arg("test").args(worlds).arg("every_seed").env("CARDAN_SEEDS", fewer))
}

/// `bench core|http|fleet|gateway|cli`: speed and memory, measured.
pub(crate) fn bench(mut args: Args) -> Result<()> {
    let which =
        args.word().filter(|which| matches!(which.as_str(), "core" | "http" | "fleet" | "gateway" | "cli"));
    let Some(which) = which else {
        bail!("which bench? `cargo xtask bench core`, `http`, `fleet`, `gateway` or `cli`");
    };
    args.finish()?;
    let root = walk::root();
    let mut bench = cargo(&root);
    bench.args(["run", "--release", "-p", "cardan-bench", "--", &which]);
    // What is run as a program is measured as it is given to others.
    if matches!(which.as_str(), "fleet" | "gateway" | "cli") {
        bench.arg(dist::program(&root)?);
    }
    succeed(&mut bench)
}

/// Rounds of the crowd before a bridge and before a gateway, whose upstreams are of either era: a million replies of each.
const ROUNDS: usize = 10;

/// How often a server of a gateway is killed.
const KILLS: usize = 1000;

/// Calls of sessions that replicas share.
const REPLICA_CALLS: usize = 100_000;

/// Clients of which one reads nothing.
const STALLED_CLIENTS: usize = 1000;

/// Phases beside a slow server, each after one without.
const SLOW_PAIRS: usize = 9;

/// How often one of two replicas is replaced under load.
const ROLLS: usize = 1000;

/// `soak [--sessions N] [--seconds S] [--calls N] [--seed N]`: a crowd against the HTTP server. `soak --through`: one
/// before a bridge, and one before a gateway, whose clients share an upstream. `soak --kills`: a gateway whose server dies again and again. `soak --stalled`: one
/// of whose clients reads nothing. `soak --slow`: one of whose ten servers takes a minute for every call. `soak --cuts`: connections that
/// break at every byte of an exchange. `soak --replicas`: sessions whose every request goes to any of three replicas, and replicas that are replaced in turn.
pub(crate) fn soak(mut args: Args) -> Result<()> {
    if args.flag("--through") {
        args.finish()?;
        return load("load", "crowd::", "CARDAN_CROWD_ROUNDS", ROUNDS);
    }
    if args.flag("--kills") {
        args.finish()?;
        return load("load", "kills::", "CARDAN_KILLS", KILLS);
    }
    if args.flag("--stalled") {
        args.finish()?;
        return load("load", "stalled::", "CARDAN_STALLED_CLIENTS", STALLED_CLIENTS);
    }
    if args.flag("--slow") {
        args.finish()?;
        return load("load", "slow::", "CARDAN_SLOW_PAIRS", SLOW_PAIRS);
    }
    if args.flag("--cuts") {
        args.finish()?;
        return cuts();
    }
    if args.flag("--replicas") {
        args.finish()?;
        peers::set_up_one(&walk::root(), "python-redis")?;
        load("replicas", "routing::", "CARDAN_REPLICA_CALLS", REPLICA_CALLS)?;
        return load("replicas", "rolling::", "CARDAN_ROLLS", ROLLS);
    }
    let mut words = Vec::new();
    for name in ["--sessions", "--seconds", "--calls", "--seed"] {
        if let Some(number) = args.number::<u64>(name)? {
            words.extend([name.to_owned(), number.to_string()]);
        }
    }
    args.finish()?;
    let mut soak = cargo(&walk::root());
    succeed(soak.args(["run", "--release", "-p", "cardan-bench", "--", "soak"]).args(words))
}

/// Tests that are run with every change, with more to do.
fn load(file: &str, which: &str, variable: &str, amount: usize) -> Result<()> {
    let mut load = cargo(&walk::root());
    load.args(["test", "--release", "-p", "cardan-cli", "--test", file, "--", which, "--nocapture"]);
    succeed(load.arg("--test-threads=1").env(variable, amount.to_string()))
}

/// Connections that break, before and behind endpoints and gateways: with every change at some bytes, here at each.
fn cuts() -> Result<()> {
    let mut cuts = cargo(&walk::root());
    cuts.args([
        "test",
        "--release",
        "-p",
        "cardan-endpoint",
        "-p",
        "cardan-gateway",
        "--test",
        "faults",
        "--",
        "anywhere",
    ]);
    succeed(cuts.args(["--nocapture", "--test-threads=1"]).env("CARDAN_EVERY_BYTE", "1"))
}
