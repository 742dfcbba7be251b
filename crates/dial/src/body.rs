//! Bodies: ours counted until they are taken, theirs read within a bound.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// Bytes of ours that no connection has taken yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backlog(Arc<AtomicUsize>);

impl Backlog {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A body that counts until it is taken, and who can tell whether it was.
    pub(crate) fn body(&self, bytes: Bytes) -> (Sending, Begun) {
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        // Nobody looks for what is empty, so it cannot be told from what was sent.
        let begun = Begun(Arc::new(AtomicBool::new(bytes.is_empty())));
        (Sending { bytes: Some(bytes), backlog: self.clone(), begun: begun.clone() }, begun)
    }
}

/// Whether a connection may have begun to take a message. One that has taken nothing of it cannot have delivered it.
#[derive(Debug, Clone)]
pub(crate) struct Begun(Arc<AtomicBool>);

impl Begun {
    pub(crate) fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// One message on its way out.
#[derive(Debug)]
pub(crate) struct Sending {
    bytes: Option<Bytes>,
    backlog: Backlog,
    begun: Begun,
}

impl Sending {
    fn take(&mut self) -> Option<Bytes> {
        let bytes = self.bytes.take()?;
        self.backlog.0.fetch_sub(bytes.len(), Ordering::Relaxed);
        Some(bytes)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.take();
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.begun.0.store(true, Ordering::Relaxed);
        let bytes = self.take().filter(|bytes| !bytes.is_empty());
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It is longer than the bound.
    Oversize,
    /// The connection broke.
    Broken(Box<str>),
}

/// A whole body of at most `max_bytes`.
pub(crate) async fn read(mut body: Incoming, max_bytes: usize) -> Result<Bytes, Unread> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Unread::Broken(words(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > max_bytes {
            return Err(Unread::Oversize);
        }
        // Most messages come in one piece, which is passed on without a copy.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&std::mem::take(&mut first));
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// An error with what is behind it, in one line.
pub(crate) fn words(error: &dyn std::error::Error) -> Box<str> {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text.into()
}
