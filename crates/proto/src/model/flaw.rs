//! A flaw: one thing in a payload that the protocol does not allow, and where it stands.

use std::fmt;

use crate::jsonrpc::pointer;

/// What is wrong, and the JSON pointer of the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// JSON pointer (RFC 6901) from the value that was checked; empty for the value itself.
    pub at: String,
    /// What is wrong there, in lower case and without a period.
    pub what: String,
}

impl Flaw {
    /// A flaw of the checked value itself.
    pub fn here(what: impl Into<String>) -> Self {
        Self { at: String::new(), what: what.into() }
    }

    /// A flaw at one member of the checked value.
    pub fn at(member: &str, what: impl Into<String>) -> Self {
        Self::here(what).under(member)
    }

    /// The same flaw, seen from the value that holds the checked one as `member`.
    #[must_use]
    pub fn under(mut self, member: &str) -> Self {
        self.at = format!("/{}{}", pointer::escape(member), self.at);
        self
    }
}

/// Moves flaws of a part to the place of the part in the whole.
pub(crate) fn under(member: &str, flaws: Vec<Flaw>) -> impl Iterator<Item = Flaw> {
    flaws.into_iter().map(move |flaw| flaw.under(member))
}

/// Moves flaws of the entry of a list to its place in the whole.
pub(crate) fn under_index(list: &str, index: usize, flaws: Vec<Flaw>) -> impl Iterator<Item = Flaw> {
    flaws.into_iter().map(move |flaw| flaw.under(&index.to_string()).under(list))
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => f.write_str(&self.what),
            at => write!(f, "{at}: {}", self.what),
        }
    }
}

impl std::error::Error for Flaw {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_json_pointers() {
        let flaw = Flaw::at("a/b~c", "is too long").under("content");
        assert_eq!(flaw.at, "/content/a~1b~0c");
        assert_eq!(flaw.to_string(), "/content/a~1b~0c: is too long");
        assert_eq!(Flaw::here("is no object").to_string(), "is no object");
    }
}
