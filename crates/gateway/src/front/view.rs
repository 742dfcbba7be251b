//! What all servers offer as one, at one moment.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cardan_proto::era::Era;
use cardan_proto::era::caps::ServerCaps;
use cardan_proto::http::param::{ANNOTATION, Mirrors};
use cardan_proto::http::stray::Strays;
use cardan_proto::jsonrpc::envelope::Call;
use cardan_proto::model::skill;
use cardan_proto::model::uri_template::UriTemplate;
use cardan_proto::session::config::Config;
use cardan_proto::session::event::Change;
use cardan_proto::task::{Design, cross};

use crate::catalog::{Catalog, Kind};
use crate::fleet::{Fleet, Upstream};
use crate::merge::{Claim, Merged, Naming, Shown, Source};
use crate::pin::{Held, Pins};
use crate::policy::{Gate, Policy};
use crate::rules::RuleSet;
use crate::templates::{Makes, Templates};

/// Which servers are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// All of them.
    All,
    /// One, under its own names.
    One(Box<str>),
}

impl Scope {
    /// Is a server among them?
    pub(super) fn has(&self, server: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(name) => **name == *server,
        }
    }

    /// How names are kept apart here, where they are so among all.
    pub(super) fn naming(&self, among_all: &Naming) -> Naming {
        match self {
            Self::All => among_all.clone(),
            Self::One(_) => Naming::Never(among_all.separator().into()),
        }
    }

    /// The servers that count, known or not, in their order.
    pub(super) fn upstreams(&self, fleet: &Fleet) -> Vec<Arc<Upstream>> {
        match self {
            Self::All => fleet.upstreams(),
            Self::One(name) => fleet.upstream(name).into_iter().collect(),
        }
    }
}

/// What holds at all fronts before one fleet. Rules are made of names, so both are others in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HouseRules {
    /// How names of several servers are kept apart.
    pub(super) naming: Naming,
    /// Who may see and use what.
    pub(super) policy: Policy,
}

/// Is there a server of which nothing is known?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Unknown {
    /// None.
    #[default]
    Nobody,
    /// One that does not tell, at least not now.
    Silent,
    /// One that may tell at any moment.
    Starting,
}

impl Unknown {
    /// Among these.
    pub(super) fn among(upstreams: &[Arc<Upstream>]) -> Self {
        let mut unknown = upstreams.iter().filter(|upstream| upstream.catalog().is_none()).peekable();
        match unknown.peek().is_some() {
            false => Self::Nobody,
            true if unknown.any(|upstream| upstream.is_open()) => Self::Starting,
            true => Self::Silent,
        }
    }
}

/// A server whose catalog is known.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) upstream: Arc<Upstream>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) rules: Arc<RuleSet>,
    /// Its tools that have changed, and are held back.
    pub(super) held: Arc<Held>,
    /// May names be its own?
    pub(super) claim: Claim,
}

impl Known {
    /// Those of a fleet.
    pub(super) fn of(upstreams: Vec<Arc<Upstream>>, pins: Option<&Pins>) -> Vec<Self> {
        let mut claim = Claim::Sure;
        let known = |upstream: Arc<Upstream>| {
            let catalog = upstream.claimed(&mut claim)?;
            let (rules, held) = (upstream.rules(), held(pins, &upstream, &catalog));
            Some(Self { upstream, catalog, rules, held, claim })
        };
        upstreams.into_iter().filter_map(known).collect()
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.upstream, &other.upstream)
            && Arc::ptr_eq(&self.catalog, &other.catalog)
            && Arc::ptr_eq(&self.rules, &other.rules)
            && self.held == other.held
            && self.claim == other.claim
    }

    /// How the server runs tools as tasks; none: it does not.
    pub(super) fn design(&self) -> Option<Design> {
        cross::offered(self.catalog.revision, self.said().to_string().as_bytes())
    }

    /// What the server can do, with tasks in both designs where it has them in one.
    pub(super) fn capabilities(&self) -> serde_json::Value {
        let said = self.said();
        let Some(design) = self.design() else { return said };
        let both = cross::both(design, &bytes::Bytes::from(said.to_string()));
        serde_json::from_slice(&both).unwrap_or(said)
    }

    /// What the server said that it can do.
    fn said(&self) -> serde_json::Value {
        #[derive(serde::Deserialize)]
        struct Greeting {
            #[serde(default)]
            capabilities: serde_json::Value,
        }
        let greeting = self.catalog.greeting.as_ref().and_then(|raw| raw.read::<Greeting>().ok());
        greeting.map(|greeting| greeting.capabilities).unwrap_or_default()
    }

    /// What the server said of its skills; none: it has none that a client could see.
    pub(super) fn skills(&self) -> Option<serde_json::Value> {
        let has = self.catalog.revision.era() == Era::Modern && self.caps().skills;
        let shown = has && !self.rules.of(Kind::Skills).show_nothing();
        shown.then(|| self.said()["extensions"][skill::EXTENSION].take())
    }

    pub(super) fn caps(&self) -> ServerCaps {
        ServerCaps::read(self.capabilities().to_string().as_bytes())
    }
}

/// Which tools of a server are held back.
pub(super) fn held(pins: Option<&Pins>, upstream: &Upstream, catalog: &Arc<Catalog>) -> Arc<Held> {
    pins.map(|pins| pins.judge(upstream.name(), upstream.pinned(), catalog)).unwrap_or_default()
}

/// What all servers offer as one.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) known: Vec<Known>,
    pub(super) merged: Merged,
    pub(super) naming: Naming,
    /// What that follows from, and who may see and use what.
    pub(super) house: Arc<HouseRules>,
    pub(super) unknown: Unknown,
    /// Tools that have changed, and are held back.
    held: Vec<Shown>,
    /// What was left out, and would be if it were not listed.
    gate: Arc<Gate>,
    /// The templates that are shown, in order, with the server of each.
    templates: Vec<(UriTemplate, usize)>,
    /// Of the tools that mirror something; made when it is first asked for.
    mirrors: OnceLock<HashMap<Box<str>, Arc<Mirrors>>>,
    /// What those are told to whom it is shown; made when it is first asked for.
    config: OnceLock<Arc<Config>>,
}

/// How likely it is that a server has what is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likely {
    /// It says so.
    Said,
    /// It has resources, and may have this one.
    Guessed,
}

/// For what an address is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Listen,
}

impl View {
    pub(super) fn of(known: Vec<Known>, unknown: Unknown, naming: Naming, house: Arc<HouseRules>) -> Self {
        let sources: Vec<_> = known
            .iter()
            .map(|one| {
                let Known { upstream, catalog, rules, claim, .. } = one;
                Source { server: upstream.name(), catalog, rules, claim: *claim }
            })
            .collect();
        let merged = Merged::of(&sources, &naming);
        let is_held =
            |kind, shown: &Shown| kind == Kind::Tools && known[shown.route.source].held.has(&shown.route.key);
        if known.iter().all(|known| known.held.is_empty()) {
            return Self::made(known, unknown, merged, Vec::new(), (naming, house), Arc::default());
        }
        let held =
            merged.list(Kind::Tools).iter().filter(|shown| is_held(Kind::Tools, shown)).cloned().collect();
        let merged = merged.only(|kind, shown| !is_held(kind, shown));
        Self::made(known, unknown, merged, held, (naming, house), Arc::default())
    }

    /// What is left of it behind a gate.
    pub(super) fn behind(&self, gate: &Arc<Gate>) -> Self {
        let separator = self.house.naming.separator();
        let allowed = |kind: Kind, shown: &Shown| {
            let known = &self.known[shown.route.source];
            let written = |name: &str| Naming::written(separator, known.upstream.name(), name);
            let (own, plain) = (&*shown.route.key, known.rules.of(kind).name(&shown.route.key));
            match kind.is_named() {
                true => gate.allows_named(kind, &written(plain), &written(own)),
                false if kind != Kind::Templates => {
                    gate.allows_at(own, self.merged.templates(shown.route.source))
                }
                false => gate.allows(kind, own),
            }
        };
        let merged = self.merged.only(allowed);
        let held = self.held.iter().filter(|shown| allowed(Kind::Tools, shown)).cloned().collect();
        let named = (self.naming.clone(), Arc::clone(&self.house));
        Self::made(self.known.clone(), self.unknown, merged, held, named, Arc::clone(gate))
    }

    fn made(
        known: Vec<Known>,
        unknown: Unknown,
        merged: Merged,
        held: Vec<Shown>,
        (naming, house): (Naming, Arc<HouseRules>),
        gate: Arc<Gate>,
    ) -> Self {
        let template = |shown: &Shown| Some((UriTemplate::parse(&shown.key).ok()?, shown.route.source));
        let templates = merged.list(Kind::Templates).iter().filter_map(template).collect();
        let (mirrors, config) = (OnceLock::new(), OnceLock::new());
        Self { known, merged, naming, house, unknown, held, gate, templates, mirrors, config }
    }

    /// Is it made of these, and by such rules?
    pub(super) fn is_of(&self, known: &[Known], unknown: Unknown, house: &Arc<HouseRules>) -> bool {
        Arc::ptr_eq(&self.house, house)
            && self.unknown == unknown
            && self.known.len() == known.len()
            && self.known.iter().zip(known).all(|(ours, theirs)| ours.is(theirs))
    }

    /// What someone who knew `old` must be told.
    pub(super) fn changes_since(&self, old: &Self) -> Vec<Change> {
        let shown = |view: &Self, kind| -> Vec<_> {
            view.merged.list(kind).iter().map(|shown| (shown.key.clone(), shown.raw.clone())).collect()
        };
        let mut changes = Vec::new();
        for kind in Kind::ALL {
            let change = kind.change();
            if !changes.contains(&change) && shown(self, kind) != shown(old, kind) {
                changes.push(change);
            }
        }
        changes
    }

    /// What those are told to whom it is shown.
    pub(super) fn config(&self, make: impl FnOnce(&Self) -> Config) -> Arc<Config> {
        Arc::clone(self.config.get_or_init(|| Arc::new(make(self))))
    }

    /// May there be something of a kind? Not where every name that there is is hidden. Of addresses it is not known: some can
    /// be read that no list has.
    pub(super) fn offers(&self, kind: Kind) -> bool {
        if self.gate.allows_nothing(kind) {
            return false;
        }
        if self.unknown != Unknown::Nobody || self.known.is_empty() {
            return true;
        }
        let has = |known: &&Known| !known.rules.of(kind).show_nothing() && kind.is_within(&known.caps());
        let mut having = self.known.iter().filter(has).peekable();
        if !kind.is_named() || having.peek().is_none() {
            return having.peek().is_some();
        }
        let held = kind == Kind::Tools && !self.held.is_empty();
        let shown = !self.merged.list(kind).is_empty() || held;
        shown || having.all(|known| known.catalog.list(kind).entries.is_empty())
    }

    /// Is anything of a server there to be seen? Where it has nothing yet, that is so unless something is kept from
    /// whoever looks.
    pub(super) fn shows(&self, server: &Known) -> bool {
        let is_its = |shown: &Shown| Arc::ptr_eq(&self.known[shown.route.source].upstream, &server.upstream);
        let nothing = |kind| server.catalog.list(kind).entries.is_empty();
        Kind::ALL.into_iter().any(|kind| self.merged.list(kind).iter().any(is_its))
            || self.held.iter().any(is_its)
            || (self.gate.is_open() && Kind::ALL.into_iter().all(nothing))
    }

    /// May be told that what is at an address of a server has changed?
    pub(super) fn tells(&self, server: &Upstream, uri: &str) -> bool {
        let at = self.known.iter().position(|known| known.upstream.name() == server.name());
        let (none, rules) = (Templates::default(), server.rules());
        // One whose catalog is not there yet has no templates that could decide.
        let templates = at.map_or(&none, |at| self.merged.templates(at));
        self.gate.allows_at(uri, templates) && rules.show(Kind::Resources, uri, templates)
    }

    /// Where a name leads: the server, and what it is called there.
    pub(super) fn find(&self, kind: Kind, key: &str) -> Option<(Arc<Upstream>, Box<str>)> {
        let route = &self.merged.find(kind, key)?.route;
        Some((Arc::clone(&self.known[route.source].upstream), route.key.clone()))
    }

    /// The server of a tool that is held back, and what the tool is called there.
    pub(super) fn held(&self, tool: &str) -> Option<(&str, &str)> {
        let by_key = self.held.iter().find(|shown| *shown.key == *tool);
        let shown = by_key.or_else(|| self.held.iter().find(|shown| self.is_full_name(shown, tool)))?;
        Some((self.known[shown.route.source].upstream.name(), &shown.route.key))
    }

    /// Is a tool called so with its server's name before its own, where that is always good?
    fn is_full_name(&self, shown: &Shown, tool: &str) -> bool {
        let Naming::Priority(separator) = &self.naming else { return false };
        let known = &self.known[shown.route.source];
        let plain = known.rules.of(Kind::Tools).name(&shown.route.key);
        *Naming::full(separator, known.upstream.name(), plain) == *tool
    }

    /// May what is at an address of a server be seen and read?
    pub(super) fn shows_at(&self, at: usize, uri: &str) -> bool {
        let (rules, templates) = (&self.known[at].rules, self.merged.templates(at));
        self.gate.allows_at(uri, templates) && rules.show(Kind::Resources, uri, templates)
    }

    /// The servers that may have what is at an address, the likeliest first: who lists it, whose template fits, then
    /// whoever has resources, for not all that can be read is listed. What is hidden is nowhere.
    pub(super) fn having(&self, uri: &str, purpose: Purpose) -> Vec<(Arc<Upstream>, Likely)> {
        let able = |at: &usize| {
            let resources = self.known[*at].caps().resources;
            match purpose {
                Purpose::Read => resources.is_some(),
                Purpose::Listen => resources.is_some_and(|cap| cap.subscribe),
            }
        };
        let listed = self.merged.find(Kind::Resources, uri).map(|shown| shown.route.source);
        let said = |at| (at, Likely::Said);
        let places: Vec<(usize, Likely)> = match listed {
            // Whoever lists it has it, but need not tell when it changes.
            Some(at) if purpose == Purpose::Listen => Some(at).filter(able).map(said).into_iter().collect(),
            Some(at) => vec![said(at)],
            None => {
                let fits = |template: &UriTemplate| matches!(template.matches(uri), Ok(Some(_)));
                let templates =
                    self.templates.iter().filter(|(template, _)| fits(template)).map(|(_, at)| *at);
                let guessed = (0..self.known.len()).map(|at| (at, Likely::Guessed));
                let all = templates.map(said).chain(guessed);
                all.filter(|(at, _)| self.shows_at(*at, uri) && able(at)).collect()
            }
        };
        let mut having: Vec<(Arc<Upstream>, Likely)> = Vec::new();
        for (at, likely) in places {
            let upstream = &self.known[at].upstream;
            if !having.iter().any(|(one, _)| Arc::ptr_eq(one, upstream)) {
                having.push((Arc::clone(upstream), likely));
            }
        }
        having
    }

    /// How an address of a server is written where it may hold what nobody is to read: as it is where it is listed, as the
    /// template that makes it, else not at all.
    pub(super) fn written(&self, server: &Arc<Upstream>, uri: &str) -> Option<Box<str>> {
        let at = self.known.iter().position(|known| Arc::ptr_eq(&known.upstream, server))?;
        if self.merged.find(Kind::Resources, uri).is_some_and(|shown| shown.route.source == at) {
            return Some(uri.into());
        }
        let mut making = self.merged.templates(at).making(uri);
        making.find(|(_, makes)| *makes == Makes::Surely).map(|(template, _)| template.into())
    }

    /// The headers of a call of this tool that belong to its parameters: those that came, and those that mirror arguments, which a
    /// legacy client does not send and a link that has never listed the tool does not know.
    pub(super) fn strays(&self, tool: &str, call: &Call) -> Option<Strays> {
        #[derive(serde::Deserialize)]
        struct Params {
            arguments: Option<serde_json::Value>,
        }
        let Some(mirrors) = self.mirrors(tool) else { return call.strays.clone() };
        let arguments = call.params.decode::<Params>().ok().and_then(|params| params.arguments);
        Strays::with_mirrored(call.strays.clone(), &mirrors, &arguments.unwrap_or_default())
    }

    /// What headers mirror of a tool's arguments.
    pub(super) fn mirrors(&self, tool: &str) -> Option<Arc<Mirrors>> {
        let all = self.mirrors.get_or_init(|| {
            #[derive(serde::Deserialize)]
            #[serde(rename_all = "camelCase")]
            struct Tool {
                input_schema: serde_json::Value,
            }
            let of = |shown: &Shown| {
                // Most have none, and need not be read.
                shown.raw.as_str().contains(ANNOTATION).then_some(())?;
                let tool: Tool = shown.raw.read().ok()?;
                // Annotations that are unsound mirror nothing: clients drop the tool over HTTP anyway.
                let mirrors =
                    Mirrors::collect(&tool.input_schema).ok().filter(|mirrors| !mirrors.is_empty())?;
                Some((shown.key.clone(), Arc::new(mirrors)))
            };
            self.merged.list(Kind::Tools).iter().filter_map(of).collect()
        });
        all.get(&self.merged.find(Kind::Tools, tool)?.key).cloned()
    }
}
