//! The upkeep of a connection as a value: tables, and simulated hours.

use std::time::Duration;

use cardan_proto::finding::Rule;
use cardan_proto::moment::Moment;
use cardan_proto::session::event::Cause;
use cardan_proto::session::state::State;
use cardan_proto::upkeep::condition::{Condition, Transition};
use cardan_proto::upkeep::policy::{Backoff, Burst, Policy, Probe};
use cardan_proto::upkeep::{Input, LinkNumber, Output, Upkeep};
use proptest::prelude::*;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn at(seconds: u64) -> Moment {
    Moment::after(secs(seconds))
}

/// Upkeep with a hand on the clock.
struct Rig {
    upkeep: Upkeep,
    now: Moment,
    told: Vec<Transition>,
    dials: Vec<Moment>,
}

impl Rig {
    fn new(policy: Policy, seed: u64) -> Self {
        let mut rig = Self {
            upkeep: Upkeep::new(policy, seed),
            now: Moment::ZERO,
            told: Vec::new(),
            dials: Vec::new(),
        };
        assert_eq!(rig.feed(Input::Connect), ["dial 1"]);
        rig
    }

    fn link(&self) -> LinkNumber {
        self.upkeep.link()
    }

    /// What it wants done, in short; transitions are kept aside.
    fn feed(&mut self, input: Input) -> Vec<String> {
        self.upkeep.handle(self.now, input);
        let mut wanted = Vec::new();
        while let Some(output) = self.upkeep.poll() {
            match output {
                Output::Transition(transition) => {
                    assert!(transition.from.may_become(transition.to), "{transition:?}");
                    self.told.push(transition);
                }
                Output::Dial { link, .. } => {
                    self.dials.push(self.now);
                    wanted.push(format!("dial {}", link.0));
                }
                Output::Abandon => wanted.push("abandon".into()),
                Output::Drain { reason } => wanted.push(format!("drain: {reason}")),
                Output::End { cause } => wanted.push(format!("end: {cause}")),
                Output::Probe { .. } => wanted.push("probe".into()),
                Output::Relisten => wanted.push("relisten".into()),
            }
        }
        wanted
    }

    fn open(&mut self) {
        let link = self.link();
        assert!(self.feed(Input::Opened { link }).is_empty());
        assert_eq!(self.upkeep.condition(), Condition::READY);
    }

    fn lose(&mut self) -> Vec<String> {
        let link = self.link();
        self.feed(Input::Lost { link, cause: Cause::ClosedByPeer })
    }

    fn session(&mut self, state: State) -> Vec<String> {
        let link = self.link();
        self.feed(Input::Session { link, state, cause: None })
    }

    /// Goes to the deadline, which there must be.
    fn wait(&mut self) -> Vec<String> {
        self.now = self.upkeep.deadline().expect("something to wait for").max(self.now);
        self.feed(Input::Tick)
    }

    /// The conditions since the last look, in short.
    fn went(&mut self) -> String {
        let told = std::mem::take(&mut self.told);
        told.iter().map(|transition| transition.to.to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// S2-36, S2-37: from the first dial to ready, every step told with its time.
#[test]
fn s2_37_opening_shows_the_steps_of_the_session() {
    let mut rig = Rig::new(Policy::REMOTE, 1);
    rig.now = at(1);
    for state in [State::Connecting, State::Probing, State::Initializing, State::Ready] {
        assert!(rig.session(state).is_empty());
    }
    rig.now = at(2);
    rig.open();
    let times: Vec<_> = rig.told.iter().map(|told| told.at).collect();
    assert_eq!(times, [at(0), at(1), at(1), at(2)]);
    assert_eq!(rig.went(), "connecting, probing, initializing, ready");
}

/// S2-38, S2-42, S2-43: a failed attempt passes through disconnected with its cause; attempts count when they begin.
#[test]
fn s2_42_five_attempts_then_quiet_or_stop() {
    for (policy, quiet) in [(Policy::CHILD, false), (Policy::REMOTE, true)] {
        let backoff = policy.backoff;
        let policy = Policy { burst: Burst { restarts: 99, within: secs(30) }, ..policy };
        let mut rig = Rig::new(policy, 3);
        for attempt in 0..5 {
            let link = rig.link();
            rig.feed(Input::Failed { link, cause: Cause::OpenTimeout });
            let told = rig.told.last().expect("it was told").clone();
            let Condition::Reconnecting { attempt: next, until } = told.to else { panic!("{told:?}") };
            assert_eq!((next, told.attempt, told.cause), (attempt + 1, attempt, Some(Cause::OpenTimeout)));
            assert!(until.since(rig.now) <= backoff.longest(attempt));
            assert_eq!(rig.wait(), [format!("dial {}", link.0 + 1)]);
        }
        rig.went();
        let link = rig.link();
        rig.feed(Input::Failed { link, cause: Cause::OpenTimeout });
        assert_eq!(rig.went(), "disconnected, suspended");
        assert_eq!(rig.upkeep.deadline().is_some(), quiet);
        assert_eq!(rig.feed(Input::Connect), [format!("dial {}", link.0 + 1)], "by hand it goes on");
        let link = rig.link();
        rig.feed(Input::Failed { link, cause: Cause::OpenTimeout });
        assert_eq!(rig.went(), "connecting, disconnected, reconnecting (attempt 1)", "and counts anew");
    }
}

/// S2-42: other numbers hold at once. What waits is tried now and counts anew; a link that is up is not touched, but
/// looked after by the new ones; the same numbers again change nothing.
#[test]
fn s2_42_other_numbers_hold_at_once() {
    let unasked = Probe { every: None, ..Policy::CHILD.probe };
    let backoff = Backoff { attempts: 1, ..Policy::CHILD.backoff };
    let once = Policy { backoff, probe: unasked, ..Policy::CHILD };
    let twice = Policy { backoff: Backoff { attempts: 2, ..once.backoff }, ..once };
    let mut rig = Rig::new(once, 3);
    let fail = |rig: &mut Rig| {
        let link = rig.link();
        rig.feed(Input::Failed { link, cause: Cause::OpenTimeout })
    };
    fail(&mut rig);
    rig.wait();
    fail(&mut rig);
    assert_eq!(rig.upkeep.condition(), Condition::Suspended { until: None });
    assert!(rig.feed(Input::Policy(once)).is_empty());
    assert_eq!(rig.feed(Input::Policy(twice)), ["dial 3"]);
    for dial in ["dial 4", "dial 5"] {
        fail(&mut rig);
        assert_eq!(rig.wait(), [dial]);
    }
    fail(&mut rig);
    assert_eq!(rig.upkeep.condition(), Condition::Suspended { until: None });
    rig.feed(Input::Connect);
    rig.open();
    assert_eq!(rig.upkeep.deadline(), None, "nobody asks whether it lives");
    let probe = Probe { every: Some(secs(5)), ..twice.probe };
    assert!(rig.feed(Input::Policy(Policy { probe, ..twice })).is_empty());
    assert_eq!(rig.upkeep.deadline(), Some(rig.now + secs(5)));
    assert_eq!(rig.wait(), ["probe"]);
    assert!(rig.feed(Input::Policy(Policy { probe: Probe { every: None, ..probe }, ..twice })).is_empty());
    assert_eq!(rig.upkeep.deadline(), None);
    let mut fresh = Upkeep::new(once, 1);
    fresh.handle(Moment::ZERO, Input::Policy(twice));
    assert_eq!(fresh.poll(), None, "what has not begun is not begun by it");
}

/// S2-42, F14: opening alone makes up for nothing; a stable link does.
#[test]
fn f14_only_a_stable_link_resets_the_counter() {
    for (lasted, attempt) in [(59, 3), (60, 1)] {
        let mut rig = Rig::new(Policy::CHILD, 5);
        rig.open();
        for _ in 0..2 {
            rig.lose();
            rig.wait();
            rig.open();
        }
        rig.now = rig.now + secs(lasted);
        rig.lose();
        let Condition::Reconnecting { attempt: next, .. } = rig.upkeep.condition() else { panic!() };
        assert_eq!(next, attempt, "after {lasted} s");
    }
}

/// F14: more than five new links in 30 s suspend, however many attempts are allowed.
#[test]
fn f14_a_crash_loop_is_broken() {
    let backoff = Backoff { min: secs(1), max: secs(1), attempts: 1000 };
    let mut rig = Rig::new(Policy { backoff, ..Policy::CHILD }, 11);
    rig.open();
    for _ in 0..5 {
        rig.lose();
        rig.wait();
        rig.open();
    }
    rig.went();
    rig.lose();
    assert_eq!(rig.went(), "disconnected, suspended");
    assert_eq!(rig.upkeep.deadline(), None);
    assert_eq!(rig.feed(Input::Connect), ["dial 7"]);
    rig.open();
    rig.lose();
    assert_eq!(rig.wait(), ["dial 8"], "by hand the window is cleared");
}

/// F14: whoever wants a suspended connection gets one attempt, then nobody does for the longest wait; nothing is cleared,
/// and otherwise the wish changes nothing.
#[test]
fn f14_a_wanted_connection_has_one_trial_at_a_time() {
    for policy in [Policy::CHILD, Policy::REMOTE] {
        let mut rig = Rig::new(policy, 3);
        let fail = |rig: &mut Rig| {
            let link = rig.link();
            rig.feed(Input::Failed { link, cause: Cause::OpenTimeout })
        };
        assert!(rig.feed(Input::Wanted).is_empty(), "one is under way");
        for _ in 0..5 {
            fail(&mut rig);
            assert!(rig.feed(Input::Wanted).is_empty(), "one is about to be");
            rig.wait();
        }
        fail(&mut rig);
        let (spent, first) = (rig.dials.len(), rig.now);
        for (after, dials) in [(0, 1), (1, 1), (29, 1), (30, 2), (31, 2), (59, 2), (60, 3)] {
            rig.now = first + secs(after);
            rig.feed(Input::Wanted);
            assert!(rig.feed(Input::Wanted).is_empty());
            assert_eq!(rig.dials.len() - spent, dials, "after {after} s");
            fail(&mut rig);
            let condition = rig.upkeep.condition();
            assert!(
                matches!(condition, Condition::Suspended { until } if until.is_some() == policy.quiet.is_some())
            );
        }
        rig.now = first + secs(90);
        rig.feed(Input::Wanted);
        rig.open();
        assert!(rig.feed(Input::Wanted).is_empty(), "it is there");
        rig.now = rig.now + secs(59);
        rig.lose();
        assert!(
            matches!(rig.upkeep.condition(), Condition::Suspended { .. }),
            "opening alone clears nothing"
        );
        rig.feed(Input::Wanted);
        rig.open();
        rig.now = rig.now + secs(60);
        rig.lose();
        assert!(
            matches!(rig.upkeep.condition(), Condition::Reconnecting { attempt: 1, .. }),
            "a stable link does"
        );
    }
}

/// F14: a crash loop that was broken is not begun anew by a trial, however many attempts are left.
#[test]
fn f14_a_trial_is_one_attempt() {
    let backoff = Backoff { min: secs(1), max: secs(30), attempts: 1000 };
    let mut rig =
        Rig::new(Policy { backoff, burst: Burst { restarts: 1, within: secs(30) }, ..Policy::CHILD }, 11);
    rig.lose();
    rig.wait();
    rig.lose();
    assert_eq!(rig.upkeep.condition(), Condition::Suspended { until: None });
    for _ in 0..3 {
        rig.now = rig.now + secs(300);
        assert_eq!(rig.feed(Input::Wanted).len(), 1);
        rig.lose();
        assert_eq!(rig.upkeep.condition(), Condition::Suspended { until: None });
    }
}

/// What cannot change soon is not tried soon.
#[test]
fn a_lasting_cause_suspends_at_once() {
    let mut rig = Rig::new(Policy::REMOTE, 1);
    let link = rig.link();
    rig.feed(Input::Failed { link, cause: Cause::NoCommonRevision { theirs: Vec::new() } });
    assert_eq!(rig.went(), "connecting, disconnected, suspended");
    let until = rig.upkeep.deadline().expect("it is looked after quietly");
    assert!(until >= at(7) && until <= at(15), "{until:?}");
}

/// S2-40, S2-46, F38: closing works everywhere, and nothing leads back from it.
#[test]
fn s2_46_closed_by_us_never_reconnects() {
    let close = || Input::Close { reason: "enough".into() };
    type Prepare = fn(&mut Rig);
    let rows: [(&str, Prepare, &[&str], &str); 6] = [
        ("opening", |_| (), &["abandon"], "disconnecting, closed"),
        ("ready", Rig::open, &["drain: enough"], "draining, disconnecting, closed"),
        (
            "healing",
            |rig| {
                rig.open();
                rig.session(State::Initializing);
            },
            &["drain: enough"],
            "disconnecting, closed",
        ),
        (
            "degraded",
            |rig| {
                rig.open();
                let link = rig.link();
                rig.feed(Input::Deaf { link });
            },
            &["drain: enough"],
            "draining, disconnecting, closed",
        ),
        (
            "reconnecting",
            |rig| {
                rig.open();
                rig.lose();
            },
            &[],
            "closed",
        ),
        (
            "suspended",
            |rig| {
                let link = rig.link();
                rig.feed(Input::Failed { link, cause: Cause::NoCommonRevision { theirs: Vec::new() } });
            },
            &[],
            "closed",
        ),
    ];
    for (name, prepare, wanted, went) in rows {
        let mut rig = Rig::new(Policy::REMOTE, 1);
        prepare(&mut rig);
        rig.went();
        assert_eq!(rig.feed(close()), wanted, "{name}");
        assert!(rig.feed(close()).is_empty(), "{name}: once is enough");
        let link = rig.link();
        for state in [State::Disconnecting, State::Disconnected, State::Closed] {
            rig.session(state);
        }
        rig.feed(Input::Failed { link, cause: Cause::ClosedByPeer });
        assert_eq!(rig.went(), went, "{name}");
        assert_eq!((rig.upkeep.condition(), rig.upkeep.deadline()), (Condition::CLOSED, None), "{name}");
        rig.now = at(10_000);
        for input in [
            Input::Connect,
            Input::Wanted,
            Input::Tick,
            Input::Opened { link },
            Input::Lost { link, cause: Cause::Stalled },
        ] {
            assert!(rig.feed(input).is_empty(), "{name}");
        }
        assert!(rig.told.is_empty(), "{name}");
    }
}

/// By hand a live link is replaced at once, without waiting.
#[test]
fn a_live_link_is_replaced_when_asked() {
    let mut rig = Rig::new(Policy::CHILD, 1);
    rig.open();
    assert_eq!(rig.feed(Input::Connect), ["end: closed by us: a new link is wanted"]);
    rig.session(State::Disconnecting);
    rig.session(State::Closed);
    assert_eq!(rig.lose(), ["dial 2"]);
    assert_eq!(rig.went(), "connecting, ready, disconnecting, disconnected, connecting");
}

/// PNG-2, F12: an idle peer is asked periodically; silence ends the link with its cause, and it is made anew.
#[test]
fn png_2_an_unanswered_probe_loses_the_link() {
    let mut rig = Rig::new(Policy::REMOTE, 1);
    rig.open();
    let link = rig.link();
    for round in 1..4 {
        assert_eq!(rig.wait(), ["probe"]);
        assert_eq!(rig.now, at(30 * round));
        assert!(rig.feed(Input::Tick).is_empty(), "one at a time");
        rig.feed(Input::Probed { link, trouble: None });
    }
    rig.wait();
    let silent = Cause::Silent(secs(10));
    assert_eq!(
        rig.feed(Input::Probed { link, trouble: Some(silent) }),
        ["end: the peer gave no sign of life for 10 s"]
    );
    rig.lose();
    assert!(matches!(rig.upkeep.condition(), Condition::Reconnecting { attempt: 1, .. }));
}

/// A failure on a live link raises a doubt, whatever the period; one probe settles it for all.
#[test]
fn a_doubt_is_settled_by_one_probe() {
    let probe = Probe { every: None, ..Policy::CHILD.probe };
    let mut rig = Rig::new(Policy { probe, ..Policy::CHILD }, 1);
    rig.open();
    let link = rig.link();
    assert_eq!(rig.upkeep.deadline(), None);
    assert_eq!(rig.feed(Input::Doubted { link }), ["probe"]);
    assert!(rig.feed(Input::Doubted { link }).is_empty());
    rig.feed(Input::Probed { link, trouble: None });
    assert_eq!(rig.feed(Input::Doubted { link }), ["probe"]);
}

/// PNG-2: a peer that is at work is spared until the next time, unless someone doubts it meanwhile.
#[test]
fn png_2_a_spared_peer_is_asked_next_time_or_upon_a_doubt() {
    let mut rig = Rig::new(Policy::CHILD, 1);
    rig.open();
    let link = rig.link();
    assert_eq!(rig.wait(), ["probe"]);
    assert!(rig.feed(Input::Spared { link }).is_empty());
    assert_eq!((rig.wait(), rig.now), (vec!["probe".to_owned()], at(60)));
    assert!(rig.feed(Input::Doubted { link }).is_empty(), "one at a time");
    assert_eq!(rig.feed(Input::Spared { link }), ["probe"], "nobody has looked yet");
    rig.feed(Input::Probed { link, trouble: None });
    assert_eq!((rig.wait(), rig.now), (vec!["probe".to_owned()], at(90)));
}

/// SUB-17: a listen that breaks on a live link is tried again with growing waits, and only lasting success resets them.
#[test]
fn sub_17_broken_listens_are_tried_again_with_backoff() {
    let every = None;
    let mut rig = Rig::new(Policy { probe: Probe { every, ..Policy::REMOTE.probe }, ..Policy::REMOTE }, 1);
    rig.open();
    rig.went();
    let link = rig.link();
    for round in 0..8 {
        let before = rig.now;
        assert_eq!(rig.feed(Input::Deaf { link }), ["probe"]);
        rig.feed(Input::Probed { link, trouble: None });
        assert_eq!(rig.wait(), ["relisten"]);
        let most = Policy::REMOTE.backoff.longest(round);
        let waited = rig.now.since(before);
        assert!(waited >= most / 2 && waited <= most, "round {round}: {waited:?}");
        rig.feed(Input::Hearing { link });
    }
    assert_eq!(rig.went(), ["degraded, ready"; 8].join(", "));
    rig.now = rig.now + secs(60);
    let before = rig.now;
    rig.feed(Input::Deaf { link });
    rig.wait();
    assert!(rig.now.since(before) <= secs(1), "it had lasted");
}

/// What is said of an earlier link is not heard.
#[test]
fn news_of_an_old_link_are_ignored() {
    let mut rig = Rig::new(Policy::CHILD, 1);
    let old = rig.link();
    rig.open();
    rig.lose();
    rig.wait();
    rig.open();
    rig.went();
    let inputs = [
        Input::Lost { link: old, cause: Cause::Stalled },
        Input::Session { link: old, state: State::Disconnected, cause: None },
        Input::Probed { link: old, trouble: Some(Cause::Stalled) },
        Input::Doubted { link: old },
        Input::Deaf { link: old },
    ];
    for input in inputs {
        assert!(rig.feed(input).is_empty());
    }
    assert_eq!((rig.went().as_str(), rig.upkeep.condition()), ("", Condition::READY));
}

/// A server that accepts and closes at once, or after a while; how often it is dialled in `span`.
fn dials(policy: Policy, seed: u64, span: Duration, lasts: Duration) -> usize {
    let mut rig = Rig::new(policy, seed);
    while rig.now.elapsed() < span {
        rig.open();
        rig.now = rig.now + lasts;
        rig.lose();
        if rig.upkeep.deadline().is_none() {
            break;
        }
        rig.wait();
    }
    rig.dials.iter().filter(|dialled| dialled.elapsed() < span).count()
}

proptest! {
    /// F14: a server that accepts and closes for 10 minutes sees at most 40 attempts, whatever the dice say.
    #[test]
    fn f14_no_storm_against_a_server_that_closes(seed: u64, lasts_ms in 0u64..5000) {
        let lasts = Duration::from_millis(lasts_ms);
        let remote = dials(Policy::REMOTE, seed, secs(600), lasts);
        prop_assert!((7..=40).contains(&remote), "{remote} dials");
        prop_assert!(dials(Policy::CHILD, seed, secs(600), lasts) <= 6);
    }

    /// F14: nor does it when someone calls it five times a second all the while.
    #[test]
    fn f14_callers_make_no_storm(seed: u64, lasts_ms in 0u64..5000) {
        for policy in [Policy::CHILD, Policy::REMOTE] {
            let mut rig = Rig::new(policy, seed);
            let mut dies = rig.now;
            for step in 0..3000 {
                rig.now = Moment::after(Duration::from_millis(200 * step));
                let before = rig.dials.len();
                if rig.upkeep.condition() == Condition::READY && dies <= rig.now {
                    rig.lose();
                }
                rig.feed(Input::Tick);
                rig.feed(Input::Wanted);
                if step == 0 || rig.dials.len() > before {
                    rig.open();
                    dies = rig.now + Duration::from_millis(lasts_ms);
                }
            }
            prop_assert!((7..=40).contains(&rig.dials.len()), "{} dials", rig.dials.len());
        }
    }

    /// F20: only differences between monotonic moments count, so another start of time changes nothing.
    #[test]
    fn f20_the_start_of_time_does_not_matter(seed: u64, start in 0u64..10_000_000) {
        let run = |start: Moment| {
            let mut rig = Rig { now: start, ..Rig::new(Policy::REMOTE, seed) };
            let mut steps = Vec::new();
            for _ in 0..12 {
                let link = rig.link();
                rig.feed(Input::Failed { link, cause: Cause::Stalled });
                rig.wait();
                steps.push(rig.now.since(start));
            }
            steps
        };
        prop_assert_eq!(run(Moment::ZERO), run(at(start)));
    }

    /// S2-35: whatever happens in whatever order, only listed transitions happen, deadlines lie ahead of what
    /// was done, and a closed connection stays closed.
    #[test]
    fn s2_35_any_order_of_events_keeps_to_the_table(
        seed: u64,
        steps in proptest::collection::vec((0u8..15, 0u64..40, any::<bool>()), 1..200),
    ) {
        let mut rig = Rig::new(Policy::REMOTE, seed);
        let mut over = false;
        for (what, wait, stale) in steps {
            rig.now = rig.now + secs(wait);
            let mut link = rig.link();
            link.0 -= u64::from(stale);
            let cause = Cause::Violated(Rule::Oversize);
            let input = match what {
                0 => Input::Opened { link },
                1 => Input::Failed { link, cause },
                2 => Input::Lost { link, cause },
                3 => Input::Doubted { link },
                4 => Input::Probed { link, trouble: None },
                5 => Input::Probed { link, trouble: Some(cause) },
                6 => Input::Deaf { link },
                7 => Input::Hearing { link },
                8 => Input::Connect,
                9 if wait > 35 => Input::Close { reason: "".into() },
                10 => Input::Session { link, state: State::Initializing, cause: None },
                11 => Input::Session { link, state: State::Ready, cause: None },
                12 => Input::Session { link, state: State::Disconnected, cause: Some(cause) },
                13 => Input::Wanted,
                _ => Input::Tick,
            };
            let dialled = rig.dials.len();
            rig.feed(input);
            prop_assert!(!over || rig.dials.len() == dialled, "dialled after the close");
            over |= rig.upkeep.condition() == Condition::CLOSED;
            prop_assert!(rig.told.windows(2).all(|pair| pair[0].to == pair[1].from), "{:?}", rig.told);
        }
    }
}

/// S2-36, F13: a session that is replaced on its link does not mend a listen that broke before.
#[test]
fn s2_36_a_renewed_session_does_not_hide_a_broken_listen() {
    let mut rig = Rig::new(Policy::REMOTE, 1);
    let link = rig.link();
    rig.feed(Input::Opened { link });
    rig.feed(Input::Deaf { link });
    for state in [State::Initializing, State::Ready] {
        rig.feed(Input::Session { link, state, cause: None });
    }
    assert_eq!(rig.upkeep.condition(), Condition::Degraded);
    rig.feed(Input::Hearing { link });
    assert_eq!(rig.upkeep.condition(), Condition::READY);
}
