//! The fault: JSON-RPC's error object, and the one table of codes.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::object::Object;
use crate::secret::Redactor;

/// The codes of the specification, and nothing of our own in its ranges.
pub mod code {
    /// Unreadable JSON.
    pub const PARSE: i64 = -32700;
    /// JSON, but not a message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// A method that does not exist or was not advertised.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Params that do not fit; in the modern era also a resource that does not exist.
    pub const INVALID_PARAMS: i64 = -32602;
    /// We failed.
    pub const INTERNAL: i64 = -32603;
    /// Legacy: a resource that does not exist.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Modern, HTTP: header and body disagree.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the client did not declare a capability that this call needs.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// Modern: a revision we do not speak.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// 2025-11-25 only: an address must be visited first.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Legacy: a person refused to sample.
    pub const USER_REJECTED: i64 = -1;
    /// Ours, outside the reserved ranges: too much at once; try again.
    pub const BUSY: i64 = 42_900;
    /// Ours, outside the reserved ranges: a failure on our side of the link. Never sent.
    pub const LOCAL: i64 = 59_900;
}

/// An error object as it stands on the wire.
///
/// Shown in errors and logs, it hides what its words call a secret; the members themselves are as they came.
#[derive(Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind of error.
    pub code: i64,
    /// One concise sentence.
    pub message: Cow<'static, str>,
    /// More about it, as raw JSON.
    pub data: Option<Bytes>,
}

impl Fault {
    /// A fault without data.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// With `data` as any JSON value.
    #[must_use]
    pub fn with_data(mut self, data: &Value) -> Self {
        self.data = Some(Bytes::from(data.to_string()));
        self
    }

    /// The same without secrets.
    #[must_use]
    pub fn redacted(mut self, secrets: &Redactor) -> Self {
        if let Cow::Owned(message) = secrets.redact(&self.message) {
            self.message = message.into();
        }
        if let Some(data) = &self.data
            && let Cow::Owned(text) = secrets.redact(&String::from_utf8_lossy(data))
        {
            // What is no JSON any more is told as text.
            let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            self.data = Some(Bytes::from(value.to_string()));
        }
        self
    }

    /// The method does not exist here.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(
            code::METHOD_NOT_FOUND,
            format!("method not found: {}", crate::finding::excerpt(method.as_bytes(), 128)),
        )
    }

    /// The params do not fit.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// We failed.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INTERNAL, message)
    }

    /// The resource does not exist. The code is the legacy one; the modern era writes its own.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        Self::new(code::RESOURCE_NOT_FOUND, "resource not found")
            .with_data(&serde_json::json!({ "uri": uri }))
    }

    /// The client did not declare `required`, a client capabilities object.
    #[must_use]
    pub fn missing_capability(required: &Value) -> Self {
        Self::new(code::MISSING_CAPABILITY, "the call needs a capability that the client did not declare")
            .with_data(&serde_json::json!({ "requiredCapabilities": required }))
    }

    /// From an error object on the wire.
    pub fn parse(raw: &Bytes) -> Option<Self> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            code: serde_json::Number,
            #[serde(borrow)]
            message: Cow<'a, str>,
            #[serde(borrow, default)]
            data: Option<&'a RawValue>,
        }
        let Object(wire) = serde_json::from_slice::<Object<Wire<'_>>>(raw).ok()?;
        Some(Self {
            code: wire.code.as_i64()?,
            message: Cow::Owned(wire.message.into_owned()),
            data: wire.data.map(|data| raw.slice_ref(data.get().as_bytes())),
        })
    }

    /// Does it say that a resource does not exist? The legacy era has a code for that; the modern one names
    /// the address in the data.
    #[must_use]
    pub fn is_resource_not_found(&self) -> bool {
        let names_uri = || {
            let data = self.data.as_deref().and_then(|data| serde_json::from_slice::<Value>(data).ok());
            data.is_some_and(|data| data.get("uri").is_some())
        };
        match self.code {
            code::RESOURCE_NOT_FOUND => true,
            code::INVALID_PARAMS => names_uri(),
            _ => false,
        }
    }

    /// Does it say which capabilities the client did not declare? The modern era has a code for that; a legacy server
    /// can refuse the call and name them in the data.
    #[must_use]
    pub fn names_capabilities(&self) -> bool {
        let names = || {
            let data = self.data.as_deref().and_then(|data| serde_json::from_slice::<Value>(data).ok());
            data.is_some_and(|data| data.get("requiredCapabilities").is_some_and(Value::is_object))
        };
        match self.code {
            code::MISSING_CAPABILITY => true,
            code::INVALID_REQUEST => names(),
            _ => false,
        }
    }

    /// One of the three codes that only a modern server sends.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        matches!(self.code, code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", Redactor::default().redact(&self.message), self.code)
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hiding = Redactor::default();
        let data = self.data.as_ref().map(|data| String::from_utf8_lossy(data));
        f.debug_struct("Fault")
            .field("code", &self.code)
            .field("message", &hiding.redact(&self.message))
            .field("data", &data.as_ref().map(|data| hiding.redact(data)))
            .finish()
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0-61, S2-15, BASE-9: code, message and data survive, data byte for byte.
    #[test]
    fn faults_read_back_whole() {
        let raw = Bytes::from_static(br#"{"code":-32602,"message":"bad \"x\"","data":{"n":1.50}}"#);
        let fault = Fault::parse(&raw).unwrap();
        let mut out = Vec::new();
        super::super::write::fault(&fault, &mut out);
        assert_eq!(out, raw);
    }

    #[test]
    fn odd_error_objects_are_not_faults() {
        for raw in [
            r#"{"code":"x","message":"m"}"#,
            r#"{"code":1.5,"message":"m"}"#,
            r#"{"code":1}"#,
            "[]",
            r#"[1,"m"]"#,
            "null",
        ] {
            assert_eq!(Fault::parse(&Bytes::from_static(raw.as_bytes())), None, "{raw}");
        }
    }

    /// RES-6, RES-7, RES-8: either era's way to say that a resource does not exist, and nothing else.
    #[test]
    fn missing_resources_are_recognised() {
        let at = |code, data| Fault::new(code, "no").with_data(&data);
        assert!(Fault::resource_not_found("x:y").is_resource_not_found());
        assert!(at(code::INVALID_PARAMS, serde_json::json!({"uri": "x:y"})).is_resource_not_found());
        for data in [serde_json::json!(["uri"]), serde_json::json!({}), serde_json::json!("uri")] {
            assert!(!at(code::INVALID_PARAMS, data).is_resource_not_found());
        }
        assert!(!at(code::INTERNAL, serde_json::json!({"uri": "x:y"})).is_resource_not_found());
    }

    /// Only a refusal that names capabilities is one for lack of them.
    #[test]
    fn missing_capabilities_are_told_by_the_data() {
        let at = |code, data: Value| Fault::new(code, "no").with_data(&data);
        let names = serde_json::json!({"requiredCapabilities": {"sampling": {}}});
        assert!(Fault::missing_capability(&serde_json::json!({"roots": {}})).names_capabilities());
        assert!(at(code::INVALID_REQUEST, names.clone()).names_capabilities());
        assert!(!at(code::INTERNAL, names).names_capabilities());
        assert!(
            !at(code::INVALID_REQUEST, serde_json::json!({"requiredCapabilities": 1})).names_capabilities()
        );
        assert!(!Fault::new(code::INVALID_REQUEST, "no").names_capabilities());
    }

    /// BASE-27, BASE-23: what we make up ourselves lies outside the reserved ranges.
    #[test]
    fn own_codes_are_outside_the_reserved_ranges() {
        for own in [code::BUSY, code::LOCAL] {
            assert!(!(-32768..=-32000).contains(&own));
        }
    }
}
