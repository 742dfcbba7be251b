//! Changes to a file that touch nothing but what they are about: the rest keeps its bytes, comments and order.
//!
//! A change is a splice of the text, found by the places in its tree. Before it is handed out, the new text is read
//! again and must hold what the old one held, with the change and nothing else.

mod json;
mod toml;

use std::fmt;
use std::path::Path;

use crate::closest::closest;
use crate::problem::Problem;
use crate::read::{File, Input};
use crate::server::Server;
use crate::tool::{self, Format, Tool};
use crate::tree::{Entry, Node, Value};
use crate::write::{Layout, write_for};

/// What is to be done to a file.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// A server that is not there yet.
    Add(&'a Server),
    /// A server, instead of the one of its name.
    Replace(&'a Server),
    /// No server of this name any more.
    Remove(&'a str),
    /// No server of this name any more among those that the file has for one project.
    RemoveFor {
        /// Which.
        name: &'a str,
        /// The project's folder, as the file names it.
        project: &'a Path,
    },
    /// Ours only: what an input asks for, unless it is there.
    Declare(&'a Input),
}

/// The text after the change.
#[derive(Clone)]
pub struct Edited {
    /// All of it.
    pub text: String,
    /// What the tool has no way to say.
    pub lost: Vec<String>,
}

/// Texts of files may hold secrets.
impl fmt::Debug for Edited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edited").field("lost", &self.lost).finish_non_exhaustive()
    }
}

/// Why a file is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditError {
    /// It cannot be read, so it is not rewritten.
    Broken(Problem),
    /// The name is taken.
    Exists {
        /// Which.
        name: String,
        /// Where.
        line: usize,
    },
    /// There is no such server.
    Missing {
        /// Which.
        name: String,
        /// What was probably meant.
        near: Option<String>,
    },
    /// The tool has no way to say it.
    Unsupported(String),
    /// It is written in a way that we cannot change without touching something else.
    Entangled {
        /// Where.
        line: usize,
        /// What is in the way.
        what: &'static str,
    },
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(problem) => write!(f, "{problem}; a file that cannot be read is not rewritten"),
            Self::Exists { name, line } => write!(f, "a server `{name}` is there already, in line {line}"),
            Self::Missing { name, near: Some(near) } => {
                write!(f, "there is no server `{name}`; did you mean `{near}`?")
            }
            Self::Missing { name, near: None } => write!(f, "there is no server `{name}`"),
            Self::Unsupported(what) => f.write_str(what),
            Self::Entangled { line, what } => {
                write!(f, "line {line} cannot be changed by us: {what}; change it by hand")
            }
        }
    }
}

impl std::error::Error for EditError {}

/// Changes the text of a tool's file.
pub fn edit(path: &Path, text: &str, tool: Tool, change: Change<'_>) -> Result<Edited, EditError> {
    let file = File::parse(path, text, Some(tool)).map_err(EditError::Broken)?;
    if let Some(problem) = file.problems.iter().find(|problem| problem.server.is_none()) {
        return Err(EditError::Broken(problem.clone()));
    }
    let root = file.root();
    let container = container(root, tool, change);
    let container = container.as_slice();
    let name = change.name();
    let place = Place { text, root, path: container, tool };
    let there = place.find(name)?;
    let (entry, lost) = match change {
        Change::Remove(_) | Change::RemoveFor { .. } => (None, Vec::new()),
        Change::Declare(input) => (Some(Entry::new(name, input.node.clone())), Vec::new()),
        Change::Add(server) | Change::Replace(server) => {
            let one = tool == Tool::OpenCode && container == ["mcp"];
            let layout = if one { Layout::OpenCodeOne } else { Layout::Current };
            let written = write_for(server, tool, layout).map_err(EditError::Unsupported)?;
            (Some(written.entry), written.lost)
        }
    };
    let text = match (change, there) {
        (Change::Declare(_), Some(_)) => return Ok(Edited { text: text.to_owned(), lost }),
        (Change::Add(_), Some(at)) => {
            return Err(EditError::Exists { name: name.to_owned(), line: file.position(&at.key_span).0 });
        }
        (Change::Remove(_) | Change::RemoveFor { .. }, None) => {
            let names = file.servers.iter().map(|server| server.name.as_str());
            let near = closest(name, names).map(str::to_owned);
            return Err(EditError::Missing { name: name.to_owned(), near });
        }
        (_, there) => place.spliced(there, entry.as_ref())?,
    };
    check(root, path, &text, tool, container, name, entry.as_ref())?;
    Ok(Edited { text, lost })
}

impl<'a> Change<'a> {
    /// Of what it is about.
    fn name(&self) -> &'a str {
        match *self {
            Self::Add(server) | Self::Replace(server) => &server.name,
            Self::Remove(name) | Self::RemoveFor { name, .. } => name,
            Self::Declare(input) => &input.id,
        }
    }
}

/// The table that is changed, as a path of names.
fn container<'a>(root: &Node, tool: Tool, change: Change<'a>) -> Vec<&'a str> {
    match change {
        Change::Declare(_) => vec!["inputs"],
        Change::RemoveFor { project, .. } => {
            let [projects, servers] = tool::OF_PROJECTS;
            // Folders come from the file, so they are text.
            vec![projects, project.to_str().unwrap_or_default(), servers]
        }
        _ => tool.container(root).to_vec(),
    }
}

/// Where in a file servers are.
#[derive(Clone, Copy)]
struct Place<'a> {
    text: &'a str,
    root: &'a Node,
    path: &'a [&'a str],
    tool: Tool,
}

impl<'a> Place<'a> {
    fn entangled(&self, at: usize, what: &'static str) -> EditError {
        EditError::Entangled { line: crate::tree::position(self.text, at).0, what }
    }

    /// The entry of this name.
    fn find(&self, name: &str) -> Result<Option<&'a Entry>, EditError> {
        let Some(container) = self.root.at(self.path) else { return Ok(None) };
        if !container.is_table() {
            return Err(self.entangled(container.span.start, "it is not a table"));
        }
        let mut all = container.entries().iter().filter(|entry| entry.key == name);
        let first = all.next();
        match all.next() {
            Some(again) => Err(self.entangled(again.key_span.start, "the name is given twice")),
            None => Ok(first),
        }
    }

    /// The text without the old entry and with the new one.
    fn spliced(&self, old: Option<&Entry>, new: Option<&Entry>) -> Result<String, EditError> {
        match (self.tool.format(), old, new) {
            (Format::Json, None, Some(new)) => Ok(json::add(self.text, self.root, self.path, new)),
            (Format::Json, Some(old), Some(new)) => Ok(json::replace(self.text, old, new)),
            (Format::Json, Some(old), None) => {
                let container = self.root.at(self.path).unwrap_or(self.root);
                Ok(json::remove(self.text, container, old))
            }
            (Format::Toml, None, Some(new)) => Ok(toml::add(self.text, self.root, self.path, new)),
            (Format::Toml, Some(old), None) => toml::remove(self, old),
            (Format::Toml, Some(old), Some(new)) => {
                let text = toml::remove(self, old)?;
                let root = crate::toml::parse(&text)
                    .map_err(|_| self.entangled(old.key_span.start, "it is woven into other tables"))?;
                Ok(toml::add(&text, &root, self.path, new))
            }
            (_, None, None) => Ok(self.text.to_owned()),
        }
    }
}

/// Does the new text hold what the old one held, with the change and nothing else?
fn check(
    old: &Node,
    path: &Path,
    text: &str,
    tool: Tool,
    container: &[&str],
    name: &str,
    entry: Option<&Entry>,
) -> Result<(), EditError> {
    let wrong = || EditError::Entangled { line: 1, what: "something else would change with it" };
    let new = File::parse(path, text, Some(tool)).map_err(|_| wrong())?;
    let written = new.root().at(container).and_then(|servers| servers.member(name));
    let as_wanted = match (written, entry) {
        (None, None) => true,
        (Some(written), Some(entry)) => {
            crate::toml::with_nulls(written) == crate::toml::with_nulls(&entry.node)
        }
        _ => false,
    };
    let same = without(old, container, name) == without(new.root(), container, name);
    if as_wanted && same { Ok(()) } else { Err(wrong()) }
}

/// A tree without one entry, and without the tables that are empty then.
fn without(node: &Node, path: &[&str], name: &str) -> Node {
    let (step, rest) = match path {
        [] => (name, None),
        [step, rest @ ..] => (*step, Some(rest)),
    };
    let mut entries = node.entries().to_vec();
    if let Some(at) = entries.iter().position(|entry| entry.key == step) {
        match rest {
            None => drop(entries.remove(at)),
            Some(rest) => {
                let inner = without(&entries[at].node, rest, name);
                if inner.entries().is_empty() {
                    entries.remove(at);
                } else {
                    entries[at].node = inner;
                }
            }
        }
    }
    Node::new(Value::Table(entries))
}

/// How lines end in a text.
fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Where the line of a byte begins.
fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Is there nothing but blanks before it on its line?
fn starts_line(text: &str, at: usize) -> bool {
    text[line_start(text, at)..at].bytes().all(|byte| matches!(byte, b' ' | b'\t'))
}
