//! What a handler holds: progress, log notes, and the peer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::era::{Era, Revision};
use cardan_proto::session::event::{
    Ask, AskKey, CallKey, Change, Command, Interest, LogLevel, Progress, Wanted,
};

use crate::inbox::{Inbox, Theirs};
use crate::peer::{CallHandle, Peer};

/// The context of one running call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CallCx {
    key: CallKey,
    revision: Revision,
    progress: Wanted,
    log_level: Option<LogLevel>,
    inbox: Arc<Inbox>,
}

impl CallCx {
    pub(crate) fn new(
        key: CallKey,
        revision: Revision,
        progress: Wanted,
        log_level: Option<LogLevel>,
        inbox: Arc<Inbox>,
    ) -> Self {
        Self { key, revision, progress, log_level, inbox }
    }

    /// The revision of this call.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Does the caller want to hear of progress?
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.progress == Wanted::Yes
    }

    /// Tells the caller how far the work is. Must increase; what the caller did not ask for is not sent.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if self.progress == Wanted::Yes {
            let progress = Progress { progress, total, message: message.map(str::to_owned) };
            self.inbox.command(Command::Progress { key: self.key, progress });
        }
    }

    /// The same, as the call that this one was passed on as told it: whole, whether it increases or not.
    pub(crate) fn step(&self, params: Bytes) {
        if self.progress == Wanted::Yes {
            self.inbox.command(Command::Step { key: self.key, params });
        }
    }

    /// Why the caller gives this call up, in its own words: known while the handler is let go for it, and to nobody later.
    pub(crate) fn withdrawn(&self) -> Option<Box<str>> {
        self.inbox.withdrawn(Theirs::Call(self.key))
    }

    /// Lets the caller go: it comes back for the answer after `retry`. Only where the transport and the
    /// revision can resume; elsewhere the caller stays.
    pub fn release(&self, retry: Duration) {
        self.inbox.command(Command::Release { key: self.key, retry });
    }

    /// Sends a log note with this call. `params` is the note's object, level included.
    pub fn log(&self, level: LogLevel, params: Bytes) {
        let wanted = match self.revision.era() {
            Era::Modern => self.log_level.is_some_and(|wanted| level >= wanted),
            // The level of a legacy session may change while the call runs: the session knows.
            Era::Legacy => true,
        };
        if wanted {
            self.inbox.command(Command::Log { key: Some(self.key), level, params });
        }
    }

    /// Asks a legacy client within this call, which goes on meanwhile. Modern clients are asked by the answer.
    pub fn ask(&self, ask: Ask) -> CallHandle {
        self.peer().ask_within(self.key, ask)
    }

    /// The listen that this call is stands, for this. For sides that keep listens themselves.
    pub fn listening(&self, interest: Interest) {
        self.inbox.command(Command::Listening { key: self.key, interest });
    }

    /// Something changed that the listen which this call is has to tell.
    pub fn change(&self, change: Change) {
        self.inbox.command(Command::Tell { key: self.key, change });
    }

    /// The other side.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::new(Arc::clone(&self.inbox))
    }
}

/// The context of one ask of a server, while it is being answered. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AskCx {
    key: AskKey,
    inbox: Arc<Inbox>,
}

impl AskCx {
    pub(crate) fn new(key: AskKey, inbox: Arc<Inbox>) -> Self {
        Self { key, inbox }
    }

    /// Tells the server how far the answer is, as whoever gives it told that: whole, and to a server that wants to know.
    pub(crate) fn step(&self, params: Bytes) {
        self.inbox.command(Command::AskStep { ask: self.key, params });
    }

    /// Why the server takes it back, in its own words: known while who answers is let go for it, and to nobody later.
    pub(crate) fn withdrawn(&self) -> Option<Box<str>> {
        self.inbox.withdrawn(Theirs::Ask(self.key))
    }
}
