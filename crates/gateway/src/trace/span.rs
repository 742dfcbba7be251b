//! One call, as it is told to whoever collects.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cardan_proto::jsonrpc::splice::member_of;
use cardan_proto::method::Method;
use cardan_proto::session::event::Answer;
use tokio::time::Instant;

use super::Tracer;
use super::context::TraceParent;

/// The attribute that names a tool.
pub(super) const TOOL: &str = "gen_ai.tool.name";
/// The attribute that names a prompt.
pub(super) const PROMPT: &str = "gen_ai.prompt.name";
/// The attribute that names a resource.
pub(super) const RESOURCE: &str = "mcp.resource.uri";

/// Which side of a call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It came to us.
    Server,
    /// It went from us.
    Client,
}

/// A call.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) kind: Kind,
    pub(super) at: TraceParent,
    pub(super) parent: Option<[u8; 8]>,
    pub(super) state: Option<Arc<str>>,
    pub(super) name: String,
    /// Since 1970.
    pub(super) begun_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) attributes: Vec<(&'static str, Box<str>)>,
    pub(super) status: Status,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Unset,
    Error,
}

/// Bytes of a value; more tell nobody anything.
const VALUE: usize = 512;

impl Span {
    pub(super) fn begin(
        kind: Kind,
        at: TraceParent,
        parent: Option<[u8; 8]>,
        state: Option<Arc<str>>,
        method: &Method,
    ) -> Self {
        let begun_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let begun_ns = u64::try_from(begun_ns).unwrap_or(u64::MAX);
        // What a client makes up is no name of ours.
        let name = if matches!(method, Method::Other(_)) { "other" } else { method.name() };
        let mut span = Self {
            kind,
            at,
            parent,
            state,
            name: name.to_owned(),
            begun_ns,
            ended_ns: begun_ns,
            attributes: Vec::with_capacity(8),
            status: Status::Unset,
        };
        span.set("mcp.method.name", name);
        if *method == Method::ToolsCall {
            span.set("gen_ai.operation.name", "execute_tool");
        }
        span
    }

    /// One more attribute.
    pub(super) fn set(&mut self, key: &'static str, value: &str) {
        self.attributes.push((key, cut(value).into()));
    }

    /// What it is about. There may be as many resources as sand, so they do not name the span.
    pub(super) fn target(&mut self, key: &'static str, name: &str) {
        self.set(key, name);
        if key != RESOURCE {
            self.name = format!("{} {}", self.name, cut(name));
        }
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(VALUE)]
}

/// A span while its call runs. One that is dropped was cancelled.
pub(crate) struct Recording(Option<Box<Running>>);

struct Running {
    tracer: Arc<Tracer>,
    span: Span,
    begun: Instant,
}

impl Recording {
    pub(super) fn new(tracer: Arc<Tracer>, span: Span) -> Self {
        Self(Some(Box::new(Running { tracer, span, begun: Instant::now() })))
    }

    pub(super) fn span_mut(&mut self) -> &mut Span {
        &mut self.0.as_mut().expect("it is taken by whoever ends it, who consumes it").span
    }

    /// It has ended so.
    pub(super) fn end(mut self, answer: &Answer) {
        match answer {
            Answer::Fault(fault) => {
                let code = fault.code.to_string();
                self.span_mut().set("rpc.response.status_code", &code);
                self.finish(Some(&code));
            }
            Answer::Done(result) | Answer::Bare(result) | Answer::Sealed(result) if says_failed(result) => {
                self.finish(Some("tool_error"));
            }
            _ => self.finish(None),
        }
    }

    /// It has failed, in one word.
    pub(super) fn fail(mut self, why: &str) {
        self.finish(Some(why));
    }

    fn finish(&mut self, error: Option<&str>) {
        let Some(running) = self.0.take() else { return };
        let Running { tracer, mut span, begun } = *running;
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        span.ended_ns = span.begun_ns.saturating_add(took);
        if let Some(error) = error {
            span.set("error.type", error);
            span.status = Status::Error;
        }
        tracer.ended(span);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.finish(Some("cancelled"));
    }
}

/// Does a result say that the tool failed?
fn says_failed(result: &Bytes) -> bool {
    member_of(result, "isError").ok().flatten().is_some_and(|raw| &*raw == b"true")
}
