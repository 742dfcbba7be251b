//! The link over any pair of byte streams: one message per line.
//!
//! stdio, child processes, Unix sockets and TCP are all this.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use cardan_proto::codec::{Line, LineDecoder};
use cardan_proto::finding::{Rule, excerpt};
use cardan_proto::jsonrpc::envelope::Violation;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, Departed, LaneId, Outgoing};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Sleep, sleep};

use crate::link::{Link, Received};
use crate::outbox::Outbox;

/// Lines over a reader and a writer.
#[derive(Debug)]
pub struct Lines<R, W> {
    reader: Option<R>,
    writer: Option<W>,
    decoder: LineDecoder,
    inbuf: BytesMut,
    received_bytes: u64,
    out: Outbox,
    limits: Limits,
    /// Runs while we close and the peer does not take what waits.
    closing: Option<Pin<Box<Sleep>>>,
}

impl<R, W> Lines<R, W> {
    /// A link over `reader` and `writer`.
    pub fn new(reader: R, writer: W, limits: &Limits) -> Self {
        Self {
            reader: Some(reader),
            writer: Some(writer),
            decoder: LineDecoder::new(limits.frame_bytes).keeping_head(limits.excerpt_bytes),
            inbuf: BytesMut::new(),
            received_bytes: 0,
            out: Outbox::default(),
            limits: limits.clone(),
            closing: None,
        }
    }

    /// Closes our direction: the peer reads an end of file.
    pub fn close_writer(&mut self) {
        self.writer = None;
    }

    fn received(&self, line: Line) -> Received {
        let lane = LaneId::MAIN;
        match line {
            Line::Frame(bytes) => Received::Frame { lane, bytes },
            // Whom it answers is told by its head, if that is where it says so: that call need not wait.
            Line::Oversize { bytes, head } => Received::Broken {
                lane,
                violation: Violation::in_head(Rule::Oversize, &head, &self.limits),
                excerpt: format!("a line of {bytes} bytes").into(),
            },
            // A fragment is never taken for a message: its end may be missing.
            Line::Unterminated(bytes) => Received::Broken {
                lane,
                violation: Violation::of(Rule::Unterminated),
                excerpt: format!("{} bytes: {}", bytes.len(), excerpt(&bytes, self.limits.excerpt_bytes))
                    .into(),
            },
        }
    }
}

/// A read asks for at least this much room.
const READ_BYTES: usize = 8 << 10;

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Unpin,
{
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(reader) = &mut self.reader else { return Poll::Ready(Ok(0)) };
        if self.inbuf.capacity() - self.inbuf.len() < READ_BYTES / 2 {
            self.inbuf.reserve(READ_BYTES);
        }
        pin!(reader.read_buf(&mut self.inbuf)).poll(cx)
    }
}

impl<R, W> Link for Lines<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        loop {
            if let Some(line) = self.decoder.next(&mut self.inbuf) {
                return Poll::Ready(self.received(line));
            }
            if self.reader.is_none() {
                return Poll::Ready(match self.decoder.finish(&mut self.inbuf) {
                    Some(line) => self.received(line),
                    None => Received::ReadClosed,
                });
            }
            match ready!(self.poll_fill(cx)) {
                Ok(0) => self.reader = None,
                Ok(n) => self.received_bytes += n as u64,
                Err(error) => {
                    self.reader = None;
                    return Poll::Ready(Received::Ended(Cause::Io(error.to_string().into())));
                }
            }
        }
    }

    fn put(&mut self, frame: u64, _lane: LaneId, message: &Outgoing) {
        if self.writer.is_some() {
            self.out.push(frame, message);
        }
    }

    fn put_ahead(&mut self, frame: u64, _lane: LaneId, message: &Outgoing) {
        if self.writer.is_some() {
            self.out.push_ahead(frame, message);
        }
    }

    fn retract(&mut self, frame: u64) {
        self.out.retract(frame);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writer) = &mut self.writer else { return Poll::Ready(Ok(())) };
        while !self.out.waiting().is_empty() {
            let n = ready!(Pin::new(&mut *writer).poll_write(cx, self.out.waiting()))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(n);
        }
        Pin::new(writer).poll_flush(cx)
    }

    fn queued(&self) -> usize {
        self.out.bytes()
    }

    fn departed(&self) -> Departed {
        self.out.departed()
    }

    fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    fn begun(&self) -> &[u8] {
        // After a turn of many frames there may be whole lines yet: those are no rest.
        if self.decoder.has_searched(&self.inbuf) { &self.inbuf } else { &[] }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<()> {
        if self.writer.is_none() {
            return Poll::Ready(());
        }
        if self.poll_farewell(cx, cause).is_pending() {
            let drain_timeout = self.limits.drain_timeout;
            let timer = self.closing.get_or_insert_with(|| Box::pin(sleep(drain_timeout)));
            ready!(timer.as_mut().poll(cx));
        }
        self.writer = None;
        Poll::Ready(())
    }
}

impl<R, W: AsyncWrite + Unpin> Lines<R, W> {
    /// Writes what was promised and ends our direction, unless the peer is gone or does not take it.
    fn poll_farewell(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<()> {
        let Some(writer) = &mut self.writer else { return Poll::Ready(()) };
        if !matches!(cause, Cause::Stalled | Cause::Io(_)) {
            while !self.out.waiting().is_empty() {
                match ready!(Pin::new(&mut *writer).poll_write(cx, self.out.waiting())) {
                    Ok(n) if n > 0 => self.out.advance(n),
                    _ => break,
                }
            }
            // A writer may hold what it took, as that of a file does in its thread; and its end does not
            // have to wait for that.
            let _ = ready!(Pin::new(&mut *writer).poll_flush(cx));
        }
        Pin::new(writer).poll_shutdown(cx).map(drop)
    }
}
