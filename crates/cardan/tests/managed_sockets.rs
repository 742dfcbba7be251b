//! Connections over TCP, Unix sockets and WebSocket that are kept while the listener is killed and comes back at the
//! same place.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan::client::{CallError, Client, Managed, Way, way};
use cardan::prelude::*;
use cardan::proto::http::origin::{Allow, Ports};
use cardan::proto::limits::Limits;
use cardan::proto::model::Tool;
use cardan::proto::model::tool::ToolAnnotations;
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::{Change, Interest};
use cardan::proto::upkeep::condition::Condition;
use cardan::proto::upkeep::policy::{Backoff, Burst, Policy};
use cardan::transport::socket::{Listener, Reach, connect_tcp, connect_unix};
use cardan_endpoint::listener::Listener as Port;
use cardan_endpoint::{Endpoint, Options};
use common::keeping::{PATIENCE, until, within};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// Where a server listens.
#[derive(Debug, Clone)]
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
    WebSocket(SocketAddr),
}

impl Place {
    fn way(&self) -> Arc<dyn Way> {
        match self.clone() {
            Self::Tcp(address) => way(move || async move { connect_tcp(address, &Limits::DEFAULT).await }),
            Self::Unix(path) => way(move || {
                let path = path.clone();
                async move { connect_unix(path, &Limits::DEFAULT).await }
            }),
            Self::WebSocket(address) => way(move || async move {
                cardan_ws::dial(&format!("ws://{address}/ws"), &cardan_ws::Dial::new(&Limits::DEFAULT)).await
            }),
        }
    }
}

/// What all servers of one test share.
#[derive(Clone, Default)]
struct Log(Arc<Inner>);

struct Inner {
    ran: Mutex<Vec<&'static str>>,
    arrived: Semaphore,
    hangs: AtomicBool,
}

impl Default for Inner {
    fn default() -> Self {
        Self { ran: Mutex::default(), arrived: Semaphore::new(0), hangs: AtomicBool::new(true) }
    }
}

impl Log {
    fn server(&self) -> Server {
        let mut builder =
            Server::builder("served", "1").tool("echo", "says it back", async |args: Value| args.to_string());
        for (name, hints) in [("add", json!({})), ("look", json!({ "readOnlyHint": true }))] {
            let hints: ToolAnnotations = serde_json::from_value(hints).unwrap();
            let tool = Tool::new(name, &json!({ "type": "object" })).with_annotations(hints);
            let log = self.clone();
            let run = move |_: Value, _: Cx| {
                let log = log.clone();
                async move {
                    log.0.ran.lock().unwrap().push(name);
                    log.0.arrived.add_permits(1);
                    if log.0.hangs.load(Ordering::SeqCst) {
                        std::future::pending::<()>().await;
                    }
                    CallToolResult::text("done")
                }
            };
            builder = builder.dynamic_tool(tool, run).unwrap();
        }
        builder.build()
    }

    fn ran(&self, tool: &str) -> usize {
        self.0.ran.lock().unwrap().iter().filter(|ran| **ran == tool).count()
    }
}

/// A server with a runtime of its own: dropping that is as good as killing a process.
struct Served {
    runtime: Option<Runtime>,
    server: Server,
    place: Place,
}

impl Served {
    /// Listens at `place`, once whoever was there before is gone.
    async fn start(place: &Place, log: &Log) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = log.server();
        let (serving, wanted) = (server.clone(), place.clone());
        let bound = runtime.spawn(async move {
            loop {
                if let Some(place) = listen(&serving, &wanted).await {
                    return place;
                }
                tokio::task::yield_now().await;
            }
        });
        let place = within("the place", bound).await.unwrap();
        Self { runtime: Some(runtime), server, place }
    }

    fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Serves at a place from now on; nothing: it is taken.
async fn listen(server: &Server, place: &Place) -> Option<Place> {
    let server = server.clone();
    let (listener, place) = match place {
        Place::Tcp(address) => {
            let listener = Listener::bind_tcp(*address, Reach::Loopback).await.ok()?;
            let address = listener.tcp_address().unwrap();
            (listener, Place::Tcp(address))
        }
        Place::Unix(path) => (Listener::bind_unix(path).await.ok()?, place.clone()),
        Place::WebSocket(address) => {
            let port = Port::bind(*address).await.ok()?;
            let address = port.address().unwrap();
            let nobody: [&str; 0] = [];
            let allow = Allow::bound(address.ip(), Ports::Any, &nobody, &nobody).unwrap();
            let endpoint = Endpoint::new(server, Options::new(allow));
            tokio::spawn(port.serve(endpoint, std::future::pending()));
            return Some(Place::WebSocket(address));
        }
    };
    tokio::spawn(async move {
        while let Ok(link) = listener.accept(&Limits::DEFAULT).await {
            let server = server.clone();
            tokio::spawn(async move { server.serve(link).await });
        }
    });
    Some(place)
}

fn eager() -> Policy {
    let short = Duration::from_millis(20);
    Policy {
        backoff: Backoff { min: short, max: short, attempts: u32::MAX },
        burst: Burst { restarts: u32::MAX, within: short },
        ..Policy::REMOTE
    }
}

/// Killed with calls in flight and back at the same place: what may be repeated is, the rest is lost and says so,
/// what was made meanwhile is served, listens stand.
async fn killed_and_back(place: Place) {
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let log = Log::default();
        let mut served = Served::start(&place, &log).await;
        let place = served.place.clone();
        let managed = Managed::start(Client::builder("tests", "0").era(era), place.way(), eager());
        within("ready", managed.ready(PATIENCE)).await.unwrap();
        within("the tools", managed.all_tools()).await.unwrap();
        let mut listen = managed.listen(Interest { tools: true, ..Interest::default() });
        within("the listen", listen.ready()).await.unwrap();
        let mut watcher = managed.transitions();
        until(&mut watcher, "ready").await;
        let call = |tool: &str| tokio::spawn(managed.call_tool(tool, &json!({})).unwrap().into_future());
        let (add, look) = (call("add"), call("look"));
        within("both calls", log.0.arrived.acquire_many(2)).await.unwrap().forget();
        served.kill();
        let lost = until(&mut watcher, "disconnected").await;
        assert!(lost.from.is_up() && lost.cause.is_some() && lost.attempt == 0, "{lost:?}");
        log.0.hangs.store(false, Ordering::SeqCst);
        let error = within("the loss", add).await.unwrap().unwrap_err();
        assert!(error.may_have_executed() && matches!(error, CallError::Lost { .. }), "{place:?}: {error}");
        let waiting: Vec<_> = (0..5).map(|_| call("echo")).collect();
        let again = Served::start(&place, &log).await;
        let back = until(&mut watcher, "ready").await;
        assert!(back.attempt > 0, "{back:?}");
        within("the repeated call", look).await.unwrap().unwrap();
        for call in waiting {
            within("a call that waited", call).await.unwrap().unwrap();
        }
        assert_eq!((log.ran("add"), log.ran("look")), (1, 2), "{place:?} {era:?}");
        again.server.add_tool("new", "was not there before", async |_: Value| "new");
        assert_eq!(within("a change", listen.next()).await, Some(Change::Tools), "{place:?} {era:?}");
        within("the close", managed.close("done")).await;
        assert_eq!(managed.condition(), Condition::CLOSED);
    }
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// S0-8, S0-45, S0-73, S0-76, S2-36, F12, SUB-11: over TCP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s0_73_a_killed_tcp_listener_is_reached_again() {
    killed_and_back(Place::Tcp(anywhere())).await;
}

/// S0-8, S0-45, S0-73, S0-76, S2-36, F12, SUB-11: over a Unix socket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s0_73_a_killed_unix_listener_is_reached_again() {
    let path = std::env::temp_dir().join(format!("cardan-managed-{}.sock", std::process::id()));
    killed_and_back(Place::Unix(path)).await;
}

/// S0-8, S0-45, S0-73, S0-76, S2-36, F12, SUB-11: over WebSocket.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s0_73_a_killed_websocket_endpoint_is_reached_again() {
    killed_and_back(Place::WebSocket(anywhere())).await;
}
