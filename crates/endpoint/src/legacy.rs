//! Streamable HTTP as the legacy era has it: sessions, push lanes, resumption.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use cardan_proto::era::gates;
use cardan_proto::http::headers::{Accepts, SessionHeader};
use cardan_proto::jsonrpc::envelope::{Decoded, Envelope, Shape};
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::method::Method;
use cardan_proto::session::replay::EventId;
use cardan_runtime::service::Host;
use http::{HeaderMap, Response, StatusCode};

use crate::body::Body;
use crate::door::{CLOSING, Door, Doorway};
use crate::endpoint::{Posting, Shared};
use crate::hub::{Hub, NotTaken, Posted};
use crate::ingress::legacy_version;
use crate::lanes::{First, Form};
use crate::pulse::Pulse;
use crate::reply::Answer;
use crate::sessions::SessionId;
use crate::sharing::{Change, Keep, NotKept, record};

/// Answers a legacy POST.
pub(crate) fn post<H: Host>(
    shared: &Shared<H>,
    headers: HeaderMap,
    decoded: Decoded,
    accepts: Accepts,
    principal: Option<Arc<str>>,
) -> Posting<H::Service> {
    // Notes and replies are let in: calls that run may wait for them.
    if wants_reply(&decoded) && shared.doorway.door() == Door::Closing {
        return Posting::Answered(Answer::on(headers).busy(StatusCode::SERVICE_UNAVAILABLE, CLOSING));
    }
    if is_initialize(&decoded) {
        return open(shared, Answer::on(headers), decoded, accepts, principal);
    }
    let found = find(shared, &headers, principal.as_ref());
    let answer = Answer::on(headers);
    let (id, hub) = match found {
        Ok(found) => found,
        Err(missing) => return Posting::Answered(missing.answer(answer)),
    };
    let batches = hub.revision().is_some_and(|revision| gates(revision).batches);
    if !batches && matches!(decoded, Decoded::Batch(_)) {
        let why = "the body is a batch, post one message at a time";
        return Posting::Answered(answer.bad(StatusCode::BAD_REQUEST, why));
    }
    hub.heard_of();
    if !wants_reply(&decoded) {
        return Posting::Answered(match hub.tell(decoded) {
            Ok(()) => answer.status(StatusCode::ACCEPTED),
            Err(_) => Missing::Unknown.answer(answer),
        });
    }
    let change = shared.sharing.as_ref().and_then(|sharing| Some((sharing, Change::of(&decoded)?)));
    match hub.post(decoded, form(accepts)) {
        Ok(posted) if change.is_some_and(|(sharing, change)| sharing.changed(id, change)) => {
            Posting::Keep(Keep::Changed(id), posted, answer, accepts)
        }
        Ok(posted) => Posting::Legacy(posted, answer, accepts),
        Err(NotTaken::Over) => Posting::Answered(Missing::Unknown.answer(answer)),
        Err(NotTaken::TooMany) => {
            let why = "too many open calls in this session";
            Posting::Answered(answer.busy(StatusCode::TOO_MANY_REQUESTS, why))
        }
    }
}

/// `initialize`: a session is made for it, and kept if the handshake succeeds.
fn open<H: Host>(
    shared: &Shared<H>,
    answer: Answer,
    decoded: Decoded,
    accepts: Accepts,
    principal: Option<Arc<str>>,
) -> Posting<H::Service> {
    let (hub, peer) = Hub::new(&shared.host, principal.clone(), shared.sessions.shelf());
    let record = shared.sharing.as_ref().and_then(|_| record(&decoded, principal.as_ref()));
    let Ok(posted) = hub.post(decoded, form(accepts)) else {
        return Posting::Answered(answer.status(StatusCode::INTERNAL_SERVER_ERROR));
    };
    let answer = if let Some(revision) = hub.revision() {
        let Some(id) = shared.sessions.insert(hub) else {
            let busy = answer.busy(StatusCode::SERVICE_UNAVAILABLE, "too many sessions");
            return Posting::Answered(busy);
        };
        shared.host.joined(peer, principal.as_ref());
        if let Some(mut record) = record {
            record.revision = revision.date().to_owned();
            return Posting::Keep(Keep::New(id, record), posted, answer, accepts);
        }
        answer.session(id.header())
    } else {
        answer
    };
    Posting::Legacy(posted, answer, accepts)
}

/// The same when what has become of the session was written down; where that failed, its reply is not for its client.
pub(crate) async fn kept<H: Host>(
    shared: &Shared<H>,
    keep: Keep,
    posted: Posted<H::Service>,
    mut answer: Answer,
    accepts: Accepts,
) -> Response<Body> {
    let Some(sharing) = &shared.sharing else { return answer.status(StatusCode::INTERNAL_SERVER_ERROR) };
    if let Keep::New(id, _) = &keep {
        answer = answer.session(id.header());
    }
    match sharing.keep(keep).await {
        Ok(()) => {
            let limits = &shared.host.config(None).limits;
            reply(posted, answer, accepts, (limits, &shared.doorway)).await
        }
        Err(NotKept::Away) => Answer::on(HeaderMap::new()).busy(StatusCode::SERVICE_UNAVAILABLE, UNSHARED),
        Err(NotKept::TooLarge) => Answer::on(HeaderMap::new()).bad(StatusCode::PAYLOAD_TOO_LARGE, UNSHARABLE),
        Err(NotKept::Lost) => Missing::Unknown.answer(answer),
    }
}

/// Waits for the first thing there is to say. The reply alone is said as it is, all else as events.
pub(crate) async fn reply<S: cardan_runtime::service::Service>(
    posted: Posted<S>,
    answer: Answer,
    accepts: Accepts,
    (limits, doorway): (&cardan_proto::limits::Limits, &Doorway),
) -> Response<Body> {
    if !accepts.json {
        // The form is settled, and the sooner the stream begins the sooner it can be resumed.
        return answer.lane(posted.into_events());
    }
    let mut pulse = Pulse::new(limits.keep_alive_interval);
    let first = poll_fn(|cx| match posted.poll_first(cx) {
        Poll::Ready(first) => Poll::Ready(first),
        // A client that waits long is told that we live, which settles the form.
        Poll::Pending if accepts.event_stream => pulse.poll(cx).map(|()| First::Events),
        Poll::Pending => Poll::Pending,
    })
    .await;
    match first {
        First::Reply(reply) => answer.json(StatusCode::OK, reply.into_body()),
        First::Events => answer.lane(posted.into_events()),
        // It came in while the door was closed behind it: its session has ended without having read it.
        First::Nothing if doorway.door() == Door::Closing => {
            answer.busy(StatusCode::SERVICE_UNAVAILABLE, CLOSING)
        }
        First::Nothing => answer.status(StatusCode::ACCEPTED),
    }
}

/// Opens the push lane, or resumes a lane that was cut off.
pub(crate) fn push<H: Host>(
    shared: &Shared<H>,
    headers: HeaderMap,
    last: Option<&str>,
    principal: Option<&Arc<str>>,
) -> Response<Body> {
    let found = find(shared, &headers, principal);
    let last = last.filter(|text| !text.is_empty()).map(EventId::parse);
    let answer = Answer::on(headers);
    let (_, hub) = match found {
        Ok(found) => found,
        Err(missing) => return missing.answer(answer),
    };
    let last = match last {
        Some(None) => {
            return answer.bad(StatusCode::BAD_REQUEST, "header last-event-id is no event of this session");
        }
        Some(Some(id)) => Some(id),
        None => None,
    };
    hub.heard_of();
    match hub.read(last) {
        Err(_) => Missing::Unknown.answer(answer),
        Ok(Err(_)) => answer
            .bad(StatusCode::BAD_REQUEST, "what followed last-event-id is not kept any more, call again"),
        Ok(Ok(events)) => answer.lane(events),
    }
}

/// The session that a request to end one would end.
pub(crate) fn ending<H: Host>(
    shared: &Shared<H>,
    headers: &HeaderMap,
    principal: Option<&Arc<str>>,
) -> Option<SessionId> {
    find(shared, headers, principal).ok().map(|(id, _)| id)
}

/// Ends a session, at its client's wish.
pub(crate) fn end<H: Host>(
    shared: &Shared<H>,
    headers: HeaderMap,
    principal: Option<&Arc<str>>,
) -> Response<Body> {
    let found = find(shared, &headers, principal);
    let answer = Answer::on(headers);
    match found {
        Ok((id, hub)) => {
            shared.sessions.remove(id);
            hub.end("the client ended the session");
            answer.status(StatusCode::NO_CONTENT)
        }
        Err(missing) => missing.answer(answer),
    }
}

/// Why there is no session.
enum Missing {
    /// None was named.
    Unnamed,
    /// The one that was named does not exist, or not for this principal.
    Unknown,
    /// It is one of ours, but another replica may have taken it.
    Doubtful,
    /// There is one, but the revision that was named beside it is not served.
    Revision(&'static str),
}

impl Missing {
    fn answer(self, answer: Answer) -> Response<Body> {
        match self {
            Self::Revision(why) => answer.bad(StatusCode::BAD_REQUEST, why),
            Self::Doubtful => answer.busy(StatusCode::SERVICE_UNAVAILABLE, DOUBTFUL),
            Self::Unnamed => answer.bad(
                StatusCode::BAD_REQUEST,
                "header mcp-session-id is missing, call initialize to get a session",
            ),
            Self::Unknown => {
                let fault =
                    Fault::new(code::INVALID_REQUEST, "no such session, call initialize to get a new one");
                answer.fault(StatusCode::NOT_FOUND, None, fault)
            }
        }
    }
}

const UNSHARED: &str = "sessions are shared with other replicas, and the store where this one is written down is away, try again later";
const UNSHARABLE: &str = "sessions are shared with other replicas, and the params of initialize are too large to be written down, send fewer";
const DOUBTFUL: &str = "sessions are shared with other replicas, and whose this one is cannot be told at the moment, try again later";

type Found<S> = (SessionId, Arc<Hub<S>>);

fn find<H: Host>(
    shared: &Shared<H>,
    headers: &HeaderMap,
    principal: Option<&Arc<str>>,
) -> Result<Found<H::Service>, Missing> {
    let id = match cardan_proto::http::headers::session(headers) {
        SessionHeader::Absent => return Err(Missing::Unnamed),
        SessionHeader::Malformed => return Err(Missing::Unknown),
        SessionHeader::Named(text) => SessionId::parse(text).ok_or(Missing::Unknown)?,
    };
    let hub = shared.sessions.find(id).filter(|hub| hub.belongs_to(principal)).ok_or(Missing::Unknown)?;
    if shared.sharing.as_ref().is_some_and(|sharing| !sharing.is_ours(&hub)) {
        return Err(Missing::Doubtful);
    }
    legacy_version(headers, shared).map_err(Missing::Revision)?;
    Ok((id, hub))
}

/// What the lane of a call may look like to its reader.
fn form(accepts: Accepts) -> Form {
    if accepts.event_stream { Form::Undecided } else { Form::Reply }
}

fn is_initialize(decoded: &Decoded) -> bool {
    matches!(decoded, Decoded::One(Ok(Envelope::Call(call)), _) if call.method == Method::Initialize)
}

/// Is there a call in it, or what may have been one?
fn wants_reply(decoded: &Decoded) -> bool {
    let calls = |entry: &Result<Envelope, _>| match entry {
        Ok(envelope) => matches!(envelope, Envelope::Call(_)),
        Err(cardan_proto::jsonrpc::envelope::Violation { shape, .. }) => *shape != Shape::Reply,
    };
    match decoded {
        Decoded::One(entry, _) => calls(entry),
        Decoded::Batch(entries) => entries.iter().any(|(entry, _)| calls(entry)),
    }
}
