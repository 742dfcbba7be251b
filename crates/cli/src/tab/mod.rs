//! What a shell offers when Tab is pressed.
//!
//! Scripts of the shells (`cardan completions`) call back with what is typed so far, and get one line for each offer. All of it
//! comes from the command line's own tree, from the configuration's files and from catalogs on disk: nothing is started, and no
//! server is waited for. Only where a daemon has a server running anyway it is asked for values, for a moment. Behind `--` stands
//! another command, which the shell completes by itself: it is told where that begins.

mod asked;
mod files;
mod known;
mod line;
mod offers;
mod pairs;
mod walk;

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;

use self::line::{Typed, escaped};
use self::offers::offers;
use self::walk::Walk;
use crate::args::Cli;
use crate::output::clean;

/// By this first word a script calls back. It is no command that people give.
const WORD: &str = "__complete";

/// Something that can stand where the cursor is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Offer {
    /// The whole word.
    value: String,
    /// What it is, in one line; perhaps nothing.
    about: String,
    end: End,
}

/// What follows an offer that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The next word.
    Word,
    /// More of the same word.
    Open,
}

/// Descriptions are for a glance.
const ABOUT: usize = 72;

impl Offer {
    fn word(value: impl Into<String>, about: &str) -> Self {
        Self { value: value.into(), about: brief(about), end: End::Word }
    }

    fn open(value: impl Into<String>, about: &str) -> Self {
        Self { end: End::Open, ..Self::word(value, about) }
    }

    /// Foreign names may hold anything. One that holds what a terminal or a script obeys is left to be typed by hand.
    fn is_plain(&self) -> bool {
        !self.value.chars().any(char::is_control) && clean(&self.value) == self.value
    }
}

/// The first line, without anything a terminal obeys, cut where it is too long.
fn brief(text: &str) -> String {
    let line = clean(text.trim().lines().next().unwrap_or_default()).replace('\t', " ");
    match line.char_indices().nth(ABOUT) {
        Some((at, _)) => format!("{}…", line[..at].trim_end()),
        None => line,
    }
}

/// Answers a script, if one calls.
pub(crate) fn answer(mut args: impl Iterator<Item = String>) -> Option<ExitCode> {
    if args.next()? != WORD {
        return None;
    }
    let shell = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let text = told(&shell, &rest);
    // Nobody is left to hear that stdout is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Some(ExitCode::SUCCESS)
}

fn told(shell: &str, rest: &[String]) -> String {
    match (shell, rest) {
        ("bash", [line, breaks]) => {
            let typed = Typed::read(line, breaks);
            let (foreign, offers) = complete(&typed.words, &typed.current);
            // Files of ours follow, for a bash that has nothing better. No offer begins with a tab.
            let mut lines = foreign.map_or_else(String::new, |before| match before == typed.words.len() {
                true => "\tcommand\n".to_owned(),
                false => "\targument\n".to_owned(),
            });
            for offer in offers.iter().filter_map(|offer| escaped(offer, &typed)) {
                lines.push_str(&offer);
                lines.push('\n');
            }
            lines
        }
        ("zsh", [words @ .., current]) => {
            let line = |offer: &Offer| {
                let end = if offer.end == End::Open { "+" } else { "." };
                format!("{end}\t{}\t{}\n", offer.value, offer.about)
            };
            match complete(words, current) {
                (Some(before), _) => format!("-\t{}\t\n", before + OURS),
                (None, offers) => offers.iter().map(line).collect(),
            }
        }
        ("fish", [words @ .., current]) => {
            let current = Typed::read(current, "").current;
            let line = |offer: &Offer| format!("{}\t{}\n", offer.value, offer.about);
            match complete(words, &current) {
                (Some(before), _) => format!("\t{}\n", before + OURS),
                (None, offers) => offers.iter().map(line).collect(),
            }
        }
        _ => String::new(),
    }
}

/// The program itself is a word too, which shells count and we do not get.
const OURS: usize = 1;

/// What can stand in the place of `current`, after `words`; and how many of those stand before another command, where one does.
fn complete(words: &[String], current: &str) -> (Option<usize>, Vec<Offer>) {
    let mut root = Cli::command();
    root.build();
    let walk = Walk::through(&root, words);
    let mut offers = offers(&walk, current);
    offers.retain(|offer| offer.is_plain() && offer.value.starts_with(current));
    (walk.foreign, offers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(words: &[&str], current: &str) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        complete(&words, current).1.into_iter().map(|offer| offer.value).collect()
    }

    /// CLI-50: commands, options and their values come from the command line's own tree; nothing hidden is among them.
    #[test]
    fn commands_and_options_are_offered() {
        assert_eq!(values(&[], "ca"), ["call"]);
        assert_eq!(values(&[], "__"), [""; 0]);
        assert_eq!(values(&["config"], "ex"), ["explain", "export"]);
        assert_eq!(values(&["call"], "--era"), ["--era"]);
        assert_eq!(values(&["call", "--era"], ""), ["auto", "legacy", "modern"]);
        assert_eq!(values(&["call"], "--era=l"), ["--era=legacy"]);
        assert_eq!(values(&["call", "--log-level"], "e"), ["error", "emergency"]);
        assert_eq!(values(&["completions"], "z"), ["zsh"]);
        assert_eq!(values(&["call", "--quiet"], "--qui"), [""; 0], "once is enough");
        assert_eq!(values(&["call", "--root", "x"], "--roo"), ["--root"], "this one can be repeated");
        assert_eq!(values(&["daemon"], "--on"), [""; 0]);
        assert_eq!(values(&["call", "--", "sh"], "--era"), [""; 0], "what follows is another command's");
        assert!(values(&["config", "list"], "--").contains(&"--config".to_owned()), "global ones too");
    }

    /// CLI-50: shells are told where another command begins, counted with ours, if one can begin there.
    #[test]
    fn another_command_is_left_to_the_shell() {
        let ask = |shell: &str, words: &[&str]| {
            told(shell, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(ask("zsh", &["call", "add", "--", "np"]), "-\t4\t\n");
        assert_eq!(ask("fish", &["config", "add", "x", "--", "npx", "-"]), "\t5\n");
        assert_eq!(ask("bash", &["cardan call add -- no-such", " "]), "\tcommand\n");
        assert_eq!(ask("bash", &["cardan call add -- npx no-such", " "]), "\targument\n");
        assert_eq!(ask("zsh", &["call", "--config", "--", "no-such"]), "", "it is the value of an option");
        assert_eq!(ask("zsh", &["completions", "--", "z"]), ".\tzsh\t\n", "this one starts no other");
    }

    /// CLI-51: what a terminal would obey is neither offered nor described.
    #[test]
    fn foreign_text_moves_nothing() {
        assert!(!Offer::word("a\nb", "").is_plain());
        assert!(!Offer::word("a\u{1b}[2J", "").is_plain());
        assert!(!Offer::word("a\u{202e}b", "").is_plain());
        let about = Offer::word("a", "  red \u{1b}[31m\tx\nmore").about;
        assert_eq!(about, "red \\u{1b}[31m x");
        assert_eq!(brief(&"ä".repeat(100)).chars().count(), ABOUT + 1);
    }
}
