//! Calls, as they are written down.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::{Call, Param};
use cardan_proto::jsonrpc::splice::member_of;
use cardan_proto::method::Method;
use cardan_proto::session::event::Answer;
use tokio::time::Instant;

use super::desk::Station;
use crate::audit::{Audit, Outcome, Record};
use crate::catalog::Kind;
use crate::fleet::{Upstream, lock};

/// A server, and what it calls what a call is about; nothing: that is on no list.
pub(super) type Target = (Box<str>, Option<Box<str>>);

/// Where a call goes.
#[derive(Default)]
enum Course {
    /// To nobody, as far as is known.
    #[default]
    Nowhere,
    To(Target),
    /// It would go there, but may not.
    Barred(Target),
}

/// A call that runs. One that is dropped was cancelled.
pub(super) struct Trail {
    audit: Arc<Audit>,
    kind: Kind,
    /// Where it went last, or would go first: when it ends, that may be somewhere else.
    course: Mutex<Course>,
    record: Record,
    begun: Instant,
}

impl Trail {
    /// Begins to follow a call, where calls are written down and this is of a kind that is.
    pub(super) fn begin(station: &Arc<Station>, call: &Call) -> Option<Self> {
        let audit = Arc::clone(station.front.house.options.audit.as_ref()?);
        let (kind, param) = match call.method {
            Method::ToolsCall => (Kind::Tools, Param::Name),
            Method::PromptsGet => (Kind::Prompts, Param::Name),
            Method::ResourcesRead => (Kind::Resources, Param::Uri),
            _ => return None,
        };
        let record = Record {
            principal: station.principal().cloned(),
            method: call.method.name().into(),
            target: None,
            outcome: Outcome::Cancelled,
            took: std::time::Duration::ZERO,
            sent: call.params.raw().map_or(0, |raw| raw.len()),
            received: 0,
        };
        let found = call.params.text(param).and_then(|key| station.view().find(kind, &key));
        let course =
            found.map_or(Course::Nowhere, |(upstream, own)| Course::To((upstream.name().into(), Some(own))));
        Some(Self { audit, kind, course: Mutex::new(course), record, begun: Instant::now() })
    }

    /// It goes to a server, for what that server calls so.
    pub(super) fn goes(&self, upstream: &Upstream, own: Option<&str>) {
        *lock(&self.course) = Course::To((upstream.name().into(), own.map(Into::into)));
    }

    /// It is about something that is hidden or held back. The client is not told, but whoever reads what is written here is.
    pub(super) fn barred(&self, server: &str, own: Option<&str>) {
        *lock(&self.course) = Course::Barred((server.into(), own.map(Into::into)));
    }

    /// It was refused before anybody looked at it.
    pub(super) fn refuse(mut self) {
        self.record.outcome = Outcome::Refused;
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
        let refused;
        (self.record.target, refused) = match std::mem::take(&mut *lock(&self.course)) {
            Course::Nowhere => (None, self.kind.is_named()),
            Course::To(target) => (Some(target), false),
            Course::Barred(target) => (Some(target), true),
        };
        if refused && self.record.outcome == Outcome::Fault {
            self.record.outcome = Outcome::Refused;
        }
        self.record.took = self.begun.elapsed();
        self.audit.put(&self.record);
    }
}
