//! What one side does with the calls, asks and notes of the other.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::http::param::Mirrors;
use cardan_proto::jsonrpc::envelope::Note;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::session::config::Config;
use cardan_proto::session::event::{Answer, Ask, Called, Event};

use crate::cx::{AskCx, CallCx};
use crate::peer::Peer;
use crate::unfinished::Unfinished;

/// A handler at work.
pub type Handler<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// One side of the conversation.
///
/// A handler's future is polled on the link's own task first; most are ready at once. A panic in it
/// fails its own call and nothing else. When the peer cancels, the future is dropped.
pub trait Service: Send + Sync + 'static {
    /// Server: the peer calls, or goes on with a call whose asks were answered.
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        drop(cx);
        let fault = Fault::method_not_found(called.call.method.name());
        Box::pin(std::future::ready(Answer::Fault(fault)))
    }

    /// Client: the server asks for input.
    fn ask(&self, cx: AskCx, ask: Ask) -> Handler<Result<Bytes, Fault>> {
        drop(cx);
        let fault = Fault::method_not_found(ask.method.name());
        Box::pin(std::future::ready(Err(fault)))
    }

    /// Server: a legacy client has gone on after the handshake, with these capabilities, and says that it is
    /// `identity`. It can be told things and asked through `peer`, outside of its calls too. Must not block.
    fn greeted(&self, peer: Peer, capabilities: &Bytes, identity: Option<&Bytes>) {
        let _ = (peer, capabilities, identity);
    }

    /// A note that belongs to no call and no listen. Called in order, must not block.
    fn note(&self, note: Note) {
        drop(note);
    }

    /// Everything else that happens: states, findings, logs, progress, changes, calls of what was not told of, or
    /// whose headers say something else. Called in order, must not block.
    fn event(&self, event: &Event) {
        let _ = event;
    }
}

/// Tells the application. What it does with it may panic: that is not the end of whoever tells it.
pub fn observe(service: &impl Service, event: &Event) {
    let _ = catch_unwind(AssertUnwindSafe(|| service.event(event)));
}

/// Who serves links: one configuration, and one side of the conversation per principal.
pub trait Host: Send + Sync + 'static {
    /// The side it plays.
    type Service: Service;

    /// How its sessions with one principal are set up; nothing: with whoever it may be.
    fn config(&self, principal: Option<&Arc<str>>) -> Arc<Config>;

    /// Its side towards one principal: one for every link that lasts. Modern calls over HTTP, which know nothing of
    /// each other, may share one.
    fn service(&self, principal: Option<&Arc<str>>) -> Arc<Self::Service>;

    /// There is a link whose peer wants to hear of changes and of the end.
    fn joined(&self, peer: Peer, principal: Option<&Arc<str>>);

    /// No more links will come: those that joined end when what runs there is done.
    fn close(&self, reason: &'static str) {
        let _ = reason;
    }

    /// Calls that wait here for their clients to come back. The end waits for them, within its time.
    fn unfinished(&self) -> Unfinished {
        Unfinished::default()
    }

    /// What headers mirror of a tool's arguments; nothing: no such tool for this principal, or none of it.
    fn mirrors(&self, tool: &str, principal: Option<&Arc<str>>) -> Option<Arc<Mirrors>> {
        let _ = (tool, principal);
        None
    }

    /// What becomes of headers of parameters that nothing here mirrors.
    fn strays(&self) -> StrayHeaders {
        StrayHeaders::Ignored
    }
}

/// What becomes of headers that nothing here mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrayHeaders {
    /// Nobody looks at them.
    Ignored,
    /// They come with their call, for whoever is behind.
    Passed,
}

/// A side that offers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Service for Silent {}
