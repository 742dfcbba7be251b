//! The links of Cardan: how messages travel.
//!
//! A [`Link`](cardan_runtime::link::Link) delivers frames, takes messages and tells how it ended; a
//! [`Driver`](cardan_runtime::driver::Driver) pumps a session over it. All links here speak one message
//! per line and differ in what carries the bytes:
//!
//! * [`spawn`]: what server to start, and how; its environment and directory.
//! * [`child`]: the link to a server we started, and how it ends.
//! * [`guard`]: what ends the server when we are killed.
//! * [`stderr`]: what the server says beside the protocol.
//! * [`error`]: why a server could not be started.
//! * [`stdio`]: our own stdin and stdout, where we are the server.
//! * [`socket`]: Unix sockets and TCP, either side.
//!
//! What happens when things go wrong is part of each link: a child that dies tells its exit status and
//! last words, one that does not leave is ended with everything it started, and no peer can make us
//! buffer more than the [limits](cardan_proto::limits) say.

pub mod child;
pub mod error;
mod group;
pub mod guard;
mod ladder;
pub mod program;
pub mod socket;
pub mod spawn;
pub mod stderr;
pub mod stdio;
mod stir;
