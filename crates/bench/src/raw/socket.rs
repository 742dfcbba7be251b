//! WebSocket by hand: the handshake, and frames that carry one message each.

use std::net::SocketAddr;

use anyhow::{bail, ensure};
use bytes::{Buf as _, Bytes};

use super::http::{Conn, request};

/// An open WebSocket.
pub(crate) struct Socket(Conn);

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Text(Bytes),
    Close,
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Frames of clients are masked. The mask hides nothing from whom we test, so it is always the same.
const MASK: [u8; 4] = [0x2a, 0x17, 0xc3, 0x5b];

impl Socket {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let mut conn = Conn::open(address).await?;
        let headers = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Protocol", "mcp"),
        ];
        conn.send(request("GET", "/ws", &headers, "").as_bytes()).await?;
        let head = conn.head().await?;
        ensure!(head.status == 101, "no WebSocket but {head:?}");
        Ok(Self(conn))
    }

    pub(crate) async fn send(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.0.send(&frame(TEXT, text.as_bytes())).await?)
    }

    /// Sends the first half of a message, as a client does that dies.
    pub(crate) async fn send_half(&mut self, text: &str) -> anyhow::Result<()> {
        let whole = frame(TEXT, text.as_bytes());
        Ok(self.0.send(&whole[..whole.len() / 2]).await?)
    }

    /// Says goodbye, code 1000.
    pub(crate) async fn close(&mut self) -> anyhow::Result<()> {
        Ok(self.0.send(&frame(CLOSE, &1000_u16.to_be_bytes())).await?)
    }

    /// The next message. Pings are answered.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Message> {
        loop {
            let (kind, payload) = self.read().await?;
            match kind {
                TEXT => return Ok(Message::Text(payload)),
                CLOSE => return Ok(Message::Close),
                PING => self.0.send(&frame(PONG, &payload)).await?,
                PONG => {}
                other => bail!("a frame of kind {other}"),
            }
        }
    }

    async fn read(&mut self) -> anyhow::Result<(u8, Bytes)> {
        loop {
            if let Some(read) = self.at_hand()? {
                return Ok(read);
            }
            ensure!(self.0.fill().await?, "the WebSocket ended without a goodbye");
        }
    }

    fn at_hand(&mut self) -> anyhow::Result<Option<(u8, Bytes)>> {
        let unread = self.0.unread();
        let [first, second, ..] = unread[..] else { return Ok(None) };
        ensure!(first & 0x80 != 0 && second & 0x80 == 0, "a frame in parts, or a masked one");
        let (start, length) = match second {
            126 if unread.len() >= 4 => (4, usize::from(u16::from_be_bytes([unread[2], unread[3]]))),
            126 => return Ok(None),
            127 => bail!("a frame of more than 64 KiB, which nobody asked for"),
            short => (2, usize::from(short)),
        };
        if unread.len() < start + length {
            return Ok(None);
        }
        unread.advance(start);
        Ok(Some((first & 0x0f, unread.split_to(length).freeze())))
    }
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | kind];
    match u16::try_from(payload.len()) {
        Ok(length) if length < 126 => out.push(0x80 | length as u8),
        Ok(length) => {
            out.push(0x80 | 126);
            out.extend(length.to_be_bytes());
        }
        Err(_) => {
            out.push(0x80 | 127);
            out.extend((payload.len() as u64).to_be_bytes());
        }
    }
    out.extend(MASK);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_masked() {
        let bytes = frame(TEXT, b"hi");
        assert_eq!(bytes[..6], [0x81, 0x82, 0x2a, 0x17, 0xc3, 0x5b]);
        assert_eq!((bytes[6] ^ 0x2a, bytes[7] ^ 0x17), (b'h', b'i'));
        assert_eq!(frame(TEXT, &[0; 300])[..4], [0x81, 0xfe, 1, 44]);
    }
}
