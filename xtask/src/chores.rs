//! `sim` and `bench`: release builds of crates that do the work themselves.

use anyhow::{Result, bail};

use crate::{
    args::Args,
    run::{cargo, succeed},
    walk,
};

/// Seeds when none are named: what a change must pass.
const SEEDS: u64 = 10_000;

/// `sim [--seeds N]`: sessions in a lossy world, one run per seed.
pub(crate) fn sim(mut args: Args) -> Result<()> {
    let seeds = args.number("--seeds")?.unwrap_or(SEEDS);
    args.finish()?;
    let seeds = seeds.to_string();
    succeed(cargo(&walk::root()).args(["run", "--release", "-p", "cardan-sim", "--", "--seeds", &seeds]))
}

/// `bench core`: the core's speed, measured.
pub(crate) fn bench(mut args: Args) -> Result<()> {
    match args.word().as_deref() {
        Some("core") => args.finish()?,
        _ => bail!("which bench? only `cargo xtask bench core` exists"),
    }
    succeed(cargo(&walk::root()).args(["run", "--release", "-p", "cardan-bench"]))
}
