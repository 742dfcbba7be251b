//! Lists of tasks: those of all servers, page by page; and of tools that may be called as tasks.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::era::caps::ClientCaps;
use cardan_proto::era::gates::Tasks;
use cardan_proto::era::{Revision, gates};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::model::task;
use cardan_proto::session::event::{Answer, Called};
use cardan_proto::task::{Design, cross};
use cardan_runtime::cx::CallCx;
use serde_json::{Value, json};

use super::desk::Station;
use super::several;
use super::view::{Known, View};
use crate::catalog::Kind;
use crate::fleet::Upstream;
use crate::merge::Shown;

/// TSKE-15: a client that did not declare the extension learns nothing of any task. Before any look at the id.
pub(super) fn declared(called: &Called) -> Result<(), Fault> {
    match gates(called.revision).tasks {
        Tasks::Extension if !ClientCaps::read(&called.capabilities).tasks => {
            Err(Fault::missing_capability(&task::required()))
        }
        _ => Ok(()),
    }
}

/// One page: the next of each server that the cursor names, else the first of all, in their order. On their first page those that
/// do not answer are passed over and named: the tasks of the others are there all the same.
pub(super) async fn list(station: &Arc<Station>, cx: CallCx, called: Called) -> Result<Answer, Fault> {
    let cursor = called.call.params.raw().and_then(|raw| member_of(raw, "cursor").ok().flatten());
    let cursor = cursor.and_then(|raw| serde_json::from_slice::<String>(&raw).ok());
    let places = places(station, cursor.as_deref())?;
    let mut asks = Vec::new();
    for (upstream, own) in &places {
        let called = match own {
            Some(own) => station.renamed(called.clone(), "cursor", &Value::from(own.as_str()).to_string())?,
            None => station.without(called.clone(), "cursor")?,
        };
        asks.push((Arc::clone(upstream), called));
    }
    let answers = several::all(station, &cx, asks).await;
    let (mut page, mut failed) = (Page::new(station.front.house.options.page_bytes), None);
    for ((upstream, own), answer) in places.into_iter().zip(answers) {
        match answer.unwrap_or_else(Answer::Fault) {
            Answer::Done(result) | Answer::Bare(result) => page.add(upstream.name(), own, result),
            // In the middle of its list the client is to know.
            Answer::Fault(fault) if own.is_none() => {
                page.unanswered.push(upstream.name().to_owned());
                failed.get_or_insert(fault);
            }
            other => return Ok(other),
        }
    }
    match failed {
        Some(fault) if page.first.is_none() && cursor.is_none() => Err(fault),
        _ => Ok(Answer::Done(page.result())),
    }
}

/// Servers, and where in its list each goes on; nothing: at its beginning.
type Places = Vec<(Arc<Upstream>, Option<String>)>;

fn places(station: &Station, cursor: Option<&str>) -> Result<Places, Fault> {
    let servers = with_tasks(station);
    let Some(cursor) = cursor else {
        return Ok(servers.into_iter().map(|upstream| (upstream, None)).collect());
    };
    let left: Vec<Cursor> = serde_json::from_str(cursor).map_err(|_| wrong())?;
    // Each server goes on once, so that no cursor asks for more than all of them.
    if left.len() > servers.len() {
        return Err(wrong());
    }
    let place = |Cursor(server, own): Cursor| {
        let upstream = servers.iter().find(|upstream| upstream.name() == server);
        upstream.map(|upstream| (Arc::clone(upstream), own)).ok_or_else(wrong)
    };
    left.into_iter().map(place).collect()
}

/// A page, as it is put together from those of servers.
struct Page {
    most_bytes: usize,
    /// What the first server answered: what else it says goes along.
    first: Option<Bytes>,
    /// Tasks as they came, with commas between them.
    tasks: Vec<u8>,
    next: Vec<Cursor>,
    unanswered: Vec<String>,
}

impl Page {
    fn new(most_bytes: usize) -> Self {
        Self { most_bytes, first: None, tasks: Vec::new(), next: Vec::new(), unanswered: Vec::new() }
    }

    /// Adds the page of a server that was asked for it with `own`. One too many is asked for again with the next.
    fn add(&mut self, server: &str, own: Option<String>, result: Bytes) {
        let tasks = member_of(&result, "tasks").ok().flatten().unwrap_or_default();
        let tasks = tasks.trim_ascii();
        let tasks = tasks.strip_prefix(b"[").and_then(|tasks| tasks.strip_suffix(b"]"));
        let tasks = tasks.unwrap_or_default().trim_ascii();
        if self.first.is_some() && self.tasks.len() + tasks.len() > self.most_bytes {
            self.next.push(Cursor(server.to_owned(), own));
            return;
        }
        if !self.tasks.is_empty() && !tasks.is_empty() {
            self.tasks.push(b',');
        }
        self.tasks.extend_from_slice(tasks);
        let next = member_of(&result, "nextCursor").ok().flatten();
        let next = next.and_then(|raw| serde_json::from_slice::<String>(&raw).ok());
        self.next.extend(next.map(|next| Cursor(server.to_owned(), Some(next))));
        self.first.get_or_insert(result);
    }

    fn result(self) -> Bytes {
        let first = self.first.unwrap_or_else(|| Bytes::from_static(b"{}"));
        let tasks = [b"[".as_slice(), &self.tasks, b"]"].concat();
        // A cursor is text to the client, whatever it is to us.
        let next: Vec<_> = self.next.iter().map(|Cursor(server, own)| json!([server, own])).collect();
        let cursor = Value::from(Value::from(next).to_string()).to_string();
        let cursor = match self.next.is_empty() {
            true => Edit::Drop("nextCursor"),
            false => Edit::Set("nextCursor", cursor.as_bytes()),
        };
        let mut edits = vec![Edit::Set("tasks", &tasks), cursor];
        let unanswered = json!(self.unanswered).to_string();
        let meta = member_of(&first, "_meta").ok().flatten().unwrap_or_else(|| Bytes::from_static(b"{}"));
        let meta = splice(&meta, &[Edit::Set(UNANSWERED, unanswered.as_bytes())]).unwrap_or(meta);
        if !self.unanswered.is_empty() {
            edits.push(Edit::Set("_meta", &meta));
        }
        splice(&first, &edits).unwrap_or_else(|_| Bytes::from_static(NONE))
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

/// In `_meta` of a page: the servers whose tasks are missing there.
const UNANSWERED: &str = "cardan/unanswered";

const NONE: &[u8] = b"{\"tasks\":[]}";

/// A server's name, and its own cursor; none: its first page.
#[derive(serde::Deserialize)]
struct Cursor(String, Option<String>);

fn wrong() -> Fault {
    Fault::invalid_params(
        "params.cursor: not one of ours, or the servers have changed; start from the first page",
    )
}
