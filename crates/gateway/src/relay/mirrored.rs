//! What headers mirror of tools' arguments, as the lists say that modern clients were told.
//!
//! The upstream never sees these of a client's headers, so they are checked where they come in. Who mirrors has seen the
//! list. What no list knows goes on as it came (`proto::http::stray`).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use cardan_proto::http::param::{ANNOTATION, Mirrors};
use serde::Deserialize;
use serde_json::Value;

/// The tools that mirror something, by name.
#[derive(Debug)]
pub(super) struct Mirrored {
    known: RwLock<HashMap<Box<str>, Arc<Mirrors>>>,
    max: usize,
}

#[derive(Deserialize)]
struct Page {
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    name: Box<str>,
    #[serde(default)]
    input_schema: Value,
}

impl Mirrored {
    /// Of so many tools at most; others are not checked.
    pub(super) fn new(max: usize) -> Self {
        Self { known: RwLock::default(), max }
    }

    /// What the tool's headers mirror; nothing: none of it, as far as is known.
    pub(super) fn of(&self, tool: &str) -> Option<Arc<Mirrors>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }

    /// A page of tools was listed.
    pub(super) fn learn(&self, page: &[u8]) {
        // A page without any need not be read where nothing was before.
        let annotated = page.windows(ANNOTATION.len()).any(|window| window == ANNOTATION.as_bytes());
        if !annotated && self.known.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return;
        }
        let Ok(page) = serde_json::from_slice::<Page>(page) else { return };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for tool in page.tools {
            // Annotations that are unsound mirror nothing: clients drop the tool over HTTP anyway.
            match Mirrors::collect(&tool.input_schema).ok().filter(|mirrors| !mirrors.is_empty()) {
                Some(mirrors) if known.len() < self.max || known.contains_key(&tool.name) => {
                    known.insert(tool.name, Arc::new(mirrors));
                }
                Some(_) => {}
                None => {
                    known.remove(&tool.name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(tools: &[(&str, &str)]) -> Vec<u8> {
        let tool = |(name, header): &(&str, &str)| {
            let mut region = serde_json::json!({"type": "string"});
            if !header.is_empty() {
                region["x-mcp-header"] = (*header).into();
            }
            serde_json::json!({"name": name, "inputSchema": {"type": "object", "properties": {"region": region}}})
        };
        serde_json::json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()}).to_string().into_bytes()
    }

    /// The latest list counts, tool by tool; what is not sound or too much is not known.
    #[test]
    fn lists_are_learnt_within_bounds() {
        let mirrored = Mirrored::new(2);
        mirrored.learn(b"no page x-mcp-header");
        mirrored.learn(&page(&[("a", "Region"), ("b", ""), ("c", "not sound")]));
        assert!(mirrored.of("a").is_some() && mirrored.of("b").is_none() && mirrored.of("c").is_none());
        mirrored.learn(&page(&[("b", "Region"), ("d", "Region")]));
        assert!(mirrored.of("b").is_some() && mirrored.of("d").is_none(), "two at most");
        mirrored.learn(&page(&[("a", "")]));
        assert!(mirrored.of("a").is_none() && mirrored.of("b").is_some());
    }
}
