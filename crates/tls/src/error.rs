//! What is wrong with a file or a set-up.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why TLS cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsError {
    /// A file that cannot be read, or is no PEM.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system or the format says.
        why: Box<str>,
    },
    /// A file without a certificate in it.
    NoCertificate(PathBuf),
    /// A file without a private key in it.
    NoKey(PathBuf),
    /// A key of a kind that we cannot use.
    BadKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: Box<str>,
    },
    /// A certificate that cannot be read.
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: Box<str>,
    },
    /// A key that is not that of the certificate.
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The library or the machine's trust store refuses.
    Setup(Box<str>),
}

impl TlsError {
    /// What a person can do about it.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check the path, who may read the file, and that it is PEM",
            Self::NoCertificate(_) => {
                "give a PEM file with a block `BEGIN CERTIFICATE`, the server's own first"
            }
            Self::NoKey(_) => "give a PEM file with a block `BEGIN PRIVATE KEY`, not encrypted",
            Self::BadKey { .. } => "give an RSA, ECDSA or Ed25519 key in PKCS#8, PKCS#1 or SEC1 form",
            Self::BadCertificate { .. } => "give an X.509 certificate, version 3, in PEM form",
            Self::Mismatch { .. } => {
                "give the key from which the certificate was requested, and the server's certificate first in its file"
            }
            Self::Setup(_) => {
                "see whether the machine has a trust store, such as the package ca-certificates"
            }
        }
    }

    pub(crate) fn unreadable(path: &Path, why: impl fmt::Display) -> Self {
        Self::Unreadable { path: path.to_owned(), why: why.to_string().into() }
    }

    pub(crate) fn setup(why: impl fmt::Display) -> Self {
        Self::Setup(why.to_string().into())
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => write!(f, "cannot read {}: {why}", path.display()),
            Self::NoCertificate(path) => write!(f, "no certificate in {}", path.display()),
            Self::NoKey(path) => write!(f, "no private key in {}", path.display()),
            Self::BadKey { path, why } => write!(f, "cannot use the key in {}: {why}", path.display()),
            Self::BadCertificate { path, why } => {
                write!(f, "cannot use the certificate in {}: {why}", path.display())
            }
            Self::Mismatch { certificate, key } => {
                write!(
                    f,
                    "the key in {} is not that of the certificate in {}",
                    key.display(),
                    certificate.display()
                )
            }
            Self::Setup(why) => write!(f, "TLS cannot be set up: {why}"),
        }
    }
}

impl Error for TlsError {}
