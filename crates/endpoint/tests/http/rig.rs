//! A server on a port of its own, with tools whose every step can be seen and held.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Grant, Options};
use cardan_proto::era::Revision;
use cardan_proto::http::challenge::Bearer;
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::limits::Limits;
use cardan_proto::model::elicit::ElicitAction;
use cardan_proto::model::form::Form;
use cardan_proto::session::event::{Change, Event, LogLevel};
use cardan_proto::session::state::State;
use cardan_server::builder::{Builder, Kind};
use cardan_server::{Cx, Server, Stop, schemars, serde};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::wire::{Answer, Events, Headers, Wire};

pub(crate) const MODERN: &str = Revision::LATEST_MODERN.date();
pub(crate) const LEGACY: &str = Revision::LATEST_LEGACY.date();
pub(crate) const BATCHING: &str = Revision::V2025_03_26.date();
pub(crate) const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");
pub(crate) const JSON: (&str, &str) = ("Content-Type", "application/json");
pub(crate) const STREAM: (&str, &str) = ("Accept", "text/event-stream");

/// Waits, but not for ever: a test that hangs has failed.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it came in time")
}

/// What a tool did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Entered,
    Finished,
    /// Its future was dropped before it was done.
    Dropped,
    Noted,
    /// A session was ended by us, for good.
    Closed,
}

/// What tools do, and what lets them go on.
#[derive(Clone)]
pub(crate) struct Signals {
    steps: mpsc::UnboundedSender<Step>,
    seen: Arc<Mutex<mpsc::UnboundedReceiver<Step>>>,
    pub(crate) go: Arc<Notify>,
}

impl Signals {
    fn new() -> Self {
        let (steps, seen) = mpsc::unbounded_channel();
        Self { steps, seen: Arc::new(Mutex::new(seen)), go: Arc::new(Notify::new()) }
    }

    pub(crate) fn tell(&self, step: Step) {
        let _ = self.steps.send(step);
    }

    /// The next step, which must be this one. That a session was closed is passed over unless it is asked for.
    pub(crate) async fn expect(&self, step: Step) {
        let mut next = Some(Step::Closed);
        while next == Some(Step::Closed) {
            next = within(std::future::poll_fn(|cx| self.seen.lock().unwrap().poll_recv(cx))).await;
            if next == Some(step) {
                return;
            }
        }
        assert_eq!(next, Some(step));
    }

    /// What was done and not looked at yet.
    pub(crate) fn unseen(&self) -> Option<Step> {
        self.seen.lock().unwrap().try_recv().ok()
    }
}

/// Tells when a handler that did not finish is dropped.
struct Guard {
    signals: Signals,
    finished: bool,
}

impl Guard {
    fn enter(signals: &Signals) -> Self {
        signals.tell(Step::Entered);
        Self { signals: signals.clone(), finished: false }
    }

    fn finish(mut self) {
        self.finished = true;
        self.signals.tell(Step::Finished);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.finished {
            self.signals.tell(Step::Dropped);
        }
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "serde")]
#[schemars(crate = "schemars")]
struct Echo {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "serde")]
#[schemars(crate = "schemars")]
struct Size {
    bytes: usize,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "serde")]
#[schemars(crate = "schemars")]
struct Mirrored {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: Option<String>,
    #[schemars(extend("x-mcp-header" = "Count"))]
    count: Option<i64>,
    #[schemars(extend("x-mcp-header" = "Method"))]
    dry: Option<bool>,
    plain: Option<String>,
}

/// A server with every tool that the tests need.
pub(crate) fn builder(limits: Limits) -> (Builder, Signals) {
    let signals = Signals::new();
    let noted = signals.clone();
    let builder = Server::builder("tested", "1")
        .limits(limits)
        .logging()
        .declare(Kind::Tools)
        .observe(move |event| match event {
            Event::Noted(_) => noted.tell(Step::Noted),
            Event::State(change) if change.to == State::Closed => noted.tell(Step::Closed),
            _ => {}
        })
        .tool("echo", "says it back", async |args: Echo| args.text)
        .tool("big", "much text", async |args: Size| "x".repeat(args.bytes))
        .tool("mirror", "mirrored arguments", async |args: Mirrored| {
            format!("{:?} {:?} {:?} {:?}", args.region, args.count, args.dry, args.plain)
        })
        .tool("panic", "panics", async || -> String { panic!("as it was told") })
        .tool("lacking", "needs what the client lacks", async || -> Result<String, Stop> {
            Err(Stop::Fault(Fault::new(code::MISSING_CAPABILITY, "sampling is needed")))
        })
        .tool("touch", "tells of a change", |cx: Cx| async move {
            cx.changed(&Change::Tools);
            "touched"
        })
        .tool("ask", "asks a person", |cx: Cx| async move {
            let answer = cx.elicit("who", &Form::new("who?").string("name"))?;
            Ok::<_, Stop>(match answer.action {
                ElicitAction::Accept => format!("{:?}", answer.content),
                _ => "nobody".to_owned(),
            })
        });
    (with_held_tools(builder, &signals), signals)
}

/// Tools that wait to be let go.
fn with_held_tools(builder: Builder, signals: &Signals) -> Builder {
    let (hold, steps, leave) = (signals.clone(), signals.clone(), signals.clone());
    let (late, flood) = (signals.clone(), signals.clone());
    builder
        .tool("hold", "waits until it is let go", move || {
            let signals = hold.clone();
            async move {
                let guard = Guard::enter(&signals);
                signals.go.notified().await;
                guard.finish();
                "held"
            }
        })
        .tool("flood", "says more than sockets hold, then waits", move |cx: Cx| {
            let signals = flood.clone();
            async move {
                let guard = Guard::enter(&signals);
                let much = "x".repeat(1 << 20);
                for _ in 0..32 {
                    cx.log(LogLevel::Error, None, &much);
                }
                signals.go.notified().await;
                guard.finish();
                "told"
            }
        })
        .tool("late", "waits, then fails for want of a capability", move || {
            let signals = late.clone();
            async move {
                let guard = Guard::enter(&signals);
                signals.go.notified().await;
                guard.finish();
                Err::<String, _>(Stop::Fault(Fault::new(code::MISSING_CAPABILITY, "sampling is needed")))
            }
        })
        .tool("steps", "tells how far it is, waits, tells again", move |cx: Cx| {
            let signals = steps.clone();
            async move {
                let guard = Guard::enter(&signals);
                cx.progress(1.0, Some(2.0), None);
                signals.go.notified().await;
                cx.progress(2.0, Some(2.0), None);
                guard.finish();
                "stepped"
            }
        })
        .tool("leave", "lets the caller go and works on", move |cx: Cx| {
            let signals = leave.clone();
            async move {
                let guard = Guard::enter(&signals);
                cx.release(Duration::from_millis(7));
                signals.go.notified().await;
                guard.finish();
                "worked on"
            }
        })
}

/// A server that listens.
pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    pub(crate) server: Server,
    pub(crate) signals: Signals,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(Limits::DEFAULT, |options| options).await
    }

    pub(crate) async fn limited(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::DEFAULT;
        change(&mut limits);
        Self::with(limits, |options| options).await
    }

    pub(crate) async fn with(limits: Limits, set: impl FnOnce(Options) -> Options) -> Self {
        let (builder, signals) = builder(limits);
        Self::of(builder.build(), signals, set).await
    }

    pub(crate) async fn of(server: Server, signals: Signals, set: impl FnOnce(Options) -> Options) -> Self {
        let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let address = listener.address().unwrap();
        let endpoint = Endpoint::new(server.clone(), set(Options::new(allow(address))));
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(listener.serve(endpoint, async move {
            let _ = stopped.await;
        }));
        Self { address, server, signals, stop: Some(stop), serving }
    }

    /// A server that takes the tokens of Ada and Bob.
    pub(crate) async fn guarded() -> Self {
        Self::with(Limits::DEFAULT, |options| options.verify(people)).await
    }

    /// Begins to stop; what runs may finish.
    pub(crate) fn stopping(&mut self) {
        let _ = self.stop.take().expect("stopped once").send(());
    }

    /// Waits until new calls are not taken any more, and brings what they get.
    pub(crate) async fn refuses(&self) -> Answer {
        loop {
            let answer = self.modern(&modern_tool(99, "echo", json!({ "text": "a" }))).await.answer().await;
            if answer.status() != 200 {
                return answer;
            }
        }
    }

    /// Waits for the end.
    pub(crate) async fn stopped(self) {
        drop(self.stop);
        within(self.serving).await.unwrap();
    }

    pub(crate) async fn wire(&self) -> Wire {
        Wire::connect(self.address).await
    }

    /// A request on a connection of its own.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: Headers<'_>, body: &[u8]) -> Wire {
        let mut wire = self.wire().await;
        wire.request(method, path, headers, body).await;
        wire
    }

    /// The same, with its whole answer.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: Headers<'_>, body: &[u8]) -> Answer {
        self.send(method, path, headers, body).await.answer().await
    }

    /// POST of a message to the endpoint, with the usual media types.
    pub(crate) async fn post(&self, headers: Headers<'_>, message: &Value) -> Wire {
        let mut all = headers.to_vec();
        let given = |name: &str| headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        all.extend([BOTH, JSON].into_iter().filter(|(name, _)| !given(name)));
        self.send("POST", "/mcp", &all, message.to_string().as_bytes()).await
    }

    /// POST of a modern call with the headers that belong to it.
    pub(crate) async fn modern(&self, message: &Value) -> Wire {
        let headers = modern_headers(message);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.post(&headers, message).await
    }

    /// Opens a legacy session of a revision.
    pub(crate) async fn open(&self, date: &str) -> Session<'_> {
        let session = self.initialize(date, &[]).await;
        assert_eq!(session.tell(&note("notifications/initialized")).await.status(), 202);
        session
    }

    /// Calls `initialize` and nothing more.
    pub(crate) async fn initialize(&self, date: &str, headers: Headers<'_>) -> Session<'_> {
        let answer = self.post(headers, &initialize(date)).await.answer().await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        assert_eq!(answer.json()["result"]["protocolVersion"], date);
        let id = answer.header("mcp-session-id").to_owned();
        assert!(!id.is_empty());
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Session { rig: self, id, date: date.to_owned(), headers }
    }
}

/// Hosts of the loopback address at this port, and one page.
pub(crate) fn allow(address: SocketAddr) -> Allow {
    Allow::bound::<&str, _>(address.ip(), Ports::Only(address.port()), &[], &["https://page.example"])
        .unwrap()
}

pub(crate) fn people(token: Option<&str>) -> Grant {
    let challenge = Bearer::default().with("resource_metadata", "https://auth.example/meta");
    match token {
        None => Grant::Missing(challenge),
        Some(name @ ("ada" | "bob")) => Grant::Granted(Some(name.into())),
        Some("guest") => Grant::Insufficient(challenge),
        Some(_) => Grant::Invalid(challenge),
    }
}

/// A legacy session, from its client's side.
pub(crate) struct Session<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) id: String,
    date: String,
    headers: Vec<(String, String)>,
}

impl Session<'_> {
    /// Any request of this session.
    pub(crate) async fn send(&self, method: &str, more: Headers<'_>, body: &[u8]) -> Wire {
        let mut headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        headers.push(("Mcp-Session-Id", &self.id));
        // The header is younger than the revision with batches.
        if self.date != BATCHING {
            headers.push(("MCP-Protocol-Version", &self.date));
        }
        headers.extend_from_slice(more);
        self.rig.send(method, "/mcp", &headers, body).await
    }

    pub(crate) async fn post(&self, message: &Value) -> Wire {
        self.send("POST", &[BOTH, JSON], message.to_string().as_bytes()).await
    }

    /// Posts what is not answered by a message.
    pub(crate) async fn tell(&self, message: &Value) -> Answer {
        self.post(message).await.answer().await
    }

    /// The whole answer to a call.
    pub(crate) async fn call(&self, id: i64, tool: &str, arguments: Value) -> Value {
        let answer = self.post(&tool_call(id, tool, arguments)).await.answer().await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        answer.json()
    }

    /// The push lane.
    pub(crate) async fn listen(&self) -> Events {
        self.send("GET", &[STREAM], b"").await.events().await
    }

    /// The push lane, once it is sure that the server has it.
    pub(crate) async fn listening(&self) -> Events {
        let mut events = self.listen().await;
        events.item().await.expect("a sign of life");
        events
    }

    pub(crate) async fn resume(&self, last: &str) -> Wire {
        self.send("GET", &[STREAM, ("Last-Event-ID", last)], b"").await
    }

    pub(crate) async fn delete(&self) -> Answer {
        self.send("DELETE", &[], b"").await.answer().await
    }

    /// Is it there? An ended one is not.
    pub(crate) async fn status(&self) -> u16 {
        self.post(&call(99, "ping")).await.answer().await.status()
    }
}

pub(crate) fn call(id: i64, method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method })
}

pub(crate) fn note(method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": method })
}

pub(crate) fn cancel(id: i64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

pub(crate) fn initialize(date: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": date, "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "wire", "version": "1" } } })
}

pub(crate) fn tool_call(id: i64, tool: &str, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments, "_meta": { "progressToken": id } } })
}

/// The same call, as the modern era has it.
pub(crate) fn modern(mut message: Value) -> Value {
    let meta = &mut message["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": { "form": {} } });
    meta["io.modelcontextprotocol/logLevel"] = json!("error");
    meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "wire", "version": "1" });
    message
}

/// A modern call of a tool.
pub(crate) fn modern_tool(id: i64, tool: &str, arguments: Value) -> Value {
    modern(tool_call(id, tool, arguments))
}

/// A modern interest in changes of the tools.
pub(crate) fn listen_to_tools(id: i64) -> Value {
    modern(json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen",
        "params": { "notifications": { "toolsListChanged": true } } }))
}

pub(crate) fn modern_headers(message: &Value) -> Vec<(&'static str, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut headers =
        vec![("MCP-Protocol-Version", MODERN.to_owned()), ("Mcp-Method", text(&message["method"]))];
    let params = &message["params"];
    if let Some(name) = params["name"].as_str().or_else(|| params["uri"].as_str()) {
        headers.push(("Mcp-Name", name.to_owned()));
    }
    headers
}

/// What a tool said.
pub(crate) fn said(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {message}"))
}
