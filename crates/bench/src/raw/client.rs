//! A session that calls one tool again and again, whichever way it goes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use cardan_proto::era::Revision;

use super::events::Events;
use super::http::{Conn, request};
use super::say::{BOTH, EVENTS, INITIALIZED, call, initialize, legacy_post, modern_call, modern_post};
use super::socket::{Message, Socket};

/// The ways to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Streamable,
    /// Streamable HTTP in the modern era: no session.
    Modern,
    Events,
    Socket,
}

/// A tool that says back what it is given, and the argument by which it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Echo(pub(crate) &'static str);

/// A session that calls.
pub(crate) enum Client {
    Streamable { conn: Conn, session: String },
    Modern(Conn),
    Events { conn: Conn, path: String, stream: Events },
    Socket(Socket),
}

const REVISION: Revision = Revision::LATEST_LEGACY;

impl Client {
    pub(crate) async fn open(address: SocketAddr, way: Way) -> anyhow::Result<Self> {
        let hello = initialize(REVISION);
        let mut client = match way {
            Way::Streamable => {
                let mut conn = Conn::open(address).await?;
                conn.send(request("POST", "/mcp", &[("Accept", BOTH)], &hello).as_bytes()).await?;
                let head = conn.head().await?;
                conn.body(&head).await?;
                Self::Streamable { conn, session: head.session.context("no session was named")? }
            }
            Way::Modern => return Ok(Self::Modern(Conn::open(address).await?)),
            Way::Events => {
                let get = request("GET", "/sse", &[("Accept", EVENTS)], "");
                let mut stream = Events::open(address, &get).await?;
                let path = stream.next().await?.context("no address")?.data;
                let mut client = Self::Events { conn: Conn::open(address).await?, path, stream };
                client.exchange(&hello).await?;
                client
            }
            Way::Socket => {
                let mut client = Self::Socket(Socket::open(address).await?);
                client.exchange(&hello).await?;
                client
            }
        };
        client.tell(INITIALIZED).await?;
        Ok(client)
    }

    /// Calls without a pause; what calls took that fell into the time.
    pub(crate) async fn load(
        mut self,
        echo: Echo,
        start: Instant,
        end: Instant,
    ) -> anyhow::Result<Vec<Duration>> {
        let mut took = Vec::new();
        for id in 1.. {
            let text = format!("{id:064}");
            let params = format!(r#""name":"echo","arguments":{{"{}":"{text}"}}"#, echo.0);
            let message = match self {
                Self::Modern(_) => modern_call(id, "tools/call", &params),
                _ => call(id, "tools/call", &params),
            };
            let sent = Instant::now();
            let reply = self.exchange(&message).await?;
            let now = Instant::now();
            ensure!(reply.contains(&text), "not the reply to {id}: {reply}");
            if now >= end {
                break;
            }
            if sent >= start {
                took.push(now - sent);
            }
        }
        Ok(took)
    }

    /// Sends a message that is not answered, but by HTTP.
    async fn tell(&mut self, message: &str) -> anyhow::Result<()> {
        match self {
            Self::Streamable { conn, session } => {
                accepted(conn, &legacy_post(session, REVISION, BOTH, message)).await?;
            }
            Self::Modern(_) => bail!("a modern client has nothing to tell"),
            Self::Events { conn, path, .. } => {
                accepted(conn, &request("POST", path, &[], message)).await?;
            }
            Self::Socket(socket) => socket.send(message).await?,
        }
        Ok(())
    }

    /// Sends a call and waits for its reply.
    async fn exchange(&mut self, message: &str) -> anyhow::Result<String> {
        match self {
            Self::Streamable { conn, session } => {
                answered(conn, &legacy_post(session, REVISION, BOTH, message)).await
            }
            Self::Modern(conn) => answered(conn, &modern_post("tools/call", Some("echo"), message)).await,
            Self::Events { conn, path, stream } => {
                accepted(conn, &request("POST", path, &[], message)).await?;
                Ok(stream.next().await?.context("the stream ended")?.data)
            }
            Self::Socket(socket) => {
                socket.send(message).await?;
                match socket.next().await? {
                    Message::Text(text) => Ok(String::from_utf8(text.to_vec())?),
                    Message::Close => bail!("the server said goodbye"),
                }
            }
        }
    }
}

/// Sends a request and reads the body of its answer.
async fn answered(conn: &mut Conn, request: &str) -> anyhow::Result<String> {
    conn.send(request.as_bytes()).await?;
    let head = conn.head().await?;
    Ok(String::from_utf8(conn.body(&head).await?)?)
}

/// The same where the answer says no more than that it came.
async fn accepted(conn: &mut Conn, request: &str) -> anyhow::Result<()> {
    conn.send(request.as_bytes()).await?;
    let head = conn.head().await?;
    conn.body(&head).await?;
    ensure!(head.status == 202, "{head:?}");
    Ok(())
}
