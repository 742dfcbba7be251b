//! The three closed schemas, as functions that say where a message leaves them.
//!
//! They are closed: a member that they do not name is a deviation, even where the protocol allows it.

use std::fmt;

use serde_json::{Map, Value};

use crate::jsonrpc::pointer;
use crate::limits::Limits;
use crate::method::Method;

/// One place where a message leaves its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    /// Where, as a JSON pointer.
    pub pointer: String,
    /// What should be there.
    pub expected: &'static str,
}

impl Deviation {
    pub(super) fn unknown_member(pointer: &str, name: &str) -> Self {
        Self { pointer: joined(pointer, name), expected: "no such member" }
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: expected {}", self.pointer, self.expected)
    }
}

/// A call: `jsonrpc`, `id`, `method` and `params` with `name` and perhaps `arguments`.
#[must_use]
pub fn check_request(message: &Value) -> Vec<Deviation> {
    let mut check = Check::default();
    let Some(message) = check.object("", message) else { return check.found };
    check.only("", message, &["jsonrpc", "id", "method", "params"]);
    check.head(message);
    let is_call = |value: &Value| value.as_str() == Some(Method::ToolsCall.name());
    check.member("", message, "method", "\"tools/call\"", is_call);
    let Some(params) = check.nested("", message, "params") else { return check.found };
    check.only("/params", params, &["name", "arguments"]);
    check.member("/params", params, "name", "a name", is_text);
    check.optional("/params", params, "arguments", "an object", Value::is_object);
    check.found
}

/// A result: `jsonrpc`, `id` and `result` with at least one block of `content`.
#[must_use]
pub fn check_response(message: &Value) -> Vec<Deviation> {
    let mut check = Check::default();
    let Some(message) = check.object("", message) else { return check.found };
    check.only("", message, &["jsonrpc", "id", "result"]);
    check.head(message);
    let Some(result) = check.nested("", message, "result") else { return check.found };
    check.only("/result", result, &["content", "isError", "structuredContent", "_meta"]);
    check.optional("/result", result, "isError", "true or false", Value::is_boolean);
    check.optional("/result", result, "structuredContent", "an object", Value::is_object);
    check.optional("/result", result, "_meta", "an object", Value::is_object);
    let is_filled = |value: &Value| value.as_array().is_some_and(|blocks| !blocks.is_empty());
    check.member("/result", result, "content", "at least one block", is_filled);
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    for (n, block) in blocks.enumerate() {
        if !block.get("type").is_some_and(is_text) {
            check.found(joined(&format!("/result/content/{n}"), "type"), "a kind of block");
        }
    }
    check.found
}

/// An error: `jsonrpc`, `id` that is not null, and `error` with an integer `code` and a `message`.
#[must_use]
pub fn check_error(message: &Value) -> Vec<Deviation> {
    let mut check = Check::default();
    let Some(message) = check.object("", message) else { return check.found };
    check.only("", message, &["jsonrpc", "id", "error"]);
    check.head(message);
    let Some(error) = check.nested("", message, "error") else { return check.found };
    check.member("/error", error, "code", "an integer", is_integer);
    check.member("/error", error, "message", "a message", is_text);
    check.found
}

/// Does an error message help whoever reads it? The schema allows one that does not.
#[must_use]
pub fn check_message(message: &str) -> Option<&'static str> {
    let plain = message.trim().trim_end_matches('.').to_ascii_lowercase();
    if plain.is_empty() {
        return Some("the message is empty");
    }
    if matches!(&*plain, "error" | "internal error" | "unknown error" | "failed" | "failure" | "exception") {
        return Some("the message says nothing but that something failed");
    }
    let traced = message.contains("\n    at ") || message.contains("Traceback (most recent call last)");
    traced.then_some("the message is a stack trace, which is for the log")
}

#[derive(Default)]
struct Check {
    found: Vec<Deviation>,
}

type Object = Map<String, Value>;

impl Check {
    fn found(&mut self, pointer: String, expected: &'static str) {
        if self.found.len() < Limits::DEFAULT.findings {
            self.found.push(Deviation { pointer, expected });
        }
    }

    fn object<'a>(&mut self, pointer: &str, value: &'a Value) -> Option<&'a Object> {
        if !value.is_object() {
            self.found(pointer.to_owned(), "an object");
        }
        value.as_object()
    }

    fn nested<'a>(&mut self, pointer: &str, object: &'a Object, name: &str) -> Option<&'a Object> {
        match object.get(name) {
            Some(value) => self.object(&joined(pointer, name), value),
            None => {
                self.found(joined(pointer, name), "an object");
                None
            }
        }
    }

    fn only(&mut self, pointer: &str, object: &Object, allowed: &[&str]) {
        for name in object.keys().filter(|name| !allowed.contains(&name.as_str())) {
            let Deviation { pointer, expected } = Deviation::unknown_member(pointer, name);
            self.found(pointer, expected);
        }
    }

    fn member(
        &mut self,
        pointer: &str,
        object: &Object,
        name: &str,
        expected: &'static str,
        fits: impl Fn(&Value) -> bool,
    ) {
        if !object.get(name).is_some_and(fits) {
            self.found(joined(pointer, name), expected);
        }
    }

    fn optional(
        &mut self,
        pointer: &str,
        object: &Object,
        name: &str,
        expected: &'static str,
        fits: impl Fn(&Value) -> bool,
    ) {
        if object.contains_key(name) {
            self.member(pointer, object, name, expected, fits);
        }
    }

    fn head(&mut self, message: &Object) {
        self.member("", message, "jsonrpc", "\"2.0\"", |value| value.as_str() == Some("2.0"));
        let is_id = |value: &Value| is_text(value) || is_integer(value);
        self.member("", message, "id", "an integer or a string that is not empty", is_id);
    }
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// JSON Schema counts `1.0` as an integer too.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn joined(above: &str, name: &str) -> String {
    let mut pointer = above.to_owned();
    pointer::push(&mut pointer, name);
    pointer
}
