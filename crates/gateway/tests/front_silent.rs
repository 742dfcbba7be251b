//! One server that has gone silent: what its neighbours' clients notice.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::time::Duration;

use bytes::Bytes;
use cardan_client::{CallError, Client};
use cardan_gateway::fleet::Spec;
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::fleet::{ANSWER, GUESS};
use cardan_proto::method::Method;
use cardan_proto::session::config::Interests;
use cardan_proto::session::event::{Answer, CallOptions, Called};
use cardan_runtime::cx::CallCx;
use cardan_runtime::service::{Handler, Service};
use fronting::{at, front};
use relaying::{making_legacy, plain, text};
use serde_json::{Value, json};
use tokio::time::Instant;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

const NAMES: [&str; 10] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];

/// How a server answers what is no list of what it offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Good,
    Silent,
}

/// A legacy server with a tool, a task and a resource that no list has.
struct Small(&'static str, Manner);

impl Small {
    fn answer(&self, called: &Called) -> Answer {
        let name = self.0;
        let task = json!({
            "taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": 600_000,
            "lastUpdatedAt": "2026-01-01T00:00:00Z",
        });
        let uri = called.call.params.text(Param::Uri);
        let result = match called.call.method {
            Method::ToolsList => {
                json!({"tools": [{"name": "who", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}}]})
            }
            Method::ResourcesList => json!({"resources": []}),
            Method::ResourcesTemplatesList => json!({"resourceTemplates": []}),
            Method::ToolsCall => {
                let raw: Value = called.call.params.decode().unwrap();
                match raw.get("task") {
                    Some(_) => json!({ "task": task }),
                    None => json!({"content": [{"type": "text", "text": name}]}),
                }
            }
            Method::TasksList => json!({ "tasks": [task] }),
            Method::ResourcesRead if uri.as_deref() == Some(&*format!("x://{name}")) => {
                json!({"contents": [{"uri": format!("x://{name}"), "text": name}]})
            }
            Method::ResourcesSubscribe if uri.as_deref() == Some(&*format!("x://{name}")) => json!({}),
            _ => return Answer::Fault(Fault::resource_not_found(&uri.unwrap_or_default())),
        };
        Answer::Done(Bytes::from(result.to_string()))
    }
}

impl Service for Small {
    fn call(&self, _: CallCx, called: Called) -> Handler<Answer> {
        let lists = [Method::ToolsList, Method::ResourcesList, Method::ResourcesTemplatesList, Method::Ping];
        if self.1 == Manner::Silent && !lists.contains(&called.call.method) {
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(self.answer(&called)))
    }
}

fn small(name: &'static str, manner: Manner) -> Spec {
    let capabilities = json!({
        "tools": {}, "resources": {"subscribe": true}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    });
    let (making, _) = making_legacy(Small(name, manner), name, &capabilities, Interests::Handed);
    Spec::new(name, "http", format!("digest of {name}"), making)
}

/// Ten servers, of which this one is silent.
fn ten(silent: usize) -> Vec<Spec> {
    let manner = |at| if at == silent { Manner::Silent } else { Manner::Good };
    NAMES.iter().enumerate().map(|(at, name)| small(name, manner(at))).collect()
}

/// A call whose caller waits as good as for ever.
async fn patient(client: &Client, method: Method, params: Value) -> Result<Value, CallError> {
    let never = Some(Duration::ZERO);
    let options = CallOptions { idle: never, total: never, ..CallOptions::default() };
    let call = client.raw(method, Some(Bytes::from(params.to_string())), options);
    let raw = tokio::time::timeout(Duration::from_secs(3600), call).await.expect("it ends within an hour")?;
    Ok(serde_json::from_slice(&raw).unwrap())
}

/// F37: one of ten servers hangs. Lists and calls of the others are answered at once, what any server may have within the
/// time that one of several has to answer.
#[tokio::test(start_paused = true)]
async fn f37_one_silent_server_is_not_waited_for() {
    for silent in [0, 4, 9] {
        let front = front(ten(silent));
        front.settled().await;
        for era in ERAS {
            let client = at(&front, era, plain()).await;
            let began = Instant::now();
            assert_eq!(client.all_tools().await.unwrap().len(), 10, "{silent} {era:?}");
            for (at, name) in NAMES.into_iter().enumerate().filter(|(at, _)| *at != silent) {
                assert_eq!(text(&client, &format!("{name}__who"), json!({})).await, name, "{at}");
            }
            assert!(began.elapsed() < GUESS, "{silent} {era:?} {:?}", began.elapsed());
            for (at, name) in NAMES.into_iter().enumerate().filter(|(at, _)| *at != silent) {
                let began = Instant::now();
                let read =
                    patient(&client, Method::ResourcesRead, json!({"uri": format!("x://{name}")})).await;
                assert_eq!(read.unwrap()["contents"][0]["text"], name, "{silent} {era:?}");
                let within = if at < silent { GUESS } else { ANSWER + GUESS };
                assert!(began.elapsed() <= within, "{silent} {era:?} {name} {:?}", began.elapsed());
            }
            let began = Instant::now();
            let none = patient(&client, Method::ResourcesRead, json!({"uri": "x://none"})).await;
            let none = none.unwrap_err().to_string();
            assert!(none.contains(NAMES[silent]) && none.contains("did not answer"), "{none}");
            assert!(began.elapsed() <= ANSWER * 2, "{silent} {era:?} {:?}", began.elapsed());
        }
        front.end("done").await;
    }
}

/// F37: whoever subscribes to what no list has is not held up for long by a server that does not say whether it has it.
#[tokio::test(start_paused = true)]
async fn f37_who_subscribes_does_not_wait_for_a_silent_server() {
    for silent in [0, 4, 9] {
        let front = front(ten(silent));
        front.settled().await;
        let client = at(&front, Era::Legacy, plain()).await;
        for (at, name) in NAMES.into_iter().enumerate().filter(|(at, _)| *at != silent) {
            let began = Instant::now();
            let uri = json!({"uri": format!("x://{name}")});
            patient(&client, Method::ResourcesSubscribe, uri).await.unwrap();
            let within = if at < silent { GUESS } else { ANSWER + GUESS };
            assert!(began.elapsed() <= within, "{silent} {name} {:?}", began.elapsed());
        }
        let none = patient(&client, Method::ResourcesSubscribe, json!({"uri": "x://none"})).await;
        assert!(matches!(none, Err(CallError::Fault(_))), "{none:?}");
        front.end("done").await;
    }
}

/// F37, TSKD-7: tasks are listed in the order of their servers, without those of a silent one, whose name is told.
#[tokio::test(start_paused = true)]
async fn f37_tasks_of_others_are_listed() {
    for silent in [0, 4, 9] {
        let front = front(ten(silent));
        front.settled().await;
        let client = at(&front, Era::Legacy, plain()).await;
        let mut made = Vec::new();
        for (_, name) in NAMES.into_iter().enumerate().filter(|(at, _)| *at != silent) {
            let params = json!({"name": format!("{name}__who"), "arguments": {}, "task": {"ttl": 600_000}});
            let task = patient(&client, Method::ToolsCall, params).await.unwrap();
            made.push(task["task"]["taskId"].clone());
        }
        let began = Instant::now();
        let page = patient(&client, Method::TasksList, json!({})).await.unwrap();
        assert!(began.elapsed() <= ANSWER, "{:?}", began.elapsed());
        let listed: Vec<_> =
            page["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].clone()).collect();
        assert_eq!(listed, made, "{page}");
        assert_eq!(page.get("nextCursor"), None, "{page}");
        assert_eq!(page["_meta"]["cardan/unanswered"], json!([NAMES[silent]]), "{page}");
        front.end("done").await;
    }
}

/// F37: a server that nobody stands beside has all the time that its client gives it.
#[tokio::test(start_paused = true)]
async fn f37_who_is_alone_is_waited_for() {
    let front = front(ten(0));
    let alone = front.alone("s0").unwrap();
    let client = at(&alone, Era::Modern, plain()).await;
    client.all_tools().await.unwrap();
    let read = patient(&client, Method::ResourcesRead, json!({"uri": "x://s0"}));
    assert!(tokio::time::timeout(Duration::from_secs(600), read).await.is_err());
    front.end("done").await;
}
