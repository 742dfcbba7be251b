//! A gateway with many clients, one of which reads nothing of what it asked for: the others do not notice.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::amount;
use crate::client::{Era, Posting};
use crate::crowd::allow_files;
use crate::rig::{World, demo};

/// Calls of each client in a phase, and the pause between two. Less than who stalls is given.
const CALLS: usize = 10;
const PAUSE: Duration = Duration::from_millis(500);
/// Phases with the client that stalls, each beside one without.
const PAIRS: usize = 5;
/// What that client may cost the others in the long form.
const P99_TIMES: f64 = 1.2;
/// More than any socket holds.
const MUCH: usize = 8_000_000;

/// Calls at its own pace; how long each took.
async fn client(mut posting: Posting, number: usize, pause: Duration) -> (Posting, Vec<Duration>) {
    let mut pace = interval(pause);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut took = Vec::with_capacity(CALLS);
    for call in 0..CALLS {
        pace.tick().await;
        let (nonce, begun) = (format!("{number}/{call}"), Instant::now());
        let reply = posting.call(call, "alpha__echo", &json!({ "message": nonce })).await;
        assert_eq!(reply["result"]["content"][0]["text"], nonce.as_str(), "{reply}");
        took.push(begun.elapsed());
    }
    (posting, took)
}

fn p99(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[(took.len() * 99).div_ceil(100) - 1]
}

/// All of them beside each other. They begin at different moments, as clients do.
async fn phase(clients: &mut Vec<Posting>, pause: Duration) -> Duration {
    let mut running = JoinSet::new();
    let each = pause / u32::try_from(clients.len()).unwrap();
    let mut begin = interval(each.max(Duration::from_micros(1)));
    for (number, posting) in clients.drain(..).enumerate() {
        begin.tick().await;
        running.spawn(client(posting, number, pause));
    }
    let done = running.join_all().await;
    let (back, took): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    clients.extend(back);
    p99(took.into_iter().flatten().collect())
}

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
        let mut clients = Vec::new();
        for number in 1..many {
            clients.push(Posting::open(&gateway.address, [Era::Legacy, Era::Modern][number % 2]).await);
        }
        let mut ratios = Vec::new();
        for pair in 0..pairs {
            let without = phase(&mut clients, pause).await;
            let mut stalled = Posting::open(&gateway.address, [Era::Modern, Era::Legacy][pair % 2]).await;
            stalled.stall(7, "alpha__big", &json!({ "bytes": MUCH })).await;
            let with = phase(&mut clients, pause).await;
            let reply = stalled.reply().await;
            let said = reply["result"]["content"][0]["text"].as_str().unwrap_or_default().len();
            assert!(said > MUCH / 2, "{said}");
            println!("p99 of {} clients: {without:?} without, {with:?} with one that stalls", many - 1);
            ratios.push(with.as_secs_f64() / without.as_secs_f64());
        }
        ratios
    });
    let mut sorted = ratios.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted[sorted.len() / 2];
    println!("one client in {many} stalls: p99 of the others {middle:.2} times (in {ratios:.2?})");
    if long.is_some() {
        assert!(middle <= P99_TIMES, "{ratios:.2?}");
    }
}
