//! The lines that modern calls share, or hold alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use cardan_client::{CallError, Settled};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::upkeep::condition::Condition;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::line::{Hears, Line};
use super::voice::{Asking, Voice};
use super::{Farewells, Options};
use crate::fleet::{Making, lock};

/// Lines by what may be asked on them.
pub(super) struct Pool {
    making: Making,
    max: usize,
    /// How long a call waits for a line of its own.
    patience: Duration,
    shelves: Mutex<HashMap<String, Vec<Entry>>>,
    freed: Notify,
    farewells: Arc<Farewells>,
}

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// A way to the upstream.
    Any,
    /// One by which nothing comes that is not its own.
    Alone,
}

/// A line and who is told what comes by it.
pub(super) struct Shared {
    pub(super) line: Line,
    voice: Arc<Voice>,
}

struct Entry {
    shared: Arc<Shared>,
    running: usize,
    held: Held,
}

/// Whether a line is held alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    No,
    Yes,
    /// It was, by a call that was given up: late words may come, so nobody is told anything by it any more.
    Spoiled,
}

/// Lines beyond the first that are kept for the next call that needs one alone.
const SPARE: usize = 4;

impl Pool {
    pub(super) fn start(making: Making, options: &Options, farewells: Arc<Farewells>) -> Arc<Self> {
        Arc::new(Self {
            making,
            max: options.lines.max(1),
            patience: options.limits.call_idle_timeout,
            shelves: Mutex::default(),
            freed: Notify::new(),
            farewells,
        })
    }

    /// What the upstream says of itself.
    pub(super) async fn meet(self: &Arc<Self>, within: Duration) -> Result<Settled, CallError> {
        let lease = self.try_take(&json!({}), Need::Any).expect("the first line is always made");
        let managed = &lease.shared.line.managed;
        let mut transitions = managed.transitions();
        let decided = async {
            // The first attempt decides: whoever starts us is to hear at once what is wrong.
            while let Some(transition) = transitions.next().await {
                if transition.to.is_up()
                    || matches!(transition.to, Condition::Reconnecting { .. } | Condition::Suspended { .. })
                {
                    return;
                }
            }
        };
        let met = tokio::time::timeout(within, decided).await;
        drop(met);
        managed.ready(Duration::ZERO).await
    }

    /// The right to call by a line on which `askable` may be asked.
    pub(super) async fn take(self: &Arc<Self>, askable: &Value, need: Need) -> Result<Lease, Fault> {
        if let Some(lease) = self.try_take(askable, need) {
            return Ok(lease);
        }
        let waiting = async {
            loop {
                // Registered before looking, so that nothing is freed unseen in between.
                let mut freed = std::pin::pin!(self.freed.notified());
                freed.as_mut().enable();
                if let Some(lease) = self.try_take(askable, need) {
                    return lease;
                }
                freed.await;
            }
        };
        tokio::time::timeout(self.patience, waiting).await.map_err(|_| {
            Fault::new(code::BUSY, "too many calls need a session of their own upstream; try again later")
        })
    }

    fn try_take(self: &Arc<Self>, askable: &Value, need: Need) -> Option<Lease> {
        let key = askable.to_string();
        let mut shelves = lock(&self.shelves);
        let total: usize = shelves.values().map(Vec::len).sum();
        let shelf = shelves.entry(key.clone()).or_default();
        let fits = |entry: &Entry| match need {
            // Nothing comes unasked from a modern upstream, so who holds a line alone is not disturbed.
            Need::Any => entry.held != Held::Yes || entry.shared.line.era() == Some(Era::Modern),
            Need::Alone => entry.held == Held::No && entry.running == 0,
        };
        let found = shelf.iter().position(fits);
        let at = match found {
            Some(at) => at,
            None if total < self.max || shelf.is_empty() && need == Need::Any => {
                shelf.push(self.open(askable));
                shelf.len() - 1
            }
            None => return None,
        };
        let entry = &mut shelf[at];
        entry.running += 1;
        if need == Need::Alone {
            entry.held = Held::Yes;
        }
        let shared = Arc::clone(&entry.shared);
        Some(Lease { pool: Arc::clone(self), key, shared, need, landed: false })
    }

    fn open(&self, askable: &Value) -> Entry {
        let voice = Arc::new(Voice::default());
        let hears: Weak<Voice> = Arc::downgrade(&voice);
        let hears: Weak<dyn Hears> = hears;
        let line = Line::open(&self.making, askable.clone(), hears);
        Entry { shared: Arc::new(Shared { line, voice }), running: 0, held: Held::No }
    }

    fn give_back(&self, lease: &Lease) {
        let mut shelves = lock(&self.shelves);
        let Some(shelf) = shelves.get_mut(&lease.key) else { return };
        let Some(at) = shelf.iter().position(|entry| Arc::ptr_eq(&entry.shared, &lease.shared)) else {
            return;
        };
        let entry = &mut shelf[at];
        entry.running -= 1;
        if lease.need == Need::Alone {
            entry.shared.voice.give(None);
            entry.held = if lease.landed { Held::No } else { Held::Spoiled };
        }
        let spare = entry.held == Held::Spoiled || at > SPARE;
        let gone = (at > 0 && entry.running == 0 && spare).then(|| shelf.remove(at));
        drop(shelves);
        self.freed.notify_waiters();
        if let Some(entry) = gone {
            self.farewells.say(entry.shared.line.managed.clone(), "no call needs it any more");
        }
    }

    pub(super) fn lines(&self) -> usize {
        lock(&self.shelves).values().map(Vec::len).sum()
    }

    pub(super) async fn close(&self, reason: &'static str) {
        let shelves = std::mem::take(&mut *lock(&self.shelves));
        for entry in shelves.into_values().flatten() {
            entry.shared.line.managed.close(reason).await;
        }
    }
}

/// The right to call by a line, for as long as it is held.
pub(super) struct Lease {
    pool: Arc<Pool>,
    key: String,
    pub(super) shared: Arc<Shared>,
    need: Need,
    landed: bool,
}

impl Lease {
    /// From now on the call is told what comes by its line.
    pub(super) fn voice(&self, asking: Arc<Asking>) {
        if self.need == Need::Alone {
            self.shared.voice.give(Some(asking));
        }
    }

    /// The call has ended: nothing of it can come any more.
    pub(super) fn landed(&mut self) {
        self.landed = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let pool = Arc::clone(&self.pool);
        pool.give_back(self);
    }
}
