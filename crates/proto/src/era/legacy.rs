//! The legacy era: a handshake, then a session with state on both sides.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::gates::{Elicitation, Tasks, gates};
use super::revision::{Era, Revision};
use super::{Unsealed, caps};
use crate::finding::Rule;
use crate::jsonrpc::envelope::Params;
use crate::jsonrpc::fault::Fault;
use crate::jsonrpc::object::Object;
use crate::jsonrpc::splice::{Edit, splice};
use crate::jsonrpc::write;
use crate::method::Method;
use crate::session::config::Config;

/// Does the method exist in this revision?
pub(super) fn has(method: &Method, revision: Revision) -> bool {
    let gates = gates(revision);
    match method {
        Method::Discover
        | Method::SubscriptionsListen
        | Method::SubscriptionsAcknowledged
        | Method::TasksUpdate
        | Method::SkillsList
        | Method::SkillsGet
        | Method::DirectoryRead
        | Method::Tasks => false,
        Method::ElicitationCreate => gates.elicitation != Elicitation::Absent,
        Method::ElicitationComplete => gates.elicitation == Elicitation::FormAndUrl,
        Method::TasksGet
        | Method::TasksCancel
        | Method::TasksResult
        | Method::TasksList
        | Method::TasksStatus => gates.tasks == Tasks::Core,
        _ => true,
    }
}

/// Members that only the modern era knows are taken out where they can occur.
pub(super) fn seal(method: &Method, result: Bytes) -> Bytes {
    if !method.is_cacheable() {
        return result;
    }
    let edits = [Edit::Drop("ttlMs"), Edit::Drop("cacheScope"), Edit::Drop("resultType")];
    splice(&result, &edits).unwrap_or(result)
}

/// A legacy result is whatever object came.
pub(super) fn unseal(result: Bytes) -> Unsealed {
    if result.first() == Some(&b'{') { Unsealed::Done(result) } else { Unsealed::Broken(Rule::ResultType) }
}

/// Members of an ask that this revision does not have.
pub(super) fn ask_members_unknown_to(revision: Revision) -> &'static [Edit<'static>] {
    match (revision.era(), gates(revision).elicitation) {
        (Era::Modern, _) => &[Edit::Drop("elicitationId"), Edit::Drop("task")],
        (Era::Legacy, Elicitation::FormAndUrl) => &[],
        (Era::Legacy, _) => {
            &[Edit::Drop("mode"), Edit::Drop("elicitationId"), Edit::Drop("tools"), Edit::Drop("toolChoice")]
        }
    }
}

/// The client's first message.
pub(crate) fn initialize_params(config: &Config, revision: Revision) -> Bytes {
    let mut out = Vec::with_capacity(128 + config.capabilities.len() + config.identity.len());
    out.extend_from_slice(b"{\"protocolVersion\":");
    write::string(revision.date(), &mut out);
    out.extend_from_slice(b",\"capabilities\":");
    out.extend_from_slice(&config.capabilities);
    out.extend_from_slice(b",\"clientInfo\":");
    out.extend_from_slice(&config.identity);
    out.push(b'}');
    Bytes::from(out)
}

/// What the server keeps of a handshake.
#[derive(Debug, Clone)]
pub(crate) struct Handshake {
    /// Settled by the server.
    pub(crate) revision: Revision,
    /// What the client can do, in this revision.
    pub(crate) capabilities: Bytes,
    /// Who it says it is, until our side was told.
    pub(crate) identity: Option<Bytes>,
    /// Has the client gone on?
    pub(crate) readiness: Readiness,
}

/// Whether a client went on after our answer. Until then it is sent nothing but pings and log notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Not yet.
    Awaited,
    /// It said so, or called something.
    Told,
}

/// Answers `initialize`: the offered revision if we speak it, else our newest with a handshake.
pub(crate) fn handshake(params: &Params, config: &Config) -> Result<(Handshake, Bytes), Fault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        protocol_version: String,
        #[serde(borrow)]
        capabilities: Option<&'a RawValue>,
        #[serde(borrow)]
        client_info: Option<&'a RawValue>,
    }
    let wire: Wire<'_> = params.decode().map_err(|error| {
        Fault::invalid_params(format!(
            "initialize: {error}; send protocolVersion, capabilities and clientInfo"
        ))
    })?;
    let offered = Revision::parse(&wire.protocol_version)
        .filter(|r| r.era() == Era::Legacy && config.revisions.has(*r));
    // VER-13: never a revision that has no handshake.
    let Some(revision) = offered.or_else(|| config.revisions.newest(Era::Legacy)) else {
        return Err(super::modern::unsupported(&wire.protocol_version, config));
    };
    let capabilities = wire.capabilities.map_or("{}", RawValue::get);
    let shake = Handshake {
        revision,
        capabilities: caps::declared_in(revision, Bytes::copy_from_slice(capabilities.as_bytes())),
        identity: wire.client_info.map(|info| Bytes::copy_from_slice(info.get().as_bytes())),
        readiness: Readiness::Awaited,
    };
    Ok((shake, initialize_result(config, revision)))
}

fn initialize_result(config: &Config, revision: Revision) -> Bytes {
    let mut out = Vec::with_capacity(160 + config.capabilities.len() + config.identity.len());
    out.extend_from_slice(b"{\"protocolVersion\":");
    write::string(revision.date(), &mut out);
    out.extend_from_slice(b",\"capabilities\":");
    out.extend_from_slice(&legacy_capabilities(config, revision));
    out.extend_from_slice(b",\"serverInfo\":");
    out.extend_from_slice(&config.identity);
    if let Some(instructions) = &config.instructions {
        out.extend_from_slice(b",\"instructions\":");
        out.extend_from_slice(instructions);
    }
    out.push(b'}');
    Bytes::from(out)
}

/// `extensions` came with the modern era; `completions` and `tasks` with revisions of their own.
fn legacy_capabilities(config: &Config, revision: Revision) -> Bytes {
    let gates = gates(revision);
    let mut edits = vec![Edit::Drop("extensions")];
    if !gates.completions_capability {
        edits.push(Edit::Drop("completions"));
    }
    if gates.tasks != Tasks::Core {
        edits.push(Edit::Drop("tasks"));
    }
    splice(&config.capabilities, &edits).unwrap_or_else(|_| config.capabilities.clone())
}

/// What the client learns from the answer: the date as spelled, and the server's capabilities.
pub(crate) fn read_initialize_result(result: &Bytes) -> Option<(String, Bytes)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        protocol_version: String,
        #[serde(borrow)]
        capabilities: Option<&'a RawValue>,
    }
    let Object(wire) = serde_json::from_slice::<Object<Wire<'_>>>(result).ok()?;
    let capabilities =
        wire.capabilities.map_or_else(|| Bytes::from_static(b"{}"), |c| result.slice_ref(c.get().as_bytes()));
    Some((wire.protocol_version, capabilities))
}
