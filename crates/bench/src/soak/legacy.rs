//! A legacy client of Streamable HTTP: a session, its push stream, and streams that are resumed.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use cardan_proto::era::Revision;
use cardan_sim::rng::Rng;

use super::cast::{Farewell, Next, Player, answer, changed, nothing_more, reply, tool, touch};
use super::ledger::{Calls, Deed, Kind};
use super::server::IDLE;
use crate::raw::events::Events;
use crate::raw::http::{Conn, request};
use crate::raw::say::{BOTH, EVENTS, INITIALIZED, call, initialize, legacy_post};

/// The session.
pub(crate) struct Legacy {
    address: SocketAddr,
    calls: Calls,
    conn: Option<Conn>,
    push: Option<Events>,
    /// Where the push stream is to be resumed.
    last: Option<String>,
    session: String,
    revision: Revision,
}

impl Player for Legacy {
    const KIND: Kind = Kind::Legacy;

    async fn open(address: SocketAddr, mut calls: Calls, rng: &mut Rng) -> anyhow::Result<Self> {
        // Only the newest names a place to resume from before there is anything to say.
        let revision = if rng.percent(25) { Revision::V2025_06_18 } else { Revision::LATEST_LEGACY };
        let mut conn = Conn::open(address).await?;
        let hello = request("POST", "/mcp", &[("Accept", BOTH)], &initialize(revision));
        conn.send(hello.as_bytes()).await?;
        let head = conn.head().await?;
        let body = conn.body(&head).await?;
        ensure!(head.status == 200, "initialize: {head:?} {}", String::from_utf8_lossy(&body));
        let session = head.session.context("no session was named")?;
        conn.send(legacy_post(&session, revision, BOTH, INITIALIZED).as_bytes()).await?;
        let head = conn.head().await?;
        ensure!(head.status == 202, "initialized: {head:?}");
        let interest = format!(r#""uri":"{}""#, calls.uri());
        let interest = call(calls.mint(), "resources/subscribe", &interest);
        conn.send(legacy_post(&session, revision, BOTH, &interest).as_bytes()).await?;
        let head = conn.head().await?;
        let body = String::from_utf8(conn.body(&head).await?)?;
        ensure!(body.contains(r#""result""#), "subscribe: {body}");
        let mut this = Self { address, calls, conn: Some(conn), push: None, last: None, session, revision };
        this.listen().await?;
        Ok(this)
    }

    fn calls(&mut self) -> &mut Calls {
        &mut self.calls
    }

    async fn act(&mut self, rng: &mut Rng) -> anyhow::Result<Next> {
        match rng.below(100) {
            0..70 => self.call(rng, BOTH).await,
            70..85 => self.call(rng, EVENTS).await,
            85..90 if self.revision == Revision::LATEST_LEGACY => self.cut_and_resume(rng).await,
            90..92 => self.half(rng).await,
            92..94 => self.cut(rng).await,
            94..97 => return self.reopen(rng).await,
            97..98 => self.touch().await,
            _ => self.call(rng, BOTH).await,
        }?;
        Ok(Next::Stay)
    }

    async fn leave(mut self, how: Farewell) -> anyhow::Result<()> {
        if let Some(mut push) = self.push.take() {
            nothing_more(&mut push, &mut self.calls)?;
        }
        match how {
            Farewell::Polite => {
                let end = self.head("DELETE", &[]);
                let mut conn = self.conn().await?;
                conn.send(end.as_bytes()).await?;
                let head = conn.head().await?;
                ensure!(head.status == 204, "DELETE: {head:?}");
                Ok(())
            }
            Farewell::Vanish => Ok(()),
            Farewell::VanishCalling => self.cut(&mut Rng::seeded(1)).await,
        }
    }
}

impl Legacy {
    /// A request without a body.
    fn head(&self, method: &str, more: &[(&str, &str)]) -> String {
        let date = self.revision.date();
        let mut headers = vec![("Mcp-Session-Id", &*self.session), ("MCP-Protocol-Version", date)];
        headers.extend_from_slice(more);
        request(method, "/mcp", &headers, "")
    }

    /// The connection for POSTs.
    async fn conn(&mut self) -> anyhow::Result<Conn> {
        match self.conn.take() {
            Some(conn) => Ok(conn),
            None => Ok(Conn::open(self.address).await?),
        }
    }

    /// A call about to be sent.
    fn begin(&mut self, rng: &mut Rng, accept: &str) -> (u64, String) {
        let (id, nonce) = self.calls.begin();
        let (_, params) = tool(rng, &nonce);
        let body = call(id, "tools/call", &format!(r#"{params},"_meta":{{"progressToken":{id}}}"#));
        (id, legacy_post(&self.session, self.revision, accept, &body))
    }

    async fn call(&mut self, rng: &mut Rng, accept: &str) -> anyhow::Result<()> {
        let mut conn = self.conn().await?;
        let (id, post) = self.begin(rng, accept);
        conn.send(post.as_bytes()).await?;
        self.conn = Some(answer(conn, &mut self.calls, id).await?);
        Ok(())
    }

    /// The stream of a call is cut when it can be resumed; its reply must still come.
    async fn cut_and_resume(&mut self, rng: &mut Rng) -> anyhow::Result<()> {
        let (id, post) = self.begin(rng, EVENTS);
        let mut events = Events::open(self.address, &post).await?;
        let first = events.next().await?.context("a stream without any event")?;
        let last = first.id.context("an event without an id")?;
        drop(events);
        let resume = self.head("GET", &[("Accept", EVENTS), ("Last-Event-ID", &last)]);
        let mut events =
            Events::open(self.address, &resume).await.with_context(|| format!("resuming {id}"))?;
        reply(&mut events, &mut self.calls, id).await.with_context(|| format!("resumed {id}"))?;
        self.calls.did(Deed::Resumed);
        Ok(())
    }

    /// Dies in the middle of a message.
    async fn half(&mut self, rng: &mut Rng) -> anyhow::Result<()> {
        let mut conn = self.conn().await?;
        let body = call(self.calls.mint(), "tools/call", &tool(rng, "half").1);
        let post = legacy_post(&self.session, self.revision, BOTH, &body);
        conn.send(&post.as_bytes()[..post.len() - body.len() / 2]).await?;
        self.calls.did(Deed::Half);
        Ok(())
    }

    /// Does not wait for the answer.
    async fn cut(&mut self, rng: &mut Rng) -> anyhow::Result<()> {
        let mut conn = self.conn().await?;
        let (_, post) = self.begin(rng, BOTH);
        conn.send(post.as_bytes()).await?;
        self.calls.cut();
        Ok(())
    }

    /// Opens the push stream, or resumes it.
    async fn listen(&mut self) -> anyhow::Result<()> {
        let last = self.last.clone();
        let mut headers = vec![("Accept", EVENTS)];
        headers.extend(last.as_deref().map(|last| ("Last-Event-ID", last)));
        let mut push = Events::open(self.address, &self.head("GET", &headers)).await?;
        push.sign().await?;
        self.push = Some(push);
        Ok(())
    }

    /// Cuts the push stream and comes back; what changed meanwhile must be told.
    async fn reopen(&mut self, rng: &mut Rng) -> anyhow::Result<Next> {
        if let Some(mut push) = self.push.take() {
            nothing_more(&mut push, &mut self.calls)?;
            if let Some(last) = push.last() {
                self.last = Some(last.to_owned());
            }
        }
        let cut = Instant::now();
        let touched = self.last.is_some() && rng.percent(30);
        if touched {
            self.send_touch().await?;
        }
        if cut.elapsed() >= IDLE / 2 {
            return Ok(Next::GoneStale);
        }
        self.listen().await?;
        self.calls.did(Deed::Reopened);
        if let (true, Some(push)) = (touched, &mut self.push) {
            changed(push, &mut self.calls).await.context("after the push stream was resumed")?;
        }
        Ok(Next::Stay)
    }

    async fn touch(&mut self) -> anyhow::Result<()> {
        self.send_touch().await?;
        let push = self.push.as_mut().context("the push stream is open")?;
        changed(push, &mut self.calls).await
    }

    async fn send_touch(&mut self) -> anyhow::Result<()> {
        let mut conn = self.conn().await?;
        let (id, nonce) = self.calls.begin();
        let body = call(id, "tools/call", &touch(&nonce, &self.calls.uri()));
        conn.send(legacy_post(&self.session, self.revision, BOTH, &body).as_bytes()).await?;
        self.conn = Some(answer(conn, &mut self.calls, id).await?);
        Ok(())
    }
}
