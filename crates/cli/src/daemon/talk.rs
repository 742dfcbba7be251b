//! What is said over the daemon's socket before a session begins: one line each way, and before its own the daemon says at once
//! that it has heard. Whoever speaks with a server goes on in its protocol, a message per line.

use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::UnixStream;

/// What someone wants who comes in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "want", rename_all = "snake_case")]
pub(crate) enum Want {
    /// To speak with a server, and to know this tool at once, if it is known there.
    Serve {
        #[serde(flatten)]
        known: Known,
        tool: Option<String>,
    },
    /// The same, if it runs already.
    Peek(Known),
    /// To know whether a server lives.
    Ping(Known),
    /// To know what a server that runs, or ran, said last on stderr.
    LastWords(Known),
    /// To know how everything stands.
    Status,
    /// That it ends.
    Stop,
}

/// A server, as it is configured for whoever asks: with their variables, too. The daemon serves no other by the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) server: String,
    pub(crate) identity: String,
}

/// What the daemon says to that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(crate) enum Say {
    /// The session may begin.
    Ready {
        /// In which revision: the server's own.
        revision: String,
        /// What a modern server says of itself, so that it is not asked again.
        greeting: Option<String>,
        /// By what failures are known that the daemon tells; servers cannot know it.
        token: String,
        /// The tool that was named, as the server tells of it; none: it is to be looked up.
        tool: Option<String>,
    },
    /// It lives.
    Alive,
    /// It does not answer.
    Failed { failure: Value },
    /// What a server said last on stderr, and what was found while the call ran that ended last, if nobody was told.
    Words {
        stderr: String,
        #[serde(default)]
        found: Vec<Value>,
    },
    /// Not by this way, for this reason; none: it will be seen on the other way.
    Cold { why: Option<String> },
    /// How everything stands.
    Standing(Value),
    /// It will end; the link ends with it.
    Bye,
}

/// Longest line: names and digests, or a table of servers.
const LINE: usize = 1 << 20;

/// How long a line may take that is ready to be said.
pub(crate) const PROMPT: Duration = Duration::from_secs(5);

/// The line by which the daemon says that it has heard, whatever it takes to answer.
const HEARD: &[u8] = b"heard\n";

/// Says one line.
pub(crate) async fn say(stream: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    put(stream, &line).await
}

/// Says that what was wanted is heard.
pub(crate) async fn nod(stream: &UnixStream) -> io::Result<()> {
    put(stream, HEARD).await
}

/// Waits for the other side's [`nod`], and reads nothing behind it.
pub(crate) async fn nodded(stream: &UnixStream) -> io::Result<()> {
    let (mut line, mut read) = ([0; HEARD.len()], 0);
    while read < line.len() {
        stream.readable().await?;
        match stream.try_read(&mut line[read..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    match line == HEARD {
        true => Ok(()),
        false => Err(io::Error::other("it is of another make")),
    }
}

async fn put(stream: &UnixStream, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        stream.writable().await?;
        match stream.try_write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Hears one line. Nothing follows it before it is answered.
pub(crate) async fn hear<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        stream.readable().await?;
        let mut part = [0; 4096];
        match stream.try_read(&mut part) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => line.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if line.len() > LINE {
            return Err(io::Error::other("this line has no end"));
        }
    }
    serde_json::from_slice(&line).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said is heard; what has no end, or is cut off, is not.
    #[tokio::test]
    async fn lines_are_heard_whole() {
        let (one, two) = UnixStream::pair().unwrap();
        let known = Known { server: "a\nb".into(), identity: "x".repeat(10_000) };
        let want = Want::Serve { known, tool: Some("t".into()) };
        let (said, heard) = tokio::join!(say(&one, &want), hear::<Want>(&two));
        said.unwrap();
        assert_eq!(heard.unwrap(), want);
        let (nod, heard) = tokio::join!(
            async {
                nod(&two).await?;
                say(&two, &Say::Bye).await
            },
            async {
                nodded(&one).await?;
                hear::<Say>(&one).await
            }
        );
        nod.unwrap();
        assert_eq!(heard.unwrap(), Say::Bye, "what follows at once is not lost");
        one.try_write(b"{\"want\":\"sta").unwrap();
        drop(one);
        assert_eq!(hear::<Want>(&two).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
