//! By which numbers a connection is kept, where a file says so.

use std::time::Duration;

use cardan_proto::limits::config::{RECONNECT_COUNT, RECONNECT_TIME};
use cardan_proto::upkeep::policy::{AtWork, Backoff, Burst, Policy, Probe, Quiet, Unconnected};

/// By which numbers a connection is kept. What is not said is as usual for its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reconnect {
    /// Attempts soon after a loss.
    pub attempts: Option<u32>,
    /// The longest wait before the first of them; it doubles.
    pub wait_min: Option<Duration>,
    /// The longest wait before any of them.
    pub wait_max: Option<Duration>,
    /// The wait before the first quiet attempt after those; it doubles. Zero: there is none.
    pub quiet_min: Option<Duration>,
    /// The longest wait between quiet attempts.
    pub quiet_max: Option<Duration>,
    /// More new links than this in a short time are a crash loop.
    pub burst: Option<u32>,
    /// How short that time is.
    pub burst_within: Option<Duration>,
    /// A link that lasted this long makes up for the failures before it.
    pub stable_after: Option<Duration>,
    /// How often an idle server is asked whether it lives. Zero: only where there is reason to.
    pub probe_every: Option<Duration>,
    /// How long an idle server may take to answer that.
    pub probe_within: Option<Duration>,
    /// How long one may take that works for us.
    pub probe_busy_within: Option<Duration>,
    /// What becomes of calls while there is no link.
    pub calls: Option<Unconnected>,
    /// How often one call that was never sent is tried again.
    pub resends: Option<u32>,
}

/// A number that can be said, and what it may be.
pub(crate) enum Slot<'a> {
    /// A whole number, at least this.
    Count(&'a mut Option<u32>, u32),
    Time(&'a mut Option<Duration>, Zero),
    Calls(&'a mut Option<Unconnected>),
}

/// May a time be nothing at all?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zero {
    Allowed,
    Refused,
}

/// Of two times the first is the shorter.
pub(crate) const PAIRS: [(&str, &str); 3] =
    [("wait_min", "wait_max"), ("quiet_min", "quiet_max"), ("probe_within", "probe_busy_within")];

/// What becomes of calls, by name.
pub(crate) const CALLS: [(&str, Unconnected); 2] = [("wait", Unconnected::Wait), ("fail", Unconnected::Fail)];

impl Reconnect {
    /// All that can be said, by name.
    pub(crate) fn slots(&mut self) -> [(&'static str, Slot<'_>); 13] {
        use Slot::{Calls, Count, Time};
        [
            ("attempts", Count(&mut self.attempts, 0)),
            ("wait_min", Time(&mut self.wait_min, Zero::Refused)),
            ("wait_max", Time(&mut self.wait_max, Zero::Refused)),
            ("quiet_min", Time(&mut self.quiet_min, Zero::Allowed)),
            ("quiet_max", Time(&mut self.quiet_max, Zero::Refused)),
            ("burst", Count(&mut self.burst, 1)),
            ("burst_within", Time(&mut self.burst_within, Zero::Refused)),
            ("stable_after", Time(&mut self.stable_after, Zero::Allowed)),
            ("probe_every", Time(&mut self.probe_every, Zero::Allowed)),
            ("probe_within", Time(&mut self.probe_within, Zero::Refused)),
            ("probe_busy_within", Time(&mut self.probe_busy_within, Zero::Refused)),
            ("calls", Calls(&mut self.calls)),
            ("resends", Count(&mut self.resends, 0)),
        ]
    }

    /// What is not said here is as it is said there.
    #[must_use]
    pub fn or(mut self, mut other: Self) -> Self {
        for ((_, own), (_, others)) in self.slots().into_iter().zip(other.slots()) {
            match (own, others) {
                (Slot::Count(own, _), Slot::Count(others, _)) => *own = own.or(*others),
                (Slot::Time(own, _), Slot::Time(others, _)) => *own = own.or(*others),
                (Slot::Calls(own), Slot::Calls(others)) => *own = own.or(*others),
                _ => {}
            }
        }
        self
    }

    /// The usual policy with what is said here. Of a pair of times the one that is said wins over the usual other.
    #[must_use]
    pub fn over(self, usual: Policy) -> Policy {
        let Backoff { min, max, attempts } = usual.backoff;
        let (wait_min, wait_max) = pair((self.wait_min, self.wait_max), (min, max));
        let probe = usual.probe;
        let (within, busy_within) =
            pair((self.probe_within, self.probe_busy_within), (probe.within, probe.busy_within));
        Policy {
            backoff: Backoff {
                min: wait_min,
                max: wait_max,
                attempts: self.attempts.map_or(attempts, |said| said.min(RECONNECT_COUNT)),
            },
            quiet: self.quiet(usual.quiet),
            burst: Burst {
                restarts: self.burst.map_or(usual.burst.restarts, |said| said.min(RECONNECT_COUNT)),
                within: self.burst_within.unwrap_or(usual.burst.within),
            },
            stable_after: self.stable_after.unwrap_or(usual.stable_after),
            probe: Probe {
                every: self
                    .probe_every
                    .map_or(probe.every, |every| Some(every).filter(|every| !every.is_zero())),
                within,
                busy_within,
                // Who says how long one may take that is at work wants it asked.
                at_work: self.probe_busy_within.map_or(probe.at_work, |_| AtWork::Asked),
            },
            unconnected: self.calls.unwrap_or(usual.unconnected),
            resends: self.resends.map_or(usual.resends, |said| said.min(RECONNECT_COUNT)),
        }
    }

    fn quiet(self, usual: Option<Quiet>) -> Option<Quiet> {
        match (self.quiet_min, self.quiet_max) {
            (None, None) => usual,
            (Some(Duration::ZERO), _) => None,
            said => {
                // Whoever says one of them wants quiet attempts, also where there are none usually.
                let usual = usual
                    .or(Policy::REMOTE.quiet)
                    .map_or((RECONNECT_TIME, RECONNECT_TIME), |usual| (usual.min, usual.max));
                let (min, max) = pair(said, usual);
                Some(Quiet { min, max })
            }
        }
    }
}

/// Two times of which the first is not longer: what is said stands, and the other gives way.
fn pair(said: (Option<Duration>, Option<Duration>), usual: (Duration, Duration)) -> (Duration, Duration) {
    match said {
        (Some(min), Some(max)) => (min, max.max(min)),
        (Some(min), None) => (min, usual.1.max(min)),
        (None, Some(max)) => (usual.0.min(max), max),
        (None, None) => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// S2-42: each number has its place in the policy, and nothing said leaves all as usual.
    #[test]
    fn s2_42_every_number_has_its_place() {
        for usual in [Policy::CHILD, Policy::REMOTE] {
            assert_eq!(Reconnect::default().over(usual), usual);
        }
        let said = Reconnect {
            attempts: Some(1),
            wait_min: Some(secs(2)),
            wait_max: Some(secs(3)),
            quiet_min: Some(secs(4)),
            quiet_max: Some(secs(5)),
            burst: Some(6),
            burst_within: Some(secs(7)),
            stable_after: Some(secs(8)),
            probe_every: Some(secs(9)),
            probe_within: Some(secs(10)),
            probe_busy_within: Some(secs(11)),
            calls: Some(Unconnected::Fail),
            resends: Some(12),
        };
        let policy = Policy {
            backoff: Backoff { min: secs(2), max: secs(3), attempts: 1 },
            quiet: Some(Quiet { min: secs(4), max: secs(5) }),
            burst: Burst { restarts: 6, within: secs(7) },
            stable_after: secs(8),
            probe: Probe {
                every: Some(secs(9)),
                within: secs(10),
                busy_within: secs(11),
                at_work: AtWork::Asked,
            },
            unconnected: Unconnected::Fail,
            resends: 12,
        };
        assert_eq!(said.over(Policy::CHILD), policy);
        assert_eq!(Reconnect::default().or(said), said);
        let one = Reconnect { attempts: Some(9), ..Reconnect::default() };
        assert_eq!(one.or(said), Reconnect { attempts: Some(9), ..said });
    }

    /// Of a pair the one that is said counts in full; zero switches off.
    #[test]
    fn what_is_said_wins_over_what_is_usual() {
        let backoff = |min, max| {
            let said = Reconnect { wait_min: min, wait_max: max, ..Reconnect::default() };
            let backoff = said.over(Policy::CHILD).backoff;
            (backoff.min, backoff.max)
        };
        assert_eq!(backoff(Some(secs(90)), None), (secs(90), secs(90)));
        assert_eq!(
            backoff(None, Some(Duration::from_millis(5))),
            (Duration::from_millis(5), Duration::from_millis(5))
        );
        let quiet = |min, max, usual| {
            Reconnect { quiet_min: min, quiet_max: max, ..Reconnect::default() }.over(usual).quiet
        };
        assert_eq!(quiet(Some(secs(0)), None, Policy::REMOTE), None);
        assert_eq!(
            quiet(None, Some(secs(60)), Policy::CHILD),
            Some(Quiet { min: secs(15), max: secs(60) }),
            "a child that is tried for ever"
        );
        let never = Reconnect { probe_every: Some(secs(0)), ..Reconnect::default() };
        assert_eq!(never.over(Policy::REMOTE).probe.every, None);
    }
}
