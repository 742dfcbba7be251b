//! Kept connections over HTTP to a server that follows a script, so that what else is a matter of luck happens every
//! time: sessions that expire under two calls at once, probes that break.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan::client::{CallError, Client, Managed, way};
use cardan::proto::era::{Era, Revision};
use cardan::proto::jsonrpc::fault::code;
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::{Cause, Change, Event, Interest};
use cardan::proto::upkeep::condition::Condition;
use cardan::proto::upkeep::policy::{Backoff, Burst, Policy, Probe};
use cardan_dial::Http;
use common::keeping::{PATIENCE, told, until, within};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinHandle;

/// One request that carries a message, or none.
struct Request {
    method: String,
    session: Option<String>,
    message: Value,
}

/// What is done with a request.
enum Answer {
    Json(Value),
    /// The greeting of a new session.
    Session(String, Value),
    Status(&'static str),
    /// A push lane on which nothing comes.
    Lane,
    /// The connection is closed without a word.
    Break,
}

/// A port where a script answers.
struct Door {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Door {
    async fn open<S, F>(address: SocketAddr, script: S) -> Self
    where
        S: Fn(Request) -> F + Clone + Send + 'static,
        F: Future<Output = Answer> + Send,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = script.clone();
                tokio::spawn(async move { answer(stream, script).await });
            }
        });
        Self { address, accepting }
    }

    /// From now on nobody gets in.
    async fn close(self) {
        self.accepting.abort();
        let _ = self.accepting.await;
    }
}

/// One request for each connection.
async fn answer<S, F>(stream: TcpStream, script: S) -> Option<()>
where
    S: Fn(Request) -> F,
    F: Future<Output = Answer>,
{
    let mut stream = BufReader::new(stream);
    let (mut line, mut length, mut session) = (String::new(), 0, None);
    stream.read_line(&mut line).await.ok()?;
    let method = line.split(' ').next()?.to_owned();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "mcp-session-id" => session = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let message = serde_json::from_slice(&body).unwrap_or_default();
    let (status, more, body) = match script(Request { method, session, message }).await {
        Answer::Json(reply) => ("200 OK", String::new(), reply.to_string()),
        Answer::Session(id, reply) => ("200 OK", format!("Mcp-Session-Id: {id}\r\n"), reply.to_string()),
        Answer::Status(status) => (status, String::new(), String::new()),
        Answer::Lane => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await.ok()?;
            // Until whoever listens has left.
            return stream.read_u8().await.ok().map(drop);
        }
        Answer::Break => return None,
    };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\n{kind}{more}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).await.ok()
}

fn reply(call: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": call["id"], "result": result })
}

/// What a server does with everything that is not of interest.
fn usual(request: &Request, session: &str) -> Answer {
    let message = &request.message;
    match (request.method.as_str(), message["method"].as_str()) {
        ("POST", Some("initialize")) => {
            let result = json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "door", "version": "1" },
            });
            Answer::Session(session.to_owned(), reply(message, result))
        }
        ("POST", Some("tools/call")) => Answer::Json(reply(message, json!({ "content": [] }))),
        ("POST", _) if message.get("id").is_some() => Answer::Json(reply(message, json!({}))),
        ("POST", _) => Answer::Status("202 Accepted"),
        _ => Answer::Status("405 Method Not Allowed"),
    }
}

fn refusal(call: &Value, code: i64, data: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": call["id"], "error": { "code": code, "message": "no", "data": data } })
}

/// What a modern server does with everything that is not of interest.
fn modern(request: &Request) -> Answer {
    let (message, versions) = (&request.message, json!([Revision::LATEST_MODERN.date()]));
    match message["method"].as_str() {
        Some("server/discover") => {
            let result = json!({
                "resultType": "complete", "supportedVersions": versions, "capabilities": { "tools": {} },
            });
            Answer::Json(reply(message, result))
        }
        Some("tools/call") => {
            Answer::Json(reply(message, json!({ "resultType": "complete", "content": [] })))
        }
        Some("initialize") => {
            let data = json!({ "supported": versions, "requested": message["params"]["protocolVersion"] });
            Answer::Json(refusal(message, code::UNSUPPORTED_VERSION, data))
        }
        Some(_) if message.get("id").is_some() => {
            Answer::Json(refusal(message, code::METHOD_NOT_FOUND, Value::Null))
        }
        Some(_) => Answer::Status("202 Accepted"),
        None => Answer::Status("405 Method Not Allowed"),
    }
}

/// What a legacy server does, that knows no other era.
fn legacy(request: &Request) -> Answer {
    match request.message["method"].as_str() {
        Some("server/discover") => {
            Answer::Json(refusal(&request.message, code::METHOD_NOT_FOUND, Value::Null))
        }
        _ => usual(request, "s"),
    }
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn keep(address: SocketAddr) -> Managed {
    keep_in(EraChoice::Legacy, address)
}

fn keep_in(era: EraChoice, address: SocketAddr) -> Managed {
    let http = Http::new(&format!("http://{address}/mcp")).unwrap();
    let way = way(move || std::future::ready(http.link()));
    let short = Duration::from_millis(20);
    let policy = Policy {
        backoff: Backoff { min: short, max: short, attempts: u32::MAX },
        burst: Burst { restarts: u32::MAX, within: short },
        probe: Probe { every: None, ..Policy::REMOTE.probe },
        ..Policy::REMOTE
    };
    Managed::start(Client::builder("tests", "0").era(era), way, policy)
}

/// When the second call is told that its session is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    /// With the first.
    Together,
    /// While a new session is being opened.
    Meanwhile,
    /// When the first call has been served in the new session.
    Later,
}

/// F13, CLI-26: two calls meet an expired session, whenever the second learns of it: one opening serves both, and each runs
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_two_calls_meet_an_expired_session() {
    for second in [Second::Together, Second::Meanwhile, Second::Later] {
        let openings = Arc::new(AtomicUsize::new(0));
        let ran = Arc::new(Mutex::new(Vec::new()));
        let both = Arc::new(Barrier::new(2));
        let (turned_away, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (opened, done) = (Arc::clone(&openings), Arc::clone(&ran));
        let script = move |request: Request| {
            let (openings, ran) = (Arc::clone(&opened), Arc::clone(&done));
            let (both, turned_away, go) = (Arc::clone(&both), Arc::clone(&turned_away), Arc::clone(&go));
            async move {
                let mut session = String::new();
                match request.message["method"].as_str() {
                    Some("initialize") => {
                        let number = openings.fetch_add(1, Ordering::SeqCst) + 1;
                        session = format!("s{number}");
                        if number > 1 && second == Second::Meanwhile {
                            // The other call is turned away only now.
                            go.notify_one();
                        }
                    }
                    Some("tools/call") if request.session.as_deref() == Some("s1") => {
                        both.wait().await;
                        if turned_away.fetch_add(1, Ordering::SeqCst) == 1 && second != Second::Together {
                            go.notified().await;
                        }
                        return Answer::Status("404 Not Found");
                    }
                    Some("tools/call") => {
                        let name = request.message["params"]["name"].as_str().unwrap().to_owned();
                        ran.lock().unwrap().push((name, request.session.clone()));
                        if second == Second::Later {
                            go.notify_one();
                        }
                    }
                    _ => {}
                }
                usual(&request, &session)
            }
        };
        let door = Door::open(anywhere(), script).await;
        let managed = keep(door.address);
        within("ready", managed.ready(PATIENCE)).await.unwrap();
        let calls =
            ["a", "b"].map(|name| tokio::spawn(managed.call_tool(name, &json!({})).unwrap().into_future()));
        for call in calls {
            within("a call", call).await.unwrap().unwrap();
        }
        let mut ran = ran.lock().unwrap().clone();
        ran.sort();
        let new = Some("s2".to_owned());
        assert_eq!(ran, [("a".to_owned(), new.clone()), ("b".to_owned(), new)], "{second:?}");
        let told = told(managed.transitions());
        assert!(!told.iter().any(|to| to == "disconnected"), "the link is well: {told:?}");
        within("the close", managed.close("done")).await;
        assert_eq!(openings.load(Ordering::SeqCst), 2, "once for both: {second:?}");
    }
}

/// PNG-2, F11: a probe that a broken exchange swallowed is asked once more, over a fresh one. An answer: the link is
/// kept. Nobody there: it is lost, with that as its cause, and comes back with the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn png_2_a_broken_probe_is_asked_once_more() {
    for answered in [true, false] {
        let probes = Arc::new(AtomicUsize::new(0));
        let (probed, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (asked, seen, shut) = (Arc::clone(&probes), Arc::clone(&probed), Arc::clone(&gone));
        let script = move |request: Request| {
            let (probes, probed, gone) = (Arc::clone(&asked), Arc::clone(&seen), Arc::clone(&shut));
            async move {
                match request.message["method"].as_str() {
                    Some("tools/call") if request.message["params"]["name"] == "break" => Answer::Break,
                    Some("ping") if probes.fetch_add(1, Ordering::SeqCst) == 0 => {
                        probed.notify_one();
                        if !answered {
                            gone.notified().await;
                        }
                        Answer::Break
                    }
                    _ => usual(&request, "s"),
                }
            }
        };
        let mut door = Door::open(anywhere(), script.clone()).await;
        let address = door.address;
        let managed = keep(address);
        within("ready", managed.ready(PATIENCE)).await.unwrap();
        let mut watcher = managed.transitions();
        until(&mut watcher, "ready").await;
        let broken = tokio::spawn(managed.call_tool("break", &json!({})).unwrap().into_future());
        within("the probe", probed.notified()).await;
        if !answered {
            door.close().await;
            gone.notify_one();
            let lost = until(&mut watcher, "disconnected").await;
            assert!(matches!(lost.cause, Some(Cause::Http(_))), "{lost:?}");
            door = Door::open(address, script).await;
            until(&mut watcher, "ready").await;
        }
        let error = within("the broken call", broken).await.unwrap().unwrap_err();
        assert!(error.may_have_executed() && matches!(error, CallError::Lost { .. }), "{error}");
        within("a call", managed.call_tool("a", &json!({})).unwrap()).await.unwrap();
        assert_eq!(managed.condition(), Condition::READY);
        if answered {
            within("the second probe", async {
                while probes.load(Ordering::SeqCst) < 2 {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            let told = told(managed.transitions());
            assert!(!told.iter().any(|to| to == "disconnected"), "{told:?}");
        }
        within("the close", managed.close("done")).await;
        door.close().await;
    }
}

/// F13, S2-45: a server that was restarted with other tools forgot the session. The one that replaces it on the same link
/// is looked at like a new link: what the server says of itself, what it lists, what may have changed unheard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_a_renewed_session_is_looked_at_anew() {
    let generation = Arc::new(AtomicUsize::new(1));
    let now = Arc::clone(&generation);
    let script = move |request: Request| {
        let generation = now.load(Ordering::SeqCst);
        async move {
            let (message, session) = (&request.message, format!("s{generation}"));
            match (request.method.as_str(), message["method"].as_str()) {
                ("POST", Some("initialize")) => {
                    let result = json!({
                        "protocolVersion": message["params"]["protocolVersion"],
                        "capabilities": { "tools": {}, "resources": { "subscribe": true } },
                        "serverInfo": { "name": "door", "version": generation.to_string() },
                    });
                    Answer::Session(session, reply(message, result))
                }
                _ if request.session.as_ref() != Some(&session) => Answer::Status("404 Not Found"),
                ("GET", _) => Answer::Lane,
                ("POST", Some("tools/list")) => {
                    let tool = json!({ "name": session, "inputSchema": { "type": "object" } });
                    Answer::Json(reply(message, json!({ "tools": [tool] })))
                }
                _ => usual(&request, &session),
            }
        }
    };
    let door = Door::open(anywhere(), script).await;
    let managed = keep(door.address);
    within("ready", managed.ready(PATIENCE)).await.unwrap();
    within("the tools", managed.all_tools()).await.unwrap();
    let interest = Interest { uris: vec!["x:1".into()], ..Interest::default() };
    let mut listen = managed.listen(interest);
    within("the listen", listen.ready()).await.unwrap();
    let mut notes = managed.notes();
    generation.store(2, Ordering::SeqCst);
    within("a call", managed.call_tool("a", &json!({})).unwrap()).await.unwrap();
    let told_of = within("the other tools", notes.next()).await;
    assert!(matches!(told_of, Some(Event::Changed { change: Change::Tools, .. })), "{told_of:?}");
    assert_eq!(within("a change", listen.next()).await, Some(Change::Resource("x:1".into())), "it may have");
    assert_eq!(managed.server().unwrap().implementation.unwrap().version, "2");
    assert_eq!(within("the tools", managed.all_tools()).await.unwrap()[0].name, "s2");
    let told = told(managed.transitions());
    assert!(!told.iter().any(|to| to == "disconnected"), "the link is well: {told:?}");
    within("the close", managed.close("done")).await;
    door.close().await;
}

/// PNG-2, F12: whoever turns a probe away is there. A link whose server limits rates is kept, with what is in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn png_2_a_probe_that_is_turned_away_is_a_sign_of_life() {
    for status in ["429 Too Many Requests", "405 Method Not Allowed", "413 Content Too Large"] {
        let probes = Arc::new(AtomicUsize::new(0));
        let (arrived, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (asked, came, went) = (Arc::clone(&probes), Arc::clone(&arrived), Arc::clone(&go));
        let script = move |request: Request| {
            let (probes, arrived, go) = (Arc::clone(&asked), Arc::clone(&came), Arc::clone(&went));
            async move {
                match (request.message["method"].as_str(), request.message["params"]["name"].as_str()) {
                    (Some("ping"), _) => {
                        probes.fetch_add(1, Ordering::SeqCst);
                        return Answer::Status(status);
                    }
                    (Some("tools/call"), Some("break")) => return Answer::Break,
                    (Some("tools/call"), Some("hang")) => {
                        arrived.notify_one();
                        go.notified().await;
                    }
                    _ => {}
                }
                usual(&request, "s")
            }
        };
        let door = Door::open(anywhere(), script).await;
        let managed = keep(door.address);
        within("ready", managed.ready(PATIENCE)).await.unwrap();
        let hanging = tokio::spawn(managed.call_tool("hang", &json!({})).unwrap().into_future());
        within("the call to arrive", arrived.notified()).await;
        // A second probe follows only when something was made of the first.
        within("two probes", async {
            while probes.load(Ordering::SeqCst) < 2 {
                managed.call_tool("break", &json!({})).unwrap().await.unwrap_err();
            }
        })
        .await;
        go.notify_one();
        within("the call in flight", hanging).await.unwrap().unwrap();
        let told = told(managed.transitions());
        assert!(!told.iter().any(|to| to == "disconnected"), "{status}: {told:?}");
        within("the close", managed.close("done")).await;
        door.close().await;
    }
}

/// F13, VER-18: a legacy server is replaced by a modern one. Its session is not replaced by a handshake then, but calls
/// flow over the link all the same, and it is looked after as its new era wants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_a_server_that_turns_modern_serves_calls_over_its_link() {
    let turned = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (is_modern, seen) = (Arc::clone(&turned), Arc::clone(&asked));
    let script = move |request: Request| {
        let (is_modern, seen) = (is_modern.load(Ordering::SeqCst), Arc::clone(&seen));
        async move {
            if !is_modern {
                return legacy(&request);
            }
            if request.session.is_some() {
                return Answer::Status("404 Not Found");
            }
            let method = request.message["method"].as_str().unwrap_or_default().to_owned();
            seen.lock().unwrap().push(method);
            if request.message["params"]["name"] == "break" { Answer::Break } else { modern(&request) }
        }
    };
    let door = Door::open(anywhere(), script).await;
    let managed = keep_in(EraChoice::Auto, door.address);
    let settled = within("ready", managed.ready(PATIENCE)).await.unwrap();
    assert_eq!(settled.revision.era(), Era::Legacy);
    turned.store(true, Ordering::SeqCst);
    within("the call that finds out", managed.call_tool("a", &json!({})).unwrap()).await.unwrap();
    within("a later call", managed.call_tool("b", &json!({})).unwrap()).await.unwrap();
    assert_eq!(managed.settled().unwrap().revision.era(), Era::Modern);
    // What breaks casts doubt on the link.
    within("the call that breaks", managed.call_tool("break", &json!({})).unwrap()).await.unwrap_err();
    let discovered = || asked.lock().unwrap().iter().filter(|method| *method == "server/discover").count();
    within("the probe", async {
        while discovered() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!asked.lock().unwrap().iter().any(|method| method == "ping"), "there is no such method");
    let told = told(managed.transitions());
    assert!(!told.iter().any(|to| to == "disconnected"), "the link is well: {told:?}");
    within("the close", managed.close("done")).await;
    door.close().await;
}

/// F13, VER-18: a client with one link follows its session too: what the newest one settled on is what it says, and how
/// it asks whether the server lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_a_plain_client_says_what_its_newest_session_settled_on() {
    let turned = Arc::new(AtomicBool::new(false));
    let is_modern = Arc::clone(&turned);
    let script = move |request: Request| {
        let is_modern = is_modern.load(Ordering::SeqCst);
        async move {
            match (is_modern, &request.session) {
                (false, _) => legacy(&request),
                (true, Some(_)) => Answer::Status("404 Not Found"),
                (true, None) => modern(&request),
            }
        }
    };
    let door = Door::open(anywhere(), script).await;
    let http = Http::new(&format!("http://{}/mcp", door.address)).unwrap();
    let client =
        within("a client", Client::builder("tests", "0").connect(async || http.link())).await.unwrap();
    assert_eq!(client.settled().revision.era(), Era::Legacy);
    assert_eq!(client.server().implementation.unwrap().name, "door");
    turned.store(true, Ordering::SeqCst);
    within("the call that finds out", client.call_tool("a", &json!({})).unwrap()).await.unwrap();
    assert_eq!(client.settled().revision, Revision::LATEST_MODERN);
    assert_eq!(client.server().implementation, None, "the new one tells no name");
    within("the answer", client.ping()).await.unwrap();
    within("the close", client.close("done")).await;
    door.close().await;
}

/// F12, VER-18: a modern server is replaced by a legacy one, or by one of other revisions. What it says to a probe shows
/// it, and the next link finds out what it speaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f12_a_server_of_another_era_is_left() {
    let turned = Arc::new(AtomicBool::new(false));
    let is_legacy = Arc::clone(&turned);
    let script = move |request: Request| {
        let is_legacy = is_legacy.load(Ordering::SeqCst);
        async move {
            let breaks = request.message["params"]["name"] == "break";
            match (breaks, is_legacy) {
                (true, _) => Answer::Break,
                (false, true) => legacy(&request),
                (false, false) => modern(&request),
            }
        }
    };
    let door = Door::open(anywhere(), script).await;
    let managed = keep_in(EraChoice::Auto, door.address);
    let settled = within("ready", managed.ready(PATIENCE)).await.unwrap();
    assert_eq!(settled.revision.era(), Era::Modern);
    let mut watcher = managed.transitions();
    until(&mut watcher, "ready").await;
    turned.store(true, Ordering::SeqCst);
    within("the call that breaks", managed.call_tool("break", &json!({})).unwrap()).await.unwrap_err();
    let left = until(&mut watcher, "disconnected").await;
    assert!(matches!(&left.cause, Some(Cause::OpenRefused(_))), "{left:?}");
    until(&mut watcher, "ready").await;
    assert_eq!(managed.settled().unwrap().revision.era(), Era::Legacy);
    within("a call", managed.call_tool("a", &json!({})).unwrap()).await.unwrap();
    within("the close", managed.close("done")).await;
    door.close().await;
}
