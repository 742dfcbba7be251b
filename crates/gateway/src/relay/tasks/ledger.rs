//! Who made which task: each is known here to whoever made it, and to nobody else.
//!
//! Bounded in number and time. What was made before this program ran is not in it: then only who has no name, and so
//! cannot be told from others, may try a task by its name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::limits::Limits;
use cardan_proto::model::task::{Lifetime, Task};
use cardan_proto::moment::Moment;
use cardan_proto::task::{Detail, Life};
use tokio::sync::watch;
use tokio::time::Instant;

use super::tending::Tending;
use crate::fleet::lock;
use crate::relay::wants::Following;

/// The tasks of one server that were made here.
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
    limits: Limits,
    start: Instant,
    /// The wall clock at the start.
    epoch_ms: u64,
}

#[derive(Default)]
struct Inner {
    minted: u64,
    /// In the order in which they were made.
    entries: BTreeMap<u64, Arc<Entry>>,
    index: HashMap<Box<str>, u64>,
}

/// Whose a task is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::relay) struct Owner {
    /// Who made it; none: someone without a name.
    pub(in crate::relay) principal: Option<Arc<str>>,
    /// The session in which someone without a name made it. Modern calls have none.
    pub(in crate::relay) session: u64,
}

impl Owner {
    /// A principal, in no session.
    pub(in crate::relay) fn of(principal: Option<&Arc<str>>) -> Self {
        Self { principal: principal.cloned(), session: 0 }
    }

    /// Is it in this one's list?
    fn lists(&self, other: &Self) -> bool {
        self.principal == other.principal && (self.principal.is_some() || self.session == other.session)
    }
}

/// One task.
pub(in crate::relay) struct Entry {
    /// What its server calls it.
    pub(in crate::relay) id: Box<str>,
    owner: Owner,
    until: Instant,
    /// What is kept of one that never was one at its server: the result came at once.
    pub(super) kept: Option<Life>,
    /// Counts what happens to it.
    moved: watch::Sender<u64>,
    /// Its life at a legacy server, where its client is modern.
    pub(super) tending: Tending,
    inner: Mutex<Within>,
}

#[derive(Default)]
struct Within {
    cancelled: bool,
    /// What a legacy client is asked now, or has answered.
    asked: HashSet<Box<str>>,
    /// Tells a legacy client how it stands.
    following: Option<Following>,
}

impl Entry {
    /// Something happened to it.
    pub(super) fn touch(&self) {
        self.moved.send_modify(|moved| *moved += 1);
    }

    /// Tells whenever something happens to it.
    pub(super) fn moved(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// A legacy client cancelled it: it stays so, whatever its server makes of it.
    pub(super) fn cancel(&self) {
        lock(&self.inner).cancelled = true;
        self.touch();
    }

    pub(super) fn is_cancelled(&self) -> bool {
        lock(&self.inner).cancelled
    }

    pub(super) fn follow(&self, following: Following) {
        lock(&self.inner).following = Some(following);
    }

    /// Is this asked now? Then not twice, whoever else waits.
    pub(super) fn claim(&self, ask: &str) -> bool {
        lock(&self.inner).asked.insert(ask.into())
    }

    /// It was not answered, and may be asked again.
    pub(super) fn unclaim(&self, ask: &str) {
        lock(&self.inner).asked.remove(ask);
    }
}

impl Ledger {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Arc::new(Self { inner: Mutex::default(), limits: limits.clone(), start: Instant::now(), epoch_ms })
    }

    /// A number for a session that may make tasks.
    pub(in crate::relay) fn session(&self) -> u64 {
        let mut inner = lock(&self.inner);
        inner.minted += 1;
        inner.minted
    }

    /// Is there room for one more? Before a call is made that may become one.
    pub(in crate::relay) fn room(&self, owner: &Owner) -> Result<(), Fault> {
        let mut inner = lock(&self.inner);
        self.expire(&mut inner);
        match self.is_full(&inner, owner) {
            true => Err(Fault::new(code::BUSY, "too many tasks are kept; wait until one expires")),
            false => Ok(()),
        }
    }

    fn is_full(&self, inner: &Inner, owner: &Owner) -> bool {
        let same = |entry: &&Arc<Entry>| entry.owner.principal == owner.principal;
        let most = match owner.principal {
            Some(_) => self.limits.tasks_per_principal,
            None => self.limits.tasks,
        };
        inner.entries.len() >= self.limits.tasks || inner.entries.values().filter(same).count() >= most
    }

    /// The server made one although there is no room: the oldest is forgotten, of the same owner if it has any.
    fn make_room(&self, inner: &mut Inner, owner: &Owner) {
        while self.is_full(inner, owner) {
            let same = |(_, entry): &(&u64, &Arc<Entry>)| entry.owner.principal == owner.principal;
            let oldest = inner.entries.iter().find(same).or_else(|| inner.entries.first_key_value());
            let Some(place) = oldest.map(|(place, _)| *place) else { return };
            if let Some(gone) = inner.entries.remove(&place) {
                inner.index.remove(&gone.id);
            }
        }
    }

    /// One was made.
    pub(in crate::relay) fn put(&self, id: &str, owner: Owner, ttl: Option<Lifetime>) -> Arc<Entry> {
        self.insert(id, owner, self.kept_for(ttl), None)
    }

    /// One that never was one at its server.
    pub(super) fn keep(&self, id: &str, owner: Owner, life: Life) -> Arc<Entry> {
        let until = life.expires().elapsed();
        self.insert(id, owner, (self.start + until).saturating_duration_since(Instant::now()), Some(life))
    }

    fn insert(&self, id: &str, owner: Owner, time: Duration, kept: Option<Life>) -> Arc<Entry> {
        let mut inner = lock(&self.inner);
        self.expire(&mut inner);
        self.make_room(&mut inner, &owner);
        let entry = Arc::new(Entry {
            id: id.into(),
            owner,
            until: Instant::now() + time,
            kept,
            moved: watch::Sender::new(0),
            tending: Tending::default(),
            inner: Mutex::default(),
        });
        inner.minted += 1;
        let place = inner.minted;
        if let Some(before) = inner.index.insert(id.into(), place) {
            inner.entries.remove(&before);
        }
        inner.entries.insert(place, Arc::clone(&entry));
        entry
    }

    /// How long one is known whose server keeps it for so long.
    fn kept_for(&self, ttl: Option<Lifetime>) -> Duration {
        match ttl {
            Some(Lifetime::Millis(ms)) => Duration::from_millis(ms).min(self.limits.task_ttl_max),
            Some(Lifetime::Unlimited) | None => self.limits.task_ttl_max,
        }
    }

    /// How long a result is kept here, by a client's wish.
    pub(super) fn kept_by(&self, wish: Option<u64>) -> Duration {
        wish.map_or(self.limits.task_ttl, Duration::from_millis).min(self.limits.task_ttl_max)
    }

    /// The task of this name for whoever owns it; nothing: it is not known, and may be tried. Another's is as unknown as one
    /// that never was, and so is any that is not known to who has a name.
    pub(in crate::relay) fn find(&self, id: &str, owner: &Owner) -> Result<Option<Arc<Entry>>, Fault> {
        let mut inner = lock(&self.inner);
        self.expire(&mut inner);
        let known = inner.index.get(id).and_then(|place| inner.entries.get(place));
        match known {
            Some(entry) if entry.owner.principal == owner.principal => Ok(Some(Arc::clone(entry))),
            None if owner.principal.is_none() => Ok(None),
            _ => Err(unknown()),
        }
    }

    /// It is gone at its server.
    pub(super) fn forget(&self, id: &str) {
        let mut inner = lock(&self.inner);
        if let Some(place) = inner.index.remove(id) {
            inner.entries.remove(&place);
        }
    }

    /// So many tasks of one owner after a place, each with its own.
    pub(super) fn page(
        &self,
        owner: &Owner,
        after: u64,
        size: usize,
    ) -> (Vec<(u64, Arc<Entry>)>, Option<u64>) {
        let mut inner = lock(&self.inner);
        self.expire(&mut inner);
        // A cursor is whatever a client sends.
        let rest = inner.entries.range((Bound::Excluded(after), Bound::Unbounded));
        let mut own = rest.filter(|(_, entry)| entry.owner.lists(owner));
        let page: Vec<_> =
            own.by_ref().take(size).map(|(place, entry)| (*place, Arc::clone(entry))).collect();
        let next = page.last().map(|(place, _)| *place).filter(|_| own.next().is_some());
        (page, next)
    }

    /// Bytes that are kept for one owner.
    pub(super) fn bytes_of(&self, owner: &Owner) -> usize {
        let inner = lock(&self.inner);
        let own = inner.entries.values().filter(|entry| entry.owner.principal == owner.principal);
        own.map(|entry| entry.kept.as_ref().map_or(0, Life::kept_bytes) + entry.tending.bytes()).sum()
    }

    /// Would so many bytes more be too many?
    pub(super) fn fits(&self, owner: &Owner, more: usize) -> bool {
        self.bytes_of(owner).saturating_add(more) <= self.limits.task_result_bytes
    }

    pub(super) fn owner_of(&self, entry: &Entry) -> Owner {
        entry.owner.clone()
    }

    pub(super) fn now(&self) -> Moment {
        Moment::after(self.start.elapsed())
    }

    /// A kept task as a legacy client reads it.
    pub(super) fn view(&self, entry: &Entry) -> Option<Task> {
        let poll = self.limits.task_poll_interval;
        entry.kept.as_ref().map(|life| life.view(&entry.id, Detail::Head, poll, self.epoch_ms))
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    fn expire(&self, inner: &mut Inner) {
        let now = Instant::now();
        let index = &mut inner.index;
        inner.entries.retain(|place, entry| {
            let stays = entry.until > now;
            if !stays && index.get(&entry.id) == Some(place) {
                index.remove(&entry.id);
            }
            stays
        });
    }
}

/// The fault for a task that is not known, or is another's.
pub(in crate::relay) fn unknown() -> Fault {
    Fault::invalid_params("params.taskId: there is no such task, or it has expired")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Owner {
        Owner { principal: Some(name.into()), session: 0 }
    }

    /// TSKD-20, TSKE-22, T12: another's task is as unknown as one that never was; what is not known may be tried by
    /// those alone who cannot be told apart.
    #[tokio::test(start_paused = true)]
    async fn tasks_are_known_to_their_makers() {
        let ledger = Ledger::new(&Limits::DEFAULT);
        ledger.put("a", named("ada"), Some(Lifetime::Millis(1000)));
        ledger.put("n", Owner { principal: None, session: 7 }, None);
        assert!(ledger.find("a", &named("ada")).unwrap().is_some());
        for stranger in [named("bob"), Owner::default()] {
            assert_eq!(ledger.find("a", &stranger).err().unwrap().message, unknown().message);
        }
        assert!(ledger.find("n", &named("ada")).is_err() && ledger.find("x", &named("ada")).is_err());
        assert!(ledger.find("n", &Owner::default()).unwrap().is_some(), "a name is enough for who has none");
        assert!(ledger.find("x", &Owner::default()).unwrap().is_none());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(ledger.find("a", &named("ada")).is_err(), "it has expired");
    }

    /// TSKD-17, TSKD-20: lists have what their reader made, in order and page by page; who has no name sees its session's.
    #[tokio::test(start_paused = true)]
    async fn lists_have_what_their_reader_made() {
        let ledger = Ledger::new(&Limits::DEFAULT);
        for n in 0..3 {
            ledger.put(&format!("a{n}"), named("ada"), None);
            ledger.put(&format!("s{n}"), Owner { principal: None, session: 1 + n % 2 }, None);
        }
        let ids = |page: Vec<(u64, Arc<Entry>)>| {
            page.into_iter().map(|(_, e)| e.id.to_string()).collect::<Vec<_>>()
        };
        let (page, next) = ledger.page(&named("ada"), 0, 2);
        assert_eq!(ids(page), ["a0", "a1"]);
        let (page, next) = ledger.page(&named("ada"), next.unwrap(), 2);
        assert_eq!((ids(page), next), (vec!["a2".to_owned()], None));
        assert_eq!(ids(ledger.page(&Owner { principal: None, session: 1 }, 0, 9).0), ["s0", "s2"]);
        assert!(ledger.page(&named("bob"), 0, 9).0.is_empty());
        assert!(ledger.page(&named("ada"), u64::MAX, 9).0.is_empty(), "nothing is behind the last place");
    }

    /// TSKD-21: so many for each, so many in all, and not for ever.
    #[tokio::test(start_paused = true)]
    async fn tasks_are_bounded() {
        let limits = Limits { tasks: 3, tasks_per_principal: 2, ..Limits::DEFAULT };
        let ledger = Ledger::new(&limits);
        for (id, owner) in [("a", "ada"), ("b", "ada"), ("c", "bob")] {
            ledger.room(&named(owner)).unwrap();
            ledger.put(id, named(owner), Some(Lifetime::Millis(if id == "c" { 10 } else { 1000 })));
        }
        assert!(ledger.room(&named("ada")).is_err() && ledger.room(&named("bob")).is_err());
        tokio::time::advance(Duration::from_millis(10)).await;
        assert!(ledger.room(&named("ada")).is_err(), "two of its own are there still");
        assert!(ledger.room(&named("bob")).is_ok());
        ledger.put("d", named("ada"), None);
        assert!(
            ledger.find("a", &named("ada")).is_err(),
            "the oldest makes room where the server made one all the same"
        );
        assert!(ledger.find("b", &named("ada")).is_ok() && ledger.find("d", &named("ada")).is_ok());
    }
}
