//! Many catalogs as one: which name leads where, and what gives way to what.
//!
//! A pure function of the servers in their configured order, so the same servers always give the same names in the
//! same order, whichever of them was ready first. While one of them is not known yet, names that it may come to have are given
//! to none behind it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use cardan_proto::jsonrpc::splice::{Edit, splice};
use cardan_proto::model::raw::Raw;

use crate::catalog::{Catalog, Entry, Kind};
use crate::rules::{RuleSet, Rules};
use crate::templates::Templates;

/// How names of several servers are kept apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Naming {
    /// `server` + separator + `name`, always, so that a name does not depend on who else is there.
    Prefix(Box<str>),
    /// As they are. Whatever has a name that is taken, or that a server before it may still come to have, is not shown. What would
    /// stand in between is how rules name things.
    Never(Box<str>),
    /// As they are, where they are unique or first; later ones of the same name get their server's prefix, and so do all while a
    /// server before theirs may still come to have their names. With it, a name is good in either case.
    Priority(Box<str>),
}

impl Naming {
    /// What stands between server and name, unless told otherwise. One that models' interfaces accept.
    pub const SEPARATOR: &'static str = "__";

    /// What stands between server and name; where names have no prefix, what would.
    pub(crate) fn separator(&self) -> &str {
        let (Self::Prefix(separator) | Self::Never(separator) | Self::Priority(separator)) = self;
        separator
    }

    pub(crate) fn full(separator: &str, server: &str, name: &str) -> Box<str> {
        let mut full = Self::before(separator, server);
        full.push_str(name);
        full.into()
    }

    /// The ways to write a name in rules: as it is shown, and with its server as that is configured.
    pub(crate) fn written(separator: &str, server: &str, name: &str) -> [Box<str>; 2] {
        [Self::full(separator, server, name), format!("{server}{separator}{name}").into()]
    }

    /// What stands before the names of one server. Whatever its own name is, models' interfaces accept it.
    pub(crate) fn before(separator: &str, server: &str) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let mut before: String = server.chars().map(|c| if fits(c) { c } else { '_' }).collect();
        before.push_str(separator);
        before
    }
}

impl Default for Naming {
    fn default() -> Self {
        Self::Prefix(Self::SEPARATOR.into())
    }
}

/// A server whose catalog takes part.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What it is called.
    pub server: &'a str,
    /// What it offers.
    pub catalog: &'a Catalog,
    /// What of that is shown.
    pub rules: &'a RuleSet,
    /// May a name be its own?
    pub claim: Claim,
}

/// Whether a name that nobody else has is a server's to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Claim {
    /// All servers before it are known.
    #[default]
    Sure,
    /// One before it is starting and may come to have the name. If it were given away now, it would lead elsewhere later.
    Open,
}

/// Where a name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The server, by its place among the sources.
    pub source: usize,
    /// What it is called there.
    pub key: Box<str>,
}

/// Something that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Its name or address here.
    pub key: Box<str>,
    /// What is told of it: what the server tells, with our name in place of its own.
    pub raw: Raw,
    /// Where it leads.
    pub route: Route,
}

/// A name that two servers wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    /// What it is about.
    pub kind: Kind,
    /// The name.
    pub key: Box<str>,
    /// The server that has it.
    pub winner: Box<str>,
    /// The server that does not.
    pub loser: Box<str>,
    /// What the loser's is called now; none: it is not shown.
    pub now: Option<Box<str>>,
    /// What would have it shown.
    pub remedy: Remedy,
}

/// What would have something shown whose name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Its server has that name twice: another one by the rules.
    RenameOne,
    /// A prefix for each server's names.
    Prefix,
    /// Another name for a server: a prefix keeps these two apart no more.
    RenameServer,
    /// An address is what it is, and is free where its server is served alone.
    Alone,
}

impl Remedy {
    fn of(kind: Kind, naming: &Naming, winner: &str, loser: &str) -> Self {
        let alike = || Naming::before("", winner) == Naming::before("", loser);
        match naming {
            _ if !kind.is_named() => Self::Alone,
            _ if winner == loser => Self::RenameOne,
            Naming::Prefix(_) => Self::RenameServer,
            Naming::Never(_) | Naming::Priority(_) if alike() => Self::RenameServer,
            Naming::Never(_) | Naming::Priority(_) => Self::Prefix,
        }
    }
}

impl Collision {
    /// Many of them, in a line for each two servers and each kind of thing.
    #[must_use]
    pub fn told(collisions: &[Self]) -> Vec<String> {
        let alike = |one: &Self, two: &Self| {
            let about = |it: &Self| (it.kind, it.winner.clone(), it.loser.clone(), it.now.is_some());
            about(one) == about(two)
        };
        let mut groups: Vec<Vec<&Self>> = Vec::new();
        for collision in collisions {
            match groups.iter_mut().find(|group| alike(group[0], collision)) {
                Some(group) => group.push(collision),
                None => groups.push(vec![collision]),
            }
        }
        groups.iter().map(|group| line(group)).collect()
    }

    fn next(&self) -> &'static str {
        match self.remedy {
            Remedy::RenameOne => "not shown; rename one of them",
            Remedy::Prefix => "not shown; let names be prefixed",
            Remedy::RenameServer => "not shown; give one of the servers another name",
            Remedy::Alone => "not shown; its server served alone has it",
        }
    }
}

/// Named one by one up to here.
const NAMED: usize = 3;

fn line(group: &[&Collision]) -> String {
    let [first, rest @ ..] = group else { return String::new() };
    if rest.is_empty() {
        return first.to_string();
    }
    let what = match first.kind {
        Kind::Tools => "tools",
        Kind::Prompts => "prompts",
        Kind::Resources => "resources",
        Kind::Templates => "templates",
        Kind::Skills => "skills",
    };
    let named: Vec<String> = group.iter().take(NAMED).map(|one| format!("`{}`", one.key)).collect();
    let more = match group.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let now = if first.now.is_some() { "called by their server's name too" } else { first.next() };
    let Collision { winner, loser, .. } = first;
    format!(
        "{} {what} of {loser} give way to those of {winner} ({}{more}), so they are {now}",
        group.len(),
        named.join(", ")
    )
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, winner, loser, now, .. } = self;
        write!(f, "`{key}` of {loser} gives way to that of {winner}, so it is ")?;
        match now {
            Some(now) => write!(f, "called `{now}`"),
            None => f.write_str(self.next()),
        }
    }
}

/// Many catalogs as one.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    lists: [Vec<Shown>; Kind::ALL.len()],
    routes: [HashMap<Box<str>, usize>; Kind::ALL.len()],
    /// Of each source, hidden or not.
    templates: Arc<[Templates]>,
    /// Names that two servers wanted.
    pub collisions: Vec<Collision>,
}

impl Merged {
    /// Merges the catalogs of `sources`, which come in their configured order.
    #[must_use]
    pub fn of(sources: &[Source<'_>], naming: &Naming) -> Self {
        let templates: Arc<[_]> = sources.iter().map(|source| Templates::of(source.catalog)).collect();
        let mut merged = Self { templates: Arc::clone(&templates), ..Self::default() };
        for kind in Kind::ALL {
            for (at, source) in sources.iter().enumerate() {
                let (rules, templates) = (source.rules.of(kind), &templates[at]);
                let entries = &source.catalog.list(kind).entries;
                let shown = || entries.iter().filter(|one| source.rules.show(kind, one.key(), templates));
                let given: HashSet<&str> =
                    shown().filter_map(|one| rules.rename.get(one.key())).map(String::as_str).collect();
                for entry in shown() {
                    // A name that was given is taken from whatever the server may call so.
                    let own = kind.is_named() && !rules.rename.contains_key(entry.key());
                    let place = if own && given.contains(entry.key()) { Place::Given } else { Place::Open };
                    merged.add(kind, at, sources, entry, naming, place);
                }
            }
        }
        if let Naming::Priority(separator) = naming {
            merged.add_full_names(sources, separator);
        }
        merged
    }

    /// What is shown, in order.
    #[must_use]
    pub fn list(&self, kind: Kind) -> &[Shown] {
        &self.lists[kind as usize]
    }

    /// What a name leads to.
    #[must_use]
    pub fn find(&self, kind: Kind, key: &str) -> Option<&Shown> {
        self.routes[kind as usize].get(key).map(|at| &self.lists[kind as usize][*at])
    }

    /// The templates of a source, by its place, hidden or not.
    pub(crate) fn templates(&self, source: usize) -> &Templates {
        &self.templates[source]
    }

    /// The same without what is not to be kept. All names stay what they are: none that is hidden becomes free for others.
    #[must_use]
    pub(crate) fn only(&self, keep: impl Fn(Kind, &Shown) -> bool) -> Self {
        let (collisions, templates) = (self.collisions.clone(), Arc::clone(&self.templates));
        let mut left = Self { collisions, templates, ..Self::default() };
        for kind in Kind::ALL {
            let list = &mut left.lists[kind as usize];
            let mut keep_at = |shown: &Shown| {
                list.push(shown.clone());
                list.len() - 1
            };
            let places: Vec<Option<usize>> =
                self.list(kind).iter().map(|shown| keep(kind, shown).then(|| keep_at(shown))).collect();
            let routes = self.routes[kind as usize].iter();
            left.routes[kind as usize] =
                routes.filter_map(|(key, at)| Some((key.clone(), places[*at]?))).collect();
        }
        left
    }

    /// Whatever is shown by its plain name is found by the one with its server's before it too. It was shown by that while a server
    /// before its own was starting, and whoever has read so may still call it so. Names that are shown go first.
    fn add_full_names(&mut self, sources: &[Source<'_>], separator: &str) {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_named()) {
            for (at, shown) in self.lists[kind as usize].iter().enumerate() {
                let source = &sources[shown.route.source];
                let plain = source.rules.of(kind).name(&shown.route.key);
                let full = Naming::full(separator, source.server, plain);
                self.routes[kind as usize].entry(full).or_insert(at);
            }
        }
    }

    fn add(
        &mut self,
        kind: Kind,
        at: usize,
        sources: &[Source<'_>],
        entry: &Entry,
        naming: &Naming,
        place: Place,
    ) {
        let source = &sources[at];
        let rules = source.rules.of(kind);
        // An address is what others refer to: it stays as it is.
        let plain = if kind.is_named() { rules.name(entry.key()) } else { entry.key() };
        let wanted = match (naming, source.claim) {
            _ if !kind.is_named() => plain.into(),
            (Naming::Prefix(separator), _) | (Naming::Priority(separator), Claim::Open) => {
                Naming::full(separator, source.server, plain)
            }
            (Naming::Never(_), Claim::Open) => return,
            (Naming::Never(_) | Naming::Priority(_), Claim::Sure) => plain.into(),
        };
        let taken = match place {
            Place::Open => self.find(kind, &wanted).map(|taken| taken.route.source),
            Place::Given => Some(at),
        };
        let key = match taken {
            None => wanted,
            Some(winner) => {
                let now = match naming {
                    Naming::Priority(separator) if kind.is_named() => {
                        Some(Naming::full(separator, source.server, plain))
                    }
                    _ => None,
                };
                let now = now.filter(|now| self.find(kind, now).is_none());
                let (winner, loser) = (sources[winner].server, source.server);
                self.collisions.push(Collision {
                    kind,
                    key: wanted,
                    winner: winner.into(),
                    loser: loser.into(),
                    now: now.clone(),
                    remedy: Remedy::of(kind, naming, winner, loser),
                });
                let Some(now) = now else { return };
                now
            }
        };
        let Some(raw) = dressed(kind, entry, &key, rules) else { return };
        let route = Route { source: at, key: entry.key().into() };
        self.routes[kind as usize].insert(key.clone(), self.lists[kind as usize].len());
        self.lists[kind as usize].push(Shown { key, raw, route });
    }
}

/// Whether a name may be free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Open,
    /// The rules give it to something else of the same server.
    Given,
}

/// What the server tells of an entry, with our name and description in place of its own. Nothing: it is nested
/// deeper than any frame may be, so it cannot have come in one.
fn dressed(kind: Kind, entry: &Entry, key: &str, rules: &Rules) -> Option<Raw> {
    // Its head is a copy of what its manifest says, which clients compare.
    if kind == Kind::Skills {
        return Some(entry.raw().clone());
    }
    let name = match kind.is_named() {
        true => Some(key).filter(|key| *key != entry.key()),
        // What is at an address can be called something else for people.
        false => rules.rename.get(entry.key()).map(String::as_str),
    };
    let name = name.map(quoted);
    let description = rules.describe.get(entry.key()).map(|text| quoted(text));
    let mut edits = Vec::new();
    edits.extend(name.as_ref().map(|name| Edit::Set("name", name.as_bytes())));
    edits.extend(description.as_ref().map(|text| Edit::Set("description", text.as_bytes())));
    if edits.is_empty() {
        return Some(entry.raw().clone());
    }
    let spliced = splice(entry.raw().as_str().as_bytes(), &edits).ok()?;
    Raw::parse(std::str::from_utf8(&spliced).ok()?).ok()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
