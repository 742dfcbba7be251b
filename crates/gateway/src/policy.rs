//! Who may see and use what. One decision gates lists and calls alike.
//!
//! Tools and prompts are named `SERVER__NAME` in rules, however clients see them: under the server's name, without it,
//! or at the server's own address. So no way in has rules of its own. The server is written as it is configured or as it stands
//! before names. Resources and templates are named by their address.

use std::collections::BTreeMap;
use std::sync::Arc;

use cardan_config::policy::{Access, EVERYONE, Names};

use crate::catalog::Kind;
use crate::rules::{Pattern, RuleSet, Rules};
use crate::templates::Templates;

/// Who may see and use what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// Those of whom nothing is said by name.
    others: Arc<Gate>,
    named: BTreeMap<Box<str>, Arc<Gate>>,
}

/// What one principal may see and use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gate {
    /// All of them must allow it.
    rules: Vec<RuleSet>,
}

impl Policy {
    /// Of what several files say. Each holds, so that none loosens another.
    #[must_use]
    pub fn of(files: &[cardan_config::policy::Policy]) -> Self {
        let mut named: BTreeMap<Box<str>, Arc<Gate>> = BTreeMap::new();
        for (who, _) in files.iter().flat_map(|file| &file.who).filter(|(who, _)| who != EVERYONE) {
            let gate = || Arc::new(Gate::of(files, Some(who)));
            named.entry(who.as_str().into()).or_insert_with(gate);
        }
        Self { others: Arc::new(Gate::of(files, None)), named }
    }

    /// What a principal may see and use; nothing: nobody in particular.
    #[must_use]
    pub fn gate(&self, principal: Option<&str>) -> &Arc<Gate> {
        principal.and_then(|principal| self.named.get(principal)).unwrap_or(&self.others)
    }
}

impl Gate {
    fn of(files: &[cardan_config::policy::Policy], principal: Option<&str>) -> Self {
        let rules = files.iter().map(|file| {
            let said = |who: &str| file.who.iter().find(|(name, _)| name == who).map(|(_, access)| access);
            let (all, own) = (said(EVERYONE), principal.and_then(said));
            let of = |names: fn(&Access) -> &Names| rules(all.map(names), own.map(names));
            RuleSet {
                tools: of(|access| &access.tools),
                prompts: of(|access| &access.prompts),
                resources: of(|access| &access.resources),
            }
        });
        Self { rules: rules.filter(|rules| *rules != RuleSet::default()).collect() }
    }

    /// May it be seen and used, where `names` are the ways to write what it is called and `own` those of what its server calls it?
    /// Any of the former may be allowed. Whatever is denied stays denied, so that neither a new name nor another way to write one is
    /// a way around the policy.
    #[must_use]
    pub fn allows_named<N: AsRef<str>>(&self, kind: Kind, names: &[N], own: &[N]) -> bool {
        let denied = |rules: &Rules| names.iter().chain(own).any(|name| rules.denies(name.as_ref()));
        let listed = |rules: &Rules| names.iter().any(|name| rules.lists(name.as_ref()));
        self.rules.iter().map(|rules| rules.of(kind)).all(|rules| listed(rules) && !denied(rules))
    }

    /// May what is at an address be seen and read? Its server's templates decide too.
    #[must_use]
    pub fn allows_at(&self, uri: &str, templates: &Templates) -> bool {
        self.rules.iter().all(|rules| rules.resources.show_at(uri, templates))
    }

    /// May it be seen and used? By the name that rules are about.
    #[must_use]
    pub fn allows(&self, kind: Kind, name: &str) -> bool {
        self.rules.iter().all(|rules| rules.of(kind).show(name))
    }

    /// May nothing of a kind ever be seen, whatever there may be?
    #[must_use]
    pub fn allows_nothing(&self, kind: Kind) -> bool {
        self.rules.iter().any(|rules| rules.of(kind).show_nothing())
    }

    /// Is everything allowed?
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.rules.is_empty()
    }
}

/// Denials add up; of the lists of what is allowed one's own counts, else that for all.
fn rules(all: Option<&Names>, own: Option<&Names>) -> Rules {
    let patterns = |names: &Vec<String>| names.iter().map(|name| Pattern::new(name)).collect::<Vec<_>>();
    let allow = [own, all].into_iter().flatten().find_map(|names| names.allow.as_ref());
    let deny = [own, all].into_iter().flatten().flat_map(|names| patterns(&names.deny)).collect();
    Rules { allow: allow.map(patterns), deny, ..Rules::default() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cardan_config::File;

    use super::*;

    fn policy(files: &[&str]) -> Policy {
        let read = |text: &&str| File::parse(Path::new("cardan.toml"), text, None).unwrap().policy;
        Policy::of(&files.iter().map(read).collect::<Vec<_>>())
    }

    /// T15: what is denied is denied, whatever allows it; what nobody speaks of is allowed.
    #[test]
    fn t15_denials_win_and_the_rest_is_allowed() {
        let policy = policy(&["
            [policy.'*']
            tools = { allow = ['files__*'], deny = ['*__delete'] }
            [policy.ada]
            tools = { allow = ['*'], deny = ['files__write'] }
            [policy.bob]
            resources = { deny = ['file:///etc/*'] }
        "]);
        let rows = [
            (None, "files__read", true),
            (None, "files__delete", false),
            (None, "db__query", false),
            (Some("ada"), "db__query", true),
            (Some("ada"), "files__write", false),
            (Some("ada"), "db__delete", false),
            (Some("bob"), "files__write", true),
            (Some("bob"), "db__query", false),
            (Some("stranger"), "db__query", false),
            (Some("*"), "db__query", false),
        ];
        for (who, tool, allowed) in rows {
            assert_eq!(policy.gate(who).allows(Kind::Tools, tool), allowed, "{who:?} {tool}");
        }
        for kind in [Kind::Resources, Kind::Templates] {
            assert!(!policy.gate(Some("bob")).allows(kind, "file:///etc/passwd"));
            assert!(policy.gate(None).allows(kind, "file:///etc/passwd"));
        }
        assert!(policy.gate(Some("ada")).allows(Kind::Prompts, "anything"));
    }

    /// T15: what is denied is denied under a new name too; what is allowed is allowed by the name that is shown.
    #[test]
    fn t15_a_new_name_is_no_way_around() {
        let policy = policy(&["[policy.'*']\ntools = { allow = ['a__*'], deny = ['a__delete'] }\n"]);
        let may = |name, own| policy.gate(None).allows_named(Kind::Tools, &[name], &[own]);
        assert_eq!(
            [
                may("a__keep", "a__delete"),
                may("a__delete", "a__keep"),
                may("a__x", "b__x"),
                may("b__x", "a__x")
            ],
            [false, false, true, false]
        );
    }

    #[test]
    fn no_file_loosens_another() {
        let policy = policy(&[
            "[policy.ada]\ntools = { allow = ['*'] }\n",
            "[policy.'*']\ntools = { allow = ['a__*'] }\n[policy.ada]\ntools = { deny = ['a__x'] }\n",
        ]);
        let may = |who, tool| policy.gate(who).allows(Kind::Tools, tool);
        assert_eq!(
            [may(Some("ada"), "a__y"), may(Some("ada"), "a__x"), may(Some("ada"), "b__y")],
            [true, false, false]
        );
        assert_eq!([may(None, "a__x"), may(None, "b__y")], [true, false]);
        assert!(Policy::default().gate(None).is_open() && !policy.gate(None).is_open());
    }
}
