//! A server with tools that run as tasks, and raw clients at it.
#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use cardan::prelude::*;
use cardan::proto::era::Revision;
use cardan::proto::jsonrpc::fault::Fault;
use cardan::proto::limits::Limits;
use cardan::proto::model::InputRequest;
use cardan::proto::model::tool::TaskSupport;
use cardan::proto::session::event::{Ask, LogLevel};
use cardan::server::builder::Builder;
use serde_json::{Value, json};

use crate::common::{Raw, dressed};

/// The capabilities of a client with the extension, and with forms.
pub(crate) fn able() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

pub(crate) fn server() -> Server {
    server_with(Limits::DEFAULT)
}

pub(crate) fn server_with(limits: Limits) -> Server {
    let builder = Server::builder("tasks", "1").limits(limits).logging().page_size(2);
    let builder = builder
        .tool("plain", "Never a task.", async || "plain")
        .prompt(Prompt::new("greet"), async |_, _| Ok(vec![PromptMessage::user("hello")]));
    let optional = TaskSupport::Optional;
    let builder = may(builder.tool("slow", "Takes ten seconds.", slow), "slow", &optional);
    let builder = may(builder.tool("failing", "Fails later.", failing), "failing", &optional);
    let builder = may(builder.tool("broken", "Breaks later.", broken), "broken", &optional);
    let builder = may(builder.tool("panics", "Panics later.", panics), "panics", &optional);
    let builder = may(builder.tool("confirm", "Asks in its task.", confirm), "confirm", &optional);
    let builder = may(builder.tool("both", "Asks two things at once.", both), "both", &optional);
    let builder = may(builder.tool("quick", "Done at once.", async || "quick"), "quick", &optional);
    let required = TaskSupport::Required;
    let builder = may(builder.tool("job", "A task only.", async || "job"), "job", &required);
    may(builder.tool("named", "Asks before its task.", named), "named", &required).build()
}

fn may(builder: Builder, tool: &str, support: &TaskSupport) -> Builder {
    builder.task_support(tool, support.clone())
}

/// Lets time pass, which all tests that use this have paused: it takes none.
async fn wait(time: Duration) {
    let nothing = tokio::time::timeout(time, std::future::pending::<()>());
    nothing.await.unwrap_err();
}

async fn slow(cx: Cx) -> String {
    cx.progress(1.0, Some(2.0), Some("half"));
    cx.log(LogLevel::Error, None, &"half");
    wait(Duration::from_secs(5)).await;
    cx.progress(2.0, Some(2.0), Some("nearly"));
    cx.log(LogLevel::Error, None, &"nearly");
    wait(Duration::from_secs(5)).await;
    if cx.is_task() { "slow task".to_owned() } else { "slow call".to_owned() }
}

async fn failing(cx: Cx) -> Result<String, Stop> {
    cx.begin_task().await;
    Err(Stop::failed("no flour"))
}

async fn broken(cx: Cx) -> Result<String, Stop> {
    cx.begin_task().await;
    Err(Stop::Fault(Fault::internal("broken").with_data(&json!({ "part": 7 }))))
}

async fn panics(cx: Cx) -> String {
    cx.begin_task().await;
    panic!("the tool was asked to panic")
}

fn sure() -> Form {
    Form::new("Sure?").boolean("sure")
}

async fn confirm(cx: Cx) -> Result<String, Stop> {
    cx.begin_task().await;
    let answer = cx.elicit("sure", &sure())?;
    Ok(format!("{:?}", answer.action))
}

async fn both(cx: Cx) -> Result<String, Stop> {
    cx.begin_task().await;
    let ask = || {
        let value = serde_json::to_value(InputRequest::from(sure()))?;
        let params = Some(value["params"].to_string().into());
        Ok::<_, Stop>(Ask { method: InputRequest::from(sure()).method(), params })
    };
    cx.need_all(vec![("one", ask()?), ("two", ask()?)])?;
    Ok(format!("{:?} {:?}", cx.elicit("one", &sure())?.action, cx.elicit("two", &sure())?.action))
}

async fn named(cx: Cx) -> Result<String, Stop> {
    let answer = cx.elicit("name", &Form::new("Who?").string("name"))?;
    cx.begin_task().await;
    Ok(format!("hello {}", serde_json::to_value(answer.content)?["name"].as_str().unwrap_or("nobody")))
}

/// A raw client after the handshake of the newest legacy revision, as a principal.
pub(crate) async fn legacy_as(server: &Server, principal: Option<&str>, revision: Revision) -> Raw {
    let mut raw = Raw::client_of_as(server, principal.map(Arc::from));
    let params = json!({
        "protocolVersion": revision.date(), "clientInfo": { "name": "raw", "version": "0" },
        "capabilities": { "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } },
    });
    raw.call("initialize", params).await;
    raw.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    raw
}

/// The reply to a call, and what came before it.
pub(crate) async fn reply(raw: &mut Raw, method: &str, params: Value) -> (Value, Vec<Value>) {
    let id = raw.start(method, params).await;
    let mut before = Vec::new();
    loop {
        let message = raw.recv().await;
        if message["id"] == id && message.get("method").is_none() {
            return (message, before);
        }
        before.push(message);
    }
}

/// The reply to a call of the newest legacy revision.
pub(crate) async fn core(raw: &mut Raw, method: &str, params: Value) -> Value {
    reply(raw, method, params).await.0
}

/// The reply to a modern call of a client with the extension.
pub(crate) async fn modern(raw: &mut Raw, method: &str, params: Value) -> Value {
    reply(raw, method, dressed(params, able())).await.0
}

/// A task of a tool in the newest legacy revision.
pub(crate) async fn core_task(raw: &mut Raw, tool: &str) -> Value {
    let made = core(raw, "tools/call", json!({ "name": tool, "task": { "ttl": 60_000 } })).await;
    assert!(made["result"]["task"]["taskId"].is_string(), "{made}");
    made["result"]["task"].clone()
}

/// A task of a tool in the modern era.
pub(crate) async fn modern_task(raw: &mut Raw, tool: &str) -> Value {
    let made = modern(raw, "tools/call", json!({ "name": tool, "arguments": {} })).await;
    assert_eq!(made["result"]["resultType"], "task", "{made}");
    made["result"].clone()
}

pub(crate) fn of(task: &Value) -> Value {
    json!({ "taskId": task["taskId"] })
}

/// Looks until the task has this status.
pub(crate) async fn until(raw: &mut Raw, task: &Value, status: &str, how: Era) -> Value {
    for _ in 0..100 {
        let seen = match how {
            Era::Core => core(raw, "tasks/get", of(task)).await,
            Era::Modern => modern(raw, "tasks/get", of(task)).await,
        };
        if seen["result"]["status"] == status {
            return seen["result"].clone();
        }
        wait(Duration::from_millis(500)).await;
    }
    panic!("the task never was {status}");
}

/// In which design to look.
#[derive(Clone, Copy)]
pub(crate) enum Era {
    Core,
    Modern,
}
