//! Twenty thousand runs, each with its own eras, limits, users and disasters.
//!
//! What every step of every run must hold is in the oracle. The rows that this demonstrates:
//!
//! * P1, S0-17: a call is settled exactly once, whatever is said twice, late or out of the blue.
//! * P2: what a call is settled with is its own, by nonce.
//! * P5, S0-43: when the link has ended, every call is settled with the cause, and the tables are empty.
//! * P6, S0-76: a call that is said never to have left never arrives, and none arrives twice.
//! * F16: replies that are unknown, foreign, duplicate or late match no other call.
//! * F17, CAN-5: a cancel that races the reply leaves one outcome, and after an accepted cancel no reply.
//! * CAN-7: cancelling what has ended or never was is no error.
//! * CAN-11, CAN-12: no call outlives its deadlines, whatever the progress.

use cardan_sim::oracle::Tally;
use cardan_sim::{Tracing, judge, run_seed};

const SEEDS: u64 = 20_000;

/// F16, F17, S0-17, CAN-7, S0-43.
#[test]
fn every_seed_keeps_the_rules() {
    let failed: Vec<_> = (0..SEEDS).filter_map(|seed| Some((seed, judge(seed)?))).take(3).collect();
    assert!(failed.is_empty(), "{failed:#?}\nsee: cargo run -p cardan-sim -- --seed X --trace");
}

/// Runs in which nothing happens would keep every rule.
#[test]
fn the_runs_are_eventful() {
    let mut tally = Tally::default();
    for seed in 0..3000 {
        tally += run_seed(seed, Tracing::Off).tally;
    }
    let counts = [
        tally.done,
        tally.fault,
        tally.timed_out,
        tally.cancelled,
        tally.lost,
        tally.violated,
        tally.refused,
        tally.called,
        tally.withdrawn,
        tally.asked,
        tally.found,
    ];
    assert!(counts.into_iter().all(|count| count >= 20), "{tally:?}");
    assert!(tally.done >= 3000, "{tally:?}");
}

/// The same seed is the same run; another one is another.
#[test]
fn a_seed_is_a_run() {
    let digests: Vec<_> = (0..200).map(|seed| run_seed(seed, Tracing::Off).digest).collect();
    let again: Vec<_> = (0..200).map(|seed| run_seed(seed, Tracing::On).digest).collect();
    assert_eq!(digests, again);
    let mut distinct = digests;
    distinct.sort_unstable();
    distinct.dedup();
    // Two sides that have nothing in common say little, and may say the same.
    assert!(distinct.len() > 190);
}
