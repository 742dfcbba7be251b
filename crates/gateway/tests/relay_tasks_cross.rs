//! Tasks of either design cross to the other: each side has those of its era.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use cardan_client::{CallError, Client, Connector, Started, TaskOptions};
use cardan_gateway::relay::{Behind, Isolation, Options, Relay};
use cardan_proto::era::{Era, Revision, Revisions};
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::form::Form;
use cardan_proto::model::tool::TaskSupport;
use cardan_proto::session::event::{CallOptions, Event, Interest};
use cardan_runtime::driver::Driver;
use cardan_runtime::memory;
use cardan_runtime::service::Host as _;
use cardan_server::{Cx, Server, Stop};
use relaying::{
    CELLS, Cell, answering, choice, connect, making, plain, relay, relay_sharing, relay_with, revisions,
    soon, text,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

/// Tools of all kinds; `hold` waits until it is told to go on.
fn server(era: Era, go: &Arc<Notify>) -> Server {
    let go = Arc::clone(go);
    let ask = |cx: Cx| async move {
        tokio::task::yield_now().await;
        let answer = cx.elicit("who", &Form::new("who?").string("name"))?;
        let roots = cx.roots("roots")?;
        let filled = json!(answer.content.unwrap_or_default())["name"].clone();
        Ok::<_, Stop>(format!("{} at {}", filled.as_str().unwrap_or_default(), roots[0].uri))
    };
    let builder = Server::builder("tasks", "1")
        .revisions(revisions(era))
        .tool("work", "takes its time", |_: Cx| async move {
            tokio::task::yield_now().await;
            Ok::<_, Stop>("worked")
        })
        .tool("ask", "asks in the middle", ask)
        .tool("hold", "waits", move |_: Cx| {
            let go = Arc::clone(&go);
            async move {
                go.notified().await;
                Ok::<_, Stop>("held")
            }
        })
        .tool("fail", "fails as tools do", |_: Cx| async move {
            tokio::task::yield_now().await;
            Err::<String, _>(Stop::from(std::io::Error::other("it broke")))
        })
        .tool("fault", "faults", |_: Cx| async move {
            tokio::task::yield_now().await;
            Err::<String, _>(Stop::from(Fault::new(1234, "so it is").with_data(&json!({"n": 1.5}))))
        })
        .tool("either", "may be a task", || async { "plain" });
    ["work", "ask", "hold", "fail", "fault"]
        .into_iter()
        .fold(builder, |builder, tool| builder.task_support(tool, TaskSupport::Required))
        .task_support("either", TaskSupport::Optional)
        .build()
}

async fn call(client: &Client, method: Method, params: Value) -> Value {
    try_call(client, method, params).await.unwrap()
}

async fn try_call(client: &Client, method: Method, params: Value) -> Result<Value, CallError> {
    let params = Some(Bytes::from(params.to_string()));
    let raw = soon("a reply", client.raw(method, params, CallOptions::default())).await?;
    Ok(serde_json::from_slice(&raw).unwrap())
}

fn code_of(result: Result<Value, CallError>) -> i64 {
    match result {
        Err(CallError::Fault(fault)) => fault.code,
        other => panic!("no fault: {other:?}"),
    }
}

/// `_meta` that declares the extension, and forms.
fn declared() -> Value {
    json!({"io.modelcontextprotocol/clientCapabilities":
        {"elicitation": {}, "roots": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}})
}

async fn client_at(relay: &Relay, era: Era, connector: Connector, principal: Option<&str>) -> Client {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let principal: Option<Arc<str>> = principal.map(Into::into);
    let (service, config) = (relay.service(principal.as_ref()), relay.config(principal.as_ref()));
    let (driver, peer) = Driver::new(theirs, service, config);
    relay.joined(peer, principal.as_ref());
    tokio::spawn(driver);
    connector.era(choice(era)).connect_link(ours).await.unwrap()
}

/// TSKD-7, TSKD-12, TSKD-15, TSKE-2, TSKE-8, TSKE-11: in every cell a task is made, asks its client by the way that its design has,
/// and brings what the call would have brought.
#[tokio::test(start_paused = true)]
async fn tasks_cross_every_cell() {
    for cell @ Cell { client, server: of, isolation } in CELLS {
        if isolation == Isolation::Call || (isolation == Isolation::Shared && client == of) {
            // Where each call has a session of its own, a legacy server forgets its tasks with it.
            continue;
        }
        let (relay, _) = relay_sharing(&server(of, &Arc::default()), isolation).await;
        let client = connect(&relay, client, answering("ada")).await;
        for (tool, brought) in [("work", "worked"), ("ask", "ada at file:///ada"), ("either", "plain")] {
            let options = TaskOptions::default();
            let started = soon(tool, client.call_tool_task(tool, &json!({}), options)).await.unwrap();
            if tool != "either" {
                assert!(matches!(started, Started::Task(_)), "{cell:?} {tool}: {started:?}");
            }
            let result =
                soon(tool, started.finish()).await.unwrap_or_else(|e| panic!("{cell:?} {tool}: {e}"));
            assert_eq!(result.content[0].as_text(), Some(brought), "{cell:?} {tool}");
        }
        // TSKD-22, TSKE-9: what failed as a tool brings its result, what faulted its fault.
        let failed =
            soon("fail", client.call_tool_task("fail", &json!({}), TaskOptions::default())).await.unwrap();
        assert_eq!(soon("fail", failed.finish()).await.unwrap().is_error, Some(true), "{cell:?}");
        let faulted =
            soon("fault", client.call_tool_task("fault", &json!({}), TaskOptions::default())).await.unwrap();
        match soon("fault", faulted.finish()).await {
            Err(CallError::Fault(fault)) => {
                assert_eq!(
                    (fault.code, fault.data.as_deref()),
                    (1234, Some(&b"{\"n\":1.5}"[..])),
                    "{cell:?}"
                );
            }
            other => panic!("{cell:?}: {other:?}"),
        }
    }
}

/// A legacy client that hears notes.
fn noting() -> (Connector, mpsc::UnboundedReceiver<(Method, Value)>) {
    let (told, notes) = mpsc::unbounded_channel();
    let connector = answering("ada").observe(move |event| {
        if let Event::Noted(note) = event {
            let _ = told.send((note.method.clone(), note.params.decode::<Value>().unwrap()));
        }
    });
    (connector, notes)
}

/// TSKD-1, TSKD-4, TSKD-7, TSKD-10, TSKD-13, TSKD-16, TSKD-17: a legacy client has all of its design before a modern server.
#[tokio::test]
async fn a_legacy_client_has_the_tasks_of_a_modern_server() {
    let go = Arc::new(Notify::new());
    let (relay, _) = relay(&server(Era::Modern, &go)).await;
    let (connector, mut notes) = noting();
    let client = connect(&relay, Era::Legacy, connector).await;
    let tasks = serde_json::to_value(client.server().capabilities.tasks.unwrap()).unwrap();
    assert_eq!(tasks, json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}));
    for tool in client.all_tools().await.unwrap() {
        let support = tool.execution.unwrap().task_support.unwrap();
        assert_ne!(support, TaskSupport::Forbidden, "{}", tool.name);
    }
    let made =
        call(&client, Method::ToolsCall, json!({"name": "hold", "arguments": {}, "task": {"ttl": 60000}}))
            .await;
    let id = json!({"taskId": made["task"]["taskId"]});
    assert_eq!(
        (&made["task"]["status"], made["task"]["ttl"].is_number()),
        (&json!("working"), true),
        "{made}"
    );
    assert!(made.get("resultType").is_none() && made["task"].get("ttlMs").is_none(), "{made}");
    let looked = call(&client, Method::TasksGet, id.clone()).await;
    assert_eq!(looked["status"], "working", "{looked}");
    // Its list has what it made, another's has not.
    let listed = call(&client, Method::TasksList, json!({})).await;
    assert_eq!(listed["tasks"][0]["taskId"], id["taskId"], "{listed}");
    let other = connect(&relay, Era::Legacy, plain()).await;
    assert_eq!(call(&other, Method::TasksList, json!({})).await["tasks"], json!([]));
    assert_eq!(
        code_of(try_call(&client, Method::TasksList, json!({"cursor": "no!"})).await),
        code::INVALID_PARAMS
    );
    // Who waits is answered when it has ended; its state is told.
    let waiting = client.raw(Method::TasksResult, Some(Bytes::from(id.to_string())), CallOptions::default());
    go.notify_one();
    let result: Value = serde_json::from_slice(&soon("the result", waiting).await.unwrap()).unwrap();
    assert_eq!(result["content"][0]["text"], "held", "{result}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], id, "{result}");
    let told = loop {
        match soon("a note", notes.recv()).await.unwrap() {
            (Method::TasksStatus, told) if told["status"] == "completed" => break told,
            (method, told) => assert_eq!(method, Method::TasksStatus, "{told}"),
        }
    };
    assert_eq!((&told["taskId"], told.get("result")), (&id["taskId"], None), "{told}");
    assert_eq!(code_of(try_call(&client, Method::TasksCancel, id).await), code::INVALID_PARAMS);
    let unknown = json!({"taskId": "none"});
    assert_eq!(code_of(try_call(&client, Method::TasksGet, unknown).await), code::INVALID_PARAMS);
}

/// TSKD-16: cancelled is cancelled, and has no result.
#[tokio::test]
async fn a_legacy_client_cancels_a_task_of_a_modern_server() {
    let (relay, _) = relay(&server(Era::Modern, &Arc::default())).await;
    let client = connect(&relay, Era::Legacy, plain()).await;
    let made = call(&client, Method::ToolsCall, json!({"name": "hold", "arguments": {}, "task": {}})).await;
    let id = json!({"taskId": made["task"]["taskId"]});
    let waiting = client.raw(Method::TasksResult, Some(Bytes::from(id.to_string())), CallOptions::default());
    assert_eq!(call(&client, Method::TasksCancel, id.clone()).await["status"], "cancelled");
    assert_eq!(call(&client, Method::TasksGet, id.clone()).await["status"], "cancelled");
    assert!(soon("the wait", waiting).await.is_err());
    assert_eq!(code_of(try_call(&client, Method::TasksCancel, id).await), code::INVALID_PARAMS);
}

/// TSKD-7, TSKD-12: what a modern server answers at once is a task that has ended, and its result is kept.
#[tokio::test]
async fn a_result_that_came_at_once_is_kept() {
    let (relay, _) = relay(&server(Era::Modern, &Arc::default())).await;
    let client = connect(&relay, Era::Legacy, plain()).await;
    let params = json!({"name": "either", "arguments": {}, "task": {"ttl": 5000}});
    let made = call(&client, Method::ToolsCall, params).await;
    assert_eq!(
        (&made["task"]["status"], &made["task"]["ttl"]),
        (&json!("completed"), &json!(5000)),
        "{made}"
    );
    let id = json!({"taskId": made["task"]["taskId"]});
    assert_eq!(call(&client, Method::TasksGet, id.clone()).await["status"], "completed");
    let result = call(&client, Method::TasksResult, id.clone()).await;
    assert_eq!(result["content"][0]["text"], "plain", "{result}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], id, "{result}");
    assert_eq!(call(&client, Method::TasksList, json!({})).await["tasks"][0]["taskId"], id["taskId"]);
    assert_eq!(code_of(try_call(&client, Method::TasksCancel, id).await), code::INVALID_PARAMS);
}

/// TSKE-1, TSKE-4: who wants no task gets none: a tool that runs as a task only is waited for, whatever the client's revision.
#[tokio::test(start_paused = true)]
async fn a_plain_call_waits_for_a_task() {
    for isolation in [Isolation::Client, Isolation::Shared] {
        let (relay, _) = relay_sharing(&server(Era::Modern, &Arc::default()), isolation).await;
        for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
            let connector = answering("ada").revisions(Revisions::only(revision));
            let client = connect(&relay, Era::Legacy, connector).await;
            assert_eq!(client.server().capabilities.tasks.is_some(), revision == Revision::V2025_11_25);
            assert_eq!(text(&client, "work", json!({})).await, "worked");
            assert_eq!(text(&client, "ask", json!({})).await, "ada at file:///ada");
        }
    }
}

/// TSKE-13: who leaves a call that became a task unseen cancels the task.
#[tokio::test]
async fn leaving_a_plain_call_cancels_its_task() {
    struct Told(Arc<Notify>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, gone) = (Arc::clone(&begun), Arc::clone(&dropped));
    let server = Server::builder("tasks", "1")
        .revisions(revisions(Era::Modern))
        .tool("hang", "never ends", move |_: Cx| {
            let (told, gone) = (Arc::clone(&told), Told(Arc::clone(&gone)));
            async move {
                let _gone = gone;
                tokio::task::yield_now().await;
                told.notify_one();
                std::future::pending::<()>().await;
                Ok::<_, Stop>("never")
            }
        })
        .task_support("hang", TaskSupport::Required)
        .build();
    let (relay, _) = relay(&server).await;
    let client = connect(&relay, Era::Legacy, plain()).await;
    let call = client.call_tool("hang", &json!({})).unwrap();
    soon("begun", begun.notified()).await;
    drop(call);
    soon("dropped", dropped.notified()).await;
}

/// TSKE-1, TSKE-4, TSKE-5, TSKE-8, TSKE-12, TSKE-14, TSKE-15, TSKE-18, TSKE-24, TSKE-26: a modern client has all of the extension before a
/// legacy server.
#[tokio::test]
async fn a_modern_client_has_the_tasks_of_a_legacy_server() {
    let go = Arc::new(Notify::new());
    let (relay, _) = relay(&server(Era::Legacy, &go)).await;
    let client = connect(&relay, Era::Modern, plain()).await;
    let capabilities = serde_json::to_value(client.server().capabilities).unwrap();
    assert_eq!(capabilities["extensions"], json!({"io.modelcontextprotocol/tasks": {}}), "{capabilities}");
    assert!(capabilities.get("tasks").is_none(), "{capabilities}");
    // Undeclared, the call cannot be served; what may be either is no task.
    let bare = json!({"name": "hold", "arguments": {}});
    assert_eq!(code_of(try_call(&client, Method::ToolsCall, bare).await), code::MISSING_CAPABILITY);
    let undeclared = json!({"taskId": "none"});
    assert_eq!(code_of(try_call(&client, Method::TasksGet, undeclared).await), code::MISSING_CAPABILITY);
    let either =
        call(&client, Method::ToolsCall, json!({"name": "either", "arguments": {}, "_meta": declared()}))
            .await;
    assert_eq!((&either["resultType"], &either["content"][0]["text"]), (&json!("complete"), &json!("plain")));
    let about = |id: &Value| json!({"taskId": id, "_meta": declared()});
    let unknown = about(&json!("none"));
    for method in [Method::TasksGet, Method::TasksCancel] {
        assert_eq!(code_of(try_call(&client, method, unknown.clone()).await), code::INVALID_PARAMS);
    }
    assert!(try_call(&client, Method::TasksResult, unknown).await.is_err());
    let hold = json!({"name": "hold", "arguments": {}, "_meta": declared()});
    let made = call(&client, Method::ToolsCall, hold.clone()).await;
    assert_eq!((&made["resultType"], &made["status"]), (&json!("task"), &json!("working")), "{made}");
    assert!(made["ttlMs"].is_number() && made.get("ttl").is_none(), "{made}");
    let state = call(&client, Method::TasksGet, about(&made["taskId"])).await;
    assert_eq!((&state["resultType"], &state["status"]), (&json!("complete"), &json!("working")), "{state}");
    go.notify_one();
    let state = ended(&client, &made["taskId"]).await;
    assert_eq!(
        (&state["status"], &state["result"]["content"][0]["text"]),
        (&json!("completed"), &json!("held"))
    );
    assert!(state["result"].get("_meta").is_none(), "{state}");
    let made = call(&client, Method::ToolsCall, hold).await;
    for _ in 0..2 {
        let acknowledged = call(&client, Method::TasksCancel, about(&made["taskId"])).await;
        assert_eq!((&acknowledged["resultType"], acknowledged.get("status")), (&json!("complete"), None));
        assert_eq!(ended(&client, &made["taskId"]).await["status"], "cancelled");
    }
}

/// Looks until a task has ended or asks.
async fn ended(client: &Client, id: &Value) -> Value {
    loop {
        let state = call(client, Method::TasksGet, json!({"taskId": id, "_meta": declared()})).await;
        match state["status"].as_str().unwrap() {
            "working" => tokio::task::yield_now().await,
            _ => return state,
        }
    }
}

/// SUB-1, TSKE-10, TSKE-11, TSKE-25: what a legacy server asks for a task is part of its state, and told to who listens; answers count once.
#[tokio::test]
async fn a_modern_client_is_asked_by_the_state_of_a_task() {
    let (relay, _) = relay(&server(Era::Legacy, &Arc::default())).await;
    let (connector, mut notes) = noting();
    let client = connect(&relay, Era::Modern, connector).await;
    let made =
        call(&client, Method::ToolsCall, json!({"name": "ask", "arguments": {}, "_meta": declared()})).await;
    let id = made["taskId"].clone();
    let interest = Interest { tasks: vec![id.as_str().unwrap().into()], ..Interest::default() };
    let mut listen = client.listen(interest.clone());
    assert_eq!(soon("ready", listen.ready()).await.unwrap(), interest);
    let mut names = std::collections::HashSet::new();
    for (method, answer) in [
        ("elicitation/create", json!({"action": "accept", "content": {"name": "bob"}})),
        ("roots/list", json!({"roots": [{"uri": "file:///b"}]})),
    ] {
        let state = ended(&client, &id).await;
        assert_eq!(state["status"], "input_required", "{state}");
        let asks = state["inputRequests"].as_object().unwrap();
        let (name, ask) = asks.iter().next().unwrap();
        assert_eq!((asks.len(), &ask["method"]), (1, &json!(method)), "{state}");
        assert!(names.insert(name.clone()), "{name} was used before");
        let update = json!({"taskId": id, "inputResponses": {name: answer, "none": {}}, "_meta": declared()});
        for _ in 0..2 {
            assert_eq!(call(&client, Method::TasksUpdate, update.clone()).await["resultType"], "complete");
        }
    }
    assert_eq!(ended(&client, &id).await["result"]["content"][0]["text"], "bob at file:///b");
    loop {
        let (method, told) = soon("a note", notes.recv()).await.unwrap();
        assert_eq!((method, &told["taskId"]), (Method::Tasks, &id), "{told}");
        if told["status"] == "completed" {
            assert_eq!(told["result"]["content"][0]["text"], "bob at file:///b");
            break;
        }
    }
}

/// TSKD-20, TSKE-22, T12: in every cell a task is known to its principal alone, though the server knows us as one.
#[tokio::test]
async fn a_task_is_known_to_its_principal_alone() {
    for (client, of) in [
        (Era::Legacy, Era::Legacy),
        (Era::Legacy, Era::Modern),
        (Era::Modern, Era::Legacy),
        (Era::Modern, Era::Modern),
    ] {
        let (relay, _) = relay(&server(of, &Arc::default())).await;
        let ada = client_at(&relay, client, plain(), Some("ada")).await;
        let started =
            soon("hold", ada.call_tool_task("hold", &json!({}), TaskOptions::default())).await.unwrap();
        let Started::Task(mut task) = started else { panic!("no task") };
        let params = || match client {
            Era::Legacy => json!({"taskId": task.id()}),
            Era::Modern => json!({"taskId": task.id(), "_meta": declared()}),
        };
        for stranger in [Some("bob"), None] {
            let other = client_at(&relay, client, plain(), stranger).await;
            for method in [Method::TasksGet, Method::TasksCancel] {
                let refused = try_call(&other, method, params()).await;
                assert_eq!(code_of(refused), code::INVALID_PARAMS, "{client:?} {of:?} {stranger:?}");
            }
        }
        let again = client_at(&relay, client, plain(), Some("ada")).await;
        assert_eq!(call(&again, Method::TasksGet, params()).await["status"], "working", "{client:?} {of:?}");
        soon("cancel", task.cancel()).await.unwrap();
        while !soon("look", task.look()).await.unwrap().status.is_terminal() {}
    }
}

/// TSKD-20: a list of the same design has what its session made, though the server knows us as one.
#[tokio::test]
async fn a_list_has_what_its_session_made() {
    for isolation in [Isolation::Client, Isolation::Shared] {
        let server = server(Era::Legacy, &Arc::default());
        let (making, _) = making(move |link| {
            let server = server.clone();
            async move { drop(server.serve_as(link, Some("us".into())).await) }
        });
        let options = Options { behind: Behind::One, isolation, ..Options::default() };
        let relay = Relay::start(making, options).await.unwrap();
        let client = connect(&relay, Era::Legacy, plain()).await;
        let params = json!({"name": "hold", "arguments": {}, "task": {"ttl": 60000}});
        let made = call(&client, Method::ToolsCall, params).await;
        let listed = call(&client, Method::TasksList, json!({})).await;
        assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{isolation:?} {listed}");
        assert_eq!(listed["tasks"][0]["taskId"], made["task"]["taskId"], "{isolation:?}");
        let other = connect(&relay, Era::Legacy, plain()).await;
        let listed = call(&other, Method::TasksList, json!({})).await;
        assert_eq!(listed["tasks"], json!([]), "{isolation:?}");
    }
}

/// TSKD-21, TSKE-14: names that someone made up take no room, and none is needed to say that they are unknown.
#[tokio::test]
async fn invented_names_take_no_room() {
    let limits = Limits { tasks: 1, tasks_per_principal: 1, ..Limits::DEFAULT };
    let options = Options { behind: Behind::One, limits, ..Options::default() };
    let (relay, _) = relay_with(&server(Era::Legacy, &Arc::default()), options).await;
    let client = connect(&relay, Era::Modern, plain()).await;
    let unknown = |n: u8| json!({"taskId": format!("none-{n}"), "inputResponses": {}, "_meta": declared()});
    let hold = json!({"name": "hold", "arguments": {}, "_meta": declared()});
    for round in 0..2 {
        for method in [Method::TasksGet, Method::TasksUpdate, Method::TasksCancel] {
            let refused = try_call(&client, method.clone(), unknown(round)).await;
            assert_eq!(code_of(refused), code::INVALID_PARAMS, "{round} {method:?}");
        }
        if round == 0 {
            assert_eq!(call(&client, Method::ToolsCall, hold.clone()).await["resultType"], "task");
        }
    }
    assert_eq!(code_of(try_call(&client, Method::ToolsCall, hold).await), code::BUSY);
}

/// TSKD-4: a tool that ran as a task only, and does no more, is called as it is now.
#[tokio::test]
async fn what_a_tool_supports_is_learned_again() {
    let changed = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&changed);
    let (making, _) = making(move |link| {
        let builder = Server::builder("tasks", "1")
            .revisions(revisions(Era::Legacy))
            .tool("work", "works", |_: Cx| async move { Ok::<_, Stop>("worked") })
            .tool("other", "works", |_: Cx| async move { Ok::<_, Stop>("worked") })
            .task_support("other", TaskSupport::Required);
        let server = match now.load(Ordering::SeqCst) {
            false => builder.task_support("work", TaskSupport::Required).build(),
            true => builder.build(),
        };
        async move { drop(server.serve(link).await) }
    });
    let options = Options { isolation: Isolation::Call, ..Options::default() };
    let relay = Relay::start(making, options).await.unwrap();
    let client = connect(&relay, Era::Modern, plain()).await;
    let work = json!({"name": "work", "arguments": {}, "_meta": declared()});
    assert_eq!(call(&client, Method::ToolsCall, work.clone()).await["resultType"], "task");
    changed.store(true, Ordering::SeqCst);
    let worked = call(&client, Method::ToolsCall, work).await;
    assert_eq!(worked["content"][0]["text"], "worked", "{worked}");
}
