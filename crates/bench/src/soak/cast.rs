//! The course of a client, whatever its kind: it comes, does this and that, leaves, and comes again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use cardan_sim::rng::Rng;
use tokio::sync::watch;

use super::PATIENCE;
use super::ledger::{Calls, Deed, Kind, Ledger, Taken};
use crate::raw::events::{Events, is_stream};
use crate::raw::http::Conn;

/// A round that has not made its calls so long after its time will not make them.
const OVERTIME: Duration = Duration::from_secs(120);

/// A client.
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) rng: Rng,
    pub(crate) ledger: Arc<Ledger>,
    /// When the round ends, once it has begun.
    pub(crate) go: watch::Receiver<Option<Instant>>,
    /// Between two deeds, on average.
    pub(crate) pause: Duration,
    /// All clients together.
    pub(crate) calls: u64,
}

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// As it should.
    Polite,
    /// Without a word.
    Vanish,
    /// Without a word, and a call under way.
    VanishCalling,
}

/// Whether a session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Stay,
    /// We were away so long that the server may have forgotten it, and rightly.
    GoneStale,
}

/// One session of one kind.
pub(crate) trait Player: Sized {
    const KIND: Kind;

    async fn open(address: SocketAddr, calls: Calls, rng: &mut Rng) -> anyhow::Result<Self>;

    fn calls(&mut self) -> &mut Calls;

    /// Does something, and sees to its end.
    async fn act(&mut self, rng: &mut Rng) -> anyhow::Result<Next>;

    async fn leave(self, how: Farewell) -> anyhow::Result<()>;
}

impl Client {
    /// Plays to the end of the round.
    pub(crate) async fn play<P: Player>(mut self) {
        let mut times = 0;
        loop {
            let name = format!("{:?}-{}-{times}", P::KIND, self.name);
            let calls = Calls::new(P::KIND, &self.ledger, name.clone());
            if let Err(error) = self.session::<P>(calls).await {
                self.ledger.violated(format!("{name}: {error:#}"));
                // A server that is gone is not asked a million times.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            if self.is_over() {
                return;
            }
            times += 1;
        }
    }

    async fn session<P: Player>(&mut self, calls: Calls) -> anyhow::Result<()> {
        let mut player = patient(P::open(self.address, calls, &mut self.rng)).await?;
        player.calls().did(Deed::Opened);
        self.go.wait_for(Option::is_some).await?;
        let left = self.act(&mut player).await;
        let how = match left {
            Ok(Next::Stay) => self.rng.pick(&[Farewell::Polite, Farewell::Vanish, Farewell::VanishCalling]),
            Ok(Next::GoneStale) | Err(_) => Farewell::Vanish,
        };
        let deed = if how == Farewell::Polite { Deed::Left } else { Deed::Vanished };
        player.calls().did(deed);
        left?;
        patient(player.leave(how)).await
    }

    /// Does this and that until it is time to leave.
    async fn act(&mut self, player: &mut impl Player) -> anyhow::Result<Next> {
        while !self.is_over() && !self.rng.percent(1) {
            if !self.is_late() {
                let most = u64::try_from(self.pause.as_millis()).unwrap_or(u64::MAX).saturating_mul(2);
                tokio::time::sleep(Duration::from_millis(self.rng.within(0, most))).await;
            }
            if patient(player.act(&mut self.rng)).await? == Next::GoneStale {
                return Ok(Next::GoneStale);
            }
        }
        Ok(Next::Stay)
    }

    /// Is the time of the round over?
    fn is_late(&self) -> bool {
        self.go.borrow().is_some_and(|end| Instant::now() >= end)
    }

    fn is_over(&self) -> bool {
        let given_up = self.go.borrow().is_some_and(|end| Instant::now() >= end + OVERTIME);
        given_up || (self.is_late() && self.ledger.calls() >= self.calls)
    }
}

/// What does not come in time is lost.
async fn patient<T>(deed: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::time::timeout(PATIENCE, deed).await.context("no answer in time")?
}

/// The tools and how often each is called.
pub(crate) fn tool(rng: &mut Rng, nonce: &str) -> (&'static str, String) {
    if rng.percent(85) {
        return ("echo", format!(r#""name":"echo","arguments":{{"text":"{nonce}"}}"#));
    }
    let ms = rng.within(0, 20);
    ("late", format!(r#""name":"late","arguments":{{"text":"{nonce}","ms":{ms}}}"#))
}

pub(crate) fn touch(nonce: &str, uri: &str) -> String {
    format!(r#""name":"touch","arguments":{{"text":"{nonce}","uri":"{uri}"}}"#)
}

/// Reads the answer to the call of a POST to its end; gives the connection back.
pub(crate) async fn answer(mut conn: Conn, calls: &mut Calls, id: u64) -> anyhow::Result<Conn> {
    let head = conn.head().await?;
    if is_stream(&head) {
        let mut events = Events::new(conn);
        reply(&mut events, calls, id).await?;
        ensure!(events.next().await?.is_none(), "something came after the reply");
        return Ok(events.into_conn());
    }
    let body = conn.body(&head).await?;
    let body = String::from_utf8(body)?;
    ensure!(head.status == 200, "status {}: {body}", head.status);
    ensure!(calls.take(&body) == Taken::Reply(id), "not the reply to {id}: {body}");
    Ok(conn)
}

/// Reads to the reply of a call.
pub(crate) async fn reply(events: &mut Events, calls: &mut Calls, id: u64) -> anyhow::Result<()> {
    loop {
        let event =
            events.next().await?.with_context(|| format!("the stream ended before the reply to {id}"))?;
        // A priming event carries nothing but its id.
        if event.data.is_empty() {
            continue;
        }
        match calls.take(&event.data) {
            Taken::Reply(replied) if replied == id => return Ok(()),
            Taken::Note => {}
            other => bail!("{other:?} on the stream of {id}"),
        }
    }
}

/// Waits for the note that our resource has changed.
pub(crate) async fn changed(events: &mut Events, calls: &mut Calls) -> anyhow::Result<()> {
    loop {
        let event = events.next().await?.context("the stream ended before the change was told")?;
        if event.data.is_empty() {
            continue;
        }
        match calls.take(&event.data) {
            Taken::Changed => {
                calls.did(Deed::Told);
                return Ok(());
            }
            Taken::Note => {}
            other => bail!("{other:?} on the stream of changes"),
        }
    }
}

/// Nothing may be left on a stream whose notes were all waited for, but the progress of calls that we cut.
pub(crate) fn nothing_more(events: &mut Events, calls: &mut Calls) -> anyhow::Result<()> {
    for event in events.arrived()?.iter().filter(|event| !event.data.is_empty()) {
        ensure!(calls.take(&event.data) == Taken::Note, "not waited for: {}", event.data);
    }
    Ok(())
}
