//! What is waited for before something is answered: servers of which nothing is known yet may have what is asked for.

use std::sync::Arc;

use cardan_proto::jsonrpc::fault::Fault;
use tokio::time::Instant;

use super::relays::GRACE;
use super::view::Scope;
use super::{House, Inner};
use crate::catalog::Kind;
use crate::fleet::Upstream;
use crate::merge::Naming;

/// Was there anything to wait for?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    Yes,
    No,
}

impl Inner {
    /// Waits until something is known of all servers that start, within the window after our own start.
    pub(super) async fn settled(&self) {
        let House { fleet, options, opened, .. } = &*self.house;
        let left = options.window.saturating_sub(opened.elapsed());
        if !left.is_zero() {
            fleet.settle(left).await;
        }
    }

    /// Waits until it is known where a name leads: a server of which nothing is known yet may have it.
    pub(super) async fn sought(&self, kind: Kind, key: &str) -> Result<(), Fault> {
        self.settled().await;
        if self.view().find(kind, key).is_some() {
            return Ok(());
        }
        let unknown = self.scope.upstreams(&self.house.fleet);
        let mut unknown = unknown.iter().filter(|upstream| upstream.catalog().is_none());
        match (&self.scope, &self.rules().naming) {
            (Scope::One(_), _) => self.known(unknown.next()).await?,
            (Scope::All, Naming::Prefix(separator)) if kind.is_named() => {
                let may_have =
                    |upstream: &Upstream| key.starts_with(&Naming::before(separator, upstream.name()));
                self.known(unknown.find(|upstream| may_have(upstream))).await?;
            }
            // Whose it may be is not known, so it is not waited for longer than for any that was lost.
            (Scope::All, _) => self.house.fleet.settle(GRACE).await,
        }
        Ok(())
    }

    /// Waits for servers of which nothing is known yet; tells whether there were any.
    pub(super) async fn all_known(&self) -> Result<Waited, Fault> {
        let upstreams = self.scope.upstreams(&self.house.fleet);
        let mut unknown = upstreams.iter().filter(|upstream| upstream.catalog().is_none());
        match self.scope {
            Scope::One(_) => {
                let unknown = unknown.next();
                self.known(unknown).await?;
                Ok(if unknown.is_some() { Waited::Yes } else { Waited::No })
            }
            // Whose it may be is not known, so it is not waited for longer than for any that was lost.
            Scope::All if unknown.any(|upstream| !upstream.is_decided()) => {
                self.house.fleet.settle(GRACE).await;
                Ok(Waited::Yes)
            }
            Scope::All => Ok(Waited::No),
        }
    }

    /// Waits until it is known whether a server that comes before `found` has the same: one that starts, and has not taken too
    /// long for it. What nobody lists any server may, wherever it stands.
    pub(super) async fn preceded(&self, found: Option<&Arc<Upstream>>) {
        let until = || {
            let upstreams = self.scope.upstreams(&self.house.fleet);
            let before =
                upstreams.iter().take_while(|one| !found.is_some_and(|found| Arc::ptr_eq(one, found)));
            let open = before.filter(|one| one.is_open() && !one.is_decided());
            open.map(|one| one.born() + GRACE).max().filter(|until| *until > Instant::now())
        };
        let mut news = self.house.fleet.news();
        while let Some(until) = until() {
            if let Ok(Err(_)) = tokio::time::timeout_at(until, news.changed()).await {
                return;
            }
        }
    }

    /// Waits until it is known what a server offers.
    pub(super) async fn known(&self, upstream: Option<&Arc<Upstream>>) -> Result<(), Fault> {
        let Some(upstream) = upstream else { return Ok(()) };
        let reached = self.house.relays.reach(upstream).await?;
        let mut news = self.house.fleet.news();
        let listed = async {
            // Its lists are asked for as soon as it is there. It may have none, or refuse to tell them.
            while !upstream.is_decided() && news.changed().await.is_ok() {}
        };
        // One that does not tell has nothing to offer for now.
        let _ = tokio::time::timeout(self.house.options.limits.call_idle_timeout, listed).await;
        drop(reached);
        Ok(())
    }

    /// Waits until a list is worth looking at: of all servers what there is, of one alone what it has.
    pub(super) async fn listable(&self) -> Result<(), Fault> {
        self.settled().await;
        if matches!(self.scope, Scope::One(_)) {
            let upstreams = self.scope.upstreams(&self.house.fleet);
            self.known(upstreams.iter().find(|upstream| upstream.catalog().is_none())).await?;
        }
        Ok(())
    }
}
