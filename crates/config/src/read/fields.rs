//! Values of one kind each, with errors that say which kind is wanted.

use std::time::Duration;

use cardan_proto::dialect::Dialect;
use cardan_proto::era::Revision;

use super::reconnect;
use super::server::{ERAS, safe};
use crate::keys::{self, Field, Unit};
use crate::problem::{Problem, Scene, choice};
use crate::server::{EnvPolicy, Sessions, Settings};
use crate::show;
use crate::text::{Grammar, Text, is_name};
use crate::time;
use crate::tool::Tool;
use crate::tree::{Entry, Node, Value};

fn wanted(scene: Scene<'_>, key: &str, node: &Node, what: &str) -> Problem {
    scene.problem(&node.span, Some(key), format!("{what} is expected, not {}", node.value.kind()))
}

/// Text; numbers and truth values are taken as they are spelled.
pub(super) fn text(scene: Scene<'_>, key: &str, node: &Node, grammar: Grammar) -> Result<Text, Problem> {
    match &node.value {
        Value::Text(text) => Ok(Text::parse(text, grammar)),
        Value::Number(number) => Ok(Text::literal(number)),
        Value::Bool(value) => Ok(Text::literal(value.to_string())),
        _ => Err(wanted(scene, key, node, "text")),
    }
}

/// A list of texts, or one.
pub(super) fn texts(
    scene: Scene<'_>,
    key: &str,
    node: &Node,
    grammar: Grammar,
) -> Result<Vec<Text>, Problem> {
    match &node.value {
        Value::List(items) => items.iter().map(|item| text(scene, key, item, grammar)).collect(),
        Value::Table(_) | Value::Null => Err(wanted(scene, key, node, "text or a list of texts")),
        _ => Ok(vec![text(scene, key, node, grammar)?]),
    }
}

/// A command: a program, or a list that begins with one.
pub(super) fn command(
    scene: Scene<'_>,
    key: &str,
    node: &Node,
    grammar: Grammar,
) -> Result<Vec<Text>, Problem> {
    let words = texts(scene, key, node, grammar)?;
    if words.first().and_then(Text::as_literal).is_some_and(|program| program.trim().is_empty()) {
        let problem = scene.problem(&node.span, Some(key), "it names no program");
        return Err(problem.next("accepted: the program to start, such as \"npx\""));
    }
    Ok(words)
}

/// Arguments are a list: nobody knows where one text would be split.
pub(super) fn arguments(
    scene: Scene<'_>,
    key: &str,
    node: &Node,
    grammar: Grammar,
) -> Result<Vec<Text>, Problem> {
    match &node.value {
        Value::List(_) => texts(scene, key, node, grammar),
        _ => {
            let problem = wanted(scene, key, node, "a list of texts");
            Err(problem.next("write each argument by itself, such as [\"--port\", \"8080\"]"))
        }
    }
}

/// Text without placeholders.
pub(super) fn word<'a>(scene: Scene<'_>, key: &str, node: &'a Node) -> Result<&'a str, Problem> {
    node.as_text().ok_or_else(|| wanted(scene, key, node, "text"))
}

/// The name of a variable. Some write the secret itself there, which must not be shown as a name.
pub(super) fn variable<'a>(scene: Scene<'_>, key: &str, node: &'a Node) -> Result<&'a str, Problem> {
    let name = word(scene, key, node)?;
    let secret = show::looks_secret(name) && name.contains(|c: char| c.is_ascii_lowercase());
    if is_name(name) && !secret {
        return Ok(name);
    }
    let problem = scene.problem(&node.span, Some(key), "the name of a variable is expected");
    Err(problem.next("put the value into a variable, and its name here"))
}

/// A list of texts without placeholders.
pub(super) fn words(scene: Scene<'_>, key: &str, node: &Node) -> Result<Vec<String>, Problem> {
    match &node.value {
        Value::List(items) => items.iter().map(|item| word(scene, key, item).map(str::to_owned)).collect(),
        _ => Err(wanted(scene, key, node, "a list of texts")),
    }
}

pub(super) fn bool(scene: Scene<'_>, key: &str, node: &Node) -> Result<bool, Problem> {
    match node.value {
        Value::Bool(value) => Ok(value),
        _ => Err(wanted(scene, key, node, "true or false")),
    }
}

/// The members of a table; of a name that is given twice the last.
pub(super) fn map<'a>(
    scene: Scene<'_>,
    key: &str,
    node: &'a Node,
) -> Result<Vec<(&'a str, &'a Node)>, Problem> {
    let Value::Table(entries) = &node.value else {
        return Err(wanted(scene, key, node, "a table"));
    };
    let last = |at: usize| !entries[at + 1..].iter().any(|later| later.key == entries[at].key);
    let kept = entries.iter().enumerate().filter(|(at, _)| last(*at));
    Ok(kept.map(|(_, entry)| (entry.key.as_str(), &entry.node)).collect())
}

/// One of some names.
pub(super) fn named<T: Copy>(
    scene: Scene<'_>,
    key: &str,
    node: &Node,
    names: &[(&str, T)],
) -> Result<T, Problem> {
    let word = word(scene, key, node)?;
    let found = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let accepted = choice(names.iter().map(|(name, _)| *name));
        let message = format!("`{}` is none of the choices", safe(word));
        scene.problem(&node.span, Some(key), message).next(format!("accepted: {accepted}"))
    })
}

/// A time, in the unit of its file or as it says.
pub(crate) fn time(scene: Scene<'_>, key: &str, node: &Node, unit: Unit) -> Result<Duration, Problem> {
    let wrong = || {
        let wanted = match unit {
            Unit::Any => time::ACCEPTED,
            Unit::Seconds => "a number of seconds",
            Unit::Milliseconds => "a number of milliseconds",
        };
        scene.problem(&node.span, Some(key), "this is not a time").next(format!("accepted: {wanted}"))
    };
    let (number, factor) = match (&node.value, unit) {
        (Value::Number(number), Unit::Milliseconds) => (number.as_str(), 0.001),
        (Value::Number(number), _) => (number.as_str(), 1.0),
        (Value::Text(text), Unit::Any) => time::split_unit(text).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    time::of(number, factor).ok_or_else(wrong)
}

/// Dialects by name.
pub(crate) const DIALECTS: [(&str, Dialect); 5] = {
    let [a, b, c, d, e] = Dialect::ALL;
    [(a.name(), a), (b.name(), b), (c.name(), c), (d.name(), d), (e.name(), e)]
};

/// Reads one of the settings.
pub(super) fn setting(
    scene: Scene<'_>,
    tool: Tool,
    member: &Entry,
    settings: &mut Settings,
) -> Result<(), Problem> {
    let (key, node) = (member.key.as_str(), &member.node);
    match keys::field(tool, key) {
        Some(Field::Start(unit)) => settings.start_timeout = Some(time(scene, key, node, unit)?),
        Some(Field::Call(unit)) => settings.call_timeout = Some(time(scene, key, node, unit)?),
        Some(Field::IdleStop) => settings.idle_stop = Some(time(scene, key, node, Unit::Any)?),
        Some(Field::Era) => settings.era = Some(named(scene, key, node, &ERAS)?),
        Some(Field::Dialect) => settings.dialect = Some(named(scene, key, node, &DIALECTS)?),
        Some(Field::EnvPolicy) => settings.env_policy = Some(named(scene, key, node, &EnvPolicy::NAMES)?),
        Some(Field::Revision) => {
            let names = Revision::ALL.map(|revision| (revision.date(), revision));
            settings.revision = Some(named(scene, key, node, &names)?);
        }
        Some(Field::Sessions) => settings.sessions = Some(named(scene, key, node, &Sessions::NAMES)?),
        Some(Field::Lazy) => settings.lazy = Some(bool(scene, key, node)?),
        Some(Field::Concurrency) => {
            let number = match &node.value {
                Value::Number(number) => number.parse().ok().filter(|number| *number > 0),
                _ => None,
            };
            let wrong = || scene.problem(&node.span, Some(key), "a whole number above 0 is expected");
            settings.concurrency = Some(number.ok_or_else(wrong)?);
        }
        Some(Field::Reconnect) => settings.reconnect = reconnect::read(scene, member)?,
        _ => {}
    }
    Ok(())
}
