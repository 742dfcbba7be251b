//! How things look: what each stream is, and so what may be written to it.
//!
//! It is settled once, before anything is written ([`settle`]); from then on everyone asks [`Surface`]. Text becomes
//! [`text::Line`]s, which hold nothing that a terminal obeys, and only at the very end do colours join them.

pub(crate) mod args;
pub(crate) mod graphics;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use rustix::termios::tcgetwinsize;

use args::When;
use graphics::Graphics;
use style::Paint;

/// Settled by [`settle`]; unless it was, everything is plain.
static LOOK: OnceLock<Look> = OnceLock::new();

#[derive(Debug, Clone, Copy)]
struct Look {
    stdout: Surface,
    stderr: Surface,
    tagging: Tagging,
}

/// Whether stdout tells everything, a tagged line of JSON each, or only the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tagging {
    /// The result, in its usual form.
    Result,
    /// Progress, log notes, findings and the result.
    Lines,
}

/// Settles what each stream is. Only the first time counts.
pub(crate) fn settle(color: When, tagging: Tagging) {
    let variable = |name: &str| std::env::var(name).ok();
    let stdout = Surface::of(Stream::Stdout, io::stdout().is_terminal(), color, variable);
    let stderr = Surface::of(Stream::Stderr, io::stderr().is_terminal(), color, variable);
    let _ = LOOK.set(Look { stdout, stderr, tagging });
}

/// Is everything told on stdout?
pub(crate) fn tagging() -> Tagging {
    LOOK.get().map_or(Tagging::Result, |look| look.tagging)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// A stream, and what may be written to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surface {
    stream: Stream,
    kind: Kind,
    paint: Paint,
    graphics: Option<Graphics>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A file or a pipe: a program reads it, now or later.
    Pipe,
    /// A terminal that knows no sequences.
    Dumb,
    Terminal,
}

/// Of a terminal that does not tell: serial lines, some containers.
const UNKNOWN: (usize, usize) = (80, 24);

impl Surface {
    pub(crate) fn stdout() -> Self {
        LOOK.get().map_or(Self::plain(Stream::Stdout), |look| look.stdout)
    }

    pub(crate) fn stderr() -> Self {
        LOOK.get().map_or(Self::plain(Stream::Stderr), |look| look.stderr)
    }

    pub(crate) const fn plain(stream: Stream) -> Self {
        Self { stream, kind: Kind::Pipe, paint: Paint::Plain, graphics: None }
    }

    fn of(stream: Stream, is_terminal: bool, color: When, variable: impl Fn(&str) -> Option<String>) -> Self {
        let term = variable("TERM").unwrap_or_default();
        let kind = match (is_terminal, term.as_str()) {
            (false, _) => Kind::Pipe,
            (true, "" | "dumb") => Kind::Dumb,
            (true, _) => Kind::Terminal,
        };
        let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
        let painted = match color {
            When::Always => true,
            When::Never => false,
            // Any value counts, says no-color.org, as long as there is one.
            When::Auto if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) => false,
            When::Auto => set("CLICOLOR_FORCE") || kind == Kind::Terminal,
        };
        let paint = if painted { Paint::Colors } else { Paint::Plain };
        let graphics = Graphics::of(&term, variable).filter(|_| kind == Kind::Terminal);
        Self { stream, kind, paint, graphics }
    }

    /// Does a person look at it?
    pub(crate) fn is_terminal(&self) -> bool {
        self.kind != Kind::Pipe
    }

    /// May lines be drawn anew in their place?
    pub(crate) fn can_redraw(&self) -> bool {
        self.kind == Kind::Terminal
    }

    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    /// How pictures are drawn, if they can be.
    pub(crate) fn graphics(&self) -> Option<Graphics> {
        self.graphics
    }

    /// How wide it is now; nothing: as wide as it takes.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.is_terminal().then(|| self.size().0)
    }

    /// How many lines it shows at once.
    pub(crate) fn lines(&self) -> usize {
        self.size().1
    }

    fn size(&self) -> (usize, usize) {
        let size = match self.stream {
            Stream::Stdout => tcgetwinsize(io::stdout()),
            Stream::Stderr => tcgetwinsize(io::stderr()),
        };
        match size {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => UNKNOWN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_where_they_are_wanted() {
        let (auto, always, never) = (When::Auto, When::Always, When::Never);
        type Row<'a> = (bool, When, &'a [(&'a str, &'a str)], bool);
        let rows: [Row<'_>; 12] = [
            (true, auto, &[("TERM", "xterm")], true),
            (false, auto, &[("TERM", "xterm")], false),
            (true, auto, &[("TERM", "dumb")], false),
            (true, auto, &[], false),
            (true, auto, &[("TERM", "xterm"), ("NO_COLOR", "1")], false),
            (true, auto, &[("TERM", "xterm"), ("NO_COLOR", "")], true),
            (false, auto, &[("CLICOLOR_FORCE", "1")], true),
            (false, auto, &[("CLICOLOR_FORCE", "0")], false),
            (false, auto, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
            (true, never, &[("TERM", "xterm"), ("CLICOLOR_FORCE", "1")], false),
            (false, always, &[("NO_COLOR", "1")], true),
            (true, always, &[("TERM", "dumb")], true),
        ];
        for (is_terminal, color, variables, painted) in rows {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let surface = Surface::of(Stream::Stdout, is_terminal, color, variable);
            assert_eq!(surface.paint() == Paint::Colors, painted, "{is_terminal} {color:?} {variables:?}");
        }
    }
}
