//! Connections to real children that are kept while the children are killed, stopped, and misbehave.
//!
//! `CARDAN_KILLS` says how often the child under load is killed; 1,000 times, unless told otherwise.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan::client::{CallError, Client, Managed, Way, way};
use cardan::proto::limits::Limits;
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::{CallOptions, Cause, Change, Event, Interest};
use cardan::proto::upkeep::condition::Condition;
use cardan::proto::upkeep::policy::{AtWork, Backoff, Burst, Policy, Probe};
use cardan::transport::guard::Guard;
use cardan::transport::spawn::Spawn;
use common::keeping::{PATIENCE, until, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// A server in a few lines: it notes every call that it runs in the file `$RAN`, then answers.
const SERVER: &str = r#"
greeting='{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"sh","version":"1"}}'
tools='{"tools":[{"name":"add","inputSchema":{"type":"object"}},{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}'
serve() {
  while read -r line; do
    case $line in *'"id":'*) ;; *) continue ;; esac
    id=${line#*\"id\":}; id=${id%%[,\}]*}
    result='{}'
    case $line in
      *'"resources/subscribe"'*) subscribed=yes ;;
      *'"tell"'*) [ -z "$subscribed" ] || echo '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1/last"}}' ;;
      *'"initialize"'*) result=$greeting ;;
      *'"tools/list"'*) result=$tools ;;
      *'"tools/call"'*) n=${line#*\"n\":}; echo "${n%%[,\}]*}" >> "$RAN"; result='{"content":[]}' ;;
    esac
    echo '{"jsonrpc":"2.0","id":'"$id"',"result":'"$result"'}'
  done
}
"#;

/// Descriptors are the whole process's, so these tests take turns.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Children of one kind: the first does what its script says, later ones serve.
struct Children {
    pids: Arc<Mutex<Vec<u32>>>,
    ran: PathBuf,
    way: Arc<dyn Way>,
}

impl Children {
    fn new(name: &str, first: &str) -> Self {
        let ran = std::env::temp_dir().join(format!("cardan-managed-{name}-{}", std::process::id()));
        std::fs::write(&ran, "").unwrap();
        let pids = Arc::new(Mutex::new(Vec::new()));
        let (seen, script, file) = (Arc::clone(&pids), first.to_owned(), ran.clone());
        let way = way(move || {
            let mut pids = seen.lock().unwrap();
            let script = if pids.is_empty() { script.as_str() } else { "serve" };
            let spawn = Spawn::new("sh").args(["-c", &format!("{SERVER}\n{script}")]).env("RAN", &file);
            let link = spawn.guard(Guard::Off).spawn(&Limits::DEFAULT);
            pids.extend(link.as_ref().ok().and_then(|link| link.id()));
            std::future::ready(link)
        });
        Self { pids, ran, way }
    }

    fn start(&self, policy: Policy) -> Managed {
        Managed::start(Client::builder("tests", "0").era(EraChoice::Legacy), Arc::clone(&self.way), policy)
    }

    fn signal(&self, signal: Signal) {
        let pid = *self.pids.lock().unwrap().last().unwrap();
        // It may have died of something else meanwhile.
        let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal);
    }

    fn starts(&self) -> usize {
        self.pids.lock().unwrap().len()
    }

    /// How often each call ran.
    fn ran(&self) -> HashMap<usize, usize> {
        let mut ran = HashMap::new();
        for line in std::fs::read_to_string(&self.ran).unwrap().lines() {
            *ran.entry(line.parse().unwrap()).or_default() += 1;
        }
        ran
    }

    /// None of them lives, nor anything that they started.
    async fn gone(&self) {
        let pids = self.pids.lock().unwrap().clone();
        for pid in pids {
            let gone = async {
                // One that was killed may still be on its way out.
                while !members(pid).is_empty() {
                    tokio::task::yield_now().await;
                }
            };
            within("the end of all that a child started", gone).await;
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.ran);
    }
}

/// What lives of a process group.
fn members(group: u32) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
            fields.len() > 2 && fields[0] != "Z" && fields[2] == group.to_string()
        })
        .collect()
}

fn descriptors() -> usize {
    Path::new("/proc/self/fd").read_dir().unwrap().count()
}

/// Nothing holds it back.
fn eager() -> Policy {
    Policy {
        backoff: Backoff { min: Duration::from_millis(1), max: Duration::from_millis(5), attempts: u32::MAX },
        burst: Burst { restarts: u32::MAX, within: Duration::from_secs(1) },
        ..Policy::CHILD
    }
}

/// How one call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    MayHaveRun,
    NotRun,
}

/// F1, S0-44, S0-73, S0-74, S0-76, SUB-11: a child killed again and again under load. Every call has one outcome, no
/// unsafe call runs twice, what ended as not sent never ran, listens stand, nothing is left over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f1_kills_under_load_harm_no_call() {
    let _turn = TURN.lock().await;
    let kills = std::env::var("CARDAN_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(1000);
    let children = Children::new("kills", "serve");
    let managed = children.start(eager());
    within("ready", managed.ready(PATIENCE)).await.unwrap();
    managed.all_tools().await.unwrap();
    let mut listen = managed.listen(Interest { uris: vec!["x:1".into()], ..Interest::default() });
    within("the listen", listen.ready()).await.unwrap();
    let before = descriptors();

    let fates = Arc::new(Mutex::new(HashMap::new()));
    let (next, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let settled = Arc::new(tokio::sync::Semaphore::new(0));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (managed, fates, settled) = (managed.clone(), Arc::clone(&fates), Arc::clone(&settled));
            let (next, stop) = (Arc::clone(&next), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    let fate = one_call(&managed, n).await;
                    assert_eq!(fates.lock().unwrap().insert(n, fate), None);
                    settled.add_permits(1);
                }
            })
        })
        .collect();
    let mut watcher = managed.transitions();
    for _ in 0..kills {
        until(&mut watcher, "ready").await;
        // Some work is done before each kill, and more is on its way.
        within("some calls", settled.acquire_many(10)).await.unwrap().forget();
        children.signal(Signal::KILL);
    }
    until(&mut watcher, "ready").await;
    for _ in 0..2 {
        assert_eq!(within("a change", listen.next()).await, Some(Change::Resource("x:1".into())));
    }
    // What every new link says by itself is behind; this only a server tells that was asked to, on the last one.
    within("the last change", managed.call_tool("tell", &json!({})).unwrap()).await.unwrap();
    let last = Change::Resource("x:1/last".into());
    while within("the last change", listen.next()).await.expect("it stands") != last {}
    stop.store(true, Ordering::SeqCst);
    for worker in workers {
        within("the last calls", worker).await.unwrap();
    }
    assert_eq!(descriptors(), before, "descriptors leak");
    within("the close", managed.close("done")).await;

    let (ran, fates) = (children.ran(), fates.lock().unwrap().clone());
    assert_eq!(fates.len(), next.load(Ordering::SeqCst));
    assert_eq!(children.starts(), kills + 1);
    for (n, fate) in &fates {
        let runs = ran.get(n).copied().unwrap_or_default();
        let allowed = match (fate, is_safe(*n)) {
            (Fate::Done, true) => 1..=2,
            (Fate::Done, false) => 1..=1,
            (Fate::MayHaveRun, true) => 0..=2,
            (Fate::MayHaveRun, false) => 0..=1,
            (Fate::NotRun, _) => 0..=0,
        };
        assert!(allowed.contains(&runs), "call {n} ran {runs} times: {fate:?}");
    }
    let done = fates.values().filter(|fate| **fate == Fate::Done).count();
    assert!(done >= kills, "{done} of {} done", fates.len());
    children.gone().await;
}

/// Every third call is of the tool that is listed as read-only.
fn is_safe(n: usize) -> bool {
    n.is_multiple_of(3)
}

async fn one_call(managed: &Managed, n: usize) -> Fate {
    let tool = if is_safe(n) { "look" } else { "add" };
    let call = managed.call_tool(tool, &json!({ "n": n })).unwrap();
    match within("a call", call).await {
        Ok(_) => Fate::Done,
        Err(error @ CallError::Lost { .. }) if error.may_have_executed() => Fate::MayHaveRun,
        Err(error) if !error.may_have_executed() => Fate::NotRun,
        Err(error) => panic!("call {n}: {error}"),
    }
}

/// PNG-2, F12: a child that is stopped, and so neither answers nor dies, is noticed by the probe and replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f12_a_stopped_child_is_noticed() {
    let _turn = TURN.lock().await;
    let children = Children::new("stopped", "serve");
    // Long enough for a child that is not stopped to answer on a machine that has other things to do.
    let (every, bound) = (Duration::from_millis(500), Duration::from_secs(5));
    let probe = Probe { every: Some(every), within: bound, busy_within: bound, at_work: AtWork::Asked };
    let managed = children.start(Policy { probe, ..eager() });
    within("ready", managed.ready(PATIENCE)).await.unwrap();
    let mut watcher = managed.transitions();
    until(&mut watcher, "ready").await;
    children.signal(Signal::STOP);
    let options =
        CallOptions { idle: Some(Duration::ZERO), total: Some(Duration::ZERO), ..CallOptions::default() };
    let stuck = managed.call_tool_with("add", &json!({ "n": 1 }), options).unwrap();
    let lost = until(&mut watcher, "disconnected").await;
    assert_eq!(lost.cause, Some(Cause::Silent(bound)));
    let error = within("the stuck call", stuck).await.unwrap_err();
    assert!(error.may_have_executed(), "a call without deadline is told: {error}");
    until(&mut watcher, "ready").await;
    managed.call_tool("add", &json!({ "n": 2 })).unwrap().await.unwrap();
    assert_eq!(children.ran(), HashMap::from([(2, 1)]));
    within("the close", managed.close("done")).await;
    children.gone().await;
}

/// PNG-2, F12: so is one that is stopped while nobody calls it, by the policy that children have; only its times are
/// shorter here. `managed_idle` has it with the times as shipped, without a process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f12_an_idle_child_that_is_stopped_is_noticed() {
    let _turn = TURN.lock().await;
    let children = Children::new("idle", "serve");
    let (every, bound) = (Duration::from_millis(200), Duration::from_secs(3));
    let probe = Probe { every: Some(every), within: bound, ..Policy::CHILD.probe };
    let managed = children.start(Policy { probe, ..eager() });
    within("ready", managed.ready(PATIENCE)).await.unwrap();
    let mut watcher = managed.transitions();
    until(&mut watcher, "ready").await;
    children.signal(Signal::STOP);
    let lost = until(&mut watcher, "disconnected").await;
    assert_eq!(lost.cause, Some(Cause::Silent(bound)));
    within("a call", managed.call_tool("add", &json!({ "n": 1 })).unwrap()).await.unwrap();
    assert_eq!((children.starts(), children.ran()), (2, HashMap::from([(1, 1)])));
    within("the close", managed.close("done")).await;
    children.gone().await;
}

/// F3, F4, F7, F8, S0-44: whatever the first child does, the next call that is made after it is served, and nothing
/// of either is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_children_are_survived() {
    let _turn = TURN.lock().await;
    let flood = "(i=0; while [ $i -lt 20000 ]; do echo 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'; i=$((i+1)); done) >&2; serve";
    let half = r#"first() { serve_one; serve_one; read -r line; printf '{"jsonrpc":"2.0","id":'; exit 3; }
serve_one() { read -r line; printf '%s\n' "$line" | serve; }
first"#;
    // Name, script of the first child, whether its call is lost, and how many children it takes.
    let rows = [
        ("banner", "echo 'Welcome to the server!'; echo; echo '* ready *'; serve", false, 1),
        ("flood", flood, false, 1),
        ("half", half, true, 2),
        ("mute death", "exit 7", false, 2),
        ("stubborn", "trap '' TERM; sleep 1000 & serve; while :; do sleep 1000; done", false, 1),
    ];
    for (name, script, lost, starts) in rows {
        let children = Children::new(&name.replace(' ', "-"), script);
        let managed = children.start(eager());
        let first = within(name, managed.call_tool("add", &json!({ "n": 1 })).unwrap()).await;
        match first {
            Ok(_) => assert!(!lost, "{name}"),
            Err(error) => {
                assert!(lost && error.may_have_executed(), "{name}: {error}");
                assert!(error.to_string().contains("exit status: 3"), "{name}: {error}");
            }
        }
        within(name, managed.call_tool("add", &json!({ "n": 2 })).unwrap()).await.unwrap();
        assert_eq!(children.starts(), starts, "{name}");
        within(&format!("closing after {name}"), managed.close("done")).await;
        assert_eq!(managed.condition(), Condition::CLOSED);
        children.gone().await;
    }
}

/// S2-40: who closes while a child is being reached that never greets finds nothing left of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_40_closing_while_connecting_leaves_no_process() {
    let _turn = TURN.lock().await;
    let children = Children::new("mute", "read -r line; echo 1 >> \"$RAN\"; exec sleep 1000");
    let managed = children.start(eager());
    within("the child's first line", async {
        while children.ran().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let begun = std::time::Instant::now();
    within("the close", managed.close("changed our mind")).await;
    assert!(begun.elapsed() < Limits::DEFAULT.open_timeout, "the attempt was told, not outwaited");
    assert_eq!(managed.condition(), Condition::CLOSED);
    let pid = children.pids.lock().unwrap()[0];
    assert_eq!(members(pid), Vec::<String>::new(), "nothing to wait for any more");
}

/// F31, S2-38: a program that is not there is told as such, at once and again after every attempt.
#[tokio::test]
async fn f31_a_missing_program_is_told() {
    let _turn = TURN.lock().await;
    let nowhere = way(|| {
        let spawn = Spawn::new("cardan-no-such-program");
        std::future::ready(spawn.spawn(&Limits::DEFAULT))
    });
    let managed = Managed::start(Client::builder("tests", "0"), nowhere, eager_twice());
    let error = within("the failure", managed.ready(PATIENCE)).await.unwrap_err();
    assert!(error.to_string().contains("cardan-no-such-program"), "{error}");
    assert_eq!(managed.condition(), Condition::Suspended { until: None });
    managed.close("done").await;
}

fn eager_twice() -> Policy {
    let policy = eager();
    Policy { backoff: Backoff { attempts: 2, ..policy.backoff }, ..policy }
}

/// S0-81, S2-44, S2-41: what a child writes that is no message is recorded with its rule and changes nothing; and closing
/// calls nothing, `shutdown` least of all: its stdin ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_41_closing_calls_nothing() {
    let _turn = TURN.lock().await;
    let script = r#"echo 'Welcome!'; echo '[1,'; echo '{"jsonrpc":"2.0"}'; tee "$RAN.said" | serve"#;
    let children = Children::new("said", script);
    let found = Arc::new(Mutex::new(Vec::new()));
    let findings = Arc::clone(&found);
    let connector = Client::builder("tests", "0").era(EraChoice::Legacy).observe(move |event| {
        if let Event::Found(finding) = event {
            findings.lock().unwrap().push(finding.rule);
        }
    });
    let managed = Managed::start(connector, Arc::clone(&children.way), eager());
    within("a call", managed.call_tool("add", &json!({ "n": 1 })).unwrap()).await.unwrap();
    within("the close", managed.close("done")).await;
    children.gone().await;
    assert_eq!((children.starts(), children.ran()), (1, HashMap::from([(1, 1)])));
    assert_eq!(found.lock().unwrap().len(), 3, "{found:?}");
    let said = children.ran.with_extension("said");
    let lines = std::fs::read_to_string(&said).unwrap();
    std::fs::remove_file(said).unwrap();
    let methods: Vec<_> = lines.lines().map(|line| line.split(r#""method":""#).nth(1).unwrap()).collect();
    let methods: Vec<_> = methods.iter().map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/call"]);
}
