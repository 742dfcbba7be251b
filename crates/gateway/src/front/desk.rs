//! All servers, as one link sees them: where its calls go.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::{Note, Param, Params};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, splice};
use cardan_proto::limits::fleet::ANSWER;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Answer, Called, Change, Event, LogLevel, Updated};
use cardan_runtime::cx::CallCx;
use cardan_runtime::peer::Peer;
use cardan_runtime::service::{Handler, Host as _, Service};
use serde_json::Value;

use super::gated::Gated;
use super::kin::{Fitted, One, Told};
use super::own::Own;
use super::refused::{Refused, Unheard};
use super::relays::{self, Reached, sleeps};
use super::stale::Turn;
use super::trail::Trail;
use super::view::{Likely, Purpose, Scope, View};
use super::{Inner, completion, listen, lists, read, several, skills, tasks, traced};
use crate::catalog::{Kind, fetch};
use crate::fleet::{Upstream, Visit, lock};
use crate::merge::Shown;
use crate::meter::Span;
use crate::pin;
use crate::relay::{Askable, Held, Side};
use crate::trace::SessionName;

/// All servers, at one link and for one principal.
pub struct Desk(pub(super) Arc<Station>);

/// What the calls of one link share.
pub(super) struct Station {
    pub(super) front: Arc<Inner>,
    principal: Option<Arc<str>>,
    /// The legacy client at this link.
    client: OnceLock<Client>,
    /// Its sides towards the servers that it called.
    seats: Mutex<HashMap<Box<str>, Arc<Seat>>>,
    /// The log level that it asked for, for servers that it calls later.
    level: Mutex<Option<LogLevel>>,
    pub(super) own: Own,
    /// The client, as far as it matters with whom it shares sessions: a legacy one, or the modern one whose call this is.
    one: OnceLock<One>,
    /// What is offered to it by those.
    fitted: Fitted,
    /// What the policy leaves of that.
    gated: Gated,
    /// What it was told of last, if only by the notes that followed.
    told: Mutex<Arc<View>>,
    /// What its session is called in traces.
    pub(super) session: SessionName,
}

/// A legacy client.
struct Client {
    peer: Peer,
    /// What it declared.
    capabilities: Bytes,
    /// Who it says it is.
    identity: Option<Bytes>,
}

/// A legacy client's side towards one server.
struct Seat {
    upstream: Arc<Upstream>,
    side: Arc<Side>,
    /// What it subscribed to there, and what keeps the server from being stopped meanwhile.
    subscribed: Mutex<(BTreeSet<Box<str>>, Option<Visit>)>,
}

impl Desk {
    pub(super) fn new(front: Arc<Inner>, principal: Option<Arc<str>>) -> Self {
        Self(Arc::new(Station::new(front, principal, OnceLock::new())))
    }
}

impl Service for Desk {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        let station = Arc::clone(&self.0).among(&called);
        match &self.0.front.house.options.trace {
            None => answer(station, cx, called),
            Some(tracer) => traced::call(tracer, station, cx, called),
        }
    }

    fn greeted(&self, peer: Peer, capabilities: &Bytes, identity: Option<&Bytes>) {
        let client = Client { peer, capabilities: capabilities.clone(), identity: identity.cloned() };
        // Once per link: the session tells it once.
        let _ = self.0.one.set(self.0.one(Era::Legacy, capabilities));
        let _ = self.0.client.set(client);
        self.0.front.attended(&self.0);
    }

    fn note(&self, note: Note) {
        for seat in self.0.seats() {
            seat.side.note(note.clone());
        }
    }

    fn event(&self, event: &Event) {
        match event {
            Event::Untold(call) => self.0.unheard(call, Unheard::Untold),
            Event::Disagreed(call) => self.0.unheard(call, Unheard::Disagreed),
            _ => {}
        }
    }
}

/// Answers a call, and writes it down.
pub(super) fn answer(station: Arc<Station>, cx: CallCx, called: Called) -> Handler<Answer> {
    Box::pin(async move {
        let trail = Trail::begin(&station, &called.call);
        let answer = station.measured(cx, called, trail.as_ref()).await.unwrap_or_else(Answer::Fault);
        if let Some(trail) = trail {
            trail.end(&answer);
        }
        answer
    })
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("principal", &self.0.principal).finish_non_exhaustive()
    }
}

impl Station {
    fn new(front: Arc<Inner>, principal: Option<Arc<str>>, one: OnceLock<One>) -> Self {
        let station = Self {
            front,
            principal,
            client: OnceLock::new(),
            seats: Mutex::default(),
            level: Mutex::default(),
            own: Own::default(),
            one,
            fitted: Fitted::default(),
            gated: Gated::default(),
            told: Mutex::default(),
            session: SessionName::default(),
        };
        *lock(&station.told) = station.gated(station.front.current());
        station
    }

    /// The same for one call of a modern client, where it matters with whom that shares sessions.
    fn among(self: Arc<Self>, called: &Called) -> Arc<Self> {
        let listens = called.call.method == Method::SubscriptionsListen;
        if called.revision.era() == Era::Legacy || self.front.house.kin.is_empty() && !listens {
            return self;
        }
        let one = self.one(Era::Modern, &called.capabilities);
        Arc::new(Self::new(Arc::clone(&self.front), self.principal.clone(), one.into()))
    }

    fn one(&self, era: Era, capabilities: &[u8]) -> One {
        One { era, principal: self.principal.clone(), askable: Askable::of(capabilities) }
    }

    /// Answers a call, where its principal may ask for one more.
    async fn measured(
        self: Arc<Self>,
        cx: CallCx,
        called: Called,
        trail: Option<&Trail>,
    ) -> Result<Answer, Fault> {
        let span = match called.call.method {
            Method::SubscriptionsListen => Span::Listen,
            // What waits for a task must not stand in the way of what ends or feeds it.
            ref method if method.is_about_task() => Span::Listen,
            _ => Span::Call,
        };
        let house = &self.front.house;
        let pass = house.meter.admit(self.principal.as_ref(), span).map_err(|(why, fault)| {
            house.refusals.count(why);
            fault
        })?;
        let answer = Arc::clone(&self).answer(cx, called, trail).await;
        drop(pass);
        answer
    }

    async fn answer(
        self: Arc<Self>,
        cx: CallCx,
        called: Called,
        trail: Option<&Trail>,
    ) -> Result<Answer, Fault> {
        match called.call.method {
            Method::ToolsList => self.list(Kind::Tools, &called).await,
            Method::PromptsList => self.list(Kind::Prompts, &called).await,
            Method::ResourcesList => self.list(Kind::Resources, &called).await,
            Method::ResourcesTemplatesList => self.list(Kind::Templates, &called).await,
            Method::SkillsList => self.list(Kind::Skills, &called).await,
            Method::SkillsGet | Method::DirectoryRead => skills::ask(&self, cx, called).await,
            Method::ToolsCall => self.call_named(Kind::Tools, cx, called, trail).await,
            Method::PromptsGet => self.call_named(Kind::Prompts, cx, called, trail).await,
            Method::ResourcesRead => read::read(&self, cx, called, trail).await,
            Method::ResourcesSubscribe => self.subscribe(&address(&called)?).await,
            Method::ResourcesUnsubscribe => self.unsubscribe(&address(&called)?).await,
            Method::CompletionComplete => completion::complete(&self, cx, called).await,
            Method::LoggingSetLevel => Ok(self.set_level(&cx, &called).await),
            Method::SubscriptionsListen => listen::listen(&self, cx, called).await,
            ref method if method.is_about_task() => self.task(cx, called).await,
            _ => self.others(cx, called).await,
        }
    }

    /// What is offered to this client.
    pub(super) fn view(&self) -> Arc<View> {
        self.gated(self.front.view())
    }

    /// What is offered to this client and its principal, where all others are offered `common`.
    fn gated(&self, common: Arc<View>) -> Arc<View> {
        let (front, pins) = (&self.front, self.front.house.options.pins.as_deref());
        let principal = self.principal.as_deref();
        let of = self.own.view(Arc::clone(&common), pins);
        let (gates, fitted) = match Arc::ptr_eq(&of, &common) {
            true => (&front.gated, &front.fitted),
            false => (&self.gated, &self.fitted),
        };
        let shared = self.one.get().and_then(|one| fitted.view(&of, (&front.house.kin, one), pins));
        match shared {
            Some((of, gates)) => gates.view(of, principal),
            None => gates.view(of, principal),
        }
    }

    /// Where a name leads.
    pub(super) async fn find(
        &self,
        kind: Kind,
        key: &str,
    ) -> Result<Option<(Arc<Upstream>, Box<str>)>, Fault> {
        match self.view().find(kind, key) {
            Some(found) => Ok(Some(found)),
            None => {
                self.caught_up().await;
                self.front.sought(kind, key).await?;
                Ok(self.view().find(kind, key))
            }
        }
    }

    /// Waits for what is being fetched for those with whom this client shares sessions.
    async fn caught_up(&self) {
        if let Some(one) = self.one.get() {
            self.front.house.kin.caught_up(one).await;
        }
    }

    /// Is what some are told told to this client?
    pub(super) fn is_told(&self, told: &Told) -> bool {
        self.one.get().is_some_and(|one| told.concerns(one)) && self.front.scope.has(told.server())
    }

    /// May this client be told of a change at a server? It may not any more where a resource was hidden from it meanwhile.
    pub(super) fn hears(&self, server: &str, change: &Change) -> bool {
        match (change, self.front.house.fleet.upstream(server)) {
            (Change::Resource(uri), Some(upstream)) => self.view().tells(&upstream, uri),
            (Change::Resource(_), None) => false,
            _ => true,
        }
    }

    /// A resource that this client subscribed to, or a list of a server is another, at least for this client.
    fn changed(self: Arc<Self>, upstream: Arc<Upstream>, change: &Change) {
        if let Change::Resource(updated) = change {
            if self.hears(upstream.name(), change) {
                self.updated(updated);
            }
            return;
        }
        // No legacy client has skills.
        let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Skills && kind.touched_by(change));
        if self.own.touch(upstream.name(), kinds) == Turn::Others {
            return;
        }
        let station = Arc::downgrade(&self);
        self.own.fetch(async move {
            loop {
                let Some(here) = station.upgrade() else { return };
                let Some(kind) = here.own.next(upstream.name()) else { return };
                let seat = lock(&here.seats).get(upstream.name()).cloned();
                drop(here);
                // One that has left, or shares its sessions, is offered what all are.
                let Some(managed) = seat.and_then(|seat| seat.side.own()) else { continue };
                // What does not come stays as it was; the next change brings it.
                let Ok(list) = fetch(&managed, kind).await else { continue };
                let Some(station) = station.upgrade() else { return };
                station.own.put(&station.front.view(), &upstream, kind, list);
                station.tell();
            }
        });
    }

    /// Tells a legacy client what is another since it was last told.
    pub(super) fn tell(&self) {
        let Some(client) = self.client.get() else { return };
        let mut told = lock(&self.told);
        let now = self.gated(self.front.current());
        for change in now.changes_since(&told) {
            client.peer.change(change);
        }
        *told = now;
    }

    /// A task: at the server that its name carries. Lists of them are those of all servers.
    async fn task(self: &Arc<Self>, cx: CallCx, called: Called) -> Result<Answer, Fault> {
        if called.call.method == Method::TasksList {
            return tasks::list(self, cx, called).await;
        }
        tasks::declared(&called)?;
        let Some(task) = called.call.params.text(Param::TaskId) else {
            return Err(Fault::invalid_params("params.taskId: missing, or not text"));
        };
        let Some(upstream) = self.front.with_task(&task) else {
            return Err(Fault::invalid_params("params.taskId: there is no such task, or it has expired"));
        };
        self.forward(&upstream, cx, called).await
    }

    async fn list(&self, kind: Kind, called: &Called) -> Result<Answer, Fault> {
        self.front.listable().await?;
        self.caught_up().await;
        let view = self.view();
        let tasks = tasks::words(&view, kind, called.revision);
        let words = |shown: &Shown| match kind {
            Kind::Skills => skills::words(&view, shown),
            _ => tasks(shown),
        };
        lists::page(&view.merged, kind, &called.call.params, self.front.house.options.page(), words)
            .map(Answer::Done)
    }

    /// A tool or a prompt, by its name here.
    async fn call_named(
        self: &Arc<Self>,
        kind: Kind,
        cx: CallCx,
        called: Called,
        trail: Option<&Trail>,
    ) -> Result<Answer, Fault> {
        let Some(name) = called.call.params.text(Param::Name).map(|name| Box::<str>::from(&*name)) else {
            return Err(Fault::invalid_params("params.name: missing, or not text"));
        };
        let Some((upstream, own)) = self.find(kind, &name).await? else {
            let (what, list) = match kind {
                Kind::Prompts => ("prompt", kind.method()),
                _ => ("tool", kind.method()),
            };
            let hidden = self.offered(kind, &name);
            if let (Some(trail), Some((server, own))) = (trail, &hidden) {
                trail.barred(server, own.as_deref());
            }
            if let Some((server, tool)) = self.view().held(&name).filter(|_| kind == Kind::Tools) {
                self.front.house.refusals.count(Refused::Pin);
                return Err(pin::held_back(&name, server, tool));
            }
            self.front.house.refusals.count(if hidden.is_some() {
                Refused::Policy
            } else {
                Refused::Unknown
            });
            return Err(Fault::invalid_params(format!("unknown {what}: {name}; see {list}")));
        };
        if let Some(trail) = trail {
            trail.goes(&upstream, Some(&own));
        }
        let mut called =
            if own == name { called } else { self.renamed(called, Param::Name.name(), &quoted(&own))? };
        if kind != Kind::Tools {
            return self.forward(&upstream, cx, called).await;
        }
        called.call.strays = self.view().strays(&name, &called.call);
        self.forward_tool(&upstream, cx, called, (&name, &own), trail).await
    }

    async fn subscribe(self: &Arc<Self>, uri: &str) -> Result<Answer, Fault> {
        self.front.settled().await;
        self.sought_at(uri).await?;
        let mut refused = None;
        let having = self.view().having(uri, Purpose::Listen);
        let several = having.len() > 1;
        for (upstream, likely) in having {
            let subscribing = self.subscribe_at(&upstream, uri);
            // One that may have it and is silent hides no other, as with reading.
            let subscribed = match likely {
                Likely::Guessed if several => tokio::time::timeout(ANSWER, subscribing)
                    .await
                    .unwrap_or_else(|_| Err(relays::silent(&upstream))),
                _ => subscribing.await,
            };
            match subscribed {
                Ok(()) => return Ok(empty()),
                Err(fault) => drop(refused.get_or_insert(fault)),
            }
        }
        let listed = self.view().find(Kind::Resources, uri).is_some();
        Err(refused.unwrap_or_else(|| match listed {
            true => Fault::invalid_params("params.uri: its server does not tell changes of it"),
            false => Fault::resource_not_found(uri),
        }))
    }

    async fn subscribe_at(self: &Arc<Self>, upstream: &Arc<Upstream>, uri: &str) -> Result<(), Fault> {
        let reached = self.front.house.relays.reach(upstream).await?;
        let seat = self.seat(upstream, &reached);
        seat.side.subscribe(uri).await?;
        let mut subscribed = lock(&seat.subscribed);
        subscribed.0.insert(uri.into());
        subscribed.1.get_or_insert(reached.visit);
        Ok(())
    }

    /// Subscribes anew to what was subscribed to at a server that is another now. It may have changed in between.
    fn subscribe_again(self: &Arc<Self>, old: &Seat) {
        let (uris, visit) = std::mem::take(&mut *lock(&old.subscribed));
        drop(visit);
        if uris.is_empty() {
            return;
        }
        let (station, name) = (Arc::downgrade(self), Box::<str>::from(old.upstream.name()));
        self.own.fetch(async move {
            if let Some(station) = station.upgrade() {
                let next = station.front.house.fleet.upstream(&name);
                let unknown = next.filter(|next| next.catalog().is_none());
                // One that cannot be reached has nothing for now; others may have it.
                let _ = station.front.known(unknown.as_ref()).await;
            }
            for uri in uris {
                let Some(station) = station.upgrade() else { return };
                // One that is nowhere any more is not told of, as its server would not.
                if station.subscribe(&uri).await.is_ok() {
                    station.updated(&uri.into());
                }
            }
        });
    }

    /// Tells a legacy client that a resource has changed.
    fn updated(&self, updated: &Updated) {
        if let Some(client) = self.client.get() {
            client.peer.note(Method::ResourcesUpdated, Some(updated.params()));
        }
    }

    async fn unsubscribe(&self, uri: &str) -> Result<Answer, Fault> {
        for seat in self.seats() {
            if lock(&seat.subscribed).0.contains(uri) {
                seat.side.unsubscribe(uri).await?;
                // Not before it is done: what failed can be tried again.
                let mut subscribed = lock(&seat.subscribed);
                subscribed.0.remove(uri);
                if subscribed.0.is_empty() {
                    subscribed.1 = None;
                }
            }
        }
        Ok(empty())
    }

    /// For all servers, those to come included. Where there is one only, it answers; else some may not log, or not answer.
    async fn set_level(&self, cx: &CallCx, called: &Called) -> Answer {
        let level = called.log_level.unwrap_or(LogLevel::Info);
        *lock(&self.level) = Some(level);
        let seats = self.seats();
        let tell = |seat: &Seat| seat.side.call_holding(cx.clone(), called.clone(), Held::default());
        if let (Scope::One(_), [seat]) = (&self.front.scope, &seats[..]) {
            return tell(seat).await;
        }
        let told = seats.iter().map(|seat| {
            let answer = tokio::time::timeout(ANSWER, tell(seat));
            async move {
                if answer.await.is_err() {
                    seat.side.set_level(level);
                }
            }
        });
        several::ended(told).await;
        empty()
    }

    /// What has no place of its own: where there is one server only, it knows.
    async fn others(self: &Arc<Self>, cx: CallCx, called: Called) -> Result<Answer, Fault> {
        let upstreams = self.front.scope.upstreams(&self.front.house.fleet);
        match (&self.front.scope, &upstreams[..]) {
            (Scope::One(_), [upstream]) => self.forward(upstream, cx, called).await,
            _ => Err(Fault::method_not_found(called.call.method.name())),
        }
    }

    /// Our side towards a server: a legacy client has one of its own, modern calls stand alone.
    pub(super) fn side(self: &Arc<Self>, upstream: &Arc<Upstream>, reached: &Reached, era: Era) -> Arc<Side> {
        match era {
            Era::Modern => reached.relay.service(self.principal.as_ref()),
            Era::Legacy => Arc::clone(&self.seat(upstream, reached).side),
        }
    }

    fn seat(self: &Arc<Self>, upstream: &Arc<Upstream>, reached: &Reached) -> Arc<Seat> {
        let mut seats = lock(&self.seats);
        match seats.get(upstream.name()) {
            Some(seat) if Arc::ptr_eq(&seat.upstream, upstream) => return Arc::clone(seat),
            _ => {}
        }
        let side = reached.relay.service(self.principal.as_ref());
        if let Some(client) = self.client.get() {
            let (station, of) = (Arc::downgrade(self), Arc::downgrade(upstream));
            side.intercept(Arc::new(move |change| {
                if let (Some(station), Some(upstream)) = (station.upgrade(), of.upgrade()) {
                    station.changed(upstream, &change);
                }
            }));
            side.greeted(client.peer.clone(), &client.capabilities, client.identity.as_ref());
        }
        if let Some(level) = *lock(&self.level) {
            side.set_level(level);
        }
        let seat = Arc::new(Seat { upstream: Arc::clone(upstream), side, subscribed: Mutex::default() });
        // One for which there was no room is tried again with the next call.
        let old = match seat.side.is_seated() {
            true => seats.insert(upstream.name().into(), Arc::clone(&seat)),
            false => None,
        };
        drop(seats);
        if let Some(old) = old {
            self.subscribe_again(&old);
        }
        seat
    }

    fn seats(&self) -> Vec<Arc<Seat>> {
        lock(&self.seats).values().cloned().collect()
    }

    /// Leaves servers that are not there any more, or sleep. What runs there goes on to its end.
    pub(super) fn sweep(self: &Arc<Self>, there: &[Arc<Upstream>]) {
        let gone: Vec<_> = lock(&self.seats)
            .extract_if(|_, seat| {
                !there.iter().any(|one| Arc::ptr_eq(one, &seat.upstream)) || sleeps(&seat.upstream)
            })
            .collect();
        // Outside of the lock: leaving takes others.
        for (name, seat) in gone {
            self.own.forget(&name);
            self.subscribe_again(&seat);
            self.tell();
        }
    }

    /// The call with another value for one member of its params.
    pub(super) fn renamed(&self, mut called: Called, member: &str, value: &str) -> Result<Called, Fault> {
        let raw = called.call.params.raw().cloned().unwrap_or_else(|| Bytes::from_static(b"{}"));
        let spliced = splice(&raw, &[Edit::Set(member, value.as_bytes())]);
        let params = spliced.and_then(|raw| Params::scan(raw, &self.front.house.options.limits));
        called.call.params = params.map_err(|_| Fault::invalid_params("params: not an object"))?;
        Ok(called)
    }

    /// The call without one member of its params.
    pub(super) fn without(&self, mut called: Called, member: &str) -> Result<Called, Fault> {
        let Some(raw) = called.call.params.raw() else { return Ok(called) };
        let params = splice(raw, &[Edit::Drop(member)]);
        let params = params.and_then(|raw| Params::scan(raw, &self.front.house.options.limits));
        called.call.params = params.map_err(|_| Fault::invalid_params("params: not an object"))?;
        Ok(called)
    }

    pub(super) fn principal(&self) -> Option<&Arc<str>> {
        self.principal.as_ref()
    }
}

fn empty() -> Answer {
    Answer::Done(Bytes::from_static(b"{}"))
}

pub(super) fn address(called: &Called) -> Result<Box<str>, Fault> {
    let uri = called.call.params.text(Param::Uri).map(|uri| Box::<str>::from(&*uri));
    uri.ok_or_else(|| Fault::invalid_params("params.uri: missing, or not text"))
}

pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
