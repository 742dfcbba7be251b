//! Skills: looked up at whoever lists them, and their directories where they lie.
//!
//! They are listed with everything else. What they are made of are resources, so who may not read a file does not see it in its
//! directory either.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::method::Method;
use cardan_proto::model::raw::Raw;
use cardan_proto::model::skill::MANIFEST;
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::cx::CallCx;

use super::Waited;
use super::desk::{Station, address};
use super::refused::Refused;
use super::several::{self, Missing};
use super::view::View;
use crate::catalog::Kind;
use crate::fleet::Upstream;

/// What is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// What is said of one skill.
    Skill,
    /// What lies in a directory of one.
    Directory,
}

/// A skill, or a directory of one, by whoever has it.
pub(super) async fn ask(station: &Arc<Station>, cx: CallCx, called: Called) -> Result<Answer, Fault> {
    let uri = address(&called)?;
    let wanted = match called.call.method {
        Method::DirectoryRead => Wanted::Directory,
        _ => Wanted::Skill,
    };
    station.front.settled().await;
    station.preceded(Kind::Skills, &uri).await;
    let mut having = having(&station.view(), &uri, wanted);
    if having.likely.is_none() && station.front.all_known().await? == Waited::Yes {
        having = self::having(&station.view(), &uri, wanted);
    }
    let servers = having.likely.map_or(having.others, |at| vec![at]);
    let mut missing = Missing::default();
    match several::first(station, &cx, &called, &servers, &mut missing).await {
        Some((upstream, answer)) if wanted == Wanted::Directory => {
            let page = Page::of(&called);
            seen(&station.view(), &upstream, page, answer)
        }
        Some((_, answer)) => Ok(answer),
        None => Err(missing.0.unwrap_or_else(|| {
            station.front.house.refusals.count(Refused::Unknown);
            nowhere(wanted)
        })),
    }
}

fn nowhere(wanted: Wanted) -> Fault {
    Fault::invalid_params(match wanted {
        Wanted::Skill => "params.uri: no such skill; see skills/list",
        Wanted::Directory => "params.uri: no directory of a skill",
    })
}

/// Who may have it.
struct Having {
    /// Whose it is, by what is listed.
    likely: Option<Arc<Upstream>>,
    /// Not all that can be looked up need be listed.
    others: Vec<Arc<Upstream>>,
}

fn having(view: &View, uri: &str, wanted: Wanted) -> Having {
    let able = |at: &usize| {
        let skills = view.known[*at].skills();
        skills.is_some_and(|skills| wanted == Wanted::Skill || skills["directoryRead"] == true)
    };
    let folder = format!("{}/", uri.trim_end_matches('/'));
    let has = |key: &str| match wanted {
        Wanted::Skill => key == uri,
        Wanted::Directory => key.strip_suffix(MANIFEST).is_some_and(|root| folder.starts_with(root)),
    };
    let listed = view.merged.list(Kind::Skills).iter().find(|shown| has(&shown.key));
    let likely = listed.map(|shown| shown.route.source).filter(able);
    // A directory is hidden as all that lies in it would be; what is left of it is looked at one by one.
    let at = if wanted == Wanted::Directory { &*folder } else { uri };
    let shown = |source: &usize| view.shows_at(*source, at);
    let likely = likely.filter(shown);
    let others = (0..view.known.len()).filter(|source| able(source) && shown(source));
    let upstream = |at: usize| Arc::clone(&view.known[at].upstream);
    Having { likely: likely.map(upstream), others: others.map(upstream).collect() }
}

/// Which page of a directory is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    First,
    Later,
}

impl Page {
    fn of(called: &Called) -> Self {
        let cursor = called.call.params.raw().and_then(|raw| member_of(raw, "cursor").ok().flatten());
        if cursor.is_some() { Self::Later } else { Self::First }
    }
}

/// What lies in a directory, as far as it may be seen. One of which nothing may be seen is none.
fn seen(view: &View, upstream: &Arc<Upstream>, page: Page, answer: Answer) -> Result<Answer, Fault> {
    let at = view.known.iter().position(|known| Arc::ptr_eq(&known.upstream, upstream));
    let Some(at) = at else { return Err(nowhere(Wanted::Directory)) };
    Ok(match answer {
        Answer::Done(result) => Answer::Done(left(view, at, page, result)?),
        Answer::Sealed(result) => Answer::Sealed(left(view, at, page, result)?),
        other => other,
    })
}

fn left(view: &View, at: usize, page: Page, result: Bytes) -> Result<Bytes, Fault> {
    #[derive(serde::Deserialize)]
    struct Child {
        uri: Box<str>,
    }
    const MEMBER: &str = "resources";
    let children = member_of(&result, MEMBER).ok().flatten();
    let Some(children) = children.and_then(|raw| serde_json::from_slice::<Vec<Raw>>(&raw).ok()) else {
        return Ok(result);
    };
    let shown = |child: &&Raw| child.read().is_ok_and(|child: Child| view.shows_at(at, &child.uri));
    let left: Vec<&str> = children.iter().filter(shown).map(Raw::as_str).collect();
    if left.len() == children.len() {
        return Ok(result);
    }
    let more = member_of(&result, "nextCursor").ok().flatten().is_some();
    if left.is_empty() && page == Page::First && !more {
        return Err(nowhere(Wanted::Directory));
    }
    let left = format!("[{}]", left.join(","));
    Ok(splice(&result, &[Edit::Set(MEMBER, left.as_bytes())]).unwrap_or(result))
}
