//! One server of the simulated fleet: how it starts, what it offers, what is known of it from before, and what it saw.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{Client, way};
use cardan_gateway::fleet::{Making, Spec};
use cardan_proto::era::Era;
use cardan_proto::limits::Limits;
use cardan_proto::limits::fleet::LIST_FRESH_MIN;
use cardan_proto::session::config::EraChoice;
use cardan_proto::upkeep::policy::{Backoff, Burst, Policy};
use cardan_runtime::lines::Lines;
use cardan_sim::rng::Rng;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, split,
};
use tokio::time::{Instant, sleep_until};

/// What is drawn for one server.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) era: Era,
    pub(crate) lazy: bool,
    pub(crate) start: Start,
    pub(crate) cached: Cached,
    /// How long its list holds, as it says.
    ttl_ms: Option<u64>,
    /// It dies so long after it was first up.
    pub(crate) crash: Option<Duration>,
}

/// How it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// It fails so many times, then it is there; each attempt takes so long.
    Well { failures: u32, each: Duration },
    /// Nobody ever answers.
    Never,
    /// Somebody answers and says nothing.
    Mute,
    /// It fails whenever it is tried: at first soon, then after so long.
    Fails(Duration),
    /// Its configuration is wrong.
    Broken,
}

/// What is on disk before the fleet starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cached {
    Nothing,
    /// What it offers still.
    Same(Holds),
    /// What it offered once.
    Other(Holds),
    /// What somebody else offers, under another digest.
    Foreign,
    /// A file that nobody can read.
    Garbage,
}

/// For how long what is on disk may be used without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// The server did not say.
    Unsaid,
    /// Not any more.
    Expired,
    /// Longer than the run.
    Longer,
    /// For so long.
    For(Duration),
}

impl Plan {
    pub(crate) fn draw(number: usize, rng: &mut Rng) -> Self {
        let seconds = |rng: &mut Rng, low, high| Duration::from_secs(rng.within(low, high));
        let each = Duration::from_millis(match rng.below(3) {
            0 => rng.below(50),
            1 => rng.within(100, 400),
            _ => rng.within(1_000, 20_000),
        });
        let start = match rng.below(10) {
            0..=4 => Start::Well { failures: 0, each },
            5 => Start::Well { failures: rng.within(1, 3) as u32, each },
            6 => Start::Never,
            7 => Start::Mute,
            8 => Start::Fails(Duration::from_millis(100 * rng.within(20, 90))),
            _ => Start::Broken,
        };
        let holds =
            rng.pick(&[Holds::Unsaid, Holds::Expired, Holds::Longer, Holds::For(Duration::from_secs(100))]);
        Self {
            name: format!("s{number}"),
            era: rng.pick(&[Era::Legacy, Era::Modern]),
            lazy: rng.percent(30) && start != Start::Broken,
            start,
            cached: match rng.below(6) {
                0 | 1 => Cached::Nothing,
                2 => Cached::Same(holds),
                3 => Cached::Other(holds),
                4 => Cached::Foreign,
                _ => Cached::Garbage,
            },
            ttl_ms: rng.pick(&[None, Some(0), Some(1_000), Some(30_000), Some(40_000), Some(3_600_000)]),
            crash: rng.percent(25).then(|| seconds(rng, 1, 60)),
        }
    }

    /// How long it takes until it is there, if it ever is.
    pub(crate) fn takes(&self) -> Option<Duration> {
        match self.start {
            Start::Well { failures, each } => Some(each * (failures + 1)),
            _ => None,
        }
    }

    /// How long it takes until it is known whether it works; none: for ever.
    pub(crate) fn decides(&self) -> Option<Duration> {
        match self.start {
            Start::Well { each, .. } => Some(each),
            Start::Fails(each) => Some(each / 100),
            Start::Broken => Some(Duration::ZERO),
            Start::Never | Start::Mute => None,
        }
    }

    pub(crate) fn digest(&self) -> String {
        self.name.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The tool that it offers, and the one that is known from before.
    pub(crate) fn tool(&self) -> String {
        format!("tool-of-{}", self.name)
    }

    pub(crate) fn known(&self) -> Option<String> {
        match self.cached {
            Cached::Same(_) => Some(self.tool()),
            Cached::Other(_) => Some(format!("once-of-{}", self.name)),
            Cached::Nothing | Cached::Foreign | Cached::Garbage => None,
        }
    }

    /// For how long its own list is not asked for again; none: for ever.
    pub(crate) fn fresh(&self) -> Option<Duration> {
        let ttl = self.ttl_ms.filter(|ttl| *ttl > 0 && self.era == Era::Modern)?;
        Some(Duration::from_millis(ttl).max(LIST_FRESH_MIN))
    }
}

/// What a server saw.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) dials: u32,
    pub(crate) ups: Vec<Instant>,
    pub(crate) lists: Vec<Instant>,
}

/// One server.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) plan: Arc<Plan>,
    pub(crate) log: Arc<Mutex<Log>>,
}

impl Site {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan: Arc::new(plan), log: Arc::default() }
    }

    pub(crate) fn spec(&self) -> Spec {
        if self.plan.start == Start::Broken {
            return Spec::broken(&self.plan.name, "the variable TOKEN is not set");
        }
        let site = self.clone();
        let way = way(move || {
            let site = site.clone();
            async move { site.dial().await }
        });
        // Nothing is drawn by others: no jitter, and attempts without end.
        let backoff = Backoff { min: Duration::ZERO, max: Duration::ZERO, attempts: u32::MAX };
        let burst = Burst { restarts: u32::MAX, within: Duration::ZERO };
        let policy = Policy { backoff, burst, ..Policy::CHILD };
        let era = if self.plan.era == Era::Modern { EraChoice::Modern } else { EraChoice::Legacy };
        let making = Making { connector: Client::builder("fleet", "1").era(era), way, policy };
        let mut spec = Spec::new(&self.plan.name, "stdio", self.plan.digest(), making);
        spec.lazy = self.plan.lazy;
        spec
    }

    async fn dial(self) -> io::Result<Lines<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>> {
        let dials = {
            let mut log = self.log.lock().unwrap();
            log.dials += 1;
            log.dials
        };
        let nobody = || Err(io::Error::other("nobody there"));
        match self.plan.start {
            Start::Well { failures, each } => {
                pass(each).await;
                if dials <= failures {
                    return nobody();
                }
            }
            Start::Never => std::future::pending().await,
            Start::Mute => {}
            Start::Fails(each) => {
                pass(if dials == 1 { each / 100 } else { each }).await;
                return nobody();
            }
            Start::Broken => unreachable!("there is no way to it"),
        }
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(self.serve(theirs));
        let (read, write) = split(ours);
        Ok(Lines::new(read, write, &Limits::DEFAULT))
    }

    async fn serve(self, link: DuplexStream) {
        let (read, mut write) = split(link);
        let mut lines = BufReader::new(read).lines();
        let (mut up, mut dies) = (false, None);
        loop {
            let death = async {
                match dies {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let line = tokio::select! {
                line = lines.next_line() => line,
                () = death => return,
            };
            let Ok(Some(line)) = line else { return };
            if self.plan.start == Start::Mute {
                continue;
            }
            let message: Value = serde_json::from_str(&line).unwrap();
            if !up && is_opening(&message) {
                up = true;
                dies = self.opened();
            }
            if let Some(id) = message.get("id") {
                let reply = json!({ "jsonrpc": "2.0", "id": id, "result": self.answer(&message) });
                write.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
            }
        }
    }

    /// It is up; tells when it dies of it.
    fn opened(&self) -> Option<Instant> {
        let mut log = self.log.lock().unwrap();
        log.ups.push(Instant::now());
        self.plan.crash.filter(|_| log.ups.len() == 1).map(|crash| Instant::now() + crash)
    }

    fn answer(&self, message: &Value) -> Value {
        let modern = self.plan.era == Era::Modern;
        let mut result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": { "tools": {} },
                "serverInfo": { "name": "site", "version": "1" },
            }),
            Some("server/discover") => json!({
                "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "ttlMs": 0, "cacheScope": "private",
            }),
            Some("tools/list") => {
                self.log.lock().unwrap().lists.push(Instant::now());
                let tool = json!({ "name": self.plan.tool(), "inputSchema": { "type": "object" } });
                let mut list = json!({ "tools": [tool] });
                if let (true, Some(ttl)) = (modern, self.plan.ttl_ms) {
                    list["ttlMs"] = json!(ttl);
                    list["cacheScope"] = json!("public");
                }
                list
            }
            Some("tools/call") => json!({ "content": [{ "type": "text", "text": self.plan.name }] }),
            _ => json!({}),
        };
        if modern {
            result["resultType"] = json!("complete");
        }
        result
    }
}

/// The message after which calls flow.
fn is_opening(message: &Value) -> bool {
    matches!(message["method"].as_str(), Some("notifications/initialized" | "server/discover"))
}

/// Time passes. The clock of these runs is paused.
async fn pass(time: Duration) {
    sleep_until(Instant::now() + time).await;
}
