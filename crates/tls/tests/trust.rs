//! Who is believed, over real handshakes in memory, and what is said of files that are of no use.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cardan_tls::{HTTP, Identity, TlsError, Trust, UPGRADE};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::AsyncReadExt;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A folder of one test's own, with files in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cardan-tls-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A certificate that vouches for itself.
    fn own(&self, name: &str) -> (PathBuf, PathBuf) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let certificate = self.write(&format!("{name}.pem"), &made.cert.pem());
        (certificate, self.write(&format!("{name}.key"), &made.signing_key.serialize_pem()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn trusting(roots: &Path) -> Trust {
    Trust::default().roots(roots).unwrap()
}

/// One handshake in memory; the protocol that both chose.
async fn shake(server: ServerConfig, client: ClientConfig, name: &str) -> Result<Option<Vec<u8>>, String> {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let accepting = TlsAcceptor::from(Arc::new(server)).accept(theirs);
    let connecting = TlsConnector::from(Arc::new(client)).connect(name, ours);
    let (accepted, connected) = tokio::join!(accepting, connecting);
    accepted.map_err(|error| error.to_string())?;
    let mut connected = connected.map_err(|error| error.to_string())?;
    // With TLS 1.3 a client learns only here that its certificate was refused.
    match connected.read_u8().await {
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(error.to_string()),
        _ => {}
    }
    Ok(connected.get_ref().1.alpn_protocol().map(<[u8]>::to_vec))
}

/// S1-27: the machine's roots do not know the server; a file of ours does; the name counts as well; and an
/// insecure client believes anyone.
#[tokio::test]
async fn s1_27_trust_is_the_machines_and_what_is_added() {
    let folder = Folder::new("roots");
    let (certificate, key) = folder.own("server.test");
    let identity = Identity::read(&certificate, &key).unwrap();
    let met = async |trust: &Trust, name: &str| {
        shake(identity.server(HTTP).unwrap(), trust.client(HTTP).unwrap(), name).await
    };
    let added = trusting(&certificate);
    assert_eq!(met(&added, "server.test").await.unwrap().as_deref(), Some(&b"h2"[..]));
    assert!(met(&added, "other.test").await.is_err());
    assert!(met(&Trust::default(), "server.test").await.is_err());
    assert!(met(&Trust::default().unchecked(), "other.test").await.is_ok());
    assert!(added.believes(&identity, "server.test") && !added.believes(&identity, "other.test"));
    assert!(!Trust::default().believes(&identity, "server.test"));
    assert!(identity.is_for("server.test") && !identity.is_for("127.0.0.1") && !identity.is_for(""));
    let upgrade = trusting(&certificate).client(UPGRADE).unwrap();
    let chosen = shake(identity.server(HTTP).unwrap(), upgrade, "server.test").await;
    assert_eq!(chosen.unwrap().as_deref(), Some(&b"http/1.1"[..]));
}

/// S1-27: a server that asks for a certificate gets ours, and only the right one will do.
#[tokio::test]
async fn s1_27_clients_show_their_certificate() {
    let folder = Folder::new("mutual");
    let (certificate, key) = folder.own("server.test");
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let (own, own_key) = (CertificateParams::new(["me".to_owned()]).unwrap(), KeyPair::generate().unwrap());
    let own = own.signed_by(&own_key, &issuer).unwrap();
    let own = Identity::read(
        &folder.write("me.pem", &own.pem()),
        &folder.write("me.key", &own_key.serialize_pem()),
    );
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();

    let server = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let asks =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), Arc::clone(&provider));
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let shown = rustls::pki_types::pem::PemObject::from_pem_file(&key).unwrap();
        let chain = Identity::read(&certificate, &key).unwrap().chain().to_vec();
        builder
            .unwrap()
            .with_client_cert_verifier(asks.build().unwrap())
            .with_single_cert(chain, shown)
            .unwrap()
    };
    let met = async |trust: Trust| shake(server(), trust.client(UPGRADE).unwrap(), "server.test").await;
    assert!(met(trusting(&certificate).identity(own.unwrap())).await.is_ok());
    assert!(met(trusting(&certificate)).await.is_err(), "none is shown");
    let foreign = Identity::read(&certificate, &key).unwrap();
    assert!(met(trusting(&certificate).identity(foreign)).await.is_err(), "nobody vouches for it");
}

/// S1-27: two trusts add up, whichever comes first; only unchecked is stronger.
#[tokio::test]
async fn s1_27_trusts_add_up() {
    let folder = Folder::new("sum");
    let made = ["one.test", "two.test"].map(|name| folder.own(name));
    let [one, two] = made.each_ref().map(|(certificate, _)| trusting(certificate));
    let [first, second] = made.each_ref().map(|(certificate, key)| Identity::read(certificate, key).unwrap());
    for both in [one.clone().and(two.clone()), two.clone().and(one.clone())] {
        assert!(both.believes(&first, "one.test") && both.believes(&second, "two.test"));
        assert!(!both.has_identity());
    }
    let shown = Trust::default().identity(first.clone());
    assert!(one.clone().and(shown.clone()).has_identity() && shown.and(one.clone()).has_identity());
    for anyone in [one.clone().and(Trust::default().unchecked()), Trust::default().unchecked().and(one)] {
        let met = shake(second.server(HTTP).unwrap(), anyone.client(HTTP).unwrap(), "other.test").await;
        assert!(met.is_ok(), "{met:?}");
    }
}

/// What is wrong with a file is told with its name and with what to do.
#[test]
fn files_of_no_use_are_named() {
    let folder = Folder::new("files");
    let (certificate, key) = folder.own("server.test");
    let (_, other) = folder.own("other.test");
    let empty = folder.write("empty.pem", "");
    let (missing, directory) = (folder.0.join("missing.pem"), folder.0.clone());
    let torn = folder.write("torn.pem", "-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n");
    let junk = folder.write("junk.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let odd = folder.write("odd.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    let table = [
        (&missing, &key, "cannot read", "missing.pem"),
        (&directory, &key, "cannot read", "cardan-tls-files"),
        (&torn, &key, "cannot read", "torn.pem"),
        (&empty, &key, "no certificate in", "empty.pem"),
        (&key, &key, "no certificate in", "server.test.key"),
        (&junk, &key, "cannot use the certificate", "junk.pem"),
        (&certificate, &missing, "cannot read", "missing.pem"),
        (&certificate, &empty, "no private key in", "empty.pem"),
        (&certificate, &certificate, "no private key in", "server.test.pem"),
        (&certificate, &odd, "cannot use the key", "odd.key"),
        (&certificate, &other, "is not that of the certificate", "other.test.key"),
    ];
    for (certificate, key, what, file) in table {
        let error = Identity::read(certificate, key).unwrap_err();
        let told = error.to_string();
        assert!(told.contains(what) && told.contains(file), "{what} {file}: {told}");
        assert!(!error.next_step().is_empty());
    }
    assert!(matches!(Trust::default().roots(&empty), Err(TlsError::NoCertificate(_))));
    let shown = format!("{:?}", Identity::read(&certificate, &key).unwrap());
    assert_eq!(shown, "Identity { certificates: 1, .. }", "a key is not for logs");
}
