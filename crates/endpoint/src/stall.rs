//! A connection whose other end must take what we write, within a time.
//!
//! hyper asks a body for more only when there is room, so a client that does not read would hold a stream, and
//! the session behind it, for ever.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// What is written as one piece. Copying a small reply beside its head costs less than having the kernel gather both.
const ONE_PIECE: usize = 1024;

/// The connection.
#[derive(Debug)]
pub(crate) struct Stall<T> {
    inner: T,
    patience: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<T> Stall<T> {
    pub(crate) fn new(inner: T, patience: Duration) -> Self {
        Self { inner, patience, timer: None }
    }

    /// Passes a result of writing on; one that waits must not wait for ever.
    fn watch<R>(&mut self, polled: Poll<io::Result<R>>, cx: &mut Context<'_>) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.timer = None;
            return polled;
        }
        let due = Instant::now() + self.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        timer
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stall<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stall<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = Pin::new(&mut self.inner);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let polled = if parts.len() > 1 && length <= ONE_PIECE {
            let mut piece = [0; ONE_PIECE];
            let mut filled = 0;
            for part in parts {
                piece[filled..filled + part.len()].copy_from_slice(part);
                filled += part.len();
            }
            inner.poll_write(cx, &piece[..filled])
        } else {
            inner.poll_write_vectored(cx, parts)
        };
        self.watch(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(polled, cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes everything, and keeps the pieces apart.
    #[derive(Default)]
    struct Pieces(Vec<Vec<u8>>);

    impl AsyncWrite for Pieces {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.0.extend(parts.iter().map(|part| part.to_vec()));
            Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn written(parts: &[&[u8]]) -> (usize, Vec<Vec<u8>>) {
        let mut stall = Stall::new(Pieces::default(), Duration::from_secs(1));
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let polled =
            Pin::new(&mut stall).poll_write_vectored(&mut Context::from_waker(Waker::noop()), &slices);
        match polled {
            Poll::Ready(Ok(written)) => (written, stall.inner.0),
            other => panic!("not written: {other:?}"),
        }
    }

    #[test]
    fn a_small_reply_leaves_as_one_piece() {
        assert_eq!(written(&[b"head", b"", b"body"]), (8, vec![b"headbody".to_vec()]));
        let half = [b'x'; ONE_PIECE / 2];
        assert_eq!(written(&[&half, &half]).1.len(), 1);
    }

    #[test]
    fn a_large_reply_is_not_copied() {
        let half = [b'x'; ONE_PIECE / 2];
        assert_eq!(written(&[&half, &half, b"y"]).1.len(), 3);
    }
}
