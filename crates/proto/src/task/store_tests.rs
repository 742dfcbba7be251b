//! Bounds and borders of the store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::life::Design;
use super::store::{Full, Place, Principal, Store};
use crate::limits::Limits;
use crate::model::task::{Lifetime, TaskStatus};
use crate::moment::Moment;

fn at(seconds: u64) -> Moment {
    Moment::after(Duration::from_secs(seconds))
}

fn named(name: &str) -> Principal {
    Some(Arc::from(name))
}

fn store() -> Store<()> {
    let limits = Limits {
        tasks: 3,
        tasks_per_principal: 2,
        task_result_bytes: 10,
        task_ttl: Duration::from_secs(60),
        task_ttl_max: Duration::from_secs(100),
        ..Limits::DEFAULT
    };
    Store::new(&limits, 0)
}

fn put(store: &mut Store<()>, id: &str, owner: &Principal, ttl: Option<u64>, now: u64) -> Result<(), Full> {
    store.create(id, owner.clone(), Design::Core, ttl.map(Duration::from_secs), (), at(now)).map(drop)
}

/// TSKD-20, TSKE-22: another principal's task is as unknown as one that never was.
#[test]
fn tasks_are_bound_to_their_principal() {
    let (ada, bob) = (named("ada"), named("bob"));
    let mut store = store();
    put(&mut store, "a", &ada, None, 0).unwrap();
    put(&mut store, "n", &None, None, 0).unwrap();
    assert!(store.get("a", &ada, Design::Core).is_some());
    for stranger in [&bob, &None] {
        assert!(store.get("a", stranger, Design::Core).is_none());
        assert!(!store.page(stranger, Design::Core, None, 9).0.iter().any(|task| task.task_id == "a"));
    }
    assert!(store.get("n", &ada, Design::Core).is_none());
    assert!(store.get("a", &ada, Design::Extension).is_none(), "the designs are apart");
}

/// TSKD-21: so many per principal, so many in all, so many bytes, and not for ever.
#[test]
fn tasks_are_limited_and_cleaned_up() {
    let (ada, bob) = (named("ada"), named("bob"));
    let mut store = store();
    put(&mut store, "a1", &ada, None, 0).unwrap();
    put(&mut store, "a2", &ada, Some(1000), 0).unwrap();
    assert_eq!(put(&mut store, "a3", &ada, None, 0), Err(Full));
    put(&mut store, "b1", &bob, Some(0), 0).unwrap();
    assert_eq!(put(&mut store, "b2", &bob, None, 0), Err(Full));
    // A wish is cut to what is allowed, and what is kept can be looked at.
    let ttls: Vec<_> = store.page(&ada, Design::Core, None, 9).0.iter().map(|task| task.ttl).collect();
    assert_eq!(ttls, [Some(Lifetime::Millis(60_000)), Some(Lifetime::Millis(100_000))]);
    assert!(store.expire(at(0)).is_empty());
    let gone = |store: &mut Store<()>, now| -> Vec<_> {
        store.expire(at(now)).into_iter().map(|held| held.id.to_string()).collect()
    };
    assert_eq!(gone(&mut store, 1), ["b1"]);
    assert_eq!(gone(&mut store, 59), [""; 0]);
    assert_eq!(gone(&mut store, 60), ["a1"]);
    assert!(store.own("a1").is_none());
    assert_eq!(gone(&mut store, 100), ["a2"]);
    put(&mut store, "a4", &ada, None, 100).unwrap();
    assert_eq!(gone(&mut store, 160), ["a4"]);
}

/// TSKD-21: a result that would not fit fails its task; what is kept counts for the principal alone.
#[test]
fn results_are_bounded_by_principal() {
    let (ada, bob) = (named("ada"), named("bob"));
    let mut store = store();
    put(&mut store, "a1", &ada, None, 0).unwrap();
    put(&mut store, "a2", &ada, None, 0).unwrap();
    put(&mut store, "b1", &bob, None, 0).unwrap();
    let six = Bytes::from_static(br#"{"a":1}"#);
    for (id, status) in
        [("a1", TaskStatus::Completed), ("a2", TaskStatus::Failed), ("b1", TaskStatus::Completed)]
    {
        assert!(store.finish(id, Ok(six.clone()), at(1)));
        assert_eq!(store.own(id).unwrap().life.status(), status, "{id}");
    }
    assert!(!store.finish("a1", Ok(six), at(2)), "an end is an end");
}

/// TSKD-17: every task is on exactly one page, whatever expires in between.
#[test]
fn pages_follow_the_order_of_creation() {
    let limits = Limits { task_ttl_max: Duration::from_secs(100), ..Limits::DEFAULT };
    let (ada, mut store) = (named("ada"), Store::<()>::new(&limits, 0));
    for n in 0..5 {
        put(&mut store, &format!("t{n}"), &ada, Some(10 + n), 0).unwrap();
        put(&mut store, &format!("x{n}"), &None, None, 0).unwrap();
    }
    let ids = |page: &[crate::model::Task]| page.iter().map(|task| task.task_id.clone()).collect::<Vec<_>>();
    let (first, next) = store.page(&ada, Design::Core, None, 2);
    assert_eq!(ids(&first), ["t0", "t1"]);
    assert_eq!(store.expire(at(11)).len(), 2);
    let (second, next) = store.page(&ada, Design::Core, next, 2);
    assert_eq!(ids(&second), ["t2", "t3"]);
    let (third, next) = store.page(&ada, Design::Core, next, 2);
    assert_eq!((ids(&third), next), (vec!["t4".to_owned()], None));
    assert!(store.is_place(Place(1)) && !store.is_place(Place(0)) && !store.is_place(Place(11)));
}
