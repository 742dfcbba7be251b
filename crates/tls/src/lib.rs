//! TLS for both sides, as data: who we are ([`Identity`]) and, with the feature `trust`, whom we trust
//! (`Trust`). No stream is opened here; transports do that with the configurations they get.
//!
//! The provider is chosen here and nowhere else, so that no program has to install one.

mod error;
mod identity;
#[cfg(feature = "trust")]
mod trust;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use error::TlsError;
pub use identity::Identity;
#[cfg(feature = "trust")]
pub use trust::Trust;

/// Which protocols are spoken inside (ALPN), most wanted first.
pub type Protocols<'a> = &'a [&'a [u8]];

/// HTTP/2, or else HTTP/1.1.
pub const HTTP: Protocols<'static> = &[HTTP_2, HTTP_1];

/// HTTP/1.1 only: what a WebSocket is opened by.
pub const UPGRADE: Protocols<'static> = &[HTTP_1];

/// The name of HTTP/2.
pub const HTTP_2: &[u8] = b"h2";

const HTTP_1: &[u8] = b"http/1.1";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn names(protocols: Protocols<'_>) -> Vec<Vec<u8>> {
    protocols.iter().map(|name| name.to_vec()).collect()
}
