//! Markdown for people at a terminal: headings, lists, code, tables, and links with their addresses.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::style::{Paint, Style};
use super::table::{self, Fit};
use super::text::{Line, paragraphs};
use crate::output::clean;

/// Longer texts are shown as they are.
const MAX_BYTES: usize = 1 << 20;

/// What is nested deeper, in quotes, lists, or images, is shown as it is written.
const MAX_NESTING: usize = 16;

/// A line that may be nested deeper than this leaves the whole text as it is: the parser looks at everything around a line
/// for each line. Marks in code count too, so it is more than what is laid out.
const MAX_REACH: usize = 64;

/// Does this text use Markdown so plainly that it must be meant? Two different signs are enough; one is not, for a
/// hash begins comments too.
pub(crate) fn is_markdown(text: &str) -> bool {
    if text.len() > MAX_BYTES || text.starts_with("#!") {
        return false;
    }
    let heading = |line: &str| {
        let title = line.trim_start_matches('#');
        (1..=6).contains(&(line.len() - title.len())) && title.starts_with(' ')
    };
    let ruled = |line: &str| line.contains("---") && line.contains('|') && !line.contains(is_prose);
    let bold = |line: &str| {
        let inner = line.split_once("**").and_then(|(_, rest)| rest.split_once("**"));
        inner.is_some_and(|(word, _)| !word.is_empty() && !word.starts_with(' ') && !word.ends_with(' '))
    };
    let signs: [&dyn Fn(&str) -> bool; 5] =
        [&heading, &|line| line.starts_with("```"), &ruled, &bold, &|line| line.contains("](http")];
    signs.iter().filter(|sign| text.lines().any(sign)).count() >= 2
}

fn is_prose(c: char) -> bool {
    !matches!(c, '|' | '-' | ':' | ' ')
}

/// Markdown as lines that fit.
pub(crate) fn lines(text: &str, columns: usize, paint: Paint) -> Vec<Line> {
    // Before it is read: what is obeyed would be in the way of the marks around it.
    let text = clean(text);
    if text.len() > MAX_BYTES {
        return text.lines().map(Line::from).collect();
    }
    if text.lines().any(|line| reach(line) > MAX_REACH) {
        return paragraphs(Style::Plain, &text, Some(columns), 0);
    }
    let mut page = Page::new(columns, paint);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    for (event, range) in Parser::new_ext(&text, options).into_offset_iter() {
        if page.lays_out(&event, text.get(range).unwrap_or_default()) {
            page.event(event);
        }
    }
    page.flush();
    page.out
}

/// How deep in quotes and lists a line can be at most: each of them takes a mark, or two columns where the mark of an item
/// stands on a line before. A line without marks opens nothing.
fn reach(line: &str) -> usize {
    let (mut rest, mut marks, mut spaces) = (line, 0, 0);
    loop {
        let inner = rest.trim_start_matches([' ', '\t']);
        spaces +=
            rest[..rest.len() - inner.len()].chars().map(|c| if c == '\t' { 4 } else { 1 }).sum::<usize>();
        let Some(behind) = behind_mark(inner) else { break };
        (rest, marks) = (behind, marks + 1);
    }
    if marks == 0 { 0 } else { marks + spaces / 2 }
}

/// What follows the mark of a quote or of an item, if the text begins with one.
fn behind_mark(text: &str) -> Option<&str> {
    if let Some(quoted) = text.strip_prefix('>') {
        return Some(quoted);
    }
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let item = match number.len() == text.len() {
        true => text.strip_prefix(['-', '*', '+']),
        false => number.strip_prefix(['.', ')']),
    }?;
    (item.is_empty() || item.starts_with([' ', '\t'])).then_some(item)
}

/// A page that is being filled.
struct Page {
    columns: usize,
    paint: Paint,
    out: Vec<Line>,
    /// The block that is being read.
    line: Line,
    styles: Vec<Style>,
    /// What stands before every line, from the outside in.
    margin: Vec<Margin>,
    /// The numbers of the lists around us; nothing: bullets.
    lists: Vec<Option<u64>>,
    /// Where the links around us lead, and their text so far.
    links: Vec<(String, String)>,
    table: Vec<Vec<Line>>,
    code: bool,
    /// How many quotes and items are open that are shown as they are written, the first of them with all that is in it.
    beyond: usize,
}

enum Margin {
    Quote,
    /// The mark stands before the first line only.
    Item {
        mark: String,
        used: bool,
    },
}

impl Page {
    fn new(columns: usize, paint: Paint) -> Self {
        let (line, out, styles, margin) = (Line::default(), Vec::new(), Vec::new(), Vec::new());
        let (lists, links, table) = (Vec::new(), Vec::new(), Vec::new());
        Self { columns, paint, out, line, styles, margin, lists, links, table, code: false, beyond: 0 }
    }

    /// Is this to be laid out? What is too deep is not: it is shown as it is written when it begins, and passed over until it ends.
    fn lays_out(&mut self, event: &Event<'_>, source: &str) -> bool {
        match event {
            Event::Start(Tag::BlockQuote(_) | Tag::Item) if self.beyond > 0 || self.is_full() => {
                if self.beyond == 0 {
                    self.raw(source);
                }
                self.beyond += 1;
                false
            }
            Event::End(TagEnd::BlockQuote(_) | TagEnd::Item) if self.beyond > 0 => {
                self.beyond -= 1;
                false
            }
            _ => self.beyond == 0,
        }
    }

    /// Do margins take all that they may: so many, or half of the columns?
    fn is_full(&self) -> bool {
        let widths = self.margin.iter().map(|margin| match margin {
            Margin::Quote => 2,
            Margin::Item { mark, .. } => super::text::width(mark),
        });
        self.margin.len() >= MAX_NESTING || widths.sum::<usize>() > self.columns / 2
    }

    fn raw(&mut self, source: &str) {
        self.flush();
        for line in source.lines() {
            self.line.push(Style::Plain, line.trim());
            self.flush();
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => self.verbatim(&text),
            Event::Text(text) | Event::InlineHtml(text) | Event::Html(text) => self.text(&text),
            Event::Code(text) if self.paint == Paint::Plain => self.text(&format!("`{text}`")),
            Event::Code(text) => self.line.push(Style::Code, &text),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.gap();
                self.line.push(Style::Faint, &"─".repeat(self.columns.min(40)));
                self.flush();
            }
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.gap(),
            Tag::Heading { level, .. } => self.heading(level),
            Tag::BlockQuote(_) => {
                self.gap();
                self.margin.push(Margin::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.gap();
                self.code = true;
                if let (CodeBlockKind::Fenced(name), Paint::Plain) = (kind, self.paint) {
                    self.line.push(Style::Faint, &format!("```{name}"));
                    self.flush();
                }
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.gap();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number = number.saturating_add(1);
                        mark
                    }
                    _ => "• ".to_owned(),
                };
                self.margin.push(Margin::Item { mark, used: false });
            }
            Tag::TableHead | Tag::TableRow => self.table.push(Vec::new()),
            Tag::Table(_) => self.gap(),
            Tag::Emphasis => self.styles.push(Style::Emphasis),
            Tag::Strong => self.styles.push(Style::Strong),
            Tag::Strikethrough => self.styles.push(Style::Struck),
            Tag::Link { dest_url, .. } => {
                self.styles.push(Style::Link);
                self.links.push((dest_url.into_string(), String::new()));
            }
            Tag::Image { dest_url, .. } => {
                self.text("image: ");
                self.styles.push(Style::Emphasis);
                self.links.push((dest_url.into_string(), String::new()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::CodeBlock => {
                self.code = false;
                if self.paint == Paint::Plain {
                    self.line.push(Style::Faint, "```");
                    self.flush();
                }
            }
            TagEnd::Item => {
                self.flush();
                self.margin.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.margin.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(row) = self.table.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.tabulate(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                if let Some((address, text)) = self.links.pop()
                    && address != text
                {
                    self.line.push(Style::Faint, &format!(" ({address})"));
                }
            }
            _ => {}
        }
    }

    fn heading(&mut self, level: HeadingLevel) {
        self.gap();
        if self.paint == Paint::Plain {
            self.line.push(Style::Plain, &format!("{} ", "#".repeat(level as usize)));
        }
        self.styles.push(if level <= HeadingLevel::H2 { Style::Heading } else { Style::Strong });
    }

    fn text(&mut self, text: &str) {
        let style = self.styles.last().copied().unwrap_or_default();
        for (_, told) in self.links.iter_mut().rev().take(MAX_NESTING) {
            told.push_str(text);
        }
        self.line.push(style, text);
    }

    /// Code keeps its lines, and is never wrapped: it may be copied.
    fn verbatim(&mut self, text: &str) {
        for line in text.lines() {
            let (mut first, _) = self.margins();
            first.push(Style::Plain, "    ");
            first.push(Style::Code, &line.replace('\t', "    "));
            self.out.push(first);
        }
    }

    fn tabulate(&mut self) {
        let mut rows = std::mem::take(&mut self.table);
        if table::width(&rows) <= self.columns {
            for cell in rows.first_mut().into_iter().flatten() {
                *cell = Line::of(Style::Strong, &cell.painted(Paint::Plain));
            }
            let fit = Fit { columns: None, spare: &[] };
            return self.out.extend(table::lines(&rows, fit));
        }
        // Too wide for a table: each row with the names of its cells.
        let Some((head, rows)) = rows.split_first() else { return };
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                self.out.push(Line::default());
            }
            for (name, cell) in head.iter().zip(row) {
                let mut line = Line::of(Style::Strong, &name.painted(Paint::Plain)).with(Style::Plain, ": ");
                line.append(cell.clone());
                self.out.extend(line.wrapped(self.columns, 2));
            }
        }
    }

    /// An empty line before a block, unless it is the first of its surroundings.
    fn gap(&mut self) {
        self.flush();
        let marked = self.margin.iter().any(|margin| matches!(margin, Margin::Item { used: false, .. }));
        if !marked && self.out.last().is_some_and(|line| !line.is_empty()) {
            let (line, _) = self.margins();
            self.out.push(if self.margin.iter().any(|m| matches!(m, Margin::Quote)) {
                line
            } else {
                Line::default()
            });
        }
    }

    fn flush(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        let (mut first, rest) = self.margins();
        let room = self.columns.saturating_sub(first.width());
        for line in line.wrapped(room, 0) {
            let mut whole = std::mem::replace(&mut first, rest.clone());
            whole.append(line);
            self.out.push(whole);
        }
    }

    /// What stands before the next line, and before those after it.
    fn margins(&mut self) -> (Line, Line) {
        let (mut first, mut rest) = (Line::default(), Line::default());
        for margin in &mut self.margin {
            match margin {
                Margin::Quote => {
                    first.push(Style::Faint, "│ ");
                    rest.push(Style::Faint, "│ ");
                }
                Margin::Item { mark, used } => {
                    let space = " ".repeat(super::text::width(mark));
                    first.push(Style::Faint, if std::mem::replace(used, true) { &space } else { mark });
                    rest.push(Style::Plain, &space);
                }
            }
        }
        (first, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::{odd_texts, paint};
    use super::*;

    const PAGE: &str = "# Title *here*\n\nSome **bold** text with `code` and a [link](https://example.com/x) that goes on\nand on.\n\n\
        - one\n- two\n  1. deep\n  2. deeper\n\n> quoted\n> twice\n\n```rust\nfn main() {}\n```\n\n\
        | a | b |\n|---|---|\n| 日本 | x |\n| y | z |\n";

    #[test]
    fn a_page_is_laid_out() {
        let plain = paint(&lines(PAGE, 40, Paint::Plain), Paint::Plain);
        let laid = "# Title here\n\nSome bold text with `code` and a link\n(https://example.com/x) that goes on and\non.\n\n\
            • one\n• two\n  1. deep\n  2. deeper\n\n│ quoted twice\n\n```rust\n    fn main() {}\n```\n\n\
            a     b\n日本  x\ny     z\n";
        assert_eq!(plain, laid);
        let colored = paint(&lines(PAGE, 40, Paint::Colors), Paint::Colors);
        assert!(colored.starts_with("\x1b[1;4mTitle \x1b[0m\x1b[3mhere\x1b[0m\n"), "{colored:?}");
    }

    #[test]
    fn a_table_that_is_too_wide_becomes_records() {
        let text =
            "| name | what it does |\n|---|---|\n| alpha | reads a file and more |\n| beta | writes |\n";
        let shown = paint(&lines(text, 20, Paint::Plain), Paint::Plain);
        assert_eq!(
            shown,
            "name: alpha\nwhat it does: reads\n  a file and more\n\nname: beta\nwhat it does: writes\n"
        );
    }

    #[test]
    fn markdown_is_known_when_it_is_plain() {
        assert!(is_markdown(PAGE));
        for text in
            ["# a comment\nkey: value\n- item", "#!/bin/sh\n# x\n**a**", "a * b ** c", "plain", "[1](2)"]
        {
            assert!(!is_markdown(text), "{text}");
        }
    }

    /// T20: what is nested without end is neither laid out nor looked at more than once, and fits the terminal.
    #[test]
    fn t20_what_is_nested_too_deep_is_shown_as_it_is_written() {
        const MANY: usize = 50_000;
        let stairs = |mark: &str, to: usize| -> String {
            (0..to).map(|at| format!("{}{mark}x\n", " ".repeat(at * mark.len()))).collect()
        };
        let within = |mark: &str| mark.repeat(MANY) + &"\n".repeat(MANY);
        for text in [
            ">".repeat(MAX_BYTES),
            "> ".repeat(MANY),
            "- ".repeat(MAX_BYTES / 2),
            "1. ".repeat(MANY),
            within("- "),
            within("> - "),
            stairs("- ", 200),
            stairs("999999999. ", 10),
            format!("{}x\n", ">".repeat(MAX_REACH)).repeat(MANY / MAX_REACH),
            format!("{}x", "- ".repeat(40)) + &"\n".repeat(MANY),
            "![".repeat(5000) + "x" + &"](y)".repeat(5000),
        ] {
            let shown = lines(&text, 80, Paint::Plain);
            let head: String = text.chars().take(20).collect();
            assert!(shown.iter().all(|line| line.width() <= 80), "{head:?} is too wide");
            assert_eq!(
                text.contains('x'),
                shown.iter().any(|line| line.painted(Paint::Plain).contains('x')),
                "{head:?}"
            );
        }
        let deep = paint(&lines(&format!("a\n\n{} b\n\nc", ">".repeat(20)), 80, Paint::Plain), Paint::Plain);
        assert_eq!(deep, format!("a\n\n{}>>>> b\n\nc\n", "│ ".repeat(MAX_NESTING)));
    }

    /// Whatever is written, it is shown: nothing panics, nothing is obeyed.
    #[test]
    fn odd_pages_are_shown() {
        let pieces = [
            "# ",
            "- ",
            "1. ",
            "> ",
            "```",
            "\n",
            "\n\n",
            "    ",
            "\t",
            "|",
            "|---|",
            "*",
            "**",
            "_",
            "`",
            "[a](",
            ")",
            "![",
            "]",
            "<b>",
            "&#27;",
            "\\",
            "日本",
            "\x1b",
            "- [x] ",
            "---",
            "~~",
            "http://x",
            "word ",
            "99999999999. ",
        ];
        for text in odd_texts(&pieces, 3000) {
            is_markdown(&text);
            for colors in [Paint::Plain, Paint::Colors] {
                let shown = paint(&lines(&text, 20, colors), Paint::Plain);
                assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{text:?}: {shown:?}");
            }
        }
    }

    #[test]
    fn nothing_in_it_is_obeyed() {
        let text =
            "# \x1b[2J\n\n```\x1b]0;x\x07\n\x1b[1m\n```\n[a\x1b[0m](http://x/\x1b[2J)\n\n&#27;[31m &#x9b;1m";
        let shown = paint(&lines(text, 40, Paint::Plain), Paint::Plain);
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    }
}
