//! A modern client: nothing but POSTs, every other one with a listen open beside.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use cardan_sim::rng::Rng;

use super::cast::{Farewell, Next, Player, answer, changed, nothing_more, tool, touch};
use super::ledger::{Calls, Deed, Kind};
use crate::raw::events::Events;
use crate::raw::http::Conn;
use crate::raw::say::{modern_call, modern_post};

/// The client.
pub(crate) struct Modern {
    address: SocketAddr,
    calls: Calls,
    conn: Option<Conn>,
    listen: Option<Events>,
}

impl Player for Modern {
    const KIND: Kind = Kind::Modern;

    async fn open(address: SocketAddr, calls: Calls, rng: &mut Rng) -> anyhow::Result<Self> {
        let mut this = Self { address, calls, conn: Some(Conn::open(address).await?), listen: None };
        if rng.percent(50) {
            this.listen().await?;
        }
        Ok(this)
    }

    fn calls(&mut self) -> &mut Calls {
        &mut self.calls
    }

    async fn act(&mut self, rng: &mut Rng) -> anyhow::Result<Next> {
        match rng.below(100) {
            0..88 => self.call(rng).await,
            88..91 => self.half(rng).await,
            91..94 => self.cut(rng).await,
            94..97 if self.listen.is_some() => self.reopen().await,
            97..99 if self.listen.is_some() => self.touch().await,
            _ => self.call(rng).await,
        }?;
        Ok(Next::Stay)
    }

    async fn leave(mut self, how: Farewell) -> anyhow::Result<()> {
        if let Some(mut listen) = self.listen.take() {
            nothing_more(&mut listen, &mut self.calls)?;
        }
        match how {
            // There is nothing to take leave of.
            Farewell::Polite | Farewell::Vanish => Ok(()),
            Farewell::VanishCalling => self.cut(&mut Rng::seeded(1)).await,
        }
    }
}

impl Modern {
    async fn conn(&mut self) -> anyhow::Result<Conn> {
        match self.conn.take() {
            Some(conn) => Ok(conn),
            None => Ok(Conn::open(self.address).await?),
        }
    }

    fn begin(&mut self, rng: &mut Rng) -> (u64, String) {
        let (id, nonce) = self.calls.begin();
        let (name, params) = tool(rng, &nonce);
        (id, modern_post("tools/call", Some(name), &modern_call(id, "tools/call", &params)))
    }

    async fn call(&mut self, rng: &mut Rng) -> anyhow::Result<()> {
        let mut conn = self.conn().await?;
        let (id, post) = self.begin(rng);
        conn.send(post.as_bytes()).await?;
        self.conn = Some(answer(conn, &mut self.calls, id).await?);
        Ok(())
    }

    /// Dies in the middle of a message.
    async fn half(&mut self, rng: &mut Rng) -> anyhow::Result<()> {
        let mut conn = self.conn().await?;
        let (name, params) = tool(rng, "half");
        let body = modern_call(self.calls.mint(), "tools/call", &params);
        let post = modern_post("tools/call", Some(name), &body);
        conn.send(&post.as_bytes()[..post.len() - body.len() / 2]).await?;
        self.calls.did(Deed::Half);
        Ok(())
    }

    /// Does not wait for the answer, which cancels the call.
    async fn cut(&mut self, rng: &mut Rng) -> anyhow::Result<()> {
        let mut conn = self.conn().await?;
        let (_, post) = self.begin(rng);
        conn.send(post.as_bytes()).await?;
        self.calls.cut();
        Ok(())
    }

    async fn listen(&mut self) -> anyhow::Result<()> {
        let interest = format!(r#""notifications":{{"resourceSubscriptions":["{}"]}}"#, self.calls.uri());
        let body = modern_call(self.calls.mint(), "subscriptions/listen", &interest);
        let mut listen =
            Events::open(self.address, &modern_post("subscriptions/listen", None, &body)).await?;
        let first = listen.next().await?.context("a listen without an answer")?;
        ensure!(first.data.contains("subscriptions/acknowledged"), "listen: {}", first.data);
        self.listen = Some(listen);
        Ok(())
    }

    async fn reopen(&mut self) -> anyhow::Result<()> {
        if let Some(mut listen) = self.listen.take() {
            nothing_more(&mut listen, &mut self.calls)?;
        }
        self.listen().await?;
        self.calls.did(Deed::Reopened);
        Ok(())
    }

    async fn touch(&mut self) -> anyhow::Result<()> {
        let mut conn = self.conn().await?;
        let (id, nonce) = self.calls.begin();
        let body = modern_call(id, "tools/call", &touch(&nonce, &self.calls.uri()));
        conn.send(modern_post("tools/call", Some("touch"), &body).as_bytes()).await?;
        self.conn = Some(answer(conn, &mut self.calls, id).await?);
        let listen = self.listen.as_mut().context("the listen is open")?;
        changed(listen, &mut self.calls).await
    }
}
