//! Tasks of one design in the words of the other: pure functions, for whoever stands between a client and a server of
//! different eras.
//!
//! | | core, 2025-11-25 | extension |
//! |---|---|---|
//! | how long, how often | `ttl`, `pollInterval` | `ttlMs`, `pollIntervalMs` |
//! | what came of it | fetched by a call of its own | inside the task |
//! | a tool that failed | `failed`, with a result | `completed`, with that result |
//! | what it asks | calls to the client, with the task in `_meta` | inside the task, by name |

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::life::{Design, first_text, is_error};
use crate::era::gates::Tasks;
use crate::era::{Revision, gates};
use crate::jsonrpc::envelope::Param;
use crate::jsonrpc::fault::{Fault, code};
use crate::jsonrpc::splice::{Edit, member_of, splice};
use crate::method::Method;
use crate::model::capability::{ServerCapabilities, settings};
use crate::model::meta::key::RELATED_TASK;
use crate::model::raw::Raw;
use crate::model::task::{EXTENSION, Lifetime, Task, TaskStatus};
use crate::session::event::Ask;

/// The design in which a server of this revision runs tools as tasks; none: it does not.
#[must_use]
pub fn offered(revision: Revision, capabilities: &[u8]) -> Option<Design> {
    let read: ServerCapabilities = serde_json::from_slice(capabilities).ok()?;
    match gates(revision).tasks {
        Tasks::Absent => None,
        Tasks::Core => read.tasks.filter(|tasks| tasks.covers(&Method::ToolsCall)).map(|_| Design::Core),
        Tasks::Extension => {
            let extensions = read.extensions.unwrap_or_default();
            settings(&extensions, EXTENSION).map(|_| Design::Extension)
        }
    }
}

/// Capabilities that say the same in both designs. Each era shows its own.
#[must_use]
pub fn both(design: Design, capabilities: &Bytes) -> Bytes {
    let empty = || Bytes::from_static(b"{}");
    let spliced = match design {
        // The extension has no list; one of what was made here can be kept.
        Design::Extension => {
            let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}).to_string();
            splice(capabilities, &[Edit::Set("tasks", tasks.as_bytes())])
        }
        Design::Core => {
            let extensions = member_of(capabilities, "extensions").ok().flatten().unwrap_or_else(empty);
            splice(&extensions, &[Edit::Set(EXTENSION, b"{}")])
                .and_then(|extensions| splice(capabilities, &[Edit::Set("extensions", &extensions)]))
        }
    };
    spliced.unwrap_or_else(|_| capabilities.clone())
}

/// Reads a task as a server wrote it, but for what it asks.
#[must_use]
pub fn read(state: &Bytes) -> Option<Task> {
    let bare = splice(state, &[Edit::Drop("inputRequests")]).ok()?;
    serde_json::from_slice(&bare).ok()
}

/// A task of the extension in the words of the core design: where it stands. What came of it is fetched by itself.
#[must_use]
pub fn core_of(task: &Task) -> Task {
    let failed = task.result.as_ref().map(|result| bytes(result.raw().as_str())).filter(is_error);
    let (status, said) = match (&task.status, &failed, &task.error) {
        // TSKD-22: a tool that failed is a task that failed.
        (TaskStatus::Completed, Some(result), _) => (TaskStatus::Failed, Some(first_text(result))),
        (TaskStatus::Failed, _, Some(error)) => (TaskStatus::Failed, Some(error.message.clone())),
        // A state that only the newer side knows is not the end.
        (TaskStatus::Other(other), ..) => (TaskStatus::Working, Some(other.to_string())),
        (status, ..) => (status.clone(), None),
    };
    Task {
        result_type: None,
        task_id: task.task_id.clone(),
        status,
        status_message: task.status_message.clone().or(said),
        created_at: task.created_at.clone(),
        last_updated_at: task.last_updated_at.clone(),
        ttl: Some(task.ttl_ms.or(task.ttl).unwrap_or(Lifetime::Unlimited)),
        ttl_ms: None,
        poll_interval: task.poll_ms(),
        poll_interval_ms: None,
        input_requests: None,
        result: None,
        error: None,
        meta: None,
    }
}

/// What a task of the extension brought; none: it has not ended, or it was cancelled.
#[must_use]
pub fn outcome_of(task: &Task) -> Option<Result<Bytes, Fault>> {
    match task.status {
        TaskStatus::Completed => Some(match &task.result {
            Some(result) => Ok(bytes(result.raw().as_str())),
            None => Err(Fault::internal("the server completed the task without a result")),
        }),
        TaskStatus::Failed => Some(Err(match &task.error {
            Some(error) => {
                let fault = Fault::new(error.code, error.message.clone());
                match &error.data {
                    Some(data) => Fault { data: Some(bytes(data.as_str())), ..fault },
                    None => fault,
                }
            }
            None => unexplained(task),
        })),
        _ => None,
    }
}

/// What belongs to the state of a task beside where it stands.
#[derive(Debug, Clone, Copy)]
pub enum Brings<'a> {
    /// Nothing.
    Nothing,
    /// It waits for answers to these.
    Asks(&'a [(Box<str>, Ask)]),
    /// It has ended so.
    Outcome(&'a Result<Bytes, Fault>),
}

/// A task of the core design in the words of the extension, whole: a JSON object.
#[must_use]
pub fn extension_of(task: &Task, brings: Brings<'_>) -> Bytes {
    let mut head = Task {
        result_type: None,
        ttl: None,
        ttl_ms: Some(task.ttl.or(task.ttl_ms).unwrap_or(Lifetime::Unlimited)),
        poll_interval: None,
        poll_interval_ms: task.poll_ms(),
        input_requests: None,
        result: None,
        error: None,
        meta: None,
        ..task.clone()
    };
    let member = match (&task.status, brings) {
        (TaskStatus::Cancelled, _) => None,
        (TaskStatus::Completed | TaskStatus::Failed, Brings::Outcome(Ok(result))) => {
            // TSKE-9: failed is for faults, whatever the tool said.
            head.status = TaskStatus::Completed;
            Some(("result", untied(result)))
        }
        (TaskStatus::Completed | TaskStatus::Failed, Brings::Outcome(Err(fault))) => {
            head.status = TaskStatus::Failed;
            Some(("error", error(fault)))
        }
        (TaskStatus::Failed, _) => Some(("error", error(&unexplained(task)))),
        (_, Brings::Asks(asks)) if !asks.is_empty() => {
            head.status = TaskStatus::InputRequired;
            Some(("inputRequests", requests(asks)))
        }
        // What it asks is on its way; what came of it too.
        _ => {
            head.status = TaskStatus::Working;
            None
        }
    };
    let head = serde_json::to_vec(&head).unwrap_or_else(|_| b"{}".to_vec());
    match member {
        Some((name, value)) => splice(&head, &[Edit::Set(name, &value)]).unwrap_or_else(|_| head.into()),
        None => head.into(),
    }
}

/// What a task of the extension asks, by name, at most so many; what no client could be asked is left out.
#[must_use]
pub fn asks_in(state: &Bytes, max: usize) -> Vec<(Box<str>, Ask)> {
    #[derive(Deserialize)]
    struct Entry<'a> {
        method: String,
        #[serde(borrow, default)]
        params: Option<&'a RawValue>,
    }
    let Some(raw) = member_of(state, "inputRequests").ok().flatten() else { return Vec::new() };
    let Ok(entries) = serde_json::from_slice::<std::collections::BTreeMap<Box<str>, Entry<'_>>>(&raw) else {
        return Vec::new();
    };
    let ask = |(name, entry): (Box<str>, Entry<'_>)| {
        let method = Method::parse(&entry.method);
        let known =
            matches!(method, Method::SamplingCreateMessage | Method::ElicitationCreate | Method::RootsList);
        let params = entry.params.map(|params| bytes(params.get()));
        known.then_some((name, Ask { method, params }))
    };
    entries.into_iter().filter_map(ask).take(max).collect()
}

/// `object` with the task that it belongs to in its `_meta`.
#[must_use]
pub fn tied(object: &Bytes, id: &str) -> Bytes {
    let meta = member_of(object, Param::Meta.name()).ok().flatten();
    let meta = meta.unwrap_or_else(|| Bytes::from_static(b"{}"));
    let task = json!({ "taskId": id }).to_string();
    let tied = splice(&meta, &[Edit::Set(RELATED_TASK, task.as_bytes())])
        .and_then(|meta| splice(object, &[Edit::Set(Param::Meta.name(), &meta)]));
    tied.unwrap_or_else(|_| object.clone())
}

/// `object` without the task that it belongs to.
#[must_use]
pub fn untied(object: &Bytes) -> Bytes {
    let Some(meta) = member_of(object, Param::Meta.name()).ok().flatten() else { return object.clone() };
    let Ok(meta) = splice(&meta, &[Edit::Drop(RELATED_TASK)]) else { return object.clone() };
    let edit = match &meta[..] {
        b"{}" => Edit::Drop(Param::Meta.name()),
        meta => Edit::Set(Param::Meta.name(), meta),
    };
    splice(object, &[edit]).unwrap_or_else(|_| object.clone())
}

/// The task that an object says it belongs to.
#[must_use]
pub fn task_of(object: &Bytes) -> Option<Box<str>> {
    let meta = member_of(object, Param::Meta.name()).ok().flatten()?;
    let task = member_of(&meta, RELATED_TASK).ok().flatten()?;
    serde_json::from_slice(&member_of(&task, Param::TaskId.name()).ok().flatten()?).ok()
}

/// Is this the fault of a call that can only be answered with a task, and that did not say that it may be?
#[must_use]
pub fn needs_extension(fault: &Fault) -> bool {
    let data: Option<Value> = fault.data.as_deref().and_then(|data| serde_json::from_slice(data).ok());
    fault.code == code::MISSING_CAPABILITY
        && data.is_some_and(|data| {
            data["requiredCapabilities"]["extensions"]
                .as_object()
                .is_some_and(|extensions| extensions.len() == 1 && extensions.contains_key(EXTENSION))
        })
}

fn unexplained(task: &Task) -> Fault {
    let said = task.status_message.clone();
    Fault::internal(said.unwrap_or_else(|| "the task failed, and its server does not say why".to_owned()))
}

fn error(fault: &Fault) -> Bytes {
    let error = json!({ "code": fault.code, "message": fault.message }).to_string();
    let spliced =
        fault.data.as_ref().and_then(|data| splice(error.as_bytes(), &[Edit::Set("data", data)]).ok());
    spliced.unwrap_or_else(|| error.into())
}

fn requests(asks: &[(Box<str>, Ask)]) -> Bytes {
    let mut all = Bytes::from_static(b"{}");
    for (name, ask) in asks {
        let method = json!({ "method": ask.method.name() }).to_string();
        let params = Revision::LATEST_MODERN.dress_ask(ask).map(|params| untied(&params));
        let entry = match &params {
            Some(params) => splice(method.as_bytes(), &[Edit::Set("params", params)]),
            None => Ok(method.into()),
        };
        if let Ok(grown) = entry.and_then(|entry| splice(&all, &[Edit::Set(name, &entry)])) {
            all = grown;
        }
    }
    all
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// A page of tools of a server that may make tasks of any: each can be called either way, unless it says otherwise.
#[must_use]
pub fn optional_tools(page: &Bytes) -> Bytes {
    let tools = member_of(page, "tools").ok().flatten();
    let Some(tools) = tools.and_then(|raw| serde_json::from_slice::<Vec<Raw>>(&raw).ok()) else {
        return page.clone();
    };
    let tools: Vec<_> = tools.iter().map(|tool| optional_tool(tool.as_str())).collect();
    let tools = [b"[", &tools.join(&b","[..])[..], b"]"].concat();
    splice(page, &[Edit::Set("tools", &tools)]).unwrap_or_else(|_| page.clone())
}

/// The same for one tool.
#[must_use]
pub fn optional_tool(tool: &str) -> Bytes {
    let tool = bytes(tool);
    let execution = member_of(&tool, "execution").ok().flatten().filter(|raw| raw.first() == Some(&b'{'));
    let execution = execution.unwrap_or_else(|| Bytes::from_static(b"{}"));
    let spliced = splice(&execution, &[Edit::Default("taskSupport", b"\"optional\"")])
        .and_then(|execution| splice(&tool, &[Edit::Set("execution", &execution)]));
    spliced.unwrap_or(tool)
}
