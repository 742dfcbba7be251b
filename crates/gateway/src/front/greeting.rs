//! What clients are told of all servers as one, and of each alone.

use bytes::Bytes;
use cardan_client::Settled;
use cardan_proto::jsonrpc::splice::{Edit, splice};
use cardan_proto::limits::Limits;
use cardan_proto::model::{skill, task};
use cardan_proto::session::config::{Config, Interests, Role};
use serde_json::{Value, json};

use super::view::{Known, Scope, Unknown, View};
use crate::catalog::Kind;
use crate::relay;

/// The configuration of the sessions with clients.
pub(super) fn config(scope: &Scope, view: &View, limits: &Limits) -> Config {
    match (scope, view.known.first()) {
        (Scope::One(_), Some(known)) => alone(known, view, limits),
        (Scope::One(name), None) => ours(name, None, &capabilities(view), limits),
        (Scope::All, _) => ours("cardan", instructions(view), &capabilities(view), limits),
    }
}

/// The lists, as capabilities call them.
const LISTS: [(&str, Kind); 3] =
    [("tools", Kind::Tools), ("prompts", Kind::Prompts), ("resources", Kind::Resources)];

/// As the server told it itself, without what is hidden. Its lists may change by our rules, whether it tells changes or not.
fn alone(known: &Known, view: &View, limits: &Limits) -> Config {
    let greeting = known.catalog.greeting.as_ref().map(|raw| Bytes::copy_from_slice(raw.as_str().as_bytes()));
    let mut config = relay::config(&Settled { revision: known.catalog.revision, greeting }, limits);
    if !view.shows(known) {
        config.instructions = None;
    }
    let mut capabilities = known.capabilities();
    for (name, _) in LISTS {
        if let Some(list) = capabilities.get_mut(name).and_then(Value::as_object_mut) {
            list.insert("listChanged".to_owned(), json!(true));
        }
    }
    // What skills are made of is hidden, and so are they.
    if !view.offers(Kind::Resources)
        && let Some(extensions) = capabilities.get_mut("extensions").and_then(Value::as_object_mut)
    {
        extensions.remove(skill::EXTENSION);
    }
    if let Value::Object(members) = &capabilities {
        let hidden = |name: &str| LISTS.iter().any(|(list, kind)| *list == name && !view.offers(*kind));
        let members: Vec<_> = members
            .iter()
            .map(|(name, value)| (name.as_str(), (!hidden(name)).then(|| value.to_string())))
            .collect();
        let edits: Vec<_> = members
            .iter()
            .map(|(name, value)| match value {
                Some(value) => Edit::Set(name, value.as_bytes()),
                None => Edit::Drop(name),
            })
            .collect();
        config.capabilities = splice(&config.capabilities, &edits).unwrap_or(config.capabilities);
    }
    config
}

fn ours(name: &str, instructions: Option<String>, capabilities: &Value, limits: &Limits) -> Config {
    let identity = json!({ "name": name, "version": env!("CARGO_PKG_VERSION") });
    let bytes = |value: &Value| Bytes::from(value.to_string());
    let mut config = Config::new(Role::Server, bytes(&identity), bytes(capabilities));
    config.instructions = instructions.map(|text| bytes(&Value::from(text)));
    config.interests = Interests::Handed;
    config.limits = limits.clone();
    config
}

/// What some server has, or may have of which nothing is known yet: a client looks but once. A list that is announced can
/// grow, so one that comes late is told of as a change; of the rest only those that start just now may come to have it.
fn capabilities(view: &View) -> Value {
    let starting = view.unknown == Unknown::Starting;
    let caps: Vec<_> = view.known.iter().map(Known::caps).collect();
    let mut all = json!({});
    for (name, _) in LISTS.into_iter().filter(|(_, kind)| view.offers(*kind)) {
        all[name] = json!({ "listChanged": true });
    }
    if view.offers(Kind::Resources)
        && (starting || caps.iter().any(|caps| caps.resources.is_some_and(|list| list.subscribe)))
    {
        all["resources"]["subscribe"] = json!(true);
    }
    let completable = view.offers(Kind::Prompts) || view.offers(Kind::Resources);
    if completable && (starting || caps.iter().any(|caps| caps.completions)) {
        all["completions"] = json!({});
    }
    if starting || caps.iter().any(|caps| caps.logging) {
        all["logging"] = json!({});
    }
    for known in view.known.iter().filter(|_| view.offers(Kind::Tools)) {
        let theirs = known.capabilities();
        if let Some(tasks) = theirs.get("tasks") {
            join(&mut all, &json!({ "tasks": tasks }));
        }
        if let Some(tasks) = theirs.get("extensions").and_then(|extensions| extensions.get(task::EXTENSION)) {
            join(&mut all, &json!({ "extensions": { task::EXTENSION: tasks } }));
        }
    }
    let skilled = view.known.iter().filter(|_| view.offers(Kind::Resources)).filter_map(Known::skills);
    let coming = (starting && view.offers(Kind::Resources)).then(|| json!({}));
    for skills in skilled.chain(coming) {
        join(&mut all, &json!({ "extensions": { skill::EXTENSION: skills } }));
    }
    all
}

/// Objects grow together; of other values the first stays.
fn join(all: &mut Value, more: &Value) {
    let (Value::Object(all), Value::Object(more)) = (all, more) else { return };
    for (name, value) in more {
        match all.get_mut(name) {
            Some(there) => join(there, value),
            None => drop(all.insert(name.clone(), value.clone())),
        }
    }
}

/// What each server wants to be known, under its name. One that has nothing to say is not mentioned, nor is one of which
/// nothing may be seen.
fn instructions(view: &View) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Greeting {
        #[serde(default)]
        instructions: Option<String>,
    }
    let of = |known: &Known| {
        let greeting: Greeting = known.catalog.greeting.as_ref()?.read().ok()?;
        let text = greeting.instructions.filter(|text| !text.trim().is_empty())?;
        Some(format!("# {}\n\n{}", known.upstream.name(), text.trim()))
    };
    let parts: Vec<_> = view.known.iter().filter(|known| view.shows(known)).filter_map(of).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_grow_together() {
        let mut all = json!({"a": {"x": 1}, "b": true});
        join(&mut all, &json!({"a": {"x": 2, "y": {}}, "b": false, "c": {}}));
        assert_eq!(all, json!({"a": {"x": 1, "y": {}}, "b": true, "c": {}}));
    }
}
