//! We are killed, and nothing that we started stays.
//!
//! The parent to be killed is this very test binary, started again with a word in its environment.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use cardan_proto::limits::Limits;
use cardan_transport::guard::Guard;
use common::{group_gone, kill, members, recv, sh};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const ROLE: &str = "CARDAN_TEST_PARENT";

/// Ignores the end of its input and TERM, and has children that do too, twice forked.
const STUBBORN: &str =
    "trap '' TERM HUP; (trap '' TERM; (while :; do sleep 1; done) & ) & echo '{}'; while :; do sleep 1; done";

/// When started by the tests below: has a child, tells its group, and waits to be killed.
#[tokio::test]
async fn a_parent_when_asked_to_be_one() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let guard = if role == "guarded" { Guard::On } else { Guard::Off };
    let mut link = sh(STUBBORN).guard(guard).spawn(&Limits::DEFAULT).unwrap();
    recv(&mut link).await;
    eprintln!("group {}", link.id().unwrap());
    std::future::pending::<()>().await;
}

/// A parent, and the group of its child.
async fn parent(role: &str) -> (Child, u32) {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_parent_when_asked_to_be_one", "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stderr.take().unwrap()).lines();
    loop {
        let line =
            common::within(10, "the group", lines.next_line()).await.unwrap().expect("it tells its group");
        if let Some(group) = line.strip_prefix("group ") {
            return (parent, group.parse().unwrap());
        }
    }
}

/// F2: two hundred of us killed, fifty at a time and each with a stubborn child: no descendant is left after three seconds.
#[tokio::test]
async fn f2_nothing_survives_our_own_death() {
    for _ in 0..4 {
        fifty_die().await;
    }
}

async fn fifty_die() {
    let mut parents = Vec::new();
    for _ in 0..50 {
        parents.push(parent("guarded").await);
    }
    for (_, group) in &parents {
        assert!(members(*group).len() >= 2, "child and grandchildren run");
    }
    for (parent, _) in &mut parents {
        kill(parent.id().unwrap(), Signal::KILL);
        parent.wait().await.unwrap();
    }
    let start = Instant::now();
    for (_, group) in parents {
        let left = Duration::from_secs(3).saturating_sub(start.elapsed());
        group_gone(group, left.max(Duration::from_millis(1))).await;
    }
}

/// F2: without the guard such a child stays, so it is the guard that ends it.
#[tokio::test]
async fn f2_without_a_guard_a_stubborn_child_stays() {
    let (mut parent, group) = parent("unguarded").await;
    kill(parent.id().unwrap(), Signal::KILL);
    parent.wait().await.unwrap();
    let gone = tokio::time::timeout(Duration::from_millis(2500), group_gone(group, Duration::MAX)).await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(group).unwrap()).unwrap();
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    assert!(gone.is_err(), "it stayed until we ended it");
}
