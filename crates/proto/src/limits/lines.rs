//! Bounds of looking for answers that are there and are no messages.

use std::time::Duration;

/// How long something better is waited for: nobody notices it, and a server that is not run for a moment between two
/// writes is not blamed.
pub const PATIENCE: Duration = Duration::from_millis(250);

/// In how many places of a line an answer is looked for: each may cost a scan of all that follows.
pub const PLACES: usize = 4;
