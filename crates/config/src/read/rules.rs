//! The tables `tools`, `prompts` and `resources` of a server.

use std::collections::BTreeMap;

use cardan_proto::limits::config::TOOL_NAME_CHARS;

use super::{fields, unknown_key};
use crate::keys::Field;
use crate::problem::{Problem, Scene};
use crate::rules::Rules;
use crate::tree::{Entry, Node};

/// Reads one of the tables; the first thing that is wrong with it is told.
pub(super) fn read(scene: Scene<'_>, field: Field, member: &Entry) -> Result<Rules, Problem> {
    fields::map(scene, &member.key, &member.node)?;
    let mut rules = Rules::default();
    for entry in member.node.entries() {
        let (key, node) = (entry.key.as_str(), &entry.node);
        match key {
            "allow" => rules.allow = Some(fields::words(scene, key, node)?),
            "deny" => rules.deny = fields::words(scene, key, node)?,
            "rename" => rules.rename = renamed(scene, field, entry)?,
            "describe" => rules.describe = texts(scene, entry)?,
            _ => return Err(unknown_key(scene, entry, Rules::KEYS)),
        }
    }
    Ok(rules)
}

fn texts(scene: Scene<'_>, entry: &Entry) -> Result<BTreeMap<String, String>, Problem> {
    let pairs = fields::map(scene, &entry.key, &entry.node)?.into_iter();
    let pair =
        |(name, node): (&str, &Node)| Ok((name.to_owned(), fields::word(scene, name, node)?.to_owned()));
    pairs.map(pair).collect()
}

/// New names. Two of one name are a slip: only one of them could be called.
fn renamed(scene: Scene<'_>, field: Field, entry: &Entry) -> Result<BTreeMap<String, String>, Problem> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (old, node) in fields::map(scene, &entry.key, &entry.node)? {
        let new = fields::word(scene, old, node)?;
        if !is_good(field, new) {
            let accepted = match field {
                Field::Tools => format!("accepted: 1 to {TOOL_NAME_CHARS} letters, digits, `_`, `-` or `.`"),
                _ => "accepted: any text but none".to_owned(),
            };
            return Err(scene.problem(&node.span, Some(old), "this is no name").next(accepted));
        }
        // What resources are called is for people only.
        let twice = names.iter().find(|(_, other)| *other == new).filter(|_| field != Field::Resources);
        if let Some((other, _)) = twice {
            let message = format!("`{other}` gets the same name");
            return Err(scene.problem(&node.span, Some(old), message).next("give each a name of its own"));
        }
        names.insert(old.to_owned(), new.to_owned());
    }
    Ok(names)
}

/// Models' interfaces take few characters in the names of tools.
fn is_good(field: Field, name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    match field {
        Field::Tools => (1..=TOOL_NAME_CHARS).contains(&name.len()) && name.chars().all(plain),
        _ => !name.trim().is_empty(),
    }
}
