//! Tasks of the core, 2025-11-25: what a server answers, message by message.

mod common;
mod task_bench;

use std::time::Duration;

use cardan::proto::era::Revision;
use cardan::proto::limits::Limits;
use serde_json::{Value, json};
use task_bench::{Era, core, core_task, legacy_as, of, reply, server, server_with, until};

const NEWEST: Revision = Revision::LATEST_LEGACY;
const RELATED: &str = "io.modelcontextprotocol/related-task";

fn call(tool: &str) -> Value {
    json!({ "name": tool, "arguments": {} })
}

/// TSKD-1, TSKE-20: the capability names what can be a task, in this revision only, and no extension.
#[tokio::test(start_paused = true)]
async fn tasks_are_declared_with_their_requests() {
    let hello = |revision: Revision| json!({ "protocolVersion": revision.date(), "capabilities": {}, "clientInfo": { "name": "r", "version": "0" } });
    for (principal, list) in [(Some("ada"), json!({})), (None, Value::Null)] {
        let mut raw = common::Raw::client_of_as(&server(), principal.map(Into::into));
        let capabilities = raw.call("initialize", hello(NEWEST)).await["result"]["capabilities"].clone();
        assert_eq!(capabilities["tasks"]["requests"], json!({ "tools": { "call": {} } }));
        assert_eq!((&capabilities["tasks"]["cancel"], &capabilities["tasks"]["list"]), (&json!({}), &list));
        assert_eq!(capabilities.get("extensions"), None);
    }
    let mut raw = common::Raw::client_of(&server());
    let older = raw.call("initialize", hello(Revision::V2025_06_18)).await;
    assert_eq!(older["result"]["capabilities"].get("tasks"), None);
}

/// TSKD-4, TSKD-5: tools say what they support, and a call that does not fit is refused.
#[tokio::test(start_paused = true)]
async fn support_is_listed_and_kept() {
    let mut raw = legacy_as(&server(), None, NEWEST).await;
    let (mut supports, mut cursor) = (Vec::new(), json!({}));
    loop {
        let page = core(&mut raw, "tools/list", cursor).await["result"].clone();
        for tool in page["tools"].as_array().unwrap() {
            supports.push((tool["name"].clone(), tool["execution"]["taskSupport"].clone()));
        }
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = json!({ "cursor": next });
    }
    assert!(supports.contains(&(json!("plain"), Value::Null)));
    assert!(supports.contains(&(json!("slow"), json!("optional"))));
    assert!(supports.contains(&(json!("job"), json!("required"))));
    let plainly = core(&mut raw, "tools/call", call("job")).await;
    assert_eq!(plainly["error"]["code"], -32601);
    let as_task = core(&mut raw, "tools/call", json!({ "name": "plain", "task": {} })).await;
    assert_eq!(as_task["error"]["code"], -32601);
    let odd = core(&mut raw, "tools/call", json!({ "name": "slow", "task": { "ttl": "long" } })).await;
    assert_eq!(odd["error"]["code"], -32602);
}

/// TSKD-6: a wish for a task where none was declared changes nothing.
#[tokio::test(start_paused = true)]
async fn undeclared_wishes_are_ignored() {
    let mut raw = legacy_as(&server(), None, NEWEST).await;
    let prompt = core(&mut raw, "prompts/get", json!({ "name": "greet", "task": {} })).await;
    assert!(prompt["result"]["messages"].is_array(), "{prompt}");
    let without = cardan::prelude::Server::builder("none", "1").tool("plain", "", async || "plain").build();
    let mut raw = legacy_as(&without, None, NEWEST).await;
    let plain = core(&mut raw, "tools/call", json!({ "name": "plain", "task": {} })).await;
    assert_eq!(common::words(&plain), "plain");
    assert_eq!(core(&mut raw, "tasks/get", json!({ "taskId": "x" })).await["error"]["code"], -32601);
    // A revision without tasks runs even what must be one.
    let mut raw = legacy_as(&server(), None, Revision::V2025_06_18).await;
    let plain = core(&mut raw, "tools/call", json!({ "name": "job", "task": {} })).await;
    assert_eq!(common::words(&plain), "job");
}

/// TSKD-7, TSKD-8, TSKD-10: the answer is the task, with a name of its own, times and lifetime.
#[tokio::test(start_paused = true)]
async fn an_accepted_task_is_answered_with_itself() {
    let mut raw = legacy_as(&server(), None, NEWEST).await;
    let (one, two) = (core_task(&mut raw, "slow").await, core_task(&mut raw, "slow").await);
    assert_ne!(one["taskId"], two["taskId"]);
    // TSKD-20: 128 bits, which is 22 characters of base64.
    assert_eq!(one["taskId"].as_str().unwrap().len(), 22);
    assert_eq!(
        (&one["status"], &one["ttl"], &one["pollInterval"]),
        (&json!("working"), &json!(60_000), &json!(1000))
    );
    for time in ["createdAt", "lastUpdatedAt"] {
        assert!(cardan::proto::model::date::is_date_time(one[time].as_str().unwrap()), "{one}");
    }
    let made = core(&mut raw, "tools/call", json!({ "name": "slow", "task": { "ttl": u64::MAX } })).await;
    assert_eq!(made["result"]["task"]["ttl"], 86_400_000, "a wish is cut to what is allowed");
}

/// TSKD-9, TSKD-12, TSKD-13: the result call waits for the end, brings what the call would have brought and
/// names the task; get and cancel do not.
#[tokio::test(start_paused = true)]
async fn the_result_is_waited_for() {
    let mut raw = legacy_as(&server(), None, NEWEST).await;
    let task = core_task(&mut raw, "slow").await;
    let seen = core(&mut raw, "tasks/get", of(&task)).await["result"].clone();
    assert_eq!(seen["status"], "working");
    assert_eq!(seen.get("_meta"), None);
    let begun = tokio::time::Instant::now();
    let result = core(&mut raw, "tasks/result", of(&task)).await;
    assert!(begun.elapsed() > Duration::from_secs(9));
    assert_eq!(common::words(&result), "slow task");
    assert_eq!(result["result"]["_meta"][RELATED], of(&task));
    // Once more, as long as it is kept.
    let again = core(&mut raw, "tasks/result", of(&task)).await;
    assert_eq!(again["result"], result["result"]);
    assert_eq!(core(&mut raw, "tasks/get", of(&task)).await["result"]["status"], "completed");
}

/// TSKD-13, PRG-8: progress keeps its token and names the task; so do log notes.
#[tokio::test(start_paused = true)]
async fn notes_of_a_task_name_it() {
    let mut raw = legacy_as(&server(), None, NEWEST).await;
    let params = json!({ "name": "slow", "task": {}, "_meta": { "progressToken": "p" } });
    let (made, mut notes) = reply(&mut raw, "tools/call", params).await;
    let task = made["result"]["task"].clone();
    notes.extend(reply(&mut raw, "tasks/result", of(&task)).await.1);
    for method in ["notifications/progress", "notifications/message"] {
        let of_method: Vec<_> = notes.iter().filter(|note| note["method"] == method).collect();
        assert_eq!(of_method.len(), 2, "{notes:?}");
        assert!(of_method.iter().all(|note| note["params"]["_meta"][RELATED] == of(&task)), "{notes:?}");
    }
    let status: Vec<_> = notes.iter().filter(|note| note["method"] == "notifications/tasks/status").collect();
    assert_eq!(status.last().unwrap()["params"]["status"], "completed");
    assert_eq!(status.last().unwrap()["params"].get("_meta"), None);
}

/// TSKD-22, TSKD-12: a tool that fails, a fault and a panic fail the task, which says why; the result call
/// brings exactly what failed.
#[tokio::test(start_paused = true)]
async fn failed_tasks_say_why() {
    let mut raw = legacy_as(&server(), None, NEWEST).await;
    for (tool, why) in [("failing", "no flour"), ("broken", "broken"), ("panics", "the handler panicked")] {
        let task = core_task(&mut raw, tool).await;
        let seen = until(&mut raw, &task, "failed", Era::Core).await;
        assert_eq!(seen["statusMessage"], why);
        let result = core(&mut raw, "tasks/result", of(&task)).await;
        match tool {
            "failing" => assert_eq!(result["result"]["isError"], true, "{result}"),
            _ => assert_eq!(
                (&result["error"]["code"], &result["error"]["message"]),
                (&json!(-32603), &json!(why))
            ),
        }
    }
}

/// TSKD-14: the name in params counts, whatever the metadata say.
#[tokio::test(start_paused = true)]
async fn the_name_in_params_wins() {
    let mut raw = legacy_as(&server(), None, NEWEST).await;
    let (one, two) = (core_task(&mut raw, "slow").await, core_task(&mut raw, "slow").await);
    let params = json!({ "taskId": one["taskId"], "_meta": { RELATED: of(&two) } });
    assert_eq!(core(&mut raw, "tasks/get", params).await["result"]["taskId"], one["taskId"]);
}

/// TSKD-15, TSKD-13: a task in need of input says so; the result call asks, in the task's name, and goes on.
#[tokio::test(start_paused = true)]
async fn a_task_asks_while_its_result_is_fetched() {
    let mut raw = legacy_as(&server(), None, NEWEST).await;
    let task = core_task(&mut raw, "confirm").await;
    until(&mut raw, &task, "input_required", Era::Core).await;
    let id = raw.start("tasks/result", of(&task)).await;
    let ask = loop {
        let message = raw.recv().await;
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    assert_eq!(ask["params"]["_meta"][RELATED], of(&task));
    raw.reply(&ask, json!({ "action": "accept", "content": { "sure": true } })).await;
    let result = loop {
        let message = raw.recv().await;
        if message["id"] == id {
            break message;
        }
    };
    assert_eq!(common::words(&result), "Accept");
}

/// TSKD-15: a result call that was lost with its ask is made anew, and asks anew.
#[tokio::test(start_paused = true)]
async fn asks_that_were_lost_are_asked_again() {
    let server = server();
    let mut raw = legacy_as(&server, Some("ada"), NEWEST).await;
    let task = core_task(&mut raw, "confirm").await;
    until(&mut raw, &task, "input_required", Era::Core).await;
    raw.start("tasks/result", of(&task)).await;
    while raw.recv().await["method"] != "elicitation/create" {}
    drop(raw);
    let mut raw = legacy_as(&server, Some("ada"), NEWEST).await;
    let id = raw.start("tasks/result", of(&task)).await;
    let ask = raw.recv().await;
    assert_eq!(ask["method"], "elicitation/create");
    raw.reply(&ask, json!({ "action": "decline" })).await;
    let result = raw.recv().await;
    assert_eq!((&result["id"], common::words(&result)), (&json!(id), "Decline"));
}

/// TSKD-16, CAN-10: cancelled before the reply, and for good; a task that has ended cannot be.
#[tokio::test(start_paused = true)]
async fn cancelling_is_done_when_it_is_answered() {
    let mut raw = legacy_as(&server(), None, NEWEST).await;
    let task = core_task(&mut raw, "slow").await;
    let waiting = raw.start("tasks/result", of(&task)).await;
    let (cancelled, before) = reply(&mut raw, "tasks/cancel", of(&task)).await;
    assert_eq!(cancelled["result"]["status"], "cancelled");
    let told = match before.into_iter().find(|message| message["id"] == waiting) {
        Some(told) => told,
        None => raw.recv().await,
    };
    assert_eq!((&told["id"], &told["error"]["code"]), (&json!(waiting), &json!(-32602)));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(core(&mut raw, "tasks/get", of(&task)).await["result"]["status"], "cancelled");
    assert_eq!(core(&mut raw, "tasks/cancel", of(&task)).await["error"]["code"], -32602);
}

/// TSKD-17, TSKD-20: lists are paged and hold the caller's own; without a principal there is none.
#[tokio::test(start_paused = true)]
async fn lists_are_paged_and_own() {
    let server = server();
    let (mut ada, mut bob) =
        (legacy_as(&server, Some("ada"), NEWEST).await, legacy_as(&server, Some("bob"), NEWEST).await);
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(core_task(&mut ada, "slow").await["taskId"].clone());
        core_task(&mut bob, "slow").await;
    }
    let ids = |page: &Value| -> Vec<Value> {
        page["result"]["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].clone()).collect()
    };
    let first = core(&mut ada, "tasks/list", json!({})).await;
    let next = json!({ "cursor": first["result"]["nextCursor"] });
    let second = core(&mut ada, "tasks/list", next).await;
    assert_eq!([ids(&first), ids(&second)].concat(), made);
    assert_eq!(second["result"].get("nextCursor"), None);
    for odd in ["", "x", "OTk5OTk", "MA"] {
        let refused = core(&mut ada, "tasks/list", json!({ "cursor": odd })).await;
        assert_eq!(refused["error"]["code"], -32602, "{odd}");
    }
    let mut nobody = legacy_as(&server, None, NEWEST).await;
    assert_eq!(core(&mut nobody, "tasks/list", json!({})).await["error"]["code"], -32601);
}

/// TSKD-18, TSKD-20: another's task is as unknown as one that never was, in every call.
#[tokio::test(start_paused = true)]
async fn unknown_and_foreign_tasks_are_the_same() {
    let server = server();
    let mut ada = legacy_as(&server, Some("ada"), NEWEST).await;
    let task = core_task(&mut ada, "slow").await;
    for stranger in [Some("bob"), None] {
        let mut raw = legacy_as(&server, stranger, NEWEST).await;
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let foreign = core(&mut raw, method, of(&task)).await;
            let unknown = core(&mut raw, method, json!({ "taskId": "unknown" })).await;
            assert_eq!((&foreign["error"], &foreign["error"]["code"]), (&unknown["error"], &json!(-32602)));
        }
    }
    assert_eq!(core(&mut ada, "tasks/get", of(&task)).await["result"]["status"], "working");
}

/// TSKD-21: so many at once; and after its time a task is stopped and forgotten.
#[tokio::test(start_paused = true)]
async fn tasks_are_limited_and_forgotten() {
    let server = server_with(Limits { tasks_per_principal: 1, ..Limits::DEFAULT });
    let mut raw = legacy_as(&server, None, NEWEST).await;
    let made = core(&mut raw, "tools/call", json!({ "name": "slow", "task": { "ttl": 3000 } })).await;
    let task = made["result"]["task"].clone();
    let more = core(&mut raw, "tools/call", json!({ "name": "slow", "task": {} })).await;
    assert!(more["error"]["message"].as_str().unwrap().contains("too many tasks"), "{more}");
    // Whoever waits for it hears of its end.
    let gone = core(&mut raw, "tasks/result", of(&task)).await;
    assert_eq!(gone["error"]["code"], -32602);
    assert_eq!(core(&mut raw, "tasks/get", of(&task)).await["error"]["code"], -32602);
    core_task(&mut raw, "slow").await;
}

/// TSKD-21: closing the server stops the work, and the handlers are gone when the stop is over.
#[tokio::test(start_paused = true)]
async fn closing_stops_the_work() {
    let held = std::sync::Arc::new(());
    let keep = std::sync::Arc::clone(&held);
    let builder = cardan::prelude::Server::builder("t", "1").tool("hold", "", move || {
        let keep = std::sync::Arc::clone(&keep);
        async move {
            std::future::pending::<()>().await;
            drop(keep);
            "never"
        }
    });
    let server = builder.task_support("hold", cardan::proto::model::tool::TaskSupport::Optional).build();
    let mut raw = legacy_as(&server, None, NEWEST).await;
    let task = core_task(&mut raw, "hold").await;
    until(&mut raw, &task, "working", Era::Core).await;
    assert_eq!(std::sync::Arc::strong_count(&held), 3);
    server.stop_tasks().await;
    assert_eq!(std::sync::Arc::strong_count(&held), 2);
    assert_eq!(core(&mut raw, "tasks/get", of(&task)).await["result"]["status"], "cancelled");
}
