//! Any bytes through the line decoder, whole and in pieces: the same lines, none longer than the limit,
//! and no byte made up.

#![no_main]

use bytes::BytesMut;
use cardan_proto::codec::{Line, LineDecoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [limit, cuts, text @ ..] = input else { return };
    let limit = usize::from(*limit);
    let whole = lines(limit, [text]);
    let size = usize::from(cuts % 16) + 1;
    assert_eq!(lines(limit, text.chunks(size)), whole);
    // Two pieces of uneven length, and a read that brings nothing.
    let (front, back) = text.split_at(text.len() * usize::from(*cuts) / 256);
    assert_eq!(lines(limit, [front, b"", back]), whole);

    let mut told = 0;
    for line in &whole {
        match line {
            Line::Frame(bytes) | Line::Unterminated(bytes) => {
                assert!(!bytes.is_empty() && bytes.len() <= limit && !bytes.contains(&b'\n'));
                told += bytes.len();
            }
            Line::Oversize { bytes, .. } => {
                assert!(*bytes > limit as u64);
                told += *bytes as usize;
            }
        }
    }
    assert!(told <= text.len());
});

fn lines<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Line> {
    let mut decoder = LineDecoder::new(limit);
    let mut buf = BytesMut::new();
    let mut lines = Vec::new();
    for chunk in chunks {
        buf.extend_from_slice(chunk);
        while let Some(line) = decoder.next(&mut buf) {
            lines.push(line);
        }
        assert!(buf.len() <= limit + 1, "keeps more than the limit");
    }
    while let Some(line) = decoder.finish(&mut buf) {
        lines.push(line);
    }
    lines
}
