//! One message, one POST: what exchanges share, and those that bring no reply.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::dialect::cortex::stream::Reassembly;
use cardan_proto::era::Era;
use cardan_proto::finding::Rule;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::http::headers::{Content, content};
use cardan_proto::http::param::Mirrors;
use cardan_proto::http::status::{self, Body, SessionSent, Standing};
use cardan_proto::http::url::Url;
use cardan_proto::jsonrpc::envelope::{Call, Violation};
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::limits::Limits;
use cardan_proto::session::event::{Cause, Delivery, LaneId, Pushes};
use cardan_runtime::link::Received;
use http::{HeaderMap, Method, StatusCode};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::answer;
use crate::body;
use crate::head::Heads;
use crate::pool::Pool;
use crate::steps::Arrived;
use crate::stream;

/// What every exchange of a link has.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) pool: Pool,
    pub(crate) limits: Arc<Limits>,
    pub(crate) news: mpsc::Sender<News>,
}

/// What an exchange tells its link.
pub(crate) enum News {
    /// For the session, as it is.
    Received(Received),
    /// The handshake brought a session.
    Session(Arc<str>),
    /// A session is gone, and with it what was asked of it, unread.
    SessionGone { session: Arc<str>, call: Option<Call>, status: StatusCode },
    /// What the listed tools mirror.
    Listed(Vec<(Box<str>, Mirrors)>),
    /// The note after the handshake has arrived, or never will.
    Initialized,
    /// A step is there, or may be.
    Stepped(Arrived),
    /// The push lane is open, or there is none, or it had its head start.
    PushTried,
    /// The server takes no handshake by POST; this would be the answer.
    TryEvents { call: Box<(u64, Call)>, refused: Received },
    /// The server took a call, and its reply does not come with that.
    Elsewhere(CallId),
    /// Whether there is a push lane.
    Pushes(Pushes),
    /// A push lane that had been open has ended, for this reason.
    PushEnded(Box<str>),
    /// The stream of the oldest transport is up: messages go there.
    Endpoint(Url),
    /// There is no such stream.
    NoEndpoint(HttpFailure),
    /// The stream of the oldest transport is over.
    EventsOver(Option<Box<str>>),
}

impl Wire {
    /// Tells the link, which always listens while it lives.
    pub(crate) async fn tell(&self, news: News) {
        let _ = self.news.send(news).await;
    }

    pub(crate) async fn frame(&self, bytes: Bytes) {
        self.tell(News::Received(Received::Frame { lane: LaneId::MAIN, bytes })).await;
    }

    /// Something that the protocol does not allow, whosever call it concerns.
    pub(crate) async fn found(&self, violation: Violation, excerpt: impl Into<Box<str>>) {
        let excerpt = excerpt.into();
        self.tell(News::Received(Received::Broken { lane: LaneId::MAIN, violation, excerpt })).await;
    }

    /// Something worth a line, and no reason to think less of the link.
    pub(crate) async fn noticed(&self, rule: Rule, detail: impl Into<Box<str>>) {
        self.tell(News::Received(Received::Noticed { rule, detail: detail.into() })).await;
    }

    /// Nobody answers where the link leads: whoever keeps it may want to look.
    pub(crate) async fn doubt(&self, why: impl Into<Box<str>>) {
        self.tell(News::Received(Received::Doubted { why: why.into() })).await;
    }

    pub(crate) async fn fail(&self, id: Option<CallId>, failure: HttpFailure, delivery: Delivery) {
        self.tell(News::Received(failed(id, failure, delivery))).await;
    }
}

pub(crate) fn failed(id: Option<CallId>, failure: HttpFailure, delivery: Delivery) -> Received {
    Received::Failed { id, cause: Cause::Http(Box::new(failure)), delivery }
}

/// A call on its way.
pub(crate) struct CallPost {
    pub(crate) url: Url,
    pub(crate) call: Call,
    /// Its number on the link.
    pub(crate) frame: u64,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) era: Era,
    /// The session that the head names.
    pub(crate) session: Option<Arc<str>>,
    /// For resuming the reply.
    pub(crate) heads: Heads,
    /// The cortex dialect sends replies in parts.
    pub(crate) parts: Option<Reassembly>,
    pub(crate) fallback: Fallback,
    pub(crate) mending: Mending,
    /// What came in place of a message, if anything did, by the rule it breaks.
    pub(crate) odd: Option<Rule>,
}

/// Whether a call whose mirrored headers do not fit may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mending {
    Allowed,
    Done,
}

/// Whether a handshake that is refused may be tried over the oldest transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fallback {
    Allowed,
    None,
}

/// Posts a call and reads its reply.
pub(crate) async fn call(wire: Wire, post: CallPost) {
    let sent = wire.pool.send(Method::POST, post.url.clone(), post.headers.clone(), post.body.clone());
    match sent.await {
        Ok(response) => answer::read(&wire, post, response).await,
        Err((failure, delivery)) => wire.fail(Some(post.call.id), failure, delivery).await,
    }
}

/// A note or an answer of ours on its way.
pub(crate) struct NotePost {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) session: Option<Arc<str>>,
}

/// What the server said to a message that it took.
pub(crate) type Taken = (http::response::Parts, Incoming);

/// Posts something that wants no reply.
pub(crate) async fn note(wire: Wire, post: NotePost) {
    if let Some(Some(taken)) = within(&wire, deliver(&wire, post)).await {
        rest(&wire, taken).await;
    }
}

/// A message that no call waits for must not wait for ever either.
async fn within<T>(wire: &Wire, posting: impl Future<Output = T>) -> Option<T> {
    let most = wire.limits.call_idle_timeout;
    if most.is_zero() {
        return Some(posting.await);
    }
    match timeout(most, posting).await {
        Ok(posted) => Some(posted),
        Err(_) => {
            let why = format!("no answer within {} s", most.as_secs_f32());
            wire.fail(None, HttpFailure::Broken(why.into()), Delivery::Unknown).await;
            None
        }
    }
}

/// Posts it, until the server took it; nothing: it did not, which is told.
pub(crate) async fn deliver(wire: &Wire, post: NotePost) -> Option<Taken> {
    let response = match wire.pool.send(Method::POST, post.url, post.headers, post.body).await {
        Ok(response) => response,
        Err((failure, delivery)) => {
            wire.fail(None, failure, delivery).await;
            return None;
        }
    };
    let (head, body) = response.into_parts();
    if head.status.is_success() {
        return Some((head, body));
    }
    let text = body::read(body, wire.limits.body_bytes).await.unwrap_or_default();
    let sent = if post.session.is_some() { SessionSent::Yes } else { SessionSent::No };
    let standing = status::of_reply(Era::Legacy, sent, head.status, Body::read(&text));
    match (standing, post.session) {
        (Standing::SessionGone, Some(session)) => {
            wire.tell(News::SessionGone { session, call: None, status: head.status }).await;
        }
        _ => {
            let delivery = answer::delivery(head.status);
            wire.fail(None, answer::refusal(&head, &text, &wire.limits), delivery).await;
        }
    }
    None
}

/// The server took it. What it says beside that is no answer to anything, but may be messages.
pub(crate) async fn rest(wire: &Wire, (head, body): Taken) {
    if head.status != StatusCode::ACCEPTED {
        wire.noticed(Rule::PostRefused, format!("it was taken with {}", head.status)).await;
    }
    if content(&head.headers) == Content::EventStream {
        return stream::drain(wire, body).await;
    }
    // Reading what nobody needs keeps the connection for the next request.
    let _ = timeout(wire.limits.drain_timeout, body::read(body, wire.limits.excerpt_bytes)).await;
}

/// Posts a message of the oldest transport. Replies come on its stream, so a call fails here or not at all.
pub(crate) async fn post_event(wire: Wire, post: NotePost, id: Option<CallId>) {
    match id {
        // A call has its own deadlines, and takes its exchange along when they pass.
        Some(_) => post_one(&wire, post, id).await,
        None => {
            within(&wire, post_one(&wire, post, None)).await;
        }
    }
}

async fn post_one(wire: &Wire, post: NotePost, id: Option<CallId>) {
    let response = match wire.pool.send(Method::POST, post.url, post.headers, post.body).await {
        Ok(response) => response,
        Err((failure, delivery)) => return wire.fail(id, failure, delivery).await,
    };
    let (head, body) = response.into_parts();
    if head.status.is_success() {
        let _ = timeout(wire.limits.drain_timeout, body::read(body, wire.limits.excerpt_bytes)).await;
        return;
    }
    let text = body::read(body, wire.limits.body_bytes).await.unwrap_or_default();
    match (id, Body::read(&text)) {
        (Some(id), Body::Fault(_)) => answer::pass_fault(wire, &id, text).await,
        (id, _) => {
            let delivery = answer::delivery(head.status);
            wire.fail(id, answer::refusal(&head, &text, &wire.limits), delivery).await;
        }
    }
}

/// Ends a session. Whatever the server answers, we are gone.
pub(crate) async fn delete(wire: Wire, url: Url, headers: HeaderMap) {
    let _ = wire.pool.send(Method::DELETE, url, headers, Bytes::new()).await;
}
