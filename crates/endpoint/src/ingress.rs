//! From a request to what it means: the guard, the body, and the era it belongs to.
//!
//! The rules are `cardan_proto::http`; here they get the request's parts, in the order that the
//! specification fixes.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use cardan_proto::era::{Era, Revision, gates};
use cardan_proto::http::agree::{self, BodyFacts, BodyKind, Meta, Offered, ParamHeaders};
use cardan_proto::http::era::{LegacyOffer, Markers, Undecided, decide};
use cardan_proto::http::headers::{CARDAN_PASS, MCP_PROTOCOL_VERSION, SessionHeader, single_text};
use cardan_proto::http::ingress::{
    Access, Admission, Batches, Head, LegacyServing, Refusal, Shape, authorize, bearer, check_shape, guard,
    know, sort, weigh,
};
use cardan_proto::http::stray::Strays;
use cardan_proto::jsonrpc::envelope::{self, Call, Decoded, Envelope, MetaKey, Param};
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::event::Event;
use cardan_replicas::Pass;
use cardan_runtime::service::{Host, StrayHeaders};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::endpoint::Shared;
use crate::options::{Grant, Revoked, Traces};
use crate::trace;

/// Steps 1 to 4: who calls whom, with which method, with what right, and how much.
pub(crate) fn admit<'a, H: Host>(
    parts: &'a Parts,
    length: Option<u64>,
    shared: &Shared<H>,
) -> Result<(Admission<'a>, Option<Arc<str>>), Refusal> {
    let head =
        Head { method: &parts.method, uri: &parts.uri, headers: &parts.headers, content_length: length };
    let (admission, principal) = if shared.veils(parts.uri.path()) {
        // Strangers are not told which method there would be.
        know(head.uri, head.headers, &shared.ingress)?;
        let principal = authorized(&parts.headers, shared)?;
        (sort(head, &shared.ingress)?, principal)
    } else {
        (guard(head, &shared.ingress)?, authorized(&parts.headers, shared)?)
    };
    weigh(admission, head, &shared.ingress)?;
    Ok((admission, principal))
}

/// The same for a request that a replica has let in and forwarded.
pub(crate) fn admit_forwarded<'a, H: Host>(
    parts: &'a Parts,
    length: Option<u64>,
    pass: &Pass,
    shared: &Shared<H>,
) -> Result<(Admission<'a>, Option<Arc<str>>), Refusal> {
    let head =
        Head { method: &parts.method, uri: &parts.uri, headers: &parts.headers, content_length: length };
    let admission = sort(head, &shared.ingress)?;
    weigh(admission, head, &shared.ingress)?;
    Ok((admission, pass.principal.as_deref().map(Arc::from)))
}

/// Step 3, for every route.
pub(crate) fn authorized<H: Host>(
    headers: &HeaderMap,
    shared: &Shared<H>,
) -> Result<Option<Arc<str>>, Refusal> {
    let Some(verify) = &shared.verify else { return Ok(None) };
    let access = match verify.verify(bearer(headers)?) {
        Grant::Granted(principal) => return Ok(principal),
        Grant::Missing(bearer) => Access::Missing(bearer),
        Grant::Invalid(bearer) => Access::Invalid(bearer),
        Grant::Insufficient(bearer) => Access::Insufficient(bearer),
    };
    authorize(access).map(|()| None)
}

/// What a request has to show, for as long as what it opens lasts.
pub(crate) struct Shown(Option<HeaderValue>);

impl Shown {
    /// Nothing: no token is asked for, or whoever has let the client in and forwarded it looks after that.
    pub(crate) fn of<H: Host>(parts: &Parts, shared: &Shared<H>) -> Option<Self> {
        shared.verify.as_ref()?;
        let (mcp, headers) = (shared.paths.mcp.as_deref(), &parts.headers);
        // Elsewhere nobody looks at a pass.
        let forwarded = shared.sharing.is_some() && mcp == Some(parts.uri.path());
        if forwarded && headers.contains_key(CARDAN_PASS) {
            return None;
        }
        Some(Self(headers.get(AUTHORIZATION).cloned()))
    }

    /// When it is good no more.
    pub(crate) fn revoked<H: Host>(&self, shared: &Shared<H>) -> Option<Revoked> {
        let headers = self.0.iter().map(|shown| (AUTHORIZATION, shown.clone())).collect();
        shared.verify.as_ref()?.revoked(bearer(&headers).ok()?)
    }
}

/// Why a body was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    TooLarge,
    TooSlow,
    Broken,
}

impl Unread {
    pub(crate) fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than this server takes"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
            Self::Broken => (StatusCode::BAD_REQUEST, "the body broke off"),
        }
    }
}

/// The whole body, within its bounds. One that arrived with the head is taken as it is.
pub(crate) async fn read_body<B>(body: B, limits: &Limits) -> Result<Bytes, Unread>
where
    B: http_body::Body<Data = Bytes>,
{
    let mut body = pin!(body);
    let announced = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let announced = announced.filter(|length| *length <= limits.body_bytes).unwrap_or(0);
    let mut timer = None;
    let mut frame = async || {
        poll_fn(|cx| match body.as_mut().poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            // The timer is armed only when there is something to wait for.
            Poll::Pending => {
                let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limits.body_timeout)));
                timer.as_mut().poll(cx).map(|()| Err(Unread::TooSlow))
            }
        })
        .await
    };
    let mut first = Bytes::new();
    let mut all: Option<BytesMut> = None;
    while let Some(frame) = frame().await? {
        let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
        let so_far = all.as_ref().map_or(first.len(), BytesMut::len);
        if so_far + data.len() > limits.body_bytes {
            return Err(Unread::TooLarge);
        }
        match &mut all {
            Some(all) => all.extend_from_slice(&data),
            None if first.is_empty() => first = data,
            None => {
                let mut joined = BytesMut::with_capacity(announced.max((first.len() + data.len()) * 2));
                joined.extend_from_slice(&first);
                joined.extend_from_slice(&data);
                all = Some(joined);
            }
        }
    }
    Ok(all.map_or(first, BytesMut::freeze))
}

/// What a POST means.
#[derive(Debug)]
pub(crate) enum Meaning {
    Modern(Decoded),
    Legacy(Decoded),
}

/// Why a POST means nothing here.
#[derive(Debug)]
pub(crate) enum Meaningless {
    Refused(Refusal),
    Undecided(Undecided),
}

/// Steps 5 and 6: the shape of the body, and its era.
pub(crate) fn understand<H: Host>(
    body: &Bytes,
    headers: &HeaderMap,
    session: SessionHeader<'_>,
    shared: &Shared<H>,
) -> Result<Meaning, Meaningless> {
    let config = shared.host.config(None);
    let mut decoded = envelope::decode(body, config.strictness, &config.limits);
    if shared.traces == Traces::Adopted {
        trace::adopt(&mut decoded, headers, &config.limits);
    }
    let markers = Marks::of(&decoded);
    let allowed = markers.version.is_none() && may_batch(headers, session);
    let batches = if allowed { Batches::Allowed } else { Batches::Refused };
    check_shape(shape_of(&decoded), session, batches).map_err(Meaningless::Refused)?;
    let offer = match shared.ingress.legacy {
        LegacyServing::Off => LegacyOffer::Off,
        LegacyServing::Sessions | LegacyServing::Sessionless => LegacyOffer::Unnamed,
    };
    let markers = Markers { meta_version: markers.version.as_deref(), method: markers.method };
    match decide(markers, headers, offer).map_err(Meaningless::Undecided)? {
        Era::Modern => Ok(Meaning::Modern(decoded)),
        Era::Legacy => Ok(Meaning::Legacy(decoded)),
    }
}

/// A session without the header may be of the one revision that has batches: its session machine knows.
fn may_batch(headers: &HeaderMap, session: SessionHeader<'_>) -> bool {
    match (single_text(&MCP_PROTOCOL_VERSION, headers), session) {
        (Ok(Some(date)), _) => Revision::parse(date).is_some_and(|revision| gates(revision).batches),
        (Ok(None), SessionHeader::Named(_)) => true,
        _ => false,
    }
}

fn shape_of(decoded: &Decoded) -> Shape {
    match decoded {
        Decoded::Batch(_) => Shape::Batch,
        Decoded::One(Ok(envelope), _) => Shape::One(match envelope {
            Envelope::Call(_) => BodyKind::Call,
            Envelope::Note(_) => BodyKind::Note,
            Envelope::Reply(_) => BodyKind::Reply,
        }),
        Decoded::One(Err(violation), _) if violation.fault().code == code::PARSE => Shape::Unreadable,
        Decoded::One(Err(_), _) => Shape::NotAMessage,
    }
}

/// What counts for the era.
struct Marks<'a> {
    version: Option<Cow<'a, str>>,
    method: Option<&'a Method>,
}

impl<'a> Marks<'a> {
    fn of(decoded: &'a Decoded) -> Self {
        match decoded {
            Decoded::One(Ok(envelope), _) => Self::of_one(envelope),
            Decoded::One(Err(_), _) => Self { version: None, method: None },
            Decoded::Batch(entries) => {
                let version =
                    entries.iter().find_map(|(entry, _)| Self::of_one(entry.as_ref().ok()?).version);
                Self { version, method: None }
            }
        }
    }

    fn of_one(envelope: &'a Envelope) -> Self {
        let (method, params) = match envelope {
            Envelope::Call(call) => (&call.method, &call.params),
            Envelope::Note(note) => (&note.method, &note.params),
            Envelope::Reply(_) => return Self { version: None, method: None },
        };
        // A version of another type is a modern mark too: the modern checks say what is wrong with it.
        let version = params.meta_text(MetaKey::ProtocolVersion);
        let marked = version.is_some() || params.meta(MetaKey::ProtocolVersion).is_some();
        Self { version: version.or_else(|| marked.then_some(Cow::Borrowed(""))), method: Some(method) }
    }
}

/// Step 7: does a modern call say the same in its headers and in its body? And what of its headers is to be passed on.
pub(crate) fn agreed<H: Host>(
    call: &Call,
    headers: &HeaderMap,
    principal: Option<&Arc<str>>,
    shared: &Shared<H>,
) -> Result<Option<Strays>, agree::Refusal> {
    let params = &call.params;
    let version = params.meta_text(MetaKey::ProtocolVersion);
    let name = agree::name_member(&call.method).and_then(|member| params.text(member));
    let capabilities = params.meta(MetaKey::ClientCapabilities);
    let meta = match (&version, capabilities) {
        (None, _) => Meta::Lacks(MetaKey::ProtocolVersion.name()),
        (Some(_), Some(raw)) if raw.first() == Some(&b'{') => Meta::Complete,
        (Some(_), _) => Meta::Lacks(MetaKey::ClientCapabilities.name()),
    };
    let mirrored = match (&call.method, &name) {
        (Method::ToolsCall, Some(tool)) => shared.host.mirrors(tool, principal),
        _ => None,
    };
    let arguments = mirrored.as_ref().map(|_| {
        params.get(Param::Arguments).and_then(|raw| serde_json::from_slice(&raw).ok()).unwrap_or_default()
    });
    let facts = BodyFacts {
        kind: BodyKind::Call,
        method: Some(&call.method),
        name: name.as_deref(),
        meta_version: version.as_deref(),
        meta,
        params: mirrored.as_deref().zip(arguments.as_ref()),
    };
    let config = shared.host.config(principal);
    let serves = |date: &str| match Revision::parse(date) {
        Some(revision) if revision.era() == Era::Modern && config.revisions.has(revision) => Offered::Yes,
        _ => Offered::No,
    };
    let offers = |method: &Method| {
        let known = version.as_deref().and_then(Revision::parse).is_some_and(|revision| revision.has(method));
        if known && config.server_caps().lacks(method).is_none() { Offered::Yes } else { Offered::No }
    };
    match agree::agree(&facts, headers, serves, offers)? {
        ParamHeaders::Present if shared.host.strays() == StrayHeaders::Passed => {
            Strays::collect(headers, mirrored.as_deref(), &config.limits).map_err(agree::Refusal::Strays)
        }
        _ => Ok(None),
    }
}

/// What the service is to hear of a call that no session will see. One that is of no revision spoken here is no call of ours, as on a
/// stream.
pub(crate) fn refused(call: &Call, why: &agree::Refusal) -> Option<Event> {
    let version = call.params.meta_text(MetaKey::ProtocolVersion);
    let known = || version.as_deref().and_then(Revision::parse).is_some_and(|one| one.has(&call.method));
    match why {
        agree::Refusal::Method { .. } => known().then(|| Event::Untold(call.clone())),
        agree::Refusal::Missing { .. }
        | agree::Refusal::Malformed { .. }
        | agree::Refusal::Value { .. }
        | agree::Refusal::Differs { .. }
        | agree::Refusal::Param(_)
        | agree::Refusal::Strays(_) => Some(Event::Disagreed(call.clone())),
        agree::Refusal::Reply | agree::Refusal::Meta { .. } | agree::Refusal::Version { .. } => None,
    }
}

/// Step 8: a legacy request after the handshake names a revision that we serve, or none.
pub(crate) fn legacy_version<H: Host>(headers: &HeaderMap, shared: &Shared<H>) -> Result<(), &'static str> {
    match single_text(&MCP_PROTOCOL_VERSION, headers) {
        Ok(None) => Ok(()),
        Ok(Some(date)) => {
            let served = Revision::parse(date)
                .is_some_and(|revision| shared.host.config(None).revisions.has(revision));
            if served {
                Ok(())
            } else {
                Err("header mcp-protocol-version names a revision that is not served")
            }
        }
        Err(_) => Err("header mcp-protocol-version cannot be read, send one revision"),
    }
}
