//! What a schema and a value may cost, worked out before any checking.
//!
//! References make a small schema large: ten definitions that each name the next one twice are a
//! thousand subschemas. So a schema is weighed with its references followed, and a value is checked
//! only if the weight times the size of the value is bearable.

use std::collections::HashMap;

use cardan_proto::limits::Limits;
use serde_json::{Map, Value};

use crate::error::SchemaError;
use crate::references::{Place, References};

/// Nesting of a schema as written.
pub const SCHEMA_DEPTH: usize = 64;
/// Objects in a schema as written.
pub const SCHEMA_OBJECTS: usize = 8192;
/// Subschemas with every reference followed once.
pub const SCHEMA_WEIGHT: u64 = 100_000;
/// Weight of the schema times values in the instance.
pub const WORK: u64 = 100_000_000;
/// Work spent on finding out where a value does not fit.
pub const EXPLAIN_WORK: u64 = 1_000_000;
/// Nesting of an instance, as everywhere.
pub const INSTANCE_DEPTH: usize = Limits::DEFAULT.depth;

/// What one visit of a schema costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Weight {
    /// Subschemas, references followed.
    pub(crate) subschemas: u64,
    /// References that lead back to where they came from.
    pub(crate) loops: u64,
}

/// How large a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size {
    pub(crate) values: u64,
    pub(crate) depth: usize,
}

impl Weight {
    /// Weighs a schema, or says why it is too heavy.
    pub(crate) fn of(schema: &Value) -> Result<Self, SchemaError> {
        written(schema)?;
        let references = References::of(schema);
        let weight =
            Scale { references, known: HashMap::new() }.weigh(Place::root(schema), Names::Keywords)?;
        if weight.subschemas > SCHEMA_WEIGHT {
            return Err(SchemaError::TooLarge("it has too many subschemas with its references followed"));
        }
        Ok(weight)
    }

    /// Is a value of this size checked in bearable time?
    pub(crate) fn bears(self, size: Size) -> bool {
        size.depth <= INSTANCE_DEPTH && self.subschemas.saturating_mul(size.values) <= WORK
    }

    /// Can the place of a flaw be found in bearable time? Each level of the value may take every
    /// loop once more.
    pub(crate) fn explains(self, size: Size) -> bool {
        let levels = u32::try_from(size.depth).unwrap_or(u32::MAX);
        let paths = self.loops.max(1).saturating_pow(levels);
        paths.saturating_mul(self.subschemas) <= EXPLAIN_WORK
    }
}

impl Size {
    /// Measures a value. It was parsed, so its depth is bounded already.
    pub(crate) fn of(value: &Value) -> Self {
        let mut size = Self::default();
        let mut rest = vec![(value, 1)];
        while let Some((value, depth)) = rest.pop() {
            size.values += 1;
            size.depth = size.depth.max(depth);
            match value {
                Value::Array(entries) => rest.extend(entries.iter().map(|entry| (entry, depth + 1))),
                Value::Object(members) => rest.extend(members.values().map(|member| (member, depth + 1))),
                _ => {}
            }
        }
        size
    }
}

/// The bounds on a schema as it is written.
fn written(schema: &Value) -> Result<(), SchemaError> {
    let mut objects = 0;
    let mut rest = vec![(schema, 1)];
    while let Some((value, depth)) = rest.pop() {
        if depth > SCHEMA_DEPTH {
            return Err(SchemaError::TooLarge("it is nested too deeply"));
        }
        objects += usize::from(value.is_object());
        if objects > SCHEMA_OBJECTS {
            return Err(SchemaError::TooLarge("it has too many subschemas"));
        }
        match value {
            Value::Array(entries) => rest.extend(entries.iter().map(|entry| (entry, depth + 1))),
            Value::Object(members) => rest.extend(members.values().map(|member| (member, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

/// What the names of an object's members are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Names {
    /// Keywords: it is a schema.
    Keywords,
    /// Names that the author chose: it is a map of schemas.
    Chosen,
}

/// Weighs places, each once.
struct Scale<'a> {
    references: References<'a>,
    /// Weights by the address of the value; none while it is being weighed.
    known: HashMap<(*const Value, Names), Option<Weight>>,
}

impl<'a> Scale<'a> {
    fn weigh(&mut self, place: Place<'a>, names: Names) -> Result<Weight, SchemaError> {
        let key = (std::ptr::from_ref(place.value), names);
        match self.known.get(&key) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => return Ok(Weight { subschemas: 1, loops: 1 }),
            None => {}
        }
        self.known.insert(key, None);
        let weight = match (place.value, names) {
            (Value::Array(entries), _) => self.sum(place, entries)?,
            (Value::Object(members), Names::Chosen) => self.sum(place, members.values())?,
            (Value::Object(members), Names::Keywords) => self.schema(place, members)?,
            _ => Weight::default(),
        };
        self.known.insert(key, Some(weight));
        Ok(weight)
    }

    fn sum(
        &mut self,
        place: Place<'a>,
        schemas: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Weight, SchemaError> {
        let mut weight = Weight::default();
        for schema in schemas {
            weight.add(self.weigh(place.at(schema), Names::Keywords)?);
        }
        Ok(weight)
    }

    fn schema(&mut self, place: Place<'a>, members: &'a Map<String, Value>) -> Result<Weight, SchemaError> {
        let mut weight = Weight { subschemas: 1, loops: 0 };
        for (name, member) in members.iter().filter(|(name, _)| !is_weightless(name)) {
            let names = if is_map(name) { Names::Chosen } else { Names::Keywords };
            weight.add(self.weigh(place.at(member), names)?);
            let Some(to) = member.as_str().filter(|_| is_reference(name)) else { continue };
            for target in self.references.resolve(to, place)? {
                weight.add(self.weigh(target, Names::Keywords)?);
            }
        }
        // What was evaluated is found out by evaluating again.
        if members.keys().any(|name| name.starts_with("unevaluated")) {
            weight.add(weight);
        }
        Ok(weight)
    }
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.subschemas = self.subschemas.saturating_add(other.subschemas);
        self.loops = self.loops.saturating_add(other.loops);
    }
}

fn is_reference(name: &str) -> bool {
    matches!(name, "$ref" | "$dynamicRef" | "$recursiveRef")
}

/// Members that hold data, or schemas that count only where they are referred to.
fn is_weightless(name: &str) -> bool {
    matches!(name, "const" | "enum" | "default" | "examples" | "$defs" | "definitions")
}

/// Members that hold schemas by name.
fn is_map(name: &str) -> bool {
    matches!(name, "properties" | "patternProperties" | "dependentSchemas" | "dependencies")
}
