//! A failure for people: what, then what is known of it, a line each, and what to do last.

use cardan_client::{Class, words};
use cardan_proto::session::event::Delivery;

use super::{Failure, data_of};
use crate::look::Surface;
use crate::look::json;
use crate::look::style::Style;
use crate::look::text::{Line, barred, beginning, paint, paragraphs};

/// How far what is known is indented.
const INDENT: usize = 2;

/// More of an error's data would bury the rest; all of it is in the form for programs.
const MAX_DATA_LINES: usize = 20;

/// What stands before each row of the server's stderr.
const BAR: &str = "    | ";

/// Rows of one line of it.
const MAX_STDERR_ROWS: usize = 100;

/// The same for its message and for anything else, in bytes.
const MAX_VALUE: usize = 16 << 10;

impl Failure {
    /// As it is told on stderr.
    pub(super) fn text(&self, stderr: Surface) -> String {
        paint(&self.lines(stderr.columns()), stderr.paint())
    }

    fn lines(&self, columns: Option<usize>) -> Vec<Line> {
        let known = &self.circumstances;
        let mut page = Page { columns, out: Vec::new() };
        let head = Line::of(Style::Faint, "cardan: ").with(Style::Bad, self.exit.words());
        page.head(head.with(Style::Plain, ": "), &self.message);
        // Of what is wrong with the command itself, before there was anything to send, its first word says all.
        let is_underway = known.stage.is_some() || known.delivery.is_some() || known.answered;
        match known.stage {
            Some(stage) => {
                page.row("class", Style::Plain, &format!("{}, stage {}", self.class.name(), stage.name()));
            }
            // What could not be written at our end has no class of its own.
            None if is_underway && self.class != Class::Internal => {
                page.row("class", Style::Plain, self.class.name());
            }
            None => {}
        }
        if let Some(fault) = &known.fault {
            page.row("code", Style::Number, &fault.code.to_string());
            if let Some(data) = &fault.data {
                page.data(&String::from_utf8_lossy(data), data_of(fault).is_null());
            }
        }
        if is_underway {
            let delivery = self.delivery();
            let style = if delivery == Delivery::Unknown { Style::Warning } else { Style::Plain };
            page.row("delivery", style, words(delivery));
        }
        for finding in &known.findings {
            page.row("finding", Style::Plain, &finding.to_string());
        }
        if let Some(exit) = &known.server_exit {
            page.row("process of the server", Style::Plain, exit);
        }
        let said = self.stderr_lines();
        if !said.is_empty() {
            page.row("stderr of the server", Style::Plain, "");
        }
        for line in said {
            let (rows, is_all) = barred(&Line::of(Style::Faint, BAR), line, columns, MAX_STDERR_ROWS);
            page.out.extend(rows);
            if !is_all {
                page.more("(the rest of this line is not shown; see --json)");
            }
        }
        if let Some(next) = self.next_step() {
            page.row("next", Style::Good, next);
        }
        page.out
    }
}

struct Page {
    columns: Option<usize>,
    out: Vec<Line>,
}

impl Page {
    /// What happened. Whatever a server says in several lines cannot pass for lines of ours.
    fn head(&mut self, head: Line, message: &str) {
        self.value(head, Style::Strong, message);
    }

    fn row(&mut self, name: &str, style: Style, value: &str) {
        let mut first = Line::from(" ".repeat(INDENT).as_str()).with(Style::Faint, &format!("{name}:"));
        if !value.is_empty() {
            first.push(Style::Plain, " ");
        }
        self.value(first, style, value);
    }

    fn value(&mut self, mut first: Line, style: Style, value: &str) {
        let max = if self.columns.is_some() { MAX_VALUE } else { usize::MAX };
        let (shown, is_all) = beginning(value.trim_end(), max);
        let mut lines = shown.lines();
        first.push(style, lines.next().unwrap_or_default());
        self.put(first);
        for line in lines {
            self.out.extend(paragraphs(style, line, self.columns, 2 * INDENT));
        }
        if !is_all {
            self.more(&format!("({} bytes more; see --json)", value.len() - shown.len()));
        }
    }

    fn more(&mut self, text: &str) {
        self.put(Line::from(" ".repeat(2 * INDENT).as_str()).with(Style::Faint, text));
    }

    /// One line where it fits, else a member a line.
    fn data(&mut self, text: &str, is_text: bool) {
        let short = self.columns.is_none_or(|columns| text.len() + "  data: ".len() <= columns);
        if short || is_text || text.len() > MAX_VALUE {
            return self.row("data", Style::Plain, text);
        }
        self.row("data", Style::Plain, "");
        let lines = json::lines(text);
        let left = lines.len().saturating_sub(MAX_DATA_LINES);
        for line in lines.into_iter().take(MAX_DATA_LINES) {
            let mut indented = Line::from(" ".repeat(2 * INDENT).as_str());
            indented.append(line);
            self.put(indented);
        }
        if left > 0 {
            self.more(&format!("({left} lines more; see --json)"));
        }
    }

    fn put(&mut self, line: Line) {
        match self.columns {
            Some(columns) => self.out.extend(line.wrapped(columns, 2 * INDENT)),
            None => self.out.push(line),
        }
    }
}
