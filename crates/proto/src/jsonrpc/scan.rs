//! A strict JSON scanner over bytes: finds where values end, parses nothing.
//!
//! Iterative (depth is a bit set, not the stack), linear, and free of allocation. Long strings
//! are skipped with `memchr`; short ones, which is what keys and names are, a lane at a time.

use std::borrow::Cow;

use super::plain;

/// Why the bytes are not JSON, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    /// Offset of the offending byte.
    pub at: usize,
    /// What is wrong there.
    pub what: Wrong,
}

/// The kinds of syntax errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// A byte that cannot stand here.
    Unexpected,
    /// The text ends too early.
    End,
    /// Nested too deeply.
    Depth,
    /// A control character inside a string.
    Control,
    /// A bad escape inside a string.
    Escape,
    /// A malformed number.
    Number,
}

/// A range of the frame. `u32` is enough: a frame is far below 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The span from `start` to `end`.
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// Nothing was seen. No value has this span: values are never empty.
    #[must_use]
    pub const fn is_absent(self) -> bool {
        self.end == 0
    }

    /// As a range, for slicing.
    #[must_use]
    pub const fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Moved by `offset` towards the start, for a slice of the frame.
    #[must_use]
    pub const fn within(self, offset: usize) -> Self {
        if self.is_absent() {
            self
        } else {
            Self::new(self.start as usize - offset, self.end as usize - offset)
        }
    }
}

/// A position in a text.
#[derive(Debug, Clone)]
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    max_depth: usize,
}

type Result<T> = std::result::Result<T, Syntax>;

impl<'a> Scanner<'a> {
    /// At the start of `text`.
    #[must_use]
    pub fn new(text: &'a [u8], max_depth: usize) -> Self {
        Self { text, at: 0, max_depth }
    }

    /// Where we are.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is not white space, not taken.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Takes `byte` or fails.
    pub fn expect(&mut self, byte: u8) -> Result<()> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(self.wrong(Wrong::Unexpected)),
            None => Err(self.wrong(Wrong::End)),
        }
    }

    /// Takes `byte` if it comes next.
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Steps into an object whose members the caller takes. It counts as a level until [`Self::leave`].
    pub fn enter(&mut self) -> Result<()> {
        self.expect(b'{')?;
        let Some(rest) = self.max_depth.checked_sub(1) else { return Err(self.wrong(Wrong::Depth)) };
        self.max_depth = rest;
        Ok(())
    }

    /// Takes the end of an object that was entered.
    pub fn leave(&mut self) -> Result<()> {
        self.expect(b'}')?;
        self.max_depth += 1;
        Ok(())
    }

    /// Nothing but white space is left.
    pub fn is_done(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Takes a string; the span includes its quotes.
    pub fn string(&mut self) -> Result<Span> {
        self.expect(b'"')?;
        let start = self.at - 1;
        self.at = skip_string(self.text, self.at)?;
        Ok(Span::new(start, self.at))
    }

    /// Takes the next member name of an object and its colon.
    pub fn key(&mut self) -> Result<&'a [u8]> {
        let span = self.string()?;
        self.expect(b':')?;
        let quoted = span.range();
        Ok(&self.text[quoted.start + 1..quoted.end - 1])
    }

    /// Takes the next member name by value, `"\u0069d"` being `id`, and its colon.
    pub fn name(&mut self) -> Result<Cow<'a, [u8]>> {
        self.expect(b'"')?;
        let start = self.at;
        let end = plain::run(self.text, start);
        let name = if self.text.get(end) == Some(&b'"') {
            self.at = end + 1;
            Cow::Borrowed(&self.text[start..end])
        } else {
            self.at = skip_string(self.text, end)?;
            unescaped(&self.text[start - 1..self.at])
        };
        self.expect(b':')?;
        Ok(name)
    }

    /// Takes any value.
    pub fn value(&mut self) -> Result<Span> {
        let first = self.peek().ok_or_else(|| self.wrong(Wrong::End))?;
        let start = self.at;
        match first {
            b'"' => self.at = skip_string(self.text, self.at + 1)?,
            b'{' | b'[' => self.container()?,
            _ => self.scalar(first)?,
        }
        Ok(Span::new(start, self.at))
    }

    /// Skips an array or object whose bracket comes next. `open` holds one bit per level: 1 is an object.
    fn container(&mut self) -> Result<()> {
        let mut open = 0u128;
        let mut depth = 0usize;
        loop {
            // At the start of a value.
            let byte = self.peek().ok_or_else(|| self.wrong(Wrong::End))?;
            match byte {
                b'{' | b'[' => {
                    if depth >= self.max_depth.min(128) {
                        return Err(self.wrong(Wrong::Depth));
                    }
                    depth += 1;
                    open = open << 1 | u128::from(byte == b'{');
                    self.at += 1;
                    let close = if byte == b'{' { b'}' } else { b']' };
                    if !self.take(close) {
                        if byte == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                    open >>= 1;
                    depth -= 1;
                }
                b'"' => self.at = skip_string(self.text, self.at + 1)?,
                _ => self.scalar(byte)?,
            }
            if !self.after_value(&mut open, &mut depth)? {
                return Ok(());
            }
        }
    }

    /// After a value inside a container: another value follows (true), or the outermost bracket closed.
    fn after_value(&mut self, open: &mut u128, depth: &mut usize) -> Result<bool> {
        while *depth > 0 {
            let object = *open & 1 == 1;
            if self.take(b',') {
                if object {
                    self.key()?;
                }
                return Ok(true);
            }
            self.expect(if object { b'}' } else { b']' })?;
            *open >>= 1;
            *depth -= 1;
        }
        Ok(false)
    }

    fn scalar(&mut self, first: u8) -> Result<()> {
        match first {
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(self.wrong(Wrong::Unexpected)),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<()> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.wrong(Wrong::Unexpected))
    }

    fn number(&mut self) -> Result<()> {
        let text = self.text;
        let mut at = self.at + usize::from(text[self.at] == b'-');
        let integer = digits(text, at);
        if integer == 0 || (integer > 1 && text[at] == b'0') {
            return Err(Syntax { at, what: Wrong::Number });
        }
        at += integer;
        if text.get(at) == Some(&b'.') {
            let fraction = digits(text, at + 1);
            if fraction == 0 {
                return Err(Syntax { at, what: Wrong::Number });
            }
            at += 1 + fraction;
        }
        if matches!(text.get(at), Some(b'e' | b'E')) {
            at += 1 + usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(text, at);
            if exponent == 0 {
                return Err(Syntax { at, what: Wrong::Number });
            }
            at += exponent;
        }
        self.at = at;
        Ok(())
    }

    fn wrong(&self, what: Wrong) -> Syntax {
        Syntax { at: self.at, what }
    }
}

fn digits(text: &[u8], from: usize) -> usize {
    text.get(from..).map_or(0, |rest| rest.iter().take_while(|b| b.is_ascii_digit()).count())
}

/// The value of a quoted name. One that is no text, a lone surrogate, stands for itself.
fn unescaped(quoted: &[u8]) -> Cow<'_, [u8]> {
    match serde_json::from_slice::<String>(quoted) {
        Ok(name) => Cow::Owned(name.into_bytes()),
        Err(_) => Cow::Borrowed(&quoted[1..quoted.len() - 1]),
    }
}

/// From just after the opening quote to just after the closing one.
fn skip_string(text: &[u8], mut at: usize) -> Result<usize> {
    loop {
        at = plain::run(text, at);
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = skip_escape(text, at)?,
            Some(_) => return Err(Syntax { at, what: Wrong::Control }),
            None => return Err(Syntax { at, what: Wrong::End }),
        }
    }
}

fn skip_escape(text: &[u8], at: usize) -> Result<usize> {
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match text.get(at + 2..at + 6) {
            Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
            _ => Err(Syntax { at, what: Wrong::Escape }),
        },
        _ => Err(Syntax { at, what: Wrong::Escape }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn accepts(text: &[u8]) -> bool {
        let mut scanner = Scanner::new(text, 128);
        scanner.value().is_ok() && scanner.is_done()
    }

    /// The scanner and serde_json agree on what is JSON, but for two things we judge elsewhere:
    /// UTF-8 (checked per frame) and lone surrogates (legal to pass on).
    #[test]
    fn agrees_with_the_json_parsing_vectors() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors/json");
        let Ok(files) = std::fs::read_dir(folder) else {
            println!("skipped: the JSON vectors are not beside the repository");
            return;
        };
        let mut seen = 0;
        for file in files.map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "json")) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read(&file).unwrap();
            let verdict = std::str::from_utf8(&text).is_ok() && accepts(&text);
            match name.as_bytes()[0] {
                b'y' => assert!(verdict, "{name} must be accepted"),
                b'n' => assert!(!verdict, "{name} must be refused"),
                _ => {}
            }
            seen += 1;
        }
        assert!(seen > 300, "only {seen} vectors");
    }

    /// T20: depth is counted, never recursed.
    #[test]
    fn a_million_brackets_are_an_error_not_a_crash() {
        let text = vec![b'['; 1_000_000];
        let mut scanner = Scanner::new(&text, 128);
        assert_eq!(scanner.value(), Err(Syntax { at: 128, what: Wrong::Depth }));
        let nested = [vec![b'['; 128], vec![b']'; 128]].concat();
        assert!(accepts(&nested));
    }

    #[test]
    fn control_characters_are_found_at_every_distance() {
        for length in 0..200 {
            let mut text = vec![b'x'; length];
            text.insert(0, b'"');
            text.extend_from_slice(b"\x01\"");
            let error = Scanner::new(&text, 128).value();
            assert_eq!(error, Err(Syntax { at: length + 1, what: Wrong::Control }));
        }
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(text in "[\\[\\]{}\",:0-9eE+.\\-truefalsn \\\\]{0,24}") {
            let ours = accepts(text.as_bytes());
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            prop_assert_eq!(ours, theirs, "{}", text);
        }

        #[test]
        fn strings_of_all_sorts_end_where_they_end(text in any::<String>(), tail in "[ ,}]{0,3}") {
            let mut json = serde_json::to_vec(&text).unwrap();
            let length = json.len();
            json.extend_from_slice(tail.as_bytes());
            let mut scanner = Scanner::new(&json, 128);
            prop_assert_eq!(scanner.value(), Ok(Span::new(0, length)));
        }
    }
}
