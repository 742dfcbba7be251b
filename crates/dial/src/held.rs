//! What waits at the gate of a link, and how much that is.

use std::collections::VecDeque;

use cardan_proto::session::event::Outgoing;

/// Messages with their numbers on the link, in order.
#[derive(Debug, Default)]
pub(crate) struct Held {
    messages: VecDeque<(u64, Outgoing, usize)>,
    bytes: usize,
}

impl Held {
    pub(crate) fn push_back(&mut self, frame: u64, message: Outgoing) {
        let bytes = length(&message);
        self.bytes += bytes;
        self.messages.push_back((frame, message, bytes));
    }

    /// Before all others.
    pub(crate) fn push_front(&mut self, frame: u64, message: Outgoing) {
        let bytes = length(&message);
        self.bytes += bytes;
        self.messages.push_front((frame, message, bytes));
    }

    pub(crate) fn pop_front(&mut self) -> Option<(u64, Outgoing)> {
        let (frame, message, bytes) = self.messages.pop_front()?;
        self.bytes -= bytes;
        Some((frame, message))
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, frame: u64) {
        self.messages.retain(|(held, ..)| *held != frame);
        self.bytes = self.messages.iter().map(|(.., bytes)| bytes).sum();
    }

    /// The number of the first.
    pub(crate) fn first(&self) -> Option<u64> {
        self.messages.front().map(|(frame, ..)| *frame)
    }

    /// How many bytes they will be.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn length(message: &Outgoing) -> usize {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    bytes.len()
}

#[cfg(test)]
mod tests {
    use cardan_proto::jsonrpc::envelope::{Envelope, Note, Params};
    use cardan_proto::method::Method;

    use super::*;

    fn note(params: &'static str) -> Outgoing {
        let params = Params::outgoing(bytes::Bytes::from_static(params.as_bytes()));
        Outgoing::One(Envelope::Note(Note { method: Method::Progress, params }))
    }

    /// `limits.outbox_bytes` bounds what waits, wherever it waits.
    #[test]
    fn what_is_held_is_counted() {
        let mut held = Held::default();
        let (short, long) = (note("{}"), note("{\"progressToken\":1,\"progress\":2}"));
        held.push_back(2, short.clone());
        held.push_back(3, long.clone());
        held.push_front(1, long.clone());
        assert_eq!((held.bytes(), held.first()), (length(&short) + 2 * length(&long), Some(1)));
        held.remove(3);
        assert_eq!(held.bytes(), length(&short) + length(&long));
        assert_eq!(held.pop_front().map(|(frame, _)| frame), Some(1));
        held.remove(2);
        assert_eq!((held.bytes(), held.first()), (0, None));
    }
}
