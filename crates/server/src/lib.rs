//! Servers: typed tools from plain async functions, resources, prompts, completion, and asks that
//! work in both eras.
//!
//! * [`Server`] and its [`Builder`](builder::Builder): what is offered.
//! * [`Cx`]: what a handler holds.
//! * [`Stop`]: how a handler stops early.
//! * [`Skill`]: instructions for models, with their files.
//! * [`Action`] and [`Access`]: who may do what.
//! * [`Json`]: structured output.

mod access;
pub mod builder;
mod cx;
#[cfg(feature = "schema")]
mod dynamic;
mod lower;
pub mod output;
mod redeemed;
mod registry;
mod router;
mod seal;
mod server;
mod skill;
mod stop;
mod tasks;
pub mod tools;

pub use access::{Access, Action};
pub use cx::Cx;
pub use output::Json;
pub use router::Variables;
pub use schemars;
pub use serde;
pub use server::Server;
pub use skill::Skill;
pub use stop::Stop;
