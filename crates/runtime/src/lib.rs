//! The async seam: one driver pumps one session over one link.
//!
//! Async lives here, in the links and in handlers; the protocol itself is plain values. Read in this
//! order:
//!
//! * [`link`]: what a transport must do.
//! * [`lines`]: the link over any pair of byte streams, one message per line.
//! * [`service`]: what a server or client does with calls.
//! * [`cx`]: what a handler holds.
//! * [`peer`]: the handle through which our side calls the other.
//! * [`driver`]: the loop.
//! * [`links`]: who is served.
//! * [`unfinished`]: calls that go on though no link has them.
//! * [`tap`]: who sees what passes over a link.
//! * [`witness`]: what is known of the process behind a link.
//! * [`memory`]: two ends of a link in one process.

mod clock;
pub mod cx;
pub mod driver;
mod inbox;
pub mod lines;
pub mod link;
pub mod links;
pub mod memory;
mod outbox;
pub mod peer;
pub mod service;
pub mod tap;
mod tasks;
pub mod unfinished;
pub mod witness;
