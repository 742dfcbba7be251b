//! How much a principal may ask for: over HTTP, as clients see it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Legacy, modern};
use crate::rig::{World, demo};

/// F26: who asks too often is told so and when to come again, in both eras; nobody's server hears of it.
#[test]
fn f26_too_many_calls_are_refused() {
    let world = World::new("rate", &[&demo("alpha"), "[gateway]\nrate = '3/h'\n"].concat());
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    let add = json!({ "a": 1, "b": 2 });
    for _ in 0..3 {
        let got = modern(&gateway, "alpha__add", &add).answer();
        assert_eq!(got.status, 200, "{got:?}");
    }
    let got = modern(&gateway, "alpha__add", &add).answer();
    assert_eq!(got.status, 429, "{got:?}");
    let wait = got.head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    assert!((1000..=1200).contains(&wait.parse::<u32>().unwrap()), "{got:?}");
    let error = &got.json()["error"];
    assert!(error["message"].as_str().unwrap().contains("at most 3/h are allowed"), "{error}");
    assert_eq!(error["data"]["reason"], "rate");
    let client = Legacy::open(&gateway);
    // A legacy client takes any other status for a broken transport, and would not see why.
    let told = client.call("alpha__add", &add).rest();
    assert!(told.starts_with("HTTP/1.1 200") && told.contains("at most 3/h are allowed"), "{told}");
    assert!(told.contains("retryAfterMs"), "{told}");
    let numbers = gateway.get("/metrics", &[]).body;
    for line in [
        "cardan_calls_refused_total{reason=\"rate\"} 2",
        "cardan_upstream_calls_total{server=\"alpha\",outcome=\"done\"} 3",
    ] {
        assert!(numbers.contains(line), "{line}: {numbers}");
    }
}

/// F37: who has as many calls running as they may is told so, and has a place again when one ends.
#[test]
fn f37_too_many_calls_at_a_time_are_refused() {
    let world = World::new("concurrency", &[&demo("alpha"), "[gateway]\nconcurrency = 1\n"].concat());
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    let mut slow = modern(&gateway, "alpha__slow", &json!({ "steps": 100_000, "delay_ms": 100 }));
    slow.until("notifications/progress");
    let add = || modern(&gateway, "alpha__add", &json!({ "a": 1, "b": 2 })).answer();
    let got = add();
    assert_eq!((got.status, &got.json()["error"]["data"]["reason"]), (429, &json!("concurrency")), "{got:?}");
    drop(slow);
    // That its client is gone is heard in its own time.
    let patience = Instant::now() + Duration::from_secs(60);
    while add().status != 200 {
        assert!(Instant::now() < patience, "the place is not given back");
    }
}
