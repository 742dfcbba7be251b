//! Lines of styled text: as wide as they look, wrapped and cut where a character ends, and with nothing in them that a
//! terminal obeys until they are painted.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::style::{Paint, RESET, Style};
use crate::output::clean;

/// A piece of text in one style. It is clean and has no line breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    text: String,
    style: Style,
}

/// One line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    spans: Vec<Span>,
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::of(Style::Plain, text)
    }
}

impl Line {
    /// A line of one style.
    pub(crate) fn of(style: Style, text: &str) -> Self {
        Self::default().with(style, text)
    }

    /// With more text, which may be foreign.
    pub(crate) fn with(mut self, style: Style, text: &str) -> Self {
        self.push(style, text);
        self
    }

    /// Adds text, which may be foreign: it is cleaned, and stays in the line.
    pub(crate) fn push(&mut self, style: Style, text: &str) {
        self.put(style, &clean(text).replace(['\n', '\t'], " "));
    }

    fn put(&mut self, style: Style, text: &str) {
        match self.spans.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.spans.push(Span { text: text.to_owned(), style }),
        }
    }

    /// Adds the pieces of another line.
    pub(crate) fn append(&mut self, other: Self) {
        for span in other.spans {
            self.put(span.style, &span.text);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// How many columns it takes.
    pub(crate) fn width(&self) -> usize {
        self.spans.iter().map(|span| width(&span.text)).sum()
    }

    /// How many columns it takes at most, on whatever terminal.
    fn most(&self) -> usize {
        self.spans.iter().map(|span| most(&span.text)).sum()
    }

    /// With spaces up to this width.
    pub(crate) fn padded(mut self, columns: usize) -> Self {
        let missing = columns.saturating_sub(self.width());
        self.put(Style::Plain, &" ".repeat(missing));
        self
    }

    /// Without spaces at its end.
    pub(crate) fn trimmed(mut self) -> Self {
        while let Some(last) = self.spans.last_mut() {
            last.text.truncate(last.text.trim_end().len());
            if !last.text.is_empty() {
                break;
            }
            self.spans.pop();
        }
        self
    }

    /// As much of it as fits; what is missing is marked.
    pub(crate) fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let (mut out, mut left) = (Self::default(), columns.saturating_sub(1));
        'spans: for span in self.spans {
            for cluster in clusters(&span.text) {
                let Some(rest) = left.checked_sub(width(cluster)) else { break 'spans };
                left = rest;
                out.put(span.style, cluster);
            }
        }
        if columns > 0 {
            out.put(Style::Faint, "…");
        }
        out
    }

    /// In as many lines as it takes, those after the first behind `hang` spaces.
    pub(crate) fn wrapped(self, columns: usize, hang: usize) -> Vec<Self> {
        let most = columns.max(NARROWEST) / 2;
        self.wrapped_behind(columns, &Self::from(" ".repeat(hang.min(most)).as_str()))
    }

    /// The same, with something else than spaces before those after the first.
    pub(crate) fn wrapped_behind(self, columns: usize, hang: &Self) -> Vec<Self> {
        let mut wrap = Wrap::new(columns, hang);
        for span in &self.spans {
            for word in words(&span.text) {
                match word.trim_start().is_empty() {
                    true => wrap.space(span.style, word),
                    false => wrap.word(span.style, word),
                }
            }
        }
        wrap.end()
    }

    /// As it is written to a stream, without its line break.
    pub(crate) fn painted(&self, paint: Paint) -> String {
        let mut out = String::new();
        let end = self.spans.len();
        for (at, span) in self.spans.iter().enumerate() {
            let text = if at + 1 == end { span.text.trim_end() } else { &span.text };
            match (paint, span.style.sequence()) {
                (Paint::Plain, _) | (Paint::Colors, "") => out.push_str(text),
                (Paint::Colors, _) if text.is_empty() => {}
                (Paint::Colors, sequence) => out.extend([sequence, text, RESET]),
            }
        }
        out
    }
}

/// Lines as they are written to a stream.
pub(crate) fn paint(lines: &[Line], paint: Paint) -> String {
    let mut out = String::new();
    for line in lines {
        out.push_str(&line.painted(paint));
        out.push('\n');
    }
    out
}

/// Text of several lines, each wrapped by itself, all behind `indent` spaces.
pub(crate) fn paragraphs(style: Style, text: &str, columns: Option<usize>, indent: usize) -> Vec<Line> {
    let space = " ".repeat(indent);
    let lines = text.trim_end().lines().map(|line| Line::from(space.as_str()).with(style, line.trim_end()));
    match columns {
        Some(columns) => lines.flat_map(|line| line.wrapped(columns, indent)).collect(),
        None => lines.collect(),
    }
}

/// Foreign text, with `bar` on every row that it takes, so that none of them passes for ours. At most `max_rows` of it;
/// and whether that is all.
pub(crate) fn barred(bar: &Line, text: &str, columns: Option<usize>, max_rows: usize) -> (Vec<Line>, bool) {
    let mut rows = Vec::new();
    let mut is_all = true;
    for line in text.lines() {
        if rows.len() >= max_rows {
            is_all = false;
            break;
        }
        // More than fits into the rows that are left need not be looked at.
        let room =
            columns.map_or(usize::MAX, |columns| (columns.max(NARROWEST) * max_rows).saturating_mul(4));
        let (line, whole) = beginning(line, room);
        is_all &= whole;
        let mut row = bar.clone();
        row.push(Style::Plain, line);
        match columns {
            Some(columns) => rows.extend(row.wrapped_behind(columns, bar)),
            None => rows.push(row),
        }
    }
    is_all &= rows.len() <= max_rows;
    rows.truncate(max_rows);
    (rows, is_all)
}

/// The beginning of a text, and whether that is all.
pub(crate) fn beginning(text: &str, max_bytes: usize) -> (&str, bool) {
    let end = text.floor_char_boundary(max_bytes);
    (&text[..end], end == text.len())
}

/// A line that is being filled.
struct Wrap {
    columns: usize,
    hang: Line,
    lines: Vec<Line>,
    line: Line,
    used: usize,
    /// Is there anything on the line beside its indent?
    begun: bool,
    gap: Line,
    /// What cannot be parted, as long as it may go on.
    word: Line,
}

/// Narrower than this nothing can be read anyway.
const NARROWEST: usize = 8;

impl Wrap {
    fn new(columns: usize, hang: &Line) -> Self {
        let (columns, hang) = (columns.max(NARROWEST), hang.clone());
        let (lines, line, gap, word) = (Vec::new(), Line::default(), Line::default(), Line::default());
        Self { columns, hang, lines, line, used: 0, begun: false, gap, word }
    }

    fn space(&mut self, style: Style, text: &str) {
        self.flush();
        self.gap.put(style, text);
    }

    fn word(&mut self, style: Style, text: &str) {
        for cluster in clusters(text) {
            // Scripts without spaces may break before any of their characters.
            if width(cluster) > 1 {
                self.flush();
            }
            self.word.put(style, cluster);
            // So may a list of choices, between two.
            if width(cluster) > 1 || cluster == "|" {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let (gap, word) = (std::mem::take(&mut self.gap), std::mem::take(&mut self.word));
        let (space, long) = (gap.most(), word.most());
        if self.begun && self.used + space + long > self.columns {
            self.turn();
        } else if self.used + space < self.columns {
            self.used += space;
            self.line.append(gap);
        }
        self.begun = true;
        if self.used + long <= self.columns {
            self.used += long;
            return self.line.append(word);
        }
        for span in word.spans {
            for cluster in clusters(&span.text) {
                // What should be drawn as one and may be drawn as many is parted before it fills a line.
                let whole = most(cluster) <= self.columns / 4;
                let pieces = cluster.char_indices().map(|(at, c)| &cluster[at..at + c.len_utf8()]);
                let pieces = pieces.filter(|_| !whole).chain(whole.then_some(cluster));
                pieces.for_each(|piece| self.piece(span.style, piece));
            }
        }
    }

    fn piece(&mut self, style: Style, piece: &str) {
        if self.used + most(piece) > self.columns {
            self.turn();
        }
        self.used += most(piece);
        self.line.put(style, piece);
    }

    fn turn(&mut self) {
        self.used = self.hang.most();
        self.lines.push(std::mem::replace(&mut self.line, self.hang.clone()));
    }

    fn end(mut self) -> Vec<Line> {
        self.flush();
        self.lines.push(self.line);
        self.lines
    }
}

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    clusters(text).map(UnicodeWidthStr::width).sum()
}

/// How many columns a text takes at most. Terminals differ: emoji that are joined are drawn as one or as many, and signs beyond
/// the alphabets are wide to some of them only. Who wraps by less lets a foreign word slip into a row without our mark.
fn most(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    let widest = |c: char| match c {
        '\u{80}'..='\u{bf}' | '\u{2010}'.. => 2,
        _ => c.width().unwrap_or_default().max(1),
    };
    text.chars().map(widest).sum()
}

/// Runs of spaces and of everything else, in turn.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = rest.find(|c: char| (c == ' ') != (first == ' ')).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        rest = tail;
        Some(word)
    })
}

/// What is drawn as one: a character with all that joins it.
fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices();
        let (_, mut last) = chars.next()?;
        let mut flag = is_flag(last);
        let end = chars.find(|(_, c)| {
            let joins = is_joined(*c) || last == JOINER || (flag && is_flag(*c));
            // Two make a flag; a third begins another.
            flag = flag && !is_flag(*c);
            last = *c;
            !joins
        });
        let (cluster, tail) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        rest = tail;
        Some(cluster)
    })
}

/// Makes one emoji of two.
const JOINER: char = '\u{200d}';

fn is_joined(c: char) -> bool {
    c.width().is_none_or(|width| width == 0) || matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

fn is_flag(c: char) -> bool {
    matches!(c, '\u{1f1e6}'..='\u{1f1ff}')
}

/// Texts made of these pieces, in no order that anyone chose; the same every time.
#[cfg(test)]
pub(crate) fn odd_texts(pieces: &[&str], count: usize) -> Vec<String> {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut roll = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap_or_default()
    };
    (0..count).map(|_| (0..roll(24)).map(|_| pieces[roll(pieces.len())]).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is written: no line is too wide, and nothing but spaces is lost.
    #[test]
    fn wrapping_keeps_everything() {
        let pieces = [
            "a",
            "word",
            " ",
            "  ",
            "日本",
            "e\u{301}",
            "👨\u{200d}👩",
            "🇩🇪",
            "|",
            "\u{200d}",
            "…",
            "\x1b[1m",
            "-",
            "🏽",
        ];
        let solid = |text: &str| text.replace(' ', "");
        for text in odd_texts(&pieces, 2000) {
            for (columns, hang) in [(8, 0), (13, 4), (40, 60)] {
                let line = Line::from(text.as_str());
                let whole = line.painted(Paint::Plain);
                let lines = line.clone().wrapped(columns, hang);
                assert!(lines.iter().all(|line| line.width() <= columns), "{text:?}");
                assert_eq!(solid(&plain(&lines).concat()), solid(&whole), "{text:?}");
                assert!(line.cut(columns).width() <= columns, "{text:?}");
            }
        }
    }

    fn plain(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.painted(Paint::Plain)).collect()
    }

    #[test]
    fn text_is_as_wide_as_it_looks() {
        let rows = [
            ("abc", 3),
            ("日本", 4),
            ("é", 1),
            ("e\u{301}", 1),
            ("👍🏽", 2),
            ("👨\u{200d}👩\u{200d}👧", 2),
            ("🇩🇪🇫🇷", 4),
            ("", 0),
        ];
        for (text, columns) in rows {
            assert_eq!(width(text), columns, "{text}");
        }
    }

    #[test]
    fn a_line_is_cut_where_a_character_ends() {
        let cut = |text: &str, columns| Line::from(text).cut(columns).painted(Paint::Plain);
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("👨\u{200d}👩\u{200d}👧abc", 3), "👨\u{200d}👩\u{200d}👧…");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn a_line_is_wrapped_at_spaces_and_hangs() {
        let line =
            Line::of(Style::Name, "read").with(Style::Plain, " path=<text> [head=<number>] 日本語日本語");
        let lines = line.wrapped(20, 4);
        assert_eq!(plain(&lines), ["read path=<text>", "    [head=<number>]", "    日本語日本語"]);
        let long = Line::from("abcdefghijklmnop qr").wrapped(10, 2);
        assert_eq!(plain(&long), ["abcdefghij", "  klmnop", "  qr"]);
        assert!(lines.iter().chain(&long).all(|line| line.width() <= 20));
    }

    /// T30: whatever is written and wherever it is broken, every row has the bar, and none spills into another, also where
    /// emoji are not joined.
    #[test]
    fn t30_every_row_of_a_quote_has_its_bar() {
        let bar = Line::from("  | ");
        let pieces = [
            "a",
            "Send it?",
            " ",
            "\t",
            "  ",
            "\n",
            "日本",
            "👨\u{200d}👩",
            "\u{200d}",
            "🇩🇪",
            "❤\u{fe0f}",
            "\u{301}",
            "|",
        ];
        let blanks = format!("Pick one.{}Send it? [Y]es: y", " ".repeat(200));
        let joined = format!("{}Send it?", "👨\u{200d}".repeat(50));
        let letters = format!("a{}", "\u{200d}b".repeat(300));
        for text in odd_texts(&pieces, 2000).into_iter().chain([blanks, joined, letters]) {
            for columns in [16, 23, 80] {
                let (rows, _) = barred(&bar, &text, Some(columns), 1000);
                assert!(rows.iter().all(|row| row.most() <= columns), "{text:?} {columns}");
                assert!(plain(&rows).iter().all(|row| row.starts_with("  |")), "{text:?} {columns}");
            }
        }
        let (rows, is_all) = barred(&bar, "a\nb\nc", Some(80), 2);
        assert_eq!((plain(&rows), is_all), (vec!["  | a".to_owned(), "  | b".to_owned()], false));
        assert!(barred(&bar, "a\nb", Some(80), 2).1);
        assert!(!barred(&bar, &"a".repeat(1000), Some(80), 2).1);
    }

    #[test]
    fn colours_end_where_they_should_and_foreign_ones_never_begin() {
        let line = Line::of(Style::Bad, "no\x1b[32m\nluck").with(Style::Plain, " ").with(Style::Faint, "x ");
        assert_eq!(line.painted(Paint::Colors), "\x1b[31mno\\u{1b}[32m luck\x1b[0m \x1b[2mx\x1b[0m");
        assert_eq!(line.painted(Paint::Plain), "no\\u{1b}[32m luck x");
    }
}
