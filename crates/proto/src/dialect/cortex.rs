//! The cortex dialect: tool calls and nothing else, no handshake, closed schemas.
//!
//! A client writes `{id, name, arguments}` or an exact `tools/call`; a server reads both and answers
//! with exactly what the schemas allow. What the schemas cannot say is not said: metadata, notes,
//! other methods. [`schema`] has the schemas, [`stream`] the events of its HTTP form, [`local`] the
//! errors that a client makes up for failures on its own side.

pub mod local;
pub mod schema;
pub mod stream;

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::schema::Deviation;
use super::quirk::Quirk;
use super::{CortexForm, Translated};
use crate::finding::Rule;
use crate::jsonrpc::envelope::{Call, Envelope, Param, Params, Reply};
use crate::jsonrpc::fault::Fault;
use crate::jsonrpc::id::CallId;
use crate::jsonrpc::scan::Scanner;
use crate::jsonrpc::write;
use crate::limits::Limits;
use crate::method::Method;
use crate::session::config::{Config, Role};
use crate::session::event::{NewCall, Outgoing};

/// The id of an error that answers a frame whose id could not be read. The schema wants one; calls
/// have numbers, so this one is never taken for a call's.
pub const UNREADABLE_ID: &str = "unreadable";

/// Why a call cannot be told.
pub(super) fn refusal(call: &NewCall) -> Option<&'static str> {
    if call.method != Method::ToolsCall {
        return Some("only tools/call exists");
    }
    let params = call.params.as_ref().and_then(|params| members(params, Limits::DEFAULT.depth));
    let params = params.unwrap_or_default();
    match (params.get(Param::Name.name()), params.get(Param::Arguments.name())) {
        (None, _) => Some("params.name is missing"),
        (Some(name), _) if name.first() != Some(&b'"') || name.len() < 3 => Some("params.name is no name"),
        (_, Some(arguments)) if arguments.first() != Some(&b'{') => Some("params.arguments is no object"),
        _ => None,
    }
}

pub(super) fn inbound(frame: &Bytes, config: &Config) -> Translated<Bytes> {
    let Some(members) = members(frame, config.limits.depth) else {
        return Translated::as_is(frame.clone());
    };
    match config.role {
        Role::Server => call_heard(frame, &members),
        Role::Client => reply_heard(frame, &members),
    }
}

/// Server: a call in either form.
fn call_heard(frame: &Bytes, members: &Members) -> Translated<Bytes> {
    let has = |name| members.contains_key(name);
    if has("method") {
        let found = if has("id") { judged(frame, schema::check_request, Rule::ParamsShape) } else { vec![] };
        return Translated { found, ..Translated::as_is(frame.clone()) };
    }
    let (Some(id), Some(name)) = (members.get("id"), members.get(Param::Name.name())) else {
        return Translated::as_is(frame.clone());
    };
    let mut call = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
    call.extend_from_slice(id);
    call.extend_from_slice(b",\"method\":");
    write::string(Method::ToolsCall.name(), &mut call);
    call.extend_from_slice(b",\"params\":");
    tool_params(name, members.get(Param::Arguments.name()), &mut call);
    call.push(b'}');
    let call = Bytes::from(call);
    let mut found = judged(&call, schema::check_request, Rule::ParamsShape);
    let extra = members.keys().find(|name| !matches!(&***name, "jsonrpc" | "id" | "name" | "arguments"));
    found.extend(extra.map(|name| (Rule::ParamsShape, Deviation::unknown_member("", name).to_string())));
    Translated { found, ..Translated::by(Quirk::CallFrame, call) }
}

/// Client: a reply, or something that is none and may be ignored.
fn reply_heard(frame: &Bytes, members: &Members) -> Translated<Bytes> {
    let has = |name| members.contains_key(name);
    if has("method") && has("jsonrpc") && !has("id") {
        return Translated::as_is(frame.clone());
    }
    if has("method") || has("type") || has("event") || !(has("id") || has("result") || has("error")) {
        return Translated::nothing(Quirk::Unsolicited);
    }
    let mut heard = if has("jsonrpc") {
        Translated::as_is(frame.clone())
    } else {
        let rest = frame.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
        let whole = [b"{\"jsonrpc\":\"2.0\",", &frame[rest..]].concat();
        Translated::by(Quirk::VersionlessReply, Bytes::from(whole))
    };
    // Errors of a wrong shape are found by whoever reads the envelope.
    if has("result")
        && let Some(reply) = &heard.what
    {
        heard.found = judged(reply, schema::check_response, Rule::ResultShape);
    }
    heard
}

/// The first deviation speaks for all; a long list would say the same many times.
fn judged(frame: &Bytes, check: fn(&serde_json::Value) -> Vec<Deviation>, rule: Rule) -> Vec<(Rule, String)> {
    let Ok(value) = serde_json::from_slice(frame) else { return Vec::new() };
    let deviations = check(&value);
    let Some(first) = deviations.first() else { return Vec::new() };
    let more = match deviations.len() {
        1 => String::new(),
        many => format!(" and {} more", many - 1),
    };
    vec![(rule, format!("{first}{more}"))]
}

pub(super) fn outbound(message: Outgoing, form: CortexForm) -> Translated<Outgoing> {
    match message {
        Outgoing::One(Envelope::Call(call)) if call.method == Method::ToolsCall => call_told(&call, form),
        Outgoing::One(Envelope::Note(_)) => Translated::nothing(Quirk::NoteUnsent),
        Outgoing::One(Envelope::Reply(reply)) => {
            let mut quirks = Vec::new();
            let reply = Envelope::Reply(closed(reply, &mut quirks));
            Translated { quirks, ..Translated::as_is(Outgoing::One(reply)) }
        }
        Outgoing::Batch(envelopes) => {
            let mut quirks = Vec::new();
            let envelopes = envelopes.into_iter().map(|envelope| match envelope {
                Envelope::Reply(reply) => Envelope::Reply(closed(reply, &mut quirks)),
                other => other,
            });
            let batch = Outgoing::Batch(envelopes.collect());
            Translated { quirks, ..Translated::as_is(batch) }
        }
        other => Translated::as_is(other),
    }
}

/// Client: exactly what the request schema allows.
fn call_told(call: &Call, form: CortexForm) -> Translated<Outgoing> {
    let params = call.params.raw().and_then(|raw| members(raw, Limits::DEFAULT.depth)).unwrap_or_default();
    let empty = Bytes::from_static(b"\"\"");
    let name = params.get(Param::Name.name()).unwrap_or(&empty);
    let arguments = params.get(Param::Arguments.name());
    let kept = 1 + usize::from(arguments.is_some());
    let mut quirks = Vec::new();
    if params.len() > kept {
        quirks.push(Quirk::ParamsClosed);
    }
    let mut out = Vec::new();
    let told = match form {
        CortexForm::Envelope => {
            tool_params(name, arguments, &mut out);
            let params = Params::outgoing(Bytes::from(out));
            Outgoing::One(Envelope::Call(Call { params, ..call.clone() }))
        }
        CortexForm::Frame => {
            quirks.push(Quirk::CallFrameSent);
            out.extend_from_slice(b"{\"id\":");
            call.id.write(&mut out);
            out.push(b',');
            tool_members(name, arguments, &mut out);
            out.push(b'}');
            Outgoing::Raw(Bytes::from(out))
        }
    };
    Translated { quirks, ..Translated::as_is(told) }
}

fn tool_params(name: &[u8], arguments: Option<&Bytes>, out: &mut Vec<u8>) {
    out.push(b'{');
    tool_members(name, arguments, out);
    out.push(b'}');
}

fn tool_members(name: &[u8], arguments: Option<&Bytes>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"name\":");
    out.extend_from_slice(name);
    if let Some(arguments) = arguments {
        out.extend_from_slice(b",\"arguments\":");
        out.extend_from_slice(arguments);
    }
}

/// Server: exactly what the response and error schemas allow.
fn closed(reply: Reply, quirks: &mut Vec<Quirk>) -> Reply {
    // The schema has neither fractions nor empty strings for ids.
    let id = reply.id.filter(|id| id.is_standard() && *id != CallId::text("")).or_else(|| {
        quirks.push(Quirk::IdMadeUp);
        Some(CallId::text(UNREADABLE_ID))
    });
    let outcome = match reply.outcome {
        Ok(result) => Ok(closed_result(result, quirks)),
        Err(fault) if fault.message.is_empty() => {
            Err(Fault { message: "the server gave no reason; its log may have one".into(), ..fault })
        }
        fault => fault,
    };
    Reply { id, outcome }
}

fn closed_result(result: Bytes, quirks: &mut Vec<Quirk>) -> Bytes {
    let Some(members) = members(&result, Limits::DEFAULT.depth) else { return result };
    let starting = |name, with: &[u8]| {
        members.get(name).filter(|raw| raw.first().is_some_and(|first| with.contains(first)))
    };
    let rest = [
        ("isError", starting("isError", b"tf")),
        ("structuredContent", starting("structuredContent", b"{")),
        ("_meta", starting("_meta", b"{")),
    ];
    let mut out = b"{\"content\":".to_vec();
    closed_content(&members, quirks, &mut out);
    let mut kept = usize::from(members.contains_key("content"));
    for (name, value) in rest.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        kept += 1;
        out.push(b',');
        write::string(name, &mut out);
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
    if members.len() > kept {
        quirks.push(Quirk::ResultClosed);
    }
    Bytes::from(out)
}

/// At least one block, each with a kind. What is none is shown as the text it is written with.
fn closed_content(members: &Members, quirks: &mut Vec<Quirk>, out: &mut Vec<u8>) {
    let content = members.get("content").map_or(&b"[]"[..], |raw| raw);
    let blocks: Vec<&RawValue> = serde_json::from_slice(content).unwrap_or_default();
    out.push(b'[');
    for (n, block) in blocks.iter().map(|block| block.get()).enumerate() {
        if n > 0 {
            out.push(b',');
        }
        match is_block(block) {
            true => out.extend_from_slice(block.as_bytes()),
            false => text_block(block, out),
        }
    }
    if blocks.is_empty() {
        quirks.push(Quirk::ContentFilled);
        let text = members.get("structuredContent").map(|raw| String::from_utf8_lossy(raw));
        text_block(&text.unwrap_or_default(), out);
    }
    out.push(b']');
}

fn is_block(raw: &str) -> bool {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    raw.starts_with('{') && serde_json::from_str::<Wire<'_>>(raw).is_ok_and(|wire| !wire.kind.is_empty())
}

fn text_block(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    write::string(text, out);
    out.push(b'}');
}

type Members = BTreeMap<Box<str>, Bytes>;

/// The members of `object` as raw JSON. Nothing: it is no object, or has a member twice, and whoever
/// reads it next says so.
fn members(object: &Bytes, max_depth: usize) -> Option<Members> {
    let mut scanner = Scanner::new(object, max_depth);
    let mut members = Members::new();
    scanner.expect(b'{').ok()?;
    let mut more = !scanner.take(b'}');
    while more {
        scanner.peek();
        let from = scanner.at();
        let key = scanner.key().ok()?.len() + 2;
        let name: String = serde_json::from_slice(&object[from..from + key]).ok()?;
        let value = scanner.value().ok()?;
        if members.insert(name.into(), object.slice(value.range())).is_some() {
            return None;
        }
        more = scanner.take(b',');
        if !more {
            scanner.expect(b'}').ok()?;
        }
    }
    scanner.is_done().then_some(members)
}
