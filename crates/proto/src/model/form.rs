//! Forms: the restricted schema of elicitation. An object of primitives, flat by construction.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use super::meta::Meta;
use super::open::open_enum;
use super::task::TaskMetadata;

/// A form for a person to fill in.
///
/// ```
/// use cardan_proto::model::form::{Field, Form, StringFormat};
///
/// let form = Form::new("Who are you?")
///     .string("name")
///     .required("mail", Field::string().title("E-mail").format(StringFormat::Email))
///     .optional("colour", Field::choice(["red", "green"]).default("red"));
/// assert_eq!(form.check(), []);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Form {
    /// Written only when set: revisions before 2025-11-25 have no modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<FormMode>,
    /// What to tell the person.
    pub message: String,
    /// What to fill in.
    pub requested_schema: FormSchema,
    /// 2025-11-25: run it as a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskMetadata>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// The word for this mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FormMode {
    /// `form`
    Form,
}

impl Form {
    /// A form without fields.
    pub fn new(message: impl Into<String>) -> Self {
        let requested_schema = FormSchema::default();
        Self { mode: None, message: message.into(), requested_schema, task: None, meta: None }
    }

    /// With one more field that must be filled in. A field of the same name is replaced.
    #[must_use]
    pub fn required(self, name: impl Into<String>, field: Field) -> Self {
        let name = name.into();
        let mut form = self.optional(name.clone(), field);
        form.requested_schema.required.get_or_insert_default().push(name);
        form
    }

    /// With one more field that can be left empty. A field of the same name is replaced.
    #[must_use]
    pub fn optional(mut self, name: impl Into<String>, field: Field) -> Self {
        let name = name.into();
        self.requested_schema.properties.0.retain(|(other, _)| *other != name);
        self.requested_schema
            .required
            .iter_mut()
            .for_each(|required| required.retain(|other| *other != name));
        self.requested_schema.properties.0.push((name, field));
        self
    }

    /// With a text that must be filled in.
    #[must_use]
    pub fn string(self, name: impl Into<String>) -> Self {
        self.required(name, Field::string())
    }

    /// With a whole number that must be filled in.
    #[must_use]
    pub fn integer(self, name: impl Into<String>) -> Self {
        self.required(name, Field::integer())
    }

    /// With a number that must be filled in.
    #[must_use]
    pub fn number(self, name: impl Into<String>) -> Self {
        self.required(name, Field::number())
    }

    /// With a yes or no that must be given.
    #[must_use]
    pub fn boolean(self, name: impl Into<String>) -> Self {
        self.required(name, Field::boolean())
    }
}

/// The object that a form describes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FormSchema {
    /// Since 2025-11-25: the dialect.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Always an object.
    pub r#type: ObjectType,
    /// The fields, in the order in which they are shown.
    pub properties: Fields,
    /// The fields that must be filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<Vec<String>>,
}

/// The word for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectType {
    /// `object`
    #[default]
    Object,
}

/// Fields by name, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields(pub Vec<(String, Field)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, field) in &self.0 {
            map.serialize_entry(name, field)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("fields by name")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fields, A::Error> {
                let mut seen = BTreeSet::new();
                let mut fields = Vec::new();
                while let Some((name, field)) = entries.next_entry::<String, Field>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!("two fields are named {name:?}")));
                    }
                    fields.push((name, field));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

open_enum! {
    /// What a field takes.
    FieldType {
        /// Text, or one choice.
        String = "string",
        /// A number.
        Number = "number",
        /// A whole number.
        Integer = "integer",
        /// Yes or no.
        Boolean = "boolean",
        /// Since 2025-11-25: several choices.
        Array = "array",
    }
}

open_enum! {
    /// How a text is written.
    StringFormat {
        /// A mail address.
        Email = "email",
        /// An address after RFC 3986.
        Uri = "uri",
        /// `2025-01-31`.
        Date = "date",
        /// RFC 3339.
        DateTime = "date-time",
    }
}

/// One field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// What it takes.
    pub r#type: FieldType,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What to fill in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Text: how it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<StringFormat>,
    /// Text: fewest characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// Text: most characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// Numbers: the least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Number>,
    /// Numbers: the greatest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Number>,
    /// One choice: the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#enum: Option<Vec<String>>,
    /// One choice, 2025-06-18: titles of the values, in the same order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enum_names: Option<Vec<String>>,
    /// One choice, since 2025-11-25: values with titles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Titled>>,
    /// Several choices: what they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Items>,
    /// Several choices: fewest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<u64>,
    /// Several choices: most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
    /// Filled in at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// A choice and how it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Titled {
    /// The value.
    pub r#const: String,
    /// For people.
    pub title: String,
}

/// What can be chosen several times.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Items {
    /// Of plain values: always a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<FieldType>,
    /// Plain values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#enum: Option<Vec<String>>,
    /// Values with titles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub any_of: Option<Vec<Titled>>,
}
