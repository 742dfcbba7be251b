//! Sampling: the server asks the client's model.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::content::{Content, Role};
use super::flaw::Flaw;
use super::meta::Meta;
use super::open::open_enum;
use super::task::TaskMetadata;
use super::tool::Tool;

/// Params of asking the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageParams {
    /// What was said so far.
    pub messages: Vec<SamplingMessage>,
    /// Which model would be best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// What to tell the model first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Which context to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// How much chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Most tokens in the answer.
    pub max_tokens: i64,
    /// Where to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_sequences: Option<Vec<String>>,
    /// For the provider of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Since 2025-11-25: tools that the model may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Tool>>,
    /// Since 2025-11-25: must it use them?
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// 2025-11-25: run it as a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskMetadata>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CreateMessageParams {
    /// Some messages, and a bound for the answer.
    #[must_use]
    pub fn new(messages: Vec<SamplingMessage>, max_tokens: i64) -> Self {
        Self { messages, max_tokens, ..Self::default() }
    }

    /// How often the model has used tools so far. A loop grows by one each time it goes round.
    #[must_use]
    pub fn tool_turns(&self) -> usize {
        self.messages.iter().filter(|message| message.content.uses().next().is_some()).count()
    }

    /// More turns of tool use than `max`: the conversation goes in circles.
    #[must_use]
    pub fn check_turns(&self, max: usize) -> Option<Flaw> {
        let turns = self.tool_turns();
        let what = || format!("has {turns} turns of tool use, and {max} are allowed; ask without tools");
        (turns > max).then(|| Flaw::at("messages", what()))
    }

    /// What a server must not send: unknown roles, tool results out of place.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            let mut flaw = |member: &str, what: String| {
                flaws.push(Flaw::at(member, what).under(&index.to_string()).under("messages"));
            };
            if !message.role.is_known() {
                flaw("role", "is neither user nor assistant".to_owned());
            }
            let results = message.content.results();
            if message.role == Role::User
                && !results.is_empty()
                && results.len() != message.content.blocks().len()
            {
                flaw("content", "mixes tool results with other content".to_owned());
            }
            if message.role == Role::Assistant {
                let next = self.messages.get(index + 1).filter(|next| next.role == Role::User);
                let answered: BTreeSet<&str> =
                    next.map(|next| next.content.results()).into_iter().flatten().collect();
                for id in message.content.uses() {
                    if !answered.contains(id) {
                        flaw(
                            "content",
                            format!("uses a tool as {id:?} without a result in the next user message"),
                        );
                    }
                }
            }
        }
        flaws
    }
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Blocks,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SamplingMessage {
    /// Said by the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: Blocks::One(content.into()), meta: None }
    }

    /// Said by the model.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: Blocks::One(content.into()), meta: None }
    }
}

/// One block, or since 2025-11-25 a list of them; each is written as it was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Blocks {
    /// One block.
    One(Content),
    /// A list.
    Many(Vec<Content>),
}

impl Blocks {
    /// The blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Content] {
        match self {
            Self::One(block) => std::slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }

    /// The uses that its tool results answer.
    fn results(&self) -> Vec<&str> {
        let blocks = self.blocks().iter();
        blocks
            .filter_map(|block| match block {
                Content::ToolResult(result) => Some(result.tool_use_id.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The tool uses it asks for.
    fn uses(&self) -> impl Iterator<Item = &str> {
        self.blocks().iter().filter_map(|block| match block {
            Content::ToolUse(tool) => Some(tool.id.as_str()),
            _ => None,
        })
    }
}

impl<'de> Deserialize<'de> for Blocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Blocks;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a content block or a list of them")
            }
            fn visit_map<A: MapAccess<'de>>(self, block: A) -> Result<Blocks, A::Error> {
                Content::deserialize(MapAccessDeserializer::new(block)).map(Blocks::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<Blocks, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(blocks)).map(Blocks::Many)
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

/// What the model answered. In the modern era it is bare: it stands among input responses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateMessageResult {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Blocks,
    /// The model that answered.
    pub model: String,
    /// Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or any other word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Which model would be best. Hints come first, in order; then what matters, from 0 to 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPreferences {
    /// Parts of names, best first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Vec<ModelHint>>,
    /// Low cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// Speed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// Ability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

/// A hint at a model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModelHint {
    /// Part of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Must the model use tools?
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolChoice {
    /// As it likes, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolMode>,
}

open_enum! {
    /// Must the model use tools?
    ToolMode {
        /// As it likes.
        Auto = "auto",
        /// At least one.
        Required = "required",
        /// None at all.
        None = "none",
    }
}

open_enum! {
    /// Which context to add.
    IncludeContext {
        /// Of this server.
        ThisServer = "thisServer",
        /// Of all servers.
        AllServers = "allServers",
        /// Nothing.
        None = "none",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(messages: Value) -> CreateMessageParams {
        serde_json::from_value(json!({ "maxTokens": 1, "messages": messages })).unwrap()
    }

    fn places(messages: Value) -> Vec<String> {
        params(messages).check().into_iter().map(|flaw| flaw.at).collect()
    }

    fn tool_use(id: &str) -> Value {
        json!({ "type": "tool_use", "id": id, "name": "t", "input": {} })
    }

    fn tool_result(id: &str) -> Value {
        json!({ "type": "tool_result", "toolUseId": id, "content": [], "structuredContent": { "n": 1 } })
    }

    /// SAM-9: one block or an array, written as read; any stop reason.
    #[test]
    fn content_is_one_block_or_many() {
        let one = json!({ "role": "assistant", "content": { "type": "text", "text": "a" }, "model": "m", "stopReason": "odd" });
        let many = json!({ "role": "assistant", "content": [tool_use("1"), tool_result("2")], "model": "m" });
        for (value, count) in [(one, 1), (many, 2)] {
            let result: CreateMessageResult = serde_json::from_str(&value.to_string()).unwrap();
            assert_eq!(result.content.blocks().len(), count);
            assert_eq!(serde_json::to_value(&result).unwrap(), value);
        }
        assert!(serde_json::from_str::<Blocks>("\"text\"").is_err());
    }

    /// SAM-4: tool results stand alone.
    #[test]
    fn tool_results_are_not_mixed() {
        let mixed = json!([tool_result("1"), { "type": "text", "text": "and" }]);
        let ask = json!({ "role": "assistant", "content": tool_use("1") });
        assert_eq!(places(json!([ask, { "role": "user", "content": mixed }])), ["/messages/1/content"]);
        assert_eq!(
            places(json!([ask, { "role": "user", "content": [tool_result("1"), tool_result("0")] }])),
            [""; 0]
        );
    }

    /// SAM-5: each use is answered in the very next user message.
    #[test]
    fn tool_uses_are_answered_next() {
        let ask = json!({ "role": "assistant", "content": [tool_use("1"), tool_use("2")] });
        let half = json!({ "role": "user", "content": tool_result("1") });
        let rest = json!({ "role": "user", "content": [tool_result("2")] });
        let whole = json!({ "role": "user", "content": [tool_result("2"), tool_result("1")] });
        assert_eq!(places(json!([ask, whole])), [""; 0]);
        assert_eq!(places(json!([ask, half, rest])), ["/messages/0/content"]);
        assert_eq!(places(json!([ask])), ["/messages/0/content", "/messages/0/content"]);
    }

    /// SAM-17: every message has a role and content.
    #[test]
    fn messages_have_role_and_content() {
        for odd in [r#"{"role":"user"}"#, r#"{"content":[]}"#] {
            assert!(serde_json::from_str::<SamplingMessage>(odd).is_err(), "{odd}");
        }
        assert_eq!(places(json!([{ "role": "system", "content": [] }])), ["/messages/0/role"]);
        assert_eq!(CreateMessageParams::new(vec![SamplingMessage::user("hi")], 1).check(), []);
    }
}
