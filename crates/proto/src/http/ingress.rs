//! From the head of a request to its admission: the checks that come before the body is read.
//!
//! The order is fixed, so that a stranger learns nothing from a later check and costs nothing:
//! first `Host` and `Origin`, then the method, the token, and sizes and media types. Then the body
//! is read and its shape is checked; era and agreement of headers and body come after.
//!
//! [`admit`] runs all that comes before the body. A server that verifies tokens with I/O calls
//! [`guard`], [`bearer`], [`authorize`] and [`weigh`] itself, in this order.

use std::fmt;

use ::http::header::AUTHORIZATION;
use ::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

use super::agree::BodyKind;
use super::challenge::Bearer;
use super::headers::{self, Accepts, Content, LAST_EVENT_ID, MCP_SESSION_ID, SessionHeader};
use super::origin::Allow;
use crate::jsonrpc::fault::code;
use crate::limits::Limits;

/// The head of a request.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The request target.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The length of the body, if it is announced. An unannounced one is bounded while it is read.
    pub content_length: Option<u64>,
}

/// What an endpoint admits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Who may talk to us.
    pub allow: Allow,
    /// What of the legacy era is served.
    pub legacy: LegacyServing,
    /// How exact `Accept` must be.
    pub accept: AcceptRule,
    /// The largest body.
    pub body_bytes: usize,
    /// The largest head: all names and values of its headers.
    pub head_bytes: usize,
}

impl Config {
    /// An endpoint of both eras with the bounds of `limits`.
    #[must_use]
    pub fn new(allow: Allow, legacy: LegacyServing, limits: &Limits) -> Self {
        Self {
            allow,
            legacy,
            accept: AcceptRule::Either,
            body_bytes: limits.body_bytes,
            head_bytes: limits.head_bytes,
        }
    }
}

/// What of the legacy era is served beside modern calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyServing {
    /// Nothing: only POST is allowed.
    Off,
    /// Sessions; a push lane needs one.
    Sessions,
    /// Sessions, and push lanes without one.
    Sessionless,
}

/// How exact `Accept` of a POST must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptRule {
    /// One of the two answer types is enough; the answer takes that form.
    Either,
    /// Both must be admitted, as the specification asks of clients.
    Both,
}

/// What may go on to be read or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission<'a> {
    /// A message, in either era: a session next to modern markers is to be ignored.
    Post {
        /// The session that is named.
        session: SessionHeader<'a>,
        /// The forms that the answer may take.
        accepts: Accepts,
    },
    /// A legacy push lane.
    Push {
        /// The session, if one is named.
        session: Option<&'a str>,
        /// Where an earlier lane broke off.
        last_event_id: Option<&'a str>,
    },
    /// The end of a legacy session.
    End {
        /// The session.
        session: &'a str,
    },
}

/// What is known of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// No token is needed, or the token is good.
    Granted,
    /// A token is needed and there is none.
    Missing(Bearer),
    /// The token is not, or no longer, good for this server.
    Invalid(Bearer),
    /// The token is good, but not for this.
    Insufficient(Bearer),
}

/// An answer in place of admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// The code and message of a fault without id, if the answer has a body.
    pub fault: Option<(i64, String)>,
    /// `Allow`, with 405.
    pub allow: Option<HeaderValue>,
    /// `WWW-Authenticate`, with 401 and 403 for tokens.
    pub challenge: Option<HeaderValue>,
}

/// Steps 1 to 4. `verify` is given the token, if there is one.
pub fn admit<'a>(
    head: Head<'a>,
    config: &Config,
    verify: impl FnOnce(Option<&str>) -> Access,
) -> Result<Admission<'a>, Refusal> {
    let admission = guard(head, config)?;
    authorize(verify(bearer(head.headers)?))?;
    weigh(admission, head, config)?;
    Ok(admission)
}

/// Step 1, for every route: who is calling whom.
pub fn know(uri: &Uri, headers: &HeaderMap, config: &Config) -> Result<(), Refusal> {
    config
        .allow
        .check(uri, headers)
        .map(drop)
        .map_err(|denied| Refusal::fault(StatusCode::FORBIDDEN, code::INVALID_REQUEST, denied))
}

/// Steps 1 and 2: who is calling whom, and with which method.
pub fn guard<'a>(head: Head<'a>, config: &Config) -> Result<Admission<'a>, Refusal> {
    know(head.uri, head.headers, config)?;
    sort(head, config)
}

/// Step 2: with which method. For who knows by other means who is calling whom.
pub fn sort<'a>(head: Head<'a>, config: &Config) -> Result<Admission<'a>, Refusal> {
    let session = headers::session(head.headers);
    match (head.method, config.legacy) {
        (&Method::POST, _) => Ok(Admission::Post { session, accepts: headers::accepts(head.headers) }),
        (&Method::GET, LegacyServing::Sessions | LegacyServing::Sessionless) => {
            let session = match (session, config.legacy) {
                (SessionHeader::Named(id), _) => Some(id),
                (SessionHeader::Absent, LegacyServing::Sessionless) => None,
                (SessionHeader::Absent, _) => return Err(Refusal::method(config.legacy)),
                (SessionHeader::Malformed, _) => return Err(Refusal::session()),
            };
            let last_event_id = headers::single_text(&LAST_EVENT_ID, head.headers).ok().flatten();
            Ok(Admission::Push { session, last_event_id })
        }
        (&Method::DELETE, LegacyServing::Sessions | LegacyServing::Sessionless) => match session {
            SessionHeader::Named(session) => Ok(Admission::End { session }),
            SessionHeader::Absent => Err(Refusal::method(config.legacy)),
            SessionHeader::Malformed => Err(Refusal::session()),
        },
        _ => Err(Refusal::method(config.legacy)),
    }
}

/// The token of step 3.
pub fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let bad = |why: &str| Refusal::fault(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, why);
    let text = match headers::single_text(&AUTHORIZATION, headers) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        Err(_) => return Err(bad("header authorization cannot be read, send one bearer token")),
    };
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(headers::trim_ows(token))),
        _ if text.eq_ignore_ascii_case("bearer") => Err(bad("header authorization has no token")),
        // Another scheme is no token of ours.
        _ => Ok(None),
    }
}

/// Step 3: what is known of the token.
pub fn authorize(access: Access) -> Result<(), Refusal> {
    let (status, bearer) = match access {
        Access::Granted => return Ok(()),
        Access::Missing(bearer) => (StatusCode::UNAUTHORIZED, bearer),
        Access::Invalid(bearer) => (StatusCode::UNAUTHORIZED, bearer.with("error", "invalid_token")),
        Access::Insufficient(bearer) => (StatusCode::FORBIDDEN, bearer.with("error", "insufficient_scope")),
    };
    // A challenge that cannot be written must not turn a refusal into an admission.
    let challenge = bearer.write().unwrap_or(HeaderValue::from_static("Bearer"));
    Err(Refusal { challenge: Some(challenge), ..Refusal::bare(status) })
}

/// The part of step 4 that every route has: the size of the head.
pub fn weigh_head(headers: &HeaderMap, config: &Config) -> Result<(), Refusal> {
    if head_bytes(headers) <= config.head_bytes {
        return Ok(());
    }
    let why = "the headers are larger than this server takes";
    Err(Refusal::fault(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, code::INVALID_REQUEST, why))
}

/// Step 4: sizes, then media types.
pub fn weigh(admission: Admission<'_>, head: Head<'_>, config: &Config) -> Result<(), Refusal> {
    let refuse = |status, why: &str| Err(Refusal::fault(status, code::INVALID_REQUEST, why));
    weigh_head(head.headers, config)?;
    let body_bytes = u64::try_from(config.body_bytes).unwrap_or(u64::MAX);
    if head.content_length.is_some_and(|length| length > body_bytes) {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than this server takes");
    }
    match admission {
        Admission::End { .. } => Ok(()),
        Admission::Push { .. } => match headers::accepts(head.headers) {
            Accepts { event_stream: true, .. } => Ok(()),
            _ => refuse(StatusCode::NOT_ACCEPTABLE, "accept must admit text/event-stream"),
        },
        Admission::Post { accepts, .. } => {
            // A page can post every other type without being asked, so this is a guard as well.
            if headers::content(head.headers) != Content::Json {
                return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type must be application/json");
            }
            let admitted = match config.accept {
                AcceptRule::Either => accepts.json || accepts.event_stream,
                AcceptRule::Both => accepts.json && accepts.event_stream,
            };
            if admitted {
                return Ok(());
            }
            refuse(StatusCode::NOT_ACCEPTABLE, "accept must admit application/json and text/event-stream")
        }
    }
}

/// As they are written: name, colon, space, value, line end.
fn head_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

/// What a body turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Not JSON.
    Unreadable,
    /// JSON, but no message.
    NotAMessage,
    /// An array.
    Batch,
    /// One message.
    One(BodyKind),
}

/// Whether this request may bring a batch: only in the one legacy revision that has them, and only
/// if no entry has a modern version key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batches {
    /// It may.
    Allowed,
    /// It may not.
    Refused,
}

/// Step 5: may this body go on to the era decision?
pub fn check_shape(shape: Shape, session: SessionHeader<'_>, batches: Batches) -> Result<(), Refusal> {
    let refuse = |code, why: &str| Err(Refusal::fault(StatusCode::BAD_REQUEST, code, why));
    match (shape, batches, session) {
        (Shape::Unreadable, ..) => refuse(code::PARSE, "the body is not JSON"),
        (Shape::NotAMessage, ..) => refuse(code::INVALID_REQUEST, "the body is no JSON-RPC message"),
        (Shape::Batch, Batches::Refused, _) => {
            refuse(code::INVALID_REQUEST, "the body is a batch, post one message at a time")
        }
        (Shape::One(BodyKind::Reply), _, SessionHeader::Absent | SessionHeader::Malformed) => {
            refuse(code::INVALID_REQUEST, "a reply was posted without the session whose call it answers")
        }
        _ => Ok(()),
    }
}

impl Refusal {
    fn bare(status: StatusCode) -> Self {
        Self { status, fault: None, allow: None, challenge: None }
    }

    fn fault(status: StatusCode, code: i64, why: impl fmt::Display) -> Self {
        Self { fault: Some((code, why.to_string())), ..Self::bare(status) }
    }

    fn method(legacy: LegacyServing) -> Self {
        let allow = match legacy {
            LegacyServing::Off => HeaderValue::from_static("POST"),
            LegacyServing::Sessions | LegacyServing::Sessionless => {
                HeaderValue::from_static("GET, POST, DELETE")
            }
        };
        Self { allow: Some(allow), ..Self::bare(StatusCode::METHOD_NOT_ALLOWED) }
    }

    fn session() -> Self {
        let why = format!("header {MCP_SESSION_ID} is no session id, send the one you were given");
        Self::fault(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, why)
    }
}
