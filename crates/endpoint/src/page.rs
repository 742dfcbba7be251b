//! Pages beside the protocol: how a server stands, for those who watch over it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::http::ingress::{Refusal, know, weigh_head};
use cardan_runtime::service::Host;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::body::Body;
use crate::door::Door;
use crate::endpoint::Shared;
use crate::events::wrong_method;
use crate::ingress::authorized;
use crate::reply::Answer;

/// Who sees a page where tokens are asked for. Where none are, everybody is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Whoever asks. The page says less to strangers.
    Everyone,
    /// Whoever shows a good token.
    Known,
}

/// Who asks for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visitor {
    /// With a good token, or where none is asked for.
    Known,
    /// Without a token.
    Stranger,
}

/// Someone asks for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// Who.
    pub visitor: Visitor,
    /// Whether new work is taken at that moment.
    pub door: Door,
}

/// What a page says now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The status.
    pub status: StatusCode,
    /// What kind of text it is.
    pub content_type: &'static str,
    /// The text.
    pub text: String,
}

/// A page. It is made anew for everyone who asks, and must not block.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) path: Box<str>,
    pub(crate) audience: Audience,
    pub(crate) make: Arc<dyn Fn(Visit) -> Leaf + Send + Sync>,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Shows a page, behind the guard that every route has.
pub(crate) fn show<H: Host>(shared: &Shared<H>, parts: Parts, page: &Page) -> Response<Body> {
    let visitor = match visitor(shared, &parts, page.audience) {
        Ok(visitor) => visitor,
        Err(refusal) => return Answer::on(parts.headers).refusal(*refusal),
    };
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return wrong_method(parts.headers, "GET, HEAD");
    }
    let leaf = (page.make)(Visit { visitor, door: shared.doorway.door() });
    let mut response = Answer::on(parts.headers).status(leaf.status);
    *response.body_mut() = Body::full(Bytes::from(leaf.text));
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(leaf.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn visitor<H: Host>(shared: &Shared<H>, parts: &Parts, audience: Audience) -> Result<Visitor, Box<Refusal>> {
    know(&parts.uri, &parts.headers, &shared.ingress)?;
    weigh_head(&parts.headers, &shared.ingress)?;
    match authorized(&parts.headers, shared) {
        Ok(_) => Ok(Visitor::Known),
        // No token is no wrong one.
        Err(_) if audience == Audience::Everyone && !parts.headers.contains_key(AUTHORIZATION) => {
            Ok(Visitor::Stranger)
        }
        Err(refusal) => Err(refusal.into()),
    }
}
