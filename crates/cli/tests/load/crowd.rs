//! Many clients with the same ids before one shared upstream: every reply reaches who called, once.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::amount;
use crate::client::{Era, Posting, Talking};
use crate::common::{CARDAN, Scratch};
use crate::rig::Running;

/// Each client calls with the ids from zero to this, round after round.
const IDS: usize = 100;
/// Calls that a client on a WebSocket has under way. With these, all clients stay below what one session takes.
const WINDOW: usize = 6;

/// What each client does.
#[derive(Clone, Copy)]
struct Plan {
    clients: usize,
    ids: usize,
    rounds: usize,
}

impl Plan {
    /// As many ids by as many clients as the usual limit of open files allows, or in the long form all of them by a
    /// thousand, in several rounds.
    fn of(ids: usize) -> Self {
        match amount("CARDAN_CROWD_ROUNDS", 0) {
            0 => Self { clients: 200, ids, rounds: 1 },
            rounds => {
                allow_files();
                Self { clients: 1000, ids: IDS, rounds }
            }
        }
    }
}

/// Lets us, and what we start, have as many files open as may be.
pub(crate) fn allow_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

fn nonce(client: usize, round: usize, id: usize) -> String {
    format!("{client}/{round}/{id}")
}

/// The reply is that of this call, and carries its nonce.
#[track_caller]
fn check(reply: &Value, client: usize, round: usize) -> usize {
    let id = usize::try_from(reply["id"].as_u64().unwrap_or(u64::MAX)).unwrap();
    let said = &reply["result"]["content"][0]["text"];
    assert_eq!(said, &json!(nonce(client, round, id)), "a foreign reply, or none: {reply}");
    id
}

/// One call after the other.
async fn post(address: String, client: usize, era: Era, plan: Plan) -> usize {
    let mut posting = Posting::open(&address, era).await;
    for round in 0..plan.rounds {
        for id in 0..plan.ids {
            let reply = posting.call(id, "say", &json!({ "nonce": nonce(client, round, id) })).await;
            assert_eq!(check(&reply, client, round), id);
        }
    }
    assert!(posting.is_quiet(), "{client}: more than was asked for");
    plan.rounds * plan.ids
}

/// Several calls at a time, whose replies come in any order.
async fn talk(address: String, client: usize, era: Era, plan: Plan) -> usize {
    let mut talking = Talking::open(&address, era).await;
    for round in 0..plan.rounds {
        let (mut open, mut next) = (Vec::new(), 0);
        while next < plan.ids || !open.is_empty() {
            while next < plan.ids && open.len() < WINDOW {
                talking.send(next, "say", &json!({ "nonce": nonce(client, round, next) })).await;
                open.push(next);
                next += 1;
            }
            let id = check(&talking.hear().await, client, round);
            let at = open.iter().position(|open| *open == id);
            open.swap_remove(at.unwrap_or_else(|| panic!("{client}: a second reply to {id}")));
        }
    }
    assert!(talking.is_quiet(), "{client}: more than was asked for");
    plan.rounds * plan.ids
}

/// All clients before an upstream of this era: half of them legacy, half of each on WebSockets.
fn crowd(upstream: &str, plan: Plan) {
    let scratch = Scratch::new(&format!("crowd-{upstream}"));
    let (script, started) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/shuffling.py"), scratch.file("started"));
    let words = [
        "bridge",
        "--listen",
        "127.0.0.1:0",
        "--sessions",
        "shared",
        "--",
        "python3",
        script,
        upstream,
        &started,
    ];
    let mut command = Command::new(CARDAN);
    command.args(words).stdin(Stdio::null());
    let bridge = Running::of(command);
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let replies: usize = runtime.block_on(async {
        let mut clients = JoinSet::new();
        for client in 0..plan.clients {
            let (address, era) = (bridge.address.clone(), [Era::Legacy, Era::Modern][client % 2]);
            match client / 2 % 2 {
                0 => clients.spawn(post(address, client, era, plan)),
                _ => clients.spawn(talk(address, client, era, plan)),
            };
        }
        clients.join_all().await.into_iter().sum()
    });
    assert_eq!(replies, plan.clients * plan.ids * plan.rounds);
    assert_eq!(fs::read_to_string(started).unwrap(), "started\n", "one upstream for all");
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{replies} replies of a {upstream} upstream to {} clients in {took:.1} s, none foreign, none lost",
        plan.clients
    );
}

/// T11, F16: ids of different clients collide all the time, and replies come in any order, twice and to nobody.
#[test]
fn t11_no_foreign_reply_of_a_legacy_upstream() {
    crowd("legacy", Plan::of(IDS));
}

/// T11, F16: the same where the upstream is modern.
#[test]
fn t11_no_foreign_reply_of_a_modern_upstream() {
    crowd("modern", Plan::of(IDS / 5));
}
