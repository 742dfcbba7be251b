//! Two sessions in a lossy world, with virtual time and all choices drawn from one seed.
//!
//! A run draws a [`fault::Plan`], opens both sessions, lets a [`workload`] do what users do while the
//! link of [`net`] does its worst, and has an [`oracle`] watch every step. A seed that fails once
//! fails always: `cardan-sim --seed X --trace` shows how. Each seed also plays one [`upkeep`]: a connection that
//! is kept, and a peer that does not make it easy. What is simulated elsewhere tells a [`story`]. Development only.

pub mod fault;
mod junk;
pub mod net;
pub mod oracle;
pub mod rng;
mod show;
pub mod story;
pub mod transcript;
pub mod upkeep;
pub mod workload;
pub mod world;

use rng::Rng;
pub use world::{Report, Tracing};

/// The run of one seed.
#[must_use]
pub fn run_seed(seed: u64, tracing: Tracing) -> Report {
    world::run(Rng::seeded(seed), tracing)
}

/// The run that a fuzzer's bytes describe.
#[must_use]
pub fn run_script(script: &[u8], tracing: Tracing) -> Report {
    world::run(Rng::scripted(script), tracing)
}

/// The upkeep of one seed.
#[must_use]
pub fn run_upkeep(seed: u64, tracing: Tracing) -> upkeep::Report {
    upkeep::run(Rng::seeded(seed), tracing)
}

/// What is wrong with a seed, if anything is. Every fiftieth is run twice: the two runs must be one.
#[must_use]
pub fn judge(seed: u64) -> Option<String> {
    let (report, kept) = (run_seed(seed, Tracing::Off), run_upkeep(seed, Tracing::Off));
    if report.failure.is_none() && kept.failure.is_none() && seed.is_multiple_of(50) {
        let again = (run_seed(seed, Tracing::Off).digest, run_upkeep(seed, Tracing::Off).digest);
        if again != (report.digest, kept.digest) {
            return Some("two runs of this seed differ".into());
        }
    }
    report.failure.or_else(|| kept.failure.map(|what| format!("{UPKEEP}{what}")))
}

/// How what is wrong with the upkeep of a seed begins.
pub const UPKEEP: &str = "upkeep: ";
