//! Completion: what an argument could be, while it is typed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::flaw::Flaw;
use super::meta::Meta;
use super::result::ResultType;

/// Most values in one completion, by the specification.
pub const MAX_VALUES: usize = 100;

/// Params of a completion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompleteParams {
    /// What the argument belongs to.
    #[serde(rename = "ref")]
    pub reference: Reference,
    /// The argument and what is typed so far.
    pub argument: CompleteArgument,
    /// Since 2025-06-18: what is known already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<CompleteContext>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// What the argument belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Reference {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// Its name.
        name: String,
        /// Since 2025-06-18: for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A resource or a template.
    #[serde(rename = "ref/resource")]
    Resource {
        /// Its address or template.
        uri: String,
    },
}

/// An argument and what is typed so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompleteArgument {
    /// The argument.
    pub name: String,
    /// What is typed so far.
    pub value: String,
}

/// What is known already.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CompleteContext {
    /// Arguments that are filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<BTreeMap<String, String>>,
}

/// Result of a completion.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompleteResult {
    /// Modern: always there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<ResultType>,
    /// The values.
    pub completion: Completion,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Values that fit, best first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Completion {
    /// At most [`MAX_VALUES`].
    pub values: Vec<String>,
    /// How many there are in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Are there more than these?
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
}

impl CompleteResult {
    /// All values that fit, best first; what exceeds the bound is counted and left out.
    #[must_use]
    pub fn of(mut values: Vec<String>) -> Self {
        let total = values.len();
        values.truncate(MAX_VALUES);
        let completion = Completion { total: Some(total as u64), has_more: Some(total > MAX_VALUES), values };
        Self { completion, ..Self::default() }
    }

    /// What a server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        if self.completion.values.len() <= MAX_VALUES {
            return Vec::new();
        }
        vec![Flaw::at("values", "has more than 100 entries").under("completion")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CMP-2: at most a hundred values; total and hasMore are optional.
    #[test]
    fn values_are_bounded() {
        let many = CompleteResult::of(vec!["x".into(); 101]);
        assert_eq!((many.completion.values.len(), many.completion.total), (100, Some(101)));
        assert_eq!((many.completion.has_more, many.check()), (Some(true), vec![]));
        assert_eq!(CompleteResult::of(Vec::new()).completion.has_more, Some(false));
        let bare: CompleteResult = serde_json::from_str(r#"{"completion":{"values":["a"]}}"#).unwrap();
        assert_eq!((bare.completion.total, bare.completion.has_more), (None, None));
        let over = Completion { values: vec![String::new(); 101], ..Completion::default() };
        let over = CompleteResult { completion: over, ..CompleteResult::default() };
        assert_eq!(over.check()[0].at, "/completion/values");
    }

    /// CMP-7: the reference is one of two, the argument has a name and a value.
    #[test]
    fn references_are_of_two_kinds() {
        let read = |reference: &str, argument: &str| {
            serde_json::from_str::<CompleteParams>(&format!(r#"{{"ref":{reference},"argument":{argument}}}"#))
        };
        let argument = r#"{"name":"a","value":""}"#;
        assert!(read(r#"{"type":"ref/prompt","name":"p"}"#, argument).is_ok());
        assert!(read(r#"{"uri":"a:{b}","type":"ref/resource"}"#, argument).is_ok());
        for reference in
            [r#"{"type":"ref/tool","name":"p"}"#, r#"{"type":"ref/prompt"}"#, r#"{"name":"p"}"#, "null"]
        {
            assert!(read(reference, argument).is_err(), "{reference}");
        }
        for argument in [r#"{"name":"a"}"#, r#"{"value":"a"}"#, r#"{"name":"a","value":1}"#] {
            assert!(read(r#"{"type":"ref/prompt","name":"p"}"#, argument).is_err(), "{argument}");
        }
    }
}
