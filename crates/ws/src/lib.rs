//! MCP over WebSocket, both ends: one message per text frame, subprotocol `mcp`.
//!
//! * [`link`]: the link, over any stream on which the handshake is done.
//! * [`layer`]: the WebSocket itself, as both ends set it up.
//! * [`key`]: the proof that a handshake was read.
//! * `dial` (feature `dial`): connects to `ws://` and `wss://` addresses.
//!
//! The rules of the handshake are `cardan_proto::http::upgrade`, the meaning of close codes is
//! `cardan_proto::socket`.

mod count;
#[cfg(feature = "dial")]
pub mod dial;
pub mod key;
pub mod layer;
mod ledger;
pub mod link;
mod pulse;

#[cfg(feature = "dial")]
pub use dial::{Dial, DialError, dial};
pub use link::WsLink;
