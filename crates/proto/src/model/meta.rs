//! `_meta`: an open map with a few keys that the protocol reserves, and the grammar of keys.
//!
//! Whatever stands in it survives the round trip. Nothing is assumed about a value under a
//! reserved prefix until its accessor is called, and a wrong value fails only that accessor.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::capability::ClientCapabilities;
use super::flaw::Flaw;
use super::lifecycle::Implementation;
use super::logging::LogLevel;
use super::progress::ProgressToken;
use super::task::RelatedTask;
use crate::jsonrpc::id::CallId;

/// The reserved keys.
pub mod key {
    /// Progress notes of this call carry this token.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// Modern calls: the revision they are written in.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Modern calls: what the client can do.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Modern calls: who the client is.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// Modern calls: the least level of log notes wanted.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Modern results: who the server is.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// Modern notes of a listen, and its last result: the id of the listen call.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// 2025-11-25: the task that a message belongs to.
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// 2025-11-25: what the model may say while the task runs.
    pub const MODEL_IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
    /// W3C Trace Context.
    pub const TRACEPARENT: &str = "traceparent";
    /// W3C Trace Context, vendors' part.
    pub const TRACESTATE: &str = "tracestate";
    /// W3C Baggage.
    pub const BAGGAGE: &str = "baggage";
}

/// Metadata of a message or a part of one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Meta(pub Map<String, Value>);

macro_rules! accessors {
    ($($(#[$doc:meta])* $read:ident $with:ident $key:ident $type:ty;)*) => {
        impl Meta {$(
            $(#[$doc])*
            pub fn $read(&self) -> Result<Option<$type>, Flaw> {
                self.read(key::$key)
            }

            /// With this value set.
            #[must_use]
            pub fn $with(self, value: &$type) -> Self {
                self.with(key::$key, serde_json::to_value(value).unwrap_or(Value::Null))
            }
        )*}
    };
}

accessors! {
    /// The token that progress notes carry.
    progress_token with_progress_token PROGRESS_TOKEN ProgressToken;
    /// The revision of a modern call.
    protocol_version with_protocol_version PROTOCOL_VERSION String;
    /// What the client of a modern call can do.
    client_capabilities with_client_capabilities CLIENT_CAPABILITIES ClientCapabilities;
    /// Who the client of a modern call is.
    client_info with_client_info CLIENT_INFO Implementation;
    /// The least level of log notes that a modern call wants.
    log_level with_log_level LOG_LEVEL LogLevel;
    /// Who answered a modern call.
    server_info with_server_info SERVER_INFO Implementation;
    /// The task that a message of 2025-11-25 belongs to.
    related_task with_related_task RELATED_TASK RelatedTask;
}

impl Meta {
    /// The id of the listen call that a note belongs to, in its own JSON type.
    pub fn subscription_id(&self) -> Result<Option<CallId>, Flaw> {
        match self.0.get(key::SUBSCRIPTION_ID) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => CallId::parse(value.to_string().as_bytes(), usize::MAX)
                .map(Some)
                .map_err(|_| Flaw::at(key::SUBSCRIPTION_ID, "is neither a string nor a number")),
        }
    }

    /// With the id of the listen call.
    #[must_use]
    pub fn with_subscription_id(self, id: &CallId) -> Self {
        self.with(key::SUBSCRIPTION_ID, serde_json::to_value(id).unwrap_or(Value::Null))
    }

    /// With any value under any key.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.0.insert(key.to_owned(), value);
        self
    }

    /// The value under `key` as `T`; absent and `null` are `None`.
    pub fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Flaw> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => T::deserialize(value).map(Some).map_err(|error| Flaw::at(key, error.to_string())),
        }
    }
}

/// Which prefixes belong to the protocol itself; the rule changed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedPrefixes {
    /// 2025-06-18: `modelcontextprotocol` or `mcp` anywhere, with one more label behind it.
    AnyLabel,
    /// Since 2025-11-25: `modelcontextprotocol` or `mcp` as the second label.
    SecondLabel,
}

/// A key that fits the grammar, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaKey<'a> {
    /// Dot-separated labels before the slash.
    pub prefix: Option<&'a str>,
    /// What stands behind the slash; may be empty.
    pub name: &'a str,
}

impl<'a> MetaKey<'a> {
    /// Takes a key apart, or says what is wrong with it.
    pub fn parse(key: &'a str) -> Result<Self, Flaw> {
        let (prefix, name) = match key.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, key),
        };
        if prefix.is_some_and(|prefix| !prefix.split('.').all(is_label)) {
            return Err(Flaw::at(
                key,
                "has a prefix label that does not start with a letter or end with a letter or digit",
            ));
        }
        if !is_name(name) {
            return Err(Flaw::at(
                key,
                "has a name that does not start and end with a letter or digit, with - _ . inside",
            ));
        }
        Ok(Self { prefix, name })
    }

    /// Does the prefix belong to the protocol?
    #[must_use]
    pub fn is_reserved(&self, rule: ReservedPrefixes) -> bool {
        let Some(prefix) = self.prefix else { return false };
        let ours = |label: &str| matches!(label, "modelcontextprotocol" | "mcp");
        match rule {
            ReservedPrefixes::SecondLabel => prefix.split('.').nth(1).is_some_and(ours),
            ReservedPrefixes::AnyLabel => prefix.rsplit('.').skip(1).any(ours),
        }
    }

    /// Can the prefix be a reversed domain name? One label alone cannot.
    #[must_use]
    pub fn is_reverse_dns(&self) -> bool {
        self.prefix.is_some_and(|prefix| prefix.contains('.'))
    }
}

/// The id of an extension: a key that must have a prefix.
pub fn check_extension_id(id: &str) -> Result<(), Flaw> {
    match MetaKey::parse(id)?.prefix {
        Some(_) => Ok(()),
        None => Err(Flaw::at(id, "has no prefix; an extension id is prefix/name")),
    }
}

fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    matches!(bytes, [first, .., last] if first.is_ascii_alphabetic() && last.is_ascii_alphanumeric())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
        || matches!(bytes, [only] if only.is_ascii_alphabetic())
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return true };
    first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(value: Value) -> Meta {
        serde_json::from_value(value).unwrap()
    }

    /// META-1, META-7: unknown keys, and known keys with any value, survive; only the accessor fails.
    #[test]
    fn any_value_survives_under_any_key() {
        let odd = json!({ "io.modelcontextprotocol/logLevel": 7, "com.example/x": [null, 1.5], "": {} });
        let parsed = meta(odd.clone());
        assert_eq!(parsed.log_level().unwrap_err().at, "/io.modelcontextprotocol~1logLevel");
        assert_eq!(parsed.progress_token(), Ok(None));
        assert_eq!(serde_json::to_value(&parsed).unwrap(), odd);
    }

    #[test]
    fn typed_values_read_back() {
        let id = CallId::text("1");
        let built = Meta::default()
            .with_progress_token(&ProgressToken::from(7))
            .with_log_level(&LogLevel::Notice)
            .with_protocol_version(&"2026-07-28".to_owned())
            .with_subscription_id(&id);
        assert_eq!(built.progress_token(), Ok(Some(ProgressToken::from(7))));
        assert_eq!(built.log_level(), Ok(Some(LogLevel::Notice)));
        assert_eq!(built.protocol_version().unwrap().as_deref(), Some("2026-07-28"));
        assert_eq!(built.subscription_id(), Ok(Some(id)));
        assert_ne!(built.subscription_id(), Ok(Some(CallId::from(1))));
        assert!(meta(json!({ "io.modelcontextprotocol/subscriptionId": {} })).subscription_id().is_err());
    }

    /// META-2, META-5: labels, dots, slash, name.
    #[test]
    fn keys_follow_the_grammar() {
        for good in ["", "a", "progressToken", "com.example/x-y_z.1", "com.example/", "a-1.b2/x", "x/9"] {
            assert!(MetaKey::parse(good).is_ok(), "{good}");
        }
        for bad in
            ["/x", "1a.b/x", "a-.b/x", "a..b/x", "a.b/-x", "a.b/x_", "a.b/x/y", "a b", "é", "a_b/x", "-/x"]
        {
            assert!(MetaKey::parse(bad).is_err(), "{bad}");
        }
    }

    /// META-3: one label is no domain.
    #[test]
    fn prefixes_are_reversed_domains() {
        assert!(MetaKey::parse("com.example/x").unwrap().is_reverse_dns());
        assert!(!MetaKey::parse("example/x").unwrap().is_reverse_dns());
        assert!(!MetaKey::parse("x").unwrap().is_reverse_dns());
    }

    /// META-4: the rule of 2025-06-18 and the later one.
    #[test]
    fn reserved_prefixes_differ_by_revision() {
        let rows = [
            ("io.modelcontextprotocol/x", false, true),
            ("com.mcp.tools/x", true, true),
            ("mcp.dev/x", true, false),
            ("modelcontextprotocol.io/x", true, false),
            ("tools.mcp.com/x", true, true),
            ("api.tools.mcp.com/x", true, false),
            ("com.example.mcp/x", false, false),
            ("mcp/x", false, false),
            ("mcp", false, false),
        ];
        for (key, any, second) in rows {
            let parsed = MetaKey::parse(key).unwrap();
            assert_eq!(parsed.is_reserved(ReservedPrefixes::AnyLabel), any, "{key}");
            assert_eq!(parsed.is_reserved(ReservedPrefixes::SecondLabel), second, "{key}");
        }
    }

    /// EXT-1: the prefix is mandatory.
    #[test]
    fn extension_ids_have_a_prefix() {
        assert!(check_extension_id("io.modelcontextprotocol/tasks").is_ok());
        assert!(check_extension_id("tasks").is_err());
        assert!(check_extension_id("-x/tasks").is_err());
    }
}
