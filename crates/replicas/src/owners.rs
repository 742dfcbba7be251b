//! Who was seen to own sessions of others: believed for a moment, and for longer while the store is away.

use std::collections::HashMap;
use std::sync::Mutex;

use cardan_proto::limits::replicas::{OWNER_AGE, OWNERS};
use tokio::time::Instant;

use crate::store::lock;

/// Who answers for a session of another replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) tag: String,
    pub(crate) address: String,
    pub(crate) principal: Option<String>,
}

/// Those that were seen, by the session's name.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<HashMap<String, (Instant, Owner)>>);

impl Owners {
    pub(crate) fn saw(&self, name: &str, owner: Owner) {
        let mut seen = lock(&self.0);
        if seen.len() >= OWNERS {
            // Each can be looked up again.
            seen.clear();
        }
        seen.insert(name.to_owned(), (Instant::now(), owner));
    }

    pub(crate) fn forget(&self, name: &str) {
        lock(&self.0).remove(name);
    }

    /// Who was seen a moment ago.
    pub(crate) fn fresh(&self, name: &str) -> Option<Owner> {
        let seen = lock(&self.0);
        seen.get(name).filter(|(when, _)| when.elapsed() < OWNER_AGE).map(|(_, owner)| owner.clone())
    }

    /// Who was seen last.
    pub(crate) fn last(&self, name: &str) -> Option<Owner> {
        lock(&self.0).get(name).map(|(_, owner)| owner.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn owners_are_believed_for_a_moment_and_bounded() {
        let owners = Owners::default();
        let owner = Owner { tag: "a".into(), address: "http://a".into(), principal: None };
        owners.saw("one", owner.clone());
        assert_eq!(owners.fresh("one"), Some(owner.clone()));
        tokio::time::advance(OWNER_AGE).await;
        assert_eq!((owners.fresh("one"), owners.last("one")), (None, Some(owner.clone())));
        owners.forget("one");
        assert_eq!(owners.last("one"), None);
        for number in 0..=OWNERS {
            owners.saw(&number.to_string(), owner.clone());
        }
        assert_eq!(lock(&owners.0).len(), 1);
    }
}
