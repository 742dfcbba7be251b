//! The link over any pair of byte streams: one message per line.
//!
//! stdio, child processes, Unix sockets and TCP are all this.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use cardan_proto::codec::{Line, LineDecoder};
use cardan_proto::finding::{Rule, excerpt};
use cardan_proto::jsonrpc::envelope::Violation;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, LaneId, Outgoing};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use crate::link::{Link, Received};

/// Lines over a reader and a writer.
#[derive(Debug)]
pub struct Lines<R, W> {
    reader: Option<R>,
    writer: Option<W>,
    decoder: LineDecoder,
    inbuf: BytesMut,
    out: Outbox,
    excerpt_bytes: usize,
}

impl<R, W> Lines<R, W> {
    /// A link over `reader` and `writer`.
    pub fn new(reader: R, writer: W, limits: &Limits) -> Self {
        Self {
            reader: Some(reader),
            writer: Some(writer),
            decoder: LineDecoder::new(limits.frame_bytes),
            inbuf: BytesMut::new(),
            out: Outbox::default(),
            excerpt_bytes: limits.excerpt_bytes,
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
            Line::Oversize { bytes } => Received::Broken {
                lane,
                violation: Violation::of(Rule::Oversize),
                excerpt: format!("a line of {bytes} bytes").into(),
            },
            // A fragment is never taken for a message: its end may be missing.
            Line::Unterminated(bytes) => Received::Broken {
                lane,
                violation: Violation::of(Rule::Unterminated),
                excerpt: format!("{} bytes: {}", bytes.len(), excerpt(&bytes, self.excerpt_bytes)).into(),
            },
        }
    }
}

/// Bytes that wait, and where each message in them ends.
#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    /// How much of `bytes` is written.
    done: usize,
    /// Where in `bytes` each message ends that is not written in full.
    ends: VecDeque<usize>,
    written: u64,
}

impl Outbox {
    fn push(&mut self, message: &Outgoing) {
        message.write(&mut self.bytes);
        self.bytes.push(b'\n');
        self.ends.push_back(self.bytes.len());
    }

    fn advance(&mut self, n: usize) {
        self.done += n;
        while self.ends.front().is_some_and(|end| *end <= self.done) {
            self.ends.pop_front();
            self.written += 1;
        }
        if self.done == self.bytes.len() {
            self.bytes.clear();
            self.done = 0;
            // One large reply must not pin its size for ever.
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }
}

/// A buffer larger than this is given back when it is empty.
const KEPT_BYTES: usize = 1 << 20;

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
                Ok(_) => {}
                Err(error) => {
                    self.reader = None;
                    return Poll::Ready(Received::Ended(Cause::Io(error.to_string().into())));
                }
            }
        }
    }

    fn put(&mut self, _lane: LaneId, message: &Outgoing) {
        if self.writer.is_some() {
            self.out.push(message);
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writer) = &mut self.writer else { return Poll::Ready(Ok(())) };
        while self.out.done < self.out.bytes.len() {
            let n = ready!(Pin::new(&mut *writer).poll_write(cx, &self.out.bytes[self.out.done..]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(n);
        }
        Pin::new(writer).poll_flush(cx)
    }

    fn queued(&self) -> usize {
        self.out.bytes.len() - self.out.done
    }

    fn written(&self) -> u64 {
        self.out.written
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<()> {
        if let Some(writer) = &mut self.writer {
            // What was promised is written, unless the peer is gone or does not take it.
            if !matches!(cause, Cause::Stalled | Cause::Io(_)) {
                while self.out.done < self.out.bytes.len() {
                    match ready!(Pin::new(&mut *writer).poll_write(cx, &self.out.bytes[self.out.done..])) {
                        Ok(n) if n > 0 => self.out.advance(n),
                        _ => break,
                    }
                }
            }
            let _ = ready!(Pin::new(writer).poll_shutdown(cx));
            self.writer = None;
        }
        Poll::Ready(())
    }
}
