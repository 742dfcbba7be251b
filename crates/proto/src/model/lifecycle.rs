//! Who we are and what we speak: the legacy handshake and the modern discovery.

use serde::{Deserialize, Serialize};

use super::cache::cacheable_result;
use super::capability::{ClientCapabilities, ServerCapabilities};
use super::content::Icon;
use super::meta::Meta;

/// A piece of software that speaks the protocol.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// For programs.
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Of the software, not of the protocol.
    pub version: String,
    /// Since 2025-11-25: what it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Since 2025-11-25: where to read about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Since 2025-11-25: what it looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
}

impl Implementation {
    /// By name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }
}

/// Legacy: params of the first call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The newest revision that the client speaks.
    pub protocol_version: String,
    /// What the client can do.
    pub capabilities: ClientCapabilities,
    /// Who the client is.
    pub client_info: Implementation,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Legacy: result of the first call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The revision that the session speaks.
    pub protocol_version: String,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// Who the server is.
    pub server_info: Implementation,
    /// How to use the server, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

cacheable_result! {
    /// Modern: what a server says about itself. Its metadata names the server.
    DiscoverResult {
        /// The revisions that the server speaks.
        supported_versions: Vec<String>,
        /// What the server can do.
        capabilities: ServerCapabilities,
        /// How to use the server, for the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    }
}

/// Data of the fault that refuses a revision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnsupportedVersion {
    /// What the server speaks.
    pub supported: Vec<String>,
    /// What the client asked for.
    pub requested: String,
}
