//! Is it a form, and does an answer fit it? Both sides ask the same questions.

use serde_json::Number;

use super::date;
use super::elicit::{ElicitAction, ElicitResult, ElicitValue};
use super::flaw::{Flaw, under};
use super::form::{Field, FieldType, Form, StringFormat};
use super::uri;

impl Form {
    /// What a server must not send: nested fields, choices without values, defaults that do not fit.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        for (name, field) in &self.requested_schema.properties.0 {
            flaws.extend(
                under(name, field.check()).map(|flaw| flaw.under("properties").under("requestedSchema")),
            );
        }
        for name in self.requested_schema.required.iter().flatten() {
            if self.field(name).is_none() {
                flaws.push(
                    Flaw::at("required", format!("names {name:?}, which is no field"))
                        .under("requestedSchema"),
                );
            }
        }
        flaws
    }

    /// What is wrong with an answer to this form.
    #[must_use]
    pub fn check_answer(&self, answer: &ElicitResult) -> Vec<Flaw> {
        let content = match (answer.action, &answer.content) {
            (ElicitAction::Accept, Some(content)) => content,
            (ElicitAction::Accept, None) => {
                return vec![Flaw::at("content", "is missing from an accepted form")];
            }
            (ElicitAction::Decline | ElicitAction::Cancel, None) => return Vec::new(),
            (ElicitAction::Decline | ElicitAction::Cancel, Some(_)) => {
                return vec![Flaw::at("content", "belongs to an accepted form only")];
            }
        };
        let mut flaws = Vec::new();
        for name in self.requested_schema.required.iter().flatten() {
            if !content.contains_key(name) {
                flaws.push(Flaw::at(name, "is missing"));
            }
        }
        for (name, value) in content {
            if let Some(field) = self.field(name) {
                flaws.extend(field.check_value(value).map(|what| Flaw::at(name, what)));
            }
        }
        flaws.into_iter().map(|flaw| flaw.under("content")).collect()
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.requested_schema.properties.0.iter().find(|(other, _)| other == name).map(|(_, field)| field)
    }
}

impl Field {
    fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        if let FieldType::Other(kind) = &self.r#type {
            flaws.push(Flaw::at(
                "type",
                format!("is {kind:?}; a form has only text, numbers, yes or no, and choices"),
            ));
        }
        if self.r#type == FieldType::Array && self.values().is_none() {
            flaws.push(Flaw::at("items", "do not say what can be chosen"));
        }
        if let Some(default) = &self.default {
            let fits = match serde_json::from_value::<ElicitValue>(default.clone()) {
                Ok(value) => self.check_value(&value),
                Err(_) => Some("is neither text, number, yes or no, nor a list of texts".to_owned()),
            };
            flaws.extend(fits.map(|what| Flaw::at("default", what)));
        }
        flaws
    }

    /// What is wrong with a value for this field.
    #[must_use]
    pub fn check_value(&self, value: &ElicitValue) -> Option<String> {
        match (&self.r#type, value) {
            (FieldType::String, ElicitValue::Text(text)) => self.check_text(text),
            (FieldType::Number, ElicitValue::Number(number)) => self.check_number(number),
            (FieldType::Integer, ElicitValue::Number(number)) if is_whole(number) => {
                self.check_number(number)
            }
            (FieldType::Boolean, ElicitValue::Boolean(_)) | (FieldType::Other(_), _) => None,
            (FieldType::Array, ElicitValue::List(list)) => self.check_list(list),
            (kind, _) => Some(format!("is not of type {}", kind.as_str())),
        }
    }

    fn check_text(&self, text: &str) -> Option<String> {
        if let Some(values) = self.values() {
            return (!values.contains(&text)).then(|| not_among(&values));
        }
        let length = text.chars().count() as u64;
        if let Some(min) = self.min_length.filter(|min| length < *min) {
            return Some(format!("is shorter than {min} characters"));
        }
        if let Some(max) = self.max_length.filter(|max| length > *max) {
            return Some(format!("is longer than {max} characters"));
        }
        let (fits, what) = match self.format.as_ref()? {
            StringFormat::Email => (is_email(text), "a mail address"),
            StringFormat::Uri => (uri::check(text).is_ok(), "a URI"),
            StringFormat::Date => (date::is_date(text), "a date such as 2025-01-31"),
            StringFormat::DateTime => (date::is_date_time(text), "a time such as 2025-01-31T12:00:00Z"),
            StringFormat::Other(_) => return None,
        };
        (!fits).then(|| format!("is not {what}"))
    }

    fn check_number(&self, number: &Number) -> Option<String> {
        let value = number.as_f64()?;
        if let Some(least) =
            self.minimum.as_ref().filter(|least| least.as_f64().is_some_and(|least| value < least))
        {
            return Some(format!("is less than {least}"));
        }
        let greatest = self.maximum.as_ref().filter(|most| most.as_f64().is_some_and(|most| value > most))?;
        Some(format!("is greater than {greatest}"))
    }

    fn check_list(&self, list: &[String]) -> Option<String> {
        let count = list.len() as u64;
        if let Some(min) = self.min_items.filter(|min| count < *min) {
            return Some(format!("has fewer than {min} choices"));
        }
        if let Some(max) = self.max_items.filter(|max| count > *max) {
            return Some(format!("has more than {max} choices"));
        }
        let values = self.values()?;
        list.iter().any(|choice| !values.contains(&choice.as_str())).then(|| not_among(&values))
    }
}

/// Few are named, so that the message can be shown; many are only counted.
fn not_among(values: &[&str]) -> String {
    match values {
        few @ [_, ..] if few.len() <= 8 => format!("is not one of {}", few.join(", ")),
        many => format!("is not one of the {} choices", many.len()),
    }
}

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|value| value.fract() == 0.0)
}

/// A local part, one `@`, a host; what mail servers refuse beyond that is theirs to say.
fn is_email(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(local, host)| {
        let label = |label: &str| {
            !label.is_empty()
                && label.chars().all(|c| c.is_alphanumeric() || c == '-')
                && !label.starts_with('-')
        };
        !local.is_empty()
            && !local.contains(|c: char| c.is_whitespace() || c.is_control() || c == '@')
            && host.split('.').all(label)
    })
}
