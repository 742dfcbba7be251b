//! What is offered to clients by the sessions that they share with legacy servers: to modern ones, and to legacy ones where it
//! is said that sessions are shared.
//!
//! Their calls do not go by the connection by which the fleet lists, since by that one nobody can be asked. A session that comes
//! to offer something else than others, once a group of tools was asked for, say, offers it to whoever shares it: they see
//! it, and are told. Nobody else does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use cardan_client::Managed;
use cardan_proto::era::Era;
use cardan_proto::session::event::Change;
use tokio::sync::{broadcast, watch};

use super::gated::Gated;
use super::own::fitted;
use super::stale::{Fetches, Stale, Turn};
use super::view::{Known, View};
use crate::catalog::{Catalog, Kind, List, fetch};
use crate::fleet::{Upstream, lock};
use crate::pin::Pins;
use crate::relay::{Askable, Isolation, OnTurn, Sharers, Shelf, Turned};

/// How long a list that is being fetched is waited for: what is known of it is old.
const FETCHING: Duration = Duration::from_secs(2);

/// Changes that a listen has not told yet; one that is slower is told of all lists.
const CHANGES: usize = 64;

/// What is offered in sessions that are shared, where that is something of their own.
pub(crate) struct Kin {
    sessions: Mutex<Vec<Session>>,
    changes: broadcast::Sender<Told>,
    /// Somebody has fetched what was to be fetched.
    fetched: watch::Sender<()>,
    fetches: Fetches,
    /// Counts the relays that are listened to: each takes the place of those of its server before it.
    relays: AtomicU64,
}

/// A client, as far as it matters with whom it shares what.
#[derive(Debug, Clone)]
pub(super) struct One {
    pub(super) era: Era,
    pub(super) principal: Option<Arc<str>>,
    pub(super) askable: Askable,
}

impl One {
    /// Is it one of these, who share sessions with a server?
    fn is_among(&self, sharers: &Sharers, upstream: &Upstream) -> bool {
        let isolation = upstream.isolation();
        let shares = self.era == Era::Modern || isolation != Isolation::Client;
        shares && sharers.have(isolation, self.principal.as_ref(), self.askable)
    }
}

/// A list that is another for some.
#[derive(Debug, Clone)]
pub(super) struct Told {
    upstream: Arc<Upstream>,
    sharers: Sharers,
    pub(super) change: Change,
}

impl Told {
    pub(super) fn server(&self) -> &str {
        self.upstream.name()
    }

    /// Is it this client's business?
    pub(super) fn concerns(&self, one: &One) -> bool {
        one.is_among(&self.sharers, &self.upstream)
    }
}

/// What some are offered by the session that they share with a server.
struct Session {
    upstream: Weak<Upstream>,
    /// Who share it, and by which lines.
    at: At,
    lists: Arc<Lists>,
    stale: Stale,
}

/// The lines of a relay, as those share them who were told something by them last.
#[derive(Debug, Clone)]
struct At {
    relay: u64,
    shelf: Shelf,
}

/// The lists that were told of.
type Lists = BTreeMap<Kind, List>;

impl Session {
    fn is(&self, upstream: &Arc<Upstream>, sharers: &Sharers) -> bool {
        self.upstream.as_ptr() == Arc::as_ptr(upstream) && self.at.shelf.sharers == *sharers
    }

    /// Its server, if its session is shared by this client.
    fn shared_by(&self, one: &One) -> Option<Arc<Upstream>> {
        let upstream = self.upstream.upgrade()?;
        one.is_among(&self.at.shelf.sharers, &upstream).then_some(upstream)
    }
}

impl Kin {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            sessions: Mutex::default(),
            changes: broadcast::Sender::new(CHANGES),
            fetched: watch::Sender::default(),
            fetches: Fetches::default(),
            relays: AtomicU64::new(0),
        })
    }

    /// Is there nothing that anybody is offered apart? So it is nearly always.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.sessions).is_empty()
    }

    /// What some are told from now on.
    pub(super) fn changes(&self) -> broadcast::Receiver<Told> {
        self.changes.subscribe()
    }

    /// Listens to what becomes of the sessions with a server, of one relay from now on.
    pub(super) fn listening_to(self: &Arc<Self>, upstream: &Arc<Upstream>) -> OnTurn {
        let (kin, upstream) = (Arc::downgrade(self), Arc::downgrade(upstream));
        let relay = self.relays.fetch_add(1, Relaxed);
        Arc::new(move |shelf, turned| {
            if let (Some(kin), Some(upstream)) = (kin.upgrade(), upstream.upgrade()) {
                kin.turned(&upstream, At { relay, shelf: shelf.clone() }, &turned);
            }
        })
    }

    fn turned(self: &Arc<Self>, upstream: &Arc<Upstream>, at: At, turned: &Turned) {
        // What a modern server offers is the same in every session.
        if upstream.catalog().is_none_or(|catalog| catalog.revision.era() == Era::Modern) {
            return;
        }
        // No legacy server has skills.
        let all = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Skills);
        let touched = |kind: &Kind| match turned {
            Turned::Changed(change) => kind.touched_by(change),
            Turned::Gone => true,
        };
        if !all.clone().any(|kind| touched(&kind)) {
            return;
        }
        let sharers = at.shelf.sharers.clone();
        let mut sessions = lock(&self.sessions);
        let turn = match sessions.iter_mut().find(|session| session.is(upstream, &sharers)) {
            // Lines that are being left: others have come in their place.
            Some(session) if at.relay < session.at.relay => return,
            Some(session) => {
                let same = at.relay == session.at.relay;
                session.at = at;
                // What was offered by the lines before went with them.
                session.stale.touch(all.filter(|kind| !same || touched(kind)))
            }
            // It offered what all do.
            None if *turned == Turned::Gone => return,
            None => {
                sessions.retain(|session| session.upstream.strong_count() > 0);
                let (lists, mut stale) = (Arc::default(), Stale::default());
                let turn = stale.touch(all.filter(touched));
                sessions.push(Session { upstream: Arc::downgrade(upstream), at, lists, stale });
                turn
            }
        };
        drop(sessions);
        if turn == Turn::Ours {
            self.fetches.spawn(refresh(Arc::downgrade(self), Arc::downgrade(upstream), sharers));
        }
    }

    /// What is to be fetched next of a session and where, by whoever fetches; nothing: the next who says so fetches.
    fn next(&self, upstream: &Arc<Upstream>, sharers: &Sharers) -> Option<(Kind, At)> {
        let mut sessions = lock(&self.sessions);
        let at = sessions.iter().position(|session| session.is(upstream, sharers))?;
        let next = sessions[at].stale.next().map(|kind| (kind, sessions[at].at.clone()));
        if next.is_none() {
            if sessions[at].lists.is_empty() {
                sessions.swap_remove(at);
            }
            self.fetched.send_replace(());
        }
        next
    }

    /// A list of a session is this one; none: the same as for all. What comes by lines that were left meanwhile counts no more.
    fn put(&self, upstream: &Arc<Upstream>, at: &At, kind: Kind, list: Option<List>) {
        let sharers = &at.shelf.sharers;
        let mut sessions = lock(&self.sessions);
        let mut own = sessions.iter_mut().filter(|session| session.is(upstream, sharers));
        let Some(session) = own.find(|session| session.at.relay == at.relay) else { return };
        let (Some(all), lists) = (upstream.catalog(), Arc::make_mut(&mut session.lists)) else { return };
        let common = all.list(kind);
        let before = lists.get(&kind).unwrap_or(common).entries.clone();
        let own = list.filter(|list| list.entries != common.entries);
        let differs = own.as_ref().unwrap_or(common).entries != before;
        match own {
            Some(own) => drop(lists.insert(kind, own)),
            None => drop(lists.remove(&kind)),
        }
        drop(sessions);
        if differs {
            self.tell(upstream, sharers, kind.change());
        }
    }

    fn tell(&self, upstream: &Arc<Upstream>, sharers: &Sharers, change: Change) {
        // Nobody listening is fine.
        let _ = self.changes.send(Told { upstream: Arc::clone(upstream), sharers: sharers.clone(), change });
    }

    /// What is held back is looked at again, so it may be others.
    pub(super) fn repinned(&self) {
        let sessions = lock(&self.sessions);
        let all: Vec<_> = sessions
            .iter()
            .filter_map(|session| Some((session.upstream.upgrade()?, session.at.shelf.sharers.clone())))
            .collect();
        drop(sessions);
        for (upstream, sharers) in all {
            self.tell(&upstream, &sharers, Change::Tools);
        }
    }

    /// Waits until nothing that this client is to be offered is being fetched; not for long.
    pub(super) async fn caught_up(&self, one: &One) {
        let mut fetched = self.fetched.subscribe();
        let idle = || {
            let sessions = lock(&self.sessions);
            let mut shared = sessions.iter().filter(|session| session.shared_by(one).is_some());
            shared.all(|session| session.stale.is_idle())
        };
        let waiting = async { while !idle() && fetched.changed().await.is_ok() {} };
        // What does not come in time is told of when it does.
        let _ = tokio::time::timeout(FETCHING, waiting).await;
    }

    /// What this client is offered by its sessions alone.
    fn offered_to(&self, one: &One) -> Vec<(Arc<Upstream>, Arc<Lists>)> {
        let sessions = lock(&self.sessions);
        let own = sessions.iter().filter(|session| !session.lists.is_empty());
        own.filter_map(|session| Some((session.shared_by(one)?, Arc::clone(&session.lists)))).collect()
    }
}

/// Fetches what is not what it was, until all is.
async fn refresh(kin: Weak<Kin>, upstream: Weak<Upstream>, sharers: Sharers) {
    loop {
        let (Some(here), Some(server)) = (kin.upgrade(), upstream.upgrade()) else { return };
        let Some((kind, at)) = here.next(&server, &sharers) else { return };
        drop((here, server));
        let list = match standing(&at.shelf).await {
            Some(line) => match fetch(&line, kind).await {
                Ok(list) => Some(list),
                // What does not come stays as it was; the next change brings it.
                Err(_) if line.condition().is_up() => continue,
                Err(_) => None,
            },
            // Who comes next has a session that has told nothing yet.
            None => None,
        };
        let (Some(here), Some(server)) = (kin.upgrade(), upstream.upgrade()) else { return };
        here.put(&server, &at, kind, list);
    }
}

/// The line that they share, if it stands.
async fn standing(shelf: &Shelf) -> Option<Managed> {
    let line = shelf.line()?;
    line.ready(FETCHING).await.ok()?;
    Some(line)
}

/// What those are offered, made once for all who are offered the same.
#[derive(Default)]
pub(super) struct Fitted(Mutex<Vec<Made>>);

struct Made {
    of: Arc<View>,
    lists: Vec<Weak<Lists>>,
    view: Arc<View>,
    gated: Arc<Gated>,
}

impl Fitted {
    /// What a client is offered where all are offered `common`, and what is left of it by policy; nothing: the same.
    pub(super) fn view(
        &self,
        common: &Arc<View>,
        (kin, one): (&Kin, &One),
        pins: Option<&Pins>,
    ) -> Option<(Arc<View>, Arc<Gated>)> {
        let mut own = kin.offered_to(one);
        own.retain(|(upstream, _)| common.known.iter().any(|known| Arc::ptr_eq(&known.upstream, upstream)));
        if own.is_empty() {
            return None;
        }
        let mut made = lock(&self.0);
        made.retain(|made| {
            Arc::ptr_eq(&made.of, common) && made.lists.iter().all(|lists| lists.strong_count() > 0)
        });
        let same = |made: &&Made| {
            made.lists.len() == own.len()
                && made.lists.iter().zip(&own).all(|(made, (_, own))| made.as_ptr() == Arc::as_ptr(own))
        };
        if let Some(made) = made.iter().find(same) {
            return Some((Arc::clone(&made.view), Arc::clone(&made.gated)));
        }
        let view = Arc::new(fitted(common, pins, |known| catalog(known, &own)));
        let (lists, gated) = (own.iter().map(|(_, lists)| Arc::downgrade(lists)).collect(), Arc::default());
        made.push(Made { of: Arc::clone(common), lists, view: Arc::clone(&view), gated: Arc::clone(&gated) });
        Some((view, gated))
    }

    /// What is held back is looked at again.
    pub(super) fn repin(&self) {
        lock(&self.0).clear();
    }
}

/// What a server offers with these lists.
fn catalog(known: &Known, own: &[(Arc<Upstream>, Arc<Lists>)]) -> Option<Arc<Catalog>> {
    let (_, lists) = own.iter().find(|(upstream, _)| Arc::ptr_eq(upstream, &known.upstream))?;
    let mut catalog = (*known.catalog).clone();
    for (kind, list) in &**lists {
        *catalog.list_mut(*kind) = list.clone();
    }
    Some(Arc::new(catalog))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

    use cardan_client::{Client, way};
    use cardan_proto::era::Revisions;
    use cardan_proto::limits::Limits;
    use cardan_proto::upkeep::policy::Policy;
    use cardan_runtime::memory;
    use cardan_server::Server;

    use super::*;
    use crate::fleet::{Fleet, Making, Options, Spec};

    /// A legacy server with one tool.
    async fn one() -> Fleet {
        let server =
            Server::builder("one", "1").revisions(Revisions::LEGACY).tool("who", "is it", async || "one");
        let server = server.build();
        let way = way(move || {
            let (ours, theirs) = memory::pair(&Limits::DEFAULT);
            let server = server.clone();
            tokio::spawn(async move { server.serve(theirs).await });
            std::future::ready(Ok::<_, std::convert::Infallible>(ours))
        });
        let making = Making { connector: Client::builder("x", "1"), way, policy: Policy::CHILD };
        let fleet = Fleet::start(vec![Spec::new("one", "http", "digest", making)], Options::default());
        fleet.settle(Duration::from_secs(30)).await;
        fleet
    }

    /// What is offered is what the relay's lines offer that came last. What becomes of those before it, which are being left, touches
    /// nothing; all that they offered is gone.
    #[tokio::test]
    async fn what_becomes_of_lines_that_are_left_touches_nothing() {
        let fleet = one().await;
        let (upstream, kin) = (fleet.upstream("one").unwrap(), Kin::new());
        let (old, new) = (kin.listening_to(&upstream), kin.listening_to(&upstream));
        let shelf = Shelf::empty(Askable::of(b"{}"));
        let offers = |relay| {
            let at = At { relay, shelf: shelf.clone() };
            kin.put(&upstream, &at, Kind::Tools, Some(List::default()));
        };
        // From here on nothing is awaited, so nobody else fetches.
        let fetched = || -> Vec<(Kind, u64)> {
            let next = || kin.next(&upstream, &shelf.sharers).map(|(kind, at)| (kind, at.relay));
            std::iter::from_fn(next).collect()
        };
        let all = |relay| -> Vec<_> {
            Kind::ALL.into_iter().filter(|kind| *kind != Kind::Skills).map(|kind| (kind, relay)).collect()
        };
        old(&shelf, Turned::Changed(Change::Tools));
        offers(0);
        assert_eq!(fetched(), [(Kind::Tools, 0)]);
        new(&shelf, Turned::Changed(Change::Prompts));
        offers(0);
        offers(1);
        assert_eq!(fetched(), all(1));
        for late in [Turned::Gone, Turned::Changed(Change::Tools)] {
            old(&shelf, late);
            assert_eq!(fetched(), []);
        }
        new(&shelf, Turned::Gone);
        assert_eq!(fetched(), all(1));
    }
}
