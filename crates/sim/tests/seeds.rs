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
//! * CAN-11, CAN-12, S0-86: no call outlives its deadlines, whatever the progress.
//! * S0-81, S2-44: broken lines are recorded, and calls are done among them.
//! * S0-82: the end of a link settles what is in flight, with its cause.
//! * S0-87: cancels reach the handlers of the other side.
//! * S2-34, S2-35, S2-36: states follow their table, and every change is told.
//! * S2-37, S2-39: on a calm link two sides open with a revision in common, or not at all.
//! * S2-41: nobody calls `shutdown`.

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

/// S0-81, S0-82, S0-86, S0-87, S2-44: each of these is met in runs in which other calls are done all the same.
#[test]
fn s0_81_calls_are_done_among_disasters() {
    let tallies: Vec<_> = (0..2000).map(|seed| run_seed(seed, Tracing::Off).tally).collect();
    type Met = fn(&Tally) -> bool;
    let rows: [(&str, Met); 4] = [
        ("S0-81, S2-44", |tally| tally.found > 0),
        ("S0-82", |tally| tally.lost > 0),
        ("S0-86", |tally| tally.timed_out > 0),
        ("S0-87", |tally| tally.cancelled > 0 && tally.withdrawn > 0),
    ];
    for (row, met) in rows {
        let runs = tallies.iter().filter(|tally| tally.done > 0 && met(tally)).count();
        assert!(runs >= 20, "{row}: {runs} runs");
    }
}

/// S2-41: no session ever calls `shutdown`, however it ends.
#[test]
fn s2_41_nobody_calls_shutdown() {
    let traces = (0..500).flat_map(|seed| run_seed(seed, Tracing::On).trace);
    let sent: Vec<_> = traces.filter(|line| line.contains(" out ") && line.contains("> {")).collect();
    assert!(sent.len() > 1000, "{} messages", sent.len());
    let shutdown = sent.iter().find(|line| line.contains(r#""method":"shutdown""#));
    assert_eq!(shutdown, None);
}
