//! One link after another, each held by the test: what is said on it, in which order, and who is told when it dies.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use cardan_client::{CallError, Class, Client, Connector, Logs, Managed, Reaching, Retry, Watcher, Way, way};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::LogLevel;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Cause, Change, Deadline, Event, Interest};
use cardan_proto::upkeep::condition::{Condition, Transition};
use cardan_proto::upkeep::policy::{Backoff, Policy};
use cardan_runtime::lines::Lines;
use cardan_runtime::memory::MemoryLink;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader, DuplexStream, ReadBuf, ReadHalf,
    WriteHalf,
};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Under a paused clock this costs nothing.
const LONG: Duration = Duration::from_secs(3600);

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The server's end of one link. Dropping it is the server's death.
struct Wire {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Wire {
    fn pair() -> (MemoryLink, Self) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(ours);
        let (their_read, their_write) = tokio::io::split(theirs);
        let wire = Self { lines: BufReader::new(their_read).lines(), write: their_write };
        (Lines::new(read, write, &Limits::DEFAULT), wire)
    }

    /// The next message; nothing: the client has left.
    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(LONG, self.lines.next_line()).await.expect("a message in time");
        line.ok().flatten().map(|line| serde_json::from_str(&line).unwrap())
    }

    /// The next message, which is of this method.
    async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await.expect("a message");
        assert_eq!(message["method"], method, "{message}");
        message
    }

    async fn say(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn reply(&mut self, call: &Value, result: Value) {
        self.say(json!({ "jsonrpc": "2.0", "id": call["id"], "result": result })).await;
    }

    async fn greet(&mut self) {
        let hello = self.expect("initialize").await;
        let result = json!({
            "protocolVersion": hello["params"]["protocolVersion"],
            "capabilities": { "tools": {}, "logging": {}, "resources": { "subscribe": true } },
            "serverInfo": { "name": "wire", "version": "1" },
        });
        self.reply(&hello, result).await;
        self.expect("notifications/initialized").await;
    }

    async fn updated(&mut self, uri: &str) {
        let method = "notifications/resources/updated";
        self.say(json!({ "jsonrpc": "2.0", "method": method, "params": { "uri": uri } })).await;
    }
}

/// The links that were dialled.
type Dialled = mpsc::UnboundedReceiver<Wire>;

fn dialling() -> (Arc<dyn Way>, Dialled) {
    let (dialled, wires) = mpsc::unbounded_channel();
    let way = way(move || {
        let (link, wire) = Wire::pair();
        dialled.send(wire).unwrap();
        std::future::ready(Ok::<_, Infallible>(link))
    });
    (way, wires)
}

fn connector() -> Connector {
    Client::builder("tests", "0").era(EraChoice::Legacy)
}

async fn until(watcher: &mut Watcher<Transition>, wanted: &str) -> Transition {
    loop {
        let transition = tokio::time::timeout(LONG, watcher.next()).await.unwrap().expect("it is kept");
        if transition.to.to_string().starts_with(wanted) {
            return transition;
        }
    }
}

fn told(mut watcher: Watcher<Transition>) -> Vec<String> {
    std::iter::from_fn(|| watcher.try_next()).map(|transition| transition.to.to_string()).collect()
}

/// S2-30: one note of a legacy server reaches each listen that it is for, and whoever reads notes once.
#[tokio::test(start_paused = true)]
async fn s2_30_a_note_for_several_listens_is_one_note() {
    let (way, mut wires) = dialling();
    let managed = Managed::start(connector(), way, Policy::CHILD);
    let mut wire = wires.recv().await.unwrap();
    wire.greet().await;
    managed.ready(LONG).await.unwrap();
    let interest = Interest { uris: vec!["x:1".into()], ..Interest::default() };
    let mut listens = [managed.listen(interest.clone()), managed.listen(interest)];
    for _ in &listens {
        let subscribe = wire.expect("resources/subscribe").await;
        wire.reply(&subscribe, json!({})).await;
    }
    let mut notes = managed.notes();
    for listen in &mut listens {
        listen.ready().await.unwrap();
    }
    wire.updated("x:1").await;
    wire.say(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } }))
        .await;
    for listen in &mut listens {
        assert_eq!(listen.next().await, Some(Change::Resource("x:1".into())));
    }
    let first = notes.next().await;
    assert!(matches!(&first, Some(Event::Changed { tickets, .. }) if tickets.len() == 2), "{first:?}");
    let second = notes.next().await;
    assert!(matches!(second, Some(Event::Logged { .. })), "told once: {second:?}");
    managed.close("done").await;
}

/// T19: where log notes are observed alone, none is kept; other notes are.
#[tokio::test(start_paused = true)]
async fn t19_log_notes_that_are_observed_are_not_kept() {
    let (way, mut wires) = dialling();
    let (told, mut logs) = mpsc::unbounded_channel();
    let connector = connector().logs(Logs::Observed).observe(move |event| {
        if let Event::Logged { params } = event {
            told.send(params.clone()).unwrap();
        }
    });
    let managed = Managed::start(connector, way, Policy::CHILD);
    let mut wire = wires.recv().await.unwrap();
    wire.greet().await;
    managed.ready(LONG).await.unwrap();
    wire.say(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } }))
        .await;
    wire.updated("x:1").await;
    assert!(logs.recv().await.is_some());
    let first = managed.notes().next().await;
    assert!(matches!(&first, Some(Event::Changed { .. })), "{first:?}");
    managed.close("done").await;
}

/// Reads as it is told, and is broken.
struct Broken(ReadHalf<DuplexStream>);

impl AsyncRead for Broken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.0).poll_read(cx, into);
        assert!(!into.filled().windows(4).any(|bytes| bytes == b"boom"), "a transport that panics");
        polled
    }
}

/// S2-44: what panics on our side is told as a defect of ours, to who waits for a call and to who waits for the end.
#[tokio::test]
async fn s2_44_a_panic_of_ours_is_internal() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(ours);
    let link = Lines::new(Broken(read), write, &Limits::DEFAULT);
    let (their_read, their_write) = tokio::io::split(theirs);
    let mut wire = Wire { lines: BufReader::new(their_read).lines(), write: their_write };
    let server = tokio::spawn(async move {
        wire.greet().await;
        wire.expect("ping").await;
        wire.say(json!("boom")).await;
        wire
    });
    let mut client = connector().connect_link(link).await.unwrap();
    let error = client.ping().await.unwrap_err();
    assert_eq!((error.class(), error.retry()), (Class::Internal, Retry::No), "{error}");
    assert_eq!(client.closed().await, Cause::Panicked);
    drop(server.await);
}

/// A way whose attempts succeed when the test wants them to, whatever is wanted meanwhile.
struct Gated {
    /// Whom to close in the very moment of success.
    managed: OnceLock<Managed>,
    closes: bool,
    ready: Arc<Notify>,
    open: Arc<Notify>,
    dialled: mpsc::UnboundedSender<Wire>,
}

impl Way for Gated {
    fn reach(&self, connector: Connector) -> Reaching {
        let (link, wire) = Wire::pair();
        self.dialled.send(wire).unwrap();
        let managed = self.managed.get().cloned().filter(|_| self.closes);
        let (ready, open) = (Arc::clone(&self.ready), Arc::clone(&self.open));
        Box::pin(async move {
            let client = connector.connect_link(link).await.unwrap();
            ready.notify_one();
            match managed {
                Some(managed) => {
                    let mut closing = Box::pin(async move { managed.close("now").await });
                    let begun = std::future::poll_fn(|cx| Poll::Ready(closing.as_mut().poll(cx))).await;
                    assert!(begun.is_pending());
                    tokio::spawn(closing);
                }
                None => open.notified().await,
            }
            Ok(client)
        })
    }
}

/// S2-40, F38: a close that comes before, or in the very moment, that an attempt succeeds: the link ends, nobody is
/// told that calls flow, and nothing is waited for.
#[tokio::test(start_paused = true)]
async fn s2_40_a_close_may_race_success() {
    for closes in [true, false] {
        let (dialled, mut wires) = mpsc::unbounded_channel();
        let (ready, open) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let way = Arc::new(Gated {
            managed: OnceLock::new(),
            closes,
            ready: Arc::clone(&ready),
            open: Arc::clone(&open),
            dialled,
        });
        let managed = Managed::start(connector(), way.clone(), Policy::REMOTE);
        way.managed.set(managed.clone()).unwrap();
        let call = managed.call_tool("x", &json!({})).unwrap();
        let mut wire = wires.recv().await.unwrap();
        wire.greet().await;
        ready.notified().await;
        let begun = Instant::now();
        if !closes {
            let closing = managed.clone();
            tokio::spawn(async move { closing.close("before").await });
            let mut watcher = managed.transitions();
            until(&mut watcher, "disconnecting").await;
            // The attempt has been told that nobody wants it, and succeeds all the same.
            tokio::task::yield_now().await;
            open.notify_one();
        }
        tokio::time::timeout(LONG, managed.close("again")).await.expect("it is over soon");
        assert_eq!((managed.condition(), begun.elapsed()), (Condition::CLOSED, Duration::ZERO));
        assert_eq!(wire.next().await, None, "nothing was sent, and the link has ended");
        let error = call.await.unwrap_err();
        assert!(!error.may_have_executed(), "{error}");
        assert_eq!(told(managed.transitions()), ["connecting", "initializing", "disconnecting", "closed"]);
        assert!(wires.try_recv().is_err(), "nobody dials again");
    }
}

/// S2-45, S0-76: what was wanted before there was a link is sent on it once: first what is to be in force, then the
/// calls, whether or not someone had looked at them before.
#[tokio::test(start_paused = true)]
async fn s0_76_what_waits_for_a_link_is_sent_once_and_in_order() {
    let (way, mut wires) = dialling();
    let managed = Managed::start(connector(), way, Policy::CHILD);
    managed.set_level(LogLevel::Info);
    let mut listen = managed.listen(Interest { uris: vec!["x:1".into()], ..Interest::default() });
    let looked_at = tokio::spawn(managed.call_tool("a", &json!({})).unwrap().into_future());
    let unseen = managed.call_tool("b", &json!({})).unwrap();
    let mut wire = wires.recv().await.unwrap();
    let during = tokio::spawn(managed.call_tool("c", &json!({})).unwrap().into_future());
    wire.greet().await;
    let level = wire.expect("logging/setLevel").await;
    wire.reply(&level, json!({})).await;
    let subscribe = wire.expect("resources/subscribe").await;
    wire.reply(&subscribe, json!({})).await;
    listen.ready().await.unwrap();
    let unseen = tokio::spawn(unseen.into_future());
    let mut names = Vec::new();
    for _ in 0..3 {
        let call = wire.expect("tools/call").await;
        names.push(call["params"]["name"].as_str().unwrap().to_owned());
        wire.reply(&call, json!({ "content": [] })).await;
    }
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
    for call in [looked_at, unseen, during] {
        call.await.unwrap().unwrap();
    }
    let closing = tokio::spawn(async move { managed.close("done").await });
    // It may say good-bye, and calls nothing more.
    while let Some(message) = wire.next().await {
        assert!(message.get("id").is_none() || message["method"] == "resources/unsubscribe", "{message}");
    }
    drop(wire);
    closing.await.unwrap();
    assert!(wires.try_recv().is_err());
}

/// LOG-2, S2-45: a level that a call has set is in force on the next link, too; one that was refused is not.
#[tokio::test(start_paused = true)]
async fn s2_45_a_level_that_was_taken_is_told_on_the_next_link() {
    for refused in [false, true] {
        let (way, mut wires) = dialling();
        let managed = Managed::start(connector(), way, Policy::CHILD);
        let mut wire = wires.recv().await.unwrap();
        wire.greet().await;
        let params = Some(json!({"level": "debug"}).to_string().into());
        let caller = managed.clone();
        let set =
            tokio::spawn(
                async move { caller.raw(Method::LoggingSetLevel, params, CallOptions::default()).await },
            );
        let level = wire.expect("logging/setLevel").await;
        match refused {
            true => {
                let error = json!({ "code": -32000, "message": "no" });
                wire.say(json!({ "jsonrpc": "2.0", "id": level["id"], "error": error })).await;
            }
            false => wire.reply(&level, json!({})).await,
        }
        assert_eq!(set.await.unwrap().is_err(), refused);
        drop(wire);
        let mut wire = wires.recv().await.unwrap();
        let call = tokio::spawn(managed.call_tool("a", &json!({})).unwrap().into_future());
        wire.greet().await;
        if !refused {
            let again = wire.expect("logging/setLevel").await;
            assert_eq!(again["params"], json!({"level": "debug"}));
            wire.reply(&again, json!({})).await;
        }
        let asked = wire.expect("tools/call").await;
        wire.reply(&asked, json!({ "content": [] })).await;
        call.await.unwrap().unwrap();
    }
}

/// S2-45, SUB-11: a link that dies while listens are being brought in force again takes none of them with it.
#[tokio::test(start_paused = true)]
async fn s2_45_a_death_amid_restoring_loses_no_listen() {
    let (way, mut wires) = dialling();
    let managed = Managed::start(connector(), way, Policy::CHILD);
    let listen = |uri: &str| managed.listen(Interest { uris: vec![uri.into()], ..Interest::default() });
    let (mut one, mut two) = (listen("x:1"), listen("x:2"));
    let changed = |uri: &str| Some(Change::Resource(uri.into()));
    // A new link on which the first so many listens are answered.
    let mut link = async |answered: usize| {
        let mut wire = wires.recv().await.unwrap();
        wire.greet().await;
        for number in 0..2 {
            let subscribe = wire.expect("resources/subscribe").await;
            if number < answered {
                wire.reply(&subscribe, json!({})).await;
            }
        }
        wire
    };
    let first = link(2).await;
    one.ready().await.unwrap();
    two.ready().await.unwrap();
    drop(first);
    drop(link(0).await);
    let half = link(1).await;
    assert_eq!(one.next().await, changed("x:1"), "it may have");
    drop(half);
    let mut last = link(2).await;
    assert_eq!((one.next().await, two.next().await), (changed("x:1"), changed("x:2")));
    last.updated("x:2/below").await;
    assert_eq!(two.next().await, changed("x:2/below"), "once each, and now from the server");
    assert_eq!(managed.condition(), Condition::READY);
    let call = tokio::spawn(managed.call_tool("a", &json!({})).unwrap().into_future());
    let called = last.expect("tools/call").await;
    last.reply(&called, json!({ "content": [] })).await;
    call.await.unwrap().unwrap();
    let mut watcher = managed.transitions();
    let all: Vec<_> = std::iter::from_fn(|| watcher.try_next()).collect();
    assert!(all.iter().all(|told| told.to != Condition::Degraded), "what a link takes with it is no trouble");
    let ready = all.iter().filter(|told| told.to == Condition::READY).map(|told| told.attempt);
    let ready: Vec<_> = ready.collect();
    assert_eq!(ready, [0, 1, 2, 3], "opening alone makes up for nothing");
}

/// PNG-2: a probe that could not be sent says nothing of the peer, and follows as soon as it can.
#[tokio::test(start_paused = true)]
async fn png_2_a_probe_that_is_refused_is_made_up_for() {
    let (way, mut wires) = dialling();
    let limits = Limits { calls_outbound: 1, ..Limits::DEFAULT };
    let managed = Managed::start(connector().limits(limits), way, Policy::REMOTE);
    let mut wire = wires.recv().await.unwrap();
    wire.greet().await;
    managed.ready(LONG).await.unwrap();
    let (up, none) = (Instant::now(), Some(Duration::ZERO));
    let options = CallOptions { idle: none, total: none, ..CallOptions::default() };
    let call = tokio::spawn(managed.call_tool_with("a", &json!({}), options).unwrap().into_future());
    let called = wire.expect("tools/call").await;
    // At 30 s there is no room for a probe, nor is there a second later.
    tokio::time::sleep_until(up + Duration::from_millis(32_500)).await;
    assert_eq!(managed.condition(), Condition::READY);
    wire.reply(&called, json!({ "content": [] })).await;
    call.await.unwrap().unwrap();
    let ping = wire.expect("ping").await;
    assert_eq!(up.elapsed(), secs(33));
    wire.reply(&ping, json!({})).await;
    let ping = wire.expect("ping").await;
    assert_eq!(up.elapsed(), secs(63), "then as often as ever");
    wire.reply(&ping, json!({})).await;
    assert_eq!(managed.condition(), Condition::READY);
}

/// F12, PNG-2, S0-86: a server that stops for a minute, with the numbers that we ship. Nobody calls: it is noticed
/// after a period and a probe, and another takes its place. What stopped finds its link closed when it goes on.
#[tokio::test(start_paused = true)]
async fn f12_a_server_that_stops_for_a_minute_is_replaced() {
    let (way, mut wires) = dialling();
    let managed = Managed::start(connector(), way, Policy::REMOTE);
    let mut stopped = wires.recv().await.unwrap();
    stopped.greet().await;
    managed.ready(LONG).await.unwrap();
    let mut watcher = managed.transitions();
    let begun = Instant::now();
    let lost = until(&mut watcher, "disconnected").await;
    let Policy { probe, .. } = Policy::REMOTE;
    assert_eq!(lost.cause, Some(Cause::Silent(probe.within)));
    assert_eq!(begun.elapsed(), probe.every.unwrap() + probe.within);
    let mut second = wires.recv().await.unwrap();
    second.greet().await;
    until(&mut watcher, "ready").await;
    assert!(begun.elapsed() < secs(60), "before it goes on: {:?}", begun.elapsed());
    tokio::time::sleep_until(begun + secs(60)).await;
    stopped.expect("ping").await;
    while let Some(message) = stopped.next().await {
        assert_eq!(message["method"], "notifications/cancelled", "of the probe");
    }
    drop(stopped);
    for _ in 0..20 {
        let ping = second.expect("ping").await;
        second.reply(&ping, json!({})).await;
    }
    assert_eq!(managed.condition(), Condition::READY);
    assert!(wires.try_recv().is_err(), "two servers in all, and one is left");
}

/// F12, S0-86: the same with a call in progress. Its deadline holds and its error says what may have happened; as
/// the server may be at work it is given time, and goes on where it was: there is no second one.
#[tokio::test(start_paused = true)]
async fn f12_a_call_to_a_stopped_server_is_answered_in_time() {
    let (way, mut wires) = dialling();
    let managed = Managed::start(connector(), way, Policy::REMOTE);
    let mut wire = wires.recv().await.unwrap();
    wire.greet().await;
    managed.ready(LONG).await.unwrap();
    let begun = Instant::now();
    let options = [
        (CallOptions::default(), Deadline::Idle, Limits::DEFAULT.call_idle_timeout),
        (CallOptions { total: Some(secs(20)), ..CallOptions::default() }, Deadline::Total, secs(20)),
    ];
    let calls = options.map(|(options, deadline, within)| {
        let call = managed.call_tool_with("a", &json!({}), options).unwrap().into_future();
        tokio::spawn(async move {
            let error = call.await.unwrap_err();
            assert!(error.may_have_executed(), "{error}");
            assert!(
                matches!(error, CallError::TimedOut { deadline: found, .. } if found == deadline),
                "{error}"
            );
            assert_eq!(begun.elapsed(), within);
        })
    });
    for call in calls {
        call.await.unwrap();
    }
    tokio::time::sleep_until(begun + secs(60)).await;
    // It goes on, and reads what came meanwhile.
    loop {
        let message = wire.next().await.expect("it is still wanted");
        if message["method"] == "ping" {
            wire.reply(&message, json!({})).await;
            break;
        }
    }
    let call = tokio::spawn(managed.call_tool("b", &json!({})).unwrap().into_future());
    let called = loop {
        let message = wire.next().await.expect("it is still wanted");
        if message["params"]["name"] == "b" {
            break message;
        }
    };
    wire.reply(&called, json!({ "content": [] })).await;
    call.await.unwrap().unwrap();
    assert_eq!((managed.condition(), told(managed.transitions()).len()), (Condition::READY, 3));
    assert!(wires.try_recv().is_err(), "there is no second one");
}

/// F12: whoever saw something fail elsewhere has the link looked after, once for all who say so meanwhile; a link that is
/// well stays, and where there is none nothing happens.
#[tokio::test(start_paused = true)]
async fn f12_a_doubt_from_elsewhere_is_settled_by_one_probe() {
    let (way, mut wires) = dialling();
    let managed = Managed::start(connector(), way, Policy::REMOTE);
    let mut wire = wires.recv().await.unwrap();
    managed.doubt();
    wire.greet().await;
    managed.ready(LONG).await.unwrap();
    let (begun, mut watcher) = (Instant::now(), managed.transitions());
    (0..100).for_each(|_| managed.doubt());
    let ping = wire.expect("ping").await;
    managed.doubt();
    wire.reply(&ping, json!({})).await;
    let every = Policy::REMOTE.probe.every.unwrap();
    let next = wire.expect("ping").await;
    assert_eq!((begun.elapsed(), managed.condition()), (every, Condition::READY), "the next one in its time");
    wire.reply(&next, json!({})).await;
    // The answer has arrived by then.
    tokio::time::sleep(secs(1)).await;
    managed.doubt();
    wire.expect("ping").await;
    drop(wire);
    until(&mut watcher, "disconnected").await;
    assert_eq!(begun.elapsed(), every + secs(1), "one that is gone is known at once");
    managed.doubt();
    wires.recv().await.unwrap().greet().await;
    managed.ready(LONG).await.unwrap();
}

/// F14: a call that may wait only so long for a link ends then, as never sent, however long it may be silent; one that has a
/// link is not concerned.
#[tokio::test(start_paused = true)]
async fn f14_a_call_without_a_link_waits_as_long_as_it_may() {
    let (way, mut wires) = dialling();
    let backoff = Backoff { min: LONG, max: LONG, ..Policy::REMOTE.backoff };
    let managed = Managed::start(connector(), way, Policy { backoff, ..Policy::REMOTE });
    let mut wire = wires.recv().await.unwrap();
    wire.greet().await;
    managed.ready(LONG).await.unwrap();
    let never = Some(Duration::ZERO);
    let options =
        CallOptions { idle: never, total: never, unlinked: Some(secs(5)), ..CallOptions::default() };
    let call = || tokio::spawn(managed.call_tool_with("a", &json!({}), options).unwrap().into_future());
    let (begun, slow) = (Instant::now(), call());
    let called = wire.expect("tools/call").await;
    tokio::time::sleep_until(begun + secs(20)).await;
    wire.reply(&called, json!({ "content": [] })).await;
    slow.await.unwrap().unwrap();
    let mut watcher = managed.transitions();
    drop(wire);
    until(&mut watcher, "reconnecting").await;
    let begun = Instant::now();
    let error = call().await.unwrap().unwrap_err();
    assert!(!error.may_have_executed(), "{error}");
    assert_eq!(begun.elapsed(), secs(5), "{error}");
}
