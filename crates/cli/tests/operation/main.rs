//! A gateway in operation: what watchers are told, how it ends, what it counts. Real processes on every side.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod at;
mod audience;
mod client;
#[path = "../../../gateway/tests/collecting/mod.rs"]
mod collecting;
#[path = "../common/mod.rs"]
mod common;
mod disk;
mod drain;
mod faults;
mod hangup;
mod health;
mod log;
mod metrics;
mod mirrored;
mod patience;
mod rate;
mod revoked;
mod rig;
mod sick;
mod trace;
