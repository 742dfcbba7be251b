//! What goes to stdout: results and nothing else, with nothing in them that moves the cursor.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use cardan_proto::finding;

use crate::failure::Failure;
use crate::look::text::{self, Line};
use crate::look::{Surface, Tagging, tagging};
use crate::tagged;
use crate::talk::floor;

/// How things are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// One line of JSON.
    Json,
}

/// Is there someone who reads what we print?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    /// The pipe is closed.
    Gone,
}

/// Writes text to stdout, with a newline at its end. Whoever closed the pipe has read enough.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(text).map(drop)
}

/// The same for who goes on only as long as someone reads.
pub(crate) fn write(text: &str) -> Result<Reader, Failure> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(end.as_bytes()))
        .and_then(|()| stdout.flush());
    read(written)
}

/// Is there still somebody who reads, by what became of writing to stdout?
pub(crate) fn read(written: io::Result<()>) -> Result<Reader, Failure> {
    match written {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::unwritten(format!("cannot write to stdout: {error}"))),
    }
}

/// Writes lines to stdout, in colours where it takes them.
pub(crate) fn show(lines: &[Line]) -> Result<Reader, Failure> {
    write(&text::paint(lines, Surface::stdout().paint()))
}

/// Writes a raw result in JSON to stdout as one line.
pub(crate) fn print_json(json: &str) -> Result<(), Failure> {
    match tagging() {
        Tagging::Result => print(&json_line(json)),
        Tagging::Lines => print(&json_line(&tagged::result(json))),
    }
}

/// The same for a message that was not sent.
pub(crate) fn print_frame(json: &str) -> Result<(), Failure> {
    match tagging() {
        Tagging::Result => print(&json_line(json)),
        Tagging::Lines => print(&json_line(&tagged::frame(json))),
    }
}

/// How far rows after the first are indented, where there are some: nothing of ours begins there.
const HANG: usize = 4;

/// Writes one line to stderr. Foreign words in it begin no other, and at a terminal no row.
pub(crate) fn tell(line: &str) {
    tell_line(&Line::from(line));
}

/// The same in colours, where stderr takes them.
pub(crate) fn tell_line(line: &Line) {
    let stderr = Surface::stderr();
    floor::write(match stderr.columns() {
        Some(columns) => text::paint(&line.clone().wrapped(columns, HANG), stderr.paint()),
        None => format!("{}\n", line.painted(stderr.paint())),
    });
}

/// Writes to stderr what is ours alone: as many lines as it has, each as long as it is.
pub(crate) fn tell_page(text: &str) {
    floor::write(format!("{}\n", clean(text)));
}

/// Foreign text without anything a terminal obeys: control characters are shown as escapes, and so are
/// those that reverse the direction of writing.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.replace("\r\n", "\n").chars() {
        if is_obeyed(c) {
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Lines and tabs are fine on a terminal.
fn is_obeyed(c: char) -> bool {
    finding::is_obeyed(c) && !matches!(c, '\n' | '\t')
}

/// JSON on one line. What is obeyed can stand only in strings, where an escape means the same.
pub(crate) fn json_line(json: &str) -> Cow<'_, str> {
    if !json.contains(|c| c == '\n' || c == '\t' || is_obeyed(c)) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match c {
            // Only as space between tokens: strings have them escaped.
            '\n' | '\r' | '\t' => out.push(' '),
            c if is_obeyed(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(clean("a\tb\nc"), "a\tb\nc");
        assert_eq!(clean("\u{1b}[2J\u{9b}x\r\ny\rz\u{202e}"), "\\u{1b}[2J\\u{9b}x\ny\\u{d}z\\u{202e}");
    }

    #[test]
    fn json_is_one_line_and_means_the_same() {
        let json = "{\"a\":\n\"\u{9b}\u{7f}\"}";
        let line = json_line(json);
        assert_eq!(line, "{\"a\": \"\\u009b\\u007f\"}");
        let values = [json, &line].map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(values[0], values[1]);
    }
}
