//! The client's side of HTTP in simulation: a peer that does its worst to calls and notes, in both eras. Every choice is
//! drawn from one seed, bytes go through memory, and the clock moves only when everyone waits.
//!
//! What a peer may do is a [`Deed`], which also says what must become of the call. So calls are judged one by one, whatever
//! is done to those beside them.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod deed;
mod stream;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{CallError, Client};
use cardan_proto::era::Era;
use cardan_proto::finding::Rule;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Event};
use cardan_proto::session::state::State;
use cardan_sim::rng::Rng;
use cardan_sim::story::{self, Story};
use common::{Asked, Say, Stage, discovered, message, pass, welcome};
use deed::{Deed, End, end_of};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

const AGAIN: &str = "cargo test -p cardan-dial --test sim every_seed";
const NOTE: &str = "notifications/tester";

/// How long a call waits for its reply.
const IDLE: Duration = Duration::from_secs(90);

/// Longer than anything here takes.
const REST: Duration = Duration::from_secs(300);

/// What is drawn for one run.
struct Plan {
    era: Era,
    /// Whether there is a push lane. A lane that goes with its session could take a reply along, so none is forgotten.
    pushes: bool,
    calls: Vec<Wish>,
    notes: Vec<Wish>,
}

/// A call or a note of ours.
struct Wish {
    deed: Deed,
    /// When it is made.
    at: Duration,
    /// How long the peer thinks about it.
    thinks: Duration,
    /// When we give it up, after that.
    cancel: Option<Duration>,
}

impl Plan {
    fn draw(era: Era, rng: &mut Rng) -> Self {
        let pushes = era == Era::Legacy && rng.percent(30);
        let calls = (0..rng.within(4, 24)).map(|_| {
            let deed = Deed::draw(era, rng);
            Wish::draw(if pushes && deed.forgets() { Deed::Elsewhere } else { deed }, rng)
        });
        let calls = calls.collect();
        let notes = (0..rng.below(8)).map(|_| Wish::draw(note_deed(era, rng), rng)).collect();
        Self { era, pushes, calls, notes }
    }
}

impl Wish {
    fn draw(deed: Deed, rng: &mut Rng) -> Self {
        let millis = |rng: &mut Rng, most| Duration::from_millis(rng.below(most));
        let cancel = rng.percent(8).then(|| millis(rng, 4_000));
        Self { deed, at: millis(rng, 5_000), thinks: millis(rng, 2_000), cancel }
    }
}

/// What a peer may do about a note: it has no reply, so fewer things are wrong with it.
fn note_deed(era: Era, rng: &mut Rng) -> Deed {
    loop {
        let deed = Deed::draw(era, rng);
        if let Deed::Status(..) | Deed::Empty(_) | Deed::Redirect(..) | Deed::Reset | Deed::Hangs = deed {
            return deed;
        }
    }
}

/// How many findings a note leaves behind: one if it failed, and one if it was taken with another status than it should be.
fn note_findings(deed: &Deed) -> usize {
    match deed {
        Deed::Empty(202) => 0,
        _ => 1,
    }
}

/// What the peer was asked, by call.
#[derive(Default)]
struct Book {
    posts: HashMap<u64, usize>,
    gets: HashMap<u64, Vec<String>>,
    /// The replies that lanes still owe.
    owed: HashMap<u64, Value>,
    notes: Vec<u64>,
    handshakes: usize,
    push: Option<mpsc::UnboundedSender<String>>,
}

/// What the client observed.
#[derive(Default)]
struct Seen {
    logs: Vec<String>,
    refused: usize,
}

fn stage(plan: Arc<Plan>, book: Arc<Mutex<Book>>) -> Stage {
    Stage::new(move |asked| {
        let mut book = book.lock().unwrap();
        let last = asked.header("last-event-id");
        match (asked.verb.as_str(), asked.method()) {
            (_, "server/discover") if plan.era == Era::Modern => discovered(asked),
            (_, "server/discover") => Say::Status(400, ""),
            (_, "initialize") => {
                book.handshakes += 1;
                welcome(asked, Some(&format!("s-{}", book.handshakes)))
            }
            ("POST", "tools/call") => {
                let n = asked.body["params"]["arguments"]["n"].as_u64().unwrap();
                let wish = &plan.calls[n as usize];
                let attempt = book.posts.entry(n).or_default();
                *attempt += 1;
                let say = wish.deed.say(asked, n, *attempt - 1);
                let owed = common::result(asked, common::text(&format!("call {n}")));
                if let Deed::Elsewhere = wish.deed {
                    let push = book.push.clone().expect("the lane comes before the first call");
                    tokio::spawn(later(wish.thinks * 2, push, message(&owed)));
                }
                book.owed.insert(n, owed);
                Say::After(wish.thinks, Box::new(say))
            }
            ("POST", NOTE) => note(&plan, &mut book, asked),
            ("GET", _) if last.is_some() => resume(&plan, &mut book, last.unwrap()),
            ("GET", _) if plan.pushes => {
                let (tell, live) = mpsc::unbounded_channel();
                book.push = Some(tell);
                Say::Live(live)
            }
            ("GET", _) => Say::Status(405, ""),
            _ => Say::Status(202, ""),
        }
    })
}

async fn later(wait: Duration, push: mpsc::UnboundedSender<String>, event: String) {
    pass(wait).await;
    push.send(event).unwrap();
}

fn note(plan: &Plan, book: &mut Book, asked: &Asked) -> Say {
    let n = asked.body["params"]["n"].as_u64().unwrap();
    let wish = &plan.notes[n as usize];
    // What is sent on arrives where it is taken.
    if asked.target == "/moved" {
        return Say::Status(200, "");
    }
    book.notes.push(n);
    Say::After(wish.thinks, Box::new(wish.deed.say(asked, n, 0)))
}

fn resume(plan: &Plan, book: &mut Book, last: &str) -> Say {
    let n: u64 = last.split('.').next().unwrap().parse().unwrap();
    let gets = book.gets.entry(n).or_default();
    gets.push(last.to_owned());
    let at = gets.len();
    let wish = &plan.calls[n as usize];
    let Deed::Stream(stream) = &wish.deed else { return Say::Status(405, "") };
    Say::After(wish.thinks / 4, Box::new(stream.say(&book.owed[&n], n, at)))
}

/// One call: when it ended, and how.
struct Call {
    n: u64,
    took: Duration,
    ended: Duration,
    outcome: Result<Value, CallError>,
}

async fn call(client: Arc<Client>, plan: Arc<Plan>, n: u64, start: Instant) -> Call {
    let wish = &plan.calls[n as usize];
    pass(wish.at).await;
    let begun = Instant::now();
    let options = CallOptions { idle: Some(IDLE), total: Some(REST), ..CallOptions::default() };
    let mut call = client.call_tool_with("t", &json!({ "n": n }), options).unwrap();
    if let Some(wait) = wish.cancel {
        tokio::select! {
            biased;
            outcome = &mut call => return done(n, begun, start, outcome),
            () = pass(wait) => call.cancel("changed our mind"),
        }
    }
    let outcome = call.await;
    done(n, begun, start, outcome)
}

fn done<T: serde::Serialize>(n: u64, begun: Instant, start: Instant, outcome: Result<T, CallError>) -> Call {
    let outcome = outcome.map(|result| serde_json::to_value(result).unwrap());
    Call { n, took: begun.elapsed(), ended: start.elapsed(), outcome }
}

/// Waits are drawn by nobody: without jitter a seed is a run.
fn limits() -> Limits {
    let none = Duration::ZERO;
    Limits { renewals: 1_000, reconnect_wait_min: none, reconnect_wait_max: none, ..Limits::DEFAULT }
}

fn run_as(era: Era, seed: u64) -> Story {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let plan = Arc::new(Plan::draw(era, &mut Rng::seeded(seed)));
    runtime.block_on(live(plan))
}

fn run(seed: u64) -> Story {
    run_as(if seed.is_multiple_of(2) { Era::Modern } else { Era::Legacy }, seed)
}

async fn live(plan: Arc<Plan>) -> Story {
    let (book, seen) = (Arc::<Mutex<Book>>::default(), Arc::<Mutex<Seen>>::default());
    let stage = stage(Arc::clone(&plan), Arc::clone(&book));
    let observed = Arc::clone(&seen);
    let era = if plan.era == Era::Modern { EraChoice::Modern } else { EraChoice::Legacy };
    let connector = Client::builder("tester", "1").era(era).limits(limits()).observe(move |event| {
        let mut seen = observed.lock().unwrap();
        match event {
            Event::Logged { params } => {
                let params: Value = serde_json::from_slice(params).unwrap();
                seen.logs.push(params["data"].as_str().unwrap().to_owned());
            }
            Event::Found(finding) if finding.rule == Rule::PostRefused => seen.refused += 1,
            _ => {}
        }
    });
    let http = stage.http().limits(&limits());
    let client = Arc::new(connector.connect(async || http.link()).await.unwrap());
    let start = Instant::now();
    let calls: Vec<_> = (0..plan.calls.len() as u64)
        .map(|n| tokio::spawn(call(Arc::clone(&client), Arc::clone(&plan), n, start)))
        .collect();
    let notes: Vec<_> = (0..plan.notes.len())
        .map(|n| {
            let (client, at) = (Arc::clone(&client), plan.notes[n].at);
            tokio::spawn(async move {
                pass(at).await;
                client.note(Method::parse(NOTE), Some(json!({ "n": n }).to_string().into()));
            })
        })
        .collect();
    let mut ended = Vec::new();
    for call in calls {
        ended.push(call.await.unwrap());
    }
    for note in notes {
        note.await.unwrap();
    }
    pass(REST).await;
    let mut story = Story::default();
    let standing = (client.state(), client.ended());
    story.demand(standing == (State::Ready, None), || format!("the link did not live on: {standing:?}"));
    let client = Arc::into_inner(client).expect("those who called are done");
    client.close("done").await;
    for call in &ended {
        judge(&mut story, &plan, &book.lock().unwrap(), call);
    }
    judge_all(&mut story, &plan, &book.lock().unwrap(), &seen.lock().unwrap());
    story
}

/// What must be true of one call, whatever became of the others.
fn judge(story: &mut Story, plan: &Plan, book: &Book, call: &Call) {
    let Call { n, took, ended, outcome } = call;
    let wish = &plan.calls[*n as usize];
    let (deed, reconnects) = (&wish.deed, limits().reconnects);
    let (want, gets) = deed.end(plan.era, plan.pushes, reconnects);
    let end = end_of(*n, outcome);
    let posts = book.posts.get(n).copied().unwrap_or_default();
    let asked = book.gets.get(n).map(Vec::as_slice).unwrap_or_default();
    story.tell(format!("call {n}: {deed:?}: {end:?} at {} ms, {posts} posts, {asked:?}", ended.as_millis()));
    let told = || format!("call {n}: {deed:?} must end as {want:?}, but: {outcome:?}");
    if end == End::Cancelled && wish.cancel.is_some() {
        story.meet("a cancel");
        return story.demand(posts <= deed.posts() && asked.len() <= gets, told);
    }
    story.meet(deed.case());
    if let Deed::Stream(stream) = deed {
        stream.cases(plan.era, reconnects).into_iter().for_each(|case| story.meet(case));
        let last: Vec<_> = (1..=gets).map(|at| stream.last_id(*n, at).unwrap_or_default()).collect();
        story.demand(asked == last, || format!("call {n}: resumed after {asked:?}, not {last:?}"));
    }
    story.demand(end == want, told);
    story.demand(posts == deed.posts(), || format!("call {n}: {deed:?}: {posts} posts"));
    story.demand(asked.len() == gets, || format!("call {n}: {deed:?}: {} GETs, not {gets}", asked.len()));
    let in_time = match want {
        End::TimedOut => *took >= IDLE && *took < IDLE + Duration::from_secs(1),
        _ => *took < IDLE,
    };
    story.demand(in_time, || format!("call {n}: {deed:?}: it took {took:?}"));
}

/// What must be true of all together.
fn judge_all(story: &mut Story, plan: &Plan, book: &Book, seen: &Seen) {
    let forgetful = |wish: &&Wish| wish.deed.forgets();
    let most = plan.calls.iter().filter(forgetful).count() + 1;
    let handshakes = if plan.era == Era::Modern { 0 } else { 1 };
    let right = (handshakes..=most).contains(&book.handshakes);
    story.demand(right, || format!("{} handshakes, at most {most}", book.handshakes));
    let mut failed = 0;
    for n in &book.notes {
        let deed = &plan.notes[*n as usize].deed;
        story.tell(format!("note {n}: {deed:?}"));
        story.meet(match deed {
            Deed::Empty(_) => "a note that is taken",
            Deed::Redirect(..) => "a note that is sent on",
            Deed::Status(..) => "a note that is refused",
            _ => "a note that is lost",
        });
        failed += note_findings(deed);
    }
    story.demand(seen.refused == failed, || format!("{failed} notes went wrong, {} were told", seen.refused));
    for (n, wish) in plan.calls.iter().enumerate() {
        let Deed::Stream(stream) = &wish.deed else { continue };
        let due = stream.heard(n as u64, plan.era, limits().reconnects);
        let own = format!("note {n}.");
        let heard: Vec<_> = seen.logs.iter().filter(|log| log.starts_with(&own)).cloned().collect();
        let right = if wish.cancel.is_some() { due.starts_with(&heard) } else { due == heard };
        story.demand(right, || format!("call {n}: heard {heard:?}, not {due:?}"));
    }
}

/// S0-83, S0-84, S0-85, in simulation: whatever a peer answers, each call has the one end that its own answer leads to;
/// a failing status never brings a result; a broken lane is resumed where, and only where, there is something to resume
/// after, and one that stays silent when it is resumed is asked for again.
#[test]
fn s0_83_every_seed_keeps_the_rules() {
    story::every(300, AGAIN, run);
}

/// Runs in which nothing happens would keep every rule: S0-83, S0-84, S0-85 are met in both eras.
#[test]
fn the_runs_are_eventful() {
    story::eventful(120, &[&CASES[..], &["404"]].concat(), 5, |seed| run_as(Era::Modern, seed));
    let legacy = ["a forgotten session", "a stream that is resumed", "a reply on the push lane"];
    let resuming = ["resuming that is given up", "resuming that is refused", "a resumed lane that is dead"];
    story::eventful(120, &[&CASES[..], &legacy, &resuming].concat(), 5, |seed| run_as(Era::Legacy, seed));
}

const CASES: [&str; 33] = [
    "200",
    "200 without a body",
    "202",
    "204",
    "3xx, followed",
    "3xx, not followed",
    "400",
    "401",
    "403",
    "405",
    "429",
    "another 4xx",
    "5xx",
    "a fault",
    "a fault with a status",
    "a result with a failing status",
    "a reply of the wrong type",
    "a reply to another call",
    "a page",
    "invalid JSON",
    "truncated JSON",
    "torn JSON",
    "a stream",
    "a stream with its reply",
    "a stream without reply and ids",
    "a stream without reply, with ids",
    "a reset",
    "silence",
    "a cancel",
    "a note that is taken",
    "a note that is sent on",
    "a note that is refused",
    "a note that is lost",
];

/// The same seed is the same run.
#[test]
fn a_seed_is_a_run() {
    story::same(40, run);
}
