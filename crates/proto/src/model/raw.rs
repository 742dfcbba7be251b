//! JSON that is passed on as it was written: any value, an object, a schema.
//!
//! The text is checked to be JSON and otherwise left alone, so numbers keep their spelling and
//! members their order. Two of them are equal when their parsed values are.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::flaw::Flaw;

/// Any JSON value, verbatim.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// From JSON text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// From anything that serialises.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The text read as `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// The parsed value.
    #[must_use]
    pub fn value(&self) -> Value {
        // Deeper than serde_json descends: such a value equals nothing but another such value.
        self.read().unwrap_or(Value::Null)
    }

    /// Is it an object?
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// Is it `null`?
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str() || self.value() == other.value()
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&Value> for Raw {
    fn from(value: &Value) -> Self {
        Self::of(value).expect("a JSON value has string keys and finite numbers, so it always serialises")
    }
}

/// A JSON object, verbatim.
#[derive(Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct RawObject(Raw);

impl RawObject {
    /// The object as raw JSON.
    #[must_use]
    pub fn raw(&self) -> &Raw {
        &self.0
    }

    /// The object read as `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.0.read()
    }
}

impl TryFrom<Raw> for RawObject {
    type Error = Flaw;

    fn try_from(raw: Raw) -> Result<Self, Flaw> {
        if raw.is_object() { Ok(Self(raw)) } else { Err(Flaw::here("is not an object")) }
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(Raw::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl fmt::Debug for RawObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A JSON Schema, verbatim: keywords we do not know reach the peer as they were written.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Schema(Raw);

impl Schema {
    /// From JSON text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Raw::parse(text).map(Self)
    }

    /// The schema of a tool without arguments.
    #[must_use]
    pub fn no_arguments() -> Self {
        Self::from(&serde_json::json!({ "type": "object", "additionalProperties": false }))
    }

    /// The schema as raw JSON.
    #[must_use]
    pub fn raw(&self) -> &Raw {
        &self.0
    }

    /// Is it a schema object whose root says `type: "object"`?
    #[must_use]
    pub fn is_of_object(&self) -> bool {
        #[derive(Deserialize)]
        struct Root {
            r#type: Option<Value>,
        }
        self.0.is_object()
            && self
                .0
                .read::<Root>()
                .is_ok_and(|root| root.r#type.as_ref().and_then(Value::as_str) == Some("object"))
    }
}

impl From<&Value> for Schema {
    fn from(value: &Value) -> Self {
        Self(Raw::from(value))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads a member that is there, `null` included: only an absent member is `None`.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TOOL-19: text, order and spelling survive; equality is of values.
    #[test]
    fn raw_is_verbatim_and_equal_by_value() {
        let text = r#"{"b":1.50,"a":12345678901234567890123,"$anchor":"x"}"#;
        let schema: Schema = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&schema).unwrap(), text);
        assert_eq!(Raw::parse(r#"{"a":1,"b":2}"#).unwrap(), Raw::parse(r#"{"b": 2, "a": 1}"#).unwrap());
        assert_ne!(Raw::parse("1").unwrap(), Raw::parse("\"1\"").unwrap());
    }

    #[test]
    fn a_raw_object_is_an_object() {
        assert!(serde_json::from_str::<RawObject>(r#" {"a":1}"#).is_ok());
        for text in ["[]", "null", "1", "\"{\""] {
            assert!(serde_json::from_str::<RawObject>(text).is_err(), "{text}");
        }
    }
}
