//! The relays behind which servers stand, one for each server that is called.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::CallError;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::limits::fleet::ANSWER;
use cardan_proto::session::event::Delivery;
use cardan_proto::upkeep::condition::Condition;
use cardan_runtime::service::Host as _;
use cardan_runtime::unfinished::Unfinished;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::kin::Kin;
use super::replaced::Replaced;
use crate::fleet::{Fleet, Health, Unavailable, Upstream, Visit, lock};
use crate::pin::Pins;
use crate::relay::{Ledger, Lend, Options, Relay, Vet};

/// The relays, by server.
pub(crate) struct Relays {
    fleet: Fleet,
    options: Options,
    lend: Lend,
    called: Called,
    slots: Mutex<HashMap<Box<str>, Slot>>,
    /// By server: who made which task there, whatever becomes of its connection.
    ledgers: Mutex<HashMap<Box<str>, Arc<Ledger>>>,
    replaced: Arc<Replaced>,
    /// Is told what becomes of what is offered in sessions that are shared; none: whoever calls lists for itself.
    kin: Option<Arc<Kin>>,
    /// Judge tools before they are called; none: nobody does.
    pins: Option<Arc<Pins>>,
    /// Those that are being ended.
    ending: Mutex<JoinSet<()>>,
}

struct Slot {
    upstream: Arc<Upstream>,
    /// Which of its connections is the relay's first line.
    number: u64,
    relay: Relay,
}

/// What servers are called in what is told of them, and before the names of their tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Called {
    /// By their names: there are several.
    ByName,
    /// Nothing: who speaks with one knows of no other.
    Nothing,
}

/// A server that is reached.
pub(crate) struct Reached {
    pub(crate) relay: Relay,
    /// While it is held the server is not stopped.
    pub(crate) visit: Visit,
}

/// A server that was lost may be back in a moment, so a call waits so long for it.
pub(super) const GRACE: Duration = Duration::from_secs(5);

impl Relays {
    pub(crate) fn new(
        fleet: Fleet,
        options: Options,
        (lend, called): (Lend, Called),
        (kin, pins): (Option<Arc<Kin>>, Option<Arc<Pins>>),
    ) -> Self {
        Self {
            fleet,
            options,
            lend,
            called,
            kin,
            pins,
            slots: Mutex::default(),
            ledgers: Mutex::default(),
            replaced: Arc::default(),
            ending: Mutex::default(),
        }
    }

    /// Reaches a server: starts it if it sleeps, waits until calls flow. What is wrong with it is told in time.
    pub(crate) async fn reach(&self, upstream: &Arc<Upstream>) -> Result<Reached, Fault> {
        let until = Instant::now() + self.options.opening;
        let visit = match timeout_at(until, upstream.visit()).await {
            Ok(visit) => visit.map_err(|why| unavailable(upstream, &why))?,
            Err(_) => return Err(unreachable(upstream, None)),
        };
        self.flowing(upstream, &visit, until).await?;
        let Ok((making, behind)) = upstream.making() else {
            return Err(unreachable(upstream, None));
        };
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(upstream.name())
            && Arc::ptr_eq(&slot.upstream, upstream)
            && slot.number == visit.number
        {
            return Ok(Reached { relay: slot.relay.clone(), visit });
        }
        // It was met, or calls would not flow.
        let Some(settled) = visit.managed.settled() else { return Err(unreachable(upstream, None)) };
        let name = match self.called {
            Called::ByName => Some(upstream.name().into()),
            Called::Nothing => None,
        };
        let secrets = upstream.secrets().clone();
        let (call_timeout, isolation) = (upstream.call_timeout(), upstream.isolation());
        let grace = Some(GRACE);
        let options =
            Options { behind, name, secrets, call_timeout, grace, isolation, ..self.options.clone() };
        let made = || Ledger::new(&self.options.limits);
        let ledger = Arc::clone(lock(&self.ledgers).entry(upstream.name().into()).or_insert_with(made));
        let lent = (self.lend, upstream.loan());
        let on_turn = self.kin.as_ref().map(|kin| kin.listening_to(upstream));
        let patience = options.limits.call_idle_timeout;
        let vet = self.pins.as_ref().map(|pins| Vet::new(Arc::clone(pins), Arc::clone(upstream), patience));
        let relay = Relay::beside(&visit.managed, lent, &settled, making, (options, ledger), (on_turn, vet));
        let slot = Slot { upstream: Arc::clone(upstream), number: visit.number, relay: relay.clone() };
        let old = slots.insert(upstream.name().into(), slot);
        drop(slots);
        self.end(old, "it was connected anew");
        Ok(Reached { relay, visit })
    }

    /// Waits until calls flow. The first attempt has all the time there is, and decides; a server that was lost is
    /// waited for a moment, whatever is tried meanwhile.
    async fn flowing(&self, upstream: &Arc<Upstream>, visit: &Visit, until: Instant) -> Result<(), Fault> {
        let mut news = self.fleet.news();
        let grace = Instant::now() + GRACE;
        loop {
            let was_there = visit.managed.settled().is_some();
            match visit.managed.condition() {
                up if up.is_up() => return Ok(()),
                Condition::Reconnecting { .. } | Condition::Suspended { .. } if !was_there => break,
                // Nothing is tried any more.
                Condition::Suspended { until: None } => break,
                _ => {}
            }
            let until = if was_there { until.min(grace) } else { until };
            if timeout_at(until, news.changed()).await.is_err() {
                break;
            }
        }
        match visit.managed.ready(Duration::ZERO).await {
            Ok(_) => Ok(()),
            Err(error) => Err(unreachable(upstream, Some(&error))),
        }
    }

    /// Calls that wait for their client's answers.
    pub(super) fn parked(&self) -> usize {
        let now: usize = lock(&self.slots).values().map(|slot| slot.relay.census().1).sum();
        now + self.replaced.parked()
    }

    /// Counts those, and the lines that are kept for retries.
    pub(super) fn unfinished(&self) -> Unfinished {
        self.options.unfinished.clone()
    }

    /// Ends the relays of servers that are there no more, or sleep.
    pub(crate) fn sweep(&self) {
        let there = self.fleet.upstreams();
        let gone: Vec<_> = lock(&self.slots)
            .extract_if(|_, slot| {
                !there.iter().any(|one| Arc::ptr_eq(one, &slot.upstream)) || sleeps(&slot.upstream)
            })
            .map(|(_, slot)| slot)
            .collect();
        lock(&self.ledgers).retain(|name, _| there.iter().any(|one| one.name() == &**name));
        for slot in gone {
            self.end(Some(slot), "nobody needs it any more");
        }
    }

    fn end(&self, slot: Option<Slot>, reason: &'static str) {
        let Some(slot) = slot else { return };
        let kept = self.successor(&slot).map(|next| self.replaced.keep(next.name(), &slot.relay));
        let mut ending = lock(&self.ending);
        while ending.try_join_next().is_some() {}
        ending.spawn(async move {
            if let Some(kept) = kept {
                kept.await;
            }
            slot.relay.end(reason).await;
        });
    }

    /// Who came in place of a server. Where that is nobody who can be called, no retry comes either.
    fn successor(&self, slot: &Slot) -> Option<Arc<Upstream>> {
        let next = self.fleet.upstream(slot.upstream.name())?;
        (!Arc::ptr_eq(&next, &slot.upstream) && next.making().is_ok()).then_some(next)
    }

    /// Relays of servers that were started again: that of this one, too, if it was just now.
    pub(super) fn replaced(&self, server: &str) -> &Replaced {
        let mut slots = lock(&self.slots);
        let old = match slots.get(server) {
            Some(slot) if self.successor(slot).is_some() => slots.remove(server),
            _ => None,
        };
        drop(slots);
        self.end(old, "it was connected anew");
        &self.replaced
    }

    /// Takes no new calls: who is served may finish what runs.
    pub(crate) fn dismiss(&self, reason: &'static str) {
        for slot in lock(&self.slots).values() {
            slot.relay.close(reason);
        }
    }

    /// Ends all, and waits for it.
    pub(crate) async fn close(&self, reason: &'static str) {
        self.replaced.close();
        let all = std::mem::take(&mut *lock(&self.slots));
        for slot in all.into_values() {
            self.end(Some(slot), reason);
        }
        let mut ending = std::mem::take(&mut *lock(&self.ending));
        while ending.join_next().await.is_some() {}
    }
}

/// Was it stopped because nobody used it?
pub(super) fn sleeps(upstream: &Upstream) -> bool {
    upstream.status().health == Health::Asleep
}

/// A server that cannot be used at all.
pub(super) fn unavailable(upstream: &Upstream, why: &Unavailable) -> Fault {
    let name = upstream.name();
    let next = match why {
        Unavailable::Misconfigured(_) => {
            format!("mend it; `cardan config explain {name}` shows where it is configured")
        }
        Unavailable::Gone => "list again to see what there is".to_owned(),
        Unavailable::Crowded { .. } | Unavailable::Slow { .. } => {
            "nothing was sent, so call again in a while; `concurrency` says how many it takes".to_owned()
        }
    };
    let (code, outcome) = match why {
        Unavailable::Misconfigured(_) | Unavailable::Gone => (code::INTERNAL, "lost"),
        Unavailable::Crowded { .. } | Unavailable::Slow { .. } => (code::BUSY, "refused"),
    };
    let fault = Fault::new(code, format!("server `{name}` {why}; {next}"));
    unsent(upstream, fault, outcome, &why.to_string())
}

/// A server that does not answer now.
fn unreachable(upstream: &Upstream, error: Option<&CallError>) -> Fault {
    let (name, status) = (upstream.name(), upstream.status());
    // The fleet has taken secrets out of the cause that it keeps.
    let why = match (&status.cause, error) {
        (Some(cause), _) => upstream.hidden(cause).to_string(),
        (None, Some(error)) => upstream.hidden(&error.to_string()).to_string(),
        (None, None) => "it did not start in time".to_owned(),
    };
    let next = match status.health {
        Health::Kept(Condition::Suspended { until: None }) => "mend it; a later call starts it again",
        _ => "try again in a while; `cardan servers` shows how it stands",
    };
    let message = format!("server `{name}` cannot be reached: {why} (it is {}); {next}", status.health);
    unsent(upstream, Fault::internal(message), "lost", &why)
}

/// A server that was asked beside others, and did not answer for as long as that is waited for.
pub(super) fn silent(upstream: &Upstream) -> Fault {
    let (name, seconds) = (upstream.name(), ANSWER.as_secs());
    let message = format!(
        "server `{name}` did not answer within {seconds} seconds, so it was passed over; ask it alone to wait for longer"
    );
    Fault::internal(message).with_data(&json!({
        "server": name,
        "state": upstream.status().health.to_string(),
        "outcome": "timed_out",
        "delivery": Delivery::Unknown.name(),
        "mayHaveExecuted": true,
    }))
}

fn unsent(upstream: &Upstream, fault: Fault, outcome: &str, cause: &str) -> Fault {
    fault.with_data(&json!({
        "server": upstream.name(),
        "state": upstream.status().health.to_string(),
        "cause": cause,
        "outcome": outcome,
        "delivery": "not_sent",
        "mayHaveExecuted": false,
    }))
}
