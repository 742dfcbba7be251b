//! Calls over links that die at any point, in hundreds of seeded runs: each has one outcome, none that is unsafe
//! runs twice, and what is said of it is true.
//!
//! The clock stands unless everyone waits (`start_paused`), and every choice that is made here comes from the seed.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{CallError, Client, Managed, way};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Repeat};
use cardan_proto::upkeep::policy::{Backoff, Burst, Policy};
use cardan_runtime::lines::Lines;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const SEEDS: u64 = 200;
const CALLS: u64 = 24;

/// Where every choice comes from: splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.below(most))
    }
}

/// What a server does with a call that it has read, and so runs.
#[derive(Debug, Clone, Copy)]
enum Manner {
    Answers,
    /// It says nothing for so long, and reads nothing either.
    Stalls,
    DiesFirst,
    /// It dies in the midst of its answer.
    DiesWithin,
    DiesAfter,
}

#[derive(Clone)]
struct Farm(Arc<Inner>);

struct Inner {
    dice: Mutex<Dice>,
    /// How often each call was read to its end.
    ran: Mutex<HashMap<u64, u32>>,
    deaths: Mutex<Vec<Instant>>,
    serving: Mutex<Option<JoinHandle<()>>>,
}

impl Farm {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Inner {
            dice: Mutex::new(Dice(seed)),
            ran: Mutex::default(),
            deaths: Mutex::default(),
            serving: Mutex::default(),
        }))
    }

    fn start(&self, resends: u32) -> Managed {
        let farm = self.clone();
        let way = way(move || {
            let farm = farm.clone();
            async move {
                let (wait, room) = {
                    let mut dice = farm.0.dice.lock().unwrap();
                    (dice.millis(3_000), dice.pick(&[200, 4_000, 64_000]))
                };
                sleep(wait).await;
                let (ours, theirs) = tokio::io::duplex(room);
                let (read, write) = tokio::io::split(ours);
                let task = tokio::spawn(farm.clone().serve(theirs));
                *farm.0.serving.lock().unwrap() = Some(task);
                Ok::<_, Infallible>(Lines::new(read, write, &Limits::DEFAULT))
            }
        });
        // Nothing is drawn by others: no jitter, and attempts without end.
        let backoff = Backoff { min: Duration::ZERO, max: Duration::ZERO, attempts: u32::MAX };
        let burst = Burst { restarts: u32::MAX, within: Duration::ZERO };
        let policy = Policy { backoff, burst, resends, ..Policy::CHILD };
        Managed::start(Client::builder("tests", "0").era(EraChoice::Legacy), way, policy)
    }

    async fn serve(self, link: DuplexStream) {
        let (read, mut write) = tokio::io::split(link);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let Some(id) = message.get("id") else { continue };
            let mut manner = Manner::Answers;
            let hint = json!({ "readOnlyHint": true });
            let result = match message["method"].as_str() {
                Some("initialize") => json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "script", "version": "1" },
                }),
                Some("tools/list") => json!({ "tools": [
                    { "name": "add", "inputSchema": { "type": "object" } },
                    { "name": "look", "inputSchema": { "type": "object" }, "annotations": hint },
                ] }),
                Some("tools/call") => {
                    let n = message["params"]["arguments"]["n"].as_u64().unwrap();
                    *self.0.ran.lock().unwrap().entry(n).or_default() += 1;
                    manner = self.0.dice.lock().unwrap().pick(&[
                        Manner::Answers,
                        Manner::Answers,
                        Manner::Answers,
                        Manner::Stalls,
                        Manner::DiesFirst,
                        Manner::DiesWithin,
                        Manner::DiesAfter,
                    ]);
                    json!({ "content": [] })
                }
                _ => json!({}),
            };
            let reply = format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "result": result }));
            let (wait, cut) = {
                let mut dice = self.0.dice.lock().unwrap();
                (dice.millis(6_000), dice.below(reply.len() as u64 - 1) as usize)
            };
            let said = match manner {
                Manner::Answers | Manner::DiesAfter => reply.as_bytes(),
                Manner::Stalls => {
                    sleep(wait).await;
                    reply.as_bytes()
                }
                Manner::DiesFirst => b"",
                Manner::DiesWithin => &reply.as_bytes()[..cut],
            };
            // The other side may be gone.
            let _ = write.write_all(said).await;
            if matches!(manner, Manner::DiesFirst | Manner::DiesWithin | Manner::DiesAfter) {
                break;
            }
        }
        self.0.deaths.lock().unwrap().push(Instant::now());
    }

    /// Someone kills it, whatever it does.
    fn kill(&self) {
        if let Some(task) = self.0.serving.lock().unwrap().take()
            && !task.is_finished()
        {
            self.0.deaths.lock().unwrap().push(Instant::now());
            task.abort();
        }
    }
}

/// How one call was made, and how it ended.
#[derive(Debug)]
struct Story {
    n: u64,
    safe: bool,
    cancelled: bool,
    patience: Duration,
    total: Duration,
    begun: Instant,
    ended: Instant,
    error: Option<CallError>,
}

async fn one_call(managed: Managed, n: u64, mut dice: Dice) -> Story {
    sleep(dice.millis(40_000)).await;
    let tool = dice.pick(&["add", "add", "look"]);
    let repeat = dice.pick(&[Repeat::IfSafe, Repeat::IfSafe, Repeat::Never, Repeat::Always]);
    let safe = repeat == Repeat::Always || (tool == "look" && repeat == Repeat::IfSafe);
    let (idle, total) =
        (dice.pick(&[500, 20_000]) + dice.below(99), dice.pick(&[800, 9_000, 90_000]) + dice.below(99));
    let (idle, total) = (Duration::from_millis(idle), Duration::from_millis(total));
    let options = CallOptions { idle: Some(idle), total: Some(total), repeat, ..CallOptions::default() };
    let pad = "x".repeat(dice.pick(&[0, 0, 300, 6_000]));
    let begun = Instant::now();
    let call = managed.call_tool_with(tool, &json!({ "n": n, "pad": pad }), options).unwrap();
    let cancelled = dice.below(8) == 0;
    if cancelled {
        sleep(dice.millis(2_000)).await;
        call.cancel("changed our mind");
    }
    let error = call.await.err();
    Story { n, safe, cancelled, patience: idle.min(total), total, begun, ended: Instant::now(), error }
}

/// What must be true of a call, however its links fared.
fn judge(story: &Story, runs: u32, resends: u32, deaths: &[Instant]) -> Result<(), &'static str> {
    let Story { safe, cancelled, begun, ended, error, .. } = story;
    let waited = *ended - *begun;
    let deaths = deaths.iter().filter(|at| (*begun..=*ended).contains(at)).count();
    let ran_out = waited >= story.patience;
    let holds = [
        (runs <= if *safe { 2 } else { 1 }, "it ran too often"),
        // A cancelled one is not looked at until then.
        (waited <= story.total || *cancelled, "it outlived its deadline"),
        (error.is_some() || runs > 0, "it is done and never ran"),
        (
            runs == 0 || error.as_ref().is_none_or(CallError::may_have_executed),
            "it ran and is said not to have",
        ),
    ];
    if let Some((_, broken)) = holds.into_iter().find(|(holds, _)| !holds) {
        return Err(broken);
    }
    match error {
        None => Ok(()),
        Some(CallError::Cancelled { .. }) if *cancelled => Ok(()),
        Some(CallError::TimedOut { .. }) if ran_out => Ok(()),
        // Never sent: then it is sent again for as long as it may wait, as often as the policy says.
        Some(error @ CallError::Lost { .. }) if !error.may_have_executed() => {
            let tried = deaths > resends as usize;
            if ran_out || tried { Ok(()) } else { Err("it was not sent, and not sent again") }
        }
        // Unknown: one that may be repeated was, or had no time left.
        Some(CallError::Lost { .. }) if *safe && deaths < 2 && !ran_out => Err("it was not repeated"),
        Some(CallError::Lost { .. }) if deaths > 0 => Ok(()),
        Some(_) => Err("it ended without reason"),
    }
}

/// How calls ended over all runs, so that nothing is proved of nothing.
#[derive(Debug, Default)]
struct Ends {
    done: u32,
    repeated: u32,
    unknown: u32,
    not_run: u32,
}

fn run(seed: u64, ends: &mut Ends) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let farm = Farm::new(seed);
        let mut dice = Dice(!seed);
        let resends = dice.pick(&[0, 1, u32::MAX]);
        let managed = farm.start(resends);
        managed.all_tools().await.unwrap();
        let calls: Vec<_> = (0..CALLS)
            .map(|n| tokio::spawn(one_call(managed.clone(), n, Dice(dice.below(u64::MAX)))))
            .collect();
        let killer = farm.clone();
        let kills = tokio::spawn(async move {
            for _ in 0..dice.below(12) {
                sleep(dice.millis(8_000)).await;
                killer.kill();
            }
        });
        let mut stories = Vec::new();
        for call in calls {
            stories.push(call.await.unwrap());
        }
        kills.await.unwrap();
        managed.close("done").await;
        let (ran, deaths) = (farm.0.ran.lock().unwrap(), farm.0.deaths.lock().unwrap());
        for story in stories {
            let runs = ran.get(&story.n).copied().unwrap_or_default();
            if let Err(broken) = judge(&story, runs, resends, &deaths) {
                panic!("seed {seed}: {broken}: {runs} runs, {story:?}");
            }
            ends.done += u32::from(story.error.is_none());
            ends.repeated += u32::from(story.error.is_none() && runs == 2);
            ends.unknown += u32::from(story.error.as_ref().is_some_and(CallError::may_have_executed));
            ends.not_run += u32::from(story.error.as_ref().is_some_and(|error| !error.may_have_executed()));
        }
    });
}

/// S0-73, S0-76, F1, F4: whatever dies when, each call has one true outcome within its deadline, and what is unsafe
/// runs at most once.
#[test]
fn s0_76_whatever_dies_no_unsafe_call_runs_twice() {
    let mut ends = Ends::default();
    for seed in 0..SEEDS {
        run(seed, &mut ends);
    }
    let all = [ends.done, ends.repeated, ends.unknown, ends.not_run];
    assert!(all.into_iter().all(|count| count > 50), "{ends:?}");
}
