//! The link: every message a POST of its own, all of them polled by one driver.
//!
//! ```text
//!   Posting --handshake refused by POST--> Opening --endpoint--> Events
//!      ^                                      |
//!      '--------------- no such stream -------'
//! ```
//!
//! While the note after the handshake is on its way, or an event stream is being opened, later messages
//! are held: exchanges run side by side, and the server must not see them in another order. Nor is it to see an answer before what
//! was told of it (`steps`).

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use cardan_proto::dialect::cortex::stream::Reassembly;
use cardan_proto::era::{Era, Revision};
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::http::headers::X_CLIENT_ID;
use cardan_proto::http::redirect::{self, CrossOrigin};
use cardan_proto::http::url::Url;
use cardan_proto::jsonrpc::envelope::{Call, Envelope};
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::event::{
    Abilities, Cancel, Cause, Delivery, Departed, Framing, LaneId, Outgoing, Pushes, Silence,
};
use cardan_runtime::link::{Link, Received};
use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, HeaderValue};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

mod farewell;

use self::farewell::Closing;
use crate::build::{HttpError, Kind};
use crate::exchange::{self, CallPost, Fallback, Mending, News, NotePost, Wire, failed};
use crate::head::Heads;
use crate::held::Held;
use crate::mirrors::Tools;
use crate::net::Connector;
use crate::pool::{Pool, Tasks};
use crate::steps::{Arrived, Steps, is_step};
use crate::stream::{self, Posts};

/// What a link is made from.
pub(crate) struct Setup {
    pub(crate) url: Url,
    pub(crate) kind: Kind,
    pub(crate) headers: HeaderMap,
    pub(crate) limits: Limits,
    pub(crate) cross_origin: CrossOrigin,
    pub(crate) connector: Connector,
}

/// A link to a server over HTTP.
pub struct HttpLink {
    url: Url,
    kind: Kind,
    wire: Wire,
    news: mpsc::Receiver<News>,
    tasks: Tasks,
    heads: Heads,
    /// The server has forgotten the session, as it said so; there is no other yet.
    gone: Option<http::StatusCode>,
    tools: Tools,
    way: Way,
    gate: Gate,
    /// What waits at the gate.
    held: Held,
    steps: Steps,
    exchanges: FuturesUnordered<Abortable<Exchange>>,
    /// Calls in flight.
    calls: HashMap<CallId, Flight>,
    started: u64,
    pushes: Pushes,
    /// The push lane, or the stream of the oldest transport.
    lane: Option<AbortHandle>,
    /// Calls whose replies are to come by the push lane, the last of them.
    elsewhere: VecDeque<CallId>,
    ready: VecDeque<Received>,
    put: u64,
    closing: Option<Closing>,
}

/// A call in flight.
struct Flight {
    /// Of the exchange that carries it.
    number: u64,
    /// Of the message.
    frame: u64,
    handle: AbortHandle,
}

/// Tells which call it carried, and its own number.
type Exchange = Pin<Box<dyn Future<Output = Option<(CallId, u64)>> + Send>>;

/// Where messages go.
enum Way {
    /// To the URL.
    Posting,
    /// To where a stream will say. If there is none: this is the answer to the handshake.
    Opening(Option<Received>),
    /// To where the stream said.
    Events(Url),
}

/// Whether messages may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Shut,
}

/// What exchanges may tell before the driver listens. More waits in the exchange, and so in the socket.
const NEWS_QUEUED: usize = 64;

impl HttpLink {
    pub(crate) fn new(setup: Setup) -> Result<Self, HttpError> {
        let Setup { url, kind, mut headers, limits, cross_origin, connector } = setup;
        let tasks = Tasks::default();
        let pool = Pool::new(connector, &limits, cross_origin, &tasks);
        let (tell, news) = mpsc::channel(NEWS_QUEUED);
        if let Kind::Tutorial { client_id: Some(id), .. } = &kind {
            let name = || X_CLIENT_ID.as_str().into();
            let id = HeaderValue::from_str(id).map_err(|_| HttpError::Header { name: name() })?;
            headers.insert(X_CLIENT_ID, id);
        }
        let mut link = Self {
            wire: Wire { pool, limits: Arc::new(limits), news: tell },
            news,
            tasks,
            heads: Heads::new(headers),
            tools: Tools::default(),
            way: Way::Posting,
            gate: Gate::Open,
            held: Held::default(),
            steps: Steps::default(),
            exchanges: FuturesUnordered::new(),
            calls: HashMap::new(),
            started: 0,
            lane: None,
            elsewhere: VecDeque::new(),
            ready: VecDeque::new(),
            put: 0,
            pushes: Pushes::Opening,
            gone: None,
            closing: None,
            url,
            kind,
        };
        match link.kind.clone() {
            Kind::Auto | Kind::Streamable => {}
            Kind::Cortex => link.pushes = Pushes::Absent,
            Kind::Events => link.open_events(Posts::Announced, None),
            Kind::Tutorial { post, .. } => {
                let place = redirect::endpoint(&link.url, &post)
                    .map_err(|why| HttpError::Endpoint { url: post.into(), why })?;
                link.open_events(Posts::Known(place), None);
            }
        }
        Ok(link)
    }

    /// Starts an exchange; `call`: it carries this call, as this frame.
    fn start(&mut self, call: Option<(CallId, u64)>, exchange: impl Future<Output = ()> + Send + 'static) {
        let number = self.started;
        self.started += 1;
        let id = call.as_ref().map(|(id, _)| id.clone());
        let run = async move {
            exchange.await;
            id.map(|id| (id, number))
        };
        let handle = self.launch(Box::pin(run));
        if let Some((id, frame)) = call {
            self.calls.insert(id, Flight { number, frame, handle });
        }
    }

    fn launch(&self, exchange: Exchange) -> AbortHandle {
        let (handle, registration) = AbortHandle::new_pair();
        self.exchanges.push(Abortable::new(exchange, registration));
        handle
    }

    /// Starts the one long-lived lane, in place of an earlier one.
    fn start_lane(&mut self, lane: impl Future<Output = ()> + Send + 'static) {
        let handle = self.launch(Box::pin(async move {
            lane.await;
            None
        }));
        if let Some(earlier) = self.lane.replace(handle) {
            earlier.abort();
        }
    }

    fn leave_lane(&mut self) {
        if let Some(lane) = self.lane.take() {
            lane.abort();
        }
    }

    fn open_events(&mut self, posts: Posts, refused: Option<Received>) {
        self.way = Way::Opening(refused);
        self.gate = Gate::Shut;
        self.start_lane(stream::events(self.wire.clone(), self.url.clone(), self.heads.clone(), posts));
    }

    /// The push lane goes first: what a server pushes for the first call would be lost without it.
    fn open_push(&mut self) {
        self.pushes = Pushes::Opening;
        self.start_lane(stream::push(self.wire.clone(), self.url.clone(), self.heads.clone()));
        let wire = self.wire.clone();
        self.start(None, async move {
            sleep(wire.limits.push_head_start).await;
            wire.tell(News::PushTried).await;
        });
    }

    fn open_gate(&mut self) {
        self.gate = Gate::Open;
        let mut held = std::mem::take(&mut self.held);
        while let Some((frame, message)) = held.pop_front() {
            self.post(frame, &message);
        }
    }

    fn post(&mut self, frame: u64, message: &Outgoing) {
        if self.gate == Gate::Shut {
            return self.held.push_back(frame, message.clone());
        }
        if !self.steps.keep(frame, message) {
            self.begin(frame, message);
        }
    }

    /// The same for what waits for nothing any more.
    fn begin(&mut self, frame: u64, message: &Outgoing) {
        match (&self.way, message) {
            (Way::Events(place), message) => {
                let place = place.clone();
                self.post_event(place, frame, message);
            }
            (_, Outgoing::One(Envelope::Call(call))) => self.post_call(frame, call.clone()),
            (_, Outgoing::One(Envelope::Note(note))) => {
                let post = self.note(self.heads.note(note), message);
                match note.method {
                    Method::Initialized => {
                        // Everything else waits until the server has it.
                        self.gate = Gate::Shut;
                        self.post_awaited(post, |_| News::Initialized);
                    }
                    Method::Progress => self.post_awaited(post, News::Stepped),
                    _ => self.start(None, exchange::note(self.wire.clone(), post)),
                }
            }
            (_, message) => {
                let post = self.note(self.heads.answer(), message);
                self.start(None, exchange::note(self.wire.clone(), post));
            }
        }
    }

    fn post_call(&mut self, frame: u64, call: Call) {
        let id = call.id.clone();
        let head = match self.heads.call(&call, &self.tools, &self.wire.limits) {
            Ok(head) => head,
            Err(unfit) => {
                let failure = HttpFailure::Unfit(unfit);
                return self.ready.push_back(failed(Some(id), failure, Delivery::NotSent));
            }
        };
        // What waited at the gate when the session was forgotten belongs to the one that follows.
        if let (Some(status), Era::Legacy) = (self.gone, head.era)
            && call.method != Method::Initialize
        {
            let failure = HttpFailure::SessionGone { status };
            return self.ready.push_back(failed(Some(id), failure, Delivery::NotSent));
        }
        let is_cortex = self.kind == Kind::Cortex;
        let post = CallPost {
            url: self.url.clone(),
            headers: if is_cortex { self.heads.bare_post() } else { head.headers },
            body: written(&Outgoing::One(Envelope::Call(call.clone()))),
            era: head.era,
            session: head.session,
            heads: self.heads.clone(),
            parts: is_cortex.then(|| Reassembly::new(id.clone(), &self.wire.limits)),
            fallback: if self.kind == Kind::Auto { Fallback::Allowed } else { Fallback::None },
            mending: Mending::Allowed,
            odd: None,
            call,
            frame,
        };
        self.start(Some((id, frame)), exchange::call(self.wire.clone(), post));
    }

    fn note(&self, headers: HeaderMap, message: &Outgoing) -> NotePost {
        let session = self.heads.session.clone();
        NotePost { url: self.url.clone(), headers, body: written(message), session }
    }

    /// Posts what others wait behind, and tells when the server has it.
    fn post_awaited(&mut self, post: NotePost, news: fn(Arrived) -> News) {
        let wire = self.wire.clone();
        self.start(None, async move {
            // A server that never answers it must not hold up everything.
            let taken = timeout(wire.limits.probe_timeout, exchange::deliver(&wire, post)).await;
            wire.tell(news(if taken.is_ok() { Arrived::Yes } else { Arrived::Unknown })).await;
            // Nor must one that says more than that it has it.
            if let Ok(Some(taken)) = taken {
                exchange::rest(&wire, taken).await;
            }
        });
    }

    fn post_event(&mut self, place: Url, frame: u64, message: &Outgoing) {
        let id = match message {
            Outgoing::One(Envelope::Call(call)) => Some(call.id.clone()),
            _ => None,
        };
        if let Outgoing::One(Envelope::Call(call)) = message
            && call.method == Method::Discover
        {
            return self.ready.push_back(failed(id, HttpFailure::LegacyOnly, Delivery::NotSent));
        }
        let headers = self.heads.answer();
        let post = NotePost { url: place, headers, body: written(message), session: None };
        let (wire, call) = (self.wire.clone(), id.clone().map(|id| (id, frame)));
        if !is_step(message) {
            return self.start(call, exchange::post_event(wire, post, id));
        }
        self.start(None, async move {
            let taken =
                timeout(wire.limits.probe_timeout, exchange::post_event(wire.clone(), post, None)).await;
            wire.tell(News::Stepped(if taken.is_ok() { Arrived::Yes } else { Arrived::Unknown })).await;
        });
    }

    fn heard(&mut self, news: News) {
        match news {
            News::Received(received) => self.ready.push_back(received),
            News::Session(id) => {
                self.heads.session = Some(id);
                self.gone = None;
            }
            News::SessionGone { session, call, status } => self.session_gone(&session, call, status),
            News::Listed(tools) => self.tools.learn(tools),
            News::Initialized if self.kind == Kind::Cortex => self.open_gate(),
            News::Initialized => self.open_push(),
            News::Stepped(arrived) => {
                for (frame, message) in self.steps.next(arrived) {
                    self.begin(frame, &message);
                }
            }
            News::PushTried if matches!(self.way, Way::Posting) => self.open_gate(),
            News::PushTried => {}
            // The first sign of a server that is gone, and often the only one. A call under way has its own: it may be
            // resumed after a gap in which nobody answers, and a link that is ended for the gap would take it along.
            News::PushEnded(why) if self.calls.is_empty() => self.ready.push_back(Received::Doubted { why }),
            News::PushEnded(_) => {}
            News::Pushes(pushes) => {
                self.pushes = pushes;
                self.give_up_elsewhere();
            }
            News::Elsewhere(id) => {
                // Older ones have their replies, or nobody waits for them.
                if self.elsewhere.len() >= self.wire.limits.calls_outbound {
                    self.elsewhere.pop_front();
                }
                self.elsewhere.push_back(id);
                self.give_up_elsewhere();
            }
            News::TryEvents { call, refused } => {
                let (frame, call) = *call;
                self.open_events(Posts::Announced, Some(refused));
                self.held.push_front(frame, Outgoing::One(Envelope::Call(call)));
            }
            News::Endpoint(place) => {
                self.pushes = Pushes::Carried;
                self.way = Way::Events(place);
                self.open_gate();
            }
            News::NoEndpoint(failure) => self.no_endpoint(failure),
            News::EventsOver(why) => {
                let cause =
                    why.map_or(Cause::ClosedByPeer, |why| Cause::Http(Box::new(HttpFailure::Broken(why))));
                self.ready.push_back(Received::Ended(cause));
            }
        }
    }

    /// Some legacy servers take a call with 202 and reply on the push lane. Where there is none nothing comes.
    fn give_up_elsewhere(&mut self) {
        if self.pushes != Pushes::Absent && self.lane.is_some() {
            return;
        }
        let failure = HttpFailure::NoReply { status: http::StatusCode::ACCEPTED };
        let given_up = self.elsewhere.drain(..).map(|id| failed(Some(id), failure.clone(), Delivery::Sent));
        self.ready.extend(given_up);
    }

    /// One new handshake serves all: whoever learns of it late goes on with the session that is there.
    fn session_gone(&mut self, gone: &Arc<str>, call: Option<Call>, status: http::StatusCode) {
        match &self.heads.session {
            Some(session) if session == gone => {
                self.heads.session = None;
                self.gone = Some(status);
                self.pushes = Pushes::Opening;
                self.leave_lane();
            }
            Some(_) => {
                // Whether it may go by that one is not for us to say.
                if let Some(call) = call {
                    let failure = HttpFailure::SessionReplaced { status };
                    self.ready.push_back(failed(Some(call.id), failure, Delivery::NotSent));
                }
                return;
            }
            None => {}
        }
        let failure = HttpFailure::SessionGone { status };
        self.ready.push_back(failed(call.map(|call| call.id), failure, Delivery::NotSent));
    }

    /// There is no event stream. After a handshake by POST, that one's answer says more.
    fn no_endpoint(&mut self, failure: HttpFailure) {
        let Way::Opening(refused) = std::mem::replace(&mut self.way, Way::Posting) else { return };
        match refused {
            Some(refused) => {
                let tried = self.held.pop_front();
                debug_assert!(tried.is_some(), "the handshake was put in front when the stream was tried");
                self.ready.push_back(refused);
                self.open_gate();
            }
            None => self.ready.push_back(Received::Ended(Cause::Http(Box::new(failure)))),
        }
    }

    fn done(&mut self, id: &CallId, number: u64) {
        if self.calls.get(id).is_some_and(|flight| flight.number == number) {
            self.calls.remove(id);
        }
    }
}

fn written(message: &Outgoing) -> Bytes {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    Bytes::from(bytes)
}

impl Link for HttpLink {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        loop {
            if let Some(received) = self.ready.pop_front() {
                return Poll::Ready(received);
            }
            if let Poll::Ready(Some(news)) = self.news.poll_recv(cx) {
                self.heard(news);
                continue;
            }
            match self.exchanges.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(Some((id, number))))) => self.done(&id, number),
                Poll::Ready(Some(_)) => {}
                // What they told while they were polled.
                Poll::Ready(None) | Poll::Pending => match self.news.poll_recv(cx) {
                    Poll::Ready(Some(news)) => self.heard(news),
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                },
            }
        }
    }

    fn put(&mut self, frame: u64, _: LaneId, message: &Outgoing) {
        self.put = frame;
        self.post(frame, message);
    }

    fn put_ahead(&mut self, frame: u64, lane: LaneId, message: &Outgoing) {
        match self.gate {
            Gate::Shut => self.put(frame, lane, message),
            Gate::Open => {
                self.put = frame;
                self.begin(frame, message);
            }
        }
    }

    /// What waits is not sent; what was sent is not read any more, which a modern server takes for a cancel.
    fn retract(&mut self, frame: u64) {
        self.held.remove(frame);
        let call = self.calls.iter().find(|(_, flight)| flight.frame == frame).map(|(id, _)| id.clone());
        if let Some(flight) = call.and_then(|id| self.calls.remove(&id)) {
            flight.handle.abort();
        }
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Steps have a bound of their own: a server that takes one after another takes them.
    fn queued(&self) -> usize {
        self.wire.pool.backlog_bytes() + self.held.bytes()
    }

    /// What waits at the gate has not left. Of the rest, exchanges say themselves what was not sent.
    fn departed(&self) -> Departed {
        match self.held.first() {
            Some(first) => {
                let left = first.saturating_sub(1);
                Departed { in_order: left, ahead: left, begun: left }
            }
            None => Departed::through(self.put),
        }
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            cancel: Cancel::ByClosing,
            pushes: self.pushes,
            silence: Silence::IsFailure,
            framing: Framing::Whole,
        }
    }

    fn settled(&mut self, revision: Revision) {
        self.heads.revision = Some(revision);
        self.gone = None;
        if revision.era() == Era::Modern {
            self.heads.session = None;
            self.pushes = Pushes::Absent;
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _: &Cause) -> Poll<()> {
        let mut closing = match self.closing.take() {
            Some(closing) => closing,
            None => self.begin_close(),
        };
        if self.poll_farewell(&mut closing, cx).is_pending() {
            self.closing = Some(closing);
            return Poll::Pending;
        }
        self.exchanges.clear();
        let ended = self.tasks.poll_end(cx);
        closing.delete = None;
        self.closing = Some(closing);
        ended
    }
}
