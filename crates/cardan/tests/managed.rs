//! Connections that are kept: servers in memory that come and go, under a clock that only waits move.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan::client::{Answerers, CallError, Client, Connector, Managed, Watcher, Way, way};
use cardan::prelude::*;
use cardan::proto::era::Era;
use cardan::proto::limits::Limits;
use cardan::proto::method::Method;
use cardan::proto::model::resource::ResourceContents;
use cardan::proto::model::roots::Root;
use cardan::proto::model::tool::ToolAnnotations;
use cardan::proto::model::{LogLevel, Tool};
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::{CallOptions, Cause, Change, Delivery, Event, Interest, Repeat};
use cardan::proto::upkeep::condition::{Condition, Transition};
use cardan::proto::upkeep::policy::{Policy, Unconnected};
use cardan::runtime::memory::{self, MemoryLink};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

/// Under a paused clock this costs nothing.
const LONG: Duration = Duration::from_secs(3600);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A server that can be killed and comes back at the next dial.
#[derive(Clone, Default)]
struct Farm(Arc<Inner>);

#[derive(Default)]
struct Inner {
    starts: AtomicUsize,
    down: AtomicBool,
    serving: Mutex<Option<(Server, JoinHandle<Cause>)>>,
    /// How often tools ran, by name.
    ran: Mutex<Vec<String>>,
    /// Tools that wait are waiting, and may go on.
    waiting: Notify,
    go_on: Notify,
    /// Levels and roots that servers were told.
    told: Mutex<Vec<String>>,
}

impl Farm {
    fn way(&self) -> Arc<dyn Way> {
        let farm = self.clone();
        way(move || {
            let farm = farm.clone();
            async move { farm.dial() }
        })
    }

    fn dial(&self) -> io::Result<MemoryLink> {
        let start = self.0.starts.fetch_add(1, Ordering::SeqCst) + 1;
        if self.0.down.load(Ordering::SeqCst) {
            return Err(io::Error::other("nobody there"));
        }
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let server = self.server(start);
        let serving = server.clone();
        let task = tokio::spawn(async move { serving.serve(theirs).await });
        *self.0.serving.lock().unwrap() = Some((server, task));
        Ok(ours)
    }

    /// From the third start on it has one more tool.
    fn server(&self, start: usize) -> Server {
        let (farm, told) = (self.clone(), self.clone());
        let annotated = |name: &str, hints: Value| {
            let hints: ToolAnnotations = serde_json::from_value(hints).unwrap();
            Tool::new(name, &json!({ "type": "object" })).with_annotations(hints)
        };
        let mut builder = Server::builder("farm", "1")
            .logging()
            .tool("echo", "says it back", async |args: Value| args.to_string())
            .tool("roots", "tells them", move |cx: Cx| {
                let told = told.clone();
                async move {
                    let roots = cx.roots("r")?;
                    told.0.told.lock().unwrap().push(roots[0].uri.clone());
                    Ok::<_, Stop>("told")
                }
            })
            .tool("talk", "logs", |cx: Cx| async move {
                cx.log(LogLevel::Info, None, &"hello");
                "said"
            })
            .resource(Resource::new("x:1", "one"), |_| async {
                Ok(vec![ResourceContents::text("x:1", "1")])
            });
        for (name, hints) in [
            ("add", json!({ "readOnlyHint": false })),
            ("look", json!({ "readOnlyHint": true })),
            ("set", json!({ "idempotentHint": true })),
        ] {
            let farm = farm.clone();
            let run = move |_: Value, _: Cx| {
                let farm = farm.clone();
                async move {
                    farm.0.ran.lock().unwrap().push(name.to_owned());
                    farm.0.waiting.notify_one();
                    farm.0.go_on.notified().await;
                    CallToolResult::text("done")
                }
            };
            builder = builder.dynamic_tool(annotated(name, hints), run).unwrap();
        }
        if start > 2 {
            builder = builder.tool("new", "was not there before", async |_: Value| "new");
        }
        builder.build()
    }

    fn current(&self) -> Server {
        self.0.serving.lock().unwrap().as_ref().unwrap().0.clone()
    }

    /// The server dies without a word.
    async fn kill(&self) {
        let (_, task) = self.0.serving.lock().unwrap().take().unwrap();
        task.abort();
        let _ = task.await;
    }

    fn starts(&self) -> usize {
        self.0.starts.load(Ordering::SeqCst)
    }

    fn ran(&self, tool: &str) -> usize {
        self.0.ran.lock().unwrap().iter().filter(|ran| *ran == tool).count()
    }
}

fn text(result: &CallToolResult) -> String {
    match &result.content[0] {
        Content::Text(text) => text.text.clone(),
        other => panic!("{other:?}"),
    }
}

fn connector(era: EraChoice) -> Connector {
    Client::builder("tests", "0").era(era)
}

async fn ready(managed: &Managed) {
    managed.ready(LONG).await.unwrap();
}

/// Waits for a condition that comes after what was read.
async fn until(watcher: &mut Watcher<Transition>, wanted: &str) -> Transition {
    loop {
        let transition = watcher.next().await.expect("it is kept");
        if transition.to.to_string().starts_with(wanted) {
            return transition;
        }
    }
}

fn told(mut watcher: Watcher<Transition>) -> Vec<String> {
    std::iter::from_fn(|| watcher.try_next()).map(|transition| transition.to.to_string()).collect()
}

/// STD-13, S0-8, S0-44, S0-45, S0-74, S2-36: a dead server is started again, and every step is told with cause,
/// attempt and time.
#[tokio::test(start_paused = true)]
async fn std_13_a_dead_server_is_started_again() {
    for era in ERAS {
        let farm = Farm::default();
        let managed = Managed::start(connector(era), farm.way(), Policy::CHILD);
        ready(&managed).await;
        let mut watcher = managed.transitions();
        until(&mut watcher, "ready").await;
        for attempt in 1..=3 {
            farm.kill().await;
            let lost = until(&mut watcher, "disconnected").await;
            assert_eq!((lost.from, lost.cause), (Condition::READY, Some(Cause::ClosedByPeer)));
            let waiting = until(&mut watcher, "reconnecting").await;
            let Condition::Reconnecting { attempt: next, until: at } = waiting.to else { panic!() };
            assert_eq!(next, attempt);
            let back = until(&mut watcher, "ready").await;
            assert!(back.at >= at, "not before its time");
            assert_eq!((back.attempt, farm.starts()), (attempt, attempt as usize + 1));
            let echoed = managed.call_tool("echo", &json!({ "a": 1 })).unwrap().await.unwrap();
            assert_eq!(text(&echoed), r#"{"a":1}"#);
        }
        managed.close("done").await;
        assert_eq!(managed.condition(), Condition::CLOSED);
        assert_eq!(watcher.missed(), 0);
    }
}

/// Calls made while there is no link wait for one, all for the same; or fail at once, as the policy says.
#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_link_or_fail_at_once() {
    let farm = Farm::default();
    let managed = Managed::start(connector(EraChoice::Modern), farm.way(), Policy::CHILD);
    let early: Vec<_> = (0..50).map(|n| managed.call_tool("echo", &json!({ "n": n })).unwrap()).collect();
    for (n, call) in early.into_iter().enumerate() {
        assert_eq!(text(&call.await.unwrap()), format!(r#"{{"n":{n}}}"#));
    }
    assert_eq!(farm.starts(), 1);
    farm.kill().await;
    managed.call_tool("echo", &json!({})).unwrap().await.unwrap();
    managed.all_tools().await.unwrap();
    managed.close("done").await;

    let policy = Policy { unconnected: Unconnected::Fail, ..Policy::CHILD };
    let managed = Managed::start(connector(EraChoice::Modern), farm.way(), policy);
    ready(&managed).await;
    let mut watcher = managed.transitions();
    farm.0.down.store(true, Ordering::SeqCst);
    farm.kill().await;
    until(&mut watcher, "reconnecting").await;
    let before = Instant::now();
    let error = managed.call_tool("echo", &json!({})).unwrap().await.unwrap_err();
    assert!(!error.may_have_executed() && matches!(error, CallError::Lost { .. }), "{error}");
    assert_eq!(before.elapsed(), Duration::ZERO);
    managed.close("done").await;
}

/// S0-73, S0-76, F1: of the calls in flight when a server dies, only those are sent again that do no harm twice;
/// the others are lost and say so.
#[tokio::test(start_paused = true)]
async fn s0_73_only_what_is_safe_is_sent_again() {
    let rows = [
        ("add", Repeat::IfSafe, 1),
        ("look", Repeat::IfSafe, 2),
        ("set", Repeat::IfSafe, 2),
        ("look", Repeat::Never, 1),
        ("add", Repeat::Always, 2),
    ];
    for (tool, repeat, runs) in rows {
        let farm = Farm::default();
        let managed = Managed::start(connector(EraChoice::Modern), farm.way(), Policy::CHILD);
        managed.all_tools().await.unwrap();
        let options = CallOptions { repeat, ..CallOptions::default() };
        let call = managed.call_tool_with(tool, &json!({}), options).unwrap();
        let call = tokio::spawn(call);
        farm.0.waiting.notified().await;
        farm.kill().await;
        let outcome = match runs {
            1 => call.await.unwrap(),
            _ => {
                farm.0.waiting.notified().await;
                farm.0.go_on.notify_one();
                let done = call.await.unwrap();
                assert_eq!(text(done.as_ref().unwrap()), "done", "{tool}");
                done
            }
        };
        if let Err(error) = outcome {
            assert!(error.may_have_executed(), "{tool}: {error}");
        }
        ready(&managed).await;
        managed.call_tool("echo", &json!({})).unwrap().await.unwrap();
        assert_eq!(farm.ran(tool), runs, "{tool} {repeat:?}");
        managed.close("done").await;
    }
}

/// S0-73: once is enough: a server that dies of a call does so at most twice.
#[tokio::test(start_paused = true)]
async fn s0_73_a_call_is_repeated_once() {
    let farm = Farm::default();
    let managed = Managed::start(connector(EraChoice::Legacy), farm.way(), Policy::CHILD);
    managed.all_tools().await.unwrap();
    let call = tokio::spawn(managed.call_tool("look", &json!({})).unwrap());
    for _ in 0..2 {
        farm.0.waiting.notified().await;
        farm.kill().await;
    }
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Lost { delivery: Delivery::Unknown, .. }), "{error:?}");
    ready(&managed).await;
    assert_eq!(farm.ran("look"), 2);
    managed.close("done").await;
}

/// S0-73, S1-C4: a call that timed out is never sent again, and waiting for a link extends no deadline.
#[tokio::test(start_paused = true)]
async fn s1_c4_retries_stay_within_the_deadline() {
    let farm = Farm::default();
    let managed = Managed::start(connector(EraChoice::Modern), farm.way(), Policy::CHILD);
    managed.all_tools().await.unwrap();
    let options = CallOptions { total: Some(secs(5)), ..CallOptions::default() };
    let begun = Instant::now();
    let error = managed.call_tool_with("look", &json!({}), options).unwrap().await.unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error:?}");
    assert_eq!((begun.elapsed(), farm.ran("look")), (secs(5), 1));

    // Lost after two seconds, back at once, and three seconds later its time is up.
    let begun = Instant::now();
    let call = tokio::spawn(managed.call_tool_with("look", &json!({}), options).unwrap());
    farm.0.waiting.notified().await;
    farm.0.waiting.notified().await;
    tokio::time::advance(secs(2)).await;
    farm.kill().await;
    farm.0.waiting.notified().await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error:?}");
    assert_eq!((begun.elapsed(), farm.ran("look")), (secs(5), 3));

    // Nobody there: it waits no longer than it may, whatever else is set.
    farm.0.down.store(true, Ordering::SeqCst);
    farm.kill().await;
    for options in [options, CallOptions { idle: Some(secs(5)), ..CallOptions::default() }] {
        let begun = Instant::now();
        let error = managed.call_tool_with("look", &json!({}), options).unwrap().await.unwrap_err();
        assert!(!error.may_have_executed(), "{error:?}");
        assert!(begun.elapsed() <= secs(5), "{:?}", begun.elapsed());
    }
    managed.close("done").await;
}

/// A call that waits for a link can be given up.
#[tokio::test(start_paused = true)]
async fn a_waiting_call_can_be_cancelled() {
    let nowhere = way(std::future::pending::<Result<MemoryLink, Infallible>>);
    let managed = Managed::start(connector(EraChoice::Modern), nowhere, Policy::REMOTE);
    let mut call = managed.call_tool("echo", &json!({})).unwrap();
    call.cancel("never mind");
    assert_eq!(call.progress().await, None);
    let error = call.await.unwrap_err();
    assert!(matches!(&error, CallError::Cancelled { delivery: Delivery::NotSent, .. }), "{error:?}");
    managed.close("done").await;
}

/// SUB-11, STD-14, S2-45, S0-28: listens stand, and are told what changed while nobody told; the log level and the
/// roots are in force again.
#[tokio::test(start_paused = true)]
async fn s2_45_what_was_in_force_is_in_force_again() {
    for era in ERAS {
        let farm = Farm::default();
        let roots = vec![Root { uri: "file:///home".into(), ..Root::default() }];
        let answers = Answerers::default().roots(Arc::new(std::sync::RwLock::new(roots)));
        let managed = Managed::start(connector(era).answer(answers), farm.way(), Policy::CHILD);
        ready(&managed).await;
        let interest = Interest { tools: true, uris: vec!["x:1".into()], ..Interest::default() };
        let mut listen = managed.listen(interest.clone());
        assert_eq!(listen.ready().await.unwrap(), interest);
        managed.set_level(LogLevel::Info);
        let before = managed.all_tools().await.unwrap().len();
        for round in 2..=3 {
            farm.kill().await;
            assert_eq!(listen.next().await, Some(Change::Resource("x:1".into())), "it may have");
            if round == 3 {
                assert_eq!(listen.next().await, Some(Change::Tools), "one more tool");
            }
            ready(&managed).await;
            farm.current().changed(&Change::Resource("x:1".into()));
            assert_eq!(listen.next().await, Some(Change::Resource("x:1".into())));
            let mut notes = managed.notes();
            while notes.try_next().is_some() {}
            managed.call_tool("talk", &json!({})).unwrap().await.unwrap();
            let Some(Event::Logged { params }) = notes.next().await else { panic!("no log note") };
            assert!(String::from_utf8_lossy(&params).contains("hello"));
            managed.call_tool("roots", &json!({})).unwrap().await.unwrap();
        }
        assert_eq!(managed.all_tools().await.unwrap().len(), before + 1);
        assert_eq!(*farm.0.told.lock().unwrap(), ["file:///home"; 2]);
        assert_eq!(farm.starts(), 3, "the era was remembered");
        drop(listen);
        managed.close("done").await;
    }
}

/// S0-8: a listen that is made before there is a server is in force when there is one.
#[tokio::test(start_paused = true)]
async fn s0_8_a_listen_may_come_before_the_first_link() {
    let farm = Farm::default();
    farm.0.down.store(true, Ordering::SeqCst);
    let managed = Managed::start(connector(EraChoice::Modern), farm.way(), Policy::REMOTE);
    let mut listen = managed.listen(Interest { tools: true, ..Interest::default() });
    until(&mut managed.transitions(), "reconnecting").await;
    farm.0.down.store(false, Ordering::SeqCst);
    assert!(listen.ready().await.unwrap().tools);
    farm.current().changed(&Change::Tools);
    assert_eq!((listen.next().await, listen.dropped()), (Some(Change::Tools), 0));
    managed.close("done").await;
}

/// S2-46, F38: closed by us is final, from wherever; drained first, and whoever waits is told.
#[tokio::test(start_paused = true)]
async fn s2_46_a_closed_connection_stays_closed() {
    let farm = Farm::default();
    let managed = Managed::start(connector(EraChoice::Modern), farm.way(), Policy::REMOTE);
    ready(&managed).await;
    let mut listen = managed.listen(Interest { tools: true, ..Interest::default() });
    listen.ready().await.unwrap();
    let running = tokio::spawn(managed.call_tool("add", &json!({})).unwrap());
    farm.0.waiting.notified().await;
    let (closing, other) = (managed.clone(), managed.clone());
    let closing = tokio::spawn(async move { closing.close("enough").await });
    tokio::task::yield_now().await;
    farm.0.go_on.notify_one();
    assert_eq!(text(&running.await.unwrap().unwrap()), "done", "what runs may finish");
    other.close("again").await;
    closing.await.unwrap();
    assert_eq!(listen.next().await, None);
    let error = managed.call_tool("echo", &json!({})).unwrap().await.unwrap_err();
    assert!(!error.may_have_executed(), "{error}");
    managed.reconnect();
    tokio::time::advance(LONG).await;
    assert_eq!((managed.condition(), farm.starts()), (Condition::CLOSED, 1));
    let told = told(managed.transitions());
    assert_eq!(told[told.len() - 3..], ["draining", "disconnecting", "closed"]);
}

/// S2-40: a close gives up the attempt that is under way, at once; so does dropping the last handle.
#[tokio::test(start_paused = true)]
async fn s2_40_a_close_interrupts_connecting() {
    let gone = Arc::new(Notify::new());
    for close in [true, false] {
        let signal = Arc::clone(&gone);
        let nowhere = way(move || {
            let signal = OnDrop(Arc::clone(&signal));
            async move {
                let _signal = signal;
                std::future::pending::<Result<MemoryLink, Infallible>>().await
            }
        });
        let managed = Managed::start(connector(EraChoice::Modern), nowhere, Policy::REMOTE);
        let mut watcher = managed.transitions();
        until(&mut watcher, "connecting").await;
        let begun = Instant::now();
        match close {
            true => {
                managed.close("changed our mind").await;
                assert_eq!(told(managed.transitions()), ["connecting", "disconnecting", "closed"]);
            }
            false => drop(managed),
        }
        gone.notified().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}

struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// S2-42: what keeps failing is suspended: calls fail at once and say why; by hand it begins anew.
#[tokio::test(start_paused = true)]
async fn s2_42_a_server_that_does_not_come_back_is_suspended() {
    let farm = Farm::default();
    farm.0.down.store(true, Ordering::SeqCst);
    let managed = Managed::start(connector(EraChoice::Modern), farm.way(), Policy::CHILD);
    let error = managed.ready(LONG).await.unwrap_err();
    assert!(error.to_string().contains("no link could be made: nobody there"), "{error}");
    assert_eq!((managed.condition(), farm.starts()), (Condition::Suspended { until: None }, 6));
    let error = managed.call_tool("echo", &json!({})).unwrap().await.unwrap_err();
    assert!(error.to_string().contains("nobody there") && !error.may_have_executed(), "{error}");
    farm.0.down.store(false, Ordering::SeqCst);
    tokio::time::advance(LONG).await;
    assert_eq!(farm.starts(), 6, "a child is left alone");
    managed.reconnect();
    managed.ready(LONG).await.unwrap();
    managed.call_tool("echo", &json!({})).unwrap().await.unwrap();
    managed.close("done").await;
}

/// PNG-2, F12: a peer that falls silent without closing is noticed by the probe, its calls are told, and the link
/// is made anew.
#[tokio::test(start_paused = true)]
async fn png_2_a_silent_peer_is_noticed() {
    for era in ERAS {
        let farm = Farm::default();
        let held = Arc::new(Mutex::new(Vec::new()));
        let (dialled, holding) = (farm.clone(), Arc::clone(&held));
        let first = AtomicBool::new(true);
        let way = way(move || {
            let link = match first.swap(false, Ordering::SeqCst) {
                // The first server answers the opening and then nothing.
                true => Ok(deaf(&holding)),
                false => dialled.dial(),
            };
            async move { link }
        });
        let managed = Managed::start(connector(era), way, Policy::REMOTE);
        ready(&managed).await;
        let begun = Instant::now();
        let mut watcher = managed.transitions();
        let lost = until(&mut watcher, "disconnected").await;
        assert_eq!((lost.cause, begun.elapsed()), (Some(Cause::Silent(secs(10))), secs(40)));
        until(&mut watcher, "ready").await;
        managed.call_tool("echo", &json!({})).unwrap().await.unwrap();
        assert_eq!(farm.starts(), 1);
        managed.close("done").await;
    }
}

/// A server that greets, and then reads without answering.
fn deaf(held: &Mutex<Vec<JoinHandle<()>>>) -> MemoryLink {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(ours);
    let task = tokio::spawn(async move {
        let (read, mut write) = tokio::io::split(theirs);
        let mut lines = BufReader::new(read).lines();
        let mut greeted = false;
        while let Ok(Some(line)) = lines.next_line().await {
            let call: Value = serde_json::from_str(&line).unwrap();
            let result = match call["method"].as_str() {
                Some("initialize") => json!({ "protocolVersion": "2025-11-25", "capabilities": {},
                    "serverInfo": { "name": "deaf", "version": "1" } }),
                Some("server/discover") => {
                    json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {}, "ttlMs": 0, "cacheScope": "private" })
                }
                _ => continue,
            };
            if !std::mem::replace(&mut greeted, true) {
                let reply = json!({ "jsonrpc": "2.0", "id": call["id"], "result": result });
                write.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
            }
        }
    });
    held.lock().unwrap().push(task);
    cardan::runtime::lines::Lines::new(read, write, &Limits::DEFAULT)
}

/// F14, S2-42: a server that accepts and closes at once is dialled no more than a few times in ten minutes.
#[tokio::test(start_paused = true)]
async fn f14_a_server_that_always_dies_is_not_stormed() {
    let farm = Farm::default();
    let managed = Managed::start(connector(EraChoice::Modern), farm.way(), Policy::REMOTE);
    let mut watcher = managed.transitions();
    let begun = Instant::now();
    let storm = async {
        loop {
            until(&mut watcher, "ready").await;
            farm.kill().await;
        }
    };
    let _ = tokio::time::timeout(secs(600), storm).await;
    assert_eq!(begun.elapsed(), secs(600));
    assert!((7..=40).contains(&farm.starts()), "{} dials", farm.starts());
    managed.close("done").await;
}

/// A live link is replaced by hand: calls that were never sent go over the new one.
#[tokio::test(start_paused = true)]
async fn a_link_is_replaced_by_hand() {
    let farm = Farm::default();
    let managed = Managed::start(connector(EraChoice::Legacy), farm.way(), Policy::CHILD);
    ready(&managed).await;
    assert_eq!(managed.settled().unwrap().revision.era(), Era::Legacy);
    let mut watcher = managed.transitions();
    until(&mut watcher, "ready").await;
    managed.reconnect();
    until(&mut watcher, "ready").await;
    managed.ping().await.unwrap();
    let raw = managed.raw(Method::ToolsList, None, CallOptions::default()).await.unwrap();
    assert!(raw.starts_with(b"{"));
    assert_eq!(farm.starts(), 2);
    managed.close("done").await;
}
