//! Secrets stay out of what is shown or logged: by name, wherever a name tells that a secret follows, and
//! by value, where the value is known.
//!
//! Redacting is for text that people read: findings, errors, the last words of a child. What goes over the
//! wire is left as it is.
//!
//! A value that is shorter than [`MIN_BYTES`] is not looked for: it stands in half of all words, and a text without it says
//! little. One that is shorter than [`WORD_BYTES`] counts as a whole word only. Behind a name that tells of a secret
//! both are hidden all the same. A secret that is a word of the language makes a poor secret and a poor text.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use crate::finding::escaped;
use crate::limits::secret::{LEARNED, MIN_BYTES, WORD_BYTES};

pub mod argument;
mod names;

pub use names::{is_secret_name, is_secret_variable};

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// A value that no output shows. There is no way to print it but to ask for it.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Keeps a value secret.
    pub fn new(value: impl Into<Box<str>>) -> Self {
        Self(value.into())
    }

    /// The value, for where it is needed.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What a header holds, with and without the word for its scheme.
    pub fn of_header(name: &str, value: &Self) -> impl Iterator<Item = Self> {
        let found: Vec<Self> = Self::found_in(&format!("{name}: {}", value.expose())).collect();
        found.into_iter().chain([value.clone()])
    }

    /// The values in a text whose names tell that they are secret: `token=...`, `Authorization: ...`.
    pub fn found_in(text: &str) -> impl Iterator<Item = Self> {
        names::values(text).into_iter().map(|range| Self::new(names::behind_scheme(&text[range])))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Takes secrets out of text. Without any values it goes by names alone. Cheap to clone; what one clone learns, all know.
#[derive(Clone, Default)]
pub struct Redactor {
    /// As they are, as JSON writes them, and as excerpts write either.
    values: Arc<[Box<str>]>,
    /// The same, of those that were not known from the start. The oldest go first.
    learned: Arc<RwLock<VecDeque<Box<str>>>>,
}

impl Redactor {
    /// Looks for these values too.
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let values: Vec<_> = secrets.into_iter().flat_map(spellings).collect();
        Self { values: values.into(), learned: Arc::default() }
    }

    /// Looks for these values from now on, such as those that a helper brought. The latest are kept, as many as the bound
    /// allows.
    pub fn learn(&self, secrets: impl IntoIterator<Item = Secret>) {
        // Nothing that is done under this lock can panic halfway through a change.
        let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
        for value in secrets.into_iter().flat_map(spellings).filter(|value| !self.values.contains(value)) {
            learned.retain(|known| *known != value);
            learned.push_back(value);
        }
        let surplus = learned.len().saturating_sub(LEARNED);
        learned.drain(..surplus);
    }

    /// The text without secrets. It may have been cut out of a longer one: the end of a value at its
    /// beginning, and the beginning of one at its end, go too.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut ranges = names::values(text);
        let learned = self.learned.read().unwrap_or_else(PoisonError::into_inner);
        for value in self.values.iter().chain(&*learned) {
            let found = text.match_indices(&**value).map(|(at, found)| at..at + found.len());
            if value.len() < WORD_BYTES {
                ranges.extend(found.filter(|range| stands_alone(text, range)));
            } else {
                ranges.extend(found);
                ranges.extend(torn(text, value));
            }
        }
        ranges.retain(|range| text[range.clone()] != *REDACTED);
        if ranges.is_empty() {
            return Cow::Borrowed(text);
        }
        ranges.sort_by_key(|range| range.start);
        Cow::Owned(without(text, &ranges))
    }

    /// Is there anything to redact?
    #[must_use]
    pub fn holds(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("values", &self.values.len()).finish()
    }
}

/// How a secret may be written: as it is, as JSON writes it, and as an excerpt of either does. None where it is too
/// short to be looked for.
fn spellings(Secret(value): Secret) -> impl Iterator<Item = Box<str>> {
    let json = serde_json::Value::from(&*value).to_string();
    let in_json: Box<str> = json[1..json.len() - 1].into();
    let shown = |text: &str| text.chars().flat_map(escaped).collect::<String>().into_boxed_str();
    let looked_for = value.len() >= MIN_BYTES;
    // The longest first: a shorter one may be a part of it.
    let mut all = vec![shown(&in_json), shown(&value), in_json, value];
    all.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
    all.dedup();
    all.into_iter().filter(move |_| looked_for)
}

/// Is it no part of a longer word?
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || c == '_';
    !text[..range.start].ends_with(goes_on) && !text[range.end..].starts_with(goes_on)
}

/// Where the text begins with the rest of a value or ends with its start.
fn torn(text: &str, value: &str) -> impl Iterator<Item = Range<usize>> {
    let end = text.strip_suffix("...").unwrap_or(text).len();
    let cuts = || value.char_indices().map(|(at, _)| at).filter(|at| *at > 0);
    let head = cuts().map(|cut| &value[cut..]).find(|rest| rest.len() >= MIN_BYTES && text.starts_with(rest));
    let start = cuts().rev().map(|cut| &value[..cut]);
    let tail = start.take_while(|part| part.len() >= MIN_BYTES).find(|part| text[..end].ends_with(part));
    let head = head.map(|rest| 0..rest.len());
    head.into_iter().chain(tail.map(|part| end - part.len()..end))
}

/// The text with each run of ranges, in order of their start, replaced.
fn without(text: &str, ranges: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for range in ranges {
        if range.start >= done {
            out.push_str(&text[done..range.start]);
            out.push_str(REDACTED);
        }
        done = done.max(range.end);
    }
    out.push_str(&text[done..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S1-C5, T27: a secret has no way out but the one that says so.
    #[test]
    fn secrets_do_not_print() {
        let secret = Secret::new("hunter2-canary");
        assert_eq!(format!("{secret:?}"), REDACTED);
        assert_eq!(secret.expose(), "hunter2-canary");
        let redactor = Redactor::new([secret]);
        assert!(!format!("{redactor:?}").contains("canary"));
    }

    /// S1-C5: by value, wherever it stands, in JSON too, whole or cut.
    #[test]
    fn values_are_redacted() {
        let redactor =
            Redactor::new([Secret::new("s3cr\"et-value"), Secret::new("abc"), Secret::new("käse-brot")]);
        for (text, clean) in [
            ("key s3cr\"et-value is wrong", "key [redacted] is wrong"),
            (r#"{"a":"s3cr\"et-value"}"#, r#"{"a":"[redacted]"}"#),
            (r#"{"a":"s3cr\\"et-value"}"#, r#"{"a":"[redacted]"}"#),
            ("s3cr\"et-values3cr\"et-value", "[redacted][redacted]"),
            ("et-value was the end", "[redacted] was the end"),
            ("it begins s3cr\"et-v", "it begins [redacted]"),
            ("it begins s3cr\"et-v...", "it begins [redacted]..."),
            ("mit käse-br", "mit [redacted]"),
            ("abc is too short to look for", "abc is too short to look for"),
            ("nothing to see", "nothing to see"),
        ] {
            assert_eq!(redactor.redact(text), clean);
        }
    }

    /// S1-C5: a short value does not tear texts apart; behind a secret's name it is hidden all the same.
    #[test]
    fn short_values_are_looked_for_with_care() {
        let redactor = Redactor::new(["http", "false", "hunter", "s3cret7", "longer-8"].map(Secret::new));
        for (text, clean) in [
            // Below the bound: not looked for.
            ("http is no transport, https is", "http is no transport, https is"),
            ("true or false is expected", "true or false is expected"),
            ("token=http", "token=[redacted]"),
            // From there on as a word.
            ("hunter, (s3cret7) \"hunter\"", "[redacted], ([redacted]) \"[redacted]\""),
            ("huntersville, a_hunter, s3cret70", "huntersville, a_hunter, s3cret70"),
            ("hunte", "hunte"),
            ("password: xhunter", "password: [redacted]"),
            // And then anywhere.
            ("xlonger-8x", "x[redacted]x"),
        ] {
            assert_eq!(redactor.redact(text), clean);
        }
    }

    /// S1-C5: what a header holds is known without its scheme.
    #[test]
    fn values_are_learned_from_text() {
        let text = "Authorization: Bearer canary-1";
        let values: Vec<_> = Secret::found_in(text).map(|secret| secret.expose().to_owned()).collect();
        assert_eq!(values, ["canary-1"]);
        let redactor = Redactor::new(Secret::found_in(text));
        assert_eq!(redactor.redact("canary-1 is wrong"), "[redacted] is wrong");
        assert!(redactor.holds("canary-1") && !redactor.holds("other"));
    }

    /// S1-C5: what is learned later is known to every clone, up to the bound; the oldest is forgotten first.
    #[test]
    fn values_are_learned_later() {
        let redactor = Redactor::new([Secret::new("canary-given")]);
        let clone = redactor.clone();
        redactor.learn([Secret::new("canary-\"new\"")]);
        assert_eq!(
            clone.redact(r#"a canary-"new" {"b":"canary-\"new\""}"#),
            r#"a [redacted] {"b":"[redacted]"}"#
        );
        redactor.learn((0..LEARNED).map(|n| Secret::new(format!("canary-{n:08}"))));
        assert!(!clone.holds("canary-\"new\""), "the bound holds, and the oldest is gone");
        assert!(clone.holds("canary-00000000") && clone.holds("canary-given"));
        // What is learned again is new again.
        redactor.learn([Secret::new("canary-00000000"), Secret::new("canary-more")]);
        assert!(clone.holds("canary-00000000") && !clone.holds("canary-00000001"));
    }

    /// S1-C5: redacting again changes nothing.
    #[test]
    fn redacting_twice_is_redacting_once() {
        let redactor = Redactor::new([Secret::new("canary-1")]);
        let once = redactor.redact("token=canary-1 Authorization: Bearer canary-1").into_owned();
        assert_eq!(once, "token=[redacted] Authorization: [redacted]");
        assert_eq!(redactor.redact(&once), once);
    }
}
