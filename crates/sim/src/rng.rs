//! Where every choice comes from: a number, or the bytes of a fuzzer.
//!
//! Written here rather than taken from a crate, so that a seed means the same run for ever.

/// A source of choices. The same start gives the same choices.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
    /// Choices that someone else has made already; they are used up first.
    script: Vec<u8>,
    at: usize,
}

impl Rng {
    /// From a number.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed, script: Vec::new(), at: 0 }
    }

    /// From bytes, one or two per choice; when they are used up, from a fixed number.
    #[must_use]
    pub fn scripted(script: &[u8]) -> Self {
        Self { state: 0, script: script.to_vec(), at: 0 }
    }

    /// Are choices left that someone else has made?
    #[must_use]
    pub fn is_scripted(&self) -> bool {
        self.at < self.script.len()
    }

    /// Is there nothing left of what someone else has chosen?
    #[must_use]
    pub fn is_spent(&self) -> bool {
        !self.script.is_empty() && !self.is_scripted()
    }

    /// Any number: one step of splitmix64.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; zero if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        if end <= 1 {
            return 0;
        }
        if !self.is_scripted() {
            return self.number() % end;
        }
        let mut drawn = u64::from(self.byte());
        if end > 256 {
            drawn = drawn << 8 | u64::from(self.byte());
        }
        drawn % end
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True this many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of `choices`, which are not empty.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let at = self.below(choices.len() as u64) as usize;
        choices[at].clone()
    }

    fn byte(&mut self) -> u8 {
        let byte = self.script.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_start_gives_the_same_choices() {
        let (mut one, mut two) = (Rng::seeded(7), Rng::seeded(7));
        assert!((0..100).all(|_| one.number() == two.number()));
        assert_ne!(Rng::seeded(7).number(), Rng::seeded(8).number());
    }

    #[test]
    fn a_script_is_followed_to_its_end() {
        let mut rng = Rng::scripted(&[3, 200, 1, 2]);
        assert_eq!((rng.below(10), rng.below(10), rng.below(1000)), (3, 0, 258));
        assert!(!rng.is_scripted() && rng.is_spent() && !Rng::seeded(1).is_spent());
        assert!(rng.below(10) < 10);
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::seeded(1);
        assert!((0..1000).all(|_| (3..=9).contains(&rng.within(3, 9))));
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
    }
}
