//! What each side can do. Capability objects are open: members we do not know are kept.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::meta::check_extension_id;

/// Members we do not know, kept for the way out.
pub type Others = Map<String, Value>;

/// Extensions as a peer wrote them. A malformed member must not spoil what stands beside it.
pub(crate) fn untrusted<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Map<String, Value>>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Object(extensions) => Some(extensions),
        _ => None,
    })
}

/// The settings of a soundly declared extension.
pub(crate) fn settings<'a>(extensions: &'a Map<String, Value>, id: &str) -> Option<&'a Map<String, Value>> {
    let settings = extensions.get(id)?.as_object()?;
    check_extension_id(id).ok().map(|_| settings)
}

/// What a client can do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClientCapabilities {
    /// It lists roots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roots: Option<ListCapability>,
    /// It samples its model for the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingCapability>,
    /// Since 2025-06-18: it asks its user for the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// 2025-11-25: which asks may be tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TasksCapability>,
    /// Modern: extensions by id, with their settings, as they were declared. What is no object is none.
    #[serde(default, deserialize_with = "untrusted", skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Map<String, Value>>,
    /// Whatever is not standard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Map<String, Value>>,
    /// Members we do not know.
    #[serde(flatten)]
    pub others: Others,
}

impl ClientCapabilities {
    /// May the client be sent a form?
    #[must_use]
    pub fn asks_forms(&self) -> bool {
        self.elicitation.as_ref().is_some_and(ElicitationCapability::has_form)
    }

    /// May the client be sent an address to visit?
    #[must_use]
    pub fn asks_urls(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|elicitation| elicitation.url.is_some())
    }

    /// May a sampling ask bring tools?
    #[must_use]
    pub fn samples_with_tools(&self) -> bool {
        self.sampling.as_ref().is_some_and(|sampling| sampling.tools.is_some())
    }

    /// Did the client declare this extension?
    #[must_use]
    pub fn has_extension(&self, id: &str) -> bool {
        self.extension(id).is_some()
    }

    /// The settings of an extension, if it was declared as extensions are: by a sound id, with an object.
    #[must_use]
    pub fn extension(&self, id: &str) -> Option<&Map<String, Value>> {
        settings(self.extensions.as_ref()?, id)
    }
}

/// What a server can do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerCapabilities {
    /// It has tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// It has resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// It has prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// Since 2025-03-26: it completes arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<Map<String, Value>>,
    /// It sends log notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<Map<String, Value>>,
    /// 2025-11-25: which calls may be tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TasksCapability>,
    /// Modern: extensions by id, with their settings, as they were declared. What is no object is none.
    #[serde(default, deserialize_with = "untrusted", skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Map<String, Value>>,
    /// Whatever is not standard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Map<String, Value>>,
    /// Members we do not know.
    #[serde(flatten)]
    pub others: Others,
}

impl ServerCapabilities {
    /// Did the server declare this extension?
    #[must_use]
    pub fn has_extension(&self, id: &str) -> bool {
        self.extension(id).is_some()
    }

    /// The settings of an extension, if it was declared as extensions are: by a sound id, with an object.
    #[must_use]
    pub fn extension(&self, id: &str) -> Option<&Map<String, Value>> {
        settings(self.extensions.as_ref()?, id)
    }
}

/// A list that may announce its changes: tools, prompts, roots.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListCapability {
    /// Changes of the list are announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members we do not know.
    #[serde(flatten)]
    pub others: Others,
}

/// Resources, which can also announce changes one by one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesCapability {
    /// Changes of one resource are announced to whoever asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<bool>,
    /// Changes of the list are announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members we do not know.
    #[serde(flatten)]
    pub others: Others,
}

/// Sampling, and what an ask may bring.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SamplingCapability {
    /// Since 2025-11-25: context of other servers can be included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Map<String, Value>>,
    /// Since 2025-11-25: the model can use tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Map<String, Value>>,
    /// Members we do not know.
    #[serde(flatten)]
    pub others: Others,
}

/// Elicitation, and in which modes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ElicitationCapability {
    /// Forms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<Map<String, Value>>,
    /// Since 2025-11-25: addresses to visit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Map<String, Value>>,
    /// Members we do not know.
    #[serde(flatten)]
    pub others: Others,
}

impl ElicitationCapability {
    /// Forms are meant when no mode is named, as in 2025-06-18.
    #[must_use]
    pub fn has_form(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }
}

/// 2025-11-25: what may be a task, and what can be done with tasks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TasksCapability {
    /// Tasks can be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<Map<String, Value>>,
    /// Tasks can be cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Map<String, Value>>,
    /// Which calls may be tasks, by the two halves of the method name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Map<String, Value>>,
    /// Members we do not know.
    #[serde(flatten)]
    pub others: Others,
}

impl TasksCapability {
    /// May calls of this method be tasks?
    #[must_use]
    pub fn covers(&self, method: &crate::method::Method) -> bool {
        let Some((area, verb)) = method.name().split_once('/') else { return false };
        self.requests
            .as_ref()
            .and_then(|requests| requests.get(area))
            .is_some_and(|area| area.get(verb).is_some())
    }
}

/// Data of the fault that says which capability is missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingCapability {
    /// What the client would have to declare.
    pub required_capabilities: ClientCapabilities,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::method::Method;

    fn client(value: Value) -> ClientCapabilities {
        serde_json::from_value(value).unwrap()
    }

    /// BASE-33: unknown capability members, at each depth, are kept and harm nothing.
    #[test]
    fn unknown_members_are_kept() {
        let odd = json!({ "roots": { "x": 1 }, "later": { "y": [1.5] }, "elicitation": { "voice": {} } });
        let parsed = client(odd.clone());
        assert_eq!(parsed.others["later"], json!({ "y": [1.5] }));
        assert_eq!(serde_json::to_value(&parsed).unwrap(), odd);
    }

    /// EXT-6, EXT-1: extension members are checked one by one, and spoil nothing beside them.
    #[test]
    fn extension_members_are_not_trusted() {
        let good =
            json!({ "com.example/x": { "y": 1 }, "noprefix": {}, "-bad/x": {}, "a.b/c": 5, "a.b/d": [] });
        for odd in [json!(5), json!("x"), json!([{ "com.example/x": {} }]), json!(null), json!({}), good] {
            let parsed = client(json!({ "roots": {}, "extensions": odd }));
            assert!(parsed.roots.is_some(), "{odd}");
            assert_eq!(parsed.has_extension("com.example/x"), odd.get("com.example/x").is_some(), "{odd}");
            for id in ["noprefix", "-bad/x", "a.b/c", "a.b/d", "", "absent.com/x"] {
                assert!(!parsed.has_extension(id), "{odd}: {id}");
            }
            let server: ServerCapabilities =
                serde_json::from_value(json!({ "tools": {}, "extensions": odd })).unwrap();
            assert!(server.tools.is_some());
            let y = server.extension("com.example/x").map(|settings| settings["y"].clone());
            assert_eq!(y, odd.pointer("/com.example~1x/y").cloned(), "{odd}");
        }
    }

    /// ELI-2: `{}` means form only; url alone means url only.
    #[test]
    fn empty_elicitation_means_form() {
        let rows = [
            (json!({}), false, false),
            (json!({ "elicitation": {} }), true, false),
            (json!({ "elicitation": { "form": {} } }), true, false),
            (json!({ "elicitation": { "url": {} } }), false, true),
            (json!({ "elicitation": { "form": {}, "url": {} } }), true, true),
        ];
        for (value, form, url) in rows {
            let parsed = client(value.clone());
            assert_eq!((parsed.asks_forms(), parsed.asks_urls()), (form, url), "{value}");
        }
    }

    #[test]
    fn tasks_are_declared_by_method() {
        let parsed = client(json!({ "tasks": { "requests": { "sampling": { "createMessage": {} } } } }));
        let tasks = parsed.tasks.unwrap();
        assert!(tasks.covers(&Method::SamplingCreateMessage));
        assert!(!tasks.covers(&Method::ElicitationCreate));
        assert!(!tasks.covers(&Method::Ping));
    }
}
