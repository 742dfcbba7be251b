//! The listens of modern clients: lists are followed here, resources where they are.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::session::event::{Answer, Called, Change, Interest};
use cardan_runtime::cx::CallCx;
use cardan_runtime::service::Host as _;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::House;
use super::desk::Station;
use super::view::Purpose;
use crate::fleet::{Health, Upstream, lock};
use crate::relay::Ear;

/// How long a server may take to acknowledge. What stands later is not promised, but told all the same.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who is told what a listen brings, once it is told what stands.
struct Listener {
    cx: CallCx,
    /// What changed before that; none: it was told.
    before: Mutex<Option<Vec<Change>>>,
}

impl Listener {
    /// Something changed.
    fn change(&self, change: Change) {
        match &mut *lock(&self.before) {
            Some(before) => {
                // Of what stands for one thing the last counts, so there are no more than things that are listened to.
                let same = |other: &Change| match (other, &change) {
                    (Change::Task { id: one, .. }, Change::Task { id: two, .. }) => one == two,
                    (Change::Resource(one), Change::Resource(two)) => **one == **two,
                    (one, two) => one == two,
                };
                before.retain(|other| !same(other));
                before.push(change);
            }
            None => self.cx.change(change),
        }
    }

    /// Tells what stands, and then what has changed meanwhile.
    fn listening(&self, honoured: Interest) {
        self.cx.listening(honoured);
        // Under the lock, so that what comes now comes after.
        let mut before = lock(&self.before);
        for change in before.take().into_iter().flatten() {
            self.cx.change(change);
        }
    }
}

/// One server's part of a listen.
#[derive(Clone)]
struct Part {
    station: Arc<Station>,
    upstream: Arc<str>,
    listener: Arc<Listener>,
    /// Told what stands, once. None: it stood before or came too late, so what stands now may have missed something.
    stands: Arc<Mutex<Option<mpsc::Sender<Interest>>>>,
}

impl Ear for Part {
    fn listening(&self, interest: Interest) {
        let first = lock(&self.stands).take();
        match first.map(|stands| stands.try_send(interest.clone())) {
            Some(Ok(())) => {}
            // What may have changed until now is told, as nobody told it.
            _ => interest.uris.into_iter().for_each(|uri| self.change(Change::Resource(uri.into()))),
        }
    }

    fn change(&self, change: Change) {
        // What was allowed when the listen began need not be now.
        if self.station.hears(&self.upstream, &change) {
            self.listener.change(change);
        }
    }
}

/// Listens for as long as the client wants.
pub(super) async fn listen(station: &Arc<Station>, cx: CallCx, called: Called) -> Result<Answer, Fault> {
    let wanted = Interest::asked_by(&called.call.params)?;
    let front = &station.front;
    front.settled().await;
    for uri in &wanted.uris {
        // One that cannot be reached is listened to when it is there.
        let _ = station.sought_at(uri).await;
    }
    // From here on nothing is missed.
    let (mut changes, mut apart) = (front.changes(), front.house.kin.changes());
    let mut parts: Vec<(Arc<Upstream>, Interest)> = Vec::new();
    for uri in &wanted.uris {
        if let Some((upstream, _)) = station.view().having(uri, Purpose::Listen).into_iter().next() {
            part_of(&mut parts, upstream).uris.push(uri.clone());
        }
    }
    for task in &wanted.tasks {
        if let Some(upstream) = front.with_task(task) {
            part_of(&mut parts, upstream).tasks.push(task.clone());
        }
    }
    let mut honoured = Interest {
        tools: wanted.tools,
        prompts: wanted.prompts,
        resources: wanted.resources,
        ..Interest::default()
    };
    let listener = Arc::new(Listener { cx, before: Mutex::new(Some(Vec::new())) });
    let (stands, mut standing) = mpsc::channel(parts.len().max(1));
    let mut ears = JoinSet::new();
    for (upstream, interest) in parts {
        let stands = Arc::new(Mutex::new(Some(stands.clone())));
        let (listener, station) = (Arc::clone(&listener), Arc::clone(station));
        let part = Part { station, upstream: upstream.name().into(), listener, stands };
        ears.spawn(hear(upstream, called.capabilities.clone(), interest, part));
    }
    drop(stands);
    let until = Instant::now() + PATIENCE;
    // Ends when all stand or have failed.
    while let Ok(Some(stands)) = timeout_at(until, standing.recv()).await {
        honoured.uris.extend(stands.uris);
        honoured.tasks.extend(stands.tasks);
    }
    listener.listening(honoured.clone());
    loop {
        let change = tokio::select! {
            change = changes.recv() => change.map(Some),
            told = apart.recv() => told.map(|told| station.is_told(&told).then_some(told.change)),
            Some(_) = ears.join_next() => continue,
        };
        let changed: &[Change] = match &change {
            Ok(change) => change.as_slice(),
            // Which were missed is not known, so all are told.
            Err(RecvError::Lagged(_)) => &[Change::Tools, Change::Prompts, Change::Resources],
            Err(RecvError::Closed) => return Ok(Answer::Done(Bytes::from_static(b"{}"))),
        };
        for change in changed.iter().filter(|change| honoured.covers(change)) {
            listener.change(change.clone());
        }
    }
}

/// What is listened to at one server.
fn part_of(parts: &mut Vec<(Arc<Upstream>, Interest)>, upstream: Arc<Upstream>) -> &mut Interest {
    let at = parts.iter().position(|(there, _)| Arc::ptr_eq(there, &upstream)).unwrap_or_else(|| {
        parts.push((upstream, Interest::default()));
        parts.len() - 1
    });
    &mut parts[at].1
}

/// Listens at one server, for as long as there is one of its name. One that is away is listened to when it is there: until
/// then what it has is not promised. What may have changed in between is told.
async fn hear(upstream: Arc<Upstream>, capabilities: Bytes, interest: Interest, part: Part) {
    let station = &part.station;
    let House { fleet, relays, .. } = &*station.front.house;
    let (name, mut news) = (Arc::clone(&part.upstream), fleet.news());
    drop(upstream);
    while let Some(upstream) = fleet.upstream(&name) {
        let before = standing(&upstream);
        let mut ended = Ended::Failed;
        if let Ok(reached) = relays.reach(&upstream).await {
            let side = reached.relay.service(station.principal());
            tokio::select! {
                end = side.listen(&capabilities, interest.clone(), part.clone()) => {
                    ended = if end.is_ok() { Ended::Stood } else { Ended::Failed };
                }
                () = upstream.left() => {}
            }
        }
        // Whoever waits for it to stand does not wait for the next time.
        drop(lock(&part.stands).take());
        drop(upstream);
        loop {
            if news.changed().await.is_err() {
                return;
            }
            // What failed fails again while the server is the same, whatever happens to others.
            let same = |upstream: Arc<Upstream>| standing(&upstream) == before;
            if ended == Ended::Stood || !fleet.upstream(&name).is_some_and(same) {
                break;
            }
        }
    }
}

/// How a listen at one server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// It had stood: it is listened to again.
    Stood,
    /// It never stood.
    Failed,
}

/// What makes it worth listening to a server again: which it is, which link, and how that stands.
fn standing(upstream: &Arc<Upstream>) -> (usize, u32, Health) {
    let status = upstream.status();
    (Arc::as_ptr(upstream).addr(), status.restarts, status.health)
}
