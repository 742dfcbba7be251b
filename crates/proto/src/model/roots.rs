//! Roots: where the client lets the server look.

use serde::{Deserialize, Serialize};

use super::flaw::{Flaw, under_index};
use super::meta::Meta;
use super::uri;

/// A directory or file that the server may look at.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Root {
    /// Its address, always `file://`.
    pub uri: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Root {
    /// By address.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::default() }
    }

    /// What a client must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let is_file = self.uri.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("file://"));
        match uri::check(&self.uri) {
            Err(flaw) => vec![flaw.under("uri")],
            Ok(()) if !is_file => vec![Flaw::at("uri", "does not start with file://")],
            Ok(()) => Vec::new(),
        }
    }
}

/// Result of listing the roots. In the modern era it is bare: it stands among input responses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// The roots.
    pub roots: Vec<Root>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ListRootsResult {
    /// What a client must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        self.roots
            .iter()
            .enumerate()
            .flat_map(|(index, root)| under_index("roots", index, root.check()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ROOT-3: file addresses only.
    #[test]
    fn roots_are_files() {
        let roots =
            ["file:///home/u", "FILE:///x", "https://example.com/", "/home/u", "file:/x", "file:///a b"];
        let result = ListRootsResult { roots: roots.map(Root::new).into(), meta: None };
        let places: Vec<String> = result.check().into_iter().map(|flaw| flaw.at).collect();
        assert_eq!(places, ["/roots/2/uri", "/roots/3/uri", "/roots/4/uri", "/roots/5/uri"]);
    }
}
