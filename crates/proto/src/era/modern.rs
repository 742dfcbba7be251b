//! The modern era: every call stands alone, with its metadata in `_meta`.

use std::collections::HashSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::Unsealed;
use super::caps::ClientCaps;
use super::revision::{Era, Revision};
use crate::finding::Rule;
use crate::jsonrpc::envelope::{MetaKey, Param, Params};
use crate::jsonrpc::fault::{Fault, code};
use crate::jsonrpc::object::Object;
use crate::jsonrpc::splice::{Edit, member_of, members_of, splice};
use crate::jsonrpc::write;
use crate::method::{Kind, Method, Sender};
use crate::session::config::{CacheScope, Config, Disclosure};
use crate::session::event::{Ask, Asks, LogLevel};

/// The type of a result that is a task.
const TASK: &str = "task";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Does the method exist?
pub(super) fn has(method: &Method) -> bool {
    match method {
        Method::Initialize
        | Method::Initialized
        | Method::Ping
        | Method::LoggingSetLevel
        | Method::ResourcesSubscribe
        | Method::ResourcesUnsubscribe
        | Method::TasksResult
        | Method::TasksList
        | Method::RootsListChanged
        | Method::ElicitationComplete
        | Method::TasksStatus => false,
        // The three asks exist inside results only.
        known => !(known.sender() == Some(Sender::Server) && known.kind() == Some(Kind::Call)),
    }
}

/// A call with modern metadata: may it be served? In the order in which the specification checks.
pub(crate) fn admit(
    params: &Params,
    method: &Method,
    config: &Config,
) -> Result<(Revision, Option<LogLevel>), Fault> {
    let version = params
        .meta_text(MetaKey::ProtocolVersion)
        .ok_or_else(|| missing(MetaKey::ProtocolVersion, "a string"))?;
    let capabilities = params.meta(MetaKey::ClientCapabilities);
    if capabilities.is_none_or(|raw| raw.first() != Some(&b'{')) {
        return Err(missing(MetaKey::ClientCapabilities, "an object"));
    }
    let revision = Revision::parse(&version)
        .filter(|revision| revision.era() == Era::Modern && config.revisions.has(*revision))
        .ok_or_else(|| unsupported(&version, config))?;
    if !has(method) {
        return Err(Fault::method_not_found(method.name()));
    }
    let level = match params.meta(MetaKey::LogLevel) {
        None => None,
        Some(_) => Some(
            params
                .meta_text(MetaKey::LogLevel)
                .and_then(|name| LogLevel::parse(&name))
                .ok_or_else(|| Fault::invalid_params("unknown logLevel in _meta; use debug to emergency"))?,
        ),
    };
    Ok((revision, level))
}

fn missing(key: MetaKey, what: &str) -> Fault {
    Fault::invalid_params(format!("params._meta needs \"{}\", {what}", key.name()))
}

/// The fault for a revision that is not served.
///
/// Only modern revisions are named: a client that asks in this way could not use another. A server
/// that has none names those with a handshake, so that a client of both eras can go on.
#[must_use]
pub fn unsupported(requested: &str, config: &Config) -> Fault {
    let era = config.revisions.newest(Era::Modern).map_or(Era::Legacy, Revision::era);
    let supported: Vec<_> = config.revisions.of(era).map(Revision::date).collect();
    Fault::new(code::UNSUPPORTED_VERSION, "unsupported protocol version")
        .with_data(&json!({ "supported": supported, "requested": requested }))
}

/// What an outgoing call carries in `_meta`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModernMeta {
    /// Of the call.
    pub(crate) revision: Revision,
    /// The wanted log level, if any.
    pub(crate) log_level: Option<LogLevel>,
}

impl ModernMeta {
    /// Puts the metadata into `params`, keeping what the caller put there.
    pub(crate) fn dress(self, params: Option<&Bytes>, token: Option<i64>, config: &Config) -> Bytes {
        let empty = Bytes::from_static(b"{}");
        let params = params.unwrap_or(&empty);
        let given = member_of(params, Param::Meta.name()).ok().flatten().unwrap_or_else(|| empty.clone());
        let version = quoted(self.revision.date());
        let level = self.log_level.map(|level| quoted(level.name()));
        let token = token.map(|token| token.to_string());
        let mut edits = vec![
            Edit::Set(MetaKey::ProtocolVersion.name(), &version),
            Edit::Default(MetaKey::ClientCapabilities.name(), &config.capabilities),
        ];
        if config.disclosure == Disclosure::Named {
            edits.push(Edit::Default(MetaKey::ClientInfo.name(), &config.identity));
        }
        if let Some(level) = &level {
            edits.push(Edit::Default(MetaKey::LogLevel.name(), level));
        }
        if let Some(token) = &token {
            edits.push(Edit::Set(MetaKey::ProgressToken.name(), token.as_bytes()));
        }
        let meta = splice(&given, &edits).unwrap_or(given);
        splice(params, &[Edit::Set(Param::Meta.name(), &meta)]).unwrap_or_else(|_| params.clone())
    }
}

/// The params of a retry: the original ones, plus answers and state. State is handed back as it came.
pub(crate) fn retry_params(
    params: Option<&Bytes>,
    answers: &[(Box<str>, Bytes)],
    state: Option<&str>,
) -> Bytes {
    let mut responses = vec![b'{'];
    for (name, answer) in answers {
        if responses.len() > 1 {
            responses.push(b',');
        }
        write::string(name, &mut responses);
        responses.push(b':');
        responses.extend_from_slice(answer);
    }
    responses.push(b'}');
    let state = state.map(quoted);
    let mut edits = Vec::with_capacity(2);
    if answers.is_empty() {
        edits.push(Edit::Drop(Param::InputResponses.name()));
    } else {
        edits.push(Edit::Set(Param::InputResponses.name(), &responses));
    }
    match &state {
        Some(state) => edits.push(Edit::Set(Param::RequestState.name(), state)),
        None => edits.push(Edit::Drop(Param::RequestState.name())),
    }
    let empty = Bytes::from_static(b"{}");
    let params = params.unwrap_or(&empty);
    splice(params, &edits).unwrap_or_else(|_| params.clone())
}

/// The answer to `server/discover`, before sealing.
pub(crate) fn discover_result(config: &Config) -> Bytes {
    let versions: Vec<_> = config.revisions.newest_first().map(Revision::date).collect();
    let mut out = Vec::with_capacity(256 + config.capabilities.len());
    out.extend_from_slice(b"{\"supportedVersions\":");
    out.extend_from_slice(json!(versions).to_string().as_bytes());
    out.extend_from_slice(b",\"capabilities\":");
    // The task design of the legacy era is not advertised here.
    let capabilities = splice(&config.capabilities, &[Edit::Drop("tasks")]);
    out.extend_from_slice(capabilities.as_ref().unwrap_or(&config.capabilities));
    if let Some(instructions) = &config.instructions {
        out.extend_from_slice(b",\"instructions\":");
        out.extend_from_slice(instructions);
    }
    out.push(b'}');
    Bytes::from(out)
}

/// Adds what every modern result carries.
pub(super) fn seal(method: &Method, result: Bytes, config: &Config) -> Bytes {
    let meta = sealed_meta(&result, config);
    let ttl = config.cache.ttl.as_millis().to_string();
    let scope: &[u8] = match config.cache.scope {
        CacheScope::Public => b"\"public\"",
        CacheScope::Private => b"\"private\"",
    };
    let mut edits = vec![Edit::Default("resultType", b"\"complete\"")];
    if let Some(meta) = &meta {
        edits.push(Edit::Set("_meta", meta));
    }
    if method.is_cacheable() {
        edits.push(Edit::Default("ttlMs", ttl.as_bytes()));
        edits.push(Edit::Default("cacheScope", scope));
    }
    splice(&result, &edits).unwrap_or(result)
}

/// What a result says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing that the era would add.
    Nothing,
    /// Something of what the era would add.
    Something,
    /// That it is of a type which only an extension can define.
    Extended,
}

impl Said {
    pub(crate) fn by(result: &Bytes) -> Self {
        match members_of(result, ["resultType", "_meta", "ttlMs", "cacheScope"]) {
            Ok([None, None, None, None]) if is_tight(result) => Self::Nothing,
            Ok([Some(kind), ..]) if !matches!(&kind[..], b"\"complete\"" | b"\"input_required\"") => {
                Self::Extended
            }
            _ => Self::Something,
        }
    }
}

/// Does the object begin and end where its text does, and is it `{}` if it is empty? Only then can it be added to as it is.
fn is_tight(object: &Bytes) -> bool {
    let inside = object.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    inside.is_some_and(|inside| inside.is_empty() || !inside.trim_ascii().is_empty())
}

/// What a result without members of its own gets, from the comma to the closing brace.
pub(super) fn tail(config: &Config) -> Bytes {
    let sealed = seal(&Method::ToolsCall, Bytes::from_static(b"{}"), config);
    let mut tail = vec![b','];
    tail.extend_from_slice(&sealed[1..]);
    Bytes::from(tail)
}

/// `result` with `tail` in the place of its closing brace.
pub(super) fn with_tail(result: Bytes, tail: &Bytes) -> Bytes {
    match result.strip_suffix(b"}") {
        None | Some(b"{") => return Bytes::from([b"{", &tail[1..]].concat()),
        Some(open) if open.len() < IN_PLACE_BYTES => return Bytes::from([open, tail].concat()),
        Some(_) => {}
    }
    match result.try_into_mut() {
        Ok(mut result) => {
            result.truncate(result.len() - 1);
            result.extend_from_slice(tail);
            result.freeze()
        }
        Err(shared) => Bytes::from([&shared[..shared.len() - 1], tail].concat()),
    }
}

/// A result of this size is appended to where it is; a smaller one is copied for less.
const IN_PLACE_BYTES: usize = 16 << 10;

fn sealed_meta(result: &Bytes, config: &Config) -> Option<Bytes> {
    if config.disclosure == Disclosure::Anonymous {
        return None;
    }
    let given = member_of(result, "_meta").ok().flatten().unwrap_or_else(|| Bytes::from_static(b"{}"));
    splice(&given, &[Edit::Default(SERVER_INFO, &config.identity)]).ok()
}

/// The result that asks for input. Neither cache hints nor content belong to it.
pub(crate) fn input_required(asks: &Asks, revision: Revision, config: &Config) -> Bytes {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"{\"resultType\":\"input_required\"");
    if !asks.entries.is_empty() {
        out.extend_from_slice(b",\"inputRequests\":{");
        for (n, (name, ask)) in asks.entries.iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            write::string(name, &mut out);
            out.extend_from_slice(b":{\"method\":");
            write::string(ask.method.name(), &mut out);
            if let Some(params) = revision.dress_ask(ask) {
                out.extend_from_slice(b",\"params\":");
                out.extend_from_slice(&params);
            }
            out.push(b'}');
        }
        out.push(b'}');
    }
    if let Some(state) = &asks.state {
        out.extend_from_slice(b",\"requestState\":");
        write::string(state, &mut out);
    }
    out.push(b'}');
    let raw = Bytes::from(out);
    match sealed_meta(&raw, config) {
        Some(meta) => splice(&raw, &[Edit::Set("_meta", &meta)]).unwrap_or(raw),
        None => raw,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireResult<'a> {
    #[serde(default)]
    result_type: Option<String>,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
    #[serde(default)]
    request_state: Option<Box<str>>,
}

/// Done, or in need of input, or neither.
pub(super) fn unseal(method: &Method, params: Option<&Bytes>, result: Bytes, config: &Config) -> Unsealed {
    let Ok(Object(wire)) = serde_json::from_slice::<Object<WireResult<'_>>>(&result) else {
        return Unsealed::Broken(Rule::ResultType);
    };
    match wire.result_type.as_deref() {
        // An absent type comes from an older server and means the same.
        None | Some("complete") => Unsealed::Done(result),
        Some("input_required") if !method.may_ask() => Unsealed::Broken(Rule::AskMisplaced),
        Some("input_required") => {
            read_asks(wire.input_requests, wire.request_state, config.limits.asks_per_round)
        }
        // TSKE-3: tools only, whatever was declared.
        Some(TASK) if *method != Method::ToolsCall => Unsealed::Broken(Rule::ResultType),
        Some(TASK) if declares_tasks(params) => Unsealed::Done(result),
        Some(other) if config.result_types.iter().any(|known| **known == *other) => Unsealed::Done(result),
        Some(_) => Unsealed::Broken(Rule::ResultType),
    }
}

/// Does the call itself say that it may be answered with a task?
fn declares_tasks(params: Option<&Bytes>) -> bool {
    let meta = params.and_then(|params| member_of(params, Param::Meta.name()).ok().flatten());
    let declared = meta.and_then(|meta| member_of(&meta, MetaKey::ClientCapabilities.name()).ok().flatten());
    declared.is_some_and(|declared| ClientCaps::read(&declared).tasks)
}

fn read_asks(requests: Option<&RawValue>, state: Option<Box<str>>, max: usize) -> Unsealed {
    #[derive(Deserialize)]
    struct Entry<'a> {
        method: String,
        #[serde(borrow, default)]
        params: Option<&'a RawValue>,
    }
    let Some(requests) = requests else {
        // Without requests there must be state: then the retry may follow at once.
        return if state.is_some() {
            Unsealed::Asks(Vec::new(), state)
        } else {
            Unsealed::Broken(Rule::ResultShape)
        };
    };
    let Ok(entries) = serde_json::from_str::<Entries<Object<Entry<'_>>>>(requests.get()) else {
        return Unsealed::Broken(Rule::ResultShape);
    };
    let mut names = HashSet::new();
    let mut asks = Vec::with_capacity(entries.0.len().min(max));
    for (name, Object(entry)) in entries.0 {
        let method = Method::parse(&entry.method);
        if !method.is_ask() || !names.insert(name.clone()) || asks.len() == max {
            return Unsealed::Broken(Rule::ResultShape);
        }
        let params = entry.params.map(|params| Bytes::copy_from_slice(params.get().as_bytes()));
        asks.push((name, Ask { method, params }));
    }
    Unsealed::Asks(asks, state)
}

/// A JSON object in its own order, repeated names and all.
struct Entries<T>(Vec<(Box<str>, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Visitor(std::marker::PhantomData))
    }
}

fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write::string(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::session::config::Role;

    /// However loosely a foreign server writes its result, it goes out whole and sealed.
    #[test]
    fn loosely_written_results_are_sealed_whole() {
        let object = || Bytes::from_static(b"{}");
        let config = Config::new(Role::Server, object(), object());
        for text in
            ["{}", "{ }", " {}", "{\n}", "{\"a\":1}\n", " { \"a\" : 1 } ", "{\"a\":1}", "{\"_meta\":{}}"]
        {
            let result = Bytes::from_static(text.as_bytes());
            let sealed = match Said::by(&result) {
                Said::Nothing => Revision::LATEST_MODERN.seal_bare(&Method::ToolsCall, result, &config),
                _ => seal(&Method::ToolsCall, result, &config),
            };
            let (was, is): (Value, Value) = (
                serde_json::from_str(text).expect("an object"),
                serde_json::from_slice(&sealed).expect(text),
            );
            assert_eq!((&is["resultType"], &is["a"]), (&json!("complete"), &was["a"]), "{text:?}");
        }
    }
}
