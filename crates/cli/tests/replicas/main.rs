//! Three replicas of one gateway and a real Redis, all in processes of their own: any replica takes any request, whoever dies.
//!
//! The long form is the same with more to do: `cargo xtask soak --replicas`. Without Redis, which `cargo xtask peers`
//! installs, each test says that it was skipped, and fails where `CARDAN_PEERS=required`.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![allow(clippy::print_stdout, reason = "the long forms tell what they measured")]

#[path = "../common/mod.rs"]
mod common;
mod control;
mod ownership;
#[path = "../operation/rig.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod rig;
mod rolling;
mod routing;
mod secrets;
mod secure;
mod store;
mod stranger;
mod way;
mod wire;
mod world;
