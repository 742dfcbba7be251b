//! The work behind a task: the handler, run again after each round of asks, and stopped in time.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::model::ResultType;
use cardan_proto::model::task::CreateTaskResult;
use cardan_proto::session::event::{Answer, Answers, Asks};
use cardan_proto::task::Design;
use cardan_runtime::service::Handler;
use serde::Serialize;
use tokio::time::{Duration, Instant};

use super::desk::Asked;
use super::way::Support;
use crate::cx::Cx;
use crate::tools::RunTool;

/// Where a call that may become a task learns that it has.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    task: OnceLock<Box<str>>,
}

impl Seat {
    /// The task's name, once it is one.
    pub(crate) fn task(&self) -> Option<&str> {
        self.task.get().map(|id| &**id)
    }

    pub(crate) fn take(&self, id: &str) {
        // A call becomes a task once: a second name would be a mistake here, and the first one counts.
        let _ = self.task.set(id.into());
    }
}

/// What has to be done, as often as it takes.
pub(crate) struct Job {
    pub(crate) tool: Arc<dyn RunTool>,
    pub(crate) arguments: Option<Bytes>,
    pub(crate) cx: Cx,
}

/// Where the work begins.
pub(crate) enum First {
    /// At the start.
    Fresh,
    /// It has begun already.
    Running(Handler<Answer>),
}

impl Job {
    /// Older design: the caller wants a task, so there is one at once.
    pub(crate) fn into_core_task(self, ttl: Option<Duration>) -> Result<Answer, Fault> {
        let server = self.cx.server().clone();
        let task = server.desk().open(self, Design::Core, ttl, First::Fresh)?;
        written(&CreateTaskResult { task, meta: None })
    }

    /// Newer design: the first step is taken in place. What ends there needs no task, unless the tool
    /// wants one; what asks there is asked before the task begins; the rest becomes a task.
    pub(crate) async fn into_extension_task(self, support: Support) -> Answer {
        let mut running = self.tool.run(self.arguments.clone(), self.cx.clone());
        let first = poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await;
        let running: Handler<Answer> = match first {
            Poll::Ready(asks @ Answer::Ask(_)) => return asks,
            Poll::Ready(answer) if support != Support::Required => return answer,
            Poll::Ready(answer) => Box::pin(std::future::ready(answer)),
            Poll::Pending => running,
        };
        let server = self.cx.server().clone();
        let opened = server.desk().open(self, Design::Extension, None, First::Running(running));
        let answered = opened.and_then(|mut task| {
            task.result_type = Some(ResultType::Task);
            written(&task)
        });
        answered.unwrap_or_else(Answer::Fault)
    }
}

fn written(result: &impl Serialize) -> Result<Answer, Fault> {
    let raw = serde_json::to_vec(result).map_err(|_| Fault::internal("the task cannot be written"))?;
    Ok(Answer::Done(Bytes::from(raw)))
}

/// Works until the end, or until nobody wants the result any more.
pub(crate) async fn run(job: Job, id: Box<str>, first: First, until: Instant) {
    let server = job.cx.server().clone();
    if tokio::time::timeout_at(until, work(job, &id, first)).await.is_err() {
        // Looking is enough: what has expired is taken out and whoever waits for it is told.
        server.desk().with(|_, _| ());
    }
}

async fn work(mut job: Job, id: &str, first: First) {
    let server = job.cx.server().clone();
    let mut running = match first {
        First::Fresh => job.start(),
        First::Running(running) => running,
    };
    loop {
        let outcome = match guarded(&mut running).await {
            Answer::Done(result) | Answer::Bare(result) | Answer::Sealed(result) => Ok(result),
            Answer::Fault(fault) => Err(fault),
            Answer::Ask(asks) => match job.ask(asks, id).await {
                Ok(answers) => {
                    job.cx = job.cx.answered(answers);
                    running = job.start();
                    continue;
                }
                Err(fault) => Err(fault),
            },
        };
        server.desk().change(id, &server, |store, now| store.finish(id, outcome, now));
        return;
    }
}

impl Job {
    /// The handler from its start. Whatever it does, a panic included, happens when it is polled.
    fn start(&self) -> Handler<Answer> {
        let (tool, arguments, cx) = (Arc::clone(&self.tool), self.arguments.clone(), self.cx.clone());
        Box::pin(async move { tool.run(arguments, cx).await })
    }

    /// Puts asks before the caller and waits for the answers.
    async fn ask(&self, asks: Asks, id: &str) -> Result<Answers, Fault> {
        self.cx.may_ask(&asks)?;
        let server = self.cx.server();
        server
            .desk()
            .change(id, server, |store, now| match store.own(id) {
                None => Ok(()),
                Some(held) => {
                    held.with.asked = Asked::No;
                    held.life.ask(asks.entries, now)
                }
            })
            .map_err(|mistake| mistake.fault())?;
        loop {
            let gone = || Fault::internal("the task is gone");
            let moved = server.desk().with(|store, _| store.own(id).map(|held| Arc::clone(&held.with.moved)));
            let moved = moved.ok_or_else(gone)?;
            let moved = moved.notified();
            tokio::pin!(moved);
            // From here on nothing is missed.
            moved.as_mut().enable();
            let answers = server.desk().with(|store, _| store.own(id).map(|held| held.with.answers.take()));
            if let Some(answers) = answers.ok_or_else(gone)? {
                return Ok(answers);
            }
            moved.await;
        }
    }
}

/// A panic fails the task, and nothing else.
async fn guarded(running: &mut Handler<Answer>) -> Answer {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
        Ok(polled) => polled,
        // What it said went to the panic hook: it may hold what the caller must not read.
        Err(_) => Poll::Ready(Answer::Fault(Fault::internal("the handler panicked"))),
    })
    .await
}
