//! Requests of one session at any replica.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::json;

use crate::rolling::End;
use crate::way::Way;
use crate::wire::{Got, Session, is_echo, modern};
use crate::world::{BRIEF, Redis, WHOLE, World, until};

/// Clients, each with a session of its own.
const CLIENTS: usize = 8;

/// F22: every call has one outcome, and it is its own, at whichever replica it arrives; so have modern calls, and the end of
/// a session is the end of it everywhere.
#[test]
fn f22_any_replica_serves_any_request() {
    let Some(world) = World::start("routing", WHOLE, "") else { return };
    let calls = std::env::var("CARDAN_REPLICA_CALLS").map_or(2000, |calls| calls.parse().unwrap());
    let next = AtomicUsize::new(0);
    let addresses = [0, 1, 2].map(|number| world.at(number).to_owned());
    let at = |number: usize| addresses[number % 3].as_str();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (next, at) = (&next, &at);
            scope.spawn(move || {
                let mut random = Random(client as u64 + 1);
                // Not even the first request after the handshake goes where that went.
                let session = Session::open(at(client), None).unwrap();
                loop {
                    let call = next.fetch_add(1, Ordering::Relaxed);
                    if call >= calls {
                        break;
                    }
                    let here = at(random.next());
                    let text = format!("{client}/{call}");
                    if call % 10 == 0 {
                        let got = modern(here, &text);
                        assert!(is_echo(&got, 1, &text), "{got:?}");
                    } else {
                        session.echoes(here, call, &text);
                    }
                }
                // At another than where it began.
                assert_eq!(session.delete(at(client + 1)), 204);
                for number in 0..3 {
                    assert_eq!(session.echo(at(number), 1, "x").unwrap().status, 404);
                }
            });
        }
    });
    assert!(world.counts("cardan_replica_forwards_total") as usize > calls / 3);
    for never in ["takeovers", "stale_writes", "unreadable_records", "store_failures"] {
        assert_eq!(world.counts(&format!("cardan_replica_{never}_total")), 0, "{never}");
    }
    assert_eq!(world.redis.keys(":session:"), [""; 0], "what has ended is not kept");
}

/// F22: while a replica dies under load, every call has at most one answer, and it is its own; afterwards every session goes on.
#[test]
fn f22_a_replica_dies_under_load() {
    let Some(mut world) = World::start("load", BRIEF, "") else { return };
    let addresses = [0, 1, 2].map(|number| world.at(number).to_owned());
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let sessions: Vec<_> =
        (0..CLIENTS).map(|client| Session::open(&addresses[client % 3], None).unwrap()).collect();
    let dead = AtomicBool::new(false);
    thread::scope(|scope| {
        for (client, session) in sessions.iter().enumerate() {
            let (addresses, answered, refused, dead) = (&addresses, &answered, &refused, &dead);
            scope.spawn(move || {
                let mut after = 0;
                for call in 0.. {
                    let (here, text) = (&addresses[(client + call) % 3], format!("{client}/{call}"));
                    match session.echo(here, call, &text) {
                        Ok(got) if is_echo(&got, call, &text) => {
                            answered.fetch_add(1, Ordering::SeqCst);
                        }
                        // Lost with the replica that ran it, and said so.
                        Ok(got) if matches!(got.status, 502 | 503) => {
                            refused.fetch_add(1, Ordering::SeqCst);
                        }
                        Ok(got) => {
                            let message =
                                got.messages.last().map(|message| message["error"]["message"].to_string());
                            assert!(message.is_some_and(|message| message.contains("broke off")), "{got:?}");
                        }
                        // It came to the dead one itself.
                        Err(_) => assert!(here == &addresses[0], "{here}"),
                    }
                    after += usize::from(dead.load(Ordering::SeqCst));
                    if after > 30 {
                        break;
                    }
                }
            });
        }
        // Under way, and then in the midst of it.
        while answered.load(Ordering::SeqCst) < 10 * CLIENTS {
            thread::yield_now();
        }
        world.replicas[0].child.kill().unwrap();
        world.replicas[0].child.wait().unwrap();
        dead.store(true, Ordering::SeqCst);
    });
    for session in &sessions {
        session.echoes(&addresses[1], 1, "on");
        session.echoes(&addresses[2], 2, "and on");
    }
    let taken =
        world.count(1, "cardan_replica_takeovers_total") + world.count(2, "cardan_replica_takeovers_total");
    assert_eq!(taken as usize, CLIENTS.div_ceil(3), "each session of the dead is taken over once");
}

/// How often an owner is cut off: once, or in the long form as often as it has calls for.
fn cuts() -> usize {
    std::env::var("CARDAN_REPLICA_CALLS").map_or(1, |calls| calls.parse::<usize>().unwrap() / 20_000 + 1)
}

/// F22: while an owner is cut off from the store, its lease ends and others take what it had, calls of all sessions go to any
/// replica. Each has one outcome: it is answered, and was done once; or it is refused, and was not done; or its client is told that it
/// may have been, and it was once at most. Afterwards every session goes on everywhere.
#[test]
fn f22_an_owner_is_cut_off_under_load() {
    let Some(redis) = Redis::start() else { return };
    let way = Way::to(redis.port);
    let ports = [way.port, redis.port, redis.port];
    let (world, sent) = World::recorded(redis, "cut-load", BRIEF, &ports);
    let addresses = [0, 1, 2].map(|number| world.at(number).to_owned());
    for cut in 0..cuts() {
        let sessions: Vec<_> =
            (0..CLIENTS).map(|client| Session::open(world.at(client % 3), None).unwrap()).collect();
        let (answered, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let all: Vec<Vec<(String, Known)>> = thread::scope(|scope| {
            let running: Vec<_> = sessions
                .iter()
                .enumerate()
                .map(|(client, session)| {
                    let (addresses, answered, over) = (&addresses, &answered, &over);
                    scope.spawn(move || {
                        let mut random = Random((cut * CLIENTS + client) as u64 + 1);
                        let mut outcomes = Vec::new();
                        while !over.load(Ordering::SeqCst) {
                            let (call, text) = (outcomes.len(), format!("{cut}/{client}/{}", outcomes.len()));
                            let got = session.echo(&addresses[random.next() % 3], call, &text).unwrap();
                            let known = Known::of(&got, call, &text);
                            answered.fetch_add(usize::from(known == Known::Done), Ordering::SeqCst);
                            outcomes.push((text, known));
                        }
                        outcomes
                    })
                })
                .collect();
            let _end = End(&over);
            let some_more = || {
                let before = answered.load(Ordering::SeqCst);
                until("calls are answered", || answered.load(Ordering::SeqCst) >= before + 10 * CLIENTS);
            };
            some_more();
            way.cut();
            let taken = |world: &World| world.counts("cardan_replica_takeovers_total") as usize;
            let owned = CLIENTS.div_ceil(3);
            until("others take what it had", || taken(&world) >= (cut + 1) * owned);
            some_more();
            way.mend();
            until("it is back", || world.store_status(0) == "ready");
            some_more();
            over.store(true, Ordering::SeqCst);
            running.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let sent = String::from_utf8_lossy(&sent.lock().unwrap()).into_owned();
        for (text, known) in all.iter().flatten() {
            let times = sent.matches(&format!("\"{text}\"")).count();
            assert!(known.allows(times), "{text}: {known:?}, and it was done {times} times");
        }
        let count = |known| all.iter().flatten().filter(|(_, one)| *one == known).count();
        let [done, refused, unknown] = [Known::Done, Known::Refused, Known::Nothing].map(count);
        println!(
            "an owner was cut off: {done} calls done, {refused} refused, {unknown} that may have been done"
        );
        for session in &sessions {
            for number in 0..3 {
                session.echoes(world.at(number), number, "on");
            }
        }
    }
}

/// What a client knows of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Done,
    Refused,
    Nothing,
}

impl Known {
    #[track_caller]
    fn of(got: &Got, call: usize, text: &str) -> Self {
        let error = got.messages.last().map(|message| &message["error"]);
        let may_be = error.is_some_and(|error| {
            error["data"]["mayHaveExecuted"] == true
                || error["message"].as_str().is_some_and(|said| said.contains("broke off"))
        });
        match got.status {
            200 if is_echo(got, call, text) => Self::Done,
            503 => Self::Refused,
            200 | 502 if may_be => Self::Nothing,
            _ => panic!("{text}: {got:?}"),
        }
    }

    fn allows(self, times: usize) -> bool {
        match self {
            Self::Done => times == 1,
            Self::Refused => times == 0,
            Self::Nothing => times <= 1,
        }
    }
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize
    }
}

/// F22: what comes before a reply comes as it is made, from whichever replica it is.
#[test]
fn f22_events_pass_replicas_as_they_come() {
    let Some(world) = World::start("events", WHOLE, "") else { return };
    let session = Session::open(world.at(0), None).unwrap();
    let params = json!({ "name": "slow", "arguments": { "steps": 3, "delay_ms": 1 }, "_meta": { "progressToken": "p" } });
    let call = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params });
    for number in 0..3 {
        let got = session.post(world.at(number), &call).unwrap();
        let progress = got.messages.iter().filter(|message| message["method"] == "notifications/progress");
        assert!(progress.count() > 0 && got.messages.last().unwrap()["id"] == 5, "{got:?}");
    }
}
