//! Tables that fit where they are shown.

use super::Surface;
use super::style::Style;
use super::text::{Line, paint};

/// What a table gives up where it is too wide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit<'a> {
    /// How wide it may be; nothing: as wide as it takes.
    pub(crate) columns: Option<usize>,
    /// Columns that can be done without, the first one first.
    pub(crate) spare: &'a [usize],
}

/// What stands between two cells.
const GAP: usize = 2;

/// A last cell that gets less room than this goes below its row.
const ROOM: usize = 24;

/// How far what goes below is indented.
const INDENT: usize = 4;

/// More lines below a row would bury the others.
const MAX_BELOW: usize = 4;

/// Rows as lines with their cells below each other; the first one is the heading. Where there is not enough room, spare
/// columns are left out and the last cell goes below its row.
pub(crate) fn lines(rows: &[impl AsRef<[Line]>], fit: Fit<'_>) -> Vec<Line> {
    let widths = widths(rows);
    let mut shown: Vec<usize> = (0..widths.len()).collect();
    if let Some(columns) = fit.columns {
        for spare in fit.spare {
            if needed(&shown, &widths) <= columns {
                break;
            }
            shown.retain(|at| at != spare);
        }
    }
    let mut out = Vec::new();
    for row in rows {
        let Some((last, before)) = shown.split_last() else { break };
        let cell = |at: usize| row.as_ref().get(at).cloned().unwrap_or_default();
        let mut line = Line::default();
        for at in before {
            line.append(cell(*at).padded(widths[*at] + GAP));
        }
        let last = cell(*last);
        match fit.columns {
            Some(columns) if line.width() + last.width() > columns => {
                out.push(line.trimmed().cut(columns));
                out.extend(below(last, columns));
            }
            _ => {
                line.append(last);
                out.push(line);
            }
        }
    }
    out
}

/// How wide a table is that gives up nothing.
pub(crate) fn width(rows: &[impl AsRef<[Line]>]) -> usize {
    let widths = widths(rows);
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

fn widths(rows: &[impl AsRef<[Line]>]) -> Vec<usize> {
    let mut widths = Vec::new();
    for row in rows {
        let cells = row.as_ref();
        widths.resize(widths.len().max(cells.len()), 0);
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = cell.width().max(*width);
        }
    }
    widths
}

/// How wide the columns are with enough of the last one.
fn needed(shown: &[usize], widths: &[usize]) -> usize {
    let Some((last, before)) = shown.split_last() else { return 0 };
    before.iter().map(|at| widths[*at] + GAP).sum::<usize>() + widths[*last].min(ROOM)
}

fn below(cell: Line, columns: usize) -> Vec<Line> {
    let mut indented = Line::from(" ".repeat(INDENT).as_str());
    indented.append(cell);
    shortened(indented.wrapped(columns, INDENT), MAX_BELOW, columns)
}

/// The first lines; where some are missing, that is marked.
pub(crate) fn shortened(mut lines: Vec<Line>, max: usize, columns: usize) -> Vec<Line> {
    if lines.len() > max {
        lines.truncate(max);
        let last = lines.pop().unwrap_or_default();
        let width = last.width();
        lines.push(match width + 2 <= columns {
            true => last.with(Style::Faint, " …"),
            false => last.cut(width.saturating_sub(1)),
        });
    }
    lines
}

/// A table that is drawn anew in its place.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// How many lines were drawn last.
    drawn: usize,
}

impl Frame {
    /// What draws these lines in the place of the last ones, as many as the terminal shows at once.
    pub(crate) fn draw(&mut self, mut lines: Vec<Line>, surface: Surface) -> String {
        let columns = surface.columns().unwrap_or(usize::MAX);
        let height = surface.lines().saturating_sub(1).max(1);
        if lines.len() > height {
            lines.truncate(height - 1);
            lines.push(Line::of(Style::Faint, "(more servers than lines)"));
        }
        let up = match self.drawn {
            0 => String::new(),
            drawn => format!("\x1b[{drawn}A\r\x1b[J"),
        };
        self.drawn = lines.len();
        let lines: Vec<Line> = lines.into_iter().map(|line| line.cut(columns)).collect();
        format!("{up}{}", paint(&lines, surface.paint()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::style::Paint;
    use super::*;

    fn shown<const N: usize>(rows: &[[&str; N]], columns: Option<usize>, spare: &[usize]) -> Vec<String> {
        let rows: Vec<[Line; N]> = rows.iter().map(|row| row.map(Line::from)).collect();
        lines(&rows, Fit { columns, spare }).iter().map(|line| line.painted(Paint::Plain)).collect()
    }

    #[test]
    fn a_table_fits_and_moves_nothing() {
        let rows = [["a", "state", "why"], ["日本", "up", ""], ["x", "down", "no\n\u{1b}[2Jluck at all"]];
        let wide = ["a     state  why", "日本  up", "x     down   no \\u{1b}[2Jluck at all"];
        assert_eq!(shown(&rows, None, &[]), wide);
        let narrow = ["a     state  why", "日本  up", "x     down", "    no \\u{1b}[2Jluck", "    at all"];
        assert_eq!(shown(&rows, Some(22), &[]), narrow);
        let spared = ["a     why", "日本", "x     no \\u{1b}[2Jluck at all"];
        assert_eq!(shown(&rows, Some(32), &[1]), spared);
    }
}
