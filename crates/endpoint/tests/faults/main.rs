//! What the network does to us: resets at any byte, stalls, half-open connections, dribbles, restarts. Our
//! client, our server, and a proxy between them that does the harm.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod proxy;
mod resets;
mod rig;
mod stalls;
mod sweep;
mod ways;
