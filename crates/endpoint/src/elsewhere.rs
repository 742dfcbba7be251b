//! A request for a session that is not here: brought to the replica that has it, or the session is taken over.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::finding::Strictness;
use cardan_proto::http::headers::{
    CARDAN_PASS, LAST_EVENT_ID, MCP_PROTOCOL_VERSION, MCP_SESSION_ID, TRACEPARENT, TRACESTATE,
    X_ACCEL_BUFFERING,
};
use cardan_proto::jsonrpc::envelope::{Decoded, Envelope, decode};
use cardan_proto::limits::Limits;
use cardan_proto::limits::replicas::{CARRY_AGAIN, LOOK_PAUSE, OWNER_SLACK};
use cardan_proto::method::Method;
use cardan_replicas::lease::Step;
use cardan_replicas::{Carrying, Errand, Found, Pass, Record, Replicas, Uncarried};
use cardan_runtime::service::Host;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use tokio::time::{Instant, sleep, timeout};

use crate::body::Body;
use crate::carried::{Carried, Watch, is_stream, whole};
use crate::door::{CLOSING, Door};
use crate::endpoint::Shared;
use crate::hub::Hub;
use crate::lanes::Form;
use crate::reply::Answer;
use crate::sessions::SessionId;
use crate::sharing::Sharing;

/// What of a request another replica needs; who sent it is said by the pass.
const THERE: [HeaderName; 7] =
    [ACCEPT, CONTENT_TYPE, MCP_SESSION_ID, MCP_PROTOCOL_VERSION, LAST_EVENT_ID, TRACEPARENT, TRACESTATE];

/// What of its answer the client needs.
const BACK: [HeaderName; 5] = [CONTENT_TYPE, CACHE_CONTROL, X_ACCEL_BUFFERING, RETRY_AFTER, MCP_SESSION_ID];

const AWAY: &str = "sessions are shared with other replicas, and the store that says whose they are is away, try again later";
const BUSY: &str = "the replica that has this session does not answer, try again later";
const LOST: &str = "the replica that has this session broke off, the call may have been carried out";

/// Who brings a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Client,
    /// It is never forwarded twice.
    Replica,
}

/// A request as it came.
#[derive(Clone, Copy)]
pub(crate) struct Came<'a> {
    parts: &'a Parts,
    body: &'a Bytes,
    principal: Option<&'a Arc<str>>,
    from: From,
}

impl<'a> Came<'a> {
    pub(crate) fn new(
        parts: &'a Parts,
        body: &'a Bytes,
        principal: Option<&'a Arc<str>>,
        pass: Option<&Pass>,
    ) -> Self {
        let from = if pass.is_some() { From::Replica } else { From::Client };
        Self { parts, body, principal, from }
    }

    /// Would it do no harm to do it twice?
    fn may_be_repeated(&self) -> bool {
        let safe = |entry: Result<Envelope, _>| match entry {
            Ok(Envelope::Call(call)) => call.method.is_safe_to_repeat(),
            _ => false,
        };
        match self.parts.method {
            http::Method::GET => true,
            http::Method::POST => match decode(self.body, Strictness::Lenient, &Limits::DEFAULT) {
                Decoded::One(entry, _) => safe(entry),
                Decoded::Batch(entries) => entries.into_iter().all(|(entry, _)| safe(entry)),
            },
            _ => false,
        }
    }
}

/// How one way to a session ended.
enum Tried {
    Answered(Box<Response<Body>>),
    /// The session is here, or nowhere.
    Here,
    /// Somebody else was faster, or is not there: look again.
    Again,
}

/// Answers for a session that is not here, or not for sure; nothing: by now it is, or there is none.
pub(crate) async fn settle<H: Host>(
    id: SessionId,
    came: Came<'_>,
    shared: &Shared<H>,
    sharing: &Sharing<H::Service>,
) -> Option<Response<Body>> {
    let replicas = &sharing.inner().replicas;
    let until = Instant::now() + replicas.term() + OWNER_SLACK;
    let answer = || Answer::on(HeaderMap::new());
    if sharing.inner().is_here(id) {
        sharing.confirm(id).await;
        if sharing.inner().is_here(id) {
            return None;
        }
    }
    loop {
        let found = match replicas.look(&sharing.inner().place, &id.text()).await {
            Ok(Some(found)) => found,
            Ok(None) => return None,
            Err(_) => return Some(answer().busy(StatusCode::SERVICE_UNAVAILABLE, AWAY)),
        };
        if found.principal.as_deref() != came.principal.map(AsRef::as_ref) {
            return None;
        }
        let tried = match (found.step, came.from) {
            (Step::Take(_), _) => take(id, &found, came.principal, shared, sharing).await,
            // Whoever forwarded it looks again.
            (Step::Forward(_), From::Replica) => {
                return Some(answer().status(StatusCode::MISDIRECTED_REQUEST));
            }
            (Step::Forward(_), From::Client) => {
                forward(&found, came, sharing, &shared.host.config(None).limits).await
            }
        };
        match tried {
            Tried::Answered(response) => return Some(*response),
            Tried::Here => return None,
            Tried::Again if Instant::now() >= until => {
                return Some(answer().busy(StatusCode::SERVICE_UNAVAILABLE, BUSY));
            }
            Tried::Again => sleep(LOOK_PAUSE).await,
        }
    }
}

/// Brings a request to the replica that has its session.
async fn forward<S: cardan_runtime::service::Service>(
    found: &Found,
    came: Came<'_>,
    sharing: &Sharing<S>,
    limits: &Limits,
) -> Tried {
    let (parts, replicas) = (came.parts, &sharing.inner().replicas);
    let session = parts.headers.get(MCP_SESSION_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
    let (method, path) = (parts.method.as_str(), parts.uri.path());
    let errand = Errand { method, path, session, to: &found.owner };
    let Some(pass) = replicas.pass(errand, came.body, came.principal.map(AsRef::as_ref)) else {
        let answer = Answer::on(HeaderMap::new()).status(StatusCode::INTERNAL_SERVER_ERROR);
        return Tried::Answered(answer.into());
    };
    let mut request = Request::new(came.body.clone());
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    copy(&THERE, &parts.headers, request.headers_mut());
    request.headers_mut().insert(CARDAN_PASS, pass);
    match carried(found, replicas, &request).await {
        Ok(response) if not_there(response.status()) => {
            replicas.doubt(found);
            Tried::Again
        }
        Ok(response) => {
            let (head, body) = response.into_parts();
            let (asker, name) = (replicas.clone(), found.trace());
            let gone = move || {
                let (asker, name) = (asker.clone(), name.clone());
                Box::pin(async move { asker.has_left(&name).await })
                    as Pin<Box<dyn Future<Output = _> + Send>>
            };
            let watch = Watch::new(replicas.term(), limits.read_idle_timeout, Box::new(gone));
            let body = if is_stream(&head.headers) {
                Body::lane(Carried::new(body, came.body.clone(), watch))
            } else if let Some(all) = whole(body, watch, limits.outbox_bytes).await {
                Body::full(all)
            } else {
                return lost(found, came, replicas);
            };
            let mut back = Response::new(body);
            *back.status_mut() = head.status;
            copy(&BACK, &head.headers, back.headers_mut());
            Tried::Answered(back.into())
        }
        Err(Uncarried::NotSent) => {
            replicas.doubt(found);
            Tried::Again
        }
        Err(Uncarried::Unknown) => lost(found, came, replicas),
    }
}

/// The session is another's, or another process was started where its owner was: neither has done anything.
fn not_there(status: StatusCode) -> bool {
    matches!(status, StatusCode::MISDIRECTED_REQUEST | StatusCode::FORBIDDEN)
}

/// What became of a request is not known. Where it does no harm, it is begun anew with whoever has the session now.
fn lost(found: &Found, came: Came<'_>, replicas: &Replicas) -> Tried {
    replicas.doubt(found);
    if came.may_be_repeated() {
        return Tried::Again;
    }
    Tried::Answered(Answer::on(HeaderMap::new()).busy(StatusCode::BAD_GATEWAY, LOST).into())
}

/// Carries a request there, over another connection where one breaks off before an answer: a replica that is about to leave closes
/// those that rest, and what is on its way just then is never read. Whoever has read it has seen its pass, and takes none twice.
async fn carried(
    found: &Found,
    replicas: &Replicas,
    request: &Request<Bytes>,
) -> Result<Response<cardan_replicas::Answer>, Uncarried> {
    let carry = || answered(found, replicas, replicas.carry(&found.address, request.clone()));
    match carry().await {
        Answered::Broken => {}
        first => return first.known(),
    }
    for _ in 0..CARRY_AGAIN {
        match carry().await {
            Answered::Broken => {}
            Answered::Head(head) if head.status() != StatusCode::FORBIDDEN => return Ok(head),
            // It was read, or whoever could tell is gone: the process that answers now is another.
            _ => return Err(Uncarried::Unknown),
        }
    }
    Err(Uncarried::Unknown)
}

/// How waiting for the head of an answer ended.
enum Answered {
    Head(Response<cardan_replicas::Answer>),
    NotSent,
    /// The connection ended.
    Broken,
    /// The owner stands still, and has lost the session.
    Left,
}

impl Answered {
    fn known(self) -> Result<Response<cardan_replicas::Answer>, Uncarried> {
        match self {
            Self::Head(head) => Ok(head),
            Self::NotSent => Err(Uncarried::NotSent),
            Self::Broken | Self::Left => Err(Uncarried::Unknown),
        }
    }
}

/// Waits for the head of an answer for as long as its owner may still give one.
async fn answered(found: &Found, replicas: &Replicas, mut carrying: Carrying) -> Answered {
    loop {
        match timeout(replicas.term(), &mut carrying).await {
            Ok(Ok(head)) => return Answered::Head(head),
            Ok(Err(Uncarried::NotSent)) => return Answered::NotSent,
            Ok(Err(Uncarried::Unknown)) => return Answered::Broken,
            Err(_) => {}
        }
        // A call may take long. A replica that stands still takes for ever, and has lost the session by now.
        if replicas.has_left(&found.trace()).await {
            return Answered::Left;
        }
    }
}

fn copy(names: &[HeaderName], from: &HeaderMap, to: &mut HeaderMap) {
    for name in names {
        for value in from.get_all(name) {
            to.append(name, value.clone());
        }
    }
}

/// Goes on with a session whose owner is gone.
async fn take<H: Host>(
    id: SessionId,
    found: &Found,
    principal: Option<&Arc<str>>,
    shared: &Shared<H>,
    sharing: &Sharing<H::Service>,
) -> Tried {
    let busy = |why| {
        let answer = Answer::on(HeaderMap::new());
        Tried::Answered(answer.busy(StatusCode::SERVICE_UNAVAILABLE, why).into())
    };
    if shared.doorway.door() == Door::Closing {
        return busy(CLOSING);
    }
    let inner = sharing.inner();
    let _alone = inner.taking[id.shard(inner.taking.len())].lock().await;
    if inner.sessions.find(id).is_some() {
        return Tried::Here;
    }
    let (hold, record) = match inner.replicas.take(found).await {
        Ok(Some(taken)) => taken,
        Ok(None) => return Tried::Again,
        Err(_) => return busy(AWAY),
    };
    let (restored, peer) = Hub::new(&shared.host, principal.cloned(), inner.sessions.shelf());
    if repeat(&restored, &record).is_none() {
        restored.end("the session cannot go on here");
        // Nor anywhere: whoever tries would find the same.
        let _ = inner.replicas.end(&hold).await;
        return Tried::Here;
    }
    if !inner.sessions.insert_as(id, restored) {
        return busy("too many sessions");
    }
    shared.host.joined(peer, principal);
    sharing.hold(id, hold, record);
    Tried::Here
}

/// Says again what the client said when the session was made what it is. Nobody reads the replies.
fn repeat<S: cardan_runtime::service::Service>(hub: &Arc<Hub<S>>, record: &Record) -> Option<()> {
    let say = |number: usize, method: &Method, params: &str| {
        // No client of ours has ids like this one.
        let id = format!("cardan-repeated-{number}");
        let call =
            format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{}","params":{params}}}"#, method.name());
        hub.post(message(call), Form::Reply).ok().map(drop)
    };
    say(0, &Method::Initialize, record.initialize.get())?;
    hub.revision().filter(|revision| revision.date() == record.revision)?;
    let note = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, Method::Initialized.name());
    hub.tell(message(note)).ok()?;
    hub.heard_of();
    if let Some(level) = &record.level {
        say(1, &Method::LoggingSetLevel, level.get())?;
    }
    for (number, uri) in record.subscriptions.iter().enumerate() {
        let params = serde_json::json!({ "uri": uri }).to_string();
        say(2 + number, &Method::ResourcesSubscribe, &params)?;
    }
    Some(())
}

fn message(text: String) -> Decoded {
    decode(&Bytes::from(text), Strictness::Standard, &Limits::DEFAULT)
}
