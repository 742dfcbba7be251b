//! The words before the cursor, led through the tree of commands.

use clap::{Arg, ArgAction, Command};

/// Where the cursor is in the tree.
pub(super) struct Walk<'a> {
    /// The commands that lead there, without ours.
    pub(super) path: Vec<&'a str>,
    pub(super) command: &'a Command,
    /// Words that belong to no option.
    pub(super) words: Vec<&'a str>,
    /// Options that were given, with their values.
    pub(super) given: Vec<(&'a Arg, Option<&'a str>)>,
    /// The option whose value stands at the cursor.
    pub(super) waiting: Option<&'a Arg>,
    /// Behind `--` everything is another command's, where one can be given: so many words stand before it.
    pub(super) foreign: Option<usize>,
}

impl<'a> Walk<'a> {
    pub(super) fn through(root: &'a Command, words: &'a [String]) -> Self {
        let mut walk = Self {
            path: Vec::new(),
            command: root,
            words: Vec::new(),
            given: Vec::new(),
            waiting: None,
            foreign: None,
        };
        for (nth, word) in words.iter().enumerate() {
            walk.pass(nth, word);
        }
        walk
    }

    fn pass(&mut self, nth: usize, word: &'a str) {
        if self.foreign.is_some() {
            return;
        }
        if let Some(option) = self.waiting.take() {
            self.given.push((option, Some(word)));
            return;
        }
        if word == "--" {
            self.foreign = self.command.get_positionals().any(Arg::is_last_set).then_some(nth + 1);
            return;
        }
        if let Some((option, value)) = self.option(word) {
            match value {
                None if takes_value(option) => self.waiting = Some(option),
                value => self.given.push((option, value)),
            }
            return;
        }
        match self.command.find_subcommand(word).filter(|_| self.words.is_empty()) {
            Some(next) => {
                self.path.push(next.get_name());
                self.command = next;
            }
            None => self.words.push(word),
        }
    }

    /// The option that a word is, and the value that is joined to it.
    pub(super) fn option(&self, word: &'a str) -> Option<(&'a Arg, Option<&'a str>)> {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            return Some((self.command.get_arguments().find(|arg| arg.get_long() == Some(name))?, value));
        }
        let mut short = word.strip_prefix('-')?.chars();
        let (letter, rest) = (short.next()?, short.as_str());
        let arg = self.command.get_arguments().find(|arg| arg.get_short() == Some(letter))?;
        Some((arg, Some(rest).filter(|rest| !rest.is_empty())))
    }

    /// The value of an option that was given, by the option's long name.
    pub(super) fn value(&self, long: &str) -> Option<&'a str> {
        self.given.iter().rev().find(|(arg, _)| arg.get_long() == Some(long))?.1
    }

    /// May an option be given here once more?
    pub(super) fn takes(&self, option: &Arg) -> bool {
        let again = matches!(option.get_action(), ArgAction::Append | ArgAction::Count);
        again || !self.given.iter().any(|(given, _)| given.get_id() == option.get_id())
    }
}

pub(super) fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values()
}
