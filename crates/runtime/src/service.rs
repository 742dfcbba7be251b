//! What one side does with the calls, asks and notes of the other.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::Note;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::session::event::{Answer, Ask, Called, Event};

use crate::cx::CallCx;

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
    fn ask(&self, ask: Ask) -> Handler<Result<Bytes, Fault>> {
        let fault = Fault::method_not_found(ask.method.name());
        Box::pin(std::future::ready(Err(fault)))
    }

    /// A note that belongs to no call and no listen. Called in order, must not block.
    fn note(&self, note: Note) {
        drop(note);
    }

    /// Everything else that happens: states, findings, logs, changes. Called in order, must not block.
    fn event(&self, event: &Event) {
        let _ = event;
    }
}

/// A side that offers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Service for Silent {}
