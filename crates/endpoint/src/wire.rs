//! The bytes of a message, on their way to a client.

use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::{Envelope, Reply};
use cardan_proto::jsonrpc::write::{REPLY_END, reply_start};
use cardan_proto::session::event::Outgoing;

use crate::body::Body;

/// A message as it is written. A large result is not copied once more behind its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wire {
    Whole(Bytes),
    Large { start: Bytes, result: Bytes },
}

/// From this size on a result is written where it is.
const LARGE: usize = 16 << 10;

impl Wire {
    pub(crate) fn of(message: &Outgoing) -> Self {
        let mut out = Vec::with_capacity(256);
        if let Outgoing::One(Envelope::Reply(Reply { id, outcome: Ok(result) })) = message
            && result.len() >= LARGE
        {
            reply_start(id.as_ref(), &mut out);
            return Self::Large { start: Bytes::from(out), result: result.clone() };
        }
        message.write(&mut out);
        Self::Whole(Bytes::from(out))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Large { start, result } => start.len() + result.len() + REPLY_END.len(),
        }
    }

    /// In one piece.
    pub(crate) fn joined(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Large { start, result } => Bytes::from([&start, &result, REPLY_END].concat()),
        }
    }

    pub(crate) fn into_body(self) -> Body {
        match self {
            Self::Whole(bytes) => Body::full(bytes),
            Self::Large { start, result } => Body::parts([start, result, Bytes::from_static(REPLY_END)]),
        }
    }
}

/// A reply is the last thing on the lane of its call.
pub(crate) fn is_reply(message: &Outgoing) -> bool {
    matches!(message, Outgoing::One(Envelope::Reply(_)) | Outgoing::Batch(_))
}
