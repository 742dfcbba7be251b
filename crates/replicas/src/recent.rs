//! What happened lately: remembered for a while, and never more than so much of it.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::lock;

/// Things of the last `age`, and some older ones. Where there are too many, the older half is forgotten early.
#[derive(Debug)]
pub struct Recent<T> {
    age: Duration,
    half: usize,
    halves: Mutex<Halves<T>>,
}

#[derive(Debug)]
struct Halves<T> {
    begun: Instant,
    newer: HashSet<T>,
    older: HashSet<T>,
}

impl<T: Eq + Hash> Recent<T> {
    /// None yet, and never more than `most`.
    #[must_use]
    pub fn new(age: Duration, most: usize) -> Self {
        let halves = Halves { begun: Instant::now(), newer: HashSet::new(), older: HashSet::new() };
        Self { age, half: (most / 2).max(1), halves: Mutex::new(halves) }
    }

    /// Remembers it. Is it new?
    pub fn add(&self, thing: T) -> bool {
        let mut halves = lock(&self.halves);
        self.turn(&mut halves);
        if halves.newer.len() >= self.half {
            halves.older = std::mem::take(&mut halves.newer);
            halves.begun = Instant::now();
        }
        !halves.older.contains(&thing) && halves.newer.insert(thing)
    }

    /// Is it remembered?
    pub fn has(&self, thing: &T) -> bool {
        let mut halves = lock(&self.halves);
        self.turn(&mut halves);
        halves.newer.contains(thing) || halves.older.contains(thing)
    }

    /// Whatever is in the older half is older than the age when the newer one is twice.
    fn turn(&self, halves: &mut Halves<T>) {
        let passed = halves.begun.elapsed();
        if passed < self.age {
            return;
        }
        let newer = std::mem::take(&mut halves.newer);
        halves.older = if passed < 2 * self.age { newer } else { HashSet::new() };
        halves.begun = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F21: what is remembered is bounded in time and number.
    #[tokio::test(start_paused = true)]
    async fn f21_memory_is_bounded() {
        let recent = Recent::new(Duration::from_secs(2), 10);
        assert!(recent.add(1) && !recent.add(1) && recent.has(&1) && !recent.has(&2));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(recent.has(&1) && !recent.add(1));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(!recent.has(&1) && recent.add(1));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(!recent.has(&1));
        for number in 0..100 {
            assert!(recent.add(number));
        }
        let kept = (0..100).filter(|number| recent.has(number)).count();
        assert!((5..=10).contains(&kept) && recent.has(&99), "{kept}");
    }
}
