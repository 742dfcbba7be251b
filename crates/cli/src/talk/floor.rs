//! Who has the floor on stderr: while a person is asked something, everything else waits.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::progress::{Hold, hold, over};

/// What waits for the end of the question; nothing: nobody is asked.
static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

#[derive(Default)]
struct Waiting {
    lines: Vec<String>,
    /// How many came when there was no more room.
    dropped: usize,
}

/// More lines than anyone reads after a question.
const MAX_LINES: usize = 500;

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
        let Some(Waiting { lines, dropped }) = waiting().take() else { return };
        for line in lines {
            over(&line);
        }
        if dropped > 0 {
            over(&format!("{dropped} more lines came meanwhile and are not shown\n"));
        }
    }
}

/// Keeps a line while someone is asked. Nothing was kept: it can be told at once.
pub(crate) fn keep(line: &str) -> Kept {
    let mut waiting = waiting();
    let Some(waiting) = waiting.as_mut() else { return Kept::No };
    if waiting.lines.len() < MAX_LINES {
        waiting.lines.push(line.to_owned());
    } else {
        waiting.dropped += 1;
    }
    Kept::Yes
}

/// Whether a line waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Yes,
    No,
}

fn waiting() -> MutexGuard<'static, Option<Waiting>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_for_the_end_of_a_question() {
        assert_eq!(keep("before"), Kept::No);
        let floor = Floor::take();
        for _ in 0..=MAX_LINES {
            assert_eq!(keep("meanwhile"), Kept::Yes);
        }
        let held = waiting().as_ref().map(|waiting| (waiting.lines.len(), waiting.dropped));
        assert_eq!(held, Some((MAX_LINES, 1)));
        drop(floor);
        assert_eq!(keep("after"), Kept::No);
    }
}
