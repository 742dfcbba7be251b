//! The lines that calls share, or hold alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use cardan_client::{CallError, Managed, Settled};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::session::event::{Event, Outcome};
use cardan_proto::upkeep::condition::Condition;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::askable::Askable;
use super::line::{Hears, Line, level_of};
use super::loan::Loan;
use super::shelf::{OnTurn, Shelf, Turned};
use super::tasks::Tended;
use super::voice::{Holder, Voice};
use super::{Behind, Farewells, Isolation, Options};
use crate::fleet::{Making, lock};

/// Lines by what may be asked on them.
pub(super) struct Pool {
    making: Making,
    behind: Behind,
    isolation: Isolation,
    max: usize,
    /// How long a call waits for a line of its own.
    patience: Duration,
    shelves: Mutex<BTreeMap<Place, Vec<Entry>>>,
    freed: Notify,
    /// A line is free that may be left in a while.
    idled: Arc<Notify>,
    /// Lines that are being left: what they lead to is still there.
    leaving: AtomicUsize,
    /// Leaves lines that nobody has used for a while.
    tidying: OnceLock<AbortHandle>,
    /// Counts the lines that were opened, for listens that follow all of them.
    opened: watch::Sender<u64>,
    /// Listens that follow the lines of a shelf, by their numbers.
    listens: Mutex<Vec<(u64, Place)>>,
    farewells: Arc<Farewells>,
    /// The connection that is looked after when a line is lost; none: a line says nothing of others.
    first: OnceLock<Managed>,
    /// Whose it is, and who wants to know what is offered by its lines.
    told: OnceLock<(Option<Arc<str>>, OnTurn)>,
}

/// Where lines stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// For whoever can be asked this.
    Kept(Askable),
    /// For one call alone. Apart, since nobody follows such lines.
    Fresh(Askable),
}

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// A way to the upstream.
    Any,
    /// One by which nothing comes that is not its own.
    Alone,
    /// The same, and nobody had it before or will have it.
    Fresh,
}

/// A line and who is told what comes by it.
pub(super) struct Shared {
    pub(super) line: Line,
    voice: Arc<Voice>,
    origin: Origin,
    /// Listens that were there when it was opened and do not stand on it yet, by their numbers.
    behind: watch::Sender<BTreeSet<u64>>,
}

impl Shared {
    /// The tasks that its server may ask for.
    pub(super) fn tended(&self) -> &Tended {
        &self.voice.tended
    }

    /// A listen stands on it, or never will. One that came later than the line is nobody's to wait for.
    pub(super) fn caught_up(&self, listen: u64) {
        self.behind.send_if_modified(|behind| behind.remove(&listen));
    }

    /// Waits until what is called now is heard by all who listened before.
    pub(super) async fn heard(&self) {
        if self.behind.borrow().is_empty() {
            return;
        }
        // Who listens too slowly does not hold up who calls.
        let _ = tokio::time::timeout(HEARING, self.behind.subscribe().wait_for(BTreeSet::is_empty)).await;
    }
}

struct Entry {
    shared: Arc<Shared>,
    running: usize,
    /// Since when nothing runs there.
    idle: Instant,
    held: Held,
}

/// Whether a line is held alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    No,
    Yes,
    /// It was, by a call that was given up or not answered in this session of the line: late words may come, so nobody is told
    /// anything by it until there is another.
    Spoiled(u64),
}

impl Held {
    fn is_spoiled(self) -> bool {
        matches!(self, Self::Spoiled(_))
    }
}

impl Entry {
    fn spoil(&mut self) {
        self.held = Held::Spoiled(self.shared.line.managed.sessions());
    }

    /// What was spoiled is good again where no late words can come, since their session is gone.
    fn heal(&mut self) {
        if self.held.is_spoiled() && self.held != Held::Spoiled(self.shared.line.managed.sessions()) {
            self.held = Held::No;
        }
    }
}

/// Whose a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Opened here.
    Own,
    /// Kept by someone else: its voice overhears what is logged there.
    Lent,
    /// The same, but its voice hears what comes by it.
    Loaned,
}

/// How long a call by a new line waits for listens to stand there.
pub(super) const HEARING: Duration = Duration::from_secs(2);

/// How long a line that nobody uses is kept for the next call that needs such a one. It may be a process, which takes long to
/// start.
const KEPT: Duration = Duration::from_secs(60);

impl Pool {
    pub(super) fn start(
        making: Making,
        lent: Option<(Managed, Option<Loan>)>,
        options: &Options,
        farewells: Arc<Farewells>,
    ) -> Arc<Self> {
        let lent = lent.map(|(managed, loan)| {
            let (line, behind) = (Line::lent(managed), watch::Sender::default());
            let (askable, voice, origin) = match loan {
                Some(Loan { askable, voice }) => (askable, voice, Origin::Loaned),
                None => (Askable::NOTHING, overhearing(&line.managed), Origin::Lent),
            };
            let shared = Arc::new(Shared { line, voice, origin, behind });
            let entry = Entry { shared, running: 0, idle: Instant::now(), held: Held::No };
            (Place::Kept(askable), vec![entry])
        });
        let pool = Arc::new(Self {
            making,
            behind: options.behind,
            isolation: options.isolation,
            max: options.lines.max(1),
            patience: options.limits.call_idle_timeout,
            shelves: Mutex::new(lent.into_iter().collect()),
            freed: Notify::new(),
            idled: Arc::default(),
            leaving: AtomicUsize::new(0),
            tidying: OnceLock::new(),
            opened: watch::Sender::new(0),
            listens: Mutex::default(),
            farewells,
            first: OnceLock::new(),
            told: OnceLock::new(),
        });
        let tidying = tokio::spawn(tidy(Arc::downgrade(&pool), Arc::clone(&pool.idled))).abort_handle();
        // Nobody else has it yet, so it is not set.
        let _ = pool.tidying.set(tidying);
        pool
    }

    /// Lines to come that are lost let `first` be looked after, since it leads where they do.
    pub(super) fn beside(&self, first: Option<Managed>) {
        if let Some(first) = first {
            // Nobody else sets it.
            let _ = self.first.set(first);
        }
    }

    /// What is offered by lines to come is told, as by those of this principal.
    pub(super) fn tell(&self, principal: Option<Arc<str>>, on_turn: OnTurn) {
        // Nobody else sets it.
        let _ = self.told.set((principal, on_turn));
    }

    /// The line that a call takes which finds nobody else there. Who can be asked nothing needs none that can be held.
    pub(super) fn foremost(&self, askable: Askable) -> Option<Arc<Shared>> {
        let shelves = lock(&self.shelves);
        let shelf = shelves.get(&Place::Kept(askable))?;
        let fits = |entry: &&Entry| askable == Askable::NOTHING || !entry.held.is_spoiled();
        let entry = shelf.iter().find(fits).or_else(|| shelf.first())?;
        Some(Arc::clone(&entry.shared))
    }

    /// The line that nobody can be asked on.
    pub(super) fn first(self: &Arc<Self>) -> Managed {
        let mut lease = self.try_take(Askable::NOTHING, Need::Any).expect("the first line is always made");
        lease.landed();
        lease.shared.line.managed.clone()
    }

    /// What the upstream says of itself.
    pub(super) async fn meet(self: &Arc<Self>, within: Duration) -> Result<Settled, CallError> {
        let managed = self.first();
        let mut transitions = managed.transitions();
        // The first attempt decides: whoever starts us is to hear at once what is wrong.
        let failed = async {
            while let Some(transition) = transitions.next().await {
                if matches!(transition.to, Condition::Reconnecting { .. } | Condition::Suspended { .. }) {
                    return;
                }
            }
        };
        tokio::select! {
            met = managed.ready(within) => met,
            // Not ready within no time: that tells why.
            () = failed => managed.ready(Duration::ZERO).await,
        }
    }

    /// The line that someone else keeps for whom `askable` may be asked, whoever has it: none is opened beside it.
    pub(super) fn loaned(&self, askable: Askable) -> Option<Arc<Shared>> {
        let shelves = lock(&self.shelves);
        let first = shelves.get(&Place::Kept(askable))?.first()?;
        (first.shared.origin == Origin::Loaned).then(|| Arc::clone(&first.shared))
    }

    /// The right to call by a line on which `askable` may be asked.
    pub(super) async fn take(self: &Arc<Self>, askable: Askable, need: Need) -> Result<Lease, Fault> {
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

    fn try_take(self: &Arc<Self>, askable: Askable, need: Need) -> Option<Lease> {
        let key = match need {
            Need::Fresh => Place::Fresh(askable),
            Need::Any | Need::Alone => Place::Kept(askable),
        };
        let mut shelves = lock(&self.shelves);
        let lines: usize = shelves.values().map(Vec::len).sum();
        let total = lines + self.leaving.load(Ordering::SeqCst);
        let shelf = shelves.entry(key).or_default();
        shelf.iter_mut().for_each(Entry::heal);
        let fits = |entry: &Entry| match need {
            // Where replies and notes have a stream for each call, who holds a line alone is not disturbed.
            Need::Any => {
                let apart = self.behind == Behind::One && entry.shared.line.era() == Some(Era::Modern);
                entry.held != Held::Yes || apart
            }
            Need::Alone => entry.held == Held::No && entry.running == 0,
            Need::Fresh => false,
        };
        let found = shelf.iter().position(fits);
        let at = match found {
            Some(at) => at,
            None if total < self.max || shelf.is_empty() && need == Need::Any => {
                shelf.push(self.open(askable, key));
                self.opened.send_modify(|opened| *opened += 1);
                shelf.len() - 1
            }
            None => return None,
        };
        let entry = &mut shelf[at];
        entry.running += 1;
        if need != Need::Any {
            entry.held = Held::Yes;
        }
        let shared = Arc::clone(&entry.shared);
        Some(Lease { pool: Arc::clone(self), key, shared, need, landed: false })
    }

    /// Opens a line, for this shelf.
    fn open(self: &Arc<Self>, askable: Askable, key: Place) -> Entry {
        let told = self.told.get().filter(|_| key == Place::Kept(askable)).map(|(principal, on_turn)| {
            let shelf = Shelf::new(Arc::downgrade(self), principal.clone(), askable);
            (Arc::clone(on_turn), shelf)
        });
        let voice = Arc::new(Voice::beside(self.first.get().cloned(), told));
        let hears: Weak<Voice> = Arc::downgrade(&voice);
        let hears: Weak<dyn Hears> = hears;
        let line = Line::open(&self.making, askable.capabilities(), hears);
        let listens = lock(&self.listens);
        let behind = listens.iter().filter(|(_, of)| *of == key).map(|(number, _)| *number).collect();
        let behind = watch::Sender::new(behind);
        let shared = Arc::new(Shared { line, voice, origin: Origin::Own, behind });
        Entry { shared, running: 0, idle: Instant::now(), held: Held::No }
    }

    /// Follows the lines on which `askable` may be asked: those there are, and those to come.
    pub(super) fn follow(self: &Arc<Self>, askable: Askable) -> Followed {
        let opened = self.opened.subscribe();
        let key = Place::Kept(askable);
        // What is opened meanwhile counts it or is seen by it.
        let mut listens = lock(&self.listens);
        let number = listens.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        listens.push((number, key));
        Followed { pool: Arc::clone(self), key, number, opened, known: Vec::new() }
    }

    fn give_back(self: &Arc<Self>, lease: &Lease) {
        let mut shelves = lock(&self.shelves);
        let Some(shelf) = shelves.get_mut(&lease.key) else { return };
        let Some(at) = shelf.iter().position(|entry| Arc::ptr_eq(&entry.shared, &lease.shared)) else {
            return;
        };
        let kept = at < self.stays(lease.key, shelf);
        let entry = &mut shelf[at];
        // What spoiled it is gone with its session, whatever this call leaves in the one there is.
        entry.heal();
        let before = entry.held;
        entry.running -= 1;
        entry.idle = Instant::now();
        if lease.need != Need::Any {
            entry.shared.voice.give(None);
            match lease.landed && lease.need == Need::Alone {
                true => entry.held = Held::No,
                false => entry.spoil(),
            }
        } else if !lease.landed && entry.held == Held::No && entry.shared.line.era() == Some(Era::Legacy) {
            // What it still says would be taken for the words of whoever holds the line next.
            entry.spoil();
        }
        let (free, spoiled) = (!kept && entry.running == 0, entry.held.is_spoiled());
        if free && spoiled {
            self.leave(&shelf.remove(at));
        } else if spoiled && !before.is_spoiled() {
            // Who holds a line next holds another.
            entry.shared.voice.turn(Turned::Gone);
        }
        drop(shelves);
        self.freed.notify_waiters();
        if free && !spoiled {
            self.idled.notify_one();
        }
    }

    /// Leaves lines that nobody has used for a while, and tells when the next is due.
    fn sweep(self: &Arc<Self>) -> Option<Instant> {
        let (now, mut due) = (Instant::now(), None);
        let mut shelves = lock(&self.shelves);
        for (key, shelf) in &mut *shelves {
            let stays = self.stays(*key, shelf).min(shelf.len());
            let gone = |entry: &mut Entry| entry.running == 0 && entry.idle + KEPT <= now;
            for entry in shelf.extract_if(stays.., gone) {
                self.leave(&entry);
            }
            let left = shelf.iter().skip(stays).filter(|entry| entry.running == 0);
            due = left.map(|entry| entry.idle + KEPT).chain(due).min();
        }
        due
    }

    /// How many lines of a shelf stay whether they are used or not: the first one where everybody needs it, where someone else
    /// keeps it, where sessions are said to be shared, where someone listens, and where tasks may be that end with it.
    fn stays(&self, key: Place, shelf: &[Entry]) -> usize {
        let Place::Kept(askable) = key else { return 0 };
        let shared = matches!(self.isolation, Isolation::Shared | Isolation::Principal);
        let followed = || lock(&self.listens).iter().any(|(_, of)| *of == key);
        let tasks = || shelf.first().is_some_and(|entry| entry.shared.line.has_tasks());
        let lent = || shelf.first().is_some_and(|entry| entry.shared.origin != Origin::Own);
        usize::from(shared || askable == Askable::NOTHING || lent() || followed() || tasks())
    }

    /// Under the lock, so that whoever counts lines counts it here or there.
    fn leave(self: &Arc<Self>, entry: &Entry) {
        entry.shared.voice.turn(Turned::Gone);
        self.leaving.fetch_add(1, Ordering::SeqCst);
        let leaving = Leaving(Arc::downgrade(self));
        self.farewells.say_with(entry.shared.line.managed.clone(), "no call needs it any more", leaving);
    }

    /// The line whose last call ended last.
    pub(super) fn latest(&self) -> Option<(Instant, Managed)> {
        let shelves = lock(&self.shelves);
        let latest = shelves.values().flatten().max_by_key(|entry| entry.idle)?;
        Some((latest.idle, latest.shared.line.managed.clone()))
    }

    pub(super) fn lines(&self) -> usize {
        lock(&self.shelves).values().map(Vec::len).sum()
    }

    /// Leaves whatever nobody uses right now: nothing new comes here.
    pub(super) fn thin(self: &Arc<Self>) {
        let mut shelves = lock(&self.shelves);
        for entry in shelves.values_mut().flat_map(|shelf| shelf.extract_if(.., |entry| entry.running == 0)) {
            if entry.shared.origin == Origin::Own {
                self.leave(&entry);
            }
        }
    }

    pub(super) async fn close(&self, reason: &'static str) {
        let shelves = std::mem::take(&mut *lock(&self.shelves));
        for entry in shelves.into_values().flatten().filter(|entry| entry.shared.origin == Origin::Own) {
            entry.shared.voice.turn(Turned::Gone);
            entry.shared.line.managed.close(reason).await;
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(tidying) = self.tidying.get() {
            tidying.abort();
        }
    }
}

/// A line that is being left, while it lives.
struct Leaving(Weak<Pool>);

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.leaving.fetch_sub(1, Ordering::SeqCst);
            pool.freed.notify_waiters();
        }
    }
}

/// A voice that hears what is logged on a connection which someone else keeps, for as long as there is a voice.
fn overhearing(managed: &Managed) -> Arc<Voice> {
    let voice = Arc::new(Voice::default());
    let hears = Arc::downgrade(&voice);
    managed.overhear(move |event| {
        let Some(voice) = hears.upgrade() else { return ControlFlow::Break(()) };
        if let Event::Logged { params } = event
            && let Some(level) = level_of(params)
        {
            voice.log(level, params.clone());
        }
        ControlFlow::Continue(())
    });
    voice
}

/// Looks after lines that nobody uses.
async fn tidy(pool: Weak<Pool>, idled: Arc<Notify>) {
    loop {
        idled.notified().await;
        let mut due = Some(Instant::now() + KEPT);
        while let Some(at) = due {
            tokio::time::sleep_until(at).await;
            let Some(pool) = pool.upgrade() else { return };
            due = pool.sweep();
        }
    }
}

/// The lines that one listen follows.
pub(super) struct Followed {
    pool: Arc<Pool>,
    key: Place,
    /// Which of the listens it is.
    pub(super) number: u64,
    opened: watch::Receiver<u64>,
    known: Vec<Weak<Shared>>,
}

impl Followed {
    /// Lines that were not known before.
    pub(super) fn news(&mut self) -> Vec<Arc<Shared>> {
        self.opened.borrow_and_update();
        self.known.retain(|known| known.strong_count() > 0);
        let shelves = lock(&self.pool.shelves);
        let lines = shelves.get(&self.key).into_iter().flatten().map(|entry| Arc::clone(&entry.shared));
        let known = |line: &Arc<Shared>| self.known.iter().any(|known| known.as_ptr() == Arc::as_ptr(line));
        let news: Vec<_> = lines.filter(|line| !known(line)).collect();
        self.known.extend(news.iter().map(Arc::downgrade));
        news
    }

    /// Waits until there may be more.
    pub(super) async fn changed(&mut self) {
        if self.opened.changed().await.is_err() {
            // The pool is gone, and nothing will be opened.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let mut shelves = lock(&self.pool.shelves);
        lock(&self.pool.listens).retain(|(number, _)| *number != self.number);
        // Whoever waits for this one waits no longer.
        for line in shelves.get_mut(&self.key).into_iter().flatten() {
            line.shared.caught_up(self.number);
            line.idle = Instant::now();
        }
        drop(shelves);
        // What stayed for it may be left.
        self.pool.idled.notify_one();
    }
}

/// The right to call by a line, for as long as it is held.
pub(super) struct Lease {
    pool: Arc<Pool>,
    key: Place,
    pub(super) shared: Arc<Shared>,
    pub(super) need: Need,
    landed: bool,
}

impl Lease {
    /// From now on the call is told what comes by its line.
    pub(super) fn voice(&self, holder: Holder) {
        if self.need != Need::Any {
            self.shared.voice.give(Some(holder));
        }
    }

    /// Nobody is told what comes by its line, for now.
    pub(super) fn hush(&self) {
        if self.need != Need::Any {
            self.shared.voice.give(None);
        }
    }

    /// Nothing was called by it that something may yet come of.
    pub(super) fn landed(&mut self) {
        self.landed = true;
    }

    /// The call has ended so. Nothing of it comes any more where it was answered, however badly, or has never arrived, and where
    /// its session has ended with it. A server that answered nothing may work on it still.
    pub(super) fn ended(&mut self, outcome: &Outcome) {
        let answered = matches!(outcome, Outcome::Done(_) | Outcome::Fault(_) | Outcome::Violated(_));
        let up = self.shared.line.managed.condition().is_up();
        let gone = matches!(outcome, Outcome::Lost { .. }) && !up;
        self.landed = answered || gone || !outcome.may_have_executed();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let pool = Arc::clone(&self.pool);
        pool.give_back(self);
    }
}

#[cfg(test)]
mod tests;
