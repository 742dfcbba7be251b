//! Lines that calls share, or hold alone.

use cardan_client::{Client, way};
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory::MemoryLink;

use super::*;

/// A call by a new line waits for those who listened before it was opened: not for later ones, whose catching up
/// counts for nobody else, and not for those who have gone.
#[tokio::test]
async fn a_new_line_waits_for_those_who_listened_before() {
    let way = way(std::future::pending::<Result<MemoryLink, std::convert::Infallible>>);
    let making = Making { connector: Client::builder("x", "1"), way, policy: Policy::CHILD };
    let pool = Pool::start(making, None, &Options::default(), Arc::default());
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
