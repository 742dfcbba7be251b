//! Pictures on a terminal, where it can draw them.

use std::fmt::Write as _;

/// How a terminal wants its pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Graphics {
    /// The graphics protocol of kitty: PNG, in pieces.
    Kitty,
    /// Inline images as iTerm2 has them: a file of any kind of image.
    Inline,
}

/// Larger pictures are told of and not drawn: they would hold up the terminal.
const MAX_BYTES: usize = 8 << 20;

/// The longest piece that kitty takes.
const PIECE: usize = 4096;

impl Graphics {
    /// Terminals are known by what they put into the environment: asking one takes time, and some never answer.
    pub(super) fn of(term: &str, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let multiplexed =
            variable("TMUX").is_some() || term.starts_with("screen") || term.starts_with("tmux");
        let program = variable("TERM_PROGRAM").unwrap_or_default();
        match program.as_str() {
            // What stands between may pass nothing on.
            _ if multiplexed => None,
            _ if variable("KITTY_WINDOW_ID").is_some() || term == "xterm-kitty" => Some(Self::Kitty),
            "ghostty" => Some(Self::Kitty),
            "iTerm.app" | "WezTerm" => Some(Self::Inline),
            _ if variable("LC_TERMINAL").as_deref() == Some("iTerm2") => Some(Self::Inline),
            _ => None,
        }
    }

    /// What draws a picture, given as base64 and as what that stands for; nothing: it cannot be drawn.
    pub(crate) fn draw(self, base64: &str, bytes: &[u8]) -> Option<String> {
        let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
        // Nothing else may be between the sequences that begin and end it.
        if bytes.len() > MAX_BYTES || !base64.chars().all(is_base64) {
            return None;
        }
        let kind = Picture::of(bytes)?;
        match self {
            Self::Kitty if kind == Picture::Png => Some(pieces(base64)),
            Self::Kitty => None,
            Self::Inline => Some(format!(
                "\x1b]1337;File=inline=1;preserveAspectRatio=1;size={}:{base64}\x07",
                bytes.len()
            )),
        }
    }
}

fn pieces(base64: &str) -> String {
    let mut out = String::with_capacity(base64.len() + base64.len() / PIECE * 16 + 32);
    let mut rest = base64;
    let mut options = "a=T,f=100,";
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(rest.len().min(PIECE));
        let more = u8::from(!tail.is_empty());
        let _ = write!(out, "\x1b_G{options}m={more};{piece}\x1b\\");
        (rest, options) = (tail, "");
    }
    out
}

/// A kind of picture, by its first bytes: what it is said to be is no proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Picture {
    Png,
    Other,
}

impl Picture {
    fn of(bytes: &[u8]) -> Option<Self> {
        let starts = |with: &[u8]| bytes.starts_with(with);
        if starts(b"\x89PNG\r\n\x1a\n") {
            return Some(Self::Png);
        }
        let webp = starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
        let known = starts(b"\xff\xd8\xff") || starts(b"GIF8") || starts(b"BM") || webp;
        known.then_some(Self::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-56: terminals are known by their surroundings, and nothing is drawn through a multiplexer.
    #[test]
    fn terminals_that_draw_are_known() {
        type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<Graphics>);
        let rows: [Row<'_>; 6] = [
            ("xterm-kitty", &[], Some(Graphics::Kitty)),
            ("xterm", &[("KITTY_WINDOW_ID", "1")], Some(Graphics::Kitty)),
            ("xterm", &[("TERM_PROGRAM", "iTerm.app")], Some(Graphics::Inline)),
            ("xterm", &[("LC_TERMINAL", "iTerm2")], Some(Graphics::Inline)),
            ("tmux-256color", &[("KITTY_WINDOW_ID", "1"), ("TMUX", "x")], None),
            ("xterm", &[], None),
        ];
        for (term, variables, graphics) in rows {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(Graphics::of(term, variable), graphics, "{term} {variables:?}");
        }
    }

    /// CLI-56: only what is a picture is drawn, and nothing can end the sequence early.
    #[test]
    fn only_pictures_are_drawn() {
        let png = b"\x89PNG\r\n\x1a\nrest";
        assert_eq!(Graphics::Kitty.draw("AAAA", png).unwrap(), "\x1b_Ga=T,f=100,m=0;AAAA\x1b\\");
        let long = "A".repeat(PIECE + 4);
        assert!(Graphics::Kitty.draw(&long, png).unwrap().ends_with("\x1b\\\x1b_Gm=0;AAAA\x1b\\"));
        assert_eq!(Graphics::Kitty.draw("AAAA", b"\xff\xd8\xffjpeg"), None);
        assert!(Graphics::Inline.draw("AAAA", b"\xff\xd8\xffjpeg").unwrap().ends_with(":AAAA\x07"));
        assert_eq!(Graphics::Inline.draw("AA\x07A", png), None);
        assert_eq!(Graphics::Inline.draw("AAAA", b"<svg>"), None);
    }
}
