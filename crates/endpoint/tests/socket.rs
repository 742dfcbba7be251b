//! The WebSocket route: who is let in, how it opens, and how it ends with its server.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use cardan_client::{CallError, Client};
use cardan_endpoint::listener::Listener;
use cardan_endpoint::{Endpoint, Grant, Options};
use cardan_proto::http::challenge::Bearer;
use cardan_proto::http::origin::{Allow, Ports};
use cardan_proto::limits::Limits;
use cardan_proto::session::event::Cause;
use cardan_proto::socket::CloseCode;
use cardan_server::Server;
use cardan_ws::{Dial, DialError, dial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// A server that runs until it is told to stop.
struct Serving {
    address: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    /// Lets the tool `wait` answer.
    go: Arc<Notify>,
    /// Tells that `wait` runs.
    runs: Arc<Notify>,
}

async fn serve(limits: Limits, options: impl FnOnce(Options) -> Options) -> Serving {
    let (go, runs) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (gone, running) = (Arc::clone(&go), Arc::clone(&runs));
    let server = Server::builder("socket", "1")
        .tool("wait", "answers when told", move || {
            let (go, runs) = (Arc::clone(&gone), Arc::clone(&running));
            async move {
                runs.notify_one();
                go.notified().await;
                "went"
            }
        })
        .limits(limits)
        .build();
    let nobody: [&str; 0] = [];
    let allow = Allow::bound(IpAddr::V4(Ipv4Addr::LOCALHOST), Ports::Any, &nobody, &nobody).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address().unwrap().to_string();
    let endpoint = Endpoint::new(server, options(Options::new(allow)));
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        listener.serve(endpoint, async { drop(stopped.await) }).await;
    });
    Serving { address, stop, task, go, runs }
}

impl Serving {
    fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    /// Sends a head and brings the head of the answer.
    async fn ask(&self, head: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(head.replace('\n', "\r\n").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut answer).await.unwrap() == 0 {
                break;
            }
        }
        String::from_utf8_lossy(&answer).to_ascii_lowercase()
    }

    async fn client(&self) -> Client {
        let options = Dial::new(&Limits::DEFAULT);
        let url = self.url();
        Client::builder("test", "1").connect(async || dial(&url, &options).await).await.unwrap()
    }
}

/// A handshake, with lines in place of others.
fn handshake(change: &[(&str, &str)]) -> String {
    let mut lines = vec![
        ("Host", "localhost"),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (name, value) in change {
        lines.retain(|(line, _)| line != name);
        lines.push((name, value));
    }
    let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    format!("GET /ws HTTP/1.1\n{lines}\n")
}

/// T3: whoever may not call us gets no upgrade: a foreign name, a foreign page, a page of another site.
#[tokio::test]
async fn t3_the_guard_comes_before_the_upgrade() {
    let serving = serve(Limits::DEFAULT, |options| options).await;
    let table: [&[(&str, &str)]; 4] = [
        &[("Host", "evil.example")],
        &[("Origin", "https://evil.example")],
        &[("Origin", "null")],
        &[("Sec-Fetch-Site", "cross-site")],
    ];
    for change in table {
        let answer = serving.ask(&handshake(change)).await;
        assert!(answer.starts_with("http/1.1 403 "), "{change:?}: {answer}");
        assert!(!answer.contains("sec-websocket-accept"), "{answer}");
    }
    let own = format!("http://{}", serving.address);
    let answer = serving.ask(&handshake(&[("Host", &serving.address), ("Origin", &own)])).await;
    assert!(answer.starts_with("http/1.1 101 "), "{answer}");
}

/// T3: the token is judged before the upgrade, too.
#[tokio::test]
async fn t3_the_token_comes_before_the_upgrade() {
    let verify = |token: Option<&str>| match token {
        Some("good") => Grant::Granted(Some("ada".into())),
        Some(_) => Grant::Invalid(Bearer::default()),
        None => Grant::Missing(Bearer::default()),
    };
    let serving = serve(Limits::DEFAULT, |options| options.verify(verify)).await;
    for change in [&[][..], &[("Authorization", "Bearer bad")]] {
        let answer = serving.ask(&handshake(change)).await;
        assert!(
            answer.starts_with("http/1.1 401 ") && answer.contains("www-authenticate: bearer"),
            "{answer}"
        );
    }
    let error = dial(&serving.url(), &Dial::new(&Limits::DEFAULT)).await.unwrap_err();
    assert!(matches!(&error, DialError::Refused { status, .. } if status.as_u16() == 401), "{error}");
    dial(&serving.url(), &Dial::new(&Limits::DEFAULT).bearer("good").unwrap()).await.unwrap();
}

/// S2-11: the handshake is answered as the protocol wants it, or refused with what to do.
#[tokio::test]
async fn s2_11_the_handshake_is_answered() {
    let serving = serve(Limits::DEFAULT, |options| options).await;
    let accepted = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=";
    let plain = "GET /ws HTTP/1.1\nHost: localhost\n\n".to_owned();
    let post = "POST /ws HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n".to_owned();
    let table = [
        (handshake(&[]), "101", accepted),
        (handshake(&[("Sec-WebSocket-Protocol", "soap, mcp")]), "101", "sec-websocket-protocol: mcp"),
        (handshake(&[("Sec-WebSocket-Protocol", "soap")]), "400", "content-type: application/json"),
        (handshake(&[("Sec-WebSocket-Version", "8")]), "426", "sec-websocket-version: 13"),
        (handshake(&[("Sec-WebSocket-Key", "short")]), "400", "content-type: application/json"),
        (plain, "426", "upgrade: websocket"),
        (post, "405", "allow: get"),
    ];
    for (head, status, line) in table {
        let answer = serving.ask(&head).await;
        assert!(answer.starts_with(&format!("http/1.1 {status} ")), "{head}\n{answer}");
        assert!(answer.contains(line), "{head}\n{answer}");
    }
    // No subprotocol offered, none named; extensions are never agreed.
    let answer = serving.ask(&handshake(&[("Sec-WebSocket-Extensions", "permessage-deflate")])).await;
    assert!(answer.starts_with("http/1.1 101 "), "{answer}");
    assert!(!answer.contains("sec-websocket-protocol") && !answer.contains("sec-websocket-extensions"));
}

/// S1-39, F24: at the end of the server what runs is finished, then the link closes with 1001.
#[tokio::test]
async fn f24_shutdown_finishes_what_runs() {
    let serving = serve(Limits::DEFAULT, |options| options).await;
    let mut client = serving.client().await;
    let call = client.call_tool("wait", &serde_json::json!({})).unwrap();
    serving.runs.notified().await;
    serving.stop.send(()).unwrap();
    serving.go.notify_one();
    call.await.unwrap();
    let cause = client.closed().await;
    assert!(matches!(cause, Cause::Closed { code: CloseCode::GoingAway, .. }), "{cause}");
    serving.task.await.unwrap();
}

/// F24: a call that does not end is told to be lost when the time is over, and the server ends all the same.
#[tokio::test]
async fn f24_shutdown_is_bounded() {
    let limits = Limits { drain_timeout: std::time::Duration::from_millis(50), ..Limits::DEFAULT };
    let serving = serve(limits, |options| options).await;
    let client = serving.client().await;
    let call = client.call_tool("wait", &serde_json::json!({})).unwrap();
    serving.runs.notified().await;
    serving.stop.send(()).unwrap();
    let error = call.await.unwrap_err();
    let CallError::Fault(fault) = error else { panic!("{error}") };
    let data: serde_json::Value = serde_json::from_slice(&fault.data.unwrap()).unwrap();
    assert_eq!((&data["outcome"], &data["mayHaveExecuted"]), (&"lost".into(), &true.into()));
    serving.task.await.unwrap();
}

/// F30: WebSockets are counted; one more than fits is refused, and a place that was left is free.
#[tokio::test]
async fn f30_sockets_are_bounded() {
    let limits = Limits { connections: 1, ..Limits::DEFAULT };
    let serving = serve(limits, |options| options).await;
    let first = serving.client().await;
    let answer = serving.ask(&handshake(&[])).await;
    assert!(answer.starts_with("http/1.1 503 ") && answer.contains("retry-after: 5"), "{answer}");
    first.close("done").await;
    // The server hears of it in its own time.
    for _ in 0..1000 {
        if serving.ask(&handshake(&[])).await.starts_with("http/1.1 101 ") {
            return;
        }
    }
    panic!("the place was not freed");
}
