//! A client on plain sockets, which shares nothing with the server that it tests: a mistake that both ends made
//! alike would not be seen.

pub(crate) mod client;
pub(crate) mod events;
pub(crate) mod http;
pub(crate) mod say;
pub(crate) mod socket;
