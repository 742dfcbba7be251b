//! What a transport must do: deliver frames, take messages, and tell how it ended.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::era::Revision;
use cardan_proto::finding::Rule;
use cardan_proto::jsonrpc::envelope::{Decoded, Violation};
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::session::event::{Abilities, Cause, Delivery, Departed, Hurdle, LaneId, Outgoing};

use crate::witness::Witness;

/// Why there is no link: an error that says what stood in the way. One that does not know better says that nobody answers.
pub trait NoLink: Error {
    /// What stood in the way.
    fn hurdle(&self) -> Hurdle {
        Hurdle::Connect
    }
}

impl NoLink for io::Error {
    fn hurdle(&self) -> Hurdle {
        match self.kind() {
            io::ErrorKind::TimedOut => Hurdle::Late,
            io::ErrorKind::InvalidInput => Hurdle::Config,
            _ => Hurdle::Connect,
        }
    }
}

impl NoLink for Infallible {}

/// One live attachment to a peer.
///
/// Reading and writing are independent: neither waits for the other, ever. A driver polls both from
/// one task, so a link needs no locks and no tasks of its own.
pub trait Link: Send + 'static {
    /// The next thing from the peer. Not polled again after [`Received::Ended`].
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received>;

    /// Takes a message to be written after those before it on its lane. Its number rises with every message
    /// of the link; not every number is used. Never waits; what waits is counted by [`Link::queued`].
    fn put(&mut self, frame: u64, lane: LaneId, message: &Outgoing);

    /// Takes a message that need not wait for bulk before it: it may go before whatever has not begun to leave.
    /// Only for a link that tells by [`Link::departed`] what has begun.
    fn put_ahead(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        self.put(frame, lane, message);
    }

    /// Takes back a message that was put and, by [`Link::departed`], has not begun to leave. Where closing a lane
    /// cancels, closes the lane of the call that was put as this message, however far it has come.
    fn retract(&mut self, frame: u64) {
        let _ = frame;
    }

    /// Nothing follows on a lane, not even a reply. Of interest where a lane belongs to one call.
    fn end_lane(&mut self, lane: LaneId) {
        let _ = lane;
    }

    /// The reader of a lane may leave and come back for the rest after `retry`. A link that cannot resume
    /// keeps its reader.
    fn release(&mut self, lane: LaneId, retry: Duration) {
        let _ = (lane, retry);
    }

    /// Writes what was put. Ready when nothing is left.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Bytes that wait to be written.
    fn queued(&self) -> usize;

    /// How far it has come with the messages. A link that keeps them in order and gives none back answers
    /// [`Departed::through`] the last one that it has written.
    fn departed(&self) -> Departed;

    /// What it can do beside moving frames. Asked again every turn: a link may learn it.
    fn abilities(&self) -> Abilities {
        Abilities::STREAM
    }

    /// How many bytes were read so far, whether or not they are a message yet. Zero: it does not tell.
    fn received_bytes(&self) -> u64 {
        0
    }

    /// What was read of a line whose end was not. Empty: nothing, or messages are told apart otherwise.
    fn begun(&self) -> &[u8] {
        &[]
    }

    /// The era is settled: what follows is of this revision. Links whose heads name it want to know.
    fn settled(&mut self, revision: Revision) {
        let _ = revision;
    }

    /// Who knows more of the other side than its messages tell, such as a child's last words.
    fn witness(&self) -> Option<Arc<dyn Witness>> {
        None
    }

    /// The link has ended or is about to, for `cause` as far as is known. A link that may learn more,
    /// such as how a child's process ended, waits briefly for it, and lets its witness know what there is by now.
    /// Ready at once where there is nothing to learn.
    fn poll_explain(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<Cause> {
        let _ = cx;
        Poll::Ready(cause.clone())
    }

    /// Tears the link down, politely first, within bounds. Callers have their outcomes already.
    fn poll_close(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<()>;
}

/// Something from the peer.
#[derive(Debug)]
pub enum Received {
    /// One message.
    Frame {
        /// The lane it came on.
        lane: LaneId,
        /// Its bytes.
        bytes: Bytes,
    },
    /// One message that the link has read already, to know where it belongs.
    Read {
        /// The lane it came on.
        lane: LaneId,
        /// What it holds.
        decoded: Decoded,
    },
    /// Something that is no message.
    Broken {
        /// The lane it came on.
        lane: LaneId,
        /// What is wrong with it.
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
    /// A deviation beside the lanes.
    Noticed {
        /// Which rule it breaks.
        rule: Rule,
        /// What was seen, in short.
        detail: Box<str>,
    },
    /// Something failed that belongs to no message. The link may be well all the same.
    Doubted {
        /// What.
        why: Box<str>,
    },
    /// The peer sends nothing more; it may still read.
    ReadClosed,
    /// The link is gone.
    Ended(Cause),
}
