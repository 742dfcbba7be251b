//! The calls of modern clients: each stands alone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{Listen, Watcher};
use cardan_proto::era::Era;
use cardan_proto::era::caps::ClientCaps;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Answer, Called, Change, Event, Interest, Rounds};
use cardan_runtime::cx::CallCx;
use tokio::task::JoinSet;

use super::askable::Askable;
use super::names::Names;
use super::park::Bound;
use super::pool::{HEARING, Need, Pool};
use super::running::{Held, Plan, Running};
use super::{Behind, Core};

/// Answers one call of a modern client.
pub(super) async fn call(
    core: Arc<Core>,
    principal: Option<Arc<str>>,
    cx: CallCx,
    called: Called,
    held: Held,
) -> Answer {
    let answered = match called.call.method {
        Method::SubscriptionsListen => match Interest::asked_by(&called.call.params) {
            Ok(interest) => {
                let askable = askable(&core, &called.capabilities);
                listen(&core, &core.pool(principal.as_ref()), askable, interest, cx).await
            }
            Err(fault) => Err(fault),
        },
        _ if core.era() == Era::Legacy && is_retry(&called) => go_on(&core, principal, &cx, called).await,
        _ => {
            let askable = askable(&core, &called.capabilities);
            let plan = Plan {
                asks: core.era() == Era::Legacy
                    && called.call.method.may_ask()
                    && askable != Askable::NOTHING,
                // Whether it was announced or not: some upstreams log without a word about it.
                logs: called.log_level,
                askable,
                // Where both are modern the client answers itself, and the upstream keeps what it wants back with it.
                rounds: Rounds::Callers,
            };
            Running::begin(&core, plan, principal, &cx, called, held).await
        }
    };
    answered.unwrap_or_else(Answer::Fault)
}

/// Answers without a state belong to nothing that waits here: nobody asked for them, so the call is a new one.
fn is_retry(called: &Called) -> bool {
    called.answers.is_some() && called.call.params.get(Param::RequestState).is_some()
}

/// A retry: the call has been running all the while.
async fn go_on(
    core: &Core,
    principal: Option<Arc<str>>,
    cx: &CallCx,
    mut called: Called,
) -> Result<Answer, Fault> {
    let Some(state) = called.call.params.text(Param::RequestState) else {
        let why = "params.requestState: not a string; send it back as it came";
        return Err(Fault::invalid_params(why));
    };
    let bound = Bound::of(&called.call, principal.clone())?;
    let running = core.park.take(&state, &bound).await?;
    running.resume(cx, called.answers.take());
    running.run(core, principal, cx, &called).await
}

/// Who is told what a listen brings.
pub(crate) trait Ear: Clone + Send + 'static {
    /// It stands, for this.
    fn listening(&self, interest: Interest);

    /// Something changed.
    fn change(&self, change: Change);
}

impl Ear for CallCx {
    fn listening(&self, interest: Interest) {
        Self::listening(self, interest);
    }

    fn change(&self, change: Change) {
        Self::change(self, change);
    }
}

/// A listen lives as long as its client and the upstream want. Where lines may lead to servers of their own, it
/// follows all that its client's calls may take; a change that several tell is told as often.
pub(super) async fn listen(
    core: &Core,
    pool: &Arc<Pool>,
    askable: Askable,
    mut interest: Interest,
    ear: impl Ear,
) -> Result<Answer, Fault> {
    core.names.strip(&mut interest.tasks);
    let mut lease = pool.take(askable, Need::Any).await?;
    // A listen has no words of its own: it leaves none behind, and is in nobody's way.
    lease.landed();
    let own = Arc::clone(&lease.shared);
    drop(lease);
    let mut followed = pool.follow(askable);
    let (mut ears, mut acknowledged) = (JoinSet::new(), false);
    loop {
        let (mut standing, mut failed, mut waiting) = (None, None, Vec::new());
        for shared in followed.news() {
            let first = Arc::ptr_eq(&shared, &own);
            // Sessions of a legacy upstream may each have a state of their own, wherever they lead.
            if !first && core.era() == Era::Modern && core.options.behind == Behind::One {
                shared.caught_up(followed.number);
                continue;
            }
            let mut notes = shared.line.managed.notes();
            // What was told before concerns nobody.
            while notes.try_next().is_some() {}
            let mut listen = shared.line.managed.listen(interest.clone());
            // One line has to stand; no other holds up the client for long.
            let known = acknowledged || standing.is_some() || failed.is_some();
            let wait = if known { HEARING } else { Duration::MAX };
            let stands = tokio::time::timeout(wait, listen.ready()).await;
            shared.caught_up(followed.number);
            match stands {
                Ok(Ok(stands)) => standing = standing.or(Some(stands)),
                // Another line may stand.
                Ok(Err(error)) => {
                    failed.get_or_insert(error);
                    continue;
                }
                Err(_) => {}
            }
            waiting.push((listen, notes));
        }
        // Not before it stands on every line there is: what the client calls next may go by any of them.
        if let (false, Some(mut stands)) = (acknowledged, standing) {
            core.names.dress(&mut stands.tasks);
            ear.listening(stands);
            acknowledged = true;
        }
        if let (false, Some(error)) = (acknowledged, failed) {
            return Err(core.who.unreachable(&error));
        }
        // Nothing is told before what stands is.
        for (listen, notes) in waiting {
            ears.spawn(hear(listen, notes, interest.tasks.clone(), core.names.clone(), ear.clone()));
        }
        tokio::select! {
            _ = ears.join_next() => {
                if ears.is_empty() {
                    return Ok(Answer::Done(Bytes::from_static(b"{}")));
                }
            }
            () = followed.changed() => {}
        }
    }
}

/// Passes on what a listen brings. How tasks stand comes beside it, as notes.
async fn hear(
    mut listen: Listen,
    mut notes: Watcher<Event>,
    tasks: Vec<Box<str>>,
    names: Names,
    ear: impl Ear,
) {
    loop {
        tokio::select! {
            change = listen.next() => match change {
                Some(change) => ear.change(change),
                None => return,
            },
            Some(event) = notes.next(), if !tasks.is_empty() => {
                if let Event::Noted(note) = event
                    && note.method == Method::Tasks
                    && let Some(id) = note.params.text(Param::TaskId)
                    && tasks.iter().any(|task| **task == *id)
                    && let Some(state) = note.params.raw()
                {
                    let state = names.noted(&note.method, state.clone());
                    ear.change(Change::Task { id: names.dressed(&id), state });
                }
            }
        }
    }
}

/// What the upstream may ask in the legacy way. A modern one asks by its results; but who follows tasks must have
/// declared them, and finds them where they were made.
pub(super) fn askable(core: &Core, capabilities: &Bytes) -> Askable {
    match core.era() {
        Era::Modern if core.config().server_caps().tasks && ClientCaps::read(capabilities).tasks => {
            Askable::TASKS
        }
        Era::Modern => Askable::NOTHING,
        Era::Legacy => Askable::of(capabilities),
    }
}
