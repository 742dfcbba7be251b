//! What one server offers, as it told it: its lists, whose entries stay raw, and its introduction.

use cardan_client::{CallError, Caller, Page};
use cardan_proto::era::caps::ServerCaps;
use cardan_proto::era::{Era, Revision};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::raw::Raw;
use cardan_proto::model::{Cursor, Flaw, ServerCapabilities, shape, skill};
use cardan_proto::session::event::Change;
use serde::{Deserialize, Serialize};

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Tools, by name.
    Tools,
    /// Prompts, by name.
    Prompts,
    /// Resources, by address.
    Resources,
    /// Templates of addresses, by the template.
    Templates,
    /// Skills, by the address of their manifest.
    Skills,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates, Self::Skills];

    /// The method that lists them.
    #[must_use]
    pub const fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsList,
            Self::Prompts => Method::PromptsList,
            Self::Resources => Method::ResourcesList,
            Self::Templates => Method::ResourcesTemplatesList,
            Self::Skills => Method::SkillsList,
        }
    }

    /// Is it called by a name, which can be changed, rather than by an address?
    #[must_use]
    pub const fn is_named(self) -> bool {
        matches!(self, Self::Tools | Self::Prompts)
    }

    /// Does a server of this era with these capabilities have such a list?
    #[must_use]
    pub fn offered_by(self, capabilities: &ServerCapabilities, era: Era) -> bool {
        match self {
            Self::Tools => capabilities.tools.is_some(),
            Self::Prompts => capabilities.prompts.is_some(),
            Self::Resources | Self::Templates => capabilities.resources.is_some(),
            // An extension, and those are of one era, whatever else is said.
            Self::Skills => era == Era::Modern && capabilities.extension(skill::EXTENSION).is_some(),
        }
    }

    /// The same, of what was read once.
    pub(crate) fn is_within(self, caps: &ServerCaps) -> bool {
        match self {
            Self::Tools => caps.tools.is_some(),
            Self::Prompts => caps.prompts.is_some(),
            Self::Resources | Self::Templates => caps.resources.is_some(),
            Self::Skills => caps.skills,
        }
    }

    /// Does this change concern the list?
    #[must_use]
    pub fn touched_by(self, change: &Change) -> bool {
        self.change() == *change
    }

    /// What is told when the list is another.
    #[must_use]
    pub fn change(self) -> Change {
        match self {
            Self::Tools => Change::Tools,
            Self::Prompts => Change::Prompts,
            // Skills are made of resources, and have no word of their own for it.
            Self::Resources | Self::Templates | Self::Skills => Change::Resources,
        }
    }
}

/// One tool, prompt, resource, template or skill.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(into = "Raw")]
pub struct Entry {
    key: Box<str>,
    raw: Raw,
}

impl Entry {
    /// One of a kind, which says what it is called by: whatever else is said of it has no part in that.
    pub fn of(kind: Kind, raw: Raw) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Named {
            name: Box<str>,
        }
        #[derive(Deserialize)]
        struct Placed {
            uri: Box<str>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Making {
            uri_template: Box<str>,
        }
        let key = match kind {
            Kind::Tools | Kind::Prompts => raw.read::<Named>()?.name,
            Kind::Resources | Kind::Skills => raw.read::<Placed>()?.uri,
            Kind::Templates => raw.read::<Making>()?.uri_template,
        };
        Ok(Self { key, raw })
    }

    /// Its name, address or template: what it is called by.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// All that the server says of it.
    #[must_use]
    pub fn raw(&self) -> &Raw {
        &self.raw
    }
}

impl From<Entry> for Raw {
    fn from(entry: Entry) -> Self {
        entry.raw
    }
}

/// One list of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct List {
    /// In the server's order.
    pub entries: Vec<Entry>,
    /// For how long the server says that it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// May others see it? A list that the server calls private is for whoever asked.
    pub private: bool,
    /// What of it does not have the shape of its kind, if something does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misshapen: Option<Misshapen>,
}

/// Entries that a server lists badly. Those that can be called by something are offered all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misshapen {
    /// How many they are.
    pub count: usize,
    /// What is wrong with the first of them.
    pub first: Box<str>,
}

impl List {
    /// Of these, all of a kind.
    pub fn of(kind: Kind, entries: Vec<Raw>) -> Result<Self, serde_json::Error> {
        let entries = entries.into_iter().map(|raw| Entry::of(kind, raw)).collect::<Result<_, _>>()?;
        Ok(Self { entries, ..Self::default() })
    }

    /// Takes in what the server lists next; one that is wrong keeps nobody from its neighbours. `index` is its place.
    fn take(&mut self, kind: Kind, index: usize, raw: Raw) {
        let method = kind.method();
        let flaw = shape::flaw_of_entry(&method, index, raw.as_str(), Limits::DEFAULT.excerpt_bytes);
        let nameless = match Entry::of(kind, raw) {
            Ok(entry) => {
                self.entries.push(entry);
                None
            }
            Err(error) => Some(Flaw::at(&index.to_string(), error.to_string())),
        };
        if let Some(flaw) = flaw.or(nameless) {
            let first = || Misshapen { count: 0, first: format!("{method}: {flaw}").into() };
            self.misshapen.get_or_insert_with(first).count += 1;
        }
    }
}

/// What one server offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// The revision that was settled when it was told.
    #[serde(with = "date")]
    pub revision: Revision,
    /// How the server introduced itself: its result of `initialize` or `server/discover`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub greeting: Option<Raw>,
    /// Its tools.
    #[serde(deserialize_with = "kept::tools")]
    pub tools: List,
    /// Its prompts.
    #[serde(deserialize_with = "kept::prompts")]
    pub prompts: List,
    /// Its resources.
    #[serde(deserialize_with = "kept::resources")]
    pub resources: List,
    /// Its templates.
    #[serde(deserialize_with = "kept::templates")]
    pub templates: List,
    /// Its skills.
    #[serde(default, deserialize_with = "kept::skills")]
    pub skills: List,
}

impl Catalog {
    /// An empty one.
    #[must_use]
    pub fn new(revision: Revision, greeting: Option<Raw>) -> Self {
        Self {
            revision,
            greeting,
            tools: List::default(),
            prompts: List::default(),
            resources: List::default(),
            templates: List::default(),
            skills: List::default(),
        }
    }

    /// One of its lists.
    #[must_use]
    pub fn list(&self, kind: Kind) -> &List {
        match kind {
            Kind::Tools => &self.tools,
            Kind::Prompts => &self.prompts,
            Kind::Resources => &self.resources,
            Kind::Templates => &self.templates,
            Kind::Skills => &self.skills,
        }
    }

    /// One of its lists, to be replaced.
    pub fn list_mut(&mut self, kind: Kind) -> &mut List {
        match kind {
            Kind::Tools => &mut self.tools,
            Kind::Prompts => &mut self.prompts,
            Kind::Resources => &mut self.resources,
            Kind::Templates => &mut self.templates,
            Kind::Skills => &mut self.skills,
        }
    }

    /// What someone who knew `old` must be told.
    #[must_use]
    pub fn changes_since(&self, old: &Self) -> Vec<Change> {
        let differs = |kind: &Kind| self.list(*kind).entries != old.list(*kind).entries;
        let mut changes = Vec::new();
        for change in Kind::ALL.into_iter().filter(differs).map(Kind::change) {
            if !changes.contains(&change) {
                changes.push(change);
            }
        }
        changes
    }
}

/// Asks a server for one of its lists, all pages.
pub async fn fetch(caller: &Caller, kind: Kind) -> Result<List, CallError> {
    match kind {
        Kind::Tools => gather::<Tools>(caller, kind).await,
        Kind::Prompts => gather::<Prompts>(caller, kind).await,
        Kind::Resources => gather::<Resources>(caller, kind).await,
        Kind::Templates => gather::<Templates>(caller, kind).await,
        Kind::Skills => gather::<Skills>(caller, kind).await,
    }
}

async fn gather<P: Page<Entry = Raw> + Hints>(caller: &Caller, kind: Kind) -> Result<List, CallError> {
    let mut pages = caller.pages::<P>(kind.method());
    let mut list = List::default();
    let (mut first, mut index) = (true, 0);
    while let Some(page) = pages.next().await {
        let page = page?;
        // The list holds as long as the page that holds shortest.
        let ttl = page.ttl_ms();
        list.ttl_ms = if first { ttl } else { list.ttl_ms.min(ttl) };
        list.private |= page.is_private();
        for raw in page.entries() {
            list.take(kind, index, raw);
            index += 1;
        }
        first = false;
    }
    Ok(list)
}

/// What a page says of how long it holds and for whom.
trait Hints {
    fn ttl_ms(&self) -> Option<u64>;
    fn is_private(&self) -> bool;
}

macro_rules! raw_page {
    ($page:ident, $member:literal) => {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct $page {
            #[serde(rename = $member)]
            entries: Vec<Raw>,
            next_cursor: Option<Cursor>,
            ttl_ms: Option<u64>,
            cache_scope: Option<Box<str>>,
        }

        impl Page for $page {
            type Entry = Raw;

            fn next(&self) -> Option<&Cursor> {
                self.next_cursor.as_ref()
            }

            fn entries(self) -> Vec<Raw> {
                self.entries
            }
        }

        impl Hints for $page {
            fn ttl_ms(&self) -> Option<u64> {
                self.ttl_ms
            }

            fn is_private(&self) -> bool {
                self.cache_scope.as_deref() == Some("private")
            }
        }
    };
}

raw_page!(Tools, "tools");
raw_page!(Prompts, "prompts");
raw_page!(Resources, "resources");
raw_page!(Templates, "resourceTemplates");
raw_page!(Skills, "skills");

/// Lists as they are kept: what the entries are called by follows from which list it is.
mod kept {
    use cardan_proto::model::raw::Raw;
    use serde::{Deserialize, Deserializer, de::Error as _};

    use super::{Kind, List, Misshapen};

    #[derive(Deserialize)]
    struct Wire {
        entries: Vec<Raw>,
        ttl_ms: Option<u64>,
        #[serde(default)]
        private: bool,
        misshapen: Option<Misshapen>,
    }

    fn list<'de, D: Deserializer<'de>>(kind: Kind, from: D) -> Result<List, D::Error> {
        let Wire { entries, ttl_ms, private, misshapen } = Wire::deserialize(from)?;
        let list = List::of(kind, entries).map_err(D::Error::custom)?;
        Ok(List { ttl_ms, private, misshapen, ..list })
    }

    pub(super) fn tools<'de, D: Deserializer<'de>>(from: D) -> Result<List, D::Error> {
        list(Kind::Tools, from)
    }

    pub(super) fn prompts<'de, D: Deserializer<'de>>(from: D) -> Result<List, D::Error> {
        list(Kind::Prompts, from)
    }

    pub(super) fn resources<'de, D: Deserializer<'de>>(from: D) -> Result<List, D::Error> {
        list(Kind::Resources, from)
    }

    pub(super) fn templates<'de, D: Deserializer<'de>>(from: D) -> Result<List, D::Error> {
        list(Kind::Templates, from)
    }

    pub(super) fn skills<'de, D: Deserializer<'de>>(from: D) -> Result<List, D::Error> {
        list(Kind::Skills, from)
    }
}

/// A revision as its date.
mod date {
    use cardan_proto::era::Revision;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(revision: &Revision, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(revision.date())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Revision, D::Error> {
        let date = String::deserialize(from)?;
        Revision::parse(&date).ok_or_else(|| D::Error::custom(format!("no revision has the date {date}")))
    }
}
