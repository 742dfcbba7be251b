//! Tools: what a server lets a model do.

use serde::{Deserialize, Serialize};

use super::ask::InputResponses;
use super::cache::cacheable_result;
use super::content::{Content, Icon, check_all};
use super::flaw::{Flaw, under_index};
use super::meta::Meta;
use super::open::open_enum;
use super::page::Cursor;
use super::raw::{Raw, RawObject, Schema, present};
use super::result::ResultType;
use super::task::TaskMetadata;

/// A tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Names it in calls.
    pub name: String,
    /// Since 2025-06-18: for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What its arguments look like.
    pub input_schema: Schema,
    /// Since 2025-06-18: what its structured result looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Schema>,
    /// Since 2025-03-26: hints about what it does, only as good as the server that gives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// 2025-11-25: how it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ToolExecution>,
    /// Since 2025-11-25: what it looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Tool {
    /// By name and schema of the arguments.
    pub fn new(name: impl Into<String>, input_schema: impl Into<Schema>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema: input_schema.into(),
            output_schema: None,
            annotations: None,
            execution: None,
            icons: None,
            meta: None,
        }
    }

    /// With a description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// With a schema of the structured result.
    #[must_use]
    pub fn with_output_schema(mut self, schema: impl Into<Schema>) -> Self {
        self.output_schema = Some(schema.into());
        self
    }

    /// With hints.
    #[must_use]
    pub fn with_annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.annotations = Some(annotations);
        self
    }

    /// What a server must or should not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        if !is_tool_name(&self.name) {
            flaws.push(Flaw::at("name", "is not 1 to 128 of the characters A-Z a-z 0-9 _ - ."));
        }
        if !self.input_schema.is_of_object() {
            flaws.push(Flaw::at("inputSchema", "is not a schema object with type \"object\" at its root"));
        }
        if self.output_schema.as_ref().is_some_and(|schema| !schema.raw().is_object()) {
            flaws.push(Flaw::at("outputSchema", "is not a schema object"));
        }
        flaws
    }
}

/// 1 to 128 characters of `A-Z a-z 0-9 _ - .`; case matters.
#[must_use]
pub fn is_tool_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// Hints about what a tool does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing; no when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy; yes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more; no when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches out to an open world; yes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// 2025-11-25: how a tool runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecution {
    /// Can a call be a task? Forbidden when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_support: Option<TaskSupport>,
}

open_enum! {
    /// Can a call of a tool be a task?
    TaskSupport {
        /// It cannot.
        Forbidden = "forbidden",
        /// As the caller likes.
        Optional = "optional",
        /// It must.
        Required = "required",
    }
}

cacheable_result! {
    /// One page of tools.
    ListToolsResult {
        /// The tools.
        tools: Vec<Tool>,
        /// Where the next page begins.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<Cursor>,
    }
}

impl ListToolsResult {
    /// What a server must or should not send, names that occur twice included.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut seen = std::collections::BTreeSet::new();
        let mut flaws = Vec::new();
        for (index, tool) in self.tools.iter().enumerate() {
            let mut found = tool.check();
            if !seen.insert(&tool.name) {
                found.push(Flaw::at("name", "is the name of an earlier tool"));
            }
            flaws.extend(under_index("tools", index, found));
        }
        flaws
    }
}

/// Params of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolParams {
    /// The tool.
    pub name: String,
    /// Its arguments: an object, or nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<RawObject>,
    /// 2025-11-25: run it as a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskMetadata>,
    /// Modern, in a retry: answers to the asks of the last round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// Modern, in a retry: what the server gave us to bring back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CallToolParams {
    /// By name and arguments.
    pub fn new(name: impl Into<String>, arguments: Option<RawObject>) -> Self {
        Self {
            name: name.into(),
            arguments,
            task: None,
            input_responses: None,
            request_state: None,
            meta: None,
        }
    }
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    /// Modern: always there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<ResultType>,
    /// What the tool returns. Always written, even when empty; servers that leave it out are read.
    #[serde(default)]
    pub content: Vec<Content>,
    /// Since 2025-06-18: the same as data. Modern: any JSON, so `null` is kept and not taken for absence.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Raw>,
    /// The tool failed, and the model should know why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CallToolResult {
    /// Some content.
    #[must_use]
    pub fn of(content: Vec<Content>) -> Self {
        Self { content, ..Self::default() }
    }

    /// One block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(vec![Content::text(text)])
    }

    /// The tool failed; the text tells the model why, so that it can do better.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: Some(true), ..Self::text(text) }
    }

    /// Data, and the same as text for peers that read no data.
    pub fn structured(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let raw = Raw::of(value)?;
        Ok(Self { structured_content: Some(raw.clone()), ..Self::text(raw.as_str()) })
    }

    /// Did the tool fail?
    #[must_use]
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
    }

    /// What a server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        check_all("content", &self.content)
    }
}
