//! Legacy sessions that several replicas share: which are ours, and what becomes of those that are not here.
//!
//! A session is served from memory by the replica that owns it; the store is asked when one begins, is looked for, changes
//! or ends. While our lease is in doubt nothing of ours is served, and when it begins anew each session is looked up first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use cardan_proto::era::{Era, Revision};
use cardan_proto::http::headers::{CARDAN_PASS, MCP_PROTOCOL_VERSION, SessionHeader, session, single_text};
use cardan_proto::jsonrpc::envelope::{Call, Decoded, Envelope, Param};
use cardan_proto::limits::replicas::{STORE_CALL, SUBSCRIPTIONS};
use cardan_proto::method::Method;
use cardan_replicas::{Errand, Hold, Pass, Record, Replicas, Still, Unkept};
use cardan_runtime::service::Service;
use http::HeaderMap;
use http::request::Parts;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::sessions::{SessionId, Sessions};

/// What one endpoint shares with its replicas.
pub(crate) struct Sharing<S: Service>(Arc<Inner<S>>);

pub(crate) struct Inner<S: Service> {
    pub(crate) replicas: Replicas,
    /// The path of the endpoint: a session is good at the one where it began.
    pub(crate) place: Box<str>,
    pub(crate) sessions: Arc<Sessions<S>>,
    /// What is ours by the store's word. Those that are not in the table have ended, and the store is yet to be told.
    held: Mutex<HashMap<SessionId, Held>>,
    /// Up to which epoch of the lease all of these were looked up.
    reviewed: AtomicU64,
    /// Whoever takes a session over does so alone. As many as there are shards of sessions.
    pub(crate) taking: [tokio::sync::Mutex<()>; 16],
    reviewer: OnceLock<AbortHandle>,
    /// A review has ended.
    news: Notify,
}

struct Held {
    hold: Hold,
    record: Record,
    written: Written,
}

/// Does the store know the record as it is?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Yes,
    No,
}

/// What is to be written down before a reply is sent.
pub(crate) enum Keep {
    /// A session that has just begun.
    New(SessionId, Box<Record>),
    /// What a session of ours has become.
    Changed(SessionId),
}

/// Why a reply is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotKept {
    /// The session could not be written down, so there is none.
    Away,
    /// It is another's by now.
    Lost,
}

/// A request shows a pass, and it is none.
#[derive(Debug)]
pub(crate) struct Forged;

impl<S: Service> Sharing<S> {
    pub(crate) fn new(replicas: Replicas, place: &str, sessions: Arc<Sessions<S>>) -> Self {
        let reviewed = AtomicU64::new(replicas.epoch());
        let inner = Arc::new(Inner {
            replicas,
            place: place.into(),
            sessions,
            held: Mutex::default(),
            reviewed,
            taking: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            reviewer: OnceLock::new(),
            news: Notify::new(),
        });
        let reviewer = tokio::spawn(review(Arc::downgrade(&inner))).abort_handle();
        inner.reviewer.get_or_init(|| reviewer);
        Self(inner)
    }

    pub(crate) fn inner(&self) -> &Inner<S> {
        &self.0
    }

    /// What a request that was forwarded shows; nothing: it was not.
    pub(crate) fn pass(&self, parts: &Parts) -> Result<Option<Box<Pass>>, Forged> {
        let Some(shown) = parts.headers.get(CARDAN_PASS) else { return Ok(None) };
        let SessionHeader::Named(session) = session(&parts.headers) else { return Err(Forged) };
        let errand = Errand { method: parts.method.as_str(), path: parts.uri.path(), session };
        self.0.replicas.admits(shown, errand).map(|pass| Some(Box::new(pass))).ok_or(Forged)
    }

    /// May sessions of ours be served? Not while another may have taken them.
    pub(crate) fn is_ours(&self) -> bool {
        let Inner { replicas, reviewed, .. } = &*self.0;
        replicas.holds() && reviewed.load(Ordering::SeqCst) == replicas.epoch()
    }

    /// The session that a legacy request names, unless it can be answered at once: it is here and ours, or has just ended.
    pub(crate) fn unsettled(&self, headers: &HeaderMap) -> Option<SessionId> {
        let SessionHeader::Named(text) = session(headers) else { return None };
        let id = SessionId::parse(text)?;
        // Beside modern marks a session means nothing.
        let revision = single_text(&MCP_PROTOCOL_VERSION, headers).ok().flatten().and_then(Revision::parse);
        if revision.is_some_and(|revision| revision.era() == Era::Modern) {
            return None;
        }
        let (here, held) = (self.0.is_here(id), self.0.held().contains_key(&id));
        match (here, held) {
            (true, _) => (!self.is_ours()).then_some(id),
            // It has ended, though the store may not know yet.
            (false, true) => None,
            (false, false) => Some(id),
        }
    }

    /// Waits a moment for the sessions that are here to be looked up, where that is under way.
    pub(crate) async fn reviewed(&self) {
        let reviewing = async {
            loop {
                let more = self.0.news.notified();
                if self.is_ours() || !self.0.replicas.holds() {
                    return;
                }
                more.await;
            }
        };
        // Whoever waited in vain is told that it is in doubt.
        let _ = tokio::time::timeout(2 * STORE_CALL, reviewing).await;
    }

    /// Notes what a call of a session of ours changes about it, as far as another replica needs it. Was it anything?
    pub(crate) fn changed(&self, id: SessionId, decoded: &Decoded) -> bool {
        let Decoded::One(Ok(Envelope::Call(call)), _) = decoded else { return false };
        if !matches!(
            call.method,
            Method::LoggingSetLevel | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe
        ) {
            return false;
        }
        let mut held = self.0.held();
        let Some(held) = held.get_mut(&id) else { return false };
        apply(call, &mut held.record);
        held.written = Written::No;
        true
    }

    /// Writes down what must be known elsewhere before a reply is sent.
    pub(crate) async fn keep(&self, keep: Keep) -> Result<(), NotKept> {
        let id = match keep {
            Keep::New(id, record) => {
                let opened = self.0.replicas.open(&self.0.place, &id.text(), &record).await;
                let Ok(hold) = opened else {
                    self.0.lose(id, "the session could not be shared");
                    return Err(NotKept::Away);
                };
                self.hold(id, hold, *record);
                return Ok(());
            }
            Keep::Changed(id) => id,
        };
        match self.0.write(id).await {
            // The store is away: it is told when it is back.
            Ok(Still::Ours) | Err(_) => Ok(()),
            Ok(Still::Lost) => Err(NotKept::Lost),
        }
    }

    /// From here on a session is ours.
    pub(crate) fn hold(&self, id: SessionId, hold: Hold, record: Record) {
        self.0.held().insert(id, Held { hold, record, written: Written::Yes });
    }

    /// A session has ended here: so it has for all.
    pub(crate) async fn ended(&self, id: SessionId) {
        self.0.drop_ended(id).await;
    }

    /// What ends from here on goes on elsewhere.
    pub(crate) fn leave(&self) {
        if let Some(reviewer) = self.0.reviewer.get() {
            reviewer.abort();
        }
    }
}

impl<S: Service> Inner<S> {
    fn held(&self) -> MutexGuard<'_, HashMap<SessionId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_here(&self, id: SessionId) -> bool {
        self.sessions.find(id).is_some()
    }

    /// Writes down what has become of a session, or that it lives on.
    async fn write(&self, id: SessionId) -> Result<Still, Unkept> {
        let Some((hold, record)) = self.held().get_mut(&id).map(|held| {
            let written = std::mem::replace(&mut held.written, Written::Yes);
            (held.hold.clone(), (written == Written::No).then(|| held.record.clone()))
        }) else {
            return Ok(Still::Ours);
        };
        let still = self.replicas.write(&hold, record.as_ref()).await;
        match &still {
            Ok(Still::Ours) => {}
            Ok(Still::Lost) => self.lose(id, "another replica has the session"),
            Err(_) if record.is_some() => {
                if let Some(held) = self.held().get_mut(&id) {
                    held.written = Written::No;
                }
            }
            Err(_) => {}
        }
        still
    }

    /// A session is not ours any more: its streams end, and nothing is said of it to the store.
    fn lose(&self, id: SessionId, why: &'static str) {
        self.held().remove(&id);
        if let Some(hub) = self.sessions.remove(id) {
            hub.end(why);
        }
    }

    /// Tells the store of a session that has ended here. Where that fails, it is told later.
    async fn drop_ended(&self, id: SessionId) {
        let Some(hold) = self.held().get(&id).map(|held| held.hold.clone()) else { return };
        if self.replicas.end(&hold).await.is_ok() {
            self.held().remove(&id);
        }
    }

    /// Looks after what is ours: `every` is whether those that nothing happened to are told of as well.
    async fn tend(&self, every: Every) -> Result<(), Unkept> {
        let ids: Vec<(SessionId, Written)> =
            self.held().iter().map(|(id, held)| (*id, held.written)).collect();
        for (id, written) in ids {
            if self.sessions.find(id).is_none() {
                self.drop_ended(id).await;
            } else if every == Every::One || written == Written::No {
                self.write(id).await?;
            }
        }
        Ok(())
    }

    fn hang_up(&self) {
        let ids: Vec<SessionId> = self.held().keys().copied().collect();
        for hub in ids.into_iter().filter_map(|id| self.sessions.find(id)) {
            hub.hang_up();
        }
    }
}

/// Which sessions the store is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Every {
    One,
    Changed,
}

/// Follows the lease: what is ours is looked up when it begins anew, and renewed before the store forgets it.
async fn review<S: Service>(inner: Weak<Inner<S>>) {
    let Some(strong) = inner.upgrade() else { return };
    let mut standing = strong.replicas.standing();
    let (pause, life) = (strong.replicas.term() / 3, strong.replicas.life() / 4);
    let mut renewed = tokio::time::Instant::now();
    drop(strong);
    loop {
        // Nothing changes for long, or the replica is gone: then so are we.
        let changed = tokio::time::timeout(pause, standing.changed()).await;
        let Some(inner) = inner.upgrade() else { return };
        if matches!(changed, Ok(Err(_))) {
            return;
        }
        let now = *standing.borrow_and_update();
        if !now.held {
            // Another may have the session by now: its client is to look for it there.
            inner.hang_up();
            continue;
        }
        let anew = inner.reviewed.load(Ordering::SeqCst) != now.epoch;
        let every = if anew || renewed.elapsed() >= life { Every::One } else { Every::Changed };
        if inner.tend(every).await.is_ok() && every == Every::One {
            renewed = tokio::time::Instant::now();
            inner.reviewed.store(now.epoch, Ordering::SeqCst);
            inner.news.notify_waiters();
        }
    }
}

impl<S: Service> Drop for Inner<S> {
    fn drop(&mut self) {
        if let Some(reviewer) = self.reviewer.get() {
            reviewer.abort();
        }
    }
}

/// What is to be written down of a session that this opens; the revision comes later.
pub(crate) fn record(decoded: &Decoded, principal: Option<&Arc<str>>) -> Option<Box<Record>> {
    let Decoded::One(Ok(Envelope::Call(call)), _) = decoded else { return None };
    Some(Box::new(Record {
        principal: principal.map(|principal| principal.to_string()),
        revision: String::new(),
        initialize: raw(call.params.raw()?)?,
        level: None,
        subscriptions: Vec::new(),
    }))
}

fn apply(call: &Call, record: &mut Record) {
    let uri = || call.params.text(Param::Uri);
    match call.method {
        Method::LoggingSetLevel => record.level = call.params.raw().and_then(raw),
        Method::ResourcesSubscribe => {
            if let Some(uri) = uri().filter(|uri| !record.subscriptions.iter().any(|known| known == uri))
                && record.subscriptions.len() < SUBSCRIPTIONS
            {
                record.subscriptions.push(uri.into_owned());
            }
        }
        _ => {
            if let Some(uri) = uri() {
                record.subscriptions.retain(|known| *known != uri);
            }
        }
    }
}

fn raw(bytes: &Bytes) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8(bytes.to_vec()).ok()?).ok()
}
