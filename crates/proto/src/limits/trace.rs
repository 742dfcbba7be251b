//! Bounds of traces: how many spans wait, for how long, and how often they are handed in.

use std::time::Duration;

/// Spans that wait to be exported. More are dropped and counted: a call never waits for them.
pub const QUEUE: usize = 2048;

/// Bytes of a `tracestate` that a span keeps: eight times what the recommendation wants passed on. A longer one is passed on all the same.
pub const STATE: usize = 4096;

/// Spans that are handed in at once.
pub const BATCH: usize = 512;

/// How long a span waits for others, so that many go together; no longer than someone who looks at them likes to wait.
pub const DELAY: Duration = Duration::from_secs(1);

/// How long handing in a batch may take.
pub const POST: Duration = Duration::from_secs(10);

/// How often a batch is handed in that is not taken.
pub const ATTEMPTS: u32 = 5;

/// The pause after the first failure; each later one is twice as long.
pub const BACKOFF: Duration = Duration::from_secs(1);

/// How long the end waits for what is left.
pub const FLUSH: Duration = Duration::from_secs(5);
