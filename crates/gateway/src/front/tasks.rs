//! Lists of tasks: those of one server after another; and of tools that may be called as tasks.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::era::gates::Tasks;
use cardan_proto::era::{Revision, gates};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::session::event::{Answer, Called};
use cardan_proto::task::{Design, cross};
use cardan_runtime::cx::CallCx;
use serde_json::{Value, json};

use super::desk::Station;
use super::view::{Known, View};
use crate::catalog::Kind;
use crate::fleet::Upstream;
use crate::merge::Shown;

/// One page: of the server that the cursor names, else of the first. One that does not answer is passed over: the tasks
/// of the others are there all the same.
pub(super) async fn list(station: &Arc<Station>, cx: CallCx, called: Called) -> Result<Answer, Fault> {
    let cursor = called.call.params.raw().and_then(|raw| member_of(raw, "cursor").ok().flatten());
    let cursor = cursor.and_then(|raw| serde_json::from_slice::<String>(&raw).ok());
    let servers = with_tasks(station);
    let (first, mut own) = match cursor.as_deref() {
        None => (0, None),
        Some(cursor) => {
            let Cursor(server, own) = serde_json::from_str(cursor).map_err(|_| wrong())?;
            let at = servers.iter().position(|upstream| upstream.name() == server).ok_or_else(wrong)?;
            (at, own)
        }
    };
    let mut failed = None;
    for (at, upstream) in servers.iter().enumerate().skip(first) {
        let own = own.take();
        let called = match &own {
            Some(own) => station.renamed(called.clone(), "cursor", &Value::from(own.as_str()).to_string())?,
            None => station.without(called.clone(), "cursor")?,
        };
        let answer = station.forward(upstream, cx.clone(), called).await.unwrap_or_else(Answer::Fault);
        match answer {
            Answer::Done(result) | Answer::Bare(result) => {
                let next = member_of(&result, "nextCursor").ok().flatten();
                let next = next.and_then(|raw| serde_json::from_slice::<String>(&raw).ok());
                let next = match next {
                    Some(next) => Some(Cursor(upstream.name().to_owned(), Some(next))),
                    None => servers.get(at + 1).map(|next| Cursor(next.name().to_owned(), None)),
                };
                return Ok(Answer::Done(with_next(result, next)));
            }
            // In the middle of its list the client is to know.
            Answer::Fault(fault) if own.is_none() => drop(failed.get_or_insert(fault)),
            other => return Ok(other),
        }
    }
    match failed {
        // Of the last ones only: those before have told theirs.
        Some(_) if first > 0 => Ok(Answer::Done(Bytes::from_static(NONE))),
        Some(fault) => Err(fault),
        None => Ok(Answer::Done(Bytes::from_static(NONE))),
    }
}

/// The servers whose tasks can be listed.
fn with_tasks(station: &Station) -> Vec<Arc<Upstream>> {
    let view = station.view();
    let listing = view.known.iter().filter(|known| known.capabilities()["tasks"]["list"].is_object());
    listing.map(|known| Arc::clone(&known.upstream)).collect()
}

/// What a client of this revision is told of entries of a list, in place of what their servers say. A server of the task
/// extension may make a task of any tool, so in the older design each may be called as one.
pub(super) fn words(view: &View, kind: Kind, revision: Revision) -> impl Fn(&Shown) -> Option<Bytes> {
    let designs: Vec<_> = match (kind, gates(revision).tasks) {
        (Kind::Tools, Tasks::Core) => view.known.iter().map(Known::design).collect(),
        _ => Vec::new(),
    };
    move |shown| match designs.get(shown.route.source) {
        Some(Some(Design::Extension)) => Some(cross::optional_tool(shown.raw.as_str())),
        _ => None,
    }
}

const NONE: &[u8] = b"{\"tasks\":[]}";

/// A server's name, and its own cursor; none: its first page.
#[derive(serde::Deserialize)]
struct Cursor(String, Option<String>);

fn with_next(result: Bytes, next: Option<Cursor>) -> Bytes {
    // A cursor is text to the client, whatever it is to us.
    let next = next.map(|Cursor(server, own)| Value::from(json!([server, own]).to_string()).to_string());
    let edit = match &next {
        Some(next) => Edit::Set("nextCursor", next.as_bytes()),
        None => Edit::Drop("nextCursor"),
    };
    splice(&result, &[edit]).unwrap_or(result)
}

fn wrong() -> Fault {
    Fault::invalid_params(
        "params.cursor: not one of ours, or the servers have changed; start from the first page",
    )
}
