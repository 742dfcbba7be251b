//! Two ends of a link in one process, without files or sockets.

use cardan_proto::limits::Limits;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

use crate::lines::Lines;

/// One end.
pub type MemoryLink = Lines<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// What one direction holds before the writer waits: as much as a pipe.
const PIPE_BYTES: usize = 64 << 10;

/// A pair of connected ends.
#[must_use]
pub fn pair(limits: &Limits) -> (MemoryLink, MemoryLink) {
    let (left, right) = tokio::io::duplex(PIPE_BYTES);
    let (left_read, left_write) = tokio::io::split(left);
    let (right_read, right_write) = tokio::io::split(right);
    (Lines::new(left_read, left_write, limits), Lines::new(right_read, right_write, limits))
}
