//! Who made which task: each is known here to whoever made it, and to nobody else.
//!
//! Bounded in number and time. What was made before this program ran is not in it: then only who has no name, and so
//! cannot be told from others, may try a task by its name.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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
    /// By name, and so of several owners: each may have a server of its own.
    index: HashMap<Box<str>, Vec<u64>>,
    /// In the order in which they expire.
    ends: BTreeSet<(Instant, u64)>,
}

impl Inner {
    fn called(&self, name: &str) -> impl Iterator<Item = &Arc<Entry>> {
        let places = self.index.get(name).into_iter().flatten();
        places.filter_map(|place| self.entries.get(place))
    }

    /// The one of this name that is meant by this one: made in its own session, else in any of its own.
    fn meant(&self, name: &str, owner: &Owner) -> Option<&Arc<Entry>> {
        let own = |entry: &&Arc<Entry>| entry.owner.principal == owner.principal;
        self.called(name).find(|entry| entry.owner == *owner).or_else(|| self.called(name).find(own))
    }

    fn remove(&mut self, place: u64) {
        let Some(gone) = self.entries.remove(&place) else { return };
        self.ends.remove(&(gone.until, place));
        if let Some(places) = self.index.get_mut(&gone.name) {
            places.retain(|at| *at != place);
            if places.is_empty() {
                self.index.remove(&gone.name);
            }
        }
    }
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
    /// What it is called here.
    pub(super) name: Box<str>,
    place: u64,
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
    /// Its owner has what came of it.
    spent: bool,
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

    /// Its owner has what came of it: before all others it may make room.
    pub(super) fn spend(&self) {
        lock(&self.inner).spent = true;
    }

    fn is_spent(&self) -> bool {
        lock(&self.inner).spent
    }

    /// Was it made by this one, in this session?
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        self.owner == *owner
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
        self.room_in(&mut inner, owner)
    }

    fn room_in(&self, inner: &mut Inner, owner: &Owner) -> Result<(), Fault> {
        self.expire(inner);
        match self.is_full(inner, owner) && self.spent(inner, owner).is_none() {
            true => Err(Fault::new(code::BUSY, "too many tasks are kept; wait until one expires")),
            false => Ok(()),
        }
    }

    fn is_full(&self, inner: &Inner, owner: &Owner) -> bool {
        inner.entries.len() >= self.limits.tasks || self.has_its_share(inner, owner)
    }

    /// Has this one as many as one may have?
    fn has_its_share(&self, inner: &Inner, owner: &Owner) -> bool {
        let own = inner.entries.values().filter(|entry| entry.owner.principal == owner.principal);
        owner.principal.is_some() && own.count() >= self.limits.tasks_per_principal
    }

    /// The oldest whose result its owner has: of the same owner, where that has too many.
    fn spent(&self, inner: &Inner, owner: &Owner) -> Option<u64> {
        let share = self.has_its_share(inner, owner);
        let fits = |entry: &&Arc<Entry>| !share || entry.owner.principal == owner.principal;
        inner.entries.values().filter(fits).find(|entry| entry.is_spent()).map(|entry| entry.place)
    }

    /// The server made one although there is no room: one is forgotten that costs least. Without a name one loses little,
    /// since it may still try its task; nobody loses one to somebody else who has any.
    fn make_room(&self, inner: &mut Inner, owner: &Owner) {
        while self.is_full(inner, owner) {
            let share = self.has_its_share(inner, owner);
            let oldest = |of: &Option<Arc<str>>| {
                inner.entries.values().find(|entry| entry.owner.principal == *of).map(|entry| entry.place)
            };
            let gone = self
                .spent(inner, owner)
                .or_else(|| if share { None } else { oldest(&None) })
                .or_else(|| oldest(&owner.principal))
                .or_else(|| inner.entries.first_key_value().map(|(place, _)| *place));
            let Some(gone) = gone else { return };
            inner.remove(gone);
        }
    }

    /// One was made. The server's name for it stays: where each session has a server of its own, so it has the names.
    pub(in crate::relay) fn put(&self, id: &str, owner: Owner, ttl: Option<Lifetime>) -> Arc<Entry> {
        let mut inner = lock(&self.inner);
        let before = inner.called(id).find(|entry| entry.owner == owner).map(|entry| entry.place);
        if let Some(before) = before {
            inner.remove(before);
        }
        self.insert(&mut inner, (id, id.into()), owner, self.kept_for(ttl), None)
    }

    /// One was made by a line that may lead to a server of its own: where its owner has one of that name already, it gets
    /// another.
    pub(super) fn mint(&self, id: &str, owner: Owner, ttl: Option<Lifetime>) -> Arc<Entry> {
        let mut inner = lock(&self.inner);
        self.expire(&mut inner);
        let (mut name, mut n) = (id.to_owned(), 1_u64);
        while inner.meant(&name, &owner).is_some() {
            n += 1;
            name = format!("{id}~{n}");
        }
        self.insert(&mut inner, (id, name.into()), owner, self.kept_for(ttl), None)
    }

    /// One is there that was made elsewhere.
    pub(super) fn adopt(&self, id: &str, owner: &Owner, ttl: Option<Lifetime>) -> Result<Arc<Entry>, Fault> {
        let mut inner = lock(&self.inner);
        // Someone else may have asked meanwhile.
        if let Some(known) = inner.meant(id, owner) {
            return Ok(Arc::clone(known));
        }
        self.room_in(&mut inner, owner)?;
        Ok(self.insert(&mut inner, (id, id.into()), owner.clone(), self.kept_for(ttl), None))
    }

    /// One that never was one at its server.
    pub(super) fn keep(&self, id: &str, owner: Owner, life: Life) -> Arc<Entry> {
        let until = life.expires().elapsed();
        let time = (self.start + until).saturating_duration_since(Instant::now());
        self.insert(&mut lock(&self.inner), (id, id.into()), owner, time, Some(life))
    }

    fn insert(
        &self,
        inner: &mut Inner,
        (id, name): (&str, Box<str>),
        owner: Owner,
        time: Duration,
        kept: Option<Life>,
    ) -> Arc<Entry> {
        self.expire(inner);
        self.make_room(inner, &owner);
        inner.minted += 1;
        let place = inner.minted;
        let entry = Arc::new(Entry {
            id: id.into(),
            name: name.clone(),
            place,
            owner,
            until: Instant::now() + time,
            kept,
            moved: watch::Sender::new(0),
            tending: Tending::default(),
            inner: Mutex::default(),
        });
        inner.index.entry(name).or_default().push(place);
        inner.ends.insert((entry.until, place));
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
        match inner.meant(id, owner) {
            Some(entry) => Ok(Some(Arc::clone(entry))),
            None if owner.principal.is_none() && inner.called(id).next().is_none() => Ok(None),
            None => Err(unknown()),
        }
    }

    /// Is the task of this name in this one's list?
    pub(super) fn lists(&self, id: &str, owner: &Owner) -> bool {
        let mut inner = lock(&self.inner);
        self.expire(&mut inner);
        inner.called(id).any(|entry| entry.owner.lists(owner))
    }

    /// It is gone at its server.
    pub(super) fn forget(&self, entry: &Entry) {
        lock(&self.inner).remove(entry.place);
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
        while let Some((until, place)) = inner.ends.first().copied()
            && until <= now
        {
            inner.remove(place);
        }
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

    /// TSKD-20, TSKE-22: servers that are started for each client may use the same names: nobody loses or shares a task by that.
    #[tokio::test(start_paused = true)]
    async fn one_name_may_be_of_several() {
        let ledger = Ledger::new(&Limits::DEFAULT);
        let in_session =
            |principal: Option<&str>, session| Owner { principal: principal.map(Into::into), session };
        let owners = [
            in_session(Some("ada"), 1),
            in_session(Some("ada"), 2),
            in_session(Some("bob"), 3),
            in_session(None, 4),
            in_session(None, 5),
        ];
        let made = owners.clone().map(|owner| ledger.put("1", owner, None));
        for (owner, made) in owners.iter().zip(&made) {
            assert!(Arc::ptr_eq(&ledger.find("1", owner).unwrap().unwrap(), made), "{owner:?}");
        }
        ledger.forget(&made[3]);
        assert!(Arc::ptr_eq(&ledger.find("1", &owners[4]).unwrap().unwrap(), &made[4]));
        assert!(!ledger.lists("1", &owners[3]) && ledger.lists("1", &owners[4]));
        // Of one owner, by lines of which each has its own server.
        let (first, second) = (ledger.mint("2", named("eve"), None), ledger.mint("2", named("eve"), None));
        assert_eq!((&*first.name, &*second.id, &*second.name), ("2", "2", "2~2"));
        assert!(Arc::ptr_eq(&ledger.find("2~2", &named("eve")).unwrap().unwrap(), &second));
        assert_eq!(&*ledger.mint("2", named("ada"), None).name, "2", "another's is in nobody's way");
        let known = ledger.adopt("2", &named("eve"), None).unwrap();
        assert!(Arc::ptr_eq(&known, &first), "it is known already");
    }

    /// TSKD-21: where there is no room, what costs least goes first: what its owner has fetched, then what may be tried by its
    /// name all the same.
    #[tokio::test(start_paused = true)]
    async fn what_costs_least_makes_room() {
        let limits = Limits { tasks: 3, tasks_per_principal: 2, ..Limits::DEFAULT };
        let ledger = Ledger::new(&limits);
        ledger.put("a", named("ada"), None);
        let fetched = ledger.put("b", named("ada"), None);
        assert!(ledger.room(&named("ada")).is_err());
        fetched.spend();
        ledger.room(&named("ada")).unwrap();
        ledger.put("c", named("ada"), None);
        assert!(ledger.find("b", &named("ada")).is_err() && ledger.find("a", &named("ada")).is_ok());
        ledger.put("n", Owner::default(), None);
        assert!(ledger.adopt("m", &Owner::default(), None).is_err(), "it is full");
        ledger.put("d", named("bob"), None);
        assert!(ledger.find("n", &Owner::default()).unwrap().is_none(), "it may be tried");
        ledger.put("e", named("bob"), None);
        assert!(ledger.find("d", &named("bob")).is_err(), "one's own, before another's");
        assert!(ledger.find("a", &named("ada")).is_ok() && ledger.find("c", &named("ada")).is_ok());
    }
}
