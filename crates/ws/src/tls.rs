//! TLS as the machine trusts it.

use std::sync::Arc;

use rustls::{ClientConfig, Error};
use rustls_platform_verifier::Verifier;

/// The trust of the platform. WebSockets are opened by HTTP/1.1 only.
pub(crate) fn config() -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(Arc::clone(&provider))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
