//! Who we are: a certificate, those between it and its root, and its key.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, InconsistentKeys, ServerConfig};

use crate::error::TlsError;
use crate::{Protocols, names, provider};

/// A certificate and its key, checked to belong together.
#[derive(Clone)]
pub struct Identity(Arc<CertifiedKey>);

impl Identity {
    /// From two PEM files, or twice the same one. The certificate of `certificate` comes first in it, those that
    /// lead to a root follow.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = read_certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
            PemError::NoItemsFound => TlsError::NoKey(key.to_owned()),
            error => TlsError::unreadable(key, Plain(error)),
        })?;
        let signing = provider().key_provider.load_private_key(private);
        let signing =
            signing.map_err(|error| TlsError::BadKey { path: key.to_owned(), why: told(&error) })?;
        let pair = CertifiedKey::new(chain, signing);
        match pair.keys_match() {
            // A kind of key that does not tell its public half is taken on trust, as rustls itself does.
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Self(Arc::new(pair))),
            Err(Error::InconsistentKeys(_)) => {
                Err(TlsError::Mismatch { certificate: certificate.to_owned(), key: key.to_owned() })
            }
            Err(error) => Err(TlsError::BadCertificate { path: certificate.to_owned(), why: told(&error) }),
        }
    }

    /// A server that shows this certificate to everyone and asks for none.
    pub fn server(&self, protocols: Protocols<'_>) -> Result<ServerConfig, TlsError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::setup)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.resolver()));
        config.alpn_protocols = names(protocols);
        Ok(config)
    }

    /// Whether the certificate is for this name or address.
    #[must_use]
    pub fn is_for(&self, name: &str) -> bool {
        let Ok(name) = ServerName::try_from(name) else { return false };
        let own = self.0.cert.first().map(ParsedCertificate::try_from);
        matches!(own, Some(Ok(own)) if verify_server_name(&own, &name).is_ok())
    }

    /// The certificates, our own first.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.0.cert
    }

    pub(crate) fn resolver(&self) -> SingleCertAndKey {
        SingleCertAndKey::from(Arc::clone(&self.0))
    }
}

/// Without the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificates", &self.0.cert.len()).finish_non_exhaustive()
    }
}

/// The certificates in a PEM file, at least one.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| TlsError::unreadable(path, Plain(error)))?;
    if found.is_empty() { Err(TlsError::NoCertificate(path.to_owned())) } else { Ok(found) }
}

/// An error of reading, in its own words and not in those of its wrapper.
struct Plain(PemError);

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PemError::Io(error) => error.fmt(f),
            error => error.fmt(f),
        }
    }
}

fn told(error: &Error) -> Box<str> {
    error.to_string().into()
}
