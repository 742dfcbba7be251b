//! Tests of [`tool`](super::tool).

use serde_json::json;

use super::content::Content;
use super::raw::Schema;
use super::tool::*;

fn places(tool: &Tool) -> Vec<String> {
    tool.check().into_iter().map(|flaw| flaw.at).collect()
}

/// TOOL-6: a schema object, not null, with `type: "object"` at its root.
#[test]
fn input_schemas_are_of_objects() {
    let good = [json!({ "type": "object" }), json!({ "type": "object", "oneOf": [true, {}] })];
    let bad = [
        json!(null),
        json!(true),
        json!([]),
        json!({}),
        json!({ "type": "array" }),
        json!({ "type": ["object"] }),
    ];
    for schema in good {
        assert_eq!(places(&Tool::new("t", &schema)), [""; 0], "{schema}");
    }
    for schema in bad {
        assert_eq!(places(&Tool::new("t", &schema)), ["/inputSchema"], "{schema}");
    }
    assert_eq!(
        places(&Tool::new("t", Schema::no_arguments()).with_output_schema(&json!(1))),
        ["/outputSchema"]
    );
}

/// TOOL-7: length, alphabet, uniqueness.
#[test]
fn names_follow_the_rule() {
    for good in ["a", "getUser", "DATA_EXPORT_v2", "admin.tools.list", "x-1", &"a".repeat(128)] {
        assert!(is_tool_name(good), "{good}");
    }
    for bad in ["", "a b", "a,b", "a/b", "é", &"a".repeat(129)] {
        assert!(!is_tool_name(bad), "{bad}");
    }
    let tools = ["a", "A", "a"].map(|name| Tool::new(name, Schema::no_arguments())).into();
    let flaws = ListToolsResult { tools, ..ListToolsResult::default() }.check();
    assert_eq!(flaws.iter().map(|flaw| flaw.at.as_str()).collect::<Vec<_>>(), ["/tools/2/name"]);
}

/// TOOL-22: arguments are an object or absent.
#[test]
fn arguments_are_an_object_or_absent() {
    let read = |text: &str| serde_json::from_str::<CallToolParams>(text);
    assert_eq!(read(r#"{"name":"t"}"#).unwrap().arguments, None);
    assert_eq!(read(r#"{"name":"t","arguments":null}"#).unwrap().arguments, None);
    let arguments = read(r#"{"name":"t","arguments":{"n":1.0}}"#).unwrap().arguments.unwrap();
    assert_eq!(arguments.raw().as_str(), r#"{"n":1.0}"#);
    for text in [r#"{"name":"t","arguments":[]}"#, r#"{"name":"t","arguments":"{}"}"#, r#"{"arguments":{}}"#]
    {
        assert!(read(text).is_err(), "{text}");
    }
}

/// TOOL-23, TOOL-11: content is always written; structured results bring their text.
#[test]
fn content_is_always_there() {
    let written = |result: &CallToolResult| serde_json::to_value(result).unwrap();
    assert_eq!(written(&CallToolResult::default()), json!({ "content": [] }));
    let structured = CallToolResult::structured(&json!([1, 2])).unwrap();
    assert_eq!(
        written(&structured),
        json!({ "content": [{ "type": "text", "text": "[1,2]" }], "structuredContent": [1, 2] })
    );
    assert!(CallToolResult::error("no").failed() && !CallToolResult::text("yes").failed());
}

#[test]
fn structured_null_is_not_absence() {
    let read = |text: &str| serde_json::from_str::<CallToolResult>(text).unwrap();
    assert!(read(r#"{"content":[],"structuredContent":null}"#).structured_content.unwrap().is_null());
    assert_eq!(read(r#"{"structuredContent":{"a":1}}"#).content, []);
    assert_eq!(read(r#"{"content":[]}"#).structured_content, None);
}

/// BASE-33: unknown members are ignored, at any depth.
#[test]
fn unknown_members_are_ignored() {
    let tool: Tool =
        serde_json::from_str(r#"{"name":"t","inputSchema":{},"later":{"a":[1]},"annotations":{"x":1}}"#)
            .unwrap();
    assert_eq!(tool.annotations, Some(ToolAnnotations::default()));
    let result: CallToolResult =
        serde_json::from_str(r#"{"content":[{"type":"text","text":"a","x":1}],"y":null}"#).unwrap();
    assert_eq!(result.content, [Content::text("a")]);
}
