//! What the run of one seed tells, for simulations that live beside what they simulate.
//!
//! What is made of futures is simulated in the tests of its own crate, over memory and under a clock that only waits
//! move. The rules are the same as here: every choice is drawn from the seed, every step is watched, a seed that fails
//! once fails always. `CARDAN_SEED=X` runs one seed and shows its story, `CARDAN_SEEDS=N` runs the first N.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A few failures tell as much as hundreds.
const SHOWN_MAX: usize = 3;

/// How many of the last lines of a story are shown with what is wrong with it.
const TAIL: usize = 12;

/// How often each case was met.
pub type Met = BTreeMap<&'static str, u64>;

/// The story of one run. Two runs of a seed have the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Story {
    lines: Vec<String>,
    met: Met,
    broken: Option<String>,
}

impl Story {
    /// Something happened.
    pub fn tell(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// One of the cases was met for which there is a simulation.
    pub fn meet(&mut self, case: &'static str) {
        *self.met.entry(case).or_default() += 1;
    }

    /// Is a rule broken? Then the run may end: it does not need to come to rest any more.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// This must hold. Of several rules that break, the first is told.
    pub fn demand(&mut self, holds: bool, rule: impl FnOnce() -> String) {
        if !holds {
            self.broken.get_or_insert_with(rule);
        }
    }
}

/// Runs many seeds, `usual` of them unless the environment says otherwise; `again` is the command that runs this test.
///
/// # Panics
///
/// When a seed breaks a rule: with the seed, the rule, the end of its story and how to run it alone.
pub fn every(usual: u64, again: &str, run: impl Fn(u64) -> Story) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number of seeds"));
    let seeds = match (number("CARDAN_SEED"), number("CARDAN_SEEDS")) {
        (Some(seed), _) => seed..=seed,
        (None, count) => 0..=count.unwrap_or(usual).saturating_sub(1),
    };
    over(seeds, again, run);
}

/// Runs these seeds.
fn over(seeds: RangeInclusive<u64>, again: &str, run: impl Fn(u64) -> Story) {
    let alone = seeds.start() == seeds.end();
    let mut failed = Vec::new();
    for seed in seeds {
        let story = catch_unwind(AssertUnwindSafe(|| run(seed)));
        let (lines, broken) = match story {
            Ok(story) => (story.lines, story.broken),
            Err(_) => (Vec::new(), Some("a panic, told above".to_owned())),
        };
        let from = if alone { 0 } else { lines.len().saturating_sub(TAIL) };
        if let Some(rule) = broken {
            let tail = lines[from..].join("\n  ");
            failed.push(format!("seed {seed}: {rule}\n  {tail}\n  again: CARDAN_SEED={seed} {again}"));
        } else if alone {
            eprintln!("{}", lines.join("\n"));
        }
        if failed.len() == SHOWN_MAX {
            break;
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Runs `seeds` twice: the two runs must be one, and not all runs may be the same.
///
/// # Panics
///
/// When they differ, or do not.
pub fn same(seeds: u64, run: impl Fn(u64) -> Story) {
    let mut before = None;
    let mut differ = seeds < 2;
    for seed in 0..seeds {
        let (one, two) = (run(seed), run(seed));
        let apart = one.lines.iter().zip(&two.lines).find(|(one, two)| one != two);
        assert!(one == two, "seed {seed}: two runs of it differ: {apart:?}");
        differ |= before.is_some_and(|before| before != one);
        before = Some(one);
    }
    assert!(differ, "every seed is the same run");
}

/// Runs `seeds` and looks whether each of `cases` was met, so that rules are not kept by runs in which nothing happens.
///
/// # Panics
///
/// When one was met less often than `least` times, or one is met that nobody knows.
pub fn eventful(seeds: u64, cases: &[&str], least: u64, run: impl Fn(u64) -> Story) {
    let mut met = Met::new();
    for seed in 0..seeds {
        for (case, count) in run(seed).met {
            *met.entry(case).or_default() += count;
        }
    }
    let rare: Vec<_> =
        cases.iter().filter(|case| met.get(**case).copied().unwrap_or_default() < least).collect();
    let unknown: Vec<_> = met.keys().filter(|case| !cases.contains(case)).collect();
    assert!(rare.is_empty() && unknown.is_empty(), "rare: {rare:?}, unknown: {unknown:?}, met: {met:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn run(seed: u64) -> Story {
        let mut story = Story::default();
        let drawn = Rng::seeded(seed).below(100);
        story.tell(format!("drew {drawn}"));
        story.meet(if drawn < 50 { "low" } else { "high" });
        story
    }

    fn broken(check: impl FnOnce()) -> String {
        let panicked = catch_unwind(AssertUnwindSafe(check)).expect_err("the rule is broken");
        match panicked.downcast_ref::<&str>() {
            Some(text) => (*text).to_owned(),
            None => panicked.downcast_ref::<String>().cloned().unwrap_or_default(),
        }
    }

    /// Checks that cannot fail would prove nothing.
    #[test]
    fn what_is_wrong_is_told_with_its_seed() {
        over(0..=19, "cargo test", run);
        same(20, run);
        eventful(20, &["low", "high"], 3, run);
        let told = broken(|| {
            over(0..=8, "cargo test", |seed| {
                let mut story = run(seed);
                story.demand(seed != 7, || "seven is odd".into());
                story.demand(seed != 7, || "and prime".into());
                story
            });
        });
        assert!(told.starts_with("seed 7: seven is odd\n  drew"), "{told}");
        assert!(told.ends_with("again: CARDAN_SEED=7 cargo test"), "{told}");
        let count = std::cell::Cell::new(0);
        let told = broken(|| same(2, |_| run(count.replace(count.get() + 1))));
        assert!(told.contains("two runs of it differ"), "{told}");
        assert!(broken(|| same(9, |_| run(1))).contains("the same run"));
        assert!(broken(|| eventful(20, &["low", "high", "odd"], 3, run)).contains("rare: [\"odd\"]"));
        assert!(broken(|| eventful(20, &["low"], 3, run)).contains("unknown: [\"high\"]"));
    }
}
