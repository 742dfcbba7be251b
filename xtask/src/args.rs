//! Command-line words after the chore's name.

use std::str::FromStr;

use anyhow::{Context as _, Result, bail};

/// What is left of the command line.
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: impl IntoIterator<Item = String>) -> Self {
        Self { words: words.into_iter().collect() }
    }

    /// The next word that is not an option.
    pub(crate) fn word(&mut self) -> Option<String> {
        let is_word = self.words.first().is_some_and(|word| !word.starts_with("--"));
        is_word.then(|| self.words.remove(0))
    }

    /// Whether `name` was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let at = self.words.iter().position(|word| word == name);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// The word after `name`.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.words.iter().position(|word| word == name) else { return Ok(None) };
        self.words.remove(at);
        if at < self.words.len() { Ok(Some(self.words.remove(at))) } else { bail!("{name} needs a value") }
    }

    /// The number after `name`.
    pub(crate) fn number<T: FromStr>(&mut self, name: &str) -> Result<Option<T>>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let Some(word) = self.value(name)? else { return Ok(None) };
        word.parse().map(Some).with_context(|| format!("{name} needs a number, not `{word}`"))
    }

    /// Every word must have been taken.
    pub(crate) fn finish(self) -> Result<()> {
        match self.words.first() {
            Some(word) => bail!("`{word}` is not understood here, run `cargo xtask` for help"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn words_are_taken_once() {
        let mut args = args("fuzz --seconds 5 --open");
        assert_eq!(args.word().as_deref(), Some("fuzz"));
        assert_eq!(args.number::<u64>("--seconds").unwrap(), Some(5));
        assert_eq!(args.number::<u64>("--runs").unwrap(), None);
        assert!(args.flag("--open") && !args.flag("--open"));
        args.finish().unwrap();
    }

    #[test]
    fn leftovers_and_missing_values_are_refused() {
        assert!(args("--area").value("--area").is_err());
        assert!(args("--runs many").number::<u64>("--runs").is_err());
        assert!(args("--opne").finish().is_err());
    }
}
