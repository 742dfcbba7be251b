//! Trace context in `_meta`: W3C Trace Context and W3C Baggage, checked and never changed.

use std::fmt;

use super::flaw::Flaw;
use super::meta::{Meta, key};

/// A key, the test of its value, and what to say of a value that fails it.
type Rule = (&'static str, fn(&str) -> bool, &'static str);

/// Every trace key that is there and does not follow its recommendation.
#[must_use]
pub fn check(meta: &Meta) -> Vec<Flaw> {
    let rules: [Rule; 3] = [
        (key::TRACEPARENT, is_traceparent, "is not version-traceid-parentid-flags in lower-case hex"),
        (key::TRACESTATE, is_tracestate, "is not a list of up to 32 key=value members"),
        (key::BAGGAGE, is_baggage, "is not a list of key=value members"),
    ];
    let mut flaws = Vec::new();
    for (name, fits, what) in rules {
        if let Some(value) = meta.0.get(name)
            && !value.as_str().is_some_and(fits)
        {
            flaws.push(Flaw::at(name, what));
        }
    }
    flaws
}

fn is_traceparent(value: &str) -> bool {
    TraceParent::parse(value).is_some()
}

/// Where in a trace something is: `version-traceid-parentid-flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Names the trace. Not all zero.
    pub trace: [u8; 16],
    /// Names the span in it. Not all zero.
    pub span: [u8; 8],
    /// Those that the first version of the recommendation knows.
    pub flags: u8,
}

impl TraceParent {
    /// Whoever is before us in the trace records it.
    pub const SAMPLED: u8 = 1;

    /// Reads one; nothing: it does not follow the recommendation. A later version may append more parts.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let mut parts = value.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let known = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        let lengths = is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
        if !known || !lengths {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|span| *span != 0)?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Some(Self { trace: trace.to_be_bytes(), span: span.to_be_bytes(), flags })
    }

    /// Is it recorded by whoever is before us?
    #[must_use]
    pub const fn is_sampled(self) -> bool {
        self.flags & Self::SAMPLED != 0
    }
}

/// As it is sent: in the first version, and so with no flag that it does not know.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags & Self::SAMPLED)
    }
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Is it a list of members as others keep about a trace?
#[must_use]
pub fn is_tracestate(value: &str) -> bool {
    let mut count = 0;
    value.split(',').map(str::trim).filter(|member| !member.is_empty()).all(|member| {
        count += 1;
        count <= 32
            && member.split_once('=').is_some_and(|(key, value)| {
                (1..=256).contains(&key.len())
                    && key.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                    && key
                        .bytes()
                        .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@'))
                    && (1..=256).contains(&value.len())
                    && value.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=')
            })
    })
}

fn is_baggage(value: &str) -> bool {
    value.split(',').all(|member| {
        let pair = member.split(';').next().unwrap_or_default().trim();
        pair.split_once('=').is_some_and(|(key, value)| {
            let key = key.trim();
            !key.is_empty() && key.bytes().all(is_token) && value.trim().bytes().all(is_baggage_octet)
        })
    })
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_baggage_octet(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'+' | b'-'..=b':' | b'<'..=b'[' | b']'..=b'~')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// META-6: what follows the recommendations passes, what does not is named.
    #[test]
    fn trace_keys_follow_their_recommendations() {
        let good = [
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("traceparent", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"),
            ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
            ("tracestate", ""),
            ("baggage", "userId=alice,serverNode=DF%2028;prop=1"),
        ];
        let bad = [
            ("traceparent", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"),
            ("traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"),
            ("traceparent", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("traceparent", ""),
            ("tracestate", "rojo"),
            ("tracestate", "Rojo=1"),
            ("baggage", "user id=alice"),
            ("baggage", "a=b c"),
        ];
        for (key, value) in good {
            assert_eq!(check(&Meta::default().with(key, json!(value))), [], "{key}: {value}");
        }
        for (key, value) in bad {
            assert_eq!(check(&Meta::default().with(key, json!(value))).len(), 1, "{key}: {value}");
        }
        assert_eq!(check(&Meta::default().with("baggage", json!(1)))[0].at, "/baggage");
    }

    /// META-6: what was read is written as it was, but for what only a later version means.
    #[test]
    fn a_place_in_a_trace_is_written_as_it_was_read() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read = TraceParent::parse(text).unwrap();
        assert_eq!((read.to_string().as_str(), read.is_sampled()), (text, true));
        assert_eq!((read.trace[0], read.span[7]), (0x0a, 0x31));
        let later = TraceParent::parse(&format!("cc{}-more", text[2..].replace("-01", "-fe"))).unwrap();
        assert_eq!(later.to_string(), text.replace("-01", "-00"));
        assert!(!later.is_sampled());
    }
}
