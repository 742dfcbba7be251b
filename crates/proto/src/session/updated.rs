//! A resource that changed: its address, and whatever its server told beside it.
//!
//! The note that tells it is its server's. Whoever passes it on changes nothing in it but the listen that it is for.

use std::ops::Deref;

use bytes::Bytes;
use serde_json::json;

use crate::jsonrpc::envelope::{MetaKey, Param, Params};
use crate::jsonrpc::splice::{Edit, splice};

/// A resource that changed. Reads like its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Updated {
    uri: Box<str>,
    /// The params of the note that told it, without the listen that it was for; none: they were the address and nothing else.
    told: Option<Bytes>,
}

impl Updated {
    /// What the params of a note tell; nothing: they name no resource.
    #[must_use]
    pub fn read(params: &Params) -> Option<Self> {
        let uri = params.text(Param::Uri)?.into();
        let told = params.raw().map(|raw| without_listen(params, raw));
        Some(Self { uri, told: told.filter(says_more) })
    }

    /// The params of the note that tells it: a JSON object. Which listen it is for is not among them.
    #[must_use]
    pub fn params(&self) -> Bytes {
        match &self.told {
            Some(told) => told.clone(),
            None => Bytes::from(json!({ Param::Uri.name(): self.uri }).to_string()),
        }
    }
}

impl Deref for Updated {
    type Target = str;

    fn deref(&self) -> &str {
        &self.uri
    }
}

impl From<Box<str>> for Updated {
    fn from(uri: Box<str>) -> Self {
        Self { uri, told: None }
    }
}

impl From<&str> for Updated {
    fn from(uri: &str) -> Self {
        Self::from(Box::<str>::from(uri))
    }
}

impl From<String> for Updated {
    fn from(uri: String) -> Self {
        Self::from(uri.into_boxed_str())
    }
}

/// The listen is the receiver's own, and means nothing to anyone else.
fn without_listen(params: &Params, raw: &Bytes) -> Bytes {
    let (Some(meta), Some(_)) = (params.get(Param::Meta), params.meta(MetaKey::SubscriptionId)) else {
        return raw.clone();
    };
    let bare = splice(&meta, &[Edit::Drop(MetaKey::SubscriptionId.name())]).unwrap_or(meta);
    let edit = match &bare[..] {
        b"{}" => Edit::Drop(Param::Meta.name()),
        bare => Edit::Set(Param::Meta.name(), bare),
    };
    splice(raw, &[edit]).unwrap_or_else(|_| raw.clone())
}

/// Is there anything beside the address?
fn says_more(told: &Bytes) -> bool {
    splice(told, &[Edit::Drop(Param::Uri.name())]).is_ok_and(|rest| rest != "{}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    /// S0-72, META-7: all that was told is kept byte for byte, but for the listen; an address alone is only that.
    #[test]
    fn s0_72_what_was_told_is_kept() {
        for (given, kept) in [
            (r#"{"uri":"a:b"}"#, None),
            (r#"{ "uri" : "a:b", "_meta":{"io.modelcontextprotocol/subscriptionId":7} }"#, None),
            (
                r#"{"uri":"a:b","_meta":{"x":1.50,"io.modelcontextprotocol/subscriptionId":"7","y":[]},"z":1e2}"#,
                Some(r#"{"uri":"a:b","_meta":{"x":1.50,"y":[]},"z":1e2}"#),
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"title":"\u00e9","uri":"a:b"}"#,
                Some(r#"{"title":"\u00e9","uri":"a:b"}"#),
            ),
            (r#"{"uri":"a:b","_meta":{}}"#, Some(r#"{"uri":"a:b","_meta":{}}"#)),
        ] {
            let params = Params::scan(Bytes::from_static(given.as_bytes()), &Limits::DEFAULT).unwrap();
            let updated = Updated::read(&params).unwrap();
            assert_eq!(&*updated, "a:b");
            assert_eq!(updated.params(), kept.unwrap_or(r#"{"uri":"a:b"}"#), "{given}");
            assert_eq!(updated == Updated::from("a:b"), kept.is_none(), "{given}");
        }
        let nameless = Params::scan(Bytes::from_static(b"{\"uri\":7}"), &Limits::DEFAULT).unwrap();
        assert_eq!(Updated::read(&nameless), None);
    }
}
