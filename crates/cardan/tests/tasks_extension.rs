//! Tasks as an extension, modern era: what a server answers, message by message.

mod common;
mod task_bench;

use std::time::Duration;

use common::{Raw, dressed};
use serde_json::{Value, json};
use task_bench::{Era, able, core, core_task, legacy_as, modern, modern_task, of, reply, server, until};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn call(tool: &str) -> Value {
    json!({ "name": tool, "arguments": {} })
}

/// A modern call of a client without the extension.
async fn without(raw: &mut Raw, method: &str, params: Value) -> Value {
    let old = json!({ "elicitation": {}, "tasks": { "requests": { "tools": { "call": {} } } } });
    reply(raw, method, dressed(params, old)).await.0
}

/// TSKE-19: the extension is advertised, the older capability is not.
#[tokio::test(start_paused = true)]
async fn the_extension_is_advertised() {
    let mut raw = Raw::client_of(&server());
    let capabilities = modern(&mut raw, "server/discover", json!({})).await["result"]["capabilities"].clone();
    assert_eq!(capabilities["extensions"][EXTENSION], json!({}));
    assert_eq!(capabilities.get("tasks"), None);
}

/// TSKE-1, TSKE-4, TSKE-19: without the extension a tool runs plainly, or is refused if it cannot; the older
/// capability does not count.
#[tokio::test(start_paused = true)]
async fn tasks_are_for_those_who_declare() {
    let mut raw = Raw::client_of(&server());
    let plain = without(&mut raw, "tools/call", call("slow")).await;
    assert_eq!((common::words(&plain), &plain["result"]["resultType"]), ("slow call", &json!("complete")));
    let refused = without(&mut raw, "tools/call", call("job")).await;
    assert_eq!(refused["error"]["code"], -32021);
    let required = &refused["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({ "extensions": { EXTENSION: {} } }));
    modern_task(&mut raw, "slow").await;
}

/// TSKE-5, TSKE-24: the created task is flat, under the newer names, without what belongs to looks.
#[tokio::test(start_paused = true)]
async fn a_created_task_is_flat() {
    let mut raw = Raw::client_of(&server());
    let task = modern_task(&mut raw, "slow").await;
    assert_eq!(
        (&task["status"], &task["ttlMs"], &task["pollIntervalMs"]),
        (&json!("working"), &json!(600_000), &json!(1000))
    );
    for member in ["task", "ttl", "pollInterval", "result", "error", "inputRequests", "requestState"] {
        assert_eq!(task.get(member), None, "{member}");
    }
    for time in ["createdAt", "lastUpdatedAt"] {
        assert!(cardan::proto::model::date::is_date_time(task[time].as_str().unwrap()), "{task}");
    }
    // TSKE-22: 128 bits, which is 22 characters of base64.
    assert_eq!(task["taskId"].as_str().unwrap().len(), 22);
}

/// TSKE-5, TSKE-6, TSKE-8: it is there at once; looks bring state and, at the end, the result.
#[tokio::test(start_paused = true)]
async fn looks_bring_the_state() {
    let mut raw = Raw::client_of(&server());
    let task = modern_task(&mut raw, "slow").await;
    let seen = modern(&mut raw, "tasks/get", of(&task)).await["result"].clone();
    assert_eq!((&seen["status"], &seen["resultType"]), (&json!("working"), &json!("complete")));
    let done = until(&mut raw, &task, "completed", Era::Modern).await;
    assert_eq!(done["result"]["content"][0]["text"], "slow task");
    assert_eq!(done["statusMessage"], "nearly");
    assert_eq!(done["result"]["_meta"].get("io.modelcontextprotocol/related-task"), None);
    assert_eq!((done.get("error"), done.get("inputRequests"), done.get("requestState")), (None, None, None));
    assert_eq!(done["resultType"], "complete");
}

/// TSKE-5: what ends at once needs no task, unless the tool wants one.
#[tokio::test(start_paused = true)]
async fn quick_work_needs_no_task() {
    let mut raw = Raw::client_of(&server());
    let quick = modern(&mut raw, "tools/call", call("quick")).await;
    assert_eq!((common::words(&quick), &quick["result"]["resultType"]), ("quick", &json!("complete")));
    let job = modern_task(&mut raw, "job").await;
    let done = until(&mut raw, &job, "completed", Era::Modern).await;
    assert_eq!(done["result"]["content"][0]["text"], "job");
}

/// TSKE-9: a tool's failure completes, a fault or a panic fails, with the error inside.
#[tokio::test(start_paused = true)]
async fn failed_is_for_faults() {
    let mut raw = Raw::client_of(&server());
    let failing = modern_task(&mut raw, "failing").await;
    let done = until(&mut raw, &failing, "completed", Era::Modern).await;
    assert_eq!(done["result"]["isError"], true);
    for (tool, data) in [("broken", json!({ "part": 7 })), ("panics", Value::Null)] {
        let task = modern_task(&mut raw, tool).await;
        let failed = until(&mut raw, &task, "failed", Era::Modern).await;
        assert_eq!((&failed["error"]["code"], &failed["error"]["data"]), (&json!(-32603), &data));
        assert_eq!(failed["statusMessage"], failed["error"]["message"]);
        assert_eq!(failed.get("result"), None);
    }
}

/// TSKE-7: rounds of asks end before the task begins, which has their answers.
#[tokio::test(start_paused = true)]
async fn rounds_end_before_the_task_begins() {
    let mut raw = Raw::client_of(&server());
    let asked = modern(&mut raw, "tools/call", call("named")).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    assert!(asked["inputRequests"]["name"].is_object(), "{asked}");
    let retry = json!({
        "name": "named", "arguments": {}, "requestState": asked["requestState"],
        "inputResponses": { "name": { "action": "accept", "content": { "name": "Ada" } } },
    });
    let task = modern(&mut raw, "tools/call", retry).await["result"].clone();
    assert_eq!(task["resultType"], "task");
    let done = until(&mut raw, &task, "completed", Era::Modern).await;
    assert_eq!(done["result"]["content"][0]["text"], "hello Ada");
}

/// TSKE-8, TSKE-11: asks stand in the task; an update answers them, one by one if it likes, and is
/// acknowledged empty.
#[tokio::test(start_paused = true)]
async fn updates_answer_asks() {
    let mut raw = Raw::client_of(&server());
    let task = modern_task(&mut raw, "both").await;
    let asking = until(&mut raw, &task, "input_required", Era::Modern).await;
    let names: Vec<_> = asking["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(asking["inputRequests"]["one"]["method"], "elicitation/create");
    let yes = json!({ "action": "accept", "content": { "sure": true } });
    for answers in [json!({ "one": yes }), json!({ "unknown": yes }), json!({})] {
        let params = json!({ "taskId": task["taskId"], "inputResponses": answers });
        let ack = modern(&mut raw, "tasks/update", params).await["result"].clone();
        assert_eq!(ack["resultType"], "complete");
        assert!(
            ["taskId", "status", "result", "error"].iter().all(|member| ack.get(*member).is_none()),
            "{ack}"
        );
        let seen = modern(&mut raw, "tasks/get", of(&task)).await["result"].clone();
        assert_eq!(seen["status"], "input_required");
        // TSKE-10, TSKE-25: what is answered is asked no more.
        assert_eq!(seen["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["two"]);
    }
    let odd = json!({ "taskId": task["taskId"], "inputResponses": { "two": 7 } });
    assert_eq!(modern(&mut raw, "tasks/update", odd).await["error"]["code"], -32602);
    let last = json!({ "taskId": task["taskId"], "inputResponses": { "two": { "action": "decline" }, "one": { "action": "cancel" } } });
    modern(&mut raw, "tasks/update", last).await;
    let done = until(&mut raw, &task, "completed", Era::Modern).await;
    assert_eq!(done["result"]["content"][0]["text"], "Accept Decline");
}

/// TSKE-1: a task asks only for what its caller declared.
#[tokio::test(start_paused = true)]
async fn tasks_ask_for_what_was_declared() {
    let mut raw = Raw::client_of(&server());
    let params = dressed(call("confirm"), json!({ "extensions": { EXTENSION: {} } }));
    let task = reply(&mut raw, "tools/call", params).await.0["result"].clone();
    let failed = until(&mut raw, &task, "failed", Era::Modern).await;
    assert_eq!(failed["error"]["code"], -32021);
}

/// TSKE-12, TSKE-26: cancelling is acknowledged empty, before the end and after it; the work is stopped.
#[tokio::test(start_paused = true)]
async fn cancelling_is_acknowledged() {
    let mut raw = Raw::client_of(&server());
    let task = modern_task(&mut raw, "slow").await;
    let done = modern_task(&mut raw, "job").await;
    until(&mut raw, &done, "completed", Era::Modern).await;
    for (task, status) in [(&task, "cancelled"), (&task, "cancelled"), (&done, "completed")] {
        let ack = modern(&mut raw, "tasks/cancel", of(task)).await["result"].clone();
        assert_eq!(ack["resultType"], "complete");
        assert!(["taskId", "status", "result"].iter().all(|member| ack.get(*member).is_none()), "{ack}");
        assert_eq!(modern(&mut raw, "tasks/get", of(task)).await["result"]["status"], status);
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(modern(&mut raw, "tasks/get", of(&task)).await["result"]["status"], "cancelled");
}

/// TSKE-13: a cancel note is about the call, which is over; the task goes on.
#[tokio::test(start_paused = true)]
async fn cancel_notes_are_not_for_tasks() {
    let mut raw = Raw::client_of(&server());
    let id = raw.start("tools/call", dressed(call("slow"), able())).await;
    let task = raw.recv().await["result"].clone();
    raw.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
    )
    .await;
    until(&mut raw, &task, "completed", Era::Modern).await;
}

/// TSKE-14, TSKE-15, TSKE-22: unknown and foreign are the same; without the extension not even that is told.
#[tokio::test(start_paused = true)]
async fn who_may_not_know_learns_nothing() {
    let server = server();
    let mut ada = Raw::client_of_as(&server, Some("ada".into()));
    let task = modern_task(&mut ada, "slow").await;
    let mut bob = Raw::client_of_as(&server, Some("bob".into()));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let named = |id: &Value| json!({ "taskId": id, "inputResponses": {} });
        let foreign = modern(&mut bob, method, named(&task["taskId"])).await;
        let unknown = modern(&mut bob, method, named(&json!("unknown"))).await;
        assert_eq!(
            (&foreign["error"], &foreign["error"]["code"]),
            (&unknown["error"], &json!(-32602)),
            "{method}"
        );
        let undeclared = without(&mut ada, method, named(&json!("unknown"))).await;
        assert_eq!(undeclared["error"]["code"], -32021, "{method}");
    }
    let listen = json!({ "notifications": { "taskIds": [task["taskId"]] } });
    assert_eq!(without(&mut ada, "subscriptions/listen", listen).await["error"]["code"], -32021);
    assert_eq!(modern(&mut ada, "tasks/get", of(&task)).await["result"]["status"], "working");
}

/// TSKE-16, TSKE-24: who listens to a task hears its whole state when that changes, and neither progress nor
/// log notes; another principal hears nothing.
#[tokio::test(start_paused = true)]
async fn listens_hear_the_whole_state() {
    let server = server();
    let mut ada = Raw::client_of_as(&server, Some("ada".into()));
    let mut bob = Raw::client_of_as(&server, Some("bob".into()));
    let wishes = json!({ "name": "slow", "_meta": {
        "progressToken": 1, "io.modelcontextprotocol/logLevel": "debug",
    } });
    let (made, _) = reply(&mut ada, "tools/call", dressed(wishes, able())).await;
    let task = made["result"].clone();
    let listen = json!({ "notifications": { "taskIds": [task["taskId"]] } });
    for raw in [&mut ada, &mut bob] {
        raw.start("subscriptions/listen", dressed(listen.clone(), able())).await;
        let acknowledged = raw.recv().await;
        assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([task["taskId"]]));
    }
    let note = ada.recv().await;
    assert_eq!(
        (&note["method"], &note["params"]["status"]),
        (&json!("notifications/tasks"), &json!("completed"))
    );
    assert_eq!(note["params"]["result"]["content"][0]["text"], "slow task");
    assert!(note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].is_number(), "{note}");
    let (_, before) = reply(&mut bob, "server/discover", dressed(json!({}), able())).await;
    assert_eq!(before, [Value::Null; 0]);
}

/// TSKE-18: the calls and the wish of the older design mean nothing here.
#[tokio::test(start_paused = true)]
async fn the_older_calls_are_gone() {
    let mut raw = Raw::client_of_as(&server(), Some("ada".into()));
    let task = modern_task(&mut raw, "slow").await;
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(modern(&mut raw, method, of(&task)).await["error"]["code"], -32601, "{method}");
    }
    let wish = json!({ "name": "plain", "arguments": {}, "task": { "ttl": 60_000 } });
    assert_eq!(common::words(&modern(&mut raw, "tools/call", wish).await), "plain");
}

/// TSKE-20, TSKE-27: in 2025-11-25 the extension enables nothing, and its own tasks work beside those of
/// the extension, each found in its own design.
#[tokio::test(start_paused = true)]
async fn both_designs_live_side_by_side() {
    let server = server();
    let mut old = legacy_as(&server, Some("ada"), cardan::proto::era::Revision::LATEST_LEGACY).await;
    let plain = core(&mut old, "tools/call", call("slow")).await;
    assert_eq!(common::words(&plain), "slow call");
    assert_eq!(
        core(&mut old, "tasks/update", json!({ "taskId": "x", "inputResponses": {} })).await["error"]["code"],
        -32601
    );
    let of_old = core_task(&mut old, "slow").await;
    let mut new = Raw::client_of_as(&server, Some("ada".into()));
    let of_new = modern_task(&mut new, "slow").await;
    assert_eq!(core(&mut old, "tasks/get", of(&of_old)).await["result"]["status"], "working");
    assert_eq!(core(&mut old, "tasks/get", of(&of_new)).await["error"]["code"], -32602);
    assert_eq!(modern(&mut new, "tasks/get", of(&of_old)).await["error"]["code"], -32602);
    assert_eq!(core(&mut old, "tasks/cancel", of(&of_old)).await["result"]["status"], "cancelled");
}
