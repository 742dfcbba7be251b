//! JSON for people: a member a line, coloured, and every number and order as it was written.

use serde::de::IgnoredAny;

use super::style::Style;
use super::text::Line;
use crate::output::json_line;

/// Longer texts are shown as they are.
const MAX_BYTES: usize = 1 << 20;

/// Is this text an object or a list in JSON?
pub(crate) fn is_json(text: &str) -> bool {
    let text = text.trim();
    text.len() <= MAX_BYTES
        && text.starts_with(['{', '['])
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// JSON, a member a line.
pub(crate) fn lines(json: &str) -> Vec<Line> {
    let json = json_line(json);
    let (mut out, mut line, mut depth) = (Vec::new(), Line::default(), 0_usize);
    let mut rest = json.trim();
    while let Some(first) = rest.chars().next() {
        let (token, tail) = rest.split_at(token_end(rest, first));
        rest = tail.trim_start();
        match first {
            '{' | '[' if rest.starts_with(['}', ']']) => {
                line.push(Style::Plain, &format!("{first}{}", &rest[..1]));
                rest = rest[1..].trim_start();
            }
            '{' | '[' => {
                line.push(Style::Plain, token);
                depth += 1;
                turn(&mut out, &mut line, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                turn(&mut out, &mut line, depth);
                line.push(Style::Plain, token);
            }
            ',' => {
                line.push(Style::Plain, ",");
                turn(&mut out, &mut line, depth);
            }
            ':' => line.push(Style::Plain, ": "),
            '"' if rest.starts_with(':') => line.push(Style::Key, token),
            '"' => line.push(Style::Text, token),
            '-' | '0'..='9' => line.push(Style::Number, token),
            _ => line.push(Style::Word, token),
        }
    }
    out.push(line);
    out
}

/// Deeper than this, indents would push everything aside.
const MAX_INDENT: usize = 16;

fn turn(out: &mut Vec<Line>, line: &mut Line, depth: usize) {
    out.push(std::mem::replace(line, Line::from("  ".repeat(depth.min(MAX_INDENT)).as_str())));
}

/// Where the token ends that begins with `first`.
fn token_end(text: &str, first: char) -> usize {
    match first {
        '"' => {
            let mut escaped = false;
            let end = text.bytes().enumerate().skip(1).find(|(_, byte)| {
                let ends = *byte == b'"' && !escaped;
                escaped = *byte == b'\\' && !escaped;
                ends
            });
            end.map_or(text.len(), |(at, _)| at + 1)
        }
        '{' | '}' | '[' | ']' | ',' | ':' => 1,
        _ => text.find([',', '}', ']', ' ', ':', '"', '{', '[']).filter(|end| *end > 0).unwrap_or(text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::style::Paint;
    use super::super::text::{odd_texts, paint};
    use super::*;

    #[test]
    fn json_is_laid_out_and_means_the_same() {
        let json = r#"{"b": 1.50, "a":[],"c":[true,{"x":"q\"]\\"}], "e": {}}"#;
        let shown = paint(&lines(json), Paint::Plain);
        let laid = "{\n  \"b\": 1.50,\n  \"a\": [],\n  \"c\": [\n    true,\n    {\n      \"x\": \"q\\\"]\\\\\"\n    }\n  ],\n  \"e\": {}\n}\n";
        assert_eq!(shown, laid);
        let values = [json, &shown].map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(values[0], values[1]);
    }

    #[test]
    fn what_is_no_json_ends_too() {
        let pieces =
            ["\"", "{", "}", "[", "]", ",", ":", "\\", "a", " ", "1", "\u{1b}", "日", "\n", "\u{9b}"];
        for text in odd_texts(&pieces, 3000) {
            assert!(!paint(&lines(&text), Paint::Plain).contains(['\u{1b}', '\u{9b}']), "{text}");
        }
        assert!(is_json(" {\"a\":1}\n") && !is_json("12") && !is_json("[draft] a note"));
    }
}
