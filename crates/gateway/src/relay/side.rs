//! The upstream, as one link sees it.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use cardan_client::Managed;
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::envelope::Note;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::session::event::{Answer, Called, Interest, LogLevel};
use cardan_runtime::cx::CallCx;
use cardan_runtime::peer::Peer;
use cardan_runtime::service::{Handler, Service};

use super::guest::{Guest, OnChange};
use super::held::Held;
use super::modern::Ear;
use super::visitor::Visitor;
use super::{Core, Isolation, modern};
use crate::fleet::lock;
use crate::trace::{self, SessionName};

/// A relay at one link, for one principal.
pub struct Side {
    core: Arc<Core>,
    principal: Option<Arc<str>>,
    /// The legacy client at this link; nothing inside: there were too many.
    guest: OnceLock<Option<Sitting>>,
    /// Who is told of changes, in place of the client.
    instead: Mutex<Option<OnChange>>,
    /// What the session of the legacy client is called in traces.
    session: SessionName,
}

/// How a legacy client sits here.
enum Sitting {
    /// With a session of its own.
    Guest(Arc<Guest>),
    /// With sessions that it shares.
    Visitor(Arc<Visitor>),
}

impl Side {
    pub(super) fn new(core: Arc<Core>, principal: Option<Arc<str>>) -> Self {
        let (guest, instead, session) = (OnceLock::new(), Mutex::default(), SessionName::default());
        Self { core, principal, guest, instead, session }
    }

    /// What the upstream tells of changes is told to `instead`, and not to the legacy client that comes. Before it does.
    pub(crate) fn intercept(&self, instead: OnChange) {
        *lock(&self.instead) = Some(instead);
    }

    /// The connection that is the legacy client's own.
    pub(crate) fn own(&self) -> Option<Managed> {
        match self.guest.get()?.as_ref()? {
            Sitting::Guest(guest) => Some(guest.managed()),
            Sitting::Visitor(_) => None,
        }
    }

    /// Answers a call that occupies something elsewhere while it runs.
    pub(crate) fn call_holding(&self, cx: CallCx, called: Called, held: Held) -> Handler<Answer> {
        match (called.revision.era(), self.guest()) {
            (Era::Modern, _) => {
                Box::pin(modern::call(Arc::clone(&self.core), self.principal.clone(), cx, called, held))
            }
            (Era::Legacy, Ok(Sitting::Visitor(visitor))) => {
                Box::pin(Arc::clone(visitor).call(cx, called, held))
            }
            (Era::Legacy, Ok(Sitting::Guest(guest))) => {
                let guest = Arc::clone(guest);
                Box::pin(async move {
                    let answer = guest.call(cx, called, &held.bar).await;
                    drop(held);
                    answer
                })
            }
            (Era::Legacy, Err(fault)) => Box::pin(std::future::ready(Answer::Fault(fault))),
        }
    }

    /// Subscribes the legacy client to a resource.
    pub(crate) async fn subscribe(&self, uri: &str) -> Result<(), Fault> {
        match self.guest()? {
            Sitting::Guest(guest) => guest.subscribe(uri).await,
            Sitting::Visitor(visitor) => visitor.subscribe(uri).await,
        }
    }

    /// Ends that.
    pub(crate) async fn unsubscribe(&self, uri: &str) -> Result<(), Fault> {
        match self.guest()? {
            Sitting::Guest(guest) => guest.unsubscribe(uri).await,
            Sitting::Visitor(visitor) => visitor.unsubscribe(uri).await,
        }
    }

    /// The legacy client gets log notes of this level and above, from now on.
    pub(crate) fn set_level(&self, level: LogLevel) {
        match self.guest() {
            Ok(Sitting::Guest(guest)) => guest.set_level(level),
            Ok(Sitting::Visitor(visitor)) => visitor.set_level(level),
            Err(_) => {}
        }
    }

    fn guest(&self) -> Result<&Sitting, Fault> {
        let guest = self.guest.get().and_then(Option::as_ref);
        guest.ok_or_else(|| Fault::new(code::BUSY, "too many clients have sessions here; try again later"))
    }

    /// Is there a legacy client, and room for it?
    pub(crate) fn is_seated(&self) -> bool {
        self.guest().is_ok()
    }

    /// Listens for a modern client with these capabilities, for as long as this is polled.
    pub(crate) async fn listen(
        &self,
        capabilities: &Bytes,
        interest: Interest,
        ear: impl Ear,
    ) -> Result<(), Fault> {
        let askable = modern::askable(&self.core, capabilities);
        modern::listen(&self.core, self.principal.as_ref(), askable, interest, ear).await.map(drop)
    }
}

impl Service for Side {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        let options = &self.core.options;
        match &options.trace {
            None => self.call_holding(cx, called, Held::default()),
            Some(tracer) => trace::relayed(tracer, &self.session, &options.limits, called, |called| {
                self.call_holding(cx, called, Held::default())
            }),
        }
    }

    fn greeted(&self, peer: Peer, capabilities: &Bytes, identity: Option<&Bytes>) {
        let instead = lock(&self.instead).take();
        self.guest.get_or_init(|| match self.core.options.isolation {
            Isolation::Client => {
                Guest::open(&self.core, self.principal.as_ref(), peer, capabilities, identity, instead)
                    .map(Sitting::Guest)
            }
            Isolation::Shared | Isolation::Principal | Isolation::Call => {
                let (core, principal) = (Arc::clone(&self.core), self.principal.clone());
                Some(Sitting::Visitor(Visitor::open(core, principal, peer, capabilities, instead)))
            }
        });
    }

    fn note(&self, note: Note) {
        // What a client tells of itself concerns no session that others share.
        if let Some(Some(Sitting::Guest(guest))) = self.guest.get() {
            guest.tell(note);
        }
    }
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Side").field("principal", &self.principal).finish_non_exhaustive()
    }
}
