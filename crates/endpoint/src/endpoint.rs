//! The endpoint: from a request to the transport that answers it.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::era::{Era, unsupported};
use cardan_proto::http::cors::Cors;
use cardan_proto::http::era::Undecided;
use cardan_proto::http::headers::{self, Accepts, CARDAN_PASS, LAST_EVENT_ID};
use cardan_proto::http::ingress::{self, Admission, LegacyServing};
use cardan_proto::jsonrpc::envelope::{Decoded, Envelope, Param};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::replicas::LINGER;
use cardan_proto::method::Method;
use cardan_replicas::{Pass, Still};
use cardan_runtime::service::{Host, Service, observe};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};

use crate::body::Body;
use crate::door::{CLOSING, Door, Doorway};
use crate::elsewhere::{Came, settle};
use crate::events::{self, Streams, guarded};
use crate::hub::Posted;
use crate::ingress::{
    Meaning, Meaningless, Shown, admit, admit_forwarded, agreed, read_body, refused, understand,
};
use crate::legacy;
use crate::options::{Options, Paths, Replies, Traces, Verify};
use crate::page::{self, Page};
use crate::post::Exchange;
use crate::reply::Answer;
use crate::sessions::Sessions;
use crate::sharing::{Forged, Keep, Sharing};
use crate::socket::{self, Sockets};

/// One endpoint: every client, both eras, over every HTTP transport. Cheap to clone.
pub struct Endpoint<H: Host>(Arc<Shared<H>>);

/// What an endpoint keeps for its clients between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Census {
    /// Legacy sessions.
    pub sessions: usize,
    /// Lanes of calls in them that are not read to their end.
    pub lanes: usize,
    /// Streams of the old HTTP+SSE.
    pub streams: usize,
    /// WebSockets.
    pub sockets: usize,
}

/// Who is here. Cheap to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Present {
    /// Legacy sessions.
    pub sessions: usize,
    /// Streams of the old HTTP+SSE.
    pub streams: usize,
    /// WebSockets.
    pub sockets: usize,
}

impl std::ops::Add for Present {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sessions: self.sessions + other.sessions,
            streams: self.streams + other.streams,
            sockets: self.sockets + other.sockets,
        }
    }
}

/// What all requests share.
pub(crate) struct Shared<H: Host> {
    pub(crate) host: H,
    /// The host's side towards whoever it may be.
    pub(crate) anyone: Arc<H::Service>,
    pub(crate) ingress: ingress::Config,
    pub(crate) paths: Paths,
    pub(crate) replies: Replies,
    pub(crate) verify: Option<Arc<dyn Verify>>,
    pub(crate) sessions: Arc<Sessions<H::Service>>,
    /// Sessions that replicas share, where they do.
    pub(crate) sharing: Option<Sharing<H::Service>>,
    pub(crate) streams: Streams,
    pub(crate) sockets: Sockets,
    pub(crate) doorway: Doorway,
    pub(crate) traces: Traces,
    veil: Option<&'static str>,
    pages: Vec<Page>,
}

impl<H: Host> Shared<H> {
    /// Is this for nobody without a token, whether it is there or not?
    pub(crate) fn veils(&self, path: &str) -> bool {
        self.verify.is_some() && self.veil.is_some_and(|folder| path.starts_with(folder))
    }

    pub(crate) fn service(&self, principal: Option<&Arc<str>>) -> Arc<H::Service> {
        match principal {
            None => Arc::clone(&self.anyone),
            some => self.host.service(some),
        }
    }
}

/// The transports, by path.
#[derive(Debug, Clone, Copy)]
enum Route<'a> {
    Streamable,
    Events,
    Messages,
    Socket,
    Page(&'a Page),
    Nowhere,
}

/// An answer in the making.
pub type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<H: Host> Endpoint<H> {
    /// An endpoint for `host`.
    pub fn new(host: H, options: Options) -> Self {
        let config = host.config(None);
        let legacy = match config.revisions.newest(Era::Legacy) {
            Some(_) => options.legacy,
            None => LegacyServing::Off,
        };
        let mut ingress = ingress::Config::new(options.allow, legacy, &config.limits);
        ingress.accept = options.accept;
        let sessions = Arc::new(Sessions::new(&config.limits));
        let path = options.paths.mcp.as_deref().unwrap_or_default();
        let sharing = options.replicas.map(|replicas| Sharing::new(replicas, path, Arc::clone(&sessions)));
        Self(Arc::new(Shared {
            anyone: host.service(None),
            ingress,
            paths: options.paths,
            replies: options.replies,
            verify: options.verify,
            sessions,
            sharing,
            streams: Streams::default(),
            sockets: Sockets::default(),
            doorway: Doorway::new(host.unfinished()),
            traces: options.traces,
            veil: options.veil,
            pages: options.pages,
            host,
        }))
    }

    /// Who is served.
    #[must_use]
    pub fn host(&self) -> &H {
        &self.0.host
    }

    /// What is kept for clients right now.
    #[must_use]
    pub fn census(&self) -> Census {
        let (sessions, lanes) = self.0.sessions.census();
        Census { sessions, lanes, streams: self.0.streams.len(), sockets: self.0.sockets.len() }
    }

    /// Who is here.
    #[must_use]
    pub fn present(&self) -> Present {
        Present {
            sessions: self.0.sessions.len(),
            streams: self.0.streams.len(),
            sockets: self.0.sockets.len(),
        }
    }

    /// Closes: no new session, stream or call is taken, what runs is finished, within the limit's time; what is not is
    /// answered as lost. Whoever serves the endpoint by another listener than ours calls it at the end.
    pub async fn close(&self, reason: &'static str) {
        let config = self.0.host.config(None);
        let limits = &config.limits;
        self.shut(reason);
        let sockets = self.0.sockets.end(limits.drain_timeout + limits.farewell_timeout);
        // Others whose requests were on their way to a connection that is closed now come again.
        let linger = if self.0.sharing.is_some() { LINGER } else { Duration::ZERO };
        tokio::join!(sockets, self.0.doorway.finished(), tokio::time::sleep(linger));
    }

    /// Takes nothing new, and tells all who are here.
    pub(crate) fn shut(&self, reason: &'static str) {
        if let Some(sharing) = &self.0.sharing {
            sharing.leave();
        }
        self.0.sockets.shut();
        self.0.doorway.close(reason, self.0.host.config(None).limits.drain_timeout);
        self.0.host.close(reason);
    }

    pub(crate) fn door(&self) -> Door {
        self.0.doorway.door()
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
    {
        let shared = &self.0;
        let (parts, body) = request.into_parts();
        let cors = shared.ingress.allow.cors(&parts.headers);
        if let Some(cors) = &cors
            && Cors::is_preflight(&parts.method, &parts.headers)
        {
            return preflight(shared, &parts, cors);
        }
        let shown = Shown::of(&parts, shared);
        let mut response = match self.route(parts.uri.path()) {
            Route::Events | Route::Messages | Route::Socket | Route::Nowhere if passes(shared, &parts) => {
                Answer::on(parts.headers).status(StatusCode::FORBIDDEN)
            }
            Route::Streamable => streamable(shared, parts, body).await,
            Route::Events => events::open(shared, parts),
            Route::Messages => events::post(shared, parts, body).await,
            Route::Socket => socket::open(shared, parts),
            Route::Page(page) => page::show(shared, parts, page),
            Route::Nowhere => nowhere(shared, parts),
        };
        if let Some(cors) = cors {
            cors.open(response.headers_mut());
        }
        match shown {
            Some(shown) => response.map(|body| body.until(|| shown.revoked(shared))),
            None => response,
        }
    }

    fn route(&self, path: &str) -> Route<'_> {
        let paths = &self.0.paths;
        let is = |at: &Option<Box<str>>| at.as_deref() == Some(path);
        if is(&paths.mcp) {
            Route::Streamable
        } else if is(&paths.events) {
            Route::Events
        } else if is(&paths.messages) {
            Route::Messages
        } else if is(&paths.socket) {
            Route::Socket
        } else {
            self.0.pages.iter().find(|page| *page.path == *path).map_or(Route::Nowhere, Route::Page)
        }
    }
}

/// A browser asks whether a page may call us; it shows no token for that.
fn preflight<H: Host>(shared: &Shared<H>, parts: &Parts, cors: &Cors) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    match shared.ingress.allow.check(&parts.uri, &parts.headers) {
        Ok(_) => {
            *response.status_mut() = StatusCode::NO_CONTENT;
            *response.headers_mut() = cors.preflight(&parts.headers);
        }
        Err(_) => *response.status_mut() = StatusCode::FORBIDDEN,
    }
    response
}

/// There is nothing here. The guard comes first on every route: a page must not even learn what is here, nor a stranger below
/// the veil.
fn nowhere<H: Host>(shared: &Shared<H>, parts: Parts) -> Response<Body> {
    if shared.ingress.allow.check(&parts.uri, &parts.headers).is_err() {
        return Answer::on(parts.headers).status(StatusCode::FORBIDDEN);
    }
    let admitted = if shared.veils(parts.uri.path()) { guarded(shared, &parts).map(drop) } else { Ok(()) };
    match admitted {
        Ok(()) => Answer::on(parts.headers).status(StatusCode::NOT_FOUND),
        Err(refusal) => Answer::on(parts.headers).refusal(*refusal),
    }
}

/// Does it claim to have been let in by a replica? Replicas forward nothing but Streamable HTTP, whose own route looks at
/// the claim. Below the veil one is as good as another.
fn passes<H: Host>(shared: &Shared<H>, parts: &Parts) -> bool {
    shared.sharing.is_some() && shared.veils(parts.uri.path()) && parts.headers.contains_key(CARDAN_PASS)
}

/// Streamable HTTP, both eras.
async fn streamable<H: Host, B>(shared: &Shared<H>, parts: Parts, body: B) -> Response<Body>
where
    B: http_body::Body<Data = Bytes>,
{
    let length = body.size_hint().exact();
    let pass = match shared.sharing.as_ref().map_or(Ok(None), |sharing| sharing.pass(&parts)) {
        Ok(pass) => pass,
        Err(Forged) => return Answer::on(parts.headers).status(StatusCode::FORBIDDEN),
    };
    let admitted = match &pass {
        None => admit(&parts, length, shared),
        Some(pass) => admit_forwarded(&parts, length, pass, shared),
    };
    let (accepts, principal) = match admitted {
        Ok((Admission::Post { accepts, .. }, principal)) => (accepts, principal),
        Ok((Admission::Push { .. } | Admission::End { .. }, principal)) => {
            return sessionful(shared, parts, principal, pass.as_deref()).await;
        }
        Err(refusal) => return Answer::on(parts.headers).refusal(refusal),
    };
    let config = shared.host.config(None);
    let limits = &config.limits;
    let body = match read_body(body, limits).await {
        Ok(body) => body,
        Err(unread) => {
            let (status, why) = unread.status();
            return Answer::on(parts.headers).bad(status, why);
        }
    };
    if let Some(sharing) = &shared.sharing {
        if pass.as_ref().is_some_and(|pass| !pass.is_for(&body)) {
            return Answer::on(parts.headers).status(StatusCode::FORBIDDEN);
        }
        if let Some(id) = sharing.unsettled(&parts.headers) {
            let came = Came::new(&parts, &body, principal.as_ref(), pass.as_deref());
            // Boxed, so that those who find their session here carry nothing of it.
            if let Some(response) = Box::pin(settle(id, came, shared, sharing)).await {
                return response;
            }
        }
    }
    match post(shared, parts.headers, &body, shared.replies.choose(accepts), principal) {
        // Nothing begins here any more, and the session is given up soon: whoever forwarded it looks again until then.
        Posting::Answered(response)
            if pass.is_some() && response.status() == StatusCode::SERVICE_UNAVAILABLE =>
        {
            Answer::on(HeaderMap::new()).status(StatusCode::MISDIRECTED_REQUEST)
        }
        Posting::Answered(response) => response,
        Posting::Legacy(posted, answer, accepts) => {
            legacy::reply(posted, answer, accepts, (limits, &shared.doorway)).await
        }
        Posting::Keep(keep, posted, answer, accepts) => {
            Box::pin(legacy::kept(shared, keep, posted, answer, accepts)).await
        }
        Posting::Modern(exchange, answer, accepts) => exchange.answer(answer, accepts, &shared.doorway).await,
        Posting::Note(exchange, answer) => {
            exchange.note().await;
            answer.status(StatusCode::ACCEPTED)
        }
    }
}

/// GET and DELETE, which only the legacy era has: the push lane of a session, and its end.
async fn sessionful<H: Host>(
    shared: &Shared<H>,
    parts: Parts,
    principal: Option<Arc<str>>,
    pass: Option<&Pass>,
) -> Response<Body> {
    let sharing = shared.sharing.as_ref();
    let nothing = Bytes::new();
    for _ in 0..ENDINGS {
        if let Some(sharing) = sharing
            && let Some(id) = sharing.unsettled(&parts.headers)
        {
            let came = Came::new(&parts, &nothing, principal.as_ref(), pass);
            if let Some(response) = Box::pin(settle(id, came, shared, sharing)).await {
                return response;
            }
        }
        if parts.method == http::Method::GET {
            let last = headers::single_text(&LAST_EVENT_ID, &parts.headers).ok().flatten().map(str::to_owned);
            return legacy::push(shared, parts.headers, last.as_deref(), principal.as_ref());
        }
        let ending = match (sharing, legacy::ending(shared, &parts.headers, principal.as_ref())) {
            (Some(sharing), Some(id)) => sharing.end(id).await,
            _ => Ok(Still::Ours),
        };
        match ending {
            Ok(Still::Ours) => return legacy::end(shared, parts.headers, principal.as_ref()),
            // Whoever has it by now is to end it.
            Ok(Still::Lost) => {}
            Err(_) => break,
        }
    }
    Answer::on(parts.headers).busy(StatusCode::SERVICE_UNAVAILABLE, UNENDED)
}

/// How often the end of a session follows it to another replica.
const ENDINGS: usize = 3;

const UNENDED: &str = "sessions are shared with other replicas, and the store that is to forget this one is away, try again later";

/// What a POST has led to, as a value: futures within futures would hold, and move, everything once per level.
pub(crate) enum Posting<S: Service> {
    /// All is said.
    Answered(Response<Body>),
    /// A reply is to come from a legacy session.
    Legacy(Posted<S>, Answer, Accepts),
    /// The same, when something was written down for other replicas.
    Keep(Keep, Posted<S>, Answer, Accepts),
    /// A reply is to come from a session of its own.
    Modern(Exchange<S>, Answer, Accepts),
    /// A note has yet to take effect.
    Note(Exchange<S>, Answer),
}

fn post<H: Host>(
    shared: &Shared<H>,
    headers: HeaderMap,
    body: &Bytes,
    accepts: Accepts,
    principal: Option<Arc<str>>,
) -> Posting<H::Service> {
    let session = headers::session(&headers);
    match understand(body, &headers, session, shared) {
        Ok(Meaning::Legacy(decoded)) => legacy::post(shared, headers, decoded, accepts, principal),
        Ok(Meaning::Modern(decoded)) => modern(shared, headers, decoded, accepts, principal.as_ref()),
        Err(Meaningless::Refused(refusal)) => Posting::Answered(Answer::on(headers).refusal(refusal)),
        Err(Meaningless::Undecided(why)) => Posting::Answered(undecided(shared, headers, body, why)),
    }
}

fn modern<H: Host>(
    shared: &Shared<H>,
    headers: HeaderMap,
    mut decoded: Decoded,
    accepts: Accepts,
    principal: Option<&Arc<str>>,
) -> Posting<H::Service> {
    let service = shared.service(principal);
    let call = match &mut decoded {
        Decoded::One(Ok(Envelope::Call(call)), _) => call,
        // A session beside modern marks is ignored, so the reply answers no call of ours.
        Decoded::One(Ok(Envelope::Reply(_)), _) => {
            let why = "a reply was posted, but modern servers make no calls";
            return Posting::Answered(Answer::on(headers).bad(StatusCode::BAD_REQUEST, why));
        }
        // What is neither is a note: batches were refused.
        _ => {
            let exchange = Exchange::new(decoded, &shared.host, service, principal);
            return Posting::Note(exchange, Answer::on(headers));
        }
    };
    let returned = match shared.doorway.door() {
        Door::Open => None,
        // It runs already: its client was asked something, and answers.
        Door::Closing if call.params.get(Param::RequestState).is_some() => Some(shared.doorway.returned()),
        Door::Closing => {
            return Posting::Answered(Answer::on(headers).busy(StatusCode::SERVICE_UNAVAILABLE, CLOSING));
        }
    };
    match agreed(call, &headers, principal, shared) {
        Ok(strays) => call.strays = strays,
        Err(refusal) => {
            if let Some(event) = refused(call, &refusal) {
                observe(&*service, &event);
            }
            let id = Some(call.id.clone());
            let unsupported = |requested: &str| unsupported(requested, &shared.host.config(None));
            return Posting::Answered(Answer::on(headers).disagreement(id, &refusal, unsupported));
        }
    }
    if call.method == Method::SubscriptionsListen && !accepts.event_stream {
        // It is told as events or not at all.
        let why = "accept must admit text/event-stream to listen";
        return Posting::Answered(Answer::on(headers).bad(StatusCode::NOT_ACCEPTABLE, why));
    }
    let exchange = match returned {
        None => Exchange::new(decoded, &shared.host, service, principal),
        Some(returned) => Exchange::returned(returned, decoded, &shared.host, service, principal),
    };
    Posting::Modern(exchange, Answer::on(headers), accepts)
}

/// A POST that no era serves. The fault tells what would be served.
fn undecided<H: Host>(
    shared: &Shared<H>,
    headers: HeaderMap,
    body: &Bytes,
    why: Undecided,
) -> Response<Body> {
    let config = shared.host.config(None);
    let id = match cardan_proto::jsonrpc::envelope::decode(body, config.strictness, &config.limits) {
        Decoded::One(Ok(Envelope::Call(call)), _) => Some(call.id),
        _ => None,
    };
    let fault = match why {
        Undecided::LegacyOff => {
            let named = unsupported("", &config);
            Fault { message: why.to_string().into(), ..named }
        }
        Undecided::Unmarked => Fault::new(why.code(), why.to_string()),
    };
    Answer::on(headers).fault(why.status(), id, fault)
}

impl<H: Host> Clone for Endpoint<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<H: Host> fmt::Debug for Endpoint<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("paths", &self.0.paths).finish_non_exhaustive()
    }
}

/// Mounts in tower applications, axum among them.
impl<H, B> tower_service::Service<Request<B>> for Endpoint<H>
where
    H: Host,
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        hyper::service::Service::call(&*self, request)
    }
}

/// Mounts in hyper directly.
impl<H, B> hyper::service::Service<Request<B>> for Endpoint<H>
where
    H: Host,
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<B>) -> Answering {
        let endpoint = self.clone();
        // Boxed: the future's size is a slot in every connection for as long as it is open.
        Box::pin(async move { Ok(endpoint.answer(request).await) })
    }
}
