//! What all who use a kept connection share: the link there is, how things stand, and what is to outlive links.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cardan_proto::finding::Finding;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::logging::SetLevelParams;
use cardan_proto::moment::Moment;
use cardan_proto::session::event::{
    CallOptions, Cause, Change, Delivery, Event, Interest, LogLevel, Outcome, Refusal,
};
use cardan_proto::session::state::State;
use cardan_proto::upkeep::condition::{Condition, Transition};
use cardan_proto::upkeep::policy::{Policy, Unconnected};
use cardan_proto::upkeep::{Input, LinkNumber, Output, Upkeep};
use cardan_runtime::peer::{Beside, Peer};
use cardan_runtime::witness::Report;
use tokio::sync::watch;
use tokio::time::Instant;

use super::bell::Bell;
use super::board::{Board, Watcher};
use super::catalog::Catalog;
use super::ear::Ear;
use super::overhear::Overhearers;
use super::resend::KeptCall;
use crate::cache::Cache;
use crate::connect::{Logs, Observer};
use crate::error::{CallError, Settled};

/// The shared part of a kept connection.
pub(crate) struct Kept {
    /// Looked at by every call, so it has a lock of its own.
    current: Mutex<Current>,
    /// Calls that are on their way.
    flying: AtomicUsize,
    /// Someone waits for the last of them.
    draining: AtomicBool,
    /// A call was given up that the peer may still work on.
    at_work: AtomicBool,
    upkeep: Mutex<Work>,
    present: watch::Sender<Present>,
    catalog: Mutex<Catalog>,
    standing: Mutex<Standing>,
    transitions: Arc<Board<Transition>>,
    notes: Arc<Board<Event>>,
    logs: Logs,
    pub(super) overhearers: Overhearers,
    findings: Arc<Board<Finding>>,
    pub(super) keeper: Arc<Bell>,
    pub(super) cache: Arc<Cache>,
    /// Looked at when something is wrong, or there is no link.
    policy: Mutex<Policy>,
    pub(super) limits: Limits,
    observer: Option<Observer>,
    start: Instant,
}

#[derive(Debug, Default)]
struct Current {
    live: Option<(Peer, LinkNumber)>,
    /// Whose last words may still be of interest.
    last: Option<Peer>,
    /// What the newest session settled on, and on which link: that may be a later one than the link began with.
    greeted: Option<(LinkNumber, Settled)>,
    /// The session of the live link was replaced, and the keeper has not looked after it yet.
    renewed: Option<Renewed>,
}

/// A new session on the link there was.
#[derive(Debug)]
pub(super) struct Renewed {
    pub(super) link: LinkNumber,
    /// Lists to look at again.
    pub(super) lists: Vec<Method>,
}

/// The machine, and what it wants that the keeper has not done yet.
#[derive(Debug)]
struct Work {
    upkeep: Upkeep,
    to_do: VecDeque<Output>,
}

/// What is to be in force on every link.
#[derive(Debug, Default)]
struct Standing {
    level: Option<LogLevel>,
    ears: Vec<Arc<Ear>>,
}

/// How things stand, for who waits.
#[derive(Debug, Clone)]
pub(super) struct Present {
    pub(super) condition: Condition,
    pub(super) closing: bool,
    /// Why there was no link last.
    cause: Option<Cause>,
    pub(super) settled: Option<Settled>,
    /// Counts sessions, whichever link they came by.
    pub(super) sessions: u64,
    /// Counts answered probes: a link that was doubted is good.
    trust: u64,
}

impl Present {
    /// There is another session.
    fn began(&mut self, settled: Settled) {
        (self.settled, self.sessions) = (Some(settled), self.sessions + 1);
    }
}

/// How a call left the link it was on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doubt {
    link: LinkNumber,
    trust: u64,
}

impl Kept {
    pub(super) fn new(
        policy: Policy,
        limits: &Limits,
        cache: Arc<Cache>,
        observer: Option<Observer>,
        logs: Logs,
        seed: u64,
    ) -> Self {
        let upkeep = Upkeep::new(policy, seed);
        let condition = upkeep.condition();
        let present =
            Present { condition, closing: false, cause: None, settled: None, sessions: 0, trust: 0 };
        Self {
            current: Mutex::default(),
            flying: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            at_work: AtomicBool::new(false),
            upkeep: Mutex::new(Work { upkeep, to_do: VecDeque::new() }),
            present: watch::Sender::new(present),
            catalog: Mutex::new(Catalog::new(limits.tools_remembered)),
            standing: Mutex::default(),
            transitions: Board::new(limits.notes_queued, limits.notes_bytes),
            notes: Board::new(limits.notes_queued, limits.notes_bytes),
            logs,
            overhearers: Overhearers::default(),
            findings: Board::new(limits.findings, limits.notes_bytes),
            keeper: Arc::new(Bell::default()),
            cache,
            policy: Mutex::new(policy),
            limits: limits.clone(),
            observer,
            start: Instant::now(),
        }
    }

    /// Makes a call over the link there is, or over the next one.
    pub(crate) fn call(
        kept: &Arc<Self>,
        method: Method,
        params: Option<Bytes>,
        options: CallOptions,
        beside: Beside,
    ) -> KeptCall {
        KeptCall::new(Arc::clone(kept), method, params, options, beside)
    }

    /// A call is on its way over a link.
    pub(super) fn took_off(&self) {
        self.flying.fetch_add(1, Ordering::SeqCst);
    }

    /// A call has its outcome, or nobody wants it any more.
    pub(super) fn landed(&self) {
        if self.flying.fetch_sub(1, Ordering::SeqCst) == 1 && self.draining.load(Ordering::SeqCst) {
            self.keeper.ring();
        }
    }

    /// From now on the keeper hears of the last call in progress.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Is a call on its way?
    pub(super) fn is_busy(&self) -> bool {
        self.flying.load(Ordering::SeqCst) > 0
    }

    /// The link there is.
    pub(crate) fn current(&self) -> Option<(Peer, LinkNumber)> {
        lock(&self.current).live.clone()
    }

    /// There is a link. Whoever waits for one sees it together with the condition, never before: a close
    /// in between would meet a link that upkeep does not know of.
    pub(super) fn opened(&self, peer: Peer, link: LinkNumber, settled: Settled) {
        let mut work = lock(&self.upkeep);
        let live = (!work.upkeep.is_closing()).then(|| (peer.clone(), link));
        let settled = {
            let mut current = lock(&self.current);
            (current.live, current.last, current.renewed) = (live, Some(peer), None);
            // A session that was replaced before anyone could use it is not what there is.
            current.greeted.take_if(|(greeted, _)| *greeted == link).map_or(settled, |(_, settled)| settled)
        };
        self.present.send_modify(|present| present.began(settled));
        self.step(&mut work, Input::Opened { link });
    }

    /// A session opened. One that replaces another on a live link is a new server as far as anyone knows: what
    /// the old one listed is marked at once, so that whoever lists next compares.
    fn greeted(&self, link: LinkNumber, settled: Settled) {
        // As in `opened`, so that either sees what the other did.
        let _work = lock(&self.upkeep);
        let mut current = lock(&self.current);
        if current.live.as_ref().is_none_or(|(_, live)| *live != link) {
            current.greeted = Some((link, settled));
            return;
        }
        current.renewed = Some(Renewed { link, lists: self.reconnected() });
        drop(current);
        self.present.send_modify(|present| present.began(settled));
        self.keeper.ring();
    }

    /// The session that replaced another since the last time someone looked.
    pub(super) fn take_renewed(&self) -> Option<Renewed> {
        lock(&self.current).renewed.take()
    }

    pub(crate) fn report(&self) -> Report {
        let last = lock(&self.current).last.clone();
        last.map(|peer| peer.report()).unwrap_or_default()
    }

    /// How the connection is kept right now.
    pub(super) fn policy(&self) -> Policy {
        *lock(&self.policy)
    }

    /// Keeps it otherwise from now on.
    pub(super) fn adopt(&self, policy: Policy) {
        *lock(&self.policy) = policy;
        self.feed(Input::Policy(policy));
        // Whoever waits for a link may not want to any more.
        self.present.send_modify(|_| {});
    }

    /// Takes in what happened, tells whoever watches, and leaves the rest to the keeper.
    pub(super) fn feed(&self, input: Input) {
        self.step(&mut lock(&self.upkeep), input);
    }

    fn step(&self, work: &mut Work, input: Input) {
        let now = self.now();
        let answered = matches!(input, Input::Probed { trouble: None, .. });
        let mut transitions = Vec::new();
        work.upkeep.handle(now, input);
        while let Some(output) = work.upkeep.poll() {
            match output {
                Output::Transition(transition) => {
                    self.take_in(&transition);
                    transitions.push(transition);
                }
                other => work.to_do.push_back(other),
            }
        }
        let (condition, closing) = (work.upkeep.condition(), work.upkeep.is_closing());
        self.present.send_if_modified(|present| {
            let news = answered || present.condition != condition || present.closing != closing;
            present.trust += u64::from(answered);
            (present.condition, present.closing) = (condition, closing);
            news
        });
        // Who is told of a transition and looks finds things as they were told.
        for transition in transitions {
            self.transitions.put(transition, 0);
        }
        self.keeper.ring();
    }

    fn take_in(&self, transition: &Transition) {
        // A new handshake on the same link is worth waiting for there, and so is the probe of a server that refused
        // it as one of the other era.
        let opens = matches!(transition.to, Condition::Session(State::Initializing | State::Probing));
        if !opens && !transition.to.is_up() {
            lock(&self.current).live = None;
        }
        if let Some(cause) = &transition.cause {
            self.present.send_modify(|present| present.cause = Some(cause.clone()));
        }
    }

    /// What the keeper is to do.
    pub(super) fn take_to_do(&self) -> Option<Output> {
        lock(&self.upkeep).to_do.pop_front()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        lock(&self.upkeep).upkeep.deadline().map(|deadline| self.start + deadline.elapsed())
    }

    fn now(&self) -> Moment {
        Moment::after(self.start.elapsed())
    }

    /// What one link tells beside the outcomes of calls.
    pub(super) fn observe(&self, link: LinkNumber, event: &Event) {
        match event {
            Event::State(change) => {
                self.feed(Input::Session { link, state: change.to, cause: change.cause.clone() });
            }
            Event::Opened { revision, greeting } => {
                self.greeted(link, Settled { revision: *revision, greeting: greeting.clone() });
            }
            Event::Logged { .. } => {
                self.overhearers.tell(event);
                if self.logs == Logs::Kept {
                    self.notes.put(event.clone(), weight(event));
                }
            }
            Event::Changed { .. } | Event::Noted(_) => self.notes.put(event.clone(), weight(event)),
            Event::Found(finding) => {
                self.findings.put(finding.clone(), finding.detail.len() + finding.bytes.len());
            }
            Event::Doubted => self.feed(Input::Doubted { link }),
            _ => {}
        }
    }

    pub(super) fn present(&self) -> watch::Receiver<Present> {
        self.present.subscribe()
    }

    pub(super) fn transitions(&self) -> Watcher<Transition> {
        self.transitions.watch()
    }

    pub(super) fn notes(&self) -> Watcher<Event> {
        self.notes.watch()
    }

    pub(super) fn findings(&self) -> Watcher<Finding> {
        self.findings.watch_on()
    }

    /// A call did not end well on a link that may be in order all the same: someone looks after it.
    pub(super) fn doubt(&self, link: LinkNumber) -> Doubt {
        let trust = self.present.borrow().trust;
        self.feed(Input::Doubted { link });
        Doubt { link, trust }
    }

    /// The same for whatever link there is, by someone who saw a failure elsewhere.
    pub(super) fn doubt_current(&self) {
        if let Some((_, link)) = self.current() {
            self.feed(Input::Doubted { link });
        }
    }

    /// The same for a call that timed out: the peer may work on it still, and is given as long as one that does.
    pub(super) fn doubt_at_work(&self, link: LinkNumber) {
        self.left_at_work();
        self.doubt(link);
    }

    /// The peer may work on something that nobody waits for any more.
    pub(super) fn left_at_work(&self) {
        self.at_work.store(true, Ordering::SeqCst);
    }

    /// May the peer be at work? What timed out or was given up counts for one probe.
    pub(super) fn may_be_at_work(&self) -> bool {
        self.at_work.swap(false, Ordering::SeqCst) || self.is_busy()
    }

    /// A link that is good for a call: another than the doubted one, or that one once the doubt is settled.
    /// Nothing: there will not be one soon, and this is why.
    pub(super) async fn link(&self, doubt: Option<Doubt>) -> Result<(Peer, LinkNumber), Option<Cause>> {
        let mut present = self.present();
        loop {
            let trust = {
                let present = present.borrow_and_update();
                let hopeless = matches!(present.condition, Condition::Suspended { .. }) || present.closing;
                let absent = !present.condition.is_up() && self.policy().unconnected == Unconnected::Fail;
                if hopeless || absent {
                    return Err(present.cause.clone());
                }
                present.trust
            };
            if let Some((peer, link)) = self.current()
                && doubt.is_none_or(|doubt| doubt.link != link || doubt.trust != trust)
            {
                return Ok((peer, link));
            }
            if present.changed().await.is_err() {
                return Err(None);
            }
        }
    }

    /// What the session settled on, once there is one.
    pub(super) async fn reachable(&self) -> Result<Settled, Option<Cause>> {
        let mut present = self.present();
        loop {
            {
                let present = present.borrow_and_update();
                match (&present.settled, present.condition) {
                    (Some(settled), condition) if condition.is_up() => return Ok(settled.clone()),
                    (_, Condition::Suspended { .. }) => return Err(present.cause.clone()),
                    _ if present.closing => return Err(present.cause.clone()),
                    _ => {}
                }
            }
            if present.changed().await.is_err() {
                return Err(None);
            }
        }
    }

    /// Why there was no link last.
    pub(super) fn last_cause(&self) -> Option<Cause> {
        self.present.borrow().cause.clone()
    }

    pub(super) fn standing(&self) -> (Condition, Option<Cause>) {
        let present = self.present.borrow();
        (present.condition, present.cause.clone())
    }

    /// What the session settled on, once there is one, within the usual time of a call.
    pub(crate) async fn session(&self) -> Result<Settled, CallError> {
        let idle = self.limits.call_idle_timeout;
        let waited = if idle.is_zero() {
            Some(self.link(None).await)
        } else {
            tokio::time::timeout(idle, self.link(None)).await.ok()
        };
        let cause = match waited {
            Some(Ok(_)) => None,
            Some(Err(cause)) => cause,
            None => self.last_cause().or(Some(Cause::OpenTimeout)),
        };
        let settled = self.present.borrow().settled.clone();
        match (cause, settled) {
            (None, Some(settled)) => Ok(settled),
            (cause, _) => Err(unconnected(cause, || self.report())),
        }
    }

    pub(crate) fn listen(&self, interest: Interest) -> Arc<Ear> {
        let ear = Arc::new(Ear::new(interest, self.limits.notes_queued, Arc::clone(&self.keeper)));
        // Under the lock: who comes after the last look of the keeper sees that it is over.
        let mut standing = lock(&self.standing);
        if self.present.borrow().closing {
            ear.end(lost(None));
        } else {
            standing.ears.push(Arc::clone(&ear));
            self.keeper.ring();
        }
        ear
    }

    /// All that listen. Those that were left are forgotten.
    pub(super) fn ears(&self) -> Vec<Arc<Ear>> {
        let mut standing = lock(&self.standing);
        standing.ears.retain(|ear| !ear.is_over());
        standing.ears.clone()
    }

    pub(crate) fn set_level(&self, level: LogLevel) {
        // Under the lock, so that of two levels the later one is told last.
        let mut standing = lock(&self.standing);
        standing.level = Some(level);
        if let Some((peer, _)) = self.current() {
            peer.set_level(level);
        }
    }

    /// A server took this level, as a call said. Links to come are told it.
    pub(super) fn took_level(&self, params: Option<&Bytes>) {
        if let Some(level) = SetLevelParams::level_in(params.map(AsRef::as_ref)) {
            lock(&self.standing).level = Some(level);
        }
    }

    /// Tells a link the level, unless it was told that one before. Returns what it is told by now.
    pub(super) fn level_to(&self, peer: &Peer, told: Option<LogLevel>) -> Option<LogLevel> {
        let standing = lock(&self.standing);
        if let Some(level) = standing.level.filter(|level| Some(*level) != told) {
            peer.set_level(level);
        }
        standing.level
    }

    /// A list was fetched. If it is not what it was before the last reconnect, that is told like a note of
    /// the server's.
    pub(crate) fn learn(&self, method: &Method, params: Option<&Bytes>, result: &[u8]) {
        let change = lock(&self.catalog).learn(method, params.map(AsRef::as_ref), result);
        if let Some(change) = change {
            self.announce(change);
        }
    }

    fn announce(&self, change: Change) {
        self.cache.changed(&change);
        for ear in self.ears() {
            ear.told(&change);
        }
        let event = Event::Changed { tickets: Vec::new(), change };
        if let Some(observer) = &self.observer {
            observer(&event);
        }
        self.notes.put(event, 0);
    }

    /// There is a new session: which lists to look at again.
    pub(super) fn reconnected(&self) -> Vec<Method> {
        self.cache.clear();
        lock(&self.catalog).reconnected()
    }

    pub(super) fn is_repeatable(&self, method: &Method, params: Option<&Bytes>) -> bool {
        match method {
            Method::ToolsCall => lock(&self.catalog).is_repeatable(params.map(AsRef::as_ref)),
            method => method.is_safe_to_repeat(),
        }
    }

    /// Nobody keeps the connection any more: whoever waits is told.
    pub(super) fn over(&self) {
        lock(&self.current).live = None;
        self.present.send_modify(|present| {
            present.closing = true;
            present.condition = Condition::CLOSED;
        });
        for ear in self.ears() {
            ear.end(lost(None));
        }
        self.transitions.end();
        self.notes.end();
        self.findings.end();
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("condition", &self.present.borrow().condition).finish_non_exhaustive()
    }
}

/// What it takes to keep a note, beside itself.
fn weight(event: &Event) -> usize {
    match event {
        Event::Logged { params } => params.len(),
        Event::Noted(note) => note.params.raw().map_or(0, Bytes::len),
        Event::Changed { change: Change::Resource(updated), .. } => updated.params().len(),
        Event::Changed { change: Change::Task { state, .. }, .. } => state.len(),
        _ => 0,
    }
}

/// The outcome of what was not sent for want of a link.
pub(super) fn lost(cause: Option<Cause>) -> Outcome {
    match cause {
        Some(cause) => Outcome::Lost { cause, delivery: Delivery::NotSent },
        None => Outcome::Refused(Refusal::NotOpen),
    }
}

/// The same, as an error.
pub(super) fn unconnected(cause: Option<Cause>, report: impl FnOnce() -> Report) -> CallError {
    match cause {
        Some(cause) => CallError::Lost { cause, delivery: Delivery::NotSent, report: report() },
        None => CallError::Refused(Refusal::NotOpen),
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
