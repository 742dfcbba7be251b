//! A call that outlives its link, where that does no harm.
//!
//! ```text
//!  no link ──▶ waiting ──▶ flying ──▶ settled
//!                 ▲           │ lost: never sent, or safe to repeat and not repeated yet
//!                 └───────────┘
//! ```
//!
//! All within the deadlines that the call has: a second try extends none of them, and a call that timed out is
//! never tried again.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::method::Method;
use cardan_proto::session::event::{
    CallOptions, Cause, Deadline, Delivery, Outcome, Refusal, Repeat, Stage as Reached, Within,
};
use cardan_proto::upkeep::LinkNumber;
use cardan_runtime::cx::CallCx;
use cardan_runtime::peer::{Beside, CallHandle, Happening, Peer};
use cardan_runtime::witness::Report;
use tokio::time::Instant;

use super::kept::{Doubt, Kept, lock, lost};

/// One call over whatever links there are. Dropping it gives it up.
pub(crate) struct KeptCall {
    kept: Arc<Kept>,
    method: Method,
    params: Option<Bytes>,
    options: CallOptions,
    /// What goes beside it.
    beside: Beside,
    begun: Instant,
    stage: Stage,
    /// How often it was tried again although it was never sent.
    resends: u32,
    /// How it ended on an earlier link, where that matters.
    before: Option<Outcome>,
    given_up: Mutex<GivenUp>,
}

enum Stage {
    Flying(CallHandle, LinkNumber),
    Waiting(Waiting),
    Over(Outcome),
}

/// For a link; or the reason why there is none, if there is one.
type Waiting = Pin<Box<dyn Future<Output = Result<(Peer, LinkNumber), Option<Cause>>> + Send + Sync>>;

#[derive(Debug, Default)]
struct GivenUp {
    reason: Option<Cow<'static, str>>,
    waker: Option<Waker>,
}

impl KeptCall {
    pub(super) fn new(
        kept: Arc<Kept>,
        method: Method,
        params: Option<Bytes>,
        options: CallOptions,
        beside: Beside,
    ) -> Self {
        let begun = Instant::now();
        let stage = match kept.current() {
            Some((peer, link)) => {
                kept.took_off();
                let call = peer.call_beside(method.clone(), params.clone(), options, beside.clone());
                Stage::Flying(call, link)
            }
            // The session that it is kept to is none that comes.
            None if options.within == Within::This => Stage::Over(lost(kept.last_cause())),
            None => Stage::Waiting(wait(&kept, None, patience(&kept, options, begun))),
        };
        let (resends, before, given_up) = (0, None, Mutex::default());
        Self { kept, method, params, options, beside, begun, stage, resends, before, given_up }
    }

    pub(crate) fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let next = match &mut self.stage {
                Stage::Over(outcome) => return Poll::Ready(outcome.clone()),
                Stage::Flying(handle, link) => {
                    let Poll::Ready(outcome) = Pin::new(handle).poll(cx) else { return Poll::Pending };
                    let link = *link;
                    self.landed(outcome, link)
                }
                Stage::Waiting(waiting) => {
                    let mut given_up = lock(&self.given_up);
                    if let Some(reason) = given_up.reason.take() {
                        let delivery =
                            if self.before.is_some() { Delivery::Unknown } else { Delivery::NotSent };
                        Stage::Over(Outcome::Cancelled { reason, delivery })
                    } else {
                        given_up.waker = Some(cx.waker().clone());
                        drop(given_up);
                        let Poll::Ready(link) = waiting.as_mut().poll(cx) else { return Poll::Pending };
                        self.go_on(link)
                    }
                }
            };
            self.stage = next;
        }
    }

    /// The next thing that happens to it; nothing: it has ended.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Happening>> {
        loop {
            if let Stage::Flying(handle, _) = &mut self.stage {
                match handle.poll_next(cx) {
                    Poll::Ready(None) => {}
                    other => return other,
                }
            }
            match (self.poll_outcome(cx), &self.stage) {
                (Poll::Ready(_), _) => return Poll::Ready(None),
                // It was sent again: something may have happened to it already.
                (Poll::Pending, Stage::Flying(..)) => {}
                (Poll::Pending, _) => return Poll::Pending,
            }
        }
    }

    /// Where steps go from now on.
    pub(crate) fn lead(&mut self, onward: Option<CallCx>) {
        if let Stage::Flying(handle, _) = &self.stage {
            handle.lead(onward.clone());
        }
        self.beside.onward = onward;
    }

    pub(crate) fn cancel(&self, reason: Cow<'static, str>) {
        // Where it has come back already and nobody has looked, it must not be sent again.
        if let Stage::Flying(handle, _) = &self.stage {
            handle.cancel(reason.clone());
        }
        let waker = {
            let mut given_up = lock(&self.given_up);
            given_up.reason = Some(reason);
            given_up.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn report(&self) -> Report {
        match &self.stage {
            Stage::Flying(handle, _) => handle.report(),
            _ => self.kept.report(),
        }
    }

    /// It came back from a link. Is that how it ends?
    fn landed(&mut self, outcome: Outcome, link: LinkNumber) -> Stage {
        self.kept.landed();
        let delivery = match &outcome {
            Outcome::Lost { delivery, .. } => *delivery,
            // The link was about to end.
            Outcome::Refused(Refusal::NotOpen) => Delivery::NotSent,
            Outcome::TimedOut { .. } => {
                self.kept.doubt_at_work(link);
                return Stage::Over(in_all(self.before.take(), outcome));
            }
            // It may go on with what nobody wants.
            Outcome::Cancelled { .. } => {
                self.kept.left_at_work();
                return Stage::Over(in_all(self.before.take(), outcome));
            }
            Outcome::Done(_) if self.method == Method::LoggingSetLevel => {
                self.kept.took_level(self.params.as_ref());
                return Stage::Over(in_all(self.before.take(), outcome));
            }
            _ => return Stage::Over(in_all(self.before.take(), outcome)),
        };
        // The server is there and said no before anyone read the call: it would again, at once.
        if is_refused(&outcome) {
            return Stage::Over(self.before.take().unwrap_or(outcome));
        }
        let doubt = self.kept.doubt(link);
        let given_up = lock(&self.given_up).reason.take();
        if let Some(reason) = given_up {
            let outcome = Outcome::Cancelled { reason, delivery };
            return Stage::Over(in_all(self.before.take(), outcome));
        }
        match delivery {
            // There is no other session that it may go by.
            _ if self.options.within == Within::This => {
                return Stage::Over(self.before.take().unwrap_or(outcome));
            }
            Delivery::NotSent if self.resends < self.kept.policy().resends => self.resends += 1,
            Delivery::Sent | Delivery::Unknown if self.before.is_none() && self.may_repeat() => {
                self.before = Some(outcome);
            }
            _ => return Stage::Over(self.before.take().unwrap_or(outcome)),
        }
        Stage::Waiting(wait(&self.kept, Some(doubt), patience(&self.kept, self.options, self.begun)))
    }

    /// There is a link, or there will be none in time.
    fn go_on(&mut self, link: Result<(Peer, LinkNumber), Option<Cause>>) -> Stage {
        let left = total_left(&self.kept, self.options, self.begun);
        // To who makes calls, zero is no deadline.
        let options = CallOptions { total: Some(left.unwrap_or_default()), ..self.options };
        let spent = left == Some(Duration::ZERO);
        match link {
            Ok((peer, link)) if !spent => {
                self.kept.took_off();
                let (method, params) = (self.method.clone(), self.params.clone());
                Stage::Flying(peer.call_beside(method, params, options, self.beside.clone()), link)
            }
            Ok(_) => Stage::Over(self.before.take().unwrap_or_else(|| self.timed_out())),
            Err(cause) => {
                let unsent = || cause.map_or_else(|| self.timed_out(), |cause| lost(Some(cause)));
                let outcome = match &self.before {
                    Some(before) => before.clone(),
                    None => unsent(),
                };
                Stage::Over(outcome)
            }
        }
    }

    fn timed_out(&self) -> Outcome {
        Outcome::TimedOut {
            deadline: Deadline::Idle,
            after: self.begun.elapsed(),
            delivery: Delivery::NotSent,
            stage: Reached::Queued,
            seen_bytes: 0,
        }
    }

    fn may_repeat(&self) -> bool {
        match self.options.repeat {
            Repeat::Always => true,
            Repeat::Never => false,
            Repeat::IfSafe => self.kept.is_repeatable(&self.method, self.params.as_ref()),
        }
    }
}

impl Drop for KeptCall {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Flying(..)) {
            self.kept.left_at_work();
            self.kept.landed();
        }
    }
}

impl std::fmt::Debug for KeptCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptCall").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Whether a status says that the call was not let in. Nothing is wrong with the link then.
fn is_refused(outcome: &Outcome) -> bool {
    let Outcome::Lost { cause: Cause::Http(failure), delivery: Delivery::NotSent } = outcome else {
        return false;
    };
    matches!(**failure, HttpFailure::Status { .. })
}

/// How a call ended over all its links: what an earlier one may have executed, it may have executed.
fn in_all(before: Option<Outcome>, outcome: Outcome) -> Outcome {
    let Some(before) = before else { return outcome };
    match outcome {
        Outcome::Refused(_) => before,
        Outcome::TimedOut { deadline, after, delivery: Delivery::NotSent, stage, seen_bytes } => {
            Outcome::TimedOut { deadline, after, delivery: Delivery::Unknown, stage, seen_bytes }
        }
        Outcome::Cancelled { reason, delivery: Delivery::NotSent } => {
            Outcome::Cancelled { reason, delivery: Delivery::Unknown }
        }
        other => other,
    }
}

/// Waits for a link, until then at the latest; no cause: until then there was none.
fn wait(kept: &Arc<Kept>, doubt: Option<Doubt>, until: Option<Instant>) -> Waiting {
    let kept = Arc::clone(kept);
    Box::pin(async move {
        match until {
            None => kept.link(doubt).await,
            Some(until) => match tokio::time::timeout_at(until, kept.link(doubt)).await {
                Ok(link) => link,
                Err(_) => Err(kept.last_cause()),
            },
        }
    })
}

/// Until when a call may wait for a link: that is silence like any other, unless it has less time for it.
fn patience(kept: &Kept, options: CallOptions, begun: Instant) -> Option<Instant> {
    let idle = Some(options.idle.unwrap_or(kept.limits.call_idle_timeout)).filter(|idle| !idle.is_zero());
    let idle = idle.and_then(|idle| Instant::now().checked_add(idle));
    let total = total(kept, options).and_then(|total| begun.checked_add(total));
    let unlinked = options.unlinked.and_then(|most| Instant::now().checked_add(most));
    [idle, total, unlinked].into_iter().flatten().min()
}

fn total(kept: &Kept, options: CallOptions) -> Option<Duration> {
    Some(options.total.unwrap_or(kept.limits.call_total_timeout)).filter(|total| !total.is_zero())
}

/// What is left of the time in all; nothing: there is no such deadline.
fn total_left(kept: &Kept, options: CallOptions, begun: Instant) -> Option<Duration> {
    total(kept, options).map(|total| total.saturating_sub(begun.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0-73: what may have been executed over an earlier link may have been executed, however a later try ends.
    #[test]
    fn s0_73_a_second_try_does_not_undo_the_first() {
        let lost = Outcome::Lost { cause: Cause::ClosedByPeer, delivery: Delivery::Unknown };
        let unsent = [
            Outcome::Refused(Refusal::NotOpen),
            Outcome::Cancelled { reason: "enough".into(), delivery: Delivery::NotSent },
            Outcome::TimedOut {
                deadline: Deadline::Total,
                after: Duration::from_secs(1),
                delivery: Delivery::NotSent,
                stage: Reached::Queued,
                seen_bytes: 0,
            },
        ];
        for outcome in unsent {
            assert!(!in_all(None, outcome.clone()).may_have_executed(), "{outcome:?}");
            assert!(in_all(Some(lost.clone()), outcome.clone()).may_have_executed(), "{outcome:?}");
        }
        let done = Outcome::Done(Bytes::from_static(b"{}"));
        assert_eq!(in_all(Some(lost), done.clone()), done);
    }
}
