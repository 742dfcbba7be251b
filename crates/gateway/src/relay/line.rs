//! One session after another with the upstream, and who hears what comes by it outside of replies.

use std::sync::{Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{Answerers, CallError, Connector, Logs, Managed};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::Note;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::member_of;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Ask, CallOptions, Cause, Change, Event, LogLevel, Outcome, Refusal};
use cardan_proto::session::state::{State, StateChange};
use cardan_proto::task::cross;
use cardan_proto::upkeep::condition::Condition;
use cardan_runtime::cx::AskCx;
use cardan_runtime::service::Handler;
use serde_json::{Value, json};

use super::vet::Vetted;
use crate::fleet::Making;
use crate::fleet::lock;

/// Who is concerned by what comes by a line.
pub(super) trait Hears: Send + Sync + 'static {
    /// The upstream asks.
    fn ask(&self, ours: Option<AskCx>, ask: Ask) -> Handler<Result<Bytes, Fault>>;

    /// The upstream logs.
    fn log(&self, level: LogLevel, params: Bytes);

    /// The upstream tells something that belongs to no call and no listen.
    fn note(&self, note: &Note);

    /// The upstream tells that something of its own is another, whoever listens to that.
    fn changed(&self, change: &Change) {
        let _ = change;
    }

    /// The line was lost, or could not be opened.
    fn lost(&self);
}

/// A kept connection to the upstream.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) managed: Managed,
    /// The level that a legacy upstream was asked for.
    level: Mutex<Option<LogLevel>>,
    /// What is known of the tools there, where some are held back.
    pub(super) vetted: Vetted,
}

impl Line {
    /// Begins to connect, as a client with these capabilities.
    pub(super) fn open(making: &Making, capabilities: Value, hears: Weak<dyn Hears>) -> Self {
        let connector = heard(making.connector.clone(), capabilities, hears);
        let managed = Managed::start(connector, making.way.clone(), making.policy);
        Self { managed, level: Mutex::default(), vetted: Vetted::default() }
    }

    /// A connection that someone else keeps.
    pub(super) fn lent(managed: Managed) -> Self {
        Self { managed, level: Mutex::default(), vetted: Vetted::default() }
    }

    /// The era of the session there is, or was last.
    pub(super) fn era(&self) -> Option<Era> {
        self.managed.settled().map(|settled| settled.revision.era())
    }

    /// May there be tasks at the other end?
    pub(super) fn has_tasks(&self) -> bool {
        self.managed.settled().is_some_and(|settled| {
            let capabilities =
                settled.greeting.and_then(|raw| member_of(&raw, "capabilities").ok().flatten());
            capabilities.is_some_and(|raw| cross::offered(settled.revision, &raw).is_some())
        })
    }

    /// Waits for a session, not for ever: `opening` for the first, `again` for one that was lost or whose first attempt
    /// failed. From then on calls wait as long as their callers do.
    pub(super) async fn ready(&self, opening: Duration, again: Duration) -> Result<Era, CallError> {
        let within = match self.era() {
            Some(era) if self.managed.condition().is_up() => return Ok(era),
            Some(_) => again,
            None => opening,
        };
        if let Condition::Suspended { .. } = self.managed.condition() {
            // Nobody else tries again. How often that is worth it is not for callers to say.
            self.managed.want();
        }
        let ready = tokio::select! {
            ready = self.managed.ready(within) => ready,
            // Not ready within no time: that tells why.
            () = self.failed(again) => self.managed.ready(Duration::ZERO).await,
        };
        ready.map(|settled| settled.revision.era())
    }

    /// Waits until an attempt has failed, and then for so long.
    async fn failed(&self, again: Duration) {
        let mut transitions = self.managed.transitions();
        while let Some(transition) = transitions.next().await {
            if matches!(transition.to, Condition::Reconnecting { .. } | Condition::Suspended { .. }) {
                break;
            }
        }
        tokio::time::sleep(again).await;
    }

    /// Log notes of this level and above, from now on: once a legacy server has answered, no note of the call that comes next is
    /// missed. One that refuses logs as it likes, and one that says nothing is waited for once.
    pub(super) async fn take_level(&self, level: LogLevel) {
        if *lock(&self.level) == Some(level) {
            return;
        }
        let params = Bytes::from(json!({ "level": level.name() }).to_string());
        let patience = Some(LEVEL);
        let options = CallOptions { idle: patience, total: patience, ..CallOptions::default() };
        let outcome = self.managed.start(Method::LoggingSetLevel, Some(params), options).outcome().await;
        if matches!(outcome, Outcome::TimedOut { .. } | Outcome::Lost { .. }) {
            // It may take it yet, and sessions to come are told it, too.
            self.managed.set_level(level);
        }
        let heard = matches!(
            outcome,
            Outcome::Done(_)
                | Outcome::Fault(_)
                | Outcome::TimedOut { .. }
                | Outcome::Refused(Refusal::Capability(_) | Refusal::NotInRevision(_))
        );
        *lock(&self.level) = heard.then_some(level);
    }
}

/// How long a call waits until its server has taken the level of its log notes.
const LEVEL: Duration = Duration::from_secs(2);

/// A connector by whose links `hears` is asked and told things, as a client with these capabilities.
pub(super) fn heard(connector: Connector, capabilities: Value, hears: Weak<dyn Hears>) -> Connector {
    let asked = Weak::clone(&hears);
    let answerers = Answerers::relayed(capabilities, move |ours, ask| match asked.upgrade() {
        Some(hears) => hears.ask(ours, ask),
        None => nobody(),
    });
    // Log notes go straight on: whoever wants them is there when they come.
    connector.answer(answerers).logs(Logs::Observed).observe(move |event| {
        let Some(hears) = hears.upgrade() else { return };
        match event {
            Event::Logged { params } => {
                if let Some(level) = level_of(params) {
                    hears.log(level, params.clone());
                }
            }
            Event::Noted(note) => hears.note(note),
            Event::Changed { change, .. } => hears.changed(change),
            Event::State(change) if is_loss(change) => hears.lost(),
            _ => {}
        }
    })
}

/// Whether a session ends for another reason than that we left it. Once for each, when it begins to: what follows takes its
/// time.
fn is_loss(change: &StateChange) -> bool {
    let left = matches!(change.cause, None | Some(Cause::ClosedByUs(_)));
    let ends = matches!(change.to, State::Disconnecting | State::Disconnected);
    !left && ends && change.from != State::Disconnecting
}

/// The answer to an ask that concerns nobody.
pub(super) fn nobody() -> Handler<Result<Bytes, Fault>> {
    let fault = Fault::internal("no call is in progress that this could be asked for");
    Box::pin(std::future::ready(Err(fault)))
}

pub(super) fn level_of(params: &Bytes) -> Option<LogLevel> {
    let raw = member_of(params, "level").ok().flatten()?;
    LogLevel::parse(std::str::from_utf8(&raw).ok()?.trim_matches('"'))
}
