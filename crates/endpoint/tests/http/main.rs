//! The HTTP side of a server, from the outside: exact bytes over sockets, and what comes back.
//!
//! The expectations are those of the requirement rows, which the tests cite.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod guard;
mod lanes;
mod legacy;
mod mirror;
mod modern;
mod mount;
mod old_events;
mod pressure;
mod rig;
mod stolen;
mod timers;
mod windows;
mod wire;
