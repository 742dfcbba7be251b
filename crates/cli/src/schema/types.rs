//! Which types a schema allows, and what a word means by them.
//!
//! Of a word that could be several things, it is the first of these that the schema allows:
//!
//! 1. text, where nothing else is allowed, whatever it looks like;
//! 2. the number, the truth value, the null, the list or the object that it is in JSON;
//! 3. text;
//! 4. one item of a list.
//!
//! Schemas are foreign: how much of one is looked at has a bound, and what lies behind it allows anything.

use serde_json::Value;

use super::{Shape, described, is_of, type_of};

/// How often a key is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    Once,
    /// Where a list is allowed, each of them is a part of it.
    Several,
}

/// So many nodes are looked at for one question: parts that refer to each other are more than anybody can count.
const MAX_NODES: usize = 500;

/// So many types there are. A longer list says nothing.
const TYPES: usize = 7;

/// What holds nodes that each may say more.
const BRANCHES: [&str; 2] = ["anyOf", "oneOf"];

impl<'a> Shape<'a> {
    /// The value that `text` means for the member `name`.
    pub(crate) fn typed(&self, name: &str, text: &str, times: Times) -> Result<Value, String> {
        let Some(member) = self.member(name) else { return Ok(guessed(text)) };
        let left = &mut { MAX_NODES };
        if times == Times::Several
            && self.is_list(name)
            && let Some(list) = self.as_list(member, text, left)
        {
            return Ok(list);
        }
        self.typed_as(member, text, left)
    }

    fn typed_as(&self, node: &'a Value, text: &str, left: &mut usize) -> Result<Value, String> {
        let types = self.types(node);
        let is_text = || Value::String(text.to_owned());
        match types[..] {
            [] => return Ok(guessed(text)),
            ["string"] => return Ok(is_text()),
            _ => {}
        }
        let may_be_text = types.contains(&"string");
        let json = serde_json::from_str::<Value>(text.trim()).ok();
        let json = json.filter(|value| types.iter().any(|kind| *kind != "string" && is_of(kind, value)));
        let json = json.filter(|value| !(may_be_text && is_name(value, text)));
        if let Some(value) = json.as_ref().filter(|value| self.allows(node, value, &mut { MAX_NODES })) {
            return Ok(value.clone());
        }
        if may_be_text {
            return Ok(is_text());
        }
        let list = types.contains(&"array").then(|| self.as_list(node, text, left)).flatten();
        // A value that is not among those that are listed is told by whoever looks for that.
        list.or(json).ok_or_else(|| {
            let wanted: Vec<&str> = types.iter().map(|kind| described(kind)).collect();
            format!("{text:?} is not {}", wanted.join(" or "))
        })
    }

    /// A list in JSON, or one of a single item.
    fn as_list(&self, node: &'a Value, text: &str, left: &mut usize) -> Option<Value> {
        *left = left.checked_sub(1)?;
        if text.trim_start().starts_with('[') {
            return serde_json::from_str(text.trim()).ok().filter(Value::is_array);
        }
        let items = self.items(node);
        let item = match items.is_empty() {
            true => guessed(text),
            false => items.into_iter().find_map(|items| self.typed_as(items, text, left).ok())?,
        };
        Some(Value::Array(vec![item]))
    }

    /// The types a node allows; none: any, or more than can be told.
    pub(super) fn types(&self, node: &'a Value) -> Vec<&'a str> {
        self.types_within(node, &mut { MAX_NODES })
    }

    fn types_within(&self, node: &'a Value, left: &mut usize) -> Vec<&'a str> {
        let Some(rest) = left.checked_sub(1) else { return Vec::new() };
        *left = rest;
        let node = self.resolve(node);
        let mut types = said(node);
        for part in parts(node, "allOf") {
            types = both(types, self.types_within(part, left));
        }
        for word in BRANCHES {
            types = both(types, self.types_of_any(parts(node, word), left));
        }
        types
    }

    fn types_of_any(&self, branches: &'a [Value], left: &mut usize) -> Vec<&'a str> {
        let mut types = Vec::new();
        for branch in branches {
            let each = self.types_within(branch, left);
            // One branch that takes anything makes the whole take anything.
            if each.is_empty() {
                return each;
            }
            types.extend(each);
        }
        distinct(types.into_iter())
    }

    /// Is this value allowed, as far as types and listed values say?
    fn allows(&self, node: &'a Value, value: &Value, left: &mut usize) -> bool {
        let Some(rest) = left.checked_sub(1) else { return true };
        *left = rest;
        let node = self.resolve(node);
        let types = said(node);
        let listed = node.get("enum").and_then(Value::as_array);
        (types.is_empty() || types.iter().any(|kind| is_of(kind, value)))
            && listed.is_none_or(|values| values.contains(value))
            && node.get("const").is_none_or(|only| only == value)
            && parts(node, "allOf").iter().all(|part| self.allows(part, value, left))
            && BRANCHES.into_iter().all(|word| {
                let branches = parts(node, word);
                branches.is_empty() || branches.iter().any(|branch| self.allows(branch, value, left))
            })
    }

    /// What a list holds, wherever a node says it.
    pub(super) fn items(&self, node: &'a Value) -> Vec<&'a Value> {
        let (mut found, mut open) = (Vec::new(), vec![node]);
        for _ in 0..MAX_NODES {
            let Some(node) = open.pop().map(|node| self.resolve(node)) else { break };
            found.extend(node.get("items"));
            // The last one is looked at next.
            let inside =
                ["oneOf", "anyOf", "allOf"].into_iter().flat_map(|word| parts(node, word).iter().rev());
            open.extend(inside.take(MAX_NODES));
        }
        found
    }

    /// The words to choose from, when there is nothing else.
    pub(super) fn choices(&self, node: &'a Value) -> Option<Vec<&'a str>> {
        self.choices_within(node, &mut { MAX_NODES })
    }

    fn choices_within(&self, node: &'a Value, left: &mut usize) -> Option<Vec<&'a str>> {
        *left = left.checked_sub(1)?;
        let node = self.resolve(node);
        if let Some(values) = node.get("enum").and_then(Value::as_array) {
            return values.iter().map(Value::as_str).collect();
        }
        match parts(node, "oneOf") {
            [] => parts(node, "allOf").iter().find_map(|part| self.choices_within(part, left)),
            branches => branches.iter().map(|branch| branch.get("const")?.as_str()).collect(),
        }
    }
}

/// What a node says of types by itself; none: nothing.
fn said(node: &Value) -> Vec<&str> {
    let types = match node.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(kinds)) if kinds.len() <= TYPES => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let listed = node.get("enum").and_then(Value::as_array).into_iter().flatten().chain(node.get("const"));
    both(types, distinct(listed.map(type_of)))
}

fn parts<'a>(node: &'a Value, word: &str) -> &'a [Value] {
    node.get(word).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// What both allow; of nothing in common, nothing is known.
fn both<'a>(one: Vec<&'a str>, other: Vec<&'a str>) -> Vec<&'a str> {
    if one.is_empty() || other.is_empty() {
        return if one.is_empty() { other } else { one };
    }
    let common = one.into_iter().filter_map(|kind| match kind {
        "number" if !other.contains(&"number") => other.contains(&"integer").then_some("integer"),
        "integer" if other.contains(&"number") => Some(kind),
        kind => other.contains(&kind).then_some(kind),
    });
    distinct(common)
}

fn distinct<'a>(kinds: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for kind in kinds {
        if !seen.contains(&kind) {
            seen.push(kind);
        }
    }
    seen
}

/// Without a schema: JSON where it is JSON, else text.
fn guessed(text: &str) -> Value {
    let json = serde_json::from_str(text).ok().filter(|value| !is_name(value, text));
    json.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Who writes `12e4` where it could be text means a name, not a power of ten.
fn is_name(value: &Value, text: &str) -> bool {
    value.is_number() && text.contains(['e', 'E'])
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    /// CLI-46: what a word means where a schema allows several things.
    #[test]
    fn cli_46_a_word_means_the_first_that_is_allowed() {
        let text = json!({"type": "string"});
        let whole = json!({"type": "integer"});
        let words = json!({"type": "array", "items": {"type": "string"}});
        let numbers = json!({"type": "array", "items": {"type": "integer"}});
        let any = |parts: &[&Value]| json!({ "anyOf": parts });
        for (schema, word, want) in [
            (text.clone(), "5", json!("5")),
            (text.clone(), "null", json!("null")),
            (any(&[&text, &whole]), "5", json!(5)),
            (any(&[&whole, &text]), "5", json!(5)),
            (any(&[&text, &whole]), "5.5", json!("5.5")),
            (any(&[&text, &whole]), "12e4", json!("12e4")),
            (any(&[&text, &whole]), "true", json!("true")),
            (any(&[&text, &json!({"type": "null"})]), "5", json!("5")),
            (any(&[&text, &json!({"type": "null"})]), "null", json!(null)),
            (json!({"type": ["string", "null"]}), "null", json!(null)),
            (any(&[&whole, &json!({"type": "null"})]), "5", json!(5)),
            (any(&[&text, &words]), "hello", json!("hello")),
            (any(&[&text, &words]), "[\"a\"]", json!(["a"])),
            (any(&[&numbers, &words]), "a", json!(["a"])),
            (any(&[&numbers, &words]), "1", json!([1])),
            (json!({"enum": ["1", 2]}), "1", json!("1")),
            (json!({"enum": ["1", 2]}), "2", json!(2)),
            (any(&[&json!({"const": "5"}), &json!({"const": 6})]), "5", json!("5")),
            (json!({"allOf": [text]}), "5", json!("5")),
            (json!({"allOf": [{"description": "x"}, {"enum": ["5", "6"]}]}), "5", json!("5")),
            (json!({"type": ["string", "integer"], "allOf": [whole]}), "5", json!(5)),
            (json!({"type": ["string", "integer"], "allOf": [text]}), "5", json!("5")),
            (json!({"type": "number", "oneOf": [whole, text]}), "5", json!(5)),
            (any(&[&json!({"enum": [1, 2]}), &json!({"type": "array", "items": whole})]), "3", json!([3])),
            (json!({}), "5", json!(5)),
            (any(&[&text, &json!({})]), "5", json!(5)),
        ] {
            let schema = json!({ "properties": { "x": schema } });
            assert_eq!(Shape::of(&schema).typed("x", word, Times::Once), Ok(want), "{schema} {word}");
        }
        let schema = json!({ "properties": { "x": any(&[&text, &words]) } });
        assert_eq!(Shape::of(&schema).typed("x", "a", Times::Several), Ok(json!(["a"])));
        let schema = json!({ "properties": { "x": { "enum": [1, 2] } } });
        assert_eq!(Shape::of(&schema).typed("x", "3", Times::Once), Ok(json!(3)), "told with what is listed");
    }

    /// T18: a schema whose parts refer to each other over and over costs no more than others.
    #[test]
    fn t18_what_a_schema_costs_has_a_bound() {
        let again = json!({"$ref": "#/properties/x"});
        let many = vec![again.clone(); 50];
        for words in [
            json!({ "anyOf": many }),
            json!({ "oneOf": many }),
            json!({ "allOf": many }),
            json!({ "anyOf": [{ "allOf": many }, { "oneOf": many }] }),
            json!({ "type": "array", "items": again }),
            json!({ "type": "array", "anyOf": [{ "items": again }, { "items": again }] }),
        ] {
            let schema = json!({ "properties": { "x": words } });
            let shape = Shape::of(&schema);
            for times in [Times::Once, Times::Several] {
                let _ = shape.typed("x", "a", times);
            }
            let _ = (shape.kind("x"), shape.example("x"), shape.values("x"), shape.choices_of("x"));
            let _ = shape.check(&json!({ "x": ["a"] }));
        }
        let names: Vec<String> = (0..30_000).map(|nth| format!("n{nth}")).collect();
        let described: Map<String, Value> = names.iter().map(|name| (name.clone(), json!({}))).collect();
        let schema = json!({ "properties": described, "required": names });
        assert_eq!(Shape::of(&schema).signature().split(' ').next(), Some("n0=<any>"));
        let schema = json!({ "properties": { "x": { "type": names } }, "required": names });
        let shape = Shape::of(&schema);
        assert_eq!((shape.kind("x").as_str(), shape.contradicted()), ("any", None));
    }
}
