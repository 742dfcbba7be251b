//! Whom a client trusts: the machine's own roots, those the user adds, or anyone.

use std::path::Path;
use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

use crate::error::TlsError;
use crate::identity::{Identity, read_certificates};
use crate::{Protocols, names, provider};

/// Whom a client trusts, and what it shows to servers that ask.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Trust {
    roots: Vec<CertificateDer<'static>>,
    identity: Option<Identity>,
    checks: Checks,
}

/// Whether certificates are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Checks {
    #[default]
    All,
    None,
}

impl Trust {
    /// With the certificates in a PEM file beside the machine's own.
    pub fn roots(mut self, path: &Path) -> Result<Self, TlsError> {
        self.roots.extend(read_certificates(path)?);
        Ok(self)
    }

    /// With a certificate of ours, for servers that ask for one.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Both: the roots of either are trusted, `other`'s certificate is shown where it has one, and where one of them trusts
    /// anyone, so do both.
    pub fn and(mut self, other: Self) -> Self {
        self.roots.extend(other.roots);
        self.identity = other.identity.or(self.identity);
        if other.checks == Checks::None {
            self.checks = Checks::None;
        }
        self
    }

    /// Is there a certificate of ours to show?
    #[must_use]
    pub fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// Anyone is trusted: whoever is on the way can read and change everything. For tests; say it aloud.
    pub fn unchecked(mut self) -> Self {
        self.checks = Checks::None;
        self
    }

    /// A client of this trust.
    pub fn client(&self, protocols: Protocols<'_>) -> Result<ClientConfig, TlsError> {
        let verifier: Arc<dyn ServerCertVerifier> = match self.checks {
            Checks::All => Arc::new(self.verifier()?),
            Checks::None => Arc::new(Anyone(provider())),
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::setup)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let shown: Arc<dyn ResolvesClientCert> = Arc::new(identity.resolver());
                builder.with_client_cert_resolver(shown)
            }
        };
        config.alpn_protocols = names(protocols);
        Ok(config)
    }

    /// Whether a server with this identity is believed to be `name`, now.
    #[must_use]
    pub fn believes(&self, identity: &Identity, name: &str) -> bool {
        let (Ok(name), Ok(verifier)) = (ServerName::try_from(name), self.verifier()) else { return false };
        let [own, between @ ..] = identity.chain() else { return false };
        verifier.verify_server_cert(own, between, &name, &[], UnixTime::now()).is_ok()
    }

    fn verifier(&self) -> Result<Verifier, TlsError> {
        Verifier::new_with_extra_roots(self.roots.iter().cloned(), provider()).map_err(TlsError::setup)
    }
}

/// Believes every certificate. The handshake itself is still checked: its peer has the key of what it shows.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
