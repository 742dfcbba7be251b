//! `cardan serve` with a certificate, and the options of the commands that reach it.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{CARDAN, Scratch, cardan};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

/// A certificate for these names that vouches for itself, and its key.
fn certificate(scratch: &Scratch, file: &str, names: &[&str]) -> (String, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (certificate, key) = (scratch.file(&format!("{file}.pem")), scratch.file(&format!("{file}.key")));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

/// A server, until it is dropped, and what it said at its start.
struct Serving {
    child: Child,
    greeting: Vec<String>,
}

impl Serving {
    fn start(certificate: &str, key: &str) -> Self {
        let words = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key];
        let mut child = Command::new(CARDAN).args(words).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut greeting = Vec::new();
        let whole = lines
            .by_ref()
            .inspect(|line| greeting.push(line.clone()))
            .any(|line| line.starts_with("end with"));
        let serving = Self { child, greeting };
        assert!(whole, "cardan serve ended: {:?}", serving.greeting);
        serving
    }

    /// The first address of this kind.
    fn url(&self, beginning: &str) -> String {
        let words = self.greeting.iter().flat_map(|line| line.split_whitespace());
        words.filter(|word| word.starts_with(beginning)).map(str::to_owned).next().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// S1-27: everything that is printed works as it stands, on https and wss alike, in both eras.
/// CLI-5, CLI-7.
#[test]
fn s1_27_printed_commands_work_as_they_stand() {
    let scratch = Scratch::new("tls printed");
    let (certificate, key) = certificate(&scratch, "it's ours", &["localhost"]);
    let serving = Serving::start(&certificate, &key);
    let text = serving.greeting.join("\n");
    assert!(!text.contains("http://") && !text.contains("ws://"), "{text}");
    let commands: Vec<&str> =
        serving.greeting.iter().filter_map(|line| line.strip_prefix("  cardan ")).collect();
    assert_eq!(commands.len(), 3, "{text}");
    let folder = Path::new(CARDAN).parent().unwrap();
    for command in commands {
        for era in ["legacy", "modern"] {
            let line = format!("PATH={}:$PATH cardan {command} --era {era}", folder.display());
            let ran = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        }
    }
    let old = serving.url("https://").replace("/mcp", "/sse");
    cardan(&["call", &old, "echo", "message=old", "--ca", &certificate]).exits(0).prints("old\n");
}

/// S1-27: without trust there is no session; the insecure switch opens one, and says so every time.
/// CLI-44.
#[test]
fn s1_27_insecure_is_loud() {
    let scratch = Scratch::new("tls-insecure");
    let (certificate, key) = certificate(&scratch, "own", &["localhost"]);
    let serving = Serving::start(&certificate, &key);
    for url in [serving.url("https://"), serving.url("wss://")] {
        let refused =
            cardan(&["call", &url, "echo", "message=x", "--json"]).exits(4).tells(&["certificate", "--ca"]);
        let error: Value = serde_json::from_str(&refused.stderr).unwrap();
        assert_eq!((&error["error"]["class"], &error["error"]["stage"]), (&json!("tls"), &json!("connect")));
        cardan(&["call", &url, "echo", "message=x", "--insecure"])
            .exits(0)
            .prints("x\n")
            .tells(&["WARNING: --insecure", "no certificate is checked"]);
        // Nobody asks for one here, and showing it does no harm.
        let own = ["--client-cert", &*certificate, "--client-key", &*key, "--ca", &*certificate];
        cardan(&[&["call", &*url, "echo", "message=x"], &own[..]].concat()).exits(0).prints("x\n");
        // In the clear there is nobody on a port that speaks TLS.
        let clear = url.replacen("s://", "://", 1);
        assert_ne!(cardan(&["info", &clear, "--timeout", "5"]).code, Some(0));
        cardan(&["call", &url, "echo", "message=x", "--ca", &certificate]).exits(0).prints("x\n");
    }
}

/// A certificate for other names is told at once, not by every client.
#[test]
fn a_certificate_for_nobody_here_is_told() {
    let scratch = Scratch::new("tls-names");
    let (certificate, key) = certificate(&scratch, "far", &["mcp.example.org"]);
    let serving = Serving::start(&certificate, &key);
    let text = serving.greeting.join("\n");
    assert!(
        text.contains("the certificate is for none of the names") && text.contains("--allow-host"),
        "{text}"
    );
}

/// A certificate that somebody else signed: the greeting asks for theirs, and with it everything works.
#[test]
fn a_certificate_that_others_signed_is_told() {
    let scratch = Scratch::new("tls-signed");
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let own_key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&own_key, &issuer).unwrap();
    let [root, certificate, key] = ["root.pem", "own.pem", "own.key"].map(|name| scratch.file(name));
    std::fs::write(&root, issuer.pem()).unwrap();
    std::fs::write(&certificate, own.pem()).unwrap();
    std::fs::write(&key, own_key.serialize_pem()).unwrap();
    let serving = Serving::start(&certificate, &key);
    let text = serving.greeting.join("\n");
    assert!(
        text.contains("--ca FILE") && text.contains("FILE holds the certificate of who signed ours"),
        "{text}"
    );
    let url = serving.url("https://127.0.0.1:");
    cardan(&["call", &url, "echo", "message=signed", "--ca", &root]).exits(0).prints("signed\n");
}

/// Every wrong file is named, with what is wrong and what to do, and nothing listens.
#[test]
fn wrong_files_are_told_before_anything_listens() {
    let scratch = Scratch::new("tls-files");
    let (certificate, key) = certificate(&scratch, "own", &["localhost"]);
    let (_, other) = self::certificate(&scratch, "other", &["localhost"]);
    let (missing, empty) = (scratch.file("missing.pem"), scratch.file("empty.pem"));
    std::fs::write(&empty, "").unwrap();
    let table: [(&str, &str, &[&str]); 5] = [
        (&missing, &key, &["cannot read", "missing.pem", "next: check the path"]),
        (&empty, &key, &["no certificate in", "empty.pem", "BEGIN CERTIFICATE"]),
        (&certificate, &missing, &["cannot read", "missing.pem", "next: check the path"]),
        (&certificate, &certificate, &["no private key in", "own.pem", "BEGIN PRIVATE KEY"]),
        (&certificate, &other, &["other.key", "is not that of the certificate", "own.pem"]),
    ];
    for (certificate, key, told) in table {
        cardan(&["serve", "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key])
            .exits(1)
            .tells(told);
    }
    cardan(&["serve", "--tls-cert", &certificate]).exits(1).tells(&["--tls-key"]);
    cardan(&["serve", "--tls-key", &key]).exits(1).tells(&["--tls-cert"]);
    let url = "https://127.0.0.1:1/mcp";
    cardan(&["info", url, "--ca", &missing]).exits(1).tells(&["--ca: cannot read", "missing.pem", "next: "]);
    cardan(&["info", url, "--client-cert", &certificate]).exits(1).tells(&["--client-key"]);
    cardan(&["info", "wss://127.0.0.1:1/ws", "--client-cert", &certificate, "--client-key", &other])
        .exits(1)
        .tells(&["--client-cert", "is not that of the certificate"]);
    cardan(&["info", "--insecure", "--", "true"]).exits(1).tells(&["reached over HTTP"]);
}
