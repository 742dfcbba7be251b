//! What a legacy client wants to hear of: one listen upstream, which another takes the place of when that changes.

use std::sync::Mutex;

use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::session::event::Interest;
use tokio::task::JoinHandle;

use crate::fleet::lock;

/// What a legacy client wants to hear of.
pub(super) struct Wants {
    /// Held while a listen is changed: whoever else subscribes waits.
    interest: tokio::sync::Mutex<Interest>,
    following: Mutex<Option<Following>>,
    /// Resources, at most.
    max: usize,
}

/// Passes changes on, while it lives.
pub(super) struct Following(pub(super) JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Wants {
    /// What is wanted from the beginning.
    pub(super) fn new(interest: Interest, max: usize) -> Self {
        Self { interest: tokio::sync::Mutex::new(interest), following: Mutex::default(), max }
    }

    /// Who passes it on.
    pub(super) fn begin(&self, following: Following) {
        *lock(&self.following) = Some(following);
    }

    /// One more resource. `listen` begins to listen, and tells what of it stands.
    pub(super) async fn add(
        &self,
        uri: &str,
        listen: impl AsyncFnOnce(Interest) -> Result<(Following, Interest), Fault>,
    ) -> Result<(), Fault> {
        let mut interest = self.interest.lock().await;
        if interest.uris.iter().any(|listened| **listened == *uri) {
            return Ok(());
        }
        if interest.uris.len() >= self.max {
            return Err(Fault::new(code::BUSY, "too many subscriptions; end one first"));
        }
        let mut wanted = interest.clone();
        wanted.uris.push(uri.into());
        let (following, stands) = listen(wanted.clone()).await?;
        if !stands.uris.iter().any(|listened| **listened == *uri) {
            return Err(Fault::invalid_params("params.uri: the server does not tell changes of it"));
        }
        *lock(&self.following) = Some(following);
        *interest = wanted;
        Ok(())
    }

    /// One less.
    pub(super) async fn remove(
        &self,
        uri: &str,
        listen: impl AsyncFnOnce(Interest) -> Result<(Following, Interest), Fault>,
    ) -> Result<(), Fault> {
        let mut interest = self.interest.lock().await;
        if interest.uris.iter().any(|listened| **listened == *uri) {
            let mut wanted = interest.clone();
            wanted.uris.retain(|listened| **listened != *uri);
            let (following, _) = listen(wanted.clone()).await?;
            *lock(&self.following) = Some(following);
            *interest = wanted;
        }
        Ok(())
    }
}
