//! Where the next round of a modern call belongs: to the process that asked.
//!
//! A modern upstream seals what it wants back, and only who sealed it can open it. Where lines lead to processes, the line
//! by which a call was asked is kept for its retry. It is good once and for a while; a retry that finds none goes by
//! any line, for servers whose processes share what they need.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::jsonrpc::splice::member_of;
use cardan_proto::model::ResultType;
use cardan_runtime::unfinished::{One, Unfinished};
use tokio::sync::oneshot;

use super::pool::Lease;
use crate::fleet::lock;

/// Lines that are kept for retries, by the state that comes with them.
pub(super) struct Reserve {
    max: usize,
    ttl: Duration,
    unfinished: Unfinished,
    kept: Mutex<HashMap<Ticket, Kept>>,
}

/// Who was asked, and the state that came with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Ticket {
    pub(super) principal: Option<Arc<str>>,
    pub(super) state: Box<str>,
}

struct Kept {
    lease: Lease,
    /// Dropped: nobody waits for its time to be over.
    _watch: oneshot::Sender<()>,
    _unfinished: One,
}

impl Reserve {
    pub(super) fn new(max: usize, ttl: Duration, unfinished: Unfinished) -> Arc<Self> {
        Arc::new(Self { max, ttl, unfinished, kept: Mutex::default() })
    }

    /// Keeps the line of a call that ended with this result, if it asks. Beyond the bound, the line is given back.
    pub(super) fn keep(self: &Arc<Self>, principal: Option<Arc<str>>, result: &Bytes, lease: Lease) {
        let Some(state) = asked_state(result) else { return };
        let ticket = Ticket { principal, state };
        let mut kept = lock(&self.kept);
        // One that is named leaves room for others; and some lines stay free for calls that are new.
        let same = kept.keys().filter(|other| other.principal == ticket.principal).count();
        if kept.len() >= self.max || ticket.principal.is_some() && same >= self.max.div_ceil(2) {
            return;
        }
        lease.hush();
        let (watch, taken) = oneshot::channel();
        // Two calls with one state are one call to the server; the later one stays.
        let one = Kept { lease, _watch: watch, _unfinished: self.unfinished.begin() };
        let before = kept.insert(ticket.clone(), one);
        drop(kept);
        drop(before);
        let (reserve, ttl) = (Arc::downgrade(self), self.ttl);
        tokio::spawn(async move {
            if tokio::time::timeout(ttl, taken).await.is_err()
                && let Some(reserve) = reserve.upgrade()
            {
                reserve.take(&ticket);
            }
        });
    }

    /// The line for a retry.
    pub(super) fn take(&self, ticket: &Ticket) -> Option<Lease> {
        lock(&self.kept).remove(ticket).map(|kept| kept.lease)
    }

    /// Gives back all.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *lock(&self.kept));
        drop(all);
    }
}

/// The state of a result that asks.
fn asked_state(result: &Bytes) -> Option<Box<str>> {
    match ResultType::peek(result) {
        ResultType::InputRequired => {
            let state = member_of(result, "requestState").ok().flatten()?;
            serde_json::from_slice(&state).ok()
        }
        _ => None,
    }
}
