//! What a server listed last: to tell whether it lists the same after a reconnect, and which tools may be
//! called twice.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use cardan_proto::limits::fleet::LISTINGS;
use cardan_proto::method::Method;
use cardan_proto::model::Cursor;
use cardan_proto::session::event::Change;
use serde::Deserialize;
use serde_json::Value;

/// The lists of one server.
#[derive(Debug)]
pub(super) struct Catalog {
    lists: HashMap<Method, List>,
    /// Tools that were listed as read-only or idempotent.
    repeatable: HashSet<String>,
    max_tools: usize,
}

/// One list, as far as it matters.
#[derive(Debug, Default)]
struct List {
    /// What was listed in full.
    digest: Option<u64>,
    /// Whether it is from before the last reconnect.
    age: Age,
    /// Listings under way, by the cursor that goes on with them.
    runs: Vec<(String, DefaultHasher)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Age {
    #[default]
    Fresh,
    Before,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    next_cursor: Option<Cursor>,
    tools: Option<Vec<Value>>,
    prompts: Option<Vec<Value>>,
    resources: Option<Vec<Value>>,
    resource_templates: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Asked {
    cursor: Option<String>,
}

impl Catalog {
    pub(super) fn new(max_tools: usize) -> Self {
        Self { lists: HashMap::new(), repeatable: HashSet::new(), max_tools }
    }

    /// Takes in one page. Something: the list is complete, and not what it was before the reconnect.
    pub(super) fn learn(&mut self, method: &Method, params: Option<&[u8]>, result: &[u8]) -> Option<Change> {
        let change = change_of(method)?;
        let Page { next_cursor, tools, prompts, resources, resource_templates } =
            serde_json::from_slice(result).ok()?;
        let cursor =
            params.and_then(|raw| serde_json::from_slice::<Asked>(raw).ok()).and_then(|page| page.cursor);
        if let Some(tools) = &tools {
            self.learn_hints(tools, cursor.is_none());
        }
        let list = self.lists.entry(method.clone()).or_default();
        let mut hasher = match cursor {
            None => DefaultHasher::new(),
            Some(cursor) => {
                let at = list.runs.iter().position(|(next, _)| *next == cursor)?;
                list.runs.remove(at).1
            }
        };
        for entry in tools.or(prompts).or(resources).or(resource_templates)? {
            entry.to_string().hash(&mut hasher);
        }
        if let Some(Cursor(next)) = next_cursor {
            if list.runs.len() >= LISTINGS {
                list.runs.remove(0);
            }
            list.runs.push((next, hasher));
            return None;
        }
        let digest = Some(hasher.finish());
        let before = std::mem::replace(&mut list.digest, digest);
        let age = std::mem::take(&mut list.age);
        (age == Age::Before && before.is_some() && before != digest).then_some(change)
    }

    fn learn_hints(&mut self, tools: &[Value], anew: bool) {
        if anew {
            self.repeatable.clear();
        }
        for tool in tools {
            let hinted = |hint: &str| tool["annotations"][hint] == Value::Bool(true);
            if let Some(name) = tool["name"].as_str()
                && (hinted("readOnlyHint") || hinted("idempotentHint"))
                && self.repeatable.len() < self.max_tools
            {
                self.repeatable.insert(name.to_owned());
            }
        }
    }

    /// There is a new link: which lists to fetch again.
    pub(super) fn reconnected(&mut self) -> Vec<Method> {
        let known = self.lists.iter_mut().filter(|(_, list)| list.digest.is_some());
        known
            .map(|(method, list)| {
                list.age = Age::Before;
                list.runs.clear();
                method.clone()
            })
            .collect()
    }

    /// Was the tool listed as one that may be called twice?
    pub(super) fn is_repeatable(&self, params: Option<&[u8]>) -> bool {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let named = params.and_then(|raw| serde_json::from_slice::<Named>(raw).ok());
        named.is_some_and(|tool| self.repeatable.contains(&tool.name))
    }
}

/// What it means when a list differs.
fn change_of(list: &Method) -> Option<Change> {
    match list {
        Method::ToolsList => Some(Change::Tools),
        Method::PromptsList => Some(Change::Prompts),
        Method::ResourcesList | Method::ResourcesTemplatesList => Some(Change::Resources),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(
        catalog: &mut Catalog,
        cursor: Option<&str>,
        tools: &[&str],
        next: Option<&str>,
    ) -> Option<Change> {
        let tools: Vec<_> = tools.iter().map(|name| json!({ "name": name })).collect();
        let result = json!({ "tools": tools, "nextCursor": next }).to_string();
        let params = cursor.map(|cursor| json!({ "cursor": cursor }).to_string());
        catalog.learn(&Method::ToolsList, params.as_ref().map(String::as_bytes), result.as_bytes())
    }

    /// S2-45: a list is compared as a whole, however it is cut into pages, and only across a reconnect.
    #[test]
    fn s2_45_lists_are_compared_across_reconnects() {
        let mut catalog = Catalog::new(8);
        assert!(catalog.reconnected().is_empty(), "nothing was listed, so nothing is missed");
        assert_eq!(page(&mut catalog, None, &["a"], Some("2")), None);
        assert_eq!(page(&mut catalog, Some("2"), &["b"], None), None);
        assert_eq!(page(&mut catalog, None, &["a"], None), None, "the server tells changes itself");
        assert_eq!(page(&mut catalog, None, &["a", "b"], None), None);
        assert_eq!(catalog.reconnected(), [Method::ToolsList]);
        assert_eq!(page(&mut catalog, None, &["a"], Some("x")), None);
        assert_eq!(page(&mut catalog, Some("x"), &["b"], None), None, "the same, in other pages");
        catalog.reconnected();
        assert_eq!(page(&mut catalog, None, &["a"], None), Some(Change::Tools));
        assert_eq!(page(&mut catalog, None, &["a", "c"], None), None, "told once");
    }

    /// Of more listings at a time than are followed, the oldest is forgotten, and says nothing of the list.
    #[test]
    fn listings_at_a_time_are_bounded() {
        let mut catalog = Catalog::new(8);
        for run in 0..=LISTINGS {
            page(&mut catalog, None, &["a"], Some(&format!("run {run}")));
        }
        page(&mut catalog, Some("run 0"), &["b"], None);
        assert!(catalog.reconnected().is_empty(), "it was forgotten, so nothing was listed in full");
        page(&mut catalog, Some("run 1"), &["b"], None);
        assert_eq!(catalog.reconnected(), [Method::ToolsList]);
    }

    /// S2-45: templates have no change of their own: they are told with the resources.
    #[test]
    fn s2_45_templates_are_compared_too() {
        let mut catalog = Catalog::new(8);
        let list = Method::ResourcesTemplatesList;
        let page = |uri: &str| json!({ "resourceTemplates": [{ "uriTemplate": uri }] }).to_string();
        assert_eq!(catalog.learn(&list, None, page("x:{a}").as_bytes()), None);
        assert_eq!(catalog.reconnected(), [Method::ResourcesTemplatesList]);
        assert_eq!(catalog.learn(&list, None, page("x:{b}").as_bytes()), Some(Change::Resources));
    }

    /// S0-73: tools are safe to repeat if they were listed so.
    #[test]
    fn s0_73_hints_say_what_may_be_called_twice() {
        let mut catalog = Catalog::new(8);
        let tools = json!({ "tools": [
            { "name": "look", "annotations": { "readOnlyHint": true } },
            { "name": "set", "annotations": { "idempotentHint": true, "readOnlyHint": false } },
            { "name": "add", "annotations": { "readOnlyHint": false } },
            { "name": "bare" },
        ] });
        catalog.learn(&Method::ToolsList, None, tools.to_string().as_bytes());
        for (tool, safe) in [("look", true), ("set", true), ("add", false), ("bare", false), ("none", false)]
        {
            let params = json!({ "name": tool }).to_string();
            assert_eq!(catalog.is_repeatable(Some(params.as_bytes())), safe, "{tool}");
        }
        assert!(!catalog.is_repeatable(None));
        catalog.learn(&Method::ToolsList, None, br#"{"tools":[{"name":"look"}]}"#);
        assert!(!catalog.is_repeatable(Some(br#"{"name":"look"}"#)), "what is listed last counts");
    }
}
