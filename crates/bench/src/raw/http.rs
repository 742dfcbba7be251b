//! HTTP/1.1 by hand: one connection, requests written as text, answers read by length or in chunks.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// One connection, and what was read of it but not used.
pub(crate) struct Conn {
    stream: TcpStream,
    unread: BytesMut,
}

/// The head of an answer, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    pub(crate) form: Form,
    length: Length,
}

/// What an answer carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Events,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunks,
}

/// A request as text.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut out = String::with_capacity(256 + body.len());
    let _ = write!(out, "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    for (name, value) in headers {
        let _ = write!(out, "{name}: {value}\r\n");
    }
    if method == "POST" {
        let _ = write!(out, "Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    }
    out.push_str("\r\n");
    out.push_str(body);
    out
}

impl Conn {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, unread: BytesMut::with_capacity(4 << 10) })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads more; false: there is no more.
    pub(crate) async fn fill(&mut self) -> io::Result<bool> {
        Ok(self.stream.read_buf(&mut self.unread).await? > 0)
    }

    /// What was read and not used.
    pub(crate) fn unread(&mut self) -> &mut BytesMut {
        &mut self.unread
    }

    /// Takes what has arrived, without waiting.
    pub(crate) fn catch_up(&mut self) -> io::Result<()> {
        loop {
            match self.stream.try_read_buf(&mut self.unread) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) async fn head(&mut self) -> anyhow::Result<Head> {
        loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                let head = self.unread.split_to(end + 4);
                return Head::parse(&head);
            }
            ensure!(self.fill().await?, "the connection ended before an answer");
        }
    }

    /// The whole body.
    pub(crate) async fn body(&mut self, head: &Head) -> anyhow::Result<Vec<u8>> {
        match head.length {
            Length::Bytes(length) => Ok(self.exactly(length).await?.to_vec()),
            Length::Chunks => {
                let mut out = Vec::new();
                while let Some(chunk) = self.chunk().await? {
                    out.extend_from_slice(&chunk);
                }
                Ok(out)
            }
        }
    }

    /// The next chunk; nothing: the body has ended.
    pub(crate) async fn chunk(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            if let Some(chunk) = self.chunk_at_hand()? {
                return Ok((!chunk.is_empty()).then_some(chunk));
            }
            ensure!(self.fill().await?, "the connection ended within a body");
        }
    }

    /// The next chunk if it is here as a whole; the last one is empty.
    pub(crate) fn chunk_at_hand(&mut self) -> anyhow::Result<Option<Bytes>> {
        let Some(line) = find(&self.unread, b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&self.unread[..line])?;
        let size = usize::from_str_radix(size, 16).with_context(|| format!("`{size}` is no chunk size"))?;
        if self.unread.len() < line + 2 + size + 2 {
            return Ok(None);
        }
        self.unread.advance(line + 2);
        let chunk = self.unread.split_to(size).freeze();
        self.unread.advance(2);
        Ok(Some(chunk))
    }

    /// So many bytes.
    pub(crate) async fn exactly(&mut self, length: usize) -> anyhow::Result<Bytes> {
        while self.unread.len() < length {
            ensure!(self.fill().await?, "the connection ended within a body");
        }
        Ok(self.unread.split_to(length).freeze())
    }
}

impl Head {
    fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(bytes).context("a head that is no text")?;
        let mut lines = text.split("\r\n");
        let status =
            lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).and_then(|rest| rest.get(..3));
        let status = status.and_then(|status| status.parse().ok());
        let Some(status) = status else { bail!("no HTTP answer: {text}") };
        let mut head = Self { status, session: None, form: Form::Other, length: Length::Bytes(0) };
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            match name {
                "content-length" => head.length = Length::Bytes(value.parse()?),
                "transfer-encoding" => head.length = Length::Chunks,
                "mcp-session-id" => head.session = Some(value.to_owned()),
                "content-type" if value == "text/event-stream" => head.form = Form::Events,
                _ => {}
            }
        }
        Ok(head)
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let head = b"HTTP/1.1 200 OK\r\nmcp-session-id: x\r\ncontent-type: text/event-stream\r\n\
            transfer-encoding: chunked\r\n\r\n";
        let want =
            Head { status: 200, session: Some("x".to_owned()), form: Form::Events, length: Length::Chunks };
        assert_eq!(Head::parse(head).expect("a head"), want);
        assert!(Head::parse(b"SSH-2.0\r\n\r\n").is_err());
    }

    #[test]
    fn requests_are_written() {
        let text = request("POST", "/x", &[("A", "b")], "{}");
        let want = "POST /x HTTP/1.1\r\nHost: 127.0.0.1\r\nA: b\r\nContent-Type: application/json\r\n\
            Content-Length: 2\r\n\r\n{}";
        assert_eq!(text, want);
    }
}
