//! Whether the server had the call, as far as that is known of a failure.

use cardan_proto::session::event::Delivery;

use super::Failure;
use crate::exit::Exit;

impl Failure {
    /// With whether the server had the call.
    pub(crate) fn delivered(mut self, delivery: Delivery) -> Self {
        self.circumstances.delivery = Some(delivery);
        self
    }

    /// There was a session. Whether the server had the call is a question then, unless the command itself was wrong.
    pub(crate) fn in_session(self) -> Self {
        match self.exit {
            Exit::Usage | Exit::Unwritten | Exit::Done => self,
            _ => {
                let delivery = self.delivery();
                self.delivered(delivery)
            }
        }
    }

    /// A call was on its way: whoever interrupts it does not learn what became of it.
    pub(crate) fn underway(self) -> Self {
        match (self.exit, self.circumstances.delivery) {
            (Exit::Interrupted, None) => self.delivered(Delivery::Unknown),
            _ => self,
        }
    }

    /// A person was asked for input and did not give it. Whether the server had the call is known from what came of it.
    pub(crate) fn unanswered(self, outcome: &Result<(), Self>) -> Self {
        let delivery = outcome.as_ref().map_or_else(Self::delivery, |()| Delivery::Sent);
        self.delivered(delivery)
    }

    /// The server had answered by then, if it is about what it answered.
    pub(crate) fn behind_answer(mut self) -> Self {
        self.circumstances.answered |= self.exit == Exit::Unwritten;
        self
    }

    pub(super) fn delivery(&self) -> Delivery {
        match (self.circumstances.delivery, self.circumstances.answered) {
            (Some(delivery), _) => delivery,
            (None, true) => Delivery::Sent,
            (None, false) => Delivery::NotSent,
        }
    }
}
