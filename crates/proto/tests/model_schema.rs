//! The model against the schemas of all revisions and of the tasks extension: the largest
//! instance of every definition is read and written unchanged, and what is required is required.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test: helpers fail it and say what is skipped"
)]

mod model_table;

use std::collections::BTreeSet;
use std::fs;

use cardan_proto::method::Method;
use cardan_proto::model::task::UpdateTaskParams;
use cardan_proto::model::{EmptyResult, Task, listen};
use model_table::{Entry, entry, of, same, shared};
use serde_json::{Map, Value, json};

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// Each alternative of each union is taken in one of so many rounds; the widest union has eight.
const ROUNDS: usize = 8;

/// Members that a schema requires and the model does not: definition (`*` for all), member, reason.
const LENIENT: &[(&str, &str, &str)] = &[
    ("*", "resultType", "legacy results have none; absent means complete"),
    ("*", "ttlMs", "only modern results and tasks of the extension have it; absent means stale"),
    ("*", "cacheScope", "only modern results have it; absent means private"),
    ("*", "_meta", "legacy messages may leave it out; the era module asks for it"),
    ("*", "ttl", "only tasks of 2025-11-25 have it; tasks of the extension have ttlMs"),
    ("CallToolResult", "content", "servers leave it out beside structured content; it is always written"),
    ("CancelledNotification", "requestId", "2025-11-25 lets it be left out"),
    ("CancelledNotificationParams", "requestId", "2025-11-25 lets it be left out"),
    ("ElicitRequestURLParams", "elicitationId", "only 2025-11-25 has it"),
    ("EnumSchema", "enum", "one type reads all fields; a text without choices is a text"),
    ("LegacyTitledEnumSchema", "enum", "one type reads all fields; a text without choices is a text"),
    ("TitledSingleSelectEnumSchema", "oneOf", "one type reads all fields; a text without choices is a text"),
    ("UntitledSingleSelectEnumSchema", "enum", "one type reads all fields; a text without choices is a text"),
    ("*MultiSelectEnumSchema", "items", "one type reads all fields; Form::check finds it"),
    ("*MultiSelectEnumSchema", "enum", "one type reads all items; Form::check finds it"),
    ("*MultiSelectEnumSchema", "anyOf", "one type reads all items; Form::check finds it"),
    ("*MultiSelectEnumSchema", "items/type", "one type reads all items"),
    ("*Error", "error/data", "a fault is read with or without data; whoever needs the data asks for it"),
    ("Tool", "inputSchema/type", "schemas are kept verbatim; Tool::check finds it"),
    ("Tool", "outputSchema/type", "schemas are kept verbatim; Tool::check finds it"),
    ("*MetaObject", "*", "metadata is an open map; the accessor says what is missing"),
    ("*Task*", "inputRequests", "one type reads every state; Task::check_detailed finds it"),
    ("*Task*", "result", "one type reads every state; Task::check_detailed finds it"),
    ("*Task*", "error", "one type reads every state; Task::check_detailed finds it"),
];

/// A schema file: its definitions by name.
struct Schema {
    revision: String,
    definitions: Map<String, Value>,
}

impl Schema {
    fn load(path: &str) -> Option<Self> {
        let mut file: Value = serde_json::from_slice(&fs::read(shared(path)?).unwrap()).unwrap();
        let key = if file.get("$defs").is_some() { "$defs" } else { "definitions" };
        let Value::Object(definitions) = file[key].take() else { panic!("{path} has no definitions") };
        Some(Self { revision: path.to_owned(), definitions })
    }

    /// The largest instance: all members, and alternative number `round` of each union.
    fn instance(&self, schema: &Value, round: usize) -> Value {
        let pick = |list: &Value| list.as_array().map(|list| list[round.min(list.len() - 1)].clone());
        if let Some(name) = schema["$ref"].as_str() {
            return self.definition(name.rsplit('/').next().unwrap(), round);
        }
        if let Some(value) = schema.get("const").cloned().or_else(|| pick(&schema["enum"])) {
            return value;
        }
        if let Some(alternative) = pick(&schema["anyOf"]) {
            return self.instance(&alternative, round);
        }
        if let Some(all) = schema["allOf"].as_array() {
            let mut merged = Map::new();
            // A part without members of its own only says that others may join.
            let has_members = |part: &&Value| {
                ["properties", "$ref", "anyOf", "allOf"].iter().any(|key| part.get(key).is_some())
            };
            for part in all.iter().filter(has_members) {
                if let Value::Object(members) = self.instance(part, round) {
                    merged.extend(members);
                }
            }
            return Value::Object(merged);
        }
        let kind = schema["type"].as_str().map_or_else(|| pick(&schema["type"]), |kind| Some(kind.into()));
        match kind.as_ref().and_then(Value::as_str) {
            Some("string") => text(schema["format"].as_str()).into(),
            Some("integer") => json!(1),
            Some("number") => json!(0.5),
            Some("boolean") => json!(true),
            Some("null") => json!(null),
            Some("array") => json!([self.instance(&schema["items"], round)]),
            Some("object") => self.object(schema, round),
            _ if schema.get("properties").is_some() => self.object(schema, round),
            _ => json!("anything"),
        }
    }

    fn object(&self, schema: &Value, round: usize) -> Value {
        let mut members = Map::new();
        match schema["properties"].as_object().filter(|properties| !properties.is_empty()) {
            Some(properties) => {
                for (name, of) in properties {
                    members.insert(name.clone(), self.instance(of, round));
                }
            }
            None if schema["additionalProperties"].is_object() => {
                members.insert("key".to_owned(), self.instance(&schema["additionalProperties"], round));
            }
            None => {}
        }
        Value::Object(members)
    }

    fn definition(&self, name: &str, round: usize) -> Value {
        match name {
            // These two refer to each other without end.
            "JSONValue" => json!("anything"),
            "JSONObject" => json!({ "key": "anything" }),
            _ => self.instance(&self.definitions[name], round),
        }
    }

    /// The pointers of required members, as far as the definition itself says, not what it refers to.
    fn required(schema: &Value, at: &str, round: usize, found: &mut Vec<String>) {
        let list = |member: &str| schema[member].as_array().cloned().unwrap_or_default();
        for name in list("required") {
            found.push(format!("{at}/{}", name.as_str().unwrap().replace('/', "~1")));
        }
        for (name, of) in schema["properties"].as_object().into_iter().flatten() {
            Self::required(of, &format!("{at}/{}", name.replace('/', "~1")), round, found);
        }
        if schema["items"].is_object() {
            Self::required(&schema["items"], &format!("{at}/0"), round, found);
        }
        for part in list("allOf") {
            Self::required(&part, at, round, found);
        }
        let alternatives = list("anyOf");
        if let Some(alternative) = alternatives.get(round.min(alternatives.len().saturating_sub(1))) {
            Self::required(alternative, at, round, found);
        }
    }
}

fn text(format: Option<&str>) -> &'static str {
    match format {
        Some("uri") => "https://example.com/a",
        Some("uri-template") => "https://example.com/{a}",
        Some("byte") => "AAAA",
        _ => "text",
    }
}

/// Tasks of the extension have the names of the experiment in 2025-11-25, and other shapes.
fn extension_entry(name: &str) -> Option<Entry> {
    Some(match name {
        "CancelTaskResult" | "UpdateTaskResult" => Entry::Type(of::<EmptyResult>),
        "CancelledTask" | "CompletedTask" | "CreateTaskResult" | "DetailedTask" | "FailedTask"
        | "InputRequiredTask" | "WorkingTask" => Entry::Type(of::<Task>),
        "TaskStatusNotification" => Entry::Message(Method::Tasks, of::<Task>),
        "TaskSubscriptionAcknowledgedNotifications" | "TaskSubscriptionNotifications" => {
            Entry::Type(of::<listen::ListenFilter>)
        }
        "TasksExtensionCapability" => Entry::Not("settings of an extension, any JSON object"),
        "UpdateTaskRequest" => Entry::Message(Method::TasksUpdate, of::<UpdateTaskParams>),
        other => return entry(other),
    })
}

/// A schema, and the table that reads its definitions.
type Read = (Schema, fn(&str) -> Option<Entry>);

fn schemas() -> Vec<Read> {
    let mut all: Vec<Read> = Vec::new();
    for revision in REVISIONS {
        all.extend(Schema::load(&format!("spec/schema/{revision}.json")).map(|schema| (schema, entry as _)));
    }
    all.extend(
        Schema::load("spec/extensions/tasks.draft.schema.json").map(|schema| (schema, extension_entry as _)),
    );
    all
}

/// Calls `look` with each modelled definition and its instance in each round.
fn each_instance(mut look: impl FnMut(&Schema, &str, &Entry, usize, &Value)) {
    for (schema, entry) in schemas() {
        for name in schema.definitions.keys() {
            let entry =
                entry(name).unwrap_or_else(|| panic!("{} {name}: add it to the table", schema.revision));
            if matches!(entry, Entry::Not(_)) {
                continue;
            }
            let mut seen = Vec::new();
            for round in 0..ROUNDS {
                let instance = schema.definition(name, round);
                if !seen.contains(&instance) {
                    look(&schema, name, &entry, round, &instance);
                    seen.push(instance);
                }
            }
        }
    }
}

#[test]
fn largest_instances_read_back_unchanged() {
    let mut failures = Vec::new();
    each_instance(|schema, name, entry, _, instance| match entry.pass(instance) {
        Ok(written) if same(&written, instance) => {}
        Ok(written) => failures.push(format!("{} {name}:\n  {instance}\n  {written}", schema.revision)),
        Err(error) => failures.push(format!("{} {name}: {error}\n  {instance}", schema.revision)),
    });
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn required_members_are_required() {
    let (mut failures, mut used) = (Vec::new(), BTreeSet::new());
    each_instance(|schema, name, entry, round, instance| {
        let mut places = Vec::new();
        Schema::required(&schema.definitions[name], "", round, &mut places);
        for place in places {
            let is_envelope = !matches!(entry, Entry::Type(_)) && place.matches('/').count() == 1;
            let Some(without) = remove(instance, &place) else { continue };
            if is_envelope || entry.pass(&without).is_err() {
                continue;
            }
            match LENIENT.iter().position(|row| covers(row, name, &place)) {
                Some(row) => drop(used.insert(row)),
                None => failures.push(format!("{} {name}: reads without {place}", schema.revision)),
            }
        }
    });
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    let stale: Vec<_> =
        (0..LENIENT.len()).filter(|row| !used.contains(row)).map(|row| LENIENT[row]).collect();
    assert!(used.is_empty() || stale.is_empty(), "rows that excuse nothing: {stale:?}");
}

/// Every definition has an entry, and every revision has about as many as we think.
#[test]
fn every_definition_is_in_the_table() {
    let counts = [79, 83, 91, 145, 155];
    for (revision, count) in REVISIONS.iter().zip(counts) {
        let Some(schema) = Schema::load(&format!("spec/schema/{revision}.json")) else { continue };
        assert_eq!(schema.definitions.len(), count, "{revision}");
        let missing: Vec<&String> = schema.definitions.keys().filter(|name| entry(name).is_none()).collect();
        assert!(missing.is_empty(), "{revision}: {missing:?}");
    }
}

/// Does a row of the lenient list excuse this place?
fn covers((definition, member, _): &(&str, &str, &str), name: &str, place: &str) -> bool {
    let of_definition = match (definition.strip_prefix('*'), definition.strip_suffix('*')) {
        (Some(""), _) => true,
        (Some(inner), Some(_)) => name.contains(inner.trim_end_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == *definition,
    };
    of_definition && (*member == "*" || place.ends_with(&format!("/{member}")))
}

fn remove(instance: &Value, place: &str) -> Option<Value> {
    let mut without = instance.clone();
    let (parent, member) = place.rsplit_once('/')?;
    without.pointer_mut(parent)?.as_object_mut()?.remove(&member.replace("~1", "/"))?;
    Some(without)
}
