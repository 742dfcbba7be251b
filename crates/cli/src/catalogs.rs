//! What configured servers offered when they last ran, on disk: nothing is started to read it.

use cardan_client::Settled;
use cardan_config::resolve::{Reach, Resolved};
use cardan_config::{Config, Search, Server};
use cardan_gateway::cache::{CatalogCache, Kept, Told};
use cardan_gateway::catalog::{Catalog, Entry, Kind, List};
use cardan_gateway::configured::here;
use cardan_proto::method::Method;
use cardan_proto::model::Raw;
use serde_json::Value;

use crate::cmd::config::variable;

/// What a server told; nothing: it has not run as it is configured now, or may not be run. Its values are put in without running
/// anything.
pub(crate) fn kept(server: &Server, config: &Config, search: &Search) -> Option<Kept> {
    let resolved = here(config, search, |surroundings| server.resolve(surroundings)).ok()?;
    let digest = resolved.fingerprint(server.digest()).to_string();
    CatalogCache::of_user(variable)?.load(&digest)
}

/// Where a server's catalog is kept.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    server: String,
    digest: String,
}

impl Shelf {
    /// Nothing: as whom it is reached is not known beforehand, so nothing is kept for the next one.
    pub(crate) fn of(server: &Server, resolved: &Resolved) -> Option<Self> {
        if let Reach::Http(endpoint) | Reach::Sse(endpoint) | Reach::WebSocket(endpoint) = &resolved.reach
            && endpoint.helper.is_some()
        {
            return None;
        }
        let digest = resolved.fingerprint(server.digest()).to_string();
        Some(Self { server: server.name.clone(), digest })
    }

    /// What it is kept under.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Keeps what a server told just now: these lists, beside what is known of others. It is for later convenience, so what hinders
    /// it is not told.
    pub(crate) fn learn<'a>(&self, settled: &Settled, lists: impl Iterator<Item = (Method, &'a [Raw])>) {
        let Some(cache) = CatalogCache::of_user(variable) else { return };
        let greeting = settled.greeting.as_ref().and_then(|raw| serde_json::from_slice(raw).ok());
        let mut catalog = Catalog::new(settled.revision, greeting);
        let old = cache.load(&self.digest);
        let mut told = Told::default();
        if let Some(old) = &old {
            told = old.told;
            for kind in Kind::ALL {
                *catalog.list_mut(kind) = old.catalog.list(kind).clone();
            }
        }
        let mut news = old.is_none();
        for (method, entries) in lists {
            let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.method() == method) else { continue };
            let entries: Vec<_> =
                entries.iter().filter_map(|raw| Entry::of(kind, raw.clone()).ok()).collect();
            // What is there may know more of how long it holds.
            if catalog.list(kind).entries != entries {
                // What it said of who may see it was not looked at.
                *catalog.list_mut(kind) = List { entries, private: true, ..List::default() };
                news = true;
            }
            told.now(kind);
        }
        if news {
            let _ = cache.save(&self.digest, &Kept::new(&self.server, told, catalog));
        }
    }
}

/// What an entry says of itself; perhaps nothing.
pub(crate) fn about(entry: &Entry) -> String {
    let said = entry.raw().value();
    let text = |name: &str| said.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text("description").or_else(|| text("title")).unwrap_or_default().to_owned()
}
