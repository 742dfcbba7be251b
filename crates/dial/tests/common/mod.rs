//! A server in memory that says what a test wants, and remembers what it was asked.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses its share")]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::Client;
use cardan_dial::{Dial, Dialing, Http};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::Event;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

pub const MODERN: &str = "2026-07-28";
pub const LEGACY: &str = "2025-11-25";
pub const URL: &str = "http://server.test/mcp";

/// One request, as the server saw it.
#[derive(Debug, Clone)]
pub struct Asked {
    pub verb: String,
    pub host: String,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Value,
    pub at: Instant,
    /// The number of the connection that it came by.
    pub connection: usize,
}

impl Asked {
    pub fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The verb, the method of the message if there is one.
    pub fn line(&self) -> String {
        match self.method() {
            "" => self.verb.clone(),
            method => format!("{} {method}", self.verb),
        }
    }
}

/// What the server does about a request.
pub enum Say {
    Json(Value),
    Status(u16, &'static str),
    /// A status with these headers and this body.
    Full(u16, Vec<(&'static str, String)>, String),
    /// Events in full, then the end.
    Events(String),
    /// Events, then the connection breaks.
    Cut(String),
    /// The beginning of a JSON body, then the connection breaks.
    Torn(String),
    /// This, after a while.
    After(Duration, Box<Self>),
    /// Events as they are sent, until the sender goes.
    Live(mpsc::UnboundedReceiver<String>),
    /// No answer at all: the connection breaks.
    Reset,
    /// No answer, and no end.
    Hang,
}

pub fn message(value: &Value) -> String {
    format!("data: {value}\n\n")
}

pub fn result(asked: &Asked, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result })
}

pub fn fault(asked: &Asked, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": { "code": code, "message": message } })
}

pub fn text(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// Status, headers, and the pieces of the body as they come.
type Begun = (u16, Vec<(&'static str, String)>, mpsc::UnboundedReceiver<io::Result<String>>);

/// Passes on what is said as it is said, and counts a reader that goes before the end.
async fn pass_on(
    mut live: mpsc::UnboundedReceiver<String>,
    tell: mpsc::UnboundedSender<io::Result<String>>,
    gone: Arc<Mutex<usize>>,
) {
    loop {
        tokio::select! {
            text = live.recv() => match text {
                Some(text) => drop(tell.send(Ok(text))),
                None => return,
            },
            () = tell.closed() => {
                *gone.lock().unwrap() += 1;
                return;
            }
        }
    }
}

type Script = Arc<dyn Fn(&Asked) -> Say + Send + Sync>;

/// The server. Dial it under any name.
#[derive(Clone)]
pub struct Stage {
    script: Script,
    log: Arc<Mutex<Vec<Asked>>>,
    dialled: Arc<Mutex<Vec<String>>>,
    gone: Arc<Mutex<usize>>,
    speaks: Speaks,
}

/// Which HTTP the server speaks.
#[derive(Clone, Copy, PartialEq)]
pub enum Speaks {
    Http1,
    Http2,
}

impl Stage {
    pub fn new(script: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            log: Arc::default(),
            dialled: Arc::default(),
            gone: Arc::default(),
            speaks: Speaks::Http1,
        }
    }

    pub fn speaking(self, speaks: Speaks) -> Self {
        Self { speaks, ..self }
    }

    pub fn http(&self) -> Http {
        self.http_at(URL)
    }

    pub fn http_at(&self, url: &str) -> Http {
        Http::new(url).unwrap().dial(Arc::new(self.clone())).proxies(cardan_proxy::Proxies::Direct)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.log.lock().unwrap().clone()
    }

    pub fn lines(&self) -> Vec<String> {
        self.asked().iter().map(Asked::line).collect()
    }

    /// The requests that carry this method, or have this verb.
    pub fn of(&self, what: &str) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.method() == what || asked.verb == what).collect()
    }

    pub fn dialled(&self) -> Vec<String> {
        self.dialled.lock().unwrap().clone()
    }

    /// How many answers lost their reader before their end.
    pub fn gone(&self) -> usize {
        *self.gone.lock().unwrap()
    }

    async fn answer(
        self,
        connection: usize,
        request: Request<Incoming>,
    ) -> io::Result<Response<BoxBody<Bytes, io::Error>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let asked = Asked {
            verb: head.method.to_string(),
            host: head.headers.get("host").map(|host| host.to_str().unwrap().to_owned()).unwrap_or_default(),
            target: head.uri.to_string(),
            headers: head.headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
            at: Instant::now(),
            connection,
        };
        self.log.lock().unwrap().push(asked.clone());
        let mut say = (self.script)(&asked);
        while let Say::After(wait, then) = say {
            pass(wait).await;
            say = *then;
        }
        if let Say::Hang = say {
            std::future::pending::<()>().await;
        }
        let (status, headers, rest) = self.begin(say)?;
        let frames = futures_util::stream::unfold(rest, |mut rest| async move {
            let next: io::Result<String> = rest.recv().await?;
            if next.is_err() {
                settle().await; // what came before is on its way
            }
            Some((next.map(|text| Frame::data(Bytes::from(text))), rest))
        });
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        Ok(response.body(BodyExt::boxed(StreamBody::new(frames))).unwrap())
    }

    /// The status and the headers of an answer, and the pieces of its body as they come.
    fn begin(&self, say: Say) -> io::Result<Begun> {
        let (tell, told) = mpsc::unbounded_channel();
        let breaks = matches!(say, Say::Cut(_) | Say::Torn(_));
        let typed = |content: &str| vec![("content-type", content.to_owned())];
        let (status, headers, text) = match say {
            Say::Hang | Say::After(..) | Say::Reset => return Err(io::Error::other("reset")),
            Say::Json(value) => (200, typed("application/json"), value.to_string()),
            Say::Status(status, text) => (status, Vec::new(), text.to_owned()),
            Say::Full(status, headers, text) => (status, headers, text),
            Say::Events(text) | Say::Cut(text) => (200, typed("text/event-stream"), text),
            Say::Torn(text) => (200, typed("application/json"), text),
            Say::Live(live) => {
                tokio::spawn(pass_on(live, tell, Arc::clone(&self.gone)));
                return Ok((200, typed("text/event-stream"), told));
            }
        };
        tell.send(Ok(text)).unwrap();
        if breaks {
            tell.send(Err(io::Error::other("cut"))).unwrap();
        }
        Ok((status, headers, told))
    }
}

impl Dial for Stage {
    fn dial(&self, host: &str, port: u16) -> Dialing {
        let connection = {
            let mut dialled = self.dialled.lock().unwrap();
            dialled.push(format!("{host}:{port}"));
            dialled.len()
        };
        let stage = self.clone();
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            let speaks = stage.speaks;
            let service = service_fn(move |request| stage.clone().answer(connection, request));
            if speaks == Speaks::Http2 {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(theirs), service).await;
                return;
            }
            let served = hyper::server::conn::http1::Builder::new()
                .half_close(false)
                .serve_connection(TokioIo::new(theirs), service);
            // A broken answer ends the connection, as the test wants it.
            let _ = served.await;
        });
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn cardan_dial::Stream>) })
    }
}

/// Everything that a client observed, in short.
#[derive(Clone, Default)]
pub struct Notebook(Arc<Mutex<Vec<String>>>);

impl Notebook {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub fn has(&self, what: &str) -> bool {
        self.lines().iter().any(|line| line.contains(what))
    }

    pub fn write(&self, event: &Event) {
        let line = match event {
            Event::State(change) => {
                let cause = change.cause.as_ref().map(|cause| format!(" ({cause})")).unwrap_or_default();
                format!("{:?}{cause}", change.to)
            }
            Event::Found(finding) => format!("found {finding}"),
            Event::Changed { change, .. } => format!("changed {change:?}"),
            Event::Pushes(pushes) => format!("pushes {pushes:?}"),
            Event::Doubted => "doubted".to_owned(),
            Event::Logged { params } => format!("logged {}", String::from_utf8_lossy(params)),
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

pub async fn connect_as(http: &Http, era: EraChoice, limits: Limits) -> (Result<Client, String>, Notebook) {
    let notebook = Notebook::default();
    let seen = notebook.clone();
    let connector = Client::builder("tester", "1.0")
        .era(era)
        .limits(limits.clone())
        .observe(move |event| seen.write(event));
    let http = http.clone().limits(&limits);
    let client = connector.connect(async || http.link()).await;
    (client.map_err(|error| error.to_string()), notebook)
}

pub async fn connect(http: &Http) -> Client {
    connect_as(http, EraChoice::Auto, Limits::DEFAULT).await.0.expect("the stage serves a client")
}

/// The opening of a modern server.
pub fn discovered(asked: &Asked) -> Say {
    Say::Json(result(
        asked,
        json!({ "resultType": "complete", "supportedVersions": [MODERN],
            "capabilities": { "tools": {}, "resources": {}, "prompts": {} }, "ttlMs": 0, "cacheScope": "private" }),
    ))
}

/// A modern server that leaves everything but its opening to `rest`.
pub fn modern(rest: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Stage {
    Stage::new(move |asked| match asked.method() {
        "server/discover" => discovered(asked),
        _ => rest(asked),
    })
}

/// The answer to a handshake, with this session.
pub fn welcome(asked: &Asked, session: Option<&str>) -> Say {
    let mut headers = vec![("content-type", "application/json".to_owned())];
    headers.extend(session.map(|id| ("mcp-session-id", id.to_owned())));
    let capabilities = json!({ "tools": {}, "logging": {}, "resources": { "subscribe": true } });
    let answer = json!({ "protocolVersion": LEGACY, "capabilities": capabilities,
        "serverInfo": { "name": "s", "version": "1" } });
    Say::Full(200, headers, result(asked, answer).to_string())
}

/// A legacy server with the session `s-1` and no push lane, that leaves the rest to `rest`.
pub fn legacy(rest: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Stage {
    Stage::new(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Say::Status(400, "Bad Request: Server not initialized"),
        (_, "initialize") => welcome(asked, Some("s-1")),
        (_, "notifications/initialized") => Say::Status(202, ""),
        ("GET", _) => Say::Status(405, ""),
        ("DELETE", _) => Say::Status(200, ""),
        _ => rest(asked),
    })
}

/// Lets everything that is ready run. Time stands still.
pub async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Time passes, in paused time.
pub async fn pass(time: Duration) {
    let nothing = std::future::pending::<()>();
    let _ = tokio::time::timeout(time, nothing).await;
}
