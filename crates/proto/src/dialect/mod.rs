//! Named foreign wire forms, translated at the edge: eras and sessions never learn of them.
//!
//! A dialect is a set of quirks. On the way in a foreign frame becomes a standard one, on the way
//! out a standard message becomes a foreign one. [`quirk`] lists the quirks, `profile` says which
//! dialect grants which, [`tutorial`] and [`cortex`] translate. The published protocol pays one
//! branch per frame for all of this.

pub mod cortex;
mod profile;
pub mod quirk;
pub mod tutorial;

use std::sync::Arc;

use bytes::Bytes;

use self::quirk::Quirk;
use crate::finding::Rule;
use crate::method::Method;
use crate::session::config::{Config, EraChoice};
use crate::session::event::{NewCall, Outgoing, Refusal};

/// A foreign wire form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Dialect {
    /// None: the protocol as published.
    #[default]
    Standard,
    /// A tutorial's: `initialized`, `shutdown`, bare data events, `x-client-id`.
    Tutorial,
    /// Tool calls only: closed schemas, no handshake.
    Cortex(CortexForm),
    /// Batches in any revision.
    JsonRpcBatch,
}

/// How a client of the cortex dialect writes a call. A server reads both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CortexForm {
    /// `{jsonrpc, id, method, params}`, over stdio and HTTP.
    Envelope,
    /// `{id, name, arguments}`, over WebSocket.
    Frame,
}

impl Dialect {
    /// Must frames be translated at all?
    pub(crate) const fn translates(self) -> bool {
        matches!(self, Self::Tutorial | Self::Cortex(_))
    }

    /// What a server that is never greeted would say, and its capabilities.
    pub(crate) fn synthetic_greeting(self) -> Option<(&'static [u8], &'static [u8])> {
        let (greeting, capabilities) = (br#"{"capabilities":{"tools":{}}}"#, br#"{"tools":{}}"#);
        matches!(self, Self::Cortex(_)).then_some((greeting, capabilities))
    }

    /// Does the method exist in this form?
    pub(crate) fn speaks(self, method: &Method) -> bool {
        !matches!(self, Self::Cortex(_)) || *method == Method::ToolsCall
    }

    /// Can a caller say that it wants progress? Where it cannot, what comes was not unasked.
    pub(crate) const fn has_progress_tokens(self) -> bool {
        !matches!(self, Self::Cortex(_))
    }

    /// Why a call of ours cannot be told in this form.
    pub(crate) fn refusal(self, call: &NewCall) -> Option<Refusal> {
        match self {
            Self::Standard | Self::Tutorial | Self::JsonRpcBatch => None,
            Self::Cortex(_) => cortex::refusal(call).map(Refusal::NotInDialect),
        }
    }

    /// The kind of the server-sent events that carry messages; none: events have no kind.
    #[must_use]
    pub fn sse_event_kind(self) -> Option<&'static str> {
        (!self.grants(Quirk::BareEvents)).then_some("message")
    }
}

/// What became of a frame or message at the edge.
#[derive(Debug)]
pub(crate) struct Translated<T> {
    /// What goes on; nothing: it ends here.
    pub(crate) what: Option<T>,
    /// What was granted on the way.
    pub(crate) quirks: Vec<Quirk>,
    /// What even the dialect does not allow.
    pub(crate) found: Vec<(Rule, String)>,
}

impl<T> Translated<T> {
    fn as_is(what: T) -> Self {
        Self { what: Some(what), quirks: Vec::new(), found: Vec::new() }
    }

    fn by(quirk: Quirk, what: T) -> Self {
        Self { quirks: vec![quirk], ..Self::as_is(what) }
    }

    fn nothing(quirk: Quirk) -> Self {
        Self { what: None, quirks: vec![quirk], found: Vec::new() }
    }
}

/// A foreign frame as a standard one.
pub(crate) fn inbound(frame: &Bytes, config: &Config) -> Translated<Bytes> {
    // A frame that is too long is refused unread.
    if frame.len() > config.limits.frame_bytes {
        return Translated::as_is(frame.clone());
    }
    match config.dialect {
        Dialect::Standard | Dialect::JsonRpcBatch => Translated::as_is(frame.clone()),
        Dialect::Tutorial => tutorial::inbound(frame, config),
        Dialect::Cortex(_) => cortex::inbound(frame, config),
    }
}

/// A standard message in the foreign form.
pub(crate) fn outbound(message: Outgoing, config: &Config) -> Translated<Outgoing> {
    match config.dialect {
        Dialect::Standard | Dialect::JsonRpcBatch => Translated::as_is(message),
        Dialect::Tutorial => tutorial::outbound(message),
        Dialect::Cortex(form) => cortex::outbound(message, form),
    }
}

/// The standard name of a note that is known under another one, whatever the dialect.
pub(crate) fn standard_note(method: &Method) -> Option<(Method, Quirk)> {
    match method {
        Method::Other(name) if **name == *tutorial::INITIALIZED => {
            Some((Method::Initialized, Quirk::InitializedHeard))
        }
        _ => None,
    }
}

/// The configuration that a dialect leaves possible.
pub(crate) fn narrowed(config: Arc<Config>) -> Arc<Config> {
    match (config.dialect, config.era) {
        // The tutorial knows of no probe.
        (Dialect::Tutorial, EraChoice::Auto) => {
            Arc::new(Config { era: EraChoice::Legacy, ..Config::clone(&config) })
        }
        _ => config,
    }
}
