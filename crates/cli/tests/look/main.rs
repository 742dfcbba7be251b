//! What people see at a terminal, and what scripts get instead.
#![allow(clippy::unwrap_used, reason = "only tests call it")]

#[path = "../common/mod.rs"]
mod common;
mod content;
mod hostile;
mod lines;
mod progress;
mod snapshot;
mod snapshots;

/// A server whose texts are hard to show, in one of its manners.
fn server(manner: &str) -> [&str; 4] {
    ["--", "python3", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/look/server.py"), manner]
}
