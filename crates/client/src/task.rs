//! Calls of tools that may become tasks of the server's, in either design.
//!
//! The design follows from the era: 2025-11-25 lets the caller want a task, the extension lets the
//! server make one. Here both are one handle: look, wait, cancel.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use cardan_proto::era::gates;
use cardan_proto::era::gates::Tasks;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::model::ask::{InputRequest, InputRequests, InputResponses};
use cardan_proto::model::meta::Meta;
use cardan_proto::model::task::{
    self, CreateTaskResult, ListTasksResult, Task, TaskMetadata, TaskParams, TaskStatus, UpdateTaskParams,
};
use cardan_proto::model::tool::{CallToolParams, CallToolResult, TaskSupport};
use cardan_proto::model::{Raw, RawObject, ResultType};
use cardan_proto::session::event::{Ask, CallOptions, Delivery, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::caller::{Caller, decode, encode};
use crate::client::ServerInfo;
use crate::error::{CallError, Settled};

/// What a caller wishes of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskOptions {
    /// How long the server should keep it; 2025-11-25 only, and the server decides.
    pub ttl: Option<Duration>,
    /// Of the call that makes it.
    pub call: CallOptions,
}

/// What came of calling a tool that may run as a task.
#[derive(Debug)]
pub enum Started<'a> {
    /// It was done at once.
    Done(CallToolResult),
    /// It runs as a task.
    Task(Box<ToolTask<'a>>),
}

impl Started<'_> {
    /// Waits for the result, if it is not there yet.
    pub async fn finish(self) -> Result<CallToolResult, CallError> {
        match self {
            Self::Done(result) => Ok(result),
            Self::Task(mut task) => task.wait().await,
        }
    }
}

/// A task of the server's. Dropping the handle changes nothing: the task goes on, and its name finds it
/// again.
#[derive(Debug)]
pub struct ToolTask<'a> {
    client: &'a Caller,
    task: Task,
    /// Names of asks that were answered. A look may still show them for a while.
    answered: HashSet<String>,
}

impl Caller {
    /// Calls a tool as a task where the tool and the server allow it, and plainly otherwise. In the older
    /// design only the list of tools says what a tool allows, so it is fetched if this one is not known.
    pub async fn call_tool_task(
        &self,
        name: &str,
        arguments: &impl Serialize,
        options: TaskOptions,
    ) -> Result<Started<'_>, CallError> {
        let raw = Raw::of(arguments).map_err(|error| CallError::Shape(error.to_string()))?;
        let arguments =
            RawObject::try_from(raw).map_err(|flaw| CallError::Shape(format!("arguments: {flaw}")))?;
        let settled = self.session().await?;
        let may_be = gates(settled.revision).tasks == Tasks::Core && offers_tool_tasks(&settled);
        let support = if may_be { self.support_of(name).await? } else { TaskSupport::Forbidden };
        let mut params = self.as_task(CallToolParams::new(name, Some(arguments)), &support, &settled);
        if let Some(task) = &mut params.task {
            task.ttl = options.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        }
        let raw = self.raw(Method::ToolsCall, Some(encode(&params)?), options.call).await?;
        match self.task_in(&params, &raw)? {
            Some(task) => Ok(Started::Task(Box::new(task))),
            None => decode(&raw).map(Started::Done),
        }
    }

    /// A call that may be answered with a task, where the revision has them: in the older design one that wants a task if the
    /// tool supports it, in the newer one a call that says that we know tasks.
    #[must_use]
    pub fn as_task(
        &self,
        mut params: CallToolParams,
        support: &TaskSupport,
        settled: &Settled,
    ) -> CallToolParams {
        match gates(settled.revision).tasks {
            Tasks::Core if offers_tool_tasks(settled) && is_supported(support) => {
                params.task = Some(TaskMetadata { ttl: None });
            }
            Tasks::Extension => params.meta = Some(self.declaring()),
            Tasks::Core | Tasks::Absent => {}
        }
        params
    }

    /// The task that a call was answered with; nothing: it was answered with its result.
    pub fn task_in(&self, params: &CallToolParams, raw: &[u8]) -> Result<Option<ToolTask<'_>>, CallError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Kind {
            result_type: Option<ResultType>,
        }
        let task = match decode::<Kind>(raw)?.result_type {
            _ if params.task.is_some() => decode::<CreateTaskResult>(raw)?.task,
            Some(ResultType::Task) => decode(raw)?,
            _ => return Ok(None),
        };
        Ok(Some(ToolTask { client: self, task, answered: HashSet::new() }))
    }

    /// A task that was made before, perhaps by an earlier client of the same user.
    pub async fn tool_task(&self, id: &str) -> Result<ToolTask<'_>, CallError> {
        let task = self.about(Method::TasksGet, id).await?;
        Ok(ToolTask { client: self, task: decode(&task)?, answered: HashSet::new() })
    }

    /// All tasks of all pages: 2025-11-25, and only where the server lists them.
    pub async fn all_tasks(&self) -> Result<Vec<Task>, CallError> {
        let settled = self.session().await?;
        let lists = ServerInfo::of(&settled).capabilities.tasks.is_some_and(|tasks| tasks.list.is_some());
        if gates(settled.revision).tasks == Tasks::Core && !lists {
            return Err(CallError::Refused(Refusal::Capability("tasks.list")));
        }
        self.pages::<ListTasksResult>(Method::TasksList).all().await
    }

    async fn support_of(&self, tool: &str) -> Result<TaskSupport, CallError> {
        let tools = self.all_tools().await?;
        let found = tools.into_iter().find(|found| found.name == tool);
        let support = found.and_then(|found| found.execution).and_then(|execution| execution.task_support);
        Ok(support.unwrap_or(TaskSupport::Forbidden))
    }

    /// Metadata that says that this call may be answered with a task, or is about one.
    fn declaring(&self) -> Meta {
        let mut capabilities: Value = self.declared();
        capabilities["extensions"][task::EXTENSION] = json!({});
        Meta::default().with(cardan_proto::model::meta::key::CLIENT_CAPABILITIES, capabilities)
    }

    async fn task_meta(&self) -> Result<Option<Meta>, CallError> {
        let tasks = gates(self.session().await?.revision).tasks;
        Ok((tasks == Tasks::Extension).then(|| self.declaring()))
    }

    async fn about(&self, method: Method, id: &str) -> Result<Bytes, CallError> {
        let params = encode(&TaskParams { task_id: id.to_owned(), meta: self.task_meta().await? })?;
        // Fetching a result waits for the work, and the work has no deadline of ours.
        let options = match method {
            Method::TasksResult => {
                CallOptions { idle: Some(Duration::ZERO), total: Some(Duration::ZERO), ..Default::default() }
            }
            _ => CallOptions::default(),
        };
        self.raw(method, Some(params), options).await
    }
}

impl ToolTask<'_> {
    /// Its name, to find it again.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.task.task_id
    }

    /// Where it stood when we looked last.
    #[must_use]
    pub fn seen(&self) -> &Task {
        &self.task
    }

    /// Looks at it.
    pub async fn look(&mut self) -> Result<&Task, CallError> {
        self.task = decode(&self.client.about(Method::TasksGet, self.id()).await?)?;
        Ok(&self.task)
    }

    /// Stops it. It may still end otherwise if it was about to: look and see.
    pub async fn cancel(&self) -> Result<(), CallError> {
        self.client.about(Method::TasksCancel, self.id()).await.map(drop)
    }

    /// Looks at it again and again, as often as the server wants, until it has ended; answers what it asks.
    /// No note of the server's is needed for that.
    pub async fn wait(&mut self) -> Result<CallToolResult, CallError> {
        decode(self.wait_telling(|_| ()).await?.as_str().as_bytes())
    }

    /// The same for who wants to know where it stands after each look, and the result as it came.
    pub async fn wait_telling(&mut self, mut tell: impl FnMut(&Task)) -> Result<Raw, CallError> {
        loop {
            tell(&self.task);
            let core = gates(self.client.session().await?.revision).tasks == Tasks::Core;
            match (&self.task.status, core) {
                // The older design asks while the result is fetched.
                (TaskStatus::Completed | TaskStatus::Failed | TaskStatus::InputRequired, true) => {
                    return decode(&self.client.about(Method::TasksResult, self.id()).await?);
                }
                (TaskStatus::Completed, false) => return self.inlined(),
                (TaskStatus::Failed, false) => return Err(self.failed()),
                (TaskStatus::Cancelled, _) => {
                    let reason = self.task.status_message.clone();
                    let reason = reason.unwrap_or_else(|| "the task was cancelled".to_owned());
                    return Err(CallError::Cancelled { reason: reason.into(), delivery: Delivery::Sent });
                }
                (TaskStatus::InputRequired, false) => self.answer().await?,
                (TaskStatus::Working | TaskStatus::Other(_), _) => {}
            }
            tokio::time::sleep(self.interval()).await;
            self.look().await?;
        }
    }

    fn interval(&self) -> Duration {
        let limits = self.client.limits();
        let wanted = self.task.poll_ms().map_or(limits.task_poll_interval, Duration::from_millis);
        wanted.max(limits.task_poll_floor)
    }

    fn inlined(&self) -> Result<Raw, CallError> {
        let result = self.task.result.as_ref();
        let result = result.ok_or_else(|| CallError::Shape("a completed task without its result".into()))?;
        Ok(result.raw().clone())
    }

    fn failed(&self) -> CallError {
        match &self.task.error {
            None => CallError::Shape("a failed task without its error".into()),
            Some(error) => {
                let fault = Fault::new(error.code, error.message.clone());
                CallError::Fault(match &error.data {
                    Some(data) => fault.with_data(&data.value()),
                    None => fault,
                })
            }
        }
    }

    /// Answers what the task asks and was not answered yet. Without an answer there is no going on.
    async fn answer(&mut self) -> Result<(), CallError> {
        let Some(InputRequests(asks)) = self.task.input_requests.clone() else {
            return Err(CallError::Shape("a task in need of input that asks nothing".into()));
        };
        let mut responses = InputResponses::default();
        for (name, ask) in asks {
            if self.answered.contains(&name) {
                continue;
            }
            match self.client.answer(asked(&ask)?).await {
                Ok(answer) => {
                    let answer: Raw = decode(&answer)?;
                    responses.0.insert(name, answer);
                }
                Err(fault) => {
                    self.cancel().await?;
                    let reason = format!("no answer to {name}: {}", fault.message).into();
                    return Err(CallError::Cancelled { reason, delivery: Delivery::Sent });
                }
            }
        }
        if responses.0.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = responses.0.keys().cloned().collect();
        let (task_id, meta) = (self.id().to_owned(), self.client.task_meta().await?);
        let params = encode(&UpdateTaskParams { task_id, input_responses: responses, meta })?;
        self.client.raw(Method::TasksUpdate, Some(params), CallOptions::default()).await?;
        self.answered.extend(names);
        Ok(())
    }
}

/// May calls of tools be tasks, in the older design?
fn offers_tool_tasks(settled: &Settled) -> bool {
    let tasks = ServerInfo::of(settled).capabilities.tasks;
    tasks.is_some_and(|tasks| tasks.covers(&Method::ToolsCall))
}

fn is_supported(support: &TaskSupport) -> bool {
    matches!(support, TaskSupport::Optional | TaskSupport::Required)
}

/// An ask as our answerers know it.
fn asked(ask: &InputRequest) -> Result<Ask, CallError> {
    let params = match ask {
        InputRequest::CreateMessage(params) => Some(encode(params)?),
        InputRequest::Elicit(params) => Some(encode(params)?),
        InputRequest::ListRoots(params) => params.as_ref().map(encode).transpose()?,
    };
    Ok(Ask { method: ask.method(), params })
}
