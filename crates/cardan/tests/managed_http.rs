//! Connections over HTTP that are kept while the server behind the port is killed and started again.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cardan::client::{Client, Managed, way};
use cardan::prelude::*;
use cardan::proto::http::origin::{Allow, Ports};
use cardan::proto::limits::Limits;
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::{CallOptions, Change, Event, Interest, Repeat, Wanted};
use cardan::proto::session::state::State;
use cardan::proto::upkeep::condition::Condition;
use cardan::proto::upkeep::policy::{Backoff, Burst, Policy, Probe};
use cardan_dial::Http;
use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Options};
use common::keeping::{PATIENCE, until, within};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

fn allow(address: SocketAddr) -> Allow {
    let nobody: [&str; 0] = [];
    Allow::bound(address.ip(), Ports::Any, &nobody, &nobody).unwrap()
}

/// A server with a runtime of its own: dropping that is as good as killing a process.
struct Served {
    runtime: Option<Runtime>,
    address: SocketAddr,
    server: Server,
    /// Legacy sessions that were opened.
    sessions: Arc<AtomicUsize>,
    /// How often each number was said.
    said: Arc<[AtomicUsize; CLIENTS]>,
}

/// Clients whose calls are told apart.
const CLIENTS: usize = 3;

impl Served {
    async fn start(address: SocketAddr) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let bind = async move {
            loop {
                match Listener::bind(address).await {
                    // The one before is still on its way out.
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => tokio::task::yield_now().await,
                    bound => return bound,
                }
            }
        };
        let listener = within("the port", runtime.spawn(bind)).await.unwrap().unwrap();
        let address = listener.address().unwrap();
        let sessions = Arc::new(AtomicUsize::new(0));
        let said: Arc<[AtomicUsize; CLIENTS]> = Arc::default();
        let (seen, counted) = (Arc::clone(&sessions), Arc::clone(&said));
        let server = Server::builder("served", "1")
            .tool("echo", "says it back", async |args: Value| args.to_string())
            .tool("say", "counts who says it", move |args: Value| {
                counted[args["n"].as_u64().unwrap() as usize].fetch_add(1, Ordering::SeqCst);
                std::future::ready("said")
            })
            .tool("hang", "never answers", |cx: Cx| async move {
                cx.progress(1.0, None, None);
                std::future::pending::<&str>().await
            })
            .observe(move |event| {
                if matches!(event, Event::State(change) if change.to == State::Ready) {
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            })
            .build();
        let endpoint = Endpoint::new(server.clone(), Options::new(allow(address)));
        runtime.spawn(listener.serve(endpoint, std::future::pending()));
        Self { runtime: Some(runtime), address, server, sessions, said }
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

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn keep(address: SocketAddr, era: EraChoice) -> Managed {
    let short = Duration::from_millis(20);
    // A broken stream is taken up again a few times before its call counts as lost.
    let limits = Limits { reconnects: 2, reconnect_wait_min: short, ..Limits::DEFAULT };
    let http = Http::new(&format!("http://{address}/mcp")).unwrap().limits(&limits);
    let way = way(move || std::future::ready(http.link()));
    let policy = Policy {
        backoff: Backoff { min: short, max: short, attempts: u32::MAX },
        burst: Burst { restarts: u32::MAX, within: short },
        probe: Probe { every: None, ..Policy::REMOTE.probe },
        ..Policy::REMOTE
    };
    Managed::start(Client::builder("tests", "0").era(era), way, policy)
}

/// F11, F12, S0-73, S0-75, SUB-17: the server behind the port is killed while calls are in flight, and comes back on
/// the same port. Calls that wait are served, calls in flight are told what may have happened, listens stand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_endpoint_is_reached_again() {
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let mut served = Served::start(anywhere()).await;
        let managed = keep(served.address, era);
        within("ready", managed.ready(PATIENCE)).await.unwrap();
        let mut listen = managed.listen(Interest { tools: true, ..Interest::default() });
        within("the listen", listen.ready()).await.unwrap();
        managed.all_tools().await.unwrap();
        let mut watcher = managed.transitions();
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let mut hanging = managed.call_tool_with("hang", &json!({}), options).unwrap();
        within("the call to arrive", hanging.progress()).await.unwrap();
        served.kill();
        let error = within("the loss", hanging).await.unwrap_err();
        assert!(error.may_have_executed(), "{era:?}: {error}");
        until(&mut watcher, "disconnected").await;
        let waiting: Vec<_> =
            (0..10).map(|n| tokio::spawn(managed.call_tool("echo", &json!({ "n": n })).unwrap())).collect();
        let again = Served::start(served.address).await;
        for call in waiting {
            within("a call that waited", call).await.unwrap().unwrap();
        }
        again.server.add_tool("new", "was not there before", async |_: Value| "new");
        assert_eq!(within("a change", listen.next()).await, Some(Change::Tools), "{era:?}");
        assert_eq!(managed.condition(), Condition::READY, "{era:?}");
        within("the close", managed.close("done")).await;
    }
}

/// F13: a server that was restarted a hundred times while nobody called has forgotten the session each time: one new opening
/// serves all callers, on the same link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_a_forgotten_session_is_opened_once_for_all() {
    let mut served = Served::start(anywhere()).await;
    let managed = keep(served.address, EraChoice::Legacy);
    within("ready", managed.ready(PATIENCE)).await.unwrap();
    for _ in 0..100 {
        served.kill();
        served = Served::start(served.address).await;
        // Some meet a connection that nobody knows to be stale yet; twice does no harm here.
        let options = CallOptions { repeat: Repeat::Always, ..CallOptions::default() };
        let echo = |n| managed.call_tool_with("echo", &json!({ "n": n }), options).unwrap();
        let calls: Vec<_> = (0..20).map(|n| tokio::spawn(echo(n))).collect();
        for call in calls {
            within("a call", call).await.unwrap().unwrap();
        }
        assert_eq!(served.sessions.load(Ordering::SeqCst), 1);
    }
    within("the close", managed.close("done")).await;
}

/// Calls without a pause until it is told to stop; how many were answered, and how many were lost.
async fn load(managed: Managed, number: usize, stop: Arc<AtomicBool>) -> (usize, usize) {
    let (mut answered, mut lost) = (0, 0);
    while !stop.load(Ordering::SeqCst) {
        let options = CallOptions { repeat: Repeat::Always, ..CallOptions::default() };
        let call = managed.call_tool_with("say", &json!({ "n": number }), options).unwrap();
        match within("a call", call).await {
            Ok(_) => answered += 1,
            Err(_) => lost += 1,
        }
    }
    (answered, lost)
}

/// F13: a server is killed and started again a hundred times under clients that never pause: each opens one new session at each,
/// whatever its calls meet, and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_under_load_each_client_opens_one_session_per_restart() {
    let mut served = Served::start(anywhere()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS).map(|_| keep(served.address, EraChoice::Legacy)).collect();
    let workers: Vec<_> = clients
        .iter()
        .enumerate()
        .flat_map(|(number, managed)| (0..4).map(move |_| (number, managed.clone())))
        .map(|(number, managed)| tokio::spawn(load(managed, number, Arc::clone(&stop))))
        .collect();
    for restart in 0..=100 {
        let under_way = async {
            while served.said.iter().any(|said| said.load(Ordering::SeqCst) < 8) {
                tokio::task::yield_now().await;
            }
        };
        within("calls of every client", under_way).await;
        if restart == 100 {
            break;
        }
        served.kill();
        // Each has called here, so one for all would be too few, and two for one too many.
        assert_eq!(served.sessions.load(Ordering::SeqCst), CLIENTS, "restart {restart}");
        served = Served::start(served.address).await;
    }
    stop.store(true, Ordering::SeqCst);
    for worker in workers {
        let (answered, lost) = within("a worker", worker).await.unwrap();
        assert!(answered >= 100 && lost <= answered / 10, "{answered} answered, {lost} lost");
    }
    assert_eq!(served.sessions.load(Ordering::SeqCst), CLIENTS);
    for managed in clients {
        within("the close", managed.close("done")).await;
    }
}

/// S0-59, F14: a call that the server did not let in is not sent again at once: what it said is told, and that nothing
/// ran; the connection is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f14_a_refusal_is_not_argued_with() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let served = Served::start(anywhere()).await;
    let door = tokio::net::TcpListener::bind(anywhere()).await.unwrap();
    let (address, behind) = (door.local_addr().unwrap(), served.address);
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    // One request for each connection: calls of tools are turned away here, the rest goes through.
    tokio::spawn(async move {
        while let Ok((mut client, _)) = door.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while !seen.windows(4).any(|four| four == b"\r\n\r\n") {
                    if client.read_buf(&mut seen).await.unwrap_or_default() == 0 {
                        return;
                    }
                }
                if String::from_utf8_lossy(&seen).contains("tools/call") {
                    count.fetch_add(1, Ordering::SeqCst);
                    let answer = b"HTTP/1.1 429 Too Many\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    let _ = client.write_all(answer).await;
                    return;
                }
                let mut server = tokio::net::TcpStream::connect(behind).await.unwrap();
                let text = String::from_utf8_lossy(&seen).replacen("\r\n", "\r\nConnection: close\r\n", 1);
                server.write_all(text.as_bytes()).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    let managed = keep(address, EraChoice::Modern);
    within("ready", managed.ready(PATIENCE)).await.unwrap();
    let error = within("the refusal", managed.call_tool("echo", &json!({})).unwrap()).await.unwrap_err();
    assert!(!error.may_have_executed(), "{error}");
    assert!(error.to_string().contains("429"), "{error}");
    assert_eq!(refused.load(Ordering::SeqCst), 1, "{error}");
    within("the close", managed.close("done")).await;
}
