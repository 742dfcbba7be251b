//! Params: raw, with the spans of the members that the core looks at.

use std::borrow::Cow;

use bytes::Bytes;

use super::scan::{Scanner, Span, Syntax};
use super::splice::cut;
use super::walk::Walk;
use crate::limits::Limits;

macro_rules! keys {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$kdoc:meta])* $key:ident $wire:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name { $($(#[$kdoc])* $key,)* }

        impl $name {
            const COUNT: usize = [$($wire,)*].len();

            pub(super) fn find(name: &[u8]) -> Option<Self> {
                $(if name == $wire.as_bytes() { return Some(Self::$key); })*
                None
            }

            /// The member's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$key => $wire,)* }
            }
        }
    };
}

keys! {
    /// Members of `params` that the core looks at.
    pub enum Param {
        /// Of a tool or prompt.
        Name "name",
        /// Of a tool or prompt call.
        Arguments "arguments",
        /// Metadata.
        Meta "_meta",
        /// Of a resource.
        Uri "uri",
        /// State handed back by a retry.
        RequestState "requestState",
        /// Answers handed in by a retry.
        InputResponses "inputResponses",
        /// The call that a cancel note names.
        RequestId "requestId",
        /// The token that a progress note names.
        ProgressToken "progressToken",
        /// Of a task.
        TaskId "taskId",
    }
}

keys! {
    /// Keys of `_meta` that the core looks at.
    pub enum MetaKey {
        /// Wanted progress.
        ProgressToken "progressToken",
        /// Revision of this call.
        ProtocolVersion "io.modelcontextprotocol/protocolVersion",
        /// Capabilities of the caller.
        ClientCapabilities "io.modelcontextprotocol/clientCapabilities",
        /// Identity of the caller.
        ClientInfo "io.modelcontextprotocol/clientInfo",
        /// Wanted log level.
        LogLevel "io.modelcontextprotocol/logLevel",
        /// The listen that a note belongs to.
        SubscriptionId "io.modelcontextprotocol/subscriptionId",
    }
}

/// The params of a call or note: raw, with the spans of the members we know.
#[derive(Debug, Clone, Default)]
pub struct Params {
    raw: Option<Bytes>,
    known: Known,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) params: [Span; Param::COUNT],
    pub(super) meta: [Span; MetaKey::COUNT],
}

impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Params {
    /// Params that we made ourselves, to be sent: `raw` is a JSON object. Known members are not
    /// looked for; whoever receives them scans.
    #[must_use]
    pub fn outgoing(raw: Bytes) -> Self {
        Self { raw: Some(raw), known: Known::default() }
    }

    pub(super) fn scanned(raw: Bytes, known: Known) -> Self {
        Self { raw: Some(raw), known }
    }

    /// No params at all.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Scans params that did not come in a frame.
    pub fn scan(raw: Bytes, limits: &Limits) -> Result<Self, Syntax> {
        let mut scanner = Scanner::new(&raw, limits.depth);
        let mut walk = Walk::default();
        walk.params(&mut scanner)?;
        Ok(Self { known: walk.known, raw: Some(raw) })
    }

    /// The same in memory of their own, for whoever keeps them: a part of what was read keeps all of it.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { raw: self.raw.as_deref().map(Bytes::copy_from_slice), known: self.known }
    }

    /// The whole object as JSON text, if there is one.
    #[must_use]
    pub fn raw(&self) -> Option<&Bytes> {
        self.raw.as_ref()
    }

    /// One member of `params` as raw JSON.
    #[must_use]
    pub fn get(&self, key: Param) -> Option<Bytes> {
        self.slice(self.known.params[key as usize])
    }

    /// One member of `params._meta` as raw JSON.
    #[must_use]
    pub fn meta(&self, key: MetaKey) -> Option<Bytes> {
        self.slice(self.known.meta[key as usize])
    }

    /// Is all that `params._meta` says said with these keys? Where it is not written tightly, the answer may be no.
    #[must_use]
    pub fn meta_says_only(&self, keys: &[MetaKey]) -> bool {
        let said =
            keys.iter().map(|key| (key, self.known.meta[*key as usize])).filter(|(_, at)| !at.is_absent());
        // A member is its quoted name, a colon, its value and a comma, which the last one lacks. Whatever else stands
        // there makes it longer.
        let tight: usize = said.map(|(key, at)| key.name().len() + at.range().len() + 4).sum();
        self.known.params[Param::Meta as usize].range().len() == tight.saturating_sub(1) + 2
    }

    /// The whole object without one of its members; nothing if that takes a closer look.
    #[must_use]
    pub fn cut(&self, key: Param) -> Option<Bytes> {
        cut(self.raw.as_ref()?, key.name(), self.known.params[key as usize].range())
    }

    /// One member of `params` as text, if it is a string.
    #[must_use]
    pub fn text(&self, key: Param) -> Option<Cow<'_, str>> {
        string_at(self.raw.as_ref()?, self.known.params[key as usize])
    }

    /// One member of `params._meta` as text, if it is a string.
    #[must_use]
    pub fn meta_text(&self, key: MetaKey) -> Option<Cow<'_, str>> {
        string_at(self.raw.as_ref()?, self.known.meta[key as usize])
    }

    /// Decodes the whole object.
    pub fn decode<'a, T: serde::Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_slice(self.raw.as_deref().unwrap_or(b"{}"))
    }

    fn slice(&self, span: Span) -> Option<Bytes> {
        if span.is_absent() {
            return None;
        }
        self.raw.as_ref().map(|raw| raw.slice(span.range()))
    }
}

/// The string at `span`, borrowed where it has no escapes.
pub(super) fn string_at(raw: &[u8], span: Span) -> Option<Cow<'_, str>> {
    let quoted = raw.get(span.range())?;
    let inner = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(quoted).ok().map(Cow::Owned)
}

impl Known {
    pub(super) fn within(mut self, offset: usize) -> Self {
        for span in self.params.iter_mut().chain(&mut self.meta) {
            *span = span.within(offset);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is said with other keys is noticed; what is merely written loosely may be taken for it.
    #[test]
    fn what_meta_says_beside_some_keys_is_noticed() {
        let own = [MetaKey::ProtocolVersion, MetaKey::LogLevel];
        let version = r#""io.modelcontextprotocol/protocolVersion":"x""#;
        let level = r#""io.modelcontextprotocol/logLevel":"info""#;
        let rows = [
            (String::new(), true),
            (version.to_owned(), true),
            (format!("{level},{version}"), true),
            (format!(r#"{version},"a":1"#), false),
            (r#""a":1"#.to_owned(), false),
            (format!(r#"{version},"progressToken":1"#), false),
            (r#""io.modelcontextprotocol\/protocolVersion":"x""#.to_owned(), false),
            (format!("{version} "), false),
        ];
        for (meta, only) in rows {
            let raw = Bytes::from(format!(r#"{{"a":1,"_meta":{{{meta}}},"b":2}}"#));
            let params = Params::scan(raw, &Limits::DEFAULT).expect("an object");
            assert_eq!(params.meta_says_only(&own), only, "{meta}");
        }
    }
}
