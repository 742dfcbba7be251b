//! Talking with the person in front of us: what a server asks, and what a command still needs.
//!
//! Everything is asked on a terminal and nowhere else; who asks is always said, and what a server says stands behind a
//! bar, so that it cannot pass for ours. Without a terminal nothing here runs.

pub(crate) mod arguments;
pub(crate) mod console;
pub(crate) mod field;
pub(crate) mod floor;
pub(crate) mod form;
pub(crate) mod hidden;
pub(crate) mod inputs;
pub(crate) mod sample;
pub(crate) mod visit;
