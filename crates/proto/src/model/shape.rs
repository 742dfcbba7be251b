//! Does a result have the shape that the schema gives its method? Entries of lists are looked at one by one, since one that is
//! wrong says nothing of its neighbours.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::complete::CompleteResult;
use super::result::ResultType;
use super::tool::CallToolResult;
use super::{Flaw, GetPromptResult, Prompt, ReadResourceResult, Resource, ResourceTemplate, Tool};
use crate::finding::excerpt;
use crate::jsonrpc::splice::member_of;
use crate::method::Method;

/// More of them would say the same of other entries.
const MAX_FLAWS: usize = 5;

/// What is wrong with the result of `method`, at most a few things; entries of lists are shown up to `max_bytes`. Of methods that
/// are not known here nothing is said.
#[must_use]
pub fn flaws(method: &Method, result: &Bytes, max_bytes: usize) -> Vec<Flaw> {
    match method {
        Method::ToolsList => entries::<Tool>(result, "tools", max_bytes),
        Method::PromptsList => entries::<Prompt>(result, "prompts", max_bytes),
        Method::ResourcesList => entries::<Resource>(result, "resources", max_bytes),
        Method::ResourcesTemplatesList => entries::<ResourceTemplate>(result, "resourceTemplates", max_bytes),
        Method::ToolsCall => of_tool(result),
        Method::PromptsGet => whole::<GetPromptResult>(result),
        Method::ResourcesRead => whole::<ReadResourceResult>(result),
        Method::CompletionComplete => whole::<CompleteResult>(result),
        _ => Vec::new(),
    }
}

/// What is wrong with one entry of the list that `method` brings, which is shown up to `max_bytes`, by its place in the list.
#[must_use]
pub fn flaw_of_entry(method: &Method, index: usize, entry: &str, max_bytes: usize) -> Option<Flaw> {
    match method {
        Method::ToolsList => of_entry::<Tool>("tools", index, entry, max_bytes),
        Method::PromptsList => of_entry::<Prompt>("prompts", index, entry, max_bytes),
        Method::ResourcesList => of_entry::<Resource>("resources", index, entry, max_bytes),
        Method::ResourcesTemplatesList => {
            of_entry::<ResourceTemplate>("resourceTemplates", index, entry, max_bytes)
        }
        _ => None,
    }
}

fn of_entry<T: DeserializeOwned>(list: &str, index: usize, entry: &str, max_bytes: usize) -> Option<Flaw> {
    let error = serde_json::from_str::<T>(entry).err()?;
    let shown = excerpt(entry.as_bytes(), max_bytes);
    Some(Flaw::at(&index.to_string(), format!("{error} in {shown}")).under(list))
}

fn whole<T: DeserializeOwned>(result: &Bytes) -> Vec<Flaw> {
    serde_json::from_slice::<T>(result).err().map(|error| Flaw::here(error.to_string())).into_iter().collect()
}

/// A task is answered before its tool is done, in either design.
fn of_tool(result: &Bytes) -> Vec<Flaw> {
    let has = |member| member_of(result, member).is_ok_and(|found| found.is_some());
    if ResultType::peek(result) != ResultType::Complete || has("task") {
        return Vec::new();
    }
    match whole::<CallToolResult>(result) {
        // Read as if it were there, since some servers leave it out beside `structuredContent`.
        fine if fine.is_empty() && !has("content") => vec![Flaw::here("missing field `content`")],
        flaws => flaws,
    }
}

fn entries<T: DeserializeOwned>(result: &Bytes, list: &str, max_bytes: usize) -> Vec<Flaw> {
    let Ok(Some(found)) = member_of(result, list) else {
        return vec![Flaw::here(format!("missing field `{list}`"))];
    };
    let entries = match serde_json::from_slice::<Vec<&RawValue>>(&found) {
        Ok(entries) => entries,
        Err(error) => return vec![Flaw::at(list, error.to_string())],
    };
    let flaw = |(index, entry): (usize, &&RawValue)| of_entry::<T>(list, index, entry.get(), max_bytes);
    entries.iter().enumerate().filter_map(flaw).take(MAX_FLAWS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One entry that is wrong is told with its place and its text, and no other is.
    #[test]
    fn deviations_are_told_with_their_place() {
        for (method, result, told) in [
            (
                Method::ToolsList,
                r#"{"tools":[{"name":"a","inputSchema":{}},{"name":"b"}]}"#,
                Some(r#"/tools/1: missing field `inputSchema`"#),
            ),
            (Method::ToolsList, r#"{"tools":[{"name":"b"}]}"#, Some(r#" in {"name":"b"}"#)),
            (Method::ToolsList, r#"{"tools":{}}"#, Some("/tools: invalid type")),
            (Method::ToolsList, "{}", Some("missing field `tools`")),
            (Method::PromptsList, r#"{"prompts":[{}]}"#, Some("/prompts/0: missing field `name`")),
            (Method::ToolsCall, r#"{"content":"hi"}"#, Some("invalid type: string \"hi\"")),
            (Method::ToolsCall, "{}", Some("missing field `content`")),
            (Method::ToolsCall, r#"{"content":[]}"#, None),
            (Method::ToolsCall, r#"{"task":{"taskId":"1"}}"#, None),
            (Method::ToolsCall, r#"{"resultType":"task"}"#, None),
            (Method::PromptsGet, "{}", Some("missing field `messages`")),
            (Method::ResourcesRead, r#"{"contents":[]}"#, None),
            (Method::Ping, r#"{"anything":1}"#, None),
        ] {
            let flaws = flaws(&method, &Bytes::from_static(result.as_bytes()), 64);
            let first = flaws.first().map(ToString::to_string);
            match told {
                Some(told) => {
                    assert!(first.as_ref().is_some_and(|flaw| flaw.contains(told)), "{result}: {first:?}")
                }
                None => assert_eq!(first, None, "{result}"),
            }
        }
        let many = Bytes::from(format!(r#"{{"tools":[{}]}}"#, vec!["1"; 50].join(",")));
        assert_eq!(flaws(&Method::ToolsList, &many, 64).len(), MAX_FLAWS);
    }
}
