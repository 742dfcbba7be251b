//! Tasks behind the front: their names carry their server.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use bytes::Bytes;
use cardan_client::{Answerers, CallError, Client, Started, TaskOptions};
use cardan_gateway::fleet::Spec;
use cardan_gateway::front::Front;
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::method::Method;
use cardan_proto::model::task::TaskStatus;
use cardan_proto::model::tool::TaskSupport;
use cardan_proto::session::event::{CallOptions, Event, Interest};
use cardan_runtime::memory::MemoryLink;
use cardan_runtime::service::Handler;
use cardan_server::{Cx, Server, Stop};
use fronting::{at, front};
use relaying::{making, plain, revisions, soon};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

fn server(name: &'static str, era: Era, go: &Arc<Notify>) -> Server {
    let go = Arc::clone(go);
    Server::builder(name, "1")
        .revisions(revisions(era))
        .tool("work", "takes its time", move |_: Cx| {
            let go = Arc::clone(&go);
            async move {
                go.notified().await;
                Ok::<_, Stop>(format!("{name} worked"))
            }
        })
        .task_support("work", TaskSupport::Required)
        .build()
}

/// Two of them, which know us by name.
async fn both(era: Era, go: &Arc<Notify>) -> Front {
    before(specs(era, go)).await
}

fn specs(era: Era, go: &Arc<Notify>) -> [Spec; 2] {
    ["one", "t:wo"].map(|name| {
        let server = server(name, era, go);
        let (making, _) = making(move |link: MemoryLink| {
            let server = server.clone();
            async move { drop(server.serve_as(link, Some("us".into())).await) }
        });
        Spec::new(name, "http", format!("digest of {name}"), making)
    })
}

async fn before(specs: [Spec; 2]) -> Front {
    let front = front(specs.into());
    // Capabilities are told once, so they must be known.
    soon("known", front.settled()).await;
    front
}

async fn call(client: &Client, method: Method, params: Value) -> Value {
    let params = Some(Bytes::from(params.to_string()));
    let raw = soon("a reply", client.raw(method, params, CallOptions::default())).await.unwrap();
    serde_json::from_slice(&raw).unwrap()
}

/// TSKE-3: a task of the extension is followed by its name, wherever it is; what becomes of it comes to who listens.
#[tokio::test]
async fn tasks_of_the_extension_are_found_and_followed() {
    let go = Arc::new(Notify::new());
    let front = both(Era::Modern, &go).await;
    let (told, mut notes) = mpsc::unbounded_channel();
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let nobody = |_, _| -> Handler<Result<Bytes, Fault>> {
        Box::pin(std::future::ready(Err(Fault::internal("nobody is here to ask"))))
    };
    let connector = plain().answer(Answerers::relayed(capabilities.clone(), nobody)).observe(move |event| {
        if let Event::Noted(note) = event {
            let _ = told.send(note.params.decode::<Value>().unwrap());
        }
    });
    let client = at(&front, Era::Modern, connector).await;
    let declared = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    for (tool, before, text) in
        [("one__work", "one:", "one worked"), ("t_wo__work", "t%3Awo:", "t:wo worked")]
    {
        let task =
            call(&client, Method::ToolsCall, json!({"name": tool, "arguments": {}, "_meta": declared})).await;
        let id = task["taskId"].as_str().unwrap();
        assert!(id.starts_with(before), "{task}");
        let state = call(&client, Method::TasksGet, json!({"taskId": id, "_meta": declared})).await;
        assert_eq!((&state["taskId"], &state["status"]), (&json!(id), &json!("working")));
        let interest = Interest { tasks: vec![id.into()], ..Interest::default() };
        let mut listen = client.listen(interest.clone());
        assert_eq!(soon("ready", listen.ready()).await.unwrap(), interest);
        go.notify_one();
        let state = loop {
            let note = soon("a note", notes.recv()).await.unwrap();
            if note["taskId"] == json!(id) && note["status"] == "completed" {
                break note;
            }
        };
        assert_eq!(state["result"]["content"][0]["text"], text, "{state}");
    }
    let unknown = json!({"taskId": "one:none", "_meta": declared});
    let error =
        client.raw(Method::TasksGet, Some(Bytes::from(unknown.to_string())), CallOptions::default()).await;
    assert!(error.is_err());
    front.end("done").await;
}

/// TSKE-15: who did not declare the extension is told that, whatever task it asks about.
#[tokio::test]
async fn who_declares_no_tasks_learns_of_none() {
    let front = both(Era::Modern, &Arc::new(Notify::new())).await;
    let client = at(&front, Era::Modern, plain()).await;
    for method in [Method::TasksGet, Method::TasksUpdate, Method::TasksCancel] {
        for id in ["one:none", "none"] {
            let params = json!({"taskId": id, "inputResponses": {}}).to_string();
            let refused = client.raw(method.clone(), Some(params.into()), CallOptions::default()).await;
            let Err(CallError::Fault(fault)) = refused else { panic!("{refused:?}") };
            assert_eq!(fault.code, code::MISSING_CAPABILITY, "{method:?} {id}");
        }
    }
    front.end("done").await;
}

/// TSKD-7: a task of the core design is fetched from its server by its name; lists name those of all servers.
#[tokio::test]
async fn tasks_of_the_core_are_found_and_listed() {
    let go = Arc::new(Notify::new());
    let front = both(Era::Legacy, &go).await;
    let client = at(&front, Era::Legacy, plain()).await;
    let mut made = Vec::new();
    for tool in ["one__work", "t_wo__work"] {
        let params = json!({"name": tool, "arguments": {}, "task": {"ttl": 60000}});
        let task = call(&client, Method::ToolsCall, params).await;
        made.push(task["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned());
    }
    assert!(made[0].starts_with("one:") && made[1].starts_with("t%3Awo:"), "{made:?}");
    let mut listed = Vec::new();
    let mut cursor = json!({});
    loop {
        let page = call(&client, Method::TasksList, cursor).await;
        listed.extend(
            page["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].as_str().unwrap().to_owned()),
        );
        match page.get("nextCursor") {
            Some(next) => cursor = json!({"cursor": next}),
            None => break,
        }
    }
    assert_eq!(listed, made);
    for (id, text) in made.iter().zip(["one worked", "t:wo worked"]) {
        go.notify_one();
        let result = call(&client, Method::TasksResult, json!({"taskId": id})).await;
        assert_eq!(result["content"][0]["text"], text, "{result}");
        let related = &result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
        assert_eq!(related, &json!(id), "{result}");
    }
    front.end("done").await;
}

/// Who waits for a task takes no place: neither from calls nor from who cancels the task.
#[tokio::test]
async fn a_task_is_cancelled_while_someone_waits_for_it() {
    let go = Arc::new(Notify::new());
    let specs = specs(Era::Legacy, &go).map(|spec| Spec { concurrency: Some(1), ..spec });
    let front = before(specs).await;
    let client = at(&front, Era::Legacy, plain()).await;
    let params = json!({"name": "one__work", "arguments": {}, "task": {"ttl": 60000}});
    let task = call(&client, Method::ToolsCall, params).await;
    let id = json!({"taskId": task["task"]["taskId"]});
    let waiting = client.raw(Method::TasksResult, Some(Bytes::from(id.to_string())), CallOptions::default());
    let cancelled = call(&client, Method::TasksCancel, id).await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    // What it brings is the server's business, but it ends.
    let _ = soon("the wait", waiting).await;
    front.end("done").await;
}

/// A server that is away hides no other's tasks.
#[tokio::test(start_paused = true)]
async fn tasks_are_listed_without_a_server_that_is_away() {
    let go = Arc::new(Notify::new());
    for away in [0, 1] {
        let mut specs = specs(Era::Legacy, &go);
        let (server, links) = (server("away", Era::Legacy, &go), AtomicUsize::new(0));
        // Known to the fleet, but not there for a client's own session.
        let (making, _) = making(move |link: MemoryLink| {
            let (server, first) = (server.clone(), links.fetch_add(1, Ordering::SeqCst) == 0);
            async move {
                if first {
                    server.serve_as(link, Some("us".into())).await;
                }
            }
        });
        specs[away] = Spec::new("away", "http", "digest of away", making);
        let front = before(specs).await;
        let client = at(&front, Era::Legacy, plain()).await;
        let tool = ["t_wo__work", "one__work"][away];
        let params = json!({"name": tool, "arguments": {}, "task": {"ttl": 600_000}});
        let made = call(&client, Method::ToolsCall, params).await["task"]["taskId"].clone();
        let (mut listed, mut cursor) = (Vec::new(), json!({}));
        loop {
            let never = Some(Duration::ZERO);
            let options = CallOptions { idle: never, total: never, ..CallOptions::default() };
            let page = client.raw(Method::TasksList, Some(Bytes::from(cursor.to_string())), options).await;
            let page: Value = serde_json::from_slice(&page.unwrap()).unwrap();
            listed.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].clone()));
            match page.get("nextCursor") {
                Some(next) => cursor = json!({"cursor": next}),
                None => break,
            }
        }
        assert_eq!(listed, [made]);
        front.end("done").await;
    }
}

/// TSKD-7, TSKD-17, TSKE-2: before servers of both eras a client has all tasks in its own design, by names that carry their server.
#[tokio::test]
async fn tasks_of_both_designs_are_one() {
    for era in [Era::Legacy, Era::Modern] {
        let go = Arc::new(Notify::new());
        let [legacy, _] = specs(Era::Legacy, &go);
        let [_, modern] = specs(Era::Modern, &go);
        let front = before([legacy, modern]).await;
        let client = at(&front, era, plain()).await;
        let capabilities = serde_json::to_value(client.server().capabilities).unwrap();
        let (core, extension) = (&capabilities["tasks"]["requests"], &capabilities["extensions"]);
        assert_eq!(core.is_object(), era == Era::Legacy, "{capabilities}");
        assert_eq!(extension.is_object(), era == Era::Modern, "{capabilities}");
        let mut names = Vec::new();
        for (tool, before, text) in
            [("one__work", "one:", "one worked"), ("t_wo__work", "t%3Awo:", "t:wo worked")]
        {
            let nothing = json!({});
            let started = client.call_tool_task(tool, &nothing, TaskOptions::default());
            let Started::Task(mut task) = soon("a task", started).await.unwrap() else {
                panic!("{tool}: no task")
            };
            assert!(task.id().starts_with(before), "{}", task.id());
            assert_eq!(soon("a look", task.look()).await.unwrap().status, TaskStatus::Working);
            names.push(task.id().to_owned());
            go.notify_one();
            let result = soon("the end", task.wait()).await.unwrap();
            assert_eq!(result.content[0].as_text(), Some(text), "{era:?}");
        }
        if era == Era::Legacy {
            let listed = soon("the list", client.all_tasks()).await.unwrap();
            assert_eq!(listed.into_iter().map(|task| task.task_id).collect::<Vec<_>>(), names);
            for tool in client.all_tools().await.unwrap() {
                assert!(tool.execution.is_some(), "{}", tool.name);
            }
        }
        front.end("done").await;
    }
}
