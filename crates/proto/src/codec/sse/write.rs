//! The writing half: events and comments appended to a buffer.

use memchr::memchr2;

/// Appends an event to `out`. Data with line breaks becomes several data lines, read back with LF.
///
/// `kind` and `id` are fields of one line: CR, LF and NUL in them are left out, so that no value
/// can start a field of its own.
pub fn write_event(
    out: &mut Vec<u8>,
    kind: Option<&str>,
    id: Option<&str>,
    retry_ms: Option<u64>,
    data: &[u8],
) {
    out.reserve(data.len() + 64);
    if let Some(kind) = kind {
        write_field(out, b"event: ", kind);
    }
    if let Some(id) = id {
        write_field(out, b"id: ", id);
    }
    if let Some(retry_ms) = retry_ms {
        write_field(out, b"retry: ", &retry_ms.to_string());
    }
    write_lines(out, b"data: ", data);
    out.push(b'\n');
}

/// Appends a comment. The blank line after it is for readers that split on blank lines first.
pub fn write_comment(out: &mut Vec<u8>, text: &str) {
    write_lines(out, b": ", text.as_bytes());
    out.push(b'\n');
}

/// Appends the event that opens a stream that can be resumed: an id, and empty data.
pub fn write_priming(out: &mut Vec<u8>, id: &str, retry_ms: Option<u64>) {
    write_event(out, None, Some(id), retry_ms, b"");
}

fn write_field(out: &mut Vec<u8>, name: &[u8], value: &str) {
    out.extend_from_slice(name);
    out.extend(value.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
    out.push(b'\n');
}

fn write_lines(out: &mut Vec<u8>, name: &[u8], mut text: &[u8]) {
    loop {
        out.extend_from_slice(name);
        let Some(end) = memchr2(b'\r', b'\n', text) else {
            out.extend_from_slice(text);
            out.push(b'\n');
            return;
        };
        out.extend_from_slice(&text[..end]);
        out.push(b'\n');
        let line_end = if text[end..].starts_with(b"\r\n") { 2 } else { 1 };
        text = &text[end + line_end..];
    }
}
