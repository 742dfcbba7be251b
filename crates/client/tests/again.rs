//! Calls that are sent again, and what is said of them, against servers that follow a script.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{CallError, Client, Connector, Managed, way};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Cause, Delivery, Repeat};
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::lines::Lines;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Under a paused clock this costs nothing.
const LONG: Duration = Duration::from_secs(3600);

/// What the server behind the n-th link does with a tool that is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Answers,
    /// It says nothing more, whatever it is asked.
    Hangs,
    /// The link is not made until it is told so.
    Comes,
}

#[derive(Clone)]
struct Farm(Arc<Inner>);

struct Inner {
    manners: Vec<Manner>,
    dials: AtomicUsize,
    calls: AtomicUsize,
    called: Notify,
    come: Notify,
    serving: Mutex<Option<JoinHandle<()>>>,
}

impl Farm {
    fn new(manners: &[Manner]) -> Self {
        Self(Arc::new(Inner {
            manners: manners.to_vec(),
            dials: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            called: Notify::new(),
            come: Notify::new(),
            serving: Mutex::new(None),
        }))
    }

    fn start(&self, connector: Connector, policy: Policy) -> Managed {
        let farm = self.clone();
        let way = way(move || {
            let farm = farm.clone();
            async move {
                let dial = farm.0.dials.fetch_add(1, Ordering::SeqCst);
                let manner = farm.0.manners[dial.min(farm.0.manners.len() - 1)];
                if manner == Manner::Comes {
                    farm.0.come.notified().await;
                }
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                let (read, write) = tokio::io::split(ours);
                *farm.0.serving.lock().unwrap() = Some(tokio::spawn(farm.clone().serve(theirs, manner)));
                Ok::<_, Infallible>(Lines::new(read, write, &Limits::DEFAULT))
            }
        });
        Managed::start(connector, way, policy)
    }

    async fn serve(self, link: DuplexStream, manner: Manner) {
        let (read, mut write) = tokio::io::split(link);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let result = match message["method"].as_str() {
                Some("initialize") => json!({
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "script", "version": "1" },
                }),
                Some("tools/call") => {
                    self.0.calls.fetch_add(1, Ordering::SeqCst);
                    self.0.called.notify_one();
                    if manner == Manner::Hangs {
                        // Until the link is gone.
                        return std::future::pending().await;
                    }
                    json!({ "content": [] })
                }
                _ => json!({}),
            };
            let Some(id) = message.get("id") else { continue };
            let reply = json!({ "jsonrpc": "2.0", "id": id, "result": result });
            write.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
        }
    }

    async fn kill(&self) {
        let task = self.0.serving.lock().unwrap().take().unwrap();
        task.abort();
        let _ = task.await;
    }

    fn calls(&self) -> usize {
        self.0.calls.load(Ordering::SeqCst)
    }
}

fn connector() -> Connector {
    Client::builder("tests", "0").era(EraChoice::Legacy)
}

fn always() -> CallOptions {
    CallOptions { repeat: Repeat::Always, ..CallOptions::default() }
}

/// S0-73: what may have been executed on the first link may have been executed, however the second try ends.
#[tokio::test(start_paused = true)]
async fn s0_73_a_second_try_does_not_undo_the_first() {
    let farm = Farm::new(&[Manner::Hangs, Manner::Comes]);
    let managed = farm.start(connector(), Policy::CHILD);
    managed.ready(LONG).await.unwrap();
    let call = tokio::spawn(managed.call_tool_with("x", &json!({}), always()).unwrap().into_future());
    farm.0.called.notified().await;
    farm.kill().await;
    let error = tokio::time::timeout(LONG, call).await.unwrap().unwrap().unwrap_err();
    assert!(error.may_have_executed(), "{error}");
    managed.close("done").await;
}

/// A call that was cancelled is not sent again, even if it had come back as lost and nobody had looked.
#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_not_sent_again() {
    let farm = Farm::new(&[Manner::Hangs, Manner::Answers]);
    let managed = farm.start(connector(), Policy::CHILD);
    managed.ready(LONG).await.unwrap();
    let call = managed.call_tool_with("x", &json!({}), always()).unwrap();
    farm.0.called.notified().await;
    let mut watcher = managed.transitions();
    farm.kill().await;
    while watcher.next().await.unwrap().to.is_up() {}
    call.cancel("changed our mind");
    managed.ready(LONG).await.unwrap();
    let error = call.await.unwrap_err();
    assert!(
        matches!(&error, CallError::Cancelled { delivery, .. } if *delivery != Delivery::NotSent),
        "{error}"
    );
    assert_eq!(farm.calls(), 1);
    managed.close("done").await;
}

/// Without a deadline in all, a call that waits for a link waits for it.
#[tokio::test(start_paused = true)]
async fn no_total_deadline_is_none() {
    let farm = Farm::new(&[Manner::Comes]);
    let limits =
        Limits { call_total_timeout: Duration::ZERO, call_idle_timeout: Duration::ZERO, ..Limits::DEFAULT };
    let managed = farm.start(connector().limits(limits), Policy::CHILD);
    let call = managed.call_tool("x", &json!({})).unwrap();
    farm.0.come.notify_one();
    call.await.unwrap();
    managed.close("done").await;
}

/// PNG-2: a server that may still work on what timed out has as long as a busy one to answer the probe.
#[tokio::test(start_paused = true)]
async fn png_2_a_timeout_is_probed_as_work() {
    let farm = Farm::new(&[Manner::Hangs, Manner::Answers]);
    let policy = Policy::CHILD;
    let bound = policy.probe.busy_within;
    assert_ne!(bound, policy.probe.within, "or nothing is tested");
    let managed = farm.start(connector(), policy);
    managed.ready(LONG).await.unwrap();
    let mut watcher = managed.transitions();
    let options = CallOptions { idle: Some(Duration::from_secs(1)), ..CallOptions::default() };
    let error = managed.call_tool_with("x", &json!({}), options).unwrap().await.unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
    let begun = Instant::now();
    let cause = loop {
        let transition = tokio::time::timeout(LONG, watcher.next()).await.unwrap().unwrap();
        if let Some(cause) = transition.cause {
            break cause;
        }
    };
    assert_eq!(cause, Cause::Silent(bound));
    assert!(begun.elapsed() >= bound - Duration::from_secs(1));
    managed.close("done").await;
}
