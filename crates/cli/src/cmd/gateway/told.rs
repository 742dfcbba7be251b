//! What a gateway tells on stderr while it serves: how servers stand, what became of the configuration, names that two
//! servers want, and what a server lists badly. It is also where a wish to read the configuration again is heard.

use std::sync::{Arc, Mutex, PoisonError};

use cardan_gateway::fleet::{Event, Fleet, What};
use cardan_gateway::front::Front;
use cardan_gateway::merge::Collision;
use cardan_gateway::reload::{Following, Turn};
use cardan_proto::upkeep::condition::Condition;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cmd::servers::live::{line, turn_line};
use crate::cmd::servers::row::Row;
use crate::hangup::{Hangup, Hangups};
use crate::interrupt::Interrupts;
use crate::log::{Level, Log};

/// Tells what happens, until it is stopped.
pub(super) struct Told {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    front: Front,
    flaws: Arc<Mutex<Vec<Flaw>>>,
    log: Log,
}

/// What is wrong with what is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Flaw {
    event: &'static str,
    server: Option<String>,
    line: String,
}

impl Told {
    pub(super) fn start(
        front: Front,
        mut events: broadcast::Receiver<Event>,
        mut following: Following,
        (mut hangups, interrupts): (Hangups, Interrupts),
        log: Log,
    ) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let flaws = Arc::default();
        let (seen, told) = (front.clone(), Arc::clone(&flaws));
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    event = events.recv() => match event {
                        Ok(event) => happened(&seen, &event, &told, log),
                        // What was missed is past.
                        Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => break,
                    },
                    Some(turn) = following.next() => turned(&turn, log),
                    hangup = hangups.next() => match hangup {
                        Hangup::Reload => following.retry_now(),
                        Hangup::Gone => interrupts.count(),
                    },
                    _ = &mut stopped => break,
                }
            }
            following.stop().await;
        });
        Self { stop, task, front, flaws, log }
    }

    /// Tells what is wrong with what is offered, each thing once.
    pub(super) fn flaws(&self) {
        flaws(&self.front, &self.flaws, self.log);
    }

    /// Stops telling, and following the configuration.
    pub(super) async fn stop(self) {
        drop(self.stop);
        // It was told to end; how it did does not matter.
        let _ = self.task.await;
    }
}

pub(in crate::cmd) fn turned(turn: &Turn, log: Log) {
    let level = match turn {
        Turn::Taken(_) => Level::Info,
        Turn::Refused(_) => Level::Warn,
    };
    log.say(level, "reload", None, &turn_line(turn));
}

fn happened(front: &Front, event: &Event, told: &Mutex<Vec<Flaw>>, log: Log) {
    told_of(front.fleet(), event, log);
    if matches!(event.what, What::Changed(_) | What::Added | What::Removed) {
        flaws(front, told, log);
    }
}

/// Tells what happened to a server.
pub(in crate::cmd) fn told_of(fleet: &Fleet, event: &Event, log: Log) {
    let row = fleet.upstream(&event.server).map(|upstream| Row::of(&upstream));
    // Ways to a state are many; what counts is whether it works, and why not.
    let level = match &event.what {
        What::Condition(transition) => match transition.to {
            Condition::Reconnecting { .. } | Condition::Suspended { .. } => Level::Warn,
            to if to.is_up() && !transition.from.is_up() => Level::Info,
            _ => Level::Debug,
        },
        What::Changed(_) => Level::Debug,
        What::Unlisted(_) => Level::Warn,
        _ => Level::Info,
    };
    log.say(level, "upstream", Some(&event.server), &line(event, row.as_ref()));
}

fn flaws(front: &Front, told: &Mutex<Vec<Flaw>>, log: Log) {
    let collisions = Collision::told(&front.collisions()).into_iter();
    let collisions = collisions.map(|line| Flaw { event: "collision", server: None, line });
    let upstreams = front.fleet().upstreams();
    let badly = upstreams.iter().filter_map(|upstream| {
        let (server, badly) = (upstream.name().to_owned(), Row::of(upstream).listed_badly()?);
        Some(Flaw { event: "misshapen", line: format!("{server}: {badly}"), server: Some(server) })
    });
    let now: Vec<Flaw> = collisions.chain(badly).collect();
    let before = {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *told, now.clone())
    };
    for Flaw { event, server, line } in now.iter().filter(|flaw| !before.contains(flaw)) {
        log.warn_of(event, server.as_deref(), line);
    }
}
