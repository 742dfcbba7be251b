//! Values of the mirrored headers `Mcp-Name` and `Mcp-Param-*`, any text in visible ASCII.
//!
//! A text that survives as a header value is sent as it is. Every other one is sent as
//! `=?base64?` + standard base64 of its UTF-8 + `?=`, and so is a text that only looks like that.
//! The markers are exact: another case, or one of them alone, is literal text.

use std::borrow::Cow;
use std::fmt;

use ::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::headers::trim_ows;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Why a header value stands for no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadValue {
    /// A character outside visible ASCII, space and tab.
    Characters,
    /// Between the markers is something else than padded standard base64.
    Base64,
    /// The encoded bytes are not UTF-8.
    Utf8,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Characters => "has characters outside visible ASCII, encode it as =?base64?...?=",
            Self::Base64 => "is marked as base64 but is not padded standard base64",
            Self::Utf8 => "is base64 of bytes that are not UTF-8",
        })
    }
}

impl std::error::Error for BadValue {}

/// The header value that stands for a text.
pub fn encode(text: &str) -> HeaderValue {
    let spelled = if is_plain(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text)))
    };
    HeaderValue::from_str(&spelled).expect("plain text and base64 are visible ASCII, space or tab")
}

/// The text that a header value stands for.
pub fn decode(value: &HeaderValue) -> Result<Cow<'_, str>, BadValue> {
    let text = trim_ows(value.to_str().map_err(|_| BadValue::Characters)?);
    let Some(inner) = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) else {
        return Ok(Cow::Borrowed(text));
    };
    let bytes = STANDARD.decode(inner).map_err(|_| BadValue::Base64)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| BadValue::Utf8)
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, 0x20..=0x7E | b'\t'))
        && trim_ows(text) == text
        // In `=?base64?=` the markers share a character. We read it as literal, a reader that
        // looks at both ends alone does not, so it is encoded as well.
        && !(text.starts_with(PREFIX) && text.ends_with(SUFFIX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(bytes: &[u8]) -> Result<String, BadValue> {
        decode(&HeaderValue::from_bytes(bytes).unwrap()).map(Cow::into_owned)
    }

    /// XMH-11, XMH-12, HTM-9: what is plain and what is encoded.
    #[test]
    fn encode_keeps_plain_text_and_wraps_the_rest() {
        let table = [
            ("us-west1", "us-west1"),
            ("", ""),
            ("two words\tand a tab", "two words\tand a tab"),
            ("~!@#$%^&*()", "~!@#$%^&*()"),
            ("file:///path/to/file%20name.txt", "file:///path/to/file%20name.txt"),
            ("=?base64?", "=?base64?"),
            ("?=", "?="),
            ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
            (" lead", "=?base64?IGxlYWQ=?="),
            ("trail ", "=?base64?dHJhaWwg?="),
            ("\tlead", "=?base64?CWxlYWQ=?="),
            (" ", "=?base64?IA==?="),
            ("a\nb", "=?base64?YQpi?="),
            ("\u{7f}", "=?base64?fw==?="),
            ("日本", "=?base64?5pel5pys?="),
            ("=?base64?SGVsbG8=?=", "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?="),
            ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
            ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ];
        for (text, want) in table {
            assert_eq!(encode(text).to_str().unwrap(), want, "{text:?}");
        }
    }

    /// XMH-18, XMH-17, HTM-12, HTM-14: strict inside the markers, literal without both of them.
    #[test]
    fn decode_is_strict_inside_the_markers_only() {
        let table: &[(&[u8], Result<&str, BadValue>)] = &[
            (b"=?base64?SGVsbG8=?=", Ok("Hello")),
            (b"  =?base64?SGVsbG8=?=\t", Ok("Hello")),
            (b"=?base64??=", Ok("")),
            (b"  padded  ", Ok("padded")),
            (b"", Ok("")),
            (b"=?base64?SGVsbG8=", Ok("=?base64?SGVsbG8=")),
            (b"SGVsbG8=?=", Ok("SGVsbG8=?=")),
            (b"=?Base64?SGVsbG8=?=", Ok("=?Base64?SGVsbG8=?=")),
            (b"=?base64?=", Ok("=?base64?=")),
            (b"=?base64?SGVsbG8?=", Err(BadValue::Base64)),
            (b"=?base64?SGVs!!!bG8=?=", Err(BadValue::Base64)),
            (b"=?base64?SGVsbG8==?=", Err(BadValue::Base64)),
            (b"=?base64? SGVsbG8=?=", Err(BadValue::Base64)),
            (b"=?base64?_-8=?=", Err(BadValue::Base64)),
            (b"=?base64?SGVsbG9=?=", Err(BadValue::Base64)), // spare bits that are not zero
            (b"=?base64?/w==?=", Err(BadValue::Utf8)),
            ("naïve".as_bytes(), Err(BadValue::Characters)),
        ];
        for (bytes, want) in table {
            let want = want.map(str::to_owned);
            assert_eq!(decoded(bytes), want, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    proptest! {
        /// XMH-11, HTM-9: every text survives.
        #[test]
        fn decode_undoes_encode(text in "(?s).*") {
            let value = encode(&text);
            prop_assert_eq!(decode(&value).unwrap(), text);
        }

        #[test]
        fn decode_undoes_encode_near_the_sentinel(
            text in "(=\\?base64\\?|=\\?|\\?=|[ \t]|[a-zA-Z0-9+/=]|\u{0}|\n|é){0,8}"
        ) {
            let value = encode(&text);
            prop_assert_eq!(decode(&value).unwrap(), text);
        }

        #[test]
        fn decode_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let _ = decode(&value);
            }
        }
    }
}
