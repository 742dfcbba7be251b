//! A gateway with many clients, one of which reads nothing of what it asked for: the others do not notice.

use std::time::Duration;

use serde_json::json;

use crate::amount;
use crate::client::{Era, Posting};
use crate::crowd::allow_files;
use crate::pace::{Crowd, has_calls, middle};
use crate::rig::{World, demo};

/// The pause between two calls of a client. A phase is shorter than who stalls is given.
const PAUSE: Duration = Duration::from_millis(500);
/// Phases with the client that stalls, each beside one without.
const PAIRS: usize = 5;
/// What that client may cost the others in the long form.
const P99_TIMES: f64 = 1.2;
/// More than any socket holds.
const MUCH: usize = 8_000_000;

/// F10: one client of many that reads nothing costs the others nothing, and has lost nothing when it reads after all. In the
/// long form there are a thousand, and the time of their slowest calls is compared.
#[test]
fn f10_one_client_that_reads_nothing_among_many() {
    let (long, pairs, pause) = match amount("CARDAN_STALLED_CLIENTS", 0) {
        0 => (None, 1, Duration::from_millis(1)),
        clients => (Some(clients), PAIRS, PAUSE),
    };
    if long.is_some() {
        allow_files();
    }
    let many = long.unwrap_or(50);
    let world = World::new("one-stalled", &(demo("alpha") + "sessions = 'shared'\n"));
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ratios = runtime.block_on(async {
        let mut crowd = Crowd::open(&gateway.address, many - 1, &["alpha"]).await;
        let mut ratios = Vec::new();
        for pair in 0..pairs {
            let without = crowd.phase(pause).await;
            let mut stalled = Posting::open(&gateway.address, [Era::Modern, Era::Legacy][pair % 2]).await;
            stalled.stall(7, "alpha__big", &json!({ "bytes": MUCH })).await;
            // What it asked for is here: it alone is in the way of the rest.
            has_calls(&gateway, "alpha", 0);
            let with = crowd.phase(pause).await;
            let reply = stalled.reply().await;
            let said = reply["result"]["content"][0]["text"].as_str().unwrap_or_default().len();
            assert!(said > MUCH / 2, "{said}");
            println!("p99 of {} clients: {without:?} without, {with:?} with one that stalls", many - 1);
            ratios.push(with.as_secs_f64() / without.as_secs_f64());
        }
        ratios
    });
    let middle = middle(&ratios);
    println!("one client in {many} stalls: p99 of the others {middle:.2} times (in {ratios:.2?})");
    if long.is_some() {
        assert!(middle <= P99_TIMES, "{ratios:.2?}");
    }
}
