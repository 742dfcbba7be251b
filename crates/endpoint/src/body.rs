//! What we answer with: nothing, one message, or a lane that goes on.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::options::Revoked;

/// A body of ours.
pub struct Body(Kind);

enum Kind {
    Empty,
    Full(Bytes),
    Parts(std::array::IntoIter<Bytes, 3>),
    Lane(Box<dyn Lane>),
}

/// Where the bytes of a stream come from.
pub(crate) trait Lane: Send {
    /// The next bytes; nothing: the stream has ended.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

impl Body {
    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// These bytes.
    #[must_use]
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(if bytes.is_empty() { Kind::Empty } else { Kind::Full(bytes) })
    }

    pub(crate) fn parts(parts: [Bytes; 3]) -> Self {
        Self(Kind::Parts(parts.into_iter()))
    }

    pub(crate) fn lane(lane: impl Lane + 'static) -> Self {
        Self(Kind::Lane(Box::new(lane)))
    }
}

impl Body {
    /// A lane ends when the token is good no more by which it was opened; everything else is said at once.
    pub(crate) fn until(self, revoked: impl FnOnce() -> Option<Revoked>) -> Self {
        match self.0 {
            Kind::Lane(lane) => match revoked() {
                Some(revoked) => Self::lane(Until { lane, revoked }),
                None => Self(Kind::Lane(lane)),
            },
            _ => self,
        }
    }
}

/// A lane with an end that it does not know of.
struct Until {
    lane: Box<dyn Lane>,
    revoked: Revoked,
}

impl Lane for Until {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self.revoked.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => self.lane.poll_bytes(cx),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let kind = &mut self.get_mut().0;
        match kind {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                *kind = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Parts(parts) => Poll::Ready(parts.next().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Lane(lane) => match lane.poll_bytes(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Poll::Ready(None) => {
                    *kind = Kind::Empty;
                    Poll::Ready(None)
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Parts(parts) => parts.as_slice().is_empty(),
            Kind::Full(_) | Kind::Lane(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Parts(parts) => {
                SizeHint::with_exact(parts.as_slice().iter().map(|part| part.len() as u64).sum())
            }
            Kind::Lane(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Empty => "Body::empty",
            Kind::Full(_) => "Body::full",
            Kind::Parts(_) => "Body::parts",
            Kind::Lane(_) => "Body::lane",
        })
    }
}
