//! The only code that knows what a revision changes.
//!
//! A family of revisions with one lifecycle is an [`Era`]. Lifecycle differences are code, behind
//! one set of verbs: `has` (which methods exist), `dress` (outgoing calls), `seal` (outgoing
//! replies), `unseal` (incoming ones), `ask` (what an ask looks like). Dated details are data: [`mod@gates`].
//! The era is chosen per call and remembered with it, so one link can carry both at once.

pub mod caps;
pub mod gates;
mod legacy;
mod modern;
pub mod probe;
mod revision;

use bytes::Bytes;

pub use self::gates::gates;
pub(crate) use self::legacy::{Handshake, Readiness, handshake, initialize_params, read_initialize_result};
pub use self::modern::unsupported;
pub(crate) use self::modern::{ModernMeta, Said, admit, discover_result, input_required, retry_params};
pub use self::revision::{Era, Revision, Revisions};

use crate::finding::Rule;
use crate::jsonrpc::fault::{Fault, code};
use crate::method::Method;
use crate::session::config::Config;
use crate::session::event::Ask;

/// A reply, seen through its era.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Unsealed {
    /// The call is done.
    Done(Bytes),
    /// The server needs input first.
    Asks(Vec<(Box<str>, Ask)>, Option<Box<str>>),
    /// It is no valid result.
    Broken(Rule),
}

impl Revision {
    /// Does the method exist in this revision?
    #[must_use]
    pub fn has(self, method: &Method) -> bool {
        match self.era() {
            Era::Legacy => legacy::has(method, self),
            Era::Modern => modern::has(method),
        }
    }

    /// The result as this revision writes it.
    pub(crate) fn seal(self, method: &Method, result: Bytes, config: &Config) -> Bytes {
        match self.era() {
            Era::Legacy => legacy::seal(method, result),
            Era::Modern => modern::seal(method, result, config),
        }
    }

    /// The same for a result that is known to have none of the members to be added.
    pub(crate) fn seal_bare(self, method: &Method, result: Bytes, config: &Config) -> Bytes {
        match self.era() {
            Era::Legacy => result,
            Era::Modern if method.is_cacheable() => modern::seal(method, result, config),
            Era::Modern => modern::with_tail(result, config.tail(|| modern::tail(config))),
        }
    }

    /// The fault as this revision writes it: codes that it lacks become those it has.
    pub(crate) fn seal_fault(self, mut fault: Fault) -> Fault {
        match (self.era(), fault.code) {
            (_, code::RESOURCE_NOT_FOUND) => fault.code = gates(self).resource_not_found,
            (Era::Modern, code::URL_ELICITATION_REQUIRED) => fault.code = code::INTERNAL,
            (Era::Legacy, code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION) => {
                fault.code = code::INVALID_REQUEST;
            }
            _ => {}
        }
        fault
    }

    /// The result of a call with `params` as everyone reads it.
    pub(crate) fn unseal(
        self,
        method: &Method,
        params: Option<&Bytes>,
        result: Bytes,
        config: &Config,
    ) -> Unsealed {
        match self.era() {
            Era::Legacy => legacy::unseal(result),
            Era::Modern => modern::unseal(method, params, result, config),
        }
    }

    /// The params of an ask as this revision writes them.
    pub(crate) fn dress_ask(self, ask: &Ask) -> Option<Bytes> {
        let params = ask.params.clone()?;
        let dropped = legacy::ask_members_unknown_to(self);
        Some(crate::jsonrpc::splice::splice(&params, dropped).unwrap_or(params))
    }
}
