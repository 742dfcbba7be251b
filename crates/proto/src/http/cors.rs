//! What a browser must read before it lets a page of another origin see our answers: only pages that are allowed by name
//! get it. Who may call is decided by [`origin`](super::origin); this says so in a browser's words.

use ::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use ::http::{HeaderMap, HeaderValue, Method};

use super::headers::{ALLOW_PRIVATE_NETWORK, REQUEST_PRIVATE_NETWORK};

/// A request of a page that is allowed by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// The page's origin as it was sent.
    origin: HeaderValue,
}

impl Cors {
    pub(super) fn of(origin: HeaderValue) -> Self {
        Self { origin }
    }

    /// Does the browser only ask whether the page may send something?
    #[must_use]
    pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
        *method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    }

    /// The answer to that: it may, with whatever headers it wants to. They are judged when they come.
    #[must_use]
    pub fn preflight(&self, asked: &HeaderMap) -> HeaderMap {
        let mut out = HeaderMap::new();
        out.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
        if let Some(headers) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            out.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers.clone());
        }
        if asked.contains_key(REQUEST_PRIVATE_NETWORK) {
            out.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
        out.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        self.open(&mut out);
        out
    }

    /// Lets the page read an answer, and what it needs of its headers.
    pub fn open(&self, answer: &mut HeaderMap) {
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.origin.clone());
        answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        answer.append(VARY, VARIES);
    }
}

/// Ten minutes: a page that is allowed no more notices soon.
const MAX_AGE: &str = "600";

const EXPOSED: &str = "Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, Retry-After";

/// What is told to one page is not kept for another.
const VARIES: HeaderValue = HeaderValue::from_static("origin");
