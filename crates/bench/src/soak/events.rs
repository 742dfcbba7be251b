//! A client of the old HTTP+SSE transport: POSTs up, everything else down one stream.

use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use cardan_proto::era::Revision;
use cardan_sim::rng::Rng;

use super::cast::{Farewell, Next, Player, nothing_more, tool};
use super::ledger::{Calls, Deed, Kind, Taken};
use crate::raw::events::Events;
use crate::raw::http::{Conn, request};
use crate::raw::say::{EVENTS, INITIALIZED, call, initialize};

/// The client.
pub(crate) struct Old {
    address: SocketAddr,
    calls: Calls,
    conn: Option<Conn>,
    stream: Events,
    /// Where to post.
    path: String,
}

impl Player for Old {
    const KIND: Kind = Kind::Events;

    async fn open(address: SocketAddr, calls: Calls, _rng: &mut Rng) -> anyhow::Result<Self> {
        let mut stream = Events::open(address, &request("GET", "/sse", &[("Accept", EVENTS)], "")).await?;
        let first = stream.next().await?.context("a stream without an address")?;
        ensure!(first.name.as_deref() == Some("endpoint"), "no address but {first:?}");
        let mut this = Self { address, calls, conn: None, stream, path: first.data };
        this.post(&initialize(Revision::V2024_11_05)).await?;
        let opened = this.stream.next().await?.context("no answer to initialize")?;
        ensure!(opened.data.contains(r#""serverInfo""#), "initialize: {}", opened.data);
        this.post(INITIALIZED).await?;
        Ok(this)
    }

    fn calls(&mut self) -> &mut Calls {
        &mut self.calls
    }

    async fn act(&mut self, rng: &mut Rng) -> anyhow::Result<Next> {
        match rng.below(100) {
            0..80 => self.call(rng, 1).await,
            80..95 => self.call(rng, 4).await,
            _ => self.half(rng).await,
        }?;
        Ok(Next::Stay)
    }

    async fn leave(mut self, how: Farewell) -> anyhow::Result<()> {
        if how == Farewell::VanishCalling {
            self.begin(&mut Rng::seeded(1)).await?;
            self.calls.cut();
        } else {
            nothing_more(&mut self.stream, &mut self.calls)?;
        }
        Ok(())
    }
}

impl Old {
    async fn conn(&mut self) -> anyhow::Result<Conn> {
        match self.conn.take() {
            Some(conn) => Ok(conn),
            None => Ok(Conn::open(self.address).await?),
        }
    }

    async fn post(&mut self, body: &str) -> anyhow::Result<()> {
        let mut conn = self.conn().await?;
        conn.send(request("POST", &self.path, &[], body).as_bytes()).await?;
        let head = conn.head().await?;
        conn.body(&head).await?;
        ensure!(head.status == 202, "{head:?} to {body}");
        self.conn = Some(conn);
        Ok(())
    }

    async fn begin(&mut self, rng: &mut Rng) -> anyhow::Result<()> {
        let (id, nonce) = self.calls.begin();
        let (_, params) = tool(rng, &nonce);
        self.post(&call(id, "tools/call", &format!(r#"{params},"_meta":{{"progressToken":{id}}}"#))).await
    }

    /// So many calls at once.
    async fn call(&mut self, rng: &mut Rng, at_once: usize) -> anyhow::Result<()> {
        for _ in 0..at_once {
            self.begin(rng).await?;
        }
        let mut replies = 0;
        while replies < at_once {
            let event = self.stream.next().await?.context("the stream ended before the reply")?;
            match self.calls.take(&event.data) {
                Taken::Reply(_) => replies += 1,
                Taken::Note => {}
                other => bail!("{other:?} on the stream"),
            }
        }
        Ok(())
    }

    /// Dies in the middle of a message.
    async fn half(&mut self, rng: &mut Rng) -> anyhow::Result<()> {
        let mut conn = self.conn().await?;
        let body = call(self.calls.mint(), "tools/call", &tool(rng, "half").1);
        let post = request("POST", &self.path, &[], &body);
        conn.send(&post.as_bytes()[..post.len() - body.len() / 2]).await?;
        self.calls.did(Deed::Half);
        Ok(())
    }
}
