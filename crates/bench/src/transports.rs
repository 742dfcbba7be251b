//! The same echo over WebSocket and old HTTP+SSE, beside Streamable HTTP of the legacy era: one server, one load
//! generator, in turns.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::task::{JoinSet, LocalSet};

use crate::Figure;
use crate::harness::{free, median};
use crate::raw::client::{Client, Echo, Way};

/// Rounds of each transport, taken in turns.
const ROUNDS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(200);
const MEASURED: Duration = Duration::from_millis(800);

/// What a call may cost the server, to a call over Streamable HTTP. A WebSocket has no heads to read and write. The
/// old transport makes two answers of each call, the 202 and the event, on two connections.
const SOCKET_CPU: f64 = 1.0;
const EVENTS_CPU: f64 = 2.0;

/// What one run showed.
struct Sample {
    calls_per_second: f64,
    cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
}

pub(crate) fn figures(echo: &str) -> anyhow::Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    pin(None, 1);
    let server = Server::start(echo)?;
    let mut figures = Vec::new();
    for sessions in [1, 16, 64] {
        let ways = [Way::Streamable, Way::Events, Way::Socket];
        let mut samples = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (way, samples) in ways.into_iter().zip(&mut samples) {
                samples.push(LocalSet::new().block_on(&runtime, sample(&server, way, sessions))?);
            }
        }
        let [streamable, events, socket] = &samples;
        let old = format!("old HTTP+SSE echo at {sessions} sessions");
        figures.extend(compare(&old, events, streamable, EVENTS_CPU));
        let ws = format!("WebSocket echo at {sessions} sessions");
        figures.extend(compare(&ws, socket, streamable, SOCKET_CPU));
    }
    unpin();
    Ok(figures)
}

/// Medians of one way to those of Streamable HTTP.
fn compare(what: &str, ours: &[Sample], base: &[Sample], cpu_budget: f64) -> Vec<Figure> {
    let of = |samples: &[Sample], figure: fn(&Sample) -> f64| median(samples.iter().map(figure).collect());
    let row = |name: &str, unit: &str, figure: fn(&Sample) -> f64, budget: Option<f64>| {
        let (our, base) = (of(ours, figure), of(base, figure));
        let what = format!("{what}: {name} to legacy Streamable HTTP ({our:.1} to {base:.1} {unit})");
        Figure::new(what, our / base, "times", budget)
    };
    vec![
        row("CPU", "us", |sample| sample.cpu_us, Some(cpu_budget)),
        row("calls", "per s", |sample| sample.calls_per_second, None),
        row("p50", "us", |sample| sample.p50_us, None),
        row("p99", "us", |sample| sample.p99_us, None),
    ]
}

async fn sample(server: &Server, way: Way, sessions: usize) -> anyhow::Result<Sample> {
    let mut open = Vec::new();
    for _ in 0..sessions {
        open.push(Client::open(server.address, way).await?);
    }
    let mut clients = JoinSet::new();
    let start = Instant::now() + WARM_UP;
    for client in open {
        clients.spawn_local(client.load(Echo("text"), start, start + MEASURED));
    }
    tokio::time::sleep_until(start.into()).await;
    let before = server.cpu()?;
    let mut latencies = Vec::new();
    while let Some(client) = clients.join_next().await {
        latencies.extend(client.context("a client panicked")??);
    }
    let spent = server.cpu()? - before;
    latencies.sort_unstable();
    ensure!(!latencies.is_empty(), "no call was answered in time");
    let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    Ok(Sample {
        calls_per_second: latencies.len() as f64 / MEASURED.as_secs_f64(),
        cpu_us: spent.as_secs_f64() * 1e6 / latencies.len() as f64,
        p50_us: at(50),
        p99_us: at(99),
    })
}

/// The echo server, on a processor of its own.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(echo: &str) -> anyhow::Result<Self> {
        let address = free()?;
        let child = Command::new(echo).arg(address.to_string()).stdin(Stdio::null()).spawn()?;
        pin(Some(child.id()), 0);
        let server = Self { child, address };
        let deadline = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(address).is_err() {
            ensure!(Instant::now() < deadline, "the echo server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// The time that it has had a processor, kernel included.
    fn cpu(&self) -> anyhow::Result<Duration> {
        let mut spent = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let stat = fs::read_to_string(task?.path().join("schedstat"))?;
            spent += stat.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(spent))
    }
}

/// It ends with us, whatever happened.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps a process on one processor; nothing: us. Where that cannot be, the figures are noisier and no less true.
fn pin(process: Option<u32>, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let process = process.and_then(|id| rustix::process::Pid::from_raw(id.try_into().ok()?));
    let _ = sched_setaffinity(process, &set);
}

fn unpin() {
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    let _ = sched_setaffinity(None, &set);
}
