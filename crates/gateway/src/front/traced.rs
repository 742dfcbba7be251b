//! Calls, as parts of traces. Only where they are exported: without that, nobody comes by here.

use std::sync::Arc;

use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::cx::CallCx;
use cardan_runtime::service::Handler;

use super::desk::{Station, answer};
use crate::catalog::Kind;
use crate::fleet::Upstream;
use crate::trace::{Recording, To, Tracer, is_recorded};

/// Answers a call, and records it.
pub(super) fn call(
    tracer: &Arc<Tracer>,
    station: Arc<Station>,
    cx: CallCx,
    called: Called,
) -> Handler<Answer> {
    let method = called.call.method.clone();
    if !is_recorded(&method) {
        return answer(station, cx, called);
    }
    let mut incoming = tracer.incoming(&called, &station.session);
    let target = Target::of(&called);
    Box::pin(async move {
        let mut known = target.as_ref().is_some_and(|target| target.is_offered(&station));
        if let Some(target) = target.as_ref().filter(|_| known) {
            incoming.is_about(&method, &target.key);
        }
        let answered = incoming.answer(answer(Arc::clone(&station), cx, called)).await;
        // A server may have told meanwhile what it offers.
        known = !known && target.as_ref().is_some_and(|target| target.is_offered(&station));
        if let Some(target) = target.as_ref().filter(|_| known) {
            incoming.is_about(&method, &target.key);
        }
        incoming.end(&answered);
        answered
    })
}

/// A call goes to a server.
pub(super) fn forward(
    tracer: &Arc<Tracer>,
    station: &Station,
    upstream: &Upstream,
    called: Called,
) -> (Called, Option<Recording>) {
    let status = upstream.status();
    let target = Target::of(&called);
    let target = target.filter(|target| match target.kind {
        // Its name was found, and put in the place of ours.
        Kind::Tools | Kind::Prompts => true,
        Kind::Resources | Kind::Templates | Kind::Skills => target.is_offered(station),
    });
    let to = To {
        upstream: Some(upstream.name()),
        revision: status.revision,
        kind: Some(status.kind),
        target: target.as_ref().map(|target| &*target.key),
    };
    tracer.outgoing(called, &to, &station.front.house.options.limits)
}

/// What a call is about.
struct Target {
    kind: Kind,
    key: Box<str>,
}

impl Target {
    fn of(called: &Called) -> Option<Self> {
        let (kind, param) = match called.call.method {
            Method::ToolsCall => (Kind::Tools, Param::Name),
            Method::PromptsGet => (Kind::Prompts, Param::Name),
            Method::ResourcesRead => (Kind::Resources, Param::Uri),
            _ => return None,
        };
        Some(Self { kind, key: called.call.params.text(param)?.into() })
    }

    /// Is it on a list? What a client makes up is in no span.
    fn is_offered(&self, station: &Station) -> bool {
        station.view().find(self.kind, &self.key).is_some()
    }
}
