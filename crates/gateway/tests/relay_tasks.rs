//! Tasks cross between sides of the same era: the extension of the modern one, the core design of the legacy one.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use bytes::Bytes;
use cardan_proto::era::Era;
use cardan_proto::method::Method;
use cardan_proto::model::tool::TaskSupport;
use cardan_proto::session::event::CallOptions;
use cardan_server::{Cx, Server, Stop};
use relaying::{connect, plain, relay, revisions, soon};
use serde_json::{Value, json};

fn server(era: Era) -> Server {
    Server::builder("tasks", "1")
        .revisions(revisions(era))
        .tool("work", "takes its time", |_: Cx| async move {
            tokio::task::yield_now().await;
            Ok::<_, Stop>("worked")
        })
        .task_support("work", TaskSupport::Required)
        .build()
}

async fn call(client: &cardan_client::Client, method: Method, params: Value) -> Value {
    let params = Some(Bytes::from(params.to_string()));
    let raw = soon("a reply", client.raw(method, params, CallOptions::default())).await.unwrap();
    serde_json::from_slice(&raw).unwrap()
}

/// TSKE-3: a modern call that declares the extension is answered with the server's task, which can be followed.
#[tokio::test]
async fn tasks_of_the_extension_cross() {
    let (relay, _) = relay(&server(Era::Modern)).await;
    let client = connect(&relay, Era::Modern, plain()).await;
    let declared = json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let task =
        call(&client, Method::ToolsCall, json!({"name": "work", "arguments": {}, "_meta": declared})).await;
    assert_eq!(task["resultType"], "task", "{task}");
    let id = task["taskId"].as_str().unwrap();
    loop {
        let state = call(&client, Method::TasksGet, json!({"taskId": id, "_meta": declared})).await;
        match state["status"].as_str().unwrap() {
            "working" => tokio::task::yield_now().await,
            status => {
                assert_eq!((status, &state["result"]["content"][0]["text"]), ("completed", &json!("worked")));
                break;
            }
        }
    }
}

/// TSKD-7: a legacy call that asks for a task gets one, and its result is fetched from the same session.
#[tokio::test]
async fn tasks_of_the_core_cross() {
    let (relay, _) = relay(&server(Era::Legacy)).await;
    let client = connect(&relay, Era::Legacy, plain()).await;
    assert!(client.server().capabilities.tasks.is_some());
    let made =
        call(&client, Method::ToolsCall, json!({"name": "work", "arguments": {}, "task": {"ttl": 60000}}))
            .await;
    let id = made["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}"));
    let result = call(&client, Method::TasksResult, json!({"taskId": id})).await;
    assert_eq!(result["content"][0]["text"], "worked", "{result}");
}
