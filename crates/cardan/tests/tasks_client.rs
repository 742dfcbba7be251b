//! Tasks from the client's side: made, looked at, answered, waited for, cancelled.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
mod task_bench;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cardan::client::{Client, Started, TaskOptions, ToolTask};
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision};
use cardan::proto::model::ElicitResult;
use common::{BOTH, Raw, Way, answering, join, plain};
use serde_json::{Value, json};
use task_bench::server;

async fn start<'a>(client: &'a Client, tool: &str) -> Started<'a> {
    let started = client.call_tool_task(tool, &json!({}), TaskOptions::default()).await;
    started.unwrap_or_else(|error| panic!("{tool}: {error}"))
}

async fn task<'a>(client: &'a Client, tool: &str) -> Box<ToolTask<'a>> {
    match start(client, tool).await {
        Started::Task(task) => task,
        Started::Done(result) => panic!("{tool} was no task: {result:?}"),
    }
}

fn text(result: &CallToolResult) -> String {
    serde_json::to_value(result).unwrap()["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Says yes, and counts how often.
fn yes() -> (Answerers, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let answerers = Answerers::default().elicit(Urls::NotOffered, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        let mut yes = ElicitResult::accepted();
        yes.content = serde_json::from_value(json!({ "sure": true })).unwrap();
        async move { Ok(yes) }
    });
    (answerers, asked)
}

/// TSKD-3, TSKD-4, TSKE-2: one way to call for tools that must, may and cannot be tasks, in both designs.
#[tokio::test(start_paused = true)]
async fn one_way_to_call() {
    for revision in BOTH {
        let (client, wire) = join(&server(), plain(), revision).await;
        for (tool, said, is_task) in
            [("job", "job", true), ("slow", "slow task", true), ("plain", "plain", false)]
        {
            let started = start(&client, tool).await;
            assert_eq!(matches!(started, Started::Task(_)), is_task, "{revision} {tool}");
            assert_eq!(text(&started.finish().await.unwrap()), said, "{revision}");
        }
        let wished = wire
            .of(Way::Out, "tools/call")
            .iter()
            .filter(|call| call["params"].get("task").is_some())
            .count();
        assert_eq!(wished, if revision.era() == Era::Legacy { 2 } else { 0 });
    }
}

/// TSKD-2, TSKD-3: a server that does not offer tasks is not asked for one.
#[tokio::test(start_paused = true)]
async fn no_task_is_wished_for_where_none_is_offered() {
    let server = Server::builder("none", "1").tool("plain", "", async || "plain").build();
    for revision in [Revision::V2025_06_18, Revision::LATEST_LEGACY, Revision::LATEST_MODERN] {
        let (client, wire) = join(&server, plain(), revision).await;
        assert_eq!(text(&start(&client, "plain").await.finish().await.unwrap()), "plain");
        assert!(wire.of(Way::Out, "tools/call").iter().all(|call| call["params"].get("task").is_none()));
    }
}

/// TSKE-2, EXT-2: a plain call declares nothing, and so is never answered with a task.
#[tokio::test(start_paused = true)]
async fn plain_calls_stay_plain() {
    let (client, wire) = join(&server(), plain(), Revision::LATEST_MODERN).await;
    let result = client.call_tool("slow", &json!({})).unwrap().await.unwrap();
    assert_eq!(text(&result), "slow call");
    assert!(!format!("{:?}", wire.went(Way::Out)).contains("extensions"));
}

/// TSKD-11, TSKE-21: looks come as often as the server wants, until the end.
#[tokio::test(start_paused = true)]
async fn the_interval_is_kept() {
    for revision in BOTH {
        let (client, wire) = join(&server(), plain(), revision).await;
        let mut task = task(&client, "slow").await;
        let begun = tokio::time::Instant::now();
        assert_eq!(text(&task.wait().await.unwrap()), "slow task");
        assert!((10..=11).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        let looks = wire.of(Way::Out, "tasks/get").len();
        assert!((10..=11).contains(&looks), "{revision}: {looks} looks in ten seconds");
    }
}

/// TSKD-11: an interval of nothing does not make a busy loop.
#[tokio::test(start_paused = true)]
async fn the_floor_is_kept() {
    let caps = json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let (mut raw, client) = Raw::ready(plain(), Revision::LATEST_MODERN, caps).await;
    let begun = tokio::time::Instant::now();
    let serving = async {
        let made = raw.recv().await;
        raw.reply(&made, state("task", json!({ "pollIntervalMs": 0 }))).await;
        for _ in 0..10 {
            let look = raw.recv().await;
            raw.reply(&look, state("complete", json!({ "pollIntervalMs": 0 }))).await;
        }
        let look = raw.recv().await;
        let done = json!({ "status": "completed", "result": { "content": [] } });
        raw.reply(&look, state("complete", done)).await;
    };
    let (result, ()) = tokio::join!(async { start(&client, "x").await.finish().await }, serving);
    assert!(result.unwrap().content.is_empty());
    assert!(begun.elapsed() >= Duration::from_millis(550), "{:?}", begun.elapsed());
}

fn state(kind: &str, more: Value) -> Value {
    let mut task = json!({
        "resultType": kind, "taskId": "t", "status": "working", "ttlMs": null,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
    });
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

/// TSKD-15, TSKE-2: what a task asks is answered by the same answerers as any other ask.
#[tokio::test(start_paused = true)]
async fn asks_of_a_task_are_answered() {
    for revision in BOTH {
        let (answerers, asked) = yes();
        let (client, _) = join(&server(), answering(answerers), revision).await;
        assert_eq!(text(&start(&client, "confirm").await.finish().await.unwrap()), "Accept", "{revision}");
        assert_eq!(text(&start(&client, "both").await.finish().await.unwrap()), "Accept Accept");
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }
}

/// TSKE-21, TSKE-25: an ask that a look still shows is not asked twice, and only what is open is answered.
#[tokio::test(start_paused = true)]
async fn asks_are_answered_once() {
    let caps = json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let (answerers, asked) = yes();
    let (mut raw, client) = Raw::ready(answering(answerers), Revision::LATEST_MODERN, caps).await;
    let form = json!({ "mode": "form", "message": "?", "requestedSchema": { "type": "object", "properties": { "sure": { "type": "boolean" } } } });
    let asking = json!({ "status": "input_required", "inputRequests": { "a": { "method": "elicitation/create", "params": form } } });
    let serving = async {
        let made = raw.recv().await;
        raw.reply(&made, state("task", json!({}))).await;
        let mut updates = Vec::new();
        for _ in 0..4 {
            let call = raw.recv().await;
            let declared = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            assert!(declared["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{call}");
            if call["method"] == "tasks/update" {
                updates.push(call["params"]["inputResponses"].clone());
                raw.reply(&call, json!({ "resultType": "complete" })).await;
            } else {
                raw.reply(&call, state("complete", asking.clone())).await;
            }
        }
        let look = raw.recv().await;
        raw.reply(&look, state("complete", json!({ "status": "completed", "result": { "content": [] } })))
            .await;
        updates
    };
    let (result, updates) = tokio::join!(async { start(&client, "x").await.finish().await }, serving);
    result.unwrap();
    assert_eq!(updates, [json!({ "a": { "action": "accept", "content": { "sure": true } } })]);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// TSKE-3: a task in place of another result is invalid, and so is one that nobody wanted.
#[tokio::test(start_paused = true)]
async fn tasks_in_other_places_are_violations() {
    let caps = json!({ "tools": {}, "prompts": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let (mut raw, client) = Raw::ready(plain(), Revision::LATEST_MODERN, caps).await;
    let serving = async {
        for _ in 0..3 {
            let call = raw.recv().await;
            raw.reply(&call, state("task", json!({}))).await;
        }
    };
    let calling = async {
        let looked = client.tool_task("t").await.map(drop);
        let listed = client.all_tools().await.map(drop);
        let called = client.call_tool("x", &json!({})).unwrap().await.map(drop);
        [looked, listed, called]
    };
    let (outcomes, ()) = tokio::join!(calling, serving);
    for outcome in outcomes {
        assert!(matches!(outcome, Err(CallError::Violated(_))), "{outcome:?}");
    }
}

/// TSKD-16, TSKE-12, TSKE-13, CAN-10, CAN-14: a task is cancelled by its own call, never by a cancel note.
#[tokio::test(start_paused = true)]
async fn tasks_are_cancelled_by_their_own_call() {
    for revision in BOTH {
        let (client, wire) = join(&server(), plain(), revision).await;
        let mut task = task(&client, "slow").await;
        task.cancel().await.unwrap();
        let outcome = task.wait().await;
        // The state is as it was seen last: look first.
        assert!(matches!(outcome, Err(CallError::Cancelled { .. })), "{revision}: {outcome:?}");
        assert_eq!(wire.of(Way::Out, "notifications/cancelled"), [Value::Null; 0]);
    }
}

/// TSKE-21: the name of a task is all it takes to find it again.
#[tokio::test(start_paused = true)]
async fn tasks_outlive_their_link() {
    for revision in BOTH {
        let server = server();
        let (client, _) = join(&server, plain(), revision).await;
        let id = task(&client, "slow").await.id().to_owned();
        client.close("gone").await;
        let (client, _) = join(&server, plain(), revision).await;
        let mut task = client.tool_task(&id).await.unwrap();
        assert_eq!(text(&task.wait().await.unwrap()), "slow task");
        assert!(client.tool_task("unknown").await.is_err());
    }
}

/// TSKD-22, TSKE-9: what failed is told as it would have been without a task.
#[tokio::test(start_paused = true)]
async fn failures_come_through() {
    for revision in BOTH {
        let (client, _) = join(&server(), plain(), revision).await;
        let failed = start(&client, "failing").await.finish().await.unwrap();
        assert!(failed.failed(), "{revision}");
        let broken = start(&client, "broken").await.finish().await.unwrap_err();
        let CallError::Fault(fault) = broken else { panic!("{revision}: {broken}") };
        assert_eq!((&*fault.message, fault.data.as_deref()), ("broken", Some(&br#"{"part":7}"#[..])));
    }
}

/// TSKD-17: a server that lists no tasks is not asked for the list.
#[tokio::test(start_paused = true)]
async fn lists_are_asked_for_where_they_are_offered() {
    let (client, wire) = join(&server(), plain(), Revision::LATEST_LEGACY).await;
    assert!(matches!(client.all_tasks().await, Err(CallError::Refused(_))));
    assert_eq!(wire.of(Way::Out, "tasks/list"), [Value::Null; 0]);
}

/// TSKD-19: a server that never says a word about its task is followed all the same.
#[tokio::test(start_paused = true)]
async fn notes_are_not_needed() {
    let caps = json!({ "tools": {}, "tasks": { "requests": { "tools": { "call": {} } } } });
    let (mut raw, client) = Raw::ready(plain(), Revision::LATEST_LEGACY, caps).await;
    let core = |status: &str| {
        json!({
            "taskId": "t", "status": status, "ttl": 60_000,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        })
    };
    let serving = async {
        let list = raw.recv().await;
        let tool = json!({ "name": "x", "inputSchema": { "type": "object" }, "execution": { "taskSupport": "required" } });
        raw.reply(&list, json!({ "tools": [tool] })).await;
        let made = raw.recv().await;
        assert_eq!(made["params"]["task"], json!({ "ttl": 5000 }));
        raw.reply(&made, json!({ "task": core("working") })).await;
        for status in ["working", "completed"] {
            let look = raw.recv().await;
            assert_eq!(look["method"], "tasks/get");
            raw.reply(&look, core(status)).await;
        }
        let fetch = raw.recv().await;
        assert_eq!(fetch["method"], "tasks/result");
        raw.reply(&fetch, json!({ "content": [] })).await;
    };
    let options = TaskOptions { ttl: Some(Duration::from_secs(5)), ..TaskOptions::default() };
    let calling = async { client.call_tool_task("x", &json!({}), options).await.unwrap().finish().await };
    let (result, ()) = tokio::join!(calling, serving);
    result.unwrap();
}

/// TSKD-1, TSKD-2, TSKD-6: this client makes no tasks of what it is asked and says so: a wish for one is
/// ignored, and calls about tasks are unknown.
#[tokio::test(start_paused = true)]
async fn asks_are_never_tasks_of_ours() {
    let (answerers, asked) = yes();
    let (mut raw, connecting) = Raw::server_for(answering(answerers), Revision::LATEST_LEGACY);
    let hello = raw.recv().await;
    assert_eq!(hello["params"]["capabilities"].get("tasks"), None);
    let greeting = json!({
        "protocolVersion": Revision::LATEST_LEGACY.date(), "capabilities": {},
        "serverInfo": { "name": "raw", "version": "0" },
    });
    raw.reply(&hello, greeting).await;
    raw.recv().await;
    let client = connecting.await.unwrap().unwrap();
    let form = json!({ "type": "object", "properties": { "sure": { "type": "boolean" } } });
    let params = json!({ "message": "?", "requestedSchema": form, "task": { "ttl": 1000 } });
    let answer = raw.call("elicitation/create", params).await;
    assert_eq!((&answer["result"]["action"], asked.load(Ordering::Relaxed)), (&json!("accept"), 1));
    for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
        assert_eq!(raw.call(method, json!({ "taskId": "t" })).await["error"]["code"], -32601, "{method}");
    }
    drop(client);
}
