//! A call goes to one server, and is counted there.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::fleet::ANSWER;
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::cx::CallCx;
use cardan_runtime::service::Host as _;

use super::desk::Station;
use super::refused::Refused;
use super::several::Patience;
use super::trail::Trail;
use super::{relays, replaced, traced};
use crate::fleet::Upstream;
use crate::pin;
use crate::relay::{Bar, Barred, Held};

impl Station {
    /// Passes a call on to a server, and counts it.
    pub(super) async fn forward(
        self: &Arc<Self>,
        upstream: &Arc<Upstream>,
        cx: CallCx,
        called: Called,
    ) -> Result<Answer, Fault> {
        self.forward_within(upstream, cx, called, Patience::Clients).await
    }

    /// The same of a tool, by its name here and at its server. It may be held back where it would go.
    pub(super) async fn forward_tool(
        self: &Arc<Self>,
        upstream: &Arc<Upstream>,
        cx: CallCx,
        called: Called,
        (name, own): (&str, &str),
        trail: Option<&Trail>,
    ) -> Result<Answer, Fault> {
        let bar = Bar::default();
        let answered = self.forward_unless(&bar, upstream, cx, called, Patience::Clients).await;
        let Some(why) = bar.why() else { return answered };
        self.front.house.refusals.count(Refused::Pin);
        if let Some(trail) = trail {
            trail.barred(upstream.name(), Some(own));
        }
        match why {
            Barred::Changed => Err(pin::held_back(name, upstream.name(), own)),
            Barred::Untold => answered,
        }
    }

    /// The same, for as long as the server may be silent.
    pub(super) async fn forward_within(
        self: &Arc<Self>,
        upstream: &Arc<Upstream>,
        cx: CallCx,
        called: Called,
        patience: Patience,
    ) -> Result<Answer, Fault> {
        self.forward_unless(&Bar::default(), upstream, cx, called, patience).await
    }

    async fn forward_unless(
        self: &Arc<Self>,
        bar: &Bar,
        upstream: &Arc<Upstream>,
        cx: CallCx,
        called: Called,
        patience: Patience,
    ) -> Result<Answer, Fault> {
        let counted = upstream.tally().begin(called.call.params.raw().map_or(0, Bytes::len));
        let (called, recording) = match &self.front.house.options.trace {
            None => (called, None),
            Some(tracer) => traced::forward(tracer, self, upstream, called),
        };
        let passed = self.pass(bar, upstream, cx, called);
        let answered = match patience {
            Patience::Clients => passed.await,
            Patience::Brief => match tokio::time::timeout(ANSWER, Box::pin(passed)).await {
                Ok(answered) => answered,
                Err(_) => Err(relays::silent(upstream)),
            },
        };
        if let Some(recording) = recording {
            recording.end_at(&answered);
        }
        match bar.why() {
            None => counted.end(&answered),
            Some(_) => counted.withdraw(),
        }
        answered
    }

    /// To the server that it concerns: as it is now, or as it was when it asked what is answered here.
    async fn pass(
        self: &Arc<Self>,
        bar: &Bar,
        upstream: &Arc<Upstream>,
        cx: CallCx,
        called: Called,
    ) -> Result<Answer, Fault> {
        // A legacy client's calls are asked while they run, so it retries none.
        let retried =
            called.revision.era() == Era::Modern && called.call.params.get(Param::RequestState).is_some();
        let relays = &self.front.house.relays;
        let replaced = retried.then(|| relays.replaced(upstream.name()));
        if let Some(old) = replaced.and_then(|replaced| replaced.awaiting(upstream, &called)) {
            // It has its place there still, whatever has come in place of its server.
            let side = old.service(self.principal());
            return Ok(side.call_holding(cx, called, Held::default()).await);
        }
        let losing = replaced.and_then(|replaced| replaced.losing(upstream, &called, self.principal()));
        match losing {
            None => {
                let blocks =
                    self.front.house.options.pins.as_ref().is_some_and(|pins| pins.blocks().is_some());
                let again = blocks.then(|| (cx.clone(), called.clone()));
                let answered = self.pass_now(bar, upstream, cx, called).await;
                match again {
                    // The session that was looked at has ended before the call was sent: by the next, once that was looked at.
                    Some((cx, called)) if bar.take_left() => self.pass_now(bar, upstream, cx, called).await,
                    _ => answered,
                }
            }
            Some(old) => {
                let answer = self.pass_now(bar, upstream, cx, called.clone()).await?;
                Ok(replaced::judged(&old, &called, answer))
            }
        }
    }

    /// To the server as it is now.
    async fn pass_now(
        self: &Arc<Self>,
        bar: &Bar,
        upstream: &Arc<Upstream>,
        cx: CallCx,
        called: Called,
    ) -> Result<Answer, Fault> {
        let reached = self.front.house.relays.reach(upstream).await?;
        // A call that was parked has its place still: its retry needs none. Nor does one about a task: it may wait for
        // the task, and what ends the task must not wait behind it.
        let placed = reached.relay.is_going_on(&called) || called.call.method.is_about_task();
        let place = match placed {
            true => None,
            false => upstream.place().await.map_err(|why| relays::unavailable(upstream, &why))?,
        };
        let side = self.side(upstream, &reached, called.revision.era());
        Ok(side.call_holding(cx, called, Held::new(reached.visit, place).unless(bar)).await)
    }
}
