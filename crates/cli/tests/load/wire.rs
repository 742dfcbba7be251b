//! HTTP/1.1 and WebSocket by hand, on connections that stay.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// One connection.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
    /// The header that says who somebody is, with its line's end; empty: nobody says.
    bearer: String,
}

/// An answer to a request.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    /// The messages in it, whichever form it has.
    pub(crate) messages: Vec<String>,
}

const TEXT: u8 = 1;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Hides nothing from whom we test.
const MASK: [u8; 4] = [0x2a, 0x17, 0xc3, 0x5b];

impl Wire {
    pub(crate) async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream), bearer: String::new() }
    }

    /// The same, on which a token is shown with each request.
    pub(crate) async fn open_as(address: &str, token: Option<&str>) -> Self {
        let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        Self { bearer: bearer.unwrap_or_default(), ..Self::open(address).await }
    }

    /// Posts a message, and reads the answer to its end.
    pub(crate) async fn post(&mut self, headers: &[(&str, &str)], body: &str) -> Got {
        self.begin(headers, body).await;
        self.answer().await
    }

    /// Posts a message, and reads nothing.
    pub(crate) async fn begin(&mut self, headers: &[(&str, &str)], body: &str) {
        let mut request =
            String::from("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        request += "Accept: application/json, text/event-stream\r\n";
        request += &self.bearer;
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.stream.get_mut().write_all(request.as_bytes()).await.unwrap();
    }

    /// Waits until there is something to read, and leaves it.
    pub(crate) async fn is_answered(&self) {
        assert_ne!(self.stream.get_ref().peek(&mut [0]).await.unwrap(), 0, "the connection ended");
    }

    pub(crate) async fn answer(&mut self) -> Got {
        let status = self.line().await.split(' ').nth(1).unwrap().parse().unwrap();
        let (mut session, mut length, mut events) = (None, Some(0), false);
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else { break };
            match name {
                "mcp-session-id" => session = Some(value.to_owned()),
                "content-length" => length = Some(value.parse().unwrap()),
                "transfer-encoding" => length = None,
                "content-type" => events = value == "text/event-stream",
                _ => {}
            }
        }
        let body = match length {
            Some(length) => self.exactly(length).await,
            None => self.chunks().await,
        };
        let messages = if events {
            let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
            data.map(|data| data.trim().to_owned()).filter(|data| !data.is_empty()).collect()
        } else {
            (!body.is_empty()).then_some(body).into_iter().collect()
        };
        Got { status, session, messages }
    }

    async fn chunks(&mut self) -> String {
        let mut body = String::new();
        loop {
            let size = usize::from_str_radix(&self.line().await, 16).unwrap();
            body += &self.exactly(size).await;
            assert_eq!(self.line().await, "");
            if size == 0 {
                return body;
            }
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.stream.read_line(&mut line).await.unwrap(), 0, "the connection ended");
        line.trim_end().to_owned()
    }

    async fn exactly(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await.unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Whether nothing has come that nobody has read.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        self.stream.buffer().is_empty() && self.stream.get_ref().try_read(&mut byte).is_err()
    }

    /// Makes it a WebSocket.
    pub(crate) async fn upgrade(mut self) -> Self {
        let request = "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp\r\n";
        let request = format!("{request}{}\r\n", self.bearer);
        self.stream.get_mut().write_all(request.as_bytes()).await.unwrap();
        assert!(self.line().await.contains(" 101 "));
        while !self.line().await.is_empty() {}
        self
    }

    /// Sends a message.
    pub(crate) async fn say(&mut self, text: &str) {
        let frame = frame(TEXT, text.as_bytes());
        self.stream.get_mut().write_all(&frame).await.unwrap();
    }

    /// The next message.
    pub(crate) async fn hear(&mut self) -> String {
        loop {
            let [kind, short] = [self.stream.read_u8().await.unwrap(), self.stream.read_u8().await.unwrap()];
            let length = if short == 126 { self.stream.read_u16().await.unwrap() } else { u16::from(short) };
            assert!(short < 127, "a message longer than any here");
            let text = self.exactly(usize::from(length)).await;
            match kind & 0x0f {
                TEXT => return text,
                PING => self.stream.get_mut().write_all(&frame(PONG, text.as_bytes())).await.unwrap(),
                other => panic!("a frame of kind {other}: {text}"),
            }
        }
    }
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap();
    let mut out = vec![0x80 | kind];
    if length < 126 {
        out.push(0x80 | length as u8);
    } else {
        out.push(0x80 | 126);
        out.extend(length.to_be_bytes());
    }
    out.extend(MASK);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}
