//! What is offered to one legacy client alone.
//!
//! Its sessions with servers are its own, and where a server is a process, so is the process. What such a server offers may
//! come to differ from what it offers to others: after a login, say. From then on the client sees what its own session
//! offers.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use super::stale::{Fetches, Stale, Turn};
use super::view::{Known, View};
use crate::catalog::{Catalog, Kind, List};
use crate::fleet::{Upstream, lock};
use crate::pin::Pins;

/// What is offered to one client alone.
#[derive(Default)]
pub(super) struct Own {
    inner: Mutex<Inner>,
    /// By server, where lists are being fetched: those that are to be fetched next.
    stale: Mutex<HashMap<Box<str>, Stale>>,
    fetches: Fetches,
}

#[derive(Default)]
struct Inner {
    /// By server: the catalog that its session has, and whose it is.
    catalogs: HashMap<Box<str>, (Arc<Upstream>, Arc<Catalog>)>,
    /// What was made of them, and of what else.
    made: Option<(Arc<View>, Arc<View>)>,
}

impl Own {
    /// What is offered, where all others are offered `common`.
    pub(super) fn view(&self, common: Arc<View>, pins: Option<&Pins>) -> Arc<View> {
        let mut inner = lock(&self.inner);
        if inner.catalogs.is_empty() {
            return common;
        }
        if let Some((of, made)) = &inner.made
            && Arc::ptr_eq(of, &common)
        {
            return Arc::clone(made);
        }
        // What has become the same for all is nothing of its own.
        inner.catalogs.retain(|_, (upstream, catalog)| {
            let known = common.known.iter().find(|known| Arc::ptr_eq(&known.upstream, upstream));
            known.is_some_and(|known| !catalog.changes_since(&known.catalog).is_empty())
        });
        let made = Arc::new(fitted(&common, pins, |known| {
            let (upstream, catalog) = inner.catalogs.get(known.upstream.name())?;
            Arc::ptr_eq(upstream, &known.upstream).then(|| Arc::clone(catalog))
        }));
        inner.made = Some((common, Arc::clone(&made)));
        made
    }

    /// A list of a server is this one, for this client.
    pub(super) fn put(&self, common: &View, upstream: &Arc<Upstream>, kind: Kind, list: List) {
        let Some(known) = common.known.iter().find(|known| Arc::ptr_eq(&known.upstream, upstream)) else {
            return;
        };
        let mut inner = lock(&self.inner);
        let there = inner.catalogs.get(upstream.name()).filter(|(of, _)| Arc::ptr_eq(of, upstream));
        let before = there.map_or(&known.catalog, |(_, catalog)| catalog);
        if before.list(kind).entries == list.entries {
            return;
        }
        let mut catalog = (**before).clone();
        *catalog.list_mut(kind) = list;
        inner.catalogs.insert(upstream.name().into(), (Arc::clone(upstream), Arc::new(catalog)));
        inner.made = None;
    }

    /// What is held back is looked at again.
    pub(super) fn repin(&self) {
        lock(&self.inner).made = None;
    }

    /// The client's session with a server is over.
    pub(super) fn forget(&self, server: &str) {
        let mut inner = lock(&self.inner);
        if inner.catalogs.remove(server).is_some() {
            inner.made = None;
        }
    }

    /// Lists of a server are not what they were.
    pub(super) fn touch(&self, server: &str, kinds: impl IntoIterator<Item = Kind>) -> Turn {
        lock(&self.stale).entry(server.into()).or_default().touch(kinds)
    }

    /// What is to be fetched next of a server, by whoever fetches.
    pub(super) fn next(&self, server: &str) -> Option<Kind> {
        let mut stale = lock(&self.stale);
        let next = stale.get_mut(server).and_then(Stale::next);
        if next.is_none() {
            stale.remove(server);
        }
        next
    }

    /// Fetches something for as long as the client is here.
    pub(super) fn fetch(&self, fetching: impl Future<Output = ()> + Send + 'static) {
        self.fetches.spawn(fetching);
    }
}

/// What all are offered, with another catalog where `own` has one.
pub(super) fn fitted(
    common: &View,
    pins: Option<&Pins>,
    own: impl Fn(&Known) -> Option<Arc<Catalog>>,
) -> View {
    let known = common.known.iter().map(|known| {
        let mut known = known.clone();
        if let Some(catalog) = own(&known) {
            // What is offered to some alone is looked at as closely.
            known.held = pins
                .map(|pins| pins.look(known.upstream.name(), known.upstream.pinned(), &catalog))
                .unwrap_or_default();
            known.catalog = catalog;
        }
        known
    });
    View::of(known.collect(), common.unknown, common.naming.clone(), Arc::clone(&common.house))
}
