//! The streams of one HTTP/2 connection, and whether their reader takes what there is.
//!
//! A client gives each stream a window of its own, so it can leave one of them full for ever while the connection
//! itself is well. hyper holds a piece of a body back until there is room for it in that window, and asks for no other
//! meanwhile: a body that was not asked for a while after it gave something is stalled. What feeds it is let go then,
//! and the stream is reset as soon as it is touched again. When nothing else is left on a connection, that ends too;
//! before that it would cost the other streams, which may be those of other clients behind one proxy.
//!
//! There is room as soon as one byte has it, so of the last piece nobody would learn whether it was taken. Hence the
//! last byte goes by itself: where it has room, all before it had.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::time::Instant;

use crate::body::Body;

/// How much is handed out at once, so that a slow reader of much is seen to read.
const CHUNK: usize = 16 << 10;

/// The streams of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    streams: Arc<Mutex<Vec<Weak<Mutex<Stream>>>>>,
    patience: Duration,
}

/// One stream.
#[derive(Debug)]
enum Stream {
    /// The answer is being made.
    Asked,
    /// It is there. Since when it has something to give and was not asked for it: nothing, it waits itself.
    Answered { body: Body, rest: Bytes, offered: Option<Instant> },
    /// Its reader did not take it.
    Stalled,
}

/// What the streams of a connection amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// There are none, or some that are well.
    Well,
    /// There is nothing but stalled ones.
    Stalled,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { streams: Arc::default(), patience }
    }

    /// The same service, with its bodies watched.
    pub(crate) fn over<S>(&self, inner: S) -> Watching<S> {
        Watching { inner, watch: self.clone() }
    }

    /// Lets go of what nobody reads; done when nothing but that is left.
    pub(crate) async fn stalled(&self) {
        let pause = (self.patience / 4).max(Duration::from_millis(10));
        loop {
            tokio::time::sleep(pause).await;
            if self.sweep() == Standing::Stalled {
                return;
            }
        }
    }

    fn open(&self) -> Arc<Mutex<Stream>> {
        let stream = Arc::new(Mutex::new(Stream::Asked));
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&stream));
        stream
    }

    fn sweep(&self) -> Standing {
        let streams: Vec<_> = {
            let mut streams = lock(&self.streams);
            streams.retain(|stream| stream.strong_count() > 0);
            streams.iter().filter_map(Weak::upgrade).collect()
        };
        let mut standing = if streams.is_empty() { Standing::Well } else { Standing::Stalled };
        for stream in streams {
            // Whoever holds it is asking it right now.
            let Ok(mut stream) = stream.try_lock() else {
                standing = Standing::Well;
                continue;
            };
            let is_stalled = match &*stream {
                Stream::Asked => false,
                Stream::Answered { offered, .. } => {
                    offered.is_some_and(|offered| offered.elapsed() >= self.patience)
                }
                Stream::Stalled => true,
            };
            if !is_stalled {
                standing = Standing::Well;
                continue;
            }
            let gone = std::mem::replace(&mut *stream, Stream::Stalled);
            drop(stream);
            // Handlers end here, and may take their time.
            drop(gone);
        }
        standing
    }
}

/// A service whose bodies are watched.
#[derive(Debug)]
pub(crate) struct Watching<S> {
    inner: S,
    watch: Watch,
}

impl<S> Service<Request<Incoming>> for Watching<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Watched>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Watched>, S::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (answering, stream) = (self.inner.call(request), self.watch.open());
        Box::pin(async move {
            let (head, body) = answering.await?.into_parts();
            let body = Watched::new(stream, body);
            Ok(Response::from_parts(head, body))
        })
    }
}

/// A body that is watched.
#[derive(Debug)]
pub(crate) struct Watched {
    stream: Arc<Mutex<Stream>>,
}

impl Watched {
    fn new(stream: Arc<Mutex<Stream>>, body: Body) -> Self {
        // A window that is shut from the start is never asked at all.
        *lock(&stream) = Stream::Answered { body, rest: Bytes::new(), offered: Some(Instant::now()) };
        Self { stream }
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let mut stream = lock(&self.stream);
        let Stream::Answered { body, rest, offered } = &mut *stream else {
            let error = io::Error::new(io::ErrorKind::TimedOut, "the client does not read");
            return Poll::Ready(Some(Err(error)));
        };
        *offered = None;
        while rest.is_empty() {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => *rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                Poll::Ready(Some(Err(never))) => match never {},
            }
        }
        *offered = Some(Instant::now());
        let piece = rest.split_to((rest.len() - 1).clamp(1, CHUNK));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match &*lock(&self.stream) {
            Stream::Answered { body, rest, .. } => rest.is_empty() && body.is_end_stream(),
            Stream::Asked | Stream::Stalled => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &*lock(&self.stream) {
            Stream::Answered { body, rest, .. } if rest.is_empty() => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
