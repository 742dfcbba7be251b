//! The answer to a call: a message, a lane, or a refusal.

use bytes::Bytes;
use cardan_proto::era::Era;
use cardan_proto::finding::{Rule, Strictness, excerpt};
use cardan_proto::http::challenge::Hints;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::http::headers::{Content, SessionHeader, content, session};
use cardan_proto::http::status::{self, Body, Opening, Probe, SessionSent, Standing, Verdict};
use cardan_proto::jsonrpc::envelope::{self, Decoded, Envelope, Reply, Shape, Violation};
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::jsonrpc::write;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Delivery, LaneId};
use cardan_runtime::link::Received;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode, response};
use hyper::body::Incoming;

use crate::body::{self, Unread};
use crate::exchange::{CallPost, Fallback, Mending, News, Wire, failed};
use crate::mirrors::Listing;
use crate::refresh;
use crate::stream;

/// Reads the answer to a call.
pub(crate) async fn read(wire: &Wire, post: CallPost, response: Response<Incoming>) {
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        return refused(wire, post, &head, body).await;
    }
    note_session(wire, &post, &head).await;
    let content = content(&head.headers);
    if content == Content::EventStream {
        return stream::read(wire, post, body).await;
    }
    let text = match body::read(body, wire.limits.frame_bytes).await {
        Ok(text) => text,
        Err(Unread::Oversize) => return broken(wire, &post, Rule::Oversize, "").await,
        Err(Unread::Broken(why)) => {
            return wire.fail(Some(post.call.id), HttpFailure::Broken(why), Delivery::Unknown).await;
        }
    };
    let status = head.status;
    if text.is_empty() {
        // Some legacy servers reply on the push lane instead.
        let elsewhere = status == StatusCode::ACCEPTED && post.era == Era::Legacy;
        if elsewhere && post.call.method != Method::Discover {
            return wire.tell(News::Elsewhere(post.call.id)).await;
        }
        return wire.fail(Some(post.call.id), HttpFailure::NoReply { status }, Delivery::Sent).await;
    }
    let unreadable = match decode(&text, &wire.limits) {
        Decoded::One(Err(violation), _) => Some(violation.rule),
        _ => None,
    };
    match (unreadable, content) {
        (None, _) => {
            if pass(wire, &post, text).await == Seen::Other {
                wire.fail(Some(post.call.id), HttpFailure::NoReply { status }, Delivery::Sent).await;
            }
        }
        (Some(rule), Content::Json) => {
            let piece = excerpt(&text, wire.limits.excerpt_bytes);
            broken(wire, &post, rule, &piece).await;
        }
        (Some(_), _) => {
            let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let content_type = content_type.unwrap_or_default().into();
            let excerpt = excerpt(text.trim_ascii(), wire.limits.excerpt_bytes);
            let failure = HttpFailure::Content { status, content_type, excerpt };
            wire.fail(Some(post.call.id), failure, Delivery::Sent).await;
        }
    }
}

/// The session is what the answer to the handshake names; a later one is odd, and not taken.
async fn note_session(wire: &Wire, post: &CallPost, head: &response::Parts) {
    match (session(&head.headers), &post.call.method, &post.session) {
        (SessionHeader::Named(id), Method::Initialize, _) => wire.tell(News::Session(id.into())).await,
        (SessionHeader::Malformed, Method::Initialize, _) => {
            wire.noticed(Rule::SessionChanged, "no id that could be sent back").await;
        }
        (SessionHeader::Named(id), _, Some(own)) if **own != *id => {
            wire.noticed(Rule::SessionChanged, "another id than that of the handshake").await;
        }
        _ => {}
    }
}

/// The server answered our call with something that is no reply.
pub(crate) async fn broken(wire: &Wire, post: &CallPost, rule: Rule, piece: &str) {
    let id = Some(post.call.id.clone());
    wire.found(Violation { id, shape: Shape::Reply, ..Violation::of(rule) }, piece).await;
}

/// What a frame was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The reply to the call.
    Reply,
    /// What begins like a reply, and cannot be read.
    Unreadable(Rule),
    /// What cannot be read at all.
    Odd(Rule),
    /// Something else.
    Other,
}

/// Passes on what came as the answer to a call, and says whether it was the reply.
pub(crate) async fn pass(wire: &Wire, post: &CallPost, frame: Bytes) -> Seen {
    let replies = match decode(&frame, &wire.limits) {
        Decoded::One(Ok(Envelope::Reply(reply)), _) => vec![reply],
        Decoded::One(Err(violation), _) => {
            let violation = Violation::in_head(violation.rule, &frame, &wire.limits);
            wire.frame(frame).await;
            return match violation.shape {
                Shape::Reply => Seen::Unreadable(violation.rule),
                Shape::Unknown => Seen::Odd(violation.rule),
                Shape::Call | Shape::Note => Seen::Other,
            };
        }
        Decoded::One(..) => Vec::new(),
        Decoded::Batch(entries) => entries
            .into_iter()
            .filter_map(|(entry, _)| match entry {
                Ok(Envelope::Reply(reply)) => Some(reply),
                _ => None,
            })
            .collect(),
    };
    let own = &post.call.id;
    // A fault without id is ours as well: the exchange says whose it is.
    let Some(reply) = replies.iter().find(|reply| match &reply.id {
        Some(id) => id == own || id.coerced().as_ref() == Some(own),
        None => reply.outcome.is_err(),
    }) else {
        wire.frame(frame).await;
        return Seen::Other;
    };
    match (&reply.id, &reply.outcome) {
        (None, _) => {
            let frame = named(own, reply);
            wire.frame(frame).await;
        }
        (_, Err(fault)) if fault.code == code::HEADER_MISMATCH => mismatched(wire, post, frame).await,
        (_, Ok(result)) if post.call.method == Method::ToolsList && post.era == Era::Modern => {
            listed(wire, own, result, frame).await;
        }
        _ => wire.frame(frame).await,
    }
    Seen::Reply
}

/// A tool call whose mirrored headers do not fit may do so once the tools are listed anew.
async fn mismatched(wire: &Wire, post: &CallPost, frame: Bytes) {
    if post.call.method != Method::ToolsCall || post.mending == Mending::Done {
        return wire.frame(frame).await;
    }
    // Boxed, because mending sends the call again and so comes back here, once.
    Box::pin(refresh::mend(wire, post, frame)).await;
}

/// A page of tools: what they mirror is learnt, and what must not be offered is left out.
async fn listed(wire: &Wire, own: &CallId, result: &Bytes, frame: Bytes) {
    let Some(listing) = Listing::read(result) else { return wire.frame(frame).await };
    for (name, defect) in &listing.dropped {
        wire.noticed(Rule::BadMirror, format!("tool {name} is left out: {defect}")).await;
    }
    wire.tell(News::Listed(listing.kept)).await;
    let frame = match listing.result {
        Some(result) => named(own, &Reply { id: None, outcome: Ok(result) }),
        None => frame,
    };
    wire.frame(frame).await;
}

/// The same reply with the id of the call that its exchange carried.
fn named(id: &CallId, reply: &Reply) -> Bytes {
    let reply = Reply { id: Some(id.clone()), outcome: reply.outcome.clone() };
    let mut frame = Vec::new();
    write::envelope(&Envelope::Reply(reply), &mut frame);
    Bytes::from(frame)
}

/// A fault that came with a status: the exchange says whose it is, whatever id it has.
pub(crate) async fn pass_fault(wire: &Wire, id: &CallId, text: Bytes) {
    wire.tell(News::Received(fault_frame(id, text, &wire.limits))).await;
}

fn fault_frame(id: &CallId, text: Bytes, limits: &Limits) -> Received {
    let bytes = match decode(&text, limits) {
        Decoded::One(Ok(Envelope::Reply(reply)), _) => named(id, &reply),
        _ => text,
    };
    Received::Frame { lane: LaneId::MAIN, bytes }
}

/// A status that is no success.
async fn refused(wire: &Wire, post: CallPost, head: &response::Parts, body: Incoming) {
    let text = body::read(body, wire.limits.body_bytes).await.unwrap_or_default();
    let (status, kind) = (head.status, Body::read(&text));
    let is_fault = matches!(kind, Body::Fault(_));
    let id = post.call.id.clone();
    let failure = || refusal(head, &text, &wire.limits);
    let delivery = delivery(status);
    match post.call.method {
        Method::Discover if post.era == Era::Modern => {
            match status::of_probe(Probe::Discover, status, kind) {
                Verdict::Modern { .. } | Verdict::Legacy if is_fault => pass_fault(wire, &id, text).await,
                _ => wire.fail(Some(id), failure(), delivery).await,
            }
        }
        Method::Initialize => {
            let answer = if is_fault && !is_failure(status) {
                fault_frame(&id, text.clone(), &wire.limits)
            } else {
                failed(Some(id), failure(), delivery)
            };
            match status::of_initialize(status, kind) {
                Opening::TryEventStream if post.fallback == Fallback::Allowed => {
                    let call = Box::new((post.frame, post.call));
                    wire.tell(News::TryEvents { call, refused: answer }).await;
                }
                _ => wire.tell(News::Received(answer)).await,
            }
        }
        _ => {
            let sent = if post.session.is_some() { SessionSent::Yes } else { SessionSent::No };
            match (standing(post.era, sent, status, kind, &text), post.session.clone()) {
                (Standing::SessionGone, Some(session)) => {
                    let call = Some(post.call);
                    wire.tell(News::SessionGone { session, call, status }).await;
                }
                (Standing::Auth, _) => wire.fail(Some(id), failure(), delivery).await,
                _ if is_fault && is_mismatch(kind) => {
                    let Received::Frame { bytes, .. } = fault_frame(&id, text, &wire.limits) else { return };
                    mismatched(wire, &post, bytes).await;
                }
                _ if is_fault => pass_fault(wire, &id, text).await,
                _ => wire.fail(Some(id), failure(), delivery).await,
            }
        }
    }
}

/// What a status says of the message it answers. Some are said before anyone reads a message.
pub(crate) fn delivery(status: StatusCode) -> Delivery {
    match status {
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::NOT_ACCEPTABLE
        | StatusCode::PROXY_AUTHENTICATION_REQUIRED
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Delivery::NotSent,
        _ if status.is_server_error() => Delivery::Unknown,
        _ => Delivery::Sent,
    }
}

fn is_failure(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN
}

fn is_mismatch(body: Body) -> bool {
    body == Body::Fault(code::HEADER_MISMATCH)
}

/// As the rules say, and as servers in the field do: some say 400 or 410 of a session that they forgot.
fn standing(era: Era, sent: SessionSent, status: StatusCode, body: Body, text: &[u8]) -> Standing {
    let legacy = era == Era::Legacy && sent == SessionSent::Yes;
    let says_session = || String::from_utf8_lossy(text).to_ascii_lowercase().contains("session");
    match status {
        StatusCode::GONE if legacy => Standing::SessionGone,
        StatusCode::BAD_REQUEST if legacy && says_session() => Standing::SessionGone,
        _ => status::of_reply(era, sent, status, body),
    }
}

/// The failure that a status stands for.
pub(crate) fn refusal(head: &response::Parts, text: &[u8], limits: &Limits) -> HttpFailure {
    HttpFailure::Status {
        status: head.status,
        excerpt: excerpt(text.trim_ascii(), limits.excerpt_bytes),
        hints: Box::new(Hints::read(&head.headers)),
    }
}

/// The same, with the body yet to be read.
pub(crate) async fn status_failure(head: &response::Parts, body: Incoming, limits: &Limits) -> HttpFailure {
    let text = body::read(body, limits.body_bytes).await.unwrap_or_default();
    refusal(head, &text, limits)
}

/// Lenient: what is wrong with a frame is for the session to find.
fn decode(frame: &Bytes, limits: &Limits) -> Decoded {
    envelope::decode(frame, Strictness::Lenient, limits)
}
