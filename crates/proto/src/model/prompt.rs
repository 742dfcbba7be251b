//! Prompts: messages that a server prepares for a person to use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ask::InputResponses;
use super::cache::cacheable_result;
use super::content::{Content, Icon, Role};
use super::flaw::{Flaw, under, under_index};
use super::meta::Meta;
use super::page::Cursor;
use super::result::ResultType;

/// A prompt, or a template of one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Prompt {
    /// Names it in calls.
    pub name: String,
    /// Since 2025-06-18: for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it must or can be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Vec<PromptArgument>>,
    /// Since 2025-11-25: what it looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Prompt {
    /// By name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// With a description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// With one more argument that must be given.
    #[must_use]
    pub fn required(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.argument(PromptArgument { required: Some(true), ..PromptArgument::new(name, description) })
    }

    /// With one more argument that can be given.
    #[must_use]
    pub fn optional(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.argument(PromptArgument::new(name, description))
    }

    fn argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.get_or_insert_default().push(argument);
        self
    }

    /// The first argument that must be given and is not.
    #[must_use]
    pub fn missing<'a>(&'a self, given: Option<&BTreeMap<String, String>>) -> Option<&'a str> {
        let required = self.arguments.iter().flatten().filter(|argument| argument.required == Some(true));
        required
            .map(|argument| argument.name.as_str())
            .find(|name| !given.is_some_and(|given| given.contains_key(*name)))
    }
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Names it in calls.
    pub name: String,
    /// Since 2025-06-18: for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What to give.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Must it be given? No when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

impl PromptArgument {
    /// By name and description.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: Some(description.into()), ..Self::default() }
    }
}

cacheable_result! {
    /// One page of prompts.
    ListPromptsResult {
        /// The prompts.
        prompts: Vec<Prompt>,
        /// Where the next page begins.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<Cursor>,
    }
}

/// Params of getting a prompt.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetPromptParams {
    /// The prompt.
    pub name: String,
    /// Its arguments, all of them text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<BTreeMap<String, String>>,
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

/// The prompt itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetPromptResult {
    /// Modern: always there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<ResultType>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What to say to the model.
    pub messages: Vec<PromptMessage>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl GetPromptResult {
    /// Some messages.
    #[must_use]
    pub fn of(messages: Vec<PromptMessage>) -> Self {
        Self { messages, ..Self::default() }
    }

    /// What a server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let messages = self.messages.iter().enumerate();
        messages.flat_map(|(index, message)| under_index("messages", index, message.check())).collect()
    }
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Content,
}

impl PromptMessage {
    /// Said by the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// Said by the model.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }

    fn check(&self) -> Vec<Flaw> {
        let mut flaws: Vec<Flaw> = under("content", self.content.check()).collect();
        if !self.role.is_known() {
            flaws.push(Flaw::at("role", "is neither user nor assistant"));
        }
        if let Content::Resource(block) = &self.content
            && block.resource.mime_type().is_none()
        {
            flaws.push(Flaw::at("mimeType", "is missing").under("resource").under("content"));
        }
        flaws
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::content::MediaContent;
    use crate::model::resource::ResourceContents;

    fn places(content: Content) -> Vec<String> {
        GetPromptResult::of(vec![PromptMessage::user(content)])
            .check()
            .into_iter()
            .map(|flaw| flaw.at)
            .collect()
    }

    /// PRM-6: pictures and sounds are base64 with a type.
    #[test]
    fn media_is_checked() {
        let odd = MediaContent { data: "?".into(), mime_type: "png".into(), annotations: None, meta: None };
        assert_eq!(places(Content::Image(odd)), ["/messages/0/content/data", "/messages/0/content/mimeType"]);
        assert_eq!(places(Content::image(b"x", "image/png")), [""; 0]);
    }

    /// PRM-7: an embedded resource has an address, a type, and text or bytes.
    #[test]
    fn embedded_resources_are_whole() {
        let whole = ResourceContents::text("a:b", "t").with_mime_type("text/plain");
        assert_eq!(places(Content::embedded(whole)), [""; 0]);
        assert_eq!(
            places(Content::embedded(ResourceContents::text("a:b", "t"))),
            ["/messages/0/content/resource/mimeType"]
        );
        let nowhere = ResourceContents::text("nowhere", "t").with_mime_type("text/plain");
        assert_eq!(places(Content::embedded(nowhere)), ["/messages/0/content/resource/uri"]);
        let empty = r#"{"role":"user","content":{"type":"resource","resource":{"uri":"a:b"}}}"#;
        assert!(serde_json::from_str::<PromptMessage>(empty).is_err());
    }

    /// PRM-4, PRM-5: values are text, and what must be given is told apart.
    #[test]
    fn arguments_are_text_and_may_be_required() {
        let prompt = Prompt::new("p").optional("a", "x").required("b", "y");
        assert_eq!(prompt.missing(None), Some("b"));
        let params: GetPromptParams = serde_json::from_str(r#"{"name":"p","arguments":{"b":""}}"#).unwrap();
        assert_eq!(prompt.missing(params.arguments.as_ref()), None);
        assert!(serde_json::from_str::<GetPromptParams>(r#"{"name":"p","arguments":{"b":1}}"#).is_err());
    }
}
