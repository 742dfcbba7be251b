//! Where a client may be sent: redirects, and the `endpoint` event of the oldest transport.
//!
//! A server names the place, so both can lead credentials to a stranger. Within an origin (scheme,
//! host, port) everything goes along. Beyond it only a request without a body may go, without
//! anything that a stranger must not see, and only if the caller allows it at all.

use std::fmt;

use ::http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, LOCATION, USER_AGENT};
use ::http::{HeaderMap, HeaderName, Method, StatusCode};

use super::headers::single_text;
use super::url::{BadUrl, Url};
use crate::finding::excerpt;
use crate::limits::Limits;

/// Where the oldest transport's `endpoint` event says to post, if that is where the stream is.
pub fn endpoint(stream: &Url, reference: &str) -> Result<Url, BadEndpoint> {
    let url = stream.join(reference).map_err(BadEndpoint::Url)?;
    if url.same_origin(stream) { Ok(url) } else { Err(BadEndpoint::ForeignOrigin) }
}

/// What to do with redirects to another origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrossOrigin {
    /// Follow none.
    Refuse,
    /// Follow those of requests without a body, stripped.
    Strip,
}

/// A redirect that may be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Where to.
    pub url: Url,
    /// What may go along.
    pub carry: Carry,
}

/// Which headers may go along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carry {
    /// All of them.
    All,
    /// Only those that say what is understood, and nothing of who asks.
    Plain,
}

impl Carry {
    /// Drops what may not go along.
    pub fn apply(self, headers: &mut HeaderMap) {
        if self == Self::Plain {
            let mut kept = HeaderMap::new();
            for (name, value) in headers.iter().filter(|(name, _)| is_plain(name)) {
                kept.append(name, value.clone());
            }
            *headers = kept;
        }
    }
}

/// A list of what is kept, because custom headers with secrets have any name.
fn is_plain(name: &HeaderName) -> bool {
    [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, USER_AGENT].contains(name)
}

/// May this redirect be followed? `hops_left` counts down from
/// [`redirect_hops`](crate::limits::Limits::redirect_hops) over the redirects of one request.
pub fn follow(
    from: &Url,
    method: &Method,
    (status, headers): (StatusCode, &HeaderMap),
    hops_left: usize,
    cross_origin: CrossOrigin,
) -> Result<Hop, RedirectRefusal> {
    match (status.as_u16(), method) {
        (307 | 308, _) | (301..=303, &Method::GET) => {}
        // These would turn a message into a GET, and the message would be lost.
        (301..=303, _) => return Err(RedirectRefusal::MethodLost),
        _ => return Err(RedirectRefusal::NotARedirect),
    }
    if hops_left == 0 {
        return Err(RedirectRefusal::TooMany);
    }
    let Ok(Some(location)) = single_text(&LOCATION, headers) else {
        return Err(RedirectRefusal::NoLocation);
    };
    let url = from.join(location).map_err(RedirectRefusal::Url)?;
    if url.same_origin(from) {
        return Ok(Hop { url, carry: Carry::All });
    }
    if from.is_secure() && !url.is_secure() {
        return Err(RedirectRefusal::Downgrade);
    }
    match (cross_origin, method) {
        (CrossOrigin::Strip, &Method::GET) => Ok(Hop { url, carry: Carry::Plain }),
        _ => Err(RedirectRefusal::ForeignOrigin),
    }
}

/// Why an `endpoint` event is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadEndpoint {
    /// It is no URL.
    Url(BadUrl),
    /// It leads to another origin than the stream's.
    ForeignOrigin,
}

impl fmt::Display for BadEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(why) => write!(f, "the endpoint event is of no use: {why}"),
            Self::ForeignOrigin => f.write_str(
                "the endpoint event leads to another origin than the stream's, nothing is sent there",
            ),
        }
    }
}

impl std::error::Error for BadEndpoint {}

/// A redirect that is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfollowed {
    /// Why not.
    pub why: RedirectRefusal,
    /// Where it leads, safe to print; empty where that is not said. Without a query and a password, which are secrets.
    pub to: Box<str>,
}

impl Unfollowed {
    /// The redirect of a server that answered with these headers.
    #[must_use]
    pub fn new(why: RedirectRefusal, headers: &HeaderMap) -> Self {
        let to = headers.get(LOCATION).map(|location| location.as_bytes()).unwrap_or_default();
        let to = to.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
        let to = excerpt(to, Limits::DEFAULT.excerpt_bytes);
        Self { why, to: anonymous(&to).unwrap_or(to) }
    }
}

/// The same address without who is to log in there, if it says so.
fn anonymous(to: &str) -> Option<Box<str>> {
    let (scheme, rest) = to.split_once("//")?;
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (_, host) = place.rsplit_once('@')?;
    Some(format!("{scheme}//{host}{path}").into())
}

impl fmt::Display for Unfollowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.to {
            "" => self.why.fmt(f),
            to => write!(f, "{} (it leads to {to})", self.why),
        }
    }
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectRefusal {
    /// The status asks for no new request.
    NotARedirect,
    /// The status would drop the message.
    MethodLost,
    /// One redirect too many.
    TooMany,
    /// Nothing, or more than one thing, says where to.
    NoLocation,
    /// It is no URL.
    Url(BadUrl),
    /// From https to http.
    Downgrade,
    /// Another origin, with a body or against the policy.
    ForeignOrigin,
}

impl fmt::Display for RedirectRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARedirect => f.write_str("the status is no redirect that can be followed"),
            Self::MethodLost => {
                f.write_str("the redirect would drop the message, the server should send 307 or 308")
            }
            Self::TooMany => f.write_str("the server redirects too often, use the final URL"),
            Self::NoLocation => f.write_str("the redirect has no single location"),
            Self::Url(why) => write!(f, "the redirect is of no use: {why}"),
            Self::Downgrade => f.write_str("the redirect leads from https to http, nothing is sent there"),
            Self::ForeignOrigin => {
                f.write_str("the redirect leads to another origin, use its URL if you trust it")
            }
        }
    }
}

impl std::error::Error for RedirectRefusal {}
