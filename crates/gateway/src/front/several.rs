//! Several servers that may know something: asked beside each other, heard in their order.
//!
//! Which of them is heard does not depend on who answers first. One that is silent is passed over after a while, so that it
//! holds up no other.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::fleet::GUESS;
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::cx::CallCx;
use tokio::time::{Instant, sleep_until};

use super::desk::Station;
use crate::fleet::Upstream;

/// How long a server may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as the client waits.
    Clients,
    /// As long as one of several may be.
    Brief,
}

impl Patience {
    /// Where so many are asked. Who is alone holds up nobody else.
    fn among(servers: usize) -> Self {
        if servers > 1 { Self::Brief } else { Self::Clients }
    }
}

/// What all of them answer.
pub(super) async fn all(
    station: &Arc<Station>,
    cx: &CallCx,
    asks: Vec<(Arc<Upstream>, Called)>,
) -> Vec<Result<Answer, Fault>> {
    let (patience, mut asked) = (Patience::among(asks.len()), Asked::default());
    for (upstream, called) in asks {
        asked.ask(station, upstream, cx, called, patience);
    }
    for _ in 0..asked.0.len() {
        asked.next().await;
    }
    asked.0.into_iter().filter_map(Asking::answer).collect()
}

/// Waits for all of these. Each begins at once, so that what the client calls next comes after it.
pub(super) async fn ended(waiting: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut waiting: Vec<_> = waiting.map(Box::pin).collect();
    poll_fn(|cx| {
        waiting.retain_mut(|one| one.as_mut().poll(cx).is_pending());
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Why nobody has it, as far as is known.
#[derive(Default)]
pub(super) struct Missing(pub(super) Option<Fault>);

impl Missing {
    /// A server that is away may have it or not: if none has it, this is what is told.
    pub(super) fn away(&mut self, fault: Fault) {
        self.0 = Some(fault);
    }

    /// A server says that it does not have it.
    pub(super) fn not_there(&mut self, fault: Fault) {
        self.0.get_or_insert(fault);
    }
}

/// The first server, in their order, that does not refuse, and what it answers. The next is asked as soon as one has answered,
/// or has been silent for a moment; no more are troubled than need be.
pub(super) async fn first(
    station: &Arc<Station>,
    cx: &CallCx,
    called: &Called,
    servers: &[Arc<Upstream>],
    missing: &mut Missing,
) -> Option<(Arc<Upstream>, Answer)> {
    let (patience, mut asked) = (Patience::among(servers.len()), Asked::default());
    let (mut heard, mut due) = (0, Instant::now());
    loop {
        while let Some(answer) = asked.take(heard) {
            match answer {
                Err(fault) => missing.away(fault),
                // Not all servers say in the same words that they do not have it.
                Ok(Answer::Fault(fault)) => missing.not_there(fault),
                Ok(answer) => return Some((Arc::clone(&servers[heard]), answer)),
            }
            heard += 1;
        }
        if heard == servers.len() {
            return None;
        }
        let more = servers.get(asked.0.len());
        if let Some(next) = more.filter(|_| due <= Instant::now()) {
            asked.ask(station, Arc::clone(next), cx, called.clone(), patience);
            due = Instant::now() + GUESS;
        }
        let latest = asked.0.len() - 1;
        tokio::select! {
            at = asked.next() => due = if at == latest { Instant::now() } else { due },
            () = sleep_until(due), if latest + 1 < servers.len() => {}
        }
    }
}

/// Servers that were asked, in their order. Polled where the call is, so that they are parts of its trace.
#[derive(Default)]
struct Asked(Vec<Asking>);

enum Asking {
    Open(Pin<Box<dyn Future<Output = Result<Answer, Fault>> + Send>>),
    Answered(Result<Answer, Fault>),
    Heard,
}

impl Asking {
    fn answer(self) -> Option<Result<Answer, Fault>> {
        match self {
            Self::Answered(answer) => Some(answer),
            Self::Open(_) | Self::Heard => None,
        }
    }
}

impl Asked {
    fn ask(
        &mut self,
        station: &Arc<Station>,
        upstream: Arc<Upstream>,
        cx: &CallCx,
        called: Called,
        patience: Patience,
    ) {
        let (station, cx) = (Arc::clone(station), cx.clone());
        let answer = async move { station.forward_within(&upstream, cx, called, patience).await };
        self.0.push(Asking::Open(Box::pin(answer)));
    }

    /// Waits until one more has answered, and tells which.
    async fn next(&mut self) -> usize {
        poll_fn(|cx| {
            for (at, asking) in self.0.iter_mut().enumerate() {
                if let Asking::Open(open) = asking
                    && let Poll::Ready(answer) = open.as_mut().poll(cx)
                {
                    *asking = Asking::Answered(answer);
                    return Poll::Ready(at);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The answer of one, once.
    fn take(&mut self, at: usize) -> Option<Result<Answer, Fault>> {
        let asking = self.0.get_mut(at)?;
        match asking {
            Asking::Answered(_) => std::mem::replace(asking, Asking::Heard).answer(),
            Asking::Open(_) | Asking::Heard => None,
        }
    }
}
