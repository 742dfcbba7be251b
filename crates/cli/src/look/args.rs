//! The options that say how things look.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ColorChoice, ValueEnum};

use crate::home::path;

/// For every command.
#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    /// When to use colours; auto minds NO_COLOR, CLICOLOR_FORCE and TERM
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, global = true)]
    pub(crate) color: When,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal
    #[default]
    Auto,
    Always,
    Never,
}

/// The colours that a command line asks for before it is understood: what is wrong with it is told in them.
pub(crate) fn asked(words: &[OsString]) -> When {
    let mut words = words.iter().filter_map(|word| word.to_str()).take_while(|word| *word != "--");
    let value = words.find_map(|word| word.strip_prefix("--color").map(|rest| rest.strip_prefix('=')));
    match value.flatten().or_else(|| value.and_then(|_| words.next())) {
        Some("always") => When::Always,
        Some("never") => When::Never,
        _ => When::Auto,
    }
}

impl From<When> for ColorChoice {
    fn from(when: When) -> Self {
        match when {
            When::Auto => Self::Auto,
            When::Always => Self::Always,
            When::Never => Self::Never,
        }
    }
}

/// The heading in `--help` for all that says what is shown and where.
pub(crate) const OUTPUT: &str = "Output";

/// For commands whose result has content.
#[derive(Debug, Args)]
pub(crate) struct ContentArgs {
    /// Save images, sounds and blobs: into this directory, or as this file where there is only one
    #[arg(short, long, value_name = "PATH", value_parser = path(), help_heading = OUTPUT)]
    pub(crate) output: Option<PathBuf>,
    /// Let --output replace files that are there
    #[arg(long, requires = "output", help_heading = OUTPUT)]
    pub(crate) overwrite: bool,
    /// When to draw images on a terminal that can
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, help_heading = OUTPUT)]
    pub(crate) images: Images,
    /// Show all text as Markdown, whether it says that it is or not
    #[arg(long, conflicts_with = "raw_text", help_heading = OUTPUT)]
    pub(crate) markdown: bool,
    /// Show text as it is, without rendering Markdown or JSON
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) raw_text: bool,
    #[command(flatten)]
    pub(crate) lines: LinesArgs,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Images {
    /// Where the terminal says that it can
    #[default]
    Auto,
    Never,
}

/// For commands during which things happen.
#[derive(Debug, Args)]
pub(crate) struct LinesArgs {
    /// Print progress, log notes, findings and the result as they come, a tagged line of JSON each
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    pub(crate) jsonl: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_asked_for_before_the_command_is_understood() {
        let rows: [(&[&str], When); 5] = [
            (&["cardan", "--color", "never", "--help"], When::Never),
            (&["cardan", "list", "--color=always"], When::Always),
            (&["cardan", "list", "--", "server", "--color", "never"], When::Auto),
            (&["cardan", "--color"], When::Auto),
            (&["cardan"], When::Auto),
        ];
        for (words, choice) in rows {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(asked(&words), choice, "{words:?}");
        }
    }
}
