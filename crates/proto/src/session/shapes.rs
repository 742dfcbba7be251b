//! Client: does a result have the shape of its method? Looked at where that is wanted, while it is known which frame brought it.

use bytes::Bytes;

use super::Session;
use super::config::Shapes;
use crate::finding::{Rule, Strictness};
use crate::jsonrpc::id::CallId;
use crate::method::Method;
use crate::model::shape;

impl Session {
    /// Records how a result deviates from its shape. No: it must not be used, because the session is strict.
    pub(super) fn may_use(&mut self, id: i64, method: &Method, result: &Bytes) -> bool {
        if self.config.shapes == Shapes::Trusted {
            return true;
        }
        let flaws = shape::flaws(method, result, self.config.limits.excerpt_bytes);
        for flaw in &flaws {
            self.find(Rule::ResultShape, Some(CallId::from(id)), format!("{method}: {flaw}"));
        }
        flaws.is_empty() || self.config.strictness != Strictness::Strict
    }
}
