//! Spans as OTLP has them, in protobuf: the few messages that are needed, written by hand.

use super::span::{Kind, Span, Status};

/// What kind of body it is.
pub(super) const CONTENT_TYPE: &str = "application/x-protobuf";

/// The request that hands in spans of a program with these attributes.
pub(super) fn request(resource: &[(Box<str>, Box<str>)], spans: &[Span]) -> Vec<u8> {
    let mut out = Writer::default();
    out.message(1, |of_resource| {
        of_resource.message(1, |out| {
            for (key, value) in resource {
                out.message(1, |out| pair(key, value, out));
            }
        });
        of_resource.message(2, |scope| {
            scope.message(1, |out| {
                out.text(1, env!("CARGO_PKG_NAME"));
                out.text(2, env!("CARGO_PKG_VERSION"));
            });
            for one in spans {
                scope.message(2, |out| span(one, out));
            }
        });
    });
    out.0
}

fn span(span: &Span, out: &mut Writer) {
    out.bytes(1, &span.at.trace);
    out.bytes(2, &span.at.span);
    if let Some(state) = &span.state {
        out.text(3, state);
    }
    if let Some(parent) = &span.parent {
        out.bytes(4, parent);
    }
    out.text(5, &span.name);
    let (kind, remote) = match span.kind {
        Kind::Server => (2, if span.parent.is_some() { REMOTE } else { 0 }),
        Kind::Client => (3, 0),
    };
    out.number(6, kind);
    out.fixed64(7, span.begun_ns);
    out.fixed64(8, span.ended_ns);
    for (key, value) in &span.attributes {
        out.message(9, |out| pair(key, value, out));
    }
    if span.status == Status::Error {
        out.message(15, |out| out.number(3, 2));
    }
    out.fixed32(16, u32::from(span.at.flags) | KNOWS_REMOTE | remote);
}

/// It is said whether the parent is of another program.
const KNOWS_REMOTE: u32 = 0x100;
/// The parent is of another program.
const REMOTE: u32 = 0x200;

fn pair(key: &str, value: &str, out: &mut Writer) {
    out.text(1, key);
    out.message(2, |out| out.text(1, value));
}

/// How many spans an answer says were not taken, though others were.
pub(super) fn rejected(answer: &[u8]) -> u64 {
    let Some(partial) = field(answer, 1) else { return 0 };
    let Value::Bytes(partial) = partial else { return 0 };
    match field(partial, 1) {
        Some(Value::Number(rejected)) => rejected,
        _ => 0,
    }
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The first field of this number; nothing: there is none, or what comes before it cannot be read.
fn field(mut message: &[u8], wanted: u64) -> Option<Value<'_>> {
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut message)?),
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                Value::Bytes(message.split_off(..length)?)
            }
            _ => return None,
        };
        if tag >> 3 == wanted {
            return Some(value);
        }
    }
    None
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..10 {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// A message in the making.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, field: u32, value: u64) {
        self.tag(field, 0);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u32, value: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn fixed32(&mut self, field: u32, value: u32) {
        self.tag(field, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// Its length stands before it, and is known behind it.
    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn tag(&mut self, field: u32, form: u32) {
        self.varint(u64::from(field << 3 | form));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lengths_are_written_as_others_read_them() {
        let mut out = Writer::default();
        out.number(1, 150);
        out.message(2, |out| out.text(1, "hi"));
        out.fixed32(16, 1);
        assert_eq!(out.0, [8, 0x96, 1, 18, 4, 10, 2, b'h', b'i', 0x85, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn what_was_not_taken_is_read_whatever_comes() {
        for (answer, wanted) in [
            (&[][..], 0),
            (&[10, 2, 8, 3], 3),
            (&[10, 7, 18, 2, b'n', b'o', 8, 0xac, 2], 300),
            (&[10, 2, 18, 0], 0),
            (&[10, 200, 8, 3], 0),
            (&[0x80; 12], 0),
            (b"{}", 0),
        ] {
            assert_eq!(rejected(answer), wanted, "{answer:?}");
        }
    }
}
