//! Bytes to frames and back, for every lane that is a stream of bytes.
//!
//! A decoder is fed whatever a read returned and hands out whole frames: cut anywhere, joined
//! anyhow, the frames are the same. What is too long is skipped and reported with its size, so
//! that memory stays within the limit and the link lives on. Each byte is looked at once.
//! Whether a frame is a message is for the envelope scanner to judge: no text is decoded here.

pub mod line;
pub mod sse;

pub use line::{Line, LineDecoder};
pub use sse::{EventKind, SseDecoder, SseEvent, SseItem};

/// What some programs put in front of UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Counts the bytes that a decoder looks at or copies, so that tests can tell linear from
/// quadratic without a clock. Outside of this crate's own tests there is nothing to it.
mod work {
    #[cfg(test)]
    thread_local!(static BYTES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

    #[cfg(test)]
    pub(super) fn add(bytes: usize) {
        BYTES.set(BYTES.get() + bytes as u64);
    }

    #[cfg(not(test))]
    pub(super) fn add(_bytes: usize) {}

    /// What this test has counted since it last asked.
    #[cfg(test)]
    pub(super) fn take() -> u64 {
        BYTES.take()
    }
}
