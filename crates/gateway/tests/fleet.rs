//! A fleet of servers in memory, under a clock that only waits move.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cardan_gateway::cache::CatalogCache;
use cardan_gateway::catalog::Kind;
use cardan_gateway::fleet::{Fleet, Health, Known, Options, Reloaded, Spec, Status, Unavailable, What};
use cardan_gateway::merge::Naming;
use cardan_gateway::rules::Pattern;
use cardan_proto::limits::fleet::{EVENTS, QUEUE, QUEUE_WAIT, WINDOW};
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Cause, Change};
use cardan_proto::upkeep::condition::Condition;
use common::Scratch;
use common::farm::{Farm, LONG, Manner};
use serde_json::{Value, json};
use tokio::time::Instant;

fn options(scratch: Option<&Scratch>) -> Options {
    Options { cache: scratch.map(|scratch| CatalogCache::new(scratch.path())), ..Options::default() }
}

fn by_name<'a>(status: &'a [Status], name: &str) -> &'a Status {
    status.iter().find(|status| status.name == name).unwrap()
}

fn tools(fleet: &Fleet) -> Vec<String> {
    let (merged, _) = fleet.merged(&Naming::Prefix(Naming::SEPARATOR.into()));
    merged.list(Kind::Tools).iter().map(|shown| shown.key.to_string()).collect()
}

async fn echo(fleet: &Fleet, server: &str) -> Value {
    let lease = fleet.upstream(server).unwrap().lease().await.unwrap();
    let result = lease.call_tool("echo", &json!({ "n": 1 })).unwrap().await.unwrap();
    serde_json::to_value(result).unwrap()["content"][0]["text"].clone()
}

/// S0-78: servers start side by side; one that never answers and one that fails hide none of the others, and the
/// wait for all is no longer than the window.
#[tokio::test(start_paused = true)]
async fn s0_78_sick_servers_hide_no_others() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let (good, mute, dead) = (Farm::default(), Farm::new(Manner::Silent), Farm::default());
        dead.0.down.store(true, Ordering::SeqCst);
        let wrong = Spec::broken("wrong", "the variable TOKEN is not set");
        let specs = vec![
            mute.spec("mute", era),
            dead.spec("dead", era),
            wrong,
            good.spec("a", era),
            good.spec("b", era),
        ];
        let start = Instant::now();
        let fleet = Fleet::start(specs, options(None));
        fleet.settle(WINDOW).await;
        assert_eq!(start.elapsed(), WINDOW, "the mute one is waited for, and no longer");
        assert_eq!(tools(&fleet), ["a__echo", "a__work", "b__echo", "b__work"]);
        assert_eq!(echo(&fleet, "b").await, json!("{\"n\":1}"));
        let status = fleet.status();
        let order: Vec<_> = status.iter().map(|status| status.name.as_str()).collect();
        assert_eq!(order, ["mute", "dead", "wrong", "a", "b"], "as configured");
        assert_eq!(by_name(&status, "a").health, Health::Kept(Condition::READY));
        assert_eq!((by_name(&status, "a").known, by_name(&status, "a").tools), (Known::Told, Some(2)));
        assert_eq!(by_name(&status, "mute").health, Health::Kept(Condition::CONNECTING));
        assert!(matches!(by_name(&status, "dead").health, Health::Kept(Condition::Reconnecting { .. })));
        assert!(by_name(&status, "dead").cause.as_ref().unwrap().contains("nobody there"));
        assert_eq!(by_name(&status, "wrong").health, Health::Misconfigured);
        assert_eq!(by_name(&status, "wrong").cause.as_deref(), Some("the variable TOKEN is not set"));
        let refused = fleet.upstream("wrong").unwrap().lease().await.unwrap_err();
        assert_eq!(refused, Unavailable::Misconfigured("the variable TOKEN is not set".into()));
        fleet.close("the test is over").await;
        assert!(fleet.status().is_empty());
    }
}

/// S0-79: a server that died is there again without anybody's doing, and what it offers is known all the time.
#[tokio::test(start_paused = true)]
async fn s0_79_a_dead_server_comes_back() {
    let farm = Farm::default();
    let fleet = Fleet::start(vec![farm.spec("a", EraChoice::Auto)], options(None));
    fleet.settle(LONG).await;
    let mut events = fleet.events();
    farm.kill();
    loop {
        if let What::Condition(transition) = events.recv().await.unwrap().what
            && transition.to == Condition::READY
        {
            break;
        }
    }
    assert_eq!(echo(&fleet, "a").await, json!("{\"n\":1}"));
    let status = fleet.upstream("a").unwrap().status();
    assert_eq!((status.restarts, farm.dials()), (1, 2));
    assert!(status.cause.is_some(), "why it was gone is still known");
}

/// S0-80: what a server offered before is listed at once; a lazy one starts when it is called, and then tells itself.
#[tokio::test(start_paused = true)]
async fn s0_80_tools_are_listed_before_their_servers_are_there() {
    let scratch = Scratch::new("deferred");
    let farm = Farm::default();
    let fleet = Fleet::start(vec![farm.spec("a", EraChoice::Auto)], options(Some(&scratch)));
    fleet.settle(LONG).await;
    fleet.close("the test goes on").await;
    assert_eq!(farm.dials(), 1);
    // The next process.
    let mut spec = farm.spec("a", EraChoice::Auto);
    spec.lazy = true;
    let mute = Farm::new(Manner::Silent).spec("a", EraChoice::Auto);
    for spec in [spec, mute] {
        let lazy = spec.lazy;
        let start = Instant::now();
        let fleet = Fleet::start(vec![spec], options(Some(&scratch)));
        fleet.settle(WINDOW).await;
        assert_eq!(start.elapsed(), Duration::ZERO, "nothing to wait for");
        assert_eq!(tools(&fleet), ["a__echo", "a__work"]);
        let status = fleet.upstream("a").unwrap().status();
        assert!(matches!(status.known, Known::Cached(age) if age < LONG));
        if lazy {
            assert_eq!((status.health, farm.dials()), (Health::Asleep, 1));
            assert_eq!(echo(&fleet, "a").await, json!("{\"n\":1}"), "calling starts it");
            assert_eq!(farm.dials(), 2);
        }
        fleet.close("the test goes on").await;
    }
}

/// A server that nobody uses is stopped, and started by its next use; one that works is not.
#[tokio::test(start_paused = true)]
async fn idle_servers_are_stopped_and_come_back() {
    let farm = Farm::default();
    let mut spec = farm.spec("a", EraChoice::Auto);
    spec.idle_stop = Some(Duration::from_secs(60));
    let fleet = Fleet::start(vec![spec], options(None));
    fleet.settle(LONG).await;
    let mut events = fleet.events();
    let upstream = fleet.upstream("a").unwrap();
    let lease = upstream.lease().await.unwrap();
    let patient = CallOptions { idle: Some(LONG), total: Some(LONG), ..CallOptions::default() };
    let work = lease.call_tool_with("work", &json!({}), patient).unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(upstream.status().health.is_up(), "whoever works is not idle");
    farm.0.go_on.notify_one();
    work.await.unwrap();
    drop(lease);
    let start = Instant::now();
    while !matches!(events.recv().await.unwrap().what, What::Stopped) {}
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    assert_eq!(upstream.status().health, Health::Asleep);
    assert_eq!(tools(&fleet), ["a__echo", "a__work"], "what it offers is known all the same");
    assert_eq!(echo(&fleet, "a").await, json!("{\"n\":1}"));
    assert_eq!(farm.dials(), 2);
}

/// No more calls at a time than the server is said to bear; who gives up waiting takes no place.
#[tokio::test(start_paused = true)]
async fn calls_at_a_time_are_bounded() {
    let farm = Farm::default();
    let mut spec = farm.spec("a", EraChoice::Auto);
    spec.concurrency = Some(2);
    let fleet = Fleet::start(vec![spec], options(None));
    let upstream = fleet.upstream("a").unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let upstream = Arc::clone(&upstream);
        calls.spawn(async move {
            let lease = upstream.lease().await.unwrap();
            lease.call_tool("work", &json!({})).unwrap().await.unwrap();
        });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let given_up = tokio::time::timeout(Duration::from_secs(1), upstream.lease()).await;
    assert!(given_up.is_err());
    assert_eq!(upstream.status().in_use, 6);
    for _ in 0..6 {
        while farm.0.running.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        farm.0.go_on.notify_one();
        calls.join_next().await.unwrap().unwrap();
    }
    assert_eq!(farm.0.most_running.load(Ordering::SeqCst), 2);
    assert_eq!(upstream.status().in_use, 0);
}

/// F37: so many wait for a place, and so long; one more and one that waited in vain are refused, and take no place from others.
#[tokio::test(start_paused = true)]
async fn f37_the_queue_for_places_has_an_end() {
    let farm = Farm::default();
    let mut spec = farm.spec("a", EraChoice::Auto);
    spec.concurrency = Some(1);
    let fleet = Fleet::start(vec![spec], options(None));
    let upstream = fleet.upstream("a").unwrap();
    let held = upstream.lease().await.unwrap();
    let queue = |waiting: &mut tokio::task::JoinSet<_>, count| {
        for _ in 0..count {
            let upstream = Arc::clone(&upstream);
            waiting.spawn(async move { upstream.lease().await.map(drop) });
        }
    };
    let mut waiting = tokio::task::JoinSet::new();
    queue(&mut waiting, QUEUE + 3);
    let begun = Instant::now();
    for _ in 0..3 {
        assert_eq!(waiting.join_next().await.unwrap().unwrap(), Err(Unavailable::Crowded { most: 1 }));
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "at once");
    while let Some(waited) = waiting.join_next().await {
        assert_eq!(waited.unwrap(), Err(Unavailable::Slow { most: 1 }));
    }
    assert!(begun.elapsed() >= QUEUE_WAIT && begun.elapsed() < QUEUE_WAIT * 2, "{:?}", begun.elapsed());
    queue(&mut waiting, QUEUE);
    tokio::task::yield_now().await;
    drop(held);
    while let Some(served) = waiting.join_next().await {
        assert_eq!(served.unwrap(), Ok(()), "who left the queue left room in it");
    }
    assert_eq!(upstream.status().in_use, 0);
}

/// Not all start at a time.
#[tokio::test(start_paused = true)]
async fn starting_is_bounded() {
    let farm = Farm::new(Manner::Slow(Duration::from_millis(100)));
    let specs = (0..20).map(|n| farm.spec(&format!("s{n}"), EraChoice::Legacy)).collect();
    let start = Instant::now();
    let fleet = Fleet::start(specs, Options { parallel: 5, cache: None });
    assert_eq!(fleet.upstream("s0").unwrap().status().health, Health::Waiting);
    fleet.settle(LONG).await;
    assert_eq!(start.elapsed(), Duration::from_millis(400), "four rounds of five");
    assert_eq!(farm.0.most_opening.load(Ordering::SeqCst), 5);
    assert!(fleet.status().iter().all(|status| status.health.is_up()));
}

/// Servers that say nothing hold up none that would: their turn ends with the window.
#[tokio::test(start_paused = true)]
async fn mute_servers_hold_up_no_others() {
    let (mute, good) = (Farm::new(Manner::Silent), Farm::default());
    let mut specs: Vec<_> = (0..8).map(|n| mute.spec(&format!("m{n}"), EraChoice::Auto)).collect();
    specs.push(good.spec("good", EraChoice::Auto));
    let fleet = Fleet::start(specs, options(None));
    let lease = tokio::time::timeout(WINDOW * 2, fleet.upstream("good").unwrap().lease()).await;
    lease.unwrap().unwrap().ready(LONG).await.unwrap();
    assert_eq!((mute.dials(), good.dials()), (8, 1));
    fleet.close("the test is over").await;
}

/// Who waits for its turn to start leaves at once, and so does whoever waits for it.
#[tokio::test(start_paused = true)]
async fn those_that_queue_leave_at_once() {
    let (mute, queued) = (Farm::new(Manner::Silent), Farm::default());
    let specs = vec![mute.spec("mute", EraChoice::Auto), queued.spec("queued", EraChoice::Auto)];
    let fleet = Fleet::start(specs, Options { parallel: 1, cache: None });
    tokio::task::yield_now().await;
    let (start, second) = (Instant::now(), fleet.upstream("queued").unwrap());
    let waiting = tokio::spawn(async move { second.lease().await.map(drop) });
    tokio::task::yield_now().await;
    fleet.reload(vec![mute.spec("mute", EraChoice::Auto)]).await;
    assert_eq!(waiting.await.unwrap(), Err(Unavailable::Gone));
    assert_eq!((start.elapsed(), queued.dials()), (Duration::ZERO, 0));
    fleet.close("the test is over").await;
}

/// A reload touches what changed and nothing else: a call that runs on an unchanged server goes on.
#[tokio::test(start_paused = true)]
async fn a_reload_touches_only_what_changed() {
    let (same, other, gone, new) = (Farm::default(), Farm::default(), Farm::default(), Farm::default());
    let era = EraChoice::Auto;
    let specs = vec![gone.spec("gone", era), same.spec("same", era), other.spec("other", era)];
    let fleet = Fleet::start(specs, options(None));
    fleet.settle(LONG).await;
    let lease = fleet.upstream("same").unwrap().lease().await.unwrap();
    let work = lease.call_tool("work", &json!({})).unwrap();
    let (leaving, mut events) = (fleet.upstream("gone").unwrap(), fleet.events());
    let mut shown = same.spec("same", era);
    shown.rules.tools.deny = vec![Pattern::new("work")];
    let mut changed = other.spec("other", era);
    changed.identity.push('!');
    let reloaded = fleet.reload(vec![new.spec("new", era), changed, shown]).await;
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let expected = Reloaded {
        added: names(&["new"]),
        removed: names(&["gone"]),
        restarted: names(&["other"]),
        kept: names(&["same"]),
    };
    assert_eq!(reloaded, expected);
    fleet.settle(LONG).await;
    assert_eq!(tools(&fleet), ["new__echo", "new__work", "other__echo", "other__work", "same__echo"]);
    assert_eq!((same.dials(), other.dials(), gone.dials(), new.dials()), (1, 2, 1, 1));
    assert_eq!(leaving.lease().await.unwrap_err(), Unavailable::Gone);
    same.0.go_on.notify_one();
    work.await.unwrap();
    let mut told = Vec::new();
    while let Ok(event) = events.try_recv() {
        match event.what {
            What::Added => told.push(format!("added {}", event.server)),
            What::Removed => told.push(format!("removed {}", event.server)),
            _ => {}
        }
    }
    assert_eq!(told, ["added new", "removed gone"]);
}

/// A changed command starts when its old process has ended, and takes over what changes while it runs.
#[tokio::test(start_paused = true)]
async fn a_reload_ends_the_old_process_first() {
    let (farm, era) = (Farm::default(), EraChoice::Auto);
    let fleet = Fleet::start(vec![farm.spec("a", era)], options(None));
    fleet.settle(LONG).await;
    let lease = fleet.upstream("a").unwrap().lease().await.unwrap();
    let work = lease.call_tool("work", &json!({})).unwrap();
    while farm.0.running.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let mut changed = farm.spec("a", era);
    changed.identity.push('!');
    let going = fleet.clone();
    let reload = tokio::spawn(async move { going.reload(vec![changed]).await });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(farm.dials(), 1, "the old one still works");
    assert_eq!(fleet.upstream("a").unwrap().status().health, Health::Waiting);
    // Whoever gives up the reload does not hold up the new one.
    reload.abort();
    farm.0.go_on.notify_one();
    work.await.unwrap();
    drop(lease);
    fleet.started(LONG).await;
    assert_eq!(farm.dials(), 2);
    // Fewer at a time, and stopped when idle: without a new process.
    let mut adjusted = farm.spec("a", era);
    adjusted.identity.push('!');
    (adjusted.concurrency, adjusted.idle_stop) = (Some(1), Some(Duration::from_secs(60)));
    assert_eq!(fleet.reload(vec![adjusted]).await.kept, ["a"]);
    let upstream = fleet.upstream("a").unwrap();
    let held = upstream.lease().await.unwrap();
    assert!(tokio::time::timeout(WINDOW, upstream.lease()).await.is_err(), "one at a time");
    drop(held);
    let mut events = fleet.events();
    while !matches!(events.recv().await.unwrap().what, What::Stopped) {}
    assert_eq!((upstream.status().health, farm.dials()), (Health::Asleep, 2));
    fleet.close("the test is over").await;
}

/// S0-28: a change that a server tells is fetched, kept and passed on.
#[tokio::test(start_paused = true)]
async fn s0_28_changes_reach_the_catalog_and_the_cache() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let scratch = Scratch::new(&format!("changes-{era:?}"));
        let farm = Farm::default();
        let fleet = Fleet::start(vec![farm.spec("a", era)], options(Some(&scratch)));
        fleet.settle(LONG).await;
        let mut events = fleet.events();
        let server = farm.0.serving.lock().unwrap().as_ref().unwrap().0.clone();
        server.remove_tool("work");
        loop {
            if let What::Changed(change) = events.recv().await.unwrap().what {
                assert_eq!(change, Change::Tools);
                break;
            }
        }
        assert_eq!(tools(&fleet), ["a__echo"]);
        fleet.close("the test is over").await;
        let kept = CatalogCache::new(scratch.path()).load("61").unwrap();
        assert_eq!(kept.catalog.tools.entries.len(), 1);
    }
}

/// S0-80: what a server offers is in force before it is written down, so a disk that is slow or broken holds up nobody.
#[tokio::test(start_paused = true)]
async fn s0_80_a_catalog_is_in_force_before_it_is_kept() {
    let (scratch, farm) = (Scratch::new("broken-disk"), Farm::default());
    // Nothing can be kept in a folder that is a file.
    let file = scratch.path().join("file");
    std::fs::write(&file, "").unwrap();
    let cache = Some(CatalogCache::new(&file));
    let fleet = Fleet::start(vec![farm.spec("a", EraChoice::Auto)], Options { cache, ..Options::default() });
    let (mut events, mut changed) = (fleet.events(), false);
    loop {
        match events.recv().await.unwrap().what {
            What::Changed(change) => changed |= change == Change::Tools,
            What::Unlisted(why) if why.contains("cannot be kept") => break,
            _ => {}
        }
    }
    assert!(changed, "it was told before");
    assert_eq!(tools(&fleet), ["a__echo", "a__work"]);
    fleet.close("the test is over").await;
}

/// Whoever waits for a server that leaves is told, and a fleet that is dropped leaves nothing running.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let mute = Farm::new(Manner::Silent);
    let fleet = Fleet::start(
        (0..2).map(|n| mute.spec(&format!("m{n}"), EraChoice::Auto)).collect(),
        Options { parallel: 1, cache: None },
    );
    let second = fleet.upstream("m1").unwrap();
    let waiting = tokio::spawn(async move { second.lease().await.map(drop) });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished(), "it waits for its turn to start");
    fleet.close("the test goes on").await;
    assert_eq!(waiting.await.unwrap(), Err(Unavailable::Gone));
    let good = Farm::default();
    let fleet = Fleet::start(vec![good.spec("a", EraChoice::Auto)], options(None));
    fleet.settle(LONG).await;
    let (_, serving) = good.0.serving.lock().unwrap().take().unwrap();
    drop(fleet);
    let cause = tokio::time::timeout(LONG, serving).await.unwrap().unwrap();
    assert_eq!(cause, Cause::ClosedByPeer, "the link is gone with its fleet");
}

/// Who wants to see what servers say themselves waits although the cache knows them; a fleet that is given up in the middle of
/// a reload ends those that were leaving too.
#[tokio::test(start_paused = true)]
async fn starting_and_leaving_are_waited_for() {
    let scratch = Scratch::new("started");
    let era = EraChoice::Auto;
    for known in [Known::Nothing, Known::Told] {
        let slow = Farm::new(Manner::Slow(Duration::from_secs(1)));
        let fleet = Fleet::start(vec![slow.spec("a", era)], options(Some(&scratch)));
        let status = fleet.upstream("a").unwrap().status();
        assert_eq!(
            status.known == Known::Nothing,
            known == Known::Nothing,
            "the second finds what the first kept"
        );
        let start = Instant::now();
        fleet.started(LONG).await;
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        assert_eq!(fleet.upstream("a").unwrap().status().known, Known::Told);
        fleet.close("the test goes on").await;
    }
    let farm = Farm::default();
    let fleet = Fleet::start(vec![farm.spec("a", era)], options(None));
    fleet.settle(LONG).await;
    let work = fleet.upstream("a").unwrap().lease().await.unwrap();
    let call = work.call_tool("work", &json!({})).unwrap();
    tokio::task::yield_now().await;
    let (_, serving) = farm.0.serving.lock().unwrap().take().unwrap();
    let given_up = tokio::time::timeout(Duration::ZERO, fleet.reload(Vec::new())).await;
    assert!(given_up.is_err() && fleet.status().is_empty(), "it waits for the call");
    fleet.close("the test is over").await;
    drop((call, work));
    tokio::time::timeout(LONG, serving).await.unwrap().unwrap();
}

/// Who does not read misses the oldest events, and is told how many; nobody else waits for them.
#[tokio::test(start_paused = true)]
async fn events_that_nobody_reads_are_bounded() {
    let fleet = Fleet::start(Vec::new(), Options::default());
    let mut events = fleet.events();
    let specs = (0..EVENTS + 3).map(|n| Spec::broken(n.to_string(), "wrong")).collect();
    fleet.reload(specs).await;
    let missed = events.recv().await.unwrap_err();
    assert_eq!(missed, tokio::sync::broadcast::error::RecvError::Lagged(3));
    assert_eq!(&*events.recv().await.unwrap().server, "3", "the oldest that is left");
    fleet.close("the test is over").await;
}
