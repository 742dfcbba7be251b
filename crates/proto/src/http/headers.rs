//! Every header name of MCP, and how the headers that are not mirrored are read.
//!
//! This is the only place with header strings. Mirrored values are in [`value`](super::value), the
//! headers of tool parameters in [`param`](super::param).

use std::fmt;

use ::http::header::{ACCEPT, CONTENT_TYPE};
use ::http::{HeaderMap, HeaderName, HeaderValue};

/// The revision a client speaks: on legacy requests after the handshake, on every modern POST.
pub const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Names a legacy session. Ignored and never sent in the modern era.
pub const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// Mirrors `method` of a modern call.
pub const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// Mirrors the tool, prompt, resource or task that a modern call names.
pub const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Where a legacy lane broke off.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells proxies not to hold events back; its value on our streams is [`UNBUFFERED`].
pub const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Picks the stream in the tutorial dialect, and nowhere else.
pub const X_CLIENT_ID: HeaderName = HeaderName::from_static("x-client-id");
/// Names an authorization server, from servers older than protected resource metadata.
pub const MCP_AUTH_SERVER: HeaderName = HeaderName::from_static("mcp-auth-server");
/// Set by browsers only: how the page relates to us.
pub const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Asked by browsers: may a page from elsewhere call a machine that is nearer?
pub const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
/// The answer to [`REQUEST_PRIVATE_NETWORK`].
pub const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");
/// Where in a trace a request is: W3C Trace Context. What `_meta` says of the call wins.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What others keep about that trace.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// What a replica of ours shows when it forwards a request to another.
pub const CARDAN_PASS: HeaderName = HeaderName::from_static("cardan-pass");
/// Begins the header of an annotated tool parameter; compared without regard to case.
pub const MCP_PARAM_PREFIX: &str = "mcp-param-";
/// Begins every header that mirrors something.
const MCP_PREFIX: &str = "mcp-";

/// The `Accept` of our own POSTs.
pub const ACCEPT_POST: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// The `Accept` of our own GETs.
pub const ACCEPT_GET: HeaderValue = HeaderValue::from_static(EVENT_STREAM);
/// The `Content-Type` of one message.
pub const CONTENT_JSON: HeaderValue = HeaderValue::from_static(JSON);
/// The `Content-Type` of a lane.
pub const CONTENT_EVENT_STREAM: HeaderValue = HeaderValue::from_static(EVENT_STREAM);
/// The value of [`X_ACCEL_BUFFERING`].
pub const UNBUFFERED: HeaderValue = HeaderValue::from_static("no");

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// Why a header that must have one plain value has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The header was sent more than once, so readers could disagree about its value.
    Repeated,
    /// The value has characters outside visible ASCII, space and tab.
    Characters,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Repeated => "is sent more than once, send it once",
            Self::Characters => "has characters outside visible ASCII",
        })
    }
}

impl std::error::Error for Malformed {}

/// Every value of a header. A request has few of them: to look at each is less work than to hash the name.
pub fn all<'a>(name: &HeaderName, headers: &'a HeaderMap) -> impl Iterator<Item = &'a HeaderValue> {
    headers.iter().filter(move |(other, _)| *other == name).map(|(_, value)| value)
}

/// The one value of a header, or nothing if it is absent.
pub fn single<'a>(name: &HeaderName, headers: &'a HeaderMap) -> Result<Option<&'a HeaderValue>, Malformed> {
    let mut values = all(name, headers);
    let first = values.next();
    match values.next() {
        Some(_) => Err(Malformed::Repeated),
        None => Ok(first),
    }
}

/// Whether a header is that of a tool parameter, known or not.
pub(super) fn is_param(name: &HeaderName) -> bool {
    name.as_str().starts_with(MCP_PARAM_PREFIX)
}

/// The headers of a modern POST that mirror its body, found in one pass.
#[derive(Debug, Default)]
pub(super) struct Mirroring<'a> {
    pub(super) version: One<'a>,
    pub(super) method: One<'a>,
    pub(super) name: One<'a>,
    /// Is there any of a tool parameter?
    pub(super) params: bool,
}

/// What there is of a header that should be there once.
#[derive(Debug, Default)]
pub(super) enum One<'a> {
    #[default]
    Absent,
    Once(&'a HeaderValue),
    Repeated,
}

impl<'a> Mirroring<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let mut found = Self::default();
        for (name, value) in headers {
            if !name.as_str().starts_with(MCP_PREFIX) {
                continue;
            }
            if *name == MCP_PROTOCOL_VERSION {
                found.version.add(value);
            } else if *name == MCP_METHOD {
                found.method.add(value);
            } else if *name == MCP_NAME {
                found.name.add(value);
            } else {
                found.params |= is_param(name);
            }
        }
        found
    }
}

impl<'a> One<'a> {
    fn add(&mut self, value: &'a HeaderValue) {
        *self = match self {
            Self::Absent => Self::Once(value),
            Self::Once(_) | Self::Repeated => Self::Repeated,
        };
    }

    /// As [`single`] tells it.
    pub(super) fn single(&self) -> Result<Option<&'a HeaderValue>, Malformed> {
        match *self {
            Self::Absent => Ok(None),
            Self::Once(value) => Ok(Some(value)),
            Self::Repeated => Err(Malformed::Repeated),
        }
    }

    /// As [`single_text`] tells it.
    pub(super) fn text(&self) -> Result<Option<&'a str>, Malformed> {
        self.single()?.map(text).transpose()
    }
}

/// The one value of a header as text, without the optional whitespace around it.
pub fn single_text<'a>(name: &HeaderName, headers: &'a HeaderMap) -> Result<Option<&'a str>, Malformed> {
    single(name, headers)?.map(text).transpose()
}

fn text(value: &HeaderValue) -> Result<&str, Malformed> {
    value.to_str().map(trim_ows).map_err(|_| Malformed::Characters)
}

/// What a request says about its legacy session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionHeader<'a> {
    /// No session is named.
    Absent,
    /// A session is named; whether it exists is not known here.
    Named(&'a str),
    /// The header cannot be the id of any session.
    Malformed,
}

/// Reads [`MCP_SESSION_ID`].
pub fn session(headers: &HeaderMap) -> SessionHeader<'_> {
    match single_text(&MCP_SESSION_ID, headers) {
        Ok(None) => SessionHeader::Absent,
        Ok(Some(id)) if is_session_id(id) => SessionHeader::Named(id),
        Ok(Some(_)) | Err(_) => SessionHeader::Malformed,
    }
}

/// Whether a text may be a session id: not empty, every character in 0x21..=0x7E.
pub fn is_session_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Which of the two answer types a request admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts {
    /// One message as `application/json`.
    pub json: bool,
    /// A lane as `text/event-stream`.
    pub event_stream: bool,
}

/// Reads `Accept`. An absent header admits everything (RFC 9110, 12.5.1).
pub fn accepts(headers: &HeaderMap) -> Accepts {
    let mut values = all(&ACCEPT, headers);
    match (values.next(), values.next()) {
        (None, _) => return Accepts { json: true, event_stream: true },
        // What clients send who do as they are told.
        (Some(value), None) if *value == ACCEPT_POST => return Accepts { json: true, event_stream: true },
        _ => {}
    }
    Accepts { json: admits(JSON, headers), event_stream: admits(EVENT_STREAM, headers) }
}

/// The most specific range that matches decides, as in RFC 9110; among equals the friendlier one.
fn admits(media: &str, headers: &HeaderMap) -> bool {
    let mut best = (0, false);
    for value in all(&ACCEPT, headers) {
        let Ok(text) = value.to_str() else { continue };
        for range in split_outside_quotes(text, b',') {
            let (name, params) = range.split_once(';').unwrap_or((range, ""));
            best = best.max((specificity(trim_ows(name), media), !is_zero_quality(params)));
        }
    }
    best.0 > 0 && best.1
}

fn specificity(range: &str, media: &str) -> u8 {
    let kind = media.split('/').next().unwrap_or(media);
    match range.split_once('/') {
        _ if range.eq_ignore_ascii_case(media) => 3,
        Some((left, "*")) if left.eq_ignore_ascii_case(kind) => 2,
        Some(("*", "*")) => 1,
        _ => 0,
    }
}

/// A quality that cannot be read counts as wanted: the sender named the type after all.
fn is_zero_quality(params: &str) -> bool {
    let quality = split_outside_quotes(params, b';').find_map(|param| {
        let (name, value) = param.split_once('=')?;
        trim_ows(name).eq_ignore_ascii_case("q").then(|| trim_ows(value))
    });
    match quality {
        Some(q) => q.starts_with('0') && q.bytes().all(|b| b == b'0' || b == b'.'),
        None => false,
    }
}

/// What a body says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// One message, in UTF-8.
    Json,
    /// A lane.
    EventStream,
    /// Something else, or a header that can be read in two ways.
    Other,
    /// The header is absent.
    Unnamed,
}

/// Reads `Content-Type`.
pub fn content(headers: &HeaderMap) -> Content {
    let text = match single_text(&CONTENT_TYPE, headers) {
        Ok(Some(text)) => text,
        Ok(None) => return Content::Unnamed,
        Err(_) => return Content::Other,
    };
    let (name, params) = text.split_once(';').unwrap_or((text, ""));
    let name = trim_ows(name);
    if name.eq_ignore_ascii_case(JSON) && is_utf8_charset(params) {
        Content::Json
    } else if name.eq_ignore_ascii_case(EVENT_STREAM) {
        Content::EventStream
    } else {
        Content::Other
    }
}

/// Messages are UTF-8; ASCII is a part of it.
fn is_utf8_charset(params: &str) -> bool {
    split_outside_quotes(params, b';').all(|param| match param.split_once('=') {
        Some((name, value)) if trim_ows(name).eq_ignore_ascii_case("charset") => {
            let charset = trim_ows(value).trim_matches('"');
            ["utf-8", "utf8", "us-ascii"].iter().any(|known| charset.eq_ignore_ascii_case(known))
        }
        _ => true,
    })
}

/// Without the spaces and tabs around it (RFC 9110, 5.6.3).
pub(super) fn trim_ows(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// A byte of a header name or scheme (RFC 9110, 5.6.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Splits at a separator that is not inside a quoted string.
pub(super) fn split_outside_quotes(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = text.bytes().position(|b| {
            let was_escaped = escaped;
            escaped = quoted && b == b'\\' && !was_escaped;
            if b == b'"' && !was_escaped {
                quoted = !quoted;
            }
            b == separator && !quoted
        });
        match end {
            Some(at) => {
                rest = Some(&text[at + 1..]);
                Some(&text[..at])
            }
            None => rest.take(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(&name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    /// HTL-20: a session id has only 0x21..=0x7E.
    #[test]
    fn session_id_is_visible_ascii() {
        for byte in 0..=0x7F_u8 {
            let text = char::from(byte).to_string();
            assert_eq!(is_session_id(&text), (0x21..=0x7E).contains(&byte), "0x{byte:02x}");
        }
        assert!(!is_session_id(""));
        assert!(!is_session_id("é"));
    }

    #[test]
    fn session_header_is_absent_named_or_malformed() {
        assert_eq!(session(&HeaderMap::new()), SessionHeader::Absent);
        assert_eq!(session(&head(MCP_SESSION_ID, &["  s-1\t"])), SessionHeader::Named("s-1"));
        for bad in [&["a b"][..], &[""], &["a", "a"], &["é"]] {
            assert_eq!(session(&head(MCP_SESSION_ID, bad)), SessionHeader::Malformed, "{bad:?}");
        }
    }

    /// HTTP-7, HTL-10: both types are read from `Accept`, by the rules of RFC 9110.
    #[test]
    fn accept_admits_by_the_most_specific_range() {
        let table: &[(&[&str], bool, bool)] = &[
            (&["application/json, text/event-stream"], true, true),
            (&["application/json", "text/event-stream"], true, true),
            (&["APPLICATION/JSON;q=0.5 , Text/Event-Stream; q=1"], true, true),
            (&["*/*"], true, true),
            (&["text/*"], false, true),
            (&["application/*;q=0.1"], true, false),
            (&["application/json"], true, false),
            (&["text/event-stream"], false, true),
            (&["text/html"], false, false),
            (&[""], false, false),
            (&["*/*, application/json;q=0"], false, true),
            (&["*/*;q=0, application/json"], true, false),
            (&["application/json;q=0.000, text/event-stream;q=0.001"], false, true),
            (&["application/json; charset=utf-8"], true, false),
            (&["application/json;q=rubbish"], true, false),
            (&["application/json;x=\"a,b;q=0\", text/event-stream"], true, true),
            (&["application/jsonp, text/event-streams"], false, false),
        ];
        for (values, json, event_stream) in table {
            let want = Accepts { json: *json, event_stream: *event_stream };
            assert_eq!(accepts(&head(ACCEPT, values)), want, "{values:?}");
        }
        assert_eq!(accepts(&HeaderMap::new()), Accepts { json: true, event_stream: true });
        let own = accepts(&head(ACCEPT, &[ACCEPT_POST.to_str().unwrap()]));
        assert_eq!(own, Accepts { json: true, event_stream: true });
    }

    /// T2: a page can post `text/plain` without asking, so only JSON counts as JSON.
    #[test]
    fn content_type_is_read_strictly() {
        let table: &[(&[&str], Content)] = &[
            (&["application/json"], Content::Json),
            (&["Application/JSON ; charset=UTF-8"], Content::Json),
            (&["application/json; charset=\"utf-8\""], Content::Json),
            (&["application/json;profile=x"], Content::Json),
            (&["application/json; charset=utf-16"], Content::Other),
            (&["text/event-stream; charset=utf-8"], Content::EventStream),
            (&["text/plain"], Content::Other),
            (&["text/plain; x=application/json"], Content::Other),
            (&["text/plain, application/json"], Content::Other),
            (&["application/json", "application/json"], Content::Other),
            (&["application/json, text/plain"], Content::Other),
            (&["application/json-rpc"], Content::Other),
            (&["multipart/form-data; boundary=application/json"], Content::Other),
            (&[""], Content::Other),
            (&[], Content::Unnamed),
        ];
        for (values, want) in table {
            assert_eq!(content(&head(CONTENT_TYPE, values)), *want, "{values:?}");
        }
    }

    /// HTM-13, HTM-14: names ignore case, whitespace around a value does not count.
    #[test]
    fn single_text_ignores_name_case_and_outer_whitespace() {
        let mut headers = HeaderMap::new();
        let name: HeaderName = "MCP-METHOD".parse().unwrap();
        headers.insert(name, HeaderValue::from_static(" \ttools/list \t"));
        assert_eq!(single_text(&MCP_METHOD, &headers), Ok(Some("tools/list")));
        headers.append(MCP_METHOD, HeaderValue::from_static("tools/list"));
        assert_eq!(single_text(&MCP_METHOD, &headers), Err(Malformed::Repeated));
        let foreign = head(MCP_METHOD, &["tööls"]);
        assert_eq!(single_text(&MCP_METHOD, &foreign), Err(Malformed::Characters));
    }

    #[test]
    fn split_outside_quotes_keeps_quoted_separators() {
        let parts: Vec<_> = split_outside_quotes(r#"a="x,\",y",b,,"c"#, b',').collect();
        assert_eq!(parts, [r#"a="x,\",y""#, "b", "", r#""c"#]);
    }
}
