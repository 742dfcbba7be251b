//! Whether a child that says nothing is gone, or only at work: asked by the shipped policy, under a clock that only
//! waits move.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cardan::client::{Client, Managed, way};
use cardan::proto::limits::Limits;
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::{CallOptions, Cause};
use cardan::proto::upkeep::condition::Condition;
use cardan::proto::upkeep::policy::Policy;
use cardan::runtime::lines::Lines;
use common::keeping::told;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::time::Instant;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A server that does one thing at a time: `tools/call` takes as many seconds as its arguments say.
#[derive(Clone, Default)]
struct Single {
    starts: Arc<AtomicUsize>,
    /// It answers no ping, and nothing else minds.
    no_ping: bool,
    /// It reads nothing any more, as a process that is stopped.
    stopped: Arc<AtomicBool>,
    probes: Arc<AtomicUsize>,
}

impl Single {
    fn keep(&self, era: EraChoice) -> Managed {
        let single = self.clone();
        let way = way(move || {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            single.starts.fetch_add(1, Ordering::SeqCst);
            single.stopped.store(false, Ordering::SeqCst);
            tokio::spawn(single.clone().serve(theirs));
            let (read, write) = tokio::io::split(ours);
            std::future::ready(Ok::<_, Infallible>(Lines::new(read, write, &Limits::DEFAULT)))
        });
        Managed::start(Client::builder("tests", "0").era(era), way, Policy::CHILD)
    }

    async fn serve(self, link: DuplexStream) {
        let (read, mut write) = tokio::io::split(link);
        let mut lines = BufReader::new(read).lines();
        let mut greeted = false;
        while let Ok(Some(line)) = lines.next_line().await {
            if self.stopped.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            let call: Value = serde_json::from_str(&line).unwrap();
            let method = call["method"].as_str().unwrap();
            let capabilities = json!({ "tools": {} });
            let result = match method {
                "initialize" => json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": { "name": "single", "version": "1" } }),
                "server/discover" => json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private" }),
                "tools/list" => {
                    json!({ "resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private" })
                }
                "tools/call" => {
                    tokio::time::sleep(secs(call["params"]["arguments"]["s"].as_u64().unwrap())).await;
                    json!({ "resultType": "complete", "content": [] })
                }
                _ => json!({}),
            };
            let probe = method == "ping" || method == "server/discover" && greeted;
            self.probes.fetch_add(usize::from(probe), Ordering::SeqCst);
            greeted = true;
            if call.get("id").is_none() || probe && self.no_ping {
                continue;
            }
            let reply = json!({ "jsonrpc": "2.0", "id": call["id"], "result": result });
            if write.write_all(format!("{reply}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// A call that may take as long as it likes.
fn patient() -> CallOptions {
    CallOptions { idle: Some(Duration::ZERO), total: Some(Duration::ZERO), ..CallOptions::default() }
}

async fn ready(managed: &Managed) {
    managed.ready(secs(60)).await.unwrap();
}

/// PNG-2, F12: an idle child that is stopped is noticed within 40 s of its last sign of life, and replaced. One that has
/// not answered a ping yet is asked for a list first, which takes ten more.
#[tokio::test(start_paused = true)]
async fn f12_an_idle_child_that_is_stopped_is_noticed() {
    let rows = [(EraChoice::Legacy, 0, 50), (EraChoice::Legacy, 31, 70), (EraChoice::Modern, 0, 40)];
    for (era, stopped_at, noticed_at) in rows {
        let single = Single::default();
        let managed = single.keep(era);
        ready(&managed).await;
        let begun = Instant::now();
        tokio::time::sleep(secs(stopped_at)).await;
        single.stopped.store(true, Ordering::SeqCst);
        let mut watcher = managed.transitions();
        let lost = loop {
            let step = watcher.next().await.unwrap();
            if step.to == Condition::DISCONNECTED {
                break step;
            }
        };
        assert_eq!(lost.cause, Some(Cause::Silent(secs(10))), "{era:?}");
        assert_eq!(begun.elapsed().as_secs(), noticed_at, "{era:?}");
        ready(&managed).await;
        managed.call_tool("work", &json!({ "s": 0 })).unwrap().await.unwrap();
        assert_eq!(single.starts.load(Ordering::SeqCst), 2, "{era:?}");
        managed.close("done").await;
    }
}

/// PNG-2: a child that works for us and cannot answer meanwhile is left alone, however long it takes: also when its
/// call came while it was asked.
#[tokio::test(start_paused = true)]
async fn png_2_a_child_at_work_is_left_alone() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        for begins in [secs(0), secs(30)] {
            let single = Single::default();
            let managed = single.keep(era);
            ready(&managed).await;
            tokio::time::sleep(begins).await;
            managed.call_tool_with("work", &json!({ "s": 1200 }), patient()).unwrap().await.unwrap();
            let asked = single.probes.load(Ordering::SeqCst);
            assert!(asked <= 1, "{era:?}: asked {asked} times while it worked");
            tokio::time::sleep(secs(65)).await;
            assert!(single.probes.load(Ordering::SeqCst) > asked, "{era:?}: idle again, it is asked again");
            assert_eq!(single.starts.load(Ordering::SeqCst), 1, "{era:?}: {:?}", told(managed.transitions()));
            managed.close("done").await;
        }
    }
}

/// PNG-2: what a call left behind that nobody waits for is work too.
#[tokio::test(start_paused = true)]
async fn png_2_a_child_that_goes_on_with_what_was_given_up_is_left_alone() {
    for drops in [false, true] {
        let single = Single::default();
        let managed = single.keep(EraChoice::Legacy);
        ready(&managed).await;
        let call = managed.call_tool_with("work", &json!({ "s": 100 }), patient()).unwrap();
        let mut running = Box::pin(call.into_future());
        assert!(tokio::time::timeout(secs(1), &mut running).await.is_err());
        if drops {
            drop(running);
        } else {
            managed.call_tool_with("work", &json!({ "s": 0 }), patient()).unwrap().cancel("no");
            drop(running);
        }
        tokio::time::sleep(secs(300)).await;
        assert_eq!(single.starts.load(Ordering::SeqCst), 1, "{:?}", told(managed.transitions()));
        managed.close("done").await;
    }
}

/// PNG-1 is not kept by every server that somebody wrote: one that answers no ping, and lists when it is asked to, is
/// not taken for dead.
#[tokio::test(start_paused = true)]
async fn png_2_a_child_that_knows_no_ping_is_not_taken_for_dead() {
    let single = Single { no_ping: true, ..Single::default() };
    let managed = single.keep(EraChoice::Legacy);
    ready(&managed).await;
    tokio::time::sleep(secs(600)).await;
    assert!(single.probes.load(Ordering::SeqCst) > 10);
    assert_eq!(single.starts.load(Ordering::SeqCst), 1, "{:?}", told(managed.transitions()));
    managed.close("done").await;
}
