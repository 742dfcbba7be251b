//! The life of one task: where it stands, what it waits for, what came of it.
//!
//! ```text
//!              ask                 finish          ┌───────────┐
//!            ┌─────▶ input_required               ▶│ completed │
//!  begin ──▶ working ◀──────┘ │ all answered       │ failed    │  and never again anything else
//!               │             │                    │ cancelled │
//!               └─────────────┴───────────────────▶└───────────┘
//! ```
//!
//! Nothing here runs: whoever runs the work tells what happened and when.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::era::Revision;
use crate::jsonrpc::fault::Fault;
use crate::jsonrpc::splice::member_of;
use crate::model::ask::{InputRequest, InputRequests};
use crate::model::date::date_time;
use crate::model::raw::{Raw, RawObject};
use crate::model::task::{Lifetime, Task, TaskError, TaskStatus};
use crate::moment::Moment;
use crate::session::event::{Answers, Ask};

/// Which of the two designs a task follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// The experiment in the core of 2025-11-25: the caller wants a task.
    Core,
    /// The extension of the modern era: the server makes one.
    Extension,
}

/// How much of a task is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Where it stands.
    Head,
    /// That, and what belongs to the state: asks, result or error.
    Whole,
}

/// What cannot be asked: a mistake of the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misasked {
    /// Nothing is asked.
    Nothing,
    /// A name was used before in this task.
    NameUsed,
    /// An ask is of no kind that a client knows.
    Unreadable,
    /// The task does not run.
    NotWorking,
}

impl Misasked {
    /// What the caller reads.
    #[must_use]
    pub fn fault(self) -> Fault {
        Fault::internal(match self {
            Self::Nothing => "the task asked for nothing",
            Self::NameUsed => "the task used the name of an ask twice",
            Self::Unreadable => "the task asked for something that no client knows",
            Self::NotWorking => "the task has ended",
        })
    }
}

/// One task, without its name.
#[derive(Debug)]
pub struct Life {
    design: Design,
    created: Moment,
    updated: Moment,
    ttl: Duration,
    message: Option<String>,
    state: State,
    /// Names of all asks so far.
    used: BTreeSet<Box<str>>,
}

#[derive(Debug)]
enum State {
    Working,
    InputRequired { open: Vec<(Box<str>, Ask)>, answers: Answers },
    Completed(Bytes),
    Failed(Result<Bytes, Fault>),
    Cancelled,
}

impl Life {
    /// A task that works.
    #[must_use]
    pub fn begin(design: Design, ttl: Duration, now: Moment) -> Self {
        let (state, used) = (State::Working, BTreeSet::new());
        Self { design, created: now, updated: now, ttl, message: None, state, used }
    }

    /// Its design.
    #[must_use]
    pub fn design(&self) -> Design {
        self.design
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        match self.state {
            State::Working => TaskStatus::Working,
            State::InputRequired { .. } => TaskStatus::InputRequired,
            State::Completed(_) => TaskStatus::Completed,
            State::Failed(_) => TaskStatus::Failed,
            State::Cancelled => TaskStatus::Cancelled,
        }
    }

    /// Will it never change again?
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.status().is_terminal()
    }

    /// When it may be forgotten.
    #[must_use]
    pub fn expires(&self) -> Moment {
        self.created + self.ttl
    }

    /// What came of it: a result or a fault. Nothing yet, or nothing ever: it was cancelled.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<Bytes, Fault>> {
        match &self.state {
            State::Completed(result) => Some(Ok(result.clone())),
            State::Failed(outcome) => Some(outcome.clone()),
            State::Working | State::InputRequired { .. } | State::Cancelled => None,
        }
    }

    /// Bytes that are kept for whoever fetches the result.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        match &self.state {
            State::Completed(result) | State::Failed(Ok(result)) => result.len(),
            _ => 0,
        }
    }

    /// Asks without an answer.
    #[must_use]
    pub fn open_asks(&self) -> &[(Box<str>, Ask)] {
        match &self.state {
            State::InputRequired { open, .. } => open,
            _ => &[],
        }
    }

    /// The work says how it goes.
    pub fn say(&mut self, message: &str, now: Moment) {
        if !self.is_over() {
            self.message = Some(message.to_owned());
            self.updated = now;
        }
    }

    /// The work needs input.
    pub fn ask(&mut self, asks: Vec<(Box<str>, Ask)>, now: Moment) -> Result<(), Misasked> {
        if !matches!(self.state, State::Working) {
            return Err(Misasked::NotWorking);
        }
        if asks.is_empty() {
            return Err(Misasked::Nothing);
        }
        if asks.iter().any(|(_, ask)| read(ask).is_none()) {
            return Err(Misasked::Unreadable);
        }
        // TSKE-10: never twice, not even in one round.
        if !asks.iter().all(|(name, _)| self.used.insert(name.clone())) {
            return Err(Misasked::NameUsed);
        }
        self.state = State::InputRequired { open: asks, answers: Answers::new() };
        self.updated = now;
        Ok(())
    }

    /// Input came. Answers to nothing that is open are ignored. When nothing is open any more, the task
    /// works again, and the answers are handed out.
    pub fn answer(&mut self, given: Answers, now: Moment) -> Option<Answers> {
        let State::InputRequired { open, answers } = &mut self.state else { return None };
        for (name, answer) in given {
            if let Some(at) = open.iter().position(|(asked, _)| *asked == name) {
                open.remove(at);
                answers.push((name, answer));
                self.updated = now;
            }
        }
        if !open.is_empty() {
            return None;
        }
        let answers = std::mem::take(answers);
        self.state = State::Working;
        Some(answers)
    }

    /// The work has ended. False: the task had ended before.
    pub fn finish(&mut self, outcome: Result<Bytes, Fault>, now: Moment) -> bool {
        if self.is_over() {
            return false;
        }
        self.updated = now;
        self.state = match outcome {
            // TSKD-22, TSKE-9: only the older design counts a tool's failure as the task's.
            Ok(result) if self.design == Design::Core && is_error(&result) => {
                self.message = Some(first_text(&result));
                State::Failed(Ok(result))
            }
            Ok(result) => State::Completed(result),
            Err(fault) => {
                self.message = Some(fault.message.to_string());
                State::Failed(Err(fault))
            }
        };
        true
    }

    /// Someone stops it. False: it had ended before.
    pub fn cancel(&mut self, why: &str, now: Moment) -> bool {
        if self.is_over() {
            return false;
        }
        (self.state, self.message, self.updated) = (State::Cancelled, Some(why.to_owned()), now);
        true
    }

    /// The task as its design writes it. `epoch_ms` is the wall clock at the start of monotonic time.
    #[must_use]
    pub fn view(&self, id: &str, detail: Detail, poll: Duration, epoch_ms: u64) -> Task {
        let wall = |moment: Moment| date_time(epoch_ms.saturating_add(millis(moment.elapsed())));
        let (ttl, poll) = (Some(Lifetime::Millis(millis(self.ttl))), Some(millis(poll)));
        let mut task = Task {
            result_type: None,
            task_id: id.to_owned(),
            status: self.status(),
            status_message: self.message.clone(),
            created_at: wall(self.created),
            last_updated_at: wall(self.updated),
            ttl: ttl.filter(|_| self.design == Design::Core),
            ttl_ms: ttl.filter(|_| self.design == Design::Extension),
            poll_interval: poll.filter(|_| self.design == Design::Core),
            poll_interval_ms: poll.filter(|_| self.design == Design::Extension),
            input_requests: None,
            result: None,
            error: None,
            meta: None,
        };
        if detail == Detail::Whole {
            self.add_detail(&mut task);
        }
        task
    }

    fn add_detail(&self, task: &mut Task) {
        match &self.state {
            State::Working | State::Cancelled => {}
            State::InputRequired { open, .. } => {
                let asks = open.iter().filter_map(|(name, ask)| Some((name.to_string(), read(ask)?)));
                task.input_requests = Some(InputRequests(asks.collect()));
            }
            State::Completed(result) | State::Failed(Ok(result)) => {
                let raw = std::str::from_utf8(result).ok().and_then(|text| Raw::parse(text).ok());
                task.result = raw.and_then(|raw| RawObject::try_from(raw).ok());
            }
            State::Failed(Err(fault)) => {
                let data = fault.data.as_deref().and_then(|data| std::str::from_utf8(data).ok());
                task.error = Some(TaskError {
                    code: fault.code,
                    message: fault.message.to_string(),
                    data: data.and_then(|data| Raw::parse(data).ok()),
                });
            }
        }
    }
}

/// The ask as a task shows it; nothing: no client could read it.
fn read(ask: &Ask) -> Option<InputRequest> {
    let mut value = serde_json::json!({ "method": ask.method.name() });
    if let Some(params) = Revision::LATEST_MODERN.dress_ask(ask) {
        value["params"] = serde_json::from_slice(&params).ok()?;
    }
    serde_json::from_value(value).ok()
}

pub(super) fn is_error(result: &Bytes) -> bool {
    member_of(result, "isError").ok().flatten().is_some_and(|flag| &flag[..] == b"true")
}

/// What a failed tool says first, for people.
pub(super) fn first_text(result: &[u8]) -> String {
    let value: Value = serde_json::from_slice(result).unwrap_or_default();
    let text = value["content"][0]["text"].as_str().unwrap_or("the tool failed");
    crate::finding::excerpt(text.as_bytes(), 256).to_string()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
