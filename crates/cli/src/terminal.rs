//! Tables that fit where they are shown.

use std::io::{self, IsTerminal as _};

use crate::output::clean;

/// The terminal that stdout is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    columns: usize,
    lines: usize,
}

/// Of a terminal that does not tell: serial lines, some containers.
const UNKNOWN: Terminal = Terminal { columns: 80, lines: 24 };

impl Terminal {
    /// Nothing: stdout is no terminal.
    pub(crate) fn of_stdout() -> Option<Self> {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return None;
        }
        Some(match rustix::termios::tcgetwinsize(&stdout) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: size.ws_col.into(), lines: size.ws_row.into() }
            }
            _ => UNKNOWN,
        })
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// One line that does not wrap.
    pub(crate) fn cut(&self, line: &str) -> String {
        cut(&plain(line), self.columns)
    }
}

/// Rows as lines with their cells below each other. The last cell is as long as it is, or is cut where the line
/// would be longer than `columns`.
pub(crate) fn align<const N: usize>(rows: &[[String; N]], columns: Option<usize>) -> Vec<String> {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| plain(cell))).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        columns.map_or_else(|| line.trim_end().to_owned(), |columns| cut(line.trim_end(), columns))
    };
    rows.iter().map(line).collect()
}

/// Foreign text in one line that moves nothing.
fn plain(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

fn cut(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_and_moves_nothing() {
        let rows = [["a", "state", "why"], ["long", "up", ""], ["x", "down", "no\n\u{1b}[2Jluck at all"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let wide = ["a     state  why", "long  up", "x     down   no \\u{1b}[2Jluck at all"];
        assert_eq!(align(&rows, None), wide);
        let narrow = ["a     state  why", "long  up", "x     down   no…"];
        assert_eq!(align(&rows, Some(16)), narrow);
    }
}
