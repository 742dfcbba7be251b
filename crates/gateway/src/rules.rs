//! What of a server's catalog is shown, and under which name.

use std::collections::BTreeMap;

use crate::catalog::Kind;
use crate::templates::{Makes, Templates};

/// A name, or part of one: `*` stands for anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// A pattern from its text. Any text is one.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Does every name fit?
    fn fits_all(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte == b'*')
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
        self.lists(name) && !self.denies(name)
    }

    /// Is what is at an address shown? The same answer decides whether it can be read. What a denied template makes is denied,
    /// and what an allowed one makes is allowed, whether it is listed or not.
    #[must_use]
    pub fn show_at(&self, uri: &str, templates: &Templates) -> bool {
        if self.allow.is_none() && self.deny.is_empty() {
            return true;
        }
        if self.denies(uri) || templates.making(uri).any(|(template, _)| self.denies(template)) {
            return false;
        }
        let surely = |(template, makes)| (makes == Makes::Surely).then_some(template);
        let listed = |name: &str| self.lists(name);
        listed(uri) || templates.making(uri).filter_map(surely).any(listed)
    }

    /// Is it among those that are shown, unless they are denied?
    pub(crate) fn lists(&self, name: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.iter().any(|pattern| pattern.fits(name)))
    }

    /// Is nothing ever shown, whatever there may be?
    #[must_use]
    pub fn show_nothing(&self) -> bool {
        self.allow.as_ref().is_some_and(Vec::is_empty) || self.deny.iter().any(Pattern::fits_all)
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
    /// By address; for templates, by the template; for skills, by the address of the manifest.
    pub resources: Rules,
}

impl RuleSet {
    /// The rules about one kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> &Rules {
        match kind {
            Kind::Tools => &self.tools,
            Kind::Prompts => &self.prompts,
            Kind::Resources | Kind::Templates | Kind::Skills => &self.resources,
        }
    }

    /// Is what the server calls so shown? Of an address its templates decide too.
    #[must_use]
    pub fn show(&self, kind: Kind, key: &str, templates: &Templates) -> bool {
        match kind {
            Kind::Resources | Kind::Skills => self.resources.show_at(key, templates),
            _ => self.of(kind).show(key),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

    use cardan_proto::era::Revision;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::catalog::{Catalog, List};

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

    fn templates(texts: &[&str]) -> Templates {
        let mut catalog = Catalog::new(Revision::LATEST_LEGACY, None);
        let entry = |text: &&str| serde_json::from_value(json!({"uriTemplate": text, "name": "x"})).unwrap();
        catalog.templates = List::of(Kind::Templates, texts.iter().map(entry).collect()).unwrap();
        Templates::of(&catalog)
    }

    /// T15: an address is gated by the templates that make it, for lists and for reading alike.
    #[test]
    fn t15_an_address_is_gated_by_its_templates() {
        let templates = templates(&["a://t/{key}", "a://s/{+path}", "no { template"]);
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::new(text)).collect::<Vec<_>>();
        type Texts = &'static [&'static str];
        let rows: [(Option<Texts>, Texts, &str, bool); 12] = [
            (None, &[], "a://t/x", true),
            (None, &["a://t/{key}"], "a://t/x", false),
            (None, &["a://t/{key}"], "a://t/x/y", true),
            (None, &["*{+path}"], "a://s/x/y", false),
            (None, &["a://s/{+path}"], "a://s/../t", false),
            (None, &["a://t/x"], "a://t/y", true),
            (Some(&["a://t/{key}"]), &[], "a://t/x", true),
            (Some(&["a://t/{key}"]), &["a://t/x"], "a://t/x", false),
            (Some(&["a://t/{key}"]), &[], "a://s/x", false),
            (Some(&["a://s/{+path}"]), &[], "a://s/../t", false),
            (Some(&["a://t/x"]), &[], "a://t/x", true),
            (Some(&["a://t/x"]), &["a://t/{key}"], "a://t/x", false),
        ];
        for (allow, deny, uri, shown) in rows {
            let rules = Rules { allow: allow.map(patterns), deny: patterns(deny), ..Rules::default() };
            assert_eq!(rules.show_at(uri, &templates), shown, "{allow:?} {deny:?} {uri}");
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
        let nothing = [
            Rules { allow: Some(Vec::new()), ..Rules::default() },
            Rules { deny: vec![Pattern::new("**")], ..Rules::default() },
        ];
        assert!(nothing.iter().all(|rules| !rules.show("anything") && rules.show_nothing()));
        assert!(!rules.show_nothing() && !Rules::default().show_nothing());
        assert!(!Rules { deny: vec![Pattern::new("")], ..Rules::default() }.show_nothing());
    }
}
