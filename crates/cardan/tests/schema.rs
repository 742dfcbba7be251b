//! Tools described by schemas: checked before they run, after they ran, and by the client.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cardan::client::CallError;
use cardan::prelude::*;
use cardan::proto::era::{Revision, gates};
use cardan::proto::limits::Limits;
use cardan::proto::model::{Schema, Tool};
use cardan::proto::session::event::CallOptions;
use cardan_schema::SchemaError;
use common::{BOTH, Raw, Way, join, plain};
use serde_json::{Value, json};

fn schema(value: Value) -> Schema {
    Schema::from(&value)
}

/// Scales `n`; `n` is at most ten, and the result must be below fifty.
fn scaling() -> Tool {
    let input = json!({
        "type": "object", "required": ["n"], "additionalProperties": false,
        "properties": { "n": { "type": "integer", "maximum": 10 }, "tags": { "items": { "type": "string" } } },
    });
    let output = json!({ "type": "object", "properties": { "n": { "exclusiveMaximum": 50 } } });
    Tool::new("scale", schema(input)).with_output_schema(schema(output))
}

fn server(runs: &Arc<AtomicUsize>) -> Server {
    let runs = Arc::clone(runs);
    Server::builder("dynamic", "1")
        .dynamic_tool(scaling(), move |args: Value, _cx| {
            runs.fetch_add(1, Ordering::SeqCst);
            async move {
                match args["n"].as_i64() {
                    Some(0) => Ok(CallToolResult::text("no structure")),
                    Some(-1) => Ok(CallToolResult::error("broken")),
                    n => CallToolResult::structured(&json!({ "n": n.unwrap_or(0) * 6 })).map_err(Stop::from),
                }
            }
        })
        .expect("the schemas are good")
        .build()
}

/// TOOL-14, TOOL-16: arguments are checked before the function runs, and the message says where.
#[tokio::test]
async fn arguments_are_checked_first() {
    let rows = [
        (json!({}), "/arguments"),
        (json!({ "n": 11 }), "/arguments/n"),
        (json!({ "n": "1" }), "/arguments/n"),
        (json!({ "n": 1, "tags": ["a", 2] }), "/arguments/tags/1"),
        (json!({ "n": 1, "odd": true }), "/arguments"),
    ];
    for revision in Revision::ALL {
        let runs = Arc::default();
        let (client, _) = join(&server(&runs), plain(), revision).await;
        for (arguments, place) in &rows {
            let message = match client.call_tool("scale", arguments).unwrap().await {
                Ok(result) if gates(revision).bad_arguments_are_tool_errors => {
                    assert!(result.failed());
                    result.content[0].as_text().unwrap().to_owned()
                }
                Err(CallError::Fault(fault)) if !gates(revision).bad_arguments_are_tool_errors => {
                    assert_eq!(fault.code, -32602);
                    fault.message.into_owned()
                }
                other => panic!("{revision} {arguments}: {other:?}"),
            };
            assert!(message.contains(&format!("{place}:")), "{message}");
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0, "nothing ran");
        let good = client.call_tool("scale", &json!({ "n": 2, "tags": ["a"] })).unwrap().await.unwrap();
        assert_eq!(good.content[0].as_text(), Some("{\"n\":12}"));
        assert_eq!(good.structured_content.is_some(), gates(revision).structured_output);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

/// TOOL-9: a structured result that does not fit is an internal fault and never sent; failures are.
#[tokio::test]
async fn results_are_checked_before_they_leave() {
    for revision in Revision::ALL {
        let (client, wire) = join(&server(&Arc::default()), plain(), revision).await;
        for n in [9, 0] {
            let error = client.call_tool("scale", &json!({ "n": n })).unwrap().await.unwrap_err();
            assert!(matches!(&error, CallError::Fault(fault) if fault.code == -32603), "{revision}: {error}");
        }
        let seen = format!("{:?}", wire.results("tools/call"));
        assert!(!seen.contains("54") && !seen.contains("no structure"), "{seen}");
        let failed = client.call_tool("scale", &json!({ "n": -1 })).unwrap().await.unwrap();
        assert!(failed.failed() && failed.content[0].as_text() == Some("broken"));
    }
}

/// JSCH-2, JSCH-4, JSCH-5: a tool whose schema cannot be used is refused when it is registered.
#[tokio::test]
async fn unusable_schemas_are_refused_at_once() {
    let remote = Tool::new("x", schema(json!({ "type": "object", "$ref": "https://example.com/s.json" })));
    let refused = Server::builder("s", "1").dynamic_tool(remote, |_, _| async { "x" });
    assert!(matches!(refused.err(), Some(SchemaError::Reference(_))));
    let server = server(&Arc::default());
    let odd = scaling().with_output_schema(schema(json!({ "$schema": "https://example.com/own" })));
    let refused = server.add_dynamic_tool(odd, |_, _| async { "x" });
    assert!(matches!(refused, Err(SchemaError::Dialect(_))));
    let fine = Tool::new("fine", schema(json!({ "type": "object" })));
    server.add_dynamic_tool(fine, |_, _| async { "x" }).unwrap();
    let (client, _) = join(&server, plain(), Revision::LATEST_MODERN).await;
    assert_eq!(client.all_tools().await.unwrap().len(), 2);
}

/// TOOL-10: the client checks structured results against what was listed last.
#[tokio::test]
async fn the_client_checks_results() {
    for revision in BOTH {
        let (mut raw, client) = Raw::ready(plain(), revision, json!({ "tools": {} })).await;
        let output = json!({ "type": "object", "required": ["n"] });
        let listing = json!({ "resultType": "complete", "tools": [
            { "name": "checked", "inputSchema": { "type": "object" }, "outputSchema": output },
            { "name": "free", "inputSchema": { "type": "object" } },
            { "name": "remote", "inputSchema": { "type": "object" }, "outputSchema": { "$ref": "https://e.com/s" } },
        ]});
        let script = tokio::spawn(async move {
            let mut seen = Vec::new();
            for result in [
                listing.clone(),
                json!({ "content": [], "structuredContent": { "n": 1 } }),
                json!({ "content": [], "structuredContent": { "m": 1 } }),
                json!({ "content": [] }),
                json!({ "content": [], "isError": true }),
                json!({ "content": [], "structuredContent": { "m": 1 } }),
                listing.clone(),
            ] {
                let call = raw.recv().await;
                seen.push(call["method"].clone());
                raw.reply(&call, result).await;
            }
            (raw, seen)
        });
        let call = async |name| client.checked_call_tool(name, &json!({}), CallOptions::default()).await;
        assert!(call("checked").await.is_ok());
        let wrong = call("checked").await.unwrap_err();
        assert!(matches!(&wrong, CallError::Shape(why) if why.contains("structuredContent")), "{wrong}");
        assert!(matches!(call("checked").await, Err(CallError::Shape(_))), "a promised result is missing");
        assert!(call("checked").await.unwrap().failed());
        assert!(call("free").await.is_ok());
        for (name, why) in [("remote", "nothing is fetched"), ("unlisted", "does not list")] {
            let error = call(name).await.unwrap_err();
            assert!(matches!(error, CallError::Unchecked(_)) && !error.may_have_executed());
            assert!(error.to_string().contains(why), "{error}");
        }
        let (_raw, seen) = script.await.unwrap();
        let calls = seen.iter().filter(|method| **method == "tools/call").count();
        assert_eq!((calls, seen.len()), (5, 7), "what cannot be checked is not called");
    }
}

/// TOOL-9, TOOL-10: both ends of ours agree.
#[tokio::test]
async fn both_ends_agree() {
    for revision in BOTH {
        let (client, wire) = join(&server(&Arc::default()), plain(), revision).await;
        let result =
            client.checked_call_tool("scale", &json!({ "n": 3 }), CallOptions::default()).await.unwrap();
        assert_eq!(result.structured_content.unwrap().as_str(), "{\"n\":18}");
        client.checked_call_tool("scale", &json!({ "n": 3 }), CallOptions::default()).await.unwrap();
        assert_eq!(wire.of(Way::Out, "tools/list").len(), 1, "listed once");
    }
}

/// `limits.tools_remembered`: what is not remembered cannot be checked, and is then not called.
#[tokio::test]
async fn only_so_many_schemas_are_remembered() {
    let server =
        Server::builder("two", "1").tool("a", "a", async || "a").tool("b", "b", async || "b").build();
    let limits = Limits { tools_remembered: 1, ..Limits::DEFAULT };
    let (client, wire) = join(&server, plain().limits(limits), Revision::LATEST_MODERN).await;
    let options = CallOptions::default;
    client.checked_call_tool("a", &json!({}), options()).await.unwrap();
    let second = client.checked_call_tool("b", &json!({}), options()).await;
    assert!(matches!(second, Err(CallError::Unchecked(_))), "{second:?}");
    assert_eq!(wire.of(Way::Out, "tools/call").len(), 1);
}
