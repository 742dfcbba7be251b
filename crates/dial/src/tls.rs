//! TLS as the machine trusts it, plus what the user adds.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

use crate::build::HttpError;

/// Certificates in a PEM file.
pub(crate) fn read_roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, HttpError> {
    let unreadable = |why: String| HttpError::Roots { path: path.to_owned(), why: why.into_boxed_str() };
    let roots = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(error.to_string()))?;
    if roots.is_empty() { Err(unreadable("no certificate in it".to_owned())) } else { Ok(roots) }
}

/// The trust of the platform and of `extra`, with HTTP/2 preferred.
pub(crate) fn config(extra: &[CertificateDer<'static>]) -> Result<ClientConfig, HttpError> {
    let failed = |error: rustls::Error| HttpError::Tls(error.to_string().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        Verifier::new_with_extra_roots(extra.iter().cloned(), Arc::clone(&provider)).map_err(failed)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
