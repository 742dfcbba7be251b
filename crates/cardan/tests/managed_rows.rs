//! What is promised of kept connections, row by row, against servers that nobody here wrote: the reference server of
//! the field and one on the Python SDK, as children and over HTTP.
//!
//! The peers are installed by `cargo xtask test`; without them each test says that it was skipped, and
//! fails where `CARDAN_PEERS=required`.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;
#[path = "../../endpoint/tests/faults/proxy.rs"]
mod proxy;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cardan::client::{Call, CallError, Client, Managed, way};
use cardan::proto::era::{Revision, Revisions};
use cardan::proto::limits::Limits;
use cardan::proto::model::{CallToolResult, LogLevel};
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::{CallOptions, Cause, Change, Event, Interest, Wanted};
use cardan::proto::session::state::FiveStates;
use cardan::proto::upkeep::condition::Condition;
use cardan::proto::upkeep::policy::{Backoff, Burst, Policy};
use cardan::transport::spawn::Spawn;
use cardan_dial::Http;
use common::keeping::{Carried, PATIENCE, peer, until, within};
use proxy::{Cut, Fault, Proxy, Way};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// A server that can be killed and started again.
struct Peer {
    name: &'static str,
    carried: Carried,
    command: Vec<PathBuf>,
    /// Children of ours that were started, or the one that serves HTTP.
    pids: Arc<Mutex<Vec<u32>>>,
    serving: Mutex<Option<Child>>,
    url: Arc<Mutex<String>>,
    /// One permit for each call that the server says on stderr to have given up.
    cancels: Arc<Semaphore>,
}

impl Peer {
    /// The peer, or nothing when it is not installed.
    fn find(name: &'static str, carried: Carried) -> Option<Self> {
        let command = peer(name, carried)?;
        let (pids, serving, url) = (Arc::default(), Mutex::default(), Arc::default());
        let peer = Self { name, carried, command, pids, serving, url, cancels: Arc::new(Semaphore::new(0)) };
        peer.start();
        Some(peer)
    }

    /// Starts what serves HTTP; children are started by who dials them.
    fn start(&self) {
        if self.carried == Carried::Child {
            return;
        }
        let served = loop {
            // Whoever takes this port meanwhile makes the server give up; then it is another one.
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = Command::new(&self.command[0]);
            command.args(&self.command[1..]).env("PORT", port.to_string()).stdin(Stdio::null());
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let line = match self.name {
                "python-v1" => {
                    let (said, cancels) = (child.stderr.take().unwrap(), Arc::clone(&self.cancels));
                    std::thread::spawn(move || {
                        BufReader::new(said)
                            .lines()
                            .map_while(Result::ok)
                            .for_each(|line| count(&line, &cancels));
                    });
                    first_line(child.stdout.take().unwrap(), "http://")
                }
                _ => first_line(child.stderr.take().unwrap(), "listening"),
            };
            let Some(line) = line else {
                let _ = child.wait();
                continue;
            };
            let url = match self.name {
                "python-v1" => line.trim().to_owned(),
                _ => format!("http://127.0.0.1:{port}/mcp"),
            };
            break (child, url);
        };
        self.pids.lock().unwrap().push(served.0.id());
        *self.url.lock().unwrap() = served.1;
        *self.serving.lock().unwrap() = Some(served.0);
    }

    fn way(&self) -> Arc<dyn cardan::client::Way> {
        let (pids, url, command) = (Arc::clone(&self.pids), Arc::clone(&self.url), self.command.clone());
        let cancels = Arc::clone(&self.cancels);
        match self.carried {
            Carried::Http => way(move || {
                let http = Http::new(&url.lock().unwrap()).map(|http| http.limits(&impatient()));
                std::future::ready(http.and_then(|http| http.link()))
            }),
            Carried::Child => way(move || {
                let cancels = Arc::clone(&cancels);
                let spawn = Spawn::new(&command[0]).args(&command[1..]);
                let link = spawn.on_stderr(move |line| count(line, &cancels)).spawn(&Limits::DEFAULT);
                pids.lock().unwrap().extend(link.as_ref().ok().and_then(|link| link.id()));
                std::future::ready(link)
            }),
        }
    }

    fn keep(&self) -> Managed {
        let short = Duration::from_millis(50);
        let policy = Policy {
            backoff: Backoff { min: short, max: short, attempts: u32::MAX },
            burst: Burst { restarts: u32::MAX, within: short },
            ..Policy::CHILD
        };
        Managed::start(Client::builder("cardan-tests", "0"), self.way(), policy)
    }

    /// The server dies without a word.
    fn kill(&self) {
        let pid = *self.pids.lock().unwrap().last().unwrap();
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        if let Some(mut child) = self.serving.lock().unwrap().take() {
            let _ = child.wait();
        }
    }

    /// A call that runs until it is killed or cancelled, and has told that it does.
    async fn running(&self, managed: &Managed) -> Call<CallToolResult> {
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let (tool, arguments) = self.long();
        let mut call = managed.call_tool_with(tool, &arguments, options).unwrap();
        assert!(within("its progress", call.progress()).await.is_some(), "{}", self.name);
        call
    }

    /// Waits until the server has given up one more call. The reference server does not say so.
    async fn gave_up(&self) {
        if self.name == "python-v1" {
            within("the server to give it up", self.cancels.acquire()).await.unwrap().forget();
        }
    }

    /// Has the server tell of a change of a resource, and something for the log.
    async fn tell(&self, managed: &Managed, uri: &str) {
        let tools = match self.name {
            "python-v1" => [
                ("change", json!({ "what": uri })),
                ("note", json!({ "level": "warning", "message": "told" })),
            ],
            _ => ["toggle-subscriber-updates", "toggle-simulated-logging"].map(|tool| (tool, json!({}))),
        };
        for (tool, arguments) in tools {
            within(tool, managed.call_tool(tool, &arguments).unwrap()).await.unwrap();
        }
    }

    fn long(&self) -> (&'static str, Value) {
        match self.name {
            "python-v1" => ("slow", json!({ "steps": 100_000, "delay_ms": 10 })),
            _ => ("trigger-long-running-operation", json!({ "duration": 1000, "steps": 10_000 })),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(mut child) = self.serving.lock().unwrap().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn count(line: &str, cancels: &Semaphore) {
    if line.trim() == "cancelled" {
        cancels.add_permits(1);
    }
}

/// The first line that says so; nothing: it ended without.
fn first_line(from: impl std::io::Read + Send + 'static, wanted: &str) -> Option<String> {
    let mut lines = BufReader::new(from).lines();
    let found = lines.by_ref().map_while(Result::ok).find(|line| line.contains(wanted));
    // Nobody blocks on what it says later.
    std::thread::spawn(move || lines.for_each(drop));
    found
}

/// A broken stream is taken up again a few times before its call counts as lost.
fn impatient() -> Limits {
    Limits { reconnects: 2, reconnect_wait_min: Duration::from_millis(20), ..Limits::DEFAULT }
}

/// Each that is installed.
fn peers() -> impl Iterator<Item = Peer> {
    let all = ["node-everything", "python-v1"].map(|name| [(name, Carried::Child), (name, Carried::Http)]);
    all.into_iter().flatten().filter_map(|(name, carried)| Peer::find(name, carried))
}

async fn echo(managed: &Managed) {
    within("an echo", managed.call_tool("echo", &json!({ "message": "joint" })).unwrap()).await.unwrap();
}

/// Whether a process lives, or waits for its parent to look.
fn lives(pid: u32) -> bool {
    test_kill_process(Pid::from_raw(pid.cast_signed()).unwrap()).is_ok()
}

/// S2-34, S2-35, S2-36, S2-37: the way to ready and to the end, each step legal and told in order; ready comes
/// with what was settled. S2-46: closed by us is told as that, and final.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_37_every_step_to_ready_and_back_is_told() {
    for peer in peers() {
        let managed = peer.keep();
        within("ready", managed.ready(PATIENCE)).await.unwrap();
        assert!(managed.server().is_some_and(|server| server.implementation.is_some()), "{}", peer.name);
        echo(&managed).await;
        let starts = peer.pids.lock().unwrap().len();
        within("the close", managed.close("enough")).await;
        managed.reconnect();
        let mut watcher = managed.transitions();
        let told: Vec<_> = std::iter::from_fn(|| watcher.try_next()).collect();
        let mut before = Condition::DISCONNECTED;
        for step in &told {
            assert_eq!(step.from, before);
            assert!(step.from.may_become(step.to) && step.attempt == 0, "{step:?}");
            before = step.to;
        }
        assert!(told.is_sorted_by_key(|step| step.at));
        let mut five: Vec<_> = told.iter().map(|step| step.to.projected()).collect();
        five.dedup();
        use FiveStates::{Connecting, Disconnected, Disconnecting, Initializing, Ready};
        assert_eq!(five, [Connecting, Initializing, Ready, Disconnecting, Disconnected], "{}", peer.name);
        assert!(told.iter().any(|step| step.cause == Some(Cause::ClosedByUs("enough".into()))), "{told:?}");
        assert_eq!((managed.condition(), peer.pids.lock().unwrap().len()), (Condition::CLOSED, starts));
        if peer.carried == Carried::Child {
            assert!(!lives(peer.pids.lock().unwrap()[starts - 1]), "{} is left over", peer.name);
        }
    }
}

/// S2-39: the revision is the one that was offered, and checked: a server that has only others is left with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_39_the_revision_is_one_that_was_offered() {
    for peer in peers() {
        for offered in ["2024-11-05", "2025-06-18"].map(|date| Revision::parse(date).unwrap()) {
            let connector = Client::builder("cardan-tests", "0").era(EraChoice::Legacy);
            let connector = connector.revisions(Revisions::only(offered));
            let managed = Managed::start(connector, peer.way(), Policy::CHILD);
            let settled = within("ready", managed.ready(PATIENCE)).await.unwrap();
            assert_eq!(settled.revision, offered, "{} {:?}", peer.name, peer.carried);
            within("the close", managed.close("done")).await;
        }
        // Neither has the newest era, and no other is offered.
        let connector = Client::builder("cardan-tests", "0").era(EraChoice::Modern);
        let policy = Policy { backoff: Backoff { attempts: 0, ..Policy::CHILD.backoff }, ..Policy::CHILD };
        let managed = Managed::start(connector, peer.way(), policy);
        let error = within("the refusal", managed.ready(PATIENCE)).await.unwrap_err();
        assert_eq!(managed.condition(), Condition::Suspended { until: None }, "{}", peer.name);
        assert!(!error.may_have_executed() && managed.settled().is_none(), "{}: {error}", peer.name);
        within("the close", managed.close("done")).await;
        if peer.carried == Carried::Child {
            assert!(!peer.pids.lock().unwrap().iter().any(|pid| lives(*pid)), "{} is left over", peer.name);
        }
    }
}

/// S0-8, S0-44, S0-45, S0-73, S0-74, S0-76, S0-77, S0-82, S2-38, S2-42, S2-43: killed with a call in flight: the call is
/// lost, said to be so at once and not sent again; the next link is a new one, counted when it begins, and serves
/// what was called meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s0_74_a_killed_server_comes_back() {
    for peer in peers() {
        let managed = peer.keep();
        within("ready", managed.ready(PATIENCE)).await.unwrap();
        let mut watcher = managed.transitions();
        until(&mut watcher, "ready").await;
        let running = peer.running(&managed).await;
        peer.kill();
        let error = within("the loss", running).await.unwrap_err();
        assert!(
            error.may_have_executed() && matches!(error, CallError::Lost { .. }),
            "{}: {error}",
            peer.name
        );
        let lost = until(&mut watcher, "disconnected").await;
        match peer.carried {
            Carried::Child => {
                assert!(error.to_string().contains("signal: 9"), "{error}");
                assert!(matches!(lost.cause, Some(Cause::Exited { .. })), "{lost:?}");
            }
            Carried::Http => assert!(lost.cause.is_some(), "{lost:?}"),
        }
        let waiting = until(&mut watcher, "reconnecting (attempt 1)").await;
        assert_eq!(waiting.attempt, 0, "it has not begun");
        let meanwhile =
            tokio::spawn(managed.call_tool("echo", &json!({ "message": "m" })).unwrap().into_future());
        peer.start();
        let back = until(&mut watcher, "ready").await;
        assert!(back.attempt >= 1, "{back:?}");
        within("what was called meanwhile", meanwhile).await.unwrap().unwrap();
        assert_eq!(peer.pids.lock().unwrap().len(), 2, "{}", peer.name);
        within("the close", managed.close("done")).await;
    }
}

/// S0-9, S0-75, S2-45: what the server tells unasked reaches who listens and the default watchers, on the first link
/// and on the next, where the listen and the log level are in force again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_45_listens_and_notes_survive_a_kill() {
    for peer in peers() {
        let carried = peer.carried;
        let managed = peer.keep();
        within("ready", managed.ready(PATIENCE)).await.unwrap();
        managed.set_level(LogLevel::Debug);
        let uri = within("the resources", managed.all_resources()).await.unwrap()[0].uri.clone();
        let mut listen = managed.listen(Interest { uris: vec![uri.as_str().into()], ..Interest::default() });
        within("the listen", listen.ready()).await.unwrap();
        let change = Change::Resource(uri.as_str().into());
        for round in 1..=2 {
            let mut notes = managed.notes();
            while notes.try_next().is_some() {}
            let (mut changed, mut logged, mut told) = (false, false, false);
            within("both notes", async {
                while !(changed && logged) {
                    // The reference server goes on telling; the other one forgets what it tells before its push lane is there.
                    if !std::mem::replace(&mut told, peer.name != "python-v1") {
                        peer.tell(&managed, uri.as_str()).await;
                    }
                    match tokio::time::timeout(Duration::from_secs(1), notes.next()).await {
                        Ok(Some(Event::Changed { change: heard, .. })) => changed |= heard == change,
                        Ok(Some(Event::Logged { .. })) => logged = true,
                        Ok(None) => panic!("it is kept"),
                        Ok(_) | Err(_) => {}
                    }
                }
            })
            .await;
            assert_eq!(within("the change", listen.next()).await, Some(change.clone()));
            if round == 1 {
                let mut watcher = managed.transitions();
                while watcher.try_next().is_some() {}
                peer.kill();
                // Over HTTP a broken lane is taken up again before the link is given up; a call shows it.
                let pinging = managed.clone();
                let ping = tokio::spawn(async move { pinging.ping().await });
                until(&mut watcher, "disconnected").await;
                peer.start();
                until(&mut watcher, "ready").await;
                within("the ping", ping).await.unwrap().unwrap();
                assert_eq!(
                    within("what was missed", listen.next()).await,
                    Some(change.clone()),
                    "{carried:?}"
                );
            }
        }
        within("the close", managed.close("done")).await;
    }
}

/// S0-86, S0-87, S0-77: a deadline and a cancel end a call that the server would go on with, on time, the server hears
/// of both, and the connection serves on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s0_86_deadlines_and_cancels_end_calls_on_time() {
    for peer in peers() {
        let managed = peer.keep();
        within("ready", managed.ready(PATIENCE)).await.unwrap();
        let (tool, arguments) = peer.long();
        let total = Duration::from_millis(300);
        let options = CallOptions { total: Some(total), ..CallOptions::default() };
        let begun = Instant::now();
        let late = within("the deadline", managed.call_tool_with(tool, &arguments, options).unwrap()).await;
        assert!(matches!(late, Err(CallError::TimedOut { .. })), "{}: {late:?}", peer.name);
        assert!(begun.elapsed() >= total, "{:?}", begun.elapsed());
        peer.gave_up().await;
        echo(&managed).await;
        let running = peer.running(&managed).await;
        running.cancel("changed our mind");
        let error = within("the cancel", running).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Cancelled { reason, .. } if reason == "changed our mind"),
            "{error}"
        );
        peer.gave_up().await;
        echo(&managed).await;
        assert_eq!(managed.condition(), Condition::READY, "{}", peer.name);
        within("the close", managed.close("done")).await;
    }
}

/// A proxy before a peer that serves HTTP, and a connection that is kept through it.
async fn through(peer: &Peer) -> (Proxy, Managed) {
    let url = peer.url.lock().unwrap().clone();
    let target = url.trim_start_matches("http://").trim_end_matches("/mcp").parse().unwrap();
    let proxy = Proxy::before(target).await;
    *peer.url.lock().unwrap() = format!("http://{}/mcp", proxy.address);
    let managed = peer.keep();
    within("ready", managed.ready(PATIENCE)).await.unwrap();
    (proxy, managed)
}

/// S0-85: a stream that ends before its reply, from a server that gives its events no ids: the call is lost and said to be,
/// since nobody knows whether it ran. The connection serves on. `interop_faults` of `dial` has the one with ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s0_85_a_stream_that_ends_loses_its_call_alone() {
    let Some(peer) = Peer::find("python-v1", Carried::Http) else { return };
    let (proxy, managed) = through(&peer).await;
    let running = peer.running(&managed).await;
    proxy.arm(Some(Cut { way: Way::Down, after: 1, fault: Fault::Close }));
    let error = within("the loss", running).await.unwrap_err();
    assert!(matches!(error, CallError::Lost { .. }) && error.may_have_executed(), "{error:?}");
    echo(&managed).await;
    within("the close", managed.close("done")).await;
}

/// Breaks the JSON of replies, on their way to us.
fn spoil(way: Way, bytes: &mut [u8]) {
    let marked = br#""result":{"#;
    let at = bytes.windows(marked.len()).position(|part| part == marked);
    if let (Way::Down, Some(at)) = (way, at) {
        bytes[at + marked.len() - 1] = b'}';
    }
}

/// S0-84: a reply that is no JSON, from servers that nobody here wrote: the call ends with it, says what is wrong and that
/// it may have been carried out, and nobody waits for a deadline. The connection serves on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s0_84_a_broken_reply_ends_its_call_alone() {
    for name in ["node-everything", "python-v1"] {
        let Some(peer) = Peer::find(name, Carried::Http) else { return };
        let (proxy, managed) = through(&peer).await;
        proxy.rewrite(spoil);
        let never = CallOptions { idle: Some(Duration::ZERO), ..CallOptions::default() };
        let call = managed.call_tool_with("echo", &json!({ "message": "m" }), never).unwrap();
        let error = within("the end", call).await.unwrap_err();
        assert!(matches!(error, CallError::Violated(_)) && error.may_have_executed(), "{name}: {error:?}");
        proxy.rewrite(|_, _| ());
        echo(&managed).await;
        within("the close", managed.close("done")).await;
    }
}

/// S0-77, S0-83, S2-38, S2-42: a port that nobody serves, and a path that the server does not know: told at once with
/// the reason, tried as often as the policy says, then left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_38_a_server_that_is_not_there_is_told() {
    for name in ["node-everything", "python-v1"] {
        let Some(peer) = Peer::find(name, Carried::Http) else { return };
        let url = peer.url.lock().unwrap().clone();
        for (there, says) in [(true, "404"), (false, "refused")] {
            if !there {
                peer.kill();
            }
            *peer.url.lock().unwrap() = url.replace("/mcp", if there { "/nothing" } else { "/mcp" });
            let short = Duration::from_millis(10);
            let backoff = Backoff { min: short, max: short, attempts: 2 };
            let policy = Policy { backoff, ..Policy::CHILD };
            let managed = Managed::start(Client::builder("cardan-tests", "0"), peer.way(), policy);
            let error = within("the failure", managed.ready(PATIENCE)).await.unwrap_err();
            assert!(error.to_string().contains(says), "{name}: {error}");
            assert_eq!(managed.condition(), Condition::Suspended { until: None }, "{name}");
            let call = managed.call_tool("echo", &json!({ "message": "m" })).unwrap();
            let error = within("a call", call).await.unwrap_err();
            assert!(!error.may_have_executed(), "{name}: {error}");
            let mut watcher = managed.transitions();
            let told: Vec<_> = std::iter::from_fn(|| watcher.try_next()).collect();
            let dials = told.iter().filter(|step| step.to == Condition::CONNECTING).count();
            let failures = told.iter().filter(|step| step.to == Condition::DISCONNECTED);
            assert!(failures.clone().all(|step| step.cause.is_some()), "{told:?}");
            assert_eq!((dials, failures.count()), (3, 3), "{told:?}");
            within("the close", managed.close("done")).await;
        }
    }
}

/// S2-40: a close while a server is being reached leaves nothing of it, wherever it comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s2_40_a_close_while_connecting_leaves_nothing() {
    for peer in peers() {
        for step in ["connecting", "initializing"] {
            let before = peer.pids.lock().unwrap().len();
            let managed = peer.keep();
            let mut watcher = managed.transitions();
            until(&mut watcher, step).await;
            within("the close", managed.close("changed our mind")).await;
            assert_eq!(managed.condition(), Condition::CLOSED);
            let started = peer.pids.lock().unwrap()[before..].to_vec();
            assert!(started.len() <= 1 && !started.into_iter().any(lives), "{} {step}", peer.name);
        }
        // One that serves others goes on doing so.
        let managed = peer.keep();
        within("ready", managed.ready(PATIENCE)).await.unwrap();
        echo(&managed).await;
        within("the close", managed.close("done")).await;
    }
}
