//! The numbers of upkeep, and what each is for.

use std::time::Duration;

/// How a connection is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The waits before the first attempts after a loss.
    pub backoff: Backoff,
    /// What follows when those are spent; nothing: it stops until someone asks.
    pub quiet: Option<Quiet>,
    /// More new links than this in so short a time is a crash loop.
    pub burst: Burst,
    /// A link that lasted this long makes up for the failures before it. Opening alone does not.
    pub stable_after: Duration,
    /// When a peer is asked whether it lives, and how long it may take.
    pub probe: Probe,
    /// What becomes of calls while there is no link.
    pub unconnected: Unconnected,
    /// How often one call that was never sent is tried again, within its deadline.
    pub resends: u32,
}

/// Waits that double, each anywhere between nothing and its full length: a herd spreads out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
    /// How many attempts.
    pub attempts: u32,
}

/// Waits that double, each at least half its length: nobody is bothered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quiet {
    /// The first.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

/// What counts as a crash loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// As many new links are fine.
    pub restarts: u32,
    /// In this time.
    pub within: Duration,
}

/// Asking a peer whether it lives. That is done whenever a call fails although the link lives, and as often as is
/// said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// How often; nothing: only where there is reason to.
    pub every: Option<Duration>,
    /// An idle peer answers within this.
    pub within: Duration,
    /// So does one that works for us: many servers do one thing at a time.
    pub busy_within: Duration,
    /// Whether one that works for us is asked at all, without a doubt.
    pub at_work: AtWork,
}

/// What becomes of a question that is only asked because it is time, while the peer works for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtWork {
    /// It is asked, and given longer to answer.
    Asked,
    /// Nobody asks: the deadlines of its calls say when to doubt it.
    Left,
}

/// What becomes of calls while there is no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unconnected {
    /// They wait for one within their deadlines; not while the connection is suspended.
    #[default]
    Wait,
    /// They fail at once, not sent.
    Fail,
}

impl Policy {
    /// For a child of ours: started again a few times, then left alone.
    pub const CHILD: Self = Self {
        backoff: Backoff { min: Duration::from_secs(1), max: Duration::from_secs(30), attempts: 5 },
        quiet: None,
        burst: Burst { restarts: 5, within: Duration::from_secs(30) },
        stable_after: Duration::from_secs(60),
        probe: Probe {
            // Pipes break when a child dies; one that is stopped or hangs says nothing, and so does its pipe.
            every: Some(Duration::from_secs(30)),
            within: Duration::from_secs(10),
            busy_within: Duration::from_secs(120), // longer than most calls may be silent
            at_work: AtWork::Left,                 // to end the link is to kill it, with all that it does
        },
        unconnected: Unconnected::Wait,
        resends: 5,
    };

    /// For a server elsewhere: it comes back some day, and may vanish without a word.
    pub const REMOTE: Self = Self {
        quiet: Some(Quiet { min: Duration::from_secs(15), max: Duration::from_secs(300) }),
        probe: Probe { at_work: AtWork::Asked, ..Self::CHILD.probe },
        ..Self::CHILD
    };
}

impl Default for Policy {
    fn default() -> Self {
        Self::REMOTE
    }
}

impl Backoff {
    /// The longest wait before an attempt, counted from zero.
    #[must_use]
    pub fn longest(&self, attempt: u32) -> Duration {
        doubled(self.min, self.max, attempt)
    }
}

impl Quiet {
    /// The longest wait before a round, counted from zero.
    #[must_use]
    pub fn longest(&self, round: u32) -> Duration {
        doubled(self.min, self.max, round)
    }
}

fn doubled(min: Duration, max: Duration, times: u32) -> Duration {
    let factor = 1u32.checked_shl(times).unwrap_or(u32::MAX);
    min.saturating_mul(factor).min(max)
}

/// Where jitter comes from: a number sequence that its seed fixes.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Anything from nothing to just under `most`.
    pub(super) fn full(&mut self, most: Duration) -> Duration {
        let share = (u128::from(self.next()) * most.as_nanos()) >> 64;
        Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX))
    }

    /// Anything from half of `most` to just under it.
    pub(super) fn half(&mut self, most: Duration) -> Duration {
        most / 2 + self.full(most / 2)
    }

    /// Weyl sequence with a mixer: short, and good enough to spread a herd.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// S2-42, CLI-25: 1 s doubling up to the cap, five attempts; then 15 s doubling to 5 min for servers elsewhere.
    #[test]
    fn s2_42_waits_double_up_to_their_cap() {
        let Policy { backoff, quiet, .. } = Policy::REMOTE;
        let ladder: Vec<_> = (0..6).map(|n| backoff.longest(n)).collect();
        assert_eq!(ladder, [1, 2, 4, 8, 16, 30].map(secs));
        let quiet = quiet.expect("servers elsewhere are tried for ever");
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 60].map(|n| quiet.longest(n)),
            [15, 30, 60, 120, 240, 300, 300].map(secs)
        );
        assert_eq!((backoff.attempts, Policy::CHILD.quiet), (5, None));
    }

    /// S2-42, CLI-25: jitter stays within its bounds and differs from seed to seed.
    #[test]
    fn s2_42_jitter_spreads_and_stays_within_bounds() {
        let most = secs(16);
        let thrown: Vec<_> = (0..1000).map(|seed| Dice::new(seed).full(most)).collect();
        assert!(thrown.iter().all(|wait| *wait < most));
        for quarter in 0..4 {
            let within = thrown.iter().filter(|wait| wait.as_secs() / 4 == quarter).count();
            assert!((200..300).contains(&within), "{within} of 1000 in quarter {quarter}");
        }
        let mut dice = Dice::new(7);
        assert!((0..1000).map(|_| dice.half(most)).all(|wait| wait >= most / 2 && wait < most));
        assert_eq!(dice.full(Duration::ZERO), Duration::ZERO);
    }
}
