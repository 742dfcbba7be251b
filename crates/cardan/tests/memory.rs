//! Client and server of ours over the memory link, both eras.

use std::sync::{Arc, RwLock};

use cardan::client::{Answerers, CallError, Client, Urls};
use cardan::prelude::*;
use cardan::proto::limits::Limits;
use cardan::proto::model::elicit::ElicitResult;
use cardan::proto::session::config::EraChoice;
use cardan::proto::session::event::{CallOptions, Change, Interest, Wanted};
use cardan::runtime::memory;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn server() -> Server {
    Server::builder("test", "1.0")
        .tool("echo", "says it back", async |args: Echo| args.text)
        .tool("add", "adds", async |args: Add| Json(Sum { sum: args.a + args.b }))
        .tool("boom", "panics", async || -> String { panic!("as asked") })
        .tool("ask", "asks twice", |cx: Cx| async move { ask(&cx) })
        .tool("slow", "with progress", |cx: Cx| async move {
            for step in 1..=3 {
                tokio::task::yield_now().await;
                cx.progress(f64::from(step), Some(3.0), Some("going"));
            }
            "done"
        })
        .build()
}

fn ask(cx: &Cx) -> Result<String, Stop> {
    let name = cx.elicit("name", &Form::new("your name?").string("name"))?;
    let colour = cx.elicit("colour", &Form::new("your colour?").string("colour"))?;
    Ok(format!("{:?} {:?}", name.content, colour.content))
}

async fn connected(server: &Server, era: EraChoice) -> Client {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(theirs).await });
    let answers = Answerers::default().elicit(Urls::NotOffered, |params| async move {
        let field = if params.message().contains("name") { "name" } else { "colour" };
        Ok(ElicitResult::filled([(field.to_owned(), "blue".into())].into()))
    });
    let roots = Arc::new(RwLock::new(Vec::new()));
    Client::builder("tester", "1")
        .answer(answers.roots(roots))
        .era(era)
        .connect_link(ours)
        .await
        .expect("both ends are ours")
}

#[tokio::test]
async fn the_same_calls_work_in_both_eras() {
    for era in [EraChoice::Legacy, EraChoice::Modern, EraChoice::Auto] {
        let server = server();
        let client = connected(&server, era).await;
        assert_eq!(client.server().implementation.unwrap().name, "test");
        let tools = client.all_tools().await.unwrap();
        assert_eq!(tools.len(), 5);
        let result =
            client.call_tool("echo", &serde_json::json!({"text": "hi \"you\""})).unwrap().await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("hi \"you\""));
        let sum = client.call_tool("add", &serde_json::json!({"a": 2, "b": 3})).unwrap().await.unwrap();
        assert_eq!(sum.structured_content.unwrap().as_str(), "{\"sum\":5}");
        let bad = client.call_tool("add", &serde_json::json!({"a": 2, "b": "x"})).unwrap().await.unwrap();
        assert!(bad.failed() && bad.content[0].as_text().unwrap().contains("/arguments/b"));
        let unknown = client.call_tool("nope", &serde_json::json!({})).unwrap().await;
        assert!(matches!(unknown, Err(CallError::Fault(fault)) if fault.code == -32602));
        let asked = client.call_tool("ask", &serde_json::json!({})).unwrap().await.unwrap();
        assert!(!asked.failed(), "{asked:?}");
        assert!(asked.content[0].as_text().unwrap().matches("blue").count() == 2, "{asked:?}");
        client.ping().await.unwrap();
        client.close("done").await;
    }
}

/// F34, T21: a panicking handler fails its own call and nothing else.
#[tokio::test]
async fn a_panic_is_one_calls_failure() {
    let server = server();
    let client = connected(&server, EraChoice::Auto).await;
    let boom = client.call_tool("boom", &serde_json::json!({})).unwrap();
    let fine = client.call_tool("echo", &serde_json::json!({"text": "fine"})).unwrap();
    assert!(matches!(boom.await, Err(CallError::Fault(fault)) if fault.code == -32603));
    assert!(fine.await.is_ok());
}

/// PRG-5, S0-48: what a handler tells in its very last step still goes out before its answer.
#[tokio::test]
async fn progress_arrives_in_order_before_the_result() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let server = server();
        let client = connected(&server, era).await;
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let mut call = client.call_tool_with("slow", &serde_json::json!({}), options).unwrap();
        let mut seen = Vec::new();
        while let Some(progress) = call.progress().await {
            seen.push(progress.progress);
        }
        assert_eq!(seen, [1.0, 2.0, 3.0]);
        assert_eq!(call.await.unwrap().content[0].as_text(), Some("done"));
    }
}

#[tokio::test]
async fn changes_reach_those_who_listen() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let server = server();
        let client = connected(&server, era).await;
        let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
        assert!(listen.ready().await.unwrap().tools);
        server.add_tool("new", "came later", async || "new");
        assert_eq!(listen.next().await, Some(Change::Tools));
        assert_eq!(client.all_tools().await.unwrap().len(), 6);
    }
}
