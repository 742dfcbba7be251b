//! Calls, as they are written down.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::splice::member_of;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Answer, Called};
use tokio::time::Instant;

use super::desk::Station;
use crate::audit::{Audit, Outcome, Record};
use crate::catalog::Kind;
use crate::fleet::{Upstream, lock};

/// A server, and what it calls what a call is about.
type Target = (Box<str>, Box<str>);

/// A call that runs. One that is dropped was cancelled.
pub(super) struct Trail {
    audit: Arc<Audit>,
    kind: Kind,
    /// Where it went last, or would go first: when it ends, that may be somewhere else.
    target: Mutex<Option<Target>>,
    record: Record,
    begun: Instant,
}

impl Trail {
    /// Begins to follow a call, where calls are written down and this is of a kind that is.
    pub(super) fn begin(station: &Arc<Station>, called: &Called) -> Option<Self> {
        let audit = Arc::clone(station.front.house.options.audit.as_ref()?);
        let (kind, param) = match called.call.method {
            Method::ToolsCall => (Kind::Tools, Param::Name),
            Method::PromptsGet => (Kind::Prompts, Param::Name),
            Method::ResourcesRead => (Kind::Resources, Param::Uri),
            _ => return None,
        };
        let record = Record {
            principal: station.principal().cloned(),
            method: called.call.method.name().into(),
            target: None,
            outcome: Outcome::Cancelled,
            took: std::time::Duration::ZERO,
            sent: called.call.params.raw().map_or(0, |raw| raw.len()),
            received: 0,
        };
        let found = called.call.params.text(param).and_then(|key| station.view().find(kind, &key));
        let target = Mutex::new(found.map(|(upstream, own)| (upstream.name().into(), own)));
        Some(Self { audit, kind, target, record, begun: Instant::now() })
    }

    /// It goes to a server, for what that server calls so.
    pub(super) fn goes(&self, upstream: &Upstream, own: &str) {
        *lock(&self.target) = Some((upstream.name().into(), own.into()));
    }

    /// It has ended.
    pub(super) fn end(mut self, answer: &Answer) {
        (self.record.outcome, self.record.received) = match answer {
            Answer::Done(result) | Answer::Bare(result) | Answer::Sealed(result) => {
                (of(result), result.len())
            }
            Answer::Fault(fault) if fault.is_resource_not_found() => (Outcome::Refused, 0),
            Answer::Fault(_) => (Outcome::Fault, 0),
            Answer::Ask(_) => (Outcome::InputRequired, 0),
        };
    }
}

/// What a result says of itself.
fn of(result: &Bytes) -> Outcome {
    let is = |name, value: &str| {
        let raw = member_of(result, name).ok().flatten();
        raw.is_some_and(|raw| &*raw == value.as_bytes())
    };
    if is("isError", "true") {
        Outcome::Failed
    } else if is("resultType", "\"input_required\"") {
        Outcome::InputRequired
    } else {
        Outcome::Done
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        self.record.target = lock(&self.target).take();
        let unknown = self.record.target.is_none() && self.kind.is_named();
        if unknown && self.record.outcome == Outcome::Fault {
            self.record.outcome = Outcome::Refused;
        }
        self.record.took = self.begun.elapsed();
        self.audit.put(&self.record);
    }
}
