//! Many clients before one bridge or gateway, real processes on every side: whose reply it is, and what happens while a
//! server dies again and again.
//!
//! The long forms are the same tests with more to do: `cargo xtask soak --through`, `--kills`, `--stalled` and `--slow`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![allow(clippy::print_stdout, reason = "the long forms tell what they measured")]

mod client;
#[path = "../common/mod.rs"]
mod common;
mod crowd;
mod descriptors;
mod gone;
mod kills;
mod pace;
#[path = "../operation/rig.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod rig;
mod slow;
mod stalled;
mod starts;
mod wire;

/// How much there is to do: what a variable of this name says, or what a test can afford.
fn amount(name: &str, usually: usize) -> usize {
    std::env::var(name).map_or(usually, |value| value.parse().unwrap())
}
