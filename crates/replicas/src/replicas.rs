//! One of several replicas: its lease, and what it may do with sessions while that lasts.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use cardan_proto::limits::replicas::{
    BEAT_RETRY, OWNER_AGE, PASS_AGE, PASSES, RECORD_BYTES, RECORD_GROWTH, UNKNOWN, VALUE_BYTES,
};
use cardan_proto::moment::Moment;
use http::{HeaderValue, Request};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use crate::carry::{Carry, Carrying};
use crate::count::{Counts, Tally};
use crate::keys::Keys;
use crate::lease::{Lease, Step, step};
use crate::owners::{Owner, Owners};
use crate::pass::{self, Errand, Pass};
use crate::place::Place;
use crate::recent::Recent;
use crate::record::{Owned, Record};
use crate::resp::Reply;
use crate::script;
use crate::store::{Away, Open, Store, lock, tcp};

/// How a replica is set up.
pub struct Settings {
    /// Where the store is.
    pub store: Place,
    /// How it is reached; nothing: by TCP.
    pub open: Option<Open>,
    /// What every key there begins with.
    pub prefix: String,
    /// Where the others reach this replica.
    pub address: String,
    /// What all replicas know and nobody else.
    pub secret: String,
    /// How long sessions stay a replica's own without a word from the store.
    pub lease: Duration,
    /// How long a session that nobody renews is kept.
    pub life: Duration,
    /// The way to the others.
    pub carry: Arc<dyn Carry>,
}

/// One of several replicas. Cheap to clone.
#[derive(Clone)]
pub struct Replicas(Arc<Inner>);

struct Inner {
    store: Store,
    keys: Keys,
    /// This process among all that ever were: drawn at the start.
    tag: String,
    address: String,
    prefix: String,
    life: Duration,
    begun: Instant,
    lease: Mutex<Lease>,
    epoch: AtomicU64,
    /// When the lease is over, in milliseconds since the start.
    until: AtomicU64,
    standing: watch::Sender<Standing>,
    owners: Owners,
    /// Names that no session has.
    unknown: Recent<String>,
    /// Passes that were shown here.
    shown: Recent<String>,
    tally: Tally,
    carry: Arc<dyn Carry>,
    keeper: OnceLock<AbortHandle>,
    /// What is to be done before the lease is given up.
    last: Mutex<Vec<JoinHandle<()>>>,
}

/// How the lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// How often it began anew: what was held before is to be looked up.
    pub epoch: u64,
    /// Is it held?
    pub held: bool,
}

/// A session of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    name: String,
    fence: u64,
    turn: u64,
    epoch: u64,
}

impl Hold {
    /// For the next write: one that is older and arrives later changes nothing.
    #[must_use]
    pub fn turn(&mut self) -> Self {
        self.turn += 1;
        self.clone()
    }

    /// The epoch of the lease in which it was made.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// Is a session still ours?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Still {
    /// It is.
    Ours,
    /// It has ended, or another replica has it.
    Lost,
}

/// A session that is not here.
#[derive(Debug)]
pub struct Found {
    /// Who opened it.
    pub principal: Option<String>,
    /// Where it is, or where it was.
    pub address: String,
    /// Which process has it, or had it: another may be reached at the same address by now.
    pub owner: String,
    /// What is to be done.
    pub step: Step,
    kept: Option<(Vec<u8>, Record)>,
    name: String,
}

/// A session, and whose it was.
#[derive(Debug, Clone)]
pub struct Trace {
    name: String,
    owner: String,
}

/// Why a session was not written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unkept {
    /// The store is away, or was, and nothing is ours at the moment.
    Away(Away),
    /// What is to be written is too large.
    TooLarge,
}

impl From<Away> for Unkept {
    fn from(away: Away) -> Self {
        Self::Away(away)
    }
}

impl fmt::Display for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(away) => away.fmt(f),
            Self::TooLarge => f.write_str("what the client said of itself is too large to be shared"),
        }
    }
}

impl Replicas {
    /// Begins to keep the lease, within a tokio runtime. A store that is away may come later.
    pub async fn start(settings: Settings) -> Result<Self, getrandom::Error> {
        let mut tag = [0; 16];
        getrandom::fill(&mut tag)?;
        let open = settings.open.unwrap_or_else(tcp);
        let inner = Arc::new(Inner {
            store: Store::new(settings.store, open),
            keys: Keys::derive(&settings.secret),
            tag: URL_SAFE_NO_PAD.encode(tag),
            address: settings.address,
            prefix: settings.prefix,
            life: settings.life,
            begun: Instant::now(),
            lease: Mutex::new(Lease::new(settings.lease)),
            epoch: AtomicU64::new(0),
            until: AtomicU64::new(0),
            standing: watch::Sender::new(Standing::default()),
            owners: Owners::default(),
            unknown: Recent::new(OWNER_AGE, UNKNOWN),
            // From one end of what clocks may differ by to the other.
            shown: Recent::new(2 * PASS_AGE, PASSES),
            tally: Tally::default(),
            carry: settings.carry,
            keeper: OnceLock::new(),
            last: Mutex::default(),
        });
        let pause = inner.beat().await;
        let keeper = tokio::spawn(keep(Arc::downgrade(&inner), pause)).abort_handle();
        inner.keeper.set(keeper).expect("it was made a line above");
        Ok(Self(inner))
    }

    /// Is what is ours ours for sure, at this moment?
    #[must_use]
    pub fn holds(&self) -> bool {
        self.0.holds()
    }

    /// How often the lease began anew. What was seen in another epoch is to be looked up.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::SeqCst)
    }

    /// How long a session is kept that nobody renews.
    #[must_use]
    pub fn life(&self) -> Duration {
        self.0.life
    }

    /// How the lease stands, and will stand.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.0.standing.subscribe()
    }

    /// What has happened since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.tally.counts(self.0.store.failures())
    }

    /// Where the store is, without its password.
    #[must_use]
    pub fn store(&self) -> &Place {
        self.0.store.place()
    }

    /// Why the store is away, if it is.
    #[must_use]
    pub fn trouble(&self) -> Option<Away> {
        self.0.store.trouble()
    }

    /// How long the lease lasts: nobody has to wait longer for a replica that is gone.
    #[must_use]
    pub fn term(&self) -> Duration {
        lock(&self.0.lease).term()
    }

    /// Writes down a new session, which is ours from here on.
    pub async fn open(&self, place: &str, id: &str, record: &Record) -> Result<Hold, Unkept> {
        let inner = &self.0;
        let epoch = inner.held()?;
        let hold = Hold { name: inner.keys.name(place, id), fence: 1, turn: 0, epoch };
        let sealed = inner.sealed(&hold, record)?;
        if sealed.len() > RECORD_BYTES - RECORD_GROWTH {
            return Err(Unkept::TooLarge);
        }
        let (session, lease) = (inner.session_key(&hold.name), inner.lease_key());
        let life = inner.life.as_millis().to_string();
        let args = [inner.tag.as_bytes(), b"1", &sealed, life.as_bytes()];
        match inner.store.run(script::OPEN, &[session.as_bytes(), lease.as_bytes()], &args).await? {
            Reply::Number(1) => Ok(hold),
            _ => Err(Away(NO_LEASE.into()).into()),
        }
    }

    /// Looks for a session that is not here; nothing: there is none.
    pub async fn look(&self, place: &str, id: &str) -> Result<Option<Found>, Away> {
        let inner = &self.0;
        let name = inner.keys.name(place, id);
        if let Some(owner) = inner.owners.fresh(&name) {
            return Ok(Some(Found::elsewhere(name, owner, Duration::ZERO)));
        }
        if inner.unknown.has(&name) {
            return Ok(None);
        }
        let found = match inner.look(&name).await {
            Ok(found) => found,
            // Its owner knows best whether it still is.
            Err(away) => {
                let last = inner.owners.last(&name).ok_or(away)?;
                return Ok(Some(Found::elsewhere(name, last, Duration::ZERO)));
            }
        };
        if let Some(Found { name, address, owner, principal, step: Step::Forward(_), .. }) = &found {
            let owner = Owner { tag: owner.clone(), address: address.clone(), principal: principal.clone() };
            inner.owners.saw(name, owner);
        }
        if found.is_none() {
            // No session begins under an id that was drawn before.
            inner.unknown.add(inner.keys.name(place, id));
        }
        Ok(found)
    }

    /// Who was believed to own it does not answer.
    pub fn doubt(&self, found: &Found) {
        self.0.owners.forget(&found.name);
    }

    /// Has the owner of a session lost it, for all that the store knows?
    pub async fn has_left(&self, trace: &Trace) -> bool {
        match self.0.look(&trace.name).await {
            Ok(Some(now)) => now.owner != trace.owner || matches!(now.step, Step::Take(_)),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// Takes a session over that was found so; nothing: somebody else was faster, or its owner is back.
    pub async fn take(&self, found: &Found) -> Result<Option<(Hold, Record)>, Unkept> {
        let inner = &self.0;
        let epoch = inner.held()?;
        let (Step::Take(fence), Some((seen, record))) = (found.step, &found.kept) else { return Ok(None) };
        let hold = Hold { name: found.name.clone(), fence, turn: 0, epoch };
        let sealed = inner.sealed(&hold, record)?;
        let (session, lease) = (inner.session_key(&hold.name), inner.lease_key());
        let (leases, number) = (inner.prefix_of_leases(), fence.to_string());
        let life = inner.life.as_millis().to_string();
        let args =
            [leases.as_bytes(), seen, inner.tag.as_bytes(), number.as_bytes(), &sealed, life.as_bytes()];
        match inner.store.run(script::TAKE, &[session.as_bytes(), lease.as_bytes()], &args).await? {
            Reply::Number(1) => {
                Tally::add(&inner.tally.takeovers);
                Ok(Some((hold, record.clone())))
            }
            Reply::Number(0) => Ok(None),
            _ => Err(Away(NO_LEASE.into()).into()),
        }
    }

    /// Writes down what has become of a session; nothing: that it lives on.
    pub async fn write(&self, hold: &Hold, record: Option<&Record>) -> Result<Still, Unkept> {
        let inner = &self.0;
        let sealed = record.map(|record| inner.sealed(hold, record)).transpose()?.unwrap_or_default();
        let (session, fence) = (inner.session_key(&hold.name), hold.fence.to_string());
        let life = inner.life.as_millis().to_string();
        let turn = hold.turn.to_string();
        let args = [inner.tag.as_bytes(), fence.as_bytes(), &sealed, life.as_bytes(), turn.as_bytes()];
        let said = inner.store.run(script::WRITE, &[session.as_bytes()], &args).await?;
        Ok(inner.still(&said))
    }

    /// Ends a session for all.
    pub async fn end(&self, hold: &Hold) -> Result<Still, Away> {
        let inner = &self.0;
        let (session, fence) = (inner.session_key(&hold.name), hold.fence.to_string());
        let args = [inner.tag.as_bytes(), fence.as_bytes()];
        let said = inner.store.run(script::DROP, &[session.as_bytes()], &args).await?;
        Ok(inner.still(&said))
    }

    /// What a request that is forwarded shows.
    #[must_use]
    pub fn pass(&self, errand: Errand<'_>, body: &[u8], principal: Option<&str>) -> Option<HeaderValue> {
        let text = pass::write(errand, body, principal, &self.0.keys)?;
        HeaderValue::try_from(text).ok()
    }

    /// What a forwarded request shows; nothing: no replica has forwarded it to us, or it was shown before.
    #[must_use]
    pub fn admits(&self, pass: &HeaderValue, errand: Errand<'_>) -> Option<Pass> {
        let pass = pass::read(pass.to_str().ok()?, errand, &self.0.keys)?;
        self.0.shown.add(pass.nonce.clone()).then_some(pass)
    }

    /// This process among all that ever were, as errands name it.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.0.tag
    }

    /// Brings a request to the replica at `address`.
    pub fn carry(&self, address: &str, request: Request<Bytes>) -> Carrying {
        Tally::add(&self.0.tally.forwards);
        self.0.carry.carry(address, request)
    }

    /// Begins what is to be done before the lease is given up.
    pub fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        lock(&self.0.last).push(tokio::spawn(work));
    }

    /// Gives all sessions up, so that others need not wait to take them over.
    pub async fn release(&self) {
        let inner = &self.0;
        let last = std::mem::take(&mut *lock(&inner.last));
        // The lease may be over before all is done, and then nothing of it is ours to do.
        let _ = tokio::time::timeout(self.term(), async {
            for work in last {
                let _ = work.await;
            }
        })
        .await;
        if let Some(keeper) = inner.keeper.get() {
            keeper.abort();
        }
        lock(&inner.lease).release();
        inner.tell();
        // Where the store is away, the lease is over by itself.
        let _ = inner.store.run_alone(script::RELEASE, &[inner.lease_key().as_bytes()], &[]).await;
    }
}

const NO_LEASE: &str = "the lease of this replica is being renewed";

impl Found {
    /// What is kept of it while its owner answers.
    #[must_use]
    pub fn trace(&self) -> Trace {
        Trace { name: self.name.clone(), owner: self.owner.clone() }
    }

    fn elsewhere(name: String, owner: Owner, left: Duration) -> Self {
        let Owner { tag, address, principal } = owner;
        Self { principal, address, owner: tag, step: Step::Forward(left), kept: None, name }
    }
}

impl Inner {
    /// Renews the lease. When to do it again.
    async fn beat(&self) -> Duration {
        let (beat, term) = {
            let mut lease = lock(&self.lease);
            (lease.beat(self.now()), lease.term())
        };
        let (mark, term) = (beat.mark.to_string(), term.as_millis().to_string());
        let key = self.lease_key();
        let args = [mark.as_bytes(), term.as_bytes()];
        let said = self.store.run_alone(script::BEAT, &[key.as_bytes()], &args).await;
        let mut lease = lock(&self.lease);
        let pause = match said {
            Ok(said) => {
                let before = match said {
                    Reply::Bytes(mark) => std::str::from_utf8(&mark).ok().and_then(|mark| mark.parse().ok()),
                    _ => None,
                };
                lease.confirmed(beat, before);
                lease.pause()
            }
            // Sooner: others are told nothing but that they have to wait.
            Err(_) => lease.pause().min(BEAT_RETRY),
        };
        let left = lease.until().map(|until| until.since(self.now())).filter(|left| !left.is_zero());
        drop(lease);
        self.tell();
        pause.min(left.unwrap_or(pause))
    }

    /// Lets everyone know how the lease stands.
    fn tell(&self) {
        let lease = lock(&self.lease);
        let until =
            lease.until().map_or(0, |until| u64::try_from(until.elapsed().as_millis()).unwrap_or(u64::MAX));
        // The epoch first: who sees that the lease is held sees in which one.
        self.epoch.store(lease.epoch(), Ordering::SeqCst);
        self.until.store(until, Ordering::SeqCst);
        let standing = Standing { epoch: lease.epoch(), held: lease.holds(self.now()) };
        drop(lease);
        self.standing.send_if_modified(|told| std::mem::replace(told, standing) != standing);
    }

    fn holds(&self) -> bool {
        u128::from(self.until.load(Ordering::SeqCst)) > self.begun.elapsed().as_millis()
    }

    /// In which epoch the lease is held.
    fn held(&self) -> Result<u64, Away> {
        // The epoch first: if another begins in between, what is made now is looked up in that one.
        let epoch = self.epoch.load(Ordering::SeqCst);
        if self.holds() {
            return Ok(epoch);
        }
        Err(self.store.trouble().unwrap_or_else(|| Away(NO_LEASE.into())))
    }

    fn now(&self) -> Moment {
        Moment::after(self.begun.elapsed())
    }

    fn sealed(&self, hold: &Hold, record: &Record) -> Result<Vec<u8>, Unkept> {
        let owned = Owned {
            owner: self.tag.clone(),
            address: self.address.clone(),
            fence: hold.fence,
            record: record.clone(),
        };
        owned.seal(&hold.name, &self.keys).ok_or(Unkept::TooLarge)
    }

    async fn look(&self, name: &str) -> Result<Option<Found>, Away> {
        let (key, leases) = (self.session_key(name), self.prefix_of_leases());
        let most = VALUE_BYTES.to_string();
        let args = [leases.as_bytes(), most.as_bytes()];
        let said = self.store.run(script::LOOK, &[key.as_bytes()], &args).await?;
        Ok(self.understand(name.to_owned(), said))
    }

    /// What the store has in the place of a session.
    fn understand(&self, name: String, said: Reply) -> Option<Found> {
        let said = match said {
            Reply::List(said) => said,
            Reply::Nothing => return None,
            _ => Vec::new(),
        };
        let [Reply::Bytes(owner), Reply::Bytes(fence), Reply::Bytes(sealed), Reply::Number(left)] = &said[..]
        else {
            Tally::add(&self.tally.unreadable);
            return None;
        };
        let owned = Owned::open(sealed, &name, &self.keys).ok();
        // Who owns it is said twice, and must be the same.
        let same =
            |owned: &Owned| owned.owner.as_bytes() == owner && owned.fence.to_string().as_bytes() == fence;
        let Some(owned) = owned.filter(same) else {
            Tally::add(&self.tally.unreadable);
            return None;
        };
        let left = u64::try_from(*left).ok().map(Duration::from_millis);
        let step = step(&owned.owner, &self.tag, owned.fence, left);
        let Owned { owner, address, record, .. } = owned;
        Some(Found {
            principal: record.principal.clone(),
            address,
            owner,
            step,
            kept: Some((sealed.clone(), record)),
            name,
        })
    }

    fn still(&self, said: &Reply) -> Still {
        if *said == Reply::Number(1) {
            return Still::Ours;
        }
        Tally::add(&self.tally.stale);
        Still::Lost
    }

    fn session_key(&self, name: &str) -> String {
        format!("{}:session:{name}", self.prefix)
    }

    fn prefix_of_leases(&self) -> String {
        format!("{}:replica:", self.prefix)
    }

    fn lease_key(&self) -> String {
        self.prefix_of_leases() + &self.tag
    }
}

/// Keeps the lease for as long as somebody has the replica.
async fn keep(inner: Weak<Inner>, mut pause: Duration) {
    loop {
        tokio::time::sleep(pause).await;
        let Some(inner) = inner.upgrade() else { return };
        // It may be over by now.
        inner.tell();
        pause = inner.beat().await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.abort();
        }
    }
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas")
            .field("store", self.store())
            .field("address", &self.0.address)
            .finish_non_exhaustive()
    }
}
