//! What of a server is offered, under which name and with which words.

use std::collections::BTreeMap;

use crate::tree::{Entry, Node, Value};

/// What is said of a server's tools, prompts or resources. All names are the server's own; resources are named by their
/// address, templates by the template. In lists `*` stands for anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Only these, where there is a list.
    pub allow: Option<Vec<String>>,
    /// Not these, whatever else is said.
    pub deny: Vec<String>,
    /// Under another name.
    pub rename: BTreeMap<String, String>,
    /// With another description.
    pub describe: BTreeMap<String, String>,
}

impl Rules {
    pub(crate) const KEYS: [&'static str; 4] = ["allow", "deny", "rename", "describe"];

    /// What is said, as our own file has it.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let table = |pairs: &BTreeMap<String, String>| {
            let pairs = pairs.iter().map(|(name, text)| Entry::new(name, Node::text(text)));
            Node::new(Value::Table(pairs.collect()))
        };
        let said = [
            self.allow.as_ref().map(|names| Node::texts(names.clone())),
            Some(&self.deny).filter(|names| !names.is_empty()).map(|names| Node::texts(names.clone())),
            Some(&self.rename).filter(|names| !names.is_empty()).map(table),
            Some(&self.describe).filter(|texts| !texts.is_empty()).map(table),
        ];
        let named = Self::KEYS.into_iter().zip(said);
        named.filter_map(|(key, node)| Some(Entry::new(key, node?))).collect()
    }
}
