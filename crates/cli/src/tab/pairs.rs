//! `key=value`: the arguments of tools and prompts.

use cardan_gateway::catalog::{Catalog, Kind};
use serde_json::Value;

use super::Offer;
use super::asked::asked;
use super::files::{Which, files};
use super::known::entry;
use super::walk::Walk;
use crate::schema::Shape;

/// Arguments of a tool: names, and the values that its schema lists.
pub(super) fn of_tool(catalog: &Catalog, tool: &str, given: &[&str], current: &str) -> Vec<Offer> {
    let Some(tool) = entry(catalog, Kind::Tools, tool) else { return Vec::new() };
    let said = tool.raw().value();
    let Some(schema) = said.get("inputSchema") else { return Vec::new() };
    let shape = Shape::of(schema);
    match current.split_once('=') {
        None => shape
            .names()
            .into_iter()
            .filter(|name| shape.is_list(name) || !is_given(given, name))
            .map(|name| Offer::open(format!("{name}="), &described(&shape, name)))
            .collect(),
        Some((key, value)) if value.starts_with('@') => of_file(key, value),
        Some((key, _)) => {
            let values = shape.values(key).into_iter();
            values.map(|value| Offer::word(format!("{key}={value}"), "")).collect()
        }
    }
}

fn described(shape: &Shape<'_>, name: &str) -> String {
    let kind = shape.kind(name);
    match shape.about(name) {
        Some(about) => format!("{kind}: {about}"),
        None => kind,
    }
}

/// Arguments of a prompt: names, and the values that a server which runs already proposes.
pub(super) fn of_prompt(
    catalog: &Catalog,
    walk: &Walk<'_>,
    prompt: &str,
    given: &[&str],
    current: &str,
) -> Vec<Offer> {
    let Some(found) = entry(catalog, Kind::Prompts, prompt) else { return Vec::new() };
    let said = found.raw().value();
    let arguments = said.get("arguments").and_then(Value::as_array).into_iter().flatten();
    let text = |argument: &Value, name: &str| {
        argument.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match current.split_once('=') {
        None => arguments
            .map(|argument| (text(argument, "name"), text(argument, "description")))
            .filter(|(name, _)| !name.is_empty() && !is_given(given, name))
            .map(|(name, about)| Offer::open(format!("{name}="), &about))
            .collect(),
        Some((key, value)) if value.starts_with('@') => of_file(key, value),
        Some((key, value)) => {
            let values = asked(walk, prompt, (key, value), given).into_iter();
            values.map(|value| Offer::word(format!("{key}={value}"), "")).collect()
        }
    }
}

/// Variables of a template, with the values that a server which runs already proposes.
pub(super) fn of_template(walk: &Walk<'_>, template: &str, given: &[&str], current: &str) -> Vec<Offer> {
    let names = template.split('{').skip(1).filter_map(|part| part.split_once('}').map(|(name, _)| name));
    let names = names.map(|name| name.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']));
    match current.split_once('=') {
        None => names
            .flat_map(|names| names.split(','))
            .map(|name| name.trim_end_matches('*'))
            .filter(|name| !name.is_empty() && !is_given(given, name))
            .map(|name| Offer::open(format!("{name}="), ""))
            .collect(),
        Some((key, value)) => {
            let values = asked(walk, template, (key, value), given).into_iter();
            values.map(|value| Offer::word(format!("{key}={value}"), "")).collect()
        }
    }
}

/// `key=@file`, and `key:=@file`.
fn of_file(key: &str, value: &str) -> Vec<Offer> {
    files(&format!("{key}=@"), value.trim_start_matches('@'), Which::All)
}

fn is_given(given: &[&str], name: &str) -> bool {
    given.iter().any(|word| word.split_once('=').is_some_and(|(key, _)| key.trim_end_matches(':') == name))
}
