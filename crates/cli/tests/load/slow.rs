//! A gateway with ten servers, one of which takes a minute for every call: clients of the others do not notice.

use std::time::Duration;

use serde_json::json;

use crate::amount;
use crate::client::{Era, Posting};
use crate::pace::{Crowd, has_calls, middle};
use crate::rig::{World, demo};

const WELL: [&str; 9] = ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];
const SLOW: &str = "slow";
/// Places at the slow server, and calls that hang there or wait for a place.
const PLACES: usize = 4;
const HANGING: usize = 32;
/// How long each of them takes.
const LASTS: Duration = Duration::from_secs(60);
/// Clients of the others, and the pause between two calls of each.
const CLIENTS: usize = 36;
const PAUSE: Duration = Duration::from_millis(100);
/// What the slow server may cost the others, in the long form.
const P99_TIMES: f64 = 1.2;

/// F37: a server that takes a minute for every call, with all its places taken and a queue before them, costs clients of nine
/// others nothing. In the long form the time of their slowest calls is compared, with it and without, in turns.
#[test]
fn f37_one_slow_server_among_ten() {
    let pairs = amount("CARDAN_SLOW_PAIRS", 0);
    let servers: String = WELL.iter().map(|name| demo(name) + "sessions = 'shared'\n").collect();
    let slow = demo(SLOW) + &format!("sessions = 'shared'\nconcurrency = {PLACES}\n");
    let world = World::new("one-slow", &(servers + &slow));
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ratios = runtime.block_on(async {
        let mut crowd = Crowd::open(&gateway.address, CLIENTS, &WELL).await;
        // Nobody is measured by their first call.
        crowd.phase(Duration::from_millis(1)).await;
        let mut ratios = Vec::new();
        for _ in 0..pairs.max(1) {
            let without = crowd.phase(PAUSE).await;
            let mut hanging = Vec::new();
            for _ in 0..HANGING {
                // Of this era, so that their calls end when they go.
                let mut client = Posting::open(&gateway.address, Era::Modern).await;
                let arguments = json!({ "steps": 1, "delay_ms": LASTS.as_millis() as u64 });
                client.begin(0, &format!("{SLOW}__slow"), &arguments).await;
                hanging.push(client);
            }
            has_calls(&gateway, SLOW, HANGING);
            let with = crowd.phase(PAUSE).await;
            for client in &hanging {
                assert!(client.is_quiet(), "none of them was answered meanwhile");
            }
            drop(hanging);
            has_calls(&gateway, SLOW, 0);
            println!("p99 of {CLIENTS} clients: {without:?} without, {with:?} beside {HANGING} slow calls");
            ratios.push(with.as_secs_f64() / without.as_secs_f64());
        }
        ratios
    });
    let middle = middle(&ratios);
    println!("one server in ten is slow: p99 of the others {middle:.2} times (in {ratios:.2?})");
    if pairs > 0 {
        assert!(middle <= P99_TIMES, "{ratios:.2?}");
    }
}
