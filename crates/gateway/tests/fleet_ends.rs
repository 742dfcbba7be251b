//! How servers of a fleet are stopped, replaced and asked for again.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use cardan_gateway::fleet::{Fleet, Health, Options, Spec, Standing, What};
use cardan_gateway::rules::Pattern;
use cardan_proto::session::config::EraChoice;
use cardan_proto::upkeep::condition::Condition;
use cardan_proto::upkeep::policy::Policy;
use common::farm::{Farm, LONG, Manner};
use serde_json::json;
use tokio::time::Instant;

fn options() -> Options {
    Options { cache: None, ..Options::default() }
}

/// Who takes long to start is not idle meanwhile: the time begins when it has told what it offers.
#[tokio::test(start_paused = true)]
async fn starting_is_not_idling() {
    let farm = Farm::new(Manner::Slow(Duration::from_secs(5)));
    let mut spec = farm.spec("a", EraChoice::Auto);
    spec.idle_stop = Some(Duration::from_secs(2));
    let begun = Instant::now();
    let fleet = Fleet::start(vec![spec], options());
    let mut events = fleet.events();
    while !matches!(events.recv().await.unwrap().what, What::Stopped) {}
    assert_eq!(begun.elapsed(), Duration::from_secs(7));
    let status = fleet.upstream("a").unwrap().status();
    assert_eq!((status.health, status.tools), (Health::Asleep, Some(2)));
    fleet.close("the test is over").await;
}

/// S0-79: a server that is woken has not failed, however an earlier connection of it ended: calls may come while it starts.
#[tokio::test(start_paused = true)]
async fn s0_79_whoever_is_woken_has_not_failed() {
    let farm = Farm::new(Manner::Slow(Duration::from_secs(5)));
    let mut spec = farm.spec("a", EraChoice::Auto);
    spec.idle_stop = Some(Duration::from_secs(60));
    let fleet = Fleet::start(vec![spec], options());
    let mut events = fleet.events();
    let upstream = fleet.upstream("a").unwrap();
    fleet.started(LONG).await;
    farm.kill();
    while upstream.status().health.is_up() {
        events.recv().await.unwrap();
    }
    assert_eq!(Standing::of([&upstream.status()]), Standing::Down, "what was lost is not back yet");
    while !matches!(events.recv().await.unwrap().what, What::Stopped) {}
    let lease = upstream.lease().await.unwrap();
    while upstream.status().health == Health::Asleep {
        events.recv().await.unwrap();
    }
    let waking = upstream.status();
    assert!(!waking.health.is_up() && waking.cause.is_some(), "{waking:?}");
    assert_eq!(Standing::of([&waking]), Standing::Ready);
    drop(lease);
    fleet.close("the test is over").await;
}

/// A reload wakes whoever is not to be lazy any more, and nobody who was stopped because nobody used it.
#[tokio::test(start_paused = true)]
async fn a_reload_wakes_nobody_who_idled() {
    let farm = Farm::default();
    let spec = |lazy: bool, deny: &str| {
        let mut spec = farm.spec("a", EraChoice::Auto);
        (spec.lazy, spec.idle_stop) = (lazy, Some(Duration::from_secs(60)));
        spec.rules.tools.deny = vec![Pattern::new(deny)];
        spec
    };
    let fleet = Fleet::start(vec![spec(false, "x")], options());
    let mut events = fleet.events();
    let upstream = fleet.upstream("a").unwrap();
    while !matches!(events.recv().await.unwrap().what, What::Stopped) {}
    for (lazy, dials) in [(false, 1), (true, 1), (true, 1), (false, 2), (false, 2)] {
        fleet.reload(vec![spec(lazy, "y")]).await;
        // Under this clock it has started by then if it ever will, and is not stopped yet.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            (farm.dials(), upstream.status().health == Health::Asleep),
            (dials, dials == 1),
            "lazy: {lazy}"
        );
    }
    fleet.close("the test is over").await;
}

/// One that is replaced before it could begin leaves only after its own predecessor: never are there two processes.
#[tokio::test(start_paused = true)]
async fn a_third_waits_for_the_first() {
    let (farm, era) = (Farm::default(), EraChoice::Auto);
    let changed = |times: usize| {
        let mut spec = farm.spec("a", era);
        spec.identity.push_str(&"!".repeat(times));
        spec
    };
    let fleet = Fleet::start(vec![changed(0)], options());
    fleet.settle(LONG).await;
    let lease = fleet.upstream("a").unwrap().lease().await.unwrap();
    let work = lease.call_tool("work", &json!({})).unwrap();
    while farm.0.running.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let given_up = async |times: usize| {
        let (going, spec) = (fleet.clone(), changed(times));
        let reload = tokio::spawn(async move { going.reload(vec![spec]).await });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        reload.abort();
    };
    given_up(1).await;
    given_up(2).await;
    assert_eq!(farm.dials(), 1, "the first one still works");
    farm.0.go_on.notify_one();
    work.await.unwrap();
    drop(lease);
    fleet.started(LONG).await;
    assert_eq!(farm.dials(), 2, "the second never began");
    fleet.close("the test is over").await;
}

/// A server that was given up is tried again when someone asks for it.
#[tokio::test(start_paused = true)]
async fn whoever_asks_wakes_a_suspended_server() {
    for policy in [Policy::CHILD, Policy::REMOTE] {
        let farm = Farm::default();
        farm.0.down.store(true, Ordering::SeqCst);
        let fleet = Fleet::start(vec![kept_by(policy, &farm)], options());
        let mut events = fleet.events();
        loop {
            if let What::Condition(transition) = events.recv().await.unwrap().what
                && matches!(transition.to, Condition::Suspended { .. })
            {
                break;
            }
        }
        let tried = farm.dials();
        if policy.quiet.is_none() {
            tokio::time::sleep(LONG).await;
        }
        assert_eq!(farm.dials(), tried, "nobody asked");
        farm.0.down.store(false, Ordering::SeqCst);
        let start = Instant::now();
        let lease = fleet.upstream("a").unwrap().lease().await.unwrap();
        lease.ready(LONG).await.unwrap();
        assert_eq!((farm.dials(), start.elapsed()), (tried + 1, Duration::ZERO));
        fleet.close("the test is over").await;
    }
}

fn kept_by(policy: Policy, farm: &Farm) -> Spec {
    let mut spec = farm.spec("a", EraChoice::Auto);
    spec.making.as_mut().unwrap().policy = policy;
    spec
}

/// F14, CLI-25: a server that does not start is tried at most 40 times in ten minutes, though someone calls it five times a second.
#[tokio::test(start_paused = true)]
async fn f14_callers_do_not_defeat_the_breaker() {
    for policy in [Policy::CHILD, Policy::REMOTE] {
        let farm = Farm::default();
        farm.0.down.store(true, Ordering::SeqCst);
        let fleet = Fleet::start(vec![kept_by(policy, &farm)], options());
        let upstream = fleet.upstream("a").unwrap();
        for _ in 0..3000 {
            drop(upstream.lease().await.unwrap());
            // The clock stands still but for this.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let tried = farm.dials();
        assert!((20..=40).contains(&tried), "{tried} attempts");
        fleet.close("the test is over").await;
    }
}
