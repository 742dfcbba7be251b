//! A server that counts what it runs, and clients that reach it in every way.

#![allow(dead_code, reason = "each test file uses its share")]
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{CallError, Client};
use cardan_dial::{Http, Kind};
use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Census, Endpoint, Options};
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Wanted};
use cardan_proxy::Proxies;
use cardan_runtime::service::Host;
use cardan_server::builder::Builder;
use cardan_server::{Cx, Server, schemars, serde};
use serde_json::json;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// Nothing here takes this long; what does has failed.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// More than the buffers of two sockets, and less than a client takes.
const MUCH: usize = 12 << 20;

pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(LONG, future).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "serde")]
#[schemars(crate = "schemars")]
struct Named {
    name: String,
}

/// How often each named call ran.
pub(crate) type Runs = Arc<Mutex<HashMap<String, usize>>>;

/// A server that listens, or whatever stands before it.
pub(crate) struct Rig<H: Host = Server> {
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: Endpoint<H>,
    runs: Runs,
    /// Lets `held` go on.
    pub(crate) go: Arc<Notify>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Rig<Server> {
    pub(crate) async fn start(limits: Limits) -> Self {
        Self::counting(limits, Arc::default()).await
    }

    /// One that goes on counting where another stopped.
    pub(crate) async fn counting(limits: Limits, runs: Runs) -> Self {
        let go = Arc::new(Notify::new());
        let server = counting(limits, &runs, &go).build();
        Self::of(server, runs, go).await
    }
}

/// The server.
pub(crate) fn counting(limits: Limits, runs: &Runs, go: &Arc<Notify>) -> Builder {
    let (count, hold) = (Arc::clone(runs), Arc::clone(go));
    Server::builder("counts", "1")
        .limits(limits)
        .tool("count", "counts, and tells how far it is", move |args: Named, cx: Cx| {
            *count.lock().unwrap().entry(args.name.clone()).or_default() += 1;
            async move {
                cx.progress(1.0, Some(2.0), None);
                tokio::task::yield_now().await;
                cx.progress(2.0, Some(2.0), None);
                args.name
            }
        })
        .tool("much", "says more than sockets hold", async || "x".repeat(MUCH))
        .tool("held", "tells that it began, and waits", move |cx: Cx| {
            let go = Arc::clone(&hold);
            async move {
                cx.progress(1.0, Some(2.0), None);
                go.notified().await;
                "held"
            }
        })
}

impl<H: Host> Rig<H> {
    pub(crate) async fn of(host: H, runs: Runs, go: Arc<Notify>) -> Self {
        let nobody: [&str; 0] = [];
        let allow = Allow::bound(IpAddr::V4(Ipv4Addr::LOCALHOST), Ports::Any, &nobody, &nobody).unwrap();
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let address = listener.address().unwrap();
        let endpoint = Endpoint::new(host, Options::new(allow));
        let (stop, stopped) = oneshot::channel::<()>();
        let served = endpoint.clone();
        let serving =
            tokio::spawn(async move { listener.serve(served, async { drop(stopped.await) }).await });
        Self { address, endpoint, runs, go, stop, serving }
    }

    /// Stops it; what it counted.
    pub(crate) async fn stop(self) -> Runs {
        drop(self.stop);
        within("the end", self.serving).await.unwrap();
        self.runs
    }

    /// Waits until nothing of any client is left.
    pub(crate) async fn empty(&self) {
        let empty = async {
            while self.endpoint.census() != Census::default() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, empty).await.unwrap_or_else(|_| panic!("{:?}", self.endpoint.census()));
    }
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Modern,
    Legacy,
    Oldest,
    Socket,
}

pub(crate) const MODES: [Mode; 4] = [Mode::Modern, Mode::Legacy, Mode::Oldest, Mode::Socket];

/// The short waits of a client under test.
pub(crate) fn hasty() -> Limits {
    Limits {
        reconnect_wait_min: Duration::from_millis(2),
        reconnect_wait_max: Duration::from_millis(20),
        farewell_timeout: Duration::from_millis(300),
        drain_timeout: Duration::from_millis(300),
        ..Limits::DEFAULT
    }
}

pub(crate) async fn connect(mode: Mode, address: SocketAddr, limits: &Limits) -> Result<Client, String> {
    let (era, path) = match mode {
        Mode::Modern => (EraChoice::Modern, "mcp"),
        Mode::Legacy => (EraChoice::Legacy, "mcp"),
        Mode::Oldest => (EraChoice::Legacy, "sse"),
        Mode::Socket => (EraChoice::Auto, "ws"),
    };
    let builder = Client::builder("tester", "1").era(era).limits(limits.clone());
    if mode == Mode::Socket {
        let url = format!("ws://{address}/{path}");
        let options = cardan_ws::Dial::new(limits);
        let client = builder.connect(async || cardan_ws::dial(&url, &options).await).await;
        return client.map_err(|error| error.to_string());
    }
    let kind = if mode == Mode::Oldest { Kind::Events } else { Kind::Streamable };
    let http = Http::new(&format!("http://{address}/{path}")).unwrap();
    let http = http.kind(kind).limits(limits).proxies(Proxies::Direct);
    builder.connect(async || http.link()).await.map_err(|error| error.to_string())
}

/// What an answer looks like where that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The reply alone.
    Reply,
    /// Notes before it, and so a stream.
    Events,
}

/// Calls `count` under this name.
pub(crate) async fn count(
    client: &Client,
    name: &str,
    shape: Shape,
    idle: Duration,
) -> Result<(), CallError> {
    let progress = if shape == Shape::Events { Wanted::Yes } else { Wanted::No };
    let options = CallOptions { progress, idle: Some(idle), total: Some(2 * idle), ..CallOptions::default() };
    let result = client.call_tool_with("count", &json!({ "name": name }), options).unwrap().await?;
    let text = result.content.first().and_then(|content| content.as_text()).unwrap_or_default();
    assert_eq!(text, name, "another call's answer");
    Ok(())
}

/// What callers were told, to be held against what ran once nothing can run any more.
#[derive(Debug, Default)]
pub(crate) struct Book(Mutex<Vec<(String, Result<(), CallError>)>>);

impl Book {
    pub(crate) fn note(&self, name: &str, outcome: Result<(), CallError>) {
        if let Err(error) = &outcome {
            let typed = matches!(error, CallError::Lost { .. } | CallError::TimedOut { .. });
            assert!(typed, "{name}: {error}");
        }
        self.0.lock().unwrap().push((name.to_owned(), outcome));
    }

    /// Every call ran at most once, and whoever was told that it did or did not was told the truth.
    pub(crate) fn check(&self, runs: &Runs) -> usize {
        let (noted, runs) = (self.0.lock().unwrap(), runs.lock().unwrap());
        for (name, outcome) in noted.iter() {
            let ran = runs.get(name).copied().unwrap_or_default();
            match outcome {
                Ok(()) => assert_eq!(ran, 1, "{name} was answered"),
                Err(error) if error.may_have_executed() => {
                    assert!(ran <= 1, "{name} ran {ran} times: {error}")
                }
                Err(error) => assert_eq!(ran, 0, "{name} was said not to have run: {error}"),
            }
        }
        noted.len()
    }
}
