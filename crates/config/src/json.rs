//! JSON with comments and trailing commas, read into a tree with places, and written.

use std::fmt::Write as _;

use cardan_proto::limits::config::TREE_DEPTH;

use crate::tree::{Entry, Malformed, Node, Value};

/// Reads a file. A byte order mark is skipped.
pub fn parse(text: &str) -> Result<Node, Malformed> {
    let mut reader = Reader { text, at: 0 };
    if text.starts_with('\u{feff}') {
        reader.at = '\u{feff}'.len_utf8();
    }
    let node = reader.value(0)?;
    reader.space()?;
    if reader.at < text.len() {
        return Err(reader.wrong("something follows the end of the value"));
    }
    Ok(node)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, message: impl Into<String>) -> Malformed {
        Malformed { at: self.at, message: message.into() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips blanks and comments.
    fn space(&mut self) -> Result<(), Malformed> {
        loop {
            let rest = &self.text[self.at..];
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    return Err(self.wrong("a comment does not end"));
                };
                self.at += end + 4;
            } else if rest.starts_with([' ', '\t', '\r', '\n']) {
                self.at += 1;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Malformed> {
        if depth > TREE_DEPTH {
            return Err(self.wrong("values are nested too deeply"));
        }
        self.space()?;
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => Value::Table(self.table(depth)?),
            Some(b'[') => Value::List(self.list(depth)?),
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(byte) if byte.is_ascii_alphabetic() => self.word()?,
            Some(_) => return Err(self.wrong("a value is expected")),
            None => return Err(self.wrong("a value is expected, but the file ends")),
        };
        Ok(Node { value, span: start..self.at })
    }

    fn table(&mut self, depth: usize) -> Result<Vec<Entry>, Malformed> {
        self.at += 1;
        let mut entries = Vec::new();
        loop {
            self.space()?;
            match self.peek() {
                Some(b'}') => break,
                Some(b'"') => {}
                Some(_) => return Err(self.wrong("a name in double quotes or `}` is expected")),
                None => return Err(self.wrong("an object does not end")),
            }
            let start = self.at;
            let key = self.string()?;
            let key_span = start..self.at;
            self.space()?;
            if self.peek() != Some(b':') {
                return Err(self.wrong("`:` is expected after a name"));
            }
            self.at += 1;
            let node = self.value(depth + 1)?;
            entries.push(Entry { key, key_span, node });
            if !self.comma(b'}')? {
                break;
            }
        }
        self.at += 1;
        Ok(entries)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Malformed> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.space()?;
            match self.peek() {
                Some(b']') => break,
                Some(_) => items.push(self.value(depth + 1)?),
                None => return Err(self.wrong("a list does not end")),
            }
            if !self.comma(b']')? {
                break;
            }
        }
        self.at += 1;
        Ok(items)
    }

    /// After an element: is there a comma? Otherwise the reader is at the closing bracket.
    fn comma(&mut self, close: u8) -> Result<bool, Malformed> {
        self.space()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => Ok(false),
            _ => Err(self.wrong(format!("`,` or `{}` is expected", char::from(close)))),
        }
    }

    fn string(&mut self) -> Result<String, Malformed> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => at += 2,
                Some(b'\n') | None => return Err(self.wrong("a string does not end on its line")),
                Some(_) => at += 1,
            }
        }
        let Some(token) = self.text.get(start..=at) else {
            return Err(self.wrong("a string has an escape that does not exist"));
        };
        // Tabs are not allowed in strings, and are in every hand-written file.
        let token = token.replace('\t', "\\t");
        let text = serde_json::from_str(&token)
            .map_err(|_| self.wrong("a string has an escape or a character that JSON does not allow"))?;
        self.at = at + 1;
        Ok(text)
    }

    fn number(&mut self) -> Result<Value, Malformed> {
        let rest = &self.text[self.at..];
        let end =
            rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).unwrap_or(rest.len());
        let token = &rest[..end];
        if serde_json::from_str::<&serde_json::value::RawValue>(token).is_err() {
            return Err(self.wrong("this is not a number of JSON"));
        }
        self.at += end;
        Ok(Value::Number(token.to_owned()))
    }

    fn word(&mut self) -> Result<Value, Malformed> {
        let rest = &self.text[self.at..];
        for (word, value) in
            [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)]
        {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.wrong("a value is expected: text stands in double quotes"))
    }
}

/// Writes a value over several lines, the first without indent. Short lists stay on one line.
#[must_use]
pub fn pretty(node: &Node, indent: &str, level: usize) -> String {
    let mut out = String::new();
    write(&mut out, node, Some(indent), level);
    out
}

/// Writes a value on one line.
#[must_use]
pub fn line(node: &Node) -> String {
    let mut out = String::new();
    write(&mut out, node, None, 0);
    out
}

/// A JSON string.
#[must_use]
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn write(out: &mut String, node: &Node, indent: Option<&str>, level: usize) {
    match &node.value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => {
            let _ = write!(out, "{value}");
        }
        Value::Number(number) => out.push_str(number),
        Value::Text(text) => out.push_str(&quote(text)),
        Value::List(items) => {
            let flat = items.iter().all(|item| item.entries().is_empty() && item.items().is_empty());
            let indent = if flat { None } else { indent };
            group(out, ('[', ']'), items.len(), indent, level, |out, at| {
                write(out, &items[at], indent, level + 1);
            });
        }
        Value::Table(entries) => group(out, ('{', '}'), entries.len(), indent, level, |out, at| {
            out.push_str(&quote(&entries[at].key));
            out.push_str(": ");
            write(out, &entries[at].node, indent, level + 1);
        }),
    }
}

fn group(
    out: &mut String,
    (open, close): (char, char),
    count: usize,
    indent: Option<&str>,
    level: usize,
    mut each: impl FnMut(&mut String, usize),
) {
    out.push(open);
    for at in 0..count {
        if at > 0 {
            out.push(',');
        }
        match indent {
            Some(indent) => {
                out.push('\n');
                out.push_str(&indent.repeat(level + 1));
            }
            None if at > 0 => out.push(' '),
            None => {}
        }
        each(out, at);
    }
    if let Some(indent) = indent
        && count > 0
    {
        out.push('\n');
        out.push_str(&indent.repeat(level));
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_read() {
        let text = "\u{feff}// top\n{ \"a\": [1, 2.5e3,], /* b */ \"b\": {\"c\": null,}, \"d\": \"\\u00e9\\n\" }\n// end";
        let node = parse(text).unwrap();
        assert_eq!(line(&node), r#"{"a": [1, 2.5e3], "b": {"c": null}, "d": "é\n"}"#);
        assert_eq!(&text[node.at(&["b", "c"]).unwrap().span.clone()], "null");
        assert_eq!(
            pretty(&node, "  ", 0),
            "{\n  \"a\": [1, 2.5e3],\n  \"b\": {\n    \"c\": null\n  },\n  \"d\": \"é\\n\"\n}"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, at, message) in [
            ("", 0, "a value is expected, but the file ends"),
            ("{\"a\": sk-secret}", 6, "a value is expected: text stands in double quotes"),
            ("{\"a\" 1}", 5, "`:` is expected after a name"),
            ("{\"a\": 1 \"b\": 2}", 8, "`,` or `}` is expected"),
            ("{\"a\": \"x", 6, "a string does not end on its line"),
            ("{'a': 1}", 1, "a name in double quotes or `}` is expected"),
            ("[1] 2", 4, "something follows the end of the value"),
            ("[01]", 1, "this is not a number of JSON"),
            ("{ /* ", 2, "a comment does not end"),
            ("\"\\x\"", 0, "a string has an escape or a character that JSON does not allow"),
        ] {
            assert_eq!(parse(text).unwrap_err(), Malformed { at, message: message.into() }, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(parse(&deep).unwrap_err().message, "values are nested too deeply");
    }
}
