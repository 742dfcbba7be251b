//! The head of a skill's manifest: YAML between two lines of hyphens, as far as such heads go.
//!
//! Mappings and lists by indentation, scalars plain, quoted or in blocks, lists in brackets. Anchors, tags and
//! whatever else YAML knows are refused: what cannot be read cannot be compared.

use serde_json::{Map, Value};

use super::flaw::Flaw;

/// The head of a manifest as an object.
pub fn read(manifest: &str) -> Result<Map<String, Value>, Flaw> {
    let text = manifest.strip_prefix('\u{feff}').unwrap_or(manifest);
    let mut lines = text.lines();
    if lines.next().is_none_or(|line| line.trim_end() != "---") {
        return Err(Flaw::here("the manifest does not begin with a line of three hyphens"));
    }
    let mut head = Vec::new();
    for line in lines {
        if line.trim_end() == "---" {
            let mut reader = Reader { lines: head, at: 0 };
            return reader.mapping(0, 0);
        }
        head.push(line);
    }
    Err(Flaw::here("the head of the manifest does not end"))
}

/// Deeper heads are refused.
const MAX_DEPTH: usize = 8;

struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next line that says something, with its indentation.
    fn peek(&mut self) -> Option<(usize, &'a str)> {
        while let Some(line) = self.lines.get(self.at) {
            let words = line.trim_start_matches(' ');
            if !words.trim().is_empty() && !words.starts_with('#') {
                return Some((line.len() - words.len(), words.trim_end()));
            }
            self.at += 1;
        }
        None
    }

    fn mapping(&mut self, indent: usize, depth: usize) -> Result<Map<String, Value>, Flaw> {
        if depth > MAX_DEPTH {
            return Err(Flaw::here("the head of the manifest is too deep"));
        }
        let mut out = Map::new();
        while let Some((column, words)) = self.peek() {
            if column < indent {
                break;
            }
            let (key, rest) = split_key(words).filter(|_| column == indent).ok_or_else(|| odd(words))?;
            self.at += 1;
            let value = self.value(rest, indent, depth)?;
            if out.insert(key.clone(), value).is_some() {
                return Err(Flaw::at(&key, "comes twice"));
            }
        }
        Ok(out)
    }

    fn value(&mut self, rest: &str, indent: usize, depth: usize) -> Result<Value, Flaw> {
        if let Some(style) = rest.chars().next().filter(|c| matches!(c, '|' | '>')) {
            return self.block(style, &rest[1..], indent);
        }
        if !rest.is_empty() && !rest.starts_with('#') {
            return self.scalar(rest, indent);
        }
        match self.peek() {
            Some((column, words)) if words.starts_with("- ") && column >= indent => self.list(column),
            Some((column, _)) if column > indent => self.mapping(column, depth + 1).map(Value::Object),
            _ => Ok(Value::Null),
        }
    }

    fn list(&mut self, indent: usize) -> Result<Value, Flaw> {
        let mut out = Vec::new();
        while let Some((column, words)) = self.peek() {
            let Some(entry) = words.strip_prefix("- ").filter(|_| column == indent) else { break };
            self.at += 1;
            if split_key(entry).is_some() {
                return Err(odd(words));
            }
            out.push(self.scalar(entry.trim(), indent)?);
        }
        Ok(Value::Array(out))
    }

    /// A scalar, which may go on in lines that stand further in.
    fn scalar(&mut self, first: &str, indent: usize) -> Result<Value, Flaw> {
        let quoted = first.starts_with(['"', '\'', '[', '{']);
        let mut text = first.to_owned();
        while let Some((column, words)) = self.peek() {
            if quoted || column <= indent {
                break;
            }
            text.push(' ');
            text.push_str(words);
            self.at += 1;
        }
        read_scalar(&text).ok_or_else(|| odd(first))
    }

    fn block(&mut self, style: char, header: &str, indent: usize) -> Result<Value, Flaw> {
        let strip = match header.trim() {
            "" => false,
            "-" => true,
            _ => return Err(odd(header)),
        };
        let (mut lines, mut inner) = (Vec::new(), None);
        while let Some(line) = self.lines.get(self.at) {
            let column = line.len() - line.trim_start_matches(' ').len();
            if !line.trim().is_empty() && column <= indent {
                break;
            }
            let inner = *inner.get_or_insert(column);
            lines.push(line.get(inner..).unwrap_or_default());
            self.at += 1;
        }
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        let mut text = if style == '|' { lines.join("\n") } else { folded(&lines) };
        if !strip && !text.is_empty() {
            text.push('\n');
        }
        Ok(Value::String(text))
    }
}

/// Lines become words of one line; an empty one becomes a break.
fn folded(lines: &[&str]) -> String {
    let mut out = String::new();
    for (n, line) in lines.iter().enumerate() {
        match (n, line.is_empty()) {
            (0, _) => {}
            (_, true) => out.push('\n'),
            (_, false) if out.ends_with('\n') => {}
            (_, false) => out.push(' '),
        }
        out.push_str(line);
    }
    out
}

/// `key: rest`, or `key:` at the end of the line.
fn split_key(words: &str) -> Option<(String, &str)> {
    if let Some(quote) = words.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let end = words[1..].find(quote)? + 2;
        let Value::String(key) = read_scalar(&words[..end])? else { return None };
        let rest = words[end..].strip_prefix(':')?;
        return (rest.is_empty() || rest.starts_with(' ')).then(|| (key, rest.trim()));
    }
    let colon = words.match_indices(':').find(|(at, _)| {
        let rest = &words[at + 1..];
        rest.is_empty() || rest.starts_with(' ')
    })?;
    let key = &words[..colon.0];
    let plain = !key.is_empty() && !key.starts_with(['-', '?', '&', '*', '!', '[', '{', '%', '@', '`', '#']);
    plain.then(|| (key.to_owned(), words[colon.0 + 1..].trim()))
}

fn read_scalar(text: &str) -> Option<Value> {
    match text.chars().next()? {
        // JSON's strings and lists are YAML's, as far as they go.
        '"' => serde_json::from_str::<String>(text).ok().map(Value::String),
        '\'' => {
            let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
            let doubled = inner.replace("''", "");
            (!doubled.contains('\'')).then(|| Value::String(inner.replace("''", "'")))
        }
        '[' => {
            let inner = text.strip_prefix('[')?.strip_suffix(']')?.trim();
            if inner.is_empty() {
                return Some(Value::Array(Vec::new()));
            }
            inner.split(',').map(|entry| read_scalar(entry.trim())).collect::<Option<_>>().map(Value::Array)
        }
        '{' if text == "{}" => Some(Value::Object(Map::new())),
        '&' | '*' | '!' | '{' | '%' | '@' | '`' | '|' | '>' | ']' | '}' | ',' => None,
        _ => plain(text),
    }
}

/// What stands for itself, without a comment behind it.
fn plain(text: &str) -> Option<Value> {
    let text = text.split(" #").next()?.trim_end();
    if text.contains(": ") || text.ends_with(':') {
        return None;
    }
    Some(match text {
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        "null" | "Null" | "NULL" | "~" => Value::Null,
        _ => match serde_json::from_str(text) {
            Ok(Value::Number(number)) => Value::Number(number),
            _ => Value::String(text.to_owned()),
        },
    })
}

fn odd(words: &str) -> Flaw {
    Flaw::here(format!("the head of the manifest has a line that cannot be read: {words:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn head(text: &str) -> Result<Value, Flaw> {
        read(&format!("---\n{text}\n---\n\nBody: with: colons\n")).map(Value::Object)
    }

    /// SKL-8: what heads of manifests look like.
    #[test]
    fn heads_are_read() {
        let rows = [
            (
                "name: bake\ndescription: Bread, and more",
                json!({ "name": "bake", "description": "Bread, and more" }),
            ),
            (
                "a: \"x: \\\"y\\\"\"\nb: 'it''s'\nc: x#y # no",
                json!({ "a": "x: \"y\"", "b": "it's", "c": "x#y" }),
            ),
            (
                "metadata:\n  author: me\n  version: \"1.0\"\nn: 1.5\nb: true",
                json!({ "metadata": { "author": "me", "version": "1.0" }, "n": 1.5, "b": true }),
            ),
            (
                "d: >\n  one\n  two\n\n  three\nx: |-\n  a\n   b\n",
                json!({ "d": "one two\nthree\n", "x": "a\n b" }),
            ),
            (
                "tools:\n- Read\n- Write\nmore: [a, 'b', 2]\nnone:",
                json!({ "tools": ["Read", "Write"], "more": ["a", "b", 2], "none": null }),
            ),
            (
                "d: goes on\n  in the next line\n# a comment\ne: x",
                json!({ "d": "goes on in the next line", "e": "x" }),
            ),
        ];
        for (text, value) in rows {
            assert_eq!(head(text).unwrap_or_else(|flaw| panic!("{text}: {flaw}")), value, "{text}");
        }
    }

    /// SKL-8: what cannot be read is not guessed.
    #[test]
    fn odd_heads_are_refused() {
        for text in [
            "a: &x 1",
            "a: *x",
            "a: !t 1",
            "just words",
            "a: {b: 1}",
            "a: 1\na: 2",
            "- a",
            "a: b: c",
            "a: 'b",
        ] {
            assert!(head(text).is_err(), "{text}");
        }
        for manifest in ["", "name: x", "---\nname: x\n", "--- \nname"] {
            assert!(read(manifest).is_err(), "{manifest}");
        }
        let deep: String = (0..20).map(|n| format!("{}k:\n", " ".repeat(n))).collect();
        assert!(head(&deep).is_err());
    }
}
