//! What one upkeep has to live with: its policy, the moods of the peer, and what users want when.

use std::time::Duration;

use cardan_proto::http::failure::HttpFailure;
use cardan_proto::session::event::{Cause, Hurdle};
use cardan_proto::upkeep::policy::{AtWork, Backoff, Burst, Policy, Probe, Quiet, Unconnected};

use crate::fault::millis;
use crate::rng::Rng;

/// The disasters of one run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How the connection is kept.
    pub policy: Policy,
    /// Whether the policy is one of those that we ship, so that our numbers are promised.
    pub shipped: bool,
    /// One mood of the peer after the other, and for how long. Then it is calm for ever.
    pub moods: Vec<(Duration, Mood)>,
    /// How late ticks are.
    pub tick_late: Duration,
    /// Users do something about so often,
    pub pause_ms: u64,
    /// and so many times.
    pub whims: u64,
    /// Whether one of them closes the connection in the midst of it.
    pub closes: bool,
    /// Fixes the jitter.
    pub dice: u64,
}

/// How the peer takes a link, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Links open and live.
    Calm,
    /// Links open; some die, doubt is cast on some, listens break.
    Well,
    /// Nobody is there.
    Refuses,
    /// Someone is there and never greets.
    Mute,
    /// Links open and are closed at once, for long.
    Slams,
    /// Links open, and then nothing is heard any more.
    FallsSilent,
    /// Sessions expire: some links are greeted anew while they are up, others fail to open with 404.
    Expires,
    /// Authorization is wanted.
    Locked,
    /// There is no common revision.
    Foreign,
}

impl Plan {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let shipped = rng.percent(80);
        let policy = if shipped { rng.pick(&[Policy::REMOTE, Policy::CHILD]) } else { odd(rng) };
        let count = rng.within(1, 5);
        let moods = (0..count).map(|_| Self::mood(shipped, rng)).collect();
        Self {
            policy,
            shipped,
            moods,
            tick_late: millis(rng.pick(&[0, 0, 1, 900])),
            pause_ms: rng.pick(&[2_000, 40_000, 400_000]),
            whims: rng.pick(&[0, 4, 30]),
            closes: rng.percent(30),
            dice: rng.number(),
        }
    }

    fn mood(shipped: bool, rng: &mut Rng) -> (Duration, Mood) {
        let mood = rng.pick(&[
            Mood::Well,
            Mood::Well,
            Mood::Refuses,
            Mood::Mute,
            Mood::Slams,
            Mood::Slams,
            Mood::FallsSilent,
            Mood::Expires,
            Mood::Locked,
            Mood::Foreign,
        ]);
        let seconds = match mood {
            // F14 counts ten minutes; with odd numbers that would be thousands of links.
            Mood::Slams if shipped => rng.pick(&[30, 700]),
            Mood::Slams => 10,
            _ => rng.within(1, 200),
        };
        (Duration::from_secs(seconds), mood)
    }

    /// The mood so long after the start.
    #[must_use]
    pub fn mood_at(&self, elapsed: Duration) -> Mood {
        let mut end = Duration::ZERO;
        for (lasts, mood) in &self.moods {
            end += *lasts;
            if elapsed < end {
                return *mood;
            }
        }
        Mood::Calm
    }

    /// How long until it is calm.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        self.moods.iter().map(|(lasts, _)| *lasts).sum()
    }
}

/// Numbers that nobody would ship.
fn odd(rng: &mut Rng) -> Policy {
    let backoff = Backoff {
        min: millis(rng.pick(&[0, 1, 5_000])),
        max: millis(rng.pick(&[1, 1_000, 60_000])),
        attempts: rng.pick(&[0, 1, 3, 40]) as u32,
    };
    let quiet = Quiet { min: millis(rng.pick(&[100, 15_000])), max: millis(rng.pick(&[20_000, 300_000])) };
    let every = rng.pick(&[None, Some(millis(7_000)), Some(millis(30_000))]);
    let at_work = rng.pick(&[AtWork::Asked, AtWork::Left]);
    Policy {
        backoff,
        quiet: rng.percent(60).then_some(quiet),
        burst: Burst {
            restarts: rng.pick(&[0, 1, 5, 1000]) as u32,
            within: millis(rng.pick(&[0, 1_000, 300_000])),
        },
        stable_after: millis(rng.pick(&[1_000, 60_000])),
        probe: Probe { every, within: millis(50), busy_within: millis(3_000), at_work },
        unconnected: Unconnected::Wait,
        resends: 5,
    }
}

/// How an attempt fails in such a mood; nothing: it does not.
#[must_use]
pub fn failure(mood: Mood) -> Option<Cause> {
    let said = |status: u16| status.try_into().expect("a status of three digits");
    match mood {
        Mood::Calm | Mood::Well | Mood::Slams | Mood::FallsSilent => None,
        Mood::Refuses => Some(Cause::Unreachable { hurdle: Hurdle::Connect, why: "nobody there".into() }),
        Mood::Mute => Some(Cause::OpenTimeout),
        Mood::Expires => Some(Cause::Http(Box::new(HttpFailure::SessionGone { status: said(404) }))),
        Mood::Locked => Some(Cause::Http(Box::new(HttpFailure::Status {
            status: said(401),
            excerpt: Box::default(),
            hints: Default::default(),
        }))),
        Mood::Foreign => Some(Cause::NoCommonRevision { theirs: Vec::new() }),
    }
}

/// Does such a failure last, so that quiet attempts are enough?
#[must_use]
pub fn lasts(cause: &Cause) -> bool {
    [Mood::Locked, Mood::Foreign].into_iter().any(|mood| failure(mood).as_ref() == Some(cause))
}
