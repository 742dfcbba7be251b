//! The handle through which our side reaches the other. Cheap to clone, usable from any task.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use cardan_proto::http::stray::Strays;
use cardan_proto::method::Method;
use cardan_proto::session::event::{
    Ask, CallKey, CallOptions, Cause, Change, Command, Delivery, Interest, LogLevel, NewCall, Outcome,
    Progress, Refusal, Ticket,
};

use crate::cx::{AskCx, CallCx};
use crate::inbox::{Inbox, Unwanted, Wish};
use crate::witness::Report;

/// What belongs to a call that is passed on, beside its bytes.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Headers of parameters that nothing here is known to mirror.
    pub strays: Option<Strays>,
    /// The call that it is made for. Where its progress is told whole, each step goes on there as soon as it comes in, and
    /// so in its order among whatever else goes on there. Where its caller gives it up, this is given up for the same reason.
    pub onward: Option<CallCx>,
}

/// A handle on one link.
#[derive(Debug, Clone)]
pub struct Peer {
    inbox: Arc<Inbox>,
}

impl Peer {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Self {
        Self { inbox }
    }

    /// Calls the other side. `params` is a JSON object. The call is on its way when this returns;
    /// dropping the handle before the outcome cancels it on the wire.
    pub fn call(&self, method: Method, params: Option<Bytes>, options: CallOptions) -> CallHandle {
        let ticket = self.inbox.mint();
        self.start(ticket, Command::Call(NewCall { ticket, method, params, options }), None)
    }

    /// The same for a call that is passed on, with what came beside it.
    pub fn call_beside(
        &self,
        method: Method,
        params: Option<Bytes>,
        options: CallOptions,
        beside: Beside,
    ) -> CallHandle {
        let Beside { strays, onward } = beside;
        let ticket = self.inbox.mint();
        let call = NewCall { ticket, method, params, options };
        let command = match strays {
            None => Command::Call(call),
            Some(strays) => Command::CallBeside(Box::new((call, strays))),
        };
        self.start(ticket, command, onward)
    }

    /// Takes a standing interest. The handle's changes tell; dropping it ends the interest.
    pub fn listen(&self, interest: Interest) -> CallHandle {
        let ticket = self.inbox.mint();
        self.start(ticket, Command::Listen { ticket, interest }, None)
    }

    pub(crate) fn ask_within(&self, key: CallKey, ask: Ask) -> CallHandle {
        let ticket = self.inbox.mint();
        self.start(ticket, Command::AskWithin { key, ticket, ask }, None)
    }

    /// Tells the other side something.
    pub fn note(&self, method: Method, params: Option<Bytes>) {
        self.inbox.command(Command::Note { method, params });
    }

    /// Server: tells those who listen that something changed.
    pub fn change(&self, change: Change) {
        self.inbox.command(Command::Change(change));
    }

    /// Server: a log note outside any call.
    pub fn log(&self, level: LogLevel, params: Bytes) {
        self.inbox.command(Command::Log { key: None, level, params });
    }

    /// Client: the wanted log level, from now on.
    pub fn set_level(&self, level: LogLevel) {
        self.inbox.command(Command::SetLevel(level));
    }

    /// Ends the link when what runs is done.
    pub fn close(&self, reason: impl Into<Cow<'static, str>>) {
        self.inbox.command(Command::Close { reason: reason.into() });
    }

    /// Ends the link at once, for `cause`: it is what every call in progress is told. For who has reason to
    /// believe that nobody is there any more.
    pub fn end(&self, cause: Cause) {
        // A driver that has left needs no telling.
        let _ = self.inbox.put(Wish::End(cause));
    }

    /// What is known of the process on the other side: nothing, unless it is a child of ours.
    #[must_use]
    pub fn report(&self) -> Report {
        self.inbox.report()
    }

    /// Has the driver left?
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inbox.is_gone()
    }

    fn start(&self, ticket: Ticket, command: Command, onward: Option<CallCx>) -> CallHandle {
        let slot = Arc::new(CallSlot::leading(onward));
        match self.inbox.put(Wish::Call(command, ticket, Arc::clone(&slot))) {
            Ok(()) => {}
            Err(Unwanted::Gone) => slot.settle(gone()),
            Err(Unwanted::Full) => slot.settle(Outcome::Refused(Refusal::TooMany)),
        }
        CallHandle { ticket, slot, inbox: Arc::clone(&self.inbox) }
    }
}

/// The outcome of what was never sent because the driver had left.
pub(crate) fn gone() -> Outcome {
    Outcome::Lost {
        cause: Cause::ClosedByUs("the link was closed before".into()),
        delivery: Delivery::NotSent,
    }
}

/// Something that happens to a call before it ends.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Happening {
    /// It has come further.
    Progress(Progress),
    /// The same, as it was told: params of a progress note.
    Step(Bytes),
    /// A listen is in force; the server honours this.
    Listening(Interest),
    /// Something changed that is listened to.
    Change(Change),
}

impl Happening {
    /// Drops the oldest, and tells how many changes or steps that were. That a listen is in force is told once, and someone
    /// waits for it: it gives way to nothing but its like, and so may stand beside as many as there may be.
    pub fn make_room(queue: &mut VecDeque<Self>) -> u64 {
        match queue.iter().position(|happening| !matches!(happening, Self::Listening(_))) {
            Some(oldest) => {
                queue.remove(oldest);
                1
            }
            None => {
                let later = queue.len().saturating_sub(1);
                queue.drain(..later);
                0
            }
        }
    }
}

/// Where the driver leaves what belongs to one call.
#[derive(Debug, Default)]
pub(crate) struct CallSlot {
    inner: Mutex<SlotState>,
}

#[derive(Debug, Default)]
struct SlotState {
    outcome: Option<Outcome>,
    happenings: VecDeque<Happening>,
    dropped: u64,
    waker: Option<Waker>,
    settled: bool,
    /// For whom it is made: steps go there. None: they wait here.
    onward: Option<Onward>,
}

/// What a call of ours passes on.
#[derive(Debug)]
enum Onward {
    /// A call of the peer's on another link.
    Call(CallCx),
    /// What a server asks there.
    Ask(AskCx),
}

impl Onward {
    fn step(&self, params: Bytes) {
        match self {
            Self::Call(cx) => cx.step(params),
            Self::Ask(cx) => cx.step(params),
        }
    }

    fn withdrawn(&self) -> Option<Box<str>> {
        match self {
            Self::Call(cx) => cx.withdrawn(),
            Self::Ask(cx) => cx.withdrawn(),
        }
    }
}

impl CallSlot {
    fn leading(onward: Option<CallCx>) -> Self {
        let onward = onward.map(Onward::Call);
        Self { inner: Mutex::new(SlotState { onward, ..SlotState::default() }) }
    }

    /// Steps go there from now on, those that waited first.
    fn lead(&self, onward: Option<Onward>) {
        let mut state = self.lock();
        if let Some(onward) = &onward {
            for happening in std::mem::take(&mut state.happenings) {
                match happening {
                    Happening::Step(params) => onward.step(params),
                    other => state.happenings.push_back(other),
                }
            }
        }
        state.onward = onward;
    }

    pub(crate) fn settle(&self, outcome: Outcome) {
        let waker = {
            let mut state = self.lock();
            state.outcome = Some(outcome);
            state.settled = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn happen(&self, happening: Happening, max: usize) {
        let waker = {
            let mut state = self.lock();
            if let (Happening::Step(params), Some(onward)) = (&happening, &state.onward) {
                // Under the lock, so that none goes to who is no longer there.
                return onward.step(params.clone());
            }
            if state.happenings.len() >= max {
                let dropped = Happening::make_room(&mut state.happenings);
                state.dropped += dropped;
            }
            state.happenings.push_back(happening);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A call of ours in progress. Await it for the outcome; drop it to cancel on the wire.
#[derive(Debug)]
#[must_use = "dropping the handle cancels the call"]
pub struct CallHandle {
    ticket: Ticket,
    slot: Arc<CallSlot>,
    inbox: Arc<Inbox>,
}

impl CallHandle {
    /// The next thing that happens to the call; nothing: it has ended.
    pub async fn next(&mut self) -> Option<Happening> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The poll form of [`CallHandle::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Happening>> {
        let mut state = self.slot.lock();
        if let Some(happening) = state.happenings.pop_front() {
            return Poll::Ready(Some(happening));
        }
        if state.settled {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Where steps go from now on, those that waited first; none: they wait, as many as may.
    pub fn lead(&self, onward: Option<CallCx>) {
        self.slot.lead(onward.map(Onward::Call));
    }

    /// It passes on what a server asks: steps go there, and where the server takes that back, this is given up for the same
    /// reason.
    pub fn passing(self, ask: Option<AskCx>) -> Self {
        self.slot.lead(ask.map(Onward::Ask));
        self
    }

    /// Gives the call up, on the wire too. The outcome still comes, and says so.
    pub fn cancel(&self, reason: impl Into<Cow<'static, str>>) {
        let command = Command::Cancel { ticket: self.ticket, reason: reason.into() };
        self.inbox.command(command);
    }

    /// What is known of the process that was called: nothing, unless it is a child of ours.
    #[must_use]
    pub fn report(&self) -> Report {
        self.inbox.report()
    }

    /// How many happenings were dropped because nobody looked.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.slot.lock().dropped
    }
}

impl Future for CallHandle {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = self.slot.lock();
        // Kept: whoever asks again is told again.
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for CallHandle {
    fn drop(&mut self) {
        let reason = {
            let state = self.slot.lock();
            if state.settled {
                return;
            }
            // Under the lock, so that it is told by whoever the call is made for now.
            state.onward.as_ref().and_then(Onward::withdrawn)
        };
        match reason {
            Some(theirs) => self.cancel(String::from(theirs)),
            None => self.cancel("the caller lost interest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use cardan_proto::session::event::Wanted;

    use super::*;

    /// S0-9: what makes room is counted, and never that a listen is in force.
    #[test]
    fn s0_9_room_is_made_by_the_oldest_change() {
        let listening = || Happening::Listening(Interest::default());
        let change = |change| Happening::Change(change);
        let mut queue = VecDeque::from([listening(), change(Change::Tools), change(Change::Prompts)]);
        assert_eq!(Happening::make_room(&mut queue), 1);
        assert_eq!(queue, [listening(), change(Change::Prompts)]);
        assert_eq!(Happening::make_room(&mut queue), 1);
        queue.push_back(listening());
        assert_eq!(Happening::make_room(&mut queue), 0, "a later one says the same");
        assert_eq!(queue, [listening()]);
        assert_eq!(Happening::make_room(&mut queue), 0);
        assert_eq!(queue, [listening()]);
    }

    /// Steps wait, as many as may, while nobody is there to whom they go; then they go first.
    #[test]
    fn steps_wait_for_who_comes_back() {
        let inbox = Arc::new(Inbox::new(8, 1 << 20, None));
        let (key, revision) = (CallKey(1), cardan_proto::era::Revision::LATEST_LEGACY);
        let cx = CallCx::new(key, revision, Wanted::Yes, None, Arc::clone(&inbox));
        let slot = CallSlot::leading(Some(cx.clone()));
        let step = |n: u8| slot.happen(Happening::Step(Bytes::copy_from_slice(&[n])), 2);
        step(1);
        slot.lead(None);
        (2..=4).for_each(step);
        slot.lead(Some(Onward::Call(cx)));
        step(5);
        let mut wishes = VecDeque::new();
        inbox.take(&mut wishes, &Context::from_waker(Waker::noop()));
        let told = wishes.into_iter().map(|wish| match wish {
            Wish::Command(Command::Step { params, .. }) => params[0],
            other => panic!("{other:?}"),
        });
        assert_eq!(told.collect::<Vec<_>>(), [1, 3, 4, 5]);
        assert_eq!(slot.lock().dropped, 1);
    }
}
