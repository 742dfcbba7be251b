//! HTTPS: a handshake in front of every connection, and then the HTTP that it settled on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cardan_tls::{HTTP, HTTP_2, Identity, TlsError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::listener::Version;

/// Shakes hands as one identity.
#[derive(Clone)]
pub(crate) struct Tls(TlsAcceptor);

impl Tls {
    pub(crate) fn new(identity: &Identity) -> Result<Self, TlsError> {
        Ok(Self(TlsAcceptor::from(Arc::new(identity.server(HTTP)?))))
    }

    /// The handshake. It names the HTTP to speak; who names none gets HTTP/1.1.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<(TlsStream<TcpStream>, Version)> {
        let stream = self.0.accept(stream).await?;
        let version = match stream.get_ref().1.alpn_protocol() {
            Some(HTTP_2) => Version::Two,
            _ => Version::One,
        };
        Ok((stream, version))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// A connection that must begin to speak within a time. hyper would wait without end for the first bytes of HTTP/2.
pub(crate) struct Prompt<T> {
    inner: T,
    /// Until the whole preface has come.
    waits: Option<Pin<Box<Sleep>>>,
    /// How much of it is still to come.
    missing: usize,
}

impl<T> Prompt<T> {
    pub(crate) fn new(inner: T, missing: usize, patience: Duration) -> Self {
        let due = Instant::now() + patience;
        Self { inner, waits: Some(Box::pin(tokio::time::sleep_until(due))), missing }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Prompt<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.missing = self.missing.saturating_sub(buf.filled().len() - before);
        if self.missing == 0 {
            self.waits = None;
        }
        match &mut self.waits {
            Some(waits) if polled.is_pending() => waits
                .as_mut()
                .poll(cx)
                .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client says nothing"))),
            _ => polled,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Prompt<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
