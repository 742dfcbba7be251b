//! A modern client before a legacy server: tasks of the core design, as the extension has them.
//!
//! In the extension the server decides what is a task. A tool that runs as a task only is one for every client that declared
//! the extension; one that may be either is called plainly: it answers sooner, and asks and tells its progress.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::era::Era;
use cardan_proto::era::caps::ClientCaps;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::method::Method;
use cardan_proto::model::task::{self, Task, UpdateTaskParams};
use cardan_proto::session::event::{Answer, Called, Change, Outcome, Rounds};
use cardan_proto::task::Design;
use cardan_proto::task::cross::{self, Brings};
use cardan_runtime::cx::CallCx;
use cardan_runtime::peer::Beside;
use serde_json::json;

use super::ledger::{Entry, Owner, unknown};
use super::tending::{Place, tend};
use super::{Tasks, wanted};
use crate::relay::askable::Askable;
use crate::relay::held::Held;
use crate::relay::modern::Ear;
use crate::relay::pool::{Lease, Need};
use crate::relay::{Core, Isolation, detour, terms};

/// Answers a call that concerns tasks; nothing: it does not, and is a call like any other.
pub(in crate::relay) async fn call(
    core: &Arc<Core>,
    askable: Askable,
    owner: Owner,
    cx: &CallCx,
    called: &Called,
    held: &mut Held,
) -> Option<Result<Answer, Fault>> {
    let crossing = Crossing { core, tasks: &core.tasks, askable, owner };
    match called.call.method {
        ref method if method.is_about_task() => Some(crossing.about(called).await),
        Method::ToolsCall if core.design() == Some(Design::Core) && wanted(called) => {
            crossing.make(cx, called, held).await.transpose()
        }
        _ => None,
    }
}

/// A tool was called plainly, and its server says that there is none such: it may run as a task only.
pub(in crate::relay) async fn refused(
    core: &Arc<Core>,
    askable: Askable,
    owner: Owner,
    cx: &CallCx,
    called: &Called,
    mut held: Held,
    fault: Fault,
) -> Result<Answer, Fault> {
    let crossing = Crossing { core, tasks: &core.tasks, askable, owner };
    let mut lease = crossing.lease().await?;
    if core.tasks.learn(&lease.shared.line.managed).await {
        lease.landed();
    }
    drop(lease);
    let tool = called.call.params.text(Param::Name);
    match tool.is_some_and(|tool| core.tasks.requires(&tool) == Some(true)) {
        false => Err(fault),
        true if wanted(called) => {
            Ok(crossing.make(cx, called, &mut held).await?.unwrap_or(Answer::Fault(fault)))
        }
        // TSKE-4: it cannot be served otherwise.
        true => Err(Fault::missing_capability(&task::required())),
    }
}

/// One call, and whose it is.
struct Crossing<'a> {
    core: &'a Arc<Core>,
    tasks: &'a Tasks,
    askable: Askable,
    owner: Owner,
}

impl Crossing<'_> {
    /// Makes a task of a call; nothing: its tool runs plainly.
    async fn make(&self, cx: &CallCx, called: &Called, held: &mut Held) -> Result<Option<Answer>, Fault> {
        let Some(tool) = called.call.params.text(Param::Name) else { return Ok(None) };
        let (mut lease, mut answered) = (None, true);
        let remembered = self.tasks.requires(&tool).is_some();
        if !remembered {
            let taken = lease.insert(self.lease().await?);
            answered = self.tasks.learn(&taken.shared.line.managed).await;
        }
        if self.tasks.requires(&tool) != Some(true) {
            if let Some(lease) = lease.as_mut().filter(|_| answered) {
                lease.landed();
            }
            return Ok(None);
        }
        self.tasks.ledger.room(&self.owner)?;
        let mut lease = match lease {
            Some(lease) => lease,
            None => self.lease().await?,
        };
        lease.shared.heard().await;
        let params = terms::params(called, Era::Legacy, None).unwrap_or_else(|| Bytes::from_static(b"{}"));
        let params = splice(&params, &[Edit::Set("task", b"{}")]).unwrap_or(params);
        let (silent, unlinked) = (self.core.options.call_timeout, self.core.options.grace);
        let options = terms::options(called.progress, Rounds::Callers, silent, unlinked);
        let options = match self.core.vet(&lease.shared.line, called, &held.bar).await {
            Ok(leave) => leave.options(options),
            Err(fault) => {
                lease.landed();
                return Err(fault);
            }
        };
        let beside = Beside { onward: Some(cx.clone()), ..Beside::default() };
        let managed = &lease.shared.line.managed;
        let outcome = managed.start_beside(Method::ToolsCall, Some(params), options, beside).outcome().await;
        held.bar.ended(&outcome);
        let made = match &outcome {
            Outcome::Done(result) => member_of(result, "task").ok().flatten(),
            _ => None,
        };
        let Some(made) = made else {
            // It ran as a task only, and does no more: a call that is refused so was not executed.
            let refused = matches!(&outcome, Outcome::Fault(fault) if fault.code == code::METHOD_NOT_FOUND);
            if !(refused && remembered) || self.tasks.learn(&lease.shared.line.managed).await {
                lease.ended(&outcome);
            }
            if refused && self.tasks.requires(&tool) != Some(true) {
                return Ok(None);
            }
            let who = &self.core.who;
            let answer = terms::answer(outcome, &Method::ToolsCall, Era::Modern, Era::Legacy, who);
            return detour::answer(self.core, self.owner.principal.as_ref(), called, answer).map(Some);
        };
        let task = cross::read(&made).ok_or_else(|| self.tasks.broken())?;
        let entry = self.tasks.ledger.mint(&task.task_id, self.owner.clone(), task.ttl);
        tend(&self.tasks.ledger, &entry, lease, std::mem::take(held));
        let state = cross::extension_of(&self.named(&entry, task), Brings::Nothing);
        let state = splice(&state, &[Edit::Set("resultType", b"\"task\"")]).unwrap_or(state);
        Ok(Some(Answer::Done(state)))
    }

    /// The right to a line, once there is a session.
    async fn lease(&self) -> Result<Lease, Fault> {
        let need = match self.core.options.isolation {
            Isolation::Call => Need::Fresh,
            _ => Need::Any,
        };
        let lease = self.core.pool(self.owner.principal.as_ref()).take(self.askable, need).await?;
        let (opening, again) = (self.core.options.opening, self.core.options.grace());
        let ready = lease.shared.line.ready(opening, again).await;
        ready.map_err(|error| self.core.who.unreachable(&error))?;
        Ok(lease)
    }

    /// Answers a call about a task.
    async fn about(&self, called: &Called) -> Result<Answer, Fault> {
        let call = &called.call;
        if self.core.design() != Some(Design::Core) {
            return Err(Fault::method_not_found(call.method.name()));
        }
        // TSKE-15: before any look at the id.
        if !ClientCaps::read(&called.capabilities).tasks {
            return Err(Fault::missing_capability(&task::required()));
        }
        let id = self.tasks.own(call)?;
        let entry = match self.tasks.ledger.find(&id, &self.owner)? {
            Some(entry) => entry,
            // Nothing can have been asked for it.
            None if call.method == Method::TasksUpdate => return Err(unknown()),
            None => self.found(&id).await?,
        };
        match call.method {
            Method::TasksGet => self.state(&entry).await.map(Answer::Done),
            Method::TasksUpdate => self.update(called, &entry),
            Method::TasksCancel => self.cancel(&entry).await,
            _ => Err(Fault::method_not_found(call.method.name())),
        }
    }

    /// A task that is not known here, if its server knows it: names that someone made up take no room.
    async fn found(&self, id: &str) -> Result<Arc<Entry>, Fault> {
        let params = Bytes::from(json!({ "taskId": id }).to_string());
        let state = self.tasks.about_by(self.lease().await?, Method::TasksGet, params).await;
        let state = state.map_err(|fault| match fault.code {
            code::INVALID_PARAMS => unknown(),
            _ => fault,
        })?;
        let task = cross::read(&state).ok_or_else(|| self.tasks.broken())?;
        self.tasks.ledger.adopt(id, &self.owner, task.ttl)
    }

    fn update(&self, called: &Called, entry: &Entry) -> Result<Answer, Fault> {
        let params: UpdateTaskParams =
            called.call.params.decode().map_err(|error| Fault::invalid_params(format!("params: {error}")))?;
        let answers = params.input_responses.0;
        if answers.len() > self.tasks.limits().asks_per_round {
            return Err(Fault::invalid_params("params.inputResponses: too many entries"));
        }
        if let Some((name, _)) = answers.iter().find(|(_, answer)| !answer.is_object()) {
            return Err(Fault::invalid_params(format!("params.inputResponses/{name}: not an object")));
        }
        for (name, answer) in answers {
            entry.tending.answer(&name, Bytes::from(answer.as_str().to_owned()));
        }
        entry.touch();
        Ok(empty())
    }

    /// TSKE-12, TSKE-26: acknowledged, whatever comes of it.
    async fn cancel(&self, entry: &Arc<Entry>) -> Result<Answer, Fault> {
        loop {
            match entry.tending.place() {
                Place::Over(_) => return Ok(empty()),
                Place::Nowhere => tend(&self.tasks.ledger, entry, self.lease().await?, Held::default()),
                Place::At(at) => {
                    let params = Bytes::from(json!({ "taskId": entry.id }).to_string());
                    let cancelled = self.tasks.about(&at, Method::TasksCancel, params.clone()).await;
                    return match cancelled {
                        Ok(_) => Ok(empty()),
                        // It has ended already, or cannot be cancelled: if it is there at all.
                        Err(fault) if matches!(fault.code, code::INVALID_PARAMS | code::METHOD_NOT_FOUND) => {
                            self.look(&at, entry).await.map(|_| empty())
                        }
                        Err(fault) => Err(fault),
                    };
                }
            }
        }
    }

    /// Where it stands, as its server says.
    async fn look(&self, at: &cardan_client::Managed, entry: &Entry) -> Result<Task, Fault> {
        let params = Bytes::from(json!({ "taskId": entry.id }).to_string());
        match self.tasks.about(at, Method::TasksGet, params).await {
            Ok(state) => cross::read(&state).ok_or_else(|| self.tasks.broken()),
            Err(fault) if fault.code == code::INVALID_PARAMS => {
                self.tasks.ledger.forget(entry);
                Err(unknown())
            }
            Err(fault) => Err(fault),
        }
    }

    /// The whole state, as the client reads it.
    async fn state(&self, entry: &Arc<Entry>) -> Result<Bytes, Fault> {
        let mut lines = 0;
        loop {
            let mut moved = entry.moved();
            match entry.tending.place() {
                // Whoever asks for the result loses the line.
                Place::Nowhere if lines == LINES => return Err(self.core.who.silent()),
                Place::Nowhere => {
                    lines += 1;
                    tend(&self.tasks.ledger, entry, self.lease().await?, Held::default());
                }
                Place::Over(over) => {
                    let outcome = match &over.outcome {
                        Some(outcome) => outcome.clone(),
                        None => self.fetched(entry).await?,
                    };
                    entry.spend();
                    let head = self.named(entry, over.head.clone());
                    return Ok(cross::extension_of(&head, Brings::Outcome(&outcome)));
                }
                Place::At(at) => {
                    let head = self.look(&at, entry).await?;
                    if !head.status.is_terminal() {
                        let asks = entry.tending.open();
                        return Ok(cross::extension_of(&self.named(entry, head), Brings::Asks(&asks)));
                    }
                    // What came of it is on its way.
                    let patience = self.tasks.limits().call_idle_timeout;
                    if tokio::time::timeout(patience, moved.changed()).await.is_err() {
                        return Err(self.core.who.silent());
                    }
                }
            }
        }
    }

    /// A task by its name here.
    fn named(&self, entry: &Entry, task: Task) -> Task {
        self.tasks.named(Task { task_id: entry.name.to_string(), ..task })
    }

    /// A result that was too large to be kept.
    async fn fetched(&self, entry: &Entry) -> Result<Result<Bytes, Fault>, Fault> {
        let params = Bytes::from(json!({ "taskId": entry.id }).to_string());
        Ok(self.tasks.about_by(self.lease().await?, Method::TasksResult, params).await)
    }
}

/// Tells a listen how a task stands, whenever something happens to it, until its end.
pub(in crate::relay) async fn follow(
    core: Arc<Core>,
    askable: Askable,
    owner: Owner,
    id: Box<str>,
    ear: impl Ear,
) {
    let Ok(Some(entry)) = core.tasks.ledger.find(&id, &owner) else { return };
    let crossing = Crossing { core: &core, tasks: &core.tasks, askable, owner };
    let mut moved = entry.moved();
    while moved.changed().await.is_ok() {
        let Ok(state) = crossing.state(&entry).await else { return };
        let over = cross::read(&state).is_none_or(|task| task.status.is_terminal());
        ear.change(Change::Task { id: core.names.dressed(&id), state });
        if over {
            return;
        }
    }
}

/// By so many lines a result is asked for in one look.
const LINES: usize = 3;

fn empty() -> Answer {
    Answer::Done(Bytes::from_static(b"{}"))
}
