//! What is configured, and what servers told when they last ran.

use std::path::PathBuf;

use cardan_config::Config;
use cardan_gateway::catalog::{Catalog, Entry, Kind};

use super::Offer;
use super::walk::Walk;
use crate::catalogs::{about, kept};
use crate::cmd::config::search;
use crate::home::at_home;

/// The file that the command line names, if it does.
pub(super) fn file(walk: &Walk<'_>) -> Option<PathBuf> {
    walk.value("config").map(at_home)
}

/// The configured servers.
pub(super) fn servers(walk: &Walk<'_>) -> Vec<Offer> {
    let Ok(search) = search(file(walk)) else { return Vec::new() };
    let config = Config::load(&search);
    config.servers.iter().map(|server| Offer::word(&server.name, server.way.kind())).collect()
}

/// What a server offered when it last ran. Its values are put in without running anything.
pub(super) fn catalog(walk: &Walk<'_>, name: &str) -> Option<Catalog> {
    let search = search(file(walk)).ok()?;
    let config = Config::load(&search);
    let server = config.server(name).ok()?;
    Some(kept(server, &config, &search)?.catalog)
}

/// One entry of a list, by what it is called.
pub(super) fn entry<'a>(catalog: &'a Catalog, kind: Kind, key: &str) -> Option<&'a Entry> {
    catalog.list(kind).entries.iter().find(|entry| entry.key() == key)
}

/// All entries of a list.
pub(super) fn entries(catalog: &Catalog, kind: Kind) -> Vec<Offer> {
    catalog.list(kind).entries.iter().map(|entry| Offer::word(entry.key(), &about(entry))).collect()
}

/// Templates of addresses, as far as they are the same for all.
pub(super) fn stems(catalog: &Catalog) -> Vec<Offer> {
    let stem = |entry: &Entry| {
        let stem = entry.key().split('{').next().unwrap_or_default();
        Offer::open(stem, &about(entry))
    };
    catalog.templates.entries.iter().map(stem).filter(|offer| !offer.value.is_empty()).collect()
}
