//! A legacy client before a modern server: tasks of the extension, as the core design has them.
//!
//! A call that wants a task declares the extension, no other does: else the server might answer with a task someone who
//! wants none. What is answered at once all the same is a task that has ended, and is kept here.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use cardan_client::Managed;
use cardan_proto::jsonrpc::envelope::{Call, Param};
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::method::Method;
use cardan_proto::model::ResultType;
use cardan_proto::model::task::{CreateTaskResult, ListTasksResult, Task, TaskMetadata, TaskStatus};
use cardan_proto::model::{Cursor, PageParams};
use cardan_proto::session::event::{Answer, Ask, Event, Interest};
use cardan_proto::task::{Design, Life, cross};
use cardan_runtime::cx::CallCx;
use serde_json::{Value, json};

use super::ledger::{Entry, Owner, unknown};
use super::tending::interval;
use super::{Tasks, declaring};
use crate::fleet::lock;
use crate::relay::terms;
use crate::relay::voice::asked;
use crate::relay::wants::Following;

/// A call of a legacy client, and its way to a modern server.
pub(in crate::relay) struct Legacy<'a> {
    pub(in crate::relay) tasks: &'a Arc<Tasks>,
    pub(in crate::relay) owner: Owner,
    pub(in crate::relay) at: Managed,
    /// What the client can do, and the extension.
    pub(in crate::relay) declared: &'a Value,
    pub(in crate::relay) cx: CallCx,
}

/// The task that a call wants; none: it wants none.
pub(in crate::relay) fn wish(call: &Call) -> Result<Option<TaskMetadata>, Fault> {
    let raw = call.params.raw().and_then(|raw| member_of(raw, "task").ok().flatten());
    let wish = raw.map(|raw| serde_json::from_slice(&raw)).transpose();
    wish.map_err(|error| Fault::invalid_params(format!("params.task: {error}")))
}

/// A task of a legacy client, as the client reads it.
pub(in crate::relay) struct Made {
    entry: Arc<Entry>,
    task: Task,
}

impl Made {
    /// A call of this owner that wanted a task was answered so. Needs no line: what exists is known, whatever fails next.
    pub(in crate::relay) fn of(
        tasks: &Tasks,
        owner: &Owner,
        wish: &TaskMetadata,
        result: Bytes,
    ) -> Result<Self, Fault> {
        if ResultType::peek(&result) != ResultType::Task {
            return Self::at_once(tasks, owner, wish, terms::without_seal(result));
        }
        let task = cross::read(&result).ok_or_else(|| tasks.broken())?;
        let entry = tasks.ledger.put(&task.task_id, owner.clone(), task.ttl_ms);
        Ok(Self { entry, task: cross::core_of(&task) })
    }

    /// The result is there already: the task has ended.
    fn at_once(tasks: &Tasks, owner: &Owner, wish: &TaskMetadata, result: Bytes) -> Result<Self, Fault> {
        let ledger = &tasks.ledger;
        let mut random = [0; 16];
        orion::util::secure_rand_bytes(&mut random)
            .map_err(|_| Fault::internal("no name for the task can be made"))?;
        let id = format!("kept-{}", URL_SAFE_NO_PAD.encode(random));
        let now = ledger.now();
        let mut life = Life::begin(Design::Core, ledger.kept_by(wish.ttl), now);
        let result = match ledger.fits(owner, result.len()) {
            true => Ok(result),
            false => Err(Fault::internal("the result is too large to be kept")),
        };
        life.finish(result, now);
        let entry = ledger.keep(&id, owner.clone(), life);
        let task = ledger.view(&entry).ok_or_else(unknown)?;
        Ok(Self { entry, task })
    }

    /// What the call is answered.
    pub(in crate::relay) fn answer(self, tasks: &Tasks) -> Result<Answer, Fault> {
        encode(&CreateTaskResult { task: tasks.named(self.task), meta: None }).map(Answer::Done)
    }
}

impl Legacy<'_> {
    /// Answers a call about tasks.
    pub(in crate::relay) async fn about(&self, call: &Call) -> Result<Answer, Fault> {
        if call.method == Method::TasksList {
            return self.list(call).await.map(Answer::Done);
        }
        let id = self.tasks.own(call)?;
        let entry = self.tasks.ledger.find(&id, &self.owner)?;
        match call.method {
            Method::TasksResult => {
                let result = match entry.as_ref().and_then(|entry| entry.kept.as_ref()) {
                    Some(life) => life.outcome().unwrap_or_else(|| Err(unknown()))?,
                    None => self.finished(&id, entry.as_ref()).await?,
                };
                if let Some(entry) = &entry {
                    entry.spend();
                }
                let name = self.tasks.names.dressed(&id);
                Ok(Answer::Bare(cross::tied(&terms::without_seal(result), &name)))
            }
            Method::TasksCancel => self.cancel(&id, entry).await.map(Answer::Done),
            _ => {
                let task = match entry.as_ref().and_then(|entry| self.tasks.ledger.view(entry)) {
                    Some(kept) => kept,
                    None => self.head(&self.look(&id).await?, entry.as_ref())?,
                };
                encode(&self.tasks.named(task)).map(Answer::Done)
            }
        }
    }

    /// Tells the client how a task stands, where the server tells it. Nobody relies on that.
    pub(in crate::relay) fn follow(&self, Made { entry, task }: &Made) {
        if entry.kept.is_none() && !task.status.is_terminal() {
            self.tell(entry);
        }
    }

    fn tell(&self, entry: &Arc<Entry>) {
        let (at, peer, names) = (self.at.clone(), self.cx.peer(), self.tasks.names.clone());
        let (known, id) = (Arc::downgrade(entry), entry.id.clone());
        entry.follow(Following(tokio::spawn(async move {
            let mut notes = at.notes();
            let mut listen = at.listen(Interest { tasks: vec![id.clone()], ..Interest::default() });
            loop {
                let event = tokio::select! {
                    event = notes.next() => event,
                    change = listen.next() => match change {
                        Some(_) => continue,
                        None => return,
                    },
                };
                let (Some(event), Some(entry)) = (event, known.upgrade()) else { return };
                let Event::Noted(note) = event else { continue };
                let about = note.params.text(Param::TaskId);
                if note.method != Method::Tasks || about.as_deref() != Some(&*id) {
                    continue;
                }
                let Some(task) = note.params.raw().and_then(cross::read) else { continue };
                entry.touch();
                let over = task.status.is_terminal();
                if !entry.is_cancelled() {
                    let told = Task { task_id: names.dressed(&id).into(), ..cross::core_of(&task) };
                    peer.note(Method::TasksStatus, encode(&told).ok());
                }
                if over {
                    return;
                }
            }
        })));
    }

    fn params(&self, id: &str) -> Bytes {
        declaring(Some(Bytes::from(json!({ "taskId": id }).to_string())), self.declared)
    }

    /// The whole state, as the server writes it.
    async fn look(&self, id: &str) -> Result<Bytes, Fault> {
        self.tasks.about(&self.at, Method::TasksGet, self.params(id)).await
    }

    /// Where it stands, as the client reads it.
    fn head(&self, state: &Bytes, entry: Option<&Arc<Entry>>) -> Result<Task, Fault> {
        let task = cross::read(state).ok_or_else(|| self.tasks.broken())?;
        let mut task = cross::core_of(&task);
        // TSKD-16: cancelled is cancelled.
        if entry.is_some_and(|entry| entry.is_cancelled()) {
            task.status = TaskStatus::Cancelled;
        }
        Ok(task)
    }

    /// Waits for the end of a task, and asks the client what it asks.
    pub(in crate::relay) async fn finished(
        &self,
        id: &str,
        entry: Option<&Arc<Entry>>,
    ) -> Result<Bytes, Fault> {
        let mut moved = entry.map(|entry| entry.moved());
        let mut asked = std::collections::HashSet::new();
        loop {
            let state = self.look(id).await?;
            let task = cross::read(&state).ok_or_else(|| self.tasks.broken())?;
            if task.status == TaskStatus::Cancelled || entry.is_some_and(|entry| entry.is_cancelled()) {
                return Err(Fault::invalid_params("the task was cancelled; it has no result"));
            }
            if let Some(outcome) = cross::outcome_of(&task) {
                return outcome;
            }
            let mut claims: Vec<_> = cross::asks_in(&state, self.tasks.limits().asks_per_round);
            // Of those who wait, one asks.
            claims.retain(|(name, _)| match entry {
                Some(entry) => entry.claim(name),
                None => asked.insert(name.clone()),
            });
            if !claims.is_empty() {
                self.answer(id, entry, claims).await?;
                continue;
            }
            let pause = tokio::time::sleep(interval(&task, self.tasks.limits()));
            match &mut moved {
                Some(moved) => tokio::select! {
                    () = pause => {}
                    _ = moved.changed() => {}
                },
                None => pause.await,
            }
        }
    }

    /// Asks the client, and hands in its answers. Without an answer there is no going on.
    async fn answer(
        &self,
        id: &str,
        entry: Option<&Arc<Entry>>,
        asks: Vec<(Box<str>, Ask)>,
    ) -> Result<(), Fault> {
        let mut claimed = Claimed { entry, names: asks.iter().map(|(name, _)| name.clone()).collect() };
        let mut responses = Bytes::from_static(b"{}");
        for (name, mut ask) in asks {
            let params = ask.params.take().unwrap_or_else(|| Bytes::from_static(b"{}"));
            ask.params = Some(cross::tied(&params, id));
            match asked(ask, &self.tasks.names, |ask| self.cx.ask(ask)).await {
                Ok(answer) => {
                    responses = splice(&responses, &[Edit::Set(&name, &answer)]).unwrap_or(responses)
                }
                Err(fault) => {
                    self.tasks.about(&self.at, Method::TasksCancel, self.params(id)).await?;
                    return Err(fault);
                }
            }
        }
        let params = splice(&self.params(id), &[Edit::Set(Param::InputResponses.name(), &responses)]);
        let params = params.map_err(|_| Fault::internal("an answer of the client is no JSON"))?;
        self.tasks.about(&self.at, Method::TasksUpdate, params).await?;
        claimed.names.clear();
        Ok(())
    }

    /// TSKD-16: one that has ended cannot be cancelled; any other is, before this is answered.
    async fn cancel(&self, id: &str, entry: Option<Arc<Entry>>) -> Result<Bytes, Fault> {
        let ended = || Err(Fault::invalid_params("params.taskId: the task has ended already"));
        if entry.as_ref().is_some_and(|entry| entry.kept.is_some()) {
            return ended();
        }
        let before = self.head(&self.look(id).await?, entry.as_ref())?;
        if before.status.is_terminal() {
            return ended();
        }
        self.tasks.about(&self.at, Method::TasksCancel, self.params(id)).await?;
        // The server may still end it otherwise. In this design it must not.
        let entry = entry.unwrap_or_else(|| self.tasks.ledger.put(id, self.owner.clone(), before.ttl));
        entry.cancel();
        let after = self.look(id).await.ok().and_then(|state| self.head(&state, Some(&entry)).ok());
        encode(&self.tasks.named(after.unwrap_or(Task { status: TaskStatus::Cancelled, ..before })))
    }

    /// What this client made, page by page.
    async fn list(&self, call: &Call) -> Result<Bytes, Fault> {
        let wrong = || Fault::invalid_params("params.cursor: not one of ours; start from the first page");
        let params: PageParams = match call.params.raw() {
            Some(_) => call.params.decode().map_err(|_| wrong())?,
            None => PageParams::default(),
        };
        let after = match &params.cursor {
            None => 0,
            Some(cursor) => place_of(cursor).ok_or_else(wrong)?,
        };
        let (page, next) = self.tasks.ledger.page(&self.owner, after, PAGE);
        let mut tasks = Vec::with_capacity(page.len());
        for (_, entry) in page {
            // One of another session, by a name that means another one here.
            if !matches!(self.tasks.ledger.find(&entry.id, &self.owner), Ok(Some(known)) if Arc::ptr_eq(&known, &entry))
            {
                continue;
            }
            let task = match self.tasks.ledger.view(&entry) {
                Some(kept) => kept,
                None => match self.look(&entry.id).await {
                    Ok(state) => self.head(&state, Some(&entry))?,
                    Err(fault) if fault.code == code::INVALID_PARAMS => {
                        // Another session may have a server of its own, where it is still there.
                        if entry.is_of(&self.owner) {
                            self.tasks.ledger.forget(&entry);
                        }
                        continue;
                    }
                    Err(fault) => return Err(fault),
                },
            };
            tasks.push(self.tasks.named(task));
        }
        let next_cursor = next.map(|place| Cursor(URL_SAFE_NO_PAD.encode(place.to_string())));
        encode(&ListTasksResult { tasks, next_cursor, meta: None })
    }
}

/// Tasks on one page. Each is looked at.
const PAGE: usize = 20;

/// Asks that someone is asked, until they are answered.
struct Claimed<'a> {
    entry: Option<&'a Arc<Entry>>,
    names: Vec<Box<str>>,
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            if let Some(entry) = self.entry {
                entry.unclaim(name);
            }
        }
    }
}

fn place_of(cursor: &Cursor) -> Option<u64> {
    let digits = URL_SAFE_NO_PAD.decode(cursor.0.as_str()).ok()?;
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

fn encode(value: &impl serde::Serialize) -> Result<Bytes, Fault> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|error| Fault::internal(format!("a task cannot be written: {error}")))
}

/// A task that someone waits for who knows nothing of it. Who gives up the call gives it up.
struct Unseen<'a> {
    legacy: &'a Legacy<'a>,
    id: Box<str>,
    ended: bool,
}

impl Legacy<'_> {
    /// The answer to a call that wants no task, and was answered so where there could be one.
    pub(in crate::relay) async fn waited(&self, result: Bytes) -> Result<Answer, Fault> {
        if ResultType::peek(&result) != ResultType::Task {
            return Ok(Answer::Bare(terms::without_seal(result)));
        }
        let task = cross::read(&result).ok_or_else(|| self.tasks.broken())?;
        let mut unseen = Unseen { legacy: self, id: task.task_id.as_str().into(), ended: false };
        let result = self.finished(&unseen.id, None).await;
        unseen.ended = true;
        result.map(|result| Answer::Bare(terms::without_seal(result)))
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        if self.ended || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let Legacy { tasks, at, .. } = self.legacy;
        let (tasks, at, params) = (Arc::clone(tasks), at.clone(), self.legacy.params(&self.id));
        let about = Arc::downgrade(&tasks);
        let mut errands = lock(&tasks.errands);
        while errands.try_join_next().is_some() {}
        errands.spawn(async move {
            if let Some(tasks) = about.upgrade() {
                // Whatever comes of it, nobody is there to be told.
                let _ = tasks.about(&at, Method::TasksCancel, params).await;
            }
        });
    }
}
