//! What is offered, for people: at a terminal each entry with its description below, elsewhere a line each.

use cardan_proto::model::Raw;
use serde_json::Value;

use super::{Detail, Kind};
use crate::look::style::Style;
use crate::look::table::shortened;
use crate::look::text::{Line, beginning, paragraphs, width};
use crate::schema::Shape;
use crate::talk::form::one_line;

/// Where descriptions stand.
const INDENT: usize = 4;

/// More lines of a description would bury the other entries.
const MAX_ABOUT: usize = 4;

/// Of nearly all text, emoji with all that joins them aside.
const MAX_BYTES_A_COLUMN: usize = 4;

/// What stands for a name that is missing or empty.
const NAMELESS: &str = "(without a name)";

/// Longer names push their description aside instead of everyone's.
const MAX_WIDTH: usize = 48;

/// All lists, as wide as they may be. No width: one line per entry, in full.
pub(super) fn lines(lists: &[(Kind, Vec<Raw>)], detail: Detail, columns: Option<usize>) -> Vec<Line> {
    let mut out = Vec::new();
    for (kind, entries) in lists {
        let entries: Vec<Entry> = entries.iter().map(|entry| Entry::of(*kind, &entry.value())).collect();
        match columns {
            Some(columns) => {
                if lists.len() > 1 {
                    out.extend((!out.is_empty()).then(Line::default));
                    let count = format!(" ({})", entries.len());
                    out.push(Line::of(Style::Heading, kind.name()).with(Style::Faint, &count));
                }
                out.extend(entries.iter().flat_map(|entry| entry.wrapped(detail, columns)));
            }
            None => {
                let indent = if lists.len() > 1 { "  " } else { "" };
                out.extend((lists.len() > 1).then(|| Line::of(Style::Heading, kind.name())));
                let widest = entries.iter().map(|entry| entry.call.width()).max().unwrap_or_default();
                let widest = widest.min(MAX_WIDTH);
                out.extend(entries.into_iter().map(|entry| entry.line(indent, widest)));
            }
        }
    }
    out
}

/// One thing that is offered.
struct Entry {
    /// What is typed to use it.
    call: Line,
    /// What it says of itself beside.
    hints: Vec<(Style, String)>,
    about: String,
}

impl Entry {
    fn of(kind: Kind, entry: &Value) -> Self {
        let member = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        // Without one nothing can be typed to use it, and yet it is there.
        let name = |key: &str| Some(member(key)).filter(|name| !name.is_empty()).unwrap_or(NAMELESS);
        let (call, hints) = match kind {
            Kind::Tools => {
                let signature = entry.get("inputSchema").map(|schema| Shape::of(schema).signature());
                (signed(name("name"), &signature.unwrap_or_default()), tool_hints(entry))
            }
            Kind::Prompts => (signed(name("name"), &prompt_signature(entry)), Vec::new()),
            Kind::Resources => (Line::of(Style::Name, name("uri")), resource_hints(entry)),
            Kind::Templates => (Line::of(Style::Name, name("uriTemplate")), resource_hints(entry)),
        };
        let about = match member("description") {
            "" => member("title"),
            description => description,
        };
        Self { call, hints, about: about.trim().to_owned() }
    }

    /// For people: what is typed, and below it what it is for.
    fn wrapped(&self, detail: Detail, columns: usize) -> Vec<Line> {
        let mut call = self.call.clone();
        for (at, (style, hint)) in self.hints.iter().enumerate() {
            call.push(Style::Plain, if at == 0 { "  " } else { ", " });
            call.push(*style, hint);
        }
        let mut lines = call.wrapped(columns, INDENT);
        let indented = |about| paragraphs(Style::Plain, about, Some(columns), INDENT);
        lines.extend(match detail {
            Detail::Short => {
                // No more is wrapped than can be shown, and some to show that there is more.
                let (about, _) = beginning(&self.about, (MAX_ABOUT + 1) * columns * MAX_BYTES_A_COLUMN);
                shortened(indented(about), MAX_ABOUT, columns)
            }
            Detail::Full => indented(&self.about),
        });
        lines
    }

    /// For programs: everything in one line.
    fn line(self, indent: &str, widest: usize) -> Line {
        let mut line = Line::from(indent);
        line.append(self.call.padded(widest));
        let about = one_line(&self.about);
        let hints: Vec<&str> = self.hints.iter().map(|(_, hint)| hint.as_str()).collect();
        if !about.is_empty() {
            line.push(Style::Plain, &format!("  {about}"));
        }
        if !hints.is_empty() {
            line.push(Style::Faint, &format!("  ({})", hints.join(", ")));
        }
        line
    }
}

/// A name and what it takes.
fn signed(name: &str, signature: &str) -> Line {
    let mut line = Line::of(Style::Name, name);
    for word in signature.split(' ').filter(|word| !word.is_empty()) {
        line.push(Style::Plain, " ");
        line.push(if word.starts_with('[') { Style::Faint } else { Style::Required }, word);
    }
    line
}

fn prompt_signature(entry: &Value) -> String {
    let arguments = entry.get("arguments").and_then(Value::as_array).into_iter().flatten();
    let words = arguments.filter_map(|argument| {
        let name = argument.get("name")?.as_str()?;
        let is_required = argument.get("required").and_then(Value::as_bool) == Some(true);
        Some(if is_required { format!("{name}=<text>") } else { format!("[{name}=<text>]") })
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What a tool says that it does. What it leaves open is not shown: the defaults are guesses.
fn tool_hints(entry: &Value) -> Vec<(Style, String)> {
    let hint = |name: &str| entry.get("annotations").and_then(|hints| hints.get(name)?.as_bool());
    let as_task = entry.pointer("/execution/taskSupport").and_then(Value::as_str) == Some("required");
    let hints = [
        (hint("readOnlyHint") == Some(true), Style::Good, "read-only"),
        (
            hint("readOnlyHint") != Some(true) && hint("destructiveHint") == Some(true),
            Style::Bad,
            "destructive",
        ),
        (hint("idempotentHint") == Some(true), Style::Faint, "idempotent"),
        (hint("openWorldHint") == Some(true), Style::Faint, "open world"),
        (as_task, Style::Warning, "as a task only"),
    ];
    hints.into_iter().filter(|(holds, ..)| *holds).map(|(_, style, word)| (style, word.to_owned())).collect()
}

fn resource_hints(entry: &Value) -> Vec<(Style, String)> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).filter(|text| width(text) > 0);
    let size = entry.get("size").and_then(Value::as_u64).map(|size| format!("{size} bytes"));
    let words = [text("name").map(str::to_owned), text("mimeType").map(str::to_owned), size];
    words.into_iter().flatten().map(|word| (Style::Faint, word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::style::Paint;

    /// What has no name is listed as that, and not as an empty line.
    #[test]
    fn what_has_no_name_is_listed() {
        let lists = [(Kind::Prompts, vec![Raw::of(&serde_json::json!({})).unwrap()])];
        for columns in [None, Some(80)] {
            let shown = lines(&lists, Detail::Short, columns);
            assert_eq!(shown[0].painted(Paint::Plain), NAMELESS);
        }
    }
}
