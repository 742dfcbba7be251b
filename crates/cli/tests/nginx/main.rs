//! A real nginx in front of our server, set up as people do: buffering left on, HTTP/1.0 to the server, and little
//! patience. What gets through is due to what we send: `X-Accel-Buffering`, signs of life, event ids.
//!
//! nginx and the foreign clients are set up by `cargo xtask test` (or `cargo xtask peers`); without them each test says
//! that it was skipped, and fails where `CARDAN_PEERS=required`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod foreign;
mod guard;
mod ours;
mod proxy;
mod served;
mod statuses;
