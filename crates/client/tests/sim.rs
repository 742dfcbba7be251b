//! Notes of a kept connection in simulation: a server that tells much, in bursts and over links that die, and readers who
//! come early or late and read fast or slowly. Every choice is drawn from one seed, bytes go through memory, and the
//! clock moves only when everyone waits.
//!
//! What was put up is what the observer saw. From that follows, for every reader and in every moment, what is read next
//! and how much was missed.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{Client, Listen, Managed, Watcher, way};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{Event, Interest};
use cardan_proto::upkeep::policy::{Backoff, Burst, Policy};
use cardan_runtime::lines::Lines;
use cardan_sim::rng::Rng;
use cardan_sim::story::{self, Story};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const AGAIN: &str = "cargo test -p cardan-client --test sim every_seed";

/// What is drawn for one run.
struct Plan {
    /// How many notes are kept for whoever reads.
    max: usize,
    bursts: Vec<Tell>,
    readers: Vec<Reader>,
    listeners: Vec<Reader>,
}

/// A burst of the server's.
struct Tell {
    /// After the one before, or after the link is up.
    after: Duration,
    notes: Vec<Told>,
    /// Whether the link dies upon it.
    dies: bool,
}

#[derive(Debug, Clone, Copy)]
enum Told {
    Log,
    Note,
    Change(&'static str),
}

/// Who reads, from when on.
#[derive(Debug, Clone, Copy)]
struct Reader {
    at: Duration,
    pace: Pace,
}

#[derive(Debug, Clone, Copy)]
enum Pace {
    /// Whatever comes, as it comes.
    Eager,
    /// All there is, and then not for a while.
    Now(Duration),
    /// One, and then not for a while.
    One(Duration),
}

impl Plan {
    fn draw(rng: &mut Rng) -> Self {
        let told = [
            Told::Log,
            Told::Note,
            Told::Change("tools"),
            Told::Change("prompts"),
            Told::Change("resources"),
        ];
        let bursts = (0..rng.within(1, 30)).map(|_| Tell {
            after: millis(rng, 0, 900).saturating_sub(Duration::from_millis(100)),
            notes: (0..rng.pick(&[1, 1, 2, 6, 25])).map(|_| rng.pick(&told)).collect(),
            dies: rng.percent(15),
        });
        Self {
            bursts: bursts.collect(),
            max: rng.pick(&[1, 2, 5, 16, 1024]) as usize,
            readers: (0..rng.within(1, 5)).map(|_| Reader::draw(rng)).collect(),
            listeners: (0..rng.below(3)).map(|_| Reader::draw(rng)).collect(),
        }
    }
}

impl Reader {
    fn draw(rng: &mut Rng) -> Self {
        let wait = millis(rng, 1, 3_000);
        let pace = rng.pick(&[Pace::Eager, Pace::Now(wait), Pace::One(wait)]);
        Self { at: millis(rng, 0, 6_000), pace }
    }
}

fn millis(rng: &mut Rng, low: u64, high: u64) -> Duration {
    Duration::from_millis(rng.within(low, high))
}

/// A note as the server writes it, and as it is known by then.
fn written(told: Told, n: usize) -> (String, String) {
    let (method, params, key) = match told {
        Told::Log => ("message", json!({ "level": "info", "data": n }), format!("log {n}")),
        Told::Note => ("tester", json!({ "n": n }), format!("note {n}")),
        Told::Change(list) => (list, json!({}), format!("change of {list}")),
    };
    let method = match told {
        Told::Change(_) => format!("notifications/{method}/list_changed"),
        _ => format!("notifications/{method}"),
    };
    (format!("{}\n", json!({ "jsonrpc": "2.0", "method": method, "params": params })), key)
}

fn key(event: &Event) -> Option<String> {
    let number = |params: &[u8], member: &str| {
        serde_json::from_slice::<Value>(params).unwrap()[member].as_u64().unwrap()
    };
    Some(match event {
        Event::Logged { params } => format!("log {}", number(params, "data")),
        Event::Noted(note) => format!("note {}", number(note.params.raw().unwrap(), "n")),
        Event::Changed { change, .. } => format!("change of {}", format!("{change:?}").to_lowercase()),
        _ => return None,
    })
}

/// What the server wrote, what was put up, and what became of it.
#[derive(Default)]
struct Truth {
    /// The bursts that were told.
    bursts: usize,
    written: Vec<String>,
    put: Vec<String>,
    links: u32,
    story: Story,
}

impl Truth {
    fn changes(&self) -> Vec<String> {
        self.put.iter().filter(|key| key.starts_with("change")).cloned().collect()
    }
}

#[derive(Clone)]
struct World {
    plan: Arc<Plan>,
    truth: Arc<Mutex<Truth>>,
    /// Whether the server may begin to tell.
    go: watch::Sender<bool>,
    /// Whether it has told everything.
    over: watch::Sender<bool>,
    start: Instant,
}

impl World {
    fn keep(&self) -> Managed {
        let (limits, world) = (self.limits(), self.clone());
        let way = way(move || {
            let (limits, world) = (limits.clone(), world.clone());
            async move {
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                tokio::spawn(world.serve(theirs));
                let (read, write) = tokio::io::split(ours);
                Ok::<_, Infallible>(Lines::new(read, write, &limits))
            }
        });
        let truth = Arc::clone(&self.truth);
        let connector = Client::builder("tests", "0").era(EraChoice::Legacy).limits(self.limits());
        let connector = connector.observe(move |event| {
            if let Some(key) = key(event) {
                truth.lock().unwrap().put.push(key);
            }
        });
        // Nothing is drawn by others: no jitter, and attempts without end.
        let backoff = Backoff { min: Duration::ZERO, max: Duration::ZERO, attempts: u32::MAX };
        let burst = Burst { restarts: u32::MAX, within: Duration::ZERO };
        Managed::start(connector, way, Policy { backoff, burst, ..Policy::CHILD })
    }

    fn limits(&self) -> Limits {
        Limits { notes_queued: self.plan.max, ..Limits::DEFAULT }
    }

    /// One link of the server: it opens, and goes on telling where the last one died.
    async fn serve(self, link: DuplexStream) {
        self.truth.lock().unwrap().links += 1;
        let (read, mut write) = tokio::io::split(link);
        let mut lines = BufReader::new(read).lines();
        let mut told = pin!(self.clone().bursts());
        let mut open = false;
        loop {
            let line = tokio::select! {
                burst = &mut told, if open => {
                    write.write_all(burst.text.as_bytes()).await.unwrap();
                    if burst.dies {
                        return;
                    }
                    told.set(self.clone().bursts());
                    continue;
                }
                line = lines.next_line() => line,
            };
            let Ok(Some(line)) = line else { return };
            let message: Value = serde_json::from_str(&line).unwrap();
            open |= message["method"] == "notifications/initialized";
            let result = match message["method"].as_str() {
                Some("initialize") => json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": { "logging": {}, "tools": { "listChanged": true },
                        "prompts": { "listChanged": true }, "resources": { "listChanged": true } },
                    "serverInfo": { "name": "script", "version": "1" },
                }),
                _ => json!({}),
            };
            if let Some(id) = message.get("id") {
                let reply = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                write.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
            }
        }
    }

    /// The next burst, when it is time. After the last there is none.
    async fn bursts(self) -> Written {
        self.go.subscribe().wait_for(|go| *go).await.unwrap();
        let at = self.truth.lock().unwrap().bursts;
        let Some(tell) = self.plan.bursts.get(at) else {
            self.over.send_replace(true);
            return std::future::pending().await;
        };
        sleep(tell.after).await;
        let mut truth = self.truth.lock().unwrap();
        truth.bursts += 1;
        let mut text = String::new();
        for told in &tell.notes {
            let (line, key) = written(*told, truth.written.len());
            truth.written.push(key);
            text += &line;
        }
        Written { text, dies: tell.dies }
    }

    /// Reads the notes as `reader` does, to their end.
    async fn read(self, name: usize, reader: Reader, managed: Managed) {
        sleep(reader.at).await;
        let mut watcher = managed.notes();
        drop(managed);
        let late = self.truth.lock().unwrap().put.len().saturating_sub(self.plan.max);
        let mut place = Place { name, next: late, missed: 0 };
        if late > 0 {
            self.truth.lock().unwrap().story.meet("a late reader");
        }
        while !self.truth.lock().unwrap().story.is_broken() {
            match reader.pace {
                Pace::Eager => {}
                Pace::Now(wait) | Pace::One(wait) => sleep(wait).await,
            }
            if let Pace::Now(_) = reader.pace {
                while let Some(event) = watcher.try_next() {
                    self.judge(&mut place, &event, &watcher);
                }
            }
            let Some(event) = watcher.next().await else { break };
            self.judge(&mut place, &event, &watcher);
        }
        let truth = &mut *self.truth.lock().unwrap();
        let rest = (place.next, truth.put.len());
        truth
            .story
            .demand(rest.0 == rest.1, || format!("reader {name}: over after {} of {}", rest.0, rest.1));
        truth.story.meet(if watcher.missed() > 0 { "a reader who missed some" } else { "a reader of all" });
        truth.story.tell(format!("reader {name}: {reader:?} from {late} on, missed {}", watcher.missed()));
    }

    /// What was just read is what had to be read just now.
    fn judge(&self, place: &mut Place, event: &Event, watcher: &Watcher<Event>) {
        let truth = &mut *self.truth.lock().unwrap();
        let oldest = truth.put.len().saturating_sub(self.plan.max);
        let skipped = oldest.saturating_sub(place.next);
        (place.next, place.missed) = (place.next + skipped, place.missed + skipped as u64);
        let (due, read) = (truth.put.get(place.next).cloned(), key(event));
        place.next += 1;
        let name = place.name;
        truth.story.tell(format!("reader {name} at {} ms: {read:?}", self.start.elapsed().as_millis()));
        truth.story.demand(read == due, || format!("reader {name}: read {read:?}, not {due:?}"));
        let (told, missed) = (watcher.missed(), place.missed);
        truth.story.demand(told == missed, || format!("reader {name}: missed {missed}, told {told}"));
    }

    /// Hears the changes as `reader` does, to their end: all but those that were dropped, in their order.
    async fn hear(self, name: usize, reader: Reader, mut listen: Listen) {
        let (mut heard, mut most) = (Vec::new(), 0);
        loop {
            match reader.pace {
                Pace::Eager => {}
                Pace::Now(wait) | Pace::One(wait) => sleep(wait).await,
            }
            let Some(change) = listen.next().await else { break };
            most = most.max(self.truth.lock().unwrap().changes().len() - heard.len());
            heard.push(format!("change of {}", format!("{change:?}").to_lowercase()));
        }
        let truth = &mut *self.truth.lock().unwrap();
        let (changes, dropped) = (truth.changes(), listen.dropped());
        let mut rest = changes.iter();
        let in_order = heard.iter().all(|change| rest.any(|other| other == change));
        let story = &mut truth.story;
        story.tell(format!("listener {name}: {reader:?} heard {} of {}", heard.len(), changes.len()));
        story.meet(if dropped > 0 { "a listener who missed some" } else { "a listener of all" });
        story.demand(in_order, || format!("listener {name}: {heard:?} are not of {changes:?}"));
        story.demand(heard.len() as u64 + dropped == changes.len() as u64, || {
            format!("listener {name}: {} heard, {dropped} dropped, of {}", heard.len(), changes.len())
        });
        let needless = most <= self.plan.max && dropped > 0;
        story.demand(!needless, || format!("listener {name}: {dropped} dropped, though there was room"));
    }
}

/// A burst to be written.
struct Written {
    text: String,
    dies: bool,
}

/// How far a reader has come.
struct Place {
    name: usize,
    next: usize,
    missed: u64,
}

async fn live(plan: Plan) -> Story {
    let world = World {
        plan: Arc::new(plan),
        truth: Arc::default(),
        go: watch::Sender::new(false),
        over: watch::Sender::new(false),
        start: Instant::now(),
    };
    let managed = world.keep();
    let mut tasks = JoinSet::new();
    for (name, reader) in world.plan.listeners.iter().enumerate() {
        let interest = Interest { tools: true, prompts: true, resources: true, ..Interest::default() };
        let mut listen = managed.listen(interest);
        listen.ready().await.unwrap();
        tasks.spawn(world.clone().hear(name, *reader, listen));
    }
    for (name, reader) in world.plan.readers.iter().enumerate() {
        tasks.spawn(world.clone().read(name, *reader, managed.clone()));
    }
    world.go.send_replace(true);
    world.over.subscribe().wait_for(|over| *over).await.unwrap();
    // Whoever comes late does so before the end.
    sleep(Duration::from_secs(7)).await;
    managed.close("done").await;
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let truth = &mut *world.truth.lock().unwrap();
    if truth.links > 1 {
        truth.story.meet("another link");
    }
    let (put, written) = (&truth.put, &truth.written);
    truth.story.demand(put == written, || format!("written {written:?}, put up {put:?}"));
    std::mem::take(&mut truth.story)
}

fn run(seed: u64) -> Story {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(live(Plan::draw(&mut Rng::seeded(seed))))
}

/// S0-9, in simulation: notes reach whoever reads them, whichever link they came by, in order and once; who comes late reads
/// the last ones; what was dropped unread is counted, neither more nor less.
#[test]
fn s0_9_every_seed_keeps_the_rules() {
    story::every(400, AGAIN, run);
}

/// Runs in which nothing happens would keep every rule: S0-9 is met in all its cases.
#[test]
fn the_runs_are_eventful() {
    let cases = [
        "a late reader",
        "a reader of all",
        "a reader who missed some",
        "a listener of all",
        "a listener who missed some",
        "another link",
    ];
    story::eventful(100, &cases, 10, run);
}

/// The same seed is the same run.
#[test]
fn a_seed_is_a_run() {
    story::same(40, run);
}
