//! The proof that a handshake was read by a WebSocket server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What the protocol appends to every key (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What `Sec-WebSocket-Accept` must say to `Sec-WebSocket-Key`.
#[must_use]
pub fn accept(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key.as_bytes());
    hash.update(GUID.as_bytes());
    STANDARD.encode(hash.digest().bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
