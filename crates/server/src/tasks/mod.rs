//! Tasks: calls that go on after they were answered, in either design.
//!
//! * [`way`]: is this call a task?
//! * [`desk`]: who owns the work, and knows where each task stands.
//! * [`work`]: the work itself, from its first step over its asks to its end.
//! * [`calls`]: what callers can ask about tasks.
//!
//! The handler does not know any of this: it is the same function for plain calls and for tasks.

mod calls;
mod desk;
mod way;
mod work;

pub(crate) use calls::Counter;
pub(crate) use desk::Desk;
pub(crate) use way::{Support, Way, way};
pub(crate) use work::{Job, Seat};

use cardan_proto::model::meta::key;
use serde_json::{Value, json};

/// The key that ties a message to its task, and its value.
pub(crate) fn related(id: &str) -> (&'static str, Value) {
    (key::RELATED_TASK, json!({ "taskId": id }))
}
