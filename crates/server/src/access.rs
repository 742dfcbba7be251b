//! Who may do what: one function decides, for calls, lists and change notes alike.

/// What someone wants to do, or to see listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action<'a> {
    /// Call the tool of this name.
    Call(&'a str),
    /// Read the resource at this address, and hear of its changes.
    Read(&'a str),
    /// Read through the template of this text. The address that comes of it is asked about too.
    Template(&'a str),
    /// Fill in the prompt of this name.
    Prompt(&'a str),
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It may be done.
    Granted,
    /// It may not, and shall look as if it did not exist.
    Denied,
}

/// Decides for a principal, or for someone unknown.
pub(crate) type Decide = Box<dyn Fn(Option<&str>, Action<'_>) -> Access + Send + Sync>;
