//! The calls of modern clients: each stands alone.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use cardan_client::{Call, Listen, Watcher};
use cardan_proto::era::Era;
use cardan_proto::era::caps::ClientCaps;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::model::{Raw, task};
use cardan_proto::session::event::{Answer, Ask, Asks, Called, Change, Event, Interest, LogLevel, Rounds};
use cardan_runtime::cx::CallCx;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::line::level_of;
use super::names::{Names, Tasks};
use super::park::Bound;
use super::pool::{Lease, Need};
use super::terms;
use super::voice::Asking;
use super::{Behind, Core};

/// A call in progress upstream.
pub(super) struct Running {
    call: Call<Raw>,
    method: Method,
    /// What a legacy upstream may ask for it; none: nothing.
    asking: Option<Arc<Asking>>,
    /// What comes by a line that it holds alone and that someone else keeps.
    overheard: Option<Watcher<Event>>,
    upstream: Era,
    /// None: it has ended, and needs no line any more.
    lease: Option<Lease>,
    /// May its result name a task?
    tasks: Tasks,
    /// What the call occupies elsewhere, for as long as it runs.
    held: Held,
}

/// Something that is occupied while a call runs.
pub(crate) type Held = Option<Box<dyn Any + Send>>;

/// What happened to a call.
enum Step {
    Progress(Option<cardan_proto::session::event::Progress>),
    Asked(Vec<(Box<str>, Ask)>),
    Overheard(Option<(LogLevel, Bytes)>),
    /// Nothing more can be overheard.
    Deaf,
}

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
            Ok(interest) => listen(&core, &called.capabilities, interest, cx).await,
            Err(fault) => Err(fault),
        },
        _ if core.era() == Era::Legacy && called.answers.is_some() => {
            go_on(&core, principal, &cx, called).await
        }
        _ => begin(&core, principal, &cx, called, held).await,
    };
    answered.unwrap_or_else(Answer::Fault)
}

async fn begin(
    core: &Core,
    principal: Option<Arc<str>>,
    cx: &CallCx,
    called: Called,
    held: Held,
) -> Result<Answer, Fault> {
    let askable = askable(core, &called.capabilities);
    let asks = core.era() == Era::Legacy && called.call.method.may_ask() && askable != json!({});
    let logs = called.log_level.filter(|_| core.config().server_caps().logging);
    let need = if asks || logs.is_some() { Need::Alone } else { Need::Any };
    let lease = core.pool.take(&askable, need).await?;
    let line = &lease.shared.line;
    let ready = line.ready(core.options.limits.call_idle_timeout).await;
    let upstream = ready.map_err(|error| core.who.unreachable(&error))?;
    lease.shared.heard().await;
    let asking = (need == Need::Alone).then(|| Asking::new(cx.clone(), core.park.ttl()));
    if let Some(asking) = &asking {
        lease.voice(Arc::clone(asking));
    }
    if let (Some(level), Era::Legacy) = (logs, upstream) {
        line.set_level(level);
    }
    let params = core.names.inward(&called.call, terms::params(&called, upstream));
    let method = called.call.method.clone();
    // Where both are modern the client answers itself, and the upstream keeps what it wants back with it.
    let options = terms::options(called.progress, Rounds::Callers, core.options.call_timeout);
    // Before the call, so that none of its words is missed.
    let overheard = if need == Need::Alone { lease.shared.overheard() } else { None };
    let call = line.managed.start(method.clone(), params, options);
    let running = Running {
        overheard,
        call,
        method,
        asking: asking.filter(|_| asks),
        upstream,
        lease: Some(lease),
        tasks: Names::concern(&called),
        held,
    };
    running.run(core, principal, cx, &called).await
}

/// A retry: the call has been running all the while.
async fn go_on(
    core: &Core,
    principal: Option<Arc<str>>,
    cx: &CallCx,
    mut called: Called,
) -> Result<Answer, Fault> {
    let Some(state) = called.call.params.text(Param::RequestState) else {
        let why = "params.requestState: missing; send it back with the answers, as it came";
        return Err(Fault::invalid_params(why));
    };
    let bound = Bound::of(&called.call, principal.clone())?;
    let running = core.park.take(&state, &bound).await?;
    if let Some(asking) = &running.asking {
        asking.resume(cx.clone(), called.answers.take());
    }
    running.run(core, principal, cx, &called).await
}

impl Running {
    async fn run(
        mut self,
        core: &Core,
        principal: Option<Arc<str>>,
        cx: &CallCx,
        called: &Called,
    ) -> Result<Answer, Fault> {
        loop {
            match self.step().await {
                Step::Progress(Some(at)) => cx.progress(at.progress, at.total, at.message.as_deref()),
                Step::Overheard(log) => pass_on(cx, log),
                Step::Deaf => self.overheard = None,
                Step::Progress(None) => {
                    let outcome = self.call.outcome().await;
                    // What was told before the reply is told before it.
                    while let Some(event) = self.overheard.as_mut().and_then(Watcher::try_next) {
                        pass_on(cx, log_of(&event));
                    }
                    self.release();
                    let outcome = core.names.outward(self.tasks, &self.method, outcome);
                    let (method, upstream) = (&self.method, self.upstream);
                    return Ok(terms::answer(outcome, method, Era::Modern, upstream, &core.who));
                }
                Step::Asked(entries) => {
                    let bound = Bound::of(&called.call, principal)?;
                    let state = Some(core.park.put(self, bound)?);
                    return Ok(Answer::Ask(Asks { entries, state }));
                }
            }
        }
    }

    /// Waits for its end, whatever becomes known before.
    pub(super) async fn ended(&mut self) {
        self.call.outcome().await;
    }

    /// It has ended: whatever it occupies is free for others.
    pub(super) fn release(&mut self) {
        if let Some(mut lease) = self.lease.take() {
            lease.landed();
        }
        self.held = None;
    }

    async fn step(&mut self) -> Step {
        match (&self.asking, &mut self.overheard) {
            (None, None) => Step::Progress(self.call.progress().await),
            (Some(asking), _) => tokio::select! {
                biased;
                progress = self.call.progress() => Step::Progress(progress),
                entries = asking.next() => Step::Asked(entries),
            },
            (None, Some(overheard)) => tokio::select! {
                biased;
                event = overheard.next() => event.map_or(Step::Deaf, |event| Step::Overheard(log_of(&event))),
                progress = self.call.progress() => Step::Progress(progress),
            },
        }
    }
}

/// Log notes are the only thing that concerns a call and comes outside of it, where nobody can be asked.
fn log_of(event: &Event) -> Option<(LogLevel, Bytes)> {
    match event {
        Event::Logged { params } => Some((level_of(params)?, params.clone())),
        _ => None,
    }
}

fn pass_on(cx: &CallCx, log: Option<(LogLevel, Bytes)>) {
    if let Some((level, params)) = log {
        cx.log(level, params);
    }
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
    capabilities: &Bytes,
    mut interest: Interest,
    ear: impl Ear,
) -> Result<Answer, Fault> {
    core.names.strip(&mut interest.tasks);
    let askable = askable(core, capabilities);
    let mut lease = core.pool.take(&askable, Need::Any).await?;
    // A listen has no words of its own: it leaves none behind, and is in nobody's way.
    lease.landed();
    let own = Arc::clone(&lease.shared);
    drop(lease);
    let mut followed = core.pool.follow(&askable);
    let (mut ears, mut acknowledged) = (JoinSet::new(), false);
    loop {
        for shared in followed.news() {
            let first = Arc::ptr_eq(&shared, &own);
            // Sessions of a legacy upstream may each have a state of their own, wherever they lead.
            if !first && core.era() == Era::Modern && core.options.behind == Behind::One {
                shared.caught_up();
                continue;
            }
            let mut notes = shared.line.managed.notes();
            // What was told before concerns nobody.
            while notes.try_next().is_some() {}
            let mut listen = shared.line.managed.listen(interest.clone());
            let stands = listen.ready().await;
            shared.caught_up();
            match stands {
                Ok(mut stands) if !acknowledged => {
                    core.names.dress(&mut stands.tasks);
                    ear.listening(stands);
                    acknowledged = true;
                }
                Ok(_) => {}
                Err(error) if !acknowledged => return Err(core.who.unreachable(&error)),
                Err(_) => continue,
            }
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
fn askable(core: &Core, capabilities: &Bytes) -> Value {
    match core.era() {
        Era::Modern if core.config().server_caps().tasks && ClientCaps::read(capabilities).tasks => {
            task::required()
        }
        Era::Modern => json!({}),
        Era::Legacy => terms::askable(capabilities),
    }
}
