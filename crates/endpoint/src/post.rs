//! A modern POST: one message in, one lane out, and a session that lives no longer.
//!
//! The future that answers the request drives the session; if the answer becomes a stream, its body does.
//! A client that goes away drops either, and with it the handler: closing the stream is the cancel.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use cardan_proto::codec::sse::write_event;
use cardan_proto::era::Era;
use cardan_proto::http::headers::Accepts;
use cardan_proto::http::status::{Stage, of_fault};
use cardan_proto::jsonrpc::envelope::{Decoded, Envelope, Reply};
use cardan_proto::method::Method;
use cardan_proto::session::config::Config;
use cardan_proto::session::event::{Abilities, Cancel, Cause, Departed, LaneId, Outgoing, Pushes};
use cardan_runtime::driver::Driver;
use cardan_runtime::link::{Link, Received};
use cardan_runtime::peer::Peer;
use cardan_runtime::service::{Host, Service};
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};

use crate::body::{self, Body};
use crate::door::{Doorway, Returned};
use crate::pulse::{Pulse, beat};
use crate::reply::Answer;
use crate::wire::{Wire, is_reply};

/// The lane of the POST.
const LANE: LaneId = LaneId(1);

/// The link of one POST.
#[derive(Debug)]
pub(crate) struct PostLink {
    arrived: Option<Decoded>,
    first: Option<Message>,
    more: VecDeque<Message>,
    end: End,
    put: u64,
}

#[derive(Debug)]
struct Message {
    wire: Wire,
    status: StatusCode,
    /// When to come again, in seconds, with a status that says to.
    retry: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Ended,
}

impl PostLink {
    fn new(decoded: Decoded) -> Self {
        Self { arrived: Some(decoded), first: None, more: VecDeque::new(), end: End::Open, put: 0 }
    }

    fn next(&mut self) -> Option<Message> {
        let next = self.first.take()?;
        self.first = self.more.pop_front();
        Some(next)
    }
}

impl Link for PostLink {
    fn poll_recv(&mut self, _cx: &mut Context<'_>) -> Poll<Received> {
        match self.arrived.take() {
            Some(decoded) => Poll::Ready(Received::Read { lane: LANE, decoded }),
            None => Poll::Pending,
        }
    }

    fn put(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        self.put = frame;
        if lane != LANE || self.end == End::Ended {
            return;
        }
        let message_last = is_reply(message);
        let status = status_of(message);
        let retry = (status == StatusCode::TOO_MANY_REQUESTS).then(|| retry_of(message));
        let message = Message { wire: Wire::of(message), status, retry };
        match &self.first {
            None => self.first = Some(message),
            Some(_) => self.more.push_back(message),
        }
        if message_last {
            self.end = End::Ended;
        }
    }

    fn end_lane(&mut self, _lane: LaneId) {
        self.end = End::Ended;
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn queued(&self) -> usize {
        0
    }

    fn departed(&self) -> Departed {
        Departed::through(self.put)
    }

    fn abilities(&self) -> Abilities {
        Abilities { cancel: Cancel::ByClosing, pushes: Pushes::Absent, ..Abilities::STREAM }
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>, _cause: &Cause) -> Poll<()> {
        self.end = End::Ended;
        Poll::Ready(())
    }
}

fn status_of(message: &Outgoing) -> StatusCode {
    match message {
        Outgoing::One(Envelope::Reply(reply)) => match &reply.outcome {
            Ok(_) => StatusCode::OK,
            Err(fault) => of_fault(fault.code, Era::Modern, Stage::Dispatch),
        },
        _ => StatusCode::OK,
    }
}

/// In how many seconds, as far as the fault says.
fn retry_of(message: &Outgoing) -> u64 {
    let Outgoing::One(Envelope::Reply(Reply { outcome: Err(fault), .. })) = message else { return RETRY };
    let data = fault.data.as_deref().and_then(|data| serde_json::from_slice::<serde_json::Value>(data).ok());
    data.and_then(|data| data["retryAfterMs"].as_u64()).map_or(RETRY, |ms| ms.div_ceil(1000))
}

/// Where nothing is said.
const RETRY: u64 = 5;

/// One exchange: the session of a POST while it lasts.
pub(crate) struct Exchange<S: Service> {
    driver: Box<Driver<PostLink, S>>,
    pulse: Pulse,
    /// Until somebody else tells it of the end.
    peer: Option<Peer>,
    /// While the door is closing.
    _returned: Option<Returned>,
}

impl<S: Service> Exchange<S> {
    pub(crate) fn new<H: Host<Service = S>>(
        decoded: Decoded,
        host: &H,
        service: Arc<S>,
        principal: Option<&Arc<str>>,
    ) -> Self {
        Self::with(host.config(principal), decoded, host, service, principal)
    }

    /// The same for a call that was begun before the door was closing: it has the time that is left.
    pub(crate) fn returned<H: Host<Service = S>>(
        returned: Returned,
        decoded: Decoded,
        host: &H,
        service: Arc<S>,
        principal: Option<&Arc<str>>,
    ) -> Self {
        let mut config = Config::clone(&host.config(principal));
        config.limits.drain_timeout = returned.left;
        let exchange = Self::with(Arc::new(config), decoded, host, service, principal);
        Self { _returned: Some(returned), ..exchange }
    }

    fn with<H: Host<Service = S>>(
        config: Arc<Config>,
        decoded: Decoded,
        host: &H,
        service: Arc<S>,
        principal: Option<&Arc<str>>,
    ) -> Self {
        let listens = matches!(&decoded, Decoded::One(Ok(Envelope::Call(call)), _) if call.method == Method::SubscriptionsListen);
        let pulse = Pulse::new(config.limits.keep_alive_interval);
        let (driver, peer) = Driver::new(PostLink::new(decoded), service, config);
        let peer = match listens {
            true => {
                host.joined(peer, principal);
                None
            }
            false => Some(peer),
        };
        Self { driver: Box::new(driver), pulse, peer, _returned: None }
    }

    /// Lets a note take effect.
    pub(crate) async fn note(mut self) {
        std::future::poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(())
        })
        .await;
    }

    /// The answer to a call, in a form that the client accepts.
    pub(crate) async fn answer(
        mut self,
        answer: Answer,
        accepts: Accepts,
        doorway: &Doorway,
    ) -> Response<Body> {
        let form = std::future::poll_fn(|cx| {
            let form = self.poll_form(accepts, cx);
            // Whoever has more to say may be asked to come to an end.
            if matches!(form, Poll::Pending | Poll::Ready(Form::Events))
                && let Some(peer) = self.peer.take()
            {
                doorway.joined(peer);
            }
            form
        })
        .await;
        match form {
            Form::Json(message) => {
                let mut response = answer.json(message.status, message.wire.into_body());
                if let Some(seconds) = message.retry {
                    response.headers_mut().insert(RETRY_AFTER, seconds.into());
                }
                response
            }
            Form::Nothing => answer.status(StatusCode::ACCEPTED),
            Form::Events => answer.lane(self),
        }
    }

    fn poll_form(&mut self, accepts: Accepts, cx: &mut Context<'_>) -> Poll<Form> {
        self.drive(cx);
        let link = self.driver.link_mut();
        if !accepts.event_stream {
            // Only the reply can be told; what came before it is not waited for.
            return match link.end {
                End::Open => {
                    link.first = None;
                    link.more.clear();
                    Poll::Pending
                }
                End::Ended => {
                    let last = link.more.pop_back().or_else(|| link.first.take());
                    Poll::Ready(last.map_or(Form::Nothing, Form::Json))
                }
            };
        }
        match (&link.first, link.end) {
            (None, End::Ended) => Poll::Ready(Form::Nothing),
            // A status other than 200 can be told only while nothing was sent.
            (Some(first), End::Ended)
                if link.more.is_empty() && (accepts.json || first.status != StatusCode::OK) =>
            {
                Poll::Ready(link.next().map_or(Form::Nothing, Form::Json))
            }
            (Some(_), _) => Poll::Ready(Form::Events),
            // A client that waits long is told that we live, which settles the form.
            (None, End::Open) => self.pulse.poll(cx).map(|()| Form::Events),
        }
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        if self.driver.link_mut().end == End::Open && Pin::new(&mut *self.driver).poll(cx).is_ready() {
            self.driver.link_mut().end = End::Ended;
        }
    }
}

/// How a POST is answered.
enum Form {
    Json(Message),
    Events,
    Nothing,
}

impl<S: Service> body::Lane for Exchange<S> {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.drive(cx);
        let link = self.driver.link_mut();
        let mut out = Vec::new();
        while let Some(message) = link.next() {
            write_event(&mut out, None, None, None, &message.wire.joined());
        }
        if !out.is_empty() {
            self.pulse.sent();
            return Poll::Ready(Some(Bytes::from(out)));
        }
        match link.end {
            End::Ended => Poll::Ready(None),
            End::Open => self.pulse.poll(cx).map(|()| Some(beat())),
        }
    }
}
