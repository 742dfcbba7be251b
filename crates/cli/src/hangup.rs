//! SIGHUP: a wish to read the configuration again, unless it means that our terminal is gone.

use std::io::{IsTerminal as _, stderr, stdin, stdout};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What a SIGHUP means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// Someone sent it who wants the configuration to be read again.
    Reload,
    /// The terminal is gone, and so is whoever looked at us.
    Gone,
}

/// Watches for SIGHUP.
pub(crate) struct Hangups {
    signal: Signal,
    /// Which of our streams are a terminal's.
    terminals: [bool; 3],
}

impl Hangups {
    pub(crate) fn watch() -> Result<Self, Failure> {
        let signal = signal(SignalKind::hangup())
            .map_err(|error| Failure::usage(format!("cannot watch for signals: {error}")))?;
        Ok(Self { signal, terminals: terminals() })
    }

    /// Waits for the next.
    pub(crate) async fn next(&mut self) -> Hangup {
        if self.signal.recv().await.is_none() {
            // No more can come; the process ends anyway.
            return std::future::pending().await;
        }
        // The kernel sends it when a terminal is closed, which then is none any more.
        match self.terminals == terminals() {
            true => Hangup::Reload,
            false => Hangup::Gone,
        }
    }
}

fn terminals() -> [bool; 3] {
    [stdin().is_terminal(), stdout().is_terminal(), stderr().is_terminal()]
}
