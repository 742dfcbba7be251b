//! The names of tasks: of one server among several, each carries the name of its server.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::{Call, Param};
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::method::Method;
use cardan_proto::model::meta::key::RELATED_TASK;
use cardan_proto::model::raw::Raw;
use cardan_proto::session::event::{Called, Outcome};
use cardan_proto::task::Design;
use serde_json::Value;

use super::tasks;

/// How names of tasks differ on the two sides of a relay.
#[derive(Debug, Clone)]
pub(crate) struct Names(Option<Arc<str>>);

/// May the result of a call name a task?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tasks {
    No,
    Maybe,
}

impl Names {
    /// Those of one server; nothing: of the only one, whose names stay.
    pub(super) fn of(server: Option<&str>) -> Self {
        Self(server.map(|server| before(server).into()))
    }

    /// Which of `servers` a task is at, by its name here.
    pub(crate) fn server<'a>(task: &str, mut servers: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        servers.find(|server| task.starts_with(&before(server)))
    }

    /// The params of a call, with the server's own name of the task that it is about.
    pub(super) fn inward(&self, call: &Call, params: Option<Bytes>) -> Option<Bytes> {
        let params = params?;
        if self.0.is_none() || !call.method.is_about_task() {
            return Some(params);
        }
        let Some(own) = call.params.text(Param::TaskId).map(|id| self.stripped(&id)) else {
            return Some(params);
        };
        let own = Value::from(&*own).to_string();
        Some(splice(&params, &[Edit::Set(Param::TaskId.name(), own.as_bytes())]).unwrap_or(params))
    }

    /// How a call ended, with the names of tasks as they are here.
    pub(super) fn outward(&self, tasks: Tasks, method: &Method, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Done(result) if tasks == Tasks::Maybe && self.0.is_some() => {
                Outcome::Done(self.renamed(method, result))
            }
            other => other,
        }
    }

    fn renamed(&self, method: &Method, result: Bytes) -> Bytes {
        match method {
            Method::ToolsCall => {
                // The older design has it inside, the extension flat; other results have neither.
                let inside = member_of(&result, "task").ok().flatten();
                let kind = member_of(&result, "resultType").ok().flatten();
                match (inside, kind) {
                    (Some(task), _) => {
                        let task = self.flat(task);
                        splice(&result, &[Edit::Set("task", &task)]).unwrap_or(result)
                    }
                    (None, Some(kind)) if kind == "\"task\"" => self.flat(result),
                    _ => result,
                }
            }
            Method::TasksResult => self.related(result),
            Method::TasksList => {
                let tasks = member_of(&result, "tasks").ok().flatten();
                let Some(tasks) = tasks.and_then(|raw| serde_json::from_slice::<Vec<Raw>>(&raw).ok()) else {
                    return result;
                };
                let renamed = |task: &Raw| self.flat(Bytes::copy_from_slice(task.as_str().as_bytes()));
                let tasks: Vec<_> = tasks.iter().map(renamed).collect();
                let tasks = [b"[", &tasks.join(&b","[..])[..], b"]"].concat();
                splice(&result, &[Edit::Set("tasks", &tasks)]).unwrap_or(result)
            }
            _ => self.flat(result),
        }
    }

    /// The params of a note about a task.
    pub(super) fn noted(&self, method: &Method, params: Bytes) -> Bytes {
        match method {
            Method::TasksStatus | Method::Tasks => self.flat(params),
            _ => params,
        }
    }

    /// An object that names a task.
    fn flat(&self, object: Bytes) -> Bytes {
        let name = member_of(&object, Param::TaskId.name()).ok().flatten();
        let Some(name) = name.and_then(|raw| serde_json::from_slice::<String>(&raw).ok()) else {
            return object;
        };
        let name = Value::from(&*self.dressed(&name)).to_string();
        splice(&object, &[Edit::Set(Param::TaskId.name(), name.as_bytes())]).unwrap_or(object)
    }

    /// An object that is part of what a task does.
    pub(super) fn related(&self, object: Bytes) -> Bytes {
        if self.0.is_none() {
            return object;
        }
        let Some(meta) = member_of(&object, Param::Meta.name()).ok().flatten() else { return object };
        let Some(task) = member_of(&meta, RELATED_TASK).ok().flatten() else { return object };
        let task = self.flat(task);
        let meta = splice(&meta, &[Edit::Set(RELATED_TASK, &task)]);
        meta.and_then(|meta| splice(&object, &[Edit::Set(Param::Meta.name(), &meta)])).unwrap_or(object)
    }

    pub(super) fn dressed(&self, task: &str) -> Box<str> {
        match &self.0 {
            Some(before) => [before, task].concat().into(),
            None => task.into(),
        }
    }

    pub(super) fn stripped(&self, task: &str) -> Box<str> {
        self.0.as_deref().and_then(|before| task.strip_prefix(before)).unwrap_or(task).into()
    }

    /// These have our names, and get the server's.
    pub(super) fn strip(&self, tasks: &mut [Box<str>]) {
        for task in tasks {
            *task = self.stripped(task);
        }
    }

    /// These have the server's names, and get ours.
    pub(super) fn dress(&self, tasks: &mut [Box<str>]) {
        for task in tasks {
            *task = self.dressed(task);
        }
    }
}

/// May the result of this call name a task? Only then is it looked at.
pub(super) fn concern(called: &Called, design: Option<Design>) -> Tasks {
    let made = || called.call.method == Method::ToolsCall && tasks::wanted(called);
    match design {
        Some(_) if called.call.method.is_about_task() || made() => Tasks::Maybe,
        _ => Tasks::No,
    }
}

/// What stands before the names of a server's tasks. No two servers have the same, and none begins with another's.
fn before(server: &str) -> String {
    let mut before = server.replace('%', "%25").replace(':', "%3A");
    before.push(':');
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_their_server_and_lead_back_to_it() {
        let names = Names::of(Some("a:b"));
        let here = names.dressed("task-1");
        assert_eq!(&*here, "a%3Ab:task-1");
        assert_eq!(Names::server(&here, ["a", "a%3Ab", "a:b"].into_iter()), Some("a:b"));
        assert_eq!(Names::server("task-1", ["a"].into_iter()), None);
        assert_eq!(&*names.stripped(&here), "task-1");
        assert_eq!(&*Names::of(None).dressed("x"), "x");
    }

    /// Every other byte stays what it was.
    #[test]
    fn results_are_renamed_where_their_design_names_the_task() {
        let names = Names::of(Some("a"));
        let rows = [
            (
                Method::ToolsCall,
                r#"{"task":{"taskId":"1","n":1.50}}"#,
                r#"{"task":{"taskId":"a:1","n":1.50}}"#,
            ),
            (
                Method::ToolsCall,
                r#"{"resultType":"task","taskId":"1"}"#,
                r#"{"resultType":"task","taskId":"a:1"}"#,
            ),
            (
                Method::ToolsCall,
                r#"{"resultType":"complete","taskId":"1"}"#,
                r#"{"resultType":"complete","taskId":"1"}"#,
            ),
            (
                Method::TasksGet,
                r#"{"taskId":"1","status":"working"}"#,
                r#"{"taskId":"a:1","status":"working"}"#,
            ),
            (
                Method::TasksResult,
                r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}"#,
                r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a:1"}}}"#,
            ),
            (
                Method::TasksList,
                r#"{"tasks":[{"taskId":"1"},{"taskId":"2"}],"nextCursor":"x"}"#,
                r#"{"tasks":[{"taskId":"a:1"},{"taskId":"a:2"}],"nextCursor":"x"}"#,
            ),
        ];
        for (method, given, left) in rows {
            assert_eq!(names.renamed(&method, Bytes::from_static(given.as_bytes())), left);
        }
    }
}
