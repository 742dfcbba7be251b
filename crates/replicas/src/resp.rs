//! The words of Redis, as far as we speak them: lists of byte strings go out, replies come in (RESP2).

use std::io;

use cardan_proto::limits::replicas::VALUE_BYTES;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt as _};

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A short word, such as `OK`.
    Word(String),
    /// It was not done.
    Refused(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nothing,
    List(Vec<Self>),
}

/// The longest line, and the longest list: what we ask for has five entries.
const LINE_BYTES: u64 = 1024;
const ENTRIES: i64 = 16;

/// One command.
pub(crate) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// One reply. What is larger than we asked for, or no reply, is an error.
pub(crate) async fn read<R: AsyncBufRead + AsyncRead + Unpin>(from: &mut R) -> io::Result<Reply> {
    let head = line(from).await?;
    let Some(entries) = head.strip_prefix('*') else { return plain(&head, from).await };
    let entries = number(entries)?;
    if entries < 0 {
        return Ok(Reply::Nothing);
    }
    if entries > ENTRIES {
        return Err(odd());
    }
    let mut list = Vec::new();
    for _ in 0..entries {
        // Lists within lists are nothing that we ask for.
        let head = line(from).await?;
        list.push(plain(&head, from).await?);
    }
    Ok(Reply::List(list))
}

async fn plain<R: AsyncBufRead + AsyncRead + Unpin>(head: &str, from: &mut R) -> io::Result<Reply> {
    let Some((kind, rest)) = head.split_at_checked(1) else { return Err(odd()) };
    match kind {
        "+" => Ok(Reply::Word(rest.to_owned())),
        "-" => Ok(Reply::Refused(rest.to_owned())),
        ":" => number(rest).map(Reply::Number),
        "$" => {
            let length = number(rest)?;
            let Ok(length) = usize::try_from(length) else { return Ok(Reply::Nothing) };
            if length > VALUE_BYTES {
                return Err(odd());
            }
            let mut bytes = vec![0; length + 2];
            from.read_exact(&mut bytes).await?;
            if !bytes.ends_with(b"\r\n") {
                return Err(odd());
            }
            bytes.truncate(length);
            Ok(Reply::Bytes(bytes))
        }
        _ => Err(odd()),
    }
}

async fn line<R: AsyncBufRead + Unpin>(from: &mut R) -> io::Result<String> {
    let mut bytes = Vec::new();
    (&mut *from).take(LINE_BYTES).read_until(b'\n', &mut bytes).await?;
    let line = bytes.strip_suffix(b"\r\n").ok_or_else(odd)?;
    String::from_utf8(line.to_vec()).map_err(|_| odd())
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| odd())
}

fn odd() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the store's answer is none that was asked for")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn reply(text: &[u8]) -> io::Result<Reply> {
        let mut text = text;
        read(&mut text).await
    }

    #[tokio::test]
    async fn replies_are_read() {
        assert_eq!(command(&[b"GET", b"a\r\n"]), b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n");
        for (text, wanted) in [
            ("+OK\r\n", Reply::Word("OK".into())),
            ("-ERR no\r\n", Reply::Refused("ERR no".into())),
            (":-2\r\n", Reply::Number(-2)),
            ("$2\r\n\r\n\r\n", Reply::Bytes(b"\r\n".to_vec())),
            ("$-1\r\n", Reply::Nothing),
            ("*-1\r\n", Reply::Nothing),
            ("*2\r\n:1\r\n$1\r\nx\r\n", Reply::List(vec![Reply::Number(1), Reply::Bytes(b"x".to_vec())])),
        ] {
            assert_eq!(reply(text.as_bytes()).await.unwrap(), wanted, "{text:?}");
        }
    }

    /// F21: whatever answers in the place of a store neither fills the memory nor passes for a reply.
    #[tokio::test]
    async fn f21_what_is_no_reply_is_an_error() {
        let long = format!("+{}\r\n", "x".repeat(2000));
        for text in [
            "",
            "\r\n",
            "+OK",
            "+OK\n",
            ":x\r\n",
            "$5\r\nab\r\n",
            "$2\r\nabcd",
            "$99999999999\r\n",
            "*17\r\n",
            "*1\r\n*1\r\n:1\r\n",
            "HTTP/1.1 200 OK\r\n",
            &long,
        ] {
            assert!(reply(text.as_bytes()).await.is_err(), "{text:?}");
        }
    }
}
