//! Trace context in `_meta`: W3C Trace Context and W3C Baggage, checked and never changed.

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

/// `version-traceid-parentid-flags`; a later version may append more parts.
fn is_traceparent(value: &str) -> bool {
    let mut parts = value.split('-');
    let (Some(version), Some(trace), Some(parent), Some(flags)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    is_hex(version, 2)
        && version != "ff"
        && is_hex(trace, 32)
        && trace.bytes().any(|b| b != b'0')
        && is_hex(parent, 16)
        && parent.bytes().any(|b| b != b'0')
        && is_hex(flags, 2)
        && (version != "00" || parts.next().is_none())
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_tracestate(value: &str) -> bool {
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
}
