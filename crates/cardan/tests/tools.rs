//! Tools, from both sides and in every revision.

mod common;

use cardan::client::CallError;
use cardan::prelude::*;
use cardan::proto::era::{Era, Revision, gates};
use cardan::proto::model::resource::ResourceContents;
use cardan::proto::model::tool::{ListToolsResult, ToolAnnotations};
use cardan::proto::model::{GetPromptParams, Schema, Tool};
use cardan::proto::session::event::{CallOptions, Change, Interest, Refusal};
use cardan::server::builder::Kind;
use cardan::server::tools::RunTool;
use common::{BOTH, Raw, Way, join, params_in, plain, raw_in};
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "shape")]
#[allow(dead_code, reason = "only its schema matters")]
enum Shape {
    Round { radius: f64 },
    Square { side: f64 },
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

fn server() -> Server {
    Server::builder("tools", "1.0")
        .tool("zeta", "adds", async |args: Add| Json(Sum { sum: args.a + args.b }))
        .tool("alpha", "lists", async || Json(vec![1, 2, 3]))
        .tool("mixed", "all blocks", async || {
            vec![
                Content::text("t"),
                Content::image(b"png", "image/png"),
                Content::audio(b"wav", "audio/wav"),
                Content::link(Resource::new("x:1", "one")),
                Content::embedded(ResourceContents::text("x:2", "two").with_mime_type("text/plain")),
            ]
        })
        .tool("fails", "always", async || -> Result<String, Stop> { Err(Stop::failed("the disk is full")) })
        .tool("refuses", "always", async || -> Result<String, Stop> {
            Err(Stop::Fault(cardan::proto::jsonrpc::fault::Fault::internal("broken")))
        })
        .tool("nothing", "returns nothing", async || ())
        .tool("shape", "of an enum", async |_: Shape| "drawn")
        .declare(Kind::Resources)
        .build()
}

/// TOOL-1, PRM-1, RES-1, CMP-1, LOG-1: what is registered is declared, and nothing else, in every revision.
#[tokio::test]
async fn only_what_is_registered_is_declared() {
    let full = Server::builder("full", "1")
        .tool("t", "t", async || "x")
        .resource(Resource::new("x:1", "one"), |_| async { Ok(vec![ResourceContents::text("x:1", "1")]) })
        .prompt(Prompt::new("p").optional("a", "a"), |_, _| async { Ok(vec![PromptMessage::user("hi")]) })
        .complete("p", "a", |_, _| vec![])
        .logging()
        .build();
    let few = Server::builder("few", "1").tool("t", "t", async || "x").build();
    for revision in Revision::ALL {
        let (client, _) = join(&full, plain(), revision).await;
        let declared = client.server().capabilities;
        assert!(declared.tools.is_some() && declared.resources.is_some() && declared.prompts.is_some());
        assert!(declared.logging.is_some(), "{revision}");
        assert_eq!(declared.completions.is_some(), gates(revision).completions_capability, "{revision}");
        let (client, _) = join(&few, plain(), revision).await;
        let declared = client.server().capabilities;
        assert!(declared.tools.is_some() && declared.resources.is_none() && declared.prompts.is_none());
        assert!(declared.logging.is_none() && declared.completions.is_none());
        assert!(!declared.has_extension("io.modelcontextprotocol/tasks"), "EXT-4: off unless asked for");
    }
}

/// TOOL-12: who embeds resources declares them; a result that does not keep to it is not sent, and a link
/// needs no such promise.
#[tokio::test]
async fn embedded_resources_are_declared() {
    fn embedded() -> Content {
        Content::embedded(ResourceContents::text("x:1", "one").with_mime_type("text/plain"))
    }
    let builder = || {
        Server::builder("embedding", "1")
            .tool("one", "a block", async || embedded())
            .tool("many", "blocks", async || Ok::<_, Stop>(vec![Content::text("t"), embedded()]))
            .tool("whole", "a result", async || CallToolResult::of(vec![embedded()]))
            .tool("link", "a link", async || Content::link(Resource::new("x:1", "one")))
            .prompt(Prompt::new("p"), async |_, _| Ok(vec![PromptMessage::user(embedded())]))
    };
    for revision in Revision::ALL {
        for (server, declares) in
            [(builder().build(), false), (builder().declare(Kind::Resources).build(), true)]
        {
            let (client, _) = join(&server, plain(), revision).await;
            assert_eq!(client.server().capabilities.resources.is_some(), declares);
            for tool in ["one", "many", "whole"] {
                let result = client.call_tool(tool, &json!({})).unwrap().await;
                assert_eq!(result.is_ok(), declares, "{revision} {tool}: {result:?}");
                let told = result.err().is_none_or(|error| error.to_string().contains("embeds a resource"));
                assert!(told, "{revision} {tool}");
            }
            let params = GetPromptParams { name: "p".into(), ..GetPromptParams::default() };
            assert_eq!(client.prompt(&params).await.is_ok(), declares, "{revision}");
            assert!(client.call_tool("link", &json!({})).unwrap().await.is_ok());
        }
    }
}

/// TOOL-2, TOOL-3, TOOL-4: the list is answered in the order of registration, the same for everyone.
#[tokio::test]
async fn the_list_is_the_same_for_everyone() {
    let server = server();
    let names = ["zeta", "alpha", "mixed", "fails", "refuses", "nothing", "shape"];
    for revision in Revision::ALL {
        let (one, _) = join(&server, plain(), revision).await;
        let (two, _) = join(&server, plain(), revision).await;
        one.call_tool("nothing", &json!({})).unwrap().await.unwrap();
        for client in [&one, &two] {
            let tools = client.all_tools().await.unwrap();
            assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), names, "{revision}");
        }
    }
    for name in names {
        assert!(server.remove_tool(name));
    }
    let (client, _) = join(&server, plain(), Revision::LATEST_MODERN).await;
    assert_eq!(client.all_tools().await.unwrap(), []);
}

/// TOOL-5, SUB-15: changes of the list are announced.
#[tokio::test]
async fn changes_are_announced() {
    for revision in BOTH {
        let server = server();
        let (client, wire) = join(&server, plain(), revision).await;
        let mut listen = client.listen(Interest { tools: true, ..Interest::default() });
        listen.ready().await.unwrap();
        server.add_tool("later", "came later", async || "x");
        assert_eq!(listen.next().await, Some(Change::Tools));
        assert!(server.remove_tool("later") && !server.remove_tool("later"));
        assert_eq!(listen.next().await, Some(Change::Tools));
        assert_eq!(wire.of(Way::In, "notifications/tools/list_changed").len(), 2, "{revision}");
    }
}

/// TOOL-6, TOOL-7: schemas are objects of `type: "object"`, names are good and distinct, in every revision.
#[tokio::test]
async fn listed_tools_are_without_flaw() {
    for revision in Revision::ALL {
        let (client, wire) = join(&server(), plain(), revision).await;
        let tools = client.all_tools().await.unwrap();
        let page = ListToolsResult { tools, ..ListToolsResult::default() };
        assert_eq!(page.check(), [], "{revision}");
        for tool in wire.results("tools/list")[0]["result"]["tools"].as_array().unwrap() {
            assert_eq!(tool["inputSchema"]["type"], "object", "{revision}: {tool}");
            let output = tool.get("outputSchema");
            assert!(output.is_none() || gates(revision).structured_output, "{revision}: {tool}");
            // Until the modern era structured output is an object.
            if let Some(output) = output.filter(|_| revision.era() == Era::Legacy) {
                assert_eq!(output["type"], "object", "{revision}: {tool}");
            }
        }
    }
}

/// TOOL-11, TOOL-23: structured results are text too, content is always there, and revisions without
/// structured content get none.
#[tokio::test]
async fn structure_comes_with_text() {
    for revision in Revision::ALL {
        let (client, wire) = join(&server(), plain(), revision).await;
        let sum = client.call_tool("zeta", &json!({ "a": 1, "b": 2 })).unwrap().await.unwrap();
        assert_eq!(sum.content[0].as_text(), Some("{\"sum\":3}"));
        assert_eq!(sum.structured_content.is_some(), gates(revision).structured_output, "{revision}");
        let list = client.call_tool("alpha", &json!({})).unwrap().await.unwrap();
        assert_eq!(list.content[0].as_text(), Some("[1,2,3]"));
        assert_eq!(list.structured_content.is_some(), revision.era() == Era::Modern, "{revision}");
        client.call_tool("nothing", &json!({})).unwrap().await.unwrap();
        for reply in wire.results("tools/call") {
            assert!(reply["result"]["content"].is_array(), "{reply}");
        }
    }
}

/// S2-26: blocks of every kind, and those a revision does not know become text.
#[tokio::test]
async fn blocks_are_lowered_to_what_is_known() {
    let kinds = |revision| match revision {
        Revision::V2024_11_05 => ["text", "image", "text", "text", "resource"],
        Revision::V2025_03_26 => ["text", "image", "audio", "text", "resource"],
        _ => ["text", "image", "audio", "resource_link", "resource"],
    };
    for revision in Revision::ALL {
        let (client, wire) = join(&server(), plain(), revision).await;
        let result = client.call_tool("mixed", &json!({})).unwrap().await.unwrap();
        assert_eq!(result.check(), []);
        let reply = &wire.results("tools/call")[0]["result"];
        let types: Vec<_> = reply["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert_eq!(types, kinds(revision), "{revision}");
    }
}

/// TOOL-13, TOOL-22: an unknown tool, a missing name and arguments that are no object are -32602.
#[tokio::test]
async fn malformed_calls_are_faults() {
    for revision in Revision::ALL {
        let mut raw = raw_in(&server(), revision).await;
        let odd = [
            json!({ "name": "nope" }),
            json!({ "name": "ZETA", "arguments": {} }),
            json!({}),
            json!({ "name": 7 }),
            json!({ "name": "zeta", "arguments": [1] }),
            json!({ "name": "zeta", "arguments": null }),
            json!({ "name": "zeta", "arguments": "x" }),
        ];
        for params in odd {
            let reply = raw.call("tools/call", params_in(revision, params.clone())).await;
            assert_eq!(reply["error"]["code"], -32602, "{revision}: {params} {reply}");
        }
        let absent = raw.call("tools/call", params_in(revision, json!({ "name": "nothing" }))).await;
        assert_eq!(absent["result"]["content"], json!([]), "{absent}");
    }
}

/// TOOL-22: the client sends objects only.
#[tokio::test]
async fn the_client_sends_objects_only() {
    let (client, wire) = join(&server(), plain(), Revision::LATEST_MODERN).await;
    for odd in [json!([1]), json!("x"), json!(null)] {
        assert!(matches!(client.call_tool("zeta", &odd), Err(CallError::Shape(_))), "{odd}");
    }
    assert_eq!(wire.of(Way::Out, "tools/call"), [] as [Value; 0]);
}

/// TOOL-14: arguments that do not fit are for the model where the revision says so, with their place; work
/// that fails always is; a fault stays a fault.
#[tokio::test]
async fn failures_and_faults_are_told_apart() {
    for revision in Revision::ALL {
        let (client, _) = join(&server(), plain(), revision).await;
        let wrong = client.call_tool("zeta", &json!({ "a": 1, "b": "x" })).unwrap().await;
        match wrong {
            Ok(result) if gates(revision).bad_arguments_are_tool_errors => {
                assert!(result.failed() && result.content[0].as_text().unwrap().contains("/arguments/b"));
            }
            Err(CallError::Fault(fault)) if !gates(revision).bad_arguments_are_tool_errors => {
                assert_eq!(fault.code, -32602);
                assert!(fault.message.contains("/arguments/b"), "{fault}");
            }
            other => panic!("{revision}: {other:?}"),
        }
        let failed = client.call_tool("fails", &json!({})).unwrap().await.unwrap();
        assert!(failed.failed());
        assert_eq!(failed.content[0].as_text(), Some("the disk is full"), "TOOL-15: the model reads why");
        let refused = client.call_tool("refuses", &json!({})).unwrap().await;
        assert!(matches!(refused, Err(CallError::Fault(fault)) if fault.code == -32603));
    }
}

struct Echo;

impl RunTool for Echo {
    fn run(
        &self,
        arguments: Option<bytes::Bytes>,
        _cx: Cx,
    ) -> cardan::runtime::service::Handler<cardan::proto::session::event::Answer> {
        let text = String::from_utf8_lossy(&arguments.unwrap_or_default()).into_owned();
        let result = json!({ "content": [{ "type": "text", "text": text }] }).to_string();
        Box::pin(std::future::ready(cardan::proto::session::event::Answer::Done(result.into())))
    }
}

/// TOOL-19: schemas, annotations and arguments pass through as they were written.
#[tokio::test]
async fn schemas_pass_through_verbatim() {
    let text = r#"{"type":"object","$anchor":"x","if":{"required":["b"]},"then":{"not":{}},"x-own":1.50}"#;
    let schema: Schema = serde_json::from_str(text).unwrap();
    let hints = ToolAnnotations { destructive_hint: Some(false), ..ToolAnnotations::default() };
    let tool = Tool::new("raw", schema).with_annotations(hints.clone());
    let server = Server::builder("raw", "1").raw_tool(tool, Arc::new(Echo)).build();
    for revision in Revision::ALL {
        let (client, _) = join(&server, plain(), revision).await;
        let listed = client.all_tools().await.unwrap().remove(0);
        assert_eq!(listed.input_schema.raw().as_str(), text);
        assert_eq!(listed.annotations.is_some(), revision >= Revision::V2025_03_26, "{revision}");
        let big: Value = serde_json::from_str("{\"n\":9007199254740993}").unwrap();
        let result = client.call_tool("raw", &big).unwrap().await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("{\"n\":9007199254740993}"));
    }
}

/// TOOL-20: a result type that nobody declared is no result.
#[tokio::test]
async fn unknown_result_types_are_violations() {
    let tools = json!({ "tools": {} });
    let (mut raw, client) = Raw::ready(plain(), Revision::LATEST_MODERN, tools).await;
    let call = client.call_tool("x", &json!({})).unwrap();
    let asked = raw.recv().await;
    raw.reply(&asked, json!({ "resultType": "task", "task": {} })).await;
    assert!(matches!(call.await, Err(CallError::Violated(_))));
    let call = client.call_tool("x", &json!({})).unwrap();
    let asked = raw.recv().await;
    raw.reply(&asked, json!({ "content": [] })).await;
    assert!(call.await.is_ok(), "an absent type is complete");
}

/// S2-32, S2-33: what the server does not offer is refused here, in words, and the session lives on.
#[tokio::test]
async fn undeclared_features_are_refused_locally() {
    for revision in BOTH {
        let few = Server::builder("few", "1").tool("nothing", "returns nothing", async || ()).build();
        let (client, wire) = join(&few, plain(), revision).await;
        let before = wire.went(Way::Out).len();
        let read = client.read("x:1").await.unwrap_err();
        assert!(matches!(&read, CallError::Refused(Refusal::Capability("resources"))), "{read}");
        assert!(!read.may_have_executed() && read.to_string().contains("resources"));
        assert!(matches!(client.all_prompts().await, Err(CallError::Refused(_))));
        assert_eq!(wire.went(Way::Out).len(), before, "nothing was sent");
        assert!(client.call_tool("nothing", &json!({})).unwrap().await.is_ok());
    }
}

/// BASE-28: what we raise ourselves is of another type than what the server answers.
#[tokio::test(start_paused = true)]
async fn local_errors_are_no_faults() {
    let (mut raw, client) = Raw::ready(plain(), Revision::LATEST_LEGACY, json!({ "tools": {} })).await;
    let call = client.call_tool_with("x", &json!({}), CallOptions::default()).unwrap();
    raw.recv().await;
    assert!(matches!(call.await, Err(CallError::TimedOut { .. })));
}
