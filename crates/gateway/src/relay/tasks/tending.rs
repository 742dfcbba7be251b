//! A task at a legacy server, made for a modern client: its result is waited for from the beginning, since what it asks
//! comes meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::Managed;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::model::task::Task;
use cardan_proto::session::event::{Ask, Outcome, Rounds, Wanted};
use cardan_proto::task::cross;
use cardan_runtime::service::Handler;
use serde_json::json;
use tokio::sync::oneshot;

use super::ledger::{Entry, Ledger};
use crate::fleet::lock;
use crate::relay::held::Held;
use crate::relay::pool::Lease;
use crate::relay::terms;
use crate::relay::wants::Following;

/// What is known of it beside what its server says.
#[derive(Default)]
pub(in crate::relay) struct Tending {
    asks: Mutex<Asks>,
    state: Mutex<State>,
}

#[derive(Default)]
struct Asks {
    minted: u64,
    /// Without an answer, in order.
    open: Vec<(Box<str>, Ask, Reply)>,
}

type Reply = oneshot::Sender<Result<Bytes, Fault>>;

#[derive(Default)]
enum State {
    /// Nobody waits for it: it was made elsewhere, or the line was lost.
    #[default]
    Alone,
    /// By this line.
    Waited { at: Managed, _waiting: Following },
    /// It has ended; the result only where it is not too large to be kept.
    Over(Arc<Over>),
}

/// How a task ended.
pub(super) struct Over {
    pub(super) head: Task,
    pub(super) outcome: Option<Result<Bytes, Fault>>,
}

/// Where a task can be looked at.
pub(super) enum Place {
    Nowhere,
    At(Managed),
    Over(Arc<Over>),
}

impl Tending {
    pub(super) fn place(&self) -> Place {
        match &*lock(&self.state) {
            State::Alone => Place::Nowhere,
            State::Waited { at, .. } => Place::At(at.clone()),
            State::Over(over) => Place::Over(Arc::clone(over)),
        }
    }

    /// Bytes that are kept of its result.
    pub(super) fn bytes(&self) -> usize {
        match &*lock(&self.state) {
            State::Over(over) => match &over.outcome {
                Some(Ok(result)) => result.len(),
                _ => 0,
            },
            State::Alone | State::Waited { .. } => 0,
        }
    }

    /// What it asks. What the server does not want to know any more is not asked.
    pub(super) fn open(&self) -> Vec<(Box<str>, Ask)> {
        let mut asks = lock(&self.asks);
        asks.open.retain(|(.., reply)| !reply.is_closed());
        asks.open.iter().map(|(name, ask, _)| (name.clone(), ask.clone())).collect()
    }

    /// TSKE-11, TSKE-25: answers to what is open count, others are nothing.
    pub(super) fn answer(&self, name: &str, answer: Bytes) {
        let mut asks = lock(&self.asks);
        if let Some(at) = asks.open.iter().position(|(open, ..)| **open == *name) {
            let (.., reply) = asks.open.remove(at);
            // A server that no longer waits has withdrawn the ask.
            let _ = reply.send(Ok(answer));
        }
    }

    /// The server asks, for as long as it wants to know.
    fn ask(&self, ask: Ask) -> Handler<Result<Bytes, Fault>> {
        let (reply, answer) = oneshot::channel();
        {
            let mut asks = lock(&self.asks);
            // TSKE-10: no name is used twice.
            asks.minted += 1;
            let name = format!("ask-{}", asks.minted).into();
            asks.open.push((name, ask, reply));
        }
        Box::pin(async move {
            answer
                .await
                .unwrap_or_else(|_| Err(Fault::internal("the task that this was asked for has ended")))
        })
    }
}

/// The tasks whose server may ask by one line, by what it calls them.
#[derive(Default)]
pub(in crate::relay) struct Tended(Mutex<HashMap<Box<str>, Weak<Entry>>>);

impl Tended {
    fn put(&self, entry: &Arc<Entry>) {
        let mut tended = lock(&self.0);
        tended.retain(|_, entry| entry.strong_count() > 0);
        tended.insert(entry.id.clone(), Arc::downgrade(entry));
    }

    fn remove(&self, id: &str) {
        lock(&self.0).remove(id);
    }

    /// Asks the client of the task that an ask names; nothing: it names none. Where nobody `else_heard` can mean, and there
    /// is one task only, it is that one's, since some servers do not say.
    pub(in crate::relay) fn ask(&self, ask: &Ask, else_heard: bool) -> Option<Handler<Result<Bytes, Fault>>> {
        let entry = {
            let tended = lock(&self.0);
            if tended.is_empty() {
                return None;
            }
            let named = ask.params.as_ref().and_then(cross::task_of);
            let found = match named {
                Some(named) => tended.get(&named),
                None if !else_heard && tended.len() == 1 => tended.values().next(),
                None => None,
            };
            found.and_then(Weak::upgrade)?
        };
        let asking = entry.tending.ask(ask.clone());
        entry.touch();
        Some(asking)
    }

    /// The server tells how a task stands.
    pub(in crate::relay) fn noted(&self, id: &str) {
        let entry = lock(&self.0).get(id).and_then(Weak::upgrade);
        if let Some(entry) = entry {
            entry.touch();
        }
    }
}

/// Waits for a task's end, by this line, for as long as the task is known. What is `held` is occupied until then.
pub(super) fn tend(ledger: &Arc<Ledger>, entry: &Arc<Entry>, mut lease: Lease, held: Held) {
    let at = lease.shared.line.managed.clone();
    lease.shared.tended().put(entry);
    let (known, ledger) = (Arc::downgrade(entry), Arc::downgrade(ledger));
    let id = entry.id.clone();
    let waiting = Following(tokio::spawn(async move {
        let (over, last) = waiting(&lease.shared.line.managed, &id, &ledger).await;
        lease.shared.tended().remove(&id);
        lease.ended(&last);
        drop(lease);
        drop(held);
        if let (Some(entry), Some(ledger)) = (known.upgrade(), ledger.upgrade()) {
            settle(&ledger, &entry, over);
        }
    }));
    *lock(&entry.tending.state) = State::Waited { at, _waiting: waiting };
}

/// Its end, nothing where the line was lost or the task is gone; and how the last call ended.
async fn waiting(at: &Managed, id: &str, ledger: &Weak<Ledger>) -> (Option<Over>, Outcome) {
    let params = Bytes::from(json!({ "taskId": id }).to_string());
    loop {
        let options = terms::options(Wanted::No, Rounds::Callers, None, None);
        let outcome = at.start(Method::TasksResult, Some(params.clone()), options).outcome().await;
        let outcome = match outcome {
            Outcome::Done(result) => Ok(result),
            Outcome::Fault(fault) => Err(fault),
            other => return (None, other),
        };
        let state = at.start(Method::TasksGet, Some(params.clone()), options).outcome().await;
        let head = match &state {
            Outcome::Done(state) => cross::read(state),
            _ => None,
        };
        let (Some(head), Some(ledger)) = (head, ledger.upgrade()) else { return (None, state) };
        if head.status.is_terminal() {
            return (Some(Over { head, outcome: Some(outcome) }), state);
        }
        // Its server gave the wait up, not the task.
        let interval = interval(&head, ledger.limits());
        drop(ledger);
        tokio::time::sleep(interval).await;
    }
}

fn settle(ledger: &Ledger, entry: &Entry, over: Option<Over>) {
    let kept = over.map(|over| {
        let size = over.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok()).map_or(0, Bytes::len);
        match ledger.fits(&ledger.owner_of(entry), size) {
            true => over,
            false => Over { outcome: None, ..over },
        }
    });
    lock(&entry.tending.asks).open.clear();
    // What waited has ended, so nothing is aborted that still does something.
    *lock(&entry.tending.state) = kept.map_or(State::Alone, |over| State::Over(Arc::new(over)));
    entry.touch();
}

/// How long to wait before the next look.
pub(super) fn interval(task: &Task, limits: &cardan_proto::limits::Limits) -> Duration {
    let wanted = task.poll_ms().map_or(limits.task_poll_interval, Duration::from_millis);
    wanted.max(limits.task_poll_floor)
}
