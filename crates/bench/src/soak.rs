//! A crowd of clients against one server in a process of its own: every call is answered once and to whom it
//! belongs, however clients break off, and when all have left nothing of them is left.
//!
//! `cargo xtask soak [--sessions N] [--seconds S] [--calls N] [--seed N]`

mod cast;
mod events;
mod ledger;
mod legacy;
mod modern;
mod process;
mod server;
mod socket;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cardan_sim::rng::Rng;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

use self::cast::Client;
use self::ledger::{Kind, Ledger};
use self::process::{Process, Rest};

pub(crate) use self::server::serve;

/// How long an answer may take before it counts as lost: far more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the server may keep after a round beyond what it kept after the first, of which allocators keep pages.
const KEPT_KIB: u64 = 8 << 10;
/// The same as a part of what it kept after the first.
const KEPT_PERCENT: u64 = 10;

/// How much there is to do.
#[derive(Debug, Clone, Copy)]
struct Plan {
    sessions: u64,
    seconds: u64,
    calls: u64,
    seed: u64,
}

impl Plan {
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut plan = Self { sessions: 2000, seconds: 60, calls: 100_000, seed: 1 };
        while let Some(word) = words.next() {
            let value = words.next().with_context(|| format!("{word} needs a number"))?;
            let value = value.parse().with_context(|| format!("{word} needs a number, not {value}"))?;
            match &*word {
                "--sessions" => plan.sessions = value,
                "--seconds" => plan.seconds = value,
                "--calls" => plan.calls = value,
                "--seed" => plan.seed = value,
                _ => bail!("unknown option {word}; there are: --sessions, --seconds, --calls, --seed"),
            }
        }
        Ok(plan)
    }

    /// Between two deeds of a client, on average. A connection that is idle for long is closed by the server, and
    /// rightly.
    fn pause(self) -> Duration {
        let pause = self.sessions * self.seconds * 800 / self.calls.max(1);
        Duration::from_millis(pause.min(5000))
    }

    /// How many clients are of one kind.
    fn share(self, kind: Kind) -> u64 {
        let kinds = Kind::ALL.len() as u64;
        (self.sessions + kinds - 1 - kind as u64) / kinds
    }

    /// The first round: as many clients, a sixth of the time.
    fn warm_up(self) -> Self {
        let seed = self.seed ^ u64::MAX;
        Self { seconds: (self.seconds / 6).max(1), calls: self.calls / 6, seed, ..self }
    }
}

/// Runs the rounds and says what happened.
pub(crate) fn run(words: impl Iterator<Item = String>) -> anyhow::Result<ExitCode> {
    let plan = Plan::parse(words)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut server = Process::start()?;
    let cold = server.rest()?;
    let warm_up = Arc::new(Ledger::default());
    let local = LocalSet::new();
    local.block_on(&runtime, round(plan.warm_up(), &mut server, &warm_up))?;
    // What a server keeps for good, it keeps from the first round on: its table, the pages of its allocator.
    let warm =
        server.settle(|rest| rest.is_empty() && rest.fds == cold.fds && rest.threads == cold.threads)?;
    let ledger = Arc::new(Ledger::default());
    let start = Instant::now();
    local.block_on(&runtime, round(plan, &mut server, &ledger))?;
    let lasted = start.elapsed();
    let bound = warm.rss_kib + KEPT_KIB.max(warm.rss_kib * KEPT_PERCENT / 100);
    let left = server.settle(|rest| {
        rest.is_empty()
            && (rest.fds, rest.threads, rest.tasks) == (warm.fds, warm.threads, warm.tasks)
            && rest.rss_kib <= bound
    })?;
    println!("seed {}: {} sessions at once, {:.1} s\n", plan.seed, ledger.peak(), lasted.as_secs_f64());
    ledger.print();
    print_rest(cold, warm, left, bound);
    let mut violations = warm_up.violations();
    violations.extend(ledger.violations());
    violations.extend(remains(cold, warm, left, bound));
    if ledger.calls() < plan.calls {
        violations.push(format!("{} calls were made, {} were to be", ledger.calls(), plan.calls));
    }
    for violation in &violations {
        println!("violated: {violation}");
    }
    println!("{} calls, {} violations", ledger.calls(), violations.len());
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One round: all clients come, call for a while, and leave.
async fn round(plan: Plan, server: &mut Process, ledger: &Arc<Ledger>) -> anyhow::Result<()> {
    let (go, told) = watch::channel(None);
    let mut clients = JoinSet::new();
    for number in 0..plan.sessions {
        let mut seeds = Rng::seeded(plan.seed.wrapping_add(number << 32));
        let client = Client {
            name: format!("{:x}-{number}", plan.seed),
            address: server.address,
            rng: Rng::seeded(seeds.number()),
            ledger: Arc::clone(ledger),
            go: told.clone(),
            pause: plan.pause(),
            calls: plan.calls,
        };
        match Kind::ALL[number as usize % Kind::ALL.len()] {
            Kind::Legacy => clients.spawn_local(client.play::<legacy::Legacy>()),
            Kind::Modern => clients.spawn_local(client.play::<modern::Modern>()),
            Kind::Events => clients.spawn_local(client.play::<events::Old>()),
            Kind::Socket => clients.spawn_local(client.play::<socket::Ws>()),
        };
    }
    // The clock starts when everyone is there, and the server must know them all.
    tokio::time::timeout(PATIENCE, ledger.all_open(plan.sessions))
        .await
        .context("not all sessions opened")?;
    let rest = server.rest()?;
    let known = (rest.sessions, rest.streams, rest.sockets);
    let here = (plan.share(Kind::Legacy), plan.share(Kind::Events), plan.share(Kind::Socket));
    if known != here {
        ledger.violated(format!("the server knows {known:?} sessions, streams and WebSockets, not {here:?}"));
    }
    go.send_replace(Some(Instant::now() + Duration::from_secs(plan.seconds)));
    while let Some(client) = clients.join_next().await {
        client.context("a client panicked")?;
    }
    Ok(())
}

fn print_rest(cold: Rest, warm: Rest, left: Rest, bound: u64) {
    println!("| the server | before | after the first round | at the end | bound |");
    println!("|---|--:|--:|--:|--:|");
    println!("| memory, KiB | {} | {} | {} | {bound} |", cold.rss_kib, warm.rss_kib, left.rss_kib);
    println!("| file descriptors | {} | {} | {} | {} |", cold.fds, warm.fds, left.fds, cold.fds);
    println!("| threads | {} | {} | {} | {} |", cold.threads, warm.threads, left.threads, cold.threads);
    println!("| tasks | {} | {} | {} | {} |", cold.tasks, warm.tasks, left.tasks, warm.tasks);
    println!("| legacy sessions | {} | {} | {} | 0 |", cold.sessions, warm.sessions, left.sessions);
    println!("| streams | {} | {} | {} | 0 |", cold.streams, warm.streams, left.streams);
    println!("| WebSockets | {} | {} | {} | 0 |", cold.sockets, warm.sockets, left.sockets);
    println!();
}

/// What should not be there any more.
fn remains(cold: Rest, warm: Rest, left: Rest, bound: u64) -> Vec<String> {
    let table = [
        ("file descriptors", left.fds, cold.fds),
        ("threads", left.threads, cold.threads),
        ("tasks", left.tasks, warm.tasks),
        ("legacy sessions", left.sessions, 0),
        ("streams", left.streams, 0),
        ("WebSockets", left.sockets, 0),
    ];
    let mut out: Vec<_> = table
        .iter()
        .filter(|(_, is, want)| is != want)
        .map(|(what, is, want)| format!("{is} {what} are left, not {want}"))
        .collect();
    if left.rss_kib > bound {
        out.push(format!("{} KiB of memory are left, over {bound}", left.rss_kib));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The judge must see what is left: all at rest is no violation, one of each is one each.
    #[test]
    fn what_is_left_is_told() {
        let rest = Rest { rss_kib: 100, fds: 9, threads: 3, tasks: 2, sessions: 0, streams: 0, sockets: 0 };
        assert_eq!(remains(rest, rest, rest, 110), Vec::<String>::new());
        let left = Rest { rss_kib: 111, fds: 10, threads: 4, tasks: 3, sessions: 1, streams: 1, sockets: 1 };
        assert_eq!(remains(rest, rest, left, 110).len(), 7);
    }

    #[test]
    fn shares_add_up() {
        for sessions in 0..9 {
            let plan = Plan { sessions, seconds: 1, calls: 1, seed: 1 };
            assert_eq!(Kind::ALL.iter().map(|kind| plan.share(*kind)).sum::<u64>(), sessions);
        }
        assert_eq!(Plan { sessions: 5, seconds: 1, calls: 1, seed: 1 }.share(Kind::Legacy), 2);
    }

    #[test]
    fn plans_are_read() {
        let plan = Plan::parse(["--sessions", "3", "--seed", "7"].map(str::to_owned).into_iter());
        let plan = plan.expect("a plan");
        assert_eq!((plan.sessions, plan.seconds, plan.seed), (3, 60, 7));
        assert!(Plan::parse(["--session", "3"].map(str::to_owned).into_iter()).is_err());
        assert!(Plan::parse(["--calls", "many"].map(str::to_owned).into_iter()).is_err());
    }
}
