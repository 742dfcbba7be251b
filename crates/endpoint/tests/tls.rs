//! HTTPS and `wss://` in our own listener: who gets in, what is spoken inside, and that a bad handshake concerns
//! nobody else.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cardan_client::{CallError, Client, Connector};
use cardan_dial::Http;
use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Options};
use cardan_proto::era::Era;
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::{CallOptions, Wanted};
use cardan_server::{Cx, Server};
use cardan_tls::{HTTP, HTTP_2, Identity, Protocols, Trust, UPGRADE};
use cardan_ws::{Dial, dial};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

const ERAS: [(EraChoice, Era); 2] = [(EraChoice::Legacy, Era::Legacy), (EraChoice::Modern, Era::Modern)];

/// A server behind a certificate made for this run, until it is told to stop.
struct Serving {
    port: u16,
    trust: Trust,
    folder: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    /// Tells that the handler of `wait` was dropped.
    dropped: Arc<Notify>,
}

impl Serving {
    async fn start(name: &str, limits: Limits) -> Self {
        let folder = std::env::temp_dir().join(format!("cardan-https-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let identity = Identity::read(&certificate, &key).unwrap();
        let dropped = Arc::new(Notify::new());
        let nobody: [&str; 0] = [];
        let allow = Allow::bound(IpAddr::V4(Ipv4Addr::LOCALHOST), Ports::Any, &nobody, &nobody).unwrap();
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap().tls(&identity).unwrap();
        let port = listener.address().unwrap().port();
        let endpoint = Endpoint::new(server(&dropped, limits), Options::new(allow));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            listener.serve(endpoint, async { drop(stopped.await) }).await;
        });
        let trust = Trust::default().roots(&certificate).unwrap();
        Self { port, trust, folder, stop: Some(stop), task, dropped }
    }

    async fn connect(&self, era: EraChoice, path: &str) -> Client {
        let url = format!("https://localhost:{}/{path}", self.port);
        let http = Http::new(&url).unwrap().trust(self.trust.clone());
        connector(era).connect(async || http.link()).await.unwrap()
    }

    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    async fn shake(&self, protocols: Protocols<'_>) -> std::io::Result<TlsStream<TcpStream>> {
        let config = Arc::new(self.trust.client(protocols).unwrap());
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(config).connect(name, self.tcp().await).await
    }

    /// Tells to stop, and waits for the end.
    async fn end(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        tokio::time::timeout(LONG, &mut self.task).await.unwrap().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn server(dropped: &Arc<Notify>, limits: Limits) -> Server {
    /// Tells when it goes.
    struct Tells(Arc<Notify>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let dropped = Arc::clone(dropped);
    Server::builder("https", "1")
        .tool("hello", "answers", async || "hello")
        .tool("wait", "reports once and never ends", move |cx: Cx| {
            let tells = Tells(Arc::clone(&dropped));
            async move {
                cx.progress(1.0, None, None);
                std::future::pending::<()>().await;
                drop(tells);
                "never"
            }
        })
        .limits(limits)
        .build()
}

fn connector(era: EraChoice) -> Connector {
    Client::builder("test", "1").era(era)
}

/// Calls, hears progress while a call runs, and cancels it: all a link is for.
async fn works(serving: &Serving, client: &Client) {
    let said = client.call_tool("hello", &json!({})).unwrap().await.unwrap();
    assert_eq!(said.content[0].as_text(), Some("hello"));
    let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
    let mut call = client.call_tool_with("wait", &json!({}), options).unwrap();
    assert!(tokio::time::timeout(LONG, call.progress()).await.unwrap().is_some());
    call.cancel("enough");
    assert!(matches!(call.await, Err(CallError::Cancelled { .. })));
    tokio::time::timeout(LONG, serving.dropped.notified()).await.unwrap();
}

/// Reads to the end, whatever kind of end it is.
async fn rest(mut stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut all)).await.expect("it ends");
    all
}

const ASK: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// S1-27, S1-25: our client over https, both eras, Streamable HTTP and old HTTP+SSE.
#[tokio::test]
async fn s1_27_https_carries_both_eras() {
    let mut serving = Serving::start("eras", Limits::DEFAULT).await;
    for (choice, era) in ERAS {
        let client = serving.connect(choice, "mcp").await;
        assert_eq!(client.settled().revision.era(), era);
        works(&serving, &client).await;
        client.close("done").await;
    }
    let old = serving.connect(EraChoice::Legacy, "sse").await;
    works(&serving, &old).await;
    old.close("done").await;
    serving.end().await;
}

/// S1-38, S1-27: `wss://` in both eras, and not without trust.
#[tokio::test]
async fn s1_38_wss_carries_both_eras() {
    let serving = Serving::start("wss", Limits::DEFAULT).await;
    let url = format!("wss://localhost:{}/ws", serving.port);
    for (choice, era) in ERAS {
        let options = Dial::new(&Limits::DEFAULT).trust(serving.trust.clone());
        let client = connector(choice).connect(async || dial(&url, &options).await).await.unwrap();
        assert_eq!(client.settled().revision.era(), era);
        works(&serving, &client).await;
        client.close("done").await;
    }
    assert!(dial(&url, &Dial::new(&Limits::DEFAULT)).await.is_err(), "the machine does not know it");
}

/// HTTP/2 is settled by ALPN and then spoken; HTTP/1.1 is what others get; who offers only something else is refused.
#[tokio::test]
async fn the_handshake_settles_which_http_is_spoken() {
    let serving = Serving::start("alpn", Limits::DEFAULT).await;
    let stream = serving.shake(HTTP).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(HTTP_2));
    let built = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = built.unwrap();
    let carried = tokio::spawn(connection);
    let url = format!("https://localhost:{}/nowhere", serving.port);
    let request = http::Request::get(url).body(Empty::<bytes::Bytes>::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!((response.version(), response.status().as_u16()), (http::Version::HTTP_2, 404));
    response.into_body().collect().await.unwrap();
    drop(sender);
    let _ = carried.await;
    for protocols in [UPGRADE, &[]] {
        let mut stream = serving.shake(protocols).await.unwrap();
        stream.write_all(ASK).await.unwrap();
        let mut answer = String::new();
        // An end without goodbye would be an error here: what is cut must not pass for whole.
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    }
    assert!(serving.shake(&[b"smtp"]).await.is_err());
}

/// F35, T21: plain HTTP on a TLS port, and noise, cost their own connection; who is being served is not disturbed.
#[tokio::test]
async fn t21_what_is_no_tls_is_cut_off() {
    let serving = Serving::start("plain", Limits::DEFAULT).await;
    let client = serving.connect(EraChoice::Modern, "mcp").await;
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // A record that claims to be a handshake and is none.
    let record: &[u8] = &[0x16, 0x03, 0x01, 0x00, 0x04, 1, 2, 3, 4];
    for noise in [ASK, preface, record, &[0xff; 64]] {
        let mut stream = serving.tcp().await;
        stream.write_all(noise).await.unwrap();
        let told = rest(stream).await;
        assert!(!told.starts_with(b"HTTP/"), "no HTTP is spoken in the clear: {told:?}");
        let said = client.call_tool("hello", &json!({})).unwrap().await.unwrap();
        assert_eq!(said.content[0].as_text(), Some("hello"));
    }
    // One that breaks off in the middle of the handshake.
    let mut stream = serving.tcp().await;
    stream.write_all(&[0x16, 0x03, 0x01, 0x02]).await.unwrap();
    drop(stream);
    works(&serving, &client).await;
}

/// T21, `limits.handshake_timeout`: who does not finish the handshake is cut off, at each of its stages; and so is
/// who finishes it and then says nothing (`limits.head_timeout`).
#[tokio::test]
async fn t21_slow_handshakes_are_cut_off() {
    let short = Duration::from_millis(300);
    let limits = Limits { handshake_timeout: short, head_timeout: short, ..Limits::DEFAULT };
    let serving = Serving::start("slow", limits).await;
    let before = std::time::Instant::now();
    let silent = serving.tcp().await;
    let mut begun = serving.tcp().await;
    begun.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await.unwrap();
    let (quiet1, quiet2) = (serving.shake(UPGRADE).await.unwrap(), serving.shake(HTTP).await.unwrap());
    let mut torn = serving.shake(HTTP).await.unwrap();
    torn.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let ((), _, _) = tokio::join!(
        async {
            assert_eq!(rest(silent).await, b"");
            assert_eq!(rest(begun).await, b"");
        },
        rest(quiet1),
        async { tokio::join!(rest(quiet2), rest(torn)) },
    );
    let usual = Limits::DEFAULT.handshake_timeout.min(Limits::DEFAULT.head_timeout);
    assert!(before.elapsed() < usual, "the limits that were set hold: {:?}", before.elapsed());
    let client = serving.connect(EraChoice::Modern, "mcp").await;
    works(&serving, &client).await;
}

/// A handshake that hangs does not hold up the end of the server.
#[tokio::test]
async fn stopping_does_not_wait_for_handshakes() {
    let limits = Limits { handshake_timeout: 10 * LONG, drain_timeout: 10 * LONG, ..Limits::DEFAULT };
    let mut serving = Serving::start("stop", limits).await;
    let silent = serving.tcp().await;
    // Served, so the silent one before it was accepted.
    let client = serving.connect(EraChoice::Modern, "mcp").await;
    client.call_tool("hello", &json!({})).unwrap().await.unwrap();
    client.close("done").await;
    serving.end().await;
    assert_eq!(rest(silent).await, b"");
}
