//! The trace that an HTTP request is part of, for calls that say nothing of one.

use bytes::Bytes;
use cardan_proto::http::headers::{TRACEPARENT, TRACESTATE, single_text};
use cardan_proto::jsonrpc::envelope::{Call, Decoded, Envelope, Param, Params};
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::limits::Limits;
use cardan_proto::model::meta::key;
use cardan_proto::model::trace::TraceParent;
use http::HeaderMap;
use serde_json::Value;

/// Makes a call part of the trace that the headers name, where it names none itself.
pub(crate) fn adopt(decoded: &mut Decoded, headers: &HeaderMap, limits: &Limits) {
    let Decoded::One(Ok(Envelope::Call(call)), _) = decoded else { return };
    let Ok(Some(parent)) = single_text(&TRACEPARENT, headers) else { return };
    if TraceParent::parse(parent).is_none() {
        return;
    }
    if let Some(params) = with(call, parent, &state(headers), limits) {
        call.params = params;
    }
}

/// The state may come in several headers, which are one list.
fn state(headers: &HeaderMap) -> String {
    let parts = headers.get_all(TRACESTATE).iter().filter_map(|value| value.to_str().ok());
    parts.map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",")
}

/// The params with the trace in them; nothing: they name one, or have no place for it.
fn with(call: &Call, parent: &str, state: &str, limits: &Limits) -> Option<Params> {
    let empty = || Bytes::from_static(b"{}");
    let (raw, meta) = (call.params.raw().cloned(), call.params.get(Param::Meta));
    let (raw, meta) = (raw.unwrap_or_else(empty), meta.unwrap_or_else(empty));
    if member_of(&meta, key::TRACEPARENT).ok()?.is_some() {
        return None;
    }
    let (parent, quoted) = (Value::from(parent).to_string(), Value::from(state).to_string());
    let state = match state {
        // One that came without a trace belongs to none.
        "" => Edit::Drop(key::TRACESTATE),
        _ => Edit::Set(key::TRACESTATE, quoted.as_bytes()),
    };
    let meta = splice(&meta, &[Edit::Set(key::TRACEPARENT, parent.as_bytes()), state]).ok()?;
    let raw = splice(&raw, &[Edit::Set(Param::Meta.name(), &meta)]).ok()?;
    Params::scan(raw, limits).ok()
}

#[cfg(test)]
mod tests {
    use cardan_proto::finding::Strictness;
    use cardan_proto::jsonrpc::envelope::decode;

    use super::*;

    const AT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// META-6: `_meta` wins, and a header that nobody can follow is none.
    #[test]
    fn a_header_is_taken_where_the_call_says_nothing() {
        let adopted =
            format!(r#"{{"a":1.50,"_meta":{{"k":1,"traceparent":"{AT}","tracestate":"a=1,b=2"}}}}"#);
        let own = r#"{"_meta":{"traceparent":"own"}}"#;
        for (params, parents, wanted) in [
            (r#"{"a":1.50,"_meta":{"k":1}}"#, &[AT][..], adopted.as_str()),
            (own, &[AT], own),
            ("{}", &[], "{}"),
            ("{}", &["00-1"], "{}"),
            ("{}", &[AT, AT], "{}"),
        ] {
            let mut headers = HeaderMap::new();
            for parent in parents {
                headers.append(TRACEPARENT, parent.parse().unwrap());
            }
            headers.append(TRACESTATE, "a=1".parse().unwrap());
            headers.append(TRACESTATE, "b=2".parse().unwrap());
            let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            let mut decoded = decode(&Bytes::from(frame), Strictness::Standard, &Limits::DEFAULT);
            adopt(&mut decoded, &headers, &Limits::DEFAULT);
            let Decoded::One(Ok(Envelope::Call(call)), _) = decoded else { panic!("{params} is a call") };
            assert_eq!(call.params.raw().unwrap(), wanted.as_bytes(), "{params} {parents:?}");
        }
    }
}
