//! Standing interests in changes, on both sides and in both eras.
//!
//! Modern: one call that stays open, acknowledged first, every note tagged with its id. Legacy:
//! `resources/subscribe` per address, and list changes that come unasked.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Session;
use super::config::Interests;
use super::event::{
    Answer, CallKey, CallOptions, Cause, Change, Delivery, Event, Interest, LaneId, Outcome, Refusal, Ticket,
    Updated,
};
use super::state::State;
use super::tables::{BatchKey, Grave, Purpose};
use crate::era::Revision;
use crate::finding::Rule;
use crate::jsonrpc::envelope::{Call, MetaKey, Note, Param, Params};
use crate::jsonrpc::fault::{Fault, code};
use crate::jsonrpc::id::CallId;
use crate::jsonrpc::object::Object;
use crate::jsonrpc::splice::{Edit, member_of, splice};
use crate::method::Method;
use crate::model::{task, uri};

/// Server: what the peer listens to.
#[derive(Debug, Default)]
pub(super) struct Standing {
    listens: Vec<(CallId, LaneId, Revision, Interest)>,
    subscribed: BTreeSet<Box<str>>,
}

impl Standing {
    pub(super) fn has(&self, id: &CallId) -> bool {
        self.listens.iter().any(|(listen, ..)| listen == id)
    }
}

/// Client: what we listen to.
#[derive(Debug, Default)]
pub(super) struct Heard {
    listens: BTreeMap<Ticket, Listen>,
}

#[derive(Debug)]
struct Listen {
    interest: Interest,
    /// Legacy: subscribe calls without an answer yet.
    subscribing: usize,
    acknowledged: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireFilter {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    resource_subscriptions: Vec<Box<str>>,
    task_ids: Vec<Box<str>>,
}

#[derive(Deserialize)]
struct WireListen {
    notifications: Object<WireFilter>,
}

#[derive(Deserialize)]
struct WireUri {
    uri: Box<str>,
}

impl Interest {
    /// What the params of `subscriptions/listen` ask for.
    pub fn asked_by(params: &Params) -> Result<Self, Fault> {
        match params.decode::<WireListen>() {
            Ok(wire) => Ok(Self::from(wire.notifications.0)),
            Err(error) => Err(Fault::invalid_params(format!("params.notifications: {error}"))),
        }
    }
}

impl From<WireFilter> for Interest {
    fn from(wire: WireFilter) -> Self {
        Self {
            tools: wire.tools_list_changed,
            prompts: wire.prompts_list_changed,
            resources: wire.resources_list_changed,
            uris: wire.resource_subscriptions,
            tasks: wire.task_ids,
        }
    }
}

fn filter(interest: &Interest) -> Value {
    let mut filter = json!({});
    let flags = [
        ("toolsListChanged", interest.tools),
        ("promptsListChanged", interest.prompts),
        ("resourcesListChanged", interest.resources),
    ];
    for (name, _) in flags.into_iter().filter(|(_, wanted)| *wanted) {
        filter[name] = Value::Bool(true);
    }
    if !interest.uris.is_empty() {
        filter["resourceSubscriptions"] = json!(interest.uris);
    }
    if !interest.tasks.is_empty() {
        filter["taskIds"] = json!(interest.tasks);
    }
    filter
}

/// Server side.
impl Session {
    pub(super) fn peer_listens(&mut self, lane: LaneId, call: Call, revision: Revision) {
        let wanted = match Interest::asked_by(&call.params) {
            Ok(wanted) => wanted,
            Err(fault) => return self.reply(lane, None, Some(call.id), revision, Err(fault)),
        };
        // TSKE-15: who did not declare the extension cannot have made a task.
        if !wanted.tasks.is_empty() && self.server.tasks && !self.declares_tasks(&call, revision) {
            let fault = Fault::missing_capability(&task::required());
            return self.reply(lane, None, Some(call.id), revision, Err(fault));
        }
        let limits = &self.config.limits;
        let named = wanted.uris.len() + wanted.tasks.len();
        if self.standing.listens.len() >= limits.listens || named > limits.listen_uris {
            let fault = Fault::new(code::BUSY, "too many listens or addresses; end one first");
            return self.reply(lane, None, Some(call.id), revision, Err(fault));
        }
        if let Some(at) = wanted.uris.iter().position(|uri| uri::check(uri).is_err()) {
            let fault = Fault::invalid_params(format!(
                "params.notifications.resourceSubscriptions/{at}: not an address"
            ));
            return self.reply(lane, None, Some(call.id), revision, Err(fault));
        }
        if self.config.interests == Interests::Handed {
            return self.hand_over(lane, call, None, revision, None);
        }
        let honoured = self.honoured(wanted);
        // The acknowledgement comes first: nothing can change in between, for nothing runs in between.
        let params = tagged(&call.id, acknowledgement(&honoured));
        self.send_note(lane, Method::SubscriptionsAcknowledged, Some(params));
        self.standing.listens.push((call.id, lane, revision, honoured));
    }

    /// Only what we announce can be listened to.
    fn honoured(&self, wanted: Interest) -> Interest {
        let announced = |cap: Option<crate::era::caps::ListCap>| cap.is_some_and(|cap| cap.list_changed);
        let subscribe = self.server.resources.is_some_and(|cap| cap.subscribe);
        Interest {
            tools: wanted.tools && announced(self.server.tools),
            prompts: wanted.prompts && announced(self.server.prompts),
            resources: wanted.resources && announced(self.server.resources),
            uris: if subscribe { wanted.uris } else { Vec::new() },
            tasks: if self.server.tasks { wanted.tasks } else { Vec::new() },
        }
    }

    pub(super) fn peer_subscribes(
        &mut self,
        lane: LaneId,
        batch: Option<BatchKey>,
        call: Call,
        revision: Revision,
    ) {
        let outcome = match call.params.decode::<WireUri>() {
            Ok(wire) if self.config.interests == Interests::Handed && uri::check(&wire.uri).is_ok() => {
                return self.hand_over(lane, call, batch, revision, None);
            }
            Err(error) => Err(Fault::invalid_params(format!("params.uri: {error}"))),
            Ok(wire) if call.method == Method::ResourcesUnsubscribe => {
                self.standing.subscribed.remove(&wire.uri);
                Ok(Bytes::from_static(b"{}"))
            }
            Ok(wire) if uri::check(&wire.uri).is_err() => {
                Err(Fault::invalid_params("params.uri: not an address"))
            }
            Ok(_) if self.standing.subscribed.len() >= self.config.limits.listen_uris => {
                Err(Fault::new(code::BUSY, "too many subscriptions; end one first"))
            }
            Ok(wire) => {
                self.standing.subscribed.insert(wire.uri);
                Ok(Bytes::from_static(b"{}"))
            }
        };
        self.reply(lane, batch, Some(call.id), revision, outcome);
    }

    /// A listen that was handed over is in force: that is the first thing its caller hears.
    pub(super) fn listening(&mut self, key: CallKey, interest: Interest) {
        let Some((id, lane)) = self.handed(key) else { return };
        let params = tagged(&id, acknowledgement(&self.honoured(interest)));
        self.send_note(lane, Method::SubscriptionsAcknowledged, Some(params));
    }

    /// Something changed that one listen is about.
    pub(super) fn tell(&mut self, key: CallKey, change: &Change) {
        if let Some((id, lane)) = self.handed(key) {
            self.send_note(lane, change.method(), Some(tagged(&id, change_params(change))));
        }
    }

    fn handed(&self, key: CallKey) -> Option<(CallId, LaneId)> {
        let running = self.inbound.get(key)?;
        let listens = running.call.method == Method::SubscriptionsListen;
        listens.then(|| (running.call.id.clone(), running.lane))
    }

    /// The closing result of a listen.
    pub(super) fn closing(id: &CallId) -> Bytes {
        tagged(id, None)
    }

    /// The peer ends a listen.
    pub(super) fn listen_cancelled(&mut self, id: &CallId) -> bool {
        let before = self.standing.listens.len();
        self.standing.listens.retain(|(listen, ..)| listen != id);
        before != self.standing.listens.len()
    }

    /// Something changed: tell each who wanted to know, on its own lane.
    pub(super) fn change(&mut self, change: &Change) {
        if self.state != State::Ready {
            return;
        }
        let matching: Vec<_> = self
            .standing
            .listens
            .iter()
            .filter(|(.., interest)| interest.covers(change))
            .map(|(id, lane, ..)| (id.clone(), *lane))
            .collect();
        for (id, lane) in matching {
            self.send_note(lane, change.method(), Some(tagged(&id, change_params(change))));
        }
        if self.carrier.pushes() && self.ready_peer().is_some() && self.announces(change) {
            self.send_note(LaneId::MAIN, change.method(), change_params(change));
        }
    }

    /// Does a legacy client hear of it?
    fn announces(&self, change: &Change) -> bool {
        let list = match change {
            Change::Tools => self.server.tools,
            Change::Prompts => self.server.prompts,
            Change::Resources => self.server.resources,
            Change::Resource(_) => {
                let subscribed = self.standing.subscribed.iter().cloned().collect();
                return Interest { uris: subscribed, ..Interest::default() }.covers(change);
            }
            // The older design has a note of its own.
            Change::Task { .. } => return false,
        };
        list.is_some_and(|cap| cap.list_changed)
    }

    /// Listens never end by themselves: whoever waits for what runs does not wait for them.
    pub(super) fn end_handed_listens(&mut self) {
        for key in self.inbound.keys() {
            if self.handed(key).is_some() {
                self.event(Event::Withdrawn { key, reason: "the link is ending".into() });
                self.answer(key, Answer::Done(Bytes::from_static(b"{}")));
            }
        }
    }

    /// We are leaving: every listen gets its closing result.
    pub(super) fn end_listens(&mut self) {
        self.end_handed_listens();
        for (id, lane, revision, _) in std::mem::take(&mut self.standing.listens) {
            let result = tagged(&id, None);
            let result = revision.seal(&Method::SubscriptionsListen, result, &self.config);
            self.reply(lane, None, Some(id), revision, Ok(result));
        }
    }
}

/// The params of the note that tells a change, whichever listen it is for.
fn change_params(change: &Change) -> Option<Bytes> {
    match change {
        Change::Resource(updated) => Some(updated.params()),
        Change::Task { state, .. } => Some(state.clone()),
        Change::Tools | Change::Prompts | Change::Resources => None,
    }
}

fn acknowledgement(honoured: &Interest) -> Option<Bytes> {
    Some(Bytes::from(json!({ "notifications": filter(honoured) }).to_string()))
}

/// `object` with the id of its listen in `_meta`, spelled as the peer spelled it. Whatever else stands there stays.
fn tagged(id: &CallId, object: Option<Bytes>) -> Bytes {
    let empty = || Bytes::from_static(b"{}");
    let object = object.unwrap_or_else(empty);
    let mut name = Vec::new();
    id.write(&mut name);
    let tag = [Edit::Set(MetaKey::SubscriptionId.name(), &name)];
    let given = member_of(&object, Param::Meta.name()).ok().flatten();
    let meta = given.and_then(|meta| splice(&meta, &tag).ok()).or_else(|| splice(b"{}", &tag).ok());
    splice(&object, &[Edit::Set(Param::Meta.name(), &meta.unwrap_or_else(empty))]).unwrap_or_default()
}

/// Client side.
impl Session {
    pub(super) fn listen(&mut self, ticket: Ticket, interest: Interest) {
        let Some((ticket, interest)) = self.listen_unless_healing(ticket, interest) else { return };
        let Some(revision) = self.revision.filter(|_| self.state == State::Ready) else {
            return self.settle(ticket, Outcome::Refused(Refusal::NotOpen));
        };
        if self.heard.listens.len() >= self.config.limits.listens {
            return self.settle(ticket, Outcome::Refused(Refusal::TooMany));
        }
        if revision.has(&Method::SubscriptionsListen) {
            return self.listen_modern(ticket, interest, revision);
        }
        if let Some(deaf) = self.carrier.deaf() {
            return self.settle(ticket, deaf);
        }
        if !interest.uris.is_empty()
            && let Some(lacking) = self.server.lacks(&Method::ResourcesSubscribe)
        {
            return self.settle(ticket, Outcome::Refused(Refusal::Capability(lacking)));
        }
        let subscribing = interest.uris.len();
        for uri in &interest.uris {
            let params = Bytes::from(json!({ "uri": uri }).to_string());
            self.call_peer(
                LaneId::MAIN,
                Purpose::Subscribe(ticket),
                Method::ResourcesSubscribe,
                Some(params),
                revision,
            );
        }
        self.heard.listens.insert(ticket, Listen { interest, subscribing, acknowledged: false });
        if subscribing == 0 {
            self.acknowledge(ticket);
        }
    }

    fn listen_modern(&mut self, ticket: Ticket, interest: Interest, revision: Revision) {
        if let Some(lacking) = self.server.lacks(&Method::SubscriptionsListen) {
            return self.settle(ticket, Outcome::Refused(Refusal::Capability(lacking)));
        }
        let mut params = json!({ "notifications": filter(&interest) });
        if !interest.tasks.is_empty() {
            // TSKE-15: who follows tasks says so, whatever its other calls say.
            let mut declared: Value = serde_json::from_slice(&self.config.capabilities).unwrap_or_default();
            declared["extensions"][task::EXTENSION] = json!({});
            params[Param::Meta.name()] = json!({ MetaKey::ClientCapabilities.name(): declared });
        }
        let params = Bytes::from(params.to_string());
        let (method, options) = (Method::SubscriptionsListen, CallOptions::default());
        self.heard.listens.insert(ticket, Listen { interest, subscribing: 0, acknowledged: false });
        self.start(Purpose::Listen(ticket), method, Some(params), options, Some(revision), LaneId::MAIN, 0);
    }

    fn acknowledge(&mut self, ticket: Ticket) {
        let Some(listen) = self.heard.listens.get_mut(&ticket) else { return };
        listen.acknowledged = true;
        let interest = listen.interest.clone();
        self.event(Event::Listening { ticket, interest });
    }

    /// A legacy subscribe call was answered.
    pub(super) fn subscribed(&mut self, ticket: Ticket, outcome: Result<Bytes, Fault>) {
        if let Err(fault) = outcome {
            return self.end_legacy_listen(ticket, Outcome::Fault(fault));
        }
        let Some(listen) = self.heard.listens.get_mut(&ticket) else { return };
        listen.subscribing = listen.subscribing.saturating_sub(1);
        if listen.subscribing == 0 {
            self.acknowledge(ticket);
        }
    }

    /// The server acknowledges a listen, and says what it honours.
    pub(super) fn acknowledged(&mut self, note: &Note) {
        let Some(ticket) = self.listen_of(note) else {
            return self.stray_listen(note);
        };
        let honoured = note.params.decode::<WireListen>().map(|wire| Interest::from(wire.notifications.0));
        if let (Ok(honoured), Some(listen)) = (honoured, self.heard.listens.get_mut(&ticket)) {
            listen.interest = honoured;
        }
        self.acknowledge(ticket);
    }

    /// Something changed on the server.
    pub(super) fn changed(&mut self, note: &Note) {
        let Some(change) = read_change(note) else {
            return self.find(Rule::ParamsShape, None, note.method.to_string());
        };
        if !self.is_modern() {
            return self.changed_legacy(change);
        }
        let Some(ticket) = self.listen_of(note) else {
            return self.stray_listen(note);
        };
        if self.heard.listens.get(&ticket).is_some_and(|listen| !listen.acknowledged) {
            self.find(Rule::ListenUnacknowledged, None, note.method.to_string());
        }
        self.event(Event::Changed { tickets: vec![ticket], change });
    }

    /// Legacy notes name no listen: every matching one hears it, and without one our side still does. One note is one
    /// event, so that whoever watches all of them is told once.
    fn changed_legacy(&mut self, change: Change) {
        let listens = self.heard.listens.iter().filter(|(_, listen)| listen.interest.covers(&change));
        let tickets = listens.map(|(ticket, _)| *ticket).collect();
        self.event(Event::Changed { tickets, change });
    }

    /// A note of no listen: one that was on its way when we gave the listen up, or a stranger.
    fn stray_listen(&mut self, note: &Note) {
        let id = note.params.meta(MetaKey::SubscriptionId);
        let id = id.and_then(|raw| CallId::parse(&raw, self.config.limits.id_bytes).ok());
        let late =
            id.as_ref().and_then(CallId::as_number).is_some_and(|id| self.outbound.grave(id).is_some());
        let rule = if late { Rule::LateReply } else { Rule::ListenUnknown };
        self.find(rule, id, note.method.to_string());
    }

    fn listen_of(&mut self, note: &Note) -> Option<Ticket> {
        let raw = note.params.meta(MetaKey::SubscriptionId)?;
        let id = CallId::parse(&raw, self.config.limits.id_bytes).ok()?.as_number()?;
        match self.outbound.get_mut(id)?.purpose {
            Purpose::Listen(ticket) => Some(ticket),
            _ => None,
        }
    }

    /// The server ended a listen: its result is the graceful end.
    pub(super) fn listen_ended(&mut self, ticket: Ticket, outcome: Result<Bytes, Fault>) {
        self.heard.listens.remove(&ticket);
        self.settle(
            ticket,
            match outcome {
                Ok(result) => Outcome::Done(result),
                Err(fault) => Outcome::Fault(fault),
            },
        );
    }

    /// The server tears a listen down by a cancel note. That is graceful too.
    pub(super) fn listen_torn_down(&mut self, id: i64) -> bool {
        let Some(pending) = self.outbound.get_mut(id) else { return false };
        let Purpose::Listen(ticket) = pending.purpose else { return false };
        // Servers may send the result as well: that one is late, not a second one.
        self.outbound.remove(id, Grave::GivenUp, self.config.limits.tombstones);
        self.listen_ended(ticket, Ok(Bytes::from_static(b"{}")));
        true
    }

    /// Forgets a listen of ours; `false`: it has ended before.
    pub(super) fn drop_listen(&mut self, ticket: Ticket) -> bool {
        self.heard.listens.remove(&ticket).is_some()
    }

    /// Ends a listen of ours that no call of ours carries.
    pub(super) fn cancel_legacy_listen(&mut self, ticket: Ticket, reason: Cow<'static, str>) -> bool {
        if self.is_modern() || !self.heard.listens.contains_key(&ticket) {
            return false;
        }
        self.end_legacy_listen(ticket, Outcome::Cancelled { reason, delivery: Delivery::Sent });
        true
    }

    /// A legacy listen ends, once: what was subscribed for it alone is given back.
    pub(super) fn end_legacy_listen(&mut self, ticket: Ticket, outcome: Outcome) {
        let Some(listen) = self.heard.listens.remove(&ticket) else { return };
        self.settle(ticket, outcome);
        let Some(revision) = self.revision else { return };
        let others: BTreeSet<_> =
            self.heard.listens.values().flat_map(|l| l.interest.uris.iter().cloned()).collect();
        for uri in listen.interest.uris.iter().filter(|uri| !others.contains(*uri)) {
            let params = Bytes::from(json!({ "uri": uri }).to_string());
            self.call_peer(
                LaneId::MAIN,
                Purpose::Errand,
                Method::ResourcesUnsubscribe,
                Some(params),
                revision,
            );
        }
    }

    /// There turned out to be no lane for what legacy listens wait for: who listens is told.
    pub(super) fn refuse_legacy_listens(&mut self) {
        let Some(deaf) = self.carrier.deaf().filter(|_| !self.is_modern()) else { return };
        let tickets: Vec<_> = self.heard.listens.keys().copied().collect();
        for ticket in tickets {
            self.end_legacy_listen(ticket, deaf.clone());
        }
    }

    /// The addresses that a legacy server was asked to watch, and has agreed to.
    pub(super) fn standing_uris(&self) -> BTreeSet<Box<str>> {
        let agreed = self.heard.listens.values().filter(|listen| listen.acknowledged);
        agreed.flat_map(|listen| listen.interest.uris.iter().cloned()).collect()
    }

    /// Listens that no call carries end with the link too.
    pub(super) fn lose_listens(&mut self, cause: &Cause) {
        for (ticket, _) in std::mem::take(&mut self.heard.listens) {
            self.settle(ticket, Outcome::Lost { cause: cause.clone(), delivery: Delivery::Sent });
        }
    }
}

fn read_change(note: &Note) -> Option<Change> {
    Some(match note.method {
        Method::ToolsListChanged => Change::Tools,
        Method::PromptsListChanged => Change::Prompts,
        Method::ResourcesListChanged => Change::Resources,
        Method::ResourcesUpdated => Change::Resource(Updated::read(&note.params)?),
        _ => return None,
    })
}
