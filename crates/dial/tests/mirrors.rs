//! Tool parameters mirrored to headers: learnt from listings, sent with calls, mended once.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::sync::Mutex;

use bytes::Bytes;
use cardan_client::CallError;
use cardan_proto::http::stray::Strays;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::event::CallOptions;
use cardan_runtime::peer::Beside;
use common::*;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

fn tool(name: &str, properties: Value) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object", "properties": properties } })
}

fn listing(asked: &Asked, tools: &[Value]) -> Say {
    Say::Json(result(
        asked,
        json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" }),
    ))
}

/// XMH-1, XMH-9, XMH-10, XMH-11, XMH-12, XMH-13, XMH-20, XMH-22: annotated arguments go into headers, once the
/// tool was listed.
#[tokio::test(start_paused = true)]
async fn listed_tools_are_mirrored() {
    let stage = modern(|asked| match asked.method() {
        "tools/list" => listing(
            asked,
            &[tool(
                "t",
                json!({
                    "region": { "type": "string", "x-mcp-header": "Region" },
                    "count": { "type": "integer", "x-mcp-header": "Count" },
                    "deep": { "type": "object", "properties": {
                        "flag": { "type": "boolean", "x-mcp-header": "Method" } } },
                    "empty": { "type": "string", "x-mcp-header": "Empty" },
                    "absent": { "type": "string", "x-mcp-header": "Absent" },
                    "null": { "type": "string", "x-mcp-header": "Null" },
                    "plain": { "type": "string" },
                }),
            )],
        ),
        _ => Say::Json(result(asked, text("ok"))),
    });
    let client = connect(&stage.http()).await;
    let arguments = json!({ "region": "süd", "count": 42, "deep": { "flag": true }, "empty": "", "null": null,
        "plain": "x" });
    client.call_tool("t", &arguments).unwrap().await.unwrap();
    client.all_tools().await.unwrap();
    client.call_tool("t", &arguments).unwrap().await.unwrap();
    let calls = stage.of("tools/call");
    let mirrored = |asked: &Asked| {
        let mut found: Vec<_> = asked
            .headers
            .iter()
            .filter(|(name, _)| name.as_str().starts_with("mcp-param-"))
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        found.sort();
        found
    };
    assert_eq!(mirrored(&calls[0]), [] as [String; 0], "a schema that was never seen");
    assert_eq!(
        mirrored(&calls[1]),
        [
            "mcp-param-count: 42",
            "mcp-param-empty: ",
            "mcp-param-method: true",
            "mcp-param-region: =?base64?c8O8ZA==?=",
        ]
    );
    let error = client.call_tool("t", &json!({ "count": 1.5 })).unwrap().await.unwrap_err();
    assert!(!error.may_have_executed(), "{error}");
    assert!(error.to_string().contains("/count"), "{error}");
}

/// INT-1: what came beside a call that is passed on goes beside it, but for what is known or configured here; a legacy
/// server hears nothing of it.
#[tokio::test(start_paused = true)]
async fn strays_go_beside_their_call() {
    let says = |asked: &Asked| match asked.method() {
        "tools/list" => {
            let mirrored = |header: &str| json!({ "type": "string", "x-mcp-header": header });
            listing(asked, &[tool("t", json!({ "a": mirrored("A"), "b": mirrored("B") }))])
        }
        _ => Say::Json(result(asked, text("ok"))),
    };
    let mut came = HeaderMap::new();
    for (name, value) in [("a", "forged"), ("b", "forged"), ("own", "forged"), ("x", "1"), ("x", "2 ; 3")] {
        let name: HeaderName = format!("Mcp-Param-{name}").parse().unwrap();
        came.append(name, HeaderValue::from_static(value));
    }
    let strays = Strays::collect(&came, None, &Limits::DEFAULT).unwrap();
    let params =
        |name: &str| Some(Bytes::from(json!({ "name": name, "arguments": { "a": "true" } }).to_string()));
    for (stage, expected) in
        [(modern(says), vec!["a: true", "own: ours", "x: 1", "x: 2 ; 3"]), (legacy(says), vec!["own: ours"])]
    {
        let http = stage.http().header("Mcp-Param-Own", "ours").unwrap();
        let client = connect(&http).await;
        client.all_tools().await.unwrap();
        let beside = Beside { strays: strays.clone(), ..Beside::default() };
        let call = client.start_beside(Method::ToolsCall, params("t"), CallOptions::default(), beside);
        call.await.unwrap();
        let call = &stage.of("tools/call")[0];
        let mut found: Vec<_> = call
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str().strip_prefix("mcp-param-")?, value)))
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        found.sort();
        assert_eq!(found, expected);
    }
}

/// XMH-7, XMH-8: a tool whose annotations break the rules is left out and named; the others stay.
#[tokio::test(start_paused = true)]
async fn a_tool_with_a_bad_annotation_is_left_out() {
    let stage = modern(|asked| {
        listing(
            asked,
            &[
                tool("good", json!({})),
                tool("bad", json!({ "x": { "type": "number", "x-mcp-header": "X" } })),
                tool("fine", json!({ "x": { "type": "string", "x-mcp-header": "X" } })),
            ],
        )
    });
    let (client, notebook) = connect_as(&stage.http(), Default::default(), Limits::DEFAULT).await;
    let tools = client.unwrap().all_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good", "fine"]);
    assert!(notebook.has("bad-mirror") && notebook.has("tool bad"), "{:?}", notebook.lines());
}

/// XMH-19: a call whose headers do not fit is sent once more, after the tools were listed anew.
#[tokio::test(start_paused = true)]
async fn a_mismatch_is_mended_once() {
    for mend in [true, false] {
        let wanted = Mutex::new("Old");
        let stage = modern(move |asked| {
            let mut wanted = wanted.lock().unwrap();
            match asked.method() {
                "tools/list" => {
                    let header = std::mem::replace(&mut *wanted, if mend { "New" } else { "Other" });
                    let header = if asked.body["id"].is_string() && mend { "New" } else { header };
                    let page = result(
                        asked,
                        json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                        "tools": [tool("t", json!({ "x": { "type": "string", "x-mcp-header": header } }))] }),
                    );
                    Say::Events(message(&page))
                }
                _ if mend && asked.header("mcp-param-new") == Some("1") => {
                    Say::Json(result(asked, text("ok")))
                }
                _ => Say::Full(400, vec![], fault(asked, -32020, "headers differ").to_string()),
            }
        });
        let client = connect(&stage.http()).await;
        client.all_tools().await.unwrap();
        let outcome = client.call_tool("t", &json!({ "x": "1" })).unwrap().await;
        match (mend, outcome) {
            (true, Ok(_)) => {}
            (false, Err(CallError::Fault(fault))) => assert_eq!(fault.code, -32020),
            (_, other) => panic!("{other:?}"),
        }
        assert_eq!(stage.of("tools/call").len(), 2);
        let refresh = &stage.of("tools/list")[1];
        assert_eq!(refresh.header("mcp-method"), Some("tools/list"));
        assert!(refresh.body["params"]["_meta"].get("progressToken").is_none());
    }
}
