//! Splices of JSON with comments. What was added can be removed again, and every byte is as it was.

use super::{line_end, line_start, starts_line};
use crate::json::{line, pretty, quote};
use crate::tree::{Entry, Node, Value};

/// Adds a member to the table at a path, which is made where it is missing.
pub(super) fn add(text: &str, root: &Node, path: &[&str], entry: &Entry) -> String {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        let node = nested(path, entry);
        return format!("{}\n", pretty(&node, "  ", 0));
    }
    let mut table = root;
    for (depth, step) in path.iter().enumerate() {
        match table.member(step) {
            Some(inner) => table = inner,
            None => {
                let node = nested(&path[depth + 1..], entry);
                return insert(text, table, &Entry::new(*step, node));
            }
        }
    }
    insert(text, table, entry)
}

/// The tables on a path, with the entry at its end.
fn nested(path: &[&str], entry: &Entry) -> Node {
    let inner = Node::new(Value::Table(vec![entry.clone()]));
    path.iter().rev().fold(inner, |node, step| Node::new(Value::Table(vec![Entry::new(*step, node)])))
}

/// Writes the new value over the old one.
pub(super) fn replace(text: &str, old: &Entry, new: &Entry) -> String {
    let own_line = starts_line(text, old.key_span.start);
    let value = match own_line {
        true => lines(text, &new.node, indent_at(text, old.key_span.start)),
        false => line(&new.node),
    };
    splice(text, old.node.span.start, old.node.span.end, &value)
}

fn insert(text: &str, table: &Node, entry: &Entry) -> String {
    let Some(last) = table.entries().last() else { return insert_first(text, table, entry) };
    let end = last.node.span.end;
    let comma = comma_after(text, end);
    let after = comma.map_or(end, |comma| comma + 1);
    let member = |value: String| format!("{}: {value}", quote(&entry.key));
    if !starts_line(text, last.key_span.start) {
        let new = member(line(&entry.node));
        return match comma {
            Some(_) => splice(text, after, after, &format!(" {new},")),
            None => splice(text, end, end, &format!(", {new}")),
        };
    }
    let indent = indent_at(text, last.key_span.start);
    let new = format!("{}{indent}{}", line_end(text), member(lines(text, &entry.node, indent)));
    match (comma, rest_of_line(text, after)) {
        (Some(_), Some(at)) => splice(text, at, at, &format!("{new},")),
        (Some(_), None) => splice(text, after, after, &format!("{new},")),
        // A comment behind the last member stays behind it.
        (None, Some(at)) => splice(&splice(text, at, at, &new), end, end, ","),
        (None, None) => splice(text, end, end, &format!(",{new}")),
    }
}

fn insert_first(text: &str, table: &Node, entry: &Entry) -> String {
    let (open, close) = (table.span.start + 1, table.span.end - 1);
    let base = &text[line_start(text, table.span.start)..table.span.start];
    let base = &base[..base.len() - base.trim_start_matches([' ', '\t']).len()];
    let indent = format!("{base}{}", unit(text));
    let eol = line_end(text);
    let new = format!("{eol}{indent}{}: {}{eol}{base}", quote(&entry.key), lines(text, &entry.node, &indent));
    // Comments in an empty table stay.
    let keep = text[open..close].trim_end().len();
    splice(text, open + keep, close, &new)
}

/// Removes a member, its comma, and its line where it has one.
pub(super) fn remove(text: &str, table: &Node, entry: &Entry) -> String {
    let (start, end) = (entry.key_span.start, entry.node.span.end);
    let entries = table.entries();
    let at = entries.iter().position(|other| other.key_span == entry.key_span).unwrap_or_default();
    let before = at.checked_sub(1).map(|at| &entries[at]);
    let own = comma_after(text, end);
    let after = own.map_or(end, |comma| comma + 1);
    let before_comma = before.and_then(|before| comma_after(text, before.node.span.end));
    let line_rest = rest_of_line(text, after).filter(|_| starts_line(text, start));
    if entries.len() == 1 {
        let left = format!("{}{}", &text[table.span.start + 1..start], &text[after..table.span.end - 1]);
        if left.trim().is_empty() {
            return splice(text, table.span.start + 1, table.span.end - 1, "");
        }
    }
    match (own, line_rest, before_comma) {
        (Some(_), Some(rest), _) => cut_lines(text, start, rest),
        (None, Some(rest), Some(comma)) => splice(&cut_lines(text, start, rest), comma, comma + 1, ""),
        (None, Some(rest), None) => cut_lines(text, start, rest),
        (Some(_), None, Some(comma)) => splice(text, comma + 1, after, ""),
        (None, None, Some(comma)) => splice(text, comma, end, ""),
        (_, None, None) => {
            let blanks = text[after..].len() - text[after..].trim_start_matches([' ', '\t']).len();
            splice(text, start, after + blanks, "")
        }
    }
}

/// Removes the line that begins before `start`, and those to the end of line at `rest`.
fn cut_lines(text: &str, start: usize, rest: usize) -> String {
    let end = text[rest..].find('\n').map_or(text.len(), |newline| rest + newline + 1);
    splice(text, line_start(text, start), end, "")
}

fn splice(text: &str, from: usize, to: usize, new: &str) -> String {
    format!("{}{new}{}", &text[..from], &text[to..])
}

/// A value over several lines in the file's own style, at an indent.
fn lines(text: &str, node: &Node, indent: &str) -> String {
    let eol = line_end(text);
    pretty(node, &unit(text), 0).replace('\n', &format!("{eol}{indent}"))
}

/// By how much the file indents.
fn unit(text: &str) -> String {
    let first = text.lines().skip(1).find_map(|line| {
        let blanks = line.len() - line.trim_start_matches([' ', '\t']).len();
        (blanks > 0 && line.trim_start().starts_with('"')).then(|| &line[..blanks])
    });
    first.unwrap_or("  ").to_owned()
}

fn indent_at(text: &str, at: usize) -> &str {
    &text[line_start(text, at)..at]
}

/// Where the comma is that follows a value, comments apart.
fn comma_after(text: &str, end: usize) -> Option<usize> {
    let at = skip(text, end, Stop::AtToken);
    text[at..].starts_with(',').then_some(at)
}

/// The end of the line, where only blanks and comments are left on it.
fn rest_of_line(text: &str, after: usize) -> Option<usize> {
    let at = skip(text, after, Stop::AtNewline);
    let rest = &text[at..];
    (rest.starts_with('\n') || rest.starts_with("\r\n")).then_some(at)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    AtToken,
    AtNewline,
}

/// Skips blanks and comments.
fn skip(text: &str, mut at: usize, stop: Stop) -> usize {
    loop {
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').map_or(rest.len(), |end| rest[..end].trim_end_matches('\r').len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if rest.starts_with([' ', '\t']) || (stop == Stop::AtToken && rest.starts_with(['\n', '\r'])) {
            at += 1;
        } else {
            return at;
        }
    }
}
