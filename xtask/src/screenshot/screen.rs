//! As much of a terminal as our own output uses: lines, carriage returns, erasing, cursor up, and styles.

/// How text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    pub(super) bold: bool,
    pub(super) dim: bool,
    pub(super) underlined: bool,
    /// Of the sixteen.
    pub(super) colour: Option<usize>,
}

/// Neighbours that look alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) style: Style,
    pub(super) text: String,
}

pub(super) struct Screen {
    columns: usize,
    lines: Vec<Vec<(char, Style)>>,
    row: usize,
    column: usize,
    style: Style,
}

impl Screen {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, lines: vec![Vec::new()], row: 0, column: 0, style: Style::default() }
    }

    /// A shell's prompt with what is typed at it, on a line of its own.
    pub(super) fn prompt(&mut self, typed: &str) {
        if self.row > 0 {
            self.feed("\n");
        }
        self.feed(&format!("\u{1b}[32m$\u{1b}[0m \u{1b}[1m{typed}\u{1b}[0m\n"));
    }

    /// Obeys what a program writes.
    pub(super) fn feed(&mut self, text: &str) {
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match c {
                '\n' => self.down(),
                '\r' => self.column = 0,
                '\u{1b}' => self.sequence(&mut rest),
                '\t' => self.put(' '),
                c if c.is_control() => {}
                c => self.put(c),
            }
        }
    }

    /// What is seen, without the empty lines at the end.
    pub(super) fn lines(&self) -> Vec<Vec<Span>> {
        let mut lines: Vec<Vec<Span>> = self.lines.iter().map(|line| spans(line)).collect();
        while lines.last().is_some_and(Vec::is_empty) {
            lines.pop();
        }
        lines
    }

    fn down(&mut self) {
        self.row += 1;
        self.column = 0;
        if self.row == self.lines.len() {
            self.lines.push(Vec::new());
        }
    }

    fn put(&mut self, c: char) {
        if self.column == self.columns {
            self.down();
        }
        let line = &mut self.lines[self.row];
        if line.len() <= self.column {
            line.resize(self.column + 1, (' ', Style::default()));
        }
        line[self.column] = (c, self.style);
        self.column += 1;
    }

    /// What follows an escape character.
    fn sequence(&mut self, rest: &mut std::str::Chars<'_>) {
        match rest.next() {
            Some('[') => {}
            // A title or a link, up to its end.
            Some(']') => {
                while let Some(c) = rest.next() {
                    if c == '\u{7}' || (c == '\u{1b}' && rest.next().is_some()) {
                        return;
                    }
                }
                return;
            }
            _ => return,
        }
        let mut numbers = String::new();
        for c in rest {
            if c.is_ascii_alphabetic() {
                return self.obey(c, &numbers);
            }
            numbers.push(c);
        }
    }

    fn obey(&mut self, what: char, numbers: &str) {
        let first = numbers.split(';').next().and_then(|number| number.parse().ok());
        match what {
            'm' => numbers.split(';').for_each(|number| self.restyle(number.parse().unwrap_or(0))),
            'K' => self.lines[self.row].truncate(if first == Some(2) { 0 } else { self.column }),
            'J' => {
                self.lines[self.row].truncate(self.column);
                self.lines.truncate(self.row + 1);
            }
            'A' => self.row = self.row.saturating_sub(first.unwrap_or(1)),
            'G' => self.column = first.unwrap_or(1_usize).saturating_sub(1),
            _ => {}
        }
    }

    fn restyle(&mut self, number: usize) {
        let style = &mut self.style;
        match number {
            0 => *style = Style::default(),
            1 => style.bold = true,
            2 => style.dim = true,
            4 => style.underlined = true,
            22 => (style.bold, style.dim) = (false, false),
            24 => style.underlined = false,
            30..=37 => style.colour = Some(number - 30),
            39 => style.colour = None,
            90..=97 => style.colour = Some(number - 90 + 8),
            _ => {}
        }
    }
}

fn spans(line: &[(char, Style)]) -> Vec<Span> {
    let end = line.iter().rposition(|(c, _)| *c != ' ').map_or(0, |last| last + 1);
    let mut spans: Vec<Span> = Vec::new();
    for (c, style) in &line[..end] {
        match spans.last_mut() {
            Some(span) if span.style == *style => span.text.push(*c),
            _ => spans.push(Span { style: *style, text: c.to_string() }),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(screen: &Screen) -> Vec<String> {
        let line = |spans: &Vec<Span>| spans.iter().map(|span| span.text.as_str()).collect();
        screen.lines().iter().map(line).collect()
    }

    #[test]
    fn what_is_drawn_over_is_not_seen() {
        let mut screen = Screen::new(20);
        screen.feed("working 10%\r\u{1b}[Kworking 99%\r\n\u{1b}[1A\u{1b}[2Kdone\r\nnext");
        assert_eq!(texts(&screen), ["done", "next"]);
    }

    #[test]
    fn lines_wrap_and_styles_end() {
        let mut screen = Screen::new(4);
        screen.feed("ab\u{1b}[1;31mcdef\u{1b}[0mg");
        assert_eq!(texts(&screen), ["abcd", "efg"]);
        let red = Style { bold: true, colour: Some(1), ..Style::default() };
        assert_eq!(screen.lines()[1][0], Span { style: red, text: "ef".to_owned() });
        assert_eq!(screen.lines()[1][1].style, Style::default());
    }
}
