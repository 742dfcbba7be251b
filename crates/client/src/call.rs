//! One call in progress, and one listen.

use std::borrow::Cow;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use cardan_proto::session::event::{Change, Interest, Outcome, Progress};
use cardan_runtime::cx::CallCx;
use cardan_runtime::peer::{CallHandle, Happening};
use cardan_runtime::witness::Report;
use serde::de::DeserializeOwned;

use crate::caller::decode;
use crate::error::{CallError, result_of};
use crate::managed::ear::Ear;
use crate::managed::resend::KeptCall;

/// A call on its way.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is moved once, and a box would cost every kept call")]
pub(crate) enum Flight {
    /// Over one link.
    Once(CallHandle),
    /// Over whatever links there are.
    Kept(KeptCall),
}

impl Flight {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Happening>> {
        match self {
            Self::Once(handle) => handle.poll_next(cx),
            Self::Kept(call) => call.poll_next(cx),
        }
    }

    fn cancel(&self, reason: impl Into<Cow<'static, str>>) {
        match self {
            Self::Once(handle) => handle.cancel(reason),
            Self::Kept(call) => call.cancel(reason.into()),
        }
    }

    fn lead(&mut self, onward: Option<CallCx>) {
        match self {
            Self::Once(handle) => handle.lead(onward),
            Self::Kept(call) => call.lead(onward),
        }
    }

    fn report(&self) -> Report {
        match self {
            Self::Once(handle) => handle.report(),
            Self::Kept(call) => call.report(),
        }
    }
}

impl Future for Flight {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match self.get_mut() {
            Self::Once(handle) => Pin::new(handle).poll(cx),
            Self::Kept(call) => call.poll_outcome(cx),
        }
    }
}

/// A call in progress. Await it for the result, watch its progress, or cancel it; dropping it cancels
/// it on the wire.
#[derive(Debug)]
#[must_use = "dropping a call cancels it"]
pub struct Call<T> {
    flight: Flight,
    result: PhantomData<fn() -> T>,
}

impl<T> Call<T> {
    pub(crate) fn new(flight: Flight) -> Self {
        Self { flight, result: PhantomData }
    }

    /// The next progress note; nothing: the call has ended, and awaiting it is ready.
    pub async fn progress(&mut self) -> Option<Progress> {
        loop {
            let happening = std::future::poll_fn(|cx| self.flight.poll_next(cx)).await;
            if let Happening::Progress(progress) = happening? {
                return Some(progress);
            }
        }
    }

    /// Where its steps go from now on, of a call that is passed on; none: they wait, as many as may.
    pub fn lead(&mut self, onward: Option<CallCx>) {
        self.flight.lead(onward);
    }

    /// How it ended, the result unread. Whoever asks again is told again.
    pub async fn outcome(&mut self) -> Outcome {
        (&mut self.flight).await
    }

    /// Why it brought no result, where how it ended was none and no fault of the server's.
    #[must_use]
    pub fn failure(&self, outcome: &Outcome) -> Option<CallError> {
        match outcome {
            Outcome::Done(_) | Outcome::Fault(_) => None,
            other => result_of(other.clone(), || self.flight.report()).err(),
        }
    }

    /// Gives the call up, on the wire too. Awaiting it then tells so.
    pub fn cancel(&self, reason: &'static str) {
        self.flight.cancel(reason);
    }
}

impl<T: DeserializeOwned> Future for Call<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(outcome) = Pin::new(&mut self.flight).poll(cx) else { return Poll::Pending };
        Poll::Ready(result_of(outcome, || self.flight.report()).and_then(|raw| decode(&raw)))
    }
}

/// A standing interest. Dropping it ends it. Where connections are kept it outlives links: what may have changed
/// in between is told as a change.
#[derive(Debug)]
#[must_use = "dropping a listen ends it"]
pub struct Listen {
    source: Source,
}

/// Where changes come from.
#[derive(Debug)]
enum Source {
    /// One link.
    Once(CallHandle),
    /// Whatever links there are.
    Kept(Owned),
}

/// An ear and who listens with it: gone is gone.
#[derive(Debug)]
struct Owned(Arc<Ear>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Listen {
    pub(crate) fn once(handle: CallHandle) -> Self {
        Self { source: Source::Once(handle) }
    }

    pub(crate) fn kept(ear: Arc<Ear>) -> Self {
        Self { source: Source::Kept(Owned(ear)) }
    }

    /// Waits until the server has acknowledged, and tells what it honours.
    pub async fn ready(&mut self) -> Result<Interest, CallError> {
        loop {
            match self.happening().await {
                Some(Happening::Listening(interest)) => return Ok(interest),
                Some(_) => {}
                None => return Err(self.why().await),
            }
        }
    }

    /// The next change; nothing: the listen has ended.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            if let Happening::Change(change) = self.happening().await? {
                return Some(change);
            }
        }
    }

    /// How many changes were dropped because nobody took them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        match &self.source {
            Source::Once(handle) => handle.dropped(),
            Source::Kept(ear) => ear.0.dropped(),
        }
    }

    async fn happening(&mut self) -> Option<Happening> {
        std::future::poll_fn(|cx| match &mut self.source {
            Source::Once(handle) => handle.poll_next(cx),
            Source::Kept(ear) => ear.0.poll_next(cx),
        })
        .await
    }

    /// Why it ended.
    async fn why(&mut self) -> CallError {
        let (outcome, report) = match &mut self.source {
            Source::Once(handle) => ((&mut *handle).await, handle.report()),
            Source::Kept(ear) => (ear.0.outcome(), Report::default()),
        };
        match result_of(outcome, || report) {
            Ok(_) => CallError::Shape("the listen ended before it was acknowledged".into()),
            Err(error) => error,
        }
    }
}
