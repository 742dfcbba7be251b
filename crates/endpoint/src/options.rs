//! How an endpoint is set up: paths, who may call, what of the legacy era is served.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use cardan_proto::http::challenge::Bearer;
use cardan_proto::http::headers::Accepts;
use cardan_proto::http::ingress::{AcceptRule, LegacyServing};
use cardan_proto::http::origin::Allow;
use cardan_replicas::Replicas;

use crate::page::{Audience, Leaf, Page, Visit};

/// The paths of an endpoint. A transport without a path is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Streamable HTTP.
    pub mcp: Option<Box<str>>,
    /// Old HTTP+SSE: where the stream is opened.
    pub events: Option<Box<str>>,
    /// Old HTTP+SSE: where messages are posted.
    pub messages: Option<Box<str>>,
    /// WebSocket.
    pub socket: Option<Box<str>>,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            mcp: Some("/mcp".into()),
            events: Some("/sse".into()),
            messages: Some("/message".into()),
            socket: Some("/ws".into()),
        }
    }
}

impl Paths {
    /// The same below a folder, which begins with a slash and does not end with one.
    #[must_use]
    pub fn below(&self, folder: &str) -> Self {
        let below = |path: &Option<Box<str>>| path.as_ref().map(|path| [folder, path].concat().into());
        Self {
            mcp: below(&self.mcp),
            events: below(&self.events),
            messages: below(&self.messages),
            socket: below(&self.socket),
        }
    }
}

/// What is known of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// It is good, and stands for this principal; nothing: nobody in particular.
    Granted(Option<Arc<str>>),
    /// A token is needed and there is none.
    Missing(Bearer),
    /// The token is not, or no longer, good for this server.
    Invalid(Bearer),
    /// The token is good, but not for this.
    Insufficient(Bearer),
}

/// Judges bearer tokens. Asked for every request; must not block.
pub trait Verify: Send + Sync + 'static {
    /// What is known of `token`; nothing: none was sent.
    fn verify(&self, token: Option<&str>) -> Grant;

    /// Done when a token that is good now is so no more, or stands for somebody else; nothing: that does not happen. What was
    /// opened with the token and lasts is closed then.
    fn revoked(&self, token: Option<&str>) -> Option<Revoked> {
        let _ = token;
        None
    }
}

/// The end of a token.
pub type Revoked = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F: Fn(Option<&str>) -> Grant + Send + Sync + 'static> Verify for F {
    fn verify(&self, token: Option<&str>) -> Grant {
        self(token)
    }
}

/// In which form a reply is sent that is there at once. Clients that take one form alone get that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replies {
    /// As one message: the shortest.
    #[default]
    Short,
    /// As a stream of events from the start, so that a legacy client can fetch a reply that was lost on
    /// the way.
    Events,
}

impl Replies {
    /// What is left of the forms that a client accepts.
    pub(crate) fn choose(self, accepts: Accepts) -> Accepts {
        let json = accepts.json && !(self == Self::Events && accepts.event_stream);
        Accepts { json, ..accepts }
    }
}

/// What becomes of the trace that an HTTP request is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Traces {
    /// Nothing: what a call says of itself in `_meta` is all there is.
    #[default]
    Ignored,
    /// A call over Streamable HTTP whose `_meta` names no trace is part of that one, and `_meta` says so from here on.
    Adopted,
}

/// How an endpoint is set up.
#[derive(Clone)]
#[must_use]
pub struct Options {
    pub(crate) paths: Paths,
    pub(crate) allow: Allow,
    pub(crate) accept: AcceptRule,
    pub(crate) replies: Replies,
    pub(crate) legacy: LegacyServing,
    pub(crate) verify: Option<Arc<dyn Verify>>,
    pub(crate) pages: Vec<Page>,
    pub(crate) traces: Traces,
    pub(crate) replicas: Option<Replicas>,
    pub(crate) veil: Option<&'static str>,
}

impl Options {
    /// The usual paths, both eras, for the hosts and pages that `allow` names.
    pub fn new(allow: Allow) -> Self {
        Self {
            paths: Paths::default(),
            allow,
            accept: AcceptRule::Either,
            replies: Replies::default(),
            legacy: LegacyServing::Sessions,
            verify: None,
            pages: Vec::new(),
            traces: Traces::default(),
            replicas: None,
            veil: None,
        }
    }

    /// Other paths.
    pub fn paths(mut self, paths: Paths) -> Self {
        self.paths = paths;
        self
    }

    /// How exact `Accept` must be.
    pub fn accept(mut self, rule: AcceptRule) -> Self {
        self.accept = rule;
        self
    }

    /// In which form a reply is sent that is there at once.
    pub fn replies(mut self, form: Replies) -> Self {
        self.replies = form;
        self
    }

    /// Modern clients only.
    pub fn modern_only(mut self) -> Self {
        self.legacy = LegacyServing::Off;
        self
    }

    /// Judges bearer tokens, on every route.
    pub fn verify(mut self, verify: impl Verify) -> Self {
        self.verify = Some(Arc::new(verify));
        self
    }

    /// What becomes of the trace that an HTTP request is part of.
    pub fn traces(mut self, traces: Traces) -> Self {
        self.traces = traces;
        self
    }

    /// Legacy sessions over Streamable HTTP are shared with these.
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Below this folder whoever has no good token, where one is asked for, cannot tell what is there from what is not.
    pub(crate) fn veil(mut self, folder: &'static str) -> Self {
        self.veil = Some(folder);
        self
    }

    /// A page beside the protocol. It is made anew for everyone who asks, and must not block.
    pub fn page(
        mut self,
        path: &str,
        audience: Audience,
        make: impl Fn(Visit) -> Leaf + Send + Sync + 'static,
    ) -> Self {
        self.pages.push(Page { path: path.into(), audience, make: Arc::new(make) });
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("paths", &self.paths)
            .field("allow", &self.allow)
            .finish_non_exhaustive()
    }
}
