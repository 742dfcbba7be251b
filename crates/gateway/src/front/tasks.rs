//! Lists of tasks: those of one server after another.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::cx::CallCx;
use serde_json::Value;

use super::desk::Station;

/// One page: of the server that the cursor names, else of the first.
pub(super) async fn list(station: &Arc<Station>, cx: CallCx, called: Called) -> Result<Answer, Fault> {
    let cursor = called.call.params.raw().and_then(|raw| member_of(raw, "cursor").ok().flatten());
    let cursor = cursor.and_then(|raw| serde_json::from_slice::<String>(&raw).ok());
    let (at, own) = match cursor.as_deref() {
        None => (0, None),
        Some(cursor) => place(cursor).ok_or_else(wrong)?,
    };
    let servers: Vec<_> = station.with_tasks();
    let Some(upstream) = servers.get(at) else {
        return match at {
            0 => Ok(Answer::Done(Bytes::from_static(b"{\"tasks\":[]}"))),
            _ => Err(wrong()),
        };
    };
    let called = match own {
        Some(own) => station.renamed(called, "cursor", &Value::from(own).to_string())?,
        None => station.without(called, "cursor")?,
    };
    match station.forward(upstream, cx, called).await? {
        Answer::Done(result) | Answer::Bare(result) => {
            let next = member_of(&result, "nextCursor").ok().flatten();
            let next = next.and_then(|raw| serde_json::from_slice::<String>(&raw).ok());
            let next = match next {
                Some(next) => Some(format!("{at}.{next}")),
                None if at + 1 < servers.len() => Some(format!("{}", at + 1)),
                None => None,
            };
            let next = next.map(|next| Value::from(next).to_string());
            let edit = match &next {
                Some(next) => Edit::Set("nextCursor", next.as_bytes()),
                None => Edit::Drop("nextCursor"),
            };
            Ok(Answer::Done(splice(&result, &[edit]).unwrap_or(result)))
        }
        other => Ok(other),
    }
}

/// The server's place, and its own cursor.
fn place(cursor: &str) -> Option<(usize, Option<&str>)> {
    match cursor.split_once('.') {
        Some((at, own)) => Some((at.parse().ok()?, Some(own))),
        None => Some((cursor.parse().ok()?, None)),
    }
}

fn wrong() -> Fault {
    Fault::invalid_params(
        "params.cursor: not one of ours, or the servers have changed; start from the first page",
    )
}
