//! The old HTTP+SSE transport: one stream down, POSTs up.
//!
//! The body of the stream drives the session, and the session ends with it. POSTs only leave their message in
//! the stream's inlet. Where the host speaks the tutorial dialect, clients may name their stream by a header of their own;
//! elsewhere that header means nothing.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use cardan_proto::codec::sse::write_event;
use cardan_proto::dialect::Dialect;
use cardan_proto::dialect::quirk::Quirk;
use cardan_proto::http::headers::{self, Accepts, Content, X_CLIENT_ID, single_text};
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, Departed, LaneId, Outgoing};
use cardan_runtime::driver::Driver;
use cardan_runtime::link::{Link, Received};
use cardan_runtime::service::{Host, Service};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::body::{self, Body};
use crate::door::{CLOSING, Door};
use crate::endpoint::Shared;
use crate::ingress::{authorized, read_body};
use crate::pulse::{Pulse, beat};
use crate::reply::Answer;
use crate::sessions::SessionId;
use crate::wire::Wire;

/// The query parameter that names a stream.
const QUERY: &str = "sessionId=";

/// The streams that are open, by what their POSTs call them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Streams(Arc<Mutex<HashMap<Box<str>, Weak<Inlet>>>>);

impl Streams {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Weak<Inlet>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn find(&self, name: &str) -> Option<Arc<Inlet>> {
        self.lock().get(name).and_then(Weak::upgrade)
    }

    /// Opens an inlet.
    fn open(&self, name: &str, principal: Option<Arc<str>>, max: usize) -> Result<Arc<Inlet>, Unopened> {
        let mut streams = self.lock();
        if streams.get(name).is_some_and(|inlet| inlet.strong_count() > 0) {
            return Err(Unopened::Taken);
        }
        if streams.len() >= max {
            return Err(Unopened::TooMany);
        }
        let inlet = Arc::new(Inlet { inner: Mutex::default(), principal });
        streams.insert(name.into(), Arc::downgrade(&inlet));
        Ok(inlet)
    }

    fn close(&self, name: &str) {
        self.lock().remove(name);
    }
}

/// Why a stream is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unopened {
    /// Another one has this name.
    Taken,
    /// There are too many.
    TooMany,
}

/// Where POSTs leave what they bring.
#[derive(Debug)]
struct Inlet {
    inner: Mutex<Waiting>,
    principal: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
    waker: Option<Waker>,
}

impl Inlet {
    /// Leaves a message; false: too many wait already, or too much.
    fn put(&self, frame: Bytes, limits: &Limits) -> bool {
        let waker = {
            let mut waiting = self.lock();
            let full = !waiting.frames.is_empty() && waiting.bytes + frame.len() > limits.inlet_bytes;
            if full || waiting.frames.len() >= limits.calls_inbound {
                return false;
            }
            waiting.bytes += frame.len();
            waiting.frames.push_back(frame);
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The link of one stream.
#[derive(Debug)]
struct StreamLink {
    inlet: Arc<Inlet>,
    waiting: VecDeque<Bytes>,
    bytes: usize,
    put: u64,
}

impl Link for StreamLink {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        let mut waiting = self.inlet.lock();
        match waiting.frames.pop_front() {
            Some(bytes) => {
                waiting.bytes -= bytes.len();
                Poll::Ready(Received::Frame { lane: LaneId::MAIN, bytes })
            }
            None => {
                waiting.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn put(&mut self, frame: u64, _lane: LaneId, message: &Outgoing) {
        let message = Wire::of(message).joined();
        self.bytes += message.len();
        self.waiting.push_back(message);
        self.put = frame;
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The body takes what waits as soon as the driver is done.
        Poll::Ready(Ok(()))
    }

    fn queued(&self) -> usize {
        self.bytes
    }

    fn departed(&self) -> Departed {
        Departed::through(self.put)
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>, _cause: &Cause) -> Poll<()> {
        Poll::Ready(())
    }
}

/// The body of a stream.
struct Stream<S: Service> {
    driver: Box<Driver<StreamLink, S>>,
    opening: Bytes,
    phase: Phase,
    pulse: Pulse,
    name: Box<str>,
    streams: Streams,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Ended,
}

impl<S: Service> body::Lane for Stream<S> {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.opening.is_empty() {
            return Poll::Ready(Some(std::mem::take(&mut self.opening)));
        }
        if self.phase == Phase::Running && Pin::new(&mut *self.driver).poll(cx).is_ready() {
            self.phase = Phase::Ended;
        }
        let link = self.driver.link_mut();
        let mut out = Vec::with_capacity(link.bytes + 32 * link.waiting.len());
        for message in link.waiting.drain(..) {
            write_event(&mut out, Some("message"), None, None, &message);
        }
        link.bytes = 0;
        if !out.is_empty() {
            self.pulse.sent();
            return Poll::Ready(Some(Bytes::from(out)));
        }
        match self.phase {
            Phase::Ended => Poll::Ready(None),
            Phase::Running => self.pulse.poll(cx).map(|()| Some(beat())),
        }
    }
}

impl<S: Service> Drop for Stream<S> {
    fn drop(&mut self) {
        self.streams.close(&self.name);
    }
}

/// Opens a stream.
pub(crate) fn open<H: Host>(shared: &Shared<H>, parts: Parts) -> Response<Body> {
    let principal = match guarded(shared, &parts) {
        Ok(principal) => principal,
        Err(refusal) => return Answer::on(parts.headers).refusal(*refusal),
    };
    if parts.method != Method::GET {
        return wrong_method(parts.headers, "GET");
    }
    if let Accepts { event_stream: false, .. } = headers::accepts(&parts.headers) {
        let why = "accept must admit text/event-stream";
        return Answer::on(parts.headers).bad(StatusCode::NOT_ACCEPTABLE, why);
    }
    if shared.doorway.door() == Door::Closing {
        return Answer::on(parts.headers).busy(StatusCode::SERVICE_UNAVAILABLE, CLOSING);
    }
    let config = shared.host.config(None);
    let limits = &config.limits;
    let Ok(named) = client_id(&parts.headers, config.dialect) else {
        let why =
            "header x-client-id must be one name of letters, digits, dots, dashes, underscores and tildes";
        return Answer::on(parts.headers).bad(StatusCode::BAD_REQUEST, why);
    };
    let name: Box<str> = match (named.map(Box::from), SessionId::mint()) {
        (Some(name), _) => name,
        (None, Some(id)) => id.text().into(),
        (None, None) => return Answer::on(parts.headers).status(StatusCode::INTERNAL_SERVER_ERROR),
    };
    let inlet = match shared.streams.open(&name, principal.clone(), limits.sessions) {
        Ok(inlet) => inlet,
        Err(Unopened::Taken) => {
            let why = "this stream is open already, close it first or name another";
            return Answer::on(parts.headers).bad(StatusCode::CONFLICT, why);
        }
        Err(Unopened::TooMany) => {
            let why = "too many streams are open, try again later";
            return Answer::on(parts.headers).busy(StatusCode::SERVICE_UNAVAILABLE, why);
        }
    };
    let messages = shared.paths.messages.as_deref().unwrap_or_default();
    let mut opening = Vec::new();
    write_event(&mut opening, Some("endpoint"), None, None, format!("{messages}?{QUERY}{name}").as_bytes());
    let link = StreamLink { inlet, waiting: VecDeque::new(), bytes: 0, put: 0 };
    let service = shared.host.service(principal.as_ref());
    let (driver, peer) = Driver::new(link, service, shared.host.config(principal.as_ref()));
    shared.host.joined(peer, principal.as_ref());
    Answer::on(parts.headers).lane(Stream {
        driver: Box::new(driver),
        opening: Bytes::from(opening),
        phase: Phase::Running,
        pulse: Pulse::new(limits.keep_alive_interval),
        name,
        streams: shared.streams.clone(),
    })
}

/// Takes a message for an open stream.
pub(crate) async fn post<H: Host, B>(shared: &Shared<H>, parts: Parts, body: B) -> Response<Body>
where
    B: http_body::Body<Data = Bytes>,
{
    let principal = match guarded(shared, &parts) {
        Ok(principal) => principal,
        Err(refusal) => return Answer::on(parts.headers).refusal(*refusal),
    };
    if parts.method != Method::POST {
        return wrong_method(parts.headers, "POST");
    }
    if headers::content(&parts.headers) != Content::Json {
        let why = "content-type must be application/json";
        return Answer::on(parts.headers).bad(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
    }
    let query = parts.uri.query().unwrap_or_default();
    let queried = query.split('&').find_map(|pair| pair.strip_prefix(QUERY));
    let config = shared.host.config(None);
    let named = queried.or_else(|| client_id(&parts.headers, config.dialect).ok().flatten());
    let inlet = named.and_then(|name| shared.streams.find(name)).filter(|inlet| inlet.principal == principal);
    let answer = Answer::on(parts.headers);
    let Some(inlet) = inlet else {
        return answer
            .bad(StatusCode::NOT_FOUND, "no such stream, open one first and post to the address it names");
    };
    let limits = &config.limits;
    match read_body(body, limits).await.map(|body| inlet.put(body, limits)) {
        Ok(true) => {
            let mut response = answer.status(StatusCode::ACCEPTED);
            // Clients of the day looked for a word.
            *response.body_mut() = Body::full("Accepted");
            response
        }
        Ok(false) => {
            answer.busy(StatusCode::TOO_MANY_REQUESTS, "the stream is not read fast enough, try again later")
        }
        Err(unread) => {
            let (status, why) = unread.status();
            answer.bad(status, why)
        }
    }
}

/// The name that a client gives its stream, where the dialect has such a thing.
fn client_id(headers: &HeaderMap, dialect: Dialect) -> Result<Option<&str>, Unnamed> {
    if !dialect.grants(Quirk::ClientIdHeader) {
        return Ok(None);
    }
    let named = single_text(&X_CLIENT_ID, headers).map_err(|_| Unnamed)?;
    if named.is_none_or(is_name) { Ok(named) } else { Err(Unnamed) }
}

/// There is more than one name, or it is none.
struct Unnamed;

/// A name becomes part of an address, so it has only what means nothing there.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

pub(crate) type Refused = Box<cardan_proto::http::ingress::Refusal>;

/// Who calls, if they may.
pub(crate) fn guarded<H: Host>(shared: &Shared<H>, parts: &Parts) -> Result<Option<Arc<str>>, Refused> {
    cardan_proto::http::ingress::know(&parts.uri, &parts.headers, &shared.ingress)?;
    let principal = authorized(&parts.headers, shared)?;
    cardan_proto::http::ingress::weigh_head(&parts.headers, &shared.ingress)?;
    Ok(principal)
}

pub(crate) fn wrong_method(headers: HeaderMap, allowed: &'static str) -> Response<Body> {
    let mut response = Answer::on(headers).status(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static(allowed));
    response
}
