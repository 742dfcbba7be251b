//! The desk: owns the work of all tasks of a server, and knows where each stands.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::task::Task;
use cardan_proto::moment::Moment;
use cardan_proto::session::event::{Answers, Change};
use cardan_proto::task::{Design, Detail, Held, Principal, Store};
use cardan_runtime::peer::Peer;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Duration, Instant};

use super::work::{First, Job, run};
use crate::cx::unguessable;
use crate::server::Server;

/// Everything about tasks that outlives a call.
pub(crate) struct Desk {
    store: Mutex<Store<Work>>,
    /// The owner of all work: what is dropped here is stopped.
    workers: Mutex<JoinSet<()>>,
    start: Instant,
}

/// What the store keeps beside a task.
pub(crate) struct Work {
    worker: Option<AbortHandle>,
    /// Wakes whoever waits for the task to move.
    pub(crate) moved: Arc<Notify>,
    /// Answers that the work has not taken yet.
    pub(crate) answers: Option<Answers>,
    /// Has someone been sent to ask?
    pub(crate) asked: Asked,
    /// The link of the call that made it.
    peer: Peer,
}

/// Whether the open asks of a task are on their way to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    No,
    Yes,
}

impl Work {
    fn stop(&self) {
        if let Some(worker) = &self.worker {
            worker.abort();
        }
        self.moved.notify_waiters();
    }
}

impl Desk {
    pub(crate) fn new(limits: &Limits) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        let store = Mutex::new(Store::new(limits, epoch_ms));
        Self { store, workers: Mutex::new(JoinSet::new()), start: Instant::now() }
    }

    /// A new task, at work before anyone hears of it.
    pub(crate) fn open(
        &self,
        job: Job,
        design: Design,
        ttl: Option<Duration>,
        first: First,
    ) -> Result<Task, Fault> {
        let id = unguessable().map_err(|_| Fault::internal("no name for the task can be made"))?;
        let peer = job.cx.peer();
        let work = Work { worker: None, moved: Arc::default(), answers: None, asked: Asked::No, peer };
        let owner = job.cx.principal_owned();
        let (task, expires) = self.with(|store, now| {
            let expires = store.create(&id, owner, design, ttl, work, now).map_err(|full| full.fault())?;
            let expires = expires.life.expires();
            let task = store.show(&id, Detail::Head).ok_or_else(|| Fault::internal("the task is gone"))?;
            Ok::<_, Fault>((task, expires))
        })?;
        job.cx.become_task(&id);
        let until = self.start + expires.elapsed();
        let worker = {
            let mut workers = lock(&self.workers);
            while workers.try_join_next().is_some() {}
            workers.spawn(run(job, id.clone().into(), first, until))
        };
        self.with(|store, _| {
            if let Some(held) = store.own(&id) {
                held.with.worker = Some(worker);
            }
        });
        Ok(task)
    }

    /// The store, without what has expired.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Store<Work>, Moment) -> R) -> R {
        let now = Moment::after(self.start.elapsed());
        let mut store = lock(&self.store);
        for gone in store.expire(now) {
            gone.with.stop();
        }
        act(&mut store, now)
    }

    /// Something may happen to a task: whoever waits for it is woken, whoever listens is told.
    pub(crate) fn change<R>(
        &self,
        id: &str,
        server: &Server,
        act: impl FnOnce(&mut Store<Work>, Moment) -> R,
    ) -> R {
        let (done, tell) = self.with(|store, now| {
            let before = store.own(id).map(|held| held.life.status());
            let done = act(store, now);
            let tell =
                store.own(id).filter(|held| before.as_ref() != Some(&held.life.status())).map(|held| {
                    held.with.moved.notify_waiters();
                    (held.life.design(), held.owner.clone(), held.with.peer.clone())
                });
            let tell = tell.and_then(|(design, owner, peer)| {
                let detail = match design {
                    Design::Core => Detail::Head,
                    Design::Extension => Detail::Whole,
                };
                Some((design, owner, peer, store.show(id, detail)?))
            });
            (done, tell)
        });
        if let Some((design, owner, peer, task)) = tell {
            tell_of(design, &owner, &peer, &task, server);
        }
        done
    }

    /// Stops a task. False: it had ended before.
    pub(crate) fn cancel(&self, id: &str, server: &Server) -> bool {
        self.change(id, server, |store, now| {
            store.own(id).is_some_and(|held| stop(held, "cancelled by the caller", now))
        })
    }

    /// Stops all work. The tasks can still be looked at.
    pub(crate) fn close(&self) {
        self.with(|store, now| {
            for held in store.iter_mut() {
                stop(held, "the server is closing", now);
            }
        });
        lock(&self.workers).abort_all();
    }

    /// Waits until stopped work is gone.
    pub(crate) async fn closed(&self) {
        let mut workers = std::mem::take(&mut *lock(&self.workers));
        workers.shutdown().await;
    }
}

fn stop(held: &mut Held<Work>, why: &str, now: Moment) -> bool {
    let stopped = held.life.cancel(why, now);
    if stopped {
        held.with.stop();
    }
    stopped
}

/// In the older design the link that made the task hears of it; in the newer one, who listens.
fn tell_of(design: Design, owner: &Principal, peer: &Peer, task: &Task, server: &Server) {
    let Ok(state) = serde_json::to_vec(task).map(Bytes::from) else { return };
    match design {
        Design::Core => peer.note(Method::TasksStatus, Some(state)),
        Design::Extension => {
            server.tell(owner, &Change::Task { id: task.task_id.as_str().into(), state });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
