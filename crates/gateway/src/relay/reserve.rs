//! Where the next round of a modern call belongs: to the process that asked.
//!
//! A modern upstream seals what it wants back, and only who sealed it can open it. Where lines lead to processes, the line
//! by which a call was asked is kept for its retry. It is good once and for a while; a retry that finds none goes by
//! any line, for servers whose processes share what they need. Meanwhile the server is not stopped; where it is replaced, it is
//! known for as long whose retries have lost who could open them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::splice::member_of;
use cardan_proto::model::ResultType;
use cardan_proto::session::event::Called;
use cardan_runtime::unfinished::{One, Unfinished};
use tokio::sync::oneshot;

use super::pool::Lease;
use crate::fleet::{Visit, lock};

/// Lines that are kept for retries, by the state that comes with them.
pub(super) struct Reserve {
    max: usize,
    ttl: Duration,
    /// Counts those that have a line, and all.
    counts: (Unfinished, Unfinished),
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    kept: HashMap<Ticket, Kept>,
    asker: Asker,
}

/// Whether who asks will be there for the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Asker {
    #[default]
    There,
    Going,
}

/// Who was asked, and the state that came with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Ticket {
    pub(super) principal: Option<Arc<str>>,
    pub(super) state: Box<str>,
}

impl Ticket {
    /// What a retry brings.
    pub(super) fn of(called: &Called, principal: Option<&Arc<str>>) -> Option<Self> {
        let state = called.call.params.text(Param::RequestState)?;
        Some(Self { principal: principal.cloned(), state: (&*state).into() })
    }
}

struct Kept {
    /// None: who asked is gone.
    line: Option<Reserved>,
    /// Dropped: nobody waits for its time to be over.
    _watch: oneshot::Sender<()>,
    _pending: One,
}

struct Reserved {
    lease: Lease,
    /// Its server is not stopped.
    _visit: Option<Visit>,
    _unfinished: One,
}

impl Reserve {
    pub(super) fn new(max: usize, ttl: Duration, counts: (Unfinished, Unfinished)) -> Arc<Self> {
        Arc::new(Self { max, ttl, counts, inner: Mutex::default() })
    }

    /// Keeps the line of a call that ended with this result, if it asks. Beyond the bound, the line is given back; so it is where who
    /// asked is going, but its retry is known.
    pub(super) fn keep(
        self: &Arc<Self>,
        principal: Option<Arc<str>>,
        result: &Bytes,
        (lease, visit): (Lease, Option<Visit>),
    ) {
        let Some(state) = asked_state(result) else { return };
        let ticket = Ticket { principal, state };
        let mut inner = lock(&self.inner);
        // Each leaves room for others, and those who have no name are one: whoever has none can be as many as they like. And
        // some lines stay free for calls that are new.
        let same = inner.kept.keys().filter(|other| other.principal == ticket.principal).count();
        if inner.kept.len() >= self.max || same >= self.max.div_ceil(2) {
            return;
        }
        lease.hush();
        let (watch, taken) = oneshot::channel();
        // Two calls with one state are one call to the server; the later one stays.
        let (unfinished, pending) = &self.counts;
        let mut line = Some(Reserved { lease, _visit: visit, _unfinished: unfinished.begin() });
        let given_back = line.take_if(|_| inner.asker == Asker::Going);
        let one = Kept { line, _watch: watch, _pending: pending.begin() };
        let before = inner.kept.insert(ticket.clone(), one);
        drop(inner);
        drop((given_back, before));
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
        let kept = lock(&self.inner).kept.remove(ticket);
        kept.and_then(|kept| kept.line).map(|line| line.lease)
    }

    /// Who asked is going, and its lines with it, and so is who asks yet. Whose retries that concerns stays known for as long as
    /// they may come.
    pub(super) fn forsake(&self) {
        let mut inner = lock(&self.inner);
        inner.asker = Asker::Going;
        let lines: Vec<_> = inner.kept.values_mut().map(|kept| kept.line.take()).collect();
        drop(inner);
        drop(lines);
    }

    /// Is it the retry of a call that was asked by someone who is gone?
    pub(super) fn has_lost(&self, ticket: &Ticket) -> bool {
        lock(&self.inner).kept.get(ticket).is_some_and(|kept| kept.line.is_none())
    }

    /// Gives back all.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut lock(&self.inner).kept);
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

#[cfg(test)]
mod tests {
    use cardan_client::{Client, way};
    use cardan_proto::upkeep::policy::Policy;
    use cardan_runtime::memory::MemoryLink;

    use super::super::Options;
    use super::super::askable::Askable;
    use super::super::pool::{Need, Pool};
    use super::*;
    use crate::fleet::Making;

    /// T12: nobody has more than half of what is kept, and those who have no name are one.
    #[tokio::test]
    async fn t12_those_without_a_name_are_one() {
        let way = way(std::future::pending::<Result<MemoryLink, std::convert::Infallible>>);
        let making = Making { connector: Client::builder("x", "1"), way, policy: Policy::CHILD };
        let pool = Pool::start(making, None, &Options::default(), Arc::default());
        let reserve = Reserve::new(4, Duration::from_secs(60), Default::default());
        let who = [None, None, None, Some("ada"), Some("ada"), Some("ada"), Some("bob")];
        let kept = [1, 2, 2, 3, 4, 4, 4];
        for (n, (principal, kept)) in who.into_iter().zip(kept).enumerate() {
            let result = format!(r#"{{"resultType":"input_required","requestState":"{n}"}}"#);
            let lease = pool.take(Askable::NOTHING, Need::Any).await.unwrap();
            reserve.keep(principal.map(Arc::from), &Bytes::from(result), (lease, None));
            assert_eq!(lock(&reserve.inner).kept.len(), kept, "{n}: {principal:?}");
        }
        let first = Ticket { principal: None, state: "0".into() };
        assert!(reserve.take(&first).is_some() && reserve.take(&first).is_none(), "once");
    }
}
