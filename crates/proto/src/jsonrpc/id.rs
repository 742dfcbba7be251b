//! Ids of calls: a number or a string, never confused.
//!
//! `1`, `"1"` and `1.0` are three different ids, and each is echoed in its own JSON type. A
//! canonical integer is kept as a number; everything else is kept as the JSON text it is
//! spelled with, inline up to 22 bytes, so the ids that peers really use cost no allocation.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The id of a call.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CallId(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// An integer in its canonical spelling.
    Number(i64),
    /// JSON text of up to [`INLINE`] bytes: a string with its quotes, or an unusual number.
    Short { len: u8, text: [u8; INLINE] },
    /// JSON text beyond that.
    Long(Box<[u8]>),
}

const INLINE: usize = 22;

/// What is wrong with an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadId {
    /// It is `null`.
    Null,
    /// It is neither a string nor a number.
    Type,
    /// It is longer than the limit.
    TooLong,
}

impl CallId {
    /// The id as spelled by a peer: `text` is one valid JSON value.
    pub fn parse(text: &[u8], max_bytes: usize) -> Result<Self, BadId> {
        if text.len() > max_bytes {
            return Err(BadId::TooLong);
        }
        match text.first() {
            Some(b'"') => Ok(Self::string(text)),
            Some(b'-' | b'0'..=b'9') => Ok(Self::number(text)),
            Some(b'n') => Err(BadId::Null),
            _ => Err(BadId::Type),
        }
    }

    /// A string id.
    #[must_use]
    pub fn text(value: &str) -> Self {
        Self(Repr::spelled(&quoted(value)))
    }

    /// What stands for an id that could not be read, in revisions that want one. No call has it.
    pub(crate) fn null() -> Self {
        Self(Repr::spelled(b"null"))
    }

    /// The number, when the id is a canonical integer.
    #[must_use]
    pub fn as_number(&self) -> Option<i64> {
        match self.0 {
            Repr::Number(n) => Some(n),
            Repr::Short { .. } | Repr::Long(_) => None,
        }
    }

    /// Is it an integer or a string, as the specification asks? A fraction is neither.
    #[must_use]
    pub fn is_standard(&self) -> bool {
        match &self.0 {
            Repr::Number(_) => true,
            other => {
                let text = other.bytes();
                text.starts_with(b"\"") || !text.iter().any(|b| matches!(b, b'.' | b'e' | b'E'))
            }
        }
    }

    /// The id that was meant, if this one is a number as a string, the reverse, or an integer with a
    /// fraction of zero.
    #[must_use]
    pub fn coerced(&self) -> Option<Self> {
        match &self.0 {
            Repr::Number(n) => Some(Self::text(&n.to_string())),
            other => {
                let inner = match other.bytes().strip_prefix(b"\"") {
                    Some(text) => text.strip_suffix(b"\"")?,
                    None => whole_part(other.bytes())?,
                };
                canonical(inner).map(|n| Self(Repr::Number(n)))
            }
        }
    }

    /// Appends the id as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Number(n) => write_integer(*n, out),
            other => out.extend_from_slice(other.bytes()),
        }
    }

    fn number(text: &[u8]) -> Self {
        canonical(text).map_or_else(|| Self(Repr::spelled(text)), |n| Self(Repr::Number(n)))
    }

    fn string(text: &[u8]) -> Self {
        if memchr::memchr(b'\\', text).is_none() {
            return Self(Repr::spelled(text));
        }
        // Two spellings of one string are one id: compare the value, not the escapes.
        match serde_json::from_slice::<String>(text) {
            Ok(value) => Self::text(&value),
            Err(_) => Self(Repr::spelled(text)), // a lone surrogate: keep what the peer wrote
        }
    }
}

impl Repr {
    fn spelled(text: &[u8]) -> Self {
        if text.len() > INLINE {
            return Self::Long(text.into());
        }
        let mut inline = [0; INLINE];
        inline[..text.len()].copy_from_slice(text);
        Self::Short { len: text.len() as u8, text: inline }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Number(_) => &[],
            Self::Short { len, text } => &text[..usize::from(*len)],
            Self::Long(text) => text,
        }
    }
}

/// `2` of `2.0`.
fn whole_part(number: &[u8]) -> Option<&[u8]> {
    let dot = memchr::memchr(b'.', number)?;
    number[dot + 1..].iter().all(|digit| *digit == b'0').then_some(&number[..dot])
}

/// The integer, when `text` is exactly how we would write it.
fn canonical(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 || (digits[0] == b'0' && (digits.len() > 1 || negative)) {
        return None;
    }
    let mut value = 0i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(if negative { -value } else { value })
}

/// Appends an integer in decimal.
pub(crate) fn write_integer(n: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

fn quoted(value: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 2);
    super::write::string(value, &mut out);
    out
}

impl From<i64> for CallId {
    fn from(n: i64) -> Self {
        Self(Repr::Number(n))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(n) => write!(f, "{n}"),
            other => f.write_str(&String::from_utf8_lossy(other.bytes())),
        }
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallId({self})")
    }
}

impl Serialize for CallId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Number(n) => serializer.serialize_i64(*n),
            // As spelled: a value in between would round long numbers.
            other => {
                let text = String::from_utf8_lossy(other.bytes()).into_owned();
                let raw = RawValue::from_string(text).map_err(serde::ser::Error::custom)?;
                raw.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for CallId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get().as_bytes(), usize::MAX)
            .map_err(|bad| serde::de::Error::custom(format_args!("not a call id: {bad:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> CallId {
        CallId::parse(text.as_bytes(), 256).unwrap()
    }

    fn written(id: &CallId) -> String {
        let mut out = Vec::new();
        id.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// BASE-7, S1-C2: the value and the JSON type survive the round trip.
    #[test]
    fn ids_are_echoed_as_spelled() {
        let long = format!("\"{}\"", "x".repeat(100));
        for text in
            ["0", "7", "-7", "1.0", "1e3", "-0", "\"7\"", "\"\"", "123456789012345678901234567890", &long]
        {
            assert_eq!(written(&id(text)), text);
        }
    }

    /// BASE-3: number, string and fraction are never the same id.
    #[test]
    fn types_are_never_confused() {
        assert_ne!(id("1"), id("\"1\""));
        assert_ne!(id("1"), id("1.0"));
        assert_ne!(id("\"1\""), id("\"1.0\""));
        assert_eq!(id("\"A\""), id("\"\\u0041\""));
    }

    /// BASE-4: null is no id, nor is anything but a string or a number.
    #[test]
    fn null_and_other_types_are_refused() {
        assert_eq!(CallId::parse(b"null", 256), Err(BadId::Null));
        for text in ["true", "{}", "[1]"] {
            assert_eq!(CallId::parse(text.as_bytes(), 256), Err(BadId::Type));
        }
        assert_eq!(CallId::parse(b"\"12345678\"", 8), Err(BadId::TooLong));
    }

    #[test]
    fn coercion_changes_the_type_only() {
        assert_eq!(id("7").coerced(), Some(id("\"7\"")));
        assert_eq!(id("\"7\"").coerced(), Some(id("7")));
        assert_eq!(id("\"seven\"").coerced(), None);
    }

    #[test]
    fn fractions_are_not_standard() {
        assert!(id("7").is_standard() && id("\"1.5\"").is_standard());
        assert!(!id("1.0").is_standard() && !id("1e3").is_standard());
    }

    #[test]
    fn integers_at_the_edges() {
        for n in [0, 1, -1, i64::MAX, i64::MIN, 999_999_999_999_999_999] {
            let mut out = Vec::new();
            write_integer(n, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), n.to_string());
        }
    }
}
