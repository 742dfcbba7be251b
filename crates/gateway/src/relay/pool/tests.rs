//! Lines that calls share, or hold alone.

use std::convert::Infallible;

use cardan_client::{Client, way};
use cardan_proto::era::Revisions;
use cardan_proto::finding::Rule;
use cardan_proto::jsonrpc::envelope::Violation;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, Deadline, Delivery, Refusal, Stage};
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory::{self, MemoryLink};
use cardan_server::Server;

use super::*;

/// Lines that are never there.
fn pool() -> Arc<Pool> {
    let way = way(std::future::pending::<Result<MemoryLink, Infallible>>);
    let making = Making { connector: Client::builder("x", "1"), way, policy: Policy::CHILD };
    Pool::start(making, None, &Options::default(), Arc::default())
}

/// A call by a new line waits for those who listened before it was opened: not for later ones, whose catching up
/// counts for nobody else, and not for those who have gone.
#[tokio::test]
async fn a_new_line_waits_for_those_who_listened_before() {
    let pool = pool();
    let askable = Askable::NOTHING;
    let (first, second) = (pool.follow(askable), pool.follow(askable));
    let other = pool.follow(Askable::of(br#"{"roots":{}}"#));
    let fresh = pool.open(askable, Place::Fresh(askable));
    assert!(fresh.shared.behind.borrow().is_empty(), "nobody follows these");
    let entry = pool.open(askable, Place::Kept(askable));
    let line = Arc::clone(&entry.shared);
    lock(&pool.shelves).insert(Place::Kept(askable), vec![entry]);
    let behind = || line.behind.borrow().len();
    assert_eq!(behind(), 2, "those of its own shelf");
    let mut later = pool.follow(askable);
    assert_eq!(later.news().len(), 1);
    line.caught_up(later.number);
    line.caught_up(other.number);
    line.caught_up(first.number);
    line.caught_up(first.number);
    assert_eq!(behind(), 1, "each counts once, and for itself");
    drop(second);
    line.heard().await;
    assert_eq!(behind(), 0, "who has gone is not waited for");
}

/// A line that nobody can hold any more is gone for those who hold lines, and that is told once. Those who can be asked nothing go
/// on by it, so what it comes to offer is what they are offered.
#[tokio::test]
async fn a_spoiled_line_is_gone_for_those_who_hold_lines() {
    for (askable, goes_on) in [(Askable::NOTHING, true), (Askable::of(br#"{"roots":{}}"#), false)] {
        let (pool, gone) = (pool(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&gone);
        pool.tell(
            None,
            Arc::new(move |_, turned| {
                assert_eq!(turned, Turned::Gone);
                counted.fetch_add(1, Ordering::SeqCst);
            }),
        );
        // Somebody listens, so the first line stays.
        let _followed = pool.follow(askable);
        let given_up = pool.take(askable, Need::Alone).await.unwrap();
        let mut other = pool.take(askable, Need::Alone).await.unwrap();
        let line = Arc::clone(&given_up.shared);
        other.landed();
        drop(other);
        drop(given_up);
        let foremost = pool.foremost(askable).unwrap();
        assert_eq!(Arc::ptr_eq(&foremost, &line), goes_on, "{askable:?}");
        for _ in 0..3 {
            let mut lease = pool.take(askable, Need::Any).await.unwrap();
            assert!(Arc::ptr_eq(&lease.shared, &line), "{askable:?}");
            lease.landed();
        }
        assert_eq!(gone.load(Ordering::SeqCst), 1, "{askable:?}");
    }
}

/// T11: a line is held again where nothing may come of the call before: that was answered, or never arrived, or its session is gone.
#[tokio::test]
async fn t11_a_line_is_held_again_only_where_nothing_may_come() {
    let dial = way(|| {
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let server = Server::builder("x", "1").revisions(Revisions::LEGACY).build();
        tokio::spawn(async move { server.serve(theirs).await });
        std::future::ready(Ok::<_, Infallible>(ours))
    });
    let making = Making { connector: Client::builder("x", "1"), way: dial, policy: Policy::CHILD };
    let there = Pool::start(making, None, &Options::default(), Arc::default());
    let timed_out = |delivery| Outcome::TimedOut {
        deadline: Deadline::Idle,
        after: Duration::ZERO,
        delivery,
        stage: Stage::Queued,
        seen_bytes: 0,
    };
    let lost = |delivery| Outcome::Lost { cause: Cause::ClosedByPeer, delivery };
    let cancelled = |delivery| Outcome::Cancelled { reason: "enough".into(), delivery };
    for (outcome, again, again_without) in [
        (Outcome::Done("{}".into()), true, true),
        (Outcome::Fault(Fault::internal("no")), true, true),
        (Outcome::Refused(Refusal::TooMany), true, true),
        (timed_out(Delivery::Sent), false, false),
        (timed_out(Delivery::Unknown), false, false),
        (timed_out(Delivery::NotSent), true, true),
        (cancelled(Delivery::Sent), false, false),
        (lost(Delivery::Sent), false, true),
        (lost(Delivery::NotSent), true, true),
        (Outcome::Violated(Violation::of(Rule::ResultShape)), true, true),
    ] {
        // Where there is a session, and where there is none.
        for (pool, again) in [(&there, again), (&pool(), again_without)] {
            let mut lease = pool.take(Askable::NOTHING, Need::Alone).await.unwrap();
            let line = Arc::clone(&lease.shared);
            if Arc::ptr_eq(pool, &there) {
                line.line.ready(HEARING, HEARING).await.unwrap();
            }
            lease.ended(&outcome);
            drop(lease);
            let mut next = pool.take(Askable::NOTHING, Need::Alone).await.unwrap();
            assert_eq!(Arc::ptr_eq(&line, &next.shared), again, "{outcome:?}");
            next.landed();
        }
    }
}

/// A line that was spoiled is good again in its next session: late words of the one before cannot come.
#[tokio::test(start_paused = true)]
async fn a_spoiled_line_is_good_again_in_its_next_session() {
    let served = Arc::new(Mutex::new(Vec::new()));
    let serving = Arc::clone(&served);
    let dial = way(move || {
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let server = Server::builder("x", "1").revisions(Revisions::LEGACY).build();
        lock(&serving).push(tokio::spawn(async move { server.serve(theirs).await }));
        std::future::ready(Ok::<_, Infallible>(ours))
    });
    let making = Making { connector: Client::builder("x", "1"), way: dial, policy: Policy::CHILD };
    let pool = Pool::start(making, None, &Options::default(), Arc::default());
    let lease = pool.take(Askable::NOTHING, Need::Alone).await.unwrap();
    let spoiled = Arc::clone(&lease.shared);
    spoiled.line.ready(HEARING, HEARING).await.unwrap();
    drop(lease);
    let next = async |session: usize| {
        let mut transitions = spoiled.line.managed.transitions();
        lock(&served)[0].abort();
        // The newest of those that serve this line.
        lock(&served).remove(0);
        while spoiled.line.managed.sessions() < session as u64 {
            transitions.next().await.unwrap();
        }
    };
    let is_spoiled = async || {
        let mut lease = pool.take(Askable::NOTHING, Need::Alone).await.unwrap();
        lease.landed();
        !Arc::ptr_eq(&spoiled, &lease.shared)
    };
    // One that shares it, and is given up in the session that comes.
    let shared = pool.take(Askable::NOTHING, Need::Any).await.unwrap();
    next(2).await;
    drop(shared);
    assert!(is_spoiled().await, "it was spoiled anew");
    next(3).await;
    assert!(!is_spoiled().await);
}
