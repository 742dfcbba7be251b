//! Legacy sessions that several replicas share: which are ours, and what becomes of those that are not here.
//!
//! A session is served from memory by the replica that owns it; the store is asked when one begins, is looked for, changes
//! or ends. While our lease is in doubt nothing of ours is served, and when it begins anew each session is looked up first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use cardan_proto::era::{Era, Revision};
use cardan_proto::http::headers::{CARDAN_PASS, MCP_PROTOCOL_VERSION, SessionHeader, session, single_text};
use cardan_proto::jsonrpc::envelope::{Decoded, Envelope, Param};
use cardan_proto::limits::replicas::{ENDED, SUBSCRIPTION_BYTES, SUBSCRIPTIONS};
use cardan_proto::method::Method;
use cardan_proto::model::logging::LogLevel;
use cardan_replicas::{Away, Errand, Hold, Pass, Recent, Record, Replicas, Still, Unkept};
use cardan_runtime::service::Service;
use http::HeaderMap;
use http::request::Parts;
use serde_json::value::RawValue;
use tokio::task::AbortHandle;

use crate::hub::Hub;
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
    /// What was ours and has ended for all, for as long as the store could have kept it.
    ended: Recent<SessionId>,
    /// Whoever takes a session over does so alone. As many as there are shards of sessions.
    pub(crate) taking: [tokio::sync::Mutex<()>; 16],
    reviewer: OnceLock<AbortHandle>,
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
    /// So much cannot be written down, so there is none.
    TooLarge,
    /// It is another's by now.
    Lost,
}

/// A request shows a pass, and it is none.
#[derive(Debug)]
pub(crate) struct Forged;

impl<S: Service> Sharing<S> {
    pub(crate) fn new(replicas: Replicas, place: &str, sessions: Arc<Sessions<S>>) -> Self {
        let inner = Arc::new(Inner {
            ended: Recent::new(replicas.life(), ENDED),
            replicas,
            place: place.into(),
            sessions,
            held: Mutex::default(),
            taking: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            reviewer: OnceLock::new(),
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
        let (method, path, to) = (parts.method.as_str(), parts.uri.path(), self.0.replicas.tag());
        let errand = Errand { method, path, session, to };
        self.0.replicas.admits(shown, errand).map(|pass| Some(Box::new(pass))).ok_or(Forged)
    }

    /// May this session be served? Not while another may have taken it.
    pub(crate) fn is_ours(&self, hub: &Hub<S>) -> bool {
        let replicas = &self.0.replicas;
        replicas.holds() && hub.is_owned_in(replicas.epoch())
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
        match self.0.sessions.find(id) {
            Some(hub) => (!self.is_ours(&hub)).then_some(id),
            // What has ended, though the store may not know yet, needs no look.
            None => (!self.0.held().contains_key(&id) && !self.0.ended.has(&id)).then_some(id),
        }
    }

    /// Looks a session up that is here and not for sure ours, before all others that wait for that. Afterwards it is ours, or
    /// not here any more, or it still cannot be told.
    pub(crate) async fn confirm(&self, id: SessionId) {
        let _alone = self.0.taking[id.shard(self.0.taking.len())].lock().await;
        let doubtful = self.0.sessions.find(id).is_some_and(|hub| !self.is_ours(&hub));
        if doubtful && self.0.replicas.holds() {
            // Whoever asked in vain is told that it is in doubt.
            let _ = self.0.write(id).await;
        }
    }

    /// Notes what a call that was taken changes about a session of ours. Is there anything to write?
    pub(crate) fn changed(&self, id: SessionId, change: Change) -> bool {
        let mut held = self.0.held();
        let Some(held) = held.get_mut(&id) else { return false };
        let changed = change.apply(&mut held.record);
        if changed {
            held.written = Written::No;
        }
        changed
    }

    /// Writes down what must be known elsewhere before a reply is sent.
    pub(crate) async fn keep(&self, keep: Keep) -> Result<(), NotKept> {
        let id = match keep {
            Keep::New(id, record) => {
                let opened = self.0.replicas.open(&self.0.place, &id.text(), &record).await;
                return match opened {
                    Ok(hold) => {
                        self.hold(id, hold, *record);
                        Ok(())
                    }
                    Err(unkept) => {
                        self.0.lose(id, "the session could not be shared");
                        Err(if unkept == Unkept::TooLarge { NotKept::TooLarge } else { NotKept::Away })
                    }
                };
            }
            Keep::Changed(id) => id,
        };
        match self.0.write(id).await {
            // The store is away: it is told when it is back.
            Ok(Still::Ours) | Err(_) => Ok(()),
            Ok(Still::Lost) => Err(NotKept::Lost),
        }
    }

    /// From here on a session is ours, in the epoch in which it was written down: if that is over, it is looked up again.
    pub(crate) fn hold(&self, id: SessionId, hold: Hold, record: Record) {
        if let Some(hub) = self.0.sessions.find(id) {
            hub.own(hold.epoch());
        }
        self.0.held().insert(id, Held { hold, record, written: Written::Yes });
    }

    /// Ends a session of ours for all, before it ends here.
    pub(crate) async fn end(&self, id: SessionId) -> Result<Still, Away> {
        let still = self.0.drop_ended(id).await?;
        if still == Still::Lost {
            self.0.lose(id, "another replica has the session");
        }
        Ok(still)
    }

    /// What ends from here on goes on elsewhere. What has ended before is told of before the lease is given up.
    pub(crate) fn leave(&self) {
        if let Some(reviewer) = self.0.reviewer.get() {
            reviewer.abort();
        }
        let inner = Arc::clone(&self.0);
        let pending = inner.pending();
        if !pending.is_empty() {
            let telling = async move {
                // Where the store is away, it forgets them by itself, or somebody goes on with them.
                let _ = inner.tell(pending, Every::Changed).await;
            };
            self.0.replicas.finish(telling);
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
    async fn write(&self, id: SessionId) -> Result<Still, Away> {
        let epoch = self.replicas.epoch();
        let Some((hold, record)) = self.held().get_mut(&id).map(|held| {
            let written = std::mem::replace(&mut held.written, Written::Yes);
            (held.hold.turn(), (written == Written::No).then(|| held.record.clone()))
        }) else {
            return Ok(Still::Ours);
        };
        let still = match self.replicas.write(&hold, record.as_ref()).await {
            // That change is not shared. The session is, and is not to be forgotten for it.
            Err(Unkept::TooLarge) => self.replicas.write(&hold, None).await,
            told => told,
        };
        match still {
            Ok(Still::Ours) => {
                if let Some(hub) = self.sessions.find(id) {
                    hub.own(epoch);
                }
                Ok(Still::Ours)
            }
            Ok(Still::Lost) => {
                self.lose(id, "another replica has the session");
                Ok(Still::Lost)
            }
            Err(Unkept::TooLarge) => Ok(Still::Ours),
            Err(Unkept::Away(away)) => {
                if let Some(held) = self.held().get_mut(&id).filter(|_| record.is_some()) {
                    held.written = Written::No;
                }
                Err(away)
            }
        }
    }

    /// A session is not ours any more: its streams end, and nothing is said of it to the store.
    fn lose(&self, id: SessionId, why: &'static str) {
        self.held().remove(&id);
        if let Some(hub) = self.sessions.remove(id) {
            hub.end(why);
        }
    }

    /// Tells the store of a session that has ended, and remembers that it has: a store that fell back to an older state may
    /// not. Where that fails, it is told later.
    async fn drop_ended(&self, id: SessionId) -> Result<Still, Away> {
        let Some(hold) = self.held().get(&id).map(|held| held.hold.clone()) else { return Ok(Still::Ours) };
        let still = self.replicas.end(&hold).await?;
        if still == Still::Ours {
            self.ended.add(id);
        }
        self.held().remove(&id);
        Ok(still)
    }

    /// Looks after what is ours: `every` is whether those that nothing happened to are told of as well.
    async fn tend(&self, every: Every) -> Result<(), Away> {
        let all = self.held().keys().copied().collect();
        self.tell(all, every).await
    }

    /// Tells the store what has become of these. One that is lost is no reason to leave the others out.
    async fn tell(&self, ids: Vec<SessionId>, every: Every) -> Result<(), Away> {
        for id in ids {
            let unwritten = self.held().get(&id).is_some_and(|held| held.written == Written::No);
            if !self.is_here(id) {
                self.drop_ended(id).await?;
            } else if every == Every::One || unwritten {
                self.write(id).await?;
            }
        }
        Ok(())
    }

    /// What the store does not know yet.
    fn pending(&self) -> Vec<SessionId> {
        let held = self.held();
        let unknown = |id: SessionId, held: &Held| held.written == Written::No || !self.is_here(id);
        held.iter().filter(|(id, held)| unknown(**id, held)).map(|(id, _)| *id).collect()
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
    // Up to which epoch of the lease all that is ours was looked up.
    let mut reviewed = strong.replicas.epoch();
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
        let anew = reviewed != now.epoch;
        let every = if anew || renewed.elapsed() >= life { Every::One } else { Every::Changed };
        if inner.tend(every).await.is_ok() && every == Every::One {
            renewed = tokio::time::Instant::now();
            reviewed = now.epoch;
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

/// What a call changes about a session, as far as another replica needs it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Level(LogLevel),
    Subscribed(String),
    Unsubscribed(String),
}

impl Change {
    /// Nothing: the call changes nothing, or what it says means nothing.
    pub(crate) fn of(decoded: &Decoded) -> Option<Self> {
        let Decoded::One(Ok(Envelope::Call(call)), _) = decoded else { return None };
        let uri = || call.params.text(Param::Uri).map(std::borrow::Cow::into_owned);
        match call.method {
            Method::LoggingSetLevel => level(call.params.raw()?).map(Self::Level),
            Method::ResourcesSubscribe => uri().map(Self::Subscribed),
            Method::ResourcesUnsubscribe => uri().map(Self::Unsubscribed),
            _ => None,
        }
    }

    /// Is the record another one now?
    fn apply(self, record: &mut Record) -> bool {
        let subscriptions = &mut record.subscriptions;
        match self {
            Self::Level(level) => {
                let params = serde_json::json!({ "level": level.name() }).to_string();
                record.level = RawValue::from_string(params).ok();
                true
            }
            Self::Subscribed(uri) => {
                let room = subscriptions.len() < SUBSCRIPTIONS
                    && spelled(&uri) + subscriptions.iter().map(|uri| spelled(uri)).sum::<usize>()
                        <= SUBSCRIPTION_BYTES;
                let new = room && !subscriptions.contains(&uri);
                if new {
                    subscriptions.push(uri);
                }
                new
            }
            Self::Unsubscribed(uri) => {
                let before = subscriptions.len();
                subscriptions.retain(|known| *known != uri);
                subscriptions.len() < before
            }
        }
    }
}

fn level(params: &Bytes) -> Option<LogLevel> {
    let members: HashMap<String, Box<RawValue>> = serde_json::from_slice(params).ok()?;
    serde_json::from_str(members.get("level")?.get()).ok()
}

/// How many bytes a text is in a record, at most: what needs an escape has six.
fn spelled(text: &str) -> usize {
    let escaped = text.bytes().filter(|byte| byte.is_ascii_control() || matches!(byte, b'"' | b'\\'));
    text.len() + 5 * escaped.count() + 3
}

fn raw(bytes: &Bytes) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8(bytes.to_vec()).ok()?).ok()
}

#[cfg(test)]
mod tests;
