//! What callers can ask about tasks: look, fetch, list, cancel, answer.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use cardan_proto::era::caps::ClientCaps;
use cardan_proto::era::{gates, gates::Tasks};
use cardan_proto::jsonrpc::envelope::{Call, Param};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::method::Method;
use cardan_proto::model::task::{self, ListTasksResult, UpdateTaskParams};
use cardan_proto::model::{Cursor, PageParams};
use cardan_proto::session::event::{Answer, Answers, Asks, Called};
use cardan_proto::task::{Design, Detail, Place, Principal};
use cardan_runtime::service::Handler;
use tokio::sync::Notify;

use super::desk::Asked;
use super::related;
use crate::router::{bad_cursor, decode, encode};
use crate::server::Server;

/// One caller's view of the tasks.
pub(crate) struct Counter<'a> {
    pub(crate) server: &'a Server,
    pub(crate) principal: &'a Principal,
}

impl Counter<'_> {
    /// Answers a call about tasks.
    pub(crate) fn serve(&self, called: Called) -> Result<Handler<Answer>, Fault> {
        let design = match gates(called.revision).tasks {
            Tasks::Extension => Design::Extension,
            Tasks::Core | Tasks::Absent => Design::Core,
        };
        // Before any look at the id: who did not declare the extension learns nothing from it.
        if design == Design::Extension && !ClientCaps::read(&called.capabilities).tasks {
            return Err(Fault::missing_capability(&task::required()));
        }
        let done = match called.call.method {
            Method::TasksList => self.list(&called.call),
            Method::TasksResult => return self.result(called),
            Method::TasksGet => self.get(&named(&called.call)?, design),
            Method::TasksUpdate => self.update(&called.call),
            _ => self.cancel(&named(&called.call)?, design),
        };
        done.map(|result| -> Handler<Answer> { Box::pin(std::future::ready(Answer::Done(result))) })
    }

    fn get(&self, id: &str, design: Design) -> Result<Bytes, Fault> {
        let detail = match design {
            Design::Core => Detail::Head,
            Design::Extension => Detail::Whole,
        };
        let task = self.server.desk().with(|store, _| {
            store.get(id, self.principal, design)?;
            store.show(id, detail)
        });
        encode(&task.ok_or_else(unknown)?)
    }

    fn cancel(&self, id: &str, design: Design) -> Result<Bytes, Fault> {
        let desk = self.server.desk();
        desk.with(|store, _| store.get(id, self.principal, design).map(drop)).ok_or_else(unknown)?;
        let stopped = desk.cancel(id, self.server);
        match design {
            // Acknowledged, whatever came first: the next look tells.
            Design::Extension => Ok(Bytes::from_static(b"{}")),
            Design::Core if stopped => self.get(id, design),
            Design::Core => Err(Fault::invalid_params("params.taskId: the task has ended already")),
        }
    }

    fn list(&self, call: &Call) -> Result<Bytes, Fault> {
        // TSKD-20: without a principal, everyone's tasks would be in the list.
        if self.principal.is_none() {
            return Err(Fault::method_not_found(call.method.name()));
        }
        let params: PageParams = decode(call)?;
        let size = self.server.page_size();
        let (tasks, next) = self.server.desk().with(|store, _| {
            let after = match &params.cursor {
                None => None,
                Some(cursor) => {
                    let place = place_of(cursor).filter(|place| store.is_place(*place));
                    Some(place.ok_or_else(bad_cursor)?)
                }
            };
            Ok::<_, Fault>(store.page(self.principal, Design::Core, after, size))
        })?;
        let next_cursor = next.map(|place| Cursor(URL_SAFE_NO_PAD.encode(place.0.to_string())));
        encode(&ListTasksResult { tasks, next_cursor, meta: None })
    }

    fn update(&self, call: &Call) -> Result<Bytes, Fault> {
        let params: UpdateTaskParams = decode(call)?;
        let id = params.task_id.as_str();
        if params.input_responses.0.len() > self.server.limits().asks_per_round {
            return Err(Fault::invalid_params("params.inputResponses: too many entries"));
        }
        if let Some((name, _)) = params.input_responses.0.iter().find(|(_, answer)| !answer.is_object()) {
            return Err(Fault::invalid_params(format!("params.inputResponses/{name}: not an object")));
        }
        let answers = params.input_responses.0.into_iter();
        let answers = answers.map(|(name, raw)| (name.into(), Ok(Bytes::from(raw.as_str().to_owned()))));
        self.answer(id, Design::Extension, answers.collect())?;
        Ok(Bytes::from_static(b"{}"))
    }

    fn answer(&self, id: &str, design: Design, answers: Answers) -> Result<(), Fault> {
        self.server.desk().change(id, self.server, |store, now| {
            let held = store.get(id, self.principal, design).ok_or_else(unknown)?;
            if let Some(all) = held.life.answer(answers, now) {
                held.with.answers = Some(all);
            }
            Ok(())
        })
    }

    /// Waits for the end. What the task asks meanwhile is asked by this call.
    fn result(&self, called: Called) -> Result<Handler<Answer>, Fault> {
        let id = named(&called.call)?;
        // A caller that comes anew may do so because the one before was lost on the way.
        let mut asked = if called.answers.is_none() { Asked::No } else { Asked::Yes };
        match called.answers {
            Some(answers) => self.answer(&id, Design::Core, answers)?,
            None => self.server.desk().with(|store, _| {
                store.get(&id, self.principal, Design::Core).map(drop).ok_or_else(unknown)
            })?,
        }
        let server = self.server.clone();
        Ok(Box::pin(async move {
            loop {
                let Some(moved) = watch(&server, &id) else { return Answer::Fault(unknown()) };
                let moved = moved.notified();
                tokio::pin!(moved);
                // From here on nothing is missed.
                moved.as_mut().enable();
                if let Some(answer) = look(&server, &id, asked) {
                    return answer;
                }
                asked = Asked::Yes;
                moved.await;
            }
        }))
    }
}

fn watch(server: &Server, id: &str) -> Option<Arc<Notify>> {
    server.desk().with(|store, _| store.own(id).map(|held| Arc::clone(&held.with.moved)))
}

/// What a caller who waits is told now; nothing: wait on.
fn look(server: &Server, id: &str, asked: Asked) -> Option<Answer> {
    server.desk().with(|store, _| {
        let Some(held) = store.own(id) else { return Some(Answer::Fault(unknown())) };
        if held.life.is_over() {
            return Some(match held.life.outcome() {
                Some(Ok(result)) => Answer::Done(tied(&result, id)),
                Some(Err(fault)) => Answer::Fault(fault),
                None => Answer::Fault(Fault::invalid_params("the task was cancelled; it has no result")),
            });
        }
        // Of those who wait, one asks.
        let open = held.life.open_asks();
        if open.is_empty() || (asked == Asked::Yes && held.with.asked == Asked::Yes) {
            return None;
        }
        let mut entries = open.to_vec();
        for (_, ask) in &mut entries {
            ask.params = Some(tied(ask.params.as_deref().unwrap_or(b"{}"), id));
        }
        held.with.asked = Asked::Yes;
        Some(Answer::Ask(Asks { entries, state: None }))
    })
}

/// `object` with the task it belongs to in its `_meta`.
pub(super) fn tied(object: &[u8], id: &str) -> Bytes {
    let object = Bytes::copy_from_slice(object);
    let meta = member_of(&object, Param::Meta.name()).ok().flatten();
    let meta = meta.unwrap_or_else(|| Bytes::from_static(b"{}"));
    let (key, value) = related(id);
    let meta = splice(&meta, &[Edit::Set(key, value.to_string().as_bytes())]).unwrap_or(meta);
    splice(&object, &[Edit::Set(Param::Meta.name(), &meta)]).unwrap_or(object)
}

fn named(call: &Call) -> Result<String, Fault> {
    let id = call.params.text(Param::TaskId).map(|id| id.into_owned());
    id.ok_or_else(|| Fault::invalid_params("params.taskId: the task's name, a string"))
}

fn unknown() -> Fault {
    Fault::invalid_params("params.taskId: there is no such task, or it has expired")
}

fn place_of(cursor: &Cursor) -> Option<Place> {
    let digits = URL_SAFE_NO_PAD.decode(cursor.0.as_str()).ok()?;
    std::str::from_utf8(&digits).ok()?.parse().ok().map(Place)
}
