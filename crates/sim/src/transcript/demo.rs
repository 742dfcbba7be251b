//! The part of the demo server that transcripts use, as a pure function.

use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::{Call, Param};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::session::event::Answer;
use serde_json::{Value, json};

/// How the demo answers; nothing: it takes its time, and the transcript answers.
pub(super) fn answer(call: &Call) -> Option<Answer> {
    Some(match call.method {
        Method::ToolsList => done(&json!({ "tools": tools() })),
        Method::ToolsCall => return call_tool(call),
        _ => Answer::Fault(Fault::method_not_found(call.method.name())),
    })
}

fn tools() -> Value {
    let tool = |name: &str, properties: Value| json!({"name": name, "inputSchema": {"type": "object", "properties": properties}});
    json!([
        tool("echo", json!({"message": {"type": "string"}})),
        tool("add", json!({"a": {"type": "number"}, "b": {"type": "number"}})),
        tool("fail", json!({"message": {"type": "string"}})),
    ])
}

fn call_tool(call: &Call) -> Option<Answer> {
    let arguments: Value = call
        .params
        .get(Param::Arguments)
        .and_then(|raw| serde_json::from_slice(&raw).ok())
        .unwrap_or_default();
    let message = arguments["message"].as_str().unwrap_or_default();
    Some(match call.params.text(Param::Name).as_deref() {
        Some("echo") => done(&text(message)),
        Some("add") => {
            let sum =
                arguments["a"].as_i64().unwrap_or_default() + arguments["b"].as_i64().unwrap_or_default();
            let mut result = text(&sum.to_string());
            result["structuredContent"] = json!({ "sum": sum });
            done(&result)
        }
        Some("fail") => {
            let mut result = text(message);
            result["isError"] = json!(true);
            done(&result)
        }
        Some("slow") => return None,
        _ => Answer::Fault(Fault::invalid_params("unknown tool")),
    })
}

fn text(text: &str) -> Value {
    json!({ "content": [{"type": "text", "text": text}] })
}

fn done(result: &Value) -> Answer {
    Answer::Done(Bytes::from(result.to_string()))
}
