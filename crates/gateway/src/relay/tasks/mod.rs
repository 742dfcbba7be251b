//! Tasks, where they cross: each side has the design of its era, and whoever made one is the only one who has it.
//!
//! * [`ledger`]: who made which task here.
//! * [`legacy`]: a legacy client before a modern server: tasks of the extension, as the core design has them.
//! * [`modern`]: a modern client before a legacy server: the other way round.
//! * [`tending`]: what a legacy server asks for such a task, until its end.
//!
//! Between sides of one era tasks pass as they are, once it is known whose they are.

mod ledger;
mod legacy;
mod modern;
mod tending;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use cardan_client::{CallError, Managed};
use cardan_proto::era::caps::ClientCaps;
use cardan_proto::era::gates;
use cardan_proto::era::gates::Tasks as Design;
use cardan_proto::jsonrpc::envelope::{Call, MetaKey, Param};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::task::{EXTENSION, Task, TaskMetadata};
use cardan_proto::model::tool::TaskSupport;
use cardan_proto::model::{Raw, ResultType};
use cardan_proto::session::event::{Called, Outcome, Rounds, Wanted};
use cardan_proto::task as proto;
use cardan_proto::task::cross;
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) use self::ledger::Ledger;
pub(super) use self::ledger::Owner;
use self::legacy::wish;
pub(super) use self::legacy::{Legacy, Made};
pub(super) use self::modern::{call as modern_call, follow as modern_follow, refused as modern_refused};
pub(super) use self::tending::Tended;
use super::names::Names;
use super::pool::Lease;
use super::terms;
use super::who::Who;

/// What all calls about tasks share.
pub(crate) struct Tasks {
    pub(super) ledger: Arc<Ledger>,
    names: Names,
    who: Who,
    /// The tools of a legacy server that run as tasks only; none: nobody asked yet.
    required: RwLock<Option<Vec<Box<str>>>>,
    /// What nobody waits for, until it is done.
    errands: Mutex<JoinSet<()>>,
}

impl Tasks {
    pub(super) fn new(ledger: Arc<Ledger>, names: Names, who: Who) -> Arc<Self> {
        let (required, errands) = (RwLock::default(), Mutex::default());
        Arc::new(Self { ledger, names, who, required, errands })
    }

    fn limits(&self) -> &Limits {
        self.ledger.limits()
    }

    /// What the server calls the task that a call is about.
    fn own(&self, call: &Call) -> Result<Box<str>, Fault> {
        let id = call.params.text(Param::TaskId);
        let id = id.ok_or_else(|| Fault::invalid_params("params.taskId: the task's name, a string"))?;
        Ok(self.names.stripped(&id))
    }

    /// May this call about a task be passed on? Not about another's.
    pub(super) fn admit(&self, call: &Call, owner: &Owner) -> Result<(), Fault> {
        match call.method {
            Method::TasksList => Ok(()),
            _ => self.ledger.find(&self.own(call)?, owner).map(drop),
        }
    }

    /// May this call make a task of the same design? Who has a name would lose another one by it, and is told before. Who
    /// has none may try its tasks by their names, known or not; and in the extension any call might make one, but few do.
    pub(super) fn admit_new(&self, called: &Called, owner: &Owner) -> Result<(), Fault> {
        let core = gates(called.revision).tasks == Design::Core;
        match called.call.method == Method::ToolsCall && core && owner.principal.is_some() && wanted(called) {
            true => self.ledger.room(owner),
            false => Ok(()),
        }
    }

    /// Something of this result concerns tasks: one that was made is remembered, another's is not listed.
    pub(super) fn remember(&self, call: &Call, owner: &Owner, outcome: Outcome) -> Outcome {
        match (&call.method, outcome) {
            (Method::ToolsCall, Outcome::Done(result)) => {
                let inside = member_of(&result, "task").ok().flatten();
                let made = inside
                    .or_else(|| (ResultType::peek(&result) == ResultType::Task).then(|| result.clone()));
                if let Some(task) = made.as_ref().and_then(cross::read) {
                    self.ledger.put(&task.task_id, owner.clone(), task.ttl_ms.or(task.ttl));
                }
                Outcome::Done(result)
            }
            (Method::TasksList, Outcome::Done(result)) => Outcome::Done(self.own_ones(owner, result)),
            (Method::TasksGet | Method::TasksResult, outcome) => {
                self.fetched(call, owner, &outcome);
                outcome
            }
            (_, outcome) => outcome,
        }
    }

    /// Whoever has what came of a task needs it less than one that runs.
    fn fetched(&self, call: &Call, owner: &Owner, outcome: &Outcome) {
        let has_it = match outcome {
            Outcome::Done(_) if call.method == Method::TasksResult => true,
            // In the extension the state brings it.
            Outcome::Done(state) => cross::read(state)
                .is_some_and(|task| task.status.is_terminal() && cross::outcome_of(&task).is_some()),
            _ => false,
        };
        if has_it && let Ok(Ok(Some(entry))) = self.own(call).map(|id| self.ledger.find(&id, owner)) {
            entry.spend();
        }
    }

    /// A list without what others made. One that cannot be read has nothing: whose it is cannot be told.
    fn own_ones(&self, owner: &Owner, result: Bytes) -> Bytes {
        let tasks = member_of(&result, "tasks").ok().flatten();
        let tasks = tasks.and_then(|raw| serde_json::from_slice::<Vec<Raw>>(&raw).ok()).unwrap_or_default();
        let is_own = |task: &&Raw| {
            let id = task.value()[Param::TaskId.name()].as_str().map(str::to_owned);
            id.is_some_and(|id| self.ledger.lists(&id, owner))
        };
        let own: Vec<_> = tasks.iter().filter(is_own).map(Raw::as_str).collect();
        let own = format!("[{}]", own.join(","));
        let listed = splice(&result, &[Edit::Set("tasks", own.as_bytes())]);
        listed.unwrap_or_else(|_| Bytes::from_static(b"{\"tasks\":[]}"))
    }

    /// A task by its name here.
    fn named(&self, task: Task) -> Task {
        Task { task_id: self.names.dressed(&task.task_id).into(), ..task }
    }

    /// Calls about a task upstream.
    async fn about(&self, at: &Managed, method: Method, params: Bytes) -> Result<Bytes, Fault> {
        let outcome = self.exchange(at, &method, params).await;
        self.told(outcome, &method)
    }

    /// The same by a line that is taken for it.
    async fn about_by(&self, mut lease: Lease, method: Method, params: Bytes) -> Result<Bytes, Fault> {
        let outcome = self.exchange(&lease.shared.line.managed, &method, params).await;
        lease.ended(&outcome);
        self.told(outcome, &method)
    }

    async fn exchange(&self, at: &Managed, method: &Method, params: Bytes) -> Outcome {
        let silent = Some(self.limits().call_idle_timeout);
        let options = terms::options(Wanted::No, Rounds::Callers, silent, None);
        at.start(method.clone(), Some(params), options).outcome().await
    }

    fn told(&self, outcome: Outcome, method: &Method) -> Result<Bytes, Fault> {
        match outcome {
            Outcome::Done(result) => Ok(result),
            Outcome::Fault(fault) => Err(fault),
            other => Err(self.who.fault(&other, method)),
        }
    }

    fn broken(&self) -> Fault {
        Fault::internal(format!("the answer of {} breaks the protocol: it is no task", self.who))
    }

    /// Does a tool of a legacy server run as a task only, as far as is known?
    fn requires(&self, tool: &str) -> Option<bool> {
        let required = self.required.read().unwrap_or_else(PoisonError::into_inner);
        required.as_ref().map(|required| required.iter().any(|name| **name == *tool))
    }

    /// Asks which do, and tells whether there was an answer.
    async fn learn(&self, at: &Managed) -> bool {
        let tools = match at.all_tools().await {
            Ok(tools) => tools,
            // One that cannot be asked is asked the next time.
            Err(error) => return matches!(error, CallError::Fault(_)),
        };
        let is_required = |tool: &cardan_proto::model::Tool| {
            let support = tool.execution.as_ref().and_then(|execution| execution.task_support.as_ref());
            support == Some(&TaskSupport::Required)
        };
        let names = tools.into_iter().filter(is_required).map(|tool| tool.name.into());
        let names = names.take(self.limits().tools_remembered).collect();
        *self.required.write().unwrap_or_else(PoisonError::into_inner) = Some(names);
        true
    }
}

/// What a call of a legacy client has to do with tasks, where its upstream has them.
pub(super) enum Crossing {
    /// Nothing.
    Nothing,
    /// It is about one, of the same design.
    Same,
    /// It is about one, of the other design.
    About,
    /// It wants one, of the other design.
    Make(TaskMetadata),
    /// It calls a tool and wants none, and the upstream has the other design.
    Plain,
    /// It lists tools that could be called as tasks.
    Tools,
}

/// What this call of a legacy client has to do with tasks.
pub(super) fn crossing(called: &Called, upstream: Option<proto::Design>) -> Result<Crossing, Fault> {
    let method = &called.call.method;
    let core = gates(called.revision).tasks == Design::Core;
    Ok(match (upstream, method) {
        (None, _) => Crossing::Nothing,
        (Some(proto::Design::Core), method) if method.is_about_task() => Crossing::Same,
        (Some(proto::Design::Core), _) => Crossing::Nothing,
        (Some(proto::Design::Extension), method) if method.is_about_task() => Crossing::About,
        (Some(proto::Design::Extension), Method::ToolsList) if core => Crossing::Tools,
        (Some(proto::Design::Extension), Method::ToolsCall) => {
            let wish = if core { wish(&called.call)? } else { None };
            wish.map_or(Crossing::Plain, Crossing::Make)
        }
        _ => Crossing::Nothing,
    })
}

/// May a call be answered with a task, by what it says?
pub(super) fn wanted(called: &Called) -> bool {
    match gates(called.revision).tasks {
        Design::Absent => false,
        Design::Core => {
            called.call.params.raw().is_some_and(|raw| matches!(member_of(raw, "task"), Ok(Some(_))))
        }
        Design::Extension => ClientCaps::read(&called.capabilities).tasks,
    }
}

/// These capabilities, and the extension.
pub(super) fn declared(mut capabilities: Value) -> Value {
    if !capabilities.is_object() {
        capabilities = json!({});
    }
    match capabilities["extensions"].as_object_mut() {
        Some(extensions) => drop(extensions.insert(EXTENSION.to_owned(), json!({}))),
        None => capabilities["extensions"] = json!({ EXTENSION: {} }),
    }
    capabilities
}

/// The params of a call that may be answered with a task of the extension.
pub(super) fn declaring(params: Option<Bytes>, declared: &Value) -> Bytes {
    let empty = || Bytes::from_static(b"{}");
    let params = params.unwrap_or_else(empty);
    let meta = member_of(&params, Param::Meta.name()).ok().flatten().unwrap_or_else(empty);
    let declared = declared.to_string();
    let spliced = splice(&meta, &[Edit::Set(MetaKey::ClientCapabilities.name(), declared.as_bytes())])
        .and_then(|meta| splice(&params, &[Edit::Set(Param::Meta.name(), &meta), Edit::Drop("task")]));
    spliced.unwrap_or(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TSKE-1, TSKE-18: the extension is declared with the call, beside whatever else is; the wish of the older design stays
    /// here.
    #[test]
    fn a_call_declares_the_extension() {
        let declared = declared(json!({"roots": {}, "extensions": {"a/b": {}}}));
        assert_eq!(declared["extensions"], json!({"a/b": {}, "io.modelcontextprotocol/tasks": {}}));
        assert_eq!(super::declared(Value::Null), cardan_proto::model::task::required());
        let given = Bytes::from_static(br#"{"name":"t","task":{"ttl":1},"_meta":{"x":1},"n":1.50}"#);
        let params = declaring(Some(given), &json!({"roots": {}}));
        assert_eq!(
            params,
            r#"{"name":"t","_meta":{"x":1,"io.modelcontextprotocol/clientCapabilities":{"roots":{}}},"n":1.50}"#
        );
    }
}
