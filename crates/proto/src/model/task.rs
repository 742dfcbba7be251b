//! Tasks: calls whose answer is fetched later. One type serves the core experiment of
//! 2025-11-25 (`ttl`, `pollInterval`) and the extension (`ttlMs`, `pollIntervalMs`, and the
//! asks, the result or the error inside).

use serde::{Deserialize, Serialize};

use super::ask::{InputRequests, InputResponses};
use super::flaw::Flaw;
use super::meta::Meta;
use super::open::open_enum;
use super::page::Cursor;
use super::raw::{Raw, RawObject, present};
use super::result::ResultType;

/// The id of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The client capabilities that the extension needs, for the fault that misses them.
#[must_use]
pub fn required() -> serde_json::Value {
    serde_json::json!({ "extensions": { EXTENSION: {} } })
}

open_enum! {
    /// Where a task stands.
    TaskStatus {
        /// It runs.
        Working = "working",
        /// It waits for answers to asks.
        InputRequired = "input_required",
        /// It has a result.
        Completed = "completed",
        /// It has an error.
        Failed = "failed",
        /// It was stopped.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Will it never change again?
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// How long a task is kept from its creation; without end is `null` on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<u64>", into = "Option<u64>")]
pub enum Lifetime {
    /// Without end.
    Unlimited,
    /// Milliseconds.
    Millis(u64),
}

impl From<Option<u64>> for Lifetime {
    fn from(ms: Option<u64>) -> Self {
        ms.map_or(Self::Unlimited, Self::Millis)
    }
}

impl From<Lifetime> for Option<u64> {
    fn from(lifetime: Lifetime) -> Self {
        match lifetime {
            Lifetime::Unlimited => None,
            Lifetime::Millis(ms) => Some(ms),
        }
    }
}

/// A task. Also the flat result that creates one, the result of looking at one, and the params of its notes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Extension, as a result: `task` when it creates the task, `complete` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<ResultType>,
    /// Names it.
    pub task_id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// More about that, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// When it was created, in ISO 8601.
    pub created_at: String,
    /// When it last changed, in ISO 8601.
    pub last_updated_at: String,
    /// 2025-11-25: how long it is kept.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Lifetime>,
    /// Extension: how long it is kept.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<Lifetime>,
    /// 2025-11-25: milliseconds between looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_interval: Option<u64>,
    /// Extension: milliseconds between looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
    /// Extension, while input is required: all asks without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests>,
    /// Extension, when completed: the result of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<RawObject>,
    /// Extension, when failed: the fault of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl Task {
    /// Milliseconds between looks, by whichever name.
    #[must_use]
    pub fn poll_ms(&self) -> Option<u64> {
        self.poll_interval_ms.or(self.poll_interval)
    }

    /// What a server of the extension must not send: a state without what belongs to it.
    #[must_use]
    pub fn check_detailed(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let members = [
            ("inputRequests", self.input_requests.is_some(), TaskStatus::InputRequired),
            ("result", self.result.is_some(), TaskStatus::Completed),
            ("error", self.error.is_some(), TaskStatus::Failed),
        ];
        for (member, there, status) in members {
            match (there, self.status == status) {
                (false, true) => {
                    flaws.push(Flaw::at(member, format!("is missing from a {} task", status.as_str())))
                }
                (true, false) => {
                    flaws.push(Flaw::at(member, format!("belongs to a {} task only", status.as_str())))
                }
                _ => {}
            }
        }
        if self.ttl_ms.is_none() {
            flaws.push(Flaw::at("ttlMs", "is missing; null means without end"));
        }
        flaws
    }
}

/// The fault of a failed task, as it stands in the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskError {
    /// What kind of error.
    pub code: i64,
    /// One concise sentence.
    pub message: String,
    /// More about it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub data: Option<Raw>,
}

/// 2025-11-25: makes a call a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TaskMetadata {
    /// Milliseconds that the caller would like it kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
}

/// 2025-11-25: the task that a message belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelatedTask {
    /// Names it.
    pub task_id: String,
}

/// 2025-11-25: the task that a call became. The extension puts a flat [`Task`] here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateTaskResult {
    /// The task.
    pub task: Task,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Params of looking at a task, cancelling it, or fetching its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskParams {
    /// Names it.
    pub task_id: String,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Extension: params of answering the asks of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateTaskParams {
    /// Names it.
    pub task_id: String,
    /// The answers, by the names of the asks.
    pub input_responses: InputResponses,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// 2025-11-25: one page of tasks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListTasksResult {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Cursor>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(members: &str) -> Task {
        let text =
            format!(r#"{{"taskId":"t","createdAt":"2026-01-01","lastUpdatedAt":"2026-01-01",{members}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    /// TSKD-10, TSKE-24: a lifetime without end is null, and null is not absence.
    #[test]
    fn unlimited_lifetime_is_null() {
        let core = task(r#""status":"working","ttl":null,"pollInterval":5"#);
        assert_eq!((core.ttl, core.ttl_ms, core.poll_ms()), (Some(Lifetime::Unlimited), None, Some(5)));
        assert!(serde_json::to_string(&core).unwrap().contains(r#""ttl":null"#));
        let extension = task(r#""status":"working","ttlMs":60000,"pollIntervalMs":7"#);
        assert_eq!((extension.ttl_ms, extension.poll_ms()), (Some(Lifetime::Millis(60_000)), Some(7)));
    }

    /// TSKE-8, TSKE-9: each state brings what belongs to it, and nothing else.
    #[test]
    fn states_bring_their_members() {
        let fault = r#""error":{"code":-32603,"message":"m"}"#;
        let rows = [
            (r#""status":"working","ttlMs":null"#.to_owned(), vec![]),
            (r#""status":"completed","ttlMs":null,"result":{}"#.to_owned(), vec![]),
            (r#""status":"completed","ttlMs":null"#.to_owned(), vec!["/result"]),
            (r#""status":"input_required","ttlMs":null"#.to_owned(), vec!["/inputRequests"]),
            (format!(r#""status":"failed","ttlMs":1,{fault}"#), vec![]),
            (format!(r#""status":"cancelled",{fault}"#), vec!["/error", "/ttlMs"]),
        ];
        for (members, places) in rows {
            let found: Vec<String> =
                task(&members).check_detailed().into_iter().map(|flaw| flaw.at).collect();
            assert_eq!(found, places, "{members}");
        }
    }

    /// TSKD-9: terminal states.
    #[test]
    fn three_states_are_terminal() {
        let terminal = |word| TaskStatus::parse(word).is_terminal();
        assert!(["completed", "failed", "cancelled"].into_iter().all(terminal));
        assert!(!["working", "input_required", "paused"].into_iter().any(terminal));
    }
}
