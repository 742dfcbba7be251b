//! What a call is part of: read from its `_meta`, and written there for the next.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::{Param, Params};
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::limits::{Limits, trace as bounds};
use cardan_proto::model::meta::key;
pub(super) use cardan_proto::model::trace::TraceParent;
use cardan_proto::model::trace::is_tracestate;
use serde_json::Value;

/// The span of the client that a call is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remote {
    pub(super) at: TraceParent,
    /// What others keep about the trace, as it came. Whatever does not follow the recommendation is nobody's.
    pub(super) state: Option<Arc<str>>,
}

impl Remote {
    /// What a call says; nothing: it is part of nothing, or says it in a form that nobody can follow.
    pub(super) fn of(params: &Params) -> Option<Self> {
        let meta = params.get(Param::Meta)?;
        let at = TraceParent::parse(&text_of(&meta, key::TRACEPARENT)?)?;
        let state = text_of(&meta, key::TRACESTATE);
        let state = state.filter(|state| state.len() <= bounds::STATE && is_tracestate(state));
        Some(Self { at, state: state.map(Into::into) })
    }
}

fn text_of(meta: &Bytes, name: &str) -> Option<String> {
    let raw = member_of(meta, name).ok().flatten()?;
    serde_json::from_slice(&raw).ok()
}

/// What an upstream is told of the trace that a call is part of.
#[derive(Debug, Clone)]
pub(super) enum Onward {
    /// What the client said, byte for byte: nothing is recorded here.
    AsItCame,
    /// A trace that began here and is not recorded, so that nobody else records parts of it.
    Unrecorded(TraceParent),
    /// A span of ours.
    Recorded(TraceParent, State),
}

impl Onward {
    /// Whose state is it? One that came with no trace, or with one that nobody can follow, is of no other.
    pub(super) fn state(&self) -> &State {
        match self {
            Self::AsItCame => &State::Kept(None),
            Self::Recorded(_, state) => state,
            Self::Unrecorded(_) => &State::Dropped,
        }
    }
}

/// What becomes of the `tracestate` that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// It is passed on, byte for byte, and spans of ours say it too where it follows the recommendation.
    Kept(Option<Arc<str>>),
    Dropped,
}

impl State {
    /// The one of the trace that a call is part of.
    pub(super) fn of(remote: Option<&Remote>) -> Self {
        remote.map_or(Self::Dropped, |remote| Self::Kept(remote.state.clone()))
    }

    /// What spans say of it.
    pub(super) fn told(&self) -> Option<Arc<str>> {
        match self {
            Self::Kept(state) => state.clone(),
            Self::Dropped => None,
        }
    }
}

/// Params that say where in a trace the call is. Every other byte stays.
pub(super) fn put(params: &Params, at: TraceParent, state: &State, limits: &Limits) -> Params {
    let empty = || Bytes::from_static(b"{}");
    let (raw, meta) =
        (params.raw().cloned().unwrap_or_else(empty), params.get(Param::Meta).unwrap_or_else(empty));
    let at = Value::from(at.to_string()).to_string();
    let edits = [Edit::Set(key::TRACEPARENT, at.as_bytes()), Edit::Drop(key::TRACESTATE)];
    let edits = match state {
        State::Kept(_) => &edits[..1],
        State::Dropped => &edits[..],
    };
    let put = splice(&meta, edits)
        .and_then(|meta| splice(&raw, &[Edit::Set(Param::Meta.name(), &meta)]))
        .and_then(|raw| Params::scan(raw, limits));
    // A `_meta` that is no object is for its upstream to refuse.
    put.unwrap_or_else(|_| params.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn scan(text: &str) -> Params {
        Params::scan(Bytes::copy_from_slice(text.as_bytes()), &Limits::DEFAULT).unwrap()
    }

    /// META-6: nothing but the span's own name is another, and what is kept by others stays as it is spelled.
    #[test]
    fn a_place_is_put_where_one_was_or_beside_what_is_there() {
        let at = TraceParent::parse(AT).unwrap();
        let ours = format!("\"{AT}\"");
        for (given, state, wanted) in [
            (
                r#"{"n":1.50,"_meta":{"traceparent":"00-x","tracestate":"a=\u0031","k":1e2},"b":[]}"#,
                State::Kept(None),
                format!(
                    r#"{{"n":1.50,"_meta":{{"traceparent":{ours},"tracestate":"a=\u0031","k":1e2}},"b":[]}}"#
                ),
            ),
            (
                r#"{"_meta":{"tracestate":"a=1","k":1}}"#,
                State::Dropped,
                format!(r#"{{"_meta":{{"k":1,"traceparent":{ours}}}}}"#),
            ),
            (r#"{"a":1}"#, State::Kept(None), format!(r#"{{"a":1,"_meta":{{"traceparent":{ours}}}}}"#)),
            (r#"{"_meta":7}"#, State::Kept(None), r#"{"_meta":7}"#.to_owned()),
        ] {
            let put = put(&scan(given), at, &state, &Limits::DEFAULT);
            assert_eq!(put.raw().unwrap(), wanted.as_bytes(), "{given}");
        }
        let put = put(&Params::none(), at, &State::Kept(None), &Limits::DEFAULT);
        assert_eq!(Remote::of(&put).unwrap(), Remote { at, state: None });
    }

    /// META-6: what does not follow the recommendation is no trace.
    #[test]
    fn only_what_can_be_followed_is_read() {
        let remote =
            Remote::of(&scan(&format!(r#"{{"_meta":{{"traceparent":"{AT}","tracestate":"a=1"}}}}"#)));
        assert_eq!(remote.unwrap().state.as_deref(), Some("a=1"));
        for state in ["x".to_owned(), format!("a={}", "1".repeat(300)), ",".repeat(bounds::STATE + 1)] {
            let remote =
                Remote::of(&scan(&format!(r#"{{"_meta":{{"traceparent":"{AT}","tracestate":"{state}"}}}}"#)));
            assert_eq!(remote.unwrap().state, None, "{state}");
        }
        for other in [r#"{"_meta":{"traceparent":"00-1-2-3"}}"#, r#"{"_meta":{"traceparent":3}}"#, "{}"] {
            assert_eq!(Remote::of(&scan(other)), None, "{other}");
        }
    }
}
