//! The loop: one task, one session, one link.
//!
//! Each turn takes what our side wants, polls handlers that were woken, reads what arrived, lets the
//! session decide, and writes. Reading never waits for writing nor the other way round, so two peers
//! that both send a lot cannot block each other.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::fast::FastMap;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::moment::Moment;
use cardan_proto::session::Session;
use cardan_proto::session::config::{Config, Role};
use cardan_proto::session::event::{
    Answer, Ask, AskKey, CallKey, Called, Cause, Command, Delivery, Event, Input, Outcome, Output, Refusal,
    Ticket, Turn,
};

use crate::clock::Clock;
use crate::cx::{AskCx, CallCx};
use crate::inbox::{Inbox, Theirs, Wish};
use crate::link::{Link, Received};
use crate::peer::{CallSlot, Happening, Peer, gone};
use crate::service::{Service, observe};
use crate::tasks::{Polled, Tasks};

/// Pumps one session over one link. Poll it to the end: it returns why the link ended.
#[must_use = "a driver does nothing unless polled"]
pub struct Driver<L, S> {
    link: L,
    service: Arc<S>,
    session: Session,
    config: Arc<Config>,
    inbox: Arc<Inbox>,
    wishes: VecDeque<Wish>,
    slots: FastMap<Ticket, (Arc<CallSlot>, Awaited)>,
    /// How many of them wait for a reply.
    callers: usize,
    handlers: Tasks<CallKey, Answer>,
    asks: Tasks<AskKey, Result<Bytes, Fault>>,
    clock: Clock,
    reading: Reading,
    stalled_since: Option<Moment>,
    /// Writing has failed, when and how. Reading may still bring replies, or a better reason.
    broken: Option<(Moment, Cause)>,
    /// Bytes of calls that the session has taken and the link has not yet.
    admitted_bytes: usize,
    /// Notes dropped because the peer did not keep up.
    dropped_notes: u64,
    gathering: Gathering,
    phase: Phase,
}

/// Whether there is more to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    Ended,
}

/// What the owner of a slot waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Reply,
    /// A listen lasts: who waits for it calls nobody meanwhile.
    News,
}

/// Whether what several callers want is written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gathering {
    Never,
    /// Where others wait for replies, whoever else is about to call may do so first.
    Able,
    /// They had their turn.
    Gathered,
}

/// Where the driver is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Running,
    /// The link is ending; it may know better why.
    Ending(Cause),
    /// Everyone was told; the link is being torn down.
    Closing(Cause),
}

/// Frames taken in one turn before writing and handlers get theirs.
const FRAMES_PER_TURN: usize = 64;

/// What waits to be written before a turn stops to write it.
const FLUSH_BYTES: usize = 16 << 10;

/// With as many calls in progress, another caller is likely to come soon.
const CALLERS: usize = 2;

/// Turns that happen at one moment when each leads to the next at once.
const TURNS_PER_LOOK: u32 = 8;

/// Turns before others that run here get theirs: whoever hands in more and more must not have it all for themselves.
const TURNS_PER_POLL: u32 = 64;

/// Room that is kept for what our side wants.
const USUAL_WISHES: usize = 1024;

/// How long reading goes on after writing has failed.
const BROKEN_GRACE: Duration = Duration::from_millis(100);

impl<L: Link, S: Service> Driver<L, S> {
    /// A driver and the handle to reach its peer through.
    pub fn new(link: L, service: Arc<S>, config: Arc<Config>) -> (Self, Peer) {
        let most = config.limits.calls_outbound + config.limits.notes_queued;
        let inbox = Arc::new(Inbox::new(most, config.limits.outbox_bytes, link.witness()));
        let peer = Peer::new(Arc::clone(&inbox));
        let mut session = Session::new(Arc::clone(&config), Moment::ZERO);
        session.carried_by(link.abilities());
        session.handle(Moment::ZERO, Input::Local(Command::Open));
        let driver = Self {
            link,
            service,
            session,
            config,
            inbox,
            wishes: VecDeque::new(),
            slots: FastMap::default(),
            callers: 0,
            handlers: Tasks::new(),
            asks: Tasks::new(),
            clock: Clock::start(),
            reading: Reading::Open,
            stalled_since: None,
            broken: None,
            admitted_bytes: 0,
            dropped_notes: 0,
            gathering: Gathering::Never,
            phase: Phase::Running,
        };
        (driver, peer)
    }

    /// Writes what several callers want at a time, where there are several. For a driver that is a task of its own:
    /// it steps back once behind the others that are ready to run. A lone caller waits for nobody.
    pub fn gathering(mut self) -> Self {
        self.gathering = Gathering::Able;
        self
    }

    /// Is it better to let others go first?
    fn steps_back(&mut self) -> bool {
        match self.gathering {
            Gathering::Able if self.callers >= CALLERS && self.inbox.is_waiting() => {
                self.gathering = Gathering::Gathered;
                true
            }
            Gathering::Gathered => {
                self.gathering = Gathering::Able;
                false
            }
            Gathering::Never | Gathering::Able => false,
        }
    }

    /// The session, for who wants to look at it.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The link, for who wants to look at it.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// Ends the link at once, for who polls the driver in place: every caller gets its outcome, the peer's too, every
    /// handler is dropped. The driver is not to be polled again.
    pub fn abandon(&mut self, reason: &'static str) {
        // Where the link would wait for something, nobody waits with it.
        let mut cx = Context::from_waker(std::task::Waker::noop());
        self.local(Command::Abandon { reason: reason.into() });
        self.obey(&mut cx);
        self.end(Cause::ClosedByUs(reason.into()));
        let _ = self.finish(&mut cx);
    }

    /// The link, for who polls the driver in place and hands frames in and out itself.
    pub fn link_mut(&mut self) -> &mut L {
        &mut self.link
    }

    /// Notes that were dropped: the peer did not take our bytes, or they came too fast.
    pub fn dropped_notes(&self) -> u64 {
        self.dropped_notes + self.inbox.dropped() + self.session.dropped_logs()
    }

    fn handle(&mut self, input: Input) {
        self.session.handle(self.clock.now(), input);
    }

    fn local(&mut self, command: Command) {
        self.handle(Input::Local(command));
    }

    /// What our side wants.
    fn take_wishes(&mut self, cx: &Context<'_>) -> bool {
        let mut wishes = std::mem::take(&mut self.wishes);
        self.inbox.take(&mut wishes, cx);
        let any = !wishes.is_empty();
        while let Some(wish) = wishes.pop_front() {
            match wish {
                Wish::Command(command) => self.local(command),
                Wish::End(cause) => self.end(cause),
                Wish::Call(..) if self.phase != Phase::Running => refuse(wish, gone()),
                Wish::Call(..) if self.backlog_bytes() >= self.config.limits.outbox_bytes => {
                    refuse(wish, Outcome::Refused(Refusal::Backlog));
                }
                Wish::Call(command, ticket, slot) => {
                    let mut awaited = Awaited::News;
                    let call = match &command {
                        Command::Call(call) => Some(call),
                        Command::CallBeside(beside) => Some(&beside.0),
                        _ => None,
                    };
                    if let Some(call) = call {
                        self.admitted_bytes += call.params.as_ref().map_or(0, Bytes::len);
                        self.callers += 1;
                        awaited = Awaited::Reply;
                    }
                    self.slots.insert(ticket, (slot, awaited));
                    self.local(command);
                }
            }
        }
        // What a burst took is given back.
        wishes.shrink_to(USUAL_WISHES);
        self.wishes = wishes;
        any
    }

    /// What waits to be written, counting what the session will put there in this turn.
    fn backlog_bytes(&self) -> usize {
        self.link.queued() + self.admitted_bytes
    }

    /// Handlers that were woken.
    fn poll_handlers(&mut self, cx: &Context<'_>) -> bool {
        let mut answers = Vec::new();
        self.handlers.poll(cx, |key, polled| answers.push((key, polled)));
        let mut replies = Vec::new();
        self.asks.poll(cx, |ask, polled| replies.push((ask, polled)));
        let any = !answers.is_empty() || !replies.is_empty();
        if any {
            // What a handler told in its last step goes out before its answer does.
            self.take_wishes(cx);
        }
        for (key, polled) in answers {
            self.local(Command::Answer { key, answer: answer_of(polled) });
        }
        for (ask, polled) in replies {
            self.local(Command::AnswerAsk { ask, outcome: outcome_of(polled) });
        }
        any
    }

    /// What arrived. Stops after a share of frames so that handlers and writing get their turn.
    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        for taken in 0..FRAMES_PER_TURN {
            if self.reading == Reading::Ended || self.phase != Phase::Running {
                return taken > 0;
            }
            // Write in between, so that both sides work at the same time. Whether or not the peer
            // takes it, go on reading: the reply it waits for may be what we are about to read.
            if self.link.queued() >= FLUSH_BYTES {
                self.write(cx);
            }
            let Poll::Ready(received) = self.link.poll_recv(cx) else { return taken > 0 };
            match received {
                Received::Frame { lane, bytes } => self.handle(Input::Frame { lane, bytes }),
                Received::Read { lane, decoded } => self.handle(Input::Read { lane, decoded }),
                Received::Broken { lane, violation, excerpt } => {
                    self.handle(Input::Broken { lane, violation, excerpt });
                }
                Received::Failed { id, cause, delivery } => {
                    self.handle(Input::Failed { id, cause, delivery });
                }
                Received::Noticed { rule, detail } => self.handle(Input::Noticed { rule, detail }),
                Received::Doubted { .. } => self.handle(Input::Doubted),
                Received::ReadClosed => {
                    self.reading = Reading::Ended;
                    match self.config.role {
                        // What runs is still answered.
                        Role::Server => self.handle(Input::ReadClosed),
                        // Nothing will be answered any more; the link may know why.
                        Role::Client => self.end(Cause::ClosedByPeer),
                    }
                }
                Received::Ended(cause) => {
                    self.reading = Reading::Ended;
                    self.end(cause);
                }
            }
            self.obey(cx);
        }
        // Handlers that were polled in between may have taken their time.
        self.clock.look();
        true
    }

    /// Does what the session wants done. What follows from an end is told when the link has explained it.
    fn obey(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while !matches!(self.phase, Phase::Ending(_))
            && let Some(output) = self.session.poll()
        {
            any = true;
            match output {
                Output::Send { lane, frame, turn, message, .. } => match turn {
                    Turn::Ahead => self.link.put_ahead(frame, lane, &message),
                    Turn::InOrder
                        if message.is_droppable()
                            && self.link.queued() >= self.config.limits.outbox_bytes =>
                    {
                        self.dropped_notes += 1;
                    }
                    Turn::InOrder => self.link.put(frame, lane, &message),
                },
                Output::Retract { frame } => self.link.retract(frame),
                Output::EndLane { lane } => self.link.end_lane(lane),
                Output::Release { lane, retry } => self.link.release(lane, retry),
                Output::Event(event) => self.tell(event, cx),
                Output::Close { cause } => self.end(cause),
            }
        }
        self.admitted_bytes = 0;
        any
    }

    fn tell(&mut self, event: Event, cx: &mut Context<'_>) {
        match event {
            Event::Called(called) => self.called(called, cx),
            Event::Withdrawn { key, ref reason } => {
                self.let_go(Theirs::Call(key), reason);
                self.observe(&event);
            }
            Event::Asked { ask, ref what, .. } => {
                let what = what.clone();
                self.observe(&event);
                self.asked(ask, what, cx);
            }
            Event::AskWithdrawn { ask, ref reason } => {
                self.let_go(Theirs::Ask(ask), reason);
                self.observe(&event);
            }
            Event::Settled { ticket, outcome } => {
                if let Some((slot, awaited)) = self.slots.remove(&ticket) {
                    self.callers -= usize::from(awaited == Awaited::Reply);
                    slot.settle(outcome);
                }
            }
            Event::Progressed { ticket, ref progress } => {
                self.happen(ticket, Happening::Progress(progress.clone()));
                self.observe(&event);
            }
            Event::Stepped { ticket, ref params } => {
                self.observe(&event);
                self.happen(ticket, Happening::Step(params.clone()));
            }
            Event::Listening { ticket, ref interest } => {
                self.happen(ticket, Happening::Listening(interest.clone()));
                self.observe(&event);
            }
            Event::Changed { ref tickets, ref change } => {
                for ticket in tickets {
                    self.happen(*ticket, Happening::Change(change.clone()));
                }
                self.observe(&event);
            }
            Event::Noted(note) => {
                let _ = catch_unwind(AssertUnwindSafe(|| self.service.note(note)));
            }
            Event::Greeted { ref capabilities, ref identity, .. } => {
                let (peer, identity) = (Peer::new(Arc::clone(&self.inbox)), identity.as_ref());
                let _ = catch_unwind(AssertUnwindSafe(|| self.service.greeted(peer, capabilities, identity)));
                self.observe(&event);
            }
            Event::Opened { revision, .. } => {
                self.link.settled(revision);
                self.observe(&event);
            }
            Event::State(_)
            | Event::Untold(_)
            | Event::Disagreed(_)
            | Event::Logged { .. }
            | Event::Pushes(_)
            | Event::Doubted
            | Event::Found(_) => self.observe(&event),
        }
    }

    fn observe(&self, event: &Event) {
        observe(&*self.service, event);
    }

    fn happen(&self, ticket: Ticket, happening: Happening) {
        if let Some((slot, _)) = self.slots.get(&ticket) {
            slot.happen(happening, self.config.limits.notes_queued);
        }
    }

    fn called(&mut self, called: Called, cx: &mut Context<'_>) {
        let key = called.key;
        let inbox = Arc::clone(&self.inbox);
        let call = CallCx::new(key, called.revision, called.progress, called.log_level, inbox);
        let polled = match catch_unwind(AssertUnwindSafe(|| self.service.call(call, called))) {
            Ok(handler) => self.handlers.start(key, handler, cx),
            Err(_) => Some(Polled::Panicked),
        };
        if let Some(polled) = polled {
            // Notes that the handler sent go out before its answer does.
            self.take_wishes(cx);
            self.local(Command::Answer { key, answer: answer_of(polled) });
        }
    }

    /// Drops a handler. What it passed on is given up meanwhile, in the peer's own words where there are any: what is said of
    /// calls that end with the link is none of the peer's.
    fn let_go(&mut self, what: Theirs, reason: &str) {
        let theirs = self.phase == Phase::Running && !reason.is_empty();
        self.inbox.withdraw(theirs.then(|| (what, reason.into())));
        match what {
            Theirs::Call(key) => self.handlers.stop(key),
            Theirs::Ask(key) => self.asks.stop(key),
        };
        self.inbox.withdraw(None);
    }

    fn asked(&mut self, ask: AskKey, what: Ask, cx: &mut Context<'_>) {
        let own = AskCx::new(ask, Arc::clone(&self.inbox));
        let polled = match catch_unwind(AssertUnwindSafe(|| self.service.ask(own, what))) {
            Ok(handler) => self.asks.start(ask, handler, cx),
            Err(_) => Some(Polled::Panicked),
        };
        if let Some(polled) = polled {
            // As above: what was told of the answer goes out before it does.
            self.take_wishes(cx);
            self.local(Command::AnswerAsk { ask, outcome: outcome_of(polled) });
        }
    }

    /// Writes, and watches whether the peer takes it.
    fn write(&mut self, cx: &mut Context<'_>) {
        let before = self.link.queued();
        if self.broken.is_none()
            && let Poll::Ready(Err(error)) = self.link.poll_flush(cx)
        {
            self.broken = Some((self.clock.now(), Cause::Io(error.to_string().into())));
        }
        // A broken pipe is often the shadow of an end that reading explains better, after the last
        // replies.
        if let Some((since, cause)) = &self.broken
            && (self.reading == Reading::Ended || self.clock.now().since(*since) >= BROKEN_GRACE)
        {
            self.end(cause.clone());
        }
        let queued = self.link.queued();
        self.session.departed(self.link.departed());
        let limits = &self.config.limits;
        if queued == 0 {
            self.stalled_since = None;
            return;
        }
        let now = self.clock.now();
        // Bytes count, not messages: a large one may take a slow reader longer than any stall.
        let since = self.stalled_since.filter(|_| queued >= before).unwrap_or(now);
        self.stalled_since = Some(since);
        if now.since(since) >= limits.stall_timeout || queued > 2 * limits.outbox_bytes {
            self.end(Cause::Stalled);
        }
    }

    /// The first cause is the one that counts.
    fn end(&mut self, cause: Cause) {
        if self.phase == Phase::Running {
            self.phase = Phase::Ending(cause);
        }
    }

    /// The link is ending: ask it why, tell everyone, tear it down.
    fn finish(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        if let Phase::Ending(cause) = &self.phase {
            let Poll::Ready(cause) = self.link.poll_explain(cx, cause) else { return Poll::Pending };
            self.phase = Phase::Closing(cause.clone());
            self.session.departed(self.link.departed());
            self.handle(Input::Closed { cause });
            self.obey(cx);
            self.handlers.clear();
            self.asks.clear();
            for wish in self.inbox.leave() {
                refuse(wish, gone());
            }
            for (_, (slot, _)) in self.slots.drain() {
                slot.settle(gone());
            }
        }
        let Phase::Closing(cause) = &self.phase else { return Poll::Pending };
        self.link.poll_close(cx, cause).map(|()| cause.clone())
    }

    fn deadline(&self) -> Option<Moment> {
        let stall = self.stalled_since.map(|since| since + self.config.limits.stall_timeout);
        let broken = self.broken.as_ref().map(|(since, _)| *since + BROKEN_GRACE);
        [self.session.deadline(), stall, broken].into_iter().flatten().min()
    }
}

/// A driver that is dropped before its end leaves no caller waiting.
impl<L, S> Drop for Driver<L, S> {
    fn drop(&mut self) {
        for wish in self.wishes.drain(..).chain(self.inbox.leave()) {
            refuse(wish, gone());
        }
        for (_, (slot, _)) in self.slots.drain() {
            let cause = match std::thread::panicking() {
                true => Cause::Panicked,
                false => Cause::ClosedByUs("the link was dropped".into()),
            };
            slot.settle(Outcome::Lost { cause, delivery: Delivery::Unknown });
        }
    }
}

impl<L: Link + Unpin, S: Service> Future for Driver<L, S> {
    type Output = Cause;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Cause> {
        let this = self.get_mut();
        if this.steps_back() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        for turn in 0_u32.. {
            if turn % TURNS_PER_LOOK == 0 {
                this.clock.look();
            }
            if this.phase != Phase::Running {
                return this.finish(cx);
            }
            let mut busy = this.obey(cx);
            busy |= this.take_wishes(cx);
            busy |= this.poll_handlers(cx);
            busy |= this.obey(cx);
            busy |= this.read(cx);
            this.session.carried_by(this.link.abilities());
            this.session.received(this.link.received_bytes());
            this.session.begun(this.clock.now(), this.link.begun());
            busy |= this.obey(cx);
            this.write(cx);
            if busy && turn >= TURNS_PER_POLL {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if busy || this.phase != Phase::Running {
                continue;
            }
            match this.deadline() {
                Some(deadline) if this.clock.poll(deadline, cx).is_ready() => this.handle(Input::Tick),
                _ => return Poll::Pending,
            }
        }
        unreachable!("turns are without end")
    }
}

fn refuse(wish: Wish, outcome: Outcome) {
    if let Wish::Call(_, _, slot) = wish {
        slot.settle(outcome);
    }
}

fn answer_of(polled: Polled<Answer>) -> Answer {
    match polled {
        Polled::Ready(answer) => answer,
        // What it said went to the panic hook: it may hold what the peer must not read.
        Polled::Panicked => Answer::Fault(Fault::internal("the handler panicked")),
    }
}

fn outcome_of(polled: Polled<Result<Bytes, Fault>>) -> Result<Bytes, Fault> {
    match polled {
        Polled::Ready(outcome) => outcome,
        Polled::Panicked => Err(Fault::internal("the handler panicked")),
    }
}
