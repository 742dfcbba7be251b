//! Trying again by hand what has no link.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::time::Duration;

use cardan_proto::moment::Moment;
use cardan_proto::session::event::Cause;
use cardan_proto::upkeep::condition::Condition;
use cardan_proto::upkeep::policy::{Backoff, Policy};
use cardan_proto::upkeep::{Input, LinkNumber, Output, Upkeep};

/// The links that are dialled upon this, and whether anything else is wanted.
fn feed(upkeep: &mut Upkeep, now: Moment, input: Input) -> Vec<String> {
    upkeep.handle(now, input);
    let outputs = std::iter::from_fn(|| upkeep.poll()).filter_map(|output| match output {
        Output::Transition(_) => None,
        Output::Dial { link, attempt } => Some(format!("dial {} as {attempt}", link.0)),
        other => Some(format!("{other:?}")),
    });
    outputs.collect()
}

fn fail(upkeep: &mut Upkeep, now: Moment) {
    let link = upkeep.link();
    assert!(feed(upkeep, now, Input::Failed { link, cause: Cause::OpenTimeout }).is_empty());
}

fn begun(policy: Policy) -> Upkeep {
    let mut upkeep = Upkeep::new(policy, 5);
    assert_eq!(feed(&mut upkeep, Moment::ZERO, Input::Connect), ["dial 1 as 0"]);
    upkeep
}

/// S2-42: one that waits, or is suspended, dials at once when it is tried by hand, with all its attempts before it again.
#[test]
fn s2_42_a_retry_dials_at_once_and_counts_anew() {
    for policy in [Policy::CHILD, Policy::REMOTE] {
        let mut upkeep = begun(policy);
        fail(&mut upkeep, Moment::ZERO);
        assert!(matches!(upkeep.condition(), Condition::Reconnecting { attempt: 1, .. }));
        assert_eq!(feed(&mut upkeep, Moment::ZERO, Input::Retry), ["dial 2 as 0"]);
        for _ in 0..=policy.backoff.attempts {
            let now = upkeep.deadline().unwrap_or(Moment::ZERO);
            feed(&mut upkeep, now, Input::Tick);
            fail(&mut upkeep, now);
        }
        assert!(matches!(upkeep.condition(), Condition::Suspended { .. }));
        let (now, link) = (Moment::after(Duration::from_secs(100)), upkeep.link().0);
        assert_eq!(feed(&mut upkeep, now, Input::Retry), [format!("dial {} as 0", link + 1)]);
        fail(&mut upkeep, now);
        assert!(matches!(upkeep.condition(), Condition::Reconnecting { attempt: 1, .. }), "nothing counts");
    }
}

/// F14, S2-42: a crash loop that was broken has its window cleared.
#[test]
fn f14_a_retry_clears_the_window() {
    let backoff = Backoff { min: Duration::ZERO, max: Duration::ZERO, attempts: 1000 };
    let mut upkeep = begun(Policy { backoff, ..Policy::CHILD });
    let now = Moment::ZERO;
    for round in 0..3 {
        for _ in 0..5 {
            fail(&mut upkeep, now);
            feed(&mut upkeep, now, Input::Tick);
        }
        fail(&mut upkeep, now);
        assert_eq!(upkeep.condition(), Condition::Suspended { until: None }, "round {round}");
        assert_eq!(feed(&mut upkeep, now, Input::Retry).len(), 1, "round {round}");
    }
}

/// S2-46: what is up, under way or closed by us is left alone.
#[test]
fn s2_46_a_retry_touches_nothing_that_lives_or_is_closed() {
    let mut upkeep = begun(Policy::CHILD);
    let now = Moment::ZERO;
    assert!(feed(&mut upkeep, now, Input::Retry).is_empty(), "one is under way");
    feed(&mut upkeep, now, Input::Opened { link: LinkNumber(1) });
    assert!(feed(&mut upkeep, now, Input::Retry).is_empty(), "it is up");
    assert_eq!(upkeep.condition(), Condition::READY);
    feed(&mut upkeep, now, Input::Close { reason: "enough".into() });
    assert!(feed(&mut upkeep, now, Input::Retry).is_empty(), "it is closing");
    feed(&mut upkeep, now, Input::Lost { link: LinkNumber(1), cause: Cause::ClosedByPeer });
    assert_eq!(upkeep.condition(), Condition::CLOSED);
    assert!(feed(&mut upkeep, now, Input::Retry).is_empty(), "it is closed");
}
