//! What is told of an answer before it. Exchanges run side by side, so each step, and the answer after the last of them, waits until
//! the server has the step before it.

use cardan_proto::jsonrpc::envelope::Envelope;
use cardan_proto::method::Method;
use cardan_proto::session::event::Outgoing;

use crate::held::Held;

/// Steps and answers, in their order.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// What is behind the step that is on its way; none: there is no such step.
    waiting: Option<Held>,
}

/// Whether the server has a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// It answered.
    Yes,
    /// It said nothing for a while.
    Unknown,
}

impl Steps {
    /// Must it wait? Then it is kept. A step that need not is on its way from now on.
    pub(crate) fn keep(&mut self, frame: u64, message: &Outgoing) -> bool {
        let step = is_step(message);
        if !step && !matches!(message, Outgoing::One(Envelope::Reply(_)) | Outgoing::Batch(_)) {
            return false;
        }
        match &mut self.waiting {
            Some(waiting) => {
                waiting.push_back(frame, message.clone());
                return true;
            }
            None if step => self.waiting = Some(Held::default()),
            None => {}
        }
        false
    }

    /// The step that was on its way has arrived, or may have: what goes now, the next step being the last of it. To a server
    /// that takes none no more are told, so that the answer need not wait for each.
    pub(crate) fn next(&mut self, arrived: Arrived) -> Vec<(u64, Outgoing)> {
        let Some(mut waiting) = self.waiting.take() else { return Vec::new() };
        let mut free = Vec::new();
        while let Some((frame, message)) = waiting.pop_front() {
            match (is_step(&message), arrived) {
                (true, Arrived::Unknown) => {}
                (true, Arrived::Yes) => {
                    free.push((frame, message));
                    self.waiting = Some(waiting);
                    break;
                }
                (false, _) => free.push((frame, message)),
            }
        }
        free
    }

    /// What waits, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.as_ref().map_or(0, Held::bytes)
    }
}

/// Does it tell how far something has come?
pub(crate) fn is_step(message: &Outgoing) -> bool {
    matches!(message, Outgoing::One(Envelope::Note(note)) if note.method == Method::Progress)
}
