//! Server-sent events, read and written as the HTML standard has them.
//!
//! There is one reader for every event stream: replies to a POST, the push lane, and the
//! legacy transport. An event is not a message: priming events have empty data, the legacy
//! `endpoint` event has an address. What an event means is decided by the HTTP rules.
//!
//! Data leaves as bytes. An event of one data line that came in one read is a part of that read,
//! not a copy; its UTF-8 is checked once, by the envelope scanner.

mod write;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use memchr::memchr2;

use super::{BYTE_ORDER_MARK, work};
use crate::limits::Limits;

pub use write::{write_comment, write_event, write_priming};

/// Turns the chunks of an event stream into events.
///
/// [`feed`](Self::feed) it a chunk, then iterate until `None`, which means that more bytes are
/// needed; at the end of the stream call [`finish`](Self::finish) until `None`.
///
/// An event is too long if its data is longer than the limit, or if a line of it is longer than
/// data within the limit could make it. Then all of it is skipped, except that its id still counts:
/// resuming after it must not bring it again.
#[derive(Debug)]
pub struct SseDecoder {
    event_bytes: usize,
    /// An `event` or `id` value has its own bound, so that data may use all of the event's.
    field_bytes: usize,
    chunks: VecDeque<Bytes>,
    /// Bytes of the byte order mark seen so far at the start of the stream; all three once past it.
    mark_bytes: usize,
    /// The current line as far as it came in earlier chunks.
    partial: Vec<u8>,
    rest: Rest,
    line_end: LineEnd,
    /// The event being read, and how many bytes its lines have.
    size: Size,
    bytes: u64,
    kind: EventKind,
    data: Data,
    id: Option<Arc<str>>,
    last_id: Option<Arc<str>>,
    retry_ms: Option<u64>,
}

/// What an event stream yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseItem {
    /// An event, dispatched by its blank line.
    Event(SseEvent),
    /// A comment, which is how a quiet peer shows that it is alive.
    Comment,
    /// An event longer than the limit, gone. The next event is not affected.
    Oversize {
        /// The length of its lines, line ends and ignored lines not counted.
        bytes: u64,
    },
    /// The stream ended before the blank line. The standard discards such an event.
    Unterminated {
        /// The length of its lines, line ends and ignored lines not counted.
        bytes: u64,
        /// The event as far as it came; a tolerant reader may find a whole message in it.
        event: SseEvent,
    },
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its type.
    pub kind: EventKind,
    /// Its data lines, joined by LF.
    pub data: Bytes,
    /// The last event id at its end, its own or that of an earlier event; `None` if that is empty.
    pub id: Option<Arc<str>>,
}

/// The type of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EventKind {
    /// `message`, also when it is left out.
    #[default]
    Message,
    /// Any other, as spelled.
    Other(Box<str>),
}

/// What becomes of the part of the current line that is not here yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It joins `partial`.
    Kept,
    /// It belongs to a comment, of which nothing is kept.
    Comment,
    /// It belongs to a line that is too long.
    Dropped,
}

/// A CR ends its line at once, so the LF of a CRLF comes too late and is swallowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Complete,
    LfMayFollow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Fits,
    Oversize,
}

/// The data of the event being read. Most have one line, which is passed on without a copy.
#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    One(Bytes),
    Many(Vec<u8>),
}

impl SseDecoder {
    /// A decoder for events of at most `event_bytes` of data.
    pub fn new(event_bytes: usize) -> Self {
        Self {
            event_bytes,
            field_bytes: Limits::DEFAULT.event_field_bytes,
            chunks: VecDeque::new(),
            mark_bytes: 0,
            partial: Vec::new(),
            rest: Rest::Kept,
            line_end: LineEnd::Complete,
            size: Size::Fits,
            bytes: 0,
            kind: EventKind::Message,
            data: Data::None,
            id: None,
            last_id: None,
            retry_ms: None,
        }
    }

    /// With another bound on `event` and `id` values than the default one.
    #[must_use]
    pub fn with_field_bytes(mut self, field_bytes: usize) -> Self {
        self.field_bytes = field_bytes;
        self
    }

    /// Starts from the last event id of the stream that this one resumes.
    #[must_use]
    pub fn with_last_id(mut self, id: &str) -> Self {
        self.id = shared(id);
        self.last_id = shared(id);
        self
    }

    /// The id to resume after, empty if there is none. An event counts once it is dispatched.
    pub fn last_id(&self) -> &str {
        self.last_id.as_deref().unwrap_or_default()
    }

    /// How long to wait before connecting again, if the peer ever said so.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, mut chunk: Bytes) {
        while self.mark_bytes < BYTE_ORDER_MARK.len() && !chunk.is_empty() {
            if chunk[0] == BYTE_ORDER_MARK[self.mark_bytes] {
                self.mark_bytes += 1;
                chunk.advance(1);
            } else {
                self.settle_mark();
            }
        }
        if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// At the end of the stream: what is left, one item at a time.
    pub fn finish(&mut self) -> Option<SseItem> {
        if let Some(item) = self.next() {
            return Some(item);
        }
        self.settle_mark();
        let line = Bytes::from(mem::take(&mut self.partial));
        let bytes = mem::take(&mut self.bytes) + line.len() as u64;
        self.rest = Rest::Kept;
        if let (b"data", value) = split_field(&line) {
            self.push_data(line.slice(value..));
        }
        let event = SseEvent {
            kind: mem::take(&mut self.kind),
            data: mem::take(&mut self.data).joined().unwrap_or_default(),
            id: self.id.clone(),
        };
        match mem::replace(&mut self.size, Size::Fits) {
            Size::Oversize => Some(SseItem::Oversize { bytes }),
            Size::Fits if bytes > 0 => Some(SseItem::Unterminated { bytes, event }),
            Size::Fits => None,
        }
    }

    /// The start of the stream turned out to be no byte order mark, but part of the first line.
    fn settle_mark(&mut self) {
        if self.mark_bytes < BYTE_ORDER_MARK.len() {
            self.partial.extend_from_slice(&BYTE_ORDER_MARK[..self.mark_bytes]);
            self.mark_bytes = BYTE_ORDER_MARK.len();
        }
    }

    /// Takes one line, or the part of it that is here, off the front of `chunk`.
    fn take_line(&mut self, chunk: &mut Bytes) -> Option<SseItem> {
        let line_end = mem::replace(&mut self.line_end, LineEnd::Complete);
        if line_end == LineEnd::LfMayFollow && chunk[0] == b'\n' {
            chunk.advance(1);
            return None;
        }
        let Some(end) = find_end(chunk) else {
            self.keep(chunk);
            chunk.clear();
            return None;
        };
        if chunk[end] == b'\r' {
            self.line_end = LineEnd::LfMayFollow;
        }
        let item = match mem::replace(&mut self.rest, Rest::Kept) {
            Rest::Kept if self.partial.is_empty() => self.line(chunk, end),
            Rest::Kept => {
                let mut line = mem::take(&mut self.partial);
                line.extend_from_slice(&chunk[..end]);
                work::add(end);
                let line = Bytes::from(line);
                self.line(&line, line.len())
            }
            Rest::Comment => Some(SseItem::Comment),
            Rest::Dropped => {
                self.bytes += end as u64;
                None
            }
        };
        chunk.advance(end + 1);
        item
    }

    /// Keeps a part of a line whose end is in a later chunk.
    fn keep(&mut self, part: &[u8]) {
        match self.rest {
            Rest::Comment => {}
            Rest::Dropped => self.bytes += part.len() as u64,
            Rest::Kept if self.partial.is_empty() && part[0] == b':' => self.rest = Rest::Comment,
            Rest::Kept if self.partial.len() + part.len() > self.line_bytes() => {
                let dropped = mem::take(&mut self.partial).len() + part.len();
                self.rest = Rest::Dropped;
                self.overflow(dropped);
            }
            Rest::Kept => {
                self.partial.extend_from_slice(part);
                work::add(part.len());
            }
        }
    }

    /// Handles the whole line in front of `end`.
    fn line(&mut self, text: &Bytes, end: usize) -> Option<SseItem> {
        let line = &text[..end];
        match line.first() {
            None => return self.dispatch(),
            Some(b':') => return Some(SseItem::Comment),
            Some(_) if end > self.line_bytes() => {
                self.overflow(end);
                return None;
            }
            Some(_) => {}
        }
        let (name, start) = split_field(line);
        let value = &line[start..];
        match name {
            b"data" => {
                self.bytes += end as u64;
                self.push_data(text.slice(start..end));
            }
            b"event" | b"id" if value.len() > self.field_bytes => self.overflow(end),
            b"event" => {
                self.bytes += end as u64;
                self.kind = EventKind::parse(value);
            }
            // An id with NUL could not be sent back in a header: the standard ignores it.
            b"id" if !value.contains(&0) => {
                self.bytes += end as u64;
                self.id = shared(&String::from_utf8_lossy(value));
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry_ms = Some(saturating_number(value));
            }
            _ => {}
        }
        None
    }

    fn push_data(&mut self, value: Bytes) {
        if self.size == Size::Oversize {
            return;
        }
        let joined_bytes = match &self.data {
            Data::None => value.len(),
            Data::One(first) => first.len() + 1 + value.len(),
            Data::Many(lines) => lines.len() + 1 + value.len(),
        };
        if joined_bytes > self.event_bytes {
            return self.overflow(0);
        }
        self.data = match mem::take(&mut self.data) {
            Data::None => Data::One(value),
            Data::One(first) => join(first.to_vec(), &value),
            Data::Many(lines) => join(lines, &value),
        };
    }

    /// The event is too long: lets go of its data and counts the `bytes` of a line not kept.
    fn overflow(&mut self, bytes: usize) {
        self.size = Size::Oversize;
        self.data = Data::None;
        self.bytes += bytes as u64;
    }

    /// A blank line ends the event, if there is one.
    fn dispatch(&mut self) -> Option<SseItem> {
        let kind = mem::take(&mut self.kind);
        let data = mem::take(&mut self.data).joined();
        let bytes = mem::take(&mut self.bytes);
        self.last_id.clone_from(&self.id);
        match mem::replace(&mut self.size, Size::Fits) {
            Size::Oversize => Some(SseItem::Oversize { bytes }),
            Size::Fits => data.map(|data| SseItem::Event(SseEvent { kind, data, id: self.id.clone() })),
        }
    }

    fn line_bytes(&self) -> usize {
        self.event_bytes.saturating_add(self.field_bytes)
    }
}

/// `None`: more bytes are needed.
impl Iterator for SseDecoder {
    type Item = SseItem;

    fn next(&mut self) -> Option<SseItem> {
        while let Some(mut chunk) = self.chunks.pop_front() {
            let mut item = None;
            while item.is_none() && !chunk.is_empty() {
                item = self.take_line(&mut chunk);
            }
            if !chunk.is_empty() {
                self.chunks.push_front(chunk);
            }
            if item.is_some() {
                return item;
            }
        }
        None
    }
}

impl SseEvent {
    /// The data as text, what is not UTF-8 replaced as the standard wants it.
    pub fn data_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.data)
    }
}

impl EventKind {
    /// As the standard spells it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Message => "message",
            Self::Other(name) => name,
        }
    }

    fn parse(value: &[u8]) -> Self {
        match value {
            b"" | b"message" => Self::Message,
            other => Self::Other(String::from_utf8_lossy(other).into()),
        }
    }
}

impl Data {
    /// `None` if there was no data line at all, which is not the same as an empty one.
    fn joined(self) -> Option<Bytes> {
        match self {
            Self::None => None,
            Self::One(line) => Some(line),
            Self::Many(lines) => Some(Bytes::from(lines)),
        }
    }
}

/// Where the current line ends. Each byte of the stream is searched once.
fn find_end(chunk: &[u8]) -> Option<usize> {
    let found = memchr2(b'\r', b'\n', chunk);
    work::add(found.map_or(chunk.len(), |end| end + 1));
    found
}

/// The name of a field, and where its value starts.
fn split_field(line: &[u8]) -> (&[u8], usize) {
    // No known name is longer than five bytes: further on, a colon makes no difference.
    match line.iter().take(6).position(|byte| *byte == b':') {
        None => (line, line.len()),
        Some(colon) if line.get(colon + 1) == Some(&b' ') => (&line[..colon], colon + 2),
        Some(colon) => (&line[..colon], colon + 1),
    }
}

fn join(mut lines: Vec<u8>, value: &[u8]) -> Data {
    work::add(value.len());
    lines.push(b'\n');
    lines.extend_from_slice(value);
    Data::Many(lines)
}

fn saturating_number(digits: &[u8]) -> u64 {
    digits
        .iter()
        .fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

fn shared(id: &str) -> Option<Arc<str>> {
    (!id.is_empty()).then(|| id.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_a_bound_of_their_own() {
        for (bound, oversize) in [(3, false), (2, true)] {
            let mut decoder = SseDecoder::new(64).with_field_bytes(bound);
            feed(&mut decoder, b"id: abc\ndata: x\n\n");
            let item = decoder.next();
            assert_eq!(matches!(item, Some(SseItem::Oversize { .. })), oversize, "{item:?}");
        }
    }

    fn feed(decoder: &mut SseDecoder, bytes: &'static [u8]) {
        decoder.feed(Bytes::from_static(bytes));
    }

    /// T20: one long data line, a byte at a time: each byte is searched once and kept once.
    #[test]
    fn t20_byte_by_byte_is_linear() {
        let total = 4 << 20;
        let mut decoder = SseDecoder::new(total);
        feed(&mut decoder, b"data:");
        for _ in 0..total {
            feed(&mut decoder, b"x");
            assert_eq!(decoder.next(), None);
            assert!(work::take() <= 2 + 2 * 5, "the first call has the name of the field as well");
        }
        feed(&mut decoder, b"\n\n");
        assert!(matches!(decoder.next(), Some(SseItem::Event(event)) if event.data.len() == total));
        assert!(work::take() <= 2 * 2);
    }

    /// T20: many short data lines in one event, and in chunks that cut them: at most a search,
    /// a copy to mend the line and a copy to join the data.
    #[test]
    fn t20_many_data_lines_are_linear() {
        let stream = Bytes::from(b"data: 0123456789\r\n".repeat(100_000));
        let mut decoder = SseDecoder::new(stream.len());
        for at in (0..stream.len()).step_by(7) {
            decoder.feed(stream.slice(at..stream.len().min(at + 7)));
            assert_eq!(decoder.next(), None);
        }
        feed(&mut decoder, b"\n");
        assert!(matches!(decoder.next(), Some(SseItem::Event(event)) if event.data.len() == 1_099_999));
        assert!(work::take() <= 3 * stream.len() as u64);
    }

    /// T20: lines that lead to nothing are searched once and never copied.
    #[test]
    fn t20_a_million_skipped_lines_are_linear() {
        let stream = Bytes::from(b"x: 1\n\n".repeat(1_000_000));
        let total = stream.len() as u64;
        let mut decoder = SseDecoder::new(64);
        decoder.feed(stream);
        assert_eq!(decoder.next(), None);
        assert_eq!(work::take(), total);
    }

    /// T19: whatever is fed without an end, what is kept stays within the limits.
    #[test]
    fn t19_memory_is_bounded() {
        let limit = 1 << 10;
        for endless in [&b"x"[..], b":x", b"data:x", b"data:x\n", b"id:x\nevent:y\ndata\n", b"\n:x"] {
            let mut decoder = SseDecoder::new(limit);
            let chunk = Bytes::from(endless.repeat(100));
            for _ in 0..1000 {
                decoder.feed(chunk.clone());
                for _ in decoder.by_ref() {}
                let data_capacity = match &decoder.data {
                    Data::Many(lines) => lines.capacity(),
                    _ => 0,
                };
                assert!(decoder.chunks.is_empty());
                assert!(decoder.partial.capacity() <= 2 * decoder.line_bytes());
                assert!(data_capacity <= 2 * limit);
            }
        }
    }

    /// An event of one line in one chunk is a part of that chunk.
    #[test]
    fn a_single_data_line_is_not_copied() {
        let chunk = Bytes::from_static(b"data: {}\n\n");
        let mut decoder = SseDecoder::new(64);
        decoder.feed(chunk.clone());
        let Some(SseItem::Event(event)) = decoder.next() else { panic!("the event is whole") };
        assert_eq!(event.data.as_ptr(), chunk[6..].as_ptr());
    }
}
