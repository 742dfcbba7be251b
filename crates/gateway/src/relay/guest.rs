//! A legacy client, and the session with the upstream that is its own.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use cardan_client::{Listen, Managed};
use cardan_proto::era::Era;
use cardan_proto::era::caps::{ListCap, ServerCaps};
use cardan_proto::jsonrpc::envelope::{Note, Param};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::session::event::{
    Answer, Ask, CallOptions, Called, Change, Interest, LogLevel, Outcome, Rounds, Steps,
};
use cardan_proto::task::{Design, cross};
use cardan_runtime::cx::{AskCx, CallCx};
use cardan_runtime::peer::{Beside, Peer};
use cardan_runtime::service::Handler;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::line::{Hears, Line};
use super::names::{self, Names};
use super::tasks::{self, Crossing, Legacy, Made, Owner, Tasks};
use super::vet::{Bar, Leave, Vet};
use super::voice::asked;
use super::wants::{Following, Wants};
use super::who::Who;
use super::{Core, Farewells, terms};
use crate::fleet::lock;

/// Is told of changes.
pub(crate) type OnChange = Arc<dyn Fn(Change) + Send + Sync>;

/// A legacy client.
pub(super) struct Guest {
    peer: Peer,
    line: Line,
    /// Its calls in progress, the latest last.
    calls: Mutex<Seated>,
    wants: Wants,
    /// Who is told of changes, in place of the client.
    instead: Option<OnChange>,
    names: Names,
    /// The connection that is looked after when the line is lost.
    first: Option<Managed>,
    /// How long its session may take to be there at first, and when it was lost.
    opening: Duration,
    grace: Duration,
    /// How long a listen may take to stand.
    patience: Duration,
    call_timeout: Option<Duration>,
    /// How long a call waits for the next link.
    unlinked: Option<Duration>,
    who: Who,
    tasks: Arc<Tasks>,
    /// How the upstream runs tools as tasks; none: it does not.
    design: Option<Design>,
    owner: Owner,
    /// What the client can do, and the task extension, for calls that may be answered with one.
    declared: Value,
    farewells: Arc<Farewells>,
    /// Judges tools before they are called; none: nobody does.
    vet: Option<Vet>,
    _seat: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Seated {
    minted: u64,
    calls: Vec<(u64, CallCx)>,
}

impl Guest {
    /// Opens a session with the upstream, as this client; nothing: there are too many.
    pub(super) fn open(
        core: &Core,
        principal: Option<&Arc<str>>,
        peer: Peer,
        capabilities: &Bytes,
        identity: Option<&Bytes>,
        instead: Option<OnChange>,
    ) -> Option<Arc<Self>> {
        let seat = Arc::clone(&core.seats).try_acquire_owned().ok()?;
        let capabilities = carried(serde_json::from_slice(capabilities).unwrap_or_else(|_| json!({})));
        // The line is this client's alone, so it bears its name.
        let mut making = core.making.clone();
        if let Some(identity) = identity.and_then(|raw| serde_json::from_slice(raw).ok()) {
            making.connector = making.connector.named(identity);
        }
        let (config, limits) = (core.config(), &core.options.limits);
        let owner = Owner { session: core.tasks.ledger.session(), ..Owner::of(principal) };
        let declared = tasks::declared(capabilities.clone());
        let guest = Arc::new_cyclic(|guest: &Weak<Self>| {
            let hears: Weak<dyn Hears> = guest.clone();
            let line = Line::open(&making, capabilities, hears);
            let interest = announced(config.server_caps());
            let wants = Wants::new(interest.clone(), limits.listen_uris);
            if interest != Interest::default() {
                wants.begin(follow(line.managed.listen(interest), peer.clone(), instead.clone()));
            }
            Self {
                peer,
                line,
                calls: Mutex::default(),
                wants,
                instead,
                names: core.names.clone(),
                first: core.doubted(),
                opening: core.options.opening,
                grace: core.options.grace(),
                patience: limits.call_idle_timeout,
                call_timeout: core.options.call_timeout,
                unlinked: core.options.grace,
                who: core.who.clone(),
                tasks: Arc::clone(&core.tasks),
                design: core.design(),
                owner,
                declared,
                farewells: Arc::clone(&core.farewells),
                vet: core.vet.clone(),
                _seat: seat,
            }
        });
        if core.era() == Era::Modern {
            // A modern upstream logs nothing unless asked; this is what a legacy one does by itself.
            guest.line.managed.set_level(LogLevel::Info);
        }
        Some(guest)
    }

    /// Answers one of its calls.
    pub(super) async fn call(self: Arc<Self>, cx: CallCx, called: Called, bar: &Bar) -> Answer {
        let answered = match called.call.method {
            Method::ResourcesSubscribe => self.subscribe(&uri_of(&called)).await.map(|()| empty()),
            Method::ResourcesUnsubscribe => self.unsubscribe(&uri_of(&called)).await.map(|()| empty()),
            Method::LoggingSetLevel => self.take_level(cx, called).await,
            // Where there are no tasks, nothing more is looked at.
            _ if self.design.is_none() => self.pass_on(cx, called, names::Tasks::No, bar).await,
            _ => self.with_tasks(cx, called, bar).await,
        };
        answered.unwrap_or_else(Answer::Fault)
    }

    async fn pass_on(
        &self,
        cx: CallCx,
        called: Called,
        concern: names::Tasks,
        bar: &Bar,
    ) -> Result<Answer, Fault> {
        let upstream = self.ready().await?;
        let params = self.names.inward(&called.call, terms::params(&called, upstream, None));
        let method = &called.call.method;
        let mut outcome = self.exchange(&cx, &called, params, upstream, bar).await;
        if concern == names::Tasks::Maybe {
            outcome = self.tasks.remember(&called.call, &self.owner, outcome);
        }
        let outcome = self.names.outward(concern, method, outcome);
        Ok(terms::answer(outcome, method, Era::Legacy, upstream, &self.who))
    }

    async fn ready(&self) -> Result<Era, Fault> {
        let ready = self.line.ready(self.opening, self.grace).await;
        ready.map_err(|error| self.who.unreachable(&error))
    }

    async fn exchange(
        &self,
        cx: &CallCx,
        called: &Called,
        params: Option<Bytes>,
        upstream: Era,
        bar: &Bar,
    ) -> Outcome {
        let leave = match &self.vet {
            None => Leave::Any,
            Some(vet) => match vet.admit(&self.line, called, bar).await {
                Ok(leave) => leave,
                Err(fault) => return Outcome::Fault(fault),
            },
        };
        let _seated = self.seat(cx.clone());
        let outcome = self.send(cx, called, params, upstream, leave).await;
        bar.ended(&outcome);
        outcome
    }

    async fn send(
        &self,
        cx: &CallCx,
        called: &Called,
        params: Option<Bytes>,
        upstream: Era,
        leave: Leave,
    ) -> Outcome {
        // What a modern upstream asks by its results is asked here, and its session makes the retry.
        let options = terms::options(called.progress, Rounds::Ours, self.call_timeout, self.unlinked);
        let options = leave.options(options);
        let beside = Beside { strays: terms::strays(called, upstream), onward: Some(cx.clone()) };
        let method = called.call.method.clone();
        self.line.managed.start_beside(method, params, options, beside).outcome().await
    }

    /// The same where the upstream has tasks, in the one design or the other.
    async fn with_tasks(&self, cx: CallCx, called: Called, bar: &Bar) -> Result<Answer, Fault> {
        match tasks::crossing(&called, self.design)? {
            Crossing::Nothing => {
                self.tasks.admit_new(&called, &self.owner)?;
                let concern = names::concern(&called, self.design);
                self.pass_on(cx, called, concern, bar).await
            }
            Crossing::About => {
                self.ready().await?;
                self.legacy(cx).about(&called.call).await
            }
            Crossing::Same => {
                self.tasks.admit(&called.call, &self.owner)?;
                let concern = names::concern(&called, self.design);
                self.pass_on(cx, called, concern, bar).await
            }
            Crossing::Tools => {
                let answer = self.pass_on(cx, called, names::Tasks::No, bar).await?;
                Ok(terms::mapped(answer, |page| cross::optional_tools(&page)))
            }
            Crossing::Make(wish) => {
                self.tasks.ledger.room(&self.owner)?;
                let result = self.declaring(&cx, &called, bar).await?;
                let made = Made::of(&self.tasks, &self.owner, &wish, result)?;
                self.legacy(cx).follow(&made);
                made.answer(&self.tasks)
            }
            Crossing::Plain => match self.pass_on(cx.clone(), called.clone(), names::Tasks::No, bar).await? {
                // The tool runs as a task only: it does, and whoever wants none waits for it.
                Answer::Fault(fault) if cross::needs_extension(&fault) => {
                    let result = self.declaring(&cx, &called, bar).await?;
                    self.legacy(cx).waited(result).await
                }
                answer => Ok(answer),
            },
        }
    }

    /// Makes a call that may be answered with a task.
    async fn declaring(&self, cx: &CallCx, called: &Called, bar: &Bar) -> Result<Bytes, Fault> {
        let upstream = self.ready().await?;
        let method = &called.call.method;
        let params = tasks::declaring(called.call.params.raw().cloned(), &self.declared);
        match self.exchange(cx, called, Some(params), upstream, bar).await {
            Outcome::Done(result) => Ok(result),
            Outcome::Fault(fault) => Err(fault),
            other => Err(self.who.fault(&other, method)),
        }
    }

    fn legacy(&self, cx: CallCx) -> Legacy<'_> {
        let (owner, at) = (self.owner.clone(), self.line.managed.clone());
        Legacy { tasks: &self.tasks, owner, at, declared: &self.declared, cx }
    }

    /// The client wants another level. A legacy server answers that itself; a modern one hears it with every call.
    async fn take_level(&self, cx: CallCx, called: Called) -> Result<Answer, Fault> {
        let level = called.log_level.unwrap_or(LogLevel::Info);
        if !self.line.managed.condition().is_up() {
            // Told before the calls that wait for a session, too.
            self.set_level(level);
        }
        let upstream = self.ready().await?;
        if upstream == Era::Modern {
            self.set_level(level);
            return Ok(empty());
        }
        let params = terms::params(&called, upstream, None);
        // Nothing that comes meanwhile belongs to it.
        let outcome = self.send(&cx, &called, params, upstream, Leave::Any).await;
        Ok(terms::answer(outcome, &called.call.method, Era::Legacy, upstream, &self.who))
    }

    /// Log notes of this level and above, from now on.
    pub(super) fn set_level(&self, level: LogLevel) {
        self.line.managed.set_level(level);
    }

    pub(super) async fn subscribe(&self, uri: &str) -> Result<(), Fault> {
        self.wants.add(uri, async |interest| self.listen(interest).await).await
    }

    pub(super) async fn unsubscribe(&self, uri: &str) -> Result<(), Fault> {
        self.wants.remove(uri, async |interest| self.listen(interest).await).await
    }

    /// Listens, and waits until it stands; not without end, since whoever else subscribes waits meanwhile.
    async fn listen(&self, interest: Interest) -> Result<(Following, Interest), Fault> {
        let mut listen = self.line.managed.listen(interest);
        let ready = tokio::time::timeout(self.patience, listen.ready()).await;
        let stands = ready.map_err(|_| self.who.silent())?.map_err(|error| self.who.unreachable(&error))?;
        Ok((follow(listen, self.peer.clone(), self.instead.clone()), stands))
    }

    pub(super) fn managed(&self) -> Managed {
        self.line.managed.clone()
    }

    /// A note of the client's.
    pub(super) fn tell(&self, note: Note) {
        self.line.managed.note(note.method, note.params.raw().cloned());
    }

    fn seat(&self, cx: CallCx) -> Seat<'_> {
        let mut seated = lock(&self.calls);
        seated.minted += 1;
        let name = seated.minted;
        seated.calls.push((name, cx));
        Seat { guest: self, name }
    }

    fn latest(&self) -> Option<CallCx> {
        lock(&self.calls).calls.last().map(|(_, cx)| cx.clone())
    }
}

/// What the client declares, without what is not carried to it: calls about tasks of its own. An upstream that is told of none
/// asks plainly.
fn carried(mut capabilities: Value) -> Value {
    if let Some(members) = capabilities.as_object_mut() {
        members.remove("tasks");
    }
    capabilities
}

/// The lists whose changes an upstream with these capabilities tells.
pub(super) fn announced(caps: &ServerCaps) -> Interest {
    let told = |list: Option<ListCap>| list.is_some_and(|cap| cap.list_changed);
    Interest {
        tools: told(caps.tools),
        prompts: told(caps.prompts),
        resources: told(caps.resources),
        ..Interest::default()
    }
}

/// Tells a legacy client of a change, or whoever is told in its place.
pub(super) fn tell(change: Change, peer: &Peer, instead: Option<&OnChange>) {
    match (change, instead) {
        (change, Some(instead)) => instead(change),
        (Change::Resource(updated), None) => peer.note(Method::ResourcesUpdated, Some(updated.params())),
        (list, None) => peer.change(list),
    }
}

pub(super) fn uri_of(called: &Called) -> Box<str> {
    called.call.params.text(Param::Uri).unwrap_or_default().into()
}

pub(super) fn empty() -> Answer {
    Answer::Done(Bytes::from_static(b"{}"))
}

/// One of its calls is in progress, while it lives.
struct Seat<'a> {
    guest: &'a Guest,
    name: u64,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        lock(&self.guest.calls).calls.retain(|(name, _)| *name != self.name);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.farewells.say(self.line.managed.clone(), "the client has left");
    }
}

/// Whatever comes by its line is for this client: on the lane of its latest call, else where it takes pushes.
impl Hears for Guest {
    fn ask(&self, ours: Option<AskCx>, ask: Ask) -> Handler<Result<Bytes, Fault>> {
        match self.latest() {
            Some(cx) => asked(ask, &self.names, |ask| cx.ask(ask).passing(ours)),
            // A person may think.
            None => asked(ask, &self.names, |ask| {
                let (idle, progress) = (Some(Duration::ZERO), ask.progress());
                let options = CallOptions { idle, progress, steps: Steps::Whole, ..CallOptions::default() };
                self.peer.call(ask.method, ask.params, options).passing(ours)
            }),
        }
    }

    fn log(&self, level: LogLevel, params: Bytes) {
        match self.latest() {
            Some(cx) => cx.log(level, params),
            None => self.peer.log(level, params),
        }
    }

    fn note(&self, note: &Note) {
        // Of tasks of the other design it is told in its own words.
        if note.method == Method::Tasks {
            return;
        }
        let params = note.params.raw().map(|params| self.names.noted(&note.method, params.clone()));
        self.peer.note(note.method.clone(), params);
    }

    fn lost(&self) {
        if let Some(first) = &self.first {
            first.doubt();
        }
    }
}

fn follow(mut listen: Listen, peer: Peer, instead: Option<OnChange>) -> Following {
    Following(tokio::spawn(async move {
        while let Some(change) = listen.next().await {
            tell(change, &peer, instead.as_ref());
        }
    }))
}
