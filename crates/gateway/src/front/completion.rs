//! Completion: values for arguments of prompts and templates.

use std::sync::Arc;

use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::cx::CallCx;
use serde::Deserialize;

use super::desk::{Station, quoted};
use crate::catalog::Kind;

/// Values for an argument: by whoever has what it is an argument of.
pub(super) async fn complete(station: &Arc<Station>, cx: CallCx, called: Called) -> Result<Answer, Fault> {
    // The type alone decides what it is about: what else is said could lead to something else.
    #[derive(Deserialize)]
    #[serde(tag = "type")]
    enum Reference {
        #[serde(rename = "ref/prompt")]
        Prompt { name: Box<str> },
        #[serde(rename = "ref/resource")]
        Resource { uri: Box<str> },
    }
    let raw = called.call.params.raw().and_then(|raw| member_of(raw, "ref").ok().flatten());
    let raw = raw.ok_or_else(|| Fault::invalid_params("params.ref: missing"))?;
    let wrong = |error| Fault::invalid_params(format!("params.ref: {error}"));
    let reference: Reference = serde_json::from_slice(&raw).map_err(wrong)?;
    let (upstream, member, own, other) = match &reference {
        Reference::Resource { uri } => {
            let found = match station.find(Kind::Templates, uri).await? {
                Some(found) => Some(found),
                None => station.find(Kind::Resources, uri).await?,
            };
            let Some((upstream, _)) = found else {
                station.missed(&[Kind::Templates, Kind::Resources], uri);
                return Err(Fault::invalid_params(format!("params.ref.uri: unknown template: {uri}")));
            };
            (upstream, "uri", quoted(uri), "name")
        }
        Reference::Prompt { name } => {
            let Some((upstream, own)) = station.find(Kind::Prompts, name).await? else {
                station.missed(&[Kind::Prompts], name);
                return Err(Fault::invalid_params(format!("params.ref.name: unknown prompt: {name}")));
            };
            (upstream, "name", quoted(&own), "uri")
        }
    };
    let edits = [Edit::Set(member, own.as_bytes()), Edit::Drop(other)];
    let reference = splice(&raw, &edits).map_err(|_| Fault::invalid_params("params.ref: not an object"))?;
    let called = station.renamed(called, "ref", &String::from_utf8_lossy(&reference))?;
    station.forward(&upstream, cx, called).await
}
