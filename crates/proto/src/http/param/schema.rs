//! Finds the annotations of an input schema, and the places where none may be.

use std::collections::HashSet;

use ::http::HeaderName;
use serde_json::{Map, Value};

use super::{ANNOTATION, Defect, Kind, Mirror, Reason, pointer};
use crate::http::headers::{MCP_PARAM_PREFIX, is_token_byte};

/// Keywords whose value is one schema, or an array of them.
const ONE_OR_MORE: &[&str] = &[
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];

/// Keywords whose value maps names to schemas. Those of `$defs` are only reached through `$ref`.
const BY_NAME: &[&str] = &["patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"];

pub(super) fn collect(schema: &Value) -> Result<Vec<Mirror>, Defect> {
    let mut walk = Walk::default();
    walk.schema(schema, Reach::Root)?;
    Ok(walk.found)
}

/// How the schema at hand was reached.
#[derive(Clone, Copy)]
enum Reach {
    Root,
    Properties,
    Through(&'static str),
}

impl Reach {
    fn through(self, keyword: &'static str) -> Self {
        match self {
            Self::Root | Self::Properties => Self::Through(keyword),
            Self::Through(first) => Self::Through(first),
        }
    }

    fn property(self) -> Self {
        match self {
            Self::Root | Self::Properties => Self::Properties,
            Self::Through(first) => Self::Through(first),
        }
    }
}

/// Recurses as deep as the schema nests, which the frame's depth bound limits.
#[derive(Default)]
struct Walk<'a> {
    /// Every step from the root, keywords included: for reports.
    place: Vec<&'a str>,
    /// The property names alone: where the value will be.
    path: Vec<&'a str>,
    headers: HashSet<HeaderName>,
    found: Vec<Mirror>,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value, reach: Reach) -> Result<(), Defect> {
        let Value::Object(members) = schema else { return Ok(()) };
        if let Some(annotation) = members.get(ANNOTATION) {
            let mirror = self.mirror(annotation, members, reach).map_err(|reason| self.defect(reason))?;
            self.found.push(mirror);
        }
        for (keyword, value) in members {
            self.place.push(keyword);
            self.keyword(keyword, value, reach)?;
            self.place.pop();
        }
        Ok(())
    }

    /// Values that are data (`default`, `enum`, `examples`) and unknown keywords are no schemas.
    fn keyword(&mut self, keyword: &str, value: &'a Value, reach: Reach) -> Result<(), Defect> {
        if keyword == "properties" {
            for (name, schema) in value.as_object().into_iter().flatten() {
                self.place.push(name);
                self.path.push(name);
                self.schema(schema, reach.property())?;
                self.path.pop();
                self.place.pop();
            }
        } else if let Some(known) = find(keyword, ONE_OR_MORE) {
            let reach = reach.through(known);
            match value {
                Value::Array(several) => several.iter().try_for_each(|one| self.schema(one, reach))?,
                one => self.schema(one, reach)?,
            }
        } else if let Some(known) = find(keyword, BY_NAME) {
            for (name, schema) in value.as_object().into_iter().flatten() {
                self.place.push(name);
                self.schema(schema, reach.through(known))?;
                self.place.pop();
            }
        }
        Ok(())
    }

    fn mirror(
        &mut self,
        annotation: &Value,
        members: &Map<String, Value>,
        reach: Reach,
    ) -> Result<Mirror, Reason> {
        match reach {
            Reach::Root => return Err(Reason::Root),
            Reach::Through(keyword) => return Err(Reason::Through(keyword)),
            Reach::Properties => {}
        }
        let name = annotation.as_str().ok_or(Reason::NotText)?;
        if name.is_empty() {
            return Err(Reason::Empty);
        }
        if !name.bytes().all(is_token_byte) {
            return Err(Reason::NotAToken);
        }
        // What is left to fail is a length that no header name has.
        let header = HeaderName::from_bytes(format!("{MCP_PARAM_PREFIX}{name}").as_bytes())
            .map_err(|_| Reason::NotAToken)?;
        let kind = kind_of(members.get("type"))?;
        if !self.headers.insert(header.clone()) {
            return Err(Reason::Duplicate);
        }
        Ok(Mirror { path: self.path.iter().map(|name| (*name).to_owned()).collect(), header, kind })
    }

    fn defect(&self, reason: Reason) -> Defect {
        Defect { at: pointer(&self.place), reason }
    }
}

fn find(keyword: &str, table: &[&'static str]) -> Option<&'static str> {
    table.iter().find(|known| **known == keyword).copied()
}

/// A parameter may also be null, because null means that there is no header.
fn kind_of(declared: Option<&Value>) -> Result<Kind, Reason> {
    let name = match declared {
        Some(Value::String(name)) => name.as_str(),
        Some(Value::Array(names)) => {
            let mut named = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            match (named.next(), named.next()) {
                (Some(name), None) => name,
                _ => return Err(Reason::NotScalar),
            }
        }
        _ => return Err(Reason::NotScalar),
    };
    match name {
        "string" => Ok(Kind::String),
        "integer" => Ok(Kind::Integer),
        "boolean" => Ok(Kind::Boolean),
        "number" => Err(Reason::Number),
        _ => Err(Reason::NotScalar),
    }
}
