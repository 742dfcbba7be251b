//! Appending JSON to a buffer: strings with a run-copying escaper, and whole envelopes.
//!
//! Payloads are copied as they are; only what we make ourselves is formatted here.

use bytes::Bytes;

use super::envelope::{Call, Envelope, Note, Reply};
use super::fault::Fault;
use super::id::CallId;
use super::plain;

/// Appends `value` as a JSON string, quotes included.
pub fn string(value: &str, out: &mut Vec<u8>) {
    let bytes = value.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut copied = 0;
    loop {
        let at = plain::run(bytes, copied);
        out.extend_from_slice(&bytes[copied..at]);
        let Some(special) = bytes.get(at) else { break };
        escape(*special, out);
        copied = at + 1;
    }
    out.push(b'"');
}

/// Appends one message, without any framing.
pub fn envelope(envelope: &Envelope, out: &mut Vec<u8>) {
    match envelope {
        Envelope::Call(c) => call(c, out),
        Envelope::Note(n) => note(n, out),
        Envelope::Reply(r) => reply(r, out),
    }
}

/// Appends a batch of messages.
pub fn batch(envelopes: &[Envelope], out: &mut Vec<u8>) {
    out.push(b'[');
    for (n, one) in envelopes.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        envelope(one, out);
    }
    out.push(b']');
}

fn call(call: &Call, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    call.id.write(out);
    method_and_params(call.method.name(), call.params.raw(), out);
}

fn note(note: &Note, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    method_and_params(note.method.name(), note.params.raw(), out);
}

fn method_and_params(method: &str, params: Option<&Bytes>, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"method\":");
    string(method, out);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params);
    }
    out.push(b'}');
}

fn reply(reply: &Reply, out: &mut Vec<u8>) {
    match &reply.outcome {
        Ok(result) => {
            out.reserve(result.len() + 48);
            reply_start(reply.id.as_ref(), out);
            out.extend_from_slice(result);
        }
        Err(fault) => {
            head(reply.id.as_ref(), out);
            out.extend_from_slice(b",\"error\":");
            self::fault(fault, out);
        }
    }
    out.extend_from_slice(REPLY_END);
}

/// What comes before the result of a reply. The result follows, and then [`REPLY_END`].
pub fn reply_start(id: Option<&CallId>, out: &mut Vec<u8>) {
    head(id, out);
    out.extend_from_slice(b",\"result\":");
}

/// What comes after the result of a reply.
pub const REPLY_END: &[u8] = b"}";

fn head(id: Option<&CallId>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        id.write(out);
    }
}

/// Appends the error object.
pub fn fault(fault: &Fault, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"code\":");
    super::id::write_integer(fault.code, out);
    out.extend_from_slice(b",\"message\":");
    string(&fault.message, out);
    if let Some(data) = &fault.data {
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(data);
    }
    out.push(b'}');
}

/// Zero: copy as is. `u`: by number. Anything else: the letter after the backslash.
const ESCAPE: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = b'u';
        control += 1;
    }
    table[0x08] = b'b';
    table[b'\t' as usize] = b't';
    table[b'\n' as usize] = b'n';
    table[0x0c] = b'f';
    table[b'\r' as usize] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

fn escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match ESCAPE[usize::from(byte)] {
        b'u' => {
            let low = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&low);
        }
        letter => out.extend_from_slice(&[b'\\', letter]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// STD-18: whatever the text, what we write has no raw newline and reads back equal.
        #[test]
        fn strings_read_back_equal(text in any::<String>()) {
            let mut out = Vec::new();
            string(&text, &mut out);
            prop_assert!(!out.iter().any(|b| *b < 0x20));
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
