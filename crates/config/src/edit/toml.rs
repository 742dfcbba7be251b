//! Splices of TOML. What was added can be removed again, and every byte is as it was.

use super::{EditError, Place, line_end, line_start, starts_line};
use crate::toml::{inline, key, outline, section};
use crate::tree::{Entry, Node, Value};

/// Adds a table at the end of the file, or inside the inline table that holds its siblings.
pub(super) fn add(text: &str, root: &Node, path: &[&str], entry: &Entry) -> String {
    if let Some(table) = root.at(path).filter(|table| is_inline(text, table)) {
        return add_inline(text, table, entry);
    }
    let full: Vec<&str> = path.iter().copied().chain([entry.key.as_str()]).collect();
    let eol = line_end(text);
    let new = section(&full, &entry.node).replace('\n', eol);
    if text.is_empty() {
        return new;
    }
    if text.ends_with('\n') {
        return format!("{text}{eol}{new}");
    }
    // Whoever leaves out the last newline gets none.
    format!("{text}{eol}{eol}{}", new.trim_end())
}

fn is_inline(text: &str, node: &Node) -> bool {
    text.get(node.span.clone()).is_some_and(|source| source.starts_with('{'))
}

fn add_inline(text: &str, table: &Node, entry: &Entry) -> String {
    let member = format!("{} = {}", key(&entry.key), inline(&entry.node));
    match table.entries().last() {
        Some(last) => {
            let end = end_of(last);
            format!("{}, {member}{}", &text[..end], &text[end..])
        }
        None => format!("{}{{ {member} }}{}", &text[..table.span.start], &text[table.span.end..]),
    }
}

/// Removes a server's tables, wherever they are in the file.
pub(super) fn remove(place: &Place<'_>, entry: &Entry) -> Result<String, EditError> {
    let text = place.text;
    let tangled = |what| Err(place.entangled(entry.key_span.start, what));
    if let Some(table) = place.root.at(place.path).filter(|table| is_inline(text, table)) {
        return Ok(remove_inline(text, table, entry));
    }
    let path: Vec<&str> = place.path.iter().copied().chain([entry.key.as_str()]).collect();
    let Ok((_, headers)) = outline(text) else { return tangled("it cannot be read") };
    if is_inline(text, &entry.node) {
        if !starts_line(text, entry.key_span.start) {
            return tangled("it is written with dotted keys");
        }
        return Ok(cut(text, line_start(text, entry.key_span.start), entry.node.span.end));
    }
    let mine =
        |path_of: &[String]| path_of.len() >= path.len() && path_of.iter().zip(&path).all(|(a, b)| a == b);
    if !headers.iter().any(|header| mine(&header.path)) {
        return tangled("it is written with dotted keys");
    }
    let mut out = text.to_owned();
    let mut at = headers.len();
    // From the end, so that the places before stay where they are.
    while at > 0 {
        at -= 1;
        if !mine(&headers[at].path) {
            continue;
        }
        let last = at;
        while at > 0 && mine(&headers[at - 1].path) {
            at -= 1;
        }
        let next = headers.get(last + 1).map_or(text.len(), |next| next.span.start);
        let end = last_content(&entry.node, headers[last].span.end..next);
        out = cut_section(&out, line_start(text, headers[at].span.start), end);
    }
    Ok(out)
}

/// Where the last value ends that stands in a range.
fn last_content(node: &Node, range: std::ops::Range<usize>) -> usize {
    let inside = |at: usize| if range.contains(&(at.saturating_sub(1))) { at } else { range.start };
    let children = match &node.value {
        Value::Table(entries) => entries.iter().map(|entry| &entry.node).collect::<Vec<_>>(),
        Value::List(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    let below = children.into_iter().map(|child| last_content(child, range.clone())).max();
    inside(node.span.end).max(below.unwrap_or(range.start))
}

/// Removes lines to the one in which `end` is, and the blank lines around them that they needed.
fn cut_section(text: &str, start: usize, end: usize) -> String {
    let eol = line_end(text);
    let line = text[end..].find('\n').map(|newline| end + newline + 1);
    let mut before = &text[..start];
    let mut after = &text[line.unwrap_or(text.len())..];
    while let Some(rest) = after.strip_prefix(eol) {
        after = rest;
    }
    if after.is_empty() {
        let alone = format!("{eol}{eol}");
        if before.ends_with(&alone) || before == eol {
            before = &before[..before.len() - eol.len()];
        }
        if line.is_none() {
            before = before.strip_suffix(eol).unwrap_or(before);
        }
    }
    format!("{before}{after}")
}

/// Removes the lines of one value.
fn cut(text: &str, start: usize, end: usize) -> String {
    let line = text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1);
    format!("{}{}", &text[..start], &text[line..])
}

fn remove_inline(text: &str, table: &Node, entry: &Entry) -> String {
    let entries = table.entries();
    let at = entries.iter().position(|other| other.key_span == entry.key_span).unwrap_or_default();
    let (from, to) = match (at.checked_sub(1).map(|at| &entries[at]), entries.get(at + 1)) {
        (Some(before), _) => (end_of(before), end_of(entry)),
        (None, Some(next)) => (entry.key_span.start, next.key_span.start),
        (None, None) => (table.span.start + 1, table.span.end - 1),
    };
    format!("{}{}", &text[..from], &text[to..])
}

fn end_of(entry: &Entry) -> usize {
    // A dotted key's value is an implicit table with its last value somewhere inside.
    let below = entry.node.entries().iter().map(end_of).max();
    entry.node.span.end.max(below.unwrap_or_default())
}
