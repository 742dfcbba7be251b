//! What MCP asks of HTTP, as pure functions over heads.
//!
//! Nothing here opens a socket or reads a body stream: a server or client of any HTTP library
//! hands over method, URI, headers and status, and gets back a decision. Bodies come in only as
//! the few facts that a rule needs.
//!
//! On the way in, a server runs [`ingress`] (which begins with [`origin`]), then [`era`], then for
//! modern calls [`agree`], and turns faults into statuses with [`status`]. A client builds heads
//! from [`headers`], [`value`], [`param`] and [`stray`], and reads what comes back with [`status`],
//! [`challenge`] and [`redirect`].

pub mod agree;
pub mod authority;
pub mod challenge;
pub mod cors;
pub mod era;
pub mod failure;
pub mod headers;
pub mod ingress;
pub mod origin;
pub mod page;
pub mod param;
pub mod percent;
pub mod redirect;
pub mod status;
pub mod stray;
pub mod upgrade;
pub mod url;
pub mod value;

use crate::limits::Limits;

/// The head of a foreign text, short enough for an error message.
fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(Limits::DEFAULT.excerpt_bytes)]
}
