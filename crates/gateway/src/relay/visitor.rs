//! A legacy client that shares sessions with the upstream: its calls go the way of modern ones, each for itself.
//!
//! It is told what belongs to its calls, the changes that it asked for, and nothing else.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::Params;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Answer, Called, Change, Interest, LogLevel, Rounds};
use cardan_proto::task::cross;
use cardan_runtime::cx::CallCx;
use cardan_runtime::peer::Peer;
use serde_json::Value;
use tokio::sync::oneshot;

use super::askable::Askable;
use super::guest::{OnChange, announced, empty, tell, uri_of};
use super::held::Held;
use super::modern::Ear;
use super::pool::{Lease, Need};
use super::running::{Plan, Running, Words};
use super::tasks::{self, Crossing, Legacy, Made, Owner};
use super::wants::{Following, Wants};
use super::{Core, modern, terms};
use crate::fleet::lock;

/// A legacy client.
pub(super) struct Visitor {
    core: Arc<Core>,
    principal: Option<Arc<str>>,
    peer: Peer,
    /// What it can be asked.
    askable: Askable,
    /// The log notes that it wants with its calls; none until it says so, since they take a session for each.
    level: Mutex<Option<LogLevel>>,
    wants: Wants,
    /// Who is told of changes, in place of the client.
    instead: Option<OnChange>,
    /// Whose the tasks are that it makes.
    owner: Owner,
    /// What it can be asked, and the task extension.
    declared: Value,
}

impl Visitor {
    pub(super) fn open(
        core: Arc<Core>,
        principal: Option<Arc<str>>,
        peer: Peer,
        capabilities: &Bytes,
        instead: Option<OnChange>,
    ) -> Arc<Self> {
        // Who is told in place of the client hears it from what is shared already.
        let interest = match instead {
            Some(_) => Interest::default(),
            None => announced(core.config().server_caps()),
        };
        let wants = Wants::new(interest.clone(), core.options.limits.listen_uris);
        let (askable, level) = (Askable::of(capabilities), Mutex::default());
        let session = core.tasks.ledger.session();
        let owner = Owner { session, ..Owner::of(principal.as_ref()) };
        let declared = tasks::declared(askable.capabilities());
        let visitor = Self { core, principal, peer, askable, level, wants, instead, owner, declared };
        if interest != Interest::default() {
            visitor.wants.begin(visitor.follow(interest).0);
        }
        Arc::new(visitor)
    }

    /// Answers one of its calls.
    pub(super) async fn call(self: Arc<Self>, cx: CallCx, called: Called, held: Held) -> Answer {
        let answered = match called.call.method {
            Method::ResourcesSubscribe => self.subscribe(&uri_of(&called)).await.map(|()| empty()),
            Method::ResourcesUnsubscribe => self.unsubscribe(&uri_of(&called)).await.map(|()| empty()),
            Method::LoggingSetLevel => {
                self.set_level(called.log_level.unwrap_or(LogLevel::Info));
                Ok(empty())
            }
            // Where there are no tasks, nothing more is looked at.
            _ if self.core.design().is_none() => self.pass_on(&cx, called, held, Words::Clients).await,
            _ => self.with_tasks(cx, called, held).await,
        };
        answered.unwrap_or_else(Answer::Fault)
    }

    async fn pass_on(&self, cx: &CallCx, called: Called, held: Held, words: Words) -> Result<Answer, Fault> {
        let plan = Plan {
            asks: called.call.method.may_ask() && self.askable != Askable::NOTHING,
            askable: self.askable,
            logs: *lock(&self.level),
            // What a modern upstream asks by its results is asked here, and its session makes the retry.
            rounds: Rounds::Ours,
            words,
            session: self.owner.session,
        };
        Running::begin(&self.core, plan, self.principal.clone(), cx, called, held).await
    }

    /// The same where the upstream has tasks, in the one design or the other.
    async fn with_tasks(&self, cx: CallCx, called: Called, held: Held) -> Result<Answer, Fault> {
        let tasks = &self.core.tasks;
        match tasks::crossing(&called, self.core.design())? {
            Crossing::Nothing => {
                tasks.admit_new(&called, &self.owner)?;
                self.pass_on(&cx, called, held, Words::Clients).await
            }
            Crossing::Same => {
                tasks.admit(&called.call, &self.owner)?;
                self.pass_on(&cx, called, held, Words::Clients).await
            }
            Crossing::Tools => {
                let answer = self.pass_on(&cx, called, held, Words::Clients).await?;
                Ok(terms::mapped(answer, |page| cross::optional_tools(&page)))
            }
            Crossing::About => {
                let lease = self.lease().await?;
                self.legacy(&lease, cx).about(&called.call).await
            }
            Crossing::Make(wish) => {
                tasks.ledger.room(&self.owner)?;
                let result = self.declaring(&cx, called, held).await?;
                let made = Made::of(tasks, &self.owner, &wish, result)?;
                // The task is there, whether it can be followed or not.
                if let Ok(lease) = self.lease().await {
                    self.legacy(&lease, cx).follow(&made);
                }
                made.answer(tasks)
            }
            Crossing::Plain => {
                let again = Held::default().unless(&held.bar);
                match self.pass_on(&cx, called.clone(), held, Words::Clients).await? {
                    // The tool runs as a task only: it does, and whoever wants none waits for it.
                    Answer::Fault(fault) if cross::needs_extension(&fault) => {
                        let result = self.declaring(&cx, called, again).await?;
                        let lease = self.lease().await?;
                        self.legacy(&lease, cx).waited(result).await
                    }
                    answer => Ok(answer),
                }
            }
        }
    }

    /// Makes a call that may be answered with a task.
    async fn declaring(&self, cx: &CallCx, mut called: Called, held: Held) -> Result<Bytes, Fault> {
        let params = tasks::declaring(called.call.params.raw().cloned(), &self.declared);
        let params = Params::scan(params, &self.core.options.limits);
        called.call.params = params.map_err(|_| Fault::invalid_params("params: not an object"))?;
        match self.pass_on(cx, called, held, Words::Upstreams).await? {
            Answer::Done(result) | Answer::Bare(result) | Answer::Sealed(result) => Ok(result),
            Answer::Fault(fault) => Err(fault),
            Answer::Ask(_) => Err(Fault::internal("the call asks in a way that a legacy client has not")),
        }
    }

    /// The right to a line of a modern server, which calls about tasks share. It stands for no call in particular: what was not
    /// answered spoils none but a legacy line.
    async fn lease(&self) -> Result<Lease, Fault> {
        let lease = self.core.pool(self.principal.as_ref()).take(self.askable, Need::Any).await?;
        let (opening, again) = (self.core.options.opening, self.core.options.grace());
        let ready = lease.shared.line.ready(opening, again).await;
        ready.map_err(|error| self.core.who.unreachable(&error))?;
        Ok(lease)
    }

    fn legacy(&self, lease: &Lease, cx: CallCx) -> Legacy<'_> {
        let (owner, at) = (self.owner.clone(), lease.shared.line.managed.clone());
        Legacy { tasks: &self.core.tasks, owner, at, declared: &self.declared, cx }
    }

    /// Log notes of this level and above, from now on.
    pub(super) fn set_level(&self, level: LogLevel) {
        *lock(&self.level) = Some(level);
    }

    pub(super) async fn subscribe(&self, uri: &str) -> Result<(), Fault> {
        self.wants.add(uri, async |interest| self.listen(interest).await).await
    }

    pub(super) async fn unsubscribe(&self, uri: &str) -> Result<(), Fault> {
        self.wants.remove(uri, async |interest| self.listen(interest).await).await
    }

    /// Listens, and waits until it stands; not for ever, since whoever else subscribes waits meanwhile.
    async fn listen(&self, interest: Interest) -> Result<(Following, Interest), Fault> {
        let (following, stands) = self.follow(interest);
        let patience = self.core.options.limits.call_idle_timeout;
        match tokio::time::timeout(patience, stands).await {
            Ok(Ok(stands)) => Ok((following, stands?)),
            // It ended without having stood.
            Ok(Err(_)) | Err(_) => Err(self.core.who.silent()),
        }
    }

    fn follow(&self, interest: Interest) -> (Following, oneshot::Receiver<Result<Interest, Fault>>) {
        let (core, principal) = (Arc::clone(&self.core), self.principal.clone());
        let (standing, stands) = oneshot::channel();
        let standing = Arc::new(Mutex::new(Some(standing)));
        let told =
            Told { peer: self.peer.clone(), instead: self.instead.clone(), standing: Arc::clone(&standing) };
        let askable = self.askable;
        let following = tokio::spawn(async move {
            let ended = modern::listen(&core, principal.as_ref(), askable, interest, told).await;
            if let (Err(fault), Some(standing)) = (ended, lock(&standing).take()) {
                // Nobody waits where it was not asked for.
                let _ = standing.send(Err(fault));
            }
        });
        (Following(following), stands)
    }
}

/// Is told how a listen stands.
type Standing = oneshot::Sender<Result<Interest, Fault>>;

/// Tells the client what a listen brings.
#[derive(Clone)]
struct Told {
    peer: Peer,
    instead: Option<OnChange>,
    standing: Arc<Mutex<Option<Standing>>>,
}

impl Ear for Told {
    fn listening(&self, interest: Interest) {
        if let Some(standing) = lock(&self.standing).take() {
            // Nobody waits where it was not asked for.
            let _ = standing.send(Ok(interest));
        }
    }

    fn change(&self, change: Change) {
        tell(change, &self.peer, self.instead.as_ref());
    }
}
