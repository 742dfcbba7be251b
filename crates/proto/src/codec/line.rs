//! Newline framing: stdio and raw sockets.
//!
//! One line is one frame. Lines are told apart as bytes, so a character or a CRLF cut by the
//! edge of a read is whole again. Foreign habits are forgiven here: CRLF, blanks around the
//! line, blank lines and a byte order mark in front of the first. A writer needs no help: it
//! appends `\n` to compact JSON, which has no newline inside.

use std::mem;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use super::{BYTE_ORDER_MARK, work};

/// Takes lines off the front of a read buffer.
///
/// The buffer belongs to the caller, who appends what was read and then calls
/// [`next`](Self::next) until it returns `None`; at the end of the stream, [`finish`](Self::finish)
/// likewise. Nothing else may take bytes off the buffer in between.
#[derive(Debug)]
pub struct LineDecoder {
    frame_bytes: usize,
    /// Length of the front of the buffer that is known to hold no newline.
    searched: usize,
    /// Bytes of the current line that were thrown away; not zero while an oversize line is skipped.
    dropped: u64,
    /// How much of the front of such a line is kept, and what was.
    head_bytes: usize,
    head: Bytes,
    place: Place,
}

/// What was found in front of a newline, or of the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line that is not blank, without the blanks around it.
    Frame(Bytes),
    /// A line longer than the limit, gone. The next line is not affected.
    Oversize {
        /// Its length without the newline.
        bytes: u64,
        /// Its beginning, as much as the decoder was told to keep.
        head: Bytes,
    },
    /// What came after the last newline before the stream ended: half a message, or a whole one
    /// of a writer that forgot the newline.
    Unterminated(Bytes),
}

/// A byte order mark is one only in front of the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    FirstLine,
    LaterLine,
}

impl LineDecoder {
    /// A decoder for lines of at most `frame_bytes`, their line end not counted.
    pub fn new(frame_bytes: usize) -> Self {
        Self {
            frame_bytes,
            searched: 0,
            dropped: 0,
            head_bytes: 0,
            head: Bytes::new(),
            place: Place::FirstLine,
        }
    }

    /// The same, that keeps so much of the front of a line which is too long.
    #[must_use]
    pub fn keeping_head(self, head_bytes: usize) -> Self {
        Self { head_bytes, ..self }
    }

    /// Takes the next line off the front of `buf`; `None`: more bytes are needed.
    pub fn next(&mut self, buf: &mut BytesMut) -> Option<Line> {
        loop {
            let Some(end) = self.newline(buf) else {
                self.wait(buf);
                return None;
            };
            let line = self.take(buf, end, end + 1);
            if line.is_some() {
                return line;
            }
        }
    }

    /// At the end of the stream: what is left in `buf`, one item at a time.
    pub fn finish(&mut self, buf: &mut BytesMut) -> Option<Line> {
        if let Some(line) = self.next(buf) {
            return Some(line);
        }
        match self.take(buf, buf.len(), buf.len())? {
            Line::Frame(bytes) => Some(Line::Unterminated(bytes)),
            other => Some(other),
        }
    }

    /// Is it known that there is no whole line in `buf`?
    #[must_use]
    pub fn has_searched(&self, buf: &[u8]) -> bool {
        self.searched == buf.len()
    }

    /// Where the newline is, looking only at bytes not looked at before.
    fn newline(&self, buf: &[u8]) -> Option<usize> {
        let from = self.searched.min(buf.len());
        let found = memchr(b'\n', &buf[from..]);
        work::add(found.map_or(buf.len() - from, |at| at + 1));
        found.map(|at| from + at)
    }

    /// No newline yet: remembers how far was searched, and gives up on a line that is too long.
    fn wait(&mut self, buf: &mut BytesMut) {
        self.searched = buf.len();
        if self.dropped > 0 {
            // While skipping, the buffer is as small as one read: keep it for the next.
            self.drop_front(buf.len());
            buf.clear();
        } else if buf.len() > self.frame_bytes.saturating_add(1) {
            // One byte more than the limit may still be the CR of a CRLF.
            self.head = self.head_of(buf);
            self.drop_front(buf.len());
            *buf = BytesMut::new();
        }
    }

    /// A copy: a part of the buffer would keep all of it.
    fn head_of(&self, line: &[u8]) -> Bytes {
        let unmarked = match self.place {
            Place::FirstLine => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            Place::LaterLine => line,
        };
        Bytes::copy_from_slice(&unmarked[..self.head_bytes.min(unmarked.len())])
    }

    fn drop_front(&mut self, bytes: usize) {
        self.dropped += bytes as u64;
        self.searched = 0;
    }

    /// Takes `whole` bytes, a line of `end` bytes and its newline if it has one; `None`: it is blank.
    fn take(&mut self, buf: &mut BytesMut, end: usize, whole: usize) -> Option<Line> {
        let dropped = mem::take(&mut self.dropped);
        self.searched = 0;
        let raw = &buf[..end];
        if dropped > 0 || raw.strip_suffix(b"\r").unwrap_or(raw).len() > self.frame_bytes {
            let head = if dropped > 0 { mem::take(&mut self.head) } else { self.head_of(raw) };
            self.place = Place::LaterLine;
            buf.advance(whole);
            return Some(Line::Oversize { bytes: dropped + end as u64, head });
        }
        let place = mem::replace(&mut self.place, Place::LaterLine);

        let marked = place == Place::FirstLine && raw.starts_with(BYTE_ORDER_MARK);
        let mark_bytes = if marked { BYTE_ORDER_MARK.len() } else { 0 };
        let text = raw[mark_bytes..].trim_ascii_start();
        let start = end - text.len();
        let text_bytes = text.trim_ascii_end().len();

        if text_bytes == 0 {
            buf.advance(whole);
            return None;
        }
        let mut line = buf.split_to(whole);
        line.truncate(start + text_bytes);
        line.advance(start);
        Some(Line::Frame(line.freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T20, S3-22: sixteen mebibytes, a byte at a time, and each byte is looked at once.
    #[test]
    fn t20_byte_by_byte_is_linear() {
        let total: u64 = 16 << 20;
        let mut decoder = LineDecoder::new(total as usize);
        let mut buf = BytesMut::new();
        for _ in 1..total {
            buf.extend_from_slice(b"x");
            assert_eq!(decoder.next(&mut buf), None);
            assert_eq!(work::take(), 1);
        }
        buf.extend_from_slice(b"\n");
        assert!(matches!(decoder.next(&mut buf), Some(Line::Frame(line)) if line.len() as u64 == total - 1));
        assert_eq!(work::take(), 1);
    }

    /// S3-22: a burst of lines in one buffer is searched once, not once per line.
    #[test]
    fn s3_22_a_burst_is_linear() {
        let mut decoder = LineDecoder::new(64);
        let mut buf = BytesMut::from(&b"{\"a\":1}\n".repeat(50_000)[..]);
        let total = buf.len() as u64;
        let mut frames = 0;
        while let Some(Line::Frame(_)) = decoder.next(&mut buf) {
            frames += 1;
        }
        assert_eq!((frames, work::take()), (50_000, total));
    }

    /// S3-22: a frame is a part of the read buffer, not a copy of it.
    #[test]
    fn frames_are_not_copied() {
        let mut decoder = LineDecoder::new(64);
        let mut buf = BytesMut::from(&b"  {\"a\":1}\r\nrest"[..]);
        let front = buf.as_ptr();
        let Some(Line::Frame(frame)) = decoder.next(&mut buf) else { panic!("the line is whole") };
        assert_eq!(frame.as_ptr(), front.wrapping_add(2));
    }
}
