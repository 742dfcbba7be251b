//! Rust source, line by line, taken apart into code, comments and string literals.
//!
//! Just enough of a lexer that a brace in a JSON literal does not end a test and a word in a
//! comment does not break a rule. Text that is not Rust gives odd lines, never a panic.

/// One line of a source file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The code, literals emptied (`"..."` becomes `""`), comments left out.
    pub(crate) code: String,
    /// The text of all comments on the line, without their slashes.
    pub(crate) comment: String,
    /// What the string literals that begin on this line say, as spelled.
    pub(crate) literals: Vec<String>,
}

/// Takes `source` apart. Yields as many lines as `str::lines`.
pub(crate) fn lines(source: &str) -> Vec<Line> {
    let mut lexer = Lexer { rest: source, lines: vec![Line::default()] };
    while lexer.step() {}
    lexer.lines.truncate(source.lines().count());
    lexer.lines
}

struct Lexer<'a> {
    rest: &'a str,
    lines: Vec<Line>,
}

impl Lexer<'_> {
    /// Consumes one token; false at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        if self.rest.starts_with("//") {
            self.line_comment();
        } else if self.rest.starts_with("/*") {
            self.block_comment();
        } else if let Some(hashes) = raw_string(self.rest) {
            self.raw_literal(hashes);
        } else if first == '"' {
            self.literal();
        } else if first == '\'' {
            self.quote();
        } else if first.is_alphanumeric() || first == '_' {
            self.word();
        } else {
            self.take(first.len_utf8());
        }
        true
    }

    fn line_comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let text = self.rest[..end].trim_start_matches(['/', '!']).trim();
        self.comment(text.to_owned());
        self.rest = &self.rest[end..];
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        let mut at = 0;
        while at < self.rest.len() {
            let here = &self.rest[at..];
            if here.starts_with("/*") {
                depth += 1;
                at += 2;
            } else if here.starts_with("*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    break;
                }
            } else {
                at += here.chars().next().map_or(1, char::len_utf8);
            }
        }
        let text = self.rest[..at].to_owned();
        self.rest = &self.rest[at..];
        for (number, part) in text.split('\n').enumerate() {
            if number > 0 {
                self.lines.push(Line::default());
            }
            self.comment(part.trim_matches(['/', '*', '!', ' ']).to_owned());
        }
    }

    /// `r"..."`, `br#"..."#` and the like; `prefix` covers everything up to the first quote.
    fn raw_literal(&mut self, prefix: usize) {
        let hashes = self.rest[..prefix].matches('#').count();
        let close = format!("\"{}", "#".repeat(hashes));
        let body = &self.rest[prefix + 1..];
        let length = body.find(&close).unwrap_or(body.len());
        let end = (prefix + 1 + length + close.len()).min(self.rest.len());
        self.store(length, prefix + 1, end);
    }

    fn literal(&mut self) {
        let mut length = 0;
        let mut chars = self.rest[1..].chars();
        while let Some(next) = chars.next() {
            match next {
                '"' => break,
                '\\' => length += 1 + chars.next().map_or(0, char::len_utf8),
                _ => length += next.len_utf8(),
            }
        }
        self.store(length, 1, (length + 2).min(self.rest.len()));
    }

    /// A character literal, or the tick of a lifetime or label.
    fn quote(&mut self) {
        let mut chars = self.rest[1..].chars();
        let end = match (chars.next(), chars.next()) {
            (Some('\\'), Some(escaped)) => {
                let tail = 2 + escaped.len_utf8();
                self.rest[tail..].find('\'').map(|close| tail + close + 1)
            }
            (Some(inner), Some('\'')) => Some(2 + inner.len_utf8()),
            _ => None,
        };
        match end {
            Some(end) if !self.rest[..end].contains('\n') => {
                self.code("' '");
                self.rest = &self.rest[end..];
            }
            _ => self.take(1),
        }
    }

    /// Whole words, so that the `r` of `for"` is not mistaken for a raw string.
    fn word(&mut self) {
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        self.take(end);
    }

    fn take(&mut self, length: usize) {
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        if token == "\n" {
            self.lines.push(Line::default());
        } else {
            self.code(token);
        }
    }

    fn store(&mut self, length: usize, start: usize, end: usize) {
        let text = self.rest[start..start + length].to_owned();
        let breaks = self.rest[..end].matches('\n').count();
        self.rest = &self.rest[end..];
        self.code("\"\"");
        self.last().literals.push(text);
        for _ in 0..breaks {
            self.lines.push(Line::default());
        }
    }

    fn code(&mut self, token: &str) {
        self.last().code.push_str(token);
    }

    fn comment(&mut self, text: String) {
        let line = self.last();
        if !line.comment.is_empty() {
            line.comment.push(' ');
        }
        line.comment.push_str(&text);
    }

    fn last(&mut self) -> &mut Line {
        self.lines.last_mut().expect("the list starts with one line and only grows")
    }
}

/// The length of a raw string's prefix, if one starts here.
fn raw_string(text: &str) -> Option<usize> {
    let after =
        text.strip_prefix("br").or_else(|| text.strip_prefix("cr")).or_else(|| text.strip_prefix('r'))?;
    let quote = after.trim_start_matches('#');
    quote.starts_with('"').then(|| text.len() - quote.len())
}

#[cfg(test)]
mod tests;
