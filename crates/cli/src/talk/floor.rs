//! Who has the floor on stderr: while a person is asked something, everything else waits.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::progress::{Hold, hold, over};

/// What waits for the end of the question; nothing: nobody is asked.
static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

#[derive(Default)]
struct Waiting {
    texts: Vec<String>,
    /// How many came when there was no more room.
    dropped: usize,
}

/// More than anyone reads after a question.
const MAX_TEXTS: usize = 500;

/// The floor, as long as it is held. What waited is told at its end.
#[derive(Debug)]
pub(super) struct Floor {
    /// Progress waits too.
    _hold: Hold,
}

impl Floor {
    /// Only one question is put at a time: the console sees to that.
    pub(super) fn take() -> Self {
        *waiting() = Some(Waiting::default());
        Self { _hold: hold() }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let Some(Waiting { texts, dropped }) = waiting().take() else { return };
        texts.into_iter().for_each(write);
        if dropped > 0 {
            write(format!("{dropped} more lines came meanwhile and are not shown\n"));
        }
    }
}

/// Writes to stderr, after the question that is being asked there. Nobody is left to hear that it is closed.
pub(crate) fn write(text: String) {
    let mut waiting = waiting();
    match waiting.as_mut() {
        Some(waiting) if waiting.texts.len() < MAX_TEXTS => waiting.texts.push(text),
        Some(waiting) => waiting.dropped += 1,
        None => over(&text),
    }
}

fn waiting() -> MutexGuard<'static, Option<Waiting>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_for_the_end_of_a_question() {
        let held = || waiting().as_ref().map(|waiting| (waiting.texts.len(), waiting.dropped));
        let floor = Floor::take();
        for _ in 0..=MAX_TEXTS {
            write(String::new());
        }
        assert_eq!(held(), Some((MAX_TEXTS, 1)));
        drop(floor);
        assert_eq!(held(), None);
    }
}
