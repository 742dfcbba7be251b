//! Work of the kinds that people have for the program, so that a build can learn from it what matters; see `cargo xtask
//! dist`. Nothing is measured.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;
use tokio::task::{JoinSet, LocalSet};

use crate::cli::{Home, Line};
use crate::harness::free;
use crate::raw::client::{Client, Echo, Way};

/// How long each crowd calls.
const LASTS: Duration = Duration::from_millis(1500);

/// How often each command is given.
const TIMES: usize = 10;

/// How long a server may take until it listens; a build that watches itself is slow.
const LISTENS: Duration = Duration::from_secs(30);

/// `alone`: where a build that watches itself puts what it saw of one call through the daemon.
pub(crate) fn run(program: &Path, alone: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let demo = program.display().to_string();
    for era in ["legacy", "modern"] {
        let bridge = ["bridge", "--sessions", "shared", "--era", era, "--", &demo, "demo"];
        serve(program, &bridge, &[Way::Streamable, Way::Modern], &runtime)?;
    }
    let all = [Way::Streamable, Way::Modern, Way::Events, Way::Socket];
    serve(program, &["bridge", "--", &demo, "demo"], &all, &runtime)?;
    serve(program, &["serve"], &all, &runtime)?;
    commands(program, alone)
}

/// Lets one client call, then a crowd, by each of these ways.
fn serve(program: &Path, words: &[&str], ways: &[Way], runtime: &Runtime) -> anyhow::Result<()> {
    let address = free()?;
    let listen = ["--listen", &address.to_string()];
    let child = Command::new(program)
        .args([&words[..1], &listen, &words[1..]].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start the program")?;
    let served = Served(child);
    let until = Instant::now() + LISTENS;
    while std::net::TcpStream::connect(address).is_err() {
        ensure!(Instant::now() < until, "{words:?} does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    for &way in ways {
        for clients in [1, 16] {
            let called = LocalSet::new().block_on(runtime, crowd(address, way, clients));
            called.with_context(|| format!("{words:?} by {way:?}"))?;
        }
    }
    served.end()
}

async fn crowd(address: SocketAddr, way: Way, clients: usize) -> anyhow::Result<()> {
    let mut calling = JoinSet::new();
    let (start, end) = (Instant::now(), Instant::now() + LASTS);
    for _ in 0..clients {
        calling.spawn_local(async move {
            Client::open(address, way).await?.load(Echo("message"), start, end).await.map(drop)
        });
    }
    while let Some(client) = calling.join_next().await {
        client.context("a client panicked")??;
    }
    Ok(())
}

/// A server, which is asked to end: one that is killed would have learned nothing.
struct Served(Child);

impl Served {
    fn end(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "the program did not end well: {status}");
        Ok(())
    }
}

/// It ends with us, whatever happened.
impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is typed at a terminal.
fn commands(program: &Path, alone: &Path) -> anyhow::Result<()> {
    let demo = program.display().to_string();
    let home = Home::new(program)?;
    let warm = home.line(&["call", "--daemon", "demo", "add", "a=1", "b=2"]);
    let lines = [
        Line::new(program, &["call", "add", "a=1", "b=2", "--", &demo, "demo"]),
        Line::new(program, &["list", "--", &demo, "demo"]),
        Line::new(program, &["info", "--", &demo, "demo"]),
        warm.clone(),
        home.line(&["list", "demo"]),
        home.line(&["servers", "--json"]),
    ];
    for _ in 0..TIMES {
        for line in &lines {
            line.run()?;
        }
    }
    warm.watched(alone).run().map(drop)
}
