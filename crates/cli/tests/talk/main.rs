//! A person at a real terminal: what servers ask and commands need, asked and answered there.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "../common/mod.rs"]
mod common;

mod arguments;
mod forgery;
mod forms;
mod inputs;
mod peers;
mod sampling;
mod scene;
mod signals;
mod visits;
