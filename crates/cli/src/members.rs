//! Arguments one by one: each is checked by all that the schema says of it, however many are still missing.

use cardan_proto::model::Schema;
use cardan_schema::Validator;
use serde_json::{Map, Value};

use crate::schema::Shape;

/// What a schema says of single members.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    shape: Shape<'a>,
    /// None: there is no more to say than the shape says, or it cannot be used.
    validator: Option<Validator>,
}

/// What is said of several members together, or of those that are not there.
const TOGETHER: [&str; 15] = [
    "$ref",
    "required",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "minProperties",
    "maxProperties",
    "unevaluatedProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
];

/// What is said of each member.
const APART: [&str; 4] = ["properties", "patternProperties", "additionalProperties", "propertyNames"];

impl<'a> Members<'a> {
    pub(crate) fn of(shape: Shape<'a>) -> Self {
        let validator = if shape.is_plain() { None } else { apart(&shape) };
        Self { shape, validator }
    }

    pub(crate) fn shape(&self) -> &Shape<'a> {
        &self.shape
    }

    /// What does not fit of these members, each with its place.
    pub(crate) fn check(&self, object: &Map<String, Value>) -> Vec<String> {
        let flaws = object.iter().flat_map(|(name, value)| self.shape.check_member(name, value));
        let flaws: Vec<String> = flaws.collect();
        match &self.validator {
            Some(validator) if flaws.is_empty() => {
                let flaws = validator.check(&Value::Object(object.clone()));
                flaws.into_iter().map(|flaw| flaw.under("arguments").to_string()).collect()
            }
            _ => flaws,
        }
    }

    /// The same for one.
    pub(crate) fn check_one(&self, name: &str, value: &Value) -> Vec<String> {
        self.check(&Map::from_iter([(name.to_owned(), value.clone())]))
    }
}

/// The schema without what is said of members together. Its definitions stay where references find them; what leads to something
/// that is gone is left to the whole schema, as is everything else that cannot be used.
fn apart(shape: &Shape<'_>) -> Option<Validator> {
    let (Value::Object(outer), inner) = shape.roots() else { return None };
    let mut schema = outer.clone();
    schema.retain(|word, _| !TOGETHER.contains(&word.as_str()));
    for word in APART {
        if let Some(said) = inner.get(word) {
            schema.insert(word.to_owned(), said.clone());
        }
    }
    Validator::compile(&Schema::from(&Value::Object(schema))).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// CLI-47: what is said of a member counts wherever it stands; what is said of several does not count yet.
    #[test]
    fn a_member_is_checked_by_all_that_is_said_of_it() {
        let schema = json!({
            "$ref": "#/$defs/all",
            "$defs": {
                "all": {
                    "type": "object",
                    "properties": { "n": { "$ref": "#/$defs/n" }, "word": { "type": "string", "pattern": "^[a-z]+$" } },
                    "required": ["n", "word"],
                    "additionalProperties": { "type": "string", "minLength": 2 },
                    "minProperties": 3,
                    "allOf": [{ "required": ["other"] }],
                },
                "n": { "type": "integer", "minimum": 1 },
            },
        });
        let members = Members::of(Shape::of(&schema));
        for (name, fits, does_not) in [
            ("n", json!(1), json!(0)),
            ("n", json!(2), json!("x")),
            ("word", json!("abc"), json!("ABC")),
            ("other", json!("ab"), json!("a")),
        ] {
            assert_eq!(members.check_one(name, &fits), Vec::<String>::new(), "{name}");
            let flaws = members.check_one(name, &does_not);
            assert!(flaws[0].starts_with(&format!("/arguments/{name}: ")), "{flaws:?}");
        }
    }
}
