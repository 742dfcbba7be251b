//! What a file says, whatever its format: values with the places where they stand.

use std::fmt;
use std::ops::Range;

/// A value and where it stands.
#[derive(Clone)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Its bytes in the file; empty where the value was not read from one.
    pub span: Range<usize>,
}

/// A member of a table.
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// Its name.
    pub key: String,
    /// Where the name stands.
    pub key_span: Range<usize>,
    /// Its value.
    pub node: Node,
}

/// A value of JSON or TOML. Members keep their order.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// Nothing; TOML has no such value.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A number as it was spelled.
    Number(String),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// An object or a table.
    Table(Vec<Entry>),
}

impl Node {
    /// A value that stands nowhere.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self { value, span: 0..0 }
    }

    /// Text that stands nowhere.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Value::Text(text.into()))
    }

    /// A list of texts.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::new(Value::List(texts.into_iter().map(Self::text).collect()))
    }

    /// The member of this name; of several the last, as every JSON reader takes it.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<&Self> {
        self.entries().iter().rev().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The member at the end of a path of names.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.member(key))
    }

    /// The members, if it is a table.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The elements, if it is a list.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Is it a table?
    #[must_use]
    pub fn is_table(&self) -> bool {
        matches!(self.value, Value::Table(_))
    }
}

/// Where a value stands does not change what it is.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value.same(&other.value)
    }
}

impl Value {
    /// What kind of value it is, for errors.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// Equal but for the order of members.
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Table(one), Self::Table(two)) => {
                one.len() == two.len()
                    && one
                        .iter()
                        .all(|entry| two.iter().any(|also| also.key == entry.key && also.node == entry.node))
            }
            (one, two) => one == two,
        }
    }
}

impl Entry {
    /// A member that stands nowhere.
    pub fn new(key: impl Into<String>, node: Node) -> Self {
        Self { key: key.into(), key_span: 0..0, node }
    }
}

/// Values may be secrets: only their kind is shown.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Table(entries) => {
                f.debug_map().entries(entries.iter().map(|e| (&e.key, &e.node))).finish()
            }
            value => value.fmt(f),
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.key, self.node)
    }
}

/// The line and column of a byte, both from 1; columns count characters.
#[must_use]
pub fn position(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Where the lines of a text begin, for those who ask often: some tools keep megabytes in their files.
pub(crate) struct Lines<'a> {
    text: &'a str,
    newlines: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self { text, newlines: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    /// The same as [`position`].
    pub(crate) fn position(&self, at: usize) -> (usize, usize) {
        let line = self.newlines.partition_point(|newline| *newline < at);
        let start = line.checked_sub(1).map_or(0, |before| self.newlines[before] + 1);
        let (_, column) = position(&self.text[start..], at.saturating_sub(start));
        (line + 1, column)
    }
}

/// Why a text is not what its format asks for. What stands in the text is not repeated: it may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Where, in bytes.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}
