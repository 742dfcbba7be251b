//! What the tests share: small servers, a client to reach them with, and a look at the process table.

#![allow(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]
#![allow(unreachable_pub, reason = "each test binary is a crate of its own")]
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::collections::VecDeque;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::{Config, EraChoice, Role};
use cardan_proto::session::event::{CallOptions, Cause, Event, Outcome};
use cardan_proto::session::state::State;
use cardan_runtime::driver::Driver;
use cardan_runtime::link::{Link, Received};
use cardan_runtime::peer::{CallHandle, Peer};
use cardan_runtime::service::Service;
use cardan_transport::child::ChildLink;
use cardan_transport::guard::Guard;
use cardan_transport::spawn::Spawn;
use cardan_transport::stderr::Stderr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::task::JoinHandle;

/// A shell that answers the handshake when it says `hello`, and then does what follows.
pub const HELLO_SH: &str = r#"
hello() {
  read -r line; id=${line#*\"id\":}; id=${id%%[,\}]*}
  echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}'
  read -r line
}
"#;

/// A Python server: `tools/call` runs the tool of that name, called with the arguments.
pub const SERVER_PY: &str = r#"
import sys, json, os, time, signal, subprocess
def send(message):
    sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
def serve(tools):
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message: continue
        if message["method"] == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "py", "version": "1"}}
        else:
            result = tools[message["params"]["name"]](message["params"].get("arguments", {}))
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})
def echo(arguments):
    return {"content": [], "structuredContent": arguments}
"#;

pub fn sh(script: &str) -> Spawn {
    Spawn::new("sh").args(["-c", &format!("{HELLO_SH}\n{script}")]).guard(Guard::Off)
}

/// The system's own Python where there is one: what a shim in `PATH` adds is not ours to test.
pub fn python3() -> &'static str {
    let own = "/usr/bin/python3";
    if std::path::Path::new(own).exists() { own } else { "python3" }
}

pub fn python(script: &str) -> Spawn {
    Spawn::new(python3()).args(["-S", "-c", &format!("{SERVER_PY}\n{script}")]).guard(Guard::Off)
}

pub fn config(role: Role, limits: &Limits) -> Arc<Config> {
    let identity = Bytes::from_static(br#"{"name":"t","version":"1"}"#);
    let mut config = Config::new(role, identity, Bytes::from_static(b"{}"));
    config.era = EraChoice::Legacy;
    config.limits = limits.clone();
    Arc::new(config)
}

/// Remembers what happens, and tells when calls flow.
#[derive(Default)]
pub struct Herald {
    pub ready: tokio::sync::Notify,
    pub events: Mutex<Vec<Event>>,
}

impl Service for Herald {
    fn event(&self, event: &Event) {
        self.events.lock().unwrap().push(event.clone());
        if matches!(event, Event::State(change) if change.to == State::Ready) {
            self.ready.notify_one();
        }
    }
}

/// A child, and a session with it.
pub struct Session {
    pub peer: Peer,
    pub driver: JoinHandle<Cause>,
    pub herald: Arc<Herald>,
    pub pid: u32,
    pub stderr: Stderr,
}

/// Starts a child and the session, without waiting for it to open.
pub fn start(spawn: &Spawn, limits: &Limits) -> Session {
    let link = spawn.spawn(limits).expect("the child starts");
    let (pid, stderr) = (link.id().expect("it runs"), link.stderr());
    let herald = Arc::new(Herald::default());
    let (driver, peer) = Driver::new(link, Arc::clone(&herald), config(Role::Client, limits));
    Session { peer, driver: tokio::spawn(driver), herald, pid, stderr }
}

/// Starts a child and waits until calls flow.
pub async fn connect(spawn: &Spawn, limits: &Limits) -> Session {
    let session = start(spawn, limits);
    within(10, "the handshake", session.herald.ready.notified()).await;
    session
}

impl Session {
    pub fn call(&self, tool: &str, arguments: &str) -> CallHandle {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        self.peer.call(Method::ToolsCall, Some(params.into()), CallOptions::default())
    }

    /// Closes, and waits for the end.
    pub async fn close(self) -> (Cause, Duration) {
        let start = Instant::now();
        self.peer.close("done");
        let cause = within(10, "the close", self.driver).await.unwrap();
        (cause, start.elapsed())
    }
}

/// The result of a call, as JSON.
pub fn result(outcome: Outcome) -> serde_json::Value {
    let Outcome::Done(result) = outcome else { panic!("no result: {outcome:?}") };
    serde_json::from_slice(&result).expect("a result is JSON")
}

pub async fn within<T>(seconds: u64, what: &str, future: impl Future<Output = T>) -> T {
    let bound = Duration::from_secs(seconds);
    tokio::time::timeout(bound, future).await.unwrap_or_else(|_| panic!("{what} took over {seconds} s"))
}

pub async fn recv(link: &mut impl Link) -> Received {
    within(10, "a frame", std::future::poll_fn(|cx| link.poll_recv(cx))).await
}

/// The next message, as JSON.
pub async fn frame(link: &mut impl Link) -> serde_json::Value {
    match recv(link).await {
        Received::Frame { bytes, .. } => serde_json::from_slice(&bytes).expect("JSON"),
        other => panic!("no frame: {other:?}"),
    }
}

pub async fn explain(link: &mut ChildLink, cause: Cause) -> Cause {
    within(10, "an explanation", std::future::poll_fn(|cx| link.poll_explain(cx, &cause))).await
}

/// Closes the link; how long it took.
pub async fn close(link: &mut impl Link) -> Duration {
    let start = Instant::now();
    let cause = Cause::ClosedByUs("done".into());
    within(10, "the close", std::future::poll_fn(|cx| link.poll_close(cx, &cause))).await;
    start.elapsed()
}

/// One process, from its line in the process table.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    pub command: String,
}

/// All that live; zombies do not.
pub fn processes() -> Vec<Process> {
    let ids = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(process).collect()
}

fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields: VecDeque<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let state = fields.pop_front()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?.replace('\0', " ");
    Some(Process { pid, parent: fields[0].parse().ok()?, group: fields[1].parse().ok()?, command })
}

pub fn members(group: u32) -> Vec<Process> {
    processes().into_iter().filter(|process| process.group == group).collect()
}

/// Waits until nothing of the group lives.
pub async fn group_gone(group: u32, bound: Duration) {
    let gone = async {
        while let Some(process) = members(group).first() {
            ended(process.pid).await;
        }
    };
    let gone = tokio::time::timeout(bound, gone).await;
    assert!(gone.is_ok(), "still there after {bound:?}: {:?}", members(group));
}

/// Waits for the end of any process, a child of ours or not.
pub async fn ended(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // One that is gone already cannot be opened.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    loop {
        let process = process.try_clone().unwrap();
        // In short waits, so that a test that gives up is not held by this thread.
        let short = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let wait = move || poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&short));
        if tokio::task::spawn_blocking(wait).await.unwrap() != Ok(0) {
            return;
        }
    }
}

pub fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).expect("it is there to be killed");
}

/// Our peak of resident memory since the last [`forget_peak`], in bytes.
pub fn peak_bytes() -> usize {
    status_bytes("VmHWM:")
}

pub fn resident_bytes() -> usize {
    status_bytes("VmRSS:")
}

pub fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
}

fn status_bytes(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}
