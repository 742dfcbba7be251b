//! One call in progress, and one listen.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use cardan_proto::session::event::{Change, Interest, Progress};
use cardan_runtime::peer::{CallHandle, Happening};
use serde::de::DeserializeOwned;

use crate::client::decode;
use crate::error::{CallError, result_of};

/// A call in progress. Await it for the result, watch its progress, or cancel it; dropping it cancels
/// it on the wire.
#[derive(Debug)]
#[must_use = "dropping a call cancels it"]
pub struct Call<T> {
    handle: CallHandle,
    result: PhantomData<fn() -> T>,
}

impl<T> Call<T> {
    pub(crate) fn new(handle: CallHandle) -> Self {
        Self { handle, result: PhantomData }
    }

    /// The next progress note; nothing: the call has ended, and awaiting it is ready.
    pub async fn progress(&mut self) -> Option<Progress> {
        loop {
            if let Happening::Progress(progress) = self.handle.next().await? {
                return Some(progress);
            }
        }
    }

    /// Gives the call up, on the wire too. Awaiting it then tells so.
    pub fn cancel(&self, reason: &'static str) {
        self.handle.cancel(reason);
    }
}

impl<T: DeserializeOwned> Future for Call<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(outcome) = Pin::new(&mut self.handle).poll(cx) else { return Poll::Pending };
        Poll::Ready(result_of(outcome, || self.handle.report()).and_then(|raw| decode(&raw)))
    }
}

/// A standing interest. Dropping it ends it.
#[derive(Debug)]
#[must_use = "dropping a listen ends it"]
pub struct Listen {
    handle: CallHandle,
}

impl Listen {
    pub(crate) fn new(handle: CallHandle) -> Self {
        Self { handle }
    }

    /// Waits until the server has acknowledged, and tells what it honours.
    pub async fn ready(&mut self) -> Result<Interest, CallError> {
        loop {
            match self.handle.next().await {
                Some(Happening::Listening(interest)) => return Ok(interest),
                Some(_) => {}
                None => return Err(self.why().await),
            }
        }
    }

    /// The next change; nothing: the listen has ended.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            if let Happening::Change(change) = self.handle.next().await? {
                return Some(change);
            }
        }
    }

    /// Why it ended.
    async fn why(&mut self) -> CallError {
        let outcome = (&mut self.handle).await;
        match result_of(outcome, || self.handle.report()) {
            Ok(_) => CallError::Shape("the listen ended before it was acknowledged".into()),
            Err(error) => error,
        }
    }
}
