//! What is wrong in a file, where, and what would be right.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::tree;

/// Something wrong in a file. It names the file, line and column; never a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// From 1; 0 where it is about the file as a whole.
    pub line: usize,
    /// Likewise.
    pub column: usize,
    /// The server it belongs to. Without one it is about the file, which is then not rewritten.
    pub server: Option<String>,
    /// The key it is about.
    pub field: Option<Box<str>>,
    /// What is wrong.
    pub message: String,
    /// What to do, where there is something to say.
    pub next: Option<Box<str>>,
}

impl Problem {
    /// With what to do.
    #[must_use]
    pub fn next(mut self, next: impl Into<Box<str>>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: ", self.file.display())?,
            line => write!(f, "{}:{line}:{}: ", self.file.display(), self.column)?,
        }
        if let Some(server) = &self.server {
            write!(f, "server `{server}`: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "`{field}`: ")?;
        }
        f.write_str(&self.message)?;
        match &self.next {
            Some(next) => write!(f, "; {next}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

/// Where problems are found: a file, and the server that is being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) file: &'a Path,
    pub(crate) text: &'a str,
    pub(crate) server: Option<&'a str>,
}

impl Scene<'_> {
    /// The file cannot be read, so there is no place in it.
    pub(crate) fn unread(&self, why: impl fmt::Display) -> Problem {
        Problem { line: 0, column: 0, ..self.problem(&(0..0), None, format!("cannot be read: {why}")) }
    }

    pub(crate) fn problem(
        &self,
        at: &Range<usize>,
        field: Option<&str>,
        message: impl Into<String>,
    ) -> Problem {
        let (line, column) = tree::position(self.text, at.start);
        Problem {
            file: self.file.to_owned(),
            line,
            column,
            server: self.server.map(str::to_owned),
            field: field.map(Into::into),
            message: message.into(),
            next: None,
        }
    }
}

/// A list of words for people: `a, b or c`.
pub(crate) fn choice<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match &words[..] {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}
