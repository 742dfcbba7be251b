//! Elicitation: the server asks the person, by a form or by an address to visit.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use super::flaw::Flaw;
use super::form::{Form, FormMode, FormSchema};
use super::meta::Meta;
use super::task::TaskMetadata;
use super::uri;
use crate::http::url::Url;

/// Params of asking the person. Without a mode a form is meant.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ElicitParams {
    /// A form.
    Form(Form),
    /// Since 2025-11-25: an address to visit.
    Url(UrlAsk),
}

impl From<Form> for ElicitParams {
    fn from(form: Form) -> Self {
        Self::Form(form)
    }
}

impl From<UrlAsk> for ElicitParams {
    fn from(ask: UrlAsk) -> Self {
        Self::Url(ask)
    }
}

impl ElicitParams {
    /// What to tell the person.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Form(form) => &form.message,
            Self::Url(ask) => &ask.message,
        }
    }

    /// What a server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        match self {
            Self::Form(form) => form.check(),
            Self::Url(ask) => ask.check(),
        }
    }

    /// What is wrong with an answer to this ask.
    #[must_use]
    pub fn check_answer(&self, answer: &ElicitResult) -> Vec<Flaw> {
        match (self, &answer.content) {
            (Self::Form(form), _) => form.check_answer(answer),
            (Self::Url(_), Some(_)) => {
                vec![Flaw::at("content", "does not belong in the answer to an address")]
            }
            (Self::Url(_), None) => Vec::new(),
        }
    }
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            mode: Option<String>,
            message: String,
            requested_schema: Option<FormSchema>,
            url: Option<String>,
            elicitation_id: Option<String>,
            task: Option<TaskMetadata>,
            #[serde(rename = "_meta")]
            meta: Option<Meta>,
        }
        let Wire { mode, message, requested_schema, url, elicitation_id, task, meta } =
            Wire::deserialize(deserializer)?;
        match mode.as_deref() {
            None | Some("form") => {
                let requested_schema =
                    requested_schema.ok_or_else(|| D::Error::missing_field("requestedSchema"))?;
                let mode = mode.map(|_| FormMode::Form);
                Ok(Self::Form(Form { mode, message, requested_schema, task, meta }))
            }
            Some("url") => {
                let url = url.ok_or_else(|| D::Error::missing_field("url"))?;
                Ok(Self::Url(UrlAsk { mode: UrlMode::Url, message, url, elicitation_id, task, meta }))
            }
            Some(other) => {
                Err(D::Error::custom(format_args!("elicitation mode {other:?} is neither form nor url")))
            }
        }
    }
}

/// An address for the person to visit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UrlAsk {
    /// Always written.
    pub mode: UrlMode,
    /// What to tell the person.
    pub message: String,
    /// Where to go.
    pub url: String,
    /// 2025-11-25: names the visit, so that its end can be announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    /// 2025-11-25: run it as a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskMetadata>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// The word for this mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UrlMode {
    /// `url`
    Url,
}

impl UrlAsk {
    /// By message and address.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        let (message, url) = (message.into(), url.into());
        Self { mode: UrlMode::Url, message, url, elicitation_id: None, task: None, meta: None }
    }

    /// With the name that 2025-11-25 requires.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.elicitation_id = Some(id.into());
        self
    }

    /// Where to go, parsed.
    pub fn address(&self) -> Result<Url, Flaw> {
        uri::web(&self.url).map_err(|flaw| flaw.under("url"))
    }

    fn check(&self) -> Vec<Flaw> {
        self.address().err().into_iter().collect()
    }
}

/// What the person did. In the modern era it is bare: it stands among input responses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ElicitResult {
    /// What the person did.
    pub action: ElicitAction,
    /// What was filled in; only when a form was accepted. A `null` counts as left empty.
    #[serde(default, deserialize_with = "filled_in", skip_serializing_if = "Option::is_none")]
    pub content: Option<BTreeMap<String, ElicitValue>>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ElicitResult {
    /// Accepted, with nothing filled in: the answer to an address.
    #[must_use]
    pub fn accepted() -> Self {
        Self { action: ElicitAction::Accept, content: None, meta: None }
    }

    /// Accepted, with what was filled in.
    #[must_use]
    pub fn filled(content: BTreeMap<String, ElicitValue>) -> Self {
        Self { content: Some(content), ..Self::accepted() }
    }

    /// The person said no.
    #[must_use]
    pub fn declined() -> Self {
        Self { action: ElicitAction::Decline, ..Self::accepted() }
    }

    /// The person said nothing.
    #[must_use]
    pub fn cancelled() -> Self {
        Self { action: ElicitAction::Cancel, ..Self::accepted() }
    }
}

/// What the person did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// Filled in, or agreed to go.
    Accept,
    /// Said no.
    Decline,
    /// Said nothing.
    Cancel,
}

/// One value that was filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ElicitValue {
    /// Yes or no.
    Boolean(bool),
    /// A number.
    Number(Number),
    /// Text, a date, one choice.
    Text(String),
    /// Since 2025-11-25: several choices.
    List(Vec<String>),
}

impl From<&str> for ElicitValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for ElicitValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for ElicitValue {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

/// 2025-11-25: params of the note that a visit has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationCompleteParams {
    /// Which visit.
    pub elicitation_id: String,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// 2025-11-25: data of the fault that says which addresses must be visited first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UrlsRequired {
    /// The addresses.
    pub elicitations: Vec<ElicitParams>,
}

fn filled_in<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, ElicitValue>>, D::Error> {
    let content = Option::<BTreeMap<String, Option<ElicitValue>>>::deserialize(deserializer)?;
    Ok(content.map(|content| content.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ElicitParams, serde_json::Error> {
        serde_json::from_str(text)
    }

    const SCHEMA: &str = r#""requestedSchema":{"type":"object","properties":{}}"#;

    /// ELI-4: no mode means form, and none is written then.
    #[test]
    fn missing_mode_means_form() {
        let text = format!(r#"{{"message":"m",{SCHEMA}}}"#);
        let params = read(&text).unwrap();
        assert!(matches!(params, ElicitParams::Form(Form { mode: None, .. })));
        assert_eq!(serde_json::to_string(&params).unwrap(), text);
        assert!(matches!(
            read(&format!(r#"{{"mode":"form","message":"m",{SCHEMA}}}"#)),
            Ok(ElicitParams::Form(_))
        ));
        assert!(read(&format!(r#"{{"mode":"voice","message":"m",{SCHEMA}}}"#)).is_err());
    }

    /// ELI-5: a message always; a schema for a form, a valid address for a visit.
    #[test]
    fn each_mode_brings_its_own() {
        for odd in [
            r#"{"message":"m"}"#.to_owned(),
            format!("{{{SCHEMA}}}"),
            r#"{"mode":"url","message":"m"}"#.to_owned(),
            r#"{"mode":"url","url":"https://x"}"#.to_owned(),
        ] {
            assert!(read(&odd).is_err(), "{odd}");
        }
        let ask = ElicitParams::from(UrlAsk::new("m", "https://example.com/go").with_id("1"));
        assert_eq!(ask.check(), []);
        let text = serde_json::to_string(&ask).unwrap();
        assert_eq!(
            text,
            r#"{"mode":"url","message":"m","url":"https://example.com/go","elicitationId":"1"}"#
        );
        assert_eq!(read(&text).unwrap(), ask);
        assert_eq!(ElicitParams::from(UrlAsk::new("m", "no address")).check()[0].at, "/url");
    }

    /// ELI-11: three actions and four types of values.
    #[test]
    fn answers_have_three_actions() {
        let text = r#"{"action":"accept","content":{"a":"x","b":1.5,"c":true,"d":["y"],"e":null}}"#;
        let answer: ElicitResult = serde_json::from_str(text).unwrap();
        let content = answer.content.as_ref().unwrap();
        assert_eq!(content.len(), 4);
        assert_eq!((&content["a"], &content["c"]), (&ElicitValue::from("x"), &ElicitValue::from(true)));
        for (word, answer) in [("decline", ElicitResult::declined()), ("cancel", ElicitResult::cancelled())] {
            assert_eq!(serde_json::to_string(&answer).unwrap(), format!(r#"{{"action":"{word}"}}"#));
        }
        for odd in [r#"{"action":"ok"}"#, r#"{}"#, r#"{"action":"accept","content":{"a":{"b":1}}}"#] {
            assert!(serde_json::from_str::<ElicitResult>(odd).is_err(), "{odd}");
        }
        let visit = ElicitParams::from(UrlAsk::new("m", "https://x"));
        assert_eq!(visit.check_answer(&ElicitResult::accepted()), []);
        assert_eq!(visit.check_answer(&answer)[0].at, "/content");
    }
}
