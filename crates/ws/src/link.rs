//! The link over a WebSocket: one message per text frame, one lane.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::finding::{Rule, excerpt};
use cardan_proto::jsonrpc::envelope::Violation;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::Role;
use cardan_proto::session::event::{Abilities, Cause, Departed, Framing, LaneId, Outgoing};
use cardan_proto::socket::{self, CloseCode};
use cardan_runtime::link::{Link, Received};
use futures_core::Stream;
use futures_sink::Sink;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep};
use tokio_websockets::proto::ProtocolError;
use tokio_websockets::{Error, Message, WebSocketStream};

use crate::count::Counted;
use crate::layer;
use crate::ledger::Ledger;
use crate::pulse::{Pulse, Silence};

/// Messages over a WebSocket whose handshake is done.
pub struct WsLink<S> {
    socket: WebSocketStream<Counted<S>>,
    role: Role,
    ledger: Ledger,
    pulse: Pulse,
    writing: Writing,
    /// What was received was the last thing, and this is why.
    ending: Option<Cause>,
    farewell: Option<Farewell>,
    excerpt_bytes: usize,
    pongs: usize,
    drain_timeout: Duration,
    farewell_timeout: Duration,
}

/// How the last write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// With nothing left.
    Done,
    /// The peer did not take it all.
    Behind,
}

/// Our part of closing.
#[derive(Debug)]
struct Farewell {
    stage: Stage,
    timer: Pin<Box<Sleep>>,
}

/// How far closing has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// What was put is being written, the close frame last.
    Writing,
    /// The peer's close frame is waited for.
    Waiting,
    Done,
}

/// Frames that are no messages, taken in one go before others get their turn.
const CONTROLS_PER_POLL: usize = 64;

impl<S: AsyncRead + AsyncWrite + Unpin> WsLink<S> {
    /// The server's end.
    pub fn server(stream: S, limits: &Limits) -> Self {
        Self::new(layer::server(Counted::new(stream), limits), Role::Server, limits)
    }

    /// The client's end.
    pub fn client(stream: S, limits: &Limits) -> Self {
        Self::new(layer::client(Counted::new(stream), limits), Role::Client, limits)
    }

    fn new(socket: WebSocketStream<Counted<S>>, role: Role, limits: &Limits) -> Self {
        Self {
            socket,
            role,
            ledger: Ledger::new(role, limits.socket_frame_bytes),
            pulse: Pulse::new(limits),
            writing: Writing::Done,
            ending: None,
            farewell: None,
            excerpt_bytes: limits.excerpt_bytes,
            pongs: limits.socket_pongs,
            drain_timeout: limits.drain_timeout,
            farewell_timeout: limits.farewell_timeout,
        }
    }

    /// What a message means; nothing: it was a sign of life.
    fn take(&mut self, message: Message) -> Option<Received> {
        if message.is_text() {
            let bytes = Bytes::from(message.into_payload());
            return Some(Received::Frame { lane: LaneId::MAIN, bytes });
        }
        if message.is_binary() {
            let seen = format!("a binary message of {} bytes", message.as_payload().len());
            return Some(self.broken(Rule::Binary, seen.into()));
        }
        if let Some((code, reason)) = message.as_close() {
            let code = CloseCode::of(code.into());
            let reason = excerpt(reason.as_bytes(), self.excerpt_bytes);
            return Some(Received::Ended(Cause::Closed { code, reason }));
        }
        if message.is_ping() {
            // The layer below has answered it already.
            self.ledger.pong(message.as_payload().len());
            self.settle();
            if self.ledger.pongs() > self.pongs {
                return Some(Received::Ended(Cause::Stalled));
            }
        }
        None
    }

    /// What came is no message, and nothing after it will be read.
    fn broken(&mut self, rule: Rule, excerpt: Box<str>) -> Received {
        self.ending = Some(Cause::Violated(rule));
        Received::Broken { lane: LaneId::MAIN, violation: Violation::of(rule), excerpt }
    }

    fn failed(&mut self, error: Error) -> Received {
        match error {
            Error::PayloadTooLong { len, .. } => {
                self.broken(Rule::Oversize, format!("a message of at least {len} bytes").into())
            }
            Error::Protocol(ProtocolError::InvalidUtf8) => {
                self.broken(Rule::NotUtf8, "a text message that is not UTF-8".into())
            }
            Error::Protocol(error) => self.broken(Rule::SocketFraming, error.to_string().into()),
            other => Received::Ended(Cause::Io(other.to_string().into())),
        }
    }

    /// Nothing to read: is the peer still there?
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        // What was put and not offered yet says nothing of the peer.
        if self.writing == Writing::Behind {
            self.pulse.excuse();
        }
        let seen = self.socket.get_ref().read();
        loop {
            match ready!(self.pulse.poll(seen, cx)) {
                // The driver writes it when there is nothing more to read.
                Silence::Ask if self.send(Message::ping("")) => self.ledger.control(0),
                Silence::Ask => {}
                Silence::Dead(after) => return Poll::Ready(Received::Ended(Cause::Silent(after))),
            }
        }
    }

    /// Hands a message over; false: the WebSocket is closing.
    fn send(&mut self, message: Message) -> bool {
        Pin::new(&mut self.socket).start_send(message).is_ok()
    }

    /// Looks how much is written. Only here, so that the driver sees every step from one flush to the next.
    fn settle(&mut self) {
        self.ledger.settle(self.socket.get_ref().written());
    }

    /// Says why we leave, where the peer can still hear it.
    fn say_farewell(&mut self, cause: &Cause) -> Farewell {
        let stage = if matches!(cause, Cause::Io(_) | Cause::Stalled) { Stage::Done } else { Stage::Writing };
        // Where there is nothing to tell, the peer closed first, and the layer below answers it.
        if let Some(code) = CloseCode::to_tell(cause, self.role)
            && let Ok(code) = tokio_websockets::CloseCode::try_from(code.number())
        {
            let words = cause.to_string();
            let reason = socket::reason(&words);
            if self.send(Message::close(Some(code), reason)) {
                self.ledger.control(2 + reason.len());
            }
        }
        Farewell { stage, timer: Box::pin(sleep(self.drain_timeout)) }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Link for WsLink<S> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        if let Some(cause) = self.ending.take() {
            return Poll::Ready(Received::Ended(cause));
        }
        for _ in 0..CONTROLS_PER_POLL {
            let received = match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Pending => return self.poll_silence(cx),
                Poll::Ready(Some(Ok(message))) => self.take(message),
                Poll::Ready(Some(Err(error))) => Some(self.failed(error)),
                Poll::Ready(None) => {
                    let why = "the peer cut the connection without a close frame";
                    Some(Received::Ended(Cause::Io(why.into())))
                }
            };
            if let Some(received) = received {
                return Poll::Ready(received);
            }
        }
        // A flood of pings is read on, but not before handlers and writing had their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn put(&mut self, frame: u64, _lane: LaneId, message: &Outgoing) {
        let mut bytes = Vec::with_capacity(256);
        message.write(&mut bytes);
        let len = bytes.len();
        if self.send(Message::text(bytes)) {
            self.ledger.message(frame, len);
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.settle();
        self.writing = if self.ledger.queued() > 0 { Writing::Behind } else { Writing::Done };
        flushed.map_err(|error| match error {
            Error::Io(error) => error,
            other => io::Error::other(other),
        })
    }

    fn queued(&self) -> usize {
        self.ledger.queued()
    }

    fn departed(&self) -> Departed {
        Departed::through(self.ledger.written())
    }

    fn abilities(&self) -> Abilities {
        Abilities { framing: Framing::Whole, ..Abilities::STREAM }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, cause: &Cause) -> Poll<()> {
        let mut farewell = self.farewell.take().unwrap_or_else(|| self.say_farewell(cause));
        // The time comes first: a peer that keeps sending must not make us read for ever.
        if farewell.stage != Stage::Done
            && (farewell.timer.as_mut().poll(cx).is_ready()
                || Pin::new(&mut self.socket).poll_close(cx).is_ready())
        {
            farewell.stage = Stage::Done;
        }
        self.settle();
        if farewell.stage == Stage::Writing && self.ledger.queued() == 0 {
            farewell.stage = Stage::Waiting;
            farewell.timer.as_mut().reset(Instant::now() + self.farewell_timeout);
            if farewell.timer.as_mut().poll(cx).is_ready() {
                farewell.stage = Stage::Done;
            }
        }
        let done = farewell.stage == Stage::Done;
        self.farewell = Some(farewell);
        if done { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<S> fmt::Debug for WsLink<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsLink")
            .field("role", &self.role)
            .field("ledger", &self.ledger)
            .field("farewell", &self.farewell)
            .finish_non_exhaustive()
    }
}
