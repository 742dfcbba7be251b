//! A client that sends exact bytes over a socket and reads what comes back piece by piece.

use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use cardan_proto::codec::sse::{SseDecoder, SseEvent, SseItem};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::within;

/// Headers, as they are sent.
pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

/// One connection.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    pub(crate) host: String,
    buffer: BytesMut,
    framing: Framing,
}

/// How the body that is being read ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClosed,
}

/// Status and headers of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Bytes,
}

impl Head {
    /// The value of a header, empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
    }
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.status
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.head.header(name)
    }

    /// Every byte of it that does not tell the time.
    pub(crate) fn undated(&self) -> (u16, Vec<&(String, String)>, &Bytes) {
        let headers = self.head.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date"));
        (self.head.status, headers.collect(), &self.body)
    }

    /// The one message in the body.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json", "{self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and code of a fault.
    pub(crate) fn fault(&self) -> (u16, i64) {
        let message = self.json();
        (self.status(), message["error"]["code"].as_i64().unwrap_or_else(|| panic!("no fault: {message}")))
    }
}

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = within(TcpStream::connect(address)).await.unwrap();
        Self { stream, host: address.to_string(), buffer: BytesMut::new(), framing: Framing::Length(0) }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        within(self.stream.write_all(bytes)).await.unwrap();
    }

    /// Sends a request. `Host` is ours unless one is given; an empty `Host` stands for none at all.
    pub(crate) async fn request(&mut self, method: &str, path: &str, headers: Headers<'_>, body: &[u8]) {
        let mut out = format!("{method} {path} HTTP/1.1\r\n");
        let given = |name: &str| headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        if !given("host") {
            out += &format!("Host: {}\r\n", self.host);
        }
        if !given("content-length") && !given("transfer-encoding") && (method == "POST" || !body.is_empty()) {
            out += &format!("Content-Length: {}\r\n", body.len());
        }
        for (name, value) in headers {
            if !(name.eq_ignore_ascii_case("host") && value.is_empty()) {
                out += &format!("{name}: {value}\r\n");
            }
        }
        out += "\r\n";
        let mut out = out.into_bytes();
        out.extend_from_slice(body);
        self.send(&out).await;
    }

    /// More bytes; nothing: the other side has closed, or broken off.
    async fn fill(&mut self) -> Option<()> {
        match within(self.stream.read_buf(&mut self.buffer)).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.buffer.split_to(at);
                self.buffer.advance(2);
                return Some(String::from_utf8(line.to_vec()).unwrap());
            }
            self.fill().await?;
        }
    }

    /// The head of the answer; nothing: the connection was closed instead.
    pub(crate) async fn try_head(&mut self) -> Option<Head> {
        let line = self.line().await?;
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap();
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let head = Head { status, headers };
        self.framing = match head.header("content-length").parse() {
            Ok(length) => Framing::Length(length),
            Err(_) if head.header("transfer-encoding") == "chunked" => Framing::Chunked,
            Err(_) if matches!(status, 204 | 304) => Framing::Length(0),
            Err(_) => Framing::UntilClosed,
        };
        Some(head)
    }

    pub(crate) async fn head(&mut self) -> Head {
        self.try_head().await.expect("an answer is due")
    }

    /// The next piece of the body; nothing: it has ended, and properly so.
    pub(crate) async fn piece(&mut self) -> Option<Result<Bytes, Cut>> {
        match self.framing {
            Framing::Length(0) => None,
            Framing::Length(rest) => {
                if self.buffer.is_empty() && self.fill().await.is_none() {
                    return Some(Err(Cut));
                }
                let piece = self.buffer.split_to(rest.min(self.buffer.len())).freeze();
                self.framing = Framing::Length(rest - piece.len());
                Some(Ok(piece))
            }
            Framing::UntilClosed => {
                if self.buffer.is_empty() {
                    self.fill().await?;
                }
                Some(Ok(self.buffer.split().freeze()))
            }
            Framing::Chunked => {
                let Some(line) = self.line().await else { return Some(Err(Cut)) };
                let length = usize::from_str_radix(line.trim(), 16).unwrap();
                while self.buffer.len() < length + 2 {
                    if self.fill().await.is_none() {
                        return Some(Err(Cut));
                    }
                }
                let piece = self.buffer.split_to(length).freeze();
                self.buffer.advance(2);
                if length == 0 {
                    self.framing = Framing::Length(0);
                    return None;
                }
                Some(Ok(piece))
            }
        }
    }

    /// The whole answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.head().await;
        let mut body = BytesMut::new();
        while let Some(piece) = self.piece().await {
            body.extend_from_slice(&piece.expect("the body is whole"));
        }
        Answer { head, body: body.freeze() }
    }

    /// The answer as a stream of events.
    pub(crate) async fn events(mut self) -> Events {
        let head = self.head().await;
        let events = Events { wire: self, head, decoder: SseDecoder::new(16 << 20), end: None };
        assert_eq!(events.head.status, 200, "{:?}", events.head);
        assert_eq!(events.head.header("content-type"), "text/event-stream");
        events
    }

    /// Whether anything more comes, whatever it is.
    pub(crate) async fn try_read(&mut self) -> bool {
        self.fill().await.is_some()
    }

    /// Nothing more comes: the other side has closed.
    pub(crate) async fn closed(&mut self) {
        assert!(self.fill().await.is_none(), "more came: {:?}", self.buffer);
    }
}

/// The connection broke before the body was whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut;

/// A stream of events.
pub(crate) struct Events {
    pub(crate) wire: Wire,
    pub(crate) head: Head,
    pub(crate) decoder: SseDecoder,
    pub(crate) end: Option<Result<(), Cut>>,
}

impl Events {
    /// The next thing on the stream, comments included.
    pub(crate) async fn item(&mut self) -> Option<SseItem> {
        loop {
            if let Some(item) = self.decoder.next() {
                return Some(item);
            }
            match self.wire.piece().await {
                Some(Ok(piece)) => self.decoder.feed(piece),
                Some(Err(cut)) => {
                    self.end = Some(Err(cut));
                    return None;
                }
                None => {
                    self.end = Some(Ok(()));
                    return None;
                }
            }
        }
    }

    /// The next event, priming ones included.
    pub(crate) async fn event(&mut self) -> Option<SseEvent> {
        // As a whole: signs of life must not make it wait for ever.
        within(async {
            loop {
                match self.item().await? {
                    SseItem::Event(event) => return Some(event),
                    SseItem::Comment => {}
                    other => panic!("{other:?}"),
                }
            }
        })
        .await
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Value {
        loop {
            let event = self.event().await.expect("a message is due");
            if !event.data.is_empty() {
                return serde_json::from_slice(&event.data).unwrap();
            }
        }
    }

    /// The next message that is the reply to a call, which must be the very next.
    pub(crate) async fn reply(&mut self, id: i64) -> Value {
        let message = self.message().await;
        assert_eq!(message["id"], id, "{message}");
        message
    }

    /// No message comes any more, and the body ends as it should.
    pub(crate) async fn ends(&mut self) {
        while let Some(event) = self.event().await {
            assert!(event.data.is_empty(), "more came: {event:?}");
        }
        assert_eq!(self.end, Some(Ok(())));
    }

    /// The id to resume after.
    pub(crate) fn last_id(&self) -> String {
        self.decoder.last_id().to_owned()
    }
}
