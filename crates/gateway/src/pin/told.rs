//! What people are told of tools that have changed, and what of that they know.

use std::collections::{BTreeMap, BTreeSet};

use super::store::push;

/// A line, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub(super) about: About,
    pub(super) text: String,
}

/// What a line is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    /// A form of a tool that waits to be approved, by its digest.
    Form(Box<str>, String),
    /// A tool of which one more form does not wait: there are enough.
    Crowded(Box<str>),
    /// What is kept cannot be read or written.
    Folder,
}

/// What was told of the tools of a server that are others for one client alone.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// By tool, the oldest first: as many as may wait, so that none of those is told again.
    forms: BTreeMap<Box<str>, Vec<String>>,
    crowded: BTreeSet<Box<str>>,
}

impl Told {
    /// Is this to be told? Trouble is, as often as it comes; anything else once.
    pub(super) fn take(&mut self, about: &About) -> bool {
        match about {
            About::Form(tool, digest) => {
                let told = self.forms.entry(tool.clone()).or_default();
                let is_new = !told.contains(digest);
                if is_new {
                    push(told, digest.clone());
                }
                is_new
            }
            About::Crowded(tool) => self.crowded.insert(tool.clone()),
            About::Folder => true,
        }
    }
}
