//! An upstream over HTTP that forgets its session: the one that replaces it on the same link may be another server's.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardan_client::{CallError, Client, way};
use cardan_dial::Http;
use cardan_gateway::cache::CatalogCache;
use cardan_gateway::catalog::Kind;
use cardan_gateway::fleet::{Fleet, Making, Options, Spec, What};
use cardan_gateway::front::{self, Front};
use cardan_gateway::merge::Naming;
use cardan_gateway::pin::store::PinStore;
use cardan_gateway::pin::{Mode, Pins};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::Change;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory;
use common::Scratch;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Whatever is waited for happens within this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does it tell changes, and what is its tool called; nothing: as the session.
type Told = (bool, Option<&'static str>);

/// Serves one request: the session and the tool that it lists have the number of the generation.
async fn answer(stream: TcpStream, generation: usize, (tells, tool): Told, seen: &Seen) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let (mut line, mut length, mut named) = (String::new(), 0, None);
    stream.read_line(&mut line).await.ok()?;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "mcp-session-id" => named = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let session = format!("s{generation}");
    let result = match message["method"].as_str() {
        Some("initialize") => Some(json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": { "listChanged": tells } },
            "serverInfo": { "name": "forgetful", "version": generation.to_string() },
        })),
        _ if named.as_ref() != Some(&session) => None,
        Some("tools/list") => Some(
            json!({ "tools": [{ "name": tool.unwrap_or(&session), "inputSchema": { "type": "object" } }] }),
        ),
        Some("tools/call") => {
            seen.calls.fetch_add(1, Ordering::SeqCst);
            Some(json!({ "content": [] }))
        }
        _ => Some(json!({})),
    };
    if message["method"] == "notifications/initialized" && result.is_some() {
        seen.opened.send_replace(generation);
    }
    if result.is_none() && message["params"]["arguments"]["late"] == true {
        seen.opened.subscribe().wait_for(|opened| *opened == generation).await.ok()?;
    }
    let (status, kind, body) = match result {
        None => ("404 Not Found", "", String::new()),
        Some(_) if line.starts_with("GET") => ("405 Method Not Allowed", "", String::new()),
        Some(_) if message.get("id").is_none() => ("202 Accepted", "", String::new()),
        Some(result) => {
            let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            ("200 OK", "Content-Type: application/json\r\n", reply.to_string())
        }
    };
    let head = format!("HTTP/1.1 {status}\r\n{kind}Mcp-Session-Id: {session}\r\nConnection: close\r\n");
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.ok()
}

/// What a server has seen.
#[derive(Default)]
struct Seen {
    /// How often a tool was called.
    calls: AtomicUsize,
    /// The generation of the session that was opened last.
    opened: watch::Sender<usize>,
}

/// A server of these generations. A call that says so is refused once the session that comes is open.
async fn serve(generation: Arc<AtomicUsize>, told: Told) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::<Seen>::default();
    let sees = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (generation, sees) = (generation.load(Ordering::SeqCst), Arc::clone(&sees));
            tokio::spawn(async move { answer(stream, generation, told, &sees).await });
        }
    });
    (address, seen)
}

/// F13, S0-28, S0-79: a session that was forgotten and replaced brings other tools. The catalog, what is listed of it and
/// what is kept for the next process follow, and the change is told, whether the server itself tells of changes or not.
#[tokio::test]
async fn f13_a_renewed_session_refreshes_the_catalog() {
    for tells in [true, false] {
        let scratch = Scratch::new(&format!("renewed-{tells}"));
        let generation = Arc::new(AtomicUsize::new(1));
        let (address, _) = serve(Arc::clone(&generation), (tells, None)).await;
        let http = Http::new(&format!("http://{address}/mcp")).unwrap();
        let way = way(move || std::future::ready(http.link()));
        let connector = Client::builder("fleet", "1").era(EraChoice::Legacy);
        let spec = Spec::new("a", "http", "aa", Making { connector, way, policy: Policy::REMOTE });
        let cache = CatalogCache::new(scratch.path());
        let fleet = Fleet::start(vec![spec], Options { cache: Some(cache.clone()), ..Options::default() });
        fleet.started(PATIENCE).await;
        let listed = || {
            let (merged, _) = fleet.merged(&Naming::Never("__".into()));
            merged.list(Kind::Tools).iter().map(|shown| shown.key.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(listed(), ["s1"]);
        let mut events = fleet.events();
        generation.store(2, Ordering::SeqCst);
        let lease = fleet.upstream("a").unwrap().lease().await.unwrap();
        lease.call_tool("s1", &json!({})).unwrap().await.unwrap();
        let changed = async {
            loop {
                if let What::Changed(change) = events.recv().await.unwrap().what {
                    return change;
                }
            }
        };
        let change = tokio::time::timeout(PATIENCE, changed).await.expect("the change is told");
        assert_eq!(change, Change::Tools, "tells: {tells}");
        assert_eq!(listed(), ["s2"], "tells: {tells}");
        assert_eq!(cache.load("aa").unwrap().catalog.tools.entries.len(), 1);
        let status = fleet.upstream("a").unwrap().status();
        assert_eq!(status.restarts, 0, "the link is the same");
        drop(lease);
        fleet.close("the test is over").await;
    }
}

/// T25: where tools that have changed are held back, a call that an old session refused is made in the one that replaced it only once
/// that was looked at, and has the tool as it was.
#[tokio::test]
async fn t25_a_renewed_session_is_judged_before_it_is_called() {
    for (tool, name, calls_after) in [(None, "a__s1", 1), (Some("who"), "a__who", 3)] {
        let scratch = Scratch::new(&format!("renewed-judged{calls_after}"));
        let generation = Arc::new(AtomicUsize::new(1));
        let (address, seen) = serve(Arc::clone(&generation), (true, tool)).await;
        let http = Http::new(&format!("http://{address}/mcp")).unwrap();
        let way = way(move || std::future::ready(http.link()));
        let connector = Client::builder("fleet", "1").era(EraChoice::Legacy);
        let spec = Spec::new("a", "http", "aa", Making { connector, way, policy: Policy::REMOTE });
        let pins = Pins::new(PinStore::new(scratch.path()), Mode::Block, |line| panic!("{line}"));
        let options = front::Options { pins: Some(Arc::new(pins)), ..front::Options::default() };
        let front = Front::start(Fleet::start(vec![spec], Options::default()), options);
        for era in [EraChoice::Modern, EraChoice::Legacy] {
            seen.calls.store(0, Ordering::SeqCst);
            generation.store(1, Ordering::SeqCst);
            let (ours, theirs) = memory::pair(&Limits::DEFAULT);
            let serving = front.clone();
            tokio::spawn(async move { serving.serve(theirs).await });
            let client = Client::builder("client", "1").era(era).connect_link(ours).await.unwrap();
            client.call_tool(name, &json!({})).unwrap().await.unwrap();
            generation.store(2, Ordering::SeqCst);
            // The one is refused before there is another session, the other once there is.
            let late = client.call_tool(name, &json!({ "late": true })).unwrap();
            let (answered, late) = tokio::join!(client.call_tool(name, &json!({})).unwrap(), late);
            assert_eq!(answered.is_ok(), late.is_ok(), "{late:?}");
            match (tool, answered) {
                (Some(_), answered) => drop(answered.unwrap()),
                (None, Err(CallError::Fault(fault))) => {
                    assert!(fault.message.contains("has not told its tools"), "{fault:?}");
                }
                (None, answered) => panic!("{answered:?}"),
            }
            assert_eq!(seen.calls.load(Ordering::SeqCst), calls_after, "{era:?}");
            if tool.is_none() {
                // The catalog is another by now.
                break;
            }
        }
        front.end("done").await;
    }
}
