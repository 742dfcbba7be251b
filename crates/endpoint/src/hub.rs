//! A legacy session that has no task of its own.
//!
//! Whoever brings a message drives the session in place, under its lock, and most calls are answered before
//! that returns. When a handler that had to wait wakes up, whoever waits for a reply drives it; only where nobody
//! does is a task started, to drive the session once. So an idle session costs memory and nothing else.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::era::{Revision, gates};
use cardan_proto::jsonrpc::envelope::Decoded;
use cardan_proto::session::event::LaneId;
use cardan_proto::session::replay::EventId;
use cardan_runtime::driver::Driver;
use cardan_runtime::peer::Peer;
use cardan_runtime::service::{Host, Service};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::body;
use crate::lanes::{First, Forgotten, Form, Lanes, Next, TooMany};
use crate::pulse::{Pulse, beat};
use crate::shelf::Shelf;

/// A legacy session.
pub(crate) struct Hub<S: Service> {
    inner: Mutex<Inner<S>>,
    turn: AtomicU8,
    /// Who waits for the reply to come by this lane, and drives the session when there is something to do.
    waiting: Mutex<Option<(LaneId, Waker)>>,
    waker: Waker,
    runtime: Handle,
    principal: Option<Arc<str>>,
    keep_alive: Duration,
    opened: Instant,
    /// In which epoch of the replica's lease the session is known to be its own; where none is shared, nobody asks.
    owned: AtomicU64,
}

struct Inner<S: Service> {
    driver: Driver<Lanes, S>,
    phase: Phase,
    used: Instant,
    /// When its client last said something, or left a lane.
    seen: Instant,
    told: Told,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Lanes may still have something to read.
    Ended,
}

/// Has the client gone on after the handshake?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    No,
    Yes,
}

/// How long a session may be left alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Without any work.
    pub(crate) idle: Duration,
    /// With calls that nobody reads.
    pub(crate) unread: Duration,
    /// Before its client goes on after the handshake.
    pub(crate) unopened: Duration,
}

/// The session has ended.
#[derive(Debug)]
pub(crate) struct Over;

/// Why a message was not taken.
#[derive(Debug)]
pub(crate) enum NotTaken {
    Over,
    TooMany,
}

impl From<TooMany> for NotTaken {
    fn from(_: TooMany) -> Self {
        Self::TooMany
    }
}

const IDLE: u8 = 0;
const DRIVING: u8 = 1;
/// Woken while it was driven: drive again.
const AGAIN: u8 = 2;
/// Someone who waits will drive it, or a task.
const SCHEDULED: u8 = 3;

/// How often it is driven again before others come in between.
const ROUNDS: u32 = 8;

impl<S: Service> Hub<S> {
    /// A session that has not been opened yet, and the handle to tell it of changes.
    pub(crate) fn new<H: Host<Service = S>>(
        host: &H,
        principal: Option<Arc<str>>,
        shelf: &Arc<Shelf>,
    ) -> (Arc<Self>, Peer) {
        let config = host.config(principal.as_ref());
        let lanes = Lanes::new(&config.limits, shelf);
        let (driver, peer) = Driver::new(lanes, host.service(principal.as_ref()), Arc::clone(&config));
        let now = Instant::now();
        let hub = Arc::new_cyclic(|hub: &Weak<Self>| Self {
            inner: Mutex::new(Inner { driver, phase: Phase::Running, used: now, seen: now, told: Told::No }),
            turn: AtomicU8::new(IDLE),
            waiting: Mutex::default(),
            waker: Waker::from(Arc::new(Bell(Weak::clone(hub)))),
            runtime: Handle::current(),
            principal,
            keep_alive: config.limits.keep_alive_interval,
            opened: now,
            owned: AtomicU64::new(0),
        });
        (hub, peer)
    }

    /// Is the session known to be this replica's own in this epoch of its lease?
    pub(crate) fn is_owned_in(&self, epoch: u64) -> bool {
        self.owned.load(Ordering::SeqCst) == epoch
    }

    /// So it is. An answer that came late says nothing of a later epoch.
    pub(crate) fn own(&self, epoch: u64) {
        self.owned.fetch_max(epoch, Ordering::SeqCst);
    }

    /// Does the session belong to this principal?
    pub(crate) fn belongs_to(&self, principal: Option<&Arc<str>>) -> bool {
        self.principal.as_ref() == principal
    }

    /// The negotiated revision, once there is one.
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.lock().driver.session().revision()
    }

    /// Takes a note or a reply.
    pub(crate) fn tell(self: &Arc<Self>, decoded: Decoded) -> Result<(), Over> {
        let mut inner = self.running().ok_or(Over)?;
        inner.driver.link_mut().arrive(decoded);
        self.drive(&mut inner);
        Ok(())
    }

    /// Takes a message that wants a reply, in this form.
    pub(crate) fn post(self: &Arc<Self>, decoded: Decoded, form: Form) -> Result<Posted<S>, NotTaken> {
        let mut inner = self.running().ok_or(NotTaken::Over)?;
        let (lane, reader) = inner.driver.link_mut().arrive_on_lane(decoded, form)?;
        self.drive(&mut inner);
        drop(inner);
        Ok(Posted(Reading { hub: Arc::clone(self), lane, reader }))
    }

    /// Opens the push lane, or resumes a lane that was cut off.
    pub(crate) fn read(
        self: &Arc<Self>,
        last: Option<EventId>,
    ) -> Result<Result<Events<S>, Forgotten>, Over> {
        let mut inner = self.running().ok_or(Over)?;
        inner.used = Instant::now();
        let primed = primes(&inner);
        let lanes = inner.driver.link_mut();
        let (lane, reader) = match last.map(|last| lanes.resume(last)) {
            Some(Ok(resumed)) => resumed,
            // Notes that nobody kept are lost, but the lane goes on.
            Some(Err(_)) if last.is_some_and(|last| last.lane == LaneId::MAIN) => {
                (LaneId::MAIN, lanes.open_push())
            }
            Some(Err(forgotten)) => return Ok(Err(forgotten)),
            None => (LaneId::MAIN, lanes.open_push()),
        };
        let opening = if primed && last.is_none() { lanes.prime_push() } else { Bytes::new() };
        drop(inner);
        Ok(Ok(Events::new(Reading { hub: Arc::clone(self), lane, reader }, opening)))
    }

    /// Ends the session at once: what runs is given up.
    pub(crate) fn end(&self, reason: &'static str) {
        let mut inner = self.lock();
        inner.phase = Phase::Ended;
        inner.driver.abandon(reason);
    }

    /// Whoever listens outside of calls is cut off.
    pub(crate) fn hang_up(&self) {
        self.lock().driver.link_mut().hang_up();
    }

    /// Why the session is over: it has ended, or nothing has happened for too long, or nobody was there to whom it could have.
    /// A reader of events that is gone without a word is found out by signs of life, which are written to it.
    pub(crate) fn over(&self, patience: Patience) -> Option<&'static str> {
        let inner = self.lock();
        let link = inner.driver.link();
        let busy = inner.driver.session().in_flight() != (0, 0) || link.is_busy();
        match (inner.phase, inner.told) {
            (Phase::Ended, _) => Some("the session has ended"),
            (Phase::Running, _) if link.is_read() => None,
            (Phase::Running, _) if busy => (inner.seen.elapsed() >= patience.unread)
                .then_some("the client left its calls and did not come back for too long"),
            (Phase::Running, Told::No) => (self.opened.elapsed() >= patience.unopened)
                .then_some("the client did not go on after the handshake"),
            (Phase::Running, Told::Yes) => (inner.used.elapsed() >= patience.idle)
                .then_some("the client did not use the session for too long"),
        }
    }

    /// Lanes of calls that are not read to their end.
    pub(crate) fn lanes(&self) -> usize {
        self.lock().driver.link().open_lanes()
    }

    /// The client has gone on after the handshake.
    pub(crate) fn heard_of(&self) {
        self.lock().told = Told::Yes;
    }

    /// The session, unless it has ended, for its client. Whoever drives it has used it.
    fn running(&self) -> Option<MutexGuard<'_, Inner<S>>> {
        let mut inner = self.lock();
        inner.seen = Instant::now();
        (inner.phase == Phase::Running).then_some(inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drives the session as far as it goes. Where there is ever more to do, others come in between: readers wait for the
    /// lock, and take what was put for them.
    fn drive(self: &Arc<Self>, inner: &mut Inner<S>) {
        let mut cx = Context::from_waker(&self.waker);
        for round in 0.. {
            if inner.phase != Phase::Running {
                break;
            }
            if round >= ROUNDS {
                self.turn.store(SCHEDULED, Ordering::SeqCst);
                self.hand_on();
                break;
            }
            self.turn.store(DRIVING, Ordering::SeqCst);
            if Pin::new(&mut inner.driver).poll(&mut cx).is_ready() {
                inner.phase = Phase::Ended;
            }
            let rest = self.turn.compare_exchange(DRIVING, IDLE, Ordering::SeqCst, Ordering::SeqCst);
            if rest.is_ok() {
                break;
            }
        }
        inner.used = Instant::now();
    }

    /// Something that was waited for has happened.
    fn woken(self: &Arc<Self>) {
        loop {
            let turn = self.turn.load(Ordering::SeqCst);
            let next = match turn {
                IDLE => SCHEDULED,
                DRIVING => AGAIN,
                _ => return,
            };
            if self.turn.compare_exchange(turn, next, Ordering::SeqCst, Ordering::SeqCst).is_err() {
                continue;
            }
            if next == SCHEDULED {
                self.hand_on();
            }
            return;
        }
    }

    /// The session is to be driven, by someone else.
    fn hand_on(self: &Arc<Self>) {
        let waiting = self.waiting().take();
        match waiting {
            Some((_, waker)) => waker.wake(),
            None => {
                let hub = Arc::clone(self);
                // It never waits, so nobody needs to wait for it.
                self.runtime.spawn(async move {
                    let mut inner = hub.lock();
                    hub.drive(&mut inner);
                });
            }
        }
    }

    /// Whoever waits for this lane drives the session no longer.
    fn relieve(self: &Arc<Self>, lane: LaneId) {
        self.waiting().take_if(|(waiting, _)| *waiting == lane);
        // It may have been woken for that, and have left before it could.
        if self.turn.load(Ordering::SeqCst) == SCHEDULED {
            self.hand_on();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<(LaneId, Waker)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn primes<S: Service>(inner: &Inner<S>) -> bool {
    inner.driver.session().revision().is_some_and(|revision| gates(revision).priming_event)
}

/// What a session's handlers and timers wake. It does not keep the session alive.
struct Bell<S: Service>(Weak<Hub<S>>);

impl<S: Service> Wake for Bell<S> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(hub) = self.0.upgrade() {
            hub.woken();
        }
    }
}

/// One reader of one lane. Dropping it leaves the lane.
struct Reading<S: Service> {
    hub: Arc<Hub<S>>,
    lane: LaneId,
    reader: u32,
}

impl<S: Service> Drop for Reading<S> {
    fn drop(&mut self) {
        let mut inner = self.hub.lock();
        let now = Instant::now();
        (inner.used, inner.seen) = (now, now);
        inner.driver.link_mut().leave(self.lane, self.reader);
        drop(inner);
        self.hub.relieve(self.lane);
    }
}

/// A POST whose reply is to come.
pub(crate) struct Posted<S: Service>(Reading<S>);

impl<S: Service> Posted<S> {
    /// The first thing that there is to say.
    pub(crate) fn poll_first(&self, cx: &Context<'_>) -> Poll<First> {
        let Reading { hub, lane, .. } = &self.0;
        let mut inner = hub.lock();
        if hub.turn.load(Ordering::SeqCst) == SCHEDULED {
            inner.driver.link_mut().hush(*lane);
            hub.drive(&mut inner);
        }
        let first = inner.driver.link_mut().poll_first(*lane, cx);
        drop(inner);
        if first.is_pending() {
            // Under no lock: whoever finds nobody here starts a task.
            *hub.waiting() = Some((*lane, cx.waker().clone()));
        }
        first
    }

    /// Says it, and what follows, as events.
    pub(crate) fn into_events(self) -> Events<S> {
        // A client that does not read its stream would have the session wait.
        self.0.hub.relieve(self.0.lane);
        let opening = {
            let mut inner = self.0.hub.lock();
            let primed = primes(&inner);
            inner.driver.link_mut().become_events(self.0.lane, primed)
        };
        Events::new(self.0, opening)
    }
}

/// The body of a stream of a legacy session.
pub(crate) struct Events<S: Service> {
    reading: Reading<S>,
    opening: Bytes,
    pulse: Pulse,
}

impl<S: Service> Events<S> {
    fn new(reading: Reading<S>, opening: Bytes) -> Self {
        // Something must be sent, or some servers in front of us keep the head of the response back.
        let opening = if opening.is_empty() { beat() } else { opening };
        let pulse = Pulse::new(reading.hub.keep_alive);
        Self { reading, opening, pulse }
    }
}

impl<S: Service> body::Lane for Events<S> {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.opening.is_empty() {
            return Poll::Ready(Some(std::mem::take(&mut self.opening)));
        }
        let Reading { hub, lane, reader } = &self.reading;
        let next = hub.lock().driver.link_mut().poll_events(*lane, *reader, cx);
        match next {
            Poll::Ready(Next::Bytes(bytes)) => {
                self.pulse.sent();
                Poll::Ready(Some(bytes))
            }
            Poll::Ready(Next::End) => Poll::Ready(None),
            Poll::Pending => self.pulse.poll(cx).map(|()| Some(beat())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

    use cardan_proto::finding::Strictness;
    use cardan_proto::jsonrpc::envelope::decode;
    use cardan_proto::limits::Limits;
    use cardan_proto::session::config::{Config, Role};
    use cardan_proto::session::event::{Answer, Called};
    use cardan_runtime::cx::CallCx;
    use cardan_runtime::service::Handler;
    use tokio::sync::{Notify, Semaphore};

    use super::*;

    /// Answers each call when it may.
    struct Gate {
        config: Arc<Config>,
        open: Arc<Semaphore>,
        answered: Arc<Notify>,
    }

    struct Gated(Arc<Semaphore>, Arc<Notify>);

    impl Host for Gate {
        type Service = Gated;

        fn config(&self, _principal: Option<&Arc<str>>) -> Arc<Config> {
            Arc::clone(&self.config)
        }

        fn service(&self, _principal: Option<&Arc<str>>) -> Arc<Gated> {
            Arc::new(Gated(Arc::clone(&self.open), Arc::clone(&self.answered)))
        }

        fn joined(&self, _peer: Peer, _principal: Option<&Arc<str>>) {}
    }

    impl Service for Gated {
        fn call(&self, _cx: CallCx, _called: Called) -> Handler<Answer> {
            let (open, answered) = (Arc::clone(&self.0), Arc::clone(&self.1));
            Box::pin(async move {
                open.acquire().await.unwrap().forget();
                answered.notify_one();
                Answer::Bare(Bytes::from_static(b"{}"))
            })
        }
    }

    fn message(text: &str) -> Decoded {
        decode(&Bytes::copy_from_slice(text.as_bytes()), Strictness::Lenient, &Limits::DEFAULT)
    }

    struct Woken(Notify);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.notify_one();
        }
    }

    /// Who waited and was woken to drive the session may be gone before it can: then someone else does.
    #[tokio::test]
    async fn a_session_is_driven_although_who_waited_has_left() {
        let capabilities = Bytes::from_static(br#"{"tools":{}}"#);
        let identity = Bytes::from_static(br#"{"name":"t","version":"1"}"#);
        let config = Arc::new(Config::new(Role::Server, identity, capabilities));
        let (open, answered) = (Arc::new(Semaphore::new(0)), Arc::<Notify>::default());
        let host = Gate { config, open: Arc::clone(&open), answered: Arc::clone(&answered) };
        let shelf = Arc::new(Shelf::new(&Limits::DEFAULT));
        let (hub, _peer) = Hub::new(&host, None, &shelf);
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"DATE","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
        let hello = hello.replace("DATE", Revision::LATEST_LEGACY.date());
        drop(hub.post(message(&hello), Form::Undecided).unwrap());
        hub.tell(message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).unwrap();
        let call = |id: u8| {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#);
            hub.post(message(&text), Form::Undecided).unwrap()
        };
        let woken = Arc::new(Woken(Notify::new()));
        let waker = Waker::from(Arc::clone(&woken));
        let cx = Context::from_waker(&waker);
        // The one that comes last is the one to be woken.
        let (stays, leaves) = (call(1), call(2));
        assert!(stays.poll_first(&cx).is_pending());
        assert!(leaves.poll_first(&cx).is_pending());
        open.add_permits(1);
        woken.0.notified().await;
        assert_eq!(hub.turn.load(Ordering::SeqCst), SCHEDULED);
        drop(leaves);
        answered.notified().await;
        let reply = std::future::poll_fn(|cx| stays.poll_first(cx)).await;
        assert!(matches!(reply, First::Reply(_)));
    }
}
