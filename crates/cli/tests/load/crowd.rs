//! Many clients with the same ids before one shared upstream, behind a bridge and behind a gateway: every reply reaches who called, once.

use std::fs;
use std::time::Instant;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::amount;
use crate::client::{Era, Posting, Talking};
use crate::rig::{Running, World};

/// Each client calls with the ids from zero to this, round after round.
const IDS: usize = 100;
/// Calls that a client on a WebSocket has under way. With these, all clients stay below what one session takes.
const WINDOW: usize = 6;

/// Principals of a gateway, of whom each has clients of every kind.
const PRINCIPALS: usize = 8;

/// What each client does.
#[derive(Clone, Copy)]
struct Plan {
    clients: usize,
    ids: usize,
    rounds: usize,
    /// The part of the calls that the upstream answers a second time, with an answer to nobody beside it.
    twice: &'static str,
}

impl Plan {
    /// As many ids by as many clients as the usual limit of open files allows, or in the long form all of them by a
    /// thousand, in several rounds, with each reply twice.
    fn of(ids: usize) -> Self {
        match amount("CARDAN_CROWD_ROUNDS", 0) {
            0 => Self { clients: 200, ids, rounds: 1, twice: "0.01" },
            rounds => {
                allow_files();
                Self { clients: 1000, ids: IDS, rounds, twice: "1" }
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

/// What stands between the clients and the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Bridge,
    Gateway,
}

impl Between {
    /// What the upstream's tool is called here.
    fn tool(self) -> &'static str {
        match self {
            Self::Bridge => "say",
            Self::Gateway => "up__say",
        }
    }

    /// Starts it before an upstream of this era, which tells in a file that it was started.
    fn start(self, world: &World, upstream: &str, started: &str, twice: &str) -> Running {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/shuffling.py");
        let server = ["python3", script, upstream, started, twice];
        match self {
            Self::Bridge => {
                let words = ["bridge", "--listen", "127.0.0.1:0", "--sessions", "shared", "--"];
                Running::of(world.command(&[&words[..], &server].concat()))
            }
            Self::Gateway => {
                let server = format!("[servers.up]\ncommand = {server:?}\nsessions = 'shared'\n");
                let key = |who| format!("[[gateway.keys]]\nname = 'p{who}'\nenv = 'KEY_{who}'\n");
                let keys: String = (0..PRINCIPALS).map(key).collect();
                fs::write(world.config(), server + &keys).unwrap();
                let config = world.config();
                let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--config", &config]);
                command.envs((0..PRINCIPALS).map(|who| (format!("KEY_{who}"), token(who))));
                let gateway = Running::of(command);
                gateway.stands("ready");
                gateway
            }
        }
    }
}

fn token(principal: usize) -> String {
    format!("token-of-{principal}-0123456789abcdef")
}

/// One of the clients.
#[derive(Clone, Copy)]
struct Who {
    number: usize,
    era: Era,
    principal: usize,
    between: Between,
}

impl Who {
    /// Half of them are legacy, half of each on WebSockets, and so for each principal.
    fn of(number: usize, between: Between) -> Self {
        let era = [Era::Legacy, Era::Modern][number % 2];
        Self { number, era, principal: number / 4 % PRINCIPALS, between }
    }

    /// What it shows to a gateway.
    fn token(self) -> Option<String> {
        (self.between == Between::Gateway).then(|| token(self.principal))
    }

    fn nonce(self, round: usize, id: usize) -> String {
        format!("{}/{}/{round}/{id}", self.principal, self.number)
    }

    /// The reply is that of this call, and carries its nonce.
    #[track_caller]
    fn check(self, reply: &Value, round: usize) -> usize {
        let id = usize::try_from(reply["id"].as_u64().unwrap_or(u64::MAX)).unwrap();
        let said = &reply["result"]["content"][0]["text"];
        assert_eq!(said, &json!(self.nonce(round, id)), "a foreign reply, or none: {reply}");
        id
    }
}

/// One call after the other.
async fn post(address: String, who: Who, plan: Plan) -> usize {
    let mut posting = Posting::open_as(&address, who.era, who.token().as_deref()).await;
    for round in 0..plan.rounds {
        for id in 0..plan.ids {
            let arguments = json!({ "nonce": who.nonce(round, id) });
            let reply = posting.call(id, who.between.tool(), &arguments).await;
            assert_eq!(who.check(&reply, round), id);
        }
    }
    assert!(posting.is_quiet(), "{}: more than was asked for", who.number);
    plan.rounds * plan.ids
}

/// Several calls at a time, whose replies come in any order.
async fn talk(address: String, who: Who, plan: Plan) -> usize {
    let mut talking = Talking::open_as(&address, who.era, who.token().as_deref()).await;
    for round in 0..plan.rounds {
        let (mut open, mut next) = (Vec::new(), 0);
        while next < plan.ids || !open.is_empty() {
            while next < plan.ids && open.len() < WINDOW {
                let arguments = json!({ "nonce": who.nonce(round, next) });
                talking.send(next, who.between.tool(), &arguments).await;
                open.push(next);
                next += 1;
            }
            let id = who.check(&talking.hear().await, round);
            let at = open.iter().position(|open| *open == id);
            open.swap_remove(at.unwrap_or_else(|| panic!("{}: a second reply to {id}", who.number)));
        }
    }
    assert!(talking.is_quiet(), "{}: more than was asked for", who.number);
    plan.rounds * plan.ids
}

/// All clients before an upstream of this era.
fn crowd(between: Between, upstream: &str, plan: Plan) {
    let world = World::new(&format!("crowd-{between:?}-{upstream}"), "");
    let started = world.0.file("started");
    let running = between.start(&world, upstream, &started, plan.twice);
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let replies: usize = runtime.block_on(async {
        let mut clients = JoinSet::new();
        for number in 0..plan.clients {
            let (address, who) = (running.address.clone(), Who::of(number, between));
            match number / 2 % 2 {
                0 => clients.spawn(post(address, who, plan)),
                _ => clients.spawn(talk(address, who, plan)),
            };
        }
        clients.join_all().await.into_iter().sum()
    });
    assert_eq!(replies, plan.clients * plan.ids * plan.rounds);
    // A gateway lists a legacy server by a session that can be asked everything, which those who cannot do not share.
    let sessions = if (between, upstream) == (Between::Gateway, "legacy") { 2 } else { 1 };
    assert_eq!(fs::read_to_string(started).unwrap(), "started\n".repeat(sessions), "one upstream for all");
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{replies} replies of a {upstream} upstream behind a {between:?} to {} clients in {took:.1} s, none foreign, none lost",
        plan.clients
    );
}

/// T11, F16: ids of different clients collide all the time, and replies come in any order, twice and to nobody.
#[test]
fn t11_no_foreign_reply_of_a_legacy_upstream() {
    crowd(Between::Bridge, "legacy", Plan::of(IDS));
}

/// T11, F16: the same where the upstream is modern.
#[test]
fn t11_no_foreign_reply_of_a_modern_upstream() {
    crowd(Between::Bridge, "modern", Plan::of(IDS / 5));
}

/// T11, F16: the same through a gateway, whose principals share one session with a legacy upstream.
#[test]
fn t11_no_foreign_reply_among_principals_before_a_legacy_upstream() {
    crowd(Between::Gateway, "legacy", Plan::of(IDS / 5));
}

/// T11, F16: the same where the upstream is modern.
#[test]
fn t11_no_foreign_reply_among_principals_before_a_modern_upstream() {
    crowd(Between::Gateway, "modern", Plan::of(IDS / 5));
}
