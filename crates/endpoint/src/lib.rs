//! The server side of the network: one endpoint for every client, both eras, three transports.
//!
//! A request takes this path: `endpoint` routes it, `ingress` reads and judges it (by the pure rules of
//! `cardan_proto::http`), then
//!
//! * `post` answers a modern POST: a fresh session, driven by the very future that answers it;
//! * `legacy` finds the session in `sessions` and drives it in place through its `hub`;
//! * `events` serves the old HTTP+SSE transport: the stream's body drives the session;
//! * `socket` takes the connection over and drives a WebSocket on a task that the endpoint owns.
//!
//! Where several replicas share sessions, `sharing` keeps what is ours, and `elsewhere` brings requests to the replica that
//! has their session (`carried`), or takes it over.
//!
//! `page` shows what stands beside the protocol. Several endpoints share a port as [`Sites`]. No task is spawned for any other
//! request. [`listener`] accepts connections; [`Endpoint`] also mounts in any hyper or tower application.

mod accept;
mod body;
mod carried;
mod door;
mod elsewhere;
mod endpoint;
mod events;
mod hub;
mod ingress;
mod lanes;
mod legacy;
pub mod listener;
mod options;
mod page;
mod post;
mod pulse;
mod reply;
mod sessions;
mod sharing;
mod shelf;
mod site;
mod socket;
mod stall;
#[cfg(feature = "tls")]
mod tls;
mod trace;
mod watch;
mod wire;

pub use body::Body;
pub use door::Door;
pub use endpoint::{Answering, Census, Endpoint, Present};
pub use options::{Grant, Options, Paths, Replies, Revoked, Traces, Verify};
pub use page::{Audience, Leaf, Visit, Visitor};
pub use site::{Site, Sites};
