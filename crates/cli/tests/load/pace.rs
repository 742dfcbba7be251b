//! Clients that call at their own pace, and how long the slowest of their calls take.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::client::{Era, Posting};
use crate::rig::Running;

/// Calls of each client in a phase.
const CALLS: usize = 10;

/// Clients of both eras, each of one server.
pub(crate) struct Crowd(Vec<(Posting, String)>);

impl Crowd {
    /// So many, who share these servers among them.
    pub(crate) async fn open(address: &str, many: usize, servers: &[&str]) -> Self {
        let mut clients = Vec::new();
        for number in 0..many {
            let posting = Posting::open(address, [Era::Legacy, Era::Modern][number % 2]).await;
            clients.push((posting, format!("{}__echo", servers[number / 2 % servers.len()])));
        }
        Self(clients)
    }

    /// All of them beside each other, with a pause between two calls of each: the time that one call in a hundred needs. They
    /// begin at different moments, as clients do.
    pub(crate) async fn phase(&mut self, pause: Duration) -> Duration {
        let mut running = JoinSet::new();
        let each = pause / u32::try_from(self.0.len()).unwrap();
        let mut begin = interval(each.max(Duration::from_micros(1)));
        for (number, (posting, tool)) in self.0.drain(..).enumerate() {
            begin.tick().await;
            running.spawn(client(posting, tool, number, pause));
        }
        let mut all = Vec::new();
        for (posting, tool, took) in running.join_all().await {
            self.0.push((posting, tool));
            all.extend(took);
        }
        p99(all)
    }
}

/// Calls at its own pace; how long each took.
async fn client(
    mut posting: Posting,
    tool: String,
    number: usize,
    pause: Duration,
) -> (Posting, String, Vec<Duration>) {
    let mut pace = interval(pause);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut took = Vec::with_capacity(CALLS);
    for call in 0..CALLS {
        pace.tick().await;
        let (nonce, begun) = (format!("{number}/{call}"), Instant::now());
        let reply = posting.call(call, &tool, &json!({ "message": nonce })).await;
        assert_eq!(reply["result"]["content"][0]["text"], nonce.as_str(), "{reply}");
        took.push(begun.elapsed());
    }
    (posting, tool, took)
}

/// The time that one of a hundred exceeds.
pub(crate) fn p99(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[(took.len() * 99).div_ceil(100) - 1]
}

/// Waits until so many calls are under way at a server of a gateway, or wait for a place there.
pub(crate) fn has_calls(gateway: &Running, server: &str, count: usize) {
    let wanted = format!("cardan_upstream_calls_in_flight{{server=\"{server}\"}} {count}");
    while !gateway.get("/metrics", &[]).body.lines().any(|line| line == wanted) {}
}

/// The one in the middle: a machine that is busy with something else for a while spoils one or two.
pub(crate) fn middle(ratios: &[f64]) -> f64 {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
