//! What configured servers offered when they last ran, from disk: nothing is started for it.

use cardan_config::{Config, Search, Server};
use cardan_gateway::cache::{CatalogCache, Kept};
use cardan_gateway::catalog::Entry;
use cardan_gateway::configured::here;
use serde_json::Value;

use crate::cmd::config::variable;

/// What a server told; nothing: it has not run as it is configured now, or may not be run. Its values are put in without running
/// anything.
pub(crate) fn kept(server: &Server, config: &Config, search: &Search) -> Option<Kept> {
    let resolved = here(config, search, |surroundings| server.resolve(surroundings)).ok()?;
    let digest = resolved.fingerprint(server.digest()).to_string();
    CatalogCache::of_user(variable)?.load(&digest)
}

/// What an entry says of itself; perhaps nothing.
pub(crate) fn about(entry: &Entry) -> String {
    let said = entry.raw().value();
    let text = |name: &str| said.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text("description").or_else(|| text("title")).unwrap_or_default().to_owned()
}
