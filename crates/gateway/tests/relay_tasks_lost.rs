//! Tasks whose line is lost, at the worst of times.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{CallError, Client, way};
use cardan_gateway::fleet::Making;
use cardan_gateway::relay::{Behind, Isolation, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::tool::TaskSupport;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::CallOptions;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::lines::Lines;
use cardan_server::{Cx, Server, Stop};
use relaying::{connect, making, plain, revisions};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};
use tokio::sync::watch;
use tokio::time::Instant;

/// Without deadlines of its own, since virtual time passes while lines are made again.
async fn call(client: &Client, method: Method, params: Value) -> Result<Value, CallError> {
    let never = Some(Duration::ZERO);
    let options = CallOptions { idle: never, total: never, ..CallOptions::default() };
    let raw = client.raw(method, Some(Bytes::from(params.to_string())), options).await?;
    Ok(serde_json::from_slice(&raw).unwrap())
}

/// How long a server lasts that is asked for the result, in virtual time: longer than one that is given up as broken.
const LASTS: Duration = Duration::from_secs(100);

/// A legacy server whose task has ended, and which says so, but is gone a while after the result was asked for.
async fn breaking(stream: DuplexStream, results: Arc<AtomicUsize>) {
    let (read, mut write) = split(stream);
    let mut lines = BufReader::new(read).lines();
    let task = |status: &str| {
        let at = "2025-11-25T10:00:00Z";
        json!({"taskId": "1", "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": 600_000})
    };
    let mut ends = None;
    loop {
        let next = lines.next_line();
        let line = match ends {
            Some(ends) => tokio::time::timeout_at(ends, next).await,
            None => Ok(next.await),
        };
        let Ok(Ok(Some(line))) = line else { return };
        let message: Value = serde_json::from_str(&line).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        let result = match method {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
                "serverInfo": {"name": "breaking", "version": "1"},
            }),
            "tools/list" => json!({"tools": [
                {"name": "work", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
            ]}),
            "tools/call" => json!({"task": task("working")}),
            "tasks/result" => {
                results.fetch_add(1, Ordering::SeqCst);
                ends = Some(Instant::now() + LASTS);
                continue;
            }
            "tasks/get" => task("completed"),
            _ => json!({}),
        };
        if message.get("id").is_some() {
            let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            write.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
        }
    }
}

/// TSKE-8: a server that is lost whenever the result is asked for is given up after a few times, not asked for ever.
#[tokio::test(start_paused = true)]
async fn a_result_that_breaks_every_line_is_given_up() {
    let results = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&results);
    let dial = way(move || {
        let (ours, theirs) = duplex(64 << 10);
        tokio::spawn(breaking(theirs, Arc::clone(&asked)));
        let (read, write) = split(ours);
        std::future::ready(Ok::<_, Infallible>(Lines::new(read, write, &Limits::DEFAULT)))
    });
    let connector = Client::builder("relay", "1").era(EraChoice::Legacy);
    let making = Making { connector, way: dial, policy: Policy::CHILD };
    // Lines come back more and more slowly: whoever is patient sees each of them.
    let patience = Duration::from_secs(86_400);
    let limits = Limits { call_idle_timeout: patience, ..Limits::DEFAULT };
    let options = Options { behind: Behind::One, opening: patience, limits, ..Options::default() };
    let relay = Relay::start(making, options).await.unwrap();
    let client = connect(&relay, Era::Modern, plain()).await;
    let declared = json!({"io.modelcontextprotocol/clientCapabilities":
        {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let work = json!({"name": "work", "arguments": {}, "_meta": declared});
    let made = call(&client, Method::ToolsCall, work).await.unwrap();
    assert_eq!(made["resultType"], "task", "{made}");
    let looked = call(&client, Method::TasksGet, json!({"taskId": made["taskId"], "_meta": declared})).await;
    assert!(matches!(looked, Err(CallError::Fault(_))), "{looked:?}");
    let results = results.load(Ordering::SeqCst);
    assert!((2..=4).contains(&results), "asked for {results} times");
}

/// TSKD-7: a task that was made is told to its client, though no line is to be had right after.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_made_is_not_lost_with_its_line() {
    let away = watch::Sender::new(false);
    let (leaving, gone) = (away.clone(), away.clone());
    let server = Server::builder("tasks", "1")
        .revisions(revisions(Era::Modern))
        .tool("work", "takes its time", move |_: Cx| {
            leaving.send_replace(true);
            async move {
                std::future::pending::<()>().await;
                Ok::<_, Stop>("never")
            }
        })
        .task_support("work", TaskSupport::Required)
        .build();
    // The call has a line of its own. All others are gone once it runs.
    let dialled = AtomicUsize::new(0);
    let (making, _) = making(move |link| {
        let (server, mut gone) = (server.clone(), gone.subscribe());
        let is_first = dialled.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            match is_first || *gone.borrow() {
                true => tokio::select! {
                    _ = server.serve(link) => {}
                    _ = gone.wait_for(|gone| *gone) => {}
                },
                false => drop(server.serve(link).await),
            }
        }
    });
    let options = Options { isolation: Isolation::Call, ..Options::default() };
    let relay = Relay::start(making, options).await.unwrap();
    let client = connect(&relay, Era::Legacy, plain()).await;
    let made = call(&client, Method::ToolsCall, json!({"name": "work", "arguments": {}, "task": {}})).await;
    let made = made.unwrap();
    assert_eq!(made["task"]["status"], "working", "{made}");
    assert!(*away.borrow(), "the tool runs");
}
