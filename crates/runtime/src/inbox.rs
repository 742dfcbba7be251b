//! What our side wants from the driver: a queue with one reader, filled from any thread.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Waker};

use cardan_proto::session::event::{AskKey, CallKey, Cause, Change, Command, Ticket};

use crate::peer::CallSlot;
use crate::witness::{Report, Witness};

/// A wish.
#[derive(Debug)]
pub(crate) enum Wish {
    /// For the session.
    Command(Command),
    /// A call or listen; its outcome goes to the slot.
    Call(Command, Ticket, Arc<CallSlot>),
    /// The end of the link, now.
    End(Cause),
}

impl Wish {
    /// May it be turned away when too many wait? Calls may, and notes that a peer may miss. Answers,
    /// cancels and the close may not: each belongs to something that is counted already.
    fn is_bounded(&self) -> bool {
        match self {
            Self::Call(..) => true,
            Self::End(_) => false,
            Self::Command(command) => {
                matches!(
                    command,
                    Command::Progress { .. }
                        | Command::Step { .. }
                        | Command::AskStep { .. }
                        | Command::Log { .. }
                        | Command::Note { .. }
                        | Command::Change(_)
                )
            }
        }
    }

    /// What it takes to keep a step; nothing: it is none. Bounded by bytes, since thousands may come at a time and each
    /// counts, and apart from all else, since whoever tells so much is not to stand in the way of others.
    fn step_bytes(&self) -> Option<usize> {
        match self {
            Self::Command(Command::Step { params, .. } | Command::AskStep { params, .. }) => {
                Some(params.len() + size_of::<Self>())
            }
            _ => None,
        }
    }

    /// What it takes to keep any other note. Each may be large, so that their number says little.
    fn note_bytes(&self) -> usize {
        match self {
            Self::Command(Command::Log { params, .. }) => params.len(),
            Self::Command(Command::Note { params: Some(params), .. }) => params.len(),
            Self::Command(Command::Change(Change::Resource(updated))) => updated.params().len(),
            Self::Command(Command::Change(Change::Task { state, .. })) => state.len(),
            _ => 0,
        }
    }
}

/// Why a wish was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// The driver has left.
    Gone,
    /// Too many wait already.
    Full,
}

/// The queue. Whoever puts something in wakes the driver.
#[derive(Debug)]
pub(crate) struct Inbox {
    inner: Mutex<Inner>,
    max: usize,
    max_bytes: usize,
    witness: Option<Arc<dyn Witness>>,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Wish>,
    /// How many of them are steps, and what these take.
    steps: usize,
    step_bytes: usize,
    /// What other notes take.
    note_bytes: usize,
    waker: Option<Waker>,
    gone: bool,
    minted: u64,
    dropped: u64,
    /// What the peer wants no more and whose handler is being let go, and why, as the peer put it.
    withdrawn: Option<(Theirs, Box<str>)>,
}

/// What the peer wants of us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theirs {
    /// A call.
    Call(CallKey),
    /// An ask of a server.
    Ask(AskKey),
}

impl Inbox {
    /// An empty queue that takes calls and notes up to `max` wishes, and so many bytes of steps and of other notes, each, towards
    /// whom `witness` knows.
    pub(crate) fn new(max: usize, max_bytes: usize, witness: Option<Arc<dyn Witness>>) -> Self {
        Self { inner: Mutex::new(Inner::default()), max, max_bytes, witness }
    }

    /// What is known of the process on the other side.
    pub(crate) fn report(&self) -> Report {
        self.witness.as_ref().map(|witness| witness.report()).unwrap_or_default()
    }

    /// Puts a wish in, unless nobody will look at it or there are too many.
    pub(crate) fn put(&self, wish: Wish) -> Result<(), Unwanted> {
        let waker = {
            let mut inner = self.lock();
            if inner.gone {
                return Err(Unwanted::Gone);
            }
            match wish.step_bytes() {
                Some(bytes) if inner.step_bytes + bytes > self.max_bytes => return Err(Unwanted::Full),
                Some(bytes) => {
                    inner.steps += 1;
                    inner.step_bytes += bytes;
                }
                None => {
                    let bytes = wish.note_bytes();
                    let crowded = inner.queue.len() - inner.steps >= self.max;
                    if wish.is_bounded()
                        && (crowded || (bytes > 0 && inner.note_bytes + bytes > self.max_bytes))
                    {
                        return Err(Unwanted::Full);
                    }
                    inner.note_bytes += bytes;
                }
            }
            inner.queue.push_back(wish);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Puts a command in. Nobody waits for it: one that is not wanted is only counted.
    pub(crate) fn command(&self, command: Command) {
        if self.put(Wish::Command(command)).is_err() {
            self.lock().dropped += 1;
        }
    }

    /// Commands that were turned away.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// The peer gives up something of its own for this reason. Known for as long as its handler is being let go.
    pub(crate) fn withdraw(&self, withdrawn: Option<(Theirs, Box<str>)>) {
        self.lock().withdrawn = withdrawn;
    }

    /// Why the peer gives this up right now; nothing: it does not, or does not say.
    pub(crate) fn withdrawn(&self, what: Theirs) -> Option<Box<str>> {
        let inner = self.lock();
        inner.withdrawn.as_ref().filter(|(gone, _)| *gone == what).map(|(_, reason)| reason.clone())
    }

    pub(crate) fn mint(&self) -> Ticket {
        let mut inner = self.lock();
        inner.minted += 1;
        Ticket(inner.minted)
    }

    /// Takes all there is; remembers who to wake when there is nothing.
    pub(crate) fn take(&self, into: &mut VecDeque<Wish>, cx: &Context<'_>) {
        let mut inner = self.lock();
        if !inner.queue.is_empty() {
            (inner.steps, inner.step_bytes, inner.note_bytes) = (0, 0, 0);
            return std::mem::swap(&mut inner.queue, into);
        }
        if !inner.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.waker = Some(cx.waker().clone());
        }
    }

    /// Is there something to take?
    pub(crate) fn is_waiting(&self) -> bool {
        !self.lock().queue.is_empty()
    }

    /// The driver leaves; what is left is handed back.
    pub(crate) fn leave(&self) -> VecDeque<Wish> {
        let mut inner = self.lock();
        inner.gone = true;
        inner.waker = None;
        (inner.steps, inner.step_bytes, inner.note_bytes) = (0, 0, 0);
        std::mem::take(&mut inner.queue)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.lock().gone
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here can panic halfway through a change.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cardan_proto::session::event::{CallKey, LogLevel};

    use super::*;

    /// F18: a flood of steps is bounded by what it takes and counted beyond, and leaves everyone else their room.
    #[test]
    fn f18_a_flood_of_steps_is_bounded_and_in_nobodys_way() {
        let params = Bytes::from_static(br#"{"progressToken":1,"progress":1}"#);
        let each = params.len() + size_of::<Wish>();
        let inbox = Inbox::new(1, 10 * each, None);
        let flood =
            || (0..25).for_each(|_| inbox.command(Command::Step { key: CallKey(1), params: params.clone() }));
        let log = || Command::Log { key: None, level: LogLevel::Info, params: Bytes::from_static(b"{}") };
        flood();
        assert_eq!(inbox.dropped(), 15);
        inbox.command(log());
        assert_eq!(inbox.dropped(), 15, "there is room for others");
        inbox.command(log());
        assert_eq!(inbox.dropped(), 16, "as much as ever");
        let (mut taken, cx) = (VecDeque::new(), Context::from_waker(Waker::noop()));
        inbox.take(&mut taken, &cx);
        assert_eq!(taken.len(), 11);
        flood();
        assert_eq!(inbox.dropped(), 31, "what was taken made room");
    }

    /// T19: a flood of large log notes is bounded by what it takes, and counted beyond; calls, steps and answers have their room.
    #[test]
    fn t19_a_flood_of_large_log_notes_is_bounded() {
        let params = Bytes::from(vec![b' '; 100]);
        let inbox = Inbox::new(1000, 1000, None);
        let log = || Command::Log { key: None, level: LogLevel::Info, params: params.clone() };
        let flood = || (0..25).for_each(|_| inbox.command(log()));
        flood();
        assert_eq!(inbox.dropped(), 15);
        inbox.command(Command::Change(Change::Tools));
        inbox.command(Command::Step { key: CallKey(1), params: params.clone() });
        assert_eq!(inbox.dropped(), 15, "there is room for others");
        let (mut taken, cx) = (VecDeque::new(), Context::from_waker(Waker::noop()));
        inbox.take(&mut taken, &cx);
        assert_eq!(taken.len(), 12);
        flood();
        assert_eq!(inbox.dropped(), 30, "what was taken made room");
    }
}
