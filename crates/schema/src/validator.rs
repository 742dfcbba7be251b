//! A compiled schema.

use std::fmt;

use cardan_proto::model::{Flaw, Schema};
use jsonschema::{Draft, PatternOptions};
use serde_json::Value;

use crate::bounds::{Size, Weight};
use crate::error::SchemaError;

/// A compiled schema. Cheap to use again, safe to share.
///
/// ```
/// use cardan_proto::model::Schema;
/// use cardan_schema::Validator;
/// use serde_json::json;
///
/// let schema = Schema::from(&json!({ "type": "object", "properties": { "n": { "type": "integer" } } }));
/// let validator = Validator::compile(&schema)?;
/// assert_eq!(validator.check(&json!({ "n": 1 })), []);
/// assert_eq!(validator.check(&json!({ "n": "one" }))[0].at, "/n");
/// # Ok::<(), cardan_schema::SchemaError>(())
/// ```
pub struct Validator {
    compiled: jsonschema::Validator,
    weight: Weight,
}

/// The most bytes that one compiled pattern takes.
const PATTERN_BYTES: usize = 1 << 20;

impl Validator {
    /// Compiles a schema; refuses what is no schema, what leads outside and what costs too much.
    pub fn compile(schema: &Schema) -> Result<Self, SchemaError> {
        let text = schema.raw().as_str();
        let value: Value =
            serde_json::from_str(text).map_err(|_| SchemaError::TooLarge("it is nested too deeply"))?;
        let draft = dialect(&value)?;
        let weight = Weight::of(&value)?;
        let compiled = jsonschema::options()
            .offline()
            .with_draft(draft)
            .with_pattern_options(
                PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES),
            )
            .build(&value)
            .map_err(|error| refused(&error))?;
        Ok(Self { compiled, weight })
    }

    /// Is the value small enough to be checked? One that is not has a flaw for [`Validator::check`], whoever is to blame.
    #[must_use]
    pub fn bears(&self, value: &Value) -> bool {
        self.weight.bears(Size::of(value))
    }

    /// What does not fit: the first flaw found, with its place. Nothing: the value fits.
    #[must_use]
    pub fn check(&self, value: &Value) -> Vec<Flaw> {
        let size = Size::of(value);
        if !self.weight.bears(size) {
            return vec![Flaw::here("is too large to be checked against its schema")];
        }
        if self.compiled.is_valid(value) {
            return Vec::new();
        }
        if !self.weight.explains(size) {
            return vec![Flaw::here("does not fit its schema")];
        }
        match self.compiled.validate(value) {
            Ok(()) => Vec::new(),
            // Without the value itself: it may be large, and it may be a secret.
            Err(error) => {
                vec![Flaw { at: error.instance_path().to_string(), what: error.masked().to_string() }]
            }
        }
    }
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validator").field("weight", &self.weight).finish_non_exhaustive()
    }
}

/// The dialect that a schema names; 2020-12 when it names none.
fn dialect(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(named) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    let named = named.as_str().ok_or_else(|| SchemaError::Dialect(named.to_string()))?;
    match Draft::from_schema_uri(named) {
        Draft::Unknown => Err(SchemaError::Dialect(named.chars().take(256).collect())),
        draft => Ok(draft),
    }
}

fn refused(error: &jsonschema::ValidationError<'_>) -> SchemaError {
    SchemaError::Invalid { at: error.instance_path().to_string(), what: error.masked().to_string() }
}
