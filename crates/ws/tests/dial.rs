//! Dialling: what a client says, what it believes, and how it tells what went wrong.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::sync::Arc;
use std::time::Duration;

use cardan_proto::http::upgrade::Unagreed;
use cardan_proto::limits::Limits;
use cardan_proxy::Proxies;
use cardan_tls::Trust;
use cardan_ws::{Dial, DialError, dial, key};
use http::header::{HeaderName, HeaderValue};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A server that reads the head of one request and answers with what `answer` makes of it.
async fn serving(answer: impl Fn(&[String]) -> String + Send + 'static) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        answered(stream, answer).await
    });
    (address, served)
}

async fn answered<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    answer: impl Fn(&[String]) -> String,
) -> Vec<String> {
    let mut stream = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    stream.write_all(answer(&head).as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    head
}

/// The answer that opens a WebSocket, with more lines.
fn switching(head: &[String], more: &str) -> String {
    let key = value(head, "sec-websocket-key").unwrap();
    let accept = key::accept(&key);
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n{more}\r\n"
    )
}

fn value(head: &[String], name: &str) -> Option<String> {
    head.iter().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

fn options() -> Dial {
    Dial::new(&Limits { open_timeout: Duration::from_secs(20), ..Limits::DEFAULT })
}

/// S1-38, S2-11: the opening request offers `mcp` and carries the headers it was given.
#[tokio::test]
async fn s1_38_the_request_says_what_is_wanted() {
    let (address, served) = serving(|head| switching(head, "Sec-WebSocket-Protocol: mcp\r\n")).await;
    let options = options()
        .bearer("s3cret")
        .unwrap()
        .header(HeaderName::from_static("x-team"), HeaderValue::from_static("blue"))
        // The handshake is not the caller's to change.
        .header(HeaderName::from_static("sec-websocket-version"), HeaderValue::from_static("8"));
    dial(&format!("ws://{address}/ws?room=1"), &options).await.unwrap();
    let head = served.await.unwrap();
    assert_eq!(head[0], "GET /ws?room=1 HTTP/1.1");
    for (name, wanted) in [
        ("host", &*address),
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "mcp"),
        ("authorization", "Bearer s3cret"),
        ("x-team", "blue"),
    ] {
        assert_eq!(value(&head, name).as_deref(), Some(wanted), "{name}");
    }
    assert!(!format!("{options:?}").contains("s3cret"), "a token is not for logs");
    assert!(matches!(Dial::new(&Limits::DEFAULT).bearer("a\nb"), Err(DialError::BadToken)));
}

/// S1-38: answers that open no WebSocket, each with its reason.
#[tokio::test]
async fn s1_38_answers_are_not_taken_on_trust() {
    let dialled = async |answer: fn(&[String]) -> String| {
        let (address, served) = serving(answer).await;
        let error = dial(&format!("ws://{address}/"), &options()).await.unwrap_err();
        served.await.unwrap();
        error
    };
    let refused =
        |_: &[String]| "HTTP/1.1 403 Forbidden\r\nContent-Length: 14\r\n\r\n\x1b[31mnot you\r\n".to_owned();
    let error = dialled(refused).await;
    let DialError::Refused { status, body, .. } = &error else { panic!("{error}") };
    assert_eq!((status.as_u16(), &**body), (403, "\\x1b[31mnot you"));

    let error = dialled(|head| switching(head, "Sec-WebSocket-Protocol: soap\r\n")).await;
    assert!(
        matches!(&error, DialError::Unagreed { why: Unagreed::Subprotocol(name), .. } if &**name == "soap")
    );

    let error = dialled(|head| switching(head, "Sec-WebSocket-Extensions: permessage-deflate\r\n")).await;
    assert!(matches!(error, DialError::Unagreed { why: Unagreed::Extension, .. }), "{error}");

    let stale = |head: &[String]| switching(head, "").replace("Accept: ", "Accept: x");
    let error = dialled(stale).await;
    assert!(matches!(error, DialError::Unagreed { why: Unagreed::Accept, .. }), "{error}");

    let error = dialled(|_| "220 smtp.example.org ready\r\n\r\n".to_owned()).await;
    assert!(matches!(error, DialError::BadHandshake { .. }), "{error}");
}

/// A server that answers nothing is given up in time, and one that is not there at once.
#[tokio::test]
async fn nobody_is_waited_for_without_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hasty = Dial::new(&Limits { open_timeout: Duration::from_millis(50), ..Limits::DEFAULT });
    let error = dial(&format!("ws://{address}/"), &hasty).await.unwrap_err();
    assert!(matches!(error, DialError::TimedOut(_)), "{error}");
    drop(listener);
    let error = dial(&format!("ws://{address}/"), &options()).await.unwrap_err();
    assert!(matches!(error, DialError::Unreachable { .. }), "{error}");
}

/// A server of this name, and trust in it.
fn certified(name: &str) -> (TlsAcceptor, Trust) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let certificate = CertificateDer::from(made.cert.der().to_vec());
    let private = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], private)
        .unwrap();
    let file = std::env::temp_dir().join(format!("cardan-ws-{name}-{}.pem", std::process::id()));
    std::fs::write(&file, made.cert.pem()).unwrap();
    let trusting = Trust::default().roots(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    (TlsAcceptor::from(Arc::new(server)), trusting)
}

/// S1-38: `wss://` is opened over TLS if the certificate is trusted, and not otherwise.
#[tokio::test]
async fn s1_38_tls_is_checked() {
    let (acceptor, trusting) = certified("localhost");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("wss://localhost:{}/ws", listener.local_addr().unwrap().port());
    let serving = tokio::spawn(async move {
        let mut opened = 0;
        while opened == 0 {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                answered(stream, |head| switching(head, "")).await;
                opened += 1;
            }
        }
        opened
    });
    // The machine does not trust it.
    let error = dial(&url, &options()).await.unwrap_err();
    assert!(matches!(error, DialError::Tls { .. }), "{error}");
    dial(&url, &options().trust(trusting)).await.unwrap();
    assert_eq!(serving.await.unwrap(), 1);
}

/// A proxy that makes tunnels to `server`, whatever it is asked for; what it was asked comes back.
async fn proxying(server: String) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let proxied = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 Go on\r\n\r\n").await.unwrap();
        let mut server = TcpStream::connect(server).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
        String::from_utf8(head).unwrap().lines().map(str::to_owned).collect()
    });
    (address, proxied)
}

/// CLI-44: a proxy is asked for a tunnel, in the clear and for TLS, with its own credentials; it never stands before this machine.
#[tokio::test]
async fn proxies_are_tunnelled_through() {
    let (acceptor, trust) = certified("server.test");
    for scheme in ["ws", "wss"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let acceptor = acceptor.clone();
        let served = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = |head: &[String]| switching(head, "Sec-WebSocket-Protocol: mcp\r\n");
            match scheme {
                "ws" => answered(stream, answer).await,
                _ => answered(acceptor.accept(stream).await.unwrap(), answer).await,
            }
        });
        let (proxy, proxied) = proxying(server).await;
        let proxies = Proxies::Always(format!("http://user:pw@{proxy}"));
        let options = options().trust(trust.clone()).proxies(proxies);
        drop(dial(&format!("{scheme}://server.test:8443/ws"), &options).await.unwrap());
        assert_eq!(value(&served.await.unwrap(), "host").as_deref(), Some("server.test:8443"));
        let asked = proxied.await.unwrap();
        assert_eq!(asked[0], "CONNECT server.test:8443 HTTP/1.1");
        assert_eq!(value(&asked, "proxy-authorization").as_deref(), Some("Basic dXNlcjpwdw=="));
        // Nobody listens at that port; the server itself does.
        let (here, served) = serving(|head| switching(head, "Sec-WebSocket-Protocol: mcp\r\n")).await;
        let nobody = Proxies::Always("http://127.0.0.1:1".to_owned());
        dial(&format!("ws://{here}/"), &options.clone().proxies(nobody.clone())).await.unwrap();
        served.await.unwrap();
        let error = dial(&format!("{scheme}://server.test/"), &options.proxies(nobody)).await.unwrap_err();
        assert!(matches!(error, DialError::Proxy { .. }), "{error:?}");
        assert!(error.to_string().contains("`server.test:"), "{error}");
        assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    }
}
