//! What of a server's catalog is shown, and under which name.

use std::collections::BTreeMap;

use crate::catalog::Kind;

/// A name, or part of one: `*` stands for anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// A pattern from its text. Any text is one.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Does the name fit?
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let mut rest = rest;
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            // The earliest place leaves the most room for what follows.
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

/// What is shown of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Only these, where there is a list.
    pub allow: Option<Vec<Pattern>>,
    /// Not these, whatever else is said.
    pub deny: Vec<Pattern>,
    /// Under another name, and no more under its own. A resource stays where it is: its address is what others refer to.
    pub rename: BTreeMap<String, String>,
    /// With another description.
    pub describe: BTreeMap<String, String>,
}

impl Rules {
    /// Is what the server calls so shown? The same answer decides whether it can be called.
    #[must_use]
    pub fn show(&self, name: &str) -> bool {
        let listed = self.allow.as_ref().is_none_or(|allow| allow.iter().any(|pattern| pattern.fits(name)));
        listed && !self.denies(name)
    }

    /// Is it among those that are not shown, whatever else is said?
    #[must_use]
    pub fn denies(&self, name: &str) -> bool {
        self.deny.iter().any(|pattern| pattern.fits(name))
    }

    /// What it is called in place of `name`.
    #[must_use]
    pub fn name<'a>(&'a self, name: &'a str) -> &'a str {
        self.rename.get(name).map_or(name, String::as_str)
    }
}

/// The rules of one server, by what they are about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// By name.
    pub tools: Rules,
    /// By name.
    pub prompts: Rules,
    /// By address; for templates, by the template.
    pub resources: Rules,
}

impl RuleSet {
    /// The rules about one kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> &Rules {
        match kind {
            Kind::Tools => &self.tools,
            Kind::Prompts => &self.prompts,
            Kind::Resources | Kind::Templates => &self.resources,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_star_stands_for_anything() {
        let rows = [
            ("add", "add", true),
            ("add", "adds", false),
            ("", "", true),
            ("*", "", true),
            ("*", "add", true),
            ("a*", "add", true),
            ("a*", "sad", false),
            ("*d", "add", true),
            ("*d", "adds", false),
            ("a*d", "ad", true),
            ("a*d", "a", false),
            ("ab*ba", "aba", false),
            ("*get*file*", "please_get_a_file_now", true),
            ("*get*file*", "file_get", false),
            ("**", "x", true),
        ];
        for (pattern, name, fits) in rows {
            assert_eq!(Pattern::new(pattern).fits(name), fits, "{pattern} {name}");
        }
    }

    proptest! {
        /// The plain definition, slow and obvious.
        #[test]
        fn fitting_is_what_it_is_defined_as(pattern in "[ab*]{0,8}", name in "[ab]{0,10}") {
            fn fits(pattern: &[u8], name: &[u8]) -> bool {
                match pattern.split_first() {
                    None => name.is_empty(),
                    Some((b'*', rest)) => (0..=name.len()).any(|at| fits(rest, &name[at..])),
                    Some((byte, rest)) => name.first() == Some(byte) && fits(rest, &name[1..]),
                }
            }
            prop_assert_eq!(Pattern::new(&pattern).fits(&name), fits(pattern.as_bytes(), name.as_bytes()));
        }
    }

    #[test]
    fn what_is_denied_is_never_shown() {
        let rules = Rules {
            allow: Some(vec![Pattern::new("get_*"), Pattern::new("put")]),
            deny: vec![Pattern::new("*_secret")],
            ..Rules::default()
        };
        let shown: Vec<_> =
            ["get_a", "put", "put_b", "get_secret"].into_iter().filter(|name| rules.show(name)).collect();
        assert_eq!(shown, ["get_a", "put"]);
        assert!(Rules::default().show("anything"));
        assert!(!Rules { allow: Some(Vec::new()), ..Rules::default() }.show("anything"));
    }
}
