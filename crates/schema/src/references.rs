//! Where references of a schema lead: to places in the same schema, or nowhere.

use std::collections::HashMap;

use cardan_proto::jsonrpc::pointer;
use serde_json::Value;

use crate::error::SchemaError;

/// A value in the schema, and the part with an `$id` of its own that it belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) value: &'a Value,
    resource: &'a Value,
}

impl<'a> Place<'a> {
    pub(crate) fn root(schema: &'a Value) -> Self {
        Self { value: schema, resource: schema }
    }

    /// A value right below this one.
    pub(crate) fn at(self, value: &'a Value) -> Self {
        let resource = if id_of(value).is_some() { value } else { self.resource };
        Self { value, resource }
    }
}

/// What references can name.
#[derive(Debug, Default)]
pub(crate) struct References<'a> {
    ids: HashMap<&'a str, Place<'a>>,
    anchors: HashMap<&'a str, Vec<Place<'a>>>,
}

impl<'a> References<'a> {
    pub(crate) fn of(schema: &'a Value) -> Self {
        let mut found = Self::default();
        let mut rest = vec![Place::root(schema)];
        while let Some(place) = rest.pop() {
            if let Some(id) = id_of(place.value) {
                found.ids.insert(id.trim_end_matches('#'), place);
            }
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = place.value.get(keyword).and_then(Value::as_str) {
                    found.anchors.entry(name).or_default().push(place);
                }
            }
            match place.value {
                Value::Array(entries) => rest.extend(entries.iter().map(|entry| place.at(entry))),
                Value::Object(members) => rest.extend(members.values().map(|member| place.at(member))),
                _ => {}
            }
        }
        found
    }

    /// Where `to` leads from `from`. The published dialects are known and lead nowhere we must weigh.
    pub(crate) fn resolve(&self, to: &'a str, from: Place<'a>) -> Result<Vec<Place<'a>>, SchemaError> {
        let outside = || SchemaError::Reference(to.chars().take(256).collect());
        let (document, fragment) = to.split_once('#').unwrap_or((to, ""));
        let resource = match document {
            "" => Place::root(from.resource),
            known if is_dialect(known) => return Ok(Vec::new()),
            other => *self.ids.get(other).ok_or_else(outside)?,
        };
        if fragment.is_empty() {
            return Ok(vec![resource]);
        }
        let fragment = percent_decoded(fragment).ok_or_else(outside)?;
        if let Some(pointer) = fragment.strip_prefix('/') {
            return descend(resource, pointer).map(|place| vec![place]).ok_or_else(outside);
        }
        // Draft 4 to 7 spell an anchor as an `$id` of its fragment.
        let spelled = format!("#{fragment}");
        let named = self.ids.get(spelled.as_str()).map(|place| vec![*place]);
        named.or_else(|| self.anchors.get(fragment.as_str()).cloned()).ok_or_else(outside)
    }
}

fn descend<'a>(from: Place<'a>, pointer: &str) -> Option<Place<'a>> {
    pointer.split('/').try_fold(from, |place, step| {
        let step = pointer::unescape(step);
        let value = match place.value {
            Value::Object(members) => members.get(&*step)?,
            Value::Array(entries) => entries.get(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
        Some(place.at(value))
    })
}

fn id_of(value: &Value) -> Option<&str> {
    value.get("$id").or_else(|| value.get("id")).and_then(Value::as_str)
}

fn is_dialect(document: &str) -> bool {
    let rest = document.strip_prefix("https:").or_else(|| document.strip_prefix("http:"));
    rest.is_some_and(|rest| rest.starts_with("//json-schema.org/draft"))
}

fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}
