//! The table of legacy sessions: found by an unguessable id, forgotten when nobody uses them.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cardan_proto::limits::Limits;
use cardan_runtime::service::Service;
use http::HeaderValue;
use tokio::task::AbortHandle;

use crate::hub::{Hub, Patience};
use crate::shelf::Shelf;

/// The id of a session: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionId([u8; 16]);

impl SessionId {
    /// A new one. Fails only when the system has no randomness to give.
    pub(crate) fn mint() -> Option<Self> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        Some(Self(id))
    }

    /// From a header or a query; a foreign one is no id of ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut id = [0; 16];
        let length = URL_SAFE_NO_PAD.decode_slice(text, &mut id).ok()?;
        (length == id.len()).then_some(Self(id))
    }

    /// One of so many parts of all ids.
    pub(crate) fn shard(self, of: usize) -> usize {
        usize::from(self.0[0]) % of
    }

    pub(crate) fn text(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    pub(crate) fn header(self) -> HeaderValue {
        HeaderValue::try_from(self.text()).expect("base64 is visible ASCII")
    }
}

/// Whoever knows the id holds the session, so it is shown to nobody.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(..)")
    }
}

/// Locks that calls of different sessions rarely share.
const SHARDS: usize = 16;

/// The table.
pub(crate) struct Sessions<S: Service> {
    shards: Arc<Shards<S>>,
    sweeper: OnceLock<AbortHandle>,
    shelf: Arc<Shelf>,
    max: usize,
    patience: Patience,
}

type Shard<S> = Mutex<HashMap<SessionId, Arc<Hub<S>>>>;

struct Shards<S: Service> {
    each: [Shard<S>; SHARDS],
    /// Sessions in all of them. Whoever puts one in has counted it before.
    count: AtomicUsize,
}

impl<S: Service> Shards<S> {
    fn of(&self, id: SessionId) -> MutexGuard<'_, HashMap<SessionId, Arc<Hub<S>>>> {
        lock(&self.each[id.shard(SHARDS)])
    }

    /// Forgets the sessions that are over. Their last readers keep them until they are done.
    fn sweep(&self, patience: Patience) {
        for shard in &self.each {
            let mut over = Vec::new();
            lock(shard).retain(|_, hub| {
                let reason = hub.over(patience);
                over.extend(reason.map(|reason| (Arc::clone(hub), reason)));
                reason.is_none()
            });
            self.count.fetch_sub(over.len(), Ordering::SeqCst);
            // Handlers that are dropped here may take their time; nobody waits for the shard meanwhile.
            for (hub, reason) in over {
                hub.end(reason);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Service> Sessions<S> {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            shards: Arc::new(Shards {
                each: std::array::from_fn(|_| Mutex::default()),
                count: AtomicUsize::new(0),
            }),
            sweeper: OnceLock::new(),
            shelf: Arc::new(Shelf::new(limits)),
            max: limits.sessions,
            patience: Patience {
                idle: limits.session_idle_timeout,
                // Who left a call behind has more reason to come back than who did not.
                unread: limits.session_unread_timeout.max(limits.session_idle_timeout),
                unopened: limits.open_timeout,
            },
        }
    }

    /// Where their large replies are kept.
    pub(crate) fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    pub(crate) fn find(&self, id: SessionId) -> Option<Arc<Hub<S>>> {
        self.shards.of(id).get(&id).cloned()
    }

    /// Puts a session in; nothing: there are too many.
    pub(crate) fn insert(&self, hub: Arc<Hub<S>>) -> Option<SessionId> {
        let id = SessionId::mint()?;
        self.insert_as(id, hub).then_some(id)
    }

    /// Puts a session in that has its id already. Is there room for it?
    pub(crate) fn insert_as(&self, id: SessionId, hub: Arc<Hub<S>>) -> bool {
        let room = |count: usize| (count < self.max).then_some(count + 1);
        if self.shards.count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).is_err() {
            return false;
        }
        self.shards.of(id).insert(id, hub);
        self.sweeper.get_or_init(|| self.start_sweeper());
        true
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.shards.count.load(Ordering::SeqCst)
    }

    /// How many there are, and how many lanes of calls they have.
    pub(crate) fn census(&self) -> (usize, usize) {
        let lanes = self.shards.each.iter().flat_map(|shard| {
            let hubs: Vec<_> = lock(shard).values().cloned().collect();
            hubs.into_iter().map(|hub| hub.lanes())
        });
        (self.len(), lanes.sum())
    }

    /// Takes a session out.
    pub(crate) fn remove(&self, id: SessionId) -> Option<Arc<Hub<S>>> {
        let removed = self.shards.of(id).remove(&id);
        if removed.is_some() {
            self.shards.count.fetch_sub(1, Ordering::SeqCst);
        }
        removed
    }

    fn start_sweeper(&self) -> AbortHandle {
        let patience = self.patience;
        let shards: Weak<Shards<S>> = Arc::downgrade(&self.shards);
        let shelf = Arc::clone(&self.shelf);
        let shortest = patience.idle.min(patience.unread).min(patience.unopened);
        let pause = (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(30));
        let sweeping = async move {
            loop {
                tokio::time::sleep(pause).await;
                let Some(shards) = shards.upgrade() else { return };
                shards.sweep(patience);
                shelf.sweep();
            }
        };
        tokio::spawn(sweeping).abort_handle()
    }
}

impl<S: Service> Drop for Sessions<S> {
    fn drop(&mut self) {
        if let Some(sweeper) = self.sweeper.get() {
            sweeper.abort();
        }
    }
}
