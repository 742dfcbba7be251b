//! Thousands of kept connections, each with its own policy, peer and users. What must hold after every step is in
//! the oracle; the rows that this demonstrates:
//!
//! * S0-8, S0-44, S0-45, S0-74, S0-79, STD-13: what is lost is made anew by itself, one link at a time.
//! * S0-75, SUB-17: listens that break on a live link are tried again in time.
//! * S0-77: a failure is told in the moment in which it is known.
//! * S2-34, S2-35, S2-36, S2-37, S2-38: every change is legal, told once, with cause, attempt and time; failures pass
//!   through disconnected, and calls flow only when a link has opened.
//! * S2-40, S2-46, F38: a close gives up the attempt under way, ends from wherever, and nothing is dialled after it.
//! * S2-42, S2-43: waits double within their bounds, attempts count when they begin, only a stable link resets them.
//! * S2-42: whoever asks by hand is heard at once and clears what failed before; a link that lives is left alone where
//!   only a retry is asked for.
//! * F12, PNG-2: a silent peer is noticed within its bound.
//! * F13: a session that is greeted anew on its link is no loss.
//! * F14: at most 40 attempts in ten minutes of links that open and are closed at once.

use cardan_sim::upkeep::Report;
use cardan_sim::upkeep::oracle::{Seen, Tally};
use cardan_sim::{Tracing, run_upkeep};

fn runs(seeds: u64) -> impl Iterator<Item = Report> {
    (0..seeds).map(|seed| run_upkeep(seed, Tracing::Off))
}

/// F12, F13, F14, S0-8, S0-44, S0-45, S0-74, S0-75, S0-77, S0-79, S2-34, S2-35, S2-36, S2-37, S2-38, S2-40, S2-42, S2-43,
/// S2-46.
#[test]
fn f14_every_upkeep_keeps_the_rules() {
    let failed: Vec<_> =
        (0..5000).filter_map(|seed| Some((seed, run_upkeep(seed, Tracing::Off).failure?))).take(3).collect();
    assert!(failed.is_empty(), "{failed:#?}\nsee: cargo run -p cardan-sim -- --seed X --trace");
}

/// Runs in which nothing happens would keep every rule.
#[test]
fn the_runs_are_eventful() {
    let mut tally = Tally::default();
    for report in runs(1000) {
        for (sum, count) in tally.iter_mut().zip(report.tally) {
            *sum += count;
        }
    }
    assert!(tally.into_iter().all(|count| count >= 50), "{tally:?}");
    assert!(tally[Seen::Dialled as usize] > 5_000, "{tally:?}");
}

/// The same seed is the same run, watched or not.
#[test]
fn a_seed_is_a_run() {
    let again = (0..300).map(|seed| run_upkeep(seed, Tracing::On).digest);
    assert!(runs(300).map(|report| report.digest).eq(again));
}
