//! Clients: typed methods over any link, the same in both eras.
//!
//! * [`Client`] and its [`Connector`]: connect, settle the era, call.
//! * [`Caller`]: everything that can be called.
//! * [`Managed`]: a connection that is made again when it is lost; the same calls, whichever link there is.
//! * [`Call`]: one call in progress; await it, watch it, cancel it.
//! * [`ToolTask`]: a call that the server made a task; look, wait, cancel.
//! * [`Answerers`]: what the client answers when it is asked.
//! * [`CallError`]: what can go wrong, and whether the call may have been executed.

mod asks;
mod cache;
mod call;
mod caller;
mod class;
mod client;
mod connect;
mod driving;
mod eras;
mod error;
mod managed;
mod pages;
#[cfg(feature = "schema")]
mod schemas;
mod skill;
mod task;

pub use asks::{Answerers, Urls};
pub use call::{Call, Listen};
pub use caller::Caller;
pub use class::{Class, Retry, Step};
pub use client::{Client, ServerInfo};
pub use connect::{Connector, Logs};
pub use eras::Eras;
pub use error::{CallError, ConnectError, Settled, words};
pub use managed::{Managed, Reaching, Unreached, Watcher, Way, way};
pub use pages::{Page, Pages};
pub use task::{Started, TaskOptions, ToolTask};
