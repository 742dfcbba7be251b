//! The table `[policy]` of `cardan.toml`: who may see and use what.
//!
//! What cannot be read allows nothing, so that a slip in a rule opens no door.

use crate::problem::{Problem, Scene};
use crate::read::unknown_key;
use crate::tree::{Entry, Node, Value};

/// Who may see and use what, as one file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// By principal; [`EVERYONE`] for all.
    pub who: Vec<(String, Access)>,
}

/// Stands for all, those without a name too.
pub const EVERYONE: &str = "*";

/// What someone may see and use. Patterns, in which `*` stands for anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// By `SERVER__TOOL`.
    pub tools: Names,
    /// By `SERVER__PROMPT`.
    pub prompts: Names,
    /// By address.
    pub resources: Names,
}

/// Names that are allowed and denied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// Only these, where there is a list.
    pub allow: Option<Vec<String>>,
    /// Not these, whatever else is said.
    pub deny: Vec<String>,
}

impl Names {
    /// None at all.
    #[must_use]
    pub fn nothing() -> Self {
        Self { allow: Some(Vec::new()), deny: Vec::new() }
    }
}

impl Access {
    /// Nothing at all.
    #[must_use]
    pub fn nothing() -> Self {
        Self { tools: Names::nothing(), prompts: Names::nothing(), resources: Names::nothing() }
    }
}

const KINDS: [&str; 3] = ["tools", "prompts", "resources"];
const LISTS: [&str; 2] = ["allow", "deny"];

impl Policy {
    pub(crate) fn read(scene: Scene<'_>, table: &Node) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        if !table.is_table() {
            let message = format!("this is {}, not a table of principals", table.value.kind());
            problems.push(scene.problem(&table.span, Some("policy"), message));
            return (Self { who: vec![(EVERYONE.to_owned(), Access::nothing())] }, problems);
        }
        let mut who = Vec::new();
        for entry in table.entries() {
            let access = access(scene, entry).unwrap_or_else(|wrong| {
                problems.extend(wrong);
                Access::nothing()
            });
            who.push((entry.key.clone(), access));
        }
        (Self { who }, problems)
    }
}

fn access(scene: Scene<'_>, principal: &Entry) -> Result<Access, Vec<Problem>> {
    if !principal.node.is_table() {
        let message =
            format!("this is {}, not a table of what a principal may use", principal.node.value.kind());
        let problem = scene.problem(&principal.node.span, Some(&principal.key), message);
        return Err(vec![
            problem.next("write [policy.NAME] with tools, prompts or resources; NAME is \"*\" for all"),
        ]);
    }
    let (mut access, mut problems) = (Access::default(), Vec::new());
    for entry in principal.node.entries() {
        let names = match entry.key.as_str() {
            "tools" => &mut access.tools,
            "prompts" => &mut access.prompts,
            "resources" => &mut access.resources,
            _ => {
                problems.push(unknown_key(scene, entry, KINDS));
                continue;
            }
        };
        if !entry.node.is_table() {
            let message = format!("this is {}, not a table with allow or deny", entry.node.value.kind());
            problems.push(scene.problem(&entry.node.span, Some(&entry.key), message));
        }
        for list in entry.node.entries() {
            match (list.key.as_str(), words(&list.node)) {
                ("allow", Some(words)) => names.allow = Some(words),
                ("deny", Some(words)) => names.deny = words,
                ("allow" | "deny", None) => {
                    let message = format!("a list of names is expected, not {}", list.node.value.kind());
                    problems.push(scene.problem(&list.node.span, Some(&list.key), message));
                }
                _ => problems.push(unknown_key(scene, list, LISTS)),
            }
        }
    }
    if problems.is_empty() { Ok(access) } else { Err(problems) }
}

fn words(node: &Node) -> Option<Vec<String>> {
    match &node.value {
        Value::List(items) => items.iter().map(|item| item.as_text().map(str::to_owned)).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::File;

    fn file(text: &str) -> File {
        File::parse(Path::new("cardan.toml"), text, None).unwrap()
    }

    #[test]
    fn what_is_said_is_read() {
        let said = file(
            "[policy.\"*\"]\ntools = { deny = [\"files__delete_*\"] }\n\
             [policy.ada]\nprompts = { allow = [] }\nresources.deny = [\"file:///etc/*\"]\n",
        );
        assert_eq!(said.problems, []);
        let deny = |text: &str| Names { allow: None, deny: vec![text.to_owned()] };
        let all = Access { tools: deny("files__delete_*"), ..Access::default() };
        let ada = Access { prompts: Names::nothing(), resources: deny("file:///etc/*"), ..Access::default() };
        assert_eq!(said.policy.who, [("*".to_owned(), all), ("ada".to_owned(), ada)]);
    }

    /// T15: whoever a rule with a slip is about may use nothing until it is right.
    #[test]
    fn t15_a_slip_opens_no_door() {
        for (text, who, told) in [
            ("policy = 1\n", "*", "not a table of principals"),
            ("[policy]\ndeny = [\"*\"]\n", "deny", "this is a list, not a table of what a principal may use"),
            ("[policy.ada]\ntool = {}\n", "ada", "did you mean `tools`?"),
            ("[policy.ada]\ntools = [\"x\"]\n", "ada", "not a table with allow or deny"),
            ("[policy.ada]\ntools = { denny = [\"x\"] }\n", "ada", "did you mean `deny`?"),
            ("[policy.ada]\ntools = { deny = \"x\" }\n", "ada", "a list of names is expected, not text"),
            ("[policy.ada]\ntools = { deny = [1] }\n", "ada", "a list of names is expected"),
        ] {
            let file = file(text);
            assert!(file.problems[0].to_string().contains(told), "{:?}", file.problems);
            assert_eq!(file.policy.who, [(who.to_owned(), Access::nothing())], "{text}");
        }
    }
}
