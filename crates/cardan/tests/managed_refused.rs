//! Children that the system refuses to start, because there are too many processes or there is no memory.
//!
//! A test here runs itself once more, below `strace`, which answers in the kernel's place. Threads are started by the same
//! call, so everything happens on one; children in the test start nothing themselves.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::error::Error;
use std::fs;
use std::future::Future;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cardan::client::{Client, Managed, Way, way};
use cardan::proto::limits::Limits;
use cardan::proto::session::config::EraChoice;
use cardan::proto::upkeep::condition::Condition;
use cardan::proto::upkeep::policy::{Backoff, Burst, Policy};
use cardan::transport::guard::Guard;
use cardan::transport::spawn::Spawn;
use common::keeping::{PATIENCE, told, within};

/// What the system says, and which number that is.
const REFUSALS: [(&str, i32); 2] = [("EAGAIN", 11), ("ENOMEM", 12)];

/// Set where a test runs below strace: to what the system says there.
const BELOW: &str = "CARDAN_TEST_REFUSAL";

/// The number of the refusal in which this test runs; nothing: it runs by itself, and has now run below strace for each,
/// where the starts that `when` tells were refused.
fn refusal(test: &str, when: &str) -> Option<i32> {
    if let Ok(said) = std::env::var(BELOW) {
        return REFUSALS.into_iter().find(|(name, _)| *name == said).map(|(_, number)| number);
    }
    let probe = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        eprintln!("SKIPPED: strace cannot be used here, so nobody refuses to start processes");
        return None;
    }
    for (said, _) in REFUSALS {
        // Which of these starts a process depends on the machine.
        let inject = format!("inject=?clone,?clone3,?fork,?vfork:error={said}{when}");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject, "--"]);
        strace.arg(std::env::current_exe().unwrap());
        strace.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(BELOW, said);
        let ran = strace.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && out.contains("1 passed"), "{said}: {out}\n{err}");
    }
    None
}

fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What the system said, wherever it is told.
fn number(error: &dyn Error) -> Option<i32> {
    let source = error.source()?;
    source.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error).or_else(|| number(source))
}

/// F31: a start that the system refuses is told as such within 100 ms, with a guard or without, and no descriptor stays.
#[test]
fn f31_a_refused_start_is_told_at_once() {
    let Some(said) = refusal("f31_a_refused_start_is_told_at_once", "") else { return };
    on_one_thread(async {
        for guard in [Guard::On, Guard::Off] {
            let spawn = Spawn::new("/bin/sh").guard(guard);
            // What is opened once for all starts is opened now.
            spawn.spawn(&Limits::DEFAULT).expect_err("it is refused");
            let before = descriptors();
            let mut quickest = Duration::MAX;
            for _ in 0..50 {
                let begun = Instant::now();
                let error = spawn.spawn(&Limits::DEFAULT).expect_err("it is refused");
                quickest = quickest.min(begun.elapsed());
                assert_eq!(number(&error), Some(said), "{error}");
                assert!(error.to_string().contains("/bin/sh"), "{error}");
            }
            assert!(quickest < Duration::from_millis(100), "{quickest:?}");
            assert_eq!(descriptors(), before);
        }
    });
}

/// A server of few words that starts no process of its own.
const SERVER: &str = r#"
while read -r line; do
  case $line in *'"id":'*) ;; *) continue ;; esac
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}'
done"#;

/// The way to that server, and how often it was gone.
fn counted() -> (Arc<dyn Way>, Arc<AtomicUsize>) {
    let dials = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&dials);
    let way = way(move || {
        seen.fetch_add(1, Ordering::SeqCst);
        let spawn = Spawn::new("/bin/sh").args(["-c", SERVER]).guard(Guard::Off);
        std::future::ready(spawn.spawn(&Limits::DEFAULT))
    });
    (way, dials)
}

fn patient(attempts: u32) -> Policy {
    let short = Duration::from_millis(20);
    Policy {
        backoff: Backoff { min: short, max: short, attempts },
        burst: Burst { restarts: u32::MAX, within: short },
        ..Policy::CHILD
    }
}

/// F31, S0-74, F14: a kept connection waits after each refusal, stops after as many as its policy grants, says why, and
/// has no descriptor more than before. One that is asked for by hand is granted as many again.
#[test]
fn f31_a_kept_connection_backs_off_from_refusals() {
    if refusal("f31_a_kept_connection_backs_off_from_refusals", "").is_none() {
        return;
    }
    on_one_thread(async {
        let (way, dials) = counted();
        let connector = || Client::builder("tests", "0").era(EraChoice::Legacy);
        let managed = Managed::start(connector(), way, patient(3));
        let error = within("the refusal", managed.ready(PATIENCE)).await.unwrap_err();
        let said = error.to_string();
        assert!(!error.may_have_executed() && said.contains("/bin/sh"), "{said}");
        assert_eq!(managed.condition(), Condition::Suspended { until: None });
        let round = ["connecting", "disconnected"].map(str::to_owned);
        let mut expected = round.to_vec();
        for attempt in 1..=3 {
            expected.push(format!("reconnecting (attempt {attempt})"));
            expected.extend_from_slice(&round);
        }
        expected.push("suspended".to_owned());
        assert_eq!(told(managed.transitions()), expected);
        assert_eq!(dials.load(Ordering::SeqCst), 4);
        let before = descriptors();
        for more in 2..20 {
            managed.reconnect();
            within("the next refusal", managed.ready(PATIENCE)).await.unwrap_err();
            assert_eq!(dials.load(Ordering::SeqCst), 4 * more);
        }
        assert_eq!(descriptors(), before);
        managed.close("done").await;
    });
}

/// F31, S0-44: when there is room again, the connection is there again, and nobody had to ask.
#[test]
fn f31_a_kept_connection_outlasts_refusals() {
    if refusal("f31_a_kept_connection_outlasts_refusals", ":when=1..3").is_none() {
        return;
    }
    on_one_thread(async {
        let (way, dials) = counted();
        let managed = Managed::start(Client::builder("tests", "0").era(EraChoice::Legacy), way, patient(5));
        within("the server", managed.ready(PATIENCE)).await.unwrap();
        within("a ping", managed.ping()).await.unwrap();
        // One of the refusals may go to a thread that the test harness wants.
        let dials = dials.load(Ordering::SeqCst);
        assert!((2..=4).contains(&dials), "{dials}");
        within("the close", managed.close("done")).await;
    });
}
