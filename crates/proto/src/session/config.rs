//! What a session is told once: role, identity, capabilities, revisions, bounds.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;

use crate::dialect::Dialect;
use crate::era::Revisions;
use crate::era::caps::ServerCaps;
use crate::finding::Strictness;
use crate::limits::Limits;
use crate::secret::Redactor;

/// Which side we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Calls tools.
    Client,
    /// Offers them.
    Server,
}

/// Client: how the era is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EraChoice {
    /// Probe, fall back to the handshake.
    #[default]
    Auto,
    /// Only the handshake.
    Legacy,
    /// Only the probe; no handshake ever.
    Modern,
}

/// Server: who keeps what clients want to hear of: their listens, their subscriptions and their log level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interests {
    /// The session.
    #[default]
    Kept,
    /// Our side: such calls are handed to it like any other. A session in between has nothing to tell of its own.
    Handed,
}

/// Client: what becomes of an answer that does not say whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attribution {
    /// It is recorded, and changes nothing: with many callers nobody's call is ended by a guess.
    #[default]
    ById,
    /// It is taken for the answer to the one call that it can be meant for: the only one in flight, or the one that is left
    /// when all others have their answers. So whoever waits for it learns of it at once.
    OnlyCall,
}

/// Client: whether results are looked at before whoever called has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shapes {
    /// No: whoever reads one will see, and whoever passes it on need not.
    #[default]
    Trusted,
    /// Results of known methods are compared with what the schema says. A deviation is recorded; a strict session
    /// does not use what deviates.
    Checked,
}

/// Whether our name and version go with every message of the modern era.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Disclosure {
    /// Yes.
    #[default]
    Named,
    /// No; the peer must cope.
    Anonymous,
}

/// Cache hints for what the core answers itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheHint {
    /// How long the answer stays fresh.
    pub ttl: Duration,
    /// Who may share it.
    pub scope: CacheScope,
}

/// Who may share a cached answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// Everyone.
    Public,
    /// One authorization context.
    Private,
}

impl Default for CacheHint {
    fn default() -> Self {
        Self { ttl: Duration::ZERO, scope: CacheScope::Private }
    }
}

/// The configuration of a session.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which side we are.
    pub role: Role,
    /// Our name and version: an `Implementation` object.
    pub identity: Bytes,
    /// What we offer: a capabilities object of our role.
    pub capabilities: Bytes,
    /// Server: hints for the model, as JSON text of a string.
    pub instructions: Option<Bytes>,
    /// What we speak.
    pub revisions: Revisions,
    /// Client: how the era is settled.
    pub era: EraChoice,
    /// Client: what a modern server answers to `server/discover`, where somebody has asked it already: then nothing is asked.
    pub greeting: Option<Bytes>,
    /// Server: who keeps what clients want to hear of.
    pub interests: Interests,
    /// Whether we name ourselves in the modern era.
    pub disclosure: Disclosure,
    /// Server: how long `server/discover` and lists without hints of their own stay fresh.
    pub cache: CacheHint,
    /// Client: values of `resultType` beyond the core ones that declared extensions bring.
    pub result_types: Vec<Box<str>>,
    /// How much deviation is accepted.
    pub strictness: Strictness,
    /// Client: what becomes of an answer that does not say whose it is.
    pub attribution: Attribution,
    /// Client: whether results are looked at.
    pub shapes: Shapes,
    /// The foreign wire form to speak, if any.
    pub dialect: Dialect,
    /// Every bound.
    pub limits: Limits,
    /// What findings do not show.
    pub secrets: Redactor,
    /// What follows from the rest.
    pub memo: Memo,
}

/// What follows from a configuration, worked out once for all its sessions: over HTTP there is one per call.
/// A copy starts anew, for something in it may be changed.
#[derive(Debug, Default)]
pub struct Memo {
    server_caps: OnceLock<ServerCaps>,
    tail: OnceLock<Bytes>,
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Config {
    /// Server: what we offer.
    #[must_use]
    pub fn server_caps(&self) -> &ServerCaps {
        self.memo.server_caps.get_or_init(|| ServerCaps::read(&self.capabilities))
    }

    /// Server: what every modern result ends with.
    pub(crate) fn tail(&self, make: impl FnOnce() -> Bytes) -> &Bytes {
        self.memo.tail.get_or_init(make)
    }

    /// A configuration with defaults; `identity` and `capabilities` are JSON objects.
    #[must_use]
    pub fn new(role: Role, identity: Bytes, capabilities: Bytes) -> Self {
        Self {
            role,
            identity,
            capabilities,
            instructions: None,
            revisions: Revisions::ALL,
            era: EraChoice::Auto,
            greeting: None,
            interests: Interests::Kept,
            disclosure: Disclosure::Named,
            cache: CacheHint::default(),
            result_types: Vec::new(),
            strictness: Strictness::Standard,
            attribution: Attribution::ById,
            shapes: Shapes::Trusted,
            dialect: Dialect::Standard,
            limits: Limits::DEFAULT,
            secrets: Redactor::default(),
            memo: Memo::default(),
        }
    }
}
