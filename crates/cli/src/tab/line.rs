//! A command line as bash has it: words with their quotes, of which Tab replaces the end of the last.

use super::{End, Offer};

/// What is typed, up to the cursor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Typed {
    /// The words before, without the program.
    pub(super) words: Vec<String>,
    /// The word at the cursor, as far as it goes.
    pub(super) current: String,
    /// Where in it the part begins that the shell replaces: behind the last character that breaks words for it.
    from: usize,
    /// The quote that is still open there.
    quote: Option<char>,
    /// Where in it the last `~` is that the shell may replace.
    tilde: Option<usize>,
}

impl Typed {
    /// Reads a line as a shell would. `breaks` are characters at which completion begins anew inside of a word.
    pub(super) fn read(line: &str, breaks: &str) -> Self {
        let mut typed = Self::default();
        let mut begun = false;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match (typed.quote, c) {
                (None, c) if c.is_whitespace() => {
                    if begun {
                        typed.words.push(std::mem::take(&mut typed.current));
                    }
                    (begun, typed.from, typed.tilde) = (false, 0, None);
                    continue;
                }
                (None, '\'' | '"') => (typed.quote, typed.from) = (Some(c), typed.current.len()),
                (Some(quote), c) if c == quote => typed.quote = None,
                (None, '\\') => typed.current.extend(chars.next()),
                (Some('"'), '\\') if chars.peek().is_some_and(|next| "\"\\$`".contains(*next)) => {
                    typed.current.extend(chars.next());
                }
                (None, c) => {
                    if c == '~' {
                        typed.tilde = Some(typed.current.len());
                    }
                    typed.current.push(c);
                    if breaks.contains(c) {
                        typed.from = typed.current.len();
                    }
                }
                (Some(_), c) => typed.current.push(c),
            }
            begun = true;
        }
        if !typed.words.is_empty() {
            typed.words.remove(0);
        }
        typed
    }
}

/// An offer as bash puts it into the line: from where it replaces, quoted as what is there already, with a space where the next
/// word may follow. Nothing: it cannot be put there.
pub(super) fn escaped(offer: &Offer, typed: &Typed) -> Option<String> {
    // Every offer begins with what is typed.
    let part = offer.value.get(typed.from..).unwrap_or_default();
    // Between double quotes nothing keeps bash from looking for a command of the past.
    if typed.quote == Some('"') && part.contains('!') {
        return None;
    }
    let mut out = String::new();
    for (at, c) in part.char_indices() {
        match typed.quote {
            // Nothing escapes there: the quote is left, and begun anew.
            Some('\'') if c == '\'' => out.push_str(r"'\'"),
            Some('"') if "\"\\$`".contains(c) => out.push('\\'),
            // Whoever typed it means the home.
            None if at == 0 && typed.tilde == Some(typed.from) => {}
            None if c.is_ascii() && !c.is_ascii_alphanumeric() && !"_-./:=@%+,".contains(c) => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    // Behind an open quote the shell knows best what follows.
    if offer.end == End::Word && typed.quote.is_none() {
        out.push(' ');
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BREAKS: &str = " \t\n\"'@><=;|&(:";

    /// CLI-51: colons and equals signs break words for bash, and quotes do not.
    #[test]
    fn lines_are_read_as_a_shell_reads_them() {
        for (line, words, current, value, put) in [
            ("cardan ca", &[][..], "ca", "call", "call "),
            ("cardan ", &[], "", "call", "call "),
            ("cardan  call x ", &["call", "x"], "", "a b", "a\\ b "),
            ("cardan call 'x y' a=", &["call", "x y"], "a=", "a=up", "up "),
            ("cardan read d demo://cl", &["read", "d"], "demo://cl", "demo://clock", "//clock "),
            ("cardan read d 'demo://cl", &["read", "d"], "demo://cl", "demo://clock", "demo://clock"),
            ("cardan read d \"demo://c", &["read", "d"], "demo://c", "demo://c$k", "demo://c\\$k"),
            ("cardan read d demo\\:", &["read", "d"], "demo:", "demo:x", "demo:x "),
            ("cardan call d a=\"u", &["call", "d"], "a=u", "a=up", "up"),
            ("cardan call d \"a\"=\\u", &["call", "d"], "a=u", "a=up", "up "),
            ("cardan call d f=@x", &["call", "d"], "f=@x", "f=@x.txt", "x.txt "),
            ("cardan call d é", &["call", "d"], "é", "été;(x)", "été\\;\\(x\\) "),
            ("cardan call 'a' '' b", &["call", "a", ""], "b", "b", "b "),
            ("cardan call d 'x", &["call", "d"], "x", "x'; touch y #", r"x'\''; touch y #"),
            ("cardan call d \"x'", &["call", "d"], "x'", "x'y", "x'y"),
            ("cardan call d 'x!", &["call", "d"], "x!", "x!y", "x!y"),
            ("cardan call d x", &["call", "d"], "x", "x!y", "x\\!y "),
            ("cardan read --config ~/x", &["read", "--config"], "~/x", "~/x y", "~/x\\ y "),
            ("cardan read --config=~/x", &["read"], "--config=~/x", "--config=~/xy", "~/xy "),
            ("cardan call d \\~", &["call", "d"], "~", "~x", "\\~x "),
            ("cardan call d ", &["call", "d"], "", "~root", "\\~root "),
        ] {
            let typed = Typed::read(line, BREAKS);
            assert_eq!(
                (&typed.words[..], typed.current.as_str()),
                (&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()[..], current),
                "{line}"
            );
            assert_eq!(escaped(&Offer::word(value, ""), &typed).as_deref(), Some(put), "{line}");
        }
        let open = escaped(&Offer::open("a=", ""), &Typed::read("cardan call d ", BREAKS));
        assert_eq!(open.as_deref(), Some("a="));
        let past = escaped(&Offer::word("x!y", ""), &Typed::read("cardan call d \"x", BREAKS));
        assert_eq!(past, None, "bash would put a command of the past there");
    }
}
