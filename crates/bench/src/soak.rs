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

/// Shorter rounds that follow, at most. The first ones still find memory in pieces where they need it whole; a
/// leak grows in every one of them.
const MORE_ROUNDS: u64 = 5;
/// What the memory of the server may grow by in the last of them, for each session. One that leaks keeps several KiB.
const GROWTH_KIB_PER_SESSION: u64 = 1;
/// And at the least, for pages are whole.
const GROWTH_KIB: u64 = 512;

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

    /// A round that follows: as many clients, a sixth of the time.
    fn again(self, times: u64) -> Self {
        let seed = self.seed ^ (times << 48);
        Self { seconds: (self.seconds / 6).max(1), calls: self.calls / 6, seed, ..self }
    }
}

/// Runs the rounds and says what happened.
pub(crate) fn run(words: impl Iterator<Item = String>) -> anyhow::Result<ExitCode> {
    let plan = Plan::parse(words)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut server = Process::start()?;
    let cold = server.rest()?;
    let local = LocalSet::new();
    let ledger = Arc::new(Ledger::default());
    let start = Instant::now();
    local.block_on(&runtime, round(plan, &mut server, &ledger))?;
    let lasted = start.elapsed();
    // The task that forgets idle sessions starts with the first session and stays.
    let want = Rest { tasks: cold.tasks + 1, ..cold };
    let first = server.settle(|rest| remains(want, *rest, u64::MAX).is_empty())?;
    let mut violations = ledger.violations();
    let (mut before, mut left) = (first, first);
    let growth = GROWTH_KIB.max(plan.sessions * GROWTH_KIB_PER_SESSION);
    let mut rounds = 0;
    while rounds < MORE_ROUNDS && (rounds == 0 || left.rss_kib > before.rss_kib + growth) {
        rounds += 1;
        before = left;
        let again = Arc::new(Ledger::default());
        local.block_on(&runtime, round(plan.again(rounds), &mut server, &again))?;
        left = server.settle(|rest| remains(want, *rest, u64::MAX).is_empty())?;
        violations.extend(again.violations());
    }
    let bound = before.rss_kib + growth;
    println!("seed {}: {} sessions at once, {:.1} s\n", plan.seed, ledger.peak(), lasted.as_secs_f64());
    ledger.print();
    println!("{rounds} shorter rounds followed, until memory stopped growing\n");
    print_rest(want, first, left, bound);
    violations.extend(remains(want, left, bound));
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

fn print_rest(want: Rest, first: Rest, left: Rest, bound: u64) {
    println!("| the server | after this round | at the end | bound |");
    println!("|---|--:|--:|--:|");
    println!("| memory, KiB | {} | {} | {bound} |", first.rss_kib, left.rss_kib);
    for ((what, first, _), (_, left, want)) in first.against(want).into_iter().zip(left.against(want)) {
        println!("| {what} | {first} | {left} | {want} |");
    }
    println!();
}

/// What should not be there any more.
fn remains(want: Rest, left: Rest, bound: u64) -> Vec<String> {
    let table = left.against(want);
    let over = table.iter().filter(|(_, is, want)| is != want);
    let mut out: Vec<_> = over.map(|(what, is, want)| format!("{is} {what} are left, not {want}")).collect();
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
        assert_eq!(remains(rest, rest, 110), Vec::<String>::new());
        let left = Rest { rss_kib: 111, fds: 10, threads: 4, tasks: 3, sessions: 1, streams: 1, sockets: 1 };
        assert_eq!(remains(rest, left, 110).len(), 7);
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
