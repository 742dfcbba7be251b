//! Tool arguments that are mirrored in headers.

use cardan_proto::jsonrpc::fault::code;
use cardan_proto::limits::Limits;
use serde_json::{Value, json};

use crate::rig::{LEGACY, Rig, modern_headers, modern_tool, said};

/// Posts a call of the tool with these arguments and these headers.
async fn post(rig: &Rig, arguments: Value, mirrored: &[(&str, &str)]) -> crate::wire::Answer {
    let message = modern_tool(1, "mirror", arguments);
    let headers = modern_headers(&message);
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.extend_from_slice(mirrored);
    rig.post(&headers, &message).await.answer().await
}

/// XMH-1, XMH-22: the annotations are shown to clients as they were made, `Method` among
/// them.
#[tokio::test]
async fn annotations_are_shown() {
    let rig = Rig::start().await;
    let list = crate::rig::modern(crate::rig::call(1, "tools/list"));
    let reply = rig.modern(&list).await.answer().await.json();
    let tools = reply["result"]["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "mirror").unwrap();
    let properties = &tool["inputSchema"]["properties"];
    for (property, header) in [("region", "Region"), ("count", "Count"), ("dry", "Method")] {
        assert_eq!(properties[property]["x-mcp-header"], header, "{properties}");
    }
}

/// XMH-9, XMH-10, XMH-12, XMH-13, XMH-15, XMH-16, XMH-11, XMH-18: what is mirrored well is served.
#[tokio::test]
async fn what_agrees_is_served() {
    let rig = Rig::start().await;
    let table: [(Value, &[(&str, &str)]); 13] = [
        (json!({}), &[]),
        (json!({ "region": null, "plain": "x" }), &[]),
        (json!({ "region": "eu" }), &[("Mcp-Param-Region", "eu")]),
        (json!({ "region": "eu" }), &[("mcp-param-REGION", " eu\t")]),
        (json!({ "region": "eu west" }), &[("Mcp-Param-Region", "eu west")]),
        (json!({ "region": "" }), &[("Mcp-Param-Region", "")]),
        (json!({ "region": "eu" }), &[("Mcp-Param-Region", "=?base64?ZXU=?=")]),
        (json!({ "region": "\u{f6}" }), &[("Mcp-Param-Region", "=?base64?w7Y=?=")]),
        (json!({ "region": "=?base64?ZXU" }), &[("Mcp-Param-Region", "=?base64?ZXU")]),
        (json!({ "count": 42 }), &[("Mcp-Param-Count", "42")]),
        (json!({ "count": 42 }), &[("Mcp-Param-Count", "42.0")]),
        (json!({ "dry": true }), &[("Mcp-Param-Method", "true")]),
        (json!({ "region": "eu" }), &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Other", "what nobody knows")]),
    ];
    for (arguments, headers) in table {
        let answer = post(&rig, arguments.clone(), headers).await;
        assert_eq!(answer.status(), 200, "{arguments} {headers:?} {answer:?}");
        assert!(!said(&answer.json()).is_empty());
    }
}

/// XMH-14, XMH-16, XMH-17, XMH-18, T14: what is not is refused with 400, the code and the id.
#[tokio::test]
async fn what_differs_is_refused() {
    let rig = Rig::start().await;
    let table: [(Value, &[(&str, &str)]); 11] = [
        (json!({ "region": "eu" }), &[]),
        (json!({ "region": "" }), &[]),
        (json!({ "region": "eu" }), &[("Mcp-Param-Region", "us")]),
        (json!({ "region": "eu" }), &[("Mcp-Param-Region", "EU")]),
        (json!({ "region": "eu" }), &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "eu")]),
        (json!({ "region": "eu" }), &[("Mcp-Param-Region", "=?base64?ZXU?=")]),
        (json!({ "region": "eu" }), &[("Mcp-Param-Region", "=?base64?Z!U=?=")]),
        (json!({ "region": "\u{f6}" }), &[("Mcp-Param-Region", "\u{f6}")]),
        (json!({ "count": 42 }), &[("Mcp-Param-Count", "43")]),
        (json!({ "count": 42 }), &[("Mcp-Param-Count", "forty-two")]),
        (json!({ "dry": true }), &[("Mcp-Param-Method", "True")]),
    ];
    for (arguments, headers) in table {
        let answer = post(&rig, arguments.clone(), headers).await;
        assert_eq!(answer.fault(), (400, code::HEADER_MISMATCH), "{arguments} {headers:?}");
        assert_eq!(answer.json()["id"], 1);
    }
}

/// INT-1: a server that stands before nobody ignores headers of parameters that it does not know, however many they are.
#[tokio::test]
async fn any_number_of_unknown_headers_is_ignored() {
    let rig = Rig::start().await;
    let names: Vec<_> =
        (0..=Limits::DEFAULT.stray_headers).map(|n| format!("Mcp-Param-Unknown-{n}")).collect();
    let headers: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let answer = post(&rig, json!({}), &headers).await;
    assert_eq!(answer.status(), 200, "{answer:?}");
}

/// XMH-14: that is of the modern era alone; legacy calls mirror nothing.
#[tokio::test]
async fn legacy_calls_need_no_mirror() {
    let rig = Rig::start().await;
    let session = rig.open(LEGACY).await;
    let reply = session.call(1, "mirror", json!({ "region": "eu" })).await;
    assert!(said(&reply).contains("eu"));
}
