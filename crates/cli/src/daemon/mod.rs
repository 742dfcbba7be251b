//! The daemon as commands know it: where it is found, what is said before a session begins, and how it is reached.
//!
//! It keeps configured servers running between commands. Whatever hinders it leads to the way without it: a server is then
//! started or dialled for this command alone, so that nothing works worse for there being a daemon.

pub(crate) mod dial;
pub(crate) mod place;
pub(crate) mod talk;
