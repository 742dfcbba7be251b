//! The tutorial dialect: shorter names, a call that says goodbye, events without a kind.
//!
//! What stands here beside the translation are the pure parts of its HTTP form: which stream a POST
//! belongs to, and what is answered when there is none.

use ::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use serde::Deserialize;

use super::Translated;
use super::quirk::Quirk;
use crate::http::headers::{X_CLIENT_ID, single_text};
use crate::jsonrpc::envelope::{Call, Envelope, Param, Params};
use crate::jsonrpc::fault::{Fault, code};
use crate::jsonrpc::splice::{Edit, splice};
use crate::method::Method;
use crate::session::config::{Config, Role};
use crate::session::event::Outgoing;

/// The note after the handshake, as the tutorial names it.
pub const INITIALIZED: &str = "initialized";

/// The call that the tutorial makes before it leaves. It is in no revision.
pub const SHUTDOWN: &str = "shutdown";

/// The member of a query that names the stream, as the published transport has it.
pub const STREAM_QUERY: &str = "sessionId";

/// Is this the goodbye?
pub(crate) fn is_shutdown(method: &Method) -> bool {
    matches!(method, Method::Other(name) if **name == *SHUTDOWN)
}

/// The sample server answers notes, and does not know ours. Such an answer has no id, so it would
/// be taken for that of a call.
pub(super) fn inbound(frame: &Bytes, config: &Config) -> Translated<Bytes> {
    #[derive(Deserialize)]
    struct Wire {
        id: Option<serde_json::Value>,
        error: Option<Head>,
    }
    #[derive(Deserialize)]
    struct Head {
        code: i64,
    }
    let unknown = |wire: &Wire| wire.error.as_ref().is_some_and(|e| e.code == code::METHOD_NOT_FOUND);
    match serde_json::from_slice::<Wire>(frame) {
        Ok(wire) if config.role == Role::Client && wire.id.is_none() && unknown(&wire) => {
            Translated::nothing(Quirk::NoteAnswered)
        }
        _ => Translated::as_is(frame.clone()),
    }
}

pub(super) fn outbound(message: Outgoing) -> Translated<Outgoing> {
    match message {
        Outgoing::One(Envelope::Note(mut note)) if note.method == Method::Initialized => {
            note.method = Method::Other(INITIALIZED.into());
            Translated::by(Quirk::InitializedSent, Outgoing::One(Envelope::Note(note)))
        }
        Outgoing::One(Envelope::Call(call)) if is_shutdown(&call.method) => {
            Translated::by(Quirk::ShutdownSent, Outgoing::One(Envelope::Call(call)))
        }
        Outgoing::One(Envelope::Call(call)) if call.method == Method::ToolsCall => with_arguments(call),
        other => Translated::as_is(other),
    }
}

/// The sample server reads `arguments` without looking whether they are there.
fn with_arguments(call: Call) -> Translated<Outgoing> {
    let raw = call.params.raw().cloned().unwrap_or_else(|| Bytes::from_static(b"{}"));
    match splice(&raw, &[Edit::Default(Param::Arguments.name(), b"{}")]) {
        Ok(params) if params.len() > raw.len() => {
            let call = Call { params: Params::outgoing(params), ..call };
            Translated::by(Quirk::ArgumentsAlways, Outgoing::One(Envelope::Call(call)))
        }
        _ => Translated::as_is(Outgoing::One(Envelope::Call(call))),
    }
}

/// The stream that a POST belongs to: by the tutorial's header, else by the query that the
/// `endpoint` event gave out. Ids are compared as text, whatever they look like.
#[must_use]
pub fn stream_of<'a>(headers: &'a HeaderMap, query: Option<&'a str>) -> Option<&'a str> {
    match single_text(&X_CLIENT_ID, headers) {
        Ok(Some(id)) => return Some(id),
        // Two headers name two streams: neither is safe to pick.
        Err(_) => return None,
        Ok(None) => {}
    }
    let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(name, _)| *name == STREAM_QUERY).map(|(_, id)| id).next()
}

/// The answer to a POST whose stream does not exist: nothing was executed.
#[must_use]
pub fn unknown_stream() -> (StatusCode, Fault) {
    let message = format!("no open stream has this id; open one and send its id as {X_CLIENT_ID}");
    (StatusCode::NOT_FOUND, Fault::new(code::INVALID_REQUEST, message))
}
