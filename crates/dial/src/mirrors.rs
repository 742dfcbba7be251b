//! What the tools of a modern server mirror to headers, as their latest listing says.

use std::collections::HashMap;

use bytes::Bytes;
use cardan_proto::http::param::{self, Defect, Mirrors, Unfit};
use cardan_proto::jsonrpc::splice::{Edit, splice};
use http::{HeaderName, HeaderValue};
use serde_json::Value;
use serde_json::value::RawValue;

/// The tools that mirror something, by name.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    known: HashMap<Box<str>, Mirrors>,
}

/// Tools beyond this are called without their headers, which their server refuses.
const MAX_TOOLS: usize = 4096;

impl Tools {
    /// The headers of a call. A tool that was never listed has none.
    pub(crate) fn headers(
        &self,
        name: &str,
        arguments: Option<&[u8]>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, Unfit> {
        let Some(mirrors) = self.of(name) else { return Ok(Vec::new()) };
        let arguments = arguments.and_then(|raw| serde_json::from_slice::<Value>(raw).ok());
        mirrors.derive(&arguments.unwrap_or_default())
    }

    /// What a tool mirrors; nothing: none of it, as far as is known.
    pub(crate) fn of(&self, name: &str) -> Option<&Mirrors> {
        self.known.get(name)
    }

    /// Learns from a listing.
    pub(crate) fn learn(&mut self, listed: Vec<(Box<str>, Mirrors)>) {
        for (name, mirrors) in listed {
            if mirrors.is_empty() {
                self.known.remove(&name);
            } else if self.known.len() < MAX_TOOLS || self.known.contains_key(&name) {
                self.known.insert(name, mirrors);
            }
        }
    }
}

/// A listing, sifted: tools whose annotations break the rules are not offered.
pub(crate) struct Listing {
    /// What the tools that stay mirror.
    pub(crate) kept: Vec<(Box<str>, Mirrors)>,
    /// The tools that go, and why.
    pub(crate) dropped: Vec<(Box<str>, Defect)>,
    /// The result without them; none: nothing had to go.
    pub(crate) result: Option<Bytes>,
    /// Where the next page begins.
    pub(crate) cursor: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireList<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    next_cursor: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireTool {
    name: Box<str>,
    #[serde(default)]
    input_schema: Value,
}

impl Listing {
    /// Reads the result of a listing; nothing: it is none, and the session will say so.
    pub(crate) fn read(result: &Bytes) -> Option<Self> {
        let wire: WireList<'_> = serde_json::from_slice(result).ok()?;
        let tools = wire.tools.iter().map(|raw| (serde_json::from_str::<WireTool>(raw.get()).ok(), *raw));
        let none = Value::Null;
        let sifted = param::sift(tools, |(tool, _)| tool.as_ref().map_or(&none, |tool| &tool.input_schema));
        let name = |tool: Option<WireTool>| tool.map(|tool| tool.name);
        let mut left = Vec::new();
        let mut kept = Vec::new();
        for ((tool, raw), mirrors) in sifted.kept {
            left.push(raw.get());
            kept.extend(name(tool).map(|name| (name, mirrors)));
        }
        let dropped: Vec<_> = sifted
            .dropped
            .into_iter()
            .filter_map(|((tool, _), defect)| name(tool).map(|name| (name, defect)))
            .collect();
        let shorter = if dropped.is_empty() {
            None
        } else {
            let tools = format!("[{}]", left.join(","));
            splice(result, &[Edit::Set("tools", tools.as_bytes())]).ok()
        };
        Some(Self { kept, dropped, result: shorter, cursor: wire.next_cursor })
    }
}
