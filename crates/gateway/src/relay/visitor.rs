//! A legacy client that shares sessions with the upstream: its calls go the way of modern ones, each for itself.
//!
//! It is told what belongs to its calls, the changes that it asked for, and nothing else.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::session::event::{Answer, Called, Change, Interest, LogLevel, Rounds};
use cardan_runtime::cx::CallCx;
use cardan_runtime::peer::Peer;
use tokio::sync::oneshot;

use super::askable::Askable;
use super::guest::{OnChange, announced, empty, tell, uri_of};
use super::modern::Ear;
use super::running::{Held, Plan, Running};
use super::wants::{Following, Wants};
use super::{Core, modern};
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
        let visitor = Self { core, principal, peer, askable, level, wants, instead };
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
            _ => {
                let plan = Plan {
                    asks: called.call.method.may_ask() && self.askable != Askable::NOTHING,
                    askable: self.askable,
                    logs: *lock(&self.level),
                    // What a modern upstream asks by its results is asked here, and its session makes the retry.
                    rounds: Rounds::Ours,
                };
                Running::begin(&self.core, plan, self.principal.clone(), &cx, called, held).await
            }
        };
        answered.unwrap_or_else(Answer::Fault)
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
        let (core, pool) = (Arc::clone(&self.core), self.core.pool(self.principal.as_ref()));
        let (standing, stands) = oneshot::channel();
        let standing = Arc::new(Mutex::new(Some(standing)));
        let told =
            Told { peer: self.peer.clone(), instead: self.instead.clone(), standing: Arc::clone(&standing) };
        let askable = self.askable;
        let following = tokio::spawn(async move {
            let ended = modern::listen(&core, &pool, askable, interest, told).await;
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
