//! Standing interest in changes: legacy subscriptions, modern listens, and the change notes.

use serde::{Deserialize, Serialize};

use super::meta::Meta;
use super::result::ResultType;
use crate::method::Method;

/// Which change notes are wanted, or will be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenFilter {
    /// Changes of the list of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_list_changed: Option<bool>,
    /// Changes of the list of prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts_list_changed: Option<bool>,
    /// Changes of the list of resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources_list_changed: Option<bool>,
    /// Changes of these resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_subscriptions: Option<Vec<String>>,
    /// Tasks extension: changes of these tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_ids: Option<Vec<String>>,
}

impl ListenFilter {
    /// Does it want notes of this method? Which resource or task is a second question.
    #[must_use]
    pub fn wants(&self, method: &Method) -> bool {
        let some = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
        match method {
            Method::ToolsListChanged => self.tools_list_changed == Some(true),
            Method::PromptsListChanged => self.prompts_list_changed == Some(true),
            Method::ResourcesListChanged => self.resources_list_changed == Some(true),
            Method::ResourcesUpdated => some(&self.resource_subscriptions),
            Method::Tasks => some(&self.task_ids),
            _ => false,
        }
    }

    /// What of this filter another one grants: the part to acknowledge, or the part we got.
    #[must_use]
    pub fn granted_by(&self, other: &Self) -> Self {
        let both = |a: Option<bool>, b: Option<bool>| (a == Some(true) && b == Some(true)).then_some(true);
        let shared = |a: &Option<Vec<String>>, b: &Option<Vec<String>>| {
            let granted: std::collections::BTreeSet<&String> = b.as_ref()?.iter().collect();
            Some(a.as_ref()?.iter().filter(|entry| granted.contains(entry)).cloned().collect())
        };
        Self {
            tools_list_changed: both(self.tools_list_changed, other.tools_list_changed),
            prompts_list_changed: both(self.prompts_list_changed, other.prompts_list_changed),
            resources_list_changed: both(self.resources_list_changed, other.resources_list_changed),
            resource_subscriptions: shared(&self.resource_subscriptions, &other.resource_subscriptions),
            task_ids: shared(&self.task_ids, &other.task_ids),
        }
    }
}

/// Modern: params of a listen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListenParams {
    /// What is wanted.
    pub notifications: ListenFilter,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Modern: params of the note that opens a listen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AcknowledgedParams {
    /// What will be sent.
    pub notifications: ListenFilter,
    /// Metadata; names the listen.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Modern: the end of a listen that the server chose to end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenResult {
    /// Always there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<ResultType>,
    /// Metadata; names the listen.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Legacy: params of subscribing to one resource, and of ending that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubscribeParams {
    /// The resource.
    pub uri: String,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Params of the note that one resource changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourceUpdatedParams {
    /// The resource; may be one below the one that was asked for.
    pub uri: String,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Params of messages that say all with their method: list changes, pings, the end of the handshake.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BareParams {
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> ListenFilter {
        serde_json::from_str(text).unwrap()
    }

    /// SUB-1, SUB-2: only what is asked for is wanted.
    #[test]
    fn notes_are_opt_in() {
        let asked =
            filter(r#"{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a:b"]}"#);
        assert!(asked.wants(&Method::ToolsListChanged));
        assert!(asked.wants(&Method::ResourcesUpdated));
        for other in
            [Method::PromptsListChanged, Method::ResourcesListChanged, Method::Tasks, Method::Message]
        {
            assert!(!asked.wants(&other), "{other}");
        }
        assert!(serde_json::from_str::<ListenParams>("{}").is_err());
    }

    /// SUB-4: the acknowledgement never exceeds the request or the offer.
    #[test]
    fn a_grant_is_the_common_part() {
        let asked = filter(
            r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a:1","a:2"]}"#,
        );
        let offered =
            filter(r#"{"toolsListChanged":true,"resourceSubscriptions":["a:2","a:3"],"taskIds":["t"]}"#);
        let granted = filter(r#"{"toolsListChanged":true,"resourceSubscriptions":["a:2"]}"#);
        assert_eq!(asked.granted_by(&offered), granted);
    }
}
