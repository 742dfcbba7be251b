//! What goes into a session and what comes out of it.
//!
//! The same enums feed the driver, the simulator, the fuzzers and the tap.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

pub use super::carrier::{Abilities, Cancel, Departed, Framing, Pushes, Silence, Turn};
pub use super::options::{CallOptions, Repeat, Rounds, Steps, Vetting, Wanted, Within};
pub use super::outcome::{Cause, Deadline, Delivery, Hurdle, Outcome, Refusal, Stage};
use super::state::StateChange;
pub use super::updated::Updated;
use crate::era::Revision;
use crate::finding::{Finding, Rule};
use crate::http::stray::Strays;
use crate::jsonrpc::envelope::{Call, Decoded, Envelope, MetaKey, Note, Param, Violation};
use crate::jsonrpc::fault::Fault;
use crate::jsonrpc::id::CallId;
use crate::jsonrpc::splice::member_of;
use crate::jsonrpc::write;
use crate::method::Method;
pub use crate::model::LogLevel;

/// One ordered stream of messages inside a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub u32);

impl LaneId {
    /// The only lane of stdio, sockets and WebSocket.
    pub const MAIN: Self = Self(0);
}

/// One call of the peer, for as long as it runs. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey(pub u64);

/// One call of ours, named by whoever makes it. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// One request for input that the client is to answer. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskKey(pub u64);

/// What happens to a session.
#[derive(Debug, Clone)]
pub enum Input {
    /// A frame arrived on a lane.
    Frame {
        /// Where.
        lane: LaneId,
        /// The bytes of one message.
        bytes: Bytes,
    },
    /// A frame arrived that the link had to read itself, to know where it belongs.
    Read {
        /// Where.
        lane: LaneId,
        /// What it holds.
        decoded: Decoded,
    },
    /// The link found something that is no frame: an oversize line, an unterminated end.
    Broken {
        /// Where.
        lane: LaneId,
        /// What.
        violation: Violation,
        /// A piece of it.
        excerpt: Box<str>,
    },
    /// What carried one message failed, and the link lives on.
    Failed {
        /// The call of ours that it carried; none: a note or an answer of ours.
        id: Option<CallId>,
        /// Why.
        cause: Cause,
        /// Did it reach the peer?
        delivery: Delivery,
    },
    /// The link noticed a deviation beside its lanes: nothing is read or owed for it.
    Noticed {
        /// Which rule it breaks.
        rule: Rule,
        /// What was seen, in short.
        detail: Box<str>,
    },
    /// Something failed that belongs to no message. The link may be well all the same.
    Doubted,
    /// The peer will send nothing more, but still reads.
    ReadClosed,
    /// The link is gone.
    Closed {
        /// Why.
        cause: Cause,
    },
    /// Someone on our side wants something.
    Local(Command),
    /// Time passed.
    Tick,
}

/// What our side can want.
#[derive(Debug, Clone)]
pub enum Command {
    /// Client: settle the era and become ready.
    Open,
    /// Call the peer.
    Call(NewCall),
    /// The same, with what came beside a call that is passed on: it goes where the link can say it, over HTTP in the
    /// modern era, and nowhere else.
    CallBeside(Box<(NewCall, Strays)>),
    /// Tell the peer something.
    Note {
        /// What.
        method: Method,
        /// The details: a JSON object.
        params: Option<Bytes>,
    },
    /// Give up a call of ours, on the wire too.
    Cancel {
        /// Which.
        ticket: Ticket,
        /// Why, for the peer's log.
        reason: Cow<'static, str>,
    },
    /// The answer to a call of the peer.
    Answer {
        /// Which.
        key: CallKey,
        /// The answer.
        answer: Answer,
    },
    /// How far a call of the peer has come.
    Progress {
        /// Which.
        key: CallKey,
        /// How far.
        progress: Progress,
    },
    /// The same, as someone else told it: it is passed on whole.
    Step {
        /// Which.
        key: CallKey,
        /// Params of the note, a JSON object. Only its token is ours to say.
        params: Bytes,
    },
    /// Server: the caller may leave and come back for the answer, where the link can do that.
    Release {
        /// Which call.
        key: CallKey,
        /// When to come back.
        retry: Duration,
    },
    /// Server: a log note.
    Log {
        /// The call it belongs to, if any.
        key: Option<CallKey>,
        /// How serious.
        level: LogLevel,
        /// Params of the note, a JSON object with `level` in it.
        params: Bytes,
    },
    /// Server: something changed that clients may listen to.
    Change(Change),
    /// Server: asks a legacy client within one of its calls, which goes on meanwhile. Settles like a call, and tells its steps where
    /// the ask wants progress.
    AskWithin {
        /// The call.
        key: CallKey,
        /// Names the ask.
        ticket: Ticket,
        /// What is asked.
        ask: Ask,
    },
    /// Server: a listen that was handed over is in force, for this.
    Listening {
        /// The listen.
        key: CallKey,
        /// In what; what we do not announce is left out.
        interest: Interest,
    },
    /// Server: something changed that one listen which was handed over is about.
    Tell {
        /// The listen.
        key: CallKey,
        /// What.
        change: Change,
    },
    /// Client: the answer to an ask.
    AnswerAsk {
        /// Which.
        ask: AskKey,
        /// A bare result object, or why there is none.
        outcome: Result<Bytes, Fault>,
    },
    /// Client: how far the answer to an ask has come, as someone else told it: it is passed on whole.
    AskStep {
        /// Which.
        ask: AskKey,
        /// Params of the note, a JSON object. Only its token is the server's to say.
        params: Bytes,
    },
    /// Client: take a standing interest. Settles when it ends.
    Listen {
        /// Names the listen.
        ticket: Ticket,
        /// In what.
        interest: Interest,
    },
    /// Client: the wanted log level, from now on.
    SetLevel(LogLevel),
    /// Finish what runs, then end the link.
    Close {
        /// Why.
        reason: Cow<'static, str>,
    },
    /// End the link at once. Whoever waits for an answer of ours is told that there is none.
    Abandon {
        /// Why.
        reason: Cow<'static, str>,
    },
}

/// A call to be made.
#[derive(Debug, Clone)]
pub struct NewCall {
    /// Names the call.
    pub ticket: Ticket,
    /// What is called.
    pub method: Method,
    /// With what: a JSON object.
    pub params: Option<Bytes>,
    /// How long, and whether progress is wanted.
    pub options: CallOptions,
}

/// How a handler answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// With a result: a JSON object.
    Done(Bytes),
    /// The same, known to have no `_meta`, no `resultType` and no cache hints, so that none need be
    /// looked for.
    Bare(Bytes),
    /// With a result that a server of the call's own era made ready: it goes out as it is.
    Sealed(Bytes),
    /// With a fault.
    Fault(Fault),
    /// With asks: the call goes on when they are answered.
    Ask(Asks),
}

/// Requests for input.
#[derive(Debug, Clone, Default)]
pub struct Asks {
    /// Each under a name of its own.
    pub entries: Vec<(Box<str>, Ask)>,
    /// What the server wants back with the answers, in the modern era: sealed text.
    pub state: Option<Box<str>>,
}

/// One request for input.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Sampling, elicitation or roots.
    pub method: Method,
    /// Its params: a JSON object.
    pub params: Option<Bytes>,
}

impl Ask {
    /// Does the server want to hear how far the answer has come?
    #[must_use]
    pub fn progress(&self) -> Wanted {
        let params = self.params.as_ref();
        let meta = params.and_then(|params| member_of(params, Param::Meta.name()).ok().flatten());
        let token = meta.and_then(|meta| member_of(&meta, MetaKey::ProgressToken.name()).ok().flatten());
        if token.is_some() { Wanted::Yes } else { Wanted::No }
    }
}

/// Answers to asks, by name. A fault is what a legacy client answered instead.
pub type Answers = Vec<(Box<str>, Result<Bytes, Fault>)>;

/// How far something has come.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// Increases with every note.
    pub progress: f64,
    /// Where it ends, if known.
    pub total: Option<f64>,
    /// What is going on.
    pub message: Option<String>,
}

/// Something that changed on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// One resource.
    Resource(Updated),
    /// One task, as an extension.
    Task {
        /// Names it.
        id: Box<str>,
        /// Its whole state: a JSON object.
        state: Bytes,
    },
}

impl Change {
    /// The note that tells it.
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            Self::Tools => Method::ToolsListChanged,
            Self::Prompts => Method::PromptsListChanged,
            Self::Resources => Method::ResourcesListChanged,
            Self::Resource(_) => Method::ResourcesUpdated,
            Self::Task { .. } => Method::Tasks,
        }
    }

    /// Is what was read from `uri` stale now? What lies above a changed resource shows it, and what
    /// lies below may have gone with it.
    #[must_use]
    pub fn touches(&self, uri: &str) -> bool {
        matches!(self, Self::Resource(changed) if is_within(changed, uri) || is_within(uri, changed))
    }
}

/// A standing interest in changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interest {
    /// In the list of tools.
    pub tools: bool,
    /// In the list of prompts.
    pub prompts: bool,
    /// In the list of resources.
    pub resources: bool,
    /// In these resources.
    pub uris: Vec<Box<str>>,
    /// In these tasks, where they are an extension. What happens to them comes as notes.
    pub tasks: Vec<Box<str>>,
}

impl Interest {
    /// Is `change` of interest? A change below a listened address is too.
    #[must_use]
    pub fn covers(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::Resource(uri) => self.uris.iter().any(|wanted| is_within(uri, wanted)),
            Change::Task { id, .. } => self.tasks.contains(id),
        }
    }
}

/// `uri` is `root`, or lies below it.
fn is_within(uri: &str, root: &str) -> bool {
    uri.strip_prefix(root)
        .is_some_and(|rest| rest.is_empty() || root.ends_with('/') || rest.starts_with(['/', '#', '?']))
}

/// What a session wants done.
#[derive(Debug)]
pub enum Output {
    /// Put this on a lane.
    Send {
        /// Where.
        lane: LaneId,
        /// Its number on this link, rising from one.
        frame: u64,
        /// When.
        turn: Turn,
        /// What.
        message: Outgoing,
        /// Nothing follows on this lane.
        last: bool,
    },
    /// Nothing follows on a lane, not even a reply: its call was withdrawn.
    EndLane {
        /// Which.
        lane: LaneId,
    },
    /// Let the reader of a lane go; it may come back for the rest.
    Release {
        /// Which lane.
        lane: LaneId,
        /// When to come back.
        retry: Duration,
    },
    /// Nobody wants this message any more. Where it has not begun to leave, it never does; and where closing
    /// a lane cancels, the lane of the call that it is is closed.
    Retract {
        /// Its number.
        frame: u64,
    },
    /// Tell our side.
    Event(Event),
    /// End the link: nothing more will be sent. What it means for calls follows as events.
    Close {
        /// Why.
        cause: Cause,
    },
}

/// A message to be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Outgoing {
    /// One.
    One(Envelope),
    /// Several at once.
    Batch(Vec<Envelope>),
    /// Already written, in a dialect.
    Raw(Bytes),
}

impl Outgoing {
    /// Appends it, without any framing.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::One(envelope) => write::envelope(envelope, out),
            Self::Batch(envelopes) => write::batch(envelopes, out),
            Self::Raw(bytes) => out.extend_from_slice(bytes),
        }
    }

    /// May it be dropped when the peer does not keep up? Only progress and log notes may.
    #[must_use]
    pub fn is_droppable(&self) -> bool {
        matches!(self, Self::One(Envelope::Note(note)) if matches!(note.method, Method::Progress | Method::Message))
    }
}

/// What our side should know.
#[derive(Debug, Clone)]
pub enum Event {
    /// The state changed.
    State(StateChange),
    /// Client: the era is settled; calls may follow.
    Opened {
        /// The settled revision.
        revision: Revision,
        /// The result that opened the session: of `initialize` or `server/discover`.
        greeting: Option<Bytes>,
    },
    /// Server: a legacy client has gone on after the handshake; it can be told things and asked.
    Greeted {
        /// The settled revision.
        revision: Revision,
        /// What the client can do: a JSON object.
        capabilities: Bytes,
        /// Who the client says it is: an `Implementation` object, as it came.
        identity: Option<Bytes>,
    },
    /// The peer calls, or goes on with a call whose asks were answered.
    Called(Called),
    /// Server: the peer called what the capabilities do not tell of. It has its answer: there is no such method.
    Untold(Call),
    /// Server: headers and body of a modern call over HTTP say different things. It has its answer, from whoever compared them.
    Disagreed(Call),
    /// A call of the peer is no more: stop work, answer nothing.
    Withdrawn {
        /// Which.
        key: CallKey,
        /// Why, as the peer put it.
        reason: Box<str>,
    },
    /// A note of the peer that is not about a call or a listen of ours.
    Noted(Note),
    /// A call of ours has ended. Exactly once per ticket.
    Settled {
        /// Which.
        ticket: Ticket,
        /// How.
        outcome: Outcome,
    },
    /// A call of ours has come further.
    Progressed {
        /// Which.
        ticket: Ticket,
        /// How far.
        progress: Progress,
    },
    /// The same, where that is told note by note.
    Stepped {
        /// Which.
        ticket: Ticket,
        /// The params of the note, as they came.
        params: Bytes,
    },
    /// The server logs.
    Logged {
        /// The params of the note.
        params: Bytes,
    },
    /// The server asks for input.
    Asked {
        /// Names the ask.
        ask: AskKey,
        /// The call of ours it belongs to, where the era tells.
        ticket: Option<Ticket>,
        /// What is asked.
        what: Ask,
    },
    /// The server no longer wants the answer.
    AskWithdrawn {
        /// Which.
        ask: AskKey,
        /// Why, as the server put it; empty: it did not say, or something else happened.
        reason: Box<str>,
    },
    /// A listen of ours is in force.
    Listening {
        /// Which.
        ticket: Ticket,
        /// What the server honours.
        interest: Interest,
    },
    /// Something changed on the server.
    Changed {
        /// The listens that it is for. Legacy notes name none, so that one may be for several, or unsolicited.
        tickets: Vec<Ticket>,
        /// What.
        change: Change,
    },
    /// Whether the link carries what belongs to no call is another than before.
    Pushes(Pushes),
    /// Something failed beside all calls: whoever keeps the connection may want to look after the peer.
    Doubted,
    /// Something was not as it should be.
    Found(Finding),
}

/// A call of the peer.
#[derive(Debug, Clone)]
pub struct Called {
    /// Names it here.
    pub key: CallKey,
    /// The call itself.
    pub call: Call,
    /// Its revision, and so its era.
    pub revision: Revision,
    /// Answers to the asks of the round before. The first round has none.
    pub answers: Option<Answers>,
    /// What the client declared: a JSON object, or nothing at all.
    pub capabilities: Bytes,
    /// Log notes at this level and above go out with it; none: no log notes.
    pub log_level: Option<LogLevel>,
    /// Is progress wanted?
    pub progress: Wanted,
}
