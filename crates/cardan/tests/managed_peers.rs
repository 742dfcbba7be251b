//! Kept connections to servers that nobody here wrote: killed, and back with everything that was in force.
//!
//! The peers are installed by `cargo xtask test`; without them each test says that it was skipped, and
//! fails where `CARDAN_PEERS=required`.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan::client::{Client, Managed, way};
use cardan::proto::limits::Limits;
use cardan::proto::session::event::Cause;
use cardan::proto::upkeep::policy::{Backoff, Burst, Policy};
use cardan::transport::spawn::Spawn;
use common::keeping::{Carried, PATIENCE, peer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// STD-13, S0-74: a foreign server that is killed comes back, in the era that it was found to speak.
async fn killed_and_back(name: &str) {
    let Some(command) = peer(name, Carried::Child) else { return };
    let pid = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&pid);
    let way = way(move || {
        let link = Spawn::new(&command[0]).args(&command[1..]).spawn(&Limits::DEFAULT);
        *seen.lock().unwrap() = link.as_ref().ok().and_then(|link| link.id()).unwrap_or_default();
        std::future::ready(link)
    });
    let short = Duration::from_millis(50);
    let policy = Policy {
        backoff: Backoff { min: short, max: short, attempts: 50 },
        burst: Burst { restarts: 50, within: PATIENCE },
        ..Policy::CHILD
    };
    let managed = Managed::start(Client::builder("cardan-tests", "0"), way, policy);
    let settled = managed.ready(PATIENCE).await.unwrap();
    let tools = managed.all_tools().await.unwrap();
    for _ in 0..3 {
        let mut watcher = managed.transitions();
        while watcher.try_next().is_some() {}
        let running = pid.lock().unwrap().cast_signed();
        kill_process(Pid::from_raw(running).unwrap(), Signal::KILL).unwrap();
        let lost = tokio::time::timeout(PATIENCE, watcher.next()).await.unwrap().unwrap();
        assert!(matches!(lost.cause, Some(Cause::Exited { .. })), "{name}: {lost:?}");
        managed.call_tool("echo", &json!({ "message": "joint" })).unwrap().await.unwrap();
        assert_eq!(managed.all_tools().await.unwrap().len(), tools.len(), "{name}");
    }
    assert_eq!(managed.settled().unwrap().revision, settled.revision, "{name}");
    managed.close("done").await;
}

#[tokio::test]
async fn server_everything_comes_back() {
    killed_and_back("node-everything").await;
}

#[tokio::test]
async fn a_python_server_comes_back() {
    killed_and_back("python-v1").await;
}
