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
                    (begun, typed.from) = (false, 0);
                    continue;
                }
                (None, '\'' | '"') => (typed.quote, typed.from) = (Some(c), typed.current.len()),
                (Some(quote), c) if c == quote => typed.quote = None,
                (None, '\\') => typed.current.extend(chars.next()),
                (Some('"'), '\\') if chars.peek().is_some_and(|next| "\"\\$`".contains(*next)) => {
                    typed.current.extend(chars.next());
                }
                (None, c) => {
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
/// word may follow.
pub(super) fn escaped(offer: &Offer, typed: &Typed) -> String {
    // Every offer begins with what is typed.
    let part = offer.value.get(typed.from..).unwrap_or_default();
    let special = |c: char| match typed.quote {
        Some('"') => "\"\\$`".contains(c),
        Some(_) => false,
        None => c.is_ascii() && !c.is_ascii_alphanumeric() && !"_-./:=@%+,".contains(c),
    };
    let mut out = String::new();
    for c in part.chars() {
        if special(c) {
            out.push('\\');
        }
        out.push(c);
    }
    // Behind an open quote the shell knows best what follows.
    if offer.end == End::Word && typed.quote.is_none() {
        out.push(' ');
    }
    out
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
        ] {
            let typed = Typed::read(line, BREAKS);
            assert_eq!(
                (&typed.words[..], typed.current.as_str()),
                (&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()[..], current),
                "{line}"
            );
            assert_eq!(escaped(&Offer::word(value, ""), &typed), put, "{line}");
        }
        assert_eq!(escaped(&Offer::open("a=", ""), &Typed::read("cardan call d ", BREAKS)), "a=");
    }
}
