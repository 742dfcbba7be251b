//! Whether a call runs plainly or as a task: the caller's wish, the tool's and the revision's.

use std::time::Duration;

use cardan_proto::era::caps::ClientCaps;
use cardan_proto::era::gates;
use cardan_proto::era::gates::Tasks;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::jsonrpc::splice::member_of;
use cardan_proto::model::Tool;
use cardan_proto::model::task::{self, TaskMetadata};
use cardan_proto::model::tool::TaskSupport;
use cardan_proto::session::event::Called;

/// Can a call of a tool be a task?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    Forbidden,
    Optional,
    Required,
}

impl Support {
    pub(crate) fn of(tool: &Tool) -> Self {
        match tool.execution.as_ref().and_then(|execution| execution.task_support.as_ref()) {
            Some(TaskSupport::Optional) => Self::Optional,
            Some(TaskSupport::Required) => Self::Required,
            _ => Self::Forbidden,
        }
    }
}

/// How a call of a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    /// A task, because the caller wants one, kept for so long.
    Core(Option<Duration>),
    /// A task, if it does not end or ask at once.
    Extension(Support),
}

/// How this call of a tool of this kind runs, on a server that offers tasks.
pub(crate) fn way(called: &Called, support: Support) -> Result<Way, Fault> {
    match gates(called.revision).tasks {
        Tasks::Absent => Ok(Way::Plain),
        Tasks::Core => {
            let params = called.call.params.raw();
            let wish = params.and_then(|params| member_of(params, "task").ok().flatten());
            match (wish, support) {
                (None, Support::Required) => {
                    Err(Fault::new(code::METHOD_NOT_FOUND, "the tool runs as a task only; send params.task"))
                }
                (Some(_), Support::Forbidden) => {
                    Err(Fault::new(code::METHOD_NOT_FOUND, "the tool never runs as a task; omit params.task"))
                }
                (None, _) => Ok(Way::Plain),
                (Some(wish), _) => {
                    let wish: TaskMetadata = serde_json::from_slice(&wish)
                        .map_err(|error| Fault::invalid_params(format!("params.task: {error}")))?;
                    Ok(Way::Core(wish.ttl.map(Duration::from_millis)))
                }
            }
        }
        Tasks::Extension if support == Support::Forbidden => Ok(Way::Plain),
        Tasks::Extension => match (ClientCaps::read(&called.capabilities).tasks, support) {
            (true, _) => Ok(Way::Extension(support)),
            (false, Support::Required) => Err(Fault::missing_capability(&task::required())),
            (false, _) => Ok(Way::Plain),
        },
    }
}
