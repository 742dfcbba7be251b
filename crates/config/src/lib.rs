//! Configuration: `cardan.toml`, and the files that people already have.
//!
//! A file of any [`Tool`] is read into [`Server`]s, one neutral model that keeps text unexpanded, remembers where
//! everything stood and what it could not understand, so that it can be written to any tool's file again.
//! Several files make a [`Config`]: the nearest wins, and what it shadows is remembered. Nothing is expanded until
//! a server is needed (`Server::resolve`), and one that cannot be leaves the others usable.
//! Nothing here prints a secret: literals are hidden wherever they may be one.
//!
//! Not here: what a gateway does with its tables, and how a server is reached.

pub mod allowance;
pub mod client;
pub mod closest;
pub mod digest;
mod dotenv;
pub mod edit;
pub mod file;
pub mod gateway;
pub mod json;
mod keys;
pub mod load;
pub mod policy;
pub mod problem;
pub mod read;
pub mod reconnect;
pub mod replicas;
pub mod resolve;
pub mod rules;
mod run;
pub mod server;
pub mod show;
pub mod telemetry;
pub mod text;
pub mod time;
pub mod token;
pub mod toml;
pub mod tool;
pub mod tree;
pub mod trust;
pub mod write;

pub use load::{Config, Search};
pub use problem::Problem;
pub use read::File;
pub use server::{Launch, Provenance, Remote, Server, Settings, Way};
pub use text::Text;
pub use tool::Tool;
