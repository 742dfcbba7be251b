//! The head of every request: what the user configured, then what the protocol wants, which wins.

use std::sync::Arc;

use cardan_proto::era::{Era, Revision};
use cardan_proto::http::agree::name_member;
use cardan_proto::http::headers::{
    ACCEPT_GET, ACCEPT_POST, CONTENT_JSON, LAST_EVENT_ID, MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION,
    MCP_SESSION_ID,
};
use cardan_proto::http::param::Unfit;
use cardan_proto::http::value;
use cardan_proto::jsonrpc::envelope::{Call, MetaKey, Note, Param, Params};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use crate::mirrors::Tools;

/// What heads are made from.
#[derive(Debug, Clone)]
pub(crate) struct Heads {
    /// As the user configured them.
    pub(crate) own: HeaderMap,
    /// The settled revision.
    pub(crate) revision: Option<Revision>,
    /// The legacy session.
    pub(crate) session: Option<Arc<str>>,
}

/// The head of one call, and what was found out on the way.
pub(crate) struct CallHead {
    pub(crate) headers: HeaderMap,
    pub(crate) era: Era,
    /// The session that it names.
    pub(crate) session: Option<Arc<str>>,
}

impl Heads {
    pub(crate) fn new(mut own: HeaderMap) -> Self {
        own.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        Self { own, revision: None, session: None }
    }

    /// Of a POST without anything about its message.
    pub(crate) fn bare_post(&self) -> HeaderMap {
        let mut headers = self.own.clone();
        headers.insert(ACCEPT, ACCEPT_POST);
        headers.insert(CONTENT_TYPE, CONTENT_JSON);
        headers.insert(ACCEPT_ENCODING, IDENTITY);
        headers
    }

    /// Of a call. Modern calls say themselves what they are.
    pub(crate) fn call(&self, call: &Call, tools: &Tools, limits: &Limits) -> Result<CallHead, Unfit> {
        let mut headers = self.bare_post();
        let raw = call.params.raw().cloned().unwrap_or_default();
        let params = Params::scan(raw, limits).unwrap_or_default();
        let version = params.meta_text(MetaKey::ProtocolVersion);
        let Some(version) = version.filter(|date| is_modern(date)) else {
            let session = self.session.clone().filter(|_| call.method != Method::Initialize);
            if call.method != Method::Initialize {
                self.legacy(&mut headers);
            }
            return Ok(CallHead { headers, era: Era::Legacy, session });
        };
        headers.insert(MCP_PROTOCOL_VERSION, value::encode(&version));
        insert_method(&call.method, &mut headers);
        if let Some(name) = name_member(&call.method).and_then(|member| params.text(member)) {
            headers.insert(MCP_NAME, value::encode(&name));
        }
        if call.method == Method::ToolsCall
            && let Some(name) = params.text(Param::Name)
        {
            let arguments = params.get(Param::Arguments);
            for (name, value) in tools.headers(&name, arguments.as_deref())? {
                headers.insert(name, value);
            }
        }
        if let Some(strays) = &call.strays {
            let tool = params.text(Param::Name).filter(|_| call.method == Method::ToolsCall);
            strays.pass_on(tool.and_then(|tool| tools.of(&tool)), &mut headers);
        }
        Ok(CallHead { headers, era: Era::Modern, session: None })
    }

    /// Of a note.
    pub(crate) fn note(&self, note: &Note) -> HeaderMap {
        let mut headers = self.bare_post();
        match self.revision {
            Some(revision) if revision.era() == Era::Modern => {
                headers.insert(MCP_PROTOCOL_VERSION, HeaderValue::from_static(revision.date()));
                insert_method(&note.method, &mut headers);
            }
            _ => self.legacy(&mut headers),
        }
        headers
    }

    /// Of an answer of ours, or of a batch: there are such things in the legacy era only.
    pub(crate) fn answer(&self) -> HeaderMap {
        let mut headers = self.bare_post();
        self.legacy(&mut headers);
        headers
    }

    /// Of a GET; `last`: the event after which to resume.
    pub(crate) fn get(&self, last: &str) -> HeaderMap {
        let mut headers = self.own.clone();
        headers.insert(ACCEPT, ACCEPT_GET);
        headers.insert(ACCEPT_ENCODING, IDENTITY);
        self.legacy(&mut headers);
        // An id that is no header value cannot be resumed after; the stream starts anew.
        if let Ok(last) = HeaderValue::from_str(last)
            && !last.is_empty()
        {
            headers.insert(LAST_EVENT_ID, last);
        }
        headers
    }

    /// Of the DELETE that ends a session.
    pub(crate) fn delete(&self) -> HeaderMap {
        let mut headers = self.own.clone();
        self.legacy(&mut headers);
        headers
    }

    fn legacy(&self, headers: &mut HeaderMap) {
        if let Some(revision) = self.revision {
            headers.insert(MCP_PROTOCOL_VERSION, HeaderValue::from_static(revision.date()));
        }
        let session = self.session.as_deref().and_then(|id| HeaderValue::from_str(id).ok());
        if let Some(mut session) = session {
            session.set_sensitive(true);
            headers.insert(MCP_SESSION_ID, session);
        }
    }
}

const AGENT: &str = concat!("cardan/", env!("CARGO_PKG_VERSION"));

/// What is compressed can be small on the wire and beyond every bound in memory.
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

fn is_modern(date: &str) -> bool {
    Revision::parse(date).is_some_and(|revision| revision.era() == Era::Modern)
}

/// A method that is no header value has no header: the server will say that it does not know it.
fn insert_method(method: &Method, headers: &mut HeaderMap) {
    if let Ok(name) = HeaderValue::from_str(method.name()) {
        headers.insert(MCP_METHOD, name);
    }
}
