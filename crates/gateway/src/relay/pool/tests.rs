//! Lines that calls share, or hold alone.

use cardan_client::{Client, way};
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory::MemoryLink;

use super::*;

/// Lines that are never there.
fn pool() -> Arc<Pool> {
    let way = way(std::future::pending::<Result<MemoryLink, std::convert::Infallible>>);
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
