//! What was handed to the WebSocket, and how much of it is written.
//!
//! Frames go out in the order in which they were handed over, so the length of each tells which are written
//! when the stream has taken so many bytes.

use std::collections::VecDeque;

use cardan_proto::session::config::Role;

/// Bytes handed over and bytes written, with the ends of messages and pongs among them.
#[derive(Debug)]
pub(crate) struct Ledger {
    put: u64,
    done: u64,
    /// Where each ends, and its number.
    messages: VecDeque<(u64, u64)>,
    pongs: VecDeque<u64>,
    written: u64,
    frame_bytes: usize,
    mask_bytes: u64,
}

impl Ledger {
    pub(crate) fn new(role: Role, frame_bytes: usize) -> Self {
        Self {
            put: 0,
            done: 0,
            messages: VecDeque::new(),
            pongs: VecDeque::new(),
            written: 0,
            frame_bytes: frame_bytes.max(1),
            mask_bytes: match role {
                Role::Client => 4,
                Role::Server => 0,
            },
        }
    }

    /// The message of this number and length was handed over, in as many frames as it takes.
    pub(crate) fn message(&mut self, number: u64, len: usize) {
        let mut left = len;
        while left > self.frame_bytes {
            self.put += self.frame(self.frame_bytes);
            left -= self.frame_bytes;
        }
        self.put += self.frame(left);
        self.messages.push_back((self.put, number));
    }

    /// A ping was answered.
    pub(crate) fn pong(&mut self, len: usize) {
        self.control(len);
        self.pongs.push_back(self.put);
    }

    /// A ping or a close frame of ours.
    pub(crate) fn control(&mut self, len: usize) {
        self.put += self.frame(len);
    }

    /// The stream has taken so many bytes in all.
    pub(crate) fn settle(&mut self, taken: u64) {
        self.done = taken;
        while let Some((_, number)) = self.messages.pop_front_if(|(end, _)| *end <= taken) {
            self.written = number;
        }
        while self.pongs.pop_front_if(|end| *end <= taken).is_some() {}
    }

    /// Bytes that wait.
    pub(crate) fn queued(&self) -> usize {
        usize::try_from(self.put.saturating_sub(self.done)).unwrap_or(usize::MAX)
    }

    /// Pongs that wait.
    pub(crate) fn pongs(&self) -> usize {
        self.pongs.len()
    }

    /// The number of the last message that is written in full.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    fn frame(&self, payload: usize) -> u64 {
        let header = match payload {
            0..=125 => 2,
            126..=0xffff => 4,
            _ => 10,
        };
        header + self.mask_bytes + payload as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_count_when_their_last_byte_is_written() {
        let mut ledger = Ledger::new(Role::Server, 1000);
        ledger.message(4, 100);
        ledger.pong(5);
        ledger.message(7, 2500);
        assert_eq!(ledger.queued(), 102 + 7 + 1004 + 1004 + 504);
        ledger.settle(101);
        assert_eq!((ledger.written(), ledger.pongs()), (0, 1));
        ledger.settle(109);
        assert_eq!((ledger.written(), ledger.pongs()), (4, 0));
        ledger.settle(102 + 7 + 1004 + 1004 + 504);
        assert_eq!((ledger.written(), ledger.queued()), (7, 0));
    }

    #[test]
    fn a_message_that_fills_its_frames_needs_no_empty_one() {
        let mut ledger = Ledger::new(Role::Client, 100);
        ledger.message(1, 200);
        assert_eq!(ledger.queued(), 2 * (2 + 4 + 100));
        ledger.message(2, 0);
        assert_eq!(ledger.queued(), 2 * (2 + 4 + 100) + 6);
    }
}
