//! Named foreign wire forms, translated at the edge: eras and sessions never learn of them.

use bytes::Bytes;

use crate::session::config::Config;
use crate::session::event::Outgoing;

/// The call that the tutorial makes before it leaves. It is in no revision.
pub const SHUTDOWN: &str = "shutdown";

/// A foreign wire form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Dialect {
    /// None: the protocol as published.
    #[default]
    Standard,
    /// A tutorial's: `initialized`, `shutdown`, bare data events, `x-client-id`.
    Tutorial,
    /// Tool calls only: `{id, name, arguments}`, closed schemas, no handshake.
    Cortex,
    /// Batches in any revision.
    JsonRpcBatch,
}

impl Dialect {
    /// Are batches fine whatever the revision?
    pub(crate) fn allows_batches(self) -> bool {
        self == Self::JsonRpcBatch
    }

    /// Are calls fine without any handshake?
    pub(crate) fn needs_no_opening(self) -> bool {
        self == Self::Cortex
    }

    /// Does a client announce that it leaves?
    pub(crate) fn says_shutdown(self) -> bool {
        self == Self::Tutorial
    }

    /// What a server can do that is never asked.
    pub(crate) fn synthetic_capabilities(self) -> Option<&'static [u8]> {
        (self == Self::Cortex).then_some(b"{\"tools\":{}}")
    }
}

/// A foreign frame as a standard one; nothing: it is one already.
pub(crate) fn inbound(_frame: &Bytes, _config: &Config) -> Option<Bytes> {
    None
}

/// A standard message in the foreign form.
pub(crate) fn outbound(message: Outgoing, _config: &Config) -> Outgoing {
    message
}
