//! From one side's terms to the other's: params, options, outcomes.

use std::time::Duration;

use bytes::Bytes;
use cardan_proto::era::Era;
use cardan_proto::http::stray::Strays;
use cardan_proto::jsonrpc::envelope::{MetaKey, Param, Params};
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::jsonrpc::splice::{Edit, splice};
use cardan_proto::method::Method;
use cardan_proto::session::event::{Answer, CallOptions, Called, LogLevel, Outcome, Rounds, Steps, Wanted};
use serde_json::Value;

use super::who::Who;

/// How a client's call is made upstream. It waits as long as the client does, since who leaves cancels; or, where the
/// server may only be `silent` for so long, until then. Progress puts that off, as often as it comes. One whose link was lost
/// before it could be sent waits for the next as long as `unlinked` says.
pub(super) fn options(
    progress: Wanted,
    rounds: Rounds,
    silent: Option<Duration>,
    unlinked: Option<Duration>,
) -> CallOptions {
    let never = Duration::ZERO;
    let (idle, total) = (Some(silent.unwrap_or(never)), Some(never));
    CallOptions { idle, total, unlinked, progress, steps: Steps::Whole, rounds, ..CallOptions::default() }
}

/// What is to go beside a call, to an upstream of this era. Only a modern one could have asked for it.
pub(super) fn strays(called: &Called, upstream: Era) -> Option<Strays> {
    match upstream {
        Era::Modern => called.call.strays.clone(),
        Era::Legacy => None,
    }
}

/// The params of a call for an upstream of this era: raw, but without what only the client's era means. Where a session
/// had said which log notes are wanted, the call says it.
pub(super) fn params(called: &Called, upstream: Era, logs: Option<LogLevel>) -> Option<Bytes> {
    let raw = called.call.params.raw().cloned();
    match (called.revision.era(), upstream, logs) {
        (Era::Modern, Era::Legacy, _) => raw.map(|raw| without_modern_members(&called.call.params, raw)),
        (Era::Legacy, Era::Modern, Some(level)) => Some(with_level(&called.call.params, raw, level)),
        (Era::Modern, Era::Modern, None) if called.log_level.is_some() => {
            raw.map(|raw| without_level(&called.call.params, raw))
        }
        _ => raw,
    }
}

/// Nobody could tell whose the notes are.
fn without_level(params: &Params, raw: Bytes) -> Bytes {
    let meta =
        params.get(Param::Meta).and_then(|meta| splice(&meta, &[Edit::Drop(MetaKey::LogLevel.name())]).ok());
    let spliced = meta.and_then(|meta| splice(&raw, &[Edit::Set(Param::Meta.name(), &meta)]).ok());
    spliced.unwrap_or(raw)
}

fn with_level(params: &Params, raw: Option<Bytes>, level: LogLevel) -> Bytes {
    let empty = || Bytes::from_static(b"{}");
    let (raw, meta) = (raw.unwrap_or_else(empty), params.get(Param::Meta).unwrap_or_else(empty));
    let level = Value::from(level.name()).to_string();
    let meta = splice(&meta, &[Edit::Set(MetaKey::LogLevel.name(), level.as_bytes())]);
    let spliced = meta.and_then(|meta| splice(&raw, &[Edit::Set(Param::Meta.name(), &meta)]));
    spliced.unwrap_or(raw)
}

/// A server of both eras would take a call with such members for a modern one.
fn without_modern_members(params: &Params, raw: Bytes) -> Bytes {
    let own = [MetaKey::ProtocolVersion, MetaKey::ClientCapabilities, MetaKey::ClientInfo, MetaKey::LogLevel];
    let retried =
        [Param::InputResponses, Param::RequestState].into_iter().any(|key| params.get(key).is_some());
    if !retried
        && params.meta_says_only(&own)
        && let Some(bare) = params.cut(Param::Meta)
    {
        return bare;
    }
    let meta = params.get(Param::Meta).and_then(|meta| {
        let bare = splice(&meta, &own.map(|key| Edit::Drop(key.name()))).ok()?;
        (bare != "{}").then_some(bare)
    });
    let meta = match &meta {
        Some(meta) => Edit::Set(Param::Meta.name(), meta),
        None => Edit::Drop(Param::Meta.name()),
    };
    let edits = [meta, Edit::Drop(Param::InputResponses.name()), Edit::Drop(Param::RequestState.name())];
    splice(&raw, &edits).unwrap_or(raw)
}

/// The answer to a client, from how its call ended at `who`.
pub(super) fn answer(outcome: Outcome, method: &Method, client: Era, upstream: Era, who: &Who) -> Answer {
    match outcome {
        Outcome::Done(result) => match (client, upstream) {
            (Era::Modern, Era::Modern) => Answer::Sealed(result),
            (Era::Legacy, Era::Modern) => Answer::Bare(without_seal(result)),
            (_, Era::Legacy) => Answer::Done(result),
        },
        Outcome::Fault(mut fault) => {
            if *method == Method::ResourcesRead && fault.is_resource_not_found() {
                // Each era has a code for it, and the session knows which.
                fault.code = code::RESOURCE_NOT_FOUND;
            }
            if upstream == Era::Legacy && fault.names_capabilities() {
                // The same: the modern era has a code for it, and the session knows what a legacy client gets.
                fault.code = code::MISSING_CAPABILITY;
            }
            Answer::Fault(fault)
        }
        other => Answer::Fault(who.fault(&other, method)),
    }
}

/// An answer with another result.
pub(super) fn mapped(answer: Answer, by: impl FnOnce(Bytes) -> Bytes) -> Answer {
    match answer {
        Answer::Done(result) => Answer::Done(by(result)),
        Answer::Bare(result) => Answer::Bare(by(result)),
        other => other,
    }
}

/// A modern result without what only the modern era means.
pub(super) fn without_seal(result: Bytes) -> Bytes {
    let edits = [Edit::Drop("resultType"), Edit::Drop("ttlMs"), Edit::Drop("cacheScope")];
    splice(&result, &edits).unwrap_or(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trace context and foreign members stay; what would make a legacy call modern goes.
    #[test]
    fn modern_members_do_not_reach_a_legacy_upstream() {
        for (given, left) in [
            (
                r#"{"name":"t","_meta":{"traceparent":"00-1","io.modelcontextprotocol/protocolVersion":"x","io.modelcontextprotocol/clientCapabilities":{}},"requestState":"s","n":1.50}"#,
                r#"{"name":"t","_meta":{"traceparent":"00-1"},"n":1.50}"#,
            ),
            (r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{}},"inputResponses":{}}"#, "{}"),
            (
                r#"{"name":"t","_meta":{"io.modelcontextprotocol/clientInfo":{}},"n":1.50}"#,
                r#"{"name":"t","n":1.50}"#,
            ),
            (r#"{"\u005fmeta":{"io.modelcontextprotocol/clientInfo":{}},"n":1}"#, r#"{"n":1}"#),
            (
                r#"{"_meta":{"progressToken":7,"io.modelcontextprotocol/logLevel":"info"}}"#,
                r#"{"_meta":{"progressToken":7}}"#,
            ),
        ] {
            let raw = Bytes::copy_from_slice(given.as_bytes());
            let params = Params::scan(raw.clone(), &cardan_proto::limits::Limits::DEFAULT).unwrap();
            assert_eq!(without_modern_members(&params, raw), left);
        }
    }

    /// Where notes could be anyone's, none are asked for; everything else stays.
    #[test]
    fn a_level_can_be_taken_back() {
        let raw = Bytes::from_static(
            br#"{"name":"t","_meta":{"traceparent":"00-1","io.modelcontextprotocol/logLevel":"debug"},"n":1.50}"#,
        );
        let params = Params::scan(raw.clone(), &cardan_proto::limits::Limits::DEFAULT).unwrap();
        assert_eq!(without_level(&params, raw), r#"{"name":"t","_meta":{"traceparent":"00-1"},"n":1.50}"#);
    }
}
