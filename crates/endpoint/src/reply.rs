//! Responses: status, headers, and one message or a lane.
//!
//! The header map of the request is used again for the response: hyper takes it back for the next request,
//! so that none is allocated per call.

use cardan_proto::http::agree;
use cardan_proto::http::headers::{
    CONTENT_EVENT_STREAM, CONTENT_JSON, MCP_SESSION_ID, UNBUFFERED, X_ACCEL_BUFFERING,
};
use cardan_proto::http::ingress::Refusal;
use cardan_proto::jsonrpc::envelope::{Envelope, Reply};
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::jsonrpc::write;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::body::{Body, Lane};

/// A response in the making, on the header map of its request.
#[derive(Debug)]
pub(crate) struct Answer(HeaderMap);

impl Answer {
    /// Takes over the headers of a request: nothing of them is left.
    pub(crate) fn on(mut headers: HeaderMap) -> Self {
        headers.clear();
        Self(headers)
    }

    /// Names the session that was opened.
    pub(crate) fn session(mut self, id: HeaderValue) -> Self {
        self.0.insert(MCP_SESSION_ID, id);
        self
    }

    /// A status and nothing else.
    pub(crate) fn status(self, status: StatusCode) -> Response<Body> {
        self.with(status, Body::empty())
    }

    /// One message.
    pub(crate) fn json(mut self, status: StatusCode, message: Body) -> Response<Body> {
        self.0.insert(CONTENT_TYPE, CONTENT_JSON);
        self.with(status, message)
    }

    /// A lane, not to be held back by anyone on the way.
    pub(crate) fn lane(mut self, lane: impl Lane + 'static) -> Response<Body> {
        self.0.insert(CONTENT_TYPE, CONTENT_EVENT_STREAM);
        self.0.insert(CACHE_CONTROL, UNKEPT);
        self.0.insert(X_ACCEL_BUFFERING, UNBUFFERED);
        self.with(StatusCode::OK, Body::lane(lane))
    }

    /// A fault, with the id of its call where that is known.
    pub(crate) fn fault(self, status: StatusCode, id: Option<CallId>, fault: Fault) -> Response<Body> {
        let mut out = Vec::with_capacity(128);
        write::envelope(&Envelope::Reply(Reply { id, outcome: Err(fault) }), &mut out);
        self.json(status, Body::full(out))
    }

    /// A refusal of the guard.
    pub(crate) fn refusal(mut self, refusal: Refusal) -> Response<Body> {
        if let Some(allow) = refusal.allow {
            self.0.insert(ALLOW, allow);
        }
        if let Some(challenge) = refusal.challenge {
            self.0.insert(WWW_AUTHENTICATE, challenge);
        }
        match refusal.fault {
            Some((code, why)) => self.fault(refusal.status, None, Fault::new(code, why)),
            None => self.status(refusal.status),
        }
    }

    /// Headers and body of a modern POST do not agree. `unsupported` makes the fault that names the
    /// revisions we speak.
    pub(crate) fn disagreement(
        self,
        id: Option<CallId>,
        refusal: &agree::Refusal,
        unsupported: impl FnOnce(&str) -> Fault,
    ) -> Response<Body> {
        let fault = match refusal {
            agree::Refusal::Version { requested } => unsupported(requested),
            agree::Refusal::Method { method } => Fault::method_not_found(method.name()),
            other => Fault::new(other.code(), other.to_string()),
        };
        self.fault(refusal.status(), id, fault)
    }

    /// The request could be served, but not now.
    pub(crate) fn busy(self, status: StatusCode, why: &'static str) -> Response<Body> {
        let mut response = self.fault(status, None, Fault::new(code::BUSY, why));
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        response
    }

    /// The request cannot be served as it is.
    pub(crate) fn bad(self, status: StatusCode, why: &'static str) -> Response<Body> {
        self.fault(status, None, Fault::new(code::INVALID_REQUEST, why))
    }

    fn with(self, status: StatusCode, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = self.0;
        response
    }
}

/// Not even to be asked about again: a browser that keeps what it can of a stream sends the request that ends its session twice.
const UNKEPT: HeaderValue = HeaderValue::from_static("no-cache, no-store, no-transform");
