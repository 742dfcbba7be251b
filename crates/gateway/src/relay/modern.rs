//! The calls of modern clients: each stands alone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{Listen, Watcher};
use cardan_proto::era::Era;
use cardan_proto::era::caps::ClientCaps;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::method::Method;
use cardan_proto::session::event::{Answer, Called, Change, Event, Interest, Rounds};
use cardan_runtime::cx::CallCx;
use tokio::task::JoinSet;

use super::askable::Askable;
use super::held::Held;
use super::names::Names;
use super::park::Bound;
use super::pool::{HEARING, Need};
use super::running::{Plan, Running, Words};
use super::tasks::{self, Owner};
use super::{Behind, Core, detour};

/// Answers one call of a modern client.
pub(super) async fn call(
    core: Arc<Core>,
    principal: Option<Arc<str>>,
    cx: CallCx,
    mut called: Called,
    held: Held,
) -> Answer {
    if let Err(fault) = detour::admit(&core, principal.as_ref(), &mut called) {
        return Answer::Fault(fault);
    }
    let answered = match called.call.method {
        Method::SubscriptionsListen => match Interest::asked_by(&called.call.params) {
            Ok(interest) => {
                let askable = askable(&core, &called.capabilities);
                listen(&core, principal.as_ref(), askable, interest, cx).await
            }
            Err(fault) => Err(fault),
        },
        _ if goes_on(&core, &called) => go_on(&core, principal, &cx, called).await,
        // Where there are no tasks, nothing more is looked at.
        _ if core.design().is_none() => pass_on(&core, principal, &cx, called, held).await,
        _ => with_tasks(&core, principal, &cx, called, held).await,
    };
    answered.unwrap_or_else(Answer::Fault)
}

async fn pass_on(
    core: &Core,
    principal: Option<Arc<str>>,
    cx: &CallCx,
    called: Called,
    held: Held,
) -> Result<Answer, Fault> {
    let askable = askable(core, &called.capabilities);
    let plan = Plan {
        asks: core.era() == Era::Legacy && called.call.method.may_ask() && askable != Askable::NOTHING,
        // Whether it was announced or not: some upstreams log without a word about it.
        logs: called.log_level,
        askable,
        // Where both are modern the client answers itself, and the upstream keeps what it wants back with it.
        rounds: Rounds::Callers,
        words: Words::Clients,
        session: 0,
    };
    Running::begin(core, plan, principal, cx, called, held).await
}

/// The same where the upstream has tasks, in the one design or the other.
async fn with_tasks(
    core: &Arc<Core>,
    principal: Option<Arc<str>>,
    cx: &CallCx,
    called: Called,
    mut held: Held,
) -> Result<Answer, Fault> {
    let owner = Owner::of(principal.as_ref());
    let about = called.call.method.is_about_task();
    if core.era() == Era::Modern {
        if about {
            core.tasks.admit(&called.call, &owner)?;
        }
        return pass_on(core, principal, cx, called, held).await;
    }
    if !about && called.call.method != Method::ToolsCall {
        return pass_on(core, principal, cx, called, held).await;
    }
    let askable = askable(core, &called.capabilities);
    if let Some(answered) = tasks::modern_call(core, askable, owner.clone(), cx, &called, &mut held).await {
        return answered;
    }
    let again = Held::default().unless(&held.bar);
    match pass_on(core, principal, cx, called.clone(), held).await? {
        // Perhaps the tool runs as a task only, and has not always done so: a call that is refused so was not executed.
        Answer::Fault(fault) if fault.code == code::METHOD_NOT_FOUND => {
            tasks::modern_refused(core, askable, owner, cx, &called, again, fault).await
        }
        answer => Ok(answer),
    }
}

/// Is it the retry of a call that was parked? Answers without a state belong to nothing that waits here: nobody asked for them, so
/// the call is a new one.
pub(super) fn goes_on(core: &Core, called: &Called) -> bool {
    let parks = core.era() == Era::Legacy;
    let retried = parks && called.answers.is_some() && called.call.params.get(Param::RequestState).is_some();
    retried && !detour::is_back(core, called)
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
    let bound = Bound::of(&called.call, principal.as_ref())?;
    let mut running = core.park.take(&state, &bound).await?;
    running.resume(cx, called.answers.take());
    running.run(core, principal, &called).await
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
    core: &Arc<Core>,
    principal: Option<&Arc<str>>,
    askable: Askable,
    mut interest: Interest,
    ear: impl Ear,
) -> Result<Answer, Fault> {
    let (pool, owner) = (core.pool(principal), Owner::of(principal));
    core.names.strip(&mut interest.tasks);
    // Of what others made nobody hears.
    interest.tasks.retain(|task| core.tasks.ledger.find(task, &owner).is_ok());
    let (mut ears, mut acknowledged) = (JoinSet::new(), false);
    let mut here = match core.era() {
        Era::Legacy => followed_here(core, &owner, askable, &mut interest, &mut ears, &ear),
        Era::Modern => Vec::new(),
    };
    if interest == Interest::default() && !here.is_empty() {
        ear.listening(Interest { tasks: here, ..Interest::default() });
        while ears.join_next().await.is_some() {}
        // What has ended does not change, but a listen ends with its client.
        return std::future::pending().await;
    }
    // First of all, so that what it stands on stays.
    let mut followed = pool.follow(askable);
    // A listen has no words of its own: it leaves none behind, and is in nobody's way.
    let own = match pool.loaned(askable) {
        Some(shared) => shared,
        None => {
            let mut lease = pool.take(askable, Need::Any).await?;
            lease.landed();
            Arc::clone(&lease.shared)
        }
    };
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
            stands.tasks.append(&mut here);
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

/// A legacy upstream has no listens for tasks: those of an interest are followed here, and named as they are here.
fn followed_here(
    core: &Arc<Core>,
    owner: &Owner,
    askable: Askable,
    interest: &mut Interest,
    ears: &mut JoinSet<()>,
    ear: &impl Ear,
) -> Vec<Box<str>> {
    let mut here = std::mem::take(&mut interest.tasks);
    here.retain(|task| matches!(core.tasks.ledger.find(task, owner), Ok(Some(_))));
    for task in &here {
        let (core, owner, task) = (Arc::clone(core), owner.clone(), task.clone());
        ears.spawn(tasks::modern_follow(core, askable, owner, task, ear.clone()));
    }
    core.names.dress(&mut here);
    here
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
