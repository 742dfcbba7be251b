//! Cancelling a call.

use serde::{Deserialize, Serialize};

use super::meta::Meta;
use crate::jsonrpc::id::CallId;

/// Params of the cancel note.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelledParams {
    /// The call. 2025-11-25 allows to leave it out, for tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<CallId>,
    /// Why, for logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CancelledParams {
    /// For one call.
    #[must_use]
    pub fn of(id: CallId, reason: Option<String>) -> Self {
        Self { request_id: Some(id), reason, meta: None }
    }
}
