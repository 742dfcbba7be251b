//! What is told of answers before them. Exchanges run side by side, so each step waits until the server has the step before it, and
//! an answer until it has the steps before that. Whose answer they are of is not looked at, so the wait is short: an answer counts
//! more than its steps, and these count less the older they are.

use std::collections::VecDeque;
use std::time::Duration;

use cardan_proto::jsonrpc::envelope::Envelope;
use cardan_proto::method::Method;
use cardan_proto::session::event::Outgoing;
use tokio::time::Instant;

/// So many steps wait, and so many bytes of them. The oldest make room.
const STEPS: usize = 64;
const BYTES: usize = 256 * 1024;

/// An answer that has waited so long waits for the step that is on its way, and for no other.
const PATIENCE: Duration = Duration::from_secs(1);

/// Steps and answers, in their order.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// What is behind the step that is on its way; none: there is no such step.
    waiting: Option<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<(u64, Outgoing)>,
    /// Since when an answer is among them.
    answer: Option<Instant>,
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
            Some(waiting) => waiting.push(frame, message.clone()),
            None if step => {
                self.waiting = Some(Waiting::default());
                return false;
            }
            None => return false,
        }
        true
    }

    /// The step that was on its way has arrived, or may have: what goes now, the next step being the last of it. Where the server
    /// takes none, or answers wait for too long, no step of those that wait is told any more.
    pub(crate) fn next(&mut self, arrived: Arrived) -> Vec<(u64, Outgoing)> {
        let Some(mut waiting) = self.waiting.take() else { return Vec::new() };
        if arrived == Arrived::Unknown || waiting.answer.is_some_and(|since| since.elapsed() >= PATIENCE) {
            return waiting.answers();
        }
        let next = waiting.messages.iter().position(|(_, message)| is_step(message));
        let rest = next.map(|at| waiting.messages.split_off(at + 1));
        if let Some(messages) = rest {
            // Answers that are left came later, and do not wait longer for that.
            let answer = waiting.answer.filter(|_| messages.iter().any(|(_, message)| !is_step(message)));
            self.waiting = Some(Waiting { messages, answer });
        }
        waiting.messages.into()
    }

    /// The answers that wait: nothing else is told any more.
    pub(crate) fn end(&mut self) -> Vec<(u64, Outgoing)> {
        self.waiting.take().map(Waiting::answers).unwrap_or_default()
    }
}

impl Waiting {
    fn push(&mut self, frame: u64, message: Outgoing) {
        if !is_step(&message) {
            self.answer.get_or_insert_with(Instant::now);
        }
        self.messages.push_back((frame, message));
        while self.is_too_much() {
            let Some(oldest) = self.messages.iter().position(|(_, message)| is_step(message)) else { return };
            self.messages.remove(oldest);
        }
    }

    fn is_too_much(&self) -> bool {
        let steps = || self.messages.iter().filter_map(|(_, message)| step_bytes(message));
        steps().count() > STEPS || (steps().count() > 1 && steps().sum::<usize>() > BYTES)
    }

    fn answers(mut self) -> Vec<(u64, Outgoing)> {
        self.messages.retain(|(_, message)| !is_step(message));
        self.messages.into()
    }
}

/// Does it tell how far something has come?
pub(crate) fn is_step(message: &Outgoing) -> bool {
    step_bytes(message).is_some()
}

/// What a step takes.
fn step_bytes(message: &Outgoing) -> Option<usize> {
    match message {
        Outgoing::One(Envelope::Note(note)) if note.method == Method::Progress => {
            Some(note.params.raw().map_or(0, bytes::Bytes::len))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cardan_proto::jsonrpc::envelope::{Note, Params, Reply};
    use cardan_proto::jsonrpc::id::CallId;

    use super::*;

    fn step(bytes: usize) -> Outgoing {
        let params = Params::outgoing(vec![b' '; bytes].into());
        Outgoing::One(Envelope::Note(Note { method: Method::Progress, params }))
    }

    fn answer() -> Outgoing {
        Outgoing::One(Envelope::Reply(Reply { id: Some(CallId::from(1)), outcome: Ok("{}".into()) }))
    }

    fn frames(messages: Vec<(u64, Outgoing)>) -> Vec<u64> {
        messages.into_iter().map(|(frame, _)| frame).collect()
    }

    /// T19: what waits is bounded, in number and in bytes, and the newest is told.
    #[tokio::test]
    async fn t19_a_flood_of_steps_is_its_last() {
        for (bytes, left) in [(10, STEPS), (BYTES / 4, 4), (2 * BYTES, 1)] {
            let mut steps = Steps::default();
            assert!(!steps.keep(0, &step(bytes)), "it goes");
            assert!((1..=1000).all(|frame| steps.keep(frame, &step(bytes))));
            assert!(steps.keep(1001, &answer()));
            let mut told = Vec::new();
            loop {
                match frames(steps.next(Arrived::Yes)) {
                    next if next.is_empty() => break,
                    next => told.extend(next),
                }
            }
            let first = 1001 - u64::try_from(left).unwrap();
            assert_eq!(told, (first..=1001).collect::<Vec<_>>());
        }
    }

    /// An answer waits for the steps before it, for as long as that is soon.
    #[tokio::test(start_paused = true)]
    async fn an_answer_does_not_wait_long() {
        let mut steps = Steps::default();
        assert!(!steps.keep(1, &step(1)));
        for frame in [2, 3, 5, 6] {
            assert!(steps.keep(frame, &step(1)));
            if frame == 3 {
                assert!(steps.keep(4, &answer()));
            }
        }
        tokio::time::advance(PATIENCE / 2).await;
        assert_eq!(frames(steps.next(Arrived::Yes)), [2]);
        tokio::time::advance(PATIENCE / 2).await;
        assert_eq!(frames(steps.next(Arrived::Yes)), [4], "nor are older steps told behind it");
        assert!(!steps.keep(7, &step(1)), "those that come are");
        assert!(steps.keep(8, &answer()));
        assert_eq!(frames(steps.next(Arrived::Unknown)), [8]);
        assert!(!steps.keep(9, &answer()));
    }

    /// Whoever leaves says what is left to say.
    #[tokio::test]
    async fn what_waits_at_the_end_is_answered() {
        let mut steps = Steps::default();
        assert!(!steps.keep(1, &step(1)));
        assert!(steps.keep(2, &step(1)) && steps.keep(3, &answer()));
        assert_eq!(frames(steps.end()), [3]);
        assert!(steps.end().is_empty());
    }
}
