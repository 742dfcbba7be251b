//! Any bytes as an event stream, whole and in pieces: the same events. And any event that we write is
//! the event that we read.

#![no_main]

use bytes::Bytes;
use cardan_proto::codec::sse::write_event;
use cardan_proto::codec::{EventKind, SseDecoder, SseItem};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [limit, cuts, text @ ..] = input else { return };
    let limit = usize::from(*limit);
    let whole = items(limit, [text]);
    let size = usize::from(cuts % 16) + 1;
    assert_eq!(items(limit, text.chunks(size)), whole);
    let (front, back) = text.split_at(text.len() * usize::from(*cuts) / 256);
    assert_eq!(items(limit, [front, b"", back]), whole);
    round_trip(usize::from(*cuts), text);
});

/// What a stream holds: its items, the last id and the time to come back.
type Stream = (Vec<SseItem>, String, Option<u64>);

fn items<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Stream {
    let mut decoder = SseDecoder::new(limit);
    let mut items = Vec::new();
    for chunk in chunks {
        decoder.feed(Bytes::copy_from_slice(chunk));
        items.extend(decoder.by_ref());
    }
    let (last, retry) = (decoder.last_id().to_owned(), decoder.retry_ms());
    while let Some(item) = decoder.finish() {
        items.push(item);
    }
    (items, last, retry)
}

fn round_trip(cut: usize, text: &[u8]) {
    let (fields, data) = text.split_at(cut.min(text.len()));
    let fields = String::from_utf8_lossy(fields);
    let middle = fields.char_indices().nth(cut / 8).map_or(fields.len(), |(at, _)| at);
    let (kind, id) = fields.split_at(middle);
    let mut stream = Vec::new();
    write_event(&mut stream, Some(kind), Some(id), Some(cut as u64), data);
    let (items, last, retry) = items(stream.len(), [&stream[..]]);
    let [SseItem::Event(event)] = &items[..] else { panic!("one event written, {} read", items.len()) };

    let bare = |text: &str| text.replace(['\r', '\n', '\0'], "");
    match &event.kind {
        EventKind::Message => assert!(matches!(&*bare(kind), "" | "message")),
        EventKind::Other(name) => assert_eq!(**name, bare(kind)),
    }
    assert_eq!(event.id.as_deref().unwrap_or_default(), bare(id));
    assert_eq!((last, retry), (bare(id), Some(cut as u64)));
    assert_eq!(event.data, with_newlines(data));
}

/// The data with every line end as LF, which is how the standard reads it.
fn with_newlines(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = data.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte == b'\r' {
            rest.next_if_eq(&b'\n');
        }
        out.push(if byte == b'\r' { b'\n' } else { byte });
    }
    out
}
