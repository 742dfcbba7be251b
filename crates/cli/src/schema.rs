//! Just enough of JSON Schema to type what was typed and to tell plain mistakes in plain words.
//!
//! It looks at types, enumerations, required members, members and items, through local references. What it does not
//! know it lets pass; a schema that says more is checked in full besides ([`Shape::is_plain`]).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

mod types;

pub(crate) use self::types::Times;

/// The schema of a tool's arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    root: &'a Value,
}

/// References that lead to references.
const MAX_HOPS: usize = 16;

/// Deeper values are left to the server.
const MAX_DEPTH: usize = 16;

impl<'a> Shape<'a> {
    pub(crate) fn of(root: &'a Value) -> Self {
        Self { root }
    }

    /// The whole schema, and the one that says what members there are: they differ where the first only refers to it.
    pub(crate) fn roots(&self) -> (&'a Value, &'a Value) {
        (self.root, self.resolve(self.root))
    }

    /// The names it takes, when it takes no others.
    ///
    /// Most schemas forget to say that they are closed, and servers then ignore what is misspelled;
    /// so members count as closed unless the schema opens them expressly.
    pub(crate) fn closed_names(&self) -> Option<Vec<&'a str>> {
        let root = self.resolve(self.root);
        let properties = root.get("properties").and_then(Value::as_object);
        let names = || properties.into_iter().flat_map(Map::keys).map(String::as_str);
        // What is needed is taken, whether it is described or not.
        let needed = required(root).filter(|name| !properties.is_some_and(|map| map.contains_key(*name)));
        let composed = ["allOf", "anyOf", "oneOf", "if", "patternProperties"]
            .iter()
            .any(|word| root.get(word).is_some());
        match root.get("additionalProperties") {
            _ if composed => None,
            Some(Value::Bool(false)) => Some(names().collect()),
            Some(Value::Bool(true) | Value::Object(_)) => None,
            _ => names().next().map(|_| names().chain(needed).collect()),
        }
    }

    /// A name that it needs and does not allow, so that nothing fits.
    pub(crate) fn contradicted(&self) -> Option<&'a str> {
        let known: BTreeSet<&str> = self.closed_names()?.into_iter().collect();
        required(self.resolve(self.root)).find(|name| !known.contains(name))
    }

    /// Required names that `object` lacks.
    pub(crate) fn missing(&self, object: &Map<String, Value>) -> Vec<String> {
        required(self.resolve(self.root))
            .filter(|name| !object.contains_key(*name))
            .map(str::to_owned)
            .collect()
    }

    /// How the arguments are written: required ones bare and first, others in brackets.
    pub(crate) fn signature(&self) -> String {
        let required: BTreeSet<&str> = required(self.resolve(self.root)).collect();
        let words = self.names().into_iter().map(|name| match required.contains(&name) {
            true => format!("{name}=<{}>", self.kind(name)),
            false => format!("[{name}=<{}>]", self.kind(name)),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// What a member takes, in a word.
    pub(crate) fn kind(&self, name: &str) -> String {
        self.member(name).map_or_else(|| "any".to_owned(), |member| self.kind_of(member))
    }

    fn kind_of(&self, node: &Value) -> String {
        if let Some(values) = self.choices(node) {
            return values.join("|");
        }
        match self.types(node).as_slice() {
            [] => "any".to_owned(),
            types => types.join("|"),
        }
    }

    /// How a member is written as a word.
    pub(crate) fn example(&self, name: &str) -> String {
        let Some(member) = self.member(name).filter(|_| self.is_list(name)) else {
            return format!("{name}=<{}>", self.kind(name));
        };
        let item = self.items(member).first().map_or_else(|| "any".to_owned(), |items| self.kind_of(items));
        format!("{name}=<{item}>, again for each")
    }

    /// The members that it names or needs, those that it needs first and in the order in which it says so.
    pub(crate) fn names(&self) -> Vec<&'a str> {
        let root = self.resolve(self.root);
        let mut place = BTreeMap::new();
        for (nth, name) in required(root).enumerate() {
            place.entry(name).or_insert(nth);
        }
        let names = root.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let names = names.map(String::as_str);
        // Some are needed and described nowhere.
        let undescribed = place.keys().copied().filter(|name| self.member(name).is_none());
        let mut names: Vec<&str> = names.chain(undescribed).collect();
        names.sort_by_key(|name| place.get(name).copied().unwrap_or(usize::MAX));
        names
    }

    /// What it says of a member.
    pub(crate) fn about(&self, name: &str) -> Option<&'a str> {
        let member = self.resolve(self.root).get("properties")?.get(name)?;
        let said = member.get("description").or_else(|| self.resolve(member).get("description"))?;
        said.as_str()
    }

    /// The values that it lists for a member, or for what a member is a list of.
    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        let Some(member) = self.member(name) else { return Vec::new() };
        let items = if self.is_list(name) { self.items(member) } else { Vec::new() };
        let member = items.first().map_or(member, |items| self.resolve(items));
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Some(values) = member.get("enum").and_then(Value::as_array) {
            return values.iter().map(word).collect();
        }
        if let Some(value) = member.get("const") {
            return vec![word(value)];
        }
        if let Some(words) = self.choices(member) {
            return words.into_iter().map(str::to_owned).collect();
        }
        match self.types(member).contains(&"boolean") {
            true => vec!["true".to_owned(), "false".to_owned()],
            false => Vec::new(),
        }
    }

    pub(crate) fn is_list(&self, name: &str) -> bool {
        self.member(name).is_some_and(|member| self.types(member).contains(&"array"))
    }

    /// Can a member be nothing but true or false?
    pub(crate) fn is_yes_or_no(&self, name: &str) -> bool {
        self.member(name).is_some_and(|member| self.types(member) == ["boolean"])
    }

    /// Does it say nothing beyond what [`Shape::check`] looks at? Most do, and need no more.
    pub(crate) fn is_plain(&self) -> bool {
        let closed = matches!(self.root.get("additionalProperties"), None | Some(Value::Bool(_)));
        let Value::Object(root) = self.root else { return false };
        let rest = root.iter().filter(|(word, _)| *word != "additionalProperties");
        closed && rest.into_iter().all(|(word, value)| is_plain(word, value, MAX_DEPTH))
    }

    /// Everything that does not fit, each with its place.
    pub(crate) fn check(&self, value: &Value) -> Vec<String> {
        let mut flaws = Vec::new();
        self.check_at(self.root, value, "/arguments", MAX_DEPTH, &mut flaws);
        flaws
    }

    fn check_at(&self, node: &Value, value: &Value, at: &str, depth: usize, flaws: &mut Vec<String>) {
        let node = self.resolve(node);
        if depth == 0 {
            return;
        }
        let types = self.types(node);
        if !types.is_empty() && !types.iter().any(|kind| is_of(kind, value)) {
            let wanted: Vec<&str> = types.iter().map(|kind| described(kind)).collect();
            return flaws.push(format!("{at}: is not {}", wanted.join(" or ")));
        }
        if let Some(choices) = node.get("enum").and_then(Value::as_array)
            && !choices.contains(value)
        {
            return flaws.push(format!("{at}: is not one of {}", listed(choices)));
        }
        if let Value::Object(object) = value {
            for name in required(node).filter(|name| !object.contains_key(*name)) {
                flaws.push(format!("{at}/{name}: is missing"));
            }
            let properties = node.get("properties").and_then(Value::as_object);
            for (name, value) in object {
                if let Some(member) = properties.and_then(|properties| properties.get(name)) {
                    self.check_at(member, value, &format!("{at}/{name}"), depth - 1, flaws);
                }
            }
        }
        if let (Value::Array(list), Some(items)) = (value, node.get("items")) {
            for (index, value) in list.iter().enumerate() {
                self.check_at(items, value, &format!("{at}/{index}"), depth - 1, flaws);
            }
        }
    }

    /// What does not fit of the value for one member.
    pub(crate) fn check_member(&self, name: &str, value: &Value) -> Vec<String> {
        let mut flaws = Vec::new();
        if let Some(member) = self.member(name) {
            self.check_at(member, value, &format!("/arguments/{name}"), MAX_DEPTH, &mut flaws);
        }
        flaws
    }

    /// The words that a member can be; none: other things too.
    pub(crate) fn choices_of(&self, name: &str) -> Vec<String> {
        let words = self.member(name).and_then(|member| self.choices(member));
        words.unwrap_or_default().into_iter().map(str::to_owned).collect()
    }

    /// What a member is when nobody says.
    pub(crate) fn default_of(&self, name: &str) -> Option<&'a Value> {
        self.described(name, "default")
    }

    /// What a member is for.
    pub(crate) fn description_of(&self, name: &str) -> Option<&'a str> {
        self.described(name, "description")?.as_str()
    }

    /// What a member is called for people.
    pub(crate) fn title_of(&self, name: &str) -> Option<&'a str> {
        self.described(name, "title")?.as_str()
    }

    /// Beside a reference stand words that count more than those where it leads.
    fn described(&self, name: &str, word: &str) -> Option<&'a Value> {
        let here = self.resolve(self.root).get("properties")?.get(name)?;
        here.get(word).or_else(|| self.resolve(here).get(word))
    }

    fn member(&self, name: &str) -> Option<&'a Value> {
        Some(self.resolve(self.resolve(self.root).get("properties")?.get(name)?))
    }

    /// Follows local references; what leads nowhere stays as it is.
    fn resolve(&self, node: &'a Value) -> &'a Value {
        let mut node = node;
        for _ in 0..MAX_HOPS {
            let reference = node.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
            match reference.and_then(|pointer| self.root.pointer(pointer)) {
                Some(next) => node = next,
                None => return node,
            }
        }
        node
    }
}

/// Is it something that is looked at, or that asks for nothing?
fn is_plain(word: &str, value: &Value, depth: usize) -> bool {
    let all = |node: &Value| {
        let members = node.as_object();
        members.is_some_and(|members| members.iter().all(|(word, value)| is_plain(word, value, depth - 1)))
    };
    match word {
        "$schema" | "$comment" | "title" | "description" | "default" | "examples" | "format" => true,
        "type" | "enum" | "required" => true,
        "properties" => depth > 1 && value.as_object().is_some_and(|members| members.values().all(all)),
        "items" => depth > 1 && all(value),
        _ => false,
    }
}

fn required(node: &Value) -> impl Iterator<Item = &str> {
    node.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match (kind, value) {
        // A whole number may be written with a fraction of zero.
        ("integer", Value::Number(number)) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        (kind, value) => kind == type_of(value),
    }
}

fn described(kind: &str) -> &str {
    match kind {
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list in JSON",
        "object" => "an object in JSON",
        "string" => "text",
        other => other,
    }
}

fn listed(values: &[Value]) -> String {
    let words = values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// CLI-46: what is needed stands first, in the order in which the schema needs it, not by the alphabet.
    #[test]
    fn signatures_keep_the_order_of_what_is_needed() {
        let schema = json!({
            "properties": { "content": { "type": "string" }, "b": { "type": "boolean" }, "path": { "type": "string" } },
            "required": ["path", "content"],
        });
        assert_eq!(Shape::of(&schema).signature(), "path=<string> content=<string> [b=<boolean>]");
    }

    /// CLI-47: what is needed and described nowhere is taken, unless nothing else than what is described may be there.
    #[test]
    fn cli_47_what_is_needed_is_known() {
        let mut schema = json!({ "properties": { "a": {} }, "required": ["b"] });
        let shape = Shape::of(&schema);
        assert_eq!(shape.closed_names(), Some(vec!["a", "b"]));
        assert_eq!((shape.signature().as_str(), shape.contradicted()), ("b=<any> [a=<any>]", None));
        schema["additionalProperties"] = json!(false);
        assert_eq!(Shape::of(&schema).contradicted(), Some("b"));
        schema["additionalProperties"] = json!({ "type": "string" });
        assert_eq!(Shape::of(&schema).contradicted(), None);
    }
}
